//! One sample on a cluster: it is created, its plugin makes it ready, it is deleted, and nothing of it is left.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::ready::{Progress, progress};
use crate::cli::project::shown;
use hotshoe_cluster::client::Cluster;
use hotshoe_cluster::discovery::Kinds;
use hotshoe_cluster::error::ApiError;
use hotshoe_cluster::{read, write};
use hotshoe_core::model::decision::Descriptor;
use hotshoe_core::model::kind::{Kind, ObjectRef};
use hotshoe_core::model::object::PLUGIN_LABEL;
use hotshoe_core::model::sanitize::clean;

/// The pause between two looks at an object.
const PAUSE: Duration = Duration::from_millis(100);
/// How long the first Event about a parent that fails is waited for: a host writes Events beside the status, so that the
/// condition may be seen first.
const EVENT_WAIT: Duration = Duration::from_secs(10);
/// How many of the last Events about a parent, and of the objects that are left, are shown.
const MAX_SHOWN: usize = 5;
/// The maximum length of a line about a failure, in bytes: an object's author chooses messages and names.
const MAX_LINE_BYTES: usize = 2_000;
/// The namespace of Events about objects without a namespace.
const DEFAULT_NAMESPACE: &str = "default";

/// A cluster, and the plugin whose samples are tried on it.
pub(super) struct Setting<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) kinds: &'a Kinds,
    pub(super) descriptor: &'a Descriptor,
    /// The namespace of the samples, which is their own.
    pub(super) namespace: &'a str,
    /// How long each wait may take.
    pub(super) timeout: Duration,
}

/// A sample and its file.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) file: PathBuf,
    pub(super) object: Value,
}

impl Sample {
    /// Returns its kind, in its version.
    pub(super) fn kind(&self) -> Kind {
        Kind::of(text(&self.object, "/apiVersion"), text(&self.object, "/kind"))
    }
}

/// What became of a sample.
#[derive(Debug)]
pub(super) struct Outcome {
    file: PathBuf,
    /// What its plugin stated of it in the end, after how long, and with how many children.
    ready: Option<(&'static str, Duration, usize)>,
    /// How long it took until nothing was left of it.
    gone: Option<Duration>,
    failure: Option<String>,
}

impl Outcome {
    pub(super) fn passed(&self) -> bool {
        self.failure.is_none()
    }

    pub(super) fn text(&self) -> String {
        let mut text = format!("sample {}", shown(&self.file).display());
        if let Some((word, after, children)) = self.ready {
            let children = format!("{children} {}", if children == 1 { "child" } else { "children" });
            let _ = write!(text, ": {word} after {:.1} s, {children}", after.as_secs_f64());
        }
        if let Some(gone) = self.gone {
            let _ = write!(text, "; gone after {:.1} s", gone.as_secs_f64());
        }
        let Some(failure) = &self.failure else { return format!("ok   {text}\n") };
        let mut text = format!("FAIL {text}\n");
        for line in failure.lines() {
            let _ = writeln!(text, "     {line}");
        }
        text
    }

    pub(super) fn record(&self) -> Value {
        json!({
            "name": format!("sample {}", shown(&self.file).display()),
            "file": self.file,
            "passed": self.passed(),
            "error": self.failure,
            "readySeconds": self.ready.map(|(_, after, _)| after.as_secs_f64()),
            "children": self.ready.map(|(_, _, children)| children),
            "goneSeconds": self.gone.map(|gone| gone.as_secs_f64()),
        })
    }
}

/// Tries a sample. With `keep`, one that fails is left as it is.
pub(super) async fn run(sample: &Sample, setting: &Setting<'_>, keep: bool) -> Outcome {
    let mut outcome = Outcome { file: sample.file.clone(), ready: None, gone: None, failure: None };
    if let Err(failure) = try_to_end(sample, setting, keep, &mut outcome).await {
        let lines: Vec<String> = failure.lines().map(|line| clean(line.to_owned(), MAX_LINE_BYTES)).collect();
        outcome.failure = Some(lines.join("\n"));
    }
    outcome
}

async fn try_to_end(sample: &Sample, setting: &Setting<'_>, keep: bool, outcome: &mut Outcome) -> Result<(), String> {
    let parent = Live::create(sample, setting).await?;
    let became_ready = parent.becomes_ready(setting).await;
    match became_ready {
        Ok(ready) => outcome.ready = Some(ready),
        Err(failure) if keep => return Err(failure),
        Err(failure) => {
            let left = parent.goes(setting).await.err();
            return Err(left.map_or_else(|| failure.clone(), |left| format!("{failure}\n{left}")));
        }
    }
    outcome.gone = Some(parent.goes(setting).await?);
    Ok(())
}

/// A parent that was made of a sample.
struct Live {
    reference: ObjectRef,
    uid: String,
}

impl Live {
    async fn create(sample: &Sample, setting: &Setting<'_>) -> Result<Self, String> {
        let mut object = sample.object.clone();
        let is_namespaced = setting.kinds.is_namespaced(&setting.descriptor.parent).unwrap_or(true);
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            match is_namespaced {
                true => drop(metadata.insert("namespace".to_owned(), setting.namespace.into())),
                // Others may have an object of the sample's name.
                false => drop(metadata.insert("name".to_owned(), own_name(&sample.object, setting.namespace).into())),
            }
        }
        let created = write::create(setting.cluster, setting.kinds, &object).await;
        let created = created.map_err(|error| format!("the API server does not create it: {error}"))?;
        let reference = ObjectRef::of(&created).map_err(|error| format!("the reply names no object: {error}"))?;
        Ok(Self { reference, uid: uid(&created).to_owned() })
    }

