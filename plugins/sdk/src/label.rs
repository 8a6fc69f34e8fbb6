//! Names as label values.

use sha2::{Digest, Sha256};

/// A parent's name as the value of the label by which [`MatchRule::ParentLabel`](crate::MatchRule)
/// finds what belongs to it: the name itself, or, past the 63 bytes of a label value, the first 52
/// characters of it and a hash of the whole.
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

    /// The host is held to the same file.
    #[test]
    fn a_label_is_what_the_host_compares_with() {
        let vectors = include_str!("../../../tests/vectors/parent-label.json");
        let vectors: Vec<(String, String)> = serde_json::from_str(vectors).unwrap_or_default();
        assert!(!vectors.is_empty());
        for (name, label) in vectors {
            assert_eq!(parent_label(&name), label, "{name}");
        }
    }
}
