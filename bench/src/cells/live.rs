//! CRs created while the subject runs: from the first creation until all of them have converged.

use std::time::Instant;

use anyhow::Result;

use super::{Outcome, Setup, TIMEOUT, audit, verify};
use crate::figure::quantile;
use crate::load;
use crate::plane::Plane;
use crate::process::Process;
use crate::subject::Subject;
use crate::watcher::Watcher;

/// A subject with converged CRs.
pub struct Live {
    /// The control plane.
    pub plane: Plane,
    /// The subject.
    pub process: Process,
    /// The measurements.
    pub outcome: Outcome,
}

/// Runs the cell on a new control plane, and leaves it running.
///
/// # Errors
/// When the run is void.
pub async fn run(subject: Subject, setup: &Setup) -> Result<Live> {
    let plane = Plane::up(&setup.manifests).await?;
    let mut audit = audit(&plane, subject)?;
    let process = subject.start(&plane, &setup.programs).await?;
    let mut outcome = Outcome { idle: process.at_rest().await?, ..Outcome::default() };
    let (cpu, server_cpu) = (process.cpu()?, plane.cpu()?);
    let watcher = Watcher::start(&plane.admin);
    let began = Instant::now();
    let created = load::create(&plane.user, 0..setup.count, |name, at| watcher.sent(name, at)).await?;
    let converged = watcher.converged(setup.count, TIMEOUT).await?;
    outcome.created = created.as_secs_f64();
    outcome.converged = converged.at.duration_since(began).as_secs_f64();
    outcome.latency_p50 = quantile(&converged.latencies, 0.5).as_secs_f64();
    outcome.latency_p99 = quantile(&converged.latencies, 0.99).as_secs_f64();
    audit.settled().await?;
    outcome.cpu = process.cpu()? - cpu;
    outcome.server_cpu = plane.cpu()? - server_cpu;
    outcome.record_memory_and_calls(subject, &process).await?;
    outcome.count(audit.writes()?);
    verify(&plane, setup.count).await?;
    Ok(Live { plane, process, outcome })
}
