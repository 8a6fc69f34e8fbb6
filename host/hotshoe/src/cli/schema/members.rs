//! The members of a value, each with its schema and with what it was before. Pure.

use serde_json::Value;

use super::keywords::Schema;

/// A value in an object, with what is known of it.
#[derive(Clone, Debug)]
pub(super) struct Member<'a> {
    /// The path of its field, as the API server writes it, such as `spec.ports[0].name`.
    pub(super) path: String,
    pub(super) schema: Schema<'a>,
    pub(super) value: &'a Value,
    /// The value that it had before, where that can be said: an element of a list only has one if the list has keys.
    pub(super) old: Option<&'a Value>,
}

impl<'a> Member<'a> {
    /// Begins with a whole object.
    pub(super) fn root(schema: Schema<'a>, value: &'a Value, old: Option<&'a Value>) -> Self {
        Self { path: String::new(), schema, value, old }
    }

    /// Returns whether the value is as before. Then the API server lets pass what is wrong with it.
    /// <https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#validation-ratcheting>
    pub(super) fn is_unchanged(&self) -> bool {
        self.old == Some(self.value)
    }

    /// Returns the members of an object or the elements of a list of which the schema says something.
    pub(super) fn members(&self) -> Vec<Member<'a>> {
        match self.value {
            Value::Object(members) => {
                let member = |(name, value): (&'a String, &'a Value)| {
                    let old = self.old.and_then(|old| old.get(name));
                    Some(Member { path: join(&self.path, name), schema: self.schema.member(name)?, value, old })
                };
                members.iter().filter_map(member).collect()
            }
            Value::Array(elements) => {
                let Some(schema) = self.schema.items() else { return Vec::new() };
                let element = |(at, value): (usize, &'a Value)| Member {
                    path: format!("{}[{at}]", self.path),
                    schema,
                    value,
                    old: self.old_element(value),
                };
                elements.iter().enumerate().map(element).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns the element of the old list that has the same keys.
    fn old_element(&self, element: &Value) -> Option<&'a Value> {
        if self.schema.text("x-kubernetes-list-type") != "map" {
            return None;
        }
        let keys = |element: &Value| identity(self.schema, element);
        self.old?.as_array()?.iter().find(|old| keys(old) == keys(element))
    }
}

/// Returns the path of a field of the value at `path`.
pub(super) fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// Returns what distinguishes an element from the others of its list.
pub(in crate::cli) fn identity(schema: Schema<'_>, element: &Value) -> String {
    let keys = schema.keys();
    if keys.is_empty() {
        return element.to_string();
    }
    keys.iter().map(|key| element.get(*key).unwrap_or(&Value::Null)).cloned().collect::<Value>().to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_element_is_compared_with_that_of_its_key_and_never_by_its_place() {
        let list = |kind: &str| {
            json!({
                "x-kubernetes-list-type": kind,
                "x-kubernetes-list-map-keys": ["name"],
                "items": { "type": "object" },
            })
        };
        let (new, old) = (json!([{ "name": "b" }, { "name": "c" }]), json!([{ "name": "a" }, { "name": "b" }]));
        let olds = |schema: &Value| -> Vec<Option<Value>> {
            let root = Member::root(Schema::new(schema), &new, Some(&old));
            root.members().into_iter().map(|member| member.old.cloned()).collect()
        };
        assert_eq!(olds(&list("map")), [Some(json!({ "name": "b" })), None]);
        assert_eq!(olds(&list("atomic")), [None, None]);
    }

    #[test]
    fn a_field_is_named_by_its_path() {
        let schema = json!({ "properties": { "ports": { "items": { "properties": { "name": {} } } }, "other": {} } });
        let value = json!({ "ports": [{ "name": "a", "unknown": 1 }] });
        let root = Member::root(Schema::new(&schema), &value, None);
        let mut paths = Vec::new();
        let mut all = root.members();
        while let Some(member) = all.pop() {
            all.extend(member.members());
            paths.push(member.path);
        }
        assert_eq!(paths, ["ports", "ports[0]", "ports[0].name"]);
    }
}
