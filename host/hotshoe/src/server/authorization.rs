//! Authorizes requests for metrics by asking the API server: a TokenReview says whose the bearer token is, and a
//! SubjectAccessReview whether that user may `get` the path of the metrics. A positive answer is cached for a minute.
//! The path is always that one, whatever path is requested: by default any account may `get` some paths, such as
//! `/version`, and the cache does not tell paths apart.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use crate::server::public::METRICS_PATH;
use hotshoe_cluster::access_review::{Access, may_get};
use hotshoe_cluster::client::Cluster;

/// How long the API server is not asked again about a token that it allowed.
const CACHED_FOR: Duration = Duration::from_secs(60);
/// The maximum number of cached tokens: more than there are scrapers, but little memory.
const MAX_CACHED: usize = 64;
/// How many unknown tokens the API server is asked about in a second. Any client can send as many tokens as it likes,
/// and each costs the API server two requests.
const UNKNOWN_PER_SECOND: NonZeroU32 = NonZeroU32::new(5).expect("five is not zero");

/// Serves the routes only to clients that may read the metrics. Other paths stay unknown, and ask the API server nothing.
pub(super) fn protect(routes: Router, cluster: Cluster) -> Router {
    routes.route_layer(from_fn_with_state(Arc::new(Authorizer::new(cluster)), required))
}

/// Asks the API server about tokens, and caches those that it allows.
struct Authorizer {
    cluster: Cluster,
    allowed: Mutex<Allowed>,
    unknown: DefaultDirectRateLimiter,
}

impl Authorizer {
    fn new(cluster: Cluster) -> Self {
        Self { cluster, allowed: Mutex::default(), unknown: RateLimiter::direct(Quota::per_second(UNKNOWN_PER_SECOND)) }
    }

    /// Returns the response to a request that is refused; none if it is allowed.
    async fn refusal(&self, headers: &HeaderMap) -> Option<(StatusCode, &'static str)> {
        let Some(token) = bearer(headers) else {
            return Some((StatusCode::UNAUTHORIZED, "a bearer token is needed\n"));
        };
        let digest = Sha256::digest(token).into();
        match self.allowed.lock().answer(&digest, Instant::now()) {
            CachedAnswer::Allowed => return None,
            // A token that was allowed before is not rate-limited together with unknown ones.
            CachedAnswer::Expired => {}
            CachedAnswer::Unknown if self.unknown.check().is_ok() => {}
            CachedAnswer::Unknown => {
                return Some((StatusCode::TOO_MANY_REQUESTS, "too many unknown tokens; try again\n"));
            }
        }
        let access = may_get(&self.cluster, token, METRICS_PATH).await;
        self.allowed.lock().learn(digest, matches!(access, Ok(Access::Allowed)), Instant::now());
        match access {
            Ok(Access::Allowed) => None,
            Ok(Access::Unauthenticated) => {
                Some((StatusCode::UNAUTHORIZED, "the API server does not know this token\n"))
            }
            Ok(Access::Forbidden) => Some((StatusCode::FORBIDDEN, "this account may not read the metrics\n")),
            Err(error) => {
                tracing::warn!(
                    "the API server does not say who may read the metrics: {error}; `hotshoe rbac --metrics-secure` prints the right to ask"
                );
                Some((StatusCode::SERVICE_UNAVAILABLE, "the API server does not say who may read the metrics\n"))
            }
        }
    }
}

/// Refuses unauthorized requests.
async fn required(State(authorizer): State<Arc<Authorizer>>, request: Request, next: Next) -> Response {
    match authorizer.refusal(request.headers()).await {
        None => next.run(request).await,
        Some((StatusCode::UNAUTHORIZED, why)) => {
            (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], why).into_response()
        }
        Some(refusal) => refusal.into_response(),
    }
}

/// Returns the bearer token of a request, if it has one.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// The digest of a token. The token itself is not kept in memory.
type TokenDigest = [u8; 32];

/// What the cache knows about a token.
#[derive(Debug, PartialEq, Eq)]
enum CachedAnswer {
    Allowed,
    /// The token was allowed, but the API server must be asked again.
    Expired,
    Unknown,
}

/// The tokens that the API server allowed, and when it did.
#[derive(Default)]
struct Allowed(HashMap<TokenDigest, Instant>);

impl Allowed {
    fn answer(&self, token: &TokenDigest, now: Instant) -> CachedAnswer {
        match self.0.get(token) {
            Some(since) if now.saturating_duration_since(*since) < CACHED_FOR => CachedAnswer::Allowed,
            Some(_) => CachedAnswer::Expired,
            None => CachedAnswer::Unknown,
        }
    }

