//! The outside watcher: a plain client that records when each CR has converged. That is when its
//! Deployment and its Service exist and its status shows them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use futures::StreamExt;
use http::Request;
use kube::core::WatchEvent;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::task::JoinHandle;

use crate::NAMESPACE;
use crate::client::Client;
use crate::load::list_path;

const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A watcher, from its creation until it is dropped.
pub struct Watcher {
    board: Arc<Mutex<Board>>,
    tasks: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Board {
    rows: HashMap<String, Row>,
    converged: usize,
}

/// The observations of one CR.
#[derive(Default)]
struct Row {
    sent: Option<Instant>,
    has_deployment: bool,
    has_service: bool,
    has_final_status: bool,
    converged: Option<Instant>,
}

/// When all CRs had converged.
pub struct Converged {
    /// When the last one had converged.
    pub at: Instant,
    /// The times from the sending of each creation until the CR had converged, sorted; empty for CRs that existed
    /// before.
    pub latencies: Vec<Duration>,
}

/// A CR, with the fields that the watcher reads.
#[derive(Clone, Deserialize)]
pub(crate) struct Seen {
    metadata: Metadata,
    #[serde(default)]
    status: Status,
}

/// The metadata that a watch needs to continue and to identify an object.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Metadata {
    /// `metadata.name`.
    pub(crate) name: String,
    /// `metadata.resourceVersion`.
    pub(crate) resource_version: String,
    #[serde(default)]
    finalizers: Vec<String>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct Status {
    conditions: Vec<Condition>,
}

#[derive(Clone, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    name: String,
    status: String,
    message: String,
}

/// A child, of which only the existence counts.
#[derive(Clone, Deserialize)]
struct Child {
    metadata: Metadata,
}

/// An object of a watch.
pub(crate) trait Named: Clone + DeserializeOwned + Send + 'static {
    fn metadata(&self) -> &Metadata;
}

impl Named for Seen {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

impl Named for Child {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

impl Watcher {
    /// Begins to watch.
    pub fn start(client: &Client) -> Self {
        let board = Arc::new(Mutex::new(Board::default()));
        let deployments = format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments");
        let services = format!("/api/v1/namespaces/{NAMESPACE}/services");
        let tasks = vec![
            follow(client, list_path(), &board, |board: &mut Board, parent: Seen| board.parent(&parent)),
            follow(client, deployments, &board, |board: &mut Board, child: Child| {
                board.note(&child.metadata.name, |row| row.has_deployment = true);
            }),
            follow(client, services, &board, |board: &mut Board, child: Child| {
                let parent = child.metadata.name.trim_end_matches("-service");
                board.note(parent, |row| row.has_service = true);
            }),
        ];
        Self { board, tasks }
    }

    /// Records when a creation was sent.
    pub fn sent(&self, name: &str, at: Instant) {
        self.board().rows.entry(name.to_owned()).or_default().sent = Some(at);
    }

    /// Waits until so many CRs have converged.
    ///
    /// # Errors
    /// When they have not converged in time; the run is void then.
    pub async fn converged(&self, count: usize, timeout: Duration) -> Result<Converged> {
        let began = Instant::now();
        while self.board().converged < count {
            if began.elapsed() > timeout {
                bail!(
                    "void: {} of {count} CRs converged within {timeout:?}; {}",
                    self.board().converged,
                    self.laggard()
                );
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        let board = self.board();
        let at = board.rows.values().filter_map(|row| row.converged).max().unwrap_or(began);
        let took = |row: &Row| Some(row.converged?.duration_since(row.sent?));
        let mut latencies: Vec<Duration> = board.rows.values().filter_map(took).collect();
        latencies.sort_unstable();
        Ok(Converged { at, latencies })
    }

    fn laggard(&self) -> String {
        let board = self.board();
        let row = board.rows.iter().find(|(_, row)| row.converged.is_none());
        row.map_or_else(String::new, |(name, row)| {
            format!(
                "{name} has Deployment: {}, Service: {}, final status: {}",
                row.has_deployment, row.has_service, row.has_final_status
            )
        })
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Board {
    fn parent(&mut self, parent: &Seen) {
        let has_final_status = parent.has_final_status();
        self.note(&parent.metadata.name, |row| row.has_final_status = has_final_status);
    }

    fn note(&mut self, name: &str, change: impl FnOnce(&mut Row)) {
        let row = self.rows.entry(name.to_owned()).or_default();
        change(row);
        if row.converged.is_none() && row.has_deployment && row.has_service && row.has_final_status {
            row.converged = Some(Instant::now());
            self.converged += 1;
        }
    }
}

impl Seen {
    /// Whether the status is the plugin's final one: the children exist and, since no controllers run,
    /// never become ready.
    fn has_final_status(&self) -> bool {
        let expected = format!("Deployment for custom resource ({}) has 0 of 1 replicas ready", self.metadata.name);
        let says = |condition: &Condition| {
            condition.name == "Available" && condition.status == "False" && condition.message == expected
        };
        !self.metadata.finalizers.is_empty() && self.status.conditions.iter().any(says)
    }
}

/// Watches a collection; where the API server ends a watch, another one continues from there.
pub(crate) fn follow<B: Send + 'static, T: Named>(
    client: &Client,
    path: String,
    board: &Arc<Mutex<B>>,
    note: impl Fn(&mut B, T) + Send + 'static,
) -> JoinHandle<()> {
    let (client, board) = (client.clone(), board.clone());
    tokio::spawn(async move {
        let mut version = "0".to_owned();
        loop {
            let request = Request::get(format!("{path}?watch=true&resourceVersion={version}")).body(Vec::new());
            let Ok(request) = request else { return };
            let Ok(events) = client.kube.request_events::<T>(request).await else {
                tokio::time::sleep(POLL_INTERVAL).await;
                continue;
            };
            let mut events = Box::pin(events);
            while let Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object))) = events.next().await {
                version = object.metadata().resource_version.clone();
                note(&mut board.lock().unwrap_or_else(PoisonError::into_inner), object);
            }
        }
    })
}
