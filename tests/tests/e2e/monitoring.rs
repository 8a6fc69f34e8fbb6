//! What a platform's Prometheus sees of a host: metrics under the names of controller-runtime, alerts, a dashboard.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use hotshoe_operator::telemetry::metrics::Metrics;
use hotshoe_operator::telemetry::table::{Kind, Row};
use hotshoe_tests::control_plane::SYSTEM;
use hotshoe_tests::faulty::{another, fault, scene_with_faults, serves, until_digest};
use hotshoe_tests::guests::Folder;
use hotshoe_tests::kinds::FAULT;
use hotshoe_tests::prometheus::{JOB, RULES, dashboard, file, promtool, quick_rules};
use hotshoe_tests::{Host, Prometheus, Scene, repository, run, webhook};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::admission::renew;

/// The account of the scraper.
const SCRAPER: &str = "scraper";
/// Selects the alerts about the plugin of these tests.
const OF_PLUGIN: &str = "controller=\"faulty\"";

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
fn the_rules_of_prometheus_operator_are_the_same() {
    let object: Value =
        serde_saphyr::from_str(&fs::read_to_string(file("prometheus-rule.yaml")).expect("a file")).expect("YAML");
    assert_eq!((text(&object, "apiVersion"), text(&object, "kind")), ("monitoring.coreos.com/v1", "PrometheusRule"));
    assert_eq!(object["spec"], rules(), "copy the groups of {RULES} into prometheus-rule.yaml");
}

/// A host with all that can be monitored: webhooks, a Lease, and metrics for those who may read them.
struct Monitored {
    scene: Scene,
    host: Host,
    folder: Folder,
    _certificate: TempDir,
    registered: String,
}

impl Monitored {
    async fn start(name: &str) -> Self {
        let mut scene = scene_with_faults(name).await;
        allow_to_read_metrics(&scene).await;
        let (folder, certificate) = (Folder::of_faulty(), TempDir::new().expect("a folder"));
        folder.edit("  grants:\n", "  admission: Warn\n  grants:\n");
        renew(&certificate);
        let mut command = scene.start().await.plugins(&[folder.path()]).shards(1).command();
        command.args(["--probes", "127.0.0.1:0", "--metrics-secure", "--webhooks", "127.0.0.1:0"]);
        command.arg("--webhooks-cert-dir").arg(certificate.path());
        let host = Host::spawn(command);
        scene.watch_log(&host);
        host.ready().await;
        let (registered, url) = (format!("monitored-{}", scene.namespace), host.webhooks().expect("a URL"));
        let authority = certificate.path().join("tls.crt");
        webhook::register(&scene, folder.path(), &url, &authority, &registered, &[]).await;
        Self { scene, host, folder, _certificate: certificate, registered }
    }

    /// Returns the token of an account that may read the metrics.
    async fn token(&self) -> String {
        self.scene.plane.token_of(SYSTEM, SCRAPER).await
    }

    async fn put(&self, component: &[u8]) {
        self.folder.put(component);
        until_digest(&self.host, component).await;
    }

    async fn end(self) {
        webhook::deregister(&self.scene, &self.registered).await;
    }
}

/// Gives the host the rights of `hotshoe rbac --metrics-secure`, and the scraper those to read the metrics.
async fn allow_to_read_metrics(scene: &Scene) {
    let review =
        |group: &str, resource: &str| json!({ "apiGroups": [group], "resources": [resource], "verbs": ["create"] });
    let reviews = json!([
        review("authentication.k8s.io", "tokenreviews"),
        review("authorization.k8s.io", "subjectaccessreviews"),
    ]);
    scene.plane.grant("hotshoe", "tests-metrics-auth", &reviews).await;
    scene.plane.create_account(SCRAPER).await;
    let reader = json!([{ "nonResourceURLs": ["/metrics"], "verbs": ["get"] }]);
    scene.plane.grant(SCRAPER, "tests-metrics-reader", &reader).await;
}

/// Creates objects that fail in each way that a panel shows, and traps until the circuit opens.
async fn provoke(scene: &Scene) {
    serves(scene, "healthy").await;
    scene.create(fault("denied", "not granted")).await;
    scene.until_condition_of(&FAULT, "denied", "Reconciled", "False", "Denied").await;
    for number in 0..8 {
        scene.create(fault(&format!("trap-{number}"), "trap")).await;
    }
}

async fn calm(scene: &Scene) {
    for name in (0..8).map(|number| format!("trap-{number}")).chain(["denied".to_owned()]) {
        scene.merge(&FAULT, &name, json!({ "spec": { "fault": "" } })).await;
    }
}

#[test]
fn a_real_prometheus_fills_each_panel_and_its_alerts_fire_and_are_resolved() {
    run(async {
        let monitored = Monitored::start("monitored").await;
        let (scene, host) = (&monitored.scene, &monitored.host);
        let prometheus = Prometheus::start(&host.address().expect("the host serves"), &quick_rules()).await;
        // Not the alert of before the first scrape, when there was no host yet.
        prometheus.until_fired("HotshoeDown", "instance!=\"\"").await;
        assert_eq!(prometheus.number("up").await, Ok(0.0));
        let refusal = prometheus.scrape_error().await.expect("an answer");
        assert!(refusal.contains("401"), "{refusal}");
        prometheus.authorize(&monitored.token().await);
        prometheus.until_resolved("HotshoeDown").await;

        provoke(scene).await;
        prometheus.until_fired("HotshoeReconcileErrors", OF_PLUGIN).await;
        prometheus.until_fired("HotshoeBreakerOpen", OF_PLUGIN).await;
        calm(scene).await;
        monitored.put(&another(&monitored.folder, 1)).await;
        prometheus.until_resolved("HotshoeBreakerOpen").await;
        prometheus.until_resolved("HotshoeReconcileErrors").await;

        let (status, said) = host.ask(&["rollback", "faulty"]);
        assert!(status.success(), "{said}");
        prometheus.until_fired("HotshoeRevisionRolledBack", OF_PLUGIN).await;
        prometheus.until_fired("HotshoeApprovalRequired", OF_PLUGIN).await;
        monitored.put(&another(&monitored.folder, 2)).await;
        prometheus.until_resolved("HotshoeApprovalRequired").await;
        prometheus.until_resolved("HotshoeRevisionRolledBack").await;

        for (title, query) in dashboard() {
            let what = format!("the panel {title:?} shows something for {query}");
            prometheus.until(&what, async || prometheus.has_number(&query).await).await;
        }
        for row in rows_in(&alerts()) {
            let count = prometheus.number(&format!("count({}{{job=\"{JOB}\"}})", row.name)).await;
            assert!(count.is_ok(), "an alert asks for {}: {count:?}", row.name);
        }
        monitored.end().await;
    });
}

/// Returns the metrics of a host that the alerts ask for.
fn rows_in(alerts: &[Value]) -> Vec<Row> {
    let words = alerts.iter().flat_map(|alert| {
        let words = text(alert, "expr").split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
        words.map(str::to_owned).collect::<Vec<_>>()
    });
    let words: BTreeSet<String> = words.filter(|word| word.matches('_').count() >= 2).collect();
    let rows = Metrics::default().table().rows();
    let row = |word: String| rows.iter().find(|row| row.name == word).copied();
    words.into_iter().map(|word| row(word.clone()).unwrap_or_else(|| panic!("no metric {word}"))).collect()
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
