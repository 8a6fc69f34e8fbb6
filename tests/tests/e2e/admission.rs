//! The webhook by which the API server asks a host before it stores a parent.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use hotshoe_tests::faulty::{another, fault, scale, scene_with_faults, until_digest, until_scale_is_refused};
use hotshoe_tests::guests::Folder;
use hotshoe_tests::kinds::{CONFIG_MAP, FAULT};
use hotshoe_tests::kube::Refused;
use hotshoe_tests::{Host, Scene, run, wait, webhook};
use http::{Request, StatusCode};
use kube::client::Body;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

/// A host that the API server asks about the Faults of a namespace, until it is removed.
pub(crate) struct Asked {
    pub(crate) scene: Scene,
    pub(crate) folder: Folder,
    pub(crate) certificate: TempDir,
    pub(crate) host: Host,
    /// The name of the registration.
    pub(crate) name: String,
}

impl Asked {
    /// Starts a host whose plugin.yaml says this about admission, and registers its webhook.
    pub(crate) async fn start(name: &str, admission: &str) -> Self {
        let mut scene = scene_with_faults(name).await;
        let folder = Folder::of_faulty();
        folder.edit("  grants:\n", &format!("  admission: {admission}\n  grants:\n"));
        let certificate = TempDir::new().expect("a folder");
        renew(&certificate);
        let mut command = scene.start().await.plugins(&[folder.path()]).command();
        command.args(["--webhooks", "127.0.0.1:0", "--webhooks-cert-dir"]).arg(certificate.path());
        let host = Host::spawn(command);
        scene.watch_log(&host);
        host.ready().await;
        let registered = format!("admission-{}", scene.namespace);
        Self { scene, folder, certificate, host, name: registered }
    }

    /// Starts a host that the API server asks already, and that refuses or warns.
    pub(crate) async fn in_force(name: &str, admission: &str) -> Self {
        let asked = Self::start(name, admission).await;
        asked.register(&[]).await;
        asked.until_asked().await;
        asked
    }

    /// Registers what `hotshoe webhooks` prints, for the namespace of the scene.
    pub(crate) async fn register(&self, more: &[&str]) {
        let url = self.host.webhooks().expect("the host serves webhooks");
        let authority = self.certificate.path().join("tls.crt");
        webhook::register(&self.scene, self.folder.path(), &url, &authority, &self.name, more).await;
    }

    /// Waits until the API server asks the host: it learns of a registration a moment later.
    pub(crate) async fn until_asked(&self) {
        self.until_warned("", "").await;
    }

    /// Tries a dry run with this fault until a warning has these words, which may take some: on a busy machine, a
    /// decision may take longer than the host waits for it.
    pub(crate) async fn until_warned(&self, asked: &str, words: &str) {
        self.scene
            .until(&format!("a dry run warns {words:?}"), async || {
                let warned = self.scene.admin.warnings_of(&self.parent("dry", asked)).await;
                let warnings = warned.unwrap_or_else(|refused| panic!("the dry run is refused: {}", refused.message));
                match warnings.iter().any(|warning| warning.contains(words)) {
                    true => Ok(()),
                    false => Err(format!("{warnings:?}")),
                }
            })
            .await;
    }

    /// Creates parents with this fault until one is refused, which may take some: a decision that takes long admits.
    pub(crate) async fn refused(&self, asked: &str) -> Refused {
        let scene = &self.scene;
        scene
            .until("it is refused", async || match scene.try_create(fault("bad", asked)).await {
                Err(refused) if refused.code != 409 => Ok(refused),
                _ => {
                    scene.delete(&FAULT, "bad").await;
                    scene.gone(&FAULT, "bad").await;
                    Err("it was stored".to_owned())
                }
            })
            .await
    }

    pub(crate) fn parent(&self, name: &str, asked: &str) -> Value {
        let mut parent = fault(name, asked);
        parent["metadata"]["namespace"] = self.scene.namespace.clone().into();
        parent
    }

    pub(crate) async fn end(self) {
        self.deregister().await;
    }

    /// Returns a client of the webhooks that trusts this certificate.
    fn client(&self, certificate: Vec<u8>) -> kube::Client {
        let mut config = kube::Config::new(self.host.webhooks().expect("a URL").parse().expect("a URL"));
        config.root_cert = Some(vec![certificate]);
        kube::Client::try_from(config).expect("a client")
    }

