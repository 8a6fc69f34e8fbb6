//! Errors of a plugin in Python, as its author and a user see them.

use hotshoe_tests::faulty::fault;
use hotshoe_tests::kinds::FAULT;
use hotshoe_tests::scene::condition_parts;
use hotshoe_tests::{ControlPlane, Scene, guests, run};
use serde_json::{Value, json};

const CRD: &str = "tests/fixtures/faulty/crd.yaml";

/// Each fault with the reason that the host reports for it, and words of the message. `cases/` of the plugin has more.
const FAULTS: [(&str, &str, &str); 6] = [
    (
        "raise",
        "PluginFailed",
        "ValueError: I cannot count to 5 (faulty_python.py:31 in count, called from faulty_python.py:26 in reconcile)",
    ),
    ("recursion", "PluginFailed", "RecursionError: maximum recursion depth exceeded (faulty_python.py:42 in recurse, "),
    (
        "no JSON",
        "PluginFailed",
        "TypeError: status.sizes[1] is a set, which is no JSON value (reconcile (faulty_python.py:",
    ),
    ("clock", "PluginFailed", "SandboxError: time.time: a plugin has no clock: take request.now"),
    ("endless", "DeadlineExceeded", "ran for longer than its time limit of 500ms"),
    ("reject", "Rejected", "spec.fault: no plugin can serve this"),
];

#[test]
fn an_exception_reaches_event_and_condition_with_its_type_message_and_lines() {
    run(async {
        let plane = ControlPlane::shared().await;
        let folder = guests::faulty_python();
        let kubeconfig = plane.install_plugin(&folder, CRD).await;
        let mut scene = Scene::new(plane, "faulty-python").await;
        let host = scene.start().await.plugins(&[&folder]).kubeconfig(&kubeconfig).ready().await;
        scene.watch_log(&host);
        for (number, (what, ..)) in FAULTS.iter().enumerate() {
            scene.create(fault(&format!("fault-{number}"), what)).await;
        }
        for (number, (what, reason, words)) in FAULTS.iter().enumerate() {
            let name = format!("fault-{number}");
            // So many faults open the circuit, and a parent whose next try is far away has that in its condition first.
            let is_tried = |object: &Value| {
                let (truth, reason, _) = condition_parts(object, "Reconciled");
                truth == "False" && reason != "CircuitOpen"
            };
            let object = scene.until_object(&FAULT, &name, &format!("({what}) is reported as failing"), is_tried).await;
            let (_, found, message) = condition_parts(&object, "Reconciled");
            assert!(found == *reason && message.contains(words), "{what}: {found}: {message}");
            scene.event(&name, reason, words).await;
        }
        // What it prints and logs are lines of the host's log.
        scene.create(fault("fault-log", "log")).await;
        host.until_logged(&["printed", "faulty-python"]).await;
        host.until_logged(&["faulty: as info", "faulty-python"]).await;
        host.until_logged(&["ERROR", "faulty: failed: ValueError: I cannot count to 5 (faulty_python.py:31 in count"])
            .await;
        // It is served as soon as it is mended, whatever failed before.
        scene.merge(&FAULT, "fault-5", json!({ "spec": { "fault": "" } })).await;
        scene.until_object(&FAULT, "fault-5", "is served", |object| condition_parts(object, "Kept").0 == "True").await;
    });
}
