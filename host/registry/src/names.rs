//! Resolves the names of hosts, and refuses addresses that a registry may not send requests on to.

use std::error::Error;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::reach::Reach;

/// The variables that name the proxies.
const PROXIES: [&str; 6] = ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];

/// Looks up the addresses of a name.
pub(super) trait LookUp: Send + Sync {
    /// Returns the addresses of a name.
    fn addresses(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// Looks up names as the system does, with the files and sockets of this process.
pub(super) struct System;

impl LookUp for System {
    fn addresses(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// Refuses an address that a registry sent a request on to.
#[derive(Clone, Debug, thiserror::Error)]
#[error("it sends requests on to {0}, which is on this machine or in a network that is closer than the registry")]
pub(super) struct Refused(pub(super) String);

/// Knows where the registry is, and so what it may send requests on to.
#[derive(Clone)]
pub(super) struct Guard {
    look_up: Arc<dyn LookUp>,
    /// The host of the registry.
    own: String,
    /// The hosts that the user named beside it: that of the server of tokens, and those of proxies.
    named: Vec<String>,
    /// Where the registry is, once that is known. By way of a proxy, it never is.
    reach: Arc<Mutex<Option<Reach>>>,
}

impl Guard {
    /// Creates the guard for the registry at this address.
    pub(super) fn new(base: &Url, token_host: Option<&str>, look_up: Arc<dyn LookUp>) -> Self {
        let proxies = PROXIES.iter().filter_map(|name| std::env::var(name).ok());
        let named = proxies.chain(token_host.map(str::to_owned)).filter_map(|text| host_of(&text)).collect();
        let own = base.host_str().unwrap_or_default().to_owned();
        let reach = Arc::new(Mutex::new(literal(base).map(Reach::of)));
        Self { look_up, own, named, reach }
    }

    /// Checks that the registry may send a request for `from` on to `to`. Where `to` has a name, its addresses are
    /// checked when it is resolved.
    pub(super) fn check(&self, from: &Url, to: &Url) -> Result<(), Refused> {
        let is_as_safe = to.scheme() == "https" || to.scheme() == "http" && from.scheme() == "http";
        let host = to.host_str().unwrap_or_default();
        let is_far = literal(to).is_none_or(|address| self.may_reach(address));
        match is_as_safe && (host == self.own || is_far && !host.is_empty()) {
            true => Ok(()),
            false => Err(Refused(to.origin().ascii_serialization())),
        }
    }

    fn may_reach(&self, address: IpAddr) -> bool {
        self.reach.lock().unwrap_or(Reach::Public).may_send_to(Reach::of(address))
    }

    async fn addresses(self, name: String) -> Result<Vec<IpAddr>, Box<dyn Error + Send + Sync>> {
        let mut addresses = self.look_up.addresses(name.clone()).await?;
        if name == self.own {
            // The first answer stands: a registry that changes its own address later gains nothing.
            let widest = addresses.iter().copied().map(Reach::of).min();
            let mut reach = self.reach.lock();
            *reach = reach.or(widest);
        } else if self.named.contains(&name) {
            return Ok(addresses);
        }
        let were_some = !addresses.is_empty();
        addresses.retain(|address| self.may_reach(*address));
        match were_some && addresses.is_empty() {
            true => Err(Refused(name).into()),
            false => Ok(addresses),
        }
    }
}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let addresses = self.clone().addresses(name.as_str().to_owned());
        Box::pin(async move {
            // The port of the address that is asked takes the place of this one.
            let found = addresses.await?.into_iter().map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(found) as Addrs)
        })
    }
}

/// Returns the refusal among the causes of an error, if there is one.
pub(super) fn refusal<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e Refused> {
    let mut causes = std::iter::successors(Some(error), |&error| error.source());
    causes.find_map(|cause| cause.downcast_ref())
}

fn literal(url: &Url) -> Option<IpAddr> {
    url.host_str()?.trim_matches(['[', ']']).parse().ok()
}

/// Returns the host of an address, or of `HOST:PORT`.
fn host_of(text: &str) -> Option<String> {
    let url = if text.contains("://") { Url::parse(text) } else { Url::parse(&format!("http://{text}")) };
    Some(url.ok()?.host_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Knows these names alone.
    struct Fixed(&'static [(&'static str, &'static [&'static str])]);

    impl LookUp for Fixed {
        fn addresses(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
            let found = self.0.iter().find(|(known, _)| *known == name).map(|(_, addresses)| *addresses);
            let addresses = found.unwrap_or_default().iter().map(|text| text.parse().unwrap()).collect();
            Box::pin(async { Ok(addresses) })
        }
    }

    const NAMES: Fixed = Fixed(&[
        ("public.example", &["10.0.0.9", "203.0.113.1"]),
        ("inside.example", &["10.0.0.1"]),
        ("storage.example", &["203.0.113.2"]),
        ("storage.inside.example", &["10.0.0.2"]),
        ("metadata.example", &["169.254.169.254"]),
        ("mixed.example", &["127.0.0.1", "203.0.113.3"]),
        ("localhost", &["127.0.0.1", "::1"]),
        ("tokens.example", &["10.0.0.3"]),
    ]);

    fn guard(base: &str) -> Guard {
        Guard::new(&base.parse().unwrap(), Some("tokens.example:1"), Arc::new(NAMES))
    }

    async fn found(guard: &Guard, name: &str) -> Result<Vec<String>, String> {
        let found = guard.clone().addresses(name.to_owned()).await;
        found.map(|found| found.iter().map(ToString::to_string).collect()).map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn the_addresses_of_a_name_are_checked_when_it_is_resolved() {
        let public = guard("https://public.example/v2/");
        assert_eq!(found(&public, "public.example").await.unwrap(), ["203.0.113.1"], "and not the one inside");
        assert_eq!(found(&public, "storage.example").await.unwrap(), ["203.0.113.2"]);
        assert_eq!(found(&public, "mixed.example").await.unwrap(), ["203.0.113.3"]);
        assert_eq!(found(&public, "tokens.example").await.unwrap(), ["10.0.0.3"], "the user named it");
        assert_eq!(found(&public, "unknown.example").await.unwrap(), [""; 0]);
        for name in ["inside.example", "storage.inside.example", "metadata.example", "localhost"] {
            assert!(found(&public, name).await.unwrap_err().contains(name));
        }
        let inside = guard("https://inside.example/v2/");
        assert_eq!(found(&inside, "inside.example").await.unwrap(), ["10.0.0.1"]);
        assert_eq!(found(&inside, "storage.inside.example").await.unwrap(), ["10.0.0.2"]);
        assert_eq!(found(&inside, "storage.example").await.unwrap(), ["203.0.113.2"]);
        assert!(found(&inside, "localhost").await.is_err() && found(&inside, "metadata.example").await.is_err());
    }

    #[tokio::test]
    async fn a_registry_whose_name_means_another_address_later_gains_nothing() {
        let first = guard("https://public.example/v2/");
        found(&first, "public.example").await.unwrap();
        let moved = Guard { look_up: Arc::new(Fixed(&[("public.example", &["127.0.0.1"])])), ..first };
        assert!(found(&moved, "public.example").await.is_err());
    }

    #[tokio::test]
    async fn addresses_without_a_name_are_checked_and_none_loses_tls() {
        let public = guard("https://public.example/v2/");
        let at_loopback = guard("http://127.0.0.1:5000/v2/");
        let check = |guard: &Guard, from: &str, to: &str| {
            guard.check(&from.parse().unwrap(), &to.parse().unwrap()).map_err(|refused| refused.0)
        };
        let inside = ["https://10.0.0.1/a", "https://[::1]/a", "https://2130706433/a"];
        for to in inside.into_iter().chain(["http://storage.example/a", "file:///a"]) {
            assert!(check(&public, "https://public.example/v2/", to).is_err(), "{to}");
        }
        for to in ["https://203.0.113.1/a", "https://storage.example/a", "https://public.example:8443/a"] {
            assert_eq!(check(&public, "https://public.example/v2/", to), Ok(()), "{to}");
        }
        for to in
            ["http://127.0.0.1:5000/b", "http://127.0.0.1:6000/b", "https://storage.example/a", "http://10.0.0.1/b"]
        {
            assert_eq!(check(&at_loopback, "http://127.0.0.1:5000/v2/", to), Ok(()), "{to}");
        }
        assert!(check(&at_loopback, "http://127.0.0.1:5000/v2/", "http://169.254.169.254/latest").is_err());
        assert!(check(&at_loopback, "https://storage.example/a", "http://127.0.0.1:5000/b").is_err());
    }
}
