//! The first day of a platform with the chart, from an empty cluster to an empty cluster.

use hotshoe_tests::browser::Browser;
use hotshoe_tests::control_plane::SYSTEM;
use hotshoe_tests::kinds::{CLUSTER_ROLE_BINDING, MEMCACHED};
use hotshoe_tests::prometheus::{dashboard, quick_rules};
use hotshoe_tests::{Prometheus, memcached};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::alone::run_alone;

use super::release::{PLUGIN_MEMCACHED, Release};

/// The account of the platform's Prometheus.
const SCRAPER: &str = "scraper-of-the-chart";
/// The panels about what this host does not do or has not met: it serves no webhooks, nothing fails or is denied, and no
/// component has replaced another one.
const EMPTY: [&str; 7] = [
    "Failures by reason",
    "Denied by rule",
    "Failures by revision",
    "Requests of webhooks",
    "Time of a webhook",
    "Time of a swap",
    "Traps and timeouts",
];

/// Lets the account of Prometheus read the metrics, by the ClusterRole of the release.
async fn allow_to_scrape(release: &Release) -> String {
    let scene = &release.scene;
    scene.plane.create_account(SCRAPER).await;
    let reader = format!("{}-hotshoe-metrics-reader", release.name);
    let binding = json!({
        "apiVersion": CLUSTER_ROLE_BINDING.api_version(),
        "kind": CLUSTER_ROLE_BINDING.kind,
        "metadata": { "name": format!("{}-scraper", release.name) },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": reader },
        "subjects": [{ "kind": "ServiceAccount", "name": SCRAPER, "namespace": SYSTEM }],
    });
    scene.admin.create(&binding).await.expect("the binding is created");
    scene.plane.token_of(SYSTEM, SCRAPER).await
}

#[test]
fn helm_install_a_plugin_an_object_a_full_dashboard_an_alert_a_report_and_nothing_left_in_the_end() {
    run_alone(async {
        let _turn = PLUGIN_MEMCACHED.lock().await;
        let mut release = Release::new("first-day").await;
        release.install(&["--take-ownership", "--set", "metrics.secure=true"]);
        let mut host = release.start().await;
        let prometheus = Prometheus::start(&release.address, &quick_rules()).await;
        prometheus.authorize(&allow_to_scrape(&release).await);
        release.apply_plugin().await;
        release.scene.create(memcached("cache", 2)).await;
        release.scene.available("cache").await;
        // What is counted from now on is a rate, and not only a number.
        let counted = "hotshoe_plugin_call_seconds_count";
        prometheus.until("the calls are scraped", async || prometheus.has_number(counted).await).await;
        release.scene.merge(&MEMCACHED, "cache", json!({ "spec": { "size": 3 } })).await;
        release.scene.available("cache").await;

        for (title, query) in dashboard().iter().filter(|(title, _)| !EMPTY.contains(&title.as_str())) {
            let what = format!("the panel {title:?} shows something for {query}");
            prometheus.until(&what, async || prometheus.has_number(query).await).await;
        }

        assert!(host.stop().success());
        prometheus.until_fired("HotshoeDown", "instance!=\"\"").await;
        let host = release.start().await;
        prometheus.until_resolved("HotshoeDown").await;

        let (code, report, errors) = host.ask_for_output(&["report"]);
        assert_eq!(code, Some(0), "{errors}");
        let written = TempDir::new().expect("a folder");
        let file = written.path().join("report.html");
        std::fs::write(&file, report).expect("a page");
        let mut browser = Browser::start();
        browser.show(&file, 400, "dark");
        let shown = browser.value("document.body.innerText");
        let shown = shown.as_str().expect("a text");
        assert!(shown.contains("memcached") && shown.contains("Activated"), "{shown}");
        assert_eq!(browser.complaints(), Vec::<&Value>::new());

        release.uninstall(host).await;
    });
}
