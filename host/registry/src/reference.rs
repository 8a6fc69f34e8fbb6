//! References to images: `oci://registry/repository:tag@digest`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::RegistryError;
use hotshoe_core::model::digest::Digest;

/// The prefix of every reference.
pub const SCHEME: &str = "oci://";
/// The tag of a reference that names none.
const LATEST: &str = "latest";
/// The maximum lengths of a tag and of a repository's name, by the distribution specification.
const MAX_TAG_LENGTH: usize = 128;
const MAX_REPOSITORY_LENGTH: usize = 255;

/// A reference to an image. One with a digest always refers to the same image, whatever its tag is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageRef {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

impl ImageRef {
    /// Returns the host of the registry, with its port if it has one.
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// Returns the repository in the registry.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// Returns the digest, if the reference names one.
    pub fn digest(&self) -> Option<Digest> {
        self.digest
    }

    /// Returns the reference to the image with this digest in the same repository.
    #[must_use]
    pub fn pinned(&self, digest: Digest) -> Self {
        Self { tag: None, digest: Some(digest), ..self.clone() }
    }

    /// Returns the reference to the image with this tag in the same repository.
    pub(super) fn tagged(&self, tag: String) -> Self {
        Self { tag: Some(tag), digest: None, ..self.clone() }
    }

    /// Returns whether the registry is on this machine.
    pub(super) fn is_loopback(&self) -> bool {
        let host = self.registry.rsplit_once(':').map_or(self.registry.as_str(), |(host, _)| host);
        let host = host.trim_matches(['[', ']']);
        host == "localhost" || host.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
    }

    /// Returns the host and port at which the registry answers.
    pub(super) fn server(&self) -> &str {
        if self.registry == "docker.io" { "index.docker.io" } else { &self.registry }
    }

    /// Returns the digest, or else the tag, by which the image's manifest is requested.
    pub(super) fn version(&self) -> String {
        match (self.digest, &self.tag) {
            (Some(digest), _) => sha256(digest),
            (None, tag) => tag.clone().unwrap_or_else(|| LATEST.to_owned()),
        }
    }
}

/// Formats a digest as registries write it.
pub fn sha256(digest: Digest) -> String {
    format!("sha256:{}", digest.full())
}

impl fmt::Display for ImageRef {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{SCHEME}{}/{}", self.registry, self.repository)?;
        match (&self.tag, self.digest) {
            (None, None) => write!(formatter, ":{LATEST}"),
            (tag, digest) => {
                tag.iter().try_for_each(|tag| write!(formatter, ":{tag}"))?;
                digest.iter().try_for_each(|digest| write!(formatter, "@{}", sha256(*digest)))
            }
        }
    }
}

impl FromStr for ImageRef {
    type Err = RegistryError;

    fn from_str(text: &str) -> Result<Self, RegistryError> {
        parse(text).map_err(|why| RegistryError::InvalidReference { text: text.to_owned(), why: why.to_owned() })
    }
}

fn parse(text: &str) -> Result<ImageRef, &'static str> {
    let image = text.strip_prefix(SCHEME).ok_or("it does not begin with oci://")?;
    let (registry, path) = image.split_once('/').ok_or("it has no repository")?;
    is_registry(registry)?;
    let (name, digest) = match path.split_once('@') {
        Some((name, digest)) => (name, Some(parse_digest(digest)?)),
        None => (path, None),
    };
    let (repository, tag) = match name.split_once(':') {
        Some((repository, tag)) => (repository, Some(tag)),
        None => (name, None),
    };
    if !is_repository(repository) {
        return Err("a repository is lower-case words with digits, `.`, `_` and `-` within them, and `/` between them");
    }
    if !tag.is_none_or(is_tag) {
        return Err("a tag is up to 128 letters, digits, `_`, `.` and `-`, and begins with none of the last two");
    }
    // Docker Hub keeps its own images in the folder `library`.
    let library = if registry == "docker.io" && !repository.contains('/') { "library/" } else { "" };
    Ok(ImageRef {
        registry: registry.to_owned(),
        repository: format!("{library}{repository}"),
        tag: tag.map(str::to_owned),
        digest,
    })
}

