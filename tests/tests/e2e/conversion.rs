//! The webhook by which the API server has objects written in another version of their kind.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use hotshoe_core::model::digest::Digest;
use hotshoe_tests::crews::Crews;
use hotshoe_tests::faulty::until_digest;
use hotshoe_tests::wait;
use hotshoe_tests::{ControlPlane, Host, run};
use serde_json::{Value, json};

async fn converted(name: &str) -> (Crews, Host) {
    let mut crews = Crews::stored_in(ControlPlane::shared().await, name, "v1").await;
    let host = crews.host().await;
    crews.switch_on().await;
    (crews, host)
}

#[test]
fn an_object_of_either_version_is_read_edited_scaled_and_deleted_in_the_other() {
    run(async {
        let (crews, _host) = converted("versions").await;
        let (v1, v1beta1, scene) = (crews.v1(), crews.v1beta1(), &crews.scene);
        crews.create(&v1beta1, "old", json!({ "size": 2, "port": 80 })).await;
        assert_eq!(scene.get(&v1, "old").await["spec"], json!({ "replicas": 2, "ports": [80] }));
        crews.seen("old", 2).await;
        scene.merge(&v1, "old", json!({ "spec": { "ports": [80, 81, 82] } })).await;
        let old = scene.get(&v1beta1, "old").await;
        assert_eq!((&old["spec"], &old["status"]["seen"]), (&json!({ "size": 2, "port": 80 }), &json!(2)));
        scene.merge(&v1beta1, "old", json!({ "spec": { "size": 3 } })).await;
        let new = scene.get(&v1, "old").await;
        assert_eq!(new["spec"], json!({ "replicas": 3, "ports": [80, 81, 82] }), "the ports are kept");
        assert_eq!(new["metadata"]["annotations"], Value::Null, "and no longer said twice");
        for (kind, replicas) in [(v1beta1, 5), (v1, 6)] {
            let path = format!("{}/scale", kind.path(&scene.namespace, Some("old")));
            let patch = json!({ "spec": { "replicas": replicas } });
            let merge = "application/merge-patch+json";
            scene.admin.request(http::Method::PATCH, &path, merge, &patch).await.expect("it is scaled");
            crews.seen("old", replicas).await;
            assert_eq!(scene.get(&v1beta1, "old").await["spec"]["size"], replicas);
        }
        crews.create(&v1, "new", json!({ "replicas": 1, "ports": [1, 2] })).await;
        let names = |crews: Vec<Value>| -> Vec<String> {
            crews.iter().map(|crew| crew["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
        };
        assert_eq!(names(scene.list(&v1beta1).await), ["new", "old"]);
        for (kind, name) in [(v1beta1, "new"), (v1, "old")] {
            scene.delete(&kind, name).await;
            scene.gone(&kind, name).await;
        }
        crews.end().await;
    });
}

#[test]
fn each_bad_conversion_fails_its_own_request_with_its_reason_and_the_operator_goes_on() {
    run(async {
        let (crews, host) = converted("bad-conversions").await;
        let (v1, v1beta1) = (crews.v1(), crews.v1beta1());
        crews.create(&v1, "good", json!({ "replicas": 1 })).await;
        for (fault, reason) in [
            ("trap", "Trapped"),
            ("loop", "DeadlineExceeded"),
            ("memory", "LimitExceeded"),
            ("refuse", "Rejected: spec.fault: no version can say this"),
            ("drop", "Dropped"),
            ("invent", "Invented"),
            ("rename", "Renamed"),
            ("relabel", "MetadataChanged"),
            ("version", "OtherVersion"),
        ] {
            // It is written and seen in the version that is stored, so that nothing converts it.
            crews.create(&v1, fault, json!({ "replicas": 7, "fault": fault })).await;
            crews.seen(fault, 7).await;
            let refused = crews.try_get(&v1beta1, fault).await.expect_err("it cannot be converted");
            let object =
                format!("did not convert Crew.{} {}/{fault} from v1 to v1beta1", v1.group, crews.scene.namespace);
            assert!(refused.message.contains(&object) && refused.message.contains(reason), "{fault}: {refused:?}");
            host.until_logged(&["objects are not converted", fault, reason]).await;
            let refused = crews.try_create(&v1beta1, "another", json!({ "fault": fault })).await;
            assert!(refused.is_err_and(|refused| refused.message.contains(reason)), "{fault} cannot be written");
            crews.try_get(&v1beta1, "good").await.expect("the others can be read");
        }
        host.until_plugin("the circuit is closed", |plugin| plugin["breaker"] != "open").await;
        crews.end().await;
    });
}

/// A review of these objects.
fn review(desired: &str, objects: &[Value]) -> Vec<u8> {
    let request = json!({ "uid": "u1", "desiredAPIVersion": desired, "objects": objects });
    json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request })
        .to_string()
        .into_bytes()
}

