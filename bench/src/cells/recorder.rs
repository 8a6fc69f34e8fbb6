//! Many changes and many swaps at once, one swap in ten to a component that is broken in some way, and
//! a recorder that observes from outside: watches of the CRs and of their children, by a plain client.
//! [`record`](crate::record) checks what it observes.
//!
//! Each change sets another port of a CR, which is also the number of the change. Each component puts another
//! word into every Deployment, and there are so many components that no write with a word is still under way when
//! the word is used again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use hotshoe_tests::attacks::components::traps;
use hotshoe_tests::guests::unusable;
use serde::Deserialize;
use serde_json::json;
use tokio::time::interval;

use super::Setup;
use crate::NAMESPACE;
use crate::figure::Figure;
use crate::figure::Target::{AtLeast, Exactly};
use crate::load::{list_path, name, set};
use crate::record::{self, Findings, Seen, What};
use crate::rig::{Rig, mark};
use crate::watcher::{Metadata, Named, follow};

/// The number of CRs: each is changed every 3.6 seconds.
const COUNT: usize = 120;
/// The time between two changes.
const CHANGE_INTERVAL: Duration = Duration::from_millis(30);
/// The number of good components, which are used in turn; a host caches the native code of more.
const GOOD_COMPONENTS: usize = 16;
/// One swap in this many is to a broken component.
const BROKEN_EVERY: usize = 10;
/// A change that is not followed by another one for this time must have been acted upon; a busy machine needs a while.
const GRACE: Duration = Duration::from_secs(3);
/// How long to wait for the rest of a run.
const TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The minimum time between two swaps: a host checks a file four times a second, and loads it when it is the same
/// twice.
const MIN_SWAP_INTERVAL: Duration = Duration::from_millis(750);
/// The port of the first change.
const FIRST_PORT: u32 = 20_000;
/// The port of a CR that was never changed.
const UNCHANGED_PORT: u32 = 11_211;
/// The maximum number of errors that are printed.
const MAX_SHOWN: usize = 40;

/// What was observed, and which components were offered.
struct Board {
    began: Instant,
    seen: Vec<Seen>,
    /// The last observed port of each Service.
    services: HashMap<String, u32>,
    /// Words of the good components, in the order in which they were offered.
    offered: Vec<String>,
    ports: HashMap<String, u32>,
}

/// Measures.
///
/// # Errors
/// When the run is void. Whether something is lost, or decided twice, is a figure.
pub async fn run(setup: &Setup, changes: u32, swaps: usize) -> Result<Vec<Figure>> {
    let lasts = CHANGE_INTERVAL * changes;
    let pause = lasts / u32::try_from(swaps.max(1))?;
    ensure!(
        swaps > 0 && pause >= MIN_SWAP_INTERVAL,
        "{swaps} swaps in {lasts:?} are more than a host looks at; make more changes"
    );
    ensure!(FIRST_PORT + changes < 65_536, "there are not so many ports; make fewer changes");
    let rig = Rig::up(&Setup { count: COUNT, ..setup.clone() }, "swap-recorder").await?;
    let good: Vec<_> = (0..GOOD_COMPONENTS).map(|number| rig.marked(number)).collect();
    eprintln!("recorder: {GOOD_COMPONENTS} components are compiled");
    let broken = broken(&rig);
    for broken in &broken {
        rig.refuse(broken.bytes()).await?;
    }
    for component in &good {
        rig.offer(component).await?;
    }
    rig.host.until_idle().await?;
    let board = Arc::new(Mutex::new(Board::new()));
    lock(&board).offered.push(mark(GOOD_COMPONENTS - 1));
    let tasks = watch(&rig, &board);
    seen_all(&board).await?;
    let before = (rig.swaps().await?, rig.refusals().await?);
    eprintln!("recorder: {changes} changes and {swaps} swaps in {} s", lasts.as_secs());
    let swapping = swap(&rig, &good, &broken, swaps, pause, &board);
    let (changed, ()) = tokio::join!(change(&rig, changes), swapping);
    changed?;
    let is_final = settled(&board).await;
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    let (activated, refused) = (rig.swaps().await? - before.0, rig.refusals().await? - before.1);
    rig.down().await?;
    let board = std::mem::replace(&mut *lock(&board), Board::new());
    let services = board.wrong_services();
    let findings = record::check(board.seen, board.began.elapsed(), GRACE);
    findings.lines().iter().take(MAX_SHOWN).for_each(|line| println!("wrong {line}"));
    ensure!(is_final || !findings.lost.is_empty(), "void: the recorder did not see the end");
    Ok(figures(&findings, services, swaps, activated, refused))
}

