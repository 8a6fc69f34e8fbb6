//! Writes objects in another version of their kind, by the revision of a plugin that converts.
//!
//! Nothing here needs a cache, a Lease or the API server, and nothing waits for the host's own thread: the API server may
//! need the conversion for the list with which the host's watch begins. Whether a plugin is paused, and whether its
//! circuit is open, makes no difference.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use serde_json::value::RawValue;

use crate::reconcile::controller::Controller;
use crate::webhooks::conversion_review::{Converted, Request, Unconverted};
use hotshoe_core::check::conversion;
use hotshoe_core::model::decision::{Document, Failure};
use hotshoe_core::model::kind::Kind;
use hotshoe_core::model::sanitize;
use hotshoe_platform::spans;
use hotshoe_sandbox::call::{Aborted, Outcome};
use hotshoe_sandbox::error::CallError;
use hotshoe_sandbox::revision::Revision;

/// How long a conversion may take. The API server waits for 30 seconds, and shows its client no reason then.
const CONVERSION_TIMEOUT: Duration = Duration::from_secs(20);
/// How many batches of one review are converted at once: as many as there are threads for quick calls.
const BATCHES: usize = 2;
/// The maximum length of a message, in bytes.
const MAX_MESSAGE_BYTES: usize = 2_000;

/// The result of one call.
type Called = Result<Outcome<Vec<Box<RawValue>>>, Aborted>;

/// Converts the objects of a review. All or none: the API server would use no part of an answer.
///
/// # Errors
/// Why an object is not converted.
pub async fn convert<'a>(
    controller: &Controller,
    revision: &Arc<Revision>,
    request: &Request<'a>,
) -> Result<Vec<Converted<'a>>, Unconverted> {
    let converted = tokio::time::timeout(CONVERSION_TIMEOUT, all(controller, revision, request)).await;
    let converted = converted.unwrap_or_else(|_| {
        let (plugin, count) = (&controller.name, request.objects.len());
        Err(Unconverted {
            reason: "DeadlineExceeded",
            message: format!(
                "plugin {plugin} did not convert {count} objects to {} within {CONVERSION_TIMEOUT:?}; ask for fewer at \
                 once, or give the plugin a faster revision",
                request.desired
            ),
        })
    });
    if let Err(Unconverted { reason, message }) = &converted
        && controller.may_log(&controller.failure_lines, message.len())
    {
        let line = || tracing::warn!(reason, "objects are not converted: {message}");
        spans::revision(&controller.name, revision.digest()).in_scope(line);
    }
    converted
}

async fn all<'a>(
    controller: &Controller,
    revision: &Arc<Revision>,
    request: &Request<'a>,
) -> Result<Vec<Converted<'a>>, Unconverted> {
    let (plugin, parent) = (&*controller.name, &revision.descriptor().parent);
    let desired = Kind::of(&request.desired, &parent.kind);
    if !revision.converts() {
        return Err(Unconverted {
            reason: "NoConversion",
            message: format!(
                "the active revision of plugin {plugin}, {}, does not convert {parent}; activate one that does, or set \
                 the CRD's spec.conversion to {{strategy: None}} if its versions have the same fields",
                revision.digest()
            ),
        });
    }
    let mut given = Vec::with_capacity(request.objects.len());
    for object in &request.objects {
        let document = conversion::shown(object.get()).map_err(|error| malformed(&error))?;
        let asked = &document.reference.kind;
        if !asked.is_served_as(parent) || desired.group != parent.group {
            return Err(other_kind(plugin, parent, &format!("{asked} to {}", request.desired)));
        }
        given.push((*object, Some(document).filter(|document| document.reference.kind.version != desired.version)));
    }
    let differing = given.iter().filter_map(|(_, document)| document.clone());
    let batches = stream::iter(conversion::batches(differing));
    let converted = batches.map(|batch| in_batch(controller, revision, batch, &desired.version)).buffered(BATCHES);
    let converted: Vec<Vec<_>> = converted.try_collect().await?;
    let mut converted = converted.into_iter().flatten();
    let converted = given.into_iter().map(|(sent, document)| match document {
        None => Some(Converted::AsSent(sent)),
        Some(_) => converted.next().map(Converted::ByPlugin),
    });
    // The gate has counted them.
    Ok(converted.flatten().collect())
}

