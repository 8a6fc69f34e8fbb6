//! What it costs to read a thousand objects in another version than the stored one, which the API server has converted in
//! one request: by the host, by controller-runtime, and, for comparison, without a conversion.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::{StreamExt, TryStreamExt};
use hotshoe_tests::guests::Folder;
use http::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cells::Setup;
use crate::client::{JSON, MERGE};
use crate::figure::Figure;
use crate::figure::Target::AtMost;
use crate::native_webhook::{self, until};
use crate::plane::Plane;
use crate::process::Process;
use crate::report;
use crate::resource::API_VERSION;
use crate::subject::{UnderTest, command_of_host, metrics, place, start};

const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/memcacheds.cache.example.com";
/// The namespace of the objects. The host watches another one, so that no reconcile runs beside a conversion.
const NAMESPACE: &str = "converted";
const OTHER_NAMESPACE: &str = "default";
/// How many objects are created at once.
const CREATIONS: usize = 50;

/// Measure a list in another version than the stored one, beside a conversion of controller-runtime
#[derive(clap::Args, Debug)]
#[command(after_help = "Example: just bench conversion --runs 3\n\n\
    The report is on standard output. It needs Go, which builds the other webhook.")]
pub struct Args {
    /// How many objects the list has
    #[arg(short, default_value_t = 1000)]
    n: usize,
    /// How often it is read in a round, of each webhook
    #[arg(long, default_value_t = 20)]
    reads: usize,
    /// How many rounds, each with both webhooks
    #[arg(long, default_value_t = 6)]
    runs: usize,
    #[command(flatten)]
    under_test: UnderTest,
}

/// What converts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Converter {
    Native,
    Host,
}

/// The medians of one round, in seconds.
struct Round {
    stored: f64,
    native: f64,
    host: f64,
    /// The mean time of a conversion in the host.
    in_host: f64,
}

impl Args {
    /// Measures and prints the figures.
    ///
    /// # Errors
    /// When a run is void. A figure that misses its target is no error.
    pub async fn run(self) -> Result<()> {
        ensure!(self.runs > 0 && self.reads > 0 && self.n > 0, "nothing is measured with 0 runs, reads or objects");
        println!("{}", report::on(self.n, self.runs));
        let bench = Bench::up(self.under_test.setup(self.n, "bench conversion")?, self.n).await?;
        let mut rounds = Vec::new();
        // The first round warms up.
        for round in 0..=self.runs {
            let measured = bench.round(self.reads).await?;
            if round > 0 {
                rounds.push(measured);
            }
        }
        figures(&rounds).into_iter().flatten().for_each(|figure| println!("{figure} ({})", figure.range()));
        bench.down().await
    }
}

fn figures(rounds: &[Round]) -> [Option<Figure>; 5] {
    let each = |value: fn(&Round) -> f64| rounds.iter().map(value).collect::<Vec<_>>();
    let ms = |name: &str, value| Figure::of(name, "ms", &each(value));
    [
        Figure::of("conversion-list", "ratio", &each(|round| round.host / round.native))
            .map(|figure| figure.target(AtMost(1.1))),
        ms("conversion-in-host", |round| round.in_host * 1000.0).map(|figure| figure.target(AtMost(50.0))),
        ms("conversion-list-stored", |round| round.stored * 1000.0),
        ms("conversion-list-native", |round| round.native * 1000.0),
        ms("conversion-list-host", |round| round.host * 1000.0),
    ]
}

/// A control plane with the objects, and both webhooks.
struct Bench {
    plane: Plane,
    objects: usize,
    host: Process,
    host_url: String,
    native: Process,
    native_url: String,
    certificate: TempDir,
}

impl Bench {
    async fn up(setup: Setup, objects: usize) -> Result<Self> {
        let built = native_webhook::build()?;
        let plane = Plane::up(&setup.manifests).await?;
        create(&plane, objects).await?;
        let certificate = native_webhook::certificate()?;
        let (native, native_url) = native_webhook::start(&built, certificate.path())?;
        let folder = Folder::of_memcached();
        let mut command: Command = command_of_host(&setup.programs, &[folder.path()]);
        command.args(["--namespace", OTHER_NAMESPACE, "--webhooks", "127.0.0.1:0", "--webhooks-cert-dir"]);
        command.arg(certificate.path());
        let host = start(&plane, command, "conversion-host").await?;
        let url = until("the host serves webhooks", async || Ok(place(&host, "serving webhooks at ").ok())).await?;
        let host_url = format!("{url}/convert/memcached");
        let native_url = format!("{native_url}/convert");
        Ok(Self { plane, objects, host, host_url, native, native_url, certificate })
    }

