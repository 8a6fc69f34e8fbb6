//! Counts the requests to the API server and the renewals of Leases that failed, for the metrics of the host. No label
//! has a value that a user can choose: a code of HTTP that is not registered, such as one that a webhook made up, is
//! `other`.

use std::sync::Arc;

use http::{Method, Response, StatusCode};
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

/// The methods of requests to the API server.
const METHODS: [&str; 5] = ["DELETE", "GET", "PATCH", "POST", "PUT"];

/// How a request ended.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
enum Code {
    /// With a registered status code.
    Answered(u16),
    /// With another status code.
    Other,
    /// Without an answer in time.
    Unanswered,
}

impl From<Option<StatusCode>> for Code {
    fn from(answered: Option<StatusCode>) -> Self {
        match answered {
            Some(code) if code.canonical_reason().is_some() => Code::Answered(code.as_u16()),
            Some(_) => Code::Other,
            None => Code::Unanswered,
        }
    }
}

impl EncodeLabelValue for Code {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> std::fmt::Result {
        match self {
            Code::Answered(code) => code.encode(encoder),
            Code::Other => "other".encode(encoder),
            // As client-go has it.
            Code::Unanswered => "<error>".encode(encoder),
        }
    }
}

/// The labels of a count of requests.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct ByRequest {
    code: Code,
    host: Arc<str>,
    method: &'static str,
}

/// The labels of a count by Lease.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct ByLease {
    name: String,
}

/// What is counted at the connection to the API server. A clone counts together with the original.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// The requests, watches included, by how they ended.
    pub requests: Family<ByRequest, Counter>,
    /// The renewals of Leases that failed, so that the Lease had to be read again or was lost.
    pub failed_renewals: Family<ByLease, Counter>,
}

impl Counts {
    /// Returns the count of the failed renewals of a Lease, which is created with it.
    pub fn failed_renewals_of(&self, lease: &str) -> Counter {
        self.failed_renewals.get_or_create_owned(&ByLease { name: lease.to_owned() })
    }

    /// Begins a request to this host. It is counted once the result is dropped.
    pub(super) fn begin(&self, host: Arc<str>, method: &Method) -> CountedRequest {
        CountedRequest { requests: self.requests.clone(), host, method: name(method), answered: None }
    }
}

/// Returns the name of a method as a label.
fn name(method: &Method) -> &'static str {
    METHODS.into_iter().find(|name| *name == method.as_str()).unwrap_or("other")
}

/// A request that is counted when it ends, also without an answer.
pub(super) struct CountedRequest {
    requests: Family<ByRequest, Counter>,
    host: Arc<str>,
    method: &'static str,
    answered: Option<StatusCode>,
}

impl CountedRequest {
    /// Returns the answer of the request, and notes its code.
    pub(super) async fn end_with<B, E>(
        mut self,
        sent: impl Future<Output = Result<Response<B>, E>>,
    ) -> Result<Response<B>, E> {
        let answer = sent.await;
        self.answered = answer.as_ref().ok().map(Response::status);
        answer
    }
}

impl Drop for CountedRequest {
    fn drop(&mut self) {
        let (code, host, method) = (self.answered.into(), self.host.clone(), self.method);
        self.requests.get_or_create(&ByRequest { code, host, method }).inc();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::extract::Path;
    use axum::routing::get;
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use super::*;
    use crate::client::{ApiCall, Cluster};
    use crate::identity::{Identity, Permit};
    use crate::served;

    fn rendered(counts: &Counts) -> String {
        let (mut registry, mut text) = (Registry::default(), String::new());
        registry.register("rest_client_requests", "", counts.requests.clone());
        encode(&mut text, &registry).unwrap();
        text
    }

    async fn read(cluster: &Cluster, path: &str) {
        let call = ApiCall::get("get", &"a thing", path.to_owned());
        drop(cluster.send(call, &Identity::Host, &Permit::unlimited()).await);
    }

    #[tokio::test]
    async fn each_request_is_counted_by_its_method_and_its_answer() {
        let status = |Path(code): Path<u16>| async move { StatusCode::from_u16(code).unwrap() };
        let hangs = || async { std::future::pending::<StatusCode>().await };
        let server = axum::Router::new().route("/code/{code}", get(status)).route("/hangs", get(hangs));
        let cluster = served::by(server).await;
        for code in [200, 200, 404, 599] {
            read(&cluster, &format!("/code/{code}")).await;
        }
        let abandoned = tokio::time::timeout(Duration::from_millis(50), read(&cluster, "/hangs")).await;
        assert!(abandoned.is_err(), "the server does not answer");
        let (text, host) =
            (rendered(&cluster.counts), cluster.server.trim_start_matches("http://").trim_end_matches('/'));
        for (code, count) in [("200", 2), ("404", 1), ("other", 1), ("<error>", 1)] {
            let line =
                format!("rest_client_requests_total{{code=\"{code}\",host=\"{host}\",method=\"GET\"}} {count}\n");
            assert!(text.contains(&line), "{line} is not in\n{text}");
        }
    }
}
