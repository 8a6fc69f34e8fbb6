//! What a webhook costs a user: the latency of a creation that the API server asks about, at a fixed rate, beside a
//! webhook of controller-runtime and beside none; and whether swaps of the component, or another CA, delay or fail any.
//! Creations of an even size are refused by code, before the host decides: they show what a validation alone costs.
//!
//! Creations are dry runs: nothing is stored, so neither etcd nor the reconciles of what was created before are measured
//! too. For the host that is the longer way, because in a dry run it also compares what would be written.

use std::cell::Cell;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use hotshoe_tests::guests::Folder;
use hotshoe_tests::kube::documents;
use http::{Method, Request, header};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::{MissedTickBehavior, interval};

use crate::client::{APPLY, JSON};
use crate::figure::Target::{AtMost, Exactly};
use crate::figure::{Figure, quantile};
use crate::native_webhook::{self, until};
use crate::plane::Plane;
use crate::process::Process;
use crate::report;
use crate::resource::API_VERSION;
use crate::rotation::Rotation;
use crate::subject::{Programs, UnderTest, command_of_host, decides, place, start};

/// A slower answer is a delay.
const DELAYED: Duration = Duration::from_millis(100);
/// What each webhook says of an even size, as in the Operator SDK's tutorial.
const REFUSAL: &str = "must be an odd number";
/// The time between two swaps.
const SWAP_INTERVAL: Duration = Duration::from_millis(500);

/// Measure what a validating webhook adds to a creation, beside one of controller-runtime
#[derive(clap::Args, Debug)]
#[command(after_help = "Example: just bench admission --runs 3 --swaps 20\n\n\
    The report is on standard output. It needs Go, which builds the other webhook.")]
pub struct Args {
    /// How many creations a second
    #[arg(long, default_value_t = 200)]
    rate: u32,
    /// How long each subject is measured in a round
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// How many rounds, each with all subjects
    #[arg(long, default_value_t = 6)]
    runs: usize,
    /// How many swaps under load
    #[arg(long, default_value_t = 200)]
    swaps: u8,
    /// How many seconds the CA has left that is replaced under load; with 0, none is replaced
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    ca_ends_in: u64,
    #[command(flatten)]
    under_test: UnderTest,
}

/// Who is asked about the creations in a namespace.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Asked {
    /// No webhook.
    None,
    /// The webhook of controller-runtime.
    Native,
    /// The host, which decides as the next reconcile would, and validates by code.
    Host,
    /// A host that keeps its CA itself, and replaces it.
    Rotating,
}

impl Asked {
    const ALL: [Self; 4] = [Self::None, Self::Native, Self::Host, Self::Rotating];

    pub(crate) fn namespace(self) -> &'static str {
        match self {
            Self::None => "asked-none",
            Self::Native => "asked-native",
            Self::Host => "asked-host",
            Self::Rotating => "asked-rotating",
        }
    }

    /// Returns why a creation was admitted. A host says of each what it would write; if no webhook answers, the API server
    /// stores it without a word.
    fn admitted(self, warnings: &[&str]) -> Outcome {
        let has = |words: &str| warnings.iter().any(|warning| warning.contains(words));
        match self {
            Self::None | Self::Native => Outcome::Admitted,
            Self::Host | Self::Rotating if has("would create") => Outcome::Admitted,
            Self::Host | Self::Rotating if has("did not decide") => Outcome::Undecided,
            Self::Host | Self::Rotating => Outcome::Unasked,
        }
    }
}

/// What became of a creation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Outcome {
    /// Admitted by what the webhook decided.
    Admitted,
    /// Refused by code.
    Refused,
    /// Admitted because its decision took too long.
    Undecided,
    /// Admitted because the webhook did not answer.
    Unasked,
}

/// Creations of which one subject is asked.
#[derive(Clone, Copy, Debug)]
struct Creations {
    asked: Asked,
    /// An even one is refused.
    size: u8,
}

impl Creations {
    const fn admitted(asked: Asked) -> Self {
        Self { asked, size: 3 }
    }

