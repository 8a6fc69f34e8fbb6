//! What a person applies for a host that they run by hand.

use std::path::Path;
use std::process::Command;

use hotshoe_tests::{ControlPlane, guests, repository, run};

/// What `deploy/rights.sh` prints for these plugins, and what it says beside.
fn rights(plane: &ControlPlane, plugins: &[&Path]) -> (String, String) {
    let mut script = Command::new(repository("deploy/rights.sh"));
    let output = script.args(plugins).env("KUBECONFIG", plane.file("kubeconfig")).output().expect("the script runs");
    let [printed, said] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("text"));
    assert!(output.status.success(), "{said}");
    (printed, said)
}

#[test]
fn a_host_with_another_plugin_leaves_those_their_rights_that_have_some() {
    run(async {
        let plane = ControlPlane::shared().await;
        let (printed, said) = rights(plane, &[&guests::faulty()]);
        for role in ["name: hotshoe-faulty\n", "name: hotshoe-memcached\n"] {
            assert!(printed.contains(role), "{role} is missing: {printed}{said}");
        }
        assert!(!said.contains("memcached are not among these"), "{said}");
    });
}
