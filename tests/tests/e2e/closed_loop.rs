//! What `hotshoe test` finds by carrying out decisions in a model, until nothing changes.

use std::fs;
use std::process::Command;

use hotshoe_tests::guests::Folder;
use hotshoe_tests::host::program;

/// Returns whether the case of a parent with this fault passes, and what is said.
fn test(folder: &Folder, kind: &str, spec: &str, steady: &str) -> (bool, String) {
    fs::create_dir_all(folder.path().join("cases")).expect("a folder");
    let parent = format!(
        "{{apiVersion: fixtures.example.com/v1, kind: {kind}, metadata: {{name: a, namespace: n, uid: u}}, spec: {spec}}}"
    );
    let case = format!("name: it settles\nparent: {parent}\n{steady}");
    fs::write(folder.path().join("cases/one.yaml"), case).expect("a case");
    let run = |options: &[&str]| {
        Command::new(program()).arg("test").arg(folder.path()).args(options).output().expect("the program runs")
    };
    run(&["--accept"]);
    let output = run(&[]);
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

fn fault(name: &str, steady: &str) -> (bool, String) {
    test(&Folder::of_faulty(), "Fault", &format!("{{fault: {name}}}"), steady)
}

#[test]
fn a_plugin_that_settles_is_one_line_and_one_that_needs_more_decisions_than_its_case_says_fails() {
    let (passes, said) = fault("none", "");
    assert!(passes && said.contains("ok   1 case settles within 2 decisions, whichever child is lost\n"), "{said}");
    let (passes, said) = fault("none", "steady: {within: 2}\n");
    assert!(passes && said.contains("ok   steady within 2 decisions: it settles\n"), "{said}");
    let (passes, said) = fault("none", "steady: {within: 1}\n");
    assert!(!passes && said.contains("FAIL steady within 1 decision: it settles\n"), "{said}");
    let story =
        "after 2 decisions something still changes:\n     decision 1\n       + ConfigMap n/a\n       ~ status\n";
    assert!(said.contains(story) && said.contains("     decision 2\n       ~ status\n"), "{said}");
}

#[test]
fn a_plugin_that_answers_its_own_children_with_others_never_settles() {
    let (passes, said) = test(&Folder::of_hostile(), "Attack", "{attack: flip}", "");
    assert!(!passes && said.contains("FAIL the closed loop: it settles\n"), "{said}");
    assert!(said.contains("after 11 decisions something still changes:\n     decision 8\n"), "{said}");
    assert!(said.contains("       ~ ConfigMap n/a\n           data.side: \"left\" → \"right\"\n"), "{said}");
}

#[test]
fn a_plugin_that_does_not_make_again_what_is_lost_is_found() {
    let (passes, said) = fault("made at first", "");
    assert!(!passes && said.contains("FAIL the closed loop: it settles\n"), "{said}");
    let story = "after the loss of ConfigMap n/a: other children are there in the end\n       - ConfigMap n/a\n";
    assert!(said.contains(story), "{said}");
}

#[test]
fn a_clean_up_that_never_ends_is_found() {
    let (passes, said) = fault("linger in clean-up", "");
    assert!(!passes && said.contains("the clean-up: after 11 decisions something still changes"), "{said}");
}

#[test]
fn a_decision_that_a_host_would_deny_only_later_is_found() {
    let (passes, said) = fault("too much later", "");
    let why = "decision 2: a host would deny it: the decision is denied as a whole: Secret a: ";
    assert!(!passes && said.contains(why), "{said}");
}
