//! Pod templates of users, without what a host denies unless it is granted.
//!
//! `harmless.json` has the rules, which name what may stay. A rule is
//!
//! | | what may stay |
//! |---|---|
//! | `"any"` | any value |
//! | `"false"`, `"zero"`, `"empty"` | `false`, 0 and `""` |
//! | `["in", "a", "b"]` | these texts |
//! | `{"field": rule}` | an object, of which other fields are removed |
//! | `["each", rule]` | a list, of which each element obeys the rule |
//! | `["whole", rule]` | what obeys the rule altogether, since its rest would mean something else |
//! | another word | what obeys the rule of that name |
//!
//! A field `a*` stands for those that begin with `a`, and `^/` for those without any of the characters that follow.

use serde_json::{Map, Value, json};

use crate::Failure;

const RULES: &str = include_str!("harmless.json");

/// The lists of a Pod's containers.
const CONTAINERS: [&str; 2] = ["containers", "initContainers"];

/// Returns a Pod template of a user as a host admits it without any grant for Pods, and the paths of the fields that
/// were removed for that, such as `spec.volumes[0].hostPath`. Say them in a condition.
///
/// A variable, a volume or a probe of which a field is removed goes altogether, and with a volume its mounts. Each
/// container then says `allowPrivilegeEscalation: false`, and the Pod `automountServiceAccountToken: false`, which a
/// host requires.
///
/// ```
/// use hotshoe_sdk::harmless;
/// use serde_json::json;
///
/// let (template, removed) = harmless(&json!({ "spec": { "hostNetwork": true, "containers": [] } }));
/// assert_eq!(template["spec"], json!({ "automountServiceAccountToken": false, "containers": [] }));
/// assert_eq!(removed, ["spec.hostNetwork"]);
/// ```
pub fn harmless(template: &Value) -> (Value, Vec<String>) {
    let rules: Value = serde_json::from_str(RULES).unwrap_or_default();
    let mut filter = Filter { rules: &rules, removed: Vec::new() };
    let mut kept = filter.kept(&json!("template"), template, "").unwrap_or_else(|| json!({}));
    if let Some(spec) = kept.get_mut("spec").and_then(Value::as_object_mut) {
        close(spec);
        remove_mounts(spec, template.pointer("/spec/volumes"));
    }
    (kept, filter.removed)
}

/// Returns a Pod template of a user as [`harmless`] does, if nothing has to be removed from it. `field` is where the user
/// wrote it, such as `spec.template`.
///
/// # Errors
///
/// A rejection of the parent that names this field and what to remove.
///
/// ```
/// use hotshoe_sdk::require_harmless;
/// use serde_json::json;
///
/// let refused = require_harmless(&json!({ "spec": { "hostNetwork": true, "containers": [] } }), "spec.template");
/// assert_eq!(refused.map_err(|failure| failure.to_string()), Err("remove spec.hostNetwork".to_owned()));
/// ```
pub fn require_harmless(template: &Value, field: &str) -> Result<Value, Failure> {
    match harmless(template) {
        (kept, removed) if removed.is_empty() => Ok(kept),
        (_, removed) => Err(Failure::reject_field(field, format!("remove {}", removed.join(", ")))),
    }
}

struct Filter<'a> {
    rules: &'a Value,
    removed: Vec<String>,
}

impl Filter<'_> {
    /// Returns what may stay of a value, if anything.
    fn kept(&mut self, rule: &Value, value: &Value, path: &str) -> Option<Value> {
        let kept = match (rule, value) {
            (Value::String(word), _) => match word.as_str() {
                "any" => Some(value.clone()),
                "false" => (*value == json!(false)).then(|| value.clone()),
                "zero" => (*value == json!(0)).then(|| value.clone()),
                "empty" => (*value == json!("")).then(|| value.clone()),
                name => return self.kept(self.rules.get(name)?, value, path),
            },
            (Value::Object(fields), Value::Object(members)) => Some(self.members(fields, members, path)),
            (Value::Array(rule), _) => match (rule.as_slice(), value) {
                ([Value::String(word), inner], Value::Array(list)) if word == "each" => {
                    let elements = list.iter().enumerate();
                    Some(elements.filter_map(|(at, one)| self.kept(inner, one, &format!("{path}[{at}]"))).collect())
                }
                ([Value::String(word), inner], _) if word == "whole" => {
                    let before = self.removed.len();
                    let kept = self.kept(inner, value, path);
                    return kept.filter(|_| self.removed.len() == before);
                }
                ([Value::String(word), texts @ ..], Value::String(_)) if word == "in" => {
                    texts.contains(value).then(|| value.clone())
                }
                _ => None,
            },
            _ => None,
        };
        if kept.is_none() {
            self.removed.push(path.to_owned());
        }
        kept
    }

    fn members(&mut self, fields: &Map<String, Value>, members: &Map<String, Value>, path: &str) -> Value {
        let mut all = Map::new();
        // The API server takes null for a field that is not there.
        for (key, value) in members.iter().filter(|(_, value)| !value.is_null()) {
            let path = step(path, key);
            match fields.iter().find(|(pattern, _)| matches(pattern, key)) {
                Some((_, rule)) => all.extend(self.kept(rule, value, &path).map(|kept| (key.clone(), kept))),
                None => self.removed.push(path),
            }
        }
        all.into()
    }
}

fn matches(pattern: &str, key: &str) -> bool {
    match (pattern.strip_prefix('^'), pattern.strip_suffix('*')) {
        (Some(letters), _) => !key.contains(|letter| letters.contains(letter)),
        (_, Some(prefix)) => key.starts_with(prefix),
        _ => key == pattern,
    }
}

fn step(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// Says what is open by default and would be denied.
fn close(spec: &mut Map<String, Value>) {
    spec.insert("automountServiceAccountToken".to_owned(), false.into());
    for container in containers(spec) {
        let security = container.entry("securityContext").or_insert_with(|| json!({}));
        if let Some(security) = security.as_object_mut() {
            security.insert("allowPrivilegeEscalation".to_owned(), false.into());
        }
    }
}

/// Removes the mounts of the volumes that were there before and are not any more.
fn remove_mounts(spec: &mut Map<String, Value>, before: Option<&Value>) {
    let left = names(spec.get("volumes"));
    let mut gone = names(before);
    gone.retain(|name| !left.contains(name));
    for container in containers(spec) {
        for list in ["volumeMounts", "volumeDevices"] {
            if let Some(mounts) = container.get_mut(list).and_then(Value::as_array_mut) {
                mounts.retain(|mount| mount.get("name").is_none_or(|name| !gone.contains(name)));
            }
        }
    }
}

fn names(list: Option<&Value>) -> Vec<Value> {
    let list = list.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(|one| one.get("name").cloned()).collect()
}

fn containers(spec: &mut Map<String, Value>) -> impl Iterator<Item = &mut Map<String, Value>> {
    let lists = spec.iter_mut().filter(|(field, _)| CONTAINERS.contains(&field.as_str()));
    lists.filter_map(|(_, list)| list.as_array_mut()).flatten().filter_map(Value::as_object_mut)
}
