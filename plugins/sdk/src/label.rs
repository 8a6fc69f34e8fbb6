//! Names as label values.

use sha2::{Digest, Sha256};

/// Returns the label value for a parent's name by which [`MatchRule::ParentLabel`](crate::MatchRule)
/// finds the parent's objects: the name itself or, where it is longer than the 63 bytes of a label value, its
/// first 52 characters and a hash of the whole name.
pub fn parent_label(name: &str) -> String {
    if name.len() <= 63 {
        return name.to_owned();
    }
    let hash: String = Sha256::digest(name).iter().take(5).map(|byte| format!("{byte:02x}")).collect();
    let head: String = name.chars().take(52).collect();
    format!("{}-{hash}", head.trim_end_matches(['-', '.']))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A test of the host reads the same file.
    #[test]
    fn a_label_value_is_the_same_as_in_the_host() {
        let vectors = include_str!("../../../tests/vectors/parent-label.json");
        let vectors: Vec<(String, String)> = serde_json::from_str(vectors).unwrap_or_default();
        assert!(!vectors.is_empty());
        for (name, label) in vectors {
            assert_eq!(parent_label(&name), label, "{name}");
        }
    }
}
