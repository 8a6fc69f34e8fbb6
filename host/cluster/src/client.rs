//! The connection to the API server, and the one function that sends every request except watches.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use anyhow::Context;
use http::{HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde::Deserialize;
use tokio::time::Instant;

use crate::counts::Counts;
use crate::credentials::Credentials;
use crate::error::{ApiError, PERMIT_EXPIRED};
use crate::fair_semaphore::FairSemaphore;
use crate::identity::{Identity, Permit};
use crate::immutable;
use crate::outage::Outage;
use crate::proxy::Proxy;
#[cfg(test)]
use crate::served;
use crate::time_limit::{LimitedBody, TimeLimits};
use crate::transport::{Sending, Transport, of_metadata};
use hotshoe_core::flow::write_cost::tokens;
use hotshoe_core::model::scheme_hint;

/// How many writes are in flight at once, so that several plugins share them. A small API server is fastest with eight
/// to ten; more only slow its other clients down.
const MAX_WRITES: usize = 10;
/// How many writes each plugin may have in flight in any case, beyond [`MAX_WRITES`] if necessary: those of another
/// plugin may hang until a slow admission webhook times out.
const MIN_WRITES: usize = 1;
/// The maximum size of a reply that is read, in bytes: the API server's own limit on an object is 1.5 MiB.
const MAX_REPLY_BYTES: usize = 4 * 1024 * 1024;
/// How many of the fields that one refusal complains about are kept.
const MAX_FIELDS: usize = 16;
/// How often the credentials are tried while they are refused. An aggregated API server may refuse them for its own
/// kinds alone, and a quiet host may ask for nothing else.
const CREDENTIALS_INTERVAL: Duration = Duration::from_secs(5);
/// Our name in the audit log, and as field manager of requests that name none.
const USER_AGENT: HeaderValue = HeaderValue::from_static(concat!("hotshoe/", env!("CARGO_PKG_VERSION")));
/// The name of the context inside a Pod.
const IN_CLUSTER: &str = "in-cluster";

/// Selects a cluster.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ConnectOptions {
    /// Kubeconfig file [default: $KUBECONFIG, ~/.kube/config, or the Pod's own account]
    #[arg(long, global = true, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current one]
    #[arg(long, global = true, value_name = "NAME")]
    pub context: Option<String>,
}

/// A connection to an API server.
#[derive(Clone)]
pub struct Cluster {
    /// For single objects that are followed.
    pub(super) client: kube::Client,
    pub(super) transport: Transport,
    /// The kubeconfig context, or `in-cluster`.
    pub context: String,
    /// The API server's address.
    pub server: String,
    /// Distinguishes this cluster from others without a request: its address and its CA, for local clusters share an
    /// address. Empty inside a Pod, where there is only one cluster.
    pub identity: Arc<[u8]>,
    /// Limits the writes in flight of the whole process, fairly between plugins.
    writes: Arc<FairSemaphore<Arc<str>>>,
    /// The plugin that writes count for; empty for writes of the host itself.
    plugin: Arc<str>,
    /// The last outage of the API server.
    pub(super) outage: Arc<Outage>,
    /// Whether the API server accepts the credentials of this connection.
    pub credentials: Arc<Credentials>,
    /// What is counted at this connection.
    pub counts: Counts,
}

impl Cluster {
    /// Creates a connection from the configuration. Sends no request yet.
    ///
    /// # Errors
    /// If there is no usable configuration.
    pub async fn connect(options: &ConnectOptions) -> anyhow::Result<Self> {
        Self::connect_within(options, TimeLimits::default(), Counts::default()).await
    }

    /// Creates another connection whose requests are counted together with those of this one.
    ///
    /// # Errors
    /// If there is no usable configuration.
    pub async fn connect_beside(&self, options: &ConnectOptions) -> anyhow::Result<Self> {
        Self::connect_within(options, TimeLimits::default(), self.counts.clone()).await
    }

