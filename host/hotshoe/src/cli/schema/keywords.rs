//! What a structural schema says about a value. Pure.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// The schema of a value.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct Schema<'a>(&'a Value);

impl<'a> Schema<'a> {
    /// Takes a schema as it stands in a CRD.
    pub(in crate::cli) fn new(json: &'a Value) -> Self {
        Self(json)
    }

    /// Returns the schema as it stands in a CRD.
    pub(in crate::cli) fn json(self) -> &'a Value {
        self.0
    }

    /// Returns the value of a keyword.
    pub(in crate::cli) fn get(self, keyword: &str) -> Option<&'a Value> {
        self.0.get(keyword)
    }

    /// Returns whether a keyword has the value `true`.
    pub(in crate::cli) fn says(self, keyword: &str) -> bool {
        self.get(keyword) == Some(&Value::Bool(true))
    }

    /// Returns whether unknown fields stay.
    pub(in crate::cli) fn preserves_unknown(self) -> bool {
        self.says("x-kubernetes-preserve-unknown-fields") || self.0 == &Value::Bool(true)
    }

    /// Returns a keyword's text, such as that of `type`; empty if there is none.
    pub(in crate::cli) fn text(self, keyword: &str) -> &'a str {
        self.get(keyword).and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns a keyword's number of characters, elements or members.
    pub(in crate::cli) fn count(self, keyword: &str) -> Option<usize> {
        usize::try_from(self.get(keyword)?.as_u64()?).ok()
    }

    /// Returns the schemas below a keyword that lists some, such as `oneOf`.
    pub(in crate::cli) fn each(self, keyword: &str) -> impl Iterator<Item = Schema<'a>> {
        self.get(keyword).and_then(Value::as_array).into_iter().flatten().map(Schema)
    }

    /// Returns the schema of the elements.
    pub(in crate::cli) fn items(self) -> Option<Schema<'a>> {
        self.get("items").map(Schema)
    }

    /// Returns the fields with their schemas.
    pub(in crate::cli) fn fields(self) -> impl Iterator<Item = (&'a str, Schema<'a>)> {
        let fields: Option<&'a Map<String, Value>> = self.get("properties").and_then(Value::as_object);
        fields.into_iter().flatten().map(|(name, schema)| (name.as_str(), Schema(schema)))
    }

    /// Returns the schema of members that are no fields; none if there may be none.
    pub(in crate::cli) fn others(self) -> Option<Schema<'a>> {
        self.get("additionalProperties").filter(|others| **others != Value::Bool(false)).map(Schema)
    }

    /// Returns the schema of a member.
    pub(in crate::cli) fn member(self, name: &str) -> Option<Schema<'a>> {
        self.get("properties").and_then(|fields| fields.get(name)).map(Schema).or_else(|| self.others())
    }

    /// Returns the names of the fields that must be there.
    pub(in crate::cli) fn required(self) -> BTreeSet<&'a str> {
        let names = self.get("required").and_then(Value::as_array);
        names.into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// Returns the fields that make the key of an element; none for a list without keys.
    pub(in crate::cli) fn keys(self) -> Vec<&'a str> {
        let keys = self.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
        keys.into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// Returns the least and the greatest whole number.
    pub(in crate::cli) fn whole_bounds(self) -> (i64, i64) {
        let (least, most) = match self.text("format") {
            "int32" => (i64::from(i32::MIN), i64::from(i32::MAX)),
            _ => (i64::MIN, i64::MAX),
        };
        let bound = |keyword: &str, exclusive: &str, step: i64| {
            let bound = self.get(keyword)?;
            // A bound that is no i64 is cut to one of its ends.
            let bound = bound.as_i64().or_else(|| bound.as_f64().map(|bound| bound as i64))?;
            Some(if self.says(exclusive) { bound.saturating_add(step) } else { bound })
        };
        let least = bound("minimum", "exclusiveMinimum", 1).map_or(least, |bound| bound.max(least));
        let most = bound("maximum", "exclusiveMaximum", -1).map_or(most, |bound| bound.min(most));
        (least, most)
    }

    /// Returns whether a number is within the bounds.
    pub(in crate::cli) fn bounds(self, number: f64) -> bool {
        let bound = |keyword: &str| self.get(keyword).and_then(Value::as_f64);
        let is_above = bound("minimum")
            .is_none_or(|least| if self.says("exclusiveMinimum") { number > least } else { number >= least });
        let is_below = bound("maximum")
            .is_none_or(|most| if self.says("exclusiveMaximum") { number < most } else { number <= most });
        is_above && is_below && bound("multipleOf").is_none_or(|step| step != 0.0 && number % step == 0.0)
    }
}
