//! Labels, names, and which names are invalid.

use std::collections::BTreeMap;

/// The label that carries the name of the custom resource.
pub(crate) const INSTANCE: &str = "app.kubernetes.io/instance";

const SERVICE_SUFFIX: &str = "-service";

/// The maximum length of a name. With the suffix, it fills the 63 characters of a Service's name.
const MAX_NAME_CHARS: usize = 63 - SERVICE_SUFFIX.len();

pub(crate) type Labels = BTreeMap<String, String>;

pub(crate) fn service(name: &str) -> String {
    format!("{name}{SERVICE_SUFFIX}")
}

/// Returns the labels that all Pods of one custom resource always have and no other Pod has. The version
/// is not among them, since a selector cannot be changed and an image can.
pub(crate) fn selector(name: &str) -> Labels {
    labels(&[("app", "memcached"), (INSTANCE, name), ("app.kubernetes.io/part-of", "memcached-operator")])
}

/// All labels of the children and of the Pods.
pub(crate) fn all(name: &str, version: &str) -> Labels {
    let mut all = selector(name);
    all.extend(labels(&[
        ("app.kubernetes.io/created-by", "controller-manager"),
        ("app.kubernetes.io/name", "Memcached"),
        ("app.kubernetes.io/version", version),
    ]));
    all
}

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// Returns the rule that a name breaks, if any. The Service is named after the custom resource, and
/// Service names have the strictest rule of all: an RFC 1035 label.
pub(crate) fn broken_rule(name: &str) -> Option<String> {
    if name.len() > MAX_NAME_CHARS {
        return Some(format!(
            "it has {} characters and may have {MAX_NAME_CHARS}, so that {SERVICE_SUFFIX} can be added for its Service",
            name.len()
        ));
    }
    if !is_rfc1035_label(name) {
        return Some(
            "its Service needs a name that begins with a letter, ends with a letter or digit, and has only lower-case letters, digits and dashes".to_owned(),
        );
    }
    None
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
    fn a_name_may_be_as_long_as_its_service_allows() {
        assert_eq!(broken_rule(&"a".repeat(55)), None);
        assert_eq!(service(&"a".repeat(55)).len(), 63);
        assert!(broken_rule(&"a".repeat(56)).is_some_and(|rule| rule.contains("55")));
    }

    #[test]
    fn a_name_that_a_service_cannot_have_breaks_a_rule() {
        for name in ["1st", "a.b", "-a", "a-", "A", ""] {
            assert!(broken_rule(name).is_some(), "{name}");
        }
        for name in ["a", "memcached-sample", "m1"] {
            assert_eq!(broken_rule(name), None, "{name}");
        }
    }

    #[test]
    fn two_custom_resources_never_select_the_same_pods() {
        assert_ne!(selector("cache"), selector("cache-2"));
    }

    #[test]
    fn every_pod_is_selected_whatever_its_version() {
        let pod = all("cache", "1.6");
        assert!(selector("cache").iter().all(|(key, value)| pod.get(key) == Some(value)));
        assert!(!selector("cache").contains_key("app.kubernetes.io/version"));
    }
}