    /// Waits until the parent is ready. Returns what its plugin states of it, after how long, and its children.
    async fn becomes_ready(&self, setting: &Setting<'_>) -> Result<(&'static str, Duration, usize), String> {
        let (began, is_builtin) = (Instant::now(), setting.descriptor.parent.is_builtin());
        loop {
            let (parent, children) = self.look(setting).await.map_err(|error| error.to_string())?;
            let Some(parent) = parent else { return Err(format!("{} was deleted meanwhile", self.reference)) };
            return match progress(&parent, children.len(), is_builtin) {
                Progress::Ready(word) => Ok((word, began.elapsed(), children.len())),
                Progress::Failed(why) => Err(format!("{why}{}", self.awaited_events(setting).await)),
                Progress::Waits(_) if began.elapsed() < setting.timeout => {
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
                Progress::Waits(why) => {
                    let events = self.events(setting).await;
                    Err(format!("it is not ready after {:?}: {why}{events}", setting.timeout))
                }
            };
        }
    }

    /// Deletes the parent, and waits until neither it nor a child of it is there. Returns how long that took.
    async fn goes(&self, setting: &Setting<'_>) -> Result<Duration, String> {
        let began = Instant::now();
        let deleted = write::delete(setting.cluster, setting.kinds, &self.reference, &self.uid).await;
        deleted.map_err(|error| error.to_string())?;
        loop {
            let (parent, children) = self.look(setting).await.map_err(|error| error.to_string())?;
            if parent.is_none() && children.is_empty() {
                return Ok(began.elapsed());
            }
            if began.elapsed() >= setting.timeout {
                let left = left(parent.iter().chain(&children));
                let events = self.events(setting).await;
                return Err(format!("{:?} after its deletion this is left:{left}{events}", setting.timeout));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Reads the parent, if it is there, and its children.
    async fn look(&self, setting: &Setting<'_>) -> Result<(Option<Value>, Vec<Value>), ApiError> {
        let parent = read::object(setting.cluster, setting.kinds, &self.reference).await?;
        let (namespace, mut children) = (self.reference.own_namespace().map(|namespace| &**namespace), Vec::new());
        for owned in &setting.descriptor.owns {
            let found = read::objects(setting.cluster, setting.kinds, &owned.kind, namespace, PLUGIN_LABEL).await?;
            children.extend(found.into_iter().filter(|child| is_controlled_by(child, &self.uid)));
        }
        Ok((parent.filter(|parent| uid(parent) == self.uid), children))
    }

    /// Describes the last Events about the parent as soon as there is one; nothing where none comes for a while.
    async fn awaited_events(&self, setting: &Setting<'_>) -> String {
        let began = Instant::now();
        loop {
            let events = self.events(setting).await;
            if !events.is_empty() || began.elapsed() >= EVENT_WAIT {
                return events;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Describes the last Events about the parent, one a line, each after a line break.
    async fn events(&self, setting: &Setting<'_>) -> String {
        let kind = Kind::new("", "v1", "Event");
        let namespace = self.reference.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
        let found = read::objects(setting.cluster, setting.kinds, &kind, Some(namespace), "").await.unwrap_or_default();
        let is_about = |event: &&Value| text(event, "/involvedObject/uid") == self.uid;
        let mut about: Vec<&Value> = found.iter().filter(is_about).collect();
        about.sort_by_key(|event| text(event, "/metadata/creationTimestamp"));
        let last = about.iter().rev().take(MAX_SHOWN).rev();
        last.map(|event| {
            format!("\nEvent {} {}: {}", text(event, "/type"), text(event, "/reason"), text(event, "/message"))
        })
        .collect()
    }
}

/// Returns a name for a parent without a namespace that no other has: the sample's, and the end of the namespace's.
fn own_name(sample: &Value, namespace: &str) -> String {
    let suffix = namespace.rsplit('-').next().unwrap_or(namespace);
    format!("{}-{suffix}", text(sample, "/metadata/name"))
}

/// Describes objects that are still there, with the finalizers that hold them, one a line, each after a line break.
fn left<'a>(objects: impl Iterator<Item = &'a Value>) -> String {
    let described = objects.take(MAX_SHOWN).map(|object| {
        let finalizers: Vec<&str> = object
            .pointer("/metadata/finalizers")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let held = match finalizers.is_empty() {
            true => String::new(),
            false => format!(", held by the finalizer {}", finalizers.join(" and ")),
        };
        format!("\n{} {}{held}", text(object, "/kind"), text(object, "/metadata/name"))
    });
    described.collect()
}

fn is_controlled_by(child: &Value, parent: &str) -> bool {
    let mut references = child.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten();
    references.any(|reference| text(reference, "/uid") == parent)
}

fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
