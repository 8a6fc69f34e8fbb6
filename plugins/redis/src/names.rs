//! Labels, names, and which names are invalid.

use hotshoe_sdk::Failure;

/// The label that carries the name of the Redis.
pub(crate) const INSTANCE: &str = "app.kubernetes.io/instance";

/// The label selector that all Pods and claims match.
pub(crate) const APP: &str = "app=redis";

/// The name of the claim template, of the container, and of the port.
pub(crate) const CLAIM: &str = "redis-data";

/// The maximum length of a name. The StatefulSet controller puts the name and a hash of ten characters into the label
/// `controller-revision-hash`, and a label value has 63 characters at most.
const MAX_NAME_CHARS: usize = 52;

/// The labels of everything that belongs to a Redis; also the selector, so they never change.
pub(crate) type Labels<'a> = [(&'static str, &'a str); 2];

pub(crate) const fn labels(name: &str) -> Labels<'_> {
    [("app", "redis"), (INSTANCE, name)]
}

pub(crate) fn selector(name: &str) -> String {
    format!("{APP},{INSTANCE}={name}")
}

pub(crate) fn service(name: &str) -> String {
    format!("{name}-headless")
}

pub(crate) fn pod(name: &str, ordinal: i32) -> String {
    format!("{name}-{ordinal}")
}

pub(crate) fn claim(name: &str, ordinal: i32) -> String {
    format!("{CLAIM}-{name}-{ordinal}")
}

/// Rejects a name that a StatefulSet or a Service cannot have.
pub(crate) fn check(name: &str) -> Result<(), Failure> {
    let rejected = |rule: &str| {
        let message =
            format!("no StatefulSet and Service can be named after {name}: {rule}; create it under another name");
        Err(Failure::reject_field("metadata.name", message))
    };
    if name.len() > MAX_NAME_CHARS {
        return rejected(&format!("it has {} characters and may have {MAX_NAME_CHARS}", name.len()));
    }
    if !is_rfc1035_label(name) {
        return rejected(
            "it must begin with a letter, end with a letter or digit, and have only lower-case letters, digits and dashes",
        );
    }
    Ok(())
}

fn is_rfc1035_label(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && !name.ends_with('-')
        && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_valid_service_name_of_52_characters_at_most() {
        assert_eq!(check(&"a".repeat(52)), Ok(()));
        for name in ["", "1st", "a.b", "a-", "A", &"a".repeat(53)] {
            assert!(matches!(check(name), Err(Failure::Reject { field: Some(field), .. }) if field == "metadata.name"));
        }
    }
}
