//! What a plugin's own code says of a parent before it is stored, and what it fills in.

use std::fs;
use std::process::{Command, Output};

use hotshoe_tests::faulty::{WORKS, fault, until_digest, until_scale_is_refused};
use hotshoe_tests::guests::{Folder, reworded};
use hotshoe_tests::host::program;
use hotshoe_tests::kinds::FAULT;
use hotshoe_tests::{Scene, run};
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::admission::Asked;

impl Asked {
    /// Creates a parent with this fault until it is stored with a size, which may take some: defaults that take long are
    /// not filled in.
    async fn filled_in(&self, name: &str, asked: &str) -> Value {
        let scene = &self.scene;
        scene
            .until("a size is filled in", async || {
                let stored = scene.create(fault(name, asked)).await;
                match stored["spec"]["size"].is_null() {
                    false => Ok(stored),
                    true => {
                        scene.delete(&FAULT, name).await;
                        scene.gone(&FAULT, name).await;
                        Err("it has no size".to_owned())
                    }
                }
            })
            .await
    }
}

#[test]
fn each_field_that_the_code_finds_wrong_is_a_cause_of_the_refusal() {
    run(async {
        let asked = Asked::in_force("by-code-invalid", "Enforce").await;
        let refused = asked
            .scene
            .until("a dry run is refused", async || {
                match asked.scene.admin.warnings_of(&asked.parent("dry", "invalid")).await {
                    Err(refused) if refused.code == 422 => Ok(refused),
                    other => Err(format!("{other:?}")),
                }
            })
            .await;
        let status: Value = serde_json::from_str(&refused.message).expect("a Status");
        let causes = json!([
            { "reason": "FieldValueNotSupported", "message": "no such fault", "field": "spec.fault" },
            { "reason": "FieldValueRequired", "message": "it is missing", "field": "spec.size" },
        ]);
        assert_eq!(status["details"]["causes"], causes, "{status:#}");
        assert_eq!(asked.refused("invalid").await.code, 422);
        let rejected = asked.refused("validate: reject").await;
        assert!(rejected.message.contains("spec.fault: not this one"), "{rejected:?}");
        asked.end().await;
    });
}

#[test]
fn an_update_is_checked_against_the_stored_object() {
    run(async {
        let asked = Asked::in_force("by-code-update", "Enforce").await;
        let scene = &asked.scene;
        let mut large = fault("large", "shrinks");
        large["spec"]["size"] = json!(5);
        scene.create(large).await;
        scene
            .until("it may not shrink", async || {
                match scene.admin.merge(&FAULT, &scene.namespace, "large", &json!({ "spec": { "size": 3 } })).await {
                    Err(refused) if refused.message.contains("spec.size: it may not shrink") => Ok(()),
                    other => {
                        scene.merge(&FAULT, "large", json!({ "spec": { "size": 5 } })).await;
                        Err(format!("{other:?}"))
                    }
                }
            })
            .await;
        scene.merge(&FAULT, "large", json!({ "spec": { "size": 6 } })).await;
        asked.end().await;
    });
}

#[test]
fn a_scale_is_checked_as_an_update_of_the_parent() {
    run(async {
        let asked = Asked::in_force("by-code-scale", "Enforce").await;
        let mut large = fault("large", "shrinks");
        large["spec"]["size"] = json!(5);
        asked.scene.create(large).await;
        until_scale_is_refused(&asked.scene, "large", [5, 3], "spec.size: it may not shrink").await;
        asked.end().await;
    });
}

/// Creates a parent as this user, with rights for all in the namespace.
fn created(scene: &Scene, parent: &Value, user: &str, groups: &[&str]) -> Output {
    let file = NamedTempFile::new().expect("a file");
    fs::write(file.path(), parent.to_string()).expect("a manifest");
    let path = file.path().display().to_string();
    let groups = groups.iter().flat_map(|group| ["--as-group", group]);
    let arguments: Vec<&str> = ["create", "--filename", &path, "--as", user].into_iter().chain(groups).collect();
    scene.kubectl(&arguments)
}

/// Lets the members of a group write all in the namespace of a scene.
async fn let_write(scene: &Scene, group: &str) {
    let role = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" });
    let group = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": { "name": "writers", "namespace": scene.namespace },
        "roleRef": role,
        "subjects": [group],
    });
    scene.admin.apply("tests", &binding).await.expect("a binding");
}