    const fn refused(asked: Asked) -> Self {
        Self { asked, size: 2 }
    }

    /// Returns what becomes of each.
    fn expected(self) -> Outcome {
        if self.size.is_multiple_of(2) { Outcome::Refused } else { Outcome::Admitted }
    }

    fn object(self, name: &str) -> Value {
        json!({
            "apiVersion": API_VERSION,
            "kind": "Memcached",
            "metadata": { "name": name, "namespace": self.asked.namespace() },
            "spec": { "size": self.size },
        })
    }
}

/// The answers to the creations of one run.
#[derive(Debug, Default)]
struct Answers {
    /// From the time at which each was due, sorted.
    times: Vec<Duration>,
    /// How many did not end as expected.
    failed: usize,
    /// How many were admitted because the decision took too long.
    undecided: usize,
}

impl Answers {
    fn percentile(&self, share: f64) -> f64 {
        quantile(&self.times, share).as_secs_f64()
    }

    fn delayed(&self) -> usize {
        self.times.iter().filter(|time| **time > DELAYED).count()
    }
}

impl Args {
    /// Measures and prints the figures.
    ///
    /// # Errors
    /// When a run is void. A figure that misses its target is no error.
    pub async fn run(self) -> Result<()> {
        ensure!(
            self.runs > 0 && self.seconds > 0 && self.rate > 0,
            "nothing is measured with 0 runs, seconds or creations"
        );
        println!("{}", report::on(self.rate as usize, self.runs));
        let bench = Bench::up(&self.under_test).await?;
        let at_first = bench.added_memory().await?;
        let mut rounds = Vec::new();
        // The first round warms up.
        for round in 0..=self.runs {
            let lasts = Duration::from_secs(self.seconds);
            let mut answers = Vec::new();
            for (_, creations) in MEASURED {
                answers.push(bench.create(creations, self.rate, lasts).await?);
            }
            if round > 0 {
                rounds.push(answers);
            }
        }
        print(latency(&rounds));
        print(memory(at_first, bench.added_memory().await?));
        if self.swaps > 0 {
            print(bench.swap(self.swaps, self.rate).await?);
        }
        if self.ca_ends_in > 0 {
            print(bench.rotate(Duration::from_secs(self.ca_ends_in), self.rate).await?);
        }
        bench.down().await
    }
}

fn print(figures: Vec<Option<Figure>>) {
    figures.into_iter().flatten().for_each(|figure| println!("{figure} ({})", figure.range()));
}

/// What is measured in each round.
const MEASURED: [(&str, Creations); 5] = [
    ("none", Creations::admitted(Asked::None)),
    ("native", Creations::admitted(Asked::Native)),
    ("host", Creations::admitted(Asked::Host)),
    ("native-refusal", Creations::refused(Asked::Native)),
    ("host-refusal", Creations::refused(Asked::Host)),
];

/// Returns the figures of all rounds, each with the answers to what is [`MEASURED`].
fn latency(rounds: &[Vec<Answers>]) -> Vec<Option<Figure>> {
    let times = |measured: &str, share| {
        let all = rounds.iter().flat_map(|round| MEASURED.iter().zip(round));
        let these = all.filter(|((name, _), _)| *name == measured);
        these.map(|(_, answers)| answers.percentile(share)).collect::<Vec<_>>()
    };
    let percentiles = [("p50", 0.5), ("p99", 0.99)];
    let mut figures = Vec::new();
    for (what, host, native, most) in
        [("validation", "host-refusal", "native-refusal", 1.0), ("decision", "host", "native", 1.2)]
    {
        for (percentile, share) in percentiles {
            let pairs = times(host, share).into_iter().zip(times(native, share));
            let ratios: Vec<f64> = pairs.map(|(host, native)| host / native).collect();
            let figure = Figure::of(&format!("admission-{what}-{percentile}"), "ratio", &ratios);
            figures.push(figure.map(|figure| figure.target(AtMost(most))));
        }
    }
    for (name, _) in MEASURED {
        for (percentile, share) in percentiles {
            let milliseconds: Vec<f64> = times(name, share).into_iter().map(|time| time * 1000.0).collect();
            figures.push(Figure::of(&format!("admission-{name}-{percentile}"), "ms", &milliseconds));
        }
    }
    let sum = |of: &dyn Fn(&Answers) -> usize| rounds.iter().flatten().map(of).sum::<usize>() as f64;
    figures.push(Figure::of("admission-failed", "creations", &[sum(&|one| one.failed)]));
    figures.push(Figure::of("admission-undecided", "creations", &[sum(&|one| one.undecided)]));
    figures
}

