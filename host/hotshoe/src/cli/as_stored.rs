//! An object as the API server would store it: without the fields that its schema does not know, with the defaults of the
//! schema, and with those that the plugin fills in.

use std::sync::Arc;

use serde_json::Value;

use crate::cli::api_server::ApiServer;
use hotshoe_core::check::defaulting::Defaulted;
use hotshoe_core::model::admission::Proposal;
use hotshoe_core::model::decision::{Document, Failure};
use hotshoe_core::model::sanitize::clean;
use hotshoe_sandbox::cases::shown_for_admission;
use hotshoe_sandbox::revision::Revision;

/// The maximum length of a printed text that a plugin chose, in bytes.
const MAX_TEXT_BYTES: usize = 2_000;

/// What would be stored of an object.
pub(super) struct Stored {
    pub(super) object: Value,
    /// The paths of the fields that are left out, because the schema does not know them.
    pub(super) unknown: Vec<String>,
}

/// Returns an object as it would be stored, if nothing refuses it. The plugin fills in its defaults with this configuration;
/// an object of another version than it is shown gets those of the schema alone.
///
/// # Errors
/// Why the plugin cannot fill in its defaults.
pub(super) async fn as_stored(
    object: &Value,
    config: &Value,
    revision: &Arc<Revision>,
    api_server: &ApiServer<'_>,
) -> Result<Stored, String> {
    let (object, unknown) = api_server.asked(object);
    let Some(shown) = shown_for_admission(&object, revision.descriptor()).ok().filter(|_| revision.defaults()) else {
        return Ok(Stored { object, unknown });
    };
    let filled_in = defaulted(shown, config, revision).await;
    let mut filled_in = filled_in.map_err(|why| format!("the plugin could not fill in its defaults: {why}"))?.object;
    for name in ["apiVersion", "kind"] {
        if let (Some(members), Some(value)) = (filled_in.as_object_mut(), object.get(name)) {
            members.insert(name.to_owned(), value.clone());
        }
    }
    // The API server fills in the defaults of the schema once more, after a webhook has changed the object.
    Ok(Stored { object: api_server.asked(&filled_in).0, unknown })
}

/// Has the plugin fill in its defaults.
///
/// # Errors
/// Why it does not.
pub(super) async fn defaulted(new: Document, config: &Value, revision: &Arc<Revision>) -> Result<Defaulted, String> {
    let outcome = revision.default(proposal(new, config)).await.map_err(|aborted| aborted.to_string())?;
    outcome.result.map_err(|failure| match failure {
        Failure::Retry { message, .. } | Failure::Reject { message, .. } | Failure::Other(message) => {
            clean(message, MAX_TEXT_BYTES)
        }
    })
}

/// Returns what a host would show of a new object.
pub(super) fn proposal(new: Document, config: &Value) -> Arc<Proposal> {
    Arc::new(Proposal { new, old: None, config: config.to_string().into(), dry_run: false, user: None })
}
