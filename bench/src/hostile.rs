//! What a plugin that attacks costs the others: the time from a change of a healthy parent until its
//! child is written, in runs without the attacker and in one run for each class of attack.
//!
//! A steady trickle of changes goes through the healthy plugin all the time. The attacker's parents are
//! changed as steadily, so that it is called again in spite of the host's backoff; where the attack
//! is the component itself, it is replaced over and over. Every run is compared with the slower of the
//! two runs without an attacker right before and after it, whose spread shows the noise of this machine.
//! In these two, a client changes the attacker's parents as often, but no plugin serves them, so that the
//! attacker is the only difference; where the attack is the component itself, its run leaves these parents alone. Each
//! run has a host of its own. One attacker is no plugin but a user of another namespace, who forges children of the healthy
//! parents. Then the same is measured with two and with six attackers at once, whose parents are
//! changed as often in total as those of one.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hotshoe_tests::attacks::components::{Offered, reading_by_field};
use hotshoe_tests::attacks::{How, markdown, named};
use hotshoe_tests::guests::{Folder, attacker};
use http::Method;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::{MissedTickBehavior, interval};

use crate::client::{APPLY, JSON, MERGE};
use crate::figure::{Figure, Target};
use crate::load;
use crate::plane::Plane;
use crate::process::Process;
use crate::subject::{Programs, UnderTest, start_host};
use crate::trickle::Trickle;
use crate::watcher::Watcher;
use crate::{NAMESPACE, report, repository};

/// One attack of each class, by its row in the table of attacks.
const CLASSES: [(&str, &str); 18] = [
    ("loop", "endless loop"),
    ("slow", "slow calls with good answers"),
    ("memory", "memory bomb"),
    ("recursion", "recursion on the guest's stack"),
    ("panic", "panic"),
    ("long-text", "text of 20 MB"),
    ("large-child", "child of 2 MB"),
    ("deep-json", "JSON 100,000 objects deep"),
    ("host-calls", "flood of host calls"),
    ("log-lines", "flood of log lines"),
    ("flip", "another decision at every call"),
    ("denied", "the host's own condition"),
    ("compile-bomb", "compile bomb: one huge function"),
    ("many-keys", "child of 110,000 keys"),
    ("large-children", "many children of as many keys as may be"),
    ("invalid", "children that the API server finds invalid, again and again"),
    (STORM, "changes of what a field of the parents might name"),
    (USER, "label and uid, in another namespace"),
];

/// An attack without a plugin: users of another namespace create, relabel and delete objects that name the healthy
/// parents as their controllers.
const USER: &str = "user";
const USERS_NAMESPACE: &str = "bench-users";
const SERVICES: &str = "/api/v1/namespaces/bench-users/services";

/// An attack without a bad answer: the plugin reads objects that a field of its many large parents names, and there are
/// many changes of such objects.
const STORM: &str = "parent-field";
/// The number of parents in that attack, and the size of each in bytes.
const STORM_PARENTS: usize = 400;
const STORM_BYTES: usize = 20_000;
/// The time between two changes of an object that no parent names.
const STORM_INTERVAL: Duration = Duration::from_millis(10);

/// The time between two changes of healthy parents.
const TRICKLE_INTERVAL: Duration = Duration::from_millis(25);
/// The time between two changes of the attacker's parents.
const ATTACK_INTERVAL: Duration = Duration::from_millis(50);
/// The number of parents of each attacker.
const PARENTS_PER_ATTACKER: usize = 4;
/// The number of attackers that have accounts.
const MAX_ATTACKERS: i64 = 6;
/// The memory of the Pod of a host as it is deployed, in megabytes.
const MEMORY_MB: f64 = 512.0;
/// How long to wait for the rest of a run.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How long a host serves parents of both plugins before its memory is measured.
const WARM_UP: Duration = Duration::from_secs(3);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
const HEALTHY: &str = "/apis/cache.example.com/v1/namespaces/bench/memcacheds";
const LIST: &str = "/apis/fixtures.example.com/v1/namespaces/bench/attacks";

