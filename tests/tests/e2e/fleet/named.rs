//! Names that no plugin can have, because an account, a role or a finalizer of others has them.

use std::time::Duration;

use hotshoe_tests::control_plane::SYSTEM;
use hotshoe_tests::guests::Folder;
use hotshoe_tests::kinds::PLUGIN;
use hotshoe_tests::scene::condition_parts;
use hotshoe_tests::{Host, run};
use http::Method;
use serde_json::json;

use super::rig::{ACCOUNT, Guest, Rig, file};

/// How long a host may take to end, and how often it is looked at.
const TIMEOUT: Duration = Duration::from_secs(30);
/// See [`TIMEOUT`].
const PAUSE: Duration = Duration::from_millis(20);

#[test]
fn the_api_server_refuses_a_plugin_with_the_name_of_a_role_or_a_finalizer_of_others() {
    run(async {
        let rig = Rig::new("reserved").await;
        let guest = rig.memcached("reserved").await;
        let path = PLUGIN.path("", None);
        for name in ["metrics-reader", "metrics-auth", "finalizer", "finalizers"] {
            let mut object = rig.object(&guest, file(&guest));
            object["metadata"]["name"] = json!(name);
            let refused = rig.scene.admin.request(Method::POST, &path, "application/json", &object).await;
            let message = refused.expect_err(name).message;
            assert!(message.contains("none of hotshoe, default") && message.contains(name), "{message}");
        }
    });
}

#[test]
fn a_plugin_object_named_like_the_account_of_its_host_says_so() {
    run(async {
        let rig = Rig::new("own-account").await;
        let guest = Guest { name: ACCOUNT.to_owned(), ..rig.memcached("own-account").await };
        let mut object = rig.object(&guest, file(&guest));
        object["metadata"]["name"] = json!(ACCOUNT);
        rig.create(&object).await;
        let stalled = rig.until_condition(&guest, "Stalled", "True", "InvalidSpec").await;
        let message = condition_parts(&stalled, "Stalled").2;
        assert!(message.contains("the host's own ServiceAccount") && message.contains("choose another"), "{message}");
        rig.delete(&guest).await;
        rig.until_gone(&guest).await;
    });
}

#[test]
fn a_host_whose_account_a_plugin_file_names_ends_with_an_error() {
    run(async {
        let rig = Rig::new("own-file").await;
        let folder = Folder::of_memcached();
        folder.edit("name: memcached\n", &format!("name: {ACCOUNT}\n"));
        let kubeconfig = rig.scene.plane.kubeconfig_of(SYSTEM, ACCOUNT).await;
        let start = rig.scene.start().await.kubeconfig(&kubeconfig);
        let mut host = Host::spawn(start.plugins(&[folder.path()]).command());
        let ended = tokio::time::timeout(TIMEOUT, async {
            loop {
                if let Some(status) = host.ended() {
                    return status;
                }
                tokio::time::sleep(PAUSE).await;
            }
        });
        let status = ended.await.unwrap_or_else(|_| panic!("it goes on: {}", host.log()));
        assert_eq!(status.code(), Some(1), "{}", host.log());
        assert!(host.log().contains("the host's own ServiceAccount"), "{}", host.log());
    });
}
