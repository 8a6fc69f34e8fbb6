//! The Python plugin beside kopf: NginxServers are created while the operator runs, until each has its Deployment and
//! its status.
//!
//! kopf's operator is `bench/kopf/nginx.py`; kopf itself is installed with pip into `target/bench/kopf`. It runs as the
//! control plane's administrator, the host under its own account, as it must. It also does less: it follows neither
//! Deployments nor Pods.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hotshoe_tests::guests;
use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::cells::Setup;
use crate::client::JSON;
use crate::figure::Figure;
use crate::figure::Target::AtMost;
use crate::load::each;
use crate::plane::Plane;
use crate::process::Process;
use crate::subject::{Subject, UnderTest};
use crate::watcher::{Metadata, Named, follow};
use crate::{NAMESPACE, report, repository};

const API_VERSION: &str = "web.example.com/v1";
/// A run that takes longer is void.
const TIMEOUT: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// The number of concurrent requests of the client that creates objects.
const IN_FLIGHT: usize = 16;
/// The target for the time of the host, as a multiple of kopf's.
const MAX_RATIO: f64 = 2.0;

/// Measure the nginx plugin in Python beside kopf
#[derive(clap::Args, Debug)]
#[command(after_help = "Example: just bench kopf -n 50 --runs 5\n\nThe report is target/bench/kopf.json.")]
pub struct Args {
    /// How many NginxServers
    #[arg(short = 'n', long, default_value_t = 50)]
    count: usize,
    /// How many rounds, each with both
    #[arg(long, default_value_t = 3)]
    runs: usize,
    #[command(flatten)]
    under_test: UnderTest,
}

/// An operator of NginxServers in Python.
#[derive(Clone, Copy, Debug)]
enum Operator {
    /// `hotshoe run plugins/nginx-python`.
    Host,
    /// `kopf run bench/kopf/nginx.py`.
    Kopf,
}

/// The files and settings from which both operators are started.
struct Programs {
    kopf: PathBuf,
    plugin: PathBuf,
    setup: Setup,
}

/// The measurements of one operator, in seconds and megabytes.
#[derive(Clone, Copy, Debug, Serialize)]
struct Took {
    converged: f64,
    cpu: f64,
    rss: f64,
}

#[derive(Serialize)]
struct Report<'a> {
    machine: &'a str,
    figures: &'a [Figure],
    kopf: &'a [Took],
    host: &'a [Took],
}

impl Args {
    /// Measures, prints and writes the report.
    ///
    /// # Errors
    /// When a run is void. A figure that misses its target is no error.
    pub async fn run(self) -> Result<()> {
        ensure!(self.runs > 0 && self.count > 0, "nothing is measured with 0 runs or 0 NginxServers");
        let setup = self.under_test.setup(self.count, "bench kopf")?;
        let machine = report::on(self.count, self.runs);
        println!("{machine}");
        let programs = Programs { kopf: install_kopf()?, plugin: guests::plugin("nginx-python"), setup };
        let (mut kopf, mut host) = (Vec::new(), Vec::new());
        for round in 0..self.runs {
            let mut turns = [(Operator::Kopf, &mut kopf), (Operator::Host, &mut host)];
            if round % 2 == 1 {
                turns.reverse();
            }
            for (operator, runs) in turns {
                runs.push(operator.measure(&programs).await?);
            }
        }
        write(&machine, &kopf, &host)
    }
}

impl Operator {
    /// Measures an operator on a new control plane.
    async fn measure(self, programs: &Programs) -> Result<Took> {
        let plane = Plane::up(&programs.setup.manifests).await?;
        plane.apply(&repository("plugins/nginx-python/crd.yaml")).await?;
        let process = match self {
            Self::Kopf => start_kopf(&plane, &programs.kopf)?,
            Self::Host => start_host(&plane, &programs.setup, &programs.plugin).await?,
        };
        let took = measure(&plane, &process, programs.setup.count).await?;
        eprintln!("{self:?}: {took:?}");
        process.stop()?;
        plane.down().await?;
        Ok(took)
    }
}

/// Prints the figures and writes the report.
fn write(machine: &str, kopf: &[Took], host: &[Took]) -> Result<()> {
    let figures = figures(kopf, host);
    figures.iter().for_each(|figure| println!("{figure} ({})", figure.range()));
    let file = repository("target/bench/kopf.json");
    let report = Report { machine, figures: &figures, kopf, host };
    fs::write(&file, serde_json::to_vec_pretty(&report)?)?;
    println!("report {}", file.canonicalize()?.display());
    Ok(())
}