/// Changes CRs in turn.
async fn change(rig: &Rig, changes: u32) -> Result<()> {
    let (mut pace, mut sending) = (interval(CHANGE_INTERVAL), FuturesUnordered::new());
    let mut number = 0;
    while number < changes {
        tokio::select! {
            _ = pace.tick() => {
                let (name, port) = (name(number as usize % COUNT), FIRST_PORT + number);
                sending.push(async move { set(&rig.plane.user, &name, &json!({ "containerPort": port })).await });
                number += 1;
            }
            Some(sent) = sending.next() => sent?,
        }
    }
    while let Some(sent) = sending.next().await {
        sent?;
    }
    Ok(())
}

/// Replaces the component again and again; the last one is good.
async fn swap(rig: &Rig, good: &[Vec<u8>], broken: &[Broken], swaps: usize, pause: Duration, board: &Mutex<Board>) {
    let mut pace = interval(pause);
    let (mut next_good, mut next_broken) = ((0..GOOD_COMPONENTS).cycle(), broken.iter().cycle());
    for number in 1..=swaps {
        pace.tick().await;
        if number % BROKEN_EVERY == BROKEN_EVERY / 2
            && let Some(broken) = next_broken.next()
        {
            match broken {
                Broken::Renamed(bytes) => rig.folder.put(bytes),
                // A file that is overwritten in place: users should not do so, but some will.
                Broken::Overwritten(bytes) => drop(std::fs::write(rig.folder.component(), bytes)),
            }
        } else if let Some(number) = next_good.next()
            && let Some(component) = good.get(number)
        {
            lock(board).offered.push(mark(number));
            rig.folder.put(component);
        }
    }
}

/// A component that must not be activated.
enum Broken {
    /// Replaces the file atomically.
    Renamed(Vec<u8>),
    /// Overwrites the file in place.
    Overwritten(Vec<u8>),
}

impl Broken {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Renamed(bytes) | Self::Overwritten(bytes) => bytes,
        }
    }
}

fn broken(rig: &Rig) -> Vec<Broken> {
    let good = rig.folder.original();
    let half = good.get(..good.len() / 2).unwrap_or_default().to_vec();
    let mut broken = vec![
        Broken::Renamed(traps("cache.example.com", "v1", "Memcached")),
        Broken::Renamed(rig.unlike_its_cases("broken")),
        Broken::Overwritten(half),
    ];
    broken.extend(unusable(good).into_iter().map(|(_, bytes, _)| Broken::Renamed(bytes)));
    broken
}

