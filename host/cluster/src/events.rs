//! Kubernetes Events, written as the host.
//!
//! An Event's name is derived from the object's uid, the reason and the message, so that a repeat raises the count of
//! the existing Event, even after a restart of the host. An annotation names the revision of the plugin that recorded
//! the Event last. The revision is no part of the name, or each reload would record every Event anew. A task of its own
//! writes the Events, so that no reconcile waits for them, except shortly for the Events with which a clean-up begins:
//! if a webhook holds the Events of a namespace, they are queued like all others. Plugins and namespaces
//! [take turns](hotshoe_core::flow::event_queue). A transient failure is retried; if too many Events of a plugin wait, its
//! newest are dropped.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::stream::{FuturesUnordered, StreamExt};
use http::Method;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{Notify, watch};

use crate::client::{ApiCall, Cluster};
use crate::error::ApiError;
use crate::identity::{Identity, Permit};
use crate::time::now;
use hotshoe_core::flow::event_queue::{EventQueue, InFlight};
use hotshoe_core::model::decision::Event;
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::kind::ObjectRef;
use hotshoe_platform::spans;

/// The namespace of Events about cluster-scoped objects, by the convention of Kubernetes.
const DEFAULT_NAMESPACE: &str = "default";
/// The annotation with the revision that recorded the Event, as short as `hotshoe status` shows it.
const DIGEST_ANNOTATION: &str = "hotshoe.dev/digest";

/// How long a clean-up waits for the write of an Event before the Event is queued.
const ENSURE_TIMEOUT: Duration = Duration::from_secs(2);

/// An Event to be written.
#[derive(Clone, Debug)]
pub struct EventRecord {
    /// The object that the Event is about.
    pub about: ObjectRef,
    /// The uid of that object.
    pub uid: String,
    /// The plugin that recorded it.
    pub plugin: Arc<str>,
    /// The plugin's revision; `None` if the plugin has no active revision.
    pub digest: Option<Digest>,
    /// Severity, reason and message.
    pub event: Event,
    /// Whether an Event that exists already is left as it is. Otherwise its count is raised.
    pub once: bool,
    /// The permit to write the Event. If it ends before the write, the host that takes over the object records the
    /// Event.
    pub permit: Permit,
}

/// Queues Events to be written.
#[derive(Clone)]
pub struct Recorder {
    cluster: Cluster,
    waiting: Arc<Waiting>,
}

/// Events that are not written yet.
#[derive(Default)]
struct Waiting {
    notes: Mutex<EventQueue<Box<EventRecord>>>,
    /// Notified of each new Event.
    added: Notify,
    /// The number of waiting Events and of those being written; changed under the lock of `notes`.
    unwritten: watch::Sender<usize>,
}

impl Waiting {
    fn push(&self, note: EventRecord) -> bool {
        let (plugin, namespace) = (note.plugin.clone(), namespace(&note).into());
        let mut notes = self.notes.lock();
        let has_room = notes.push(&plugin, &namespace, Box::new(note));
        if has_room {
            self.unwritten.send_modify(|count| *count += 1);
            self.added.notify_one();
        }
        has_room
    }

    /// Waits until all Events are written or dropped.
    async fn until_empty(&self) {
        // The sender lives in self, so the channel is open.
        drop(self.unwritten.subscribe().wait_for(|count| *count == 0).await);
    }

    /// Ends the write of an Event. After a transient error the Event is queued again, unless it was tried for long
    /// enough.
    fn end(&self, event: InFlight<Box<EventRecord>>, written: Result<(), ApiError>) {
        let mut notes = self.notes.lock();
        match written {
            Err(error) if error.is_of_permit() => {
                // Another host does not record an Event of a clean-up that has begun.
                if event.item.once {
                    log_lost(&event.item, &error);
                }
                notes.end(event);
            }
            Err(error) if error.is_transient() => {
                let Some(note) = notes.fail(event, Instant::now()) else { return };
                log_lost(&note, &error);
            }
            Err(error) => {
                log_lost(&event.item, &error);
                notes.end(event);
            }
            Ok(()) => notes.end(event),
        }
        self.unwritten.send_modify(|count| *count = count.saturating_sub(1));
    }

