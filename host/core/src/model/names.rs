//! Validates names in the forms that Kubernetes prescribes, where a plugin or an administrator can choose them. Pure.

/// The maximum number of characters in a DNS label, and in the last part of a qualified name.
const MAX_LABEL: usize = 63;
/// The maximum number of characters in a DNS subdomain.
const MAX_SUBDOMAIN: usize = 253;

/// Returns whether it is an API group; empty for the core group.
pub fn is_group(group: &str) -> bool {
    group.is_empty() || is_subdomain(group)
}

/// Returns whether it is a version such as `v1` or `v1alpha1`.
pub fn is_version(version: &str) -> bool {
    is_label(version)
}

/// Returns whether it is a kind such as `Deployment`.
pub fn is_kind(kind: &str) -> bool {
    kind.len() <= MAX_LABEL
        && kind.starts_with(|c: char| c.is_ascii_uppercase())
        && kind.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Returns whether it is an RFC 1123 subdomain, as the names of most objects are: lower-case labels between dots. As in
/// the API server, only the whole has a maximum length, not each label.
pub fn is_subdomain(name: &str) -> bool {
    name.len() <= MAX_SUBDOMAIN && name.split('.').all(has_form_of_label)
}

/// Returns whether it is an RFC 1123 label, as the name of a namespace is: lower-case letters and digits, with `-`
/// between them.
pub fn is_label(label: &str) -> bool {
    label.len() <= MAX_LABEL && has_form_of_label(label)
}

fn has_form_of_label(label: &str) -> bool {
    let ends = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let bytes = label.as_bytes();
    ends(bytes.first())
        && ends(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-')
}

/// Returns whether it is `name` or `prefix/name`, the form of labels, annotations, finalizers and conditions.
pub fn is_qualified(name: &str) -> bool {
    match name.split_once('/') {
        None => is_plain(name),
        Some((prefix, name)) => is_subdomain(prefix) && is_plain(name),
    }
}

/// Returns whether it has letters and digits at both ends, and only these and `-`, `_`, `.` between. This is also the
/// form of a label's value that is not empty.
pub fn is_plain(name: &str) -> bool {
    let bytes = name.as_bytes();
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    name.len() <= MAX_LABEL
        && ends(bytes.first())
        && ends(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

/// Returns whether it is one to `limit` visible ASCII characters without a slash: safe in a log and in a path.
pub fn is_visible(name: &str, limit: usize) -> bool {
    (1..=limit).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_groups_and_versions() {
        assert!(is_group("") && is_group("apps") && is_group("cache.example.com"));
        assert!(!is_group("Apps") && !is_group("a..b") && !is_group("-a"));
        assert!(is_version("v1alpha1") && !is_version("") && !is_version("v1/x"));
        assert!(is_kind("Deployment") && !is_kind("deployment") && !is_kind("") && !is_kind("A-B"));
    }

    #[test]
    fn a_label_has_63_characters_at_most_and_a_subdomain_253() {
        let long = "a".repeat(64);
        assert!(is_label(&"a".repeat(63)) && !is_label(&long));
        assert!(is_subdomain(&long) && is_subdomain("a.b-c.1") && !is_subdomain(&"a.".repeat(127)));
        assert!(is_subdomain(&"a".repeat(253)) && !is_subdomain(&"a".repeat(254)));
    }

    #[test]
    fn qualified_names() {
        for name in ["Available", "cache.example.com/finalizer", "app.kubernetes.io/name"] {
            assert!(is_qualified(name), "{name}");
        }
        for name in ["", "/", "a/", "/a", "a/b/c", "Bad_Prefix/a", "a b", "-a"] {
            assert!(!is_qualified(name), "{name}");
        }
    }
}