    async fn round(&self, reads: usize) -> Result<Round> {
        let stored = self.median("v1", reads).await?;
        self.convert_by(Converter::Native).await?;
        let native = self.median("v1beta1", reads).await?;
        self.convert_by(Converter::Host).await?;
        let before = self.conversions().await?;
        let host = self.median("v1beta1", reads).await?;
        let after = self.conversions().await?;
        let in_host = (after.0 - before.0) / (after.1 - before.1);
        Ok(Round { stored, native, host, in_host })
    }

    /// Reads all objects so many times in a version, and returns the median of the times, in seconds.
    async fn median(&self, version: &str, reads: usize) -> Result<f64> {
        let mut times = Vec::new();
        for _ in 0..reads {
            let began = Instant::now();
            let list = self.list(version).await?;
            times.push(began.elapsed());
            let items = list.get("items").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            ensure!(items.len() == self.objects, "void: {} of {} objects are listed", items.len(), self.objects);
            let size = if version == "v1" { "/spec/size" } else { "/spec/replicas" };
            let is_of_version = |object: &Value| object.pointer(size) == Some(&json!(2));
            ensure!(items.iter().all(is_of_version), "void: an object is not as {version} says it");
        }
        times.sort_unstable();
        Ok(crate::figure::quantile::<Duration>(&times, 0.5).as_secs_f64())
    }

    async fn list(&self, version: &str) -> Result<Value> {
        self.plane.user.get(&format!("/apis/cache.example.com/{version}/namespaces/{NAMESPACE}/memcacheds")).await
    }

    /// Has the API server ask this webhook, and waits until it does.
    async fn convert_by(&self, converter: Converter) -> Result<()> {
        let url = match converter {
            Converter::Native => &self.native_url,
            Converter::Host => &self.host_url,
        };
        let mut definition = self.plane.admin.get(CRD).await?;
        let versions = definition.pointer_mut("/spec/versions").and_then(Value::as_array_mut);
        for version in versions.context("the CRD has no versions")? {
            if let Some(served) = version.get_mut("served") {
                *served = true.into();
            }
        }
        let authority = std::fs::read(self.certificate.path().join("tls.crt"))?;
        let client = json!({ "url": url, "caBundle": STANDARD.encode(authority) });
        let change = json!({ "spec": {
            "versions": definition.pointer("/spec/versions"),
            "conversion": {
                "strategy": "Webhook",
                "webhook": { "conversionReviewVersions": ["v1"], "clientConfig": client },
            },
        } });
        self.plane.admin.send(Method::PATCH, CRD, MERGE, change.to_string().into_bytes()).await?;
        until(&format!("{converter:?} converts"), async || {
            let before = self.conversions().await?.1;
            if self.list("v1beta1").await.is_err() {
                return Ok(None);
            }
            let was_asked = self.conversions().await?.1 > before;
            Ok((was_asked == (converter == Converter::Host)).then_some(()))
        })
        .await
    }

    /// Returns the time that the host has spent on conversions, in seconds, and how many there were.
    async fn conversions(&self) -> Result<(f64, f64)> {
        let metrics = metrics(&self.host).await?;
        let of = |part: &str| {
            metrics.of(&format!("controller_runtime_webhook_latency_seconds_{part}{{webhook=\"/convert/memcached\""))
        };
        Ok((of("sum"), of("count")))
    }

    async fn down(self) -> Result<()> {
        self.host.stop()?;
        self.native.stop()?;
        self.plane.down().await
    }
}

/// Creates the objects, in the stored version.
async fn create(plane: &Plane, objects: usize) -> Result<()> {
    let namespace = json!({ "metadata": { "name": NAMESPACE } });
    plane.admin.send(Method::POST, "/api/v1/namespaces", JSON, namespace.to_string().into_bytes()).await?;
    let path = format!("/apis/{API_VERSION}/namespaces/{NAMESPACE}/memcacheds");
    let creations = (0..objects).map(|number| {
        let object = json!({
            "apiVersion": API_VERSION,
            "kind": "Memcached",
            "metadata": { "name": format!("m{number}"), "labels": { "app.kubernetes.io/part-of": "bench" } },
            "spec": { "size": 2, "containerPort": 11211 },
        });
        plane.admin.send(Method::POST, &path, JSON, object.to_string().into_bytes())
    });
    futures::stream::iter(creations).buffer_unordered(CREATIONS).try_collect::<()>().await
}
