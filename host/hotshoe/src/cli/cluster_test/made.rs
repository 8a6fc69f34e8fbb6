//! What a test creates on a cluster around its samples, and how all of that is removed again.

use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::Value;

use hotshoe_cluster::client::Cluster;
use hotshoe_cluster::discovery::Kinds;
use hotshoe_cluster::{read, write};
use hotshoe_core::model::kind::{Kind, ObjectRef};
use hotshoe_core::model::sanitize::clean;

/// The pause between two looks at an object that goes.
const PAUSE: Duration = Duration::from_millis(50);
/// The maximum length of what is said about an object that is left, in bytes.
const MAX_LEFT_BYTES: usize = 2_000;

/// Objects that were created, in this order.
#[derive(Debug, Default)]
pub(super) struct Made(Vec<ObjectRef>);

impl Made {
    /// Creates an object. An object of this name that exists is an error, and stays.
    ///
    /// # Errors
    /// The API server's error.
    pub(super) async fn create(&mut self, cluster: &Cluster, kinds: &Kinds, object: &Value) -> anyhow::Result<()> {
        let reference = ObjectRef::of(object).map_err(anyhow::Error::msg)?;
        // First, because the test may be ended before the answer is there.
        self.0.push(reference);
        let created = write::create(cluster, kinds, object).await;
        if created.as_ref().is_err_and(|error| error.code == 409) {
            self.0.pop();
        }
        created.map(drop).context("a test cannot be prepared")
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Deletes the objects, the last one first, and waits until each is gone, no longer than `timeout` in all. Returns
    /// what is left, and why.
    pub(super) async fn remove(&mut self, cluster: &Cluster, kinds: &Kinds, timeout: Duration) -> Vec<String> {
        let (began, mut left) = (Instant::now(), Vec::new());
        while let Some(reference) = self.0.pop() {
            if let Err(why) = gone(cluster, kinds, &reference, timeout.saturating_sub(began.elapsed())).await {
                left.push(clean(format!("{reference} is left: {why}"), MAX_LEFT_BYTES));
            }
        }
        left
    }
}

/// Returns a Namespace of this name.
pub(super) fn namespace(name: &str) -> Value {
    serde_json::json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } })
}

/// Deletes an object, and waits until it is gone, or says why it is not.
async fn gone(cluster: &Cluster, kinds: &Kinds, reference: &ObjectRef, timeout: Duration) -> Result<(), String> {
    let began = Instant::now();
    loop {
        let found = read::object(cluster, kinds, reference).await.map_err(|error| error.to_string())?;
        let Some(found) = found else { return Ok(()) };
        if found.pointer("/metadata/deletionTimestamp").is_none() {
            let uid = found.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
            write::delete(cluster, kinds, reference, uid).await.map_err(|error| error.to_string())?;
        } else if began.elapsed() >= timeout {
            return Err(what_holds(&found));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Says what keeps an object that is being deleted: what a Namespace reports of its content, or the finalizers.
fn what_holds(object: &Value) -> String {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let holding = conditions.filter(|condition| condition.get("status").is_some_and(|status| status == "True"));
    let said: Vec<&str> = holding.filter_map(|condition| condition.get("message")?.as_str()).collect();
    let is_namespace = object.get("kind").is_some_and(|kind| kind == "Namespace");
    if is_namespace && !said.is_empty() {
        return said.join("; ");
    }
    let finalizers = object.pointer("/metadata/finalizers").map(ToString::to_string).unwrap_or_default();
    format!("it is still being deleted; its finalizers: {finalizers}")
}

/// The kind of a CustomResourceDefinition.
pub(super) fn crd_kind() -> Kind {
    Kind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_namespace_that_stays_says_what_is_in_it() {
        let conditions = json!([
            { "type": "NamespaceDeletionDiscoveryFailure", "status": "False", "message": "fine" },
            { "type": "NamespaceFinalizersRemaining", "status": "True", "message": "a/b in 1 resource instances" },
        ]);
        let held = json!({ "kind": "Namespace", "status": { "conditions": conditions } });
        assert_eq!(what_holds(&held), "a/b in 1 resource instances");
        let held = what_holds(&json!({ "kind": "Role", "metadata": { "finalizers": ["x/y"] } }));
        assert!(held.ends_with(r#"["x/y"]"#), "{held}");
    }
}