/// Converts a batch. If that fails, converts one object after the other: so the object that is at fault is named, and
/// none fails for the size of a batch.
async fn in_batch(
    controller: &Controller,
    revision: &Arc<Revision>,
    batch: Vec<Document>,
    version: &str,
) -> Result<Vec<Box<RawValue>>, Unconverted> {
    let called = revision.convert(batch.clone(), version.to_owned()).await;
    if let Ok(Outcome { result: Ok(converted), .. }) = called {
        return Ok(converted);
    }
    if let [only] = batch.as_slice() {
        return Err(failed(controller, only, version, called));
    }
    let mut converted = Vec::with_capacity(batch.len());
    for object in batch {
        let called = revision.convert(vec![object.clone()], version.to_owned()).await;
        match called {
            Ok(Outcome { result: Ok(one), .. }) => converted.extend(one),
            called => return Err(failed(controller, &object, version, called)),
        }
    }
    Ok(converted)
}

/// Counts a call that trapped, and returns why the object is not converted.
fn failed(controller: &Controller, object: &Document, version: &str, called: Called) -> Unconverted {
    if let Err(Aborted { error: CallError::Trapped(_), .. }) = called {
        controller.metrics.webhooks.conversion_panics.inc();
    }
    unconverted(&controller.name, object, version, called)
}

fn unconverted(plugin: &str, object: &Document, version: &str, called: Called) -> Unconverted {
    let (reason, why) = match called {
        Err(aborted) => (aborted.error.reason(), aborted.to_string()),
        Ok(Outcome { result: Err(failure), .. }) => refused(failure),
        Ok(_) => ("InvalidOutput", "nothing was returned".to_owned()),
    };
    let (reference, from) = (&object.reference, &object.reference.kind.version);
    let message = format!(
        "plugin {plugin} did not convert {reference} from {from} to {version}: {reason}: {why}; correct the object, or \
         activate a revision that converts it"
    );
    Unconverted { reason, message: sanitize::clean(message, MAX_MESSAGE_BYTES) }
}

/// Returns what a plugin says itself. There is no later try here, so all its failures are alike.
fn refused(failure: Failure) -> (&'static str, String) {
    match failure {
        Failure::Retry { message, .. } | Failure::Other(message) => ("PluginFailed", message),
        Failure::Reject { message, field: None } => ("Rejected", message),
        Failure::Reject { message, field: Some(field) } => ("Rejected", format!("{field}: {message}")),
    }
}

fn malformed(error: &str) -> Unconverted {
    let message = format!("{error}; send objects with apiVersion, kind and metadata.name");
    Unconverted { reason: "Malformed", message: sanitize::clean(message, MAX_MESSAGE_BYTES) }
}

fn other_kind(plugin: &str, parent: &Kind, asked: &str) -> Unconverted {
    let message = format!(
        "plugin {plugin} converts {parent}, and was asked for {asked}; name the plugin of this kind in the path of the \
         CRD's spec.conversion.webhook.clientConfig"
    );
    Unconverted { reason: "OtherKind", message: sanitize::clean(message, MAX_MESSAGE_BYTES) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_malformed_object_it_is_said_what_is_missing() {
        let Unconverted { reason, message } = malformed(&conversion::shown("{}").unwrap_err());
        assert_eq!(reason, "Malformed");
        assert!(message.starts_with("an object cannot be converted: missing field `apiVersion`"), "{message}");
        assert!(message.ends_with("; send objects with apiVersion, kind and metadata.name"), "{message}");
    }

    #[test]
    fn what_a_plugin_says_is_in_the_message_with_the_object() {
        let object =
            conversion::shown(r#"{"apiVersion":"g/v2","kind":"A","metadata":{"name":"a","namespace":"n"}}"#).unwrap();
        let failure = Failure::Reject { message: "too small".into(), field: Some("spec.size".into()) };
        let zero = Duration::ZERO;
        let outcome =
            Outcome { result: Err(failure), logs: Vec::new(), logs_dropped: 0, elapsed: zero, used: zero, memory: 0 };
        let Unconverted { reason, message } = unconverted("p", &object, "v1", Ok(outcome));
        assert_eq!(reason, "Rejected");
        assert!(
            message.starts_with("plugin p did not convert A.g n/a from v2 to v1: Rejected: spec.size: too small; "),
            "{message}"
        );
    }
}
