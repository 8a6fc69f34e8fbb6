//! Selects objects by their annotations, in the form in which Kubernetes selects by labels. The API server selects by no
//! annotation, so the host does. Pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::label_selector::{LabelOperator, LabelRequirement, LabelSelector};
use crate::model::names::is_qualified;

/// The maximum number of requirements of one selector, and of values of one requirement.
const MAX_REQUIREMENTS: usize = 32;
/// The maximum length of a value, in bytes.
const MAX_VALUE_BYTES: usize = 1024;

/// What the annotations of an object must fulfil, all of it; an empty selector means every object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct AnnotationSelector {
    /// Annotations with these values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub match_annotations: BTreeMap<String, String>,
    /// Requirements beyond equality.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<LabelRequirement>,
}

impl AnnotationSelector {
    /// Returns the keys of all annotations that the selector depends on.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        let expressions = self.match_expressions.iter().map(|requirement| requirement.key.as_str());
        self.match_annotations.keys().map(String::as_str).chain(expressions)
    }

    /// Returns the selector in the form of one for labels, which compares in the same way.
    pub fn comparing(&self) -> LabelSelector {
        LabelSelector {
            match_labels: self.match_annotations.clone(),
            match_expressions: self.match_expressions.clone(),
        }
    }

    /// Checks the selector.
    ///
    /// # Errors
    /// Returns what is wrong, for the administrator.
    pub fn validate(&self) -> Result<(), String> {
        if self.match_annotations.len() + self.match_expressions.len() > MAX_REQUIREMENTS {
            return Err(format!("annotationSelector has more than {MAX_REQUIREMENTS} requirements"));
        }
        if let Some(key) = self.keys().find(|key| !is_qualified(key)) {
            return Err(format!("annotationSelector has {key:?}, which is no key of an annotation"));
        }
        let mut values =
            self.match_annotations.values().chain(self.match_expressions.iter().flat_map(|one| &one.values));
        if values.any(|value| value.len() > MAX_VALUE_BYTES || value.contains(char::is_control)) {
            return Err(format!(
                "annotationSelector has a value of several lines, or of more than {MAX_VALUE_BYTES} bytes"
            ));
        }
        self.match_expressions.iter().try_for_each(|LabelRequirement { key, operator, values }| {
            match (operator, values.len()) {
                (LabelOperator::In | LabelOperator::NotIn, 1..=MAX_REQUIREMENTS)
                | (LabelOperator::Exists | LabelOperator::DoesNotExist, 0) => Ok(()),
                (LabelOperator::In | LabelOperator::NotIn, _) => {
                    Err(format!("annotationSelector needs 1 to {MAX_REQUIREMENTS} values for {key}"))
                }
                _ => Err(format!("annotationSelector has values for {key}, which {operator:?} does not take")),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn selector(json: Value) -> AnnotationSelector {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn annotations_are_compared_as_labels_are_with_any_text_as_a_value() {
        let selector = selector(json!({
            "matchAnnotations": { "e.com/by": "a person, by hand" },
            "matchExpressions": [{ "key": "e.com/off", "operator": "DoesNotExist" }],
        }));
        assert_eq!(selector.validate(), Ok(()));
        let matches = |by: Option<&'static str>, off: Option<&'static str>| {
            selector.comparing().matches(|key| if key == "e.com/by" { by } else { off })
        };
        assert!(matches(Some("a person, by hand"), None));
        assert!(
            !matches(Some("a person"), None) && !matches(Some("a person, by hand"), Some("")) && !matches(None, None)
        );
        assert_eq!(selector.keys().collect::<Vec<_>>(), ["e.com/by", "e.com/off"]);
    }

    #[test]
    fn a_selector_that_nothing_can_fulfil_or_that_is_too_large_is_refused() {
        let expression = |operator: &str, values: Value| {
            selector(json!({ "matchExpressions": [{ "key": "a", "operator": operator, "values": values }] }))
        };
        let many: Vec<String> = (0..=MAX_REQUIREMENTS).map(|number| format!("a{number}")).collect();
        let of_many: BTreeMap<&String, &str> = many.iter().map(|key| (key, "")).collect();
        for (wrong, words) in [
            (selector(json!({ "matchAnnotations": { "a b": "" } })), "no key"),
            (selector(json!({ "matchAnnotations": { "a": "x\ny" } })), "several lines"),
            (selector(json!({ "matchAnnotations": { "a": "x".repeat(MAX_VALUE_BYTES + 1) } })), "bytes"),
            (selector(json!({ "matchAnnotations": of_many })), "requirements"),
            (expression("In", json!([])), "values"),
            (expression("NotIn", json!(many)), "values"),
            (expression("Exists", json!(["a"])), "does not take"),
        ] {
            let error = wrong.validate().unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        assert!(serde_json::from_value::<AnnotationSelector>(json!({ "matchLabels": {} })).is_err());
    }
}
