//! Two hosts that share a Lease. The one that works is killed again and again while objects change. Measured is how
//! long it takes until the other has served every change, and, by the API server's audit log, whether both ever wrote
//! at once.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;
use tempfile::TempDir;

use crate::figure::Figure;
use crate::figure::Target::{AtMost, Exactly};
use crate::load::{create, each, name, resize};
use crate::plane::{Manifests, Plane};
use crate::replica::{Deployment, Replica};
use crate::subject::Subject;
use crate::{NAMESPACE, report, repository};

/// The target for the longest take-over, in seconds.
const MAX_TAKE_OVER_SECONDS: f64 = 15.0;
/// The time after which a take-over counts as failed.
const TIMEOUT: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(100);
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/hotshoe-system/leases/hotshoe";
/// The number of concurrent requests.
const IN_FLIGHT: usize = 8;

/// Measure the take-over after the host that works was killed, and look for writes of two hosts at once
#[derive(clap::Args, Debug)]
#[command(after_help = "Example: just bench failover --kills 50")]
pub struct Args {
    /// How often the host that works is killed
    #[arg(long, default_value_t = 50)]
    kills: usize,
    /// How many objects change meanwhile
    #[arg(short = 'n', long, default_value_t = 50)]
    parents: usize,
    /// The host
    #[arg(long, env = "HOTSHOE", value_name = "FILE", default_value_os_t = repository("target/release/hotshoe"))]
    hotshoe: PathBuf,
}

impl Args {
    /// Measures and prints the figures.
    ///
    /// # Errors
    /// When a host does not start, or a change is not served at all.
    pub async fn run(self) -> Result<()> {
        ensure!(self.kills > 0 && self.parents > 0, "nothing is measured with 0 kills or parents");
        println!("{}", report::on(self.parents, self.kills));
        let plane = Plane::up(&Manifests { host: repository("deploy/rbac.yaml") }).await?;
        let began = fs::metadata(plane.audit_log())?.len();
        create(&plane.user, 0..self.parents, |_, _| ()).await?;
        let cache = TempDir::new()?;
        let plugin = repository("plugins/memcached");
        let deployment = Deployment { hotshoe: &self.hotshoe, plugin: &plugin, cache: cache.path(), shards: 1 };
        let mut hosts = Vec::new();
        for number in 0..2 {
            hosts.push(Replica::start(&plane, deployment, number).await?);
        }
        self.served(&plane, 1, Instant::now()).await?;
        let (mut took, mut kills) = (Vec::new(), Vec::new());
        for kill in 0..self.kills {
            let holder = holder(&plane, &hosts).await?;
            let size = if kill % 2 == 0 { 2 } else { 1 };
            // The host is killed while the changes are sent.
            let changes = each(0..self.parents, IN_FLIGHT, |number| {
                let plane = &plane;
                async move { resize(&plane.user, &name(number), size).await }
            });
            let killed = async {
                tokio::time::sleep(Duration::from_millis(kill as u64 % 50)).await;
                hosts.get_mut(holder).context("a host of two")?.kill();
                anyhow::Ok((Instant::now(), Timestamp::now()))
            };
            let (changed, killed) = tokio::join!(changes, killed);
            changed?;
            let (since, at) = killed?;
            kills.push(at);
            let seconds = self.served(&plane, size, since).await?;
            println!("kill {} of {}: served again after {seconds:.1} s", kill + 1, self.kills);
            took.push(seconds);
            hosts.get_mut(holder).context("a host of two")?.restart()?;
        }
        let figure = Figure::of("take-over-after-a-kill", "s", &took).context("no kill")?;
        let longest = Figure::of("longest-take-over", "s", &[figure.max])
            .context("no kill")?
            .target(AtMost(MAX_TAKE_OVER_SECONDS));
        println!("{figure} ({})\n{longest}", figure.range());
        drop(hosts);
        let writes = writes(plane.audit_log(), began)?;
        let both =
            Figure::of("writes-of-two-hosts-at-once", "", &[at_once(&writes, &kills) as f64]).context("no kill")?;
        println!("{} ({} writes)", both.target(Exactly(0.0)), writes.len());
        plane.down().await
    }

