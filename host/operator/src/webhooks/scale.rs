//! A scale: `kubectl scale` and autoscalers write the number of replicas of a parent alone, as a `Scale` in the place of the
//! parent. A plugin is asked about the parent with that number, as about any update.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::reconcile::active_revision::ActiveRevision;
use crate::reconcile::controller::Controller;
use crate::webhooks::answer::Question;
use crate::webhooks::review::{GroupResource, Request, Verdict};
use hotshoe_cluster::error::ApiError;
use hotshoe_cluster::scale::Scalable;

/// Why a plugin cannot be asked about a scale.
#[derive(Debug, thiserror::Error)]
enum Unasked {
    // A warning has little room.
    #[error("{}", .0.message)]
    Api(#[from] ApiError),
    #[error("{} of {} is not scaled here", .0.resource, .0.group)]
    Foreign(GroupResource),
    #[error("the request has no Scale")]
    NoScale,
    #[error("the version {0} of its kind has no scale subresource")]
    NoPath(String),
    #[error("{0} is no field")]
    NoField(String),
    #[error("{0}")]
    Unwritable(#[from] serde_json::Error),
}

/// Returns the request, or for a scale that of the parent.
///
/// # Errors
/// The verdict where the plugin is not to be asked, or cannot be: then the scale is admitted. The reconcile says the same a
/// moment later.
pub(super) async fn as_update(
    controller: &Controller,
    active: &ActiveRevision,
    question: Question,
    request: &Arc<Request>,
) -> Result<Arc<Request>, Verdict> {
    if !request.is_scale() {
        return Ok(request.clone());
    }
    // Defaults would be a patch of the Scale.
    if matches!(question, Question::Defaults) {
        return Err(Verdict::default());
    }
    let read = of_parent(controller, active, request).await;
    read.map(Arc::new)
        .map_err(|why| Verdict::warn(format!("{} was not asked about this scale: {why}", controller.name)))
}

/// Returns the request as if the parent itself had been sent with the new number. The caches have no parent whole.
async fn of_parent(controller: &Controller, active: &ActiveRevision, request: &Request) -> Result<Request, Unasked> {
    let kind = active.parent_kind();
    let resource = controller.writer.find_kind(kind).await?;
    let asked = request.resource();
    if *asked.group != *kind.group || asked.resource != resource.plural {
        return Err(Unasked::Foreign(asked.clone()));
    }
    let replicas = request.replicas().ok_or(Unasked::NoScale)?;
    let Scalable { stored, replicas_path } = controller.writer.read_scalable(&resource, &request.key()).await?;
    let path = replicas_path.ok_or_else(|| Unasked::NoPath(kind.version.to_string()))?;
    let mut scaled = stored.clone();
    set(&mut scaled, &path, replicas.into()).ok_or(Unasked::NoField(path))?;
    Ok(request.of_object(kind, &scaled, &stored)?)
}

/// Sets a field at a path such as `.spec.replicas`, and makes the objects around it that are missing. A definition allows no
/// other paths. Returns `None` if there is something else than an object around it.
fn set(object: &mut Value, path: &str, value: Value) -> Option<()> {
    let mut at = object;
    for key in path.strip_prefix('.')?.split('.') {
        if at.is_null() {
            *at = Map::new().into();
        }
        at = at.as_object_mut()?.entry(key).or_insert(Value::Null);
    }
    *at = value;
    Some(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_number_is_set_where_the_definition_says() {
        let set = |mut object: Value, path| set(&mut object, path, 3.into()).map(|()| object);
        let spec = |spec: Value| json!({ "spec": spec });
        assert_eq!(set(spec(json!({ "size": 1, "a": 2 })), ".spec.size"), Some(spec(json!({ "size": 3, "a": 2 }))));
        assert_eq!(set(json!({}), ".spec.pool.size"), Some(spec(json!({ "pool": { "size": 3 } }))));
        assert_eq!(set(spec(json!([1])), ".spec.size"), None);
        assert_eq!(set(spec(json!({})), "spec"), None);
    }
}