/// Measure what a plugin that attacks costs the others
#[derive(clap::Args, Debug)]
#[command(after_help = "Example: just bench hostile --only loop --only flip --seconds 20")]
pub struct Args {
    /// How many healthy parents
    #[arg(short = 'n', long, default_value_t = 40)]
    count: usize,
    /// How long each run lasts
    #[arg(long, default_value_t = 15)]
    seconds: u64,
    /// How many plugins attack at the same time, in the same way: one after the other of these numbers is measured
    #[arg(long, value_name = "NUMBER", value_delimiter = ',', default_values_t = [1_u8, 2, 6], value_parser = clap::value_parser!(u8).range(1..=MAX_ATTACKERS))]
    attackers: Vec<u8>,
    /// Only these classes of attack
    #[arg(long)]
    only: Vec<String>,
    /// Print the table of attacks and measure nothing
    #[arg(long)]
    table: bool,
    #[command(flatten)]
    under_test: UnderTest,
}

/// The result of one run, in seconds.
#[derive(Clone, Debug, Serialize)]
struct Run {
    samples: usize,
    p50: f64,
    p99: f64,
    most: f64,
}

/// The result of one class of attack, with this number of attackers.
#[derive(Clone, Debug, Serialize)]
struct Attacked {
    class: String,
    attackers: usize,
    run: Run,
    /// Resident megabytes of the host before and after.
    rss: [f64; 2],
}

/// Runs without an attacker, and between each two of them one with attackers.
#[derive(Debug, Serialize)]
struct Measured {
    alone: Vec<Run>,
    attacked: Vec<Attacked>,
}

impl Args {
    /// Measures, prints and writes `target/bench/hostile.json`.
    ///
    /// # Errors
    /// When a run is void: a change was not acted upon, or the host ended.
    pub async fn run(self) -> Result<()> {
        print!("{}", markdown());
        if self.table {
            return Ok(());
        }
        let classes: Vec<_> = CLASSES
            .into_iter()
            .filter(|(class, _)| self.only.is_empty() || self.only.iter().any(|o| o == class))
            .collect();
        ensure!(!classes.is_empty(), "there is no such class; there are {:?}", CLASSES.map(|(class, _)| class));
        report::machine(self.count, classes.len());
        let measured = self.measure(&classes).await?;
        let figures = figures(&measured);
        figures.iter().for_each(|figure| println!("{figure} ({})", figure.range()));
        let folder = repository("target/bench");
        std::fs::create_dir_all(&folder)?;
        let json = json!({ "figures": figures, "measured": measured });
        std::fs::write(folder.join("hostile.json"), serde_json::to_vec_pretty(&json)?)?;
        Ok(())
    }

    async fn measure(&self, classes: &[(&'static str, &'static str)]) -> Result<Measured> {
        let setup = self.under_test.setup(self.count, "bench hostile")?;
        let plane = Plane::up(&setup.manifests).await?;
        plane.apply(&repository("tests/fixtures/hostile/crd.yaml")).await?;
        plane.apply(&repository("bench/hostile.yaml")).await?;
        let lasts = Duration::from_secs(self.seconds);
        let bench =
            Bench { plane, programs: setup.programs, lasts, trickle: Trickle::over(self.count, TRICKLE_INTERVAL) };
        bench.converge(self.count).await?;
        let mut measured = Measured { alone: vec![bench.alone().await?], attacked: Vec::new() };
        for attackers in &self.attackers {
            let folders: Vec<_> = (1..=usize::from(*attackers)).map(Folder::of_attacker).collect();
            for (class, row) in classes {
                measured.attacked.push(bench.attacked(class, row, &folders).await?);
                measured.alone.push(bench.alone().await?);
            }
        }
        bench.plane.down().await?;
        Ok(measured)
    }
}

struct Bench {
    plane: Plane,
    programs: Programs,
    lasts: Duration,
    trickle: Trickle,
}

impl Bench {
    /// Starts a host with the healthy plugin and with those that attack.
    async fn host(&self, attackers: &[Folder]) -> Result<Process> {
        let healthy = repository("plugins/memcached");
        let plugins: Vec<_> = [healthy.as_path()].into_iter().chain(attackers.iter().map(Folder::path)).collect();
        let host = start_host(&self.plane, &self.programs, &plugins, "hostile").await?;
        host.until_idle().await?;
        Ok(host)
    }

