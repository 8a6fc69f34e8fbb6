//! A Prometheus as a process on loopback: Debian's, which scrapes a host by TLS with a token, and evaluates alerts.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use http::Request;
use serde_json::Value;
use tempfile::TempDir;

use crate::host::{leash, tail};
use crate::{tool, wait};

/// The name of the job, as the alerts and the book have it.
pub const JOB: &str = "hotshoe";
/// The file of the alerts in `deploy/monitoring`.
pub const RULES: &str = "alerts.yaml";
/// The folder of the programs.
const FOLDER: &str = "prometheus";

/// A Prometheus process. It is killed when this value is dropped or this process ends.
pub struct Prometheus {
    child: Child,
    leash: Child,
    folder: TempDir,
    client: kube::Client,
}

/// Runs `promtool`, with this on its standard input.
pub fn promtool(arguments: &[&str], folder: &Path, input: Option<&Path>) -> Output {
    let input = input.map_or_else(Stdio::null, |file| File::open(file).expect("a file is opened").into());
    let mut promtool = Command::new(tool(FOLDER, "promtool"));
    let output = promtool.args(arguments).current_dir(folder).stdin(input).output();
    output.expect("promtool is installed; `./justw test-e2e` does so, by tests/install.sh")
}

impl Prometheus {
    /// Starts a Prometheus that scrapes the host at this address each second, and evaluates these alerts as often. Until
    /// [`Prometheus::authorize`] is called, it has a token that no API server knows.
    pub async fn start(target: &str, rules: &str) -> Self {
        let folder = TempDir::with_prefix("hotshoe-prometheus-").expect("a folder");
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file is written");
        write("token", "made.up.token");
        write("rules.yaml", rules);
        write("prometheus.yaml", &config(target));
        let address = free_address();
        let log = File::create(folder.path().join("log")).expect("a log file");
        let mut command = Command::new(tool(FOLDER, "prometheus"));
        command.args(["--config.file", "prometheus.yaml", "--storage.tsdb.path", "storage"]);
        command.args(["--web.listen-address", &address]).current_dir(folder.path());
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a second handle")).stderr(log);
        let child = command.spawn().expect("prometheus is installed; `./justw test-e2e` does so, by tests/install.sh");
        let leash = leash(child.id());
        let mut config = kube::Config::new(format!("http://{address}").parse().expect("a URL"));
        config.default_retry = false;
        let client = kube::Client::try_from(config).expect("a client");
        let prometheus = Self { child, leash, folder, client };
        prometheus.until("it is ready", async || prometheus.get("/-/ready").await.map(drop)).await;
        prometheus
    }

    /// Gives it a token, which it uses from the next scrape on.
    pub fn authorize(&self, token: &str) {
        // Renamed, so that it is never read half.
        let (next, place) = (self.folder.path().join("next"), self.folder.path().join("token"));
        fs::write(&next, token).and_then(|()| fs::rename(next, place)).expect("a token is written");
    }

    /// Waits for a condition; a failure shows the end of the log.
    pub async fn until<T>(&self, what: &str, probe: impl AsyncFn() -> Result<T, String>) -> T {
        match wait::attempt(wait::TIMEOUT, probe).await {
            Ok(value) => value,
            Err(seen) => panic!("waited until {what}; seen last: {seen}\n{}", tail(&self.folder.path().join("log"))),
        }
    }

    async fn get(&self, path: &str) -> Result<String, String> {
        let request = Request::get(path).body(Vec::new()).expect("a request");
        self.client.request_text(request).await.map_err(|error| error.to_string())
    }