    /// Caches or drops a token. If there are too many, drops the one that was allowed longest ago.
    fn learn(&mut self, token: TokenDigest, is_allowed: bool, now: Instant) {
        if !is_allowed {
            self.0.remove(&token);
            return;
        }
        self.0.insert(token, now);
        if self.0.len() > MAX_CACHED {
            let oldest = self.0.iter().min_by_key(|(_, since)| **since).map(|(token, _)| *token);
            oldest.and_then(|oldest| self.0.remove(&oldest));
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::Json;
    use axum::body::Body;
    use axum::routing::{get, post};
    use serde_json::{Value, json};
    use tower::ServiceExt;

    use super::*;
    use crate::served;

    /// Serves an API server that lets the user `scraper` read any path, and others only `/version`. A token is the name
    /// of its user.
    async fn api_server() -> Cluster {
        let authenticate = |Json(review): Json<Value>| async move {
            let user = json!({ "username": review["spec"]["token"] });
            Json(json!({ "status": { "authenticated": true, "user": user } }))
        };
        let authorize = |Json(review): Json<Value>| async move {
            let spec = &review["spec"];
            let allowed = spec["user"] == "scraper" || spec["nonResourceAttributes"]["path"] == "/version";
            Json(json!({ "status": { "allowed": allowed } }))
        };
        let server = Router::new()
            .route("/apis/authentication.k8s.io/v1/tokenreviews", post(authenticate))
            .route("/apis/authorization.k8s.io/v1/subjectaccessreviews", post(authorize));
        served::by(server).await
    }

    #[tokio::test]
    async fn a_right_to_read_another_path_is_no_right_to_read_the_metrics() {
        let metrics = Router::new().route(METRICS_PATH, get(|| async { "metrics" }));
        let routes = protect(metrics, api_server().await);
        let got = async |token: &str, path: &str| {
            let request = Request::get(path).header(header::AUTHORIZATION, format!("Bearer {token}"));
            routes.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap().status()
        };
        assert_eq!(got("stranger", "/version").await, StatusCode::NOT_FOUND);
        assert_eq!(got("stranger", METRICS_PATH).await, StatusCode::FORBIDDEN);
        assert_eq!(got("scraper", METRICS_PATH).await, StatusCode::OK);
    }

    #[tokio::test]
    async fn a_flood_of_unknown_tokens_is_cut_and_a_known_one_is_served_beside_it() {
        let metrics = Router::new().route(METRICS_PATH, get(|| async { "metrics" }));
        let routes = protect(metrics, api_server().await);
        let got = async |token: &str| {
            let request = Request::get(METRICS_PATH).header(header::AUTHORIZATION, format!("Bearer {token}"));
            routes.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap().status()
        };
        assert_eq!(got("scraper").await, StatusCode::OK);
        let mut codes = Vec::new();
        for number in 0..40 {
            codes.push(got(&format!("stranger-{number}")).await);
        }
        assert_eq!(codes.first(), Some(&StatusCode::FORBIDDEN));
        assert!(codes.contains(&StatusCode::TOO_MANY_REQUESTS), "{codes:?}");
        assert_eq!(got("scraper").await, StatusCode::OK);
    }

    fn token(number: usize) -> TokenDigest {
        Sha256::digest(number.to_le_bytes()).into()
    }

    #[test]
    fn a_positive_answer_is_cached_for_a_while_and_a_negative_one_is_not() {
        let (mut allowed, now) = (Allowed::default(), Instant::now());
        assert_eq!(allowed.answer(&token(1), now), CachedAnswer::Unknown);
        allowed.learn(token(1), true, now);
        allowed.learn(token(2), false, now);
        assert_eq!(allowed.answer(&token(1), now + CACHED_FOR / 2), CachedAnswer::Allowed);
        assert_eq!(allowed.answer(&token(2), now), CachedAnswer::Unknown);
        assert_eq!(allowed.answer(&token(1), now + CACHED_FOR), CachedAnswer::Expired);
        allowed.learn(token(1), false, now + CACHED_FOR);
        assert_eq!(allowed.answer(&token(1), now + CACHED_FOR), CachedAnswer::Unknown);
    }

    #[test]
    fn only_the_newest_tokens_are_cached() {
        let (mut allowed, now) = (Allowed::default(), Instant::now());
        for number in 0..MAX_CACHED + 3 {
            allowed.learn(token(number), true, now + Duration::from_millis(number as u64));
        }
        assert_eq!(allowed.0.len(), MAX_CACHED);
        assert_eq!(allowed.answer(&token(2), now), CachedAnswer::Unknown);
        assert_eq!(allowed.answer(&token(3), now), CachedAnswer::Allowed);
    }

    #[test]
    fn only_tokens_of_the_scheme_bearer_are_accepted() {
        let given = |value: &'static str| {
            let headers = HeaderMap::from_iter([(header::AUTHORIZATION, header::HeaderValue::from_static(value))]);
            bearer(&headers).map(str::to_owned)
        };
        assert_eq!(given("Bearer abc").as_deref(), Some("abc"));
        assert_eq!(given("bearer  abc ").as_deref(), Some("abc"));
        for none in ["", "Bearer", "Bearer ", "Basic abc", "abc"] {
            assert_eq!(given(none), None, "{none:?}");
        }
        assert_eq!(bearer(&HeaderMap::new()), None);
    }
}
