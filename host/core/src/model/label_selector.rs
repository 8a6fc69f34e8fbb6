//! Selects objects by their labels, in the form of Kubernetes' `LabelSelector`. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::model::names::{is_plain, is_qualified};

/// The maximum number of requirements of one selector, which becomes a part of a request's URL.
const MAX_REQUIREMENTS: usize = 32;
/// A value that no selector can name: it has a control character.
const UNNAMED: &str = "\0";
/// The maximum number of values of one requirement.
const MAX_VALUES: usize = 32;

/// What the labels of an object must fulfil, all of it; an empty selector means every object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct LabelSelector {
    /// Labels with these values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Requirements beyond equality.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<LabelRequirement>,
}

/// What one label must fulfil.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct LabelRequirement {
    /// The key of the label.
    pub key: String,
    /// How it is compared.
    pub operator: LabelOperator,
    /// With which values: some for `In` and `NotIn`, none otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// How a label is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
pub enum LabelOperator {
    /// It has one of the values.
    In,
    /// It has none of the values, or is not there.
    NotIn,
    /// It is there.
    Exists,
    /// It is not there.
    DoesNotExist,
}

impl LabelSelector {
    /// Returns whether the selector selects every object.
    pub fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }

    /// Returns the keys of all labels that the selector depends on.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        let expressions = self.match_expressions.iter().map(|requirement| requirement.key.as_str());
        self.match_labels.keys().map(String::as_str).chain(expressions)
    }

    /// Returns whether the selector matches an object; `label` returns the value of one of its labels.
    pub fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.match_labels.iter().all(|(key, value)| label(key) == Some(value))
            && self.match_expressions.iter().all(|requirement| requirement.is_met(label(&requirement.key)))
    }

    /// Returns whether an object can match both this selector and another one.
    pub fn overlaps(&self, other: &Self) -> bool {
        let keys: BTreeSet<&str> = self.keys().chain(other.keys()).collect();
        keys.into_iter().all(|key| {
            let both = [self, other];
            // The label with this key has a value that one of the selectors names, or another value, or is absent. Each
            // case is tried.
            let named = both.iter().flat_map(|selector| selector.values_of(key)).map(Some);
            let others = [Some(UNNAMED), None];
            named.chain(others).any(|value| both.iter().all(|selector| selector.allows(key, value)))
        })
    }

    /// Returns the values that the selector names for a key.
    fn values_of<'a>(&'a self, key: &str) -> Vec<&'a str> {
        let expressions = self.match_expressions.iter().filter(|requirement| requirement.key == key);
        let expected = self.match_labels.get(key).into_iter();
        expected.chain(expressions.flat_map(|requirement| &requirement.values)).map(String::as_str).collect()
    }

    fn allows(&self, key: &str, value: Option<&str>) -> bool {
        self.match_labels.get(key).is_none_or(|expected| value == Some(expected))
            && self
                .match_expressions
                .iter()
                .filter(|requirement| requirement.key == key)
                .all(|requirement| requirement.is_met(value))
    }

    /// Reads requirements as kubectl does, however many there are: `a=b,c!=d,e in (x,y),f,!g`.
    ///
    /// # Errors
    /// Names the first part that is no requirement.
    pub fn read(text: &str) -> Result<Self, String> {
        let mut selector = Self::default();
        for part in split_requirements(text) {
            let requirement = read_requirement(part.trim()).ok_or_else(|| {
                format!("{part:?} is no requirement of a label selector, such as app=shop, tier in (a,b) or !legacy")
            })?;
            selector.add(requirement);
        }
        Ok(selector)
    }

    /// Adds a requirement: as a label where it is an equality, unless the same label has another one already.
    fn add(&mut self, requirement: LabelRequirement) {
        match (requirement.operator, requirement.values.as_slice()) {
            (LabelOperator::In, [value]) if !self.match_labels.contains_key(&requirement.key) => {
                self.match_labels.insert(requirement.key, value.clone());
            }
            _ => self.match_expressions.push(requirement),
        }
    }

    /// Checks whether the API server accepts the selector.
    ///
    /// # Errors
    /// Returns what is wrong, for the administrator.
    pub fn validate(&self) -> Result<(), String> {
        if self.match_labels.len() + self.match_expressions.len() > MAX_REQUIREMENTS {
            return Err(format!("selector has more than {MAX_REQUIREMENTS} requirements"));
        }
        if let Some((key, value)) = self.match_labels.iter().find(|(key, value)| !is_qualified(key) || !is_value(value))
        {
            return Err(format!("selector.matchLabels has {key:?}: {value:?}, which is no label"));
        }
        self.match_expressions.iter().try_for_each(LabelRequirement::validate)
    }
}