/// Creates a first NginxServer, which shows that the operator is at work, and then the others.
async fn measure(plane: &Plane, process: &Process, count: usize) -> Result<Took> {
    let board = Arc::new(Mutex::new(Board::default()));
    let (parents, deployments) = (list_path(), format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments"));
    let watches = [
        follow(&plane.admin, parents, &board, |board: &mut Board, server: Server| {
            if server.status.is_some_and(|status| status.available_replicas == Some(0) && status.pod_names.is_some()) {
                board.with_status.insert(server.metadata.name);
            }
        }),
        follow(&plane.admin, deployments, &board, |board: &mut Board, server: Server| {
            board.with_deployment.insert(server.metadata.name);
        }),
    ];
    create(plane, 0..1).await?;
    converged(&board, 1, process).await?;
    process.until_idle().await?;
    let (began, cpu) = (Instant::now(), process.cpu()?);
    create(plane, 1..count + 1).await?;
    converged(&board, count + 1, process).await?;
    let took = began.elapsed().as_secs_f64();
    process.until_idle().await?;
    watches.iter().for_each(tokio::task::JoinHandle::abort);
    Ok(Took { converged: took, cpu: process.cpu()? - cpu, rss: process.memory()?.rss })
}

async fn create(plane: &Plane, numbers: std::ops::Range<usize>) -> Result<()> {
    each(numbers, IN_FLIGHT, |number| async move {
        let body = json!({
            "apiVersion": API_VERSION,
            "kind": "NginxServer",
            "metadata": { "name": format!("n{number:04}"), "namespace": NAMESPACE },
            "spec": { "replicas": 2, "image": "nginx:1.19.6" },
        });
        plane.user.send(Method::POST, &list_path(), JSON, body.to_string().into_bytes()).await
    })
    .await
}

/// Waits until so many NginxServers have a Deployment and a status.
async fn converged(board: &Mutex<Board>, count: usize, process: &Process) -> Result<()> {
    let began = Instant::now();
    loop {
        let done = board.lock().unwrap_or_else(PoisonError::into_inner).done();
        if done >= count {
            return Ok(());
        }
        let log = process.log().display();
        ensure!(began.elapsed() < TIMEOUT, "void: {done} of {count} NginxServers converged; see {log}");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

fn list_path() -> String {
    format!("/apis/{API_VERSION}/namespaces/{NAMESPACE}/nginxservers")
}

/// Grants the host what it needs for the plugin, as an administrator does, and starts it under its own account.
async fn start_host(plane: &Plane, setup: &Setup, plugin: &Path) -> Result<Process> {
    let mut rbac = Command::new(&setup.programs.host);
    rbac.arg("rbac").arg(plugin).arg("--kubeconfig").arg(plane.kubeconfig());
    let manifest = plane.file("nginx-python-rbac.yaml");
    fs::write(&manifest, output(&mut rbac)?)?;
    plane.apply(&manifest).await?;
    let kubeconfig = Subject::Host.kubeconfig(plane).await?;
    let mut command = Command::new(&setup.programs.host);
    command.arg("run").arg(plugin).args(["--namespace", NAMESPACE, "--no-lease"]);
    command.args(["--listen", "127.0.0.1:0", "--cache"]);
    // The cache is kept between runs, so that a component is compiled only once.
    command.arg(repository("target/bench/cache")).arg("--kubeconfig").arg(kubeconfig);
    command.env_remove("HOTSHOE_SOCKET").env("XDG_RUNTIME_DIR", repository("target/bench/run"));
    start(command, "nginx-python")
}

fn start_kopf(plane: &Plane, kopf: &Path) -> Result<Process> {
    let mut command = Command::new(kopf);
    command.args(["run", "--standalone", "--namespace", NAMESPACE]).arg(repository("bench/kopf/nginx.py"));
    command.env("KUBECONFIG", plane.kubeconfig());
    start(command, "kopf")
}

fn start(command: Command, log: &str) -> Result<Process> {
    let folder = repository("target/bench/log");
    fs::create_dir_all(&folder)?;
    Process::start(command, folder.join(format!("{log}.log")))
}

/// Installs kopf into a virtual environment, once for each list of requirements, and returns the program.
fn install_kopf() -> Result<PathBuf> {
    let (home, wanted) = (repository("target/bench/kopf"), repository("bench/kopf/requirements.txt"));
    let installed = home.join("installed.txt");
    if fs::read(&installed).ok() != Some(fs::read(&wanted)?) {
        eprintln!("installing kopf into {}", home.display());
        output(Command::new("python3").args(["-m", "venv"]).arg(&home))?;
        output(Command::new(home.join("bin/pip")).args(["install", "--quiet", "--requirement"]).arg(&wanted))?;
        fs::copy(&wanted, &installed)?;
    }
    Ok(home.join("bin/kopf"))
}

fn output(command: &mut Command) -> Result<Vec<u8>> {
    let what = format!("{command:?}");
    let output = command.output().with_context(|| what.clone())?;
    ensure!(output.status.success(), "{what} failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(output.stdout)
}

fn figures(kopf: &[Took], host: &[Took]) -> Vec<Figure> {
    let each = |name: &str, unit, runs: &[Took], value: fn(&Took) -> f64| {
        Figure::of(name, unit, &runs.iter().map(value).collect::<Vec<_>>())
    };
    let ratios: Vec<f64> = kopf.iter().zip(host).map(|(kopf, host)| host.converged / kopf.converged).collect();
    let all = [
        Figure::of("converged-to-kopf", "ratio", &ratios).map(|figure| figure.target(AtMost(MAX_RATIO))),
        each("kopf-converged", "s", kopf, |took| took.converged),
        each("host-converged", "s", host, |took| took.converged),
        each("kopf-cpu", "s", kopf, |took| took.cpu),
        each("host-cpu", "s", host, |took| took.cpu),
        each("kopf-rss", "MB", kopf, |took| took.rss),
        each("host-rss", "MB", host, |took| took.rss),
    ];
    all.into_iter().flatten().collect()
}

/// Which NginxServers have a Deployment, and which have a status.
#[derive(Default)]
struct Board {
    with_deployment: HashSet<String>,
    with_status: HashSet<String>,
}

impl Board {
    fn done(&self) -> usize {
        self.with_deployment.intersection(&self.with_status).count()
    }
}

/// An NginxServer, or its Deployment, whose status is not read.
#[derive(Clone, Deserialize)]
struct Server {
    metadata: Metadata,
    status: Option<Status>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    available_replicas: Option<i64>,
    pod_names: Option<Vec<String>>,
}

impl Named for Server {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}
