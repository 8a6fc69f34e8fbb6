//! Errors of a plugin in JavaScript: condition and Event report them with their line.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

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
fn builds_of_the_same_source_make_the_same_component_also_at_the_same_time() {
    let folder = copy_of_fixture();
    let out = tempfile::TempDir::new().expect("a folder");
    let build = |number: usize| {
        let to = out.path().join(format!("{number}.wasm"));
        let mut command = Command::new(program());
        command.arg("build").arg(&folder).arg("--out").arg(&to).stderr(Stdio::piped());
        (command.spawn().expect("the program runs"), to)
    };
    let built = |(child, to): (Child, PathBuf)| {
        let output = child.wait_with_output().expect("the program ends");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fs::read(to).expect("it is built")
    };
    let [first, beside] = [1, 2].map(build).map(built);
    let later = built(build(3));
    assert!(first == beside, "builds at the same time differ");
    assert!(first == later, "a later build differs");
}

/// Copies the plugin to a folder where nothing has been built, as deep below the root of the repository as the fixture,
/// because its packages have relative paths. The copy is a project of its own, with the tools of the repository.
fn copy_of_fixture() -> PathBuf {
    let name = "built-thrice";
    let folder = repository("target/tests").join(name);
    let removed = fs::remove_dir_all(&folder);
    assert!(removed.is_ok() || !folder.exists(), "{} cannot be removed", folder.display());
    fs::create_dir_all(folder.join("target")).expect("the folder is made");
    symlink(repository("target/tools"), folder.join("target/tools")).expect("the tools are linked");
    for file in ["owner.js", "plugin.js", "package.json", "package-lock.json"] {
        fs::copy(repository("tests/fixtures/faulty-js").join(file), folder.join(file)).expect("the file is copied");
    }
    let declared =
        fs::read_to_string(repository("tests/fixtures/faulty-js/plugin.yaml")).expect("plugin.yaml is there");
    fs::write(folder.join("plugin.yaml"), declared.replace("faulty-js", name)).expect("plugin.yaml is written");
    folder
}