/// The memory beside a host without webhooks, in megabytes: before anything was asked, and at rest after the creations.
fn memory(at_first: f64, at_rest: f64) -> Vec<Option<Figure>> {
    let of = |name: &str, value| Figure::of(name, "MB", &[value]);
    let first = of("admission-memory", at_first).map(|figure| figure.target(AtMost(3.0)));
    vec![first, of("admission-memory-after-load", at_rest)]
}

/// A control plane, both webhooks, and what they need.
struct Bench {
    plane: Plane,
    host: Process,
    folder: Folder,
    native: Process,
    /// Certificate and key of both.
    certificate: TempDir,
    /// The memory of the same host without webhooks, in megabytes.
    without: f64,
    programs: Programs,
}

impl Bench {
    async fn up(under_test: &UnderTest) -> Result<Self> {
        let setup = under_test.setup(0, "bench admission")?;
        let built = native_webhook::build()?;
        let plane = Plane::up(&setup.manifests).await?;
        for subject in Asked::ALL {
            let namespace = json!({ "metadata": { "name": subject.namespace() } });
            plane.admin.send(Method::POST, "/api/v1/namespaces", JSON, namespace.to_string().into_bytes()).await?;
        }
        let certificate = native_webhook::certificate()?;
        let (native, native_url) = native_webhook::start(&built, certificate.path())?;
        let native_url = format!("{native_url}/validate");
        let folder = validating();
        folder.edit("  grants:\n", "  admission: Enforce\n  grants:\n");
        let plain = start(&plane, command_of_host(&setup.programs, &[folder.path()]), "admission-plain").await?;
        let without = at_rest(&plain).await?;
        plain.stop()?;
        let mut command = command_of_host(&setup.programs, &[folder.path()]);
        command.args(["--webhooks", "127.0.0.1:0", "--webhooks-cert-dir"]).arg(certificate.path());
        let host = start(&plane, command, "admission-host").await?;
        let url = until("the host serves webhooks", async || Ok(place(&host, "serving webhooks at ").ok())).await?;
        let bench = Self { plane, host, folder, native, certificate, without, programs: setup.programs };
        let printed = bench.printed(&url)?;
        bench.register(printed.clone(), Asked::Host, None).await?;
        bench.register(printed, Asked::Native, Some(&native_url)).await?;
        for subject in [Asked::Native, Asked::Host] {
            bench.until_in_force(subject).await?;
        }
        Ok(bench)
    }

    /// Returns the memory that the host needs for its webhooks, in megabytes.
    async fn added_memory(&self) -> Result<f64> {
        Ok(at_rest(&self.host).await? - self.without)
    }

    /// Returns the registration that `hotshoe webhooks` prints.
    fn printed(&self, url: &str) -> Result<Value> {
        let mut command = Command::new(&self.programs.host);
        command.arg("webhooks").arg(self.folder.path()).args(["--offline", "--url", url, "--ca-file"]);
        let output = command.arg(self.certificate.path().join("tls.crt")).output()?;
        ensure!(output.status.success(), "hotshoe webhooks: {}", String::from_utf8_lossy(&output.stderr));
        let mut printed = documents(&String::from_utf8_lossy(&output.stdout)).into_iter();
        let is_wanted =
            |object: &Value| object.get("kind").is_some_and(|kind| kind == "ValidatingWebhookConfiguration");
        printed.find(is_wanted).context("hotshoe webhooks prints no ValidatingWebhookConfiguration")
    }