    async fn ask(&self, path: &str) -> Result<Value, String> {
        let text = self.get(path).await?;
        let answer: Value = serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))?;
        if answer["status"] == "success" { Ok(answer["data"].clone()) } else { Err(text) }
    }

    /// Returns the series that a query has now.
    ///
    /// # Errors
    /// When Prometheus does not understand the query, or does not answer.
    pub async fn query(&self, query: &str) -> Result<Vec<Value>, String> {
        let answer = self.ask(&format!("/api/v1/query?query={}", encoded(query))).await?;
        Ok(answer["result"].as_array().cloned().unwrap_or_default())
    }

    /// Returns the first number that a query has now.
    ///
    /// # Errors
    /// When there is none.
    pub async fn number(&self, query: &str) -> Result<f64, String> {
        let series = self.query(query).await?;
        let value = series.first().and_then(|one| one["value"][1].as_str()?.parse().ok());
        value.ok_or_else(|| format!("{query} has no number: {series:?}"))
    }

    /// Checks that a query has a number now, and not a gap: what is divided by zero is no value that anyone can read.
    ///
    /// # Errors
    /// When it has none.
    pub async fn has_number(&self, query: &str) -> Result<(), String> {
        let series = self.query(query).await?;
        let value = |one: &Value| one["value"][1].as_str().and_then(|value| value.parse::<f64>().ok());
        let has = series.iter().filter_map(value).any(|value| !value.is_nan());
        if has { Ok(()) } else { Err(format!("{query}: {series:?}")) }
    }

    /// Returns why the last scrape failed; empty if it did not.
    ///
    /// # Errors
    /// When Prometheus does not answer.
    pub async fn scrape_error(&self) -> Result<String, String> {
        let targets = self.ask("/api/v1/targets").await?;
        Ok(targets["activeTargets"][0]["lastError"].as_str().unwrap_or_default().to_owned())
    }

    /// Returns the names of the alerts that wait or fire now.
    async fn alerts(&self) -> Result<BTreeSet<String>, String> {
        let alerts = self.ask("/api/v1/alerts").await?;
        let names = alerts["alerts"].as_array().into_iter().flatten();
        Ok(names.filter_map(|alert| alert["labels"]["alertname"].as_str().map(str::to_owned)).collect())
    }

    /// Returns the names of the alerts that have fired since the start, however short.
    ///
    /// # Errors
    /// When Prometheus does not answer.
    pub async fn fired(&self) -> Result<BTreeSet<String>, String> {
        let series = self.query("max_over_time(ALERTS{alertstate=\"firing\"}[1h])").await?;
        Ok(series.iter().filter_map(|one| one["metric"]["alertname"].as_str().map(str::to_owned)).collect())
    }

    /// Waits until an alert with these labels has fired since the start, however short.
    pub async fn until_fired(&self, alert: &str, labels: &str) {
        let fired = format!("ALERTS{{alertname=\"{alert}\",alertstate=\"firing\",{labels}}}");
        let query = format!("count(max_over_time({fired}[1h]))");
        self.until(&format!("{alert} fires"), async || self.number(&query).await.map(drop)).await;
    }

    /// Waits until an alert neither waits nor fires.
    pub async fn until_resolved(&self, alert: &str) {
        self.until(&format!("{alert} is resolved"), async || {
            let alerts = self.alerts().await?;
            if alerts.contains(alert) { Err(format!("{alerts:?}")) } else { Ok(()) }
        })
        .await;
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // Where one of these fails, the process has ended.
        drop(self.child.kill());
        drop(self.child.wait());
        drop(self.leash.kill());
        drop(self.leash.wait());
    }
}

fn config(target: &str) -> String {
    format!(
        "global: {{ scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s }}\n\
         rule_files: [rules.yaml]\n\
         scrape_configs:\n\
         - job_name: {JOB}\n  \
           scheme: https\n  \
           tls_config: {{ insecure_skip_verify: true }}\n  \
           authorization: {{ credentials_file: token }}\n  \
           static_configs: [{{ targets: [\"{target}\"] }}]\n"
    )
}

/// What is shorter in [`quick_rules`]: time windows, and for how long one reconcile may run.
const QUICK: [(&str, &str); 4] = [
    ("[5m]", "[20s]"),
    ("[15m]", "[20s]"),
    ("[30m]", "[20s]"),
    ("seconds{job=\"hotshoe\"}) > 60", "seconds{job=\"hotshoe\"}) > 3"),
];

/// Returns the rules of `deploy/monitoring` with short times, so that a test need not wait.
pub fn quick_rules() -> String {
    let rules = fs::read_to_string(file(RULES)).expect("a file");
    for (long, _) in QUICK {
        assert!(rules.contains(long), "{RULES} has no {long}");
    }
    let quick = |line: &str| QUICK.iter().fold(line.to_owned(), |line, (long, short)| line.replace(long, short));
    let lines = rules.lines().map(|line| match line.trim().starts_with("for: ") {
        true => "        for: 1s\n".to_owned(),
        false => format!("{}\n", quick(line)),
    });
    lines.collect()
}

/// Returns the queries of all panels of the dashboard with their titles, for the job of the tests and all plugins.
pub fn dashboard() -> Vec<(String, String)> {
    let board = fs::read_to_string(file("dashboard.json")).expect("a file");
    let board: Value = serde_json::from_str(&board).expect("JSON");
    let text = |object: &Value, field: &str| object[field].as_str().expect("a text").to_owned();
    let panels = board["panels"].as_array().into_iter().flatten();
    let targets = panels.flat_map(|panel| {
        let targets = panel["targets"].as_array().into_iter().flatten();
        targets.map(move |target| (text(panel, "title"), text(target, "expr")))
    });
    let filled = |query: String| {
        let query = query.replace("$job", JOB).replace("$controller", ".*");
        query.replace("$__rate_interval", "10m").replace("$__range", "10m")
    };
    targets.map(|(title, query)| (title, filled(query))).collect()
}

/// Returns an address of loopback that is free, for a program that does not say which port it was given.
pub fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").to_string()
}

/// Encodes a text for a URL.
fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() {
            encoded.push(char::from(byte));
        } else {
            write!(encoded, "%{byte:02X}").expect("a string grows");
        }
        encoded
    })
}

/// Returns the path of a file of `deploy/monitoring`.
pub fn file(name: &str) -> PathBuf {
    crate::repository("deploy/monitoring").join(name)
}