#[test]
fn a_client_that_is_not_the_api_server_is_answered_within_limits_and_in_plain_words() {
    run(async {
        let mut crews = Crews::stored_in(ControlPlane::shared().await, "no-api-server", "v1").await;
        let host = crews.host().await;
        let path = "/convert/converting";
        for (body, said) in [
            (b"{".to_vec(), "the request is no ConversionReview"),
            (b"{}".to_vec(), "the request is no ConversionReview"),
            (
                br#"{"apiVersion":"apiextensions.k8s.io/v1beta1","kind":"ConversionReview"}"#.to_vec(),
                "send a ConversionReview of apiextensions.k8s.io/v1",
            ),
        ] {
            let (code, text) = crews.post(path, body).await.expect("an answer");
            assert!(code == 400 && text.contains(said), "{code} {text}");
        }
        // A connection that is closed with unread bytes may be reset before the answer is read.
        match crews.post(path, vec![b' '; 100 << 20]).await {
            Ok((code, text)) => assert!(code == 413 && text.contains("ask for fewer at once"), "{code} {text}"),
            Err(reset) => assert!(reset.contains("onnection") || reset.contains("pipe"), "{reset}"),
        }
        let crew = |name: &str, fault: &str| {
            let spec = json!({ "replicas": 1, "fault": fault });
            json!({ "apiVersion": crews.v1().api_version(), "kind": "Crew", "metadata": { "name": name }, "spec": spec })
        };
        let asked = async |path: &str, desired: &str, objects: &[Value]| -> Value {
            let (code, text) = crews.post(path, review(desired, objects)).await.expect("an answer");
            assert_eq!(code, 200, "{text}");
            serde_json::from_str::<Value>(&text).expect("JSON")["response"].clone()
        };
        let desired = crews.v1beta1().api_version();
        let mut other = crew("a", "");
        other["kind"] = "Ship".into();
        for (path, desired, objects, said) in [
            ("/convert/gone", &*desired, vec![crew("a", "")], "no plugin gone; it has converting; run the plugin"),
            (path, "elsewhere.example.com/v1", vec![crew("a", "")], "name the plugin of this kind in the path"),
            (path, &desired, vec![other], "name the plugin of this kind in the path"),
            (path, &desired, vec![json!({})], "missing field `apiVersion`"),
            (path, &desired, vec![crew("a", "reorder"), crew("b", "")], "Crew."),
            (path, &format!("{}/v7", crews.v1().group), vec![crew("a", "")], "no conversion leads from v1 to v7"),
        ] {
            let response = asked(path, desired, &objects).await;
            // A batch that is reordered is converted one by one, which is no fault any more.
            if response["result"]["status"] == "Success" {
                assert_eq!(response["convertedObjects"].as_array().map(Vec::len), Some(2), "{response}");
                continue;
            }
            let message = response["result"]["message"].as_str().expect("a message");
            assert!(message.contains(said), "{message}");
            assert_eq!(response["convertedObjects"], json!([]));
        }
        assert_eq!(asked(path, &desired, &[]).await["result"]["status"], "Success");
        // Many at once, of which one has the version already.
        let mut many: Vec<Value> = (0..1_000).map(|number| crew(&format!("crew-{number}"), "")).collect();
        many[500]["apiVersion"] = desired.clone().into();
        many[500]["spec"] = json!({ "size": 1, "unknown": [1] });
        let response = asked(path, &desired, &many).await;
        let converted = response["convertedObjects"].as_array().expect("objects");
        assert_eq!(converted.len(), many.len());
        assert_eq!(converted[500], many[500], "as it was sent");
        for (sent, converted) in many.iter().zip(converted) {
            assert_eq!((&converted["apiVersion"], &converted["metadata"]), (&json!(desired), &sent["metadata"]));
            assert_eq!(converted["spec"]["size"], 1);
        }
        // One that is at fault is named, and fails all: the API server would use no part of an answer.
        many[700]["spec"]["fault"] = "trap".into();
        let response = asked(path, &desired, &many).await;
        let message = response["result"]["message"].as_str().expect("a message");
        assert!(message.contains("crew-700 from v1 to v1beta1: Trapped"), "{message}");
        assert!(host.ready_now(), "the host goes on");
        crews.end().await;
    });
}

