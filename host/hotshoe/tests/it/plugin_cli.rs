//! The commands for a plugin's author, on a plugin made from a few lines of WebAssembly text.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::plugin_support::{Guest, HOTSHOE, folder, reconcile};
use hotshoe_components::{converting, forgetting, owner_of_config_maps};
use tempfile::TempDir;

const MANIFEST: &str =
    "apiVersion: hotshoe.dev/v1alpha1\nkind: Plugin\nmetadata: {name: demo}\nspec:\n  source: {file: demo.wasm}\n";
const CASE: &str = "# nothing is desired\nname: an empty answer\nparent:\n  apiVersion: example.com/v1\n  kind: Test\n  metadata: {name: a}\n";
const EXPECTED: &str = "expect:\n  decided:\n    children:\n      exactly: []\n";

/// A plugin's folder with a component and one case.
fn plugin(guest: &Guest, case: &str) -> TempDir {
    let dir = folder();
    fs::create_dir(dir.path().join("cases")).unwrap();
    fs::write(dir.path().join("plugin.yaml"), MANIFEST).unwrap();
    fs::write(dir.path().join("demo.wasm"), guest.component()).unwrap();
    fs::write(dir.path().join("cases/empty.yaml"), case).unwrap();
    dir
}

fn hotshoe(dir: &Path, arguments: &[&str]) -> Output {
    Command::new(HOTSHOE)
        .args(arguments)
        .current_dir(dir)
        .env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"))
        .output()
        .unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn a_case_that_passes_is_one_line() {
    let dir = plugin(&Guest::default(), &format!("{CASE}{EXPECTED}"));
    let output = hotshoe(dir.path(), &["test", "."]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.starts_with("ok   an empty answer ("), "{text}");
    assert!(text.ends_with("\n1 passed, 0 failed\n"), "{text}");
}

#[test]
fn a_component_that_is_older_than_its_source_is_tested_with_a_warning() {
    let dir = plugin(&Guest::default(), &format!("{CASE}{EXPECTED}"));
    let age = |name: &str, seconds: u64| {
        let file = fs::File::options().create(true).append(true).open(dir.path().join(name)).unwrap();
        file.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(seconds)).unwrap();
    };
    fs::create_dir(dir.path().join("src")).unwrap();
    age("src/plugin.go", 10);
    age("demo.wasm", 5);
    let output = hotshoe(dir.path(), &["test", "."]);
    assert!(output.status.success() && !stderr(&output).contains("older"), "{}", stderr(&output));
    // As after a build that failed.
    age("src/plugin.go", 1);
    let output = hotshoe(dir.path(), &["test", "."]);
    let said = stderr(&output);
    assert!(output.status.success() && stdout(&output).ends_with("1 passed, 0 failed\n"), "{said}");
    assert!(said.contains("the component demo.wasm is older than its source src/plugin.go"), "{said}");
    assert!(said.contains("hotshoe build"), "{said}");
}

#[test]
fn a_component_is_built_shown_and_tested_in_a_folder_where_no_host_looks() {
    let dir = plugin(&Guest::default(), &format!("{CASE}{EXPECTED}"));
    let missing = hotshoe(dir.path(), &["test", ".", "--components", "check"]);
    assert!(!missing.status.success() && stderr(&missing).contains("--out check/"), "{}", stderr(&missing));
    let built = hotshoe(dir.path(), &["build", ".", "--out", "check/"]);
    assert!(built.status.success() && stdout(&built).starts_with("check/demo.wasm: "), "{}", stderr(&built));
    fs::write(dir.path().join("demo.wasm"), "none").unwrap();
    for verb in ["test", "grants"] {
        let output = hotshoe(dir.path(), &[verb, ".", "--components", "check"]);
        assert!(output.status.success(), "{verb}: {}", stderr(&output));
        assert!(!hotshoe(dir.path(), &[verb, "."]).status.success(), "{verb} without the folder");
    }
}

#[test]
fn a_difference_is_shown_and_fails() {
    let wrong = EXPECTED.replace("\n      exactly: []", " keep");
    let dir = plugin(&Guest::default(), &format!("{CASE}{wrong}"));
    let output = hotshoe(dir.path(), &["test", "."]);
    assert_eq!(output.status.code(), Some(1));
    let text = stdout(&output);
    assert!(text.contains("FAIL an empty answer"), "{text}");
    assert!(text.contains("-   children: keep") && text.contains("+     exactly: []"), "{text}");
    assert!(text.ends_with("0 passed, 1 failed\n") && !text.contains('\u{1b}'), "{text}");
}

/// A plugin's folder with a case of a parent in v1 and a sample in v2.
fn versions(guest: &Guest) -> TempDir {
    let dir = plugin(guest, &format!("{CASE}  spec: {{size: 1}}\n{EXPECTED}"));
    fs::create_dir_all(dir.path().join("crds/samples")).unwrap();
    let sample = "apiVersion: example.com/v2\nkind: Test\nmetadata: {name: a}\nspec: {replicas: 1}\n";
    fs::write(dir.path().join("crds/samples/test.yaml"), sample).unwrap();
    dir
}

#[test]
fn what_a_plugin_converts_is_converted_back_and_has_lost_nothing() {
    let dir = versions(&converting(""));
    let output = hotshoe(dir.path(), &["test", "."]);
    let text = stdout(&output);
    assert!(output.status.success() && !stderr(&output).contains("round trip"), "{text}{}", stderr(&output));
    assert!(text.contains("\nok   v1 → v2 → v1: cases/empty.yaml\n"), "{text}");
    assert!(text.contains("\nok   v2 → v1 → v2: crds/samples/test.yaml\n"), "{text}");
    assert!(text.ends_with("\n3 passed, 0 failed\n"), "{text}");
    let rejected =
        format!("{CASE}  spec: {{size: x}}\nexpect: {{other: it cannot be read}}\n").replace("empty", "unusable");
    fs::write(dir.path().join("cases/rejected.yaml"), rejected).unwrap();
    let text = stdout(&hotshoe(dir.path(), &["test", "."]));
    assert!(text.contains("FAIL an unusable") && !text.contains("cases/rejected.yaml\n"), "{text}");
    fs::remove_file(dir.path().join("cases/rejected.yaml")).unwrap();
    fs::remove_dir_all(dir.path().join("crds")).unwrap();
    let output = hotshoe(dir.path(), &["test", "."]);
    assert!(output.status.success() && stderr(&output).contains("no round trip was tried"), "{}", stderr(&output));
    let crd = "spec: {group: example.com, names: {kind: Test}, versions: [{name: v1}, {name: v3}]}\n";
    fs::create_dir(dir.path().join("crds")).unwrap();
    fs::write(dir.path().join("crds/tests.yaml"), crd).unwrap();
    let text = stdout(&hotshoe(dir.path(), &["test", "."]));
    assert!(text.contains("\nok   v1 → v3 → v1: cases/empty.yaml\n"), "{text}");
    assert!(
        text.contains(" objects made from crds/tests.yaml\n") && text.ends_with("\n4 passed, 0 failed\n"),
        "{text}"
    );
}

