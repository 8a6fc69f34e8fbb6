//! Image references and the versions in them.

/// The maximum length of a label value, in characters.
const MAX_LABEL_CHARS: usize = 63;

/// The number of digits of a digest that are shown, enough to distinguish images.
const SHORT_DIGEST_CHARS: usize = 12;

/// Returns the version that an image reference names, as a valid label value: its tag, or else the
/// beginning of its digest, or else `latest`, the meaning of a reference without either.
pub(crate) fn version(reference: &str) -> String {
    let (named, digest) = match reference.split_once('@') {
        Some((named, digest)) => (named, Some(digest)),
        None => (reference, None),
    };
    // A colon before the last slash is that of a registry's port.
    let last = named.rsplit('/').next().unwrap_or(named);
    let version = match (last.split_once(':'), digest) {
        (Some((_, tag)), _) => label(tag.chars()),
        (None, Some(digest)) => short(digest),
        (None, None) => String::new(),
    };
    if version.is_empty() { "latest".to_owned() } else { version }
}

fn short(digest: &str) -> String {
    let hex = digest.split_once(':').map_or(digest, |(_, hex)| hex);
    label(hex.chars().take(SHORT_DIGEST_CHARS))
}

/// Makes a valid label value of a text. A tag may have 128 characters, and may begin and end with
/// characters that are not allowed there in a label value.
fn label(text: impl Iterator<Item = char>) -> String {
    let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let text = text.map(|c| if valid(c) { c } else { '-' }).skip_while(|c| !c.is_ascii_alphanumeric());
    let mut label: String = text.take(MAX_LABEL_CHARS).collect();
    label.truncate(label.trim_end_matches(['-', '_', '.']).len());
    label
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_version_is_the_tag() {
        assert_eq!(version("memcached:1.6-alpine"), "1.6-alpine");
        assert_eq!(version("registry.example.com:5000/a/memcached:1.6"), "1.6");
        assert_eq!(version("memcached:1.6@sha256:0123456789abcdef"), "1.6");
    }

    #[test]
    fn the_port_of_a_registry_is_no_version() {
        assert_eq!(version("localhost:5000/memcached"), "latest");
    }

    #[test]
    fn a_digest_stands_in_for_a_tag() {
        assert_eq!(version("memcached@sha256:0123456789abcdef0123"), "0123456789ab");
        assert_eq!(version("localhost:5000/memcached@sha256:0123456789abcdef"), "0123456789ab");
    }

    #[test]
    fn a_reference_without_a_tag_means_latest() {
        assert_eq!(version("memcached"), "latest");
        assert_eq!(version("docker.io/library/memcached"), "latest");
        assert_eq!(version("memcached:"), "latest");
        assert_eq!(version("memcached:___"), "latest");
    }

    #[test]
    fn a_tag_too_long_for_a_label_is_shortened() {
        assert_eq!(version("memcached:_1.6-"), "1.6");
        assert_eq!(version(&format!("memcached:{}", "a".repeat(128))), "a".repeat(63));
        assert_eq!(version(&format!("memcached:{}.b", "a".repeat(62))), "a".repeat(62));
    }

    proptest! {
        #[test]
        fn every_version_is_a_valid_label_value(reference in ".{0,200}") {
            let version = version(&reference);
            prop_assert!((1..=63).contains(&version.len()));
            prop_assert!(version.starts_with(|c: char| c.is_ascii_alphanumeric()));
            prop_assert!(version.ends_with(|c: char| c.is_ascii_alphanumeric()));
            prop_assert!(version.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)));
        }

        #[test]
        fn a_tag_that_is_a_label_value_is_kept(
            tag in "[a-zA-Z0-9]([a-zA-Z0-9_.-]{0,61}[a-zA-Z0-9])?",
            registry in "([a-z]{1,9}(:[0-9]{1,5})?/)?",
            digest in "(@sha256:[0-9a-f]{64})?",
        ) {
            prop_assert_eq!(version(&format!("{registry}memcached:{tag}{digest}")), tag);
        }
    }
}
