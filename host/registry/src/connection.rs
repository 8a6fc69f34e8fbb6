//! A client of one registry, for one image: TLS, proxy, credentials, redirects and timeouts.

use std::future::Future;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{ACCEPT, AUTHORIZATION, LOCATION};
use http::{HeaderValue, Method, StatusCode};
use parking_lot::Mutex;
use reqwest::redirect::Policy;
use reqwest::{Client, Request, Response, Url};
use serde::{Deserialize, Serialize};

use crate::authorities;
use crate::challenge::{Challenge, Realm};
use crate::credentials::{Credentials, Login};
use crate::error::{self, RegistryError};
use crate::names::{self, Guard, LookUp};
use crate::reference::ImageRef;
use hotshoe_core::model::limits::{REGISTRY_CONNECT, REGISTRY_SILENCE, REGISTRY_TIME};

/// The maximum number of redirects of one request.
const MAX_REDIRECTS: usize = 10;
/// The maximum size of an answer with a token, in bytes. Some have tens of kilobytes.
const MAX_TOKEN_BYTES: u64 = 256 * 1024;

/// How registries are reached. The proxies are those of the environment: `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Access {
    /// The credentials to log in with.
    pub credentials: Credentials,
    /// Certificates in PEM of authorities that are trusted beside those of the system: the registry's CA bundle.
    pub authorities: Option<String>,
    /// Whether registries on other machines are asked without TLS. On this machine, most are anyway.
    pub plain_http: bool,
    /// The server of tokens (`HOST` or `HOST:PORT`) that gets the credentials, where that is not the registry itself.
    pub token_host: Option<String>,
}

/// Checks that a server of tokens is `HOST` or `HOST:PORT`.
///
/// # Errors
/// Why it is not.
pub fn check_token_host(text: &str) -> Result<(), String> {
    let is_known = |letter: char| letter.is_ascii_alphanumeric() || ".-:[]".contains(letter);
    let is_server = text.chars().all(is_known) && Url::parse(&format!("https://{text}")).is_ok();
    if is_server { Ok(()) } else { Err(format!("{text:?} is no server; write HOST or HOST:PORT")) }
}

/// What is done with an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Pull,
    Push,
}

/// A connection with the registry of an image.
pub(super) struct Connection {
    client: Client,
    guard: Guard,
    image: ImageRef,
    /// The address of the registry's API: `https://REGISTRY/v2/`.
    base: Url,
    token_host: Option<String>,
    login: Option<Login>,
    operation: Operation,
    /// The header that the registry accepted last.
    authorization: Mutex<Option<HeaderValue>>,
}

impl Connection {
    /// Prepares a client, which looks up names in this way. Reads the system's authorities, and makes no request yet.
    pub(super) fn prepare(
        image: &ImageRef,
        access: &Access,
        operation: Operation,
        names: Arc<dyn LookUp>,
    ) -> Result<Self, RegistryError> {
        let scheme = if is_plain(image, access) { "http" } else { "https" };
        let base = Url::parse(&format!("{scheme}://{}/v2/", image.server())).map_err(|error| {
            RegistryError::InvalidReference { text: image.to_string(), why: format!("its registry: {error}") }
        })?;
        let guard = Guard::new(&base, access.token_host.as_deref(), names);
        let client = Client::builder()
            .tls_backend_preconfigured(authorities::trust(access.authorities.as_deref())?)
            .dns_resolver(guard.clone())
            // Each redirect is checked here, and does not get the credentials.
            .redirect(Policy::none())
            .referer(false)
            .read_timeout(REGISTRY_SILENCE)
            .connect_timeout(REGISTRY_CONNECT)
            .user_agent(concat!("hotshoe/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| failed(image, error::root_cause(&error)))?;
        Ok(Self {
            client,
            guard,
            image: image.clone(),
            base,
            token_host: access.token_host.clone(),
            login: access.credentials.of_image(image)?,
            operation,
            authorization: Mutex::default(),
        })
    }

    /// Logs in, if the registry requires a login for all that it has. Where it requires one for some repositories alone,
    /// that is seen at the first request for one of these.
    pub(super) async fn log_in(&self) -> Result<(), RegistryError> {
        let answer = self.authorised(Request::new(Method::GET, self.base.clone())).await?;
        match Challenge::of(answer.headers()) {
            Some(challenge) => self.answer(&challenge).await.map(drop),
            None => Ok(()),
        }
    }

    /// Builds a request about the image's repository: `manifests/latest`, for instance.
    pub(super) fn request(&self, method: Method, path: &str, accepted: &[&str]) -> Result<Request, RegistryError> {
        let url = self.url(&format!("{}{}/{path}", self.base, self.image.repository()))?;
        let mut request = Request::new(method, url);
        if let Ok(accepted) = HeaderValue::from_str(&accepted.join(", ")) {
            request.headers_mut().insert(ACCEPT, accepted);
        }
        Ok(request)
    }

    /// Parses an address that the registry named, which may be relative.
    pub(super) fn url(&self, text: &str) -> Result<Url, RegistryError> {
        self.base.join(text).map_err(|error| self.failed(format!("it names an address that is none: {error}")))
    }

    /// Sends a request, within the time limit. If the registry asks who that is, the request is repeated once, with the
    /// credentials for this repository.
    pub(super) async fn send(&self, request: Request) -> Result<Response, RegistryError> {
        let again = request.try_clone();
        let answer = self.authorised(request).await?;
        let challenge =
            if answer.status() == StatusCode::UNAUTHORIZED { Challenge::of(answer.headers()) } else { None };
        match (challenge, again) {
            (Some(challenge), Some(again)) if self.answer(&challenge).await? => self.authorised(again).await,
            _ => Ok(answer),
        }
    }

    /// As [`Self::send`]. An answer other than a success is an error about this image.
    pub(super) async fn get(&self, image: &ImageRef, request: Request) -> Result<Response, RegistryError> {
        let answer = self.send(request).await?;
        match answer.status() {
            status if status.is_success() => Ok(answer),
            status => Err(self.refused(image, status)),
        }
    }

    /// Builds the error of a failed response about an image, from its status code only. The body is not shown: the
    /// registry may have redirected the request to a server that the host can reach and the readers of the error
    /// cannot.
    pub(super) fn refused(&self, image: &ImageRef, status: StatusCode) -> RegistryError {
        let registry = image.registry().to_owned();
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let with = match &self.login {
                    Some(login) => format!("to the user {:?}", login.user),
                    None => "without credentials".to_owned(),
                };
                RegistryError::Unauthorized { registry, image: image.to_string(), with }
            }
            StatusCode::NOT_FOUND => RegistryError::ImageNotFound { image: image.to_string() },
            status => self.failed(format!("it answered {}", status_text(status))),
        }
    }

