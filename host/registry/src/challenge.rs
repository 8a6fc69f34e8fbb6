//! What a registry asks for before it serves: the header `WWW-Authenticate`, and to whom credentials may go.

use std::net::IpAddr;

use http::HeaderMap;
use http::header::WWW_AUTHENTICATE;
use http_auth::ChallengeRef;
use reqwest::Url;

/// The servers of tokens that large registries have under another name, which is known: (registry, server of tokens).
const KNOWN: [(&str, &str); 2] = [("docker.io", "auth.docker.io"), ("registry.gitlab.com", "gitlab.com")];

/// How a registry wants its clients to prove who they are.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    /// By user and password.
    Basic,
    /// By a token, which the server of tokens at `realm` hands out.
    Bearer {
        /// The address of that server, as the registry wrote it.
        realm: String,
        /// The registry's name there.
        service: Option<String>,
    },
}

impl Challenge {
    /// Reads the challenges in the headers of a response. A challenge for a token is preferred to one for a password.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let values = || headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
        let challenges = || values().flat_map(|value| http_auth::parse_challenges(value).unwrap_or_default());
        let bearer = challenges().find_map(|challenge| {
            let is_bearer = challenge.scheme.eq_ignore_ascii_case("bearer");
            let realm = value(&challenge, "realm").filter(|_| is_bearer)?;
            Some(Self::Bearer { realm, service: value(&challenge, "service") })
        });
        bearer.or_else(|| challenges().any(|found| found.scheme.eq_ignore_ascii_case("basic")).then_some(Self::Basic))
    }
}

fn value(challenge: &ChallengeRef<'_>, name: &str) -> Option<String> {
    let found = challenge.params.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.to_unescaped())
}

/// Whether the credentials for a registry belong to the server of tokens that it names.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Realm {
    /// It is the registry itself, or a server that is known or named as its server of tokens.
    Own(Url),
    /// It is another one, which may be asked without credentials.
    Foreign(Url),
    /// It cannot be asked: it is no address, or one without TLS.
    Unusable,
}

impl Realm {
    /// Judges the realm that a registry names. `base` is the address of the registry, `name` its name in references,
    /// and `named` the server of tokens that the user named for it.
    pub(super) fn of(realm: &str, base: &Url, name: &str, named: Option<&str>) -> Self {
        let Ok(realm) = Url::parse(realm) else { return Self::Unusable };
        let is_as_safe = realm.scheme() == "https" || realm.scheme() == "http" && base.scheme() == "http";
        if !is_as_safe || !realm.has_host() {
            return Self::Unusable;
        }
        let known = KNOWN.iter().filter(|(registry, _)| *registry == name).map(|(_, server)| *server);
        match is_same(&realm, base) || known.chain(named).any(|server| is_at(&realm, server)) {
            true => Self::Own(realm),
            false => Self::Foreign(realm),
        }
    }
}

/// Returns whether two addresses are at the same server. This machine has several names.
fn is_same(one: &Url, other: &Url) -> bool {
    let place = |url: &Url| (url.scheme().to_owned(), url.port_or_known_default());
    one.origin() == other.origin() || is_loopback(one) && is_loopback(other) && place(one) == place(other)
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

/// Returns whether an address is at this server: `HOST`, or `HOST:PORT`.
fn is_at(url: &Url, server: &str) -> bool {
    Url::parse(&format!("{}://{server}", url.scheme())).is_ok_and(|server| server.origin() == url.origin())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn challenge(values: &[&str]) -> Option<Challenge> {
        let values = values.iter().map(|value| (WWW_AUTHENTICATE, value.parse().unwrap()));
        Challenge::of(&values.collect())
    }

    #[test]
    fn a_challenge_is_read_and_a_token_is_preferred() {
        let bearer = |realm: &str, service: Option<&str>| {
            Some(Challenge::Bearer { realm: realm.to_owned(), service: service.map(str::to_owned) })
        };
        assert_eq!(challenge(&["Basic realm=\"x\""]), Some(Challenge::Basic));
        assert_eq!(challenge(&["basic"]), Some(Challenge::Basic));
        assert_eq!(challenge(&["Bearer realm=\"https://a/t\",service=\"s\""]), bearer("https://a/t", Some("s")));
        assert_eq!(challenge(&["Basic realm=\"x\"", "Bearer realm=\"https://a\""]), bearer("https://a", None));
        assert_eq!(challenge(&["Basic realm=\"x\", Bearer realm=\"https://a\""]), bearer("https://a", None));
        for other in [&[][..], &["Negotiate"], &["Bearer"], &["\"", "\\"]] {
            assert_eq!(challenge(other), None, "{other:?}");
        }
    }

    #[test]
    fn credentials_belong_to_the_registry_itself_and_to_the_server_that_is_named_and_to_no_other() {
        let of = |realm: &str, base: &str, name: &str, named: Option<&str>| match Realm::of(
            realm,
            &base.parse().unwrap(),
            name,
            named,
        ) {
            Realm::Own(_) => "own",
            Realm::Foreign(_) => "foreign",
            Realm::Unusable => "unusable",
        };
        let example = "https://example.org/v2/";
        for (realm, base, name, named, expected) in [
            ("https://example.org/token", example, "example.org", None, "own"),
            ("https://example.org:443/token", example, "example.org", None, "own"),
            ("https://example.org:8443/token", example, "example.org", None, "foreign"),
            ("https://example.org.evil.net/token", example, "example.org", None, "foreign"),
            ("https://example.org@evil.net/token", example, "example.org", None, "foreign"),
            ("https://auth.docker.io/token", example, "example.org", None, "foreign"),
            ("https://auth.docker.io/token", "https://index.docker.io/v2/", "docker.io", None, "own"),
            ("https://gitlab.com/jwt/auth", "https://registry.gitlab.com/v2/", "registry.gitlab.com", None, "own"),
            ("https://auth.example.org/token", example, "example.org", Some("auth.example.org"), "own"),
            ("https://auth.example.org:1/token", example, "example.org", Some("auth.example.org"), "foreign"),
            ("https://auth.example.org:1/token", example, "example.org", Some("auth.example.org:1"), "own"),
            ("http://auth.example.org/token", example, "example.org", Some("auth.example.org"), "unusable"),
            ("http://example.org/token", example, "example.org", None, "unusable"),
            ("http://a:5000/token", "http://a:5000/v2/", "a:5000", None, "own"),
            ("http://a:5001/token", "http://a:5000/v2/", "a:5000", None, "foreign"),
            ("https://a:5000/token", "http://a:5000/v2/", "a:5000", None, "foreign"),
            ("http://127.0.0.1:5000/token", "http://localhost:5000/v2/", "localhost:5000", None, "own"),
            ("http://127.0.0.1:5001/token", "http://localhost:5000/v2/", "localhost:5000", None, "foreign"),
            ("http://10.0.0.1:5000/token", "http://localhost:5000/v2/", "localhost:5000", None, "foreign"),
            ("file:///etc/passwd", example, "example.org", None, "unusable"),
            ("/token", example, "example.org", None, "unusable"),
        ] {
            assert_eq!(of(realm, base, name, named), expected, "{realm} of {base}, {named:?}");
        }
    }
}