    async fn connect_within(options: &ConnectOptions, limits: TimeLimits, counts: Counts) -> anyhow::Result<Self> {
        let (mut config, context, proxy) = load(options)
            .await
            .context("there is no usable cluster configuration; name one with --kubeconfig or KUBECONFIG")?;
        config.headers.push((header::USER_AGENT, USER_AGENT));
        let server = config.cluster_url.to_string();
        let identity = identity(&config, &context).into();
        let credentials = Arc::<Credentials>::default();
        let transport = Transport::new(&config, proxy.as_ref(), &credentials, limits, &counts)
            .context("the cluster configuration cannot be used")?;
        let client = transport.client();
        let (writes, plugin, outage) = (FairSemaphore::new(MAX_WRITES, MIN_WRITES), "".into(), Arc::default());
        Ok(Self { client, transport, context, server, identity, writes, plugin, outage, credentials, counts })
    }

    /// Returns the same connection with writes that count for a plugin.
    pub fn of(&self, plugin: &str) -> Self {
        Self { plugin: plugin.into(), ..self.clone() }
    }

    /// Returns a client for lists and watches, in pages that are bounded by their bytes: of whole objects, or only of
    /// their metadata.
    pub(super) fn lister(&self, of_metadata: bool) -> kube::Client {
        self.transport.lister(of_metadata)
    }

    /// Returns whether watches share connections, as far as is known.
    pub(super) fn watches_share(&self) -> bool {
        self.transport.watches_share()
    }

    /// Sends one request and returns the body of the response.
    ///
    /// # Errors
    /// The API server's error, or that it did not answer in time.
    pub async fn send(&self, call: ApiCall<'_>, identity: &Identity, permit: &Permit) -> Result<String, ApiError> {
        let cost = tokens(call.body.len(), 0);
        self.send_at_cost(call, cost, identity, permit).await
    }

    /// Sends one request whose cost, in [tokens], is known better than by its bytes.
    ///
    /// # Errors
    /// The API server's error, or that it did not answer in time.
    pub(super) async fn send_at_cost(
        &self,
        mut call: ApiCall<'_>,
        cost: NonZeroU32,
        identity: &Identity,
        permit: &Permit,
    ) -> Result<String, ApiError> {
        let is_read = call.method == Method::GET;
        let _place = if is_read { None } else { Some(self.writes.acquire(&self.plugin).await) };
        let Some(timeout) = permit.timeout() else {
            return Err(call.unanswered(PERMIT_EXPIRED, "the permit to write has ended".into()));
        };
        let sent = Instant::now();
        let exchanged = while_permitted(permit, self.exchange(&mut call, identity, permit));
        let result = match tokio::time::timeout(timeout, exchanged).await {
            Ok(Some(result)) => result,
            Ok(None) => {
                return Err(call.unanswered(PERMIT_EXPIRED, "the permit to write has ended before the answer".into()));
            }
            Err(_) => Err(call.unanswered("Timeout", format!("no answer within {timeout:?}"))),
        };
        let written = (call.method != Method::GET).then_some((&self.plugin, sent, cost));
        self.outage.note_answer(result, written).map_err(|error| self.outage.mark_after_outage(error))
    }

    /// Sends one request about a Lease, as the host. The request needs no permit, because permits follow from Leases,
    /// and it does not wait for other writes.
    ///
    /// # Errors
    /// The API server's error, or that it did not answer in time.
    pub(super) async fn send_for_lease(&self, mut call: ApiCall<'_>, timeout: Duration) -> Result<String, ApiError> {
        let permit = Permit::unlimited();
        let exchanged = self.exchange(&mut call, &Identity::Host, &permit);
        let result = match tokio::time::timeout(timeout, exchanged).await {
            Ok(result) => result,
            Err(_) => Err(call.unanswered("Timeout", format!("no answer within {timeout:?}"))),
        };
        self.outage.note_answer(result, None).map_err(|error| self.outage.mark_after_outage(error))
    }

