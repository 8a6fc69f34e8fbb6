//! A namespace with a running host: where a test begins, and what it observes.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::audit::Entry;
use crate::control_plane::{ControlPlane, HOST_USER};
use crate::host::{Host, Start, tail};
use crate::kinds::{ADMISSION_BINDING, ADMISSION_POLICY, DEPLOYMENT, EVENT, Kind, MEMCACHED, NAMESPACE, POD, SERVICE};
use crate::kube::{Changes, Kube, Refused};
use crate::wait;

/// The finalizer of the Memcached plugin.
pub const FINALIZER: &str = "cache.example.com/finalizer";

/// A namespace of its own.
pub struct Scene {
    /// Where it is.
    pub plane: &'static ControlPlane,
    /// The person's client.
    pub person: Kube,
    /// The name of the namespace.
    pub namespace: String,
    log: Option<PathBuf>,
}

/// A `Memcached` of this size.
pub fn memcached(name: &str, size: i32) -> Value {
    json!({
        "apiVersion": MEMCACHED.api_version(),
        "kind": MEMCACHED.kind,
        "metadata": { "name": name },
        "spec": { "size": size, "containerPort": 11211 },
    })
}

/// The condition of a type.
pub fn condition<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == name)
}

/// `status`, `reason` and `message` of a condition; empty where there is none.
pub fn said<'a>(object: &'a Value, name: &str) -> (&'a str, &'a str, &'a str) {
    let Some(condition) = condition(object, name) else { return ("", "", "") };
    let text = |field: &str| condition[field].as_str().unwrap_or_default();
    (text("status"), text("reason"), text("message"))
}

impl Scene {
    /// Creates a namespace with a running host that watches all namespaces.
    pub async fn with(plane: &'static ControlPlane, host: &Host, name: &str) -> Self {
        let mut scene = Self::new(plane, name).await;
        scene.watch_log(host);
        scene
    }

    /// A namespace without a host.
    pub async fn new(plane: &'static ControlPlane, name: &str) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let namespace = format!("{name}-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        plane.create_namespace(&namespace).await;
        Self { plane, person: plane.person.clone(), namespace, log: None }
    }

    /// How a host of the scene's own is started: it watches this namespace only.
    pub async fn start(&self) -> Start {
        Start::new(self.plane).await.namespace(&self.namespace)
    }

    /// A ready host of the scene's own with the Memcached plugin.
    pub async fn own_host(&mut self) -> Host {
        let host = self.start().await.ready().await;
        self.watch_log(&host);
        host
    }

    /// Show the end of this host's log when a wait fails.
    pub fn watch_log(&mut self, host: &Host) {
        self.log = Some(host.log_file());
    }

    /// Creates an object here.
    pub async fn create(&self, object: Value) -> Value {
        let created = self.try_create(object.clone()).await;
        created.unwrap_or_else(|refused| panic!("{object:#} is refused: {}", refused.message))
    }

    /// Creates an object here, or is refused.
    ///
    /// # Errors
    /// What the API server said.
    pub async fn try_create(&self, mut object: Value) -> Result<Value, Refused> {
        object["metadata"]["namespace"] = self.namespace.clone().into();
        self.person.create(&object).await
    }

    /// Applies an object here as this field manager.
    pub async fn apply(&self, manager: &str, mut object: Value) -> Value {
        object["metadata"]["namespace"] = self.namespace.clone().into();
        let applied = self.person.apply(manager, &object).await;
        applied.unwrap_or_else(|refused| panic!("{object:#} is refused: {}", refused.message))
    }

    /// One object that is there.
    pub async fn get(&self, kind: &Kind, name: &str) -> Value {
        self.find(kind, name).await.unwrap_or_else(|| panic!("{} {name} is not there", kind.kind))
    }

    /// One object, or none.
    pub async fn find(&self, kind: &Kind, name: &str) -> Option<Value> {
        match self.person.get(kind, &self.namespace, name).await {
            Ok(object) => Some(object),
            Err(refused) if refused.code == 404 => None,
            Err(refused) => panic!("{} {name} cannot be read: {}", kind.kind, refused.message),
        }
    }

    /// All objects of a kind.
    pub async fn list(&self, kind: &Kind) -> Vec<Value> {
        self.person.list(kind, &self.namespace).await.expect("a list")
    }

    /// A merge patch.
    pub async fn merge(&self, kind: &Kind, name: &str, patch: Value) -> Value {
        let merged = self.person.merge(kind, &self.namespace, name, &patch).await;
        merged.unwrap_or_else(|refused| panic!("{patch} of {name} is refused: {}", refused.message))
    }