#[test]
fn a_sample_of_an_unknown_version_is_one_error() {
    let dir = versions(&converting(""));
    let crd = "spec: {group: example.com, names: {kind: Test}, versions: [{name: v1}, {name: v3}]}\n";
    fs::write(dir.path().join("crds/tests.yaml"), crd).unwrap();
    let text = stdout(&hotshoe(dir.path(), &["test", "."]));
    let why = "the API server would refuse it: apiVersion: crds/tests.yaml has no version example.com/v2, only \
               example.com/v1, example.com/v3\n";
    assert!(text.contains(&format!("FAIL valid by its CRD: crds/samples/test.yaml\n     {why}")), "{text}");
    assert!(text.ends_with("\n4 passed, 1 failed\n"), "{text}");
}

#[test]
fn what_no_object_can_be_made_of_is_left_out_with_one_warning() {
    let dir = versions(&converting(""));
    fs::remove_dir_all(dir.path().join("crds/samples")).unwrap();
    let schema = "{openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {\
        word: {type: string, pattern: '^(((a{1000}){1000}){1000})$'}, size: {type: integer}}}}}}";
    let crd = format!(
        "spec: {{group: example.com, names: {{kind: Test}}, versions: [\
         {{name: v1, schema: {schema}}}, {{name: v2, schema: {schema}}}, {{name: v3, schema: {schema}}}]}}\n"
    );
    fs::write(dir.path().join("crds/tests.yaml"), crd).unwrap();
    let output = hotshoe(dir.path(), &["test", "."]);
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    let warning =
        "warning: the objects made from the schema of v1 have no spec.word, because its pattern is too large\n";
    assert_eq!(stderr(&output).matches(warning).count(), 1, "{}", stderr(&output));
}

#[test]
fn a_sample_without_a_name_or_a_known_kind_fails_and_one_of_another_group_is_not_checked() {
    let dir = defined(&format!("{CASE}{EXPECTED}"));
    let sample = |name: &str, text: &str| fs::write(dir.path().join("crds/samples").join(name), text).unwrap();
    sample("nameless.yaml", "apiVersion: example.com/v1\nkind: Test\nspec: {size: 1}\n");
    sample("generated.yaml", "apiVersion: example.com/v1\nkind: Test\nmetadata: {generateName: a-}\n");
    sample("misspelt.yaml", "apiVersion: example.com/v1\nkind: Tset\nmetadata: {name: a}\n");
    sample("nothing.yaml", "spec: {size: 1}\n");
    sample("kustomization.yaml", "resources: [nameless.yaml]\n");
    sample("other.yaml", "---\n---\napiVersion: other.example.org/v1\nkind: Other\nmetadata: {name: a}\n");
    sample("built-in.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n");
    let output = hotshoe(dir.path(), &["test", "."]);
    let (text, said) = (stdout(&output), stderr(&output));
    for failure in [
        "valid by its CRD: crds/samples/nameless.yaml\n     the API server would refuse it: metadata.name: Required value",
        "has a known kind: crds/samples/misspelt.yaml\n     there is no CRD of Tset.example.com in crds/; correct the kind",
        "has a known kind: crds/samples/nothing.yaml\n     it has no apiVersion or no kind",
    ] {
        assert!(text.contains(&format!("FAIL {failure}")), "{text}");
    }
    assert!(text.ends_with("2 passed, 3 failed\n"), "{text}");
    let warning = "there is no CRD of Other.other.example.org in crds/, so crds/samples/other.yaml was not checked";
    assert_eq!(said.matches("was not checked").count(), 2, "the other one is of the rule: {said}");
    assert!(said.contains(warning), "{said}");
}

#[test]
fn a_crd_without_one_stored_version_fails() {
    let dir = defined(&format!("{CASE}{EXPECTED}"));
    let crd = |first: bool, second: bool| {
        format!(
            "kind: CustomResourceDefinition\nspec:\n  versions: [{{name: v1, storage: {first}}}, {{name: v2, storage: {second}}}]\n"
        )
    };
    for (first, second, count) in [(false, false, 0), (true, true, 2)] {
        fs::write(dir.path().join("crds/other.yaml"), crd(first, second)).unwrap();
        let text = stdout(&hotshoe(dir.path(), &["test", "."]));
        let why =
            format!("FAIL has one stored version: crds/other.yaml\n     {count} of spec.versions say `storage: true`");
        assert!(text.contains(&why) && text.ends_with("1 passed, 1 failed\n"), "{text}");
    }
    fs::write(dir.path().join("crds/other.yaml"), crd(true, false)).unwrap();
    assert!(hotshoe(dir.path(), &["test", "."]).status.success());
}

#[test]
fn a_rule_that_needs_too_much_memory_or_time_is_named_and_what_was_found_before_it_stays() {
    let dir = defined(&format!("{CASE}  spec: {{size: -1}}\n{EXPECTED}"));
    let crd = dir.path().join("crds/tests.yaml");
    let text = fs::read_to_string(&crd).unwrap();
    let replaced = format!("'aaaaaaaaaa'{}", ".replace('a', 'aaaaaaaaaa')".repeat(8));
    let list = format!("[{}]", (0..40).map(|number| number.to_string()).collect::<Vec<_>>().join(", "));
    let looped = ["a", "b", "c", "d", "e"]
        .iter()
        .fold("a > -1".to_owned(), |inner, name| format!("{list}.all({name}, {inner})"));
    for rule in [format!("{replaced} != \"\""), looped.replace("a > -1", "e > -1")] {
        fs::write(&crd, text.replace("cel.bind(s, self, s < 9)", &rule.replace('\'', "''"))).unwrap();
        let output = hotshoe(dir.path(), &["test", "."]);
        let (text, said) = (stdout(&output), stderr(&output));
        assert!(text.contains("would refuse this object: spec.size: no negative size\n"), "{text}{said}");
        assert!(
            said.contains(&format!("the rule `{rule}` was not checked: it takes more than 5 s or 768 MiB")),
            "{said}"
        );
    }
}

