//! Whether a component that was active may be active again. What `spec.source.verify` refuses now is neither restored
//! nor rolled back to: the owner of a key that was replaced must not decide any more. Pure.

use serde::{Deserialize, Serialize};

use crate::model::digest::Digest;

/// A signer whose signatures `spec.source.verify` accepts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Signer {
    /// The owner of a key.
    Key {
        /// The SHA-256 of the public key, in DER.
        key: Digest,
    },
    /// A person or a workflow.
    #[serde(rename_all = "camelCase")]
    Keyless {
        /// Who proved the identity.
        issuer: String,
        /// The identity.
        subject: String,
        /// The SHA-256 of the `trusted_root.json` by which that was checked.
        trusted_root: Digest,
    },
}

/// What `verify` requires.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SignatureRule {
    /// No signature.
    #[default]
    Nothing,
    /// A signature of one of these.
    OneOf(Vec<Signer>),
}

impl SignatureRule {
    /// Returns those of whom one has signed a component that meets this rule; none if no signature is required.
    pub fn signers(&self) -> &[Signer] {
        match self {
            Self::Nothing => &[],
            Self::OneOf(signers) => signers,
        }
    }

    /// Returns whether a component of which one of `signed_by` has signed the image is known to meet this rule. If
    /// `signed_by` has a signer that is not accepted any more, it may be that one, so it is not known.
    pub fn is_met_by(&self, signed_by: &[Signer]) -> bool {
        match self {
            Self::Nothing => true,
            Self::OneOf(accepted) => !signed_by.is_empty() && signed_by.iter().all(|signer| accepted.contains(signer)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Signer {
        Signer::Key { key: Digest::of(name.as_bytes()) }
    }

    fn one_of(names: &[&str]) -> SignatureRule {
        SignatureRule::OneOf(names.iter().copied().map(key).collect())
    }

    #[test]
    fn a_component_is_accepted_if_each_of_its_possible_signers_is_accepted_now() {
        for (signed_by, now, met) in [
            (vec!["a"], one_of(&["a"]), true),
            (vec!["a"], one_of(&["b", "a"]), true),
            (vec!["a"], one_of(&["b"]), false),
            (vec!["a", "b"], one_of(&["b"]), false),
            (vec!["a", "b"], one_of(&["b", "c", "a"]), true),
            (vec![], one_of(&["b"]), false),
            (vec!["a"], one_of(&[]), false),
            (vec!["a"], SignatureRule::Nothing, true),
            (vec![], SignatureRule::Nothing, true),
        ] {
            let signed_by: Vec<Signer> = signed_by.into_iter().map(key).collect();
            assert_eq!(now.is_met_by(&signed_by), met, "{signed_by:?} under {now:?}");
        }
    }

    #[test]
    fn the_signers_of_a_rule_are_those_that_it_accepts() {
        assert_eq!(one_of(&["a", "b"]).signers(), [key("a"), key("b")]);
        assert_eq!(SignatureRule::Nothing.signers(), []);
    }

    #[test]
    fn another_issuer_subject_or_trusted_root_is_another_signer() {
        let signer = |issuer: &str, subject: &str, root: &str| Signer::Keyless {
            issuer: issuer.to_owned(),
            subject: subject.to_owned(),
            trusted_root: Digest::of(root.as_bytes()),
        };
        let rule = SignatureRule::OneOf(vec![signer("i", "s", "r")]);
        assert!(rule.is_met_by(&[signer("i", "s", "r")]));
        for other in [signer("j", "s", "r"), signer("i", "t", "r"), signer("i", "s", "q"), key("i")] {
            assert!(!rule.is_met_by(&[other]));
        }
    }

    #[test]
    fn a_signer_is_read_as_it_was_written() {
        let keyless =
            Signer::Keyless { issuer: "https://i".to_owned(), subject: "s".to_owned(), trusted_root: Digest::of(b"r") };
        for signer in [key("a"), keyless] {
            let json = serde_json::to_value(&signer).unwrap();
            assert_eq!(serde_json::from_value::<Signer>(json).unwrap(), signer);
        }
    }
}
