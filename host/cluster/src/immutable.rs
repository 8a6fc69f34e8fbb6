//! Recognises the refusals of a change to a field that may not change. The API server has no reason of its own for them:
//! only the words of a cause say so.

/// How the words end, after the value of the field, which may be anything.
const ENDS: [&str; 6] = [
    // Most fields of Kubernetes, and most rules in custom kinds: `field is immutable`, `Value is immutable`.
    " is immutable",
    // Secrets and ConfigMaps.
    " is immutable when `immutable` is set",
    // The addresses of a Service.
    ": may not change once set",
    // RoleBindings of a custom API server; plugins own none of Kubernetes.
    ": cannot change roleRef",
    // A rule in a custom kind that has no message of its own.
    ": failed rule: self == oldSelf",
    // PriorityClasses.
    "Forbidden: may not be changed in an update.",
];

/// How the words begin where they have no value.
const BEGINNINGS: [&str; 2] = [
    // StatefulSets and StorageClasses.
    "Forbidden: updates to ",
    "Forbidden: pod updates may not change fields other than ",
];

/// Returns whether a cause of a refusal says that the field may not change.
pub(super) fn is_cause(words: &str) -> bool {
    let words = words.trim_end();
    ENDS.iter().any(|end| words.ends_with(end)) || BEGINNINGS.iter().any(|begin| words.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_not_change_is_recognised_by_the_words_of_each_kind_and_nothing_else_is() {
        for words in [
            r#"Invalid value: {"matchLabels":{"app":"b"}}: field is immutable"#,
            "Invalid value: \"string\": Value is immutable",
            "Forbidden: field is immutable when `immutable` is set",
            r#"Invalid value: ["10.0.0.2"]: may not change once set"#,
            "Invalid value: \"object\": failed rule: self == oldSelf",
            "Forbidden: may not be changed in an update.",
            "Forbidden: updates to statefulset spec for fields other than 'replicas', 'template' are forbidden",
            "Forbidden: updates to parameters are forbidden.",
            "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,\n  core.PodSpec{\n",
        ] {
            assert!(is_cause(words), "{words}");
        }
        for words in [
            "",
            "Required value",
            r#"Invalid value: "it is immutable": must be a number"#,
            r#"Invalid value: "Forbidden: updates to x are forbidden": must be no text"#,
            "Forbidden: may not be set when `type` is 'ExternalName'",
            "Duplicate value: \"a\"",
        ] {
            assert!(!is_cause(words), "{words}");
        }
    }
}