#[test]
fn a_field_that_a_round_trip_loses_is_named_with_its_object_and_fails() {
    let dir = versions(&forgetting());
    let output = hotshoe(dir.path(), &["test", "."]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains("FAIL v1 → v2 → v1: cases/empty.yaml\n     spec: {\"size\":1} is lost\n"), "{text}");
    assert!(text.contains("     the object: {\"apiVersion\":\"example.com/v1\",\"kind\":\"Test\""), "{text}");
    assert!(text.ends_with("\n1 passed, 2 failed\n"), "{text}");
    let records = stdout(&hotshoe(dir.path(), &["test", ".", "-o", "json"]));
    let records: serde_json::Value = serde_json::from_str(&records).unwrap();
    assert_eq!(records[1]["error"], "spec: {\"size\":1} is lost");
    assert_eq!(records[1]["object"]["spec"]["size"], 1);
}

#[test]
fn a_conversion_that_a_host_denies_fails_with_its_reason() {
    let dir = versions(&Guest { convert: Some("unreachable".into()), ..Guest::default() });
    let output = hotshoe(dir.path(), &["test", "."]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains("     to v2: Trapped: the plugin trapped"), "{text}");
}

/// A plugin's folder with the CRD of its parents, in which a size is at most 3 and never smaller than before.
fn defined(case: &str) -> TempDir {
    let dir = plugin(&Guest::default(), case);
    fs::create_dir_all(dir.path().join("crds/samples")).unwrap();
    let crd = "\
        spec:\n  group: example.com\n  names: {kind: Test}\n  versions:\n  - name: v1\n    schema: {openAPIV3Schema: {type: object, properties: {\
        metadata: {type: object}, spec: {type: object, default: {}, properties: {size: {type: integer, default: 1, maximum: 3, \
        x-kubernetes-validations: [{rule: self >= 0, message: no negative size}, {rule: 'cel.bind(s, self, s < 9)'}]}}}}}}\n";
    fs::write(dir.path().join("crds/tests.yaml"), crd).unwrap();
    dir
}

#[test]
fn a_case_fails_whose_object_the_api_server_would_refuse_unless_it_says_so() {
    let sized = |size: &str, more: &str| format!("{CASE}  spec: {{size: {size}}}\n{more}{EXPECTED}");
    let run = |case: &str, options: &[&str]| {
        let dir = defined(case);
        let output = hotshoe(dir.path(), &[&["test", "."], options].concat());
        (stdout(&output), stderr(&output), fs::read_to_string(dir.path().join("cases/empty.yaml")).unwrap())
    };
    let (text, said, _) = run(&format!("{CASE}{EXPECTED}"), &[]);
    assert!(text.ends_with("1 passed, 0 failed\n"), "{text}");
    let notice =
        "crds/tests.yaml: spec.size: the rule `cel.bind(s, self, s < 9)` was not checked: `bind` is not known here";
    assert_eq!(said.matches(notice).count(), 1, "{said}");
    for (size, why) in [
        ("4", "spec.size: should be less than or equal to 3, but it is 4"),
        ("-1", "spec.size: no negative size"),
        ("'3'", "spec.size: must be of type integer, but it is \"3\""),
        ("1, sise: 2", "spec.sise: unknown field"),
    ] {
        let (text, ..) = run(&sized(size, ""), &[]);
        assert!(text.contains(&format!("     the API server would refuse this object: {why}\n")), "{text}");
        let (text, ..) = run(&sized(size, "valid: false\n"), &[]);
        assert!(text.ends_with("1 passed, 0 failed\n"), "{text}");
    }
    let (text, ..) = run(&sized("3", "valid: false\n"), &[]);
    assert!(text.contains("it says `valid: false`, but the object is valid by the CRD"), "{text}");
    let unexpected = format!("{CASE}  spec: {{size: 4}}\n");
    let (text, ..) = run(&unexpected, &["--accept"]);
    assert!(text.contains("not accepted, because the answer is a failure") && text.contains("refused:"), "{text}");
    let (text, _, case) = run(&unexpected, &["--accept-failures"]);
    assert!(text.ends_with("1 passed, 0 failed\n") && case.contains("  refused:\n"), "{text}{case}");
    let (text, ..) = run(&case, &[]);
    assert!(text.ends_with("1 passed, 0 failed\n"), "{text}");
    let (text, _, replaced) = run(&sized("4", ""), &["--accept-failures"]);
    assert!(
        text.ends_with("1 passed, 0 failed\n") && replaced == case,
        "in the place of another one: {text}{replaced}"
    );
    let (text, ..) = run(&case.replace("size: 4", "size: 5"), &[]);
    assert!(text.contains("+     message: should be less than or equal to 3, but it is 5"), "{text}");
    let (text, ..) = run(&case.replace("size: 4", "size: 3"), &[]);
    assert!(text.contains("+ decided:"), "{text}");
}

#[test]
fn a_sample_that_the_api_server_would_refuse_fails_and_a_refused_object_is_not_put_into_the_component() {
    let dir = defined(&format!("{CASE}  spec: {{size: 4}}\nexpect: {{refused: [{{field: spec.size, message: x}}]}}\n"));
    let sample = "apiVersion: example.com/v1\nkind: Test\nmetadata: {name: A}\nspec: {size: 1}\n";
    fs::write(dir.path().join("crds/samples/test.yaml"), sample).unwrap();
    let text = stdout(&hotshoe(dir.path(), &["test", "."]));
    assert!(text.contains(
        "FAIL valid by its CRD: crds/samples/test.yaml\n     the API server would refuse it: metadata.name:"
    ));
    assert!(text.ends_with("0 passed, 2 failed\n"), "{text}");
    let built = hotshoe(dir.path(), &["build", ".", "--from", "demo.wasm", "--out", "built/"]);
    assert!(stdout(&built).contains(", 0 cases"), "{}{}", stdout(&built), stderr(&built));
    fs::remove_dir_all(dir.path().join("crds")).unwrap();
    let output = hotshoe(dir.path(), &["test", "."]);
    assert!(stdout(&output).contains("there is no CRD of Test.example.com in crds/"), "{}", stdout(&output));
    assert!(stderr(&output).contains("was not checked"), "{}", stderr(&output));
}

