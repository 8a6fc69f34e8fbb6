//! The Helm chart, by the real Helm: what it renders, which values it refuses, and releases of it on a control plane.
//! `HOTSHOE_TEST_HELM` names another Helm: `just chart-by-helm-3` sets it.

mod first_day;
mod installed;
mod release;
mod rendered;
mod values;

use std::process::{Command, Output};

use hotshoe_tests::kube::documents;
use hotshoe_tests::repository;
use serde_json::Value;

/// The folder of the chart.
const CHART: &str = "deploy/chart/hotshoe";

/// Names the Helm by which the chart is tested, below the root of the repository.
const HELM: &str = "HOTSHOE_TEST_HELM";

/// Returns Helm, without the settings of this machine's user, in the root of the repository.
fn helm(arguments: &[&str]) -> Command {
    let program = repository(&std::env::var(HELM).unwrap_or_else(|_| "target/tools/bin/helm".to_owned()));
    assert!(program.exists(), "{} is missing; build it with tests/helm.sh", program.display());
    let mut command = Command::new(program);
    command.args(arguments).current_dir(repository("")).env_remove("KUBECONFIG");
    for (variable, folder) in [("HELM_CACHE_HOME", "cache"), ("HELM_CONFIG_HOME", "config"), ("HELM_DATA_HOME", "home")]
    {
        command.env(variable, repository("target/tests/helm").join(folder));
    }
    command
}

/// Runs Helm, and returns what it prints on standard output; it must succeed.
fn printed(mut command: Command) -> String {
    let output = command.output().expect("Helm runs");
    assert!(output.status.success(), "{command:?}: {}", said(&output));
    String::from_utf8(output.stdout).expect("text")
}

/// Returns all that a program has printed.
fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&*output.stdout, &*output.stderr].concat()).into_owned()
}

/// Renders the chart for a release in a namespace.
fn template(release: &str, namespace: &str, options: &[&str]) -> Command {
    let mut command = helm(&["template", release, CHART, "--namespace", namespace]);
    command.args(options);
    command
}

/// Returns the objects of a release `hotshoe` in the namespace `hotshoe-system`.
fn objects(options: &[&str]) -> Vec<Value> {
    documents(&printed(template("hotshoe", "hotshoe-system", options)))
}

/// Returns the object of this kind and name, if there is one.
fn find<'a>(objects: &'a [Value], kind: &str, name: &str) -> Option<&'a Value> {
    objects.iter().find(|object| object["kind"] == kind && object["metadata"]["name"] == name)
}
