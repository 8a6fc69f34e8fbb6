//! Patterns of names in grants: an exact name, or a name with one `*` that stands for any text. Pure.

use crate::model::names::is_subdomain;

/// Returns whether one of the patterns matches the whole text.
pub fn matches_any(patterns: &[String], text: &str) -> bool {
    patterns.iter().any(|pattern| matches(pattern, text))
}

fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, tail)) => text.strip_prefix(head).is_some_and(|rest| rest.ends_with(tail)),
    }
}

/// Checks that all patterns are valid.
///
/// # Errors
/// When one is not; the message names it and its field.
pub fn validate(field: &str, patterns: &[String]) -> Result<(), String> {
    match patterns.iter().find(|pattern| pattern.is_empty() || pattern.matches('*').count() > 1) {
        Some(pattern) => Err(format!("{field} has {pattern:?}; a name is exact or has one `*`")),
        None => Ok(()),
    }
}

/// Checks that all patterns are valid and match names that objects can have.
///
/// # Errors
/// When one is invalid or matches no valid name; the message names it and its field.
pub fn validate_names(field: &str, patterns: &[String]) -> Result<(), String> {
    validate(field, patterns)?;
    // A pattern that matches any valid name also matches the one in which `a` replaces the star.
    match patterns.iter().find(|pattern| !is_subdomain(&pattern.replace('*', "a"))) {
        Some(pattern) => Err(format!(
            "{field} has {pattern:?}, which matches no valid name; names have lower-case letters, digits, `-` and `.`"
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
}