    /// Builds the error of an answer that is not as specified.
    pub(super) fn failed(&self, why: String) -> RegistryError {
        failed(&self.image, why)
    }

    /// Sends a request as the registry asked its clients to, if it is to the registry itself.
    async fn authorised(&self, mut request: Request) -> Result<Response, RegistryError> {
        if request.url().origin() != self.base.origin() {
            self.check(&self.base, request.url())?;
        } else if let Some(authorization) = self.authorization.lock().clone() {
            request.headers_mut().insert(AUTHORIZATION, authorization);
        }
        timed(&self.image, self.follow(request)).await?
    }

    /// Sends a request, and follows redirects, which do not get the credentials.
    async fn follow(&self, mut request: Request) -> Result<Response, RegistryError> {
        for _ in 0..=MAX_REDIRECTS {
            let (from, next) = (request.url().clone(), request.try_clone());
            let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
            let answer = self.client.execute(request).await.map_err(|error| self.of_request(error))?;
            let Some((to, mut again)) = location(&answer, is_read).zip(next) else { return Ok(answer) };
            let to = from.join(&to).map_err(|error| self.failed(format!("it redirects to no address: {error}")))?;
            self.check(&from, &to)?;
            if to.origin() != from.origin() {
                again.headers_mut().remove(AUTHORIZATION);
            }
            *again.url_mut() = to;
            request = again;
        }
        Err(self.failed("it redirects from one address to another without end".to_owned()))
    }

    fn check(&self, from: &Url, to: &Url) -> Result<(), RegistryError> {
        self.guard.check(from, to).map_err(|refused| self.failed(refused.to_string()))
    }

    fn of_request(&self, error: reqwest::Error) -> RegistryError {
        match names::refusal(&error) {
            Some(refused) => self.failed(refused.to_string()),
            // An address may have a secret in its query.
            None => error::unreachable(self.image.registry(), error::root_cause(&error.without_url())),
        }
    }

    /// Prepares for what the registry asks of its clients. Returns whether there is anything new to send.
    async fn answer(&self, challenge: &Challenge) -> Result<bool, RegistryError> {
        let header = match (challenge, &self.login) {
            (Challenge::Basic, None) => return Ok(false),
            (Challenge::Basic, Some(login)) => self.basic(login)?,
            (Challenge::Bearer { realm, service }, _) => self.token(realm, service.as_deref()).await?,
        };
        let before = self.authorization.lock().replace(header.clone());
        Ok(before != Some(header))
    }

    fn basic(&self, login: &Login) -> Result<HeaderValue, RegistryError> {
        self.header(&format!("Basic {}", STANDARD.encode(format!("{}:{}", login.user, login.password))))
    }

    fn header(&self, text: &str) -> Result<HeaderValue, RegistryError> {
        let header = HeaderValue::from_str(text).map(|mut header| {
            header.set_sensitive(true);
            header
        });
        header.map_err(|_| self.failed("it handed out a token with characters that no header can have".to_owned()))
    }