    /// Answers a review as the API server would get it.
    async fn answer(&self, review: &Value) -> Value {
        let certificate = std::fs::read(self.certificate.path().join("tls.crt")).expect("a certificate");
        let certificate = CertificateDer::from_pem_slice(&certificate).expect("PEM").to_vec();
        let request = Request::post("/validate/faulty").body(review.to_string().into_bytes()).expect("a request");
        let answer = self.client(certificate).request_text(request).await;
        serde_json::from_str(&answer.expect("an answer")).expect("a review")
    }

    pub(crate) async fn deregister(&self) {
        webhook::deregister(&self.scene, &self.name).await;
    }
}

/// Puts a new certificate of 127.0.0.1 into a folder, and returns it.
pub(crate) fn renew(folder: &TempDir) -> Vec<u8> {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    std::fs::write(folder.path().join("tls.key"), made.signing_key.serialize_pem()).expect("a key");
    std::fs::write(folder.path().join("tls.crt"), made.cert.pem()).expect("a certificate");
    made.cert.der().to_vec()
}

#[test]
fn a_parent_that_the_plugin_rejects_or_whose_children_are_denied_is_not_stored() {
    run(async {
        let asked = Asked::in_force("admission-enforce", "Enforce").await;
        let scene = &asked.scene;
        let rejected = asked.refused("reject").await;
        assert_eq!(rejected.code, 422, "{rejected:?}");
        assert!(rejected.message.contains("spec.fault: no plugin can serve this"), "{rejected:?}");
        let denied = asked.refused("not granted").await;
        assert!(denied.message.contains("Secret"), "{denied:?}");
        let good = scene.create(fault("good", "")).await;
        assert_eq!(good["metadata"]["name"], "good");
        let patch = json!({ "spec": { "fault": "reject" } });
        scene
            .until("the edit is refused", async || {
                match scene.admin.merge(&FAULT, &scene.namespace, "good", &patch).await {
                    Err(refused) if refused.message.contains("spec.fault") => Ok(()),
                    other => Err(format!("{other:?}")),
                }
            })
            .await;
        // What may pass without a change of the object is admitted.
        for (name, passing) in [("trap", "trap"), ("other", "other"), ("slow", "loop")] {
            scene.create(fault(name, passing)).await;
        }
        asked.end().await;
    });
}

#[test]
fn a_scale_is_refused_if_the_plugin_would_reject_the_parent() {
    run(async {
        let asked = Asked::in_force("admission-scale", "Enforce").await;
        let scene = &asked.scene;
        let mut large = fault("large", "large");
        large["spec"]["size"] = json!(5);
        scene.create(large).await;
        until_scale_is_refused(scene, "large", [5, 11], "spec.size: it is more than 10").await;
        scale(scene, "large", 7).expect("it is stored");
        assert_eq!(scene.get(&FAULT, "large").await["spec"]["size"], 7);
        asked.end().await;
    });
}

#[test]
fn a_scale_of_a_parent_that_cannot_be_read_is_admitted_with_a_warning() {
    run(async {
        let asked = Asked::start("admission-no-parent", "Enforce").await;
        let kind = json!({ "group": "autoscaling", "version": "v1", "kind": "Scale" });
        let resource = json!({ "group": FAULT.group, "version": FAULT.version, "resource": FAULT.plural });
        let review = |resource: &Value| {
            json!({
                "apiVersion": "admission.k8s.io/v1",
                "kind": "AdmissionReview",
                "request": {
                    "uid": "u", "kind": kind, "resource": resource, "subResource": "scale", "name": "gone",
                    "namespace": asked.scene.namespace, "object": { "spec": { "replicas": 3 } },
                },
            })
        };
        let other = json!({ "group": "apps", "version": "v1", "resource": "deployments" });
        for (resource, why) in [(&resource, "\"gone\" not found"), (&other, "deployments of apps is not scaled here")] {
            let answer = asked.answer(&review(resource)).await["response"].take();
            let warning = answer["warnings"][0].as_str().unwrap_or_default();
            assert!(warning.starts_with("faulty was not asked about this scale: "), "{answer}");
            assert!(answer["allowed"] == true && warning.contains(why), "{answer}");
        }
    });
}