#[test]
fn an_answer_can_be_accepted_and_then_passes() {
    let dir = plugin(&Guest::default(), CASE);
    assert_eq!(hotshoe(dir.path(), &["test", "."]).status.code(), Some(1));
    assert!(hotshoe(dir.path(), &["test", ".", "--accept"]).status.success());
    let text = fs::read_to_string(dir.path().join("cases/empty.yaml")).unwrap();
    assert!(text.starts_with(CASE) && text.contains("exactly: []"), "{text}");
    assert!(hotshoe(dir.path(), &["test", "."]).status.success());
}

/// A plugin that rejects every parent.
fn rejecting() -> Guest {
    let fields = r#"
        (data (i32.const 0x700) "\01\00\00\00\00\00\00\00" "\01\00\00\00\00\00\00\00" "\80\07\00\00\04\00\00\00")
        (data (i32.const 0x780) "nope")"#;
    Guest { reconcile: "(i32.const 0x700)".into(), fields: fields.into(), ..Guest::default() }
}

#[test]
fn a_rejection_is_accepted_only_where_that_is_asked_for() {
    let dir = plugin(&rejecting(), CASE);
    let output = hotshoe(dir.path(), &["test", ".", "--accept"]);
    let text = stdout(&output);
    assert!(!output.status.success() && text.contains("--accept-failures") && text.contains("nope"), "{text}");
    assert!(text.ends_with("0 passed, 1 failed\n"), "{text}");
    assert_eq!(fs::read_to_string(dir.path().join("cases/empty.yaml")).unwrap(), CASE, "nothing is written");
    let output = hotshoe(dir.path(), &["test", ".", "--accept-failures"]);
    assert!(output.status.success(), "{}", stdout(&output));
    assert!(stderr(&output).contains("accepted: 1, 1 of them a failure"), "{}", stderr(&output));
    let case = fs::read_to_string(dir.path().join("cases/empty.yaml")).unwrap();
    assert!(case.contains("reject:") && case.contains("message: nope"), "{case}");
    // The case says that a failure is expected.
    fs::write(dir.path().join("cases/empty.yaml"), case.replace("message: nope", "message: no")).unwrap();
    assert!(hotshoe(dir.path(), &["test", ".", "--accept"]).status.success());
}

#[test]
fn an_answer_that_a_host_denies_is_not_accepted() {
    let children = "children: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}]\n";
    let dir = plugin(&owner_of_config_maps(), &format!("{CASE}{children}"));
    let output = hotshoe(dir.path(), &["test", ".", "--accept"]);
    let text = stdout(&output);
    assert!(!output.status.success() && text.contains("not accepted, because a host denies the answer"), "{text}");
    assert!(!fs::read_to_string(dir.path().join("cases/empty.yaml")).unwrap().contains("expect"));
}

#[test]
fn a_component_carries_the_cases_that_pass_and_the_others_are_named_with_the_reason() {
    let dir = plugin(&owner_of_config_maps(), &format!("{CASE}{EXPECTED}"));
    let more = |name: &str, text: &str| {
        let case = CASE.replace("an empty answer", name);
        fs::write(dir.path().join(format!("cases/{name}.yaml")), format!("{case}{text}")).unwrap();
    };
    let children = "children: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}]\n";
    more("nothing expected", "");
    more("other", "expect: {other: x}\n");
    more("denied", &format!("{children}{EXPECTED}"));
    more("unread", &format!("related: {{pod: []}}\n{EXPECTED}"));
    let output = hotshoe(dir.path(), &["build", ".", "--from", "demo.wasm", "--out", "built.wasm"]);
    assert!(
        output.status.success() && stdout(&output).ends_with(", 1 case\n"),
        "{}{}",
        stdout(&output),
        stderr(&output)
    );
    let warning = stderr(&output);
    assert!(warning.contains("3 of 5 cases do not pass"), "{warning}");
    assert!(!warning.contains("- nothing expected"), "{warning}");
    assert!(warning.contains("\n1 case expects nothing yet: `hotshoe test "), "{warning}");
    for why in [
        "other: the answer is another than expected",
        "denied: the decision is denied",
        "unread: the case cannot be used: related has the key \"pod\"",
    ] {
        assert!(warning.contains(&format!("  - {why}")), "{why}: {warning}");
    }
    let output = hotshoe(dir.path(), &["test", ".", "unread"]);
    let text = stdout(&output);
    assert!(!output.status.success() && text.contains("it declares no key"), "{text}");
}