    /// Tries the credentials again as long as they are refused, until the process ends.
    pub async fn try_credentials(self) {
        loop {
            tokio::time::sleep(CREDENTIALS_INTERVAL).await;
            if self.credentials.refused_for(Instant::now()).is_some() {
                let call = ApiCall::get("get", &"the version", "/version".to_owned());
                // Every answer is noted where it arrives.
                drop(self.send(call, &Identity::Host, &Permit::unlimited()).await);
            }
        }
    }

    /// Begins a watch of metadata, and returns its events as they arrive.
    ///
    /// # Errors
    /// The API server's error, or that it did not answer in time.
    pub(super) async fn watch(&self, mut call: ApiCall<'_>, identity: &Identity) -> Result<LimitedBody, ApiError> {
        let send = |request| self.transport.watch(of_metadata(request));
        let result = self.begin(&mut call, send, identity, &Permit::unlimited()).await;
        let result = result.map(|(_, body)| body);
        self.outage.note_answer(result, None).map_err(|error| self.outage.mark_after_outage(error))
    }

    async fn exchange(&self, call: &mut ApiCall<'_>, identity: &Identity, permit: &Permit) -> Result<String, ApiError> {
        let (status, body) = self.begin(call, |request| self.transport.send(request), identity, permit).await?;
        read_text(call, status, body).await
    }

    /// Sends a request, and returns the status and the unread body of a successful response.
    async fn begin(
        &self,
        call: &mut ApiCall<'_>,
        send: impl FnOnce(Request<Body>) -> Sending,
        identity: &Identity,
        permit: &Permit,
    ) -> Result<(StatusCode, LimitedBody), ApiError> {
        let request = call.request(identity, permit);
        let unreachable = |error: &dyn std::error::Error| call.unanswered("Unreachable", chain(error));
        let request = request.map_err(|error| unreachable(&error))?;
        let response = send(request).await.map_err(|error| unreachable(&*error))?;
        let (parts, body) = response.into_parts();
        if parts.status.is_success() {
            return Ok((parts.status, body));
        }
        let text = read_text(call, parts.status, body).await?;
        let retry_after = parts.headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        Err(call.refused(parts.status.as_u16(), retry_after.map(Duration::from_secs), &text))
    }
}

/// Reads the body of a response.
async fn read_text(call: &ApiCall<'_>, status: StatusCode, body: LimitedBody) -> Result<String, ApiError> {
    let read = Limited::new(body, MAX_REPLY_BYTES).collect().await;
    let bytes = read.map_err(|error| call.unread(status.as_u16(), &*error))?.to_bytes();
    Ok(text(bytes.into()))
}

/// Runs a request as long as its permit is valid. A timer alone would not be enough: a process that was stopped
/// for a while continues with whatever is ready first, and that may be the connection.
async fn while_permitted<T>(permit: &Permit, request: impl Future<Output = T>) -> Option<T> {
    let mut request = std::pin::pin!(request);
    std::future::poll_fn(|context| match permit.is_over() {
        true => Poll::Ready(None),
        false => request.as_mut().poll(context).map(Some),
    })
    .await
}

/// Converts bytes to text, without a copy if they are valid UTF-8.
fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

fn identity(config: &kube::Config, context: &str) -> Vec<u8> {
    if context == IN_CLUSTER {
        return Vec::new();
    }
    let authorities = config.root_cert.iter().flatten().flatten();
    config.cluster_url.to_string().bytes().chain(authorities.copied()).collect()
}