#[test]
fn code_is_shown_who_writes_an_object_if_the_administrator_says_so() {
    run(async {
        let asked = Asked::in_force("by-code-user", "Enforce\n  showUser: true").await;
        let scene = &asked.scene;
        let_write(scene, "writers").await;
        scene
            .until("a stranger is refused", async || {
                let bobs = created(scene, &fault("bobs", "developers only"), "bob", &["writers"]);
                let words = String::from_utf8_lossy(&bobs.stderr).into_owned();
                if bobs.status.success() {
                    scene.delete(&FAULT, "bobs").await;
                    scene.gone(&FAULT, "bobs").await;
                }
                words.contains("spec.fault: bob is not in the group dev").then_some(()).ok_or(words)
            })
            .await;
        let stored = created(scene, &fault("alices", "developers only"), "alice", &["writers", "dev"]);
        assert!(stored.status.success(), "{}", String::from_utf8_lossy(&stored.stderr));
        scene
            .until("the author is filled in", async || {
                let created = created(scene, &fault("signed", "default: sign"), "alice", &["writers", "dev"]);
                assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stderr));
                let signed = scene.get(&FAULT, "signed").await;
                scene.delete(&FAULT, "signed").await;
                scene.gone(&FAULT, "signed").await;
                let author = &signed["metadata"]["annotations"]["fixtures.example.com/author"];
                if *author == "alice" { Ok(()) } else { Err(format!("{signed:#}")) }
            })
            .await;
        asked.end().await;
    });
}

#[test]
fn code_is_shown_no_user_unless_the_administrator_says_so() {
    run(async {
        let asked = Asked::in_force("by-code-no-user", "Enforce").await;
        asked.until_warned("developers only", "it is not known who writes this").await;
        asked.end().await;
    });
}

#[test]
fn code_that_fails_or_warns_admits_the_object_with_a_warning() {
    run(async {
        let asked = Asked::in_force("by-code-fails", "Enforce").await;
        asked.until_warned("warns", "there are better faults").await;
        let failing = [
            ("validate: other", "faulty did not validate this, so it is admitted: no idea"),
            ("validate: trap", "faulty did not validate this, so it is admitted: Trapped"),
            ("validate: much", "faulty did not validate this, so it is admitted: OutputTooLarge"),
            ("validate: loop", "faulty did not decide within 100ms"),
        ];
        for (number, (word, warning)) in failing.into_iter().enumerate() {
            asked.until_warned(word, warning).await;
            asked.scene.create(fault(&format!("stored-{number}"), word)).await;
        }
        asked.end().await;
    });
}

#[test]
fn what_the_author_left_out_is_stored_with_its_default_and_stays_as_it_is() {
    run(async {
        let asked = Asked::in_force("by-code-default", "Enforce").await;
        let stored = asked.filled_in("small", "").await;
        assert_eq!(stored["spec"], json!({ "fault": "", "size": 1 }));
        let scene = &asked.scene;
        let labelled = scene.merge(&FAULT, "small", json!({ "metadata": { "labels": { "a": "b" } } })).await;
        assert_eq!(labelled["metadata"]["generation"], stored["metadata"]["generation"], "no field changes");
        let mut large = fault("large", "");
        large["spec"]["size"] = json!(3);
        assert_eq!(scene.create(large).await["spec"]["size"], 3);
        let mut generated = fault("", "");
        generated["metadata"] = json!({ "generateName": "some-" });
        scene
            .until("an object without a name has it, too", async || match scene.create(generated.clone()).await["spec"]
                ["size"]
                .is_null()
            {
                false => Ok(()),
                true => Err("it has no size".to_owned()),
            })
            .await;
        asked.end().await;
    });
}

#[test]
fn defaults_that_fail_or_change_what_they_may_not_leave_the_object_as_it_came() {
    run(async {
        let asked = Asked::in_force("by-code-denied", "Enforce").await;
        let failing = [
            ("default: other", "faulty filled in no defaults: no idea"),
            ("default: trap", "faulty filled in no defaults: Trapped"),
            ("default: loop", "faulty did not decide within 100ms"),
            ("default: finalizer", "faulty filled in no defaults: MetadataChanged"),
            ("default: rename", "faulty filled in no defaults: MetadataChanged"),
            ("default: no metadata", "faulty filled in no defaults: MetadataChanged"),
        ];
        for (number, (word, warning)) in failing.into_iter().enumerate() {
            asked.until_warned(word, warning).await;
            let name = format!("stored-{number}");
            let stored = asked.scene.create(fault(&name, word)).await;
            assert_eq!(stored["spec"], json!({ "fault": word }), "{word}");
            assert_eq!(stored["metadata"]["name"], name);
            let finalizers = stored["metadata"]["finalizers"].to_string();
            assert!(!finalizers.contains("theirs"), "{finalizers}");
        }
        asked.end().await;
    });
}

#[test]
fn with_warn_the_object_is_stored_as_it_came_and_the_author_is_warned() {
    run(async {
        let asked = Asked::in_force("by-code-warn", "Warn").await;
        asked.until_warned("", "would fill in spec.size").await;
        asked.until_warned("invalid", "FieldValueRequired: spec.size: it is missing").await;
        let stored = asked.scene.create(fault("bad", "invalid")).await;
        assert_eq!(stored["spec"], json!({ "fault": "invalid" }));
        asked.end().await;
    });
}