    /// Registers a webhook for the namespace of a subject, so that both are asked in the same way.
    async fn register(&self, mut printed: Value, subject: Asked, url: Option<&str>) -> Result<()> {
        let name = subject.namespace();
        let selector = json!({ "matchLabels": { "kubernetes.io/metadata.name": name } });
        let url = url.map(|url| ("/webhooks/0/clientConfig/url", url.into()));
        let changes = [("/metadata/name", name.into()), ("/webhooks/0/namespaceSelector", selector)];
        for (pointer, value) in changes.into_iter().chain(url) {
            *printed.pointer_mut(pointer).with_context(|| format!("hotshoe webhooks prints no {pointer}"))? = value;
        }
        let path = format!(
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{name}?fieldManager=bench&force=true"
        );
        self.plane.admin.send(Method::PATCH, &path, APPLY, printed.to_string().into_bytes()).await
    }

    /// Waits until the API server asks: it learns of a registration a moment later.
    async fn until_in_force(&self, subject: Asked) -> Result<()> {
        let refused = Creations::refused(subject);
        until(&format!("{subject:?} is asked"), async || {
            Ok(self.send(refused, "even").await.is_ok_and(|outcome| outcome == Outcome::Refused).then_some(()))
        })
        .await
    }

    /// Sends creations at this rate for this time, also while earlier ones are not answered.
    async fn create(&self, creations: Creations, rate: u32, lasts: Duration) -> Result<Answers> {
        let ends = tokio::time::Instant::now() + lasts;
        let mut pace = interval(Duration::from_secs(1) / rate);
        pace.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let (mut sending, mut answers, mut number) = (FuturesUnordered::new(), Answers::default(), 0);
        loop {
            tokio::select! {
                due = pace.tick() => {
                    if due > ends {
                        break;
                    }
                    number += 1;
                    sending.push(async move { (self.send(creations, &format!("m{number}")).await, due.elapsed()) });
                }
                Some(answered) = sending.next() => answers.add(creations.expected(), answered),
            }
        }
        while let Some(answered) = sending.next().await {
            answers.add(creations.expected(), answered);
        }
        answers.times.sort_unstable();
        ensure!(!answers.times.is_empty(), "void: nothing was created; {:?}", answers);
        Ok(answers)
    }

    /// Creates an object in a dry run, and returns what became of it.
    async fn send(&self, creations: Creations, name: &str) -> Result<Outcome> {
        let namespace = creations.asked.namespace();
        let path = format!("/apis/{API_VERSION}/namespaces/{namespace}/memcacheds?dryRun=All");
        let request = Request::post(path)
            .header(header::CONTENT_TYPE, JSON)
            .body(Body::from(creations.object(name).to_string().into_bytes()))?;
        let response = self.plane.user.kube.send(request).await?;
        let warnings = response.headers().get_all(header::WARNING).iter();
        let warnings: Vec<&str> = warnings.filter_map(|warning| warning.to_str().ok()).collect();
        let (status, admitted) = (response.status(), creations.asked.admitted(&warnings));
        let body = response.into_body().collect().await?.to_bytes();
        let body = String::from_utf8_lossy(&body);
        if status.is_success() {
            return Ok(admitted);
        }
        ensure!(body.contains(REFUSAL), "{status}: {body}");
        Ok(Outcome::Refused)
    }

    /// Swaps the component while creations go on, and compares with as many creations without a swap.
    async fn swap(&self, swaps: u8, rate: u32) -> Result<Vec<Option<Figure>>> {
        let lasts = SWAP_INTERVAL * u32::from(swaps);
        let quiet = self.create(Creations::admitted(Asked::Host), rate, lasts).await?;
        let swapping = async {
            for number in 0..swaps {
                let began = Instant::now();
                // A custom section of the name `n` with one byte in it.
                let component = [self.folder.original(), &[0, 3, 1, b'n', number]].concat();
                self.folder.put(&component);
                until("a component is active", async || Ok(decides(&self.host, &component).await?.then_some(())))
                    .await?;
                tokio::time::sleep(SWAP_INTERVAL.saturating_sub(began.elapsed())).await;
            }
            Ok(())
        };
        Ok(undisturbed("swap", &self.create_during(swapping, Asked::Host, rate).await?, &quiet))
    }