    /// A JSON patch.
    pub async fn json_patch(&self, kind: &Kind, name: &str, patch: Value) -> Value {
        let patched = self.person.json_patch(kind, &self.namespace, name, &patch).await;
        patched.unwrap_or_else(|refused| panic!("{patch} of {name} is refused: {}", refused.message))
    }

    /// Asks for a deletion, and does not wait.
    pub async fn delete(&self, kind: &Kind, name: &str) {
        let deleted = self.person.delete(kind, &self.namespace, name).await;
        deleted.unwrap_or_else(|refused| panic!("{name} cannot be deleted: {}", refused.message));
    }

    /// A rule of the cluster: no update of a kind here for which this CEL expression is false. Returns its
    /// name; it is in force a moment later, and ends with its binding.
    pub async fn forbid(&self, kind: &Kind, unless: &str, message: &str) -> String {
        let name = format!("{}-{}", kind.plural.replace('/', "-"), self.namespace);
        let selector = json!({ "matchLabels": { "kubernetes.io/metadata.name": self.namespace } });
        let updates = json!([{
            "apiGroups": [kind.group], "apiVersions": [kind.version], "operations": ["UPDATE"], "resources": [kind.plural],
        }]);
        let policy = json!({
            "apiVersion": ADMISSION_POLICY.api_version(),
            "kind": ADMISSION_POLICY.kind,
            "metadata": { "name": name },
            "spec": {
                "matchConstraints": { "namespaceSelector": selector, "resourceRules": updates },
                "validations": [{ "expression": unless, "message": message }],
            },
        });
        let binding = json!({
            "apiVersion": ADMISSION_BINDING.api_version(),
            "kind": ADMISSION_BINDING.kind,
            "metadata": { "name": name },
            "spec": { "policyName": name, "validationActions": ["Deny"] },
        });
        self.person.create(&policy).await.expect("a policy");
        self.person.create(&binding).await.expect("a binding");
        name
    }

    /// Ends such a rule.
    pub async fn allow(&self, rule: &str) {
        self.person.delete(&ADMISSION_BINDING, "", rule).await.expect("the rule goes");
    }

    /// Every change of a kind here, beginning with what is there.
    pub async fn watch(&self, kind: &Kind) -> Changes {
        self.person.watch(kind, &self.namespace).await
    }

    /// Waits for a condition; a failure shows what is in the namespace.
    pub async fn until<T>(&self, what: &str, probe: impl AsyncFn() -> Result<T, String>) -> T {
        self.until_within(wait::PATIENCE, what, probe).await
    }

    /// Waits no longer than this for a condition; a failure shows what is in the namespace.
    pub async fn until_within<T>(
        &self,
        patience: Duration,
        what: &str,
        probe: impl AsyncFn() -> Result<T, String>,
    ) -> T {
        match wait::attempt(patience, probe).await {
            Ok(value) => value,
            Err(seen) => panic!("waited {patience:?} until {what}; seen last: {seen}\n{}", self.picture().await),
        }
    }

    /// Waits until an object fulfils a condition.
    pub async fn until_object(&self, kind: &Kind, name: &str, what: &str, fulfils: impl Fn(&Value) -> bool) -> Value {
        self.until(&format!("{} {name} {what}", kind.kind), async || {
            let object = self.look(kind, name).await?;
            if fulfils(&object) { Ok(object) } else { Err(format!("{object:#}")) }
        })
        .await
    }

    async fn look(&self, kind: &Kind, name: &str) -> Result<Value, String> {
        let found = self.person.get(kind, &self.namespace, name).await;
        found.map_err(|refused| format!("{} {}", refused.code, refused.message))
    }

    /// Waits until a condition of a Memcached is as expected: status, reason, part of the message.
    pub async fn until_said(&self, name: &str, condition: &str, expected: (&str, &str, &str)) -> Value {
        let (status, reason, message) = expected;
        self.until(&format!("{condition} of {name} is {expected:?}"), async || {
            let object = self.look(&MEMCACHED, name).await?;
            let found = said(&object, condition);
            let is_it = found.0 == status && found.1 == reason && found.2.contains(message);
            if is_it { Ok(object.clone()) } else { Err(format!("{found:?}")) }
        })
        .await
    }

    /// Waits until a condition of an object has this status, and this reason unless it is empty.
    pub async fn until_said_of(&self, kind: &Kind, name: &str, condition: &str, status: &str, reason: &str) -> Value {
        let what = format!("has {condition}={status} {reason}");
        let is_it = |object: &Value| {
            let found = said(object, condition);
            found.0 == status && (reason.is_empty() || found.1 == reason)
        };
        self.until_object(kind, name, &what, is_it).await
    }

    /// Waits until a Memcached has all desired children, and says so of its newest generation.
    pub async fn available(&self, name: &str) -> Value {
        self.until(&format!("{name} is available"), async || {
            let object = self.look(&MEMCACHED, name).await?;
            is_settled(&object).then(|| object.clone()).ok_or_else(|| format!("{:#}", object["status"]))
        })
        .await
    }

