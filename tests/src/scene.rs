//! A namespace with a running host: where a test begins, and what it observes.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::audit::Entry;
use crate::control_plane::{ControlPlane, HOST_USER};
use crate::host::{Host, Start, tail};
use crate::kinds::{ADMISSION_BINDING, ADMISSION_POLICY, DEPLOYMENT, EVENT, Kind, MEMCACHED, NAMESPACE, POD, SERVICE};
use crate::kube::{Changes, Kube, Refused};
use crate::{repository, wait};

/// The finalizer of the Memcached plugin.
pub const FINALIZER: &str = "cache.example.com/finalizer";

/// A namespace that one test has for itself.
pub struct Scene {
    /// The control plane of the namespace.
    pub plane: &'static ControlPlane,
    /// The administrator's client.
    pub admin: Kube,
    /// The name of the namespace.
    pub namespace: String,
    log: Option<PathBuf>,
}

/// Builds a `Memcached` of this size.
pub fn memcached(name: &str, size: i32) -> Value {
    json!({
        "apiVersion": MEMCACHED.api_version(),
        "kind": MEMCACHED.kind,
        "metadata": { "name": name },
        "spec": { "size": size, "containerPort": 11211 },
    })
}

/// Returns the condition of this type.
pub fn condition<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == name)
}

/// Returns `status`, `reason` and `message` of a condition; empty texts where there is no such condition.
pub fn condition_parts<'a>(object: &'a Value, name: &str) -> (&'a str, &'a str, &'a str) {
    let Some(condition) = condition(object, name) else { return ("", "", "") };
    let text = |field: &str| condition[field].as_str().unwrap_or_default();
    (text("status"), text("reason"), text("message"))
}

impl Scene {
    /// Creates a namespace for a running host that watches all namespaces.
    pub async fn with(plane: &'static ControlPlane, host: &Host, name: &str) -> Self {
        let mut scene = Self::new(plane, name).await;
        scene.watch_log(host);
        scene
    }

    /// Creates a namespace without a host.
    pub async fn new(plane: &'static ControlPlane, name: &str) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let namespace = format!("{name}-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        plane.create_namespace(&namespace).await;
        Self { plane, admin: plane.admin.clone(), namespace, log: None }
    }

    /// Returns the options for a host of this scene, which watches this namespace only.
    pub async fn start(&self) -> Start {
        Start::new(self.plane).await.namespace(&self.namespace)
    }

    /// Starts a host of this scene with the Memcached plugin, and waits until it is ready.
    pub async fn own_host(&mut self) -> Host {
        let host = self.start().await.ready().await;
        self.watch_log(&host);
        host
    }

    /// Runs `kubectl` as the administrator, in this namespace.
    pub fn kubectl(&self, arguments: &[&str]) -> Output {
        let mut kubectl = Command::new(repository("target/control-plane/bin/kubectl"));
        kubectl.arg("--kubeconfig").arg(self.plane.file("kubeconfig")).args(["--namespace", &self.namespace]);
        kubectl.args(arguments).output().expect("kubectl runs")
    }

    /// Makes a wait that fails show the end of this host's log.
    pub fn watch_log(&mut self, host: &Host) {
        self.log = Some(host.log_file());
    }

    /// Creates an object in the namespace.
    pub async fn create(&self, object: Value) -> Value {
        let created = self.try_create(object.clone()).await;
        created.unwrap_or_else(|refused| panic!("{object:#} is refused: {}", refused.message))
    }

    /// Tries to create an object in the namespace.
    ///
    /// # Errors
    /// The API server's error response.
    pub async fn try_create(&self, mut object: Value) -> Result<Value, Refused> {
        object["metadata"]["namespace"] = self.namespace.clone().into();
        self.admin.create(&object).await
    }

    /// Applies an object in the namespace as this field manager.
    pub async fn apply(&self, manager: &str, mut object: Value) -> Value {
        object["metadata"]["namespace"] = self.namespace.clone().into();
        let applied = self.admin.apply(manager, &object).await;
        applied.unwrap_or_else(|refused| panic!("{object:#} is refused: {}", refused.message))
    }

    /// Gets an object that must exist.
    pub async fn get(&self, kind: &Kind, name: &str) -> Value {
        self.find(kind, name).await.unwrap_or_else(|| panic!("{} {name} is not there", kind.kind))
    }

