//! Kubernetes Events, written as the host.
//!
//! An Event's name is derived from the object's uid, the reason and the message, so that a repeat raises the count of
//! the existing Event, after a restart of the host too. An annotation names the revision of the plugin that recorded
//! it last; it is no part of the name, or each reload would record every Event anew. A task of its own writes them, so
//! that no reconcile waits for one, except for those with which a clean-up begins. Plugins take turns. A transient
//! failure is retried; if too many Events of a plugin wait, its newest are dropped.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::cluster::client::{ApiCall, Cluster};
use crate::cluster::error::ApiError;
use crate::cluster::identity::{Identity, Permit};
use hotshoe_core::flow::backoff::soon;
use hotshoe_core::flow::fair_queue::FairQueue;
use hotshoe_core::model::decision::Event;
use hotshoe_core::model::digest::Digest as Revision;
use hotshoe_core::model::kind::ObjectRef;

/// How many Events of one plugin may wait to be written.
const WAITING: usize = 500;
/// The namespace of Events about cluster-scoped objects, as everywhere in Kubernetes.
const DEFAULT_NAMESPACE: &str = "default";
/// The revision that recorded it, as short as `hotshoe status` shows it.
const DIGEST_ANNOTATION: &str = "hotshoe.dev/digest";

/// An Event to be written.
#[derive(Clone, Debug)]
pub struct Note {
    /// The object that it is about.
    pub about: ObjectRef,
    /// The uid of that object.
    pub uid: String,
    /// The plugin that recorded it.
    pub plugin: Arc<str>,
    /// The plugin's revision.
    pub digest: Revision,
    /// Severity, reason and message.
    pub event: Event,
}

/// How long the write of an Event is retried: longer than a restart of the API server takes, since a lost Event is
/// not recorded again; no longer, since others wait behind it.
const TRIED: Duration = Duration::from_secs(30);

/// Queues Events to be written.
#[derive(Clone)]
pub struct Recorder {
    cluster: Cluster,
    waiting: Arc<Waiting>,
}

/// Events that are not written yet.
#[derive(Default)]
struct Waiting {
    notes: Mutex<FairQueue<Arc<str>, Box<Note>>>,
    /// Counts them, with the one that is being written; changed under the lock of `notes`.
    unwritten: watch::Sender<usize>,
}

impl Waiting {
    fn push(&self, note: Note) -> bool {
        let mut notes = self.notes.lock();
        let room = notes.waiting(&note.plugin) < WAITING;
        if room {
            notes.push(&note.plugin.clone(), Box::new(note));
            self.unwritten.send_modify(|count| *count += 1);
        }
        room
    }

    /// Waits for the next Event.
    async fn next(&self) -> Option<Box<Note>> {
        // The sender is here, so it cannot be gone.
        self.unwritten.subscribe().wait_for(|count| *count > 0).await.ok()?;
        self.notes.lock().next().map(|(_, note)| note)
    }

    /// Waits until all Events are written or dropped.
    async fn empty(&self) {
        // The sender is here, so it cannot be gone.
        drop(self.unwritten.subscribe().wait_for(|count| *count == 0).await);
    }

    fn written(&self) {
        let _notes = self.notes.lock();
        self.unwritten.send_modify(|count| *count = count.saturating_sub(1));
    }
}

impl Recorder {
    /// Starts the task that writes Events.
    pub fn start(cluster: Cluster) -> Self {
        let waiting = Arc::new(Waiting::default());
        let recorder = Self { cluster: cluster.clone(), waiting: waiting.clone() };
        tokio::spawn(async move {
            while let Some(note) = waiting.next().await {
                write_with_retries(&cluster, &note).await;
                waiting.written();
            }
        });
        recorder
    }

    /// Waits until all recorded Events are written or given up.
    pub async fn flush(&self) {
        self.waiting.empty().await;
    }

