//! The content codings of HTTP: which of them a client accepts, and how a text is encoded.

use std::io::Write;

use axum::http::{HeaderMap, HeaderValue, header};
use flate2::Compression;
use flate2::write::GzEncoder;

/// A content coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Coding {
    /// The text as it is.
    Identity,
    /// What Prometheus asks for.
    Gzip,
}

impl Coding {
    /// Returns the coding that a client is answered in: gzip where the client accepts it and does not prefer the text as
    /// it is. A client that accepts neither gets the text, as one does that names no coding.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let (mut gzip, mut identity, mut any) = (None, None, None);
        for value in headers.get_all(header::ACCEPT_ENCODING) {
            for accepted in value.to_str().unwrap_or_default().split(',') {
                let (coding, parameters) = accepted.split_once(';').unwrap_or((accepted, ""));
                let weight = Some(weight(parameters));
                match coding.trim().to_ascii_lowercase().as_str() {
                    "gzip" | "x-gzip" => gzip = weight,
                    "identity" => identity = weight,
                    "*" => any = weight,
                    _ => {}
                }
            }
        }
        let gzip = gzip.or(any).unwrap_or_default();
        match gzip > 0.0 && gzip >= identity.unwrap_or_default() {
            true => Self::Gzip,
            false => Self::Identity,
        }
    }

    /// Returns the value of the header `Content-Encoding`; none for a text as it is.
    pub(super) fn header(self) -> Option<HeaderValue> {
        match self {
            Self::Identity => None,
            Self::Gzip => Some(HeaderValue::from_static("gzip")),
        }
    }

    /// Encodes a text. The lowest level of gzip: names of metrics and labels repeat in each line, so that a higher one
    /// would save little and take much longer.
    pub(super) fn encode(self, text: String) -> Vec<u8> {
        match self {
            Self::Identity => text.into_bytes(),
            Self::Gzip => {
                let mut encoder = GzEncoder::new(Vec::with_capacity(text.len() / 8), Compression::fast());
                // Writing into memory never fails.
                drop(encoder.write_all(text.as_bytes()));
                encoder.finish().unwrap_or_default()
            }
        }
    }
}

/// Returns the weight among the parameters of a coding, from 0 (not accepted) to 1. A weight that is none is 0.
fn weight(parameters: &str) -> f32 {
    let named = |parameter: &str| {
        let (name, value) = parameter.split_once('=')?;
        let value = name.trim().eq_ignore_ascii_case("q").then(|| value.trim().parse().unwrap_or_default())?;
        Some(if (0.0..=1.0).contains(&value) { value } else { 0.0 })
    };
    parameters.split(';').find_map(named).unwrap_or(1.0)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;

    fn asked(accepted: &[&'static str]) -> Coding {
        let value = |accepted: &&'static str| (header::ACCEPT_ENCODING, HeaderValue::from_static(accepted));
        Coding::of(&HeaderMap::from_iter(accepted.iter().map(value)))
    }

    #[test]
    fn a_client_is_answered_in_gzip_only_where_it_accepts_it_and_does_not_prefer_the_text() {
        for accepts in [
            "gzip",
            "GZIP",
            "x-gzip",
            "deflate, gzip;q=0.5",
            "*",
            "*;q=0.1",
            "identity;q=0.5, gzip ; q=0.8",
            "gzip;q=1.000",
        ] {
            assert_eq!(asked(&[accepts]), Coding::Gzip, "{accepts}");
        }
        for refuses in [
            "",
            "identity",
            "deflate, br",
            "gzip;q=0",
            "gzip; q=0.000",
            "*;q=0",
            "gzip;q=0, *",
            "*, gzip;Q=0",
            "identity, gzip;q=0.5",
            "gzip;q=-1",
            "gzip;q=2",
            "gzip;q=NaN",
            "gzip;q=",
            "gzipped",
            "gzip;q=0;q=1",
        ] {
            assert_eq!(asked(&[refuses]), Coding::Identity, "{refuses}");
        }
        assert_eq!(asked(&[]), Coding::Identity);
        assert_eq!(asked(&["deflate", "gzip"]), Coding::Gzip, "a header may come in several lines");
    }

    #[test]
    fn what_is_encoded_unpacks_to_the_same_text() {
        for text in [String::new(), "workqueue_depth{name=\"memcached\"} 1\n".repeat(10_000)] {
            let packed = Coding::Gzip.encode(text.clone());
            assert!(packed.len() <= text.len() / 10 + 64, "{} bytes", packed.len());
            let mut unpacked = String::new();
            GzDecoder::new(packed.as_slice()).read_to_string(&mut unpacked).unwrap();
            assert_eq!(unpacked, text);
            assert_eq!(Coding::Identity.encode(text.clone()), text.into_bytes());
        }
    }
}
