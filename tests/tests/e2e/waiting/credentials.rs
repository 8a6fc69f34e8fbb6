//! A host whose token is dead.

use std::time::Duration;

use hotshoe_tests::control_plane::SYSTEM;
use hotshoe_tests::host::Start;
use hotshoe_tests::kinds::SERVICE_ACCOUNT;
use hotshoe_tests::{ControlPlane, Host, repository, run, wait};

/// The account of the host of this test alone, which deletes it.
const ACCOUNT: &str = "hotshoe-dead";
/// A watch that the API server has accepted goes on for a minute.
const NOTICED_WITHIN: Duration = Duration::from_secs(150);

#[test]
fn a_host_whose_token_is_dead_is_not_ready_and_says_why() {
    run(async {
        let plane = ControlPlane::shared().await;
        plane.install_definition(&repository("crds/hotshoe.dev_plugins.yaml")).await;
        plane.apply_rights(&["--host-only"], ACCOUNT).await;
        let start = Start::new(plane).await.kubeconfig(&plane.kubeconfig_of(SYSTEM, ACCOUNT).await).plugins(&[]);
        let mut command = start.command();
        command.args(["--plugin-selector", "tests.example.com/scene=none"]);
        let host = Host::spawn(command);
        host.ready().await;

        plane.admin.delete(&SERVICE_ACCOUNT, SYSTEM, ACCOUNT).await.expect("the account goes");
        let unready = wait::attempt(NOTICED_WITHIN, async || match host.get("/readyz").await? {
            (503, text) if text.contains("(401)") => Ok(text),
            other => Err(format!("{other:?}")),
        });
        let text = unready.await.unwrap_or_else(|seen| panic!("the host is still ready: {seen}\n{}", host.log()));
        assert!(text.contains("the API server does not accept the host's credentials"), "{text}");
        assert_eq!(host.get("/healthz").await.expect("an answer").0, 200, "it lives");
    });
}
