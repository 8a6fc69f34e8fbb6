//! A start with existing CRs: from the start of the process, or from the raw writer's first
//! request, until all of them have converged.

use std::time::Instant;

use anyhow::Result;

use super::{Outcome, Setup, TIMEOUT, audit, verify};
use crate::client::Client;
use crate::load;
use crate::plane::Plane;
use crate::process::Process;
use crate::raw;
use crate::subject::Subject;
use crate::watcher::{Converged, Watcher};

/// Runs the cell on a new control plane.
///
/// # Errors
/// When the run is void.
pub async fn run(subject: Subject, setup: &Setup) -> Result<Outcome> {
    let plane = Plane::up(&setup.manifests).await?;
    // No operator runs yet, so this also measures the speed of a client that has the API server for itself.
    let created = load::create(&plane.user, 0..setup.count, |_, _| ()).await?.as_secs_f64();
    let mut outcome = Outcome { created, ..Outcome::default() };
    let mut audit = audit(&plane, subject)?;
    let server_cpu = plane.cpu()?;
    let (process, began, converged) = match subject {
        Subject::Raw => write(&plane, setup).await?,
        _ => start(subject, &plane, setup).await?,
    };
    outcome.converged = converged.at.duration_since(began).as_secs_f64();
    audit.settled().await?;
    outcome.server_cpu = plane.cpu()? - server_cpu;
    if let Some(process) = process {
        outcome.cpu = process.cpu()?;
        outcome.record_memory_and_calls(subject, &process).await?;
    }
    outcome.count(audit.writes()?);
    verify(&plane, setup.count).await?;
    plane.down().await?;
    Ok(outcome)
}

type Done = (Option<Process>, Instant, Converged);

async fn write(plane: &Plane, setup: &Setup) -> Result<Done> {
    let client = Client::of(&Subject::Raw.kubeconfig(plane).await?).await?;
    let writes = raw::prepare(&plane.admin).await?;
    let watcher = Watcher::start(&plane.admin);
    let began = Instant::now();
    raw::run(&client, writes).await?;
    Ok((None, began, watcher.converged(setup.count, TIMEOUT).await?))
}

async fn start(subject: Subject, plane: &Plane, setup: &Setup) -> Result<Done> {
    let watcher = Watcher::start(&plane.admin);
    let process = subject.start(plane, &setup.programs).await?;
    let began = process.began();
    let converged = watcher.converged(setup.count, TIMEOUT).await?;
    Ok((Some(process), began, converged))
}