/// Checks the registry's name. One without a dot or a port is refused: most often it is the folder of a repository on
/// Docker Hub, which other tools assume where no registry is named.
fn is_registry(registry: &str) -> Result<(), &'static str> {
    let is_known = |letter: char| letter.is_ascii_alphanumeric() || ".-:[]".contains(letter);
    if registry.is_empty() || !registry.chars().all(is_known) {
        return Err("a registry is a host name or an address, with a port perhaps");
    }
    if registry != "localhost" && !registry.contains(['.', ':']) {
        return Err("its first part is no registry; name it with its domain, such as docker.io or ghcr.io");
    }
    match registry.rsplit_once(':') {
        Some((_, port)) if !registry.ends_with(']') && port.parse::<u16>().is_err() => {
            Err("the port of its registry is no number up to 65535")
        }
        _ => Ok(()),
    }
}

fn parse_digest(digest: &str) -> Result<Digest, &'static str> {
    let digits = digest.strip_prefix("sha256:").ok_or("its digest does not begin with sha256:")?;
    digits.parse().map_err(|_| "its digest has not 64 hexadecimal digits")
}

fn is_repository(repository: &str) -> bool {
    let is_word = |word: &str| word.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit());
    let is_part = |part: &str| {
        let mut words = part.split(['.', '_', '-']);
        let ends = [words.clone().next(), words.clone().next_back()];
        words.all(is_word) && ends.iter().all(|end| end.is_some_and(|word| !word.is_empty()))
    };
    repository.len() <= MAX_REPOSITORY_LENGTH && repository.split('/').all(is_part)
}

fn is_tag(tag: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "_.-".contains(letter);
    !tag.is_empty() && tag.len() <= MAX_TAG_LENGTH && tag.chars().all(is_letter) && !tag.starts_with(['.', '-'])
}

impl Serialize for ImageRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ImageRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn a_reference_is_read_and_written_the_same() {
        for text in [
            "oci://ghcr.io/org/memcached:1.0",
            "oci://localhost/a:b",
            "oci://127.0.0.1:5000/a/b-c/d__e.f:v1",
            "oci://[::1]:5000/a:b",
            &format!("oci://ghcr.io/a@{DIGEST}"),
            &format!("oci://ghcr.io/a:b@{DIGEST}"),
        ] {
            assert_eq!(text.parse::<ImageRef>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn the_default_tag_is_latest_and_the_default_folder_of_docker_hub_is_library() {
        let image: ImageRef = "oci://docker.io/memcached".parse().unwrap();
        assert_eq!(image.to_string(), "oci://docker.io/library/memcached:latest");
        assert_eq!((image.server(), image.version()), ("index.docker.io", "latest".to_owned()));
    }

    #[test]
    fn a_digest_takes_precedence_over_a_tag() {
        let image: ImageRef = format!("oci://ghcr.io/a:b@{DIGEST}").parse().unwrap();
        assert_eq!(image.version(), DIGEST);
        assert_eq!(image.pinned(Digest::of(b"")).to_string(), format!("oci://ghcr.io/a@{DIGEST}"));
    }

    #[test]
    fn text_that_is_no_reference_is_refused_with_the_reason() {
        for (text, why) in [
            ("ghcr.io/a", "oci://"),
            ("https://ghcr.io/a", "oci://"),
            ("oci://ghcr.io", "no repository"),
            ("oci:///a", "host name"),
            ("oci://org/memcached", "docker.io"),
            ("oci://user:secret@ghcr.io/a", "host name"),
            ("oci://ghcr.io:http/a", "port"),
            ("oci://ghcr.io/", "lower-case"),
            ("oci://ghcr.io/A", "lower-case"),
            ("oci://ghcr.io/a//b", "lower-case"),
            ("oci://ghcr.io/../b", "lower-case"),
            ("oci://ghcr.io/a?b", "lower-case"),
            ("oci://ghcr.io/a:", "tag"),
            ("oci://ghcr.io/a:b c", "tag"),
            ("oci://ghcr.io/a@sha512:00", "sha256:"),
            ("oci://ghcr.io/a@sha256:00", "64"),
        ] {
            let error = text.parse::<ImageRef>().unwrap_err();
            assert_eq!(error.reason(), "InvalidReference");
            assert!(error.to_string().contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn only_this_machine_is_loopback() {
        for (text, is_loopback) in [
            ("oci://localhost:5000/a", true),
            ("oci://127.8.0.1/a", true),
            ("oci://[::1]:5000/a", true),
            ("oci://localhost.example.org/a", false),
            ("oci://127.0.0.1.example.org/a", false),
            ("oci://10.0.0.1:5000/a", false),
        ] {
            assert_eq!(text.parse::<ImageRef>().unwrap().is_loopback(), is_loopback, "{text}");
        }
    }
}