#[test]
fn the_component_that_was_tested_carries_what_is_accepted_without_another_build() {
    let dir = other_language();
    let case = |name: &str, text: &str| {
        let text = format!("{}{text}", CASE.replace("an empty answer", name));
        fs::write(dir.path().join(format!("plugins/demo/cases/{name}.yaml")), text).unwrap();
    };
    case("first", "");
    case("second", "");
    case("wrong", "expect: {other: x}\n");
    let built = hotshoe(dir.path(), &["build", "plugins/demo", "--from", "core.wasm"]);
    let said = stderr(&built);
    assert!(
        said.ends_with(
            "2 cases expect nothing yet: `hotshoe test plugins/demo --accept` takes what the component answers\n"
        ),
        "{said}"
    );
    let (product, other) = (dir.path().join("target/plugins/demo.wasm"), dir.path().join("again.wasm"));
    let accept = |words: &[&str]| hotshoe(dir.path(), &[&["test", "plugins/demo", "--accept"], words].concat());
    // What was not run stays as it is carried.
    let accepted = accept(&["first"]);
    assert!(stderr(&accepted).contains("accepted: 1; target/plugins/demo.wasm carries 2 cases now\n"), "{accepted:?}");
    assert!(hotshoe(dir.path(), &["test", "plugins/demo", "first"]).status.success());
    let accepted = accept(&[]);
    assert!(stderr(&accepted).contains("accepted: 2; target/plugins/demo.wasm carries 4 cases now\n"), "{accepted:?}");
    hotshoe(dir.path(), &["build", "plugins/demo", "--from", "core.wasm", "--out", "again.wasm"]);
    assert_eq!(fs::read(&product).unwrap(), fs::read(&other).unwrap());
    // A component that is older than its source carries what it did.
    fs::write(dir.path().join("plugins/demo/plugin.go"), "").unwrap();
    let source = fs::File::options().append(true).open(dir.path().join("plugins/demo/plugin.go")).unwrap();
    source.set_modified(std::time::SystemTime::now() + std::time::Duration::from_secs(1000)).unwrap();
    case("third", "");
    let accepted = accept(&[]);
    assert!(
        stderr(&accepted).contains("accepted: 1; the component carries them once it is built again"),
        "{accepted:?}"
    );
    assert_eq!(fs::read(&product).unwrap(), fs::read(&other).unwrap());
}

#[test]
fn the_only_plugin_is_the_default_and_of_several_one_is_to_be_named() {
    let dir = other_language();
    assert!(hotshoe(dir.path(), &["build", "plugins/demo", "--from", "core.wasm"]).status.success());
    for verb in ["build", "test"] {
        let output = hotshoe(dir.path(), &[verb]);
        assert!(output.status.success(), "{verb}: {}", stderr(&output));
    }
    fs::create_dir(dir.path().join("plugins/other")).unwrap();
    fs::write(dir.path().join("plugins/other/plugin.yaml"), MANIFEST).unwrap();
    for verb in ["build", "test"] {
        let output = hotshoe(dir.path(), &[verb]);
        assert!(
            !output.status.success() && stderr(&output).contains("plugins/demo, plugins/other"),
            "{}",
            stderr(&output)
        );
        let output = hotshoe(dir.path(), &[verb, "plugins/dmeo"]);
        assert!(
            stderr(&output).contains("there is no plugin") && stderr(&output).contains("plugins/demo"),
            "{}",
            stderr(&output)
        );
    }
    let output = hotshoe(dir.path(), &["run", "plugins/dmeo"]);
    assert!(stderr(&output).contains("there are plugins/demo, plugins/other"), "{}", stderr(&output));
}

#[test]
fn a_plugin_with_several_names_is_noted() {
    let dir = other_language();
    hotshoe(dir.path(), &["build", "plugins/demo", "--from", "core.wasm"]);
    fs::rename(dir.path().join("plugins/demo"), dir.path().join("plugins/dmeo")).unwrap();
    let output = hotshoe(dir.path(), &["test", "plugins/dmeo"]);
    let note = "the plugin is \"demo\" in plugin.yaml, but its folder \"dmeo\" and its component \"test\"";
    assert!(output.status.success() && stderr(&output).contains(note), "{}", stderr(&output));
}

#[test]
fn a_trap_in_a_case_is_reported() {
    let dir = plugin(&reconcile("unreachable"), &format!("{CASE}{EXPECTED}"));
    let output = hotshoe(dir.path(), &["test", ".", "-o", "json"]);
    assert_eq!(output.status.code(), Some(1));
    let results: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(results[0]["passed"], false);
    assert!(results[0]["error"].as_str().unwrap().contains("trapped"));
}

#[test]
fn no_cases_is_an_error_that_says_where_one_would_be() {
    let dir = plugin(&Guest::default(), CASE);
    let output = hotshoe(dir.path(), &["test", ".", "nothing like it"]);
    assert!(stderr(&output).contains("no case in"), "{}", stderr(&output));
    fs::remove_file(dir.path().join("cases/empty.yaml")).unwrap();
    let output = hotshoe(dir.path(), &["test", "."]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("cases/NAME.yaml"), "{}", stderr(&output));
}

#[test]
fn an_answer_that_a_host_would_refuse_fails_the_case() {
    let children = "children: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}]\n";
    let dir = plugin(&owner_of_config_maps(), &format!("{CASE}{children}{EXPECTED}"));
    let output = hotshoe(dir.path(), &["test", "."]);
    let text = stdout(&output);
    assert!(!output.status.success() && text.contains("a host denies that"), "{text}{}", stderr(&output));
    assert!(text.contains("would delete 1 children") && text.contains("spec:\n         pruneAll: true"), "{text}");
    fs::write(dir.path().join("plugin.yaml"), format!("{MANIFEST}  pruneAll: true\n")).unwrap();
    assert!(hotshoe(dir.path(), &["test", "."]).status.success());
}

#[test]
fn a_variable_that_hosts_keep_from_plugins_is_reported_where_cases_are_run() {
    let dir = plugin(&Guest::default(), &format!("{CASE}{EXPECTED}"));
    fs::write(dir.path().join("plugin.yaml"), format!("{MANIFEST}  config: {{fromEnv: {{key: DATABASE_PASSWORD}}}}\n"))
        .unwrap();
    let output = hotshoe(dir.path(), &["test", "."]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("--allow-env DATABASE_PASSWORD"), "{}", stderr(&output));
}

#[test]
fn cases_of_a_plugin_that_uses_such_a_variable_are_still_checked_against_its_grant() {
    let children = "children: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}]\n";
    let dir = plugin(&owner_of_config_maps(), &format!("{CASE}{children}{EXPECTED}"));
    fs::write(dir.path().join("plugin.yaml"), format!("{MANIFEST}  config: {{fromEnv: {{key: DATABASE_PASSWORD}}}}\n"))
        .unwrap();
    let output = hotshoe(dir.path(), &["test", "."]);
    assert!(stdout(&output).contains("pruneAll: true"), "{}{}", stdout(&output), stderr(&output));
}

const GRANTS: &str = "  grants:\n  - {kind: ConfigMap, verbs: [get, list, watch, create, update], names: [a-*]}\n";

