//! What a platform's Prometheus sees of a host: metrics under the names of controller-runtime, alerts, a dashboard.

mod provoked;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use hotshoe_operator::telemetry::metrics::Metrics;
use hotshoe_operator::telemetry::table::{Kind, Row};
use hotshoe_tests::faulty::{fault, scene_with_faults, serves};
use hotshoe_tests::guests::Folder;
use hotshoe_tests::kinds::FAULT;
use hotshoe_tests::prometheus::{RULES, file, promtool};
use hotshoe_tests::{repository, run};
use serde_json::Value;
use tempfile::TempDir;

/// Runs `promtool` on files of the repository, and expects that it finds nothing wrong.
fn is_right(arguments: &[&str]) {
    let output = promtool(arguments, &file(""), None);
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "promtool {arguments:?}: {said}");
}

fn rules() -> Value {
    serde_saphyr::from_str(&fs::read_to_string(file(RULES)).expect("a file")).expect("YAML")
}

/// Returns the rules of all alerts.
fn alerts() -> Vec<Value> {
    let rules = rules();
    let groups = rules["groups"].as_array().into_iter().flatten();
    groups.flat_map(|group| group["rules"].as_array().cloned().unwrap_or_default()).collect()
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_else(|| panic!("no {field} in {object:#}"))
}

#[test]
fn each_alert_fires_when_it_should_and_otherwise_not() {
    is_right(&["check", "rules", RULES]);
    is_right(&["test", "rules", "alerts-test.yaml"]);
    let tests: Value =
        serde_saphyr::from_str(&fs::read_to_string(file("alerts-test.yaml")).expect("a file")).expect("YAML");
    let checks: Vec<&Value> = tests["tests"]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|test| test["alert_rule_test"].as_array().into_iter().flatten())
        .collect();
    let fires = |check: &Value| check["exp_alerts"].as_array().is_some_and(|alerts| !alerts.is_empty());
    for alert in alerts() {
        let name = text(&alert, "alert");
        let of_alert: BTreeSet<bool> =
            checks.iter().filter(|check| check["alertname"] == name).map(|check| fires(check)).collect();
        assert_eq!(of_alert, BTreeSet::from([false, true]), "{name} is tested both ways");
    }
}

#[test]
fn each_alert_says_what_happened_and_where_the_book_says_what_to_do() {
    let page = fs::read_to_string(repository("docs/src/troubleshooting.md")).expect("a page");
    let (_, section) = page.split_once("## An alert fires\n").expect("a section");
    for alert in alerts() {
        let (name, annotations) = (text(&alert, "alert"), &alert["annotations"]);
        assert!(section.contains(&format!("| `{name}` |")), "{name} is not in docs/src/troubleshooting.md");
        assert!(!text(annotations, "summary").is_empty() && text(annotations, "description").len() > 60, "{name}");
        assert_eq!(text(annotations, "runbook"), "docs/src/troubleshooting.md#an-alert-fires", "{name}");
        assert!(["critical", "warning", "info"].contains(&text(&alert["labels"], "severity")), "{name}");
    }
}

#[test]
fn each_alert_is_provoked_by_a_test_with_a_real_host() {
    let provoked = include_str!("provoked.rs");
    for alert in alerts() {
        let name = text(&alert, "alert");
        for step in ["fired", "resolved"] {
            assert!(provoked.contains(&format!("until_{step}(\"{name}\"")), "no test waits until {name} is {step}");
        }
    }
}

#[test]
fn the_rules_of_prometheus_operator_are_the_same() {
    let object: Value =
        serde_saphyr::from_str(&fs::read_to_string(file("prometheus-rule.yaml")).expect("a file")).expect("YAML");
    assert_eq!((text(&object, "apiVersion"), text(&object, "kind")), ("monitoring.coreos.com/v1", "PrometheusRule"));
    assert_eq!(object["spec"], rules(), "copy the groups of {RULES} into prometheus-rule.yaml");
}

/// Returns the name and the names of the labels of a sample; `le` is no label of a histogram.
fn sample(line: &str) -> (&str, BTreeSet<&str>) {
    let (name, rest) = line.split_once(['{', ' ']).expect("a sample");
    let labels = rest.rsplit_once('}').map(|(labels, _)| labels).filter(|_| line.contains('{')).unwrap_or_default();
    let names = labels.split("\",").filter_map(|label| Some(label.split_once("=\"")?.0));
    (name, names.filter(|name| *name != "le").collect())
}

#[test]
fn what_is_exported_is_in_the_table_and_promtool_finds_nothing_wrong_with_it() {
    run(async {
        let mut scene = scene_with_faults("exported").await;
        let folder = Folder::of_faulty();
        let host = hotshoe_tests::faulty::start(&mut scene, &folder).await;
        serves(&scene, "healthy").await;
        scene.create(fault("denied", "not granted")).await;
        scene.until_condition_of(&FAULT, "denied", "Reconciled", "False", "Denied").await;
        let (_, scraped) = host.get("/metrics").await.expect("metrics");
        let rows: BTreeMap<&str, Row> =
            Metrics::default().table().rows().into_iter().map(|row| (row.name, row)).collect();
        for line in scraped.lines().filter(|line| !line.starts_with('#')) {
            let (name, labels) = sample(line);
            let part = ["_bucket", "_sum", "_count"].iter().find_map(|part| name.strip_suffix(part));
            let of_histogram = part.and_then(|name| rows.get(name)).filter(|row| row.kind == Kind::Histogram);
            let row = of_histogram.or_else(|| rows.get(name)).unwrap_or_else(|| panic!("{name} is in no table"));
            assert_eq!(labels, row.labels.iter().copied().collect(), "{line}");
        }
        let place = TempDir::new().expect("a folder");
        let metrics = place.path().join("metrics");
        fs::write(&metrics, scraped).expect("a file");
        let output = promtool(&["check", "metrics"], place.path(), Some(&metrics));
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success() && said.is_empty(), "{said}");
    });
}