impl FromStr for LabelSelector {
    type Err = String;

    /// Reads a selector as kubectl does, within the limits on its requirements.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let selector = Self::read(text)?;
        selector.validate().map(|()| selector)
    }
}

/// Splits at the commas outside parentheses.
fn split_requirements(selector: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    selector.split(move |c| {
        inside = (inside || c == '(') && c != ')';
        c == ',' && !inside
    })
}

/// Reads one requirement; `None` if it is none.
fn read_requirement(text: &str) -> Option<LabelRequirement> {
    if let Some((head, values)) = text.split_once('(') {
        let (key, operator) = head.trim().split_once(' ')?;
        let operator = match operator.trim() {
            "in" => LabelOperator::In,
            "notin" => LabelOperator::NotIn,
            _ => return None,
        };
        return requirement(key, operator, values.strip_suffix(')')?.split(','));
    }
    for (sign, operator) in [("!=", LabelOperator::NotIn), ("==", LabelOperator::In), ("=", LabelOperator::In)] {
        if let Some((key, value)) = text.split_once(sign) {
            return requirement(key.trim(), operator, [value].into_iter());
        }
    }
    let (key, operator) = match text.strip_prefix('!') {
        Some(key) => (key, LabelOperator::DoesNotExist),
        None => (text, LabelOperator::Exists),
    };
    requirement(key, operator, std::iter::empty())
}

fn requirement<'a>(
    key: &str,
    operator: LabelOperator,
    values: impl Iterator<Item = &'a str>,
) -> Option<LabelRequirement> {
    let values: Vec<String> = values.map(|value| value.trim().to_owned()).collect();
    let is_one = is_qualified(key) && values.iter().all(|value| is_value(value));
    is_one.then(|| LabelRequirement { key: key.to_owned(), operator, values })
}

impl LabelRequirement {
    fn is_met(&self, label: Option<&str>) -> bool {
        let is_among = |label: &str| self.values.iter().any(|value| value == label);
        match self.operator {
            LabelOperator::In => label.is_some_and(is_among),
            LabelOperator::NotIn => !label.is_some_and(is_among),
            LabelOperator::Exists => label.is_some(),
            LabelOperator::DoesNotExist => label.is_none(),
        }
    }

    fn validate(&self) -> Result<(), String> {
        let Self { key, operator, values } = self;
        if !is_qualified(key) {
            return Err(format!("selector.matchExpressions has {key:?}, which is no key of a label"));
        }
        if let Some(value) = values.iter().find(|value| !is_value(value)) {
            return Err(format!("selector.matchExpressions has {value:?} for {key}, which is no value of a label"));
        }
        let takes_values = matches!(operator, LabelOperator::In | LabelOperator::NotIn);
        match values.len() {
            0 if takes_values => Err(format!("selector.matchExpressions has no values for {key}; name some")),
            1.. if !takes_values => {
                Err(format!("selector.matchExpressions has values for {key}, which {operator:?} does not take"))
            }
            count if count > MAX_VALUES => {
                Err(format!("selector.matchExpressions has more than {MAX_VALUES} values for {key}"))
            }
            _ => Ok(()),
        }
    }
}

fn is_value(value: &str) -> bool {
    value.is_empty() || is_plain(value)
}