#[test]
fn while_components_are_swapped_no_conversion_fails() {
    run(async {
        let (crews, host) = converted("conversion-swaps").await;
        let (v1, v1beta1) = (crews.v1(), crews.v1beta1());
        crews.create(&v1, "read", json!({ "replicas": 1, "ports": [1, 2] })).await;
        let began = Instant::now();
        for number in 0..22 {
            // A component that is compiled yields to all else, so on a busy machine fewer are swapped in.
            if number >= 3 && began.elapsed() > wait::TIMEOUT {
                break;
            }
            let component = crews.swap(number);
            let digest = hotshoe_core::model::digest::Digest::of(&component).full();
            let mut object = 0;
            loop {
                let read = crews.try_get(&v1beta1, "read").await.expect("it is converted");
                assert_eq!(read["spec"], json!({ "size": 1, "port": 1 }));
                let name = format!("swap-{number}-{object}");
                crews.create(&v1beta1, &name, json!({ "size": 1 })).await;
                object += 1;
                if host.digest().await == digest {
                    break;
                }
                assert!(began.elapsed() < 2 * wait::TIMEOUT, "revision {number} does not become active");
            }
            until_digest(&host, &component).await;
        }
        crews.end().await;
    });
}

#[test]
fn a_review_that_is_in_flight_ends_on_the_revision_on_which_it_began() {
    run(async {
        let mut crews = Crews::stored_in(ControlPlane::shared().await, "in-flight", "v1").await;
        let host = crews.host().await;
        let desired = crews.v1beta1().api_version();
        let swaps = AtomicUsize::new(0);
        host.until("a component is swapped in while a review is in flight", async || {
            let swap = swaps.fetch_add(1, Ordering::Relaxed);
            let old = host.digest().await.parse::<Digest>().expect("a digest");
            let new = Digest::of(&crews.swap(swap)).full();
            let began = Instant::now();
            for number in 0.. {
                // It runs until its time is over, so most of the time one is in flight.
                let (name, spec) = (format!("review-{swap}-{number}"), json!({ "replicas": 1, "fault": "loop" }));
                let metadata = json!({ "name": name });
                let crew = json!({
                    "apiVersion": crews.v1().api_version(), "kind": "Crew", "metadata": metadata, "spec": spec,
                });
                let before = host.digest().await;
                let (code, text) = crews.post("/convert/converting", review(&desired, &[crew])).await?;
                assert!(code == 200 && text.contains("DeadlineExceeded"), "{code} {text}");
                if host.digest().await != new {
                    assert!(began.elapsed() < 2 * wait::TIMEOUT, "the revision does not become active");
                    continue;
                }
                if before == new {
                    return Err("the swap was between two reviews".to_owned());
                }
                let line = format!("digest={old} ");
                let log = host.log();
                let says =
                    |words: &str| log.lines().any(|said| said.contains(words) && said.contains(&format!("{name} ")));
                return says(&line).then_some(()).ok_or_else(|| format!("no {line} about {name}"));
            }
            unreachable!("the numbers do not end")
        })
        .await;
        crews.end().await;
    });
}

#[test]
fn a_component_that_watches_another_version_than_the_stored_one_is_warned_of() {
    run(async {
        let mut crews = Crews::stored_in(ControlPlane::shared().await, "watched-version", "v1beta1").await;
        let host = crews.host().await;
        host.until_logged(&["it is stored in another version", "store v1 (`storage: true` in the CRD)"]).await;
        crews.end().await;
    });
}

