//! The body of a write, which ends the request if the permit to write is over by the time that the connection sends it.
//!
//! A request waits for the task of its connection. A process that was stopped meanwhile, for longer than its Lease,
//! continues with whichever task is ready first: if that is the connection, checking the permit where the request was
//! made comes too late. Without its body, a request changes nothing.

use std::pin::Pin;
use std::task::{Context, Poll};

use http::Request;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use kube::client::Body as Unchecked;
use tower::BoxError;

use crate::identity::Permit;

/// The permit to write was over when the connection was about to send the request.
#[derive(Debug, thiserror::Error)]
#[error("the permit to write has ended")]
struct PermitEnded;

/// A body that is sent only under a valid permit.
pub(super) struct PermittedBody {
    body: Unchecked,
    /// `None` for lists and watches, which change nothing.
    permit: Option<Permit>,
}

/// Returns the same request with a body that checks the permit attached to the request.
pub(super) fn of(mut request: Request<Unchecked>) -> Request<PermittedBody> {
    let permit = request.extensions_mut().remove();
    request.map(|body| PermittedBody { body, permit })
}

impl Body for PermittedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.permit.as_ref().is_some_and(Permit::is_over) {
            return Poll::Ready(Some(Err(PermitEnded.into())));
        }
        Pin::new(&mut self.body).poll_frame(context).map_err(BoxError::from)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use http::Method;

    use crate::boot_clock;
    use crate::client::ApiCall;
    use crate::identity::{Identity, Permit};
    use crate::served;

    /// On one thread, the task of the connection runs only after the permit has ended.
    #[tokio::test]
    async fn a_request_that_waits_for_its_connection_while_the_permit_ends_is_not_sent() {
        let served = Arc::new(AtomicUsize::new(0));
        let seen = served.clone();
        let cluster = served::by(axum::Router::new().fallback(move |_: String| async move {
            seen.fetch_add(1, Ordering::Relaxed);
            "{}"
        }))
        .await;
        let permit = Permit::until(1, boot_clock::now() + Duration::from_secs(60));
        let call = || ApiCall {
            verb: "create",
            target: &"ConfigMap n/a",
            method: Method::POST,
            uri: "/a".to_owned(),
            content_type: "application/json",
            body: b"{}".to_vec(),
        };
        cluster.send(call(), &Identity::Host, &permit).await.unwrap();
        assert_eq!(served.load(Ordering::Relaxed), 1, "the connection is open now, and in the pool");
        let sent = cluster.transport.send(call().request(&Identity::Host, &permit).unwrap());
        let mut sent = std::pin::pin!(sent);
        assert!(futures::poll!(&mut sent).is_pending());
        permit.end();
        let error = sent.await.err().map(|error| crate::client::chain(&*error));
        assert!(error.as_ref().is_some_and(|error| error.contains("the permit to write has ended")), "{error:?}");
        assert_eq!(served.load(Ordering::Relaxed), 1);
    }
}