/// Formats the selector as in a request: `a=b,c in (d,e),f,!g`.
impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels = self.match_labels.iter().map(|(key, value)| format!("{key}={value}"));
        let expressions = self.match_expressions.iter().map(ToString::to_string);
        f.write_str(&labels.chain(expressions).collect::<Vec<_>>().join(","))
    }
}

impl fmt::Display for LabelRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, operator, values } = self;
        let values = values.join(",");
        match operator {
            LabelOperator::In => write!(f, "{key} in ({values})"),
            LabelOperator::NotIn => write!(f, "{key} notin ({values})"),
            LabelOperator::Exists => f.write_str(key),
            LabelOperator::DoesNotExist => write!(f, "!{key}"),
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn labels_are_parsed_as_by_kubectl() {
        let selector: LabelSelector = "team=a,example.com/tier=one".parse().unwrap();
        assert_eq!(selector.to_string(), "example.com/tier=one,team=a");
        for (text, written) in [
            ("a", "a"),
            ("!a", "!a"),
            ("a=", "a="),
            ("a==b,c!=d", "a=b,c notin (d)"),
            ("a in (x,y), b notin (z), c in (z)", "c=z,a in (x,y),b notin (z)"),
            ("a=b,a=c", "a=b,a in (c)"),
            ("app.kubernetes.io/name=Memcached", "app.kubernetes.io/name=Memcached"),
        ] {
            let selector: LabelSelector = text.parse().unwrap();
            assert_eq!(selector.to_string(), written);
            assert_eq!(written.parse(), Ok(selector), "{written}");
        }
        let refused =
            ["", ",", "a=b=c", "a in x", "a of (x)", "a in (x", "=b", "a,,b", "a=b c", "team=a,", "a b=c", "?a"];
        for wrong in refused {
            assert!(wrong.parse::<LabelSelector>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_selector_of_many_requirements_can_be_read_and_is_beyond_the_limit() {
        let many = (0..=MAX_REQUIREMENTS).map(|n| format!("k{n}")).collect::<Vec<_>>().join(",");
        assert!(LabelSelector::read(&many).is_ok());
        assert!(many.parse::<LabelSelector>().unwrap_err().contains("more than 32 requirements"));
    }

    #[test]
    fn selectors_overlap_unless_one_label_cannot_fulfil_both() {
        let selector = |json: serde_json::Value| serde_json::from_value::<LabelSelector>(json).unwrap();
        let label = |value: &str| selector(serde_json::json!({ "matchLabels": { "a": value } }));
        let rule = |operator: &str, values: &[&str]| {
            selector(
                serde_json::json!({ "matchExpressions": [{ "key": "a", "operator": operator, "values": values }] }),
            )
        };
        let other = selector(serde_json::json!({ "matchLabels": { "b": "1" } }));
        for (one, two, overlap) in [
            (LabelSelector::default(), label("1"), true),
            (label("1"), label("1"), true),
            (label("1"), label("2"), false),
            (label("1"), other, true),
            (rule("In", &["1", "2"]), rule("In", &["2", "3"]), true),
            (rule("In", &["1"]), rule("NotIn", &["1"]), false),
            (rule("NotIn", &["1"]), rule("NotIn", &["2"]), true),
            (rule("Exists", &[]), rule("DoesNotExist", &[]), false),
            (rule("Exists", &[]), rule("NotIn", &["1"]), true),
            (rule("DoesNotExist", &[]), rule("NotIn", &["1"]), true),
        ] {
            assert_eq!((one.overlaps(&two), two.overlaps(&one)), (overlap, overlap), "{one} and {two}");
        }
    }

    use serde_json::{Value, json};

    use super::*;

    fn selector(value: Value) -> LabelSelector {
        serde_json::from_value(value).unwrap()
    }

    fn expression(key: &str, operator: &str, values: Value) -> LabelSelector {
        selector(json!({ "matchExpressions": [{ "key": key, "operator": operator, "values": values }] }))
    }

    fn matches(selector: &LabelSelector, labels: &[(&str, &'static str)]) -> bool {
        selector.matches(|key| labels.iter().find(|(known, _)| *known == key).map(|(_, value)| *value))
    }

    #[test]
    fn an_empty_selector_selects_every_object() {
        let empty = LabelSelector::default();
        let by_label = selector(json!({ "matchLabels": { "a": "b" } }));
        assert!(!by_label.is_empty() && !expression("a", "Exists", json!([])).is_empty());
        assert!(empty.is_empty() && matches(&empty, &[]) && matches(&empty, &[("a", "b")]));
        assert_eq!(empty.to_string(), "");
    }

    #[test]
    fn all_requirements_must_hold() {
        let both = selector(json!({
            "matchLabels": { "a": "1" },
            "matchExpressions": [{ "key": "b", "operator": "Exists" }],
        }));
        assert!(matches(&both, &[("a", "1"), ("b", "")]));
        for labels in [&[("a", "1")][..], &[("b", "")], &[("a", "2"), ("b", "")], &[]] {
            assert!(!matches(&both, labels), "{labels:?}");
        }
        assert_eq!(both.to_string(), "a=1,b");
        assert_eq!(both.keys().collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn each_operator_has_the_meaning_of_kubernetes() {
        let none: &[(&str, &str)] = &[];
        for (operator, values, there, other, absent, text) in [
            ("In", json!(["x", "y"]), true, false, false, "k in (x,y)"),
            ("NotIn", json!(["x", "y"]), false, true, true, "k notin (x,y)"),
            ("Exists", json!([]), true, true, false, "k"),
            ("DoesNotExist", json!([]), false, false, true, "!k"),
        ] {
            let selector = expression("k", operator, values);
            assert_eq!(matches(&selector, &[("k", "y")]), there, "{operator}");
            assert_eq!(matches(&selector, &[("k", "z")]), other, "{operator}");
            assert_eq!(matches(&selector, none), absent, "{operator}");
            assert_eq!(selector.to_string(), text);
            assert!(selector.validate().is_ok(), "{text}");
            let read: LabelSelector = text.parse().unwrap();
            assert_eq!((matches(&read, &[("k", "y")]), matches(&read, none)), (there, absent), "{text}");
        }
    }

    #[test]
    fn as_many_requirements_and_values_as_are_allowed_are_valid() {
        let labels: BTreeMap<_, _> = (0..MAX_REQUIREMENTS - 1).map(|n| (format!("k{n}"), "v")).collect();
        let values: Vec<_> = (0..MAX_VALUES).map(|n| format!("v{n}")).collect();
        let expressions = json!([{ "key": "a", "operator": "In", "values": values }]);
        assert_eq!(selector(json!({ "matchLabels": labels, "matchExpressions": expressions })).validate(), Ok(()));
    }

    #[test]
    fn what_the_api_server_would_refuse_is_refused_before() {
        let many: Vec<_> = (0..40).map(|n| format!("v{n}")).collect();
        let labels: BTreeMap<_, _> = (0..40).map(|n| (format!("k{n}"), "v")).collect();
        for (wrong, says) in [
            (selector(json!({ "matchLabels": { "a b": "c" } })), "no label"),
            (selector(json!({ "matchLabels": { "a": "b,c=d" } })), "no label"),
            (selector(json!({ "matchLabels": labels })), "more than 32 requirements"),
            (expression("a/b/c", "Exists", json!([])), "no key"),
            (expression("a", "In", json!([])), "name some"),
            (expression("a", "NotIn", json!(["(x"])), "no value"),
            (expression("a", "Exists", json!(["x"])), "Exists does not take"),
            (expression("a", "In", json!(many)), "more than 32 values"),
        ] {
            let error = wrong.validate().unwrap_err();
            assert!(error.contains(says), "{error}");
        }
        assert!(serde_json::from_value::<LabelSelector>(json!({ "matchLabel": {} })).is_err());
    }
}
