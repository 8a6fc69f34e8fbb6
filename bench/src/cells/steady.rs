//! Converged CRs, for which nothing should be done: without changes, with a new annotation, after a restart of
//! the host; and one that should be acted upon, after an outage of the API server.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use http::Method;
use serde::Serialize;
use serde_json::Value;

use super::live::Live;
use super::{Setup, audit};
use crate::NAMESPACE;
use crate::client::JSON;
use crate::load::{name, resize, touch};
use crate::plane::Plane;
use crate::process::Process;
use crate::subject::{Subject, plugin_calls};

/// The time without any change.
const QUIET_PERIOD: Duration = Duration::from_secs(60);
/// The duration of the API server's outage.
const OUTAGE: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
const TIMEOUT: Duration = Duration::from_secs(90);

/// The measurements.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Steadiness {
    /// Writes in quiet seconds.
    pub quiet_writes: u64,
    /// Processor time in quiet seconds, seconds.
    pub quiet_cpu: f64,
    /// Writes after each CR was given an annotation.
    pub touch_writes: u64,
    /// Calls of the plugin then.
    pub touch_calls: u64,
    /// Writes after a restart.
    pub restart_writes: u64,
    /// Resident memory after a restart, megabytes.
    pub restart_rss: f64,
    /// From the return of the API server until a change was acted upon, seconds.
    pub outage: f64,
}

/// Runs all four on what the cell before left running, and stops that.
///
/// # Errors
/// When the run is void.
pub async fn run(live: Live, setup: &Setup, quiet: bool) -> Result<Steadiness> {
    let Live { plane, process, .. } = live;
    let mut steadiness = Steadiness::default();
    if quiet {
        let (mut audit, cpu) = (audit(&plane, Subject::Host)?, process.cpu()?);
        tokio::time::sleep(QUIET_PERIOD).await;
        (steadiness.quiet_writes, steadiness.quiet_cpu) = (audit.total()?, process.cpu()? - cpu);
    }
    (steadiness.touch_writes, steadiness.touch_calls) = touched(&plane, &process, setup).await?;
    let (process, writes) = restarted(&plane, process, setup).await?;
    (steadiness.restart_writes, steadiness.restart_rss) = (writes, process.at_rest().await?.rss);
    steadiness.outage = returned(&plane).await?;
    process.stop()?;
    plane.down().await?;
    Ok(steadiness)
}

async fn touched(plane: &Plane, host: &Process, setup: &Setup) -> Result<(u64, u64)> {
    let (mut audit, calls) = (audit(plane, Subject::Host)?, plugin_calls(host).await?);
    touch(&plane.user, setup.count, "once").await?;
    let writes = audit.settled().await?;
    Ok((writes, plugin_calls(host).await? - calls))
}

async fn restarted(plane: &Plane, host: Process, setup: &Setup) -> Result<(Process, u64)> {
    host.stop()?;
    let mut audit = audit(plane, Subject::Host)?;
    let host = Subject::Host.start(plane, &setup.programs).await?;
    host.until_idle().await?;
    Ok((host, audit.settled().await?))
}

/// Measures the time from the API server's first response after the outage, when a change is made, until the
/// child has the change.
async fn returned(plane: &Plane) -> Result<f64> {
    plane.stop("kube-apiserver").await?;
    tokio::time::sleep(OUTAGE).await;
    let (started, acted) = tokio::join!(plane.start("kube-apiserver"), act(plane));
    started?;
    acted
}

async fn act(plane: &Plane) -> Result<f64> {
    let name = &name(0);
    let answers = async || plane.admin.send(Method::GET, "/readyz/ping", JSON, Vec::new()).await.is_ok();
    until("the API server answers", answers).await?;
    let returned = Instant::now();
    until("it takes a change", async || resize(&plane.admin, name, 2).await.is_ok()).await?;
    until("the change is acted upon", async || replicas(plane, name).await == Some(2)).await?;
    Ok(returned.elapsed().as_secs_f64())
}

async fn replicas(plane: &Plane, name: &str) -> Option<i64> {
    let deployment = plane.admin.get(&format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{name}")).await.ok()?;
    deployment.pointer("/spec/replicas").and_then(Value::as_i64)
}

async fn until(what: &str, is_so: impl AsyncFn() -> bool) -> Result<()> {
    let began = Instant::now();
    while !is_so().await {
        ensure!(began.elapsed() < TIMEOUT, "void: waited {TIMEOUT:?} until {what}");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(())
}
