//! Completes what is known of a parent before it is decided. An object may be known without its content: its parent
//! became known after it, or the watches had no room for it. It is read again then; if there is still no room, nothing is
//! decided, because a plugin that is shown less than there is would delete or create what it should not.

use std::sync::Arc;

use crate::reconcile::error::Error;
use crate::reconcile::pass::Pass;
use hotshoe_cluster::shared_watch::SharedWatch;
use hotshoe_core::model::kind::Key;

/// Reads again what the decision about a parent depends on and is known without its content.
///
/// # Errors
/// When there is no room for an object, or the API server does not answer.
pub async fn complete(pass: &mut Pass<'_>) -> Result<(), Error> {
    let parents = &pass.active.parents.watch;
    if pass.parent.reduced.is_some() {
        read_again(pass, parents, &pass.parent.key).await?;
        if let Some(live) = pass.live() {
            pass.parent = live;
        }
    }
    let missing = pass.active.without_content(&pass.parent, &pass.children);
    if missing.is_empty() {
        return Ok(());
    }
    for (watch, key) in missing {
        read_again(pass, &watch, &key).await?;
    }
    pass.children = pass.active.children_of(&pass.parent);
    Ok(())
}

async fn read_again(pass: &Pass<'_>, watch: &SharedWatch, key: &Key) -> Result<(), Error> {
    pass.controller.writer.read_again(watch, key, pass.permit).await?;
    match watch.cache.get(key).filter(|known| known.reduced.is_some()) {
        None => Ok(()),
        Some(_) => Err(no_room(watch, key)),
    }
}

/// Returns the error about an object that is known without its content.
pub fn no_room(watch: &SharedWatch, key: &Key) -> Error {
    Error::NotKept(format!(
        "{} {key} is not kept in memory, because the objects that others wrote take all the room that its namespace \
         has in the host's watches, and nothing is decided without it; delete large objects there, \
         have the plugin ask for fewer fields, or give the host more memory: raise the limit of its container, \
         or `--memory`",
        watch.scope.kind
    ))
}

/// Returns the error if something is known without its content.
pub fn error_of(missing: Vec<(Arc<SharedWatch>, Key)>) -> Option<Error> {
    missing.first().map(|(watch, key)| no_room(watch, key))
}