    fn is_stuck(&self, namespace: &str) -> bool {
        self.notes.lock().is_stuck(namespace, ENSURE_TIMEOUT, Instant::now())
    }

    fn next(&self) -> Option<InFlight<Box<EventRecord>>> {
        self.notes.lock().next(Instant::now())
    }

    /// Waits until another Event may be due.
    async fn until_due(&self) {
        let due = self.notes.lock().next_due();
        let due = async {
            match due {
                Some(until) => tokio::time::sleep_until(until.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.added.notified() => {}
            () = due => {}
        }
    }
}

/// Writes Events as they are recorded, a few at once.
async fn write_all(cluster: Cluster, waiting: Arc<Waiting>) {
    let mut writes = FuturesUnordered::new();
    loop {
        while let Some(event) = waiting.next() {
            let cluster = &cluster;
            writes.push(async move {
                let written = write(cluster, &event.item).await;
                (event, written)
            });
        }
        tokio::select! {
            Some((event, written)) = writes.next() => waiting.end(event, written),
            () = waiting.until_due() => {}
        }
    }
}

impl Recorder {
    /// Starts the task that writes Events.
    pub fn start(cluster: Cluster) -> Self {
        let waiting = Arc::new(Waiting::default());
        let recorder = Self { cluster: cluster.clone(), waiting: waiting.clone() };
        tokio::spawn(write_all(cluster, waiting));
        recorder
    }

    /// Waits until all recorded Events are written or dropped.
    pub async fn flush(&self) {
        self.waiting.until_empty().await;
    }

    /// Writes an Event now, in a write slot of its plugin. Returns `false` if that takes long, or is likely to because
    /// Events of its namespace fail: then the Event must be queued, because the caller holds a worker of its plugin.
    ///
    /// # Errors
    /// A transient error. Other errors would be the same next time, and are only logged.
    pub async fn ensure(&self, note: &EventRecord) -> Result<bool, ApiError> {
        if self.waiting.is_stuck(namespace(note)) {
            return Ok(false);
        }
        let cluster = self.cluster.of(&note.plugin);
        match tokio::time::timeout(ENSURE_TIMEOUT, write(&cluster, note)).await {
            Err(_) => Ok(false),
            Ok(Err(error)) if error.is_transient() => Err(error),
            Ok(Err(error)) => {
                log_lost(note, &error);
                Ok(true)
            }
            Ok(Ok(())) => Ok(true),
        }
    }

    /// Queues an Event; returns `false` if too many of its plugin wait.
    pub fn record(&self, note: EventRecord) -> bool {
        self.waiting.push(note)
    }
}

/// Logs an Event that was dropped. Not in a namespace that is being deleted: the Event would be deleted with it.
fn log_lost(note: &EventRecord, error: &ApiError) {
    if !error.is_namespace_terminating() {
        // Several plugins share the task that writes most of them.
        let _span = spans::object(&note.plugin, note.digest, &note.about).entered();
        tracing::warn!(reason = note.event.reason, "an Event was not written: {error}");
    }
}

async fn write(cluster: &Cluster, note: &EventRecord) -> Result<(), ApiError> {
    match create(cluster, note).await {
        Err(error) if error.code == 409 && note.once => Ok(()),
        Err(error) if error.code == 409 => raise_count(cluster, note).await,
        created => created,
    }
}

async fn create(cluster: &Cluster, note: &EventRecord) -> Result<(), ApiError> {
    send(cluster, note, Method::POST, &path(note, None), event_body(note)).await.map(drop)
}

async fn raise_count(cluster: &Cluster, note: &EventRecord) -> Result<(), ApiError> {
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

async fn send(
    cluster: &Cluster,
    note: &EventRecord,
    method: Method,
    path: &str,
    body: String,
) -> Result<String, ApiError> {
    let content_type = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let call = ApiCall {
        verb: "record an Event about",
        target: &note.about,
        method,
        uri: path.to_owned(),
        content_type,
        body: body.into_bytes(),
    };
    cluster.send(call, &Identity::Host, &note.permit).await
}

fn namespace(note: &EventRecord) -> &str {
    note.about.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE)
}

fn path(note: &EventRecord, name: Option<&str>) -> String {
    let namespace = namespace(note);
    match name {
        Some(name) => format!("/api/v1/namespaces/{namespace}/events/{name}"),
        None => format!("/api/v1/namespaces/{namespace}/events"),
    }
}

/// Returns the name `<object>.<hash>`, the format that `kubectl` users know.
fn name(note: &EventRecord) -> String {
    let EventRecord { uid, event: Event { reason, message, .. }, .. } = note;
    let hash = Digest::of(format!("{uid}\0{reason}\0{message}").as_bytes()).digits(16);
    let object: String = note.about.name.chars().take(200).collect();
    format!("{}.{hash}", object.trim_end_matches(['-', '.']))
}

fn event_body(note: &EventRecord) -> String {
    let now = now();
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": { "name": name(note), "annotations": annotations(note) },
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
fn repeat_body(note: &EventRecord, count: u64) -> String {
    json!({ "metadata": { "annotations": annotations(note) }, "count": count, "lastTimestamp": now() }).to_string()
}

fn annotations(note: &EventRecord) -> BTreeMap<&'static str, String> {
    note.digest.iter().map(|digest| (DIGEST_ANNOTATION, digest.to_string())).collect()
}

#[cfg(test)]
mod tests {
    use axum::extract::Path;
    use axum::http::StatusCode;
    use axum::routing::post;
    use serde_json::Value;

    use super::*;
    use crate::served;
    use hotshoe_core::model::decision::Severity;
    use hotshoe_core::model::kind::Kind;

    fn note(component: &str, message: &str) -> EventRecord {
        EventRecord {
            about: ObjectRef {
                kind: Kind::new("cache.example.com", "v1", "Memcached"),
                namespace: Some("shop".into()),
                name: "cache".into(),
            },
            uid: "5f0f6f0e".into(),
            plugin: "memcached".into(),
            digest: Some(Digest::of(component.as_bytes())),
            event: Event { severity: Severity::Normal, reason: "Deleting".into(), message: message.into() },
            once: false,
            permit: Permit::unlimited(),
        }
    }

    fn parsed(body: &str) -> Value {
        serde_json::from_str(body).unwrap()
    }

    #[tokio::test]
    async fn a_flush_waits_for_the_event_that_is_being_written() {
        let waiting = Waiting::default();
        waiting.until_empty().await;
        assert!(waiting.push(note("", "it goes")));
        let event = waiting.next().unwrap();
        let mut flush = Box::pin(waiting.until_empty());
        assert!(futures::poll!(&mut flush).is_pending());
        waiting.end(event, Ok(()));
        flush.await;
    }

    #[tokio::test]
    async fn a_flush_waits_for_an_event_that_is_retried_and_not_for_an_invalid_one() {
        let waiting = Waiting::default();
        let error = |code| ApiError::new("record", "an Event".into(), code, "", String::new());
        assert!(waiting.push(note("", "it goes")));
        waiting.end(waiting.next().unwrap(), Err(error(500)));
        assert!(futures::poll!(Box::pin(waiting.until_empty())).is_pending());
        assert!(waiting.next().is_none(), "its namespace is paused");
        waiting.until_due().await;
        waiting.until_due().await;
        waiting.end(waiting.next().unwrap(), Err(error(422)));
        waiting.until_empty().await;
    }

    /// Serves an API server that fails in namespaces called `bad…`, never answers in those called `hung…`, and has every
    /// Event of those called `known…`. Returns the namespaces of the Events that it receives, in order.
    async fn api_server() -> (Cluster, tokio::sync::mpsc::UnboundedReceiver<String>) {
        let (sender, received) = tokio::sync::mpsc::unbounded_channel();
        let record = move |Path(namespace): Path<String>| async move {
            drop(sender.send(namespace.clone()));
            let status = match namespace.trim_end_matches(char::is_numeric) {
                "bad" => StatusCode::INTERNAL_SERVER_ERROR,
                "known" => StatusCode::CONFLICT,
                "hung" => std::future::pending().await,
                _ => StatusCode::CREATED,
            };
            (status, "{}")
        };
        let server = axum::Router::new().route("/api/v1/namespaces/{namespace}/events", post(record));
        (served::by(server).await, received)
    }

    fn in_namespace(plugin: &str, namespace: &str, number: usize) -> EventRecord {
        let about = ObjectRef { namespace: Some(namespace.into()), ..note("", "").about };
        EventRecord { plugin: plugin.into(), about, ..note("", &number.to_string()) }
    }

    #[tokio::test]
    async fn events_of_clean_ups_that_are_never_answered_hold_up_no_event_of_the_host() {
        let (cluster, mut received) = api_server().await;
        let recorder = Recorder::start(cluster);
        let of_clean_ups: Vec<_> = (0..20).map(|number| in_namespace("loud", "hung", number)).collect();
        let ensured = futures::future::join_all(of_clean_ups.iter().map(|note| recorder.ensure(note)));
        let written = async {
            while received.recv().await.unwrap() != "hung" {}
            assert!(recorder.record(in_namespace("quiet", "good", 0)));
            while received.recv().await.unwrap() != "good" {}
        };
        tokio::select! {
            _ = ensured => panic!("the Event of the host waits until clean-ups give up"),
            () = written => {}
        }
    }

    #[tokio::test]
    async fn a_clean_up_waits_for_its_event_only_shortly_and_not_where_events_fail() {
        let (cluster, mut received) = api_server().await;
        let recorder = Recorder { cluster, waiting: Arc::default() };
        assert!(recorder.ensure(&in_namespace("loud", "good", 0)).await.unwrap());
        assert!(recorder.ensure(&in_namespace("loud", "bad", 0)).await.is_err());
        tokio::time::pause();
        let hung = in_namespace("loud", "hung", 0);
        assert!(!tokio::time::timeout(2 * ENSURE_TIMEOUT, recorder.ensure(&hung)).await.unwrap().unwrap());
        tokio::time::resume();
        assert!(recorder.record(in_namespace("loud", "bad", 0)));
        let event = recorder.waiting.next().unwrap();
        recorder.waiting.end(event, Err(ApiError::new("record", "an Event".into(), 500, "", String::new())));
        assert!(!recorder.ensure(&in_namespace("loud", "bad", 0)).await.unwrap());
        let asked = std::iter::from_fn(|| received.try_recv().ok());
        assert_eq!(
            asked.filter(|namespace| namespace == "bad").count(),
            1,
            "the second is not tried where Events fail"
        );
    }

    #[tokio::test]
    async fn an_event_of_a_clean_up_that_exists_is_not_counted_again() {
        let (cluster, _received) = api_server().await;
        let repeated = in_namespace("loud", "known", 0);
        assert!(write(&cluster, &repeated).await.is_err(), "its count cannot be read");
        assert!(write(&cluster, &EventRecord { once: true, ..repeated }).await.is_ok());
    }

    #[tokio::test]
    async fn namespaces_in_which_events_fail_do_not_hold_up_others_of_any_plugin() {
        let (cluster, mut received) = api_server().await;
        let recorder = Recorder::start(cluster);
        for number in 0..20 {
            for bad in ["bad1", "bad2", "bad3", "bad4", "bad5", "bad6"] {
                assert!(recorder.record(in_namespace("loud", bad, number)));
            }
            assert!(recorder.record(in_namespace("loud", "good", number)));
            assert!(recorder.record(in_namespace("quiet", "good", number)));
        }
        let all_good = async {
            let mut good = 0;
            while good < 40 {
                good += usize::from(received.recv().await.unwrap() == "good");
            }
        };
        tokio::time::timeout(Duration::from_secs(10), all_good).await.unwrap();
        assert!(futures::poll!(Box::pin(recorder.flush())).is_pending(), "those of the bad ones are tried again");
    }

    #[test]
    fn an_event_names_its_revision_by_short_digest() {
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
        let digest = Digest::of(b"new").to_string();
        assert_eq!(patch["metadata"], json!({ "annotations": { "hotshoe.dev/digest": digest } }));
        assert_eq!(patch["count"], 3);
    }
}
