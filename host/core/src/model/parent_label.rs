//! Names and labels that bind a child to its parent.

use crate::model::digest::Digest;

/// Returns whether a name is that of a parent, or begins with that name and `-`, as names of children do.
pub fn is_named_after(name: &str, parent: &str) -> bool {
    name.strip_prefix(parent).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// Returns a parent's name as a label value. Label values have at most 63 characters, so a longer name is shortened and
/// ends with a hash of the whole name.
pub fn parent_label(name: &str) -> String {
    if name.len() <= 63 {
        return name.to_owned();
    }
    let hash = Digest::of(name.as_bytes()).digits(10);
    let head: String = name.chars().take(52).collect();
    format!("{}-{hash}", head.trim_end_matches(['-', '.']))
}

/// Returns whether a label value may be a shortened name.
pub fn is_shortened(label: &str) -> bool {
    let hash = label.rsplit_once('-').map_or("", |(_, hash)| hash);
    hash.len() == 10 && hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_long_name_becomes_a_label_value_of_its_own() {
        let (a, b) = (parent_label(&"a".repeat(64)), parent_label(&"a".repeat(65)));
        assert!(a.len() <= 63 && b.len() <= 63);
        assert_ne!(a, b);
        for short in ["short".to_owned(), "a".repeat(63)] {
            assert_eq!(parent_label(&short), short);
        }
    }

    #[test]
    fn a_shortened_label_is_recognized_by_its_hash_however_little_is_left_of_the_name() {
        for name in ["a".repeat(64), format!("a{}{}", "-.".repeat(30), "b".repeat(10))] {
            assert!(is_shortened(&parent_label(&name)), "{name}");
        }
        for name in ["cache", "cache-0123456789a", "cache-012345678g", "0123456789"] {
            assert!(!is_shortened(name), "{name}");
        }
    }
}
