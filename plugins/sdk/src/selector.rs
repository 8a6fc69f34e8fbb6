//! Label selectors, as a requirement carries them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Failure;

/// A `LabelSelector` of Kubernetes.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LabelSelector {
    match_labels: Option<BTreeMap<String, String>>,
    match_expressions: Option<Vec<Expression>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expression {
    key: String,
    operator: Operator,
    values: Option<Vec<String>>,
}

#[derive(Clone, Copy, Deserialize)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

/// Writes a selector as kubectl does: a text as it is, or anything that has the form of a `LabelSelector`.
pub(crate) fn written(selector: &(impl Serialize + ?Sized)) -> Result<String, Failure> {
    let unusable = |cause: serde_json::Error| Failure::reject(format!("this is no label selector: {cause}"));
    match serde_json::to_value(selector).map_err(unusable)? {
        Value::String(text) => Ok(text),
        selector => requirements(serde_json::from_value(selector).map_err(unusable)?),
    }
}

fn requirements(selector: LabelSelector) -> Result<String, Failure> {
    let labels = selector.match_labels.unwrap_or_default().into_iter();
    let labels = labels.map(|(key, value)| Ok(format!("{}={}", word(&key)?, word(&value)?)));
    let expressions = selector.match_expressions.unwrap_or_default();
    let all: Result<Vec<_>, Failure> = labels.chain(expressions.iter().map(expression)).collect();
    Ok(all?.join(","))
}

fn expression(expression: &Expression) -> Result<String, Failure> {
    let key = word(&expression.key)?;
    let values = expression.values.iter().flatten().map(|value| word(value)).collect::<Result<Vec<_>, _>>()?;
    let written = match (expression.operator, values.is_empty()) {
        (Operator::In, false) => format!("{key} in ({})", values.join(",")),
        (Operator::NotIn, false) => format!("{key} notin ({})", values.join(",")),
        (Operator::Exists, true) => key.to_owned(),
        (Operator::DoesNotExist, true) => format!("!{key}"),
        (Operator::In | Operator::NotIn, true) => {
            return Err(Failure::reject(format!("a label selector has no values for {key}; name some")));
        }
        (Operator::Exists | Operator::DoesNotExist, false) => {
            return Err(Failure::reject(format!(
                "a label selector has values for {key}, which its operator does not take"
            )));
        }
    };
    Ok(written)
}

/// Returns a key or a value that cannot be mistaken for more than one. Whether it is valid, the host says.
fn word(text: &str) -> Result<&str, Failure> {
    match text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte)) {
        true => Ok(text),
        false => {
            Err(Failure::reject(format!("a label selector has {text:?}, which is no key and no value of a label")))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_selector_of_a_spec_is_written_as_kubectl_does() -> Result<(), Failure> {
        for (selector, text) in [
            (json!("app=shop,!legacy"), "app=shop,!legacy"),
            (json!({}), ""),
            (json!({ "matchLabels": { "b": "", "a": "1" }, "matchExpressions": null }), "a=1,b="),
            (
                json!({ "matchLabels": { "example.com/a": "x" }, "matchExpressions": [
                    { "key": "b", "operator": "In", "values": ["y", "z"] },
                    { "key": "c", "operator": "NotIn", "values": ["y"] },
                    { "key": "d", "operator": "Exists" },
                    { "key": "e", "operator": "DoesNotExist", "values": [] },
                ] }),
                "example.com/a=x,b in (y,z),c notin (y),d,!e",
            ),
        ] {
            assert_eq!(written(&selector)?, text);
        }
        Ok(())
    }

    #[test]
    fn what_is_no_selector_rejects_the_parent() {
        for selector in [
            json!(null),
            json!(["app"]),
            json!({ "matchLabel": {} }),
            json!({ "matchLabels": { "a": "b,c=d" } }),
            json!({ "matchLabels": { "a b": "c" } }),
            json!({ "matchExpressions": [{ "key": "a", "operator": "in", "values": ["b"] }] }),
            json!({ "matchExpressions": [{ "key": "a", "operator": "In" }] }),
            json!({ "matchExpressions": [{ "key": "a", "operator": "In", "values": ["b)"] }] }),
            json!({ "matchExpressions": [{ "key": "a", "operator": "Exists", "values": ["b"] }] }),
        ] {
            assert!(matches!(written(&selector), Err(Failure::Reject { .. })), "{selector}");
        }
    }
}
