//! Answers an administrator's commands: `status`, and for one plugin `reload`, `rollback`, `approve`, `history`,
//! `shadow`, `waiting`, `explain` and `trouble`. They change which revision is active and show the content of objects, so
//! they are served only on the host's socket.

use std::convert::Infallible;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use futures::StreamExt;
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::server::about::About;
use crate::server::readiness;
use crate::server::verb::AdminVerb;
use hotshoe_core::model::digest_prefix::DigestPrefix;
use hotshoe_operator::api::shadow::Line;
use hotshoe_operator::api::{HostStatus, Problem};
use hotshoe_operator::rollout::dry_run::{NotRun, Shadow, ShadowPermit};
use hotshoe_operator::rollout::explain::Unexplained;
use hotshoe_operator::rollout::managed_plugin::AdminCommand;
use hotshoe_sandbox::error::LoadError;

/// How much of an unwanted body is read, and for how long.
const MAX_DRAINED_BYTES: usize = 8 << 20;
const MAX_DRAIN_TIME: Duration = Duration::from_secs(5);
/// How long the upload of a component may take.
const UPLOAD_TIME: Duration = Duration::from_secs(60);
/// How many lines of a shadow run may wait for their reader.
const QUEUED_LINES: usize = 16;
/// How many parents in trouble are explained at once.
const EXPLAINED_AT_ONCE: usize = 20;

/// Returns the routes of the socket.
pub(super) fn routes(about: About) -> Router {
    Router::new()
        .route("/status", get(status))
        .route(&AdminVerb::Reload.route(), post(reload))
        .route(&AdminVerb::Rollback.route(), post(roll_back))
        .route(&AdminVerb::Approve.route(), post(approve))
        .route(&AdminVerb::History.route(), get(history))
        .route(&AdminVerb::Shadow.route(), post(shadow))
        .route(&AdminVerb::Waiting.route(), post(waiting))
        .route(&AdminVerb::Explain.route(), get(explain))
        .route(&AdminVerb::Trouble.route(), get(trouble))
        .with_state(about)
}

async fn status(State(about): State<About>) -> Json<HostStatus> {
    let unknown = about.fleet.unknown_because();
    let plugins: Vec<_> = about.fleet.all().iter().map(|plugin| plugin.status()).collect();
    Json(HostStatus {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ready: readiness::unready(&about).is_none(),
        unknown,
        leases: about.leases.status(),
        plugins,
        context: about.context,
    })
}

/// Reads and drops a body that is not wanted, because a client that is still sending may not read the answer. The limit
/// is far above the size of a usual component, and the time is short.
async fn drain(body: Body) {
    let all = async {
        let (mut body, mut length) = (body.into_data_stream(), 0);
        while let Some(Ok(bytes)) = body.next().await
            && length < MAX_DRAINED_BYTES
        {
            length += bytes.len();
        }
    };
    drop(timeout(MAX_DRAIN_TIME, all).await);
}

fn problem(status: StatusCode, error: String) -> Response {
    (status, Json(Problem { error })).into_response()
}

/// The query that names a revision.
#[derive(Deserialize)]
struct Revision {
    digest: Option<String>,
}

impl Revision {
    fn named(&self) -> Result<Option<DigestPrefix>, &'static str> {
        self.digest.as_deref().map(str::parse).transpose()
    }
}

async fn reload(about: State<About>, name: Path<String>) -> Response {
    carry_out(about, name, AdminCommand::Reload).await
}

async fn roll_back(about: State<About>, name: Path<String>, Query(to): Query<Revision>) -> Response {
    match to.named() {
        Ok(to) => carry_out(about, name, AdminCommand::RollBack(to)).await,
        Err(why) => problem(StatusCode::BAD_REQUEST, why.to_owned()),
    }
}

async fn approve(about: State<About>, name: Path<String>, Query(which): Query<Revision>) -> Response {
    match which.named() {
        Ok(which) => carry_out(about, name, AdminCommand::Approve(which)).await,
        Err(why) => problem(StatusCode::BAD_REQUEST, why.to_owned()),
    }
}

async fn history(State(about): State<About>, Path(name): Path<String>) -> Response {
    match about.fleet.find(&name) {
        Ok(plugin) => Json(plugin.shown_history()).into_response(),
        Err(unknown) => problem(StatusCode::NOT_FOUND, unknown),
    }
}

/// The query that names a parent.
#[derive(Deserialize)]
struct Parent {
    namespace: Option<String>,
    name: String,
}

async fn explain(State(about): State<About>, Path(name): Path<String>, Query(parent): Query<Parent>) -> Response {
    let plugin = match about.fleet.find(&name) {
        Ok(plugin) => plugin,
        Err(unknown) => return problem(StatusCode::NOT_FOUND, unknown),
    };
    match plugin.explain(parent.namespace.as_deref(), &parent.name) {
        Ok(explanation) => Json(explanation).into_response(),
        Err(unexplained @ Unexplained::NothingActive(_)) => {
            problem(StatusCode::SERVICE_UNAVAILABLE, unexplained.to_string())
        }
        Err(unexplained) => problem(StatusCode::NOT_FOUND, unexplained.to_string()),
    }
}

async fn trouble(State(about): State<About>, Path(name): Path<String>) -> Response {
    match about.fleet.find(&name) {
        Ok(plugin) => Json(plugin.explain_trouble(EXPLAINED_AT_ONCE)).into_response(),
        Err(unknown) => problem(StatusCode::NOT_FOUND, unknown),
    }
}

