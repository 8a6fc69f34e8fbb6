//! Validation, defaulting and conversion by plugins in other languages than Rust. `admission_by_code.rs` and
//! `conversion.rs` have what the host does in each case.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use hotshoe_tests::crews::Crews;
use hotshoe_tests::host::program;
use hotshoe_tests::{ControlPlane, guests, repository, run};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A plugin, and what it says where its code fails.
struct Language {
    fixture: &'static str,
    /// In `validate`.
    exception: &'static str,
    /// A verdict that is none.
    wrong_verdict: &'static str,
    /// In `default`.
    no_default: &'static str,
    /// A conversion that returns nothing.
    no_answer: &'static str,
}

const JAVASCRIPT: Language = Language {
    fixture: "crews-js",
    exception: "TypeError: cannot read property 'spec' of undefined (plugin.js:10)",
    wrong_verdict: "InvalidForm: errors is \"all of them\"; a list is expected",
    no_default: "RangeError: there is no default (plugin.js:35)",
    no_answer: "the answer of conversions.v1.v1beta1 is undefined; the object as it is in v1beta1 is expected",
};

const PYTHON: Language = Language {
    fixture: "crews-python",
    exception: "KeyError: 'size' (crews_python.py:26",
    wrong_verdict: "TypeError: errors is 'all of them' instead of a list",
    no_default: "ArithmeticError: there is no default (crews_python.py:52 in default)",
    no_answer: "is None instead of a dict, the object in the other version",
};

#[test]
fn a_plugin_in_javascript_refuses_fills_in_and_converts() {
    run(refuses_fills_in_and_converts(&JAVASCRIPT));
}

#[test]
fn the_cases_and_round_trips_of_a_plugin_in_javascript_pass() {
    cases_and_round_trips_pass(&JAVASCRIPT);
}

#[test]
fn a_plugin_in_python_refuses_fills_in_and_converts() {
    run(refuses_fills_in_and_converts(&PYTHON));
}

#[test]
fn the_cases_and_round_trips_of_a_plugin_in_python_pass() {
    cases_and_round_trips_pass(&PYTHON);
}

async fn refuses_fills_in_and_converts(language: &Language) {
    let mut crews = Crews::of_fixture(ControlPlane::shared().await, language.fixture).await;
    let _host = crews.host().await;
    crews.switch_on().await;
    crews.register().await;
    fills_in(&crews).await;
    refuses(&crews).await;
    converts(&crews).await;
    fails_in_its_own_words(&crews, language).await;
    crews.deregister().await;
    crews.end().await;
}

/// Creates a Crew without a number, until it has one: defaults that take long on a busy machine are not filled in.
async fn fills_in(crews: &Crews) {
    let (v1, scene) = (crews.v1(), &crews.scene);
    scene
        .until("a number is filled in", async || {
            let stored = crews.create(&v1, "small", json!({})).await;
            if stored["spec"] == json!({ "replicas": 2 }) {
                return Ok(());
            }
            scene.delete(&v1, "small").await;
            scene.gone(&v1, "small").await;
            Err(stored["spec"].to_string())
        })
        .await;
    crews.seen("small", 2).await;
}

async fn refuses(crews: &Crews) {
    let (v1, v1beta1, scene) = (crews.v1(), crews.v1beta1(), &crews.scene);
    // In the other version, too: the API server converts it, and asks about v1.
    for (kind, smaller, larger) in [
        (v1, json!({ "replicas": 1 }), json!({ "replicas": 3 })),
        (v1beta1, json!({ "size": 1 }), json!({ "size": 4 })),
    ] {
        scene.merge(&kind, "small", json!({ "spec": larger })).await;
        scene
            .until("it may not shrink", async || {
                match scene.admin.merge(&kind, &scene.namespace, "small", &json!({ "spec": smaller })).await {
                    Err(refused) if refused.message.contains("spec.replicas: it may not shrink") => Ok(()),
                    other => {
                        scene.merge(&kind, "small", json!({ "spec": larger })).await;
                        Err(format!("{other:?}"))
                    }
                }
            })
            .await;
    }
    let twice = json!({ "replicas": 1, "ports": [80, 80] });
    let refused = scene
        .until("it is refused", async || match crews.warnings_of(&crews.v1(), twice.clone()).await {
            Err(refused) if refused.code == 422 => Ok(refused),
            other => Err(format!("{other:?}")),
        })
        .await;
    let status: Value = serde_json::from_str(&refused.message).expect("a Status");
    let cause = json!({ "reason": "FieldValueDuplicate", "message": "it is there already", "field": "spec.ports[1]" });
    assert_eq!(status["details"]["causes"], json!([cause]), "{status:#}");
    until_warned(crews, json!({ "replicas": 1 }), "one is no crew").await;
}