#[test]
fn a_stored_parent_that_would_be_refused_today_can_be_labelled_and_deleted() {
    run(async {
        let asked = Asked::start("admission-stored", "Off").await;
        asked.register(&[]).await;
        let scene = &asked.scene;
        scene.create(fault("bad", "reject")).await;
        scene.until_condition_of(&FAULT, "bad", "Reconciled", "False", "Rejected").await;
        asked.folder.edit("admission: Off", "admission: Enforce");
        // Each attempt changes what the plugin is shown.
        let attempts = AtomicUsize::new(0);
        scene
            .until("it is in force", async || {
                let is_odd = attempts.fetch_add(1, Ordering::Relaxed) % 2 == 1;
                let patch = json!({ "spec": { "fault": if is_odd { "reject" } else { "not granted" } } });
                match scene.admin.merge(&FAULT, &scene.namespace, "bad", &patch).await {
                    Err(refused) if refused.code == 422 => Ok(()),
                    other => Err(format!("{other:?}")),
                }
            })
            .await;
        scene.merge(&FAULT, "bad", json!({ "metadata": { "labels": { "a": "b" } } })).await;
        scene.delete(&FAULT, "bad").await;
        scene.gone(&FAULT, "bad").await;
        asked.end().await;
    });
}

#[test]
fn a_dry_run_names_what_would_be_written_and_no_value() {
    run(async {
        let asked = Asked::in_force("admission-dry-run", "Enforce").await;
        asked.until_warned("", &format!("would create ConfigMap {}/dry", asked.scene.namespace)).await;
        assert!(asked.scene.find(&CONFIG_MAP, "dry").await.is_none());
        asked.until_warned("loop", "did not decide within 100ms").await;
        let scene = &asked.scene;
        scene
            .until("a dry run is refused as a creation is", async || {
                match scene.admin.warnings_of(&asked.parent("dry", "reject")).await {
                    Err(refused) if refused.code == 422 => Ok(()),
                    other => Err(format!("{other:?}")),
                }
            })
            .await;
        asked.end().await;
    });
}

#[test]
fn with_warn_a_parent_is_stored_and_the_author_is_warned() {
    run(async {
        let asked = Asked::in_force("admission-warn", "Warn").await;
        asked.until_warned("reject", "Rejected: spec.fault: no plugin can serve this").await;
        asked.scene.create(fault("bad", "reject")).await;
        asked.end().await;
    });
}

#[test]
fn while_components_are_swapped_no_parent_is_refused_for_it() {
    run(async {
        let asked = Asked::start("admission-swap", "Enforce").await;
        asked.register(&["--failure-policy", "fail"]).await;
        asked.until_asked().await;
        let (scene, began) = (&asked.scene, Instant::now());
        for number in 0..20 {
            // A component that is compiled yields to all else, so on a busy machine fewer are swapped in.
            if number >= 3 && began.elapsed() > wait::TIMEOUT {
                break;
            }
            let component = another(&asked.folder, number);
            asked.folder.put(&component);
            for object in 0..5 {
                scene.create(fault(&format!("swap-{number}-{object}"), "")).await;
            }
            until_digest(&asked.host, &component).await;
        }
        assert_eq!(asked.refused("reject").await.code, 422, "the last one decides");
        asked.end().await;
    });
}

#[test]
fn while_the_host_is_away_parents_are_admitted_unless_the_administrator_says_fail() {
    run(async {
        let mut asked = Asked::in_force("admission-away", "Enforce").await;
        asked.host.kill();
        asked.scene.create(fault("unasked", "reject")).await;
        asked.register(&["--failure-policy", "fail"]).await;
        let scene = &asked.scene;
        scene
            .until("every change is refused", async || {
                let patch = json!({ "metadata": { "labels": { "a": "b" } } });
                match scene.admin.merge(&FAULT, &scene.namespace, "unasked", &patch).await {
                    Err(refused) if refused.message.contains("failed calling webhook") => Ok(()),
                    other => Err(format!("{other:?}")),
                }
            })
            .await;
        scene.delete(&FAULT, "unasked").await;
        scene.gone(&FAULT, "unasked").await;
        asked.deregister().await;
        let scene = &asked.scene;
        scene
            .until("parents are admitted again", async || {
                let created = scene.try_create(fault("later", "")).await;
                created.map(drop).map_err(|refused| refused.message)
            })
            .await;
    });
}

#[test]
fn another_certificate_is_used_without_a_restart() {
    run(async {
        let asked = Asked::in_force("admission-certificate", "Enforce").await;
        let renewed = renew(&asked.certificate);
        // The API server keeps the connections that it has, so another client looks at the certificate.
        let client = asked.client(renewed);
        asked
            .host
            .until("the new certificate is used", async || {
                let request = Request::post("/validate/faulty").body(Body::from(b"{}".to_vec())).expect("a request");
                let answer = client.send(request).await.map_err(|error| format!("{error:?}"))?;
                assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "it is no review");
                Ok(())
            })
            .await;
        asked.register(&[]).await;
        asked.until_asked().await;
        asked.end().await;
    });
}