    /// Gets an object if it exists.
    pub async fn find(&self, kind: &Kind, name: &str) -> Option<Value> {
        match self.admin.get(kind, &self.namespace, name).await {
            Ok(object) => Some(object),
            Err(refused) if refused.code == 404 => None,
            Err(refused) => panic!("{} {name} cannot be read: {}", kind.kind, refused.message),
        }
    }

    /// Lists the objects of a kind in the namespace.
    pub async fn list(&self, kind: &Kind) -> Vec<Value> {
        self.admin.list(kind, &self.namespace).await.expect("a list")
    }

    /// Sends a merge patch.
    pub async fn merge(&self, kind: &Kind, name: &str, patch: Value) -> Value {
        let merged = self.admin.merge(kind, &self.namespace, name, &patch).await;
        merged.unwrap_or_else(|refused| panic!("{patch} of {name} is refused: {}", refused.message))
    }

    /// Sends a JSON patch.
    pub async fn json_patch(&self, kind: &Kind, name: &str, patch: Value) -> Value {
        let patched = self.admin.json_patch(kind, &self.namespace, name, &patch).await;
        patched.unwrap_or_else(|refused| panic!("{patch} of {name} is refused: {}", refused.message))
    }

    /// Requests a deletion, and does not wait for its end.
    pub async fn delete(&self, kind: &Kind, name: &str) {
        let deleted = self.admin.delete(kind, &self.namespace, name).await;
        deleted.unwrap_or_else(|refused| panic!("{name} cannot be deleted: {}", refused.message));
    }