#[test]
fn stored_objects_are_migrated_also_after_an_interruption_and_the_crd_says_so() {
    run(async {
        const CREWS: u32 = 300;
        let mut crews = Crews::stored_in(ControlPlane::shared().await, "migration", "v1beta1").await;
        let mut host = crews.host().await;
        crews.switch_on().await;
        for number in 0..CREWS {
            crews.create(&crews.v1beta1(), &format!("crew-{number}"), json!({ "size": number })).await;
        }
        let nothing = crews.migrate(&[]);
        assert!(nothing.status.success() && text(&nothing.stdout).contains("nothing to do"), "{nothing:?}");
        crews.store_v1().await;
        assert_eq!(crews.stored_versions().await, json!(["v1beta1", "v1"]));
        let tried = crews.migrate(&["--dry-run"]);
        let said = text(&tried.stdout);
        assert!(said.contains("300 objects") && said.contains("from [v1beta1, v1] to [v1]"), "{tried:?}");
        // Interrupted, once it has written some.
        let mut interrupted = crews.migration(&[]).spawn().expect("the program runs");
        let first = crews.scene.get(&crews.v1(), "crew-0").await["metadata"]["resourceVersion"].clone();
        crews
            .scene
            .until("an object is written", async || {
                let now = crews.scene.get(&crews.v1(), "crew-0").await["metadata"]["resourceVersion"].clone();
                let has_ended = interrupted_has_ended(&crews).await;
                if now != first || has_ended { Ok(()) } else { Err(format!("{now}")) }
            })
            .await;
        interrupted.kill().expect("it can be interrupted");
        interrupted.wait().expect("it ends");
        let migrated = crews.migrate(&[]);
        assert!(migrated.status.success(), "{migrated:?}");
        assert_eq!(crews.stored_versions().await, json!(["v1"]));
        // All are stored in v1: they are read without a conversion.
        host.kill();
        let all = crews.scene.list(&crews.v1()).await;
        assert_eq!(all.len(), CREWS as usize);
        assert!(all.iter().all(|crew| crew["spec"]["replicas"].is_number()));
        let refused = crews.try_get(&crews.v1beta1(), "crew-0").await.expect_err("no host converts");
        assert!(refused.message.contains("conversion webhook for"), "{refused:?}");
        crews.end().await;
    });
}

/// Whether the migration was faster than the test.
async fn interrupted_has_ended(crews: &Crews) -> bool {
    crews.stored_versions().await == json!(["v1"])
}

#[test]
fn an_object_that_cannot_be_migrated_is_named_and_the_crd_stays_as_it_is() {
    run(async {
        let mut crews = Crews::stored_in(ControlPlane::shared().await, "no-migration", "v1beta1").await;
        let _host = crews.host().await;
        for name in ["a", "b"] {
            crews.create(&crews.v1beta1(), name, json!({ "size": 1 })).await;
        }
        crews.create(&crews.v1beta1(), "bad", json!({ "size": 1, "fault": "trap" })).await;
        crews.switch_on().await;
        crews.store_v1().await;
        let failed = crews.migrate(&[]);
        let said = text(&failed.stderr);
        assert_eq!(failed.status.code(), Some(1), "{said}");
        assert!(said.contains("/bad: ") && said.contains("Trapped"), "{said}");
        assert_eq!(crews.stored_versions().await, json!(["v1beta1", "v1"]));
        // An edit of it needs the conversion, too, in whichever version; so the former version is stored for it again.
        crews.store_v1beta1().await;
        let patch = json!({ "spec": { "fault": "" } });
        crews
            .scene
            .until("it can be edited", async || {
                let edited = crews.scene.admin.merge(&crews.v1beta1(), &crews.scene.namespace, "bad", &patch).await;
                edited.map(drop).map_err(|refused| refused.message)
            })
            .await;
        crews.store_v1().await;
        let migrated = crews.migrate(&[]);
        assert!(migrated.status.success(), "{migrated:?}");
        assert_eq!(crews.stored_versions().await, json!(["v1"]));
        let unknown = std::process::Command::new(hotshoe_tests::host::program())
            .args(["storage-migrate", "deployments", "--kubeconfig"])
            .arg(crews.scene.plane.file("kubeconfig"))
            .output()
            .expect("the program runs");
        let said = text(&unknown.stderr);
        assert!(unknown.status.code() == Some(1) && said.contains("no custom resource deployments"), "{said}");
        crews.end().await;
    });
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
