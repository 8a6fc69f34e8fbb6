//! Each alert is provoked by a real host for a real Prometheus, and resolved.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use hotshoe_operator::telemetry::metrics::Metrics;
use hotshoe_operator::telemetry::table::Row;
use hotshoe_tests::control_plane::SYSTEM;
use hotshoe_tests::dictated::{self, PLUGIN, child, dictating, parent};
use hotshoe_tests::faulty::{another, fault, scene_with_faults, serves, until_digest};
use hotshoe_tests::guests::Folder;
use hotshoe_tests::kinds::{ATTACK, CONFIG_MAP, FAULT, LEASE};
use hotshoe_tests::prometheus::{JOB, dashboard, quick_rules};
use hotshoe_tests::webhook::HangingWebhook;
use hotshoe_tests::{Host, Prometheus, Scene, run, wait, webhook};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{alerts, text};
use crate::admission::renew;
use crate::lease::{holds, lease_name};

/// The account of the scraper.
const SCRAPER: &str = "scraper";
/// Selects the alerts about the plugin that fails.
const OF_FAULTY: &str = "controller=\"faulty\"";
/// Selects the alerts about the plugin that is dictated its children.
const OF_LISTS: &str = "controller=\"lists\"";

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
        let (folder, certificate) = (Folder::of_faulty(), TempDir::new().expect("a folder"));
        folder.edit("  grants:\n", "  admission: Warn\n  grants:\n");
        renew(&certificate);
        let mut command = scene.start().await.plugins(&[folder.path()]).shards(1).command();
        command.args(["--webhooks", "127.0.0.1:0", "--webhooks-cert-dir"]).arg(certificate.path());
        let host = secured(&mut scene, command).await;
        let (registered, url) = (format!("monitored-{}", scene.namespace), host.webhooks().expect("a URL"));
        let authority = certificate.path().join("tls.crt");
        webhook::register(&scene, folder.path(), &url, &authority, &registered, &[]).await;
        Self { scene, host, folder, _certificate: certificate, registered }
    }

    async fn put(&self, component: &[u8]) {
        self.folder.put(component);
        until_digest(&self.host, component).await;
    }

    async fn end(self) {
        webhook::deregister(&self.scene, &self.registered).await;
    }
}

/// Starts a host that shows its metrics only to those who may read them, and waits until it is ready.
async fn secured(scene: &mut Scene, mut command: Command) -> Host {
    allow_to_read_metrics(scene).await;
    command.args(["--probes", "127.0.0.1:0", "--metrics-secure"]);
    let host = Host::spawn(command);
    scene.watch_log(&host);
    host.ready().await;
    host
}