async fn converts(crews: &Crews) {
    let (v1, v1beta1, scene) = (crews.v1(), crews.v1beta1(), &crews.scene);
    crews.create(&v1beta1, "old", json!({ "size": 3, "port": 80 })).await;
    assert_eq!(scene.get(&v1, "old").await["spec"], json!({ "replicas": 3, "ports": [80] }));
    scene.merge(&v1, "old", json!({ "spec": { "ports": [80, 81, 82] } })).await;
    assert_eq!(scene.get(&v1beta1, "old").await["spec"], json!({ "size": 3, "port": 80 }));
    scene.merge(&v1beta1, "old", json!({ "spec": { "port": 79 } })).await;
    let new = scene.get(&v1, "old").await;
    assert_eq!(new["spec"], json!({ "replicas": 3, "ports": [79, 81, 82] }), "the others are kept");
    assert_eq!(new["metadata"]["annotations"], Value::Null, "and no longer said twice");
}

async fn fails_in_its_own_words(crews: &Crews, language: &Language) {
    let fault = |fault: &str| json!({ "replicas": 2, "fault": fault });
    until_warned(crews, fault("throw"), language.exception).await;
    until_warned(crews, fault("wrong type"), language.wrong_verdict).await;
    until_warned(crews, fault("no default"), language.no_default).await;
    crews.create(&crews.v1(), "failing", fault("no conversion")).await;
    let refused = crews.try_get(&crews.v1beta1(), "failing").await.expect_err("it cannot be converted");
    assert!(refused.message.contains(language.no_answer), "{refused:?}");
}

/// Tries a dry run until a warning has these words: on a busy machine, an answer may come too late.
async fn until_warned(crews: &Crews, spec: Value, words: &str) {
    crews
        .scene
        .until(&format!("a dry run warns {words:?}"), async || {
            let warnings = crews.warnings_of(&crews.v1(), spec.clone()).await.expect("it is admitted");
            match warnings.iter().any(|warning| warning.contains(&words.replace('"', "\\\""))) {
                true => Ok(()),
                false => Err(format!("{warnings:?}")),
            }
        })
        .await;
}

fn cases_and_round_trips_pass(language: &Language) {
    let project = project(language);
    let output = Command::new(program()).arg("test").arg(project.path()).output().expect("the program runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    for tried in
        ["v1 → v1beta1 → v1: ", "v1beta1 → v1 → v1beta1: ", "defaults filled in twice: ", "a crew may not shrink"]
    {
        assert!(said.contains(&format!("ok   {tried}")), "{tried} is not among\n{said}");
    }
}

/// A project of its own with the built plugin, its cases and its CRD.
fn project(language: &Language) -> TempDir {
    let (built, project) = (guests::fixture(language.fixture), TempDir::new().expect("a folder"));
    for file in ["plugin.yaml".to_owned(), format!("{}.wasm", language.fixture)] {
        fs::copy(built.join(&file), project.path().join(&file)).expect("it is copied");
    }
    symlink(repository("tests/fixtures").join(language.fixture).join("cases"), project.path().join("cases"))
        .expect("cases");
    let crd = fs::read_to_string(repository("tests/fixtures/converting/crd.yaml")).expect("a CRD");
    let crd = crd.replace("fixtures.example.com", &format!("{}.example.com", language.fixture));
    fs::create_dir(project.path().join("crds")).expect("a folder");
    fs::write(project.path().join("crds/crews.yaml"), crd).expect("a CRD is written");
    project
}