    /// Writes an Event now, unless it exists.
    ///
    /// # Errors
    /// Transient ones; others would be the same next time, and are logged.
    pub async fn ensure(&self, note: &Note) -> Result<(), ApiError> {
        match create(&self.cluster, note).await {
            Err(error) if error.code == 409 => Ok(()),
            Err(error) if error.is_transient() => Err(error),
            Err(error) => {
                not_written(note, &error);
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Queues an Event; returns false if too many of its plugin wait.
    pub fn record(&self, note: Note) -> bool {
        self.waiting.push(note)
    }
}

async fn write_with_retries(cluster: &Cluster, note: &Note) {
    let began = Instant::now();
    for tries in 1.. {
        let Err(error) = write(cluster, note).await else { return };
        if !error.is_transient() || began.elapsed() > TRIED {
            return not_written(note, &error);
        }
        tokio::time::sleep(soon(tries)).await;
    }
}

/// Logs an Event that was given up; not in a namespace that is being deleted, where it would go, too.
fn not_written(note: &Note, error: &ApiError) {
    if !error.is_namespace_terminating() {
        tracing::warn!(plugin = &*note.plugin, digest = %note.digest, object = %note.about, reason = note.event.reason, "an Event was not written: {error}");
    }
}

async fn write(cluster: &Cluster, note: &Note) -> Result<(), ApiError> {
    match create(cluster, note).await {
        Err(error) if error.code == 409 => raise_count(cluster, note).await,
        created => created,
    }
}

async fn create(cluster: &Cluster, note: &Note) -> Result<(), ApiError> {
    send(cluster, note, Method::POST, &path(note, None), event_body(note)).await.map(drop)
}

async fn raise_count(cluster: &Cluster, note: &Note) -> Result<(), ApiError> {
    #[derive(Deserialize)]
    struct Counted {
        #[serde(default)]
        count: u64,
    }
    let path = path(note, Some(&name(note)));
    let known = send(cluster, note, Method::GET, &path, String::new()).await?;
    let count = serde_json::from_str(&known).map_or(1, |Counted { count }| count) + 1;
    send(cluster, note, Method::PATCH, &path, repeat_body(note, count)).await.map(drop)
}

async fn send(cluster: &Cluster, note: &Note, method: Method, path: &str, body: String) -> Result<String, ApiError> {
    let content_type = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let call = ApiCall {
        verb: "record an Event about",
        target: &note.about,
        method,
        uri: path.to_owned(),
        content_type,
        body: body.into_bytes(),
    };
    cluster.send(call, &Identity::Host, &Permit::unlimited()).await
}

fn path(note: &Note, name: Option<&str>) -> String {
    let namespace = note.about.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
    match name {
        Some(name) => format!("/api/v1/namespaces/{namespace}/events/{name}"),
        None => format!("/api/v1/namespaces/{namespace}/events"),
    }
}

/// Returns `<object>.<hash>`, as `kubectl` users know it.
fn name(note: &Note) -> String {
    let Note { uid, event: Event { reason, message, .. }, .. } = note;
    let hash = Sha256::digest(format!("{uid}\0{reason}\0{message}"));
    let object: String = note.about.name.chars().take(200).collect();
    format!("{}.{hash:.16x}", object.trim_end_matches(['-', '.']))
}

fn event_body(note: &Note) -> String {
    let now = now();
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": { "name": name(note), "annotations": { DIGEST_ANNOTATION: note.digest.to_string() } },
        "type": note.event.severity.as_str(),
        "reason": note.event.reason,
        "message": note.event.message,
        "count": 1,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "source": { "component": format!("hotshoe/{}", note.plugin) },
        "reportingComponent": format!("hotshoe.dev/{}", note.plugin),
        "involvedObject": {
            "apiVersion": note.about.kind.api_version(),
            "kind": &*note.about.kind.kind,
            "namespace": note.about.namespace.as_deref(),
            "name": &*note.about.name,
            "uid": note.uid,
        },
    })
    .to_string()
}

/// Builds the merge patch of a repeated Event.
fn repeat_body(note: &Note, count: u64) -> String {
    let metadata = json!({ "annotations": { DIGEST_ANNOTATION: note.digest.to_string() } });
    json!({ "metadata": metadata, "count": count, "lastTimestamp": now() }).to_string()
}

/// Returns the time now as Kubernetes formats it.
pub fn now() -> String {
    k8s_openapi::jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Formats seconds after the epoch as Kubernetes does.
pub fn at(seconds: i64) -> Option<String> {
    let time = k8s_openapi::jiff::Timestamp::from_second(seconds).ok()?;
    Some(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// How many seconds after the epoch a time is that was written so.
pub fn seconds(time: &str) -> Option<i64> {
    Some(time.parse::<k8s_openapi::jiff::Timestamp>().ok()?.as_second())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use hotshoe_core::model::decision::Severity;
    use hotshoe_core::model::kind::Kind;

    fn note(component: &str, message: &str) -> Note {
        Note {
            about: ObjectRef {
                kind: Kind::new("cache.example.com", "v1", "Memcached"),
                namespace: Some("shop".into()),
                name: "cache".into(),
            },
            uid: "5f0f6f0e".into(),
            plugin: "memcached".into(),
            digest: Revision::of(component.as_bytes()),
            event: Event { severity: Severity::Normal, reason: "Deleting".into(), message: message.into() },
        }
    }

    fn parsed(body: &str) -> Value {
        serde_json::from_str(body).unwrap()
    }

    #[tokio::test]
    async fn a_plugin_with_too_many_events_loses_its_own_and_delays_no_others() {
        let waiting = Waiting::default();
        let loud = |n: usize| Note { plugin: "loud".into(), ..note("", &n.to_string()) };
        assert_eq!((0..2 * WAITING).filter(|n| waiting.push(loud(*n))).count(), WAITING);
        assert!(waiting.push(note("", "it goes")));
        let said = [waiting.next().await, waiting.next().await].map(|note| note.unwrap().event.message);
        assert_eq!(said, ["0", "it goes"]);
    }

    #[tokio::test]
    async fn a_flush_waits_for_the_one_that_is_being_written() {
        let waiting = Waiting::default();
        waiting.empty().await;
        assert!(waiting.push(note("", "it goes")));
        assert!(waiting.next().await.is_some());
        let mut flush = Box::pin(waiting.empty());
        assert!(futures::poll!(&mut flush).is_pending());
        waiting.written();
        flush.await;
    }

    #[test]
    fn an_event_names_its_revision_by_version_and_short_digest() {
        let event = parsed(&event_body(&note("", "it goes")));
        assert_eq!(event["metadata"]["annotations"], json!({ "hotshoe.dev/digest": "e3b0c44298fc" }));
        assert_eq!(event["reportingComponent"], "hotshoe.dev/memcached");
    }

    #[test]
    fn another_revision_that_emits_the_same_event_raises_its_count_and_becomes_its_source() {
        let (old, new) = (note("old", "it goes"), note("new", "it goes"));
        assert_eq!(name(&old), name(&new));
        assert_ne!(name(&old), name(&note("old", "it has gone")));
        let patch = parsed(&repeat_body(&new, 3));
        let digest = Revision::of(b"new").to_string();
        assert_eq!(patch["metadata"], json!({ "annotations": { "hotshoe.dev/digest": digest } }));
        assert_eq!(patch["count"], 3);
    }
}