#[test]
fn missing_grants_are_printed_and_fail_the_command() {
    let dir = plugin(&owner_of_config_maps(), CASE);
    let output = hotshoe(dir.path(), &["grants", "."]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stdout(&output).contains("watch   yes    no     missing: add it to spec.grants"), "{}", stdout(&output));
    let missing = "add to plugin.yaml:\nspec:\n  grants:\n    - kind: ConfigMap\n      verbs: [get, list, watch, create, update]\n";
    assert!(stdout(&output).ends_with(missing), "{}", stdout(&output));
    // The printed grants are just those that are missing.
    let pasted = MANIFEST.replace("spec:\n", missing.split_once('\n').unwrap().1);
    fs::write(dir.path().join("plugin.yaml"), pasted).unwrap();
    let output = hotshoe(dir.path(), &["grants", "."]);
    assert!(output.status.success() && !stdout(&output).contains("add to"), "{}{}", stdout(&output), stderr(&output));
    fs::write(dir.path().join("plugin.yaml"), format!("{MANIFEST}{GRANTS}")).unwrap();
    let output = hotshoe(dir.path(), &["grants", ".", "-o", "json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let lines: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    let expected = serde_json::json!({
        "plugin": "demo", "kind": "ConfigMap", "verb": "watch", "asked": true, "given": true, "note": "named a-*",
    });
    assert!(lines.as_array().unwrap().contains(&expected), "{lines:#}");
}

#[test]
fn grants_and_rights_are_those_of_the_plugins_here_where_none_is_named() {
    let dir = plugin(&owner_of_config_maps(), CASE);
    fs::write(dir.path().join("plugin.yaml"), format!("{MANIFEST}{GRANTS}")).unwrap();
    for verb in [&["grants"][..], &["rbac", "--offline"]] {
        let unnamed = hotshoe(dir.path(), verb);
        assert!(unnamed.status.success() && stdout(&unnamed).contains("demo"), "{verb:?}: {}", stderr(&unnamed));
        assert_eq!(stdout(&unnamed), stdout(&hotshoe(dir.path(), &[verb, &["."]].concat())), "{verb:?}");
        let nothing = tempfile::tempdir().unwrap();
        let said = stderr(&hotshoe(nothing.path(), verb));
        assert!(said.contains("no plugin is named, and there is none in plugins/"), "{verb:?}: {said}");
    }
}

#[test]
fn a_command_that_lacks_something_names_each_way_to_give_it() {
    let dir = tempfile::tempdir().unwrap();
    let plan = hotshoe(dir.path(), &["plan"]);
    assert_eq!(plan.status.code(), Some(2));
    assert!(stderr(&plan).contains("<--filename <FILE>|--from <KIND/NAME>>"), "{}", stderr(&plan));
    for verb in ["history", "reload"] {
        let said = stderr(&hotshoe(dir.path(), &[verb, "--socket", "none"]));
        assert!(said.contains("no host answers on") && said.contains(&format!("-- /hotshoe {verb} …")), "{said}");
    }
}

