//! Names as an administrator grants them: exact, or with one `*` for anything; and names of
//! children and labels by which they are bound to a parent. Pure.

use sha2::{Digest, Sha256};

use crate::names::is_subdomain;

/// Whether one of the patterns matches the whole text.
pub fn matches_any(patterns: &[String], text: &str) -> bool {
    patterns.iter().any(|pattern| matches(pattern, text))
}

fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, tail)) => text.strip_prefix(head).is_some_and(|rest| rest.ends_with(tail)),
    }
}

/// Whether a name is that of a parent, or begins with it and `-`, as names of children do.
pub fn is_named_after(name: &str, parent: &str) -> bool {
    name.strip_prefix(parent).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// A parent's name as a label value: label values end at 63 characters, so a longer name is cut
/// and carries a hash of the whole.
pub fn parent_label(name: &str) -> String {
    if name.len() <= 63 {
        return name.to_owned();
    }
    let hash = Sha256::digest(name);
    let head: String = name.chars().take(52).collect();
    format!("{}-{hash:.10x}", head.trim_end_matches(['-', '.']))
}

/// Whether a label value may be that of a longer name.
pub fn is_shortened(label: &str) -> bool {
    let hash = label.rsplit_once('-').map_or("", |(_, hash)| hash);
    hash.len() == 10 && hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether these are patterns.
///
/// # Errors
/// The one that is none, and where it stands.
pub fn validate(field: &str, patterns: &[String]) -> Result<(), String> {
    match patterns.iter().find(|pattern| pattern.is_empty() || pattern.matches('*').count() > 1) {
        Some(pattern) => Err(format!("{field} has {pattern:?}; a name is exact or has one `*`")),
        None => Ok(()),
    }
}

/// Whether these are patterns of names that objects can have.
///
/// # Errors
/// The one that is none, and where it stands.
pub fn validate_names(field: &str, patterns: &[String]) -> Result<(), String> {
    validate(field, patterns)?;
    // Whatever stands for the star, `a` fits beside its ends.
    match patterns.iter().find(|pattern| !is_subdomain(&pattern.replace('*', "a"))) {
        Some(pattern) => Err(format!(
            "{field} has {pattern:?}, which no object is named; names have lower-case letters, digits, `-` and `.`"
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything_and_the_rest_for_itself() {
        for (pattern, text, expected) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("a", "ba", false),
            ("*", "", true),
            ("*", "a", true),
            ("a-*", "a-", true),
            ("a-*", "a-b", true),
            ("a-*", "b-a-", false),
            ("*-a", "b-a", true),
            ("*-a", "b-ab", false),
            ("a*b", "ab", true),
            ("a*b", "axxb", true),
            ("a*b", "axxbc", false),
            ("ab*ba", "aba", false),
        ] {
            assert_eq!(matches_any(&[pattern.to_owned()], text), expected, "{pattern} {text}");
        }
        assert!(matches_any(&["a".into(), "b".into()], "b"));
        assert!(!matches_any(&[], "a"));
    }

    #[test]
    fn a_child_is_named_after_its_parent_by_whole_words() {
        for name in ["shop", "shop-", "shop-a", "shop-a-b"] {
            assert!(is_named_after(name, "shop"), "{name}");
        }
        for name in ["", "sho", "shops", "a-shop", "shop.a"] {
            assert!(!is_named_after(name, "shop"), "{name}");
        }
    }

    #[test]
    fn a_pattern_has_one_star_and_is_not_empty() {
        assert_eq!(validate("names", &["a".into(), "a*".into()]), Ok(()));
        for bad in ["", "**", "a*b*"] {
            let error = validate("names", &["a".into(), bad.into()]).unwrap_err();
            assert!(error.starts_with("names has") && error.contains(&format!("{bad:?}")), "{error}");
        }
    }

    #[test]
    fn a_pattern_that_no_name_has_is_refused() {
        for fine in ["a", "*", "a*", "*-a", "a-*-b", "a.b*"] {
            assert_eq!(validate_names("names", &[fine.into()]), Ok(()), "{fine}");
        }
        for bad in ["ABC", "a_b", "a b*", "a/b", "-a", "a-", "*.", "**"] {
            let error = validate_names("names", &["a".into(), bad.into()]).unwrap_err();
            assert!(error.starts_with("names has") && error.contains(&format!("{bad:?}")), "{error}");
        }
    }

    #[test]
    fn a_long_name_becomes_a_label_value_of_its_own() {
        let (a, b) = (parent_label(&"a".repeat(64)), parent_label(&"a".repeat(65)));
        assert!(a.len() <= 63 && b.len() <= 63);
        assert_ne!(a, b);
        for short in ["short".to_owned(), "a".repeat(63)] {
            assert_eq!(parent_label(&short), short);
        }
    }

    #[test]
    fn a_shortened_label_is_known_by_its_hash_however_little_is_left_of_the_name() {
        for name in ["a".repeat(64), format!("a{}{}", "-.".repeat(30), "b".repeat(10))] {
            assert!(is_shortened(&parent_label(&name)), "{name}");
        }
        for name in ["cache", "cache-0123456789a", "cache-012345678g", "0123456789"] {
            assert!(!is_shortened(name), "{name}");
        }
    }
}