/// Returns the token of an account that may read the metrics.
async fn token(scene: &Scene) -> String {
    scene.plane.token_of(SYSTEM, SCRAPER).await
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
        prometheus.authorize(&token(scene).await);
        prometheus.until_resolved("HotshoeDown").await;

        provoke(scene).await;
        prometheus.until_fired("HotshoeReconcileErrors", OF_FAULTY).await;
        prometheus.until_fired("HotshoeBreakerOpen", OF_FAULTY).await;
        calm(scene).await;
        monitored.put(&another(&monitored.folder, 1)).await;
        prometheus.until_resolved("HotshoeBreakerOpen").await;
        prometheus.until_resolved("HotshoeReconcileErrors").await;

        let (status, said) = host.ask(&["rollback", "faulty"]);
        assert!(status.success(), "{said}");
        prometheus.until_fired("HotshoeRevisionRolledBack", OF_FAULTY).await;
        prometheus.until_fired("HotshoeApprovalRequired", OF_FAULTY).await;
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

/// The memory that the second host may have: its plugin, which shares with no other, may hold three quarters of three quarters
/// of it, 4,718,592 bytes.
const MEMORY: &str = "8Mi";
/// Parents that take nineteen twentieths of that, so that it does not matter how much the code of the plugin takes.
const LARGE_PARENTS: usize = 5;
const LARGE_BYTES: usize = 900_000;
/// The timeout for a deletion to be shown, which happens after a minute.
const SHOWN: Duration = Duration::from_secs(100);

/// A host that shares its work by a Lease, and the Prometheus that scrapes it.
struct Provoked {
    scene: Scene,
    host: Host,
    prometheus: Prometheus,
    _folder: Folder,
}

impl Provoked {
    async fn start(name: &str) -> Self {
        let mut scene = dictated::scene(name).await;
        let folder = dictated::folder(&CONFIG_MAP);
        folder.edit("  grants:\n", "  retry: {baseDelay: 100ms, maxDelay: 1s, maxTries: 1}\n  grants:\n");
        let command = scene.start().await.plugins(&[folder.path()]).shards(1).memory(MEMORY).command();
        let host = secured(&mut scene, command).await;
        holds(&host, wait::TIMEOUT).await;
        let prometheus = Prometheus::start(&host.address().expect("the host serves"), &quick_rules()).await;
        prometheus.authorize(&token(&scene).await);
        Self { scene, host, prometheus, _folder: folder }
    }

    async fn serves(&self, name: &str, spec: Value) {
        self.scene.create(parent(name, json!({ "spec": spec }))).await;
        self.scene.until_object(&ATTACK, name, "is served", |object| object["status"]["word"] == "good").await;
    }

    /// Checks that no alert fires about a host that is well.
    async fn is_quiet(&self) {
        self.serves("well", json!({ "attack": "" })).await;
        let before = self.prometheus.number("sum(sum_over_time(up[1h]))").await.unwrap_or_default();
        self.prometheus
            .until("it was scraped five times more", async || {
                let scrapes = self.prometheus.number("sum(sum_over_time(up[1h]))").await?;
                if scrapes >= before + 5.0 { Ok(()) } else { Err(format!("{scrapes} scrapes")) }
            })
            .await;
        let mut fired = self.prometheus.fired().await.expect("an answer");
        // Before the first scrape with the token.
        fired.remove("HotshoeDown");
        assert!(fired.is_empty(), "{fired:?}");
    }

    async fn stalls(&self) {
        self.scene.create(parent("stalled", json!({ "spec": { "attack": "unheard of" } }))).await;
        self.prometheus.until_fired("HotshoeParentsStalled", OF_LISTS).await;
        self.scene.merge(&ATTACK, "stalled", json!({ "spec": { "attack": "" } })).await;
        self.prometheus.until_resolved("HotshoeParentsStalled").await;
    }

    /// Has the plugin desire a child that the API server refuses, and then none.
    async fn is_refused(&self) {
        let child = child(&CONFIG_MAP, "refused", &json!({ "data": { "no/key": "" } }));
        self.scene.create(parent("refused", dictating(&[child]))).await;
        self.prometheus.until_fired("HotshoeChildrenRefused", OF_LISTS).await;
        self.scene.merge(&ATTACK, "refused", json!({ "spec": { "attack": "" } })).await;
        self.prometheus.until_resolved("HotshoeChildrenRefused").await;
    }

    /// Gives the Lease to a host that does not exist. Once the Lease expires, this host takes it back.
    async fn loses_its_lease(&self) {
        let name = lease_name(&self.scene);
        let edit = json!({ "spec": { "holderIdentity": "stranger" } });
        self.scene.admin.merge(&LEASE, SYSTEM, &name, &edit).await.expect("it is edited");
        self.prometheus.until_fired("HotshoeLeaseHolders", &format!("name=\"{SYSTEM}/{name}\"")).await;
        self.prometheus.until_resolved("HotshoeLeaseHolders").await;
    }

    /// Writes a child into a webhook that never answers. It is large, so that its plugin is to blame, although no other plugin
    /// writes meanwhile.
    async fn hangs(&self) {
        let webhook = HangingWebhook::of(&self.scene, &CONFIG_MAP).await;
        let child = child(&CONFIG_MAP, "hung", &json!({ "data": { "text": "x".repeat(70_000) } }));
        self.scene.create(parent("hung", dictating(&[child]))).await;
        self.prometheus.until_fired("HotshoeWorkStuck", OF_LISTS).await;
        self.prometheus.until_fired("HotshoeWritesUnanswered", OF_LISTS).await;
        webhook.remove(&self.scene).await;
        self.scene.merge(&ATTACK, "hung", json!({ "spec": { "round": 1 } })).await;
        self.scene.until_object(&CONFIG_MAP, "hung", "is there", |_| true).await;
        self.prometheus.until_resolved("HotshoeWorkStuck").await;
        self.prometheus.until_resolved("HotshoeWritesUnanswered").await;
    }

    async fn has_little_memory(&self) {
        let unused = child(&CONFIG_MAP, "unused", &json!("x".repeat(LARGE_BYTES)));
        let names: Vec<String> = (0..LARGE_PARENTS).map(|number| format!("large-{number}")).collect();
        for name in &names {
            let spec = json!({ "attack": "silence", "children": [&unused] });
            self.scene.create(parent(name, json!({ "spec": spec }))).await;
        }
        self.prometheus.until_fired("HotshoeMemory", OF_LISTS).await;
        for name in &names {
            self.scene.delete(&ATTACK, name).await;
            self.scene.gone(&ATTACK, name).await;
        }
        self.prometheus.until_resolved("HotshoeMemory").await;
    }

    /// Has the plugin wait in the clean-up of a parent, without end.
    async fn begins_to_delete(&self) {
        self.serves("stuck", json!({ "attack": "", "atTheEnd": "wait" })).await;
        assert!(self.host.plugin().await["deleting"].is_null());
        self.scene.delete(&ATTACK, "stuck").await;
    }

    async fn deletes_for_long(&self) {
        let deleting = async || self.host.plugin().await["deleting"].clone();
        self.scene
            .until_within(SHOWN, "its deletion is shown", async || match deleting().await {
                deleting if deleting["count"] == 1 => Ok(()),
                deleting => Err(deleting.to_string()),
            })
            .await;
        let shown = deleting().await;
        assert_eq!(shown["oldest"], format!("{}/stuck", self.scene.namespace));
        assert_eq!(shown["reason"], "the plugin says that it waits");
        let (_, page) = self.host.ask(&["status"]);
        assert!(page.contains("1 of 5 have been deleting") && page.contains("it waits"), "{page}");
        self.prometheus.until_fired("HotshoeParentsDeleting", OF_LISTS).await;
        let parents = format!("hotshoe_plugin_parents_deleting{{controller=\"{PLUGIN}\"}}");
        assert_eq!(self.prometheus.number(&parents).await, Ok(1.0));
        self.scene.merge(&ATTACK, "stuck", json!({ "spec": { "atTheEnd": "" } })).await;
        self.scene.gone(&ATTACK, "stuck").await;
        self.prometheus.until_resolved("HotshoeParentsDeleting").await;
        assert!(deleting().await.is_null());
    }
}

#[test]
fn alerts_about_objects_requests_memory_and_a_lease_fire_for_what_they_say_and_are_resolved() {
    run(async {
        let provoked = Provoked::start("provoked").await;
        provoked.is_quiet().await;
        // A minute passes until a deletion takes long. The others are provoked meanwhile.
        provoked.begins_to_delete().await;
        provoked.stalls().await;
        provoked.is_refused().await;
        provoked.loses_its_lease().await;
        provoked.hangs().await;
        provoked.has_little_memory().await;
        provoked.deletes_for_long().await;
    });
}
