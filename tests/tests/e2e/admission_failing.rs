//! Reviews that cannot be answered: no cluster is locked for them, and each client reads why.

use std::path::Path;
use std::time::{Duration, SystemTime};

use hotshoe_tests::Host;
use hotshoe_tests::faulty::fault;
use hotshoe_tests::kinds::{CONFIG_MAP, FAULT, VALIDATING_WEBHOOK};
use hotshoe_tests::{run, webhook};
use rcgen::{CertificateParams, KeyPair};
use serde_json::json;
use tempfile::TempDir;

use crate::admission::Asked;

/// Puts a certificate of 127.0.0.1 that ended this long ago, or ends this long from now, into a folder.
fn certify(folder: &Path, ended: Duration, left: Duration) {
    let mut parameters = CertificateParams::new(["127.0.0.1".to_owned()]).expect("parameters");
    let now = SystemTime::now();
    parameters.not_before = (now - Duration::from_secs(1_000_000)).into();
    parameters.not_after = (now - ended + left).into();
    let key = KeyPair::generate().expect("a key");
    let certificate = parameters.self_signed(&key).expect("a certificate");
    std::fs::write(folder.join("tls.key"), key.serialize_pem()).expect("a key");
    std::fs::write(folder.join("tls.crt"), certificate.pem()).expect("a certificate");
}

impl Asked {
    /// Registers the webhook with this CA, so that every change is refused while the API server cannot ask.
    async fn trust(&self, authority: &Path) {
        let url = self.host.webhooks().expect("the host serves webhooks");
        let more = ["--failure-policy", "fail"];
        webhook::register(&self.scene, self.folder.path(), &url, authority, &self.name, &more).await;
    }

    /// Waits until a dry run with this fault is refused with these words.
    async fn until_refused_with(&self, asked: &str, words: &str) {
        let scene = &self.scene;
        scene
            .until(&format!("a dry run is refused: {words}"), async || {
                match scene.admin.warnings_of(&self.parent("dry", asked)).await {
                    Err(refused) if refused.message.contains(words) => Ok(()),
                    other => Err(format!("{other:?}")),
                }
            })
            .await;
    }

    /// Waits until the plugin decides.
    async fn until_decided(&self) {
        self.until_refused_with("reject", "no plugin can serve this").await;
    }

    /// Waits until a dry run is admitted.
    async fn until_admitted(&self) {
        self.scene
            .until("a dry run is admitted", async || {
                let tried = self.scene.admin.warnings_of(&self.parent("dry", "")).await;
                tried.map(drop).map_err(|refused| refused.message)
            })
            .await;
    }
}

#[test]
fn a_host_whose_certificate_has_expired_or_is_of_another_ca_is_not_asked_and_the_refusal_says_so() {
    run(async {
        let asked = Asked::in_force("failing-certificate", "Enforce").await;
        let other = TempDir::new().expect("a folder");
        certify(other.path(), Duration::ZERO, Duration::from_secs(1_000_000));
        asked.trust(&other.path().join("tls.crt")).await;
        asked.until_refused_with("", "certificate signed by unknown authority").await;

        let own = asked.certificate.path();
        certify(own, Duration::from_secs(1_000), Duration::ZERO);
        asked.trust(&own.join("tls.crt")).await;
        asked.until_refused_with("", "certificate has expired").await;

        // No one has to wait for a certificate: without the registration, nothing is asked.
        asked.deregister().await;
        asked.until_admitted().await;
        asked.scene.create(fault("meanwhile", "reject")).await;

        certify(own, Duration::ZERO, Duration::from_secs(1_000_000));
        asked.trust(&own.join("tls.crt")).await;
        asked.until_decided().await;
        asked.end().await;
    });
}

#[test]
fn while_the_registration_of_a_plugin_that_was_removed_stands_its_parents_are_admitted_with_a_warning() {
    run(async {
        let mut asked = Asked::in_force("failing-removed", "Enforce").await;
        asked.trust(&asked.certificate.path().join("tls.crt")).await;
        asked.until_decided().await;
        let address = asked.host.webhooks().expect("an address").trim_start_matches("https://").to_owned();
        asked.host.kill();
        let mut command = asked.scene.start().await.command();
        command.args(["--webhooks", &address, "--webhooks-cert-dir"]).arg(asked.certificate.path());
        asked.host = Host::spawn(command);
        asked.host.ready().await;
        asked.until_admitted().await;
        asked.until_warned("reject", "this host has no plugin faulty; delete its webhook configurations").await;
        asked.scene.create(fault("bad", "reject")).await;
        asked.scene.delete(&FAULT, "bad").await;
        asked.scene.gone(&FAULT, "bad").await;
        asked.end().await;
    });
}

#[test]
fn reviews_that_are_large_or_about_another_kind_keep_no_object_from_being_stored() {
    run(async {
        let asked = Asked::in_force("failing-reviews", "Enforce").await;
        asked.trust(&asked.certificate.path().join("tls.crt")).await;
        asked.until_decided().await;
        // As much as the API server takes from a client. It is stored in no cluster, so nothing is lost by that.
        asked.until_warned(&"x".repeat(2_900_000), "").await;
        let rule = json!({
            "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"],
        });
        let more = json!([{ "op": "add", "path": "/webhooks/0/rules/-", "value": rule }]);
        asked.scene.admin.json_patch(&VALIDATING_WEBHOOK, "", &asked.name, &more).await.expect("it is asked, too");
        let metadata = json!({ "name": "other", "namespace": asked.scene.namespace });
        let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata });
        asked
            .scene
            .until("a dry run of another kind warns", async || {
                let warnings = asked.scene.admin.warnings_of_a(&CONFIG_MAP, &map).await.expect("it is admitted");
                let says = |warning: &String| warning.contains("faulty decides about") && warning.contains("not about");
                if warnings.iter().any(says) { Ok(()) } else { Err(format!("{warnings:?}")) }
            })
            .await;
        asked.until_decided().await;
        assert!(asked.host.ready_now(), "the host goes on");
        asked.end().await;
    });
}

#[test]
fn a_client_that_is_not_the_api_server_is_answered_within_limits_and_in_plain_words() {
    run(async {
        let asked = Asked::start("failing-clients", "Enforce").await;
        let url = asked.host.webhooks().expect("the host serves webhooks");
        let authority = &asked.certificate.path().join("tls.crt");
        for path in ["/validate/faulty", "/mutate/faulty"] {
            for (body, code, words) in [
                (b"{".to_vec(), 400, "the request is no AdmissionReview"),
                (
                    br#"{"apiVersion":"v1","kind":"Pod"}"#.to_vec(),
                    400,
                    "the request is a Pod of v1; send an AdmissionReview",
                ),
            ] {
                let (answered, text) = webhook::post(&url, authority, path, body).await.expect("an answer");
                assert!(answered == code && text.contains(words), "{answered} {text}");
            }
            // A connection that is closed with unread bytes may be reset before the answer is read.
            match webhook::post(&url, authority, path, vec![b' '; 100 << 20]).await {
                Ok((code, text)) => assert!(code == 413 && text.contains("a review may have"), "{code} {text}"),
                Err(reset) => assert!(reset.contains("onnection") || reset.contains("pipe"), "{reset}"),
            }
        }
        assert!(asked.host.ready_now(), "the host goes on");
    });
}
