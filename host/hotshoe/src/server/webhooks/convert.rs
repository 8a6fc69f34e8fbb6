//! Answers `/convert/PLUGIN`. While this fails, the API server cannot serve the objects that are stored in another
//! version, so it waits a while for what is missing only at the start.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use tokio::time::Instant;

use crate::server::webhooks::receive::{Webhooks, bad_request, json, receive_within};
use hotshoe_operator::rollout::managed_plugin::ManagedPlugin;
use hotshoe_operator::webhooks::conversion;
use hotshoe_operator::webhooks::conversion_review::{Converted, Request, Unconverted};
use hotshoe_sandbox::revision::Revision;

/// The maximum size of a review, in bytes. An API server stores 1.5 MiB of an object, of which JSON may make six times as
/// much, and sends lists as they are.
pub(super) const MAX_CONVERSION_BYTES: usize = 16 << 20;
/// How often the objects of a review are held: as they were sent, as the plugin is shown them, and as they are answered.
const COPIES: u32 = 3;
/// How long a review waits for a plugin whose component is being loaded, as it is in the first moments of a host.
const LOAD_TIMEOUT: Duration = Duration::from_secs(8);
/// The pause before it is looked again.
const LOAD_PAUSE: Duration = Duration::from_millis(50);

/// Answers with objects as they are in another version.
pub(super) async fn convert(
    State(webhooks): State<Arc<Webhooks>>,
    Path(plugin): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let received = receive_within(&webhooks.conversions, COPIES, &headers, body, MAX_CONVERSION_BYTES).await;
    let (review, _permit) = match received {
        Ok(received) => received,
        Err(why) => return why.into_response(),
    };
    let request = match Request::read(&review) {
        Ok(request) => request,
        Err(error) => return bad_request(error),
    };
    let converted = webhooks.converted(&plugin, &request).await;
    json(request.answer(&converted))
}

impl Webhooks {
    async fn converted<'a>(&self, name: &str, request: &Request<'a>) -> Result<Vec<Converted<'a>>, Unconverted> {
        let (plugin, revision) = self.converting(name).await?;
        conversion::convert(&plugin.controller, &revision, request).await
    }

    /// Returns a plugin with its revision that converts, and waits for it for a bounded time.
    async fn converting(&self, name: &str) -> Result<(Arc<ManagedPlugin>, Arc<Revision>), Unconverted> {
        let deadline = Instant::now() + LOAD_TIMEOUT;
        loop {
            let missing = match self.fleet.find(name) {
                Ok(plugin) => match plugin.controller.converting() {
                    Some(revision) => return Ok((plugin, revision)),
                    None => no_revision(name),
                },
                Err(unknown) if self.fleet.unknown_because().is_none() => return Err(no_plugin(unknown)),
                Err(unknown) => no_plugin(unknown),
            };
            if Instant::now() >= deadline {
                return Err(missing);
            }
            tokio::time::sleep(LOAD_PAUSE).await;
        }
    }
}

fn no_plugin(unknown: String) -> Unconverted {
    let message = format!(
        "{unknown}; run the plugin, or set the CRD's spec.conversion to {{strategy: None}} if its versions have the same \
         fields"
    );
    Unconverted { reason: "UnknownPlugin", message }
}

fn no_revision(name: &str) -> Unconverted {
    let message = format!("plugin {name} has no component yet that converts; `hotshoe status` says why");
    Unconverted { reason: "NoRevision", message }
}