/// Waits until every object was seen once: otherwise the recorder would see writes without the changes that
/// caused them.
async fn seen_all(board: &Mutex<Board>) -> Result<()> {
    let began = Instant::now();
    loop {
        let (parents, services, all) = {
            let board = lock(board);
            (board.ports.len(), board.services.len(), board.seen.len())
        };
        if parents == COUNT && services == COUNT && all >= 2 * COUNT {
            return Ok(());
        }
        ensure!(began.elapsed() < TIMEOUT, "void: of {COUNT} CRs {parents} and {services} Services were seen");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Waits until every child shows the last change by the last component.
async fn settled(board: &Mutex<Board>) -> bool {
    let began = Instant::now();
    while began.elapsed() < TIMEOUT {
        if lock(board).is_settled() {
            // Any write after this is one too many.
            tokio::time::sleep(2 * GRACE).await;
            return true;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    false
}

fn watch(rig: &Rig, board: &Arc<Mutex<Board>>) -> Vec<tokio::task::JoinHandle<()>> {
    let deployments = format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments");
    let services = format!("/api/v1/namespaces/{NAMESPACE}/services");
    let admin = &rig.plane.admin;
    vec![
        follow(admin, list_path(), board, |board: &mut Board, parent: Parent| board.parent(&parent)),
        follow(admin, deployments, board, |board: &mut Board, child: Deployment| board.deployment(&child)),
        follow(admin, services, board, |board: &mut Board, child: Service| board.service(&child)),
    ]
}

impl Board {
    fn new() -> Self {
        let (services, ports) = (HashMap::new(), HashMap::new());
        Self { began: Instant::now(), seen: Vec::new(), services, offered: Vec::new(), ports }
    }

    fn see(&mut self, metadata: &Metadata, what: What) {
        let version = metadata.resource_version.parse().unwrap_or_default();
        self.seen.push(Seen { version, at: self.began.elapsed(), parent: metadata.name.clone(), what });
    }

    /// Records a change of a CR's spec; those of status and finalizers do not count.
    fn parent(&mut self, parent: &Parent) {
        let port = parent.spec.container_port;
        if self.ports.insert(parent.metadata.name.clone(), port) != Some(port) {
            self.see(&parent.metadata, What::Changed(port));
        }
    }

    /// Records a write of a Deployment. A word that was used before belongs to the component that was offered last.
    fn deployment(&mut self, child: &Deployment) {
        let container = child.spec.template.spec.containers.first();
        let port = container.and_then(|container| container.ports.first()).map_or(0, |port| port.container_port);
        let says = |word: &String| container.is_some_and(|container| container.command.contains(word));
        let revision = self.offered.iter().rposition(says);
        self.see(&child.metadata, What::Written(port, revision));
    }

    fn service(&mut self, child: &Service) {
        let name = child.metadata.name.trim_end_matches("-service").to_owned();
        let port = child.spec.ports.first().map_or(0, |port| port.target_port);
        self.services.insert(name, port);
    }

    fn is_settled(&self) -> bool {
        let mut shown = HashMap::new();
        for seen in &self.seen {
            if let What::Written(port, Some(revision)) = seen.what {
                shown.insert(seen.parent.as_str(), (port, revision));
            }
        }
        let last = self.offered.len().checked_sub(1);
        let is_shown = |(name, port): (&String, &u32)| {
            shown.get(name.as_str()).is_some_and(|shown| (shown.0, Some(shown.1)) == (*port, last))
        };
        self.ports.iter().all(is_shown) && self.wrong_services() == 0
    }

    fn wrong_services(&self) -> usize {
        self.ports.iter().filter(|(name, port)| self.services.get(*name) != Some(port)).count()
    }
}

fn figures(findings: &Findings, services: usize, swaps: usize, activated: f64, refused: f64) -> Vec<Figure> {
    let one = |name: &str, value: f64| Figure::of(&format!("recorder-{name}"), "count", &[value]);
    let zero = |name: &str, value: usize| one(name, value as f64).map(|figure| figure.target(Exactly(0.0)));
    let broken = (1..=swaps).filter(|number| number % BROKEN_EVERY == BROKEN_EVERY / 2).count();
    let figures = [
        zero("lost", findings.lost.len() + services),
        zero("decided-twice", findings.wrong()),
        one("swaps-activated", activated).map(|figure| figure.target(AtLeast((swaps - broken) as f64))),
        one("broken-refused", refused).map(|figure| figure.target(AtLeast(broken as f64))),
        zero("unknown-writes", findings.unknown.len()),
        // The creation of a CR counts as a change, too.
        one("changes", findings.changes.saturating_sub(COUNT) as f64),
        one("changes-that-stood", findings.stood as f64),
        Figure::of("recorder-acted-upon-p50", "s", &[findings.took(50)]),
        Figure::of("recorder-acted-upon-p99", "s", &[findings.took(99)]),
        Figure::of("recorder-acted-upon-most", "s", &[findings.took(100)]),
        one("revisions-seen", findings.revisions as f64),
        one("writes", findings.writes as f64),
        one("decided-again-after-a-swap", findings.decided_again as f64),
    ];
    figures.into_iter().flatten().collect()
}

#[derive(Clone, Deserialize)]
struct Parent {
    metadata: Metadata,
    #[serde(default)]
    spec: ParentSpec,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ParentSpec {
    container_port: u32,
}

impl Default for ParentSpec {
    fn default() -> Self {
        Self { container_port: UNCHANGED_PORT }
    }
}

#[derive(Clone, Deserialize)]
struct Deployment {
    metadata: Metadata,
    spec: DeploymentSpec,
}

#[derive(Clone, Deserialize)]
struct DeploymentSpec {
    template: Template,
}

#[derive(Clone, Deserialize)]
struct Template {
    spec: PodSpec,
}

#[derive(Clone, Deserialize)]
struct PodSpec {
    containers: Vec<Container>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct Container {
    command: Vec<String>,
    ports: Vec<ContainerPort>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContainerPort {
    container_port: u32,
}

#[derive(Clone, Deserialize)]
struct Service {
    metadata: Metadata,
    spec: ServiceSpec,
}

#[derive(Clone, Deserialize)]
struct ServiceSpec {
    #[serde(default)]
    ports: Vec<ServicePort>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ServicePort {
    target_port: u32,
}

impl Named for Parent {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

impl Named for Deployment {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

impl Named for Service {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
