//! What `hotshoe test` finds by carrying out decisions in a model, until nothing changes.

use std::fs;
use std::io::Write;
use std::process::{Command, Output, Stdio};

use hotshoe_tests::guests::Folder;
use hotshoe_tests::host::program;
use serde_json::{Value, json};

/// Writes the one case of a plugin, and has the component answer it.
fn accept(folder: &Folder, kind: &str, spec: &str, more: &str) {
    fs::create_dir_all(folder.path().join("cases")).expect("a folder");
    let parent = format!(
        "{{apiVersion: fixtures.example.com/v1, kind: {kind}, metadata: {{name: a, namespace: n, uid: u}}, spec: {spec}}}"
    );
    let case = format!("name: it settles\nparent: {parent}\n{more}");
    fs::write(folder.path().join("cases/one.yaml"), case).expect("a case");
    run(folder, &["--accept"]);
}

fn run(folder: &Folder, options: &[&str]) -> Output {
    Command::new(program()).arg("test").arg(folder.path()).args(options).output().expect("the program runs")
}

/// Returns whether the case of a parent with this fault passes, and what is said.
fn test(folder: &Folder, kind: &str, spec: &str, steady: &str) -> (bool, String) {
    accept(folder, kind, spec, steady);
    let output = run(folder, &[]);
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns what is said on standard error when counter-examples are saved.
fn save(folder: &Folder) -> String {
    let output = run(folder, &["--save"]);
    assert!(!output.status.success(), "what is saved does not hold");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn found(folder: &Folder, name: &str) -> String {
    fs::read_to_string(folder.path().join(format!("cases/{name}.yaml"))).expect("the case was saved")
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

#[test]
fn the_smallest_start_of_a_loop_that_never_settles_becomes_a_case_that_fails_the_same_way() {
    let folder = Folder::of_hostile();
    let child =
        |name: &str| format!("  - {{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}, namespace: n}}}}\n");
    accept(&folder, "Attack", "{attack: flip}", &format!("children:\n{}{}", child("a"), child("b")));
    let command = format!("`hotshoe test {} --save`", folder.path().display());
    let said = String::from_utf8_lossy(&run(&folder, &[]).stderr).into_owned();
    assert!(said.contains(&command), "{said}");

    let said = save(&folder);
    assert!(said.contains("saved: ") && said.contains("cases/found-never-settles-1.yaml\n"), "{said}");
    let case = found(&folder, "found-never-settles-1");
    let comment =
        "# Found by `hotshoe test` from the case \"it settles\":\n# after 11 decisions something still changes:\n";
    assert!(case.starts_with(comment), "{case}");
    assert!(!case.contains("\nchildren:") && case.contains("\nsteady:\n  within: 10\nexpect:\n"), "{case}");

    let output = run(&folder, &["--components", &folder.path().display().to_string()]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let name = "in the end nothing changes (found-never-settles-1)";
    assert!(said.contains(&format!("ok   {name} (")), "its first answer is as expected: {said}");
    let story = format!("FAIL steady within 10 decisions: {name}\n     after 11 decisions something still changes:\n");
    assert!(!output.status.success() && said.contains(&story), "{said}");

    let said = save(&folder);
    assert!(said.contains("cases/found-never-settles-1.yaml is already the smallest start\n"), "{said}");
    assert_eq!(found(&folder, "found-never-settles-1"), case, "it stays as it is");
    assert!(!folder.path().join("cases/found-never-settles-2.yaml").exists());
}

#[test]
fn a_saved_case_is_named_by_what_was_found_and_takes_the_place_of_none() {
    for (fault, stem) in [
        ("made at first", "found-not-restored"),
        ("linger in clean-up", "found-clean-up-never-ends"),
        ("too much later", "found-fails-later"),
    ] {
        let folder = Folder::of_faulty();
        let child = "children: [{apiVersion: v1, kind: ConfigMap, metadata: {name: other, namespace: n}}]\n";
        accept(&folder, "Fault", &format!("{{fault: {fault}}}"), child);
        let own = "name: written by hand\nparent: {apiVersion: fixtures.example.com/v1, kind: Fault, metadata: {name: b, namespace: n, uid: u}, spec: {fault: none}}\n";
        fs::write(folder.path().join(format!("cases/{stem}-1.yaml")), own).expect("a case");
        let said = save(&folder);
        assert!(said.contains(&format!("cases/{stem}-2.yaml\n")), "{fault}: {said}");
        assert_eq!(found(&folder, &format!("{stem}-1")), own);
        let case = found(&folder, &format!("{stem}-2"));
        assert!(!case.contains("name: other"), "the child that does not matter is left out: {case}");
        fs::remove_file(folder.path().join("cases/one.yaml")).expect("the case is there");
        let said = String::from_utf8_lossy(&run(&folder, &[]).stdout).into_owned();
        assert!(said.contains("FAIL steady within 10 decisions") && said.contains(&format!("({stem}-2)\n")), "{said}");
    }
}

#[test]
fn a_folder_that_is_full_of_counter_examples_is_an_error() {
    let folder = Folder::of_hostile();
    let child = "children: [{apiVersion: v1, kind: ConfigMap, metadata: {name: other, namespace: n}}]\n";
    accept(&folder, "Attack", "{attack: flip}", child);
    let cases = folder.path().join("cases");
    let one = fs::read_to_string(cases.join("one.yaml")).expect("the case is there");
    for number in 1..=100 {
        let other = one
            .replace("it settles", &format!("number {number}"))
            .replace("name: other", &format!("name: other{number}"));
        fs::write(cases.join(format!("found-never-settles-{number}.yaml")), other).expect("a case");
    }
    let said = save(&folder);
    assert!(
        said.contains("has found-never-settles-1.yaml to found-never-settles-100.yaml: remove some of them"),
        "{said}"
    );
}

/// Runs `hotshoe simulate` on a text. Returns the exit code, and what is said on standard output and standard error.
fn simulate(folder: &Folder, start: &str, options: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(program());
    command.arg("simulate").arg(folder.path()).args(["-f", "-"]).args(options);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program runs");
    let mut input = child.stdin.take().expect("its standard input");
    input.write_all(start.as_bytes()).expect("it is read");
    drop(input);
    let Output { status, stdout, stderr } = child.wait_with_output().expect("it ends");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (status.code(), text(stdout), text(stderr))
}

fn object(kind: &str, spec: &str) -> String {
    format!("{{apiVersion: fixtures.example.com/v1, kind: {kind}, metadata: {{name: a}}, spec: {spec}}}")
}

#[test]
fn the_decisions_about_an_object_are_followed_to_their_end() {
    let folder = Folder::of_faulty();
    let (code, said, errors) = simulate(&folder, &object("Fault", "{fault: none}"), &[]);
    assert_eq!(code, Some(0), "{said}{errors}");
    assert!(said.starts_with("decision 1\n  + ConfigMap default/a\n"), "{said}");
    assert!(said.ends_with("settled after 2 decisions\n"), "{said}");
    let (code, said, errors) = simulate(&folder, &object("Fault", "{fault: none}"), &["-o", "json"]);
    let end: Value = serde_json::from_str(&said).expect("it is JSON");
    assert_eq!((code, &end["settled"], &end["why"]), (Some(0), &json!(true), &Value::Null), "{said}{errors}");
    let first = &end["decisions"][0]["children"][0];
    assert_eq!(
        (&first["action"], &first["kind"], &first["name"]),
        (&json!("created"), &json!("ConfigMap"), &json!("a"))
    );
    assert_eq!(end["children"][0]["metadata"]["name"], "a", "{end:#}");
    assert_eq!(end["parent"]["spec"]["size"], 1, "the plugin's defaults are filled in: {end:#}");
    assert!(end["parent"]["status"].is_object(), "{end:#}");
}

#[test]
fn a_simulation_that_does_not_settle_or_cannot_begin_says_why() {
    let (code, said, errors) = simulate(&Folder::of_hostile(), &object("Attack", "{attack: flip}"), &["-o", "json"]);
    let end: Value = serde_json::from_str(&said).expect("it is JSON");
    assert_eq!((code, &end["settled"]), (Some(1), &json!(false)), "{said}{errors}");
    assert!(end["why"].as_str().is_some_and(|why| why.starts_with("after 11 decisions")), "{end:#}");
    let folder = Folder::of_faulty();
    let start = format!("name: a\nparent: {}\nsteady: {{within: 1}}\n", object("Fault", "{fault: none}"));
    let (code, said, errors) = simulate(&folder, &start, &[]);
    assert_eq!(code, Some(1), "{said}{errors}");
    assert!(said.contains("not settled: after 2 decisions something still changes"), "{said}");
    let start = format!("name: a\ncall: validate\nparent: {}\n", object("Fault", "{fault: none}"));
    for (start, why) in [
        (start.as_str(), "it calls a function that makes no decision"),
        ("name: a\nparnt: {}\n", "is neither an object nor a valid case: "),
        ("[", "is neither an object nor a valid case: "),
        ("{apiVersion: v1, kind: Pod, metadata: {name: a}}", "the parent is a Pod"),
    ] {
        let (code, said, errors) = simulate(&folder, start, &[]);
        assert_eq!(code, Some(1), "{start}: {said}{errors}");
        assert!(format!("{said}{errors}").contains(why), "{start}: {said}{errors}");
    }
}

/// Follows a case and returns how it ends, which must be that nothing changes any more.
fn end(folder: &Folder, case: &Value) -> Value {
    let (code, said, errors) = simulate(folder, &case.to_string(), &["-o", "json"]);
    assert_eq!(code, Some(0), "{said}{errors}");
    serde_json::from_str(&said).expect("it is JSON")
}

#[test]
fn a_plugin_is_shown_the_pods_that_its_deployment_has_in_the_model() {
    let metadata = json!({ "name": "cache", "namespace": "n", "uid": "u" });
    let parent = |size: u32| {
        let spec = json!({ "size": size, "containerPort": 11211 });
        json!({ "apiVersion": "cache.example.com/v1", "kind": "Memcached", "metadata": metadata, "spec": spec })
    };
    let config = json!({ "image": "memcached:1.6-alpine" });
    let folder = Folder::of_memcached();
    let ended = end(&folder, &json!({ "name": "a", "parent": parent(3), "config": config }));
    let nodes = |ended: &Value| ended["parent"]["status"]["nodes"].as_array().cloned().unwrap_or_default();
    let first = nodes(&ended);
    assert!(
        first.len() == 3 && first.iter().all(|node| node.as_str().unwrap_or_default().starts_with("cache-")),
        "{ended:#}"
    );
    let scaled = json!({ "name": "a", "parent": parent(2), "config": config, "children": ended["children"] });
    let second = nodes(&end(&folder, &scaled));
    assert_eq!(second.len(), 2, "{second:?}");
}

#[test]
fn what_others_own_of_a_child_with_managed_fields_stays_when_the_plugin_no_longer_states_it() {
    let desired = json!({ "data": { "stated": "1" } }).to_string();
    let dictated = json!([{ "group": "", "version": "v1", "kind": "ConfigMap", "name": "one", "body": desired }]);
    let parent = json!({
        "apiVersion": "fixtures.example.com/v1", "kind": "Attack", "metadata": { "name": "a", "namespace": "n", "uid": "u" },
        "spec": { "attack": "dictated", "children": dictated },
    });
    let entry = |manager: &str, fields: Value| json!({ "manager": manager, "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields });
    let entries = [
        entry("hotshoe/hostile", json!({ "f:data": { "f:stated": {}, "f:shared": {}, "f:own": {} } })),
        entry("kubectl", json!({ "f:data": { "f:shared": {}, "f:theirs": {} } })),
    ];
    let child = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": { "stated": "0", "shared": "0", "own": "0", "theirs": "0" },
        "metadata": { "name": "one", "namespace": "n", "managedFields": entries },
    });
    let case = json!({ "name": "a", "parent": parent, "children": [child] });
    let ended = end(&Folder::of_hostile(), &case);
    assert_eq!(ended["children"][0]["data"], json!({ "stated": "1", "shared": "0", "theirs": "0" }), "{ended:#}");
}
