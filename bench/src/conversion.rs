//! What a conversion costs: a read of an object in another version than the stored one, which the API server has
//! converted, and a review of a thousand objects at once, each by the host and by controller-runtime.
//!
//! Objects are read by name, because the API server serves lists from its memory, where they are converted already.

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
use crate::client::{Client, JSON, MERGE};
use crate::figure::Target::AtMost;
use crate::figure::{Figure, quantile};
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

/// Measure conversions, beside those of controller-runtime
#[derive(clap::Args, Debug)]
#[command(after_help = "Example: just bench conversion --runs 3\n\n\
    The report is on standard output. It needs Go, which builds the other webhook.")]
pub struct Args {
    /// How many objects are read, and converted in one review
    #[arg(short, default_value_t = 1000)]
    n: usize,
    /// How many reviews are sent to each webhook in a round
    #[arg(long, default_value_t = 20)]
    reviews: usize,
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

/// What was measured of one webhook in one round, in seconds.
#[derive(Clone, Copy)]
struct Times {
    /// The median of reads by name, and their 99th percentile.
    read: (f64, f64),
    /// The median of reviews.
    review: f64,
}

/// One round.
struct Round {
    /// Reads in the stored version.
    stored: (f64, f64),
    native: Times,
    host: Times,
}

impl Args {
    /// Measures and prints the figures.
    ///
    /// # Errors
    /// When a run is void. A figure that misses its target is no error.
    pub async fn run(self) -> Result<()> {
        ensure!(self.runs > 0 && self.reviews > 0 && self.n > 0, "nothing is measured with 0 runs, reviews or objects");
        println!("{}", report::on(self.n, self.runs));
        let bench = Bench::up(self.under_test.setup(self.n, "bench conversion")?, self.n).await?;
        let mut rounds = Vec::new();
        // The first round warms up.
        for round in 0..=self.runs {
            let stored = bench.read("v1").await?;
            let native = bench.measure(Converter::Native, self.reviews).await?;
            let host = bench.measure(Converter::Host, self.reviews).await?;
            if round > 0 {
                rounds.push(Round { stored, native, host });
            }
        }
        figures(&rounds).into_iter().flatten().for_each(|figure| println!("{figure} ({})", figure.range()));
        bench.down().await
    }
}

fn figures(rounds: &[Round]) -> [Option<Figure>; 9] {
    let each = |value: fn(&Round) -> f64| rounds.iter().map(value).collect::<Vec<_>>();
    let ratio = |name: &str, value| Figure::of(name, "ratio", &each(value)).map(|figure| figure.target(AtMost(1.1)));
    let ms = |name: &str, value| {
        let times: Vec<f64> = each(value).iter().map(|time| time * 1000.0).collect();
        Figure::of(name, "ms", &times)
    };
    [
        ratio("conversion-read-p50", |round| round.host.read.0 / round.native.read.0),
        ratio("conversion-read-p99", |round| round.host.read.1 / round.native.read.1),
        ms("conversion-review", |round| round.host.review).map(|figure| figure.target(AtMost(50.0))),
        ms("conversion-review-native", |round| round.native.review),
        ms("conversion-read-stored-p50", |round| round.stored.0),
        ms("conversion-read-native-p50", |round| round.native.read.0),
        ms("conversion-read-host-p50", |round| round.host.read.0),
        ms("conversion-read-native-p99", |round| round.native.read.1),
        ms("conversion-read-host-p99", |round| round.host.read.1),
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
    /// The plugin of the host.
    _folder: Folder,
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
        Ok(Self { plane, objects, host, host_url, native, native_url, certificate, _folder: folder })
    }

    /// Measures a webhook.
    async fn measure(&self, converter: Converter, reviews: usize) -> Result<Times> {
        self.convert_by(converter).await?;
        Ok(Times { read: self.read("v1beta1").await?, review: self.review(converter, reviews).await? })
    }

    /// Reads each object by its name in a version, one after the other, and returns the median and the 99th percentile of
    /// the times, in seconds.
    async fn read(&self, version: &str) -> Result<(f64, f64)> {
        let size = if version == "v1" { "/spec/size" } else { "/spec/replicas" };
        let mut times = Vec::new();
        for number in 0..self.objects {
            let began = Instant::now();
            let object = self.plane.user.get(&path(version, number)).await?;
            times.push(began.elapsed());
            ensure!(object.pointer(size) == Some(&json!(2)), "void: the object is not as {version} says it: {object}");
        }
        times.sort_unstable();
        let percentile = |share| quantile::<Duration>(&times, share).as_secs_f64();
        Ok((percentile(0.5), percentile(0.99)))
    }

    /// Sends reviews of all objects to a webhook, and returns the median of the times, in seconds.
    async fn review(&self, converter: Converter, reviews: usize) -> Result<f64> {
        let url = self.url(converter).parse::<http::Uri>()?;
        let path = url.path().to_owned();
        let authority = url.authority().context("a webhook has no address")?;
        let mut config = kube::Config::new(format!("https://{authority}").parse()?);
        config.accept_invalid_certs = true;
        let client = Client { kube: kube::Client::try_from(config)? };
        let stored = self.plane.user.get(&format!("/apis/{API_VERSION}/namespaces/{NAMESPACE}/memcacheds")).await?;
        let review = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "ConversionReview",
            "request": {
                "uid": "bench",
                "desiredAPIVersion": "cache.example.com/v1beta1",
                "objects": stored.get("items"),
            },
        });
        let review = review.to_string().into_bytes();
        let mut times = Vec::new();
        for _ in 0..reviews {
            let began = Instant::now();
            let answer = client.exchange(Method::POST, &path, JSON, review.clone()).await?;
            times.push(began.elapsed());
            let answer: Value = serde_json::from_slice(&answer)?;
            let converted = answer.pointer("/response/convertedObjects").and_then(Value::as_array);
            let all = converted.map(Vec::as_slice).unwrap_or_default();
            let is_converted = |object: &Value| object.pointer("/spec/replicas") == Some(&json!(2));
            ensure!(all.len() == self.objects && all.iter().all(is_converted), "void: {converter:?} converts not all");
        }
        times.sort_unstable();
        Ok(quantile::<Duration>(&times, 0.5).as_secs_f64())
    }

    fn url(&self, converter: Converter) -> &str {
        match converter {
            Converter::Native => &self.native_url,
            Converter::Host => &self.host_url,
        }
    }

    /// Has the API server ask this webhook, and waits until it does.
    async fn convert_by(&self, converter: Converter) -> Result<()> {
        let url = self.url(converter);
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
            let before = self.conversions().await?;
            if self.plane.user.get(&path("v1beta1", 0)).await.is_err() {
                return Ok(None);
            }
            let was_asked = self.conversions().await? > before;
            Ok((was_asked == (converter == Converter::Host)).then_some(()))
        })
        .await
    }

    /// Returns how often the host was asked to convert.
    async fn conversions(&self) -> Result<f64> {
        let count = "controller_runtime_webhook_latency_seconds_count{webhook=\"/convert/memcached\"";
        Ok(metrics(&self.host).await?.of(count))
    }

    async fn down(self) -> Result<()> {
        self.host.stop()?;
        self.native.stop()?;
        self.plane.down().await
    }
}

/// Returns the path of an object in a version.
fn path(version: &str, number: usize) -> String {
    format!("/apis/cache.example.com/{version}/namespaces/{NAMESPACE}/memcacheds/m{number}")
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
