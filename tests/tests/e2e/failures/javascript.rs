//! Errors of a plugin in JavaScript: condition and Event report them with their line.

use std::process::Command;

use hotshoe_tests::faulty::fault;
use hotshoe_tests::host::{Host, program};
use hotshoe_tests::kinds::FAULT;
use hotshoe_tests::scene::condition_parts;
use hotshoe_tests::{ControlPlane, Scene, guests, repository, run};
use serde_json::Value;

const CRD: &str = "tests/fixtures/faulty/crd.yaml";

/// Each fault with the reason that the host reports for it, and words of the message.
const FAULTS: [(&str, &str, &str); 10] = [
    ("throw", "PluginFailed", "TypeError: cannot read property 'name' of undefined (owner.js:4)"),
    (
        "throw a class",
        "PluginFailed",
        "QuotaError: used up (plugin.js:12), caused by RangeError: 7 of 7 (plugin.js:12)",
    ),
    ("throw a text", "PluginFailed", "a value that is no Error was thrown: \"help\""),
    ("reject", "Rejected", "spec.fault: no plugin can serve this"),
    ("promise", "PluginFailed", "the answer of reconcile is a Promise (a plugin answers at once: without `async`)"),
    ("wrong type", "PluginFailed", "children[0].data.n is NaN; a value that JSON has is expected"),
    ("clock", "PluginFailed", "a plugin has no clock: say `wantsNow: true`"),
    ("chance", "PluginFailed", "Math.random is not there: a plugin has no randomness"),
    ("network", "PluginFailed", "fetch is not there: a plugin has no network"),
    ("loop", "DeadlineExceeded", "it may loop"),
];

async fn scene(name: &str) -> (Scene, Host) {
    let plane = ControlPlane::shared().await;
    let folder = guests::fixture("faulty-js");
    let kubeconfig = plane.install_plugin(&folder, CRD).await;
    let mut scene = Scene::new(plane, name).await;
    let host = scene.start().await.plugins(&[&folder]).kubeconfig(&kubeconfig).ready().await;
    scene.watch_log(&host);
    (scene, host)
}

#[test]
fn a_thrown_error_reaches_event_and_condition_with_its_type_and_its_line() {
    run(async {
        let (scene, host) = scene("thrown").await;
        for (number, (what, reason, words)) in FAULTS.iter().enumerate() {
            // One after the other: so many failures at once would open the circuit breaker.
            let name = format!("fault-{number}");
            scene.create(fault(&name, what)).await;
            let is_told = |object: &Value| {
                let (truth, reason, _) = condition_parts(object, "Reconciled");
                truth == "False" && reason != "CircuitOpen"
            };
            let object = scene.until_object(&FAULT, &name, &format!("({what}) is reported as failing"), is_told).await;
            let (_, is, message) = condition_parts(&object, "Reconciled");
            assert!(is == *reason && message.contains(words), "{what}: {is}: {message}");
            scene.event(&name, reason, words).await;
            scene.delete(&FAULT, &name).await;
        }
        // The stack is in the log.
        assert!(host.log().contains("at ownerOf (owner.js:4)"), "{}", host.log());
    });
}

#[test]
fn the_console_is_the_log_of_the_host() {
    run(async {
        let (scene, host) = scene("console").await;
        scene.create(fault("one", "log")).await;
        scene.until_object(&FAULT, "one", "is served", |object| object["status"]["word"] == "logged").await;
        host.until_logged(&["WARN", "a word {\"of\":\"warning\"}"]).await;
    });
}

#[test]
fn a_build_of_the_same_source_makes_the_same_component() {
    let out = tempfile::TempDir::new().expect("a folder");
    let build = || {
        let mut command = Command::new(program());
        command.arg("build").arg(repository("tests/fixtures/faulty-js")).arg("--out").arg(out.path().join("a.wasm"));
        let output = command.output().expect("the program runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        std::fs::read(out.path().join("a.wasm")).expect("it is built")
    };
    assert!(build() == build());
}