    /// Creates an admission policy that denies updates of a kind in this namespace unless this CEL expression is true.
    /// Returns the policy's name. It is in force a moment later, until [`Self::allow`].
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
        self.admin.create(&policy).await.expect("a policy");
        self.admin.create(&binding).await.expect("a binding");
        name
    }

    /// Ends a policy that [`Self::forbid`] created.
    pub async fn allow(&self, policy: &str) {
        self.admin.delete(&ADMISSION_BINDING, "", policy).await.expect("the policy's binding is deleted");
    }

    /// Watches a kind in the namespace, beginning with the existing objects.
    pub async fn watch(&self, kind: &Kind) -> Changes {
        self.admin.watch(kind, &self.namespace).await
    }

    /// Waits until `probe` succeeds; a failure shows what is in the namespace.
    pub async fn until<T>(&self, what: &str, probe: impl AsyncFn() -> Result<T, String>) -> T {
        self.until_within(wait::TIMEOUT, what, probe).await
    }

    /// Waits no longer than `timeout` until `probe` succeeds; a failure shows what is in the namespace.
    pub async fn until_within<T>(
        &self,
        timeout: Duration,
        what: &str,
        probe: impl AsyncFn() -> Result<T, String>,
    ) -> T {
        match wait::attempt(timeout, probe).await {
            Ok(value) => value,
            Err(seen) => panic!("waited {timeout:?} until {what}; seen last: {seen}\n{}", self.dump().await),
        }
    }

    /// Waits until an object exists and fulfils a condition.
    pub async fn until_object(&self, kind: &Kind, name: &str, what: &str, fulfils: impl Fn(&Value) -> bool) -> Value {
        self.until(&format!("{} {name} {what}", kind.kind), async || {
            let object = self.look(kind, name).await?;
            if fulfils(&object) { Ok(object) } else { Err(format!("{object:#}")) }
        })
        .await
    }

    async fn look(&self, kind: &Kind, name: &str) -> Result<Value, String> {
        let found = self.admin.get(kind, &self.namespace, name).await;
        found.map_err(|refused| format!("{} {}", refused.code, refused.message))
    }

    /// Waits until a condition of a Memcached is as expected: status, reason, part of the message.
    pub async fn until_condition(&self, name: &str, condition: &str, expected: (&str, &str, &str)) -> Value {
        let (status, reason, message) = expected;
        self.until(&format!("{condition} of {name} is {expected:?}"), async || {
            let object = self.look(&MEMCACHED, name).await?;
            let found = condition_parts(&object, condition);
            let is_it = found.0 == status && found.1 == reason && found.2.contains(message);
            if is_it { Ok(object.clone()) } else { Err(format!("{found:?}")) }
        })
        .await
    }

    /// Waits until a condition of an object has this status, and this reason unless it is empty.
    pub async fn until_condition_of(
        &self,
        kind: &Kind,
        name: &str,
        condition: &str,
        status: &str,
        reason: &str,
    ) -> Value {
        let what = format!("has {condition}={status} {reason}");
        let is_it = |object: &Value| {
            let found = condition_parts(object, condition);
            found.0 == status && (reason.is_empty() || found.1 == reason)
        };
        self.until_object(kind, name, &what, is_it).await
    }

    /// Waits until the status of a Memcached shows, for its newest generation, that all servers are there.
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

    /// Waits until a cluster-scoped object is gone.
    pub async fn gone_from_cluster(&self, kind: &Kind, name: &str) {
        self.gone_from("", kind, name).await;
    }

    async fn gone_from(&self, namespace: &str, kind: &Kind, name: &str) {
        self.until(&format!("{} {name} is gone", kind.kind), async || {
            match self.admin.get(kind, namespace, name).await {
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

    /// Lists the Events about an object with this reason.
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

    /// Returns the audit log's entries about this namespace.
    pub fn audit(&self) -> Vec<Entry> {
        self.plane.audit(&self.namespace)
    }

    /// Returns the host's writes in this namespace, under its own account and under those of its plugins.
    pub fn writes(&self) -> Vec<Entry> {
        self.audit().into_iter().filter(|entry| entry.by == HOST_USER && entry.is_write()).collect()
    }

    /// Waits until the audit log has caught up, and returns the host's writes in this namespace.
    pub async fn recorded_writes(&self) -> Vec<Entry> {
        let mark = format!("mark-{}", self.audit().len());
        // A request for an object that does not exist: once the log has it, it has all earlier requests too.
        drop(self.admin.get(&crate::kinds::CONFIG_MAP, &self.namespace, &mark).await);
        self.until("the audit log has caught up", async || {
            let found = self.audit().iter().any(|entry| entry.name == mark);
            found.then_some(()).ok_or_else(|| "not yet".to_owned())
        })
        .await;
        self.writes()
    }

    /// Describes what is in the namespace, with the end of the host's log.
    pub async fn dump(&self) -> String {
        // The log comes first, because a long output is cut off at its end.
        let mut dump = self.log.as_deref().map(tail).unwrap_or_default();
        dump += &format!("\n── namespace {} ──\n", self.namespace);
        for kind in [EVENT, POD, SERVICE, DEPLOYMENT, MEMCACHED] {
            let objects = self.admin.list(&kind, &self.namespace).await.unwrap_or_default();
            for mut object in objects.into_iter().take(12) {
                object["metadata"].as_object_mut().map(|metadata| metadata.remove("managedFields"));
                dump += &match kind.kind {
                    "Memcached" => format!("{object:#}\n"),
                    "Event" => format!("Event {} {} {}\n", object["count"], object["reason"], object["message"]),
                    _ => format!("{} {} {}\n", kind.kind, object["metadata"]["name"], object["status"]),
                };
            }
        }
        dump
    }
}

/// Whether the status of a Memcached shows, for its newest generation, that all servers are there.
pub fn is_settled(object: &Value) -> bool {
    let size = object["spec"]["size"].as_u64();
    let up_to_date = |name: &str| {
        condition(object, name).map(|c| &c["observedGeneration"]) == Some(&object["metadata"]["generation"])
    };
    condition_parts(object, "Available").0 == "True"
        && condition_parts(object, "Progressing").0 == "False"
        && condition_parts(object, "Degraded").0 == "False"
        && ["Available", "Progressing", "Degraded"].into_iter().all(up_to_date)
        && object["status"]["nodes"].as_array().map(|nodes| nodes.len() as u64) == size
        && object["status"]["readyReplicas"].as_u64() == size
}

/// Returns an object with these labels.
pub fn labelled(mut object: Value, labels: &Value) -> Value {
    object["metadata"]["labels"] = labels.clone();
    object
}

/// Returns a patch of labels.
pub fn labels(labels: &Value) -> Value {
    json!({ "metadata": { "labels": labels } })
}
