//! `--webhooks-url`: where the API server finds a host that is outside of the cluster.

use std::str::FromStr;

use http::Uri;

use hotshoe_operator::webhooks::configuration::{SERVICE, Target};

/// The URL of a host's webhooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WebhooksUrl {
    /// As in a URL: an IPv6 address is in brackets.
    host: String,
    /// `None` for the port on which the host listens.
    port: Option<u16>,
}

impl FromStr for WebhooksUrl {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wanted = "write https://HOST:PORT, without a path; without the port, it is that of --webhooks";
        let uri: Uri = text.parse().map_err(|_| wanted)?;
        let authority = uri.authority().ok_or(wanted)?;
        let is_plain = uri.scheme_str() == Some("https") && matches!(uri.path(), "" | "/") && uri.query().is_none();
        // The API server accepts no user in a URL.
        let is_valid = is_plain && !authority.host().is_empty() && !authority.as_str().contains('@');
        let has_port = authority.as_str().len() > authority.host().len();
        let port = authority.port_u16().filter(|port| *port != 0);
        if !is_valid || (has_port && port.is_none()) {
            return Err(wanted);
        }
        Ok(Self { host: authority.host().to_owned(), port })
    }
}

/// Returns where the API server finds the webhooks of a host that listens on this port, and the names that its
/// certificate must have for that.
pub(super) fn target(url: Option<&WebhooksUrl>, port: u16, namespace: &str) -> (Target, Vec<String>) {
    match url {
        Some(WebhooksUrl { host, port: named }) => {
            let name = host.trim_start_matches('[').trim_end_matches(']').to_owned();
            (Target::Url(format!("https://{host}:{}", named.unwrap_or(port))), vec![name])
        }
        None => {
            let name = format!("{SERVICE}.{namespace}.svc");
            let full = format!("{name}.cluster.local");
            (Target::Service, vec![name, full])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(url: &str) -> (String, Vec<String>) {
        match target(Some(&url.parse().unwrap()), 9443, "system") {
            (Target::Url(url), names) => (url, names),
            (Target::Service, _) => panic!("it is a URL"),
        }
    }

    #[test]
    fn a_url_without_a_port_has_the_one_on_which_the_host_listens() {
        assert_eq!(of("https://192.0.2.1"), ("https://192.0.2.1:9443".into(), vec!["192.0.2.1".into()]));
        assert_eq!(of("https://a.example.com:1/"), ("https://a.example.com:1".into(), vec!["a.example.com".into()]));
        assert_eq!(of("https://[::1]:2"), ("https://[::1]:2".into(), vec!["::1".into()]));
        for wrong in [
            "http://a",
            "a:1",
            "https://",
            "https://a/path",
            "https://a?b",
            "https://me@a",
            "https://a:0",
            "https://a:",
        ] {
            assert!(wrong.parse::<WebhooksUrl>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn without_a_url_the_certificate_has_the_names_of_the_service() {
        let (target, names) = target(None, 9443, "system");
        assert!(matches!(target, Target::Service));
        assert_eq!(names, ["hotshoe-webhooks.system.svc", "hotshoe-webhooks.system.svc.cluster.local"]);
    }
}