    /// Waits until an object is gone.
    pub async fn gone(&self, kind: &Kind, name: &str) {
        self.gone_from(&self.namespace, kind, name).await;
    }

    /// Waits until an object without a namespace is gone.
    pub async fn gone_from_cluster(&self, kind: &Kind, name: &str) {
        self.gone_from("", kind, name).await;
    }

    async fn gone_from(&self, namespace: &str, kind: &Kind, name: &str) {
        self.until(&format!("{} {name} is gone", kind.kind), async || {
            match self.person.get(kind, namespace, name).await {
                Err(refused) if refused.code == 404 => Ok(()),
                Err(refused) => Err(refused.message),
                Ok(object) => Err(format!("{:#}", object["metadata"])),
            }
        })
        .await;
    }

    /// Waits until the namespace itself is gone.
    pub async fn gone_namespace(&self) {
        self.until("the namespace is gone", async || match self.look(&NAMESPACE, &self.namespace).await {
            Err(seen) if seen.starts_with("404") => Ok(()),
            Err(seen) => Err(seen),
            Ok(namespace) => Err(format!("{:#}", namespace["status"])),
        })
        .await;
    }

    /// The Events about an object with this reason.
    pub async fn events(&self, about: &str, reason: &str) -> Vec<Value> {
        let events = self.list(&EVENT).await;
        let is_it = |event: &Value| event["involvedObject"]["name"] == about && event["reason"] == reason;
        events.into_iter().filter(is_it).collect()
    }

    /// Waits for an Event whose message has these words.
    pub async fn event(&self, about: &str, reason: &str, words: &str) -> Value {
        self.until(&format!("there is an Event {reason} about {about} that says {words}"), async || {
            let events = self.events(about, reason).await;
            let has_words = |event: &&Value| event["message"].as_str().is_some_and(|message| message.contains(words));
            events.iter().find(has_words).cloned().ok_or_else(|| format!("{events:#?}"))
        })
        .await
    }

    /// What the API server recorded here.
    pub fn audit(&self) -> Vec<Entry> {
        self.plane.audit(&self.namespace)
    }

    /// The writes of the host here, under its own account and under those of its plugins.
    pub fn writes(&self) -> Vec<Entry> {
        self.audit().into_iter().filter(|entry| entry.by == HOST_USER && entry.is_write()).collect()
    }

    /// The writes of the host here, once the audit log has caught up with what was just seen.
    pub async fn recorded_writes(&self) -> Vec<Entry> {
        let mark = format!("mark-{}", self.audit().len());
        // What is not there is looked for, and the record of that comes after those before it.
        drop(self.person.get(&crate::kinds::CONFIG_MAP, &self.namespace, &mark).await);
        self.until("the audit log has caught up", async || {
            let found = self.audit().iter().any(|entry| entry.name == mark);
            found.then_some(()).ok_or_else(|| "not yet".to_owned())
        })
        .await;
        self.writes()
    }

    /// What is in the namespace, and the end of the host's log.
    pub async fn picture(&self) -> String {
        // The log first: of a long picture, the end is what is cut off.
        let mut picture = self.log.as_deref().map(tail).unwrap_or_default();
        picture += &format!("\n── namespace {} ──\n", self.namespace);
        for kind in [EVENT, POD, SERVICE, DEPLOYMENT, MEMCACHED] {
            let objects = self.person.list(&kind, &self.namespace).await.unwrap_or_default();
            for mut object in objects.into_iter().take(12) {
                object["metadata"].as_object_mut().map(|metadata| metadata.remove("managedFields"));
                picture += &match kind.kind {
                    "Memcached" => format!("{object:#}\n"),
                    "Event" => format!("Event {} {} {}\n", object["count"], object["reason"], object["message"]),
                    _ => format!("{} {} {}\n", kind.kind, object["metadata"]["name"], object["status"]),
                };
            }
        }
        picture
    }
}

/// Whether all servers of a Memcached are there and its status says so of the newest generation.
pub fn is_settled(object: &Value) -> bool {
    let size = object["spec"]["size"].as_u64();
    let up_to_date = |name: &str| {
        condition(object, name).map(|c| &c["observedGeneration"]) == Some(&object["metadata"]["generation"])
    };
    said(object, "Available").0 == "True"
        && said(object, "Progressing").0 == "False"
        && said(object, "Degraded").0 == "False"
        && ["Available", "Progressing", "Degraded"].into_iter().all(up_to_date)
        && object["status"]["nodes"].as_array().map(|nodes| nodes.len() as u64) == size
        && object["status"]["readyReplicas"].as_u64() == size
}