    /// Creates the healthy parents, and waits until they have converged.
    async fn converge(&self, count: usize) -> Result<()> {
        let host = self.host(&[]).await?;
        let watcher = Watcher::start(&self.plane.admin);
        load::create(&self.plane.user, 0..count, |name, at| watcher.sent(name, at)).await?;
        watcher.converged(count, TIMEOUT).await?;
        host.stop()
    }

    async fn alone(&self) -> Result<Run> {
        let host = self.host(&[]).await?;
        let run = self.provoked("alone", "", 1, self.lasts).await?;
        host.stop()?;
        Ok(run)
    }

    async fn attacked(&self, class: &str, row: &str, folders: &[Folder]) -> Result<Attacked> {
        if class == STORM {
            return self.stormed(folders).await;
        }
        if class == USER {
            return self.forged(folders.len()).await;
        }
        let (host, attackers) = (self.host(folders).await?, folders.len());
        self.provoked("warm-up", "", attackers, WARM_UP).await?;
        let before = self.resident(&host).await?;
        let run = match named(row).how {
            How::Called(word) => self.provoked(class, word, attackers, self.lasts).await?,
            How::Offered(offered) => self.offered(class, offered, folders).await?,
            _ => anyhow::bail!("{row} is of no class that is measured"),
        };
        let rss = [before, self.resident(&host).await?];
        host.stop()?;
        Ok(Attacked { class: class.to_owned(), attackers, run, rss })
    }

    async fn stormed(&self, folders: &[Folder]) -> Result<Attacked> {
        folders.iter().for_each(|folder| folder.put(&reading_by_field(folder.original())));
        let host = self.host(folders).await?;
        let parents: Vec<Parent> = (0..STORM_PARENTS).map(|number| Parent::of(number, folders.len())).collect();
        let large = json!([{ "group": "", "version": "v1", "kind": "ConfigMap", "name": "a", "body": "x".repeat(STORM_BYTES) }]);
        for parent in &parents {
            self.create_attacker(parent, json!({ "attack": "silence", "children": large })).await?;
        }
        let before = self.resident(&host).await?;
        let run = tokio::select! {
            run = self.trickle(STORM, self.lasts) => run?,
            error = self.change_unnamed() => return Err(error),
        };
        self.delete_attackers(&parents).await?;
        let rss = [before, self.resident(&host).await?];
        host.stop()?;
        folders.iter().for_each(|folder| folder.put(folder.original()));
        Ok(Attacked { class: STORM.to_owned(), attackers: folders.len(), run, rss })
    }

