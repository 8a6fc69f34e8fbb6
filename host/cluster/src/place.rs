//! A place on a connection that several replies share.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

/// A place on a connection: an extension of the response, held by its body, and free again once that is dropped.
#[derive(Clone)]
pub(super) struct Place {
    _permit: Arc<OwnedSemaphorePermit>,
}

impl Place {
    pub(super) fn of(permit: OwnedSemaphorePermit) -> Self {
        Self { _permit: Arc::new(permit) }
    }
}