#[test]
fn the_parent_that_is_asked_for_is_printed_beside_the_one_that_is_granted() {
    let dir = plugin(&owner_of_config_maps(), CASE);
    let with = |parent: &str| {
        fs::write(dir.path().join("plugin.yaml"), format!("{MANIFEST}{GRANTS}{parent}")).unwrap();
        let output = hotshoe(dir.path(), &["grants", "."]);
        let line = stdout(&output).lines().find(|line| line.contains(" parent ")).unwrap_or_default().to_owned();
        (output.status.success(), line.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    let not_named =
        "demo Test.example.com parent yes yes not named in spec.parent; it may be any custom kind of no other plugin";
    assert_eq!(with(""), (true, not_named.to_owned()));
    let named = "  parent: {group: example.com, kind: Test}\n";
    assert_eq!(with(named), (true, "demo Test.example.com parent yes yes".to_owned()));
    let other = "  parent: {kind: Pod}\n";
    assert_eq!(with(other), (false, "demo Test.example.com parent yes no missing: spec.parent names Pod".to_owned()));
}

#[test]
fn rights_are_printed_without_a_cluster_with_a_note_on_what_rbac_cannot_express() {
    let dir = plugin(&owner_of_config_maps(), CASE);
    fs::write(dir.path().join("plugin.yaml"), format!("{MANIFEST}{GRANTS}")).unwrap();
    let output = hotshoe(dir.path(), &["rbac", ".", "--offline", "--namespace", "there", "--host-account", "runner"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let (text, notes) = (stdout(&output), stderr(&output));
    assert!(text.starts_with("# ") && text.matches("\n---\n").count() == 12, "{text}");
    assert!(text.matches("  name: runner-closes-there\n").count() == 2, "the policy and its binding: {text}");
    assert!(text.contains("  name: runner-demo\n") && text.contains("  namespace: there\n"), "{text}");
    assert!(notes.contains("RBAC has no patterns"), "{notes}");
    let output = hotshoe(dir.path(), &["rbac", ".", "--offline", "--watch-namespace", "a", "-o", "json"]);
    let list: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    let kinds: Vec<_> = list["items"].as_array().unwrap().iter().map(|item| item["kind"].as_str().unwrap()).collect();
    assert!(!kinds.contains(&"ClusterRole") && kinds.contains(&"Role"), "{kinds:?}");
}

#[test]
fn the_manifests_of_a_host_are_its_rights_and_a_deployment_of_its_plugins() {
    let dir = plugin(&owner_of_config_maps(), CASE);
    fs::write(dir.path().join("plugin.yaml"), format!("{MANIFEST}{GRANTS}")).unwrap();
    let output = hotshoe(dir.path(), &["manifests", ".", "--offline", "--image", "example.com/demo:1"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let (text, rights) = (stdout(&output), stdout(&hotshoe(dir.path(), &["rbac", ".", "--offline"])));
    assert!(text.starts_with("# ") && text.contains(&format!("{rights}---\napiVersion: apps/v1\n")), "{text}");
    let folder = dir.path().canonicalize().unwrap();
    let folder = folder.file_name().unwrap().to_str().unwrap();
    let arguments = text.lines().find(|line| line.contains(" args: ")).unwrap();
    assert!(arguments.contains(&format!("/plugins/{folder}")) && arguments.contains("--follow"), "{arguments}");
    assert!(text.contains("          image: example.com/demo:1\n"), "{text}");
    let output = hotshoe(dir.path(), &["manifests"]);
    assert!(output.status.code() == Some(2) && stderr(&output).contains("<PLUGIN>"), "{}", stderr(&output));
}

#[test]
fn no_rights_are_printed_for_a_component_that_asks_for_more_than_it_is_granted() {
    let dir = plugin(&owner_of_config_maps(), CASE);
    let not_given =
        "error: the plugin demo asks for more than it is granted: get, list, watch, create, update on ConfigMap";
    let other_parent = "granted: Test.example.com as its parent, where spec.parent names Pod";
    let lines = ["    - kind: ConfigMap\n", "  parent: {group: example.com, kind: Test}\n"];
    let cases = [("", not_given, lines[0]), (&*format!("{GRANTS}  parent: {{kind: Pod}}\n"), other_parent, lines[1])];
    for (more, says, lines) in cases {
        fs::write(dir.path().join("plugin.yaml"), format!("{MANIFEST}{more}")).unwrap();
        let output = hotshoe(dir.path(), &["rbac", ".", "--offline"]);
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(1), ""));
        assert!(stderr(&output).contains(says) && stderr(&output).contains(lines), "{}", stderr(&output));
    }
}

#[test]
fn an_unbuilt_component_is_an_error_that_says_how_to_build_it() {
    let dir = plugin(&Guest::default(), CASE);
    fs::remove_file(dir.path().join("demo.wasm")).unwrap();
    let output = hotshoe(dir.path(), &["test", "."]);
    assert!(stderr(&output).contains("hotshoe build"), "{}", stderr(&output));
}

#[test]
fn a_core_module_becomes_a_component_with_the_same_bytes_each_time() {
    let dir = folder();
    fs::write(dir.path().join("plugin.wasm"), Guest::default().core_module()).unwrap();
    for out in ["a.wasm", "b.wasm"] {
        let output = hotshoe(dir.path(), &["build", "--from", "plugin.wasm", "--out", out]);
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(stdout(&output).starts_with(&format!("{out}: ")), "{}", stdout(&output));
    }
    assert_eq!(fs::read(dir.path().join("a.wasm")).unwrap(), fs::read(dir.path().join("b.wasm")).unwrap());
    let core = wat::parse_str("(module)").unwrap();
    fs::write(dir.path().join("core.wasm"), core).unwrap();
    let output = hotshoe(dir.path(), &["build", "--from", "core.wasm", "--out", "c.wasm"]);
    assert!(!output.status.success() && !dir.path().join("c.wasm").exists());
}

#[test]
fn a_component_that_a_host_would_refuse_is_not_built() {
    let dir = folder();
    let foreign = r#"(component (import "wasi:io/error@0.2.0" (instance (export "error" (func)))))"#;
    fs::write(dir.path().join("x.wasm"), wat::parse_str(foreign).unwrap()).unwrap();
    let output = hotshoe(dir.path(), &["build", "--from", "x.wasm", "--out", "y.wasm"]);
    assert!(stderr(&output).contains("wasi:io/error@0.2.0#error"), "{}", stderr(&output));
    assert!(!dir.path().join("y.wasm").exists());
}

/// A workspace whose plugin is not a crate, with the products of other tools: a core module and a component.
fn other_language() -> TempDir {
    let dir = folder();
    fs::create_dir_all(dir.path().join("plugins/demo/cases")).unwrap();
    for file in ["Cargo.toml", "plugins/Cargo.toml"] {
        fs::write(dir.path().join(file), "").unwrap();
    }
    fs::write(dir.path().join("plugins/demo/plugin.yaml"), MANIFEST).unwrap();
    fs::write(dir.path().join("plugins/demo/cases/empty.yml"), format!("{CASE}{EXPECTED}")).unwrap();
    fs::write(dir.path().join("core.wasm"), Guest::default().core_module()).unwrap();
    fs::write(dir.path().join("component.wasm"), Guest::default().component()).unwrap();
    dir
}

#[test]
fn a_component_of_other_tools_goes_where_a_crates_product_goes_with_the_cases_of_the_folder() {
    for made in ["core.wasm", "component.wasm"] {
        let dir = other_language();
        let output = hotshoe(dir.path(), &["build", "plugins/demo", "--from", made]);
        let text = stdout(&output);
        assert!(text.starts_with("target/plugins/demo.wasm: ") && text.ends_with(", 1 case\n"), "{}", stderr(&output));
        let carried = fs::read(dir.path().join("target/plugins/demo.wasm")).unwrap();
        assert!(carried.windows(13).any(|bytes| bytes == b"hotshoe:cases"), "{made}");
        let output = hotshoe(dir.path(), &["test", "plugins/demo"]);
        assert!(output.status.success(), "{}", stderr(&output));
    }
}

#[test]
fn a_plugin_without_a_crate_is_built_where_its_component_is_there() {
    let dir = other_language();
    let command = "hotshoe build plugins/demo --from FILE";
    for verb in ["build", "test"] {
        let output = hotshoe(dir.path(), &[verb, "plugins/demo"]);
        assert!(stderr(&output).contains(command) && !output.status.success(), "{verb}: {}", stderr(&output));
    }
    assert!(hotshoe(dir.path(), &["build", "plugins/demo", "--from", "core.wasm"]).status.success());
    let built = fs::read(dir.path().join("target/plugins/demo.wasm")).unwrap();
    let output = hotshoe(dir.path(), &["build", "plugins/demo", "--out", "copy.wasm"]);
    assert!(stdout(&output).contains("as it is, for plugins/demo has no Cargo.toml"), "{}", stderr(&output));
    assert_eq!(fs::read(dir.path().join("copy.wasm")).unwrap(), built);
    fs::write(dir.path().join("target/plugins/demo.wasm"), "no component").unwrap();
    let output = hotshoe(dir.path(), &["build", "plugins/demo"]);
    assert!(stderr(&output).contains("cannot use target/plugins/demo.wasm"), "{}", stderr(&output));
}

#[test]
fn a_component_of_other_tools_is_checked_against_the_limits_of_its_folder() {
    let dir = other_language();
    let manifest = format!("{MANIFEST}  limits: {{componentBytes: 8}}\n");
    fs::write(dir.path().join("plugins/demo/plugin.yaml"), manifest).unwrap();
    let output = hotshoe(dir.path(), &["build", "plugins/demo", "--from", "component.wasm"]);
    let text = stderr(&output);
    assert!(text.contains("cannot use component.wasm") && text.contains("limits.componentBytes"), "{text}");
    assert!(!dir.path().join("target").exists());
}

#[test]
fn a_component_is_built_where_plugin_yaml_points_to() {
    let dir = other_language();
    let manifest = MANIFEST.replace("demo.wasm", "other.wasm");
    fs::write(dir.path().join("plugins/demo/plugin.yaml"), manifest).unwrap();
    let output = hotshoe(dir.path(), &["build", "plugins/demo", "--from", "core.wasm"]);
    assert!(stdout(&output).starts_with("target/plugins/other.wasm: "), "{}", stderr(&output));
    assert!(hotshoe(dir.path(), &["test", "plugins/demo"]).status.success());
    fs::write(dir.path().join("plugins/demo/other.wasm"), "").unwrap();
    let output = hotshoe(dir.path(), &["build", "plugins/demo", "--from", "core.wasm"]);
    assert!(stderr(&output).contains("read plugins/demo/other.wasm instead of it"), "{}", stderr(&output));
}

#[test]
fn a_build_without_a_folder_needs_an_output_path() {
    let dir = other_language();
    let output = hotshoe(dir.path(), &["build", "--from", "core.wasm"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--out") && stderr(&output).contains("Usage:"), "{}", stderr(&output));
}

#[test]
fn an_accepted_answer_is_embedded_by_the_next_build_and_the_output_says_so() {
    let dir = plugin(&Guest::default(), CASE);
    let output = hotshoe(dir.path(), &["test", ".", "--accept"]);
    assert!(
        stderr(&output).contains("accepted: 1") && stderr(&output).contains("hotshoe build"),
        "{}",
        stderr(&output)
    );
    let output = hotshoe(dir.path(), &["test", ".", "--accept"]);
    assert!(output.status.success() && !stderr(&output).contains("accepted"), "{}", stderr(&output));
}

#[test]
fn a_measurement_without_calls_is_refused() {
    let dir = plugin(&Guest::default(), CASE);
    assert_eq!(hotshoe(dir.path(), &["test", ".", "--bench", "0"]).status.code(), Some(2));
}

#[test]
fn a_measurement_prints_the_floor_beside_the_decisions() {
    let dir = plugin(&Guest::default(), CASE);
    let output = hotshoe(dir.path(), &["test", ".", "--bench", "2"]);
    let text = stdout(&output);
    let timed: Vec<_> = text.lines().filter(|line| line.contains("p50")).collect();
    assert_eq!(timed.len(), 2, "{text}{}", stderr(&output));
    assert!(timed.first().is_some_and(|line| line.starts_with("floor")), "{text}");
}

#[test]
fn results_are_printed_for_scripts_in_two_forms() {
    let dir = plugin(&Guest::default(), &format!("{CASE}{EXPECTED}"));
    for (output, begins) in [("json", "["), ("yaml", "- ")] {
        let output = hotshoe(dir.path(), &["test", ".", "-o", output]);
        assert!(stdout(&output).starts_with(begins), "{}{}", stdout(&output), stderr(&output));
    }
}

#[test]
fn completion_offers_no_hidden_command() {
    let dir = folder();
    let script = stdout(&hotshoe(dir.path(), &["completion", "bash"]));
    assert!(script.contains("rollback") && !script.contains("compile-component"));
}

#[test]
fn each_command_that_is_not_hidden_has_a_manual_page() {
    let dir = folder();
    let written = hotshoe(dir.path(), &["man-pages", "man/man1"]);
    assert!(written.status.success(), "{}", stderr(&written));
    let page = |name: &str| fs::read_to_string(dir.path().join("man/man1").join(name));
    assert!(page("hotshoe-run.1").unwrap().contains("\\-\\-listen"));
    let page_of_all = page("hotshoe.1").unwrap();
    assert!(page_of_all.contains("hotshoe\\-run(1)") && !page_of_all.contains("compile\\-component"), "{page_of_all}");
    assert!(page("hotshoe-compile-component.1").is_err());
    fs::write(dir.path().join("file"), "").unwrap();
    let refused = hotshoe(dir.path(), &["man-pages", "file"]);
    assert!(!refused.status.success() && stderr(&refused).contains("name a folder that you may write"));
}

#[test]
fn a_missing_cluster_configuration_is_reported_once_with_what_to_do() {
    let dir = plugin(&Guest::default(), CASE);
    let output = hotshoe(dir.path(), &["run", "--kubeconfig", "missing", "--listen", "127.0.0.1:0", "."]);
    assert!(!output.status.success());
    let text = stderr(&output);
    assert!(text.contains("--kubeconfig") && text.contains("missing"), "{text}");
    assert_eq!(text.matches("No such file").count(), 1, "{text}");
}

#[test]
fn a_command_whose_output_is_closed_ends_quietly() {
    let dir = plugin(&Guest::default(), CASE);
    for arguments in [&["completion", "bash"][..], &["version"], &["grants", "."], &["test", "."]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = Command::new(HOTSHOE)
            .args(arguments)
            .current_dir(dir.path())
            .env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"))
            .stdout(writer)
            .output()
            .unwrap();
        assert!(!stderr(&output).contains("panicked"), "{}", stderr(&output));
        assert!(!stderr(&output).contains("error:"), "{}", stderr(&output));
        assert_eq!(output.status.code(), Some(128 + 13), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn an_output_that_cannot_be_written_is_an_error() {
    let dir = plugin(&Guest::default(), CASE);
    for argument in ["version", "--help"] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let output = Command::new(HOTSHOE).arg(argument).current_dir(dir.path()).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("cannot write to standard output"), "{}", stderr(&output));
    }
}

#[test]
fn an_error_whose_output_is_closed_is_still_an_error() {
    let dir = folder();
    for (arguments, code) in [(&["history", "--socket", "missing.sock"][..], 1), (&["nosuch"], 2)] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let status = Command::new(HOTSHOE).args(arguments).current_dir(dir.path()).stderr(writer).status().unwrap();
        assert_eq!(status.code(), Some(code), "{arguments:?}");
    }
}