#[test]
fn another_component_validates_the_next_parent() {
    run(async {
        let asked = Asked::in_force("by-code-swap", "Enforce").await;
        let scene = &asked.scene;
        scene.create(fault("before", "slip")).await;
        let caring = reworded(asked.folder.original(), WORKS, "this revision cares");
        asked.folder.put(&caring);
        let waits = |plugin: &Value| plugin["refused"]["reason"] == "ApprovalRequired";
        let plugin = asked.host.until_plugin("it waits, for it would refuse a stored one", waits).await;
        let why = plugin["refused"]["message"].as_str().unwrap_or_default();
        let named = format!("1 of 1 stored objects would no longer be valid: {}/before", scene.namespace);
        assert!(why.starts_with(&named), "{why}");
        let (status, words) = asked.host.ask(&["approve", "faulty"]);
        assert!(status.success(), "{words}");
        until_digest(&asked.host, &caring).await;
        let refused = asked.refused("slip").await;
        assert!(refused.message.contains("spec.fault: it slips"), "{refused:?}");
        let patch = json!({ "metadata": { "labels": { "a": "b" } } });
        scene.merge(&FAULT, "before", patch).await;
        scene.delete(&FAULT, "before").await;
        scene.gone(&FAULT, "before").await;
        asked.end().await;
    });
}

#[test]
fn defaults_that_change_an_object_which_has_them_fail_the_tests_of_their_plugin() {
    let folder = Folder::of_faulty();
    let cases = folder.path().join("cases");
    fs::create_dir(&cases).expect("a folder of cases");
    let case = |fault: &str, size: u32| {
        let parent = "  apiVersion: fixtures.example.com/v1\n  kind: Fault\n  metadata: {name: a, namespace: n}\n";
        format!(
            "name: \"{fault}\"\ncall: default\nparent:\n{parent}  spec: {{fault: \"{fault}\"}}\nexpect:\n  defaulted:\n  {}\n    \
             spec: {{fault: \"{fault}\", size: {size}}}\n",
            parent.trim_end().replace('\n', "\n  ")
        )
    };
    let test = || {
        let output = Command::new(program()).arg("test").arg(folder.path()).output().expect("the program runs");
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    fs::write(cases.join("small.yaml"), case("small", 1)).expect("a case");
    let (passes, output) = test();
    assert!(passes && output.contains("ok   defaults filled in twice"), "{output}");
    fs::write(cases.join("grow.yaml"), case("default: grow", 1)).expect("a case");
    let (passes, output) = test();
    assert!(!passes && output.contains("the second time changed spec.size"), "{output}");
    assert!(output.contains("the object: {") && output.contains("3 passed, 1 failed"), "{output}");
}

#[test]
fn what_a_canary_says_of_proposed_parents_is_counted_and_not_used() {
    run(async {
        let asked = Asked::in_force("by-code-canary", "Enforce").await;
        let host = &asked.host;
        asked.folder.edit("spec:\n", "spec:\n  rollout: {canary: {percent: 50}, duration: 60m}\n");
        let caring = reworded(asked.folder.original(), WORKS, "this revision cares");
        asked.folder.put(&caring);
        let digest = hotshoe_core::model::digest::Digest::of(&caring).full();
        host.until_plugin("it is the canary", |plugin| plugin["canary"]["digest"] == *digest).await;
        let counted =
            |result: &str| format!(r#"hotshoe_canary_reviews_total{{controller="faulty",result="{result}"}} "#);
        for (parent, result) in [("slip", "refused"), ("", "same")] {
            host.until(&format!("{result} is counted"), async || {
                // Nothing is stored, so that no reconcile depends on it.
                let admitted = asked.scene.admin.warnings_of(&asked.parent("dry", parent)).await;
                admitted.expect("the active revision admits it");
                let (_, metrics) = host.get("/metrics").await?;
                match metrics.contains(&counted(result)) {
                    true => Ok(()),
                    false => Err("not yet".to_owned()),
                }
            })
            .await;
        }
        let is_shown = |plugin: &Value| {
            let count = |what: &str| plugin["canary"]["reviews"][what].as_i64().unwrap_or_default();
            count("refused") > 0 && count("same") > 0
        };
        host.until_plugin("the status shows it", is_shown).await;
        let (_, words) = host.ask(&["status"]);
        assert!(words.contains(" admission answers compared, different: "), "{words}");
        let invalid = asked.refused("invalid").await;
        assert_eq!(invalid.code, 422, "the active revision refuses as before");
        asked.end().await;
    });
}
