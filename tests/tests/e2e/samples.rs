//! What `hotshoe test` says of samples and of cases of `default`, beside what the API server would ask the plugin.

use std::fs;
use std::process::Command;

use hotshoe_tests::guests::Folder;
use hotshoe_tests::host::program;
use hotshoe_tests::repository;

/// The folder of the plugin with its CRD and this case of `default`.
fn project(given: &str, expected: &str) -> Folder {
    let folder = Folder::of_faulty();
    for below in ["cases", "crds/samples"] {
        fs::create_dir_all(folder.path().join(below)).expect("a folder");
    }
    let crd = fs::read_to_string(repository("tests/fixtures/faulty/crd.yaml")).expect("a CRD");
    fs::write(folder.path().join("crds/faults.yaml"), crd).expect("a CRD is written");
    let object = |spec: &str| {
        format!(
            "{{apiVersion: fixtures.example.com/v1, kind: Fault, metadata: {{name: a, namespace: n}}, spec: {spec}}}"
        )
    };
    let (given, expected) = (object(given), object(expected));
    let case = format!("name: a size\ncall: default\nparent: {given}\nexpect:\n  defaulted: {expected}\n");
    fs::write(folder.path().join("cases/size.yaml"), case).expect("a case");
    folder
}

/// Returns whether all passes, and what is said.
fn test(folder: &Folder) -> (bool, String) {
    let output = Command::new(program()).arg("test").arg(folder.path()).output().expect("the program runs");
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn a_sample_fails_that_the_plugin_itself_would_refuse() {
    let folder = project("{fault: \"\"}", "{fault: \"\", size: 1}");
    for (fault, failure) in [
        ("warns", None),
        ("invalid", Some("the plugin would refuse it: spec.fault: no such fault; spec.size: it is missing")),
        ("validate: reject", Some("the plugin could not validate it: Reject")),
        ("validate: trap", Some("the plugin could not validate it: the plugin trapped")),
    ] {
        let sample = format!(
            "apiVersion: fixtures.example.com/v1\nkind: Fault\nmetadata: {{name: a}}\nspec: {{fault: \"{fault}\"}}\n"
        );
        fs::write(folder.path().join("crds/samples/fault.yaml"), sample).expect("a sample");
        let (passes, said) = test(&folder);
        let expected = match failure {
            None => "ok   valid by its CRD: ".to_owned(),
            Some(why) => format!("crds/samples/fault.yaml\n     {why}"),
        };
        assert!(said.contains(&expected) && passes == failure.is_none(), "{fault}: {said}");
    }
}

#[test]
fn a_case_of_default_is_also_called_with_the_defaults_of_the_schema() {
    let folder = project("{fault: \"\"}", "{fault: \"\", size: 1}");
    let crd = folder.path().join("crds/faults.yaml");
    let set = |schema: &str| {
        let text = fs::read_to_string(repository("tests/fixtures/faulty/crd.yaml")).expect("a CRD");
        fs::write(&crd, text.replace("size: { type: integer }", schema)).expect("a CRD is written");
        test(&folder)
    };
    let (passes, said) = set("size: { type: integer, default: 1 }");
    assert!(passes, "both fill in the same: {said}");
    let (passes, said) = set("size: { type: integer }\n                mode: { type: string, default: Fast }");
    assert!(passes, "another field has a default of the schema: {said}");
    let (passes, said) = set("size: { type: integer, default: 5 }");
    assert!(!passes && said.contains("FAIL a size"), "{said}");
    assert!(said.contains("the API server fills in the defaults of the schema first, and then:"), "{said}");
    assert!(said.contains("size: 5"), "{said}");
}