    /// Asks the registry's server of tokens for one.
    async fn token(&self, realm: &str, service: Option<&str>) -> Result<HeaderValue, RegistryError> {
        let named = self.token_host.as_deref();
        let (mut url, login) = match Realm::of(realm, &self.base, self.image.registry(), named) {
            Realm::Own(url) => (url, self.login.as_ref()),
            Realm::Foreign(url) if self.login.is_none() => {
                self.check(&self.base, &url)?;
                (url, None)
            }
            Realm::Foreign(url) => return Err(self.foreign(&url)),
            Realm::Unusable => {
                return Err(self.failed("it asks to log in at an address that is none, or has no TLS".to_owned()));
            }
        };
        let actions = if self.operation == Operation::Push { "pull,push" } else { "pull" };
        url.query_pairs_mut()
            .append_pair("scope", &format!("repository:{}:{actions}", self.image.repository()))
            .extend_pairs(service.map(|service| ("service", service)));
        let mut request = Request::new(Method::GET, url);
        if let Some(login) = login {
            request.headers_mut().insert(AUTHORIZATION, self.basic(login)?);
        }
        let answer = timed(&self.image, self.follow(request)).await??;
        match answer.status() {
            StatusCode::OK => {}
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => return Err(self.refused(&self.image, answer.status())),
            status => return Err(self.failed(format!("its server of tokens answered {}", status_text(status)))),
        }
        let bytes = timed(&self.image, self.body(&self.image, answer, MAX_TOKEN_BYTES)).await??;
        let token = bytes.and_then(|bytes| serde_json::from_slice::<Token>(&bytes).ok());
        let token = token.and_then(|token| token.token.or(token.access_token));
        let token = token.ok_or_else(|| self.failed("its server of tokens sent none".to_owned()))?;
        self.header(&format!("Bearer {token}"))
    }

    fn foreign(&self, url: &Url) -> RegistryError {
        let (registry, host) = (self.image.registry().to_owned(), url.host_str().unwrap_or_default());
        let host = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        RegistryError::TokenHost { registry, host }
    }

    /// Returns the body of an answer about an image, unless it has more than so many bytes. No more are kept.
    pub(super) async fn body(
        &self,
        image: &ImageRef,
        mut answer: Response,
        most: u64,
    ) -> Result<Option<Vec<u8>>, RegistryError> {
        let mut bytes = Vec::new();
        let cut_off =
            |error: reqwest::Error| error::unreachable(image.registry(), error::root_cause(&error.without_url()));
        while let Some(chunk) = answer.chunk().await.map_err(cut_off)? {
            if (bytes.len() + chunk.len()) as u64 > most {
                return Ok(None);
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(Some(bytes))
    }
}

/// The answer of a server of tokens.
#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

/// Returns where an answer redirects to, if it does. Some redirects are for reading alone.
fn location(answer: &Response, is_read: bool) -> Option<String> {
    let is_redirect = match answer.status().as_u16() {
        301..=303 => is_read,
        code => matches!(code, 307 | 308),
    };
    let location = answer.headers().get(LOCATION).filter(|_| is_redirect)?;
    location.to_str().ok().map(str::to_owned)
}

/// Returns a code with its reason: the one of the standard, and not what the server wrote beside it.
fn status_text(status: StatusCode) -> String {
    format!("{} {}", status.as_u16(), status.canonical_reason().unwrap_or_default()).trim_end().to_owned()
}

fn failed(image: &ImageRef, why: String) -> RegistryError {
    RegistryError::Failed { registry: image.registry().to_owned(), why }
}

/// Limits the time of a request.
pub(super) async fn timed<T>(image: &ImageRef, work: impl Future<Output = T>) -> Result<T, RegistryError> {
    let late = |_| RegistryError::TimedOut { registry: image.registry().to_owned(), time: REGISTRY_TIME };
    tokio::time::timeout(REGISTRY_TIME, work).await.map_err(late)
}

/// Returns whether a registry is asked without TLS: where that is allowed, and on this machine, where few registries
/// have a certificate, unless authorities are given.
fn is_plain(image: &ImageRef, access: &Access) -> bool {
    access.plain_http || image.is_loopback() && access.authorities.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_registry_on_this_machine_is_asked_without_tls_unless_it_is_allowed() {
        let plain = |image: &str, access: &Access| is_plain(&image.parse().unwrap(), access);
        let access = Access::default();
        assert!(plain("oci://localhost:5000/a", &access));
        assert!(plain("oci://127.0.0.1:5000/a", &access));
        assert!(!plain("oci://10.0.0.1:5000/a", &access));
        assert!(!plain("oci://ghcr.io/a", &access));
        assert!(plain("oci://10.0.0.1:5000/a", &Access { plain_http: true, ..access.clone() }));
        assert!(!plain("oci://localhost:5000/a", &Access { authorities: Some(String::new()), ..access }));
    }

    #[test]
    fn a_server_of_tokens_is_a_host_with_a_port_perhaps() {
        for server in ["auth.example.org", "auth.example.org:5001", "10.0.0.1:80", "[::1]:5000"] {
            assert_eq!(check_token_host(server), Ok(()), "{server}");
        }
        for other in ["", "https://auth.example.org", "auth.example.org/token", "a@b", "a:b", "a b"] {
            assert!(check_token_host(other).is_err(), "{other}");
        }
    }

    #[test]
    fn an_answer_is_named_by_its_code_and_the_standards_words() {
        assert_eq!(status_text(StatusCode::TOO_MANY_REQUESTS), "429 Too Many Requests");
        assert_eq!(status_text(StatusCode::from_u16(599).unwrap()), "599");
    }
}