    /// Changes a ConfigMap that no parent names, again and again; ends only with an error. The first change creates it.
    async fn change_unnamed(&self) -> anyhow::Error {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/unnamed?fieldManager=bench&force=true");
        let mut pace = interval(STORM_INTERVAL);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for round in 0_usize.. {
            pace.tick().await;
            let metadata = json!({ "name": "unnamed", "annotations": { "round": round.to_string() } });
            let body = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata });
            if let Err(error) = self.plane.admin.send(Method::PATCH, &path, APPLY, body.to_string().into_bytes()).await
            {
                return error;
            }
        }
        anyhow::anyhow!("there were no more rounds")
    }

    /// Measures a run beside users who forge children; the only plugin is the healthy one.
    async fn forged(&self, users: usize) -> Result<Attacked> {
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": USERS_NAMESPACE } });
        let path = format!("/api/v1/namespaces/{USERS_NAMESPACE}?fieldManager=bench&force=true");
        self.plane.admin.send(Method::PATCH, &path, APPLY, namespace.to_string().into_bytes()).await?;
        let list = self.plane.admin.get(HEALTHY).await?;
        let parents = list.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
        ensure!(!parents.is_empty(), "void: there are no healthy parents");
        let host = self.host(&[]).await?;
        let before = self.resident(&host).await?;
        let run = tokio::select! {
            run = self.trickle(USER, self.lasts) => run?,
            () = self.forge(&parents, users) => anyhow::bail!("there were no more rounds"),
        };
        let rss = [before, self.resident(&host).await?];
        host.stop()?;
        Ok(Attacked { class: USER.to_owned(), attackers: users, run, rss })
    }

    /// Forges children of these parents again and again, as so many users: a new one, with another label a moment
    /// later, and deleted at last.
    async fn forge(&self, parents: &[Value], users: usize) {
        let mut pace = interval(ATTACK_INTERVAL);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for (round, parent) in parents.iter().cycle().enumerate() {
            pace.tick().await;
            let one = |user: usize| async move {
                let name = |round: usize| format!("forged-{user}-{}", round / 3);
                let path = format!("{SERVICES}/{}", name(round));
                let relabelled = json!({ "metadata": { "labels": { "hotshoe.dev/plugin": "another" } } });
                let admin = &self.plane.admin;
                // The garbage collector may have been faster: it finds no such owner in this namespace.
                drop(match round % 3 {
                    0 => admin.send(Method::POST, SERVICES, JSON, forged(&name(round), parent)).await,
                    1 => admin.send(Method::PATCH, &path, MERGE, relabelled.to_string().into_bytes()).await,
                    _ => admin.send(Method::DELETE, &path, JSON, Vec::new()).await,
                });
            };
            futures::future::join_all((0..users).map(one)).await;
        }
    }

    async fn resident(&self, host: &Process) -> Result<f64> {
        host.until_idle().await?;
        Ok(host.memory()?.rss)
    }

    /// Measures a run in which the components are replaced every three seconds, by different bytes each time.
    async fn offered(&self, class: &str, offered: fn(&[u8]) -> Offered, folders: &[Folder]) -> Result<Run> {
        // Made before the run, for it takes long, and this thread measures.
        let Some(Offered::Bytes(bytes)) = folders.first().map(|folder| offered(folder.original())) else {
            anyhow::bail!("{class} is of no class that is measured")
        };
        let replace = async {
            let mut pace = interval(Duration::from_secs(3));
            for number in 0_u8.. {
                pace.tick().await;
                for (attacker, folder) in (0_u8..).zip(folders) {
                    // A custom section of the name `n`, with other bytes in it each time.
                    let other = [bytes.as_slice(), &[0, 4, 1, b'n', number, attacker]].concat();
                    let new = folder.component().with_extension("new");
                    // On another thread, as above.
                    tokio::fs::write(&new, other).await?;
                    tokio::fs::rename(&new, folder.component()).await?;
                }
            }
            anyhow::bail!("there were no more components")
        };
        // The attackers' parents are not changed meanwhile, or the good component, which stays active, would have work.
        let run = tokio::select! {
            run = self.trickle(class, self.lasts) => run?,
            ended = replace => return ended,
        };
        folders.iter().for_each(|folder| folder.put(folder.original()));
        Ok(run)
    }

    /// Measures a run in which the attackers' parents are changed all the time.
    async fn provoked(&self, class: &str, word: &str, attackers: usize, lasts: Duration) -> Result<Run> {
        let parents: Vec<Parent> =
            (0..PARENTS_PER_ATTACKER * attackers).map(|number| Parent::of(number, attackers)).collect();
        self.create_attackers(&parents, word).await?;
        let run = tokio::select! {
            run = self.trickle(class, lasts) => run?,
            error = self.provoke(&parents) => return Err(error),
        };
        self.heal_attackers(&parents).await?;
        self.delete_attackers(&parents).await?;
        Ok(run)
    }

    async fn create_attackers(&self, parents: &[Parent], word: &str) -> Result<()> {
        for parent in parents {
            self.create_attacker(parent, json!({ "attack": word })).await?;
        }
        Ok(())
    }

    async fn create_attacker(&self, Parent { name, attacker }: &Parent, spec: Value) -> Result<()> {
        let body = json!({
            "apiVersion": "fixtures.example.com/v1", "kind": "Attack",
            "metadata": { "name": name, "namespace": NAMESPACE, "labels": { "attacker": attacker } },
            "spec": spec,
        });
        self.plane.admin.send(Method::POST, LIST, JSON, body.to_string().into_bytes()).await
    }

    async fn patch_attacker(&self, parent: &Parent, spec: Value) -> Result<()> {
        let path = format!("{LIST}/{}", parent.name);
        self.plane.admin.send(Method::PATCH, &path, MERGE, json!({ "spec": spec }).to_string().into_bytes()).await
    }

    /// Causes calls of the attackers again and again; ends only with an error.
    async fn provoke(&self, parents: &[Parent]) -> anyhow::Error {
        let mut pace = interval(ATTACK_INTERVAL);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for (round, parent) in parents.iter().cycle().enumerate() {
            pace.tick().await;
            if let Err(error) = self.patch_attacker(parent, json!({ "round": round })).await {
                return error;
            }
        }
        anyhow::anyhow!("there were no more rounds")
    }

    async fn heal_attackers(&self, parents: &[Parent]) -> Result<()> {
        for parent in parents {
            self.patch_attacker(parent, json!({ "attack": "" })).await?;
        }
        Ok(())
    }

    async fn delete_attackers(&self, parents: &[Parent]) -> Result<()> {
        for parent in parents {
            let path = format!("{LIST}/{}", parent.name);
            self.plane.admin.send(Method::DELETE, &path, JSON, Vec::new()).await?;
        }
        let began = Instant::now();
        while !self
            .plane
            .admin
            .get(LIST)
            .await?
            .get("items")
            .and_then(|items| items.as_array())
            .is_some_and(Vec::is_empty)
        {
            ensure!(began.elapsed() < TIMEOUT, "void: the attacker's parents do not go");
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }

    async fn trickle(&self, class: &str, lasts: Duration) -> Result<Run> {
        let times = self.trickle.run(&self.plane, lasts).await.with_context(|| class.to_owned())?;
        println!("run {class}: {times}");
        Ok(Run {
            samples: times.count(),
            p50: times.percentile(50.0),
            p99: times.percentile(99.0),
            most: times.percentile(100.0),
        })
    }
}