async fn carry_out(State(about): State<About>, Path(name): Path<String>, command: AdminCommand) -> Response {
    let plugin = match about.fleet.find(&name) {
        Ok(plugin) => plugin,
        Err(unknown) => return problem(StatusCode::NOT_FOUND, unknown),
    };
    match plugin.carry_out(command).await {
        Some(Ok(status)) => Json(status).into_response(),
        Some(Err(error)) => problem(StatusCode::CONFLICT, error),
        None => problem(StatusCode::SERVICE_UNAVAILABLE, "the host is shutting down".into()),
    }
}

/// The query of `/shadow` and `/waiting`.
#[derive(Deserialize)]
struct Wanted {
    /// Whether to send the progress of the run as well.
    #[serde(default)]
    progress: bool,
}

async fn shadow(
    State(about): State<About>,
    Path(name): Path<String>,
    Query(wanted): Query<Wanted>,
    body: Body,
) -> Response {
    let plugin = match about.fleet.find(&name) {
        Ok(plugin) => plugin,
        Err(unknown) => {
            // A client that is still sending may not read the answer.
            drain(body).await;
            return problem(StatusCode::NOT_FOUND, unknown);
        }
    };
    let run = async {
        // Before the body is read, so that components of waiting clients do not fill the memory.
        let permit = match ShadowPermit::begin(&plugin) {
            Ok(permit) => permit,
            Err(busy) => {
                drain(body).await;
                return Err(busy);
            }
        };
        let limit = plugin.plugin().limits.component_bytes.0;
        permit.load(component(body, limit).await?.into()).await
    };
    answer(run.await, &wanted)
}

/// Compares the component that waits for an approval, which the host has.
async fn waiting(State(about): State<About>, Path(name): Path<String>, Query(wanted): Query<Wanted>) -> Response {
    let plugin = match about.fleet.find(&name) {
        Ok(plugin) => plugin,
        Err(unknown) => return problem(StatusCode::NOT_FOUND, unknown),
    };
    let run = async { ShadowPermit::begin(&plugin)?.load_waiting().await };
    answer(run.await, &wanted)
}

/// Begins a run, and returns its lines as they come.
fn answer(run: Result<Shadow, NotRun>, wanted: &Wanted) -> Response {
    match run {
        Ok(shadow) => {
            let (send, lines) = mpsc::channel(QUEUED_LINES);
            tokio::spawn(shadow.run(send));
            let content_type = [(header::CONTENT_TYPE, "application/jsonl")];
            (content_type, as_lines(lines, wanted.progress)).into_response()
        }
        Err(error) => problem(status_of(&error), error.to_string()),
    }
}

/// Reads a component from the body, while other runs are refused.
async fn component(body: Body, limit: u64) -> Result<Bytes, NotRun> {
    let all = to_bytes(body, usize::try_from(limit).unwrap_or(usize::MAX));
    let read = timeout(UPLOAD_TIME, all).await.map_err(|_| NotRun::Late(UPLOAD_TIME))?;
    read.map_err(|_| NotRun::NotRead { limit })
}

fn status_of(error: &NotRun) -> StatusCode {
    match error {
        NotRun::Busy(_) | NotRun::Gone(_) => StatusCode::CONFLICT,
        NotRun::NothingWaits(_) => StatusCode::NOT_FOUND,
        NotRun::Late(_) => StatusCode::REQUEST_TIMEOUT,
        NotRun::NothingActive(_) => StatusCode::SERVICE_UNAVAILABLE,
        NotRun::NotRead { .. } | NotRun::Load(LoadError::TooLarge { .. }) => StatusCode::PAYLOAD_TOO_LARGE,
        NotRun::Load(_) | NotRun::Watches(_) => StatusCode::UNPROCESSABLE_ENTITY,
    }
}

/// Returns a body with one JSON document in each line. When the client disconnects, the receiver is dropped, and the
/// run ends.
fn as_lines(lines: mpsc::Receiver<Line>, progress: bool) -> Body {
    let next = move |mut lines: mpsc::Receiver<Line>| async move {
        loop {
            let line = lines.recv().await?;
            if matches!(line, Line::Progress { .. }) && !progress {
                continue;
            }
            // These types can always be serialized.
            let text = serde_json::to_string(&line).unwrap_or_default() + "\n";
            return Some((Ok::<_, Infallible>(text), lines));
        }
    };
    Body::from_stream(futures::stream::unfold(lines, next))
}

#[cfg(test)]
mod tests {
    use futures::stream;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_upload_of_a_component_is_bounded_in_time() {
        let begun = stream::iter([Ok::<_, Infallible>(Bytes::from_static(b"begun"))]);
        let late = component(Body::from_stream(begun.chain(stream::pending())), 10).await.unwrap_err();
        assert_eq!(status_of(&late), StatusCode::REQUEST_TIMEOUT, "{late}");
        assert!(late.to_string().contains("60s"), "{late}");
    }

    #[tokio::test]
    async fn a_component_above_the_limit_is_not_read() {
        assert_eq!(component(Body::from("0123456789"), 10).await.unwrap().len(), 10);
        let refused = component(Body::from("0123456789a"), 10).await.unwrap_err();
        assert_eq!(status_of(&refused), StatusCode::PAYLOAD_TOO_LARGE, "{refused}");
    }
}
