//! Receives reviews within bounds of bytes and time, and answers them.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, SemaphorePermit};

use hotshoe_operator::fleet::Fleet;
use hotshoe_operator::telemetry::metrics::Metrics;

/// The memory for bodies that are received or answered at once, in KiB.
pub(super) const BUDGET_KIB: u32 = 32 << 10;
/// The memory for conversions that are received or answered at once, in KiB. It is not that of other reviews: neither
/// kind keeps the other waiting.
pub(super) const CONVERSIONS_KIB: usize = 64 << 10;
/// Bodies of at most this size, in bytes, occupy none of that memory: as many of them as there may be connections have
/// 8 MiB, and 24 MiB with the copies of a conversion. So a client that claims large bodies and sends nothing keeps only
/// large ones waiting.
const SMALL_BYTES: usize = 64 << 10;
/// How long a body may take to arrive. An API server sends it at once.
const RECEIVE_TIMEOUT: Duration = Duration::from_secs(2);

/// Why a review is not received.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(super) enum NotReceived {
    /// It has more bytes than it may have.
    #[error("a review may have {max} bytes; make the object smaller, or ask for fewer at once")]
    TooLarge {
        /// How many it may have.
        max: usize,
    },
    /// Its body did not arrive in time.
    #[error("the review did not arrive within {RECEIVE_TIMEOUT:?}, or others kept it waiting so long; send it again")]
    TooSlow,
    /// The host stops.
    #[error("the host stops; ask another one")]
    Stopping,
}

impl IntoResponse for NotReceived {
    /// Returns the answer with the reason as its text, which the API server shows its client.
    fn into_response(self) -> Response {
        let status = match self {
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::Stopping => StatusCode::SERVICE_UNAVAILABLE,
        };
        (status, format!("{self}\n")).into_response()
    }
}

/// What answers reviews.
pub(in crate::server) struct Webhooks {
    pub(super) fleet: Arc<Fleet>,
    pub(super) metrics: Arc<Metrics>,
    /// The host's thread, where plugins are called.
    pub(super) host: Handle,
    pub(super) budget: Semaphore,
    /// The memory for conversions.
    pub(super) conversions: Semaphore,
}

impl Webhooks {
    /// Creates a server for the plugins of a host, whose tasks run on the thread of this handle.
    pub(in crate::server) fn new(fleet: Arc<Fleet>, metrics: Arc<Metrics>, host: Handle) -> Arc<Self> {
        let budget = Semaphore::new(BUDGET_KIB as usize);
        Arc::new(Self { fleet, metrics, host, budget, conversions: Semaphore::new(CONVERSIONS_KIB) })
    }

    /// Reads a body of at most `max` bytes, and occupies memory for it until the permit is dropped.
    ///
    /// # Errors
    /// When the body is larger, or takes too long.
    pub(super) async fn receive(
        &self,
        headers: &HeaderMap,
        body: Body,
        max: usize,
    ) -> Result<(Vec<u8>, SemaphorePermit<'_>), NotReceived> {
        receive_within(&self.budget, 1, headers, body, max).await
    }
}

/// Reads a body of at most `max` bytes, and occupies a budget for so many copies of it until the permit is dropped.
///
/// # Errors
/// When the body is larger, or takes too long.
pub(super) async fn receive_within<'a>(
    budget: &'a Semaphore,
    copies: u32,
    headers: &HeaderMap,
    body: Body,
    max: usize,
) -> Result<(Vec<u8>, SemaphorePermit<'a>), NotReceived> {
    let too_large = NotReceived::TooLarge { max };
    let read = async {
        let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        let length = length.unwrap_or(max);
        if length > max {
            return Err(too_large);
        }
        let kib = match length <= SMALL_BYTES {
            true => 0,
            false => u32::try_from(length / 1024 + 1).map_err(|_| too_large)?,
        };
        let permit = budget.acquire_many(kib.saturating_mul(copies)).await.map_err(|_| NotReceived::Stopping)?;
        // A body without a length may be of any.
        let bytes = to_bytes(body, length).await.map_err(|_| too_large)?;
        Ok((bytes.into(), permit))
    };
    tokio::time::timeout(RECEIVE_TIMEOUT, read).await.unwrap_or(Err(NotReceived::TooSlow))
}

/// Returns the answer to what is no review.
pub(super) fn bad_request(error: impl std::fmt::Display) -> Response {
    (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response()
}

/// Returns a review as the answer.
pub(super) fn json(review: Vec<u8>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], review).into_response()
}