/// A Service that looks like a child of a healthy parent.
fn forged(name: &str, parent: &Value) -> Vec<u8> {
    let of_parent = |field: &str| parent.pointer(&format!("/metadata/{field}")).cloned().unwrap_or_default();
    let controller = json!({
        "apiVersion": "cache.example.com/v1", "kind": "Memcached", "name": of_parent("name"),
        "uid": of_parent("uid"), "controller": true,
    });
    let labels = json!({ "hotshoe.dev/plugin": "memcached" });
    let body = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": name, "labels": labels, "ownerReferences": [controller] },
        "spec": { "ports": [{ "port": 80 }] },
    });
    body.to_string().into_bytes()
}

/// A parent of one of the attackers, which take turns.
struct Parent {
    name: String,
    attacker: String,
}

impl Parent {
    fn of(number: usize, attackers: usize) -> Self {
        Self { name: format!("attacker-{number}"), attacker: attacker(1 + number % attackers) }
    }
}

fn figures(measured: &Measured) -> Vec<Figure> {
    let mut figures = Vec::new();
    let (mut spreads, mut growths, mut residents) = (Vec::new(), Vec::new(), Vec::new());
    for (attacked, around) in measured.attacked.iter().zip(measured.alone.windows(2)) {
        let p99 = around.iter().map(|run| run.p99);
        let (best, worst) = p99.fold((f64::MAX, 0.0_f64), |(best, worst), p99| (best.min(p99), worst.max(p99)));
        let several = if attacked.attackers == 1 { String::new() } else { format!("-by-{}", attacked.attackers) };
        let name = format!("hostile-p99-{}{several}", attacked.class);
        let ratio = Figure::of(&name, "ratio", &[attacked.run.p99 / worst]);
        // The maximum is the ratio to the faster run.
        figures.push(ratio.map(|ratio| Figure { max: attacked.run.p99 / best, ..ratio }.target(Target::AtMost(1.2))));
        spreads.push(worst / best);
        let [before, after] = attacked.rss;
        growths.push(after - before);
        residents.push(after);
    }
    let growth = growths.iter().copied().fold(f64::MIN, f64::max);
    let alone: Vec<f64> = measured.alone.iter().map(|run| run.p99).collect();
    figures
        .push(Figure::of("hostile-rss-growth-most", "MB", &[growth]).map(|figure| figure.target(Target::AtMost(8.0))));
    let most = residents.iter().copied().fold(f64::MIN, f64::max);
    figures.push(Figure::of("hostile-rss-most", "MB", &[most]).map(|figure| figure.target(Target::AtMost(MEMORY_MB))));
    figures.push(Figure::of("hostile-p99-spread", "ratio", &spreads));
    figures.push(Figure::of("hostile-p99-alone", "s", &alone));
    figures.into_iter().flatten().collect()
}