    /// Has a host replace its CA while creations go on, and compares with as many creations after that.
    async fn rotate(&self, left: Duration, rate: u32) -> Result<Vec<Option<Figure>>> {
        let rotation = Rotation::begin(&self.plane, &self.programs, self.folder.path(), left).await?;
        self.until_in_force(Asked::Rotating).await?;
        let all = self.create_during(rotation.end(&self.plane), Asked::Rotating, rate).await?;
        let lasts = SWAP_INTERVAL * u32::try_from(all.len())?;
        let quiet = self.create(Creations::admitted(Asked::Rotating), rate, lasts).await?;
        rotation.stop()?;
        Ok(undisturbed("rotation", &all, &quiet))
    }

    /// Sends creations until something is done.
    async fn create_during(
        &self,
        doing: impl Future<Output = Result<()>>,
        subject: Asked,
        rate: u32,
    ) -> Result<Vec<Answers>> {
        let is_done = Cell::new(false);
        let doing = async {
            doing.await?;
            is_done.set(true);
            anyhow::Ok(())
        };
        let creating = async {
            let mut all = Vec::new();
            while !is_done.get() {
                all.push(self.create(Creations::admitted(subject), rate, SWAP_INTERVAL).await?);
            }
            anyhow::Ok(all)
        };
        let ((), all) = tokio::try_join!(doing, creating)?;
        Ok(all)
    }

    async fn down(self) -> Result<()> {
        self.host.stop()?;
        self.native.stop()?;
        self.plane.down().await
    }
}

/// The figures of creations during something that should disturb none, beside as many `quiet` ones without it: a busy
/// machine delays some of those, too.
fn undisturbed(during: &str, all: &[Answers], quiet: &Answers) -> Vec<Option<Figure>> {
    let sum = |of: &dyn Fn(&Answers) -> usize| all.iter().map(of).sum::<usize>() as f64;
    let one = |name: &str, value: f64| Figure::of(&format!("admission-{during}-{name}"), "creations", &[value]);
    let without = format!("admission-without-{during}-delayed");
    vec![
        one("failed", sum(&|one| one.failed)).map(|figure| figure.target(Exactly(0.0))),
        one("delayed", sum(&|one| one.delayed())).map(|figure| figure.target(Exactly(0.0))),
        one("undecided", sum(&|one| one.undecided)),
        one("creations", sum(&|one| one.times.len())),
        Figure::of(&without, "creations", &[quiet.delayed() as f64]),
    ]
}

impl Answers {
    fn add(&mut self, expected: Outcome, (outcome, time): (Result<Outcome>, Duration)) {
        self.times.push(time);
        match outcome {
            Ok(outcome) if outcome == expected => {}
            Ok(Outcome::Undecided) => self.undecided += 1,
            Ok(outcome) => {
                eprintln!("a creation was {outcome:?} where {expected:?} is expected");
                self.failed += 1;
            }
            Err(error) => {
                eprintln!("a creation failed: {error:#}");
                self.failed += 1;
            }
        }
    }
}

/// A plugin that refuses even sizes by code.
fn validating() -> Folder {
    let folder = Folder::of_memcached();
    folder.edit("    # values:\n    #   validation: [oddSize]\n", "    values:\n      validation: [oddSize]\n");
    folder
}

/// Returns the resident memory of a host that has loaded its plugin and is at rest, in megabytes.
async fn at_rest(host: &Process) -> Result<f64> {
    until("the component is active", async || Ok(host.output().contains("the component is active").then_some(())))
        .await?;
    Ok(host.at_rest().await?.rss)
}
