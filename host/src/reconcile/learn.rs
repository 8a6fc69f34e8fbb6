//! What a write of a parent tells of it: its reply goes into the cache, and after an error the live object.

use std::sync::Arc;

use crate::cluster::error::ApiError;
use crate::cluster::shared_watch::Role;
use crate::reconcile::controller::{Controller, Logic};
use crate::reconcile::error::Error;
use hotshoe_core::model::object::Object;

/// Puts the reply to a write of the parent into the cache; after a conflict or silence, the live
/// parent, with what others did to it: the watch will not tell of that any more, so it is told here.
///
/// # Errors
/// The error of the write, after the cache was brought up to date.
pub async fn learn_parent(
    controller: &Controller,
    logic: &Logic,
    parent: &Object,
    reply: Result<String, ApiError>,
) -> Result<Arc<Object>, Error> {
    let watched = &logic.parents.watched;
    let mut error = match reply {
        Ok(reply) => match watched.learn(&reply, (&controller.name, Role::Parent)) {
            Ok(learned) => return Ok(learned),
            Err(error) => {
                tracing::error!(plugin = &*controller.name, digest = %logic.revision.digest(), object = %parent.key, "the reply to a write cannot be read: {error}");
                return Ok(watched.cache.get(&parent.key).unwrap_or_else(|| Arc::new(parent.clone())));
            }
        },
        Err(error) => error,
    };
    // A failed `test` of a JSON patch is a 422, and as good as a conflict. A subresource that is not served is a
    // 404 that names the object.
    if matches!(error.code, 404 | 409 | 422) || !error.is_definite() {
        match controller.writer.read_parent(&logic.resource, &parent.key, &watched.lens()).await {
            Ok(live) => {
                if error.is_gone() {
                    error = error.unserved();
                }
                watched.take(live);
            }
            Err(gone) if gone.is_gone() => watched.lose(parent),
            Err(_) => {}
        }
    }
    Err(error.into())
}

/// Whether finalizers were changed by somebody else since, or the parent was deleted, or made anew: then
/// it is no wonder that ours could not be. The code of an error does not tell: a failed `test` of a
/// JSON patch is a 422 as well as the word of a policy or a schema, which will be the same next time.
pub fn was_overtaken(logic: &Logic, sent: &Object) -> bool {
    let Some(live) = logic.parents.watched.cache.get(&sent.key) else { return true };
    (&live.uid, &live.finalizers, live.deleting) != (&sent.uid, &sent.finalizers, sent.deleting)
}