async fn load(options: &ConnectOptions) -> anyhow::Result<(kube::Config, String, Option<Proxy>)> {
    let in_cluster = options.kubeconfig.is_none()
        && options.context.is_none()
        && std::env::var_os("KUBECONFIG").is_none()
        && std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
    if in_cluster {
        return Ok((kube::Config::incluster()?, IN_CLUSTER.to_owned(), None));
    }
    let kubeconfig = match &options.kubeconfig {
        Some(path) => Kubeconfig::read_from(path),
        None => Kubeconfig::read(),
    };
    // Without the causes: the message of this error repeats them.
    let kubeconfig = kubeconfig.map_err(|error| anyhow::anyhow!("{error}"))?;
    let name = options.context.clone().or_else(|| kubeconfig.current_context.clone());
    let name = name.unwrap_or_else(|| "default".to_owned());
    let selected = KubeConfigOptions { context: options.context.clone(), ..Default::default() };
    let config = kube::Config::from_custom_kubeconfig(kubeconfig.clone(), &selected).await?;
    let proxy = Proxy::find(&kubeconfig, &name, &config.cluster_url)?;
    Ok((config, name, proxy))
}

/// One request.
pub struct ApiCall<'a> {
    /// For error messages: `create`, `apply`, `delete`…
    pub verb: &'static str,
    /// The object, for error messages.
    pub target: &'a (dyn std::fmt::Display + Sync),
    /// The HTTP method.
    pub method: Method,
    /// Path and query.
    pub uri: String,
    /// Content type of the body.
    pub content_type: &'static str,
    /// JSON, or empty.
    pub body: Vec<u8>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Status {
    message: String,
    reason: String,
    details: Option<Details>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Details {
    name: String,
    causes: Vec<Cause>,
    retry_after_seconds: Option<u64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Cause {
    reason: String,
    field: String,
    message: String,
}

impl<'a> ApiCall<'a> {
    /// Creates a request that reads `uri`.
    pub fn get(verb: &'static str, target: &'a (dyn std::fmt::Display + Sync), uri: String) -> Self {
        Self { verb, target, method: Method::GET, uri, content_type: "application/json", body: Vec::new() }
    }
}

impl ApiCall<'_> {
    /// Builds the request, moves the body into it, and attaches the permit, which is checked again on the connection.
    pub(super) fn request(&mut self, identity: &Identity, permit: &Permit) -> http::Result<Request<Body>> {
        let mut request = Request::builder()
            .extension(permit.clone())
            .method(self.method.clone())
            .uri(&self.uri)
            .header(header::ACCEPT, "application/json")
            .header(header::CONTENT_TYPE, self.content_type);
        if let Some(user) = identity.impersonated() {
            request = request.header("Impersonate-User", user);
        }
        request.body(Body::from(std::mem::take(&mut self.body)))
    }

    fn unanswered(&self, reason: &str, message: String) -> ApiError {
        ApiError::new(self.verb, self.target.to_string(), 0, reason, message)
    }

    /// Returns the error of a reply of which only the head was read.
    fn unread(&self, code: u16, error: &(dyn std::error::Error + Send + Sync + 'static)) -> ApiError {
        match error.is::<LengthLimitError>() {
            true => ApiError::too_large(self.verb, self.target.to_string(), code, MAX_REPLY_BYTES),
            false => self.unanswered("Unreachable", chain(error)),
        }
    }

    fn refused(&self, code: u16, retry_after: Option<Duration>, body: &str) -> ApiError {
        let status: Status = serde_json::from_str(body)
            .unwrap_or_else(|_| Status { message: body.chars().take(500).collect(), ..Status::default() });
        let details = status.details.unwrap_or_default();
        let names_none = details.name.is_empty();
        let fields = details.causes.iter().map(|cause| cause.field.clone()).filter(|field| !field.is_empty());
        let is_immutable = code == 422
            && !details.causes.is_empty()
            && details.causes.iter().all(|cause| immutable::is_cause(&cause.message));
        let error = ApiError {
            is_immutable,
            fields: fields.take(MAX_FIELDS).collect(),
            cause: details.causes.into_iter().map(|cause| cause.reason).find(|reason| !reason.is_empty()),
            ..ApiError::new(self.verb, self.target.to_string(), code, &status.reason, status.message)
        };
        let asked = retry_after.or(details.retry_after_seconds.map(Duration::from_secs));
        let error = error.asking_to_wait(asked);
        if code == 404 && names_none { error.unserved() } else { error }
    }
}

/// Formats an error with its causes, which the messages of hyper and kube leave out.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    scheme_hint::explained(text)
}

#[cfg(test)]
impl Cluster {
    /// Connects to an API server of a test, with other time limits.
    pub(crate) async fn at_within(address: &str, limits: TimeLimits) -> Self {
        let kubeconfig = served::kubeconfig(address);
        Self::connect_within(&served::options(&kubeconfig), limits, Counts::default()).await.unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot_clock;

    fn refused(body: &str) -> ApiError {
        let call = ApiCall {
            verb: "apply",
            target: &"Deployment n/web",
            method: Method::PATCH,
            uri: String::new(),
            content_type: "",
            body: Vec::new(),
        };
        call.refused(422, None, body)
    }

    #[test]
    fn a_refusal_names_the_fields_that_it_complains_about() {
        let body = r#"{"message":"no","reason":"Invalid","details":{"name":"web","causes":[
            {"reason":"","field":""},{"reason":"FieldValueInvalid","field":"spec.type"},{"reason":"FieldValueForbidden","field":"spec.a"}]}}"#;
        let error = refused(body);
        assert_eq!(error.fields, ["spec.type", "spec.a"]);
        assert!(error.is_of_fields(), "{error:?}");
    }

    #[tokio::test]
    async fn a_request_goes_no_further_once_its_permit_is_over() {
        let permit = Permit::until(1, boot_clock::now() + Duration::from_secs(60));
        let mut steps = 0;
        let request = std::future::poll_fn(|context| {
            steps += 1;
            permit.end();
            context.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        assert_eq!(while_permitted(&permit, request).await, None);
        assert_eq!(steps, 1);
    }

    #[tokio::test]
    async fn a_reply_that_is_too_large_is_said_to_be_and_is_no_outage() {
        let large = "x".repeat(MAX_REPLY_BYTES + 1);
        let cluster = served::by(axum::Router::new().fallback(move || async move { large })).await;
        let call = ApiCall::get("get", &"ConfigMap n/a", "/a".to_owned());
        let error = cluster.send(call, &Identity::Host, &Permit::unlimited()).await.unwrap_err();
        assert_eq!((error.code, &*error.reason), (200, "ReplyTooLarge"));
        assert!(error.is_transient() && error.to_string().contains("ConfigMap n/a: the reply is larger"), "{error}");
        assert!(!cluster.outage.is_after_outage(403), "a refusal is final: the API server was never away");
    }

    #[test]
    fn the_pause_that_a_webhook_or_an_aggregated_api_server_asks_for_is_bounded() {
        let most = Duration::from_secs(300);
        for asked in [2_147_483_647, u64::MAX] {
            let body = format!(r#"{{"message":"no","details":{{"retryAfterSeconds":{asked}}}}}"#);
            assert_eq!(refused(&body).retry_after, Some(most), "{asked} in the body");
            let call = ApiCall::get("get", &"ConfigMap n/a", String::new());
            let by_header = call.refused(429, Some(Duration::from_secs(asked)), "{}");
            assert_eq!(by_header.retry_after, Some(most), "{asked} in the header");
        }
        assert_eq!(refused(r#"{"details":{"retryAfterSeconds":7}}"#).retry_after, Some(Duration::from_secs(7)));
    }

    #[test]
    fn only_a_few_of_very_many_fields_of_a_refusal_are_kept() {
        let causes = vec![r#"{"reason":"FieldValueInvalid","field":"spec.a"}"#; 10_000].join(",");
        let error = refused(&format!(r#"{{"details":{{"causes":[{causes}]}}}}"#));
        assert_eq!(error.fields.len(), MAX_FIELDS);
    }
}