    /// Waits until every object has so many servers, and returns the seconds since `since`.
    async fn served(&self, plane: &Plane, size: i32, since: Instant) -> Result<f64> {
        let path = format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments");
        loop {
            let list = plane.admin.get(&path).await?;
            let children = list.get("items").and_then(Value::as_array).context("a list")?;
            let has_size =
                |child: &&Value| child.pointer("/spec/replicas").and_then(Value::as_i64) == Some(size.into());
            let served = children.iter().filter(has_size).count();
            if served == self.parents {
                return Ok(since.elapsed().as_secs_f64());
            }
            ensure!(since.elapsed() < TIMEOUT, "{served} of {} are served", self.parents);
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

/// Returns which of the hosts holds the Lease.
async fn holder(plane: &Plane, hosts: &[Replica]) -> Result<usize> {
    let since = Instant::now();
    loop {
        let lease = plane.admin.get(LEASE).await?;
        let holder = text(&lease, "/spec/holderIdentity").unwrap_or_default();
        if let Some(found) = hosts.iter().position(|host| host.works_as(holder)) {
            return Ok(found);
        }
        ensure!(since.elapsed() < TIMEOUT, "the Lease is held by {holder:?}, which is none of the hosts");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer)?.as_str()
}

/// A write of a child or a parent: the time of the request, and the ID of its credentials.
type Write = (Timestamp, String);

/// Returns the writes of both hosts, in the order in which they came in.
fn writes(audit_log: &Path, began: u64) -> Result<Vec<Write>> {
    let log = fs::read(audit_log)?;
    let log = String::from_utf8_lossy(log.get(usize::try_from(began)?..).unwrap_or_default()).into_owned();
    let host = Subject::Host.user();
    let mut writes: Vec<Write> = log
        .lines()
        .filter_map(|line| {
            let event: Value = serde_json::from_str(line).ok()?;
            let resource = text(&event, "/objectRef/resource")?;
            let is_write = matches!(text(&event, "/verb")?, "create" | "update" | "patch" | "delete");
            let is_ours = text(&event, "/user/username")? == host && !matches!(resource, "leases" | "events");
            let credential = text(&event, "/user/extra/authentication.kubernetes.io~1credential-id/0")?;
            let at = text(&event, "/requestReceivedTimestamp")?.parse().ok()?;
            (is_write && is_ours).then(|| (at, credential.to_owned()))
        })
        .collect();
    writes.sort();
    Ok(writes)
}

/// Returns how often the writer changed from one host to the other, beyond the one change that each kill allows.
fn at_once(writes: &[Write], kills: &[Timestamp]) -> usize {
    let mut changes = vec![0_usize; kills.len() + 1];
    for pair in writes.windows(2) {
        if let [(_, before), (at, writer)] = pair
            && before != writer
            && let Some(changes) = changes.get_mut(kills.partition_point(|kill| kill <= at))
        {
            *changes += 1;
        }
    }
    let allowed = std::iter::once(0).chain(std::iter::repeat(1));
    changes.into_iter().zip(allowed).map(|(changes, allowed)| changes.saturating_sub(allowed)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn each_kill_allows_one_change_of_the_writer_after_it_and_none_before() {
        let writes = |text: &str| text.chars().zip(0..).map(|(host, second)| (at(second), host.to_string())).collect();
        let count = |text: &str, kills: &[i64]| {
            let writes: Vec<Write> = writes(text);
            at_once(&writes, &kills.iter().copied().map(at).collect::<Vec<_>>())
        };
        assert_eq!(count("aaabbbaa", &[3, 6]), 0);
        assert_eq!(count("aaaababb", &[4]), 2, "it came back");
        assert_eq!(count("aabbbbbb", &[4]), 1, "before the kill");
        assert_eq!(count("aaabbbba", &[3, 5]), 0);
        assert_eq!(count("", &[1]), 0);
    }
}
