//! What the API server asks before it stores a parent: whether it is valid, and what its author left out.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::request::{read_config, read_parent};
use crate::{Failure, Object, Reconciler};

/// A plugin that checks parents before they are stored, where neither the schema of their kind nor `reconcile` can. Hand it
/// to [`export!`](crate::export!) with the word `validation`. The book has an example: *Refuse and default*.
pub trait Validator: Reconciler {
    /// Returns what is wrong with a parent, and what its author should know. `old` is the stored object, on an update.
    ///
    /// # Errors
    ///
    /// [`Failure::Reject`] refuses the object; any other failure admits it with a warning, as a panic does.
    fn validate(
        new: &Self::Parent,
        old: Option<&Self::Parent>,
        context: &AdmissionContext<Self::Config>,
    ) -> Result<Verdict, Failure>;
}

/// A plugin that fills in what the author of a parent left out and the schema of its kind cannot say. Hand it to
/// [`export!`](crate::export!) with the word `defaulting`.
pub trait Defaulter: Reconciler {
    /// The parent, as far as defaults are filled in: often [`Reconciler::Parent`], but what may be left out has to be
    /// distinguished here from what is there, so such fields are `Option`s.
    type Object: DeserializeOwned + Serialize;

    /// Fills in the defaults. Those of an object that has its defaults change nothing.
    ///
    /// What this changes is changed in the object that came, in which fields that the type lacks stay as they are.
    ///
    /// # Errors
    ///
    /// After a [`Failure`], as after a panic, the object stays as it came, with a warning.
    fn default(object: &mut Self::Object, context: &AdmissionContext<Self::Config>) -> Result<(), Failure>;
}

/// What is known beside the objects.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AdmissionContext<C = String> {
    /// Whether the object is new.
    pub operation: Operation,
    /// The plugin's configuration; before it is decoded, a JSON object.
    pub config: C,
    /// Whether nothing will be stored in any case. The answer must not depend on it.
    pub dry_run: bool,
    /// Who writes the object, where `plugin.yaml` says `showUser`; `None` too where stored objects are asked about again.
    pub user: Option<User>,
}

impl AdmissionContext {
    fn read<R: Reconciler>(self) -> Result<AdmissionContext<R::Config>, Failure> {
        let Self { operation, config, dry_run, user } = self;
        Ok(AdmissionContext { operation, config: read_config(&config)?, dry_run, user })
    }
}

/// Who writes an object, as the API server has authenticated it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[cfg_attr(feature = "testing", derive(serde::Deserialize), serde(deny_unknown_fields))]
pub struct User {
    /// Its name, such as `alice` or `system:serviceaccount:shop:deployer`.
    pub username: String,
    /// Its uid, where there is one.
    pub uid: Option<String>,
    /// Its groups.
    #[cfg_attr(feature = "testing", serde(default))]
    pub groups: Vec<String>,
}

impl User {
    /// Returns whether it is in a group.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|one| one == group)
    }
}

/// What is done to an object. Deletions are never asked about.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Operation {
    /// It is created.
    #[default]
    Create,
    /// It is changed.
    Update,
}

/// What is wrong with an object, and what its author should know. Without errors the object is admitted.
///
/// ```
/// # use hotshoe_sdk::{ErrorReason, Verdict};
/// let size = 0;
/// let mut verdict = Verdict::admitted();
/// if size == 0 {
///     verdict.error("spec.size", ErrorReason::Invalid, "it is 0; write 1 or more");
/// }
/// assert!(!verdict.errors.is_empty());
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Verdict {
    /// The fields that are wrong. Any of them refuses the object.
    pub errors: Vec<FieldError>,
    /// What `kubectl` prints as warnings.
    pub warnings: Vec<String>,
}

impl Verdict {
    /// A verdict without errors and warnings.
    pub fn admitted() -> Self {
        Self::default()
    }

    /// Adds a field that is wrong: its path, such as `spec.ports[0].name`, and what to write instead.
    pub fn error(&mut self, field: impl Into<String>, reason: ErrorReason, message: impl Into<String>) {
        self.errors.push(FieldError { field: field.into(), reason, message: message.into() });
    }

    /// Adds a warning. The API server shows 120 characters of it.
    pub fn warn(&mut self, warning: impl Into<String>) {
        self.warnings.push(warning.into());
    }
}

/// A field that is wrong.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FieldError {
    /// Its path, such as `spec.ports[0].name`.
    pub field: String,
    /// Why it is wrong.
    pub reason: ErrorReason,
    /// What is wrong, and what to write instead.
    pub message: String,
}

/// Why a field is wrong: the words of `metav1.CauseType`, without `FieldValue`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[allow(missing_docs, reason = "the words of metav1")]
pub enum ErrorReason {
    Invalid,
    Required,
    Forbidden,
    NotSupported,
    Duplicate,
    NotFound,
    TooLong,
    TooMany,
    TypeInvalid,
}

/// Calls the plugin's `validate`, as the host does.
///
/// # Errors
///
/// The failure of the plugin, or one that says which part of an object or of the configuration does not parse.
pub fn validate<V: Validator>(
    new: &Object,
    old: Option<&Object>,
    context: AdmissionContext,
) -> Result<Verdict, Failure> {
    let context = context.read::<V>()?;
    // One that was stored before the plugin read it so must stay editable.
    let old = old.and_then(|old| serde_json::from_str(&old.json).ok());
    V::validate(&read_parent(new)?, old.as_ref(), &context)
}

/// Calls the plugin's `default`, as the host does, and returns the whole object.
///
/// # Errors
///
/// The failure of the plugin, or one that says which part of the object or of the configuration does not parse.
pub fn default<D: Defaulter>(object: Object, context: AdmissionContext) -> Result<Object, Failure> {
    let context = context.read::<D>()?;
    let mut parent: D::Object = read_parent(&object)?;
    let before = written::<D>(&object, &parent)?;
    D::default(&mut parent, &context)?;
    let after = written::<D>(&object, &parent)?;
    let mut whole: Value = object.read()?;
    transfer(&mut whole, &before, after);
    Ok(Object { json: whole.to_string(), ..object })
}

fn written<D: Defaulter>(object: &Object, parent: &D::Object) -> Result<Value, Failure> {
    serde_json::to_value(parent).map_err(|cause| {
        let (kind, name) = (&object.reference.kind.kind, &object.reference.name);
        Failure::other(format!("{kind} {name} cannot be written: {cause}"))
    })
}

/// Changes in `whole` what differs between the typed values `before` and `after`, so that what the type lacks stays.
fn transfer(whole: &mut Value, before: &Value, after: Value) {
    match (whole, before, after) {
        (Value::Object(whole), Value::Object(before), Value::Object(after)) => {
            for key in before.keys().filter(|key| !after.contains_key(*key)) {
                whole.remove(key);
            }
            for (key, after) in after {
                let before = before.get(&key).unwrap_or(&Value::Null);
                if *before == after {
                    continue;
                }
                // Of an object that the author left out, too, only what differs is written.
                let absent = if before.is_object() { Map::new().into() } else { Value::Null };
                transfer(whole.entry(key).or_insert(absent), before, after);
            }
        }
        // Only at the end may one be added: otherwise it is not known which element is which.
        (Value::Array(whole), Value::Array(before), Value::Array(after))
            if whole.len() == before.len() && is_extended(before, &after) =>
        {
            let mut after = after.into_iter();
            let pairs = whole.iter_mut().zip(before).zip(&mut after);
            pairs.filter(|((_, before), after)| *before != after).for_each(|((there, before), after)| {
                transfer(there, before, after);
            });
            whole.extend(after);
        }
        (whole, _, after) => *whole = after,
    }
}

/// Returns whether a list has the same elements as before, or of the same number, and perhaps more behind them.
fn is_extended(before: &[Value], after: &[Value]) -> bool {
    after.len() == before.len() || after.get(..before.len()) == Some(before)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Answer, Decision, Descriptor, ObjectRef, Request, ResourceKind};
    use serde::{Deserialize, Serialize};
    use serde_json::json;

    struct Cache;

    #[derive(Deserialize, Serialize)]
    struct Parent {
        #[serde(default)]
        metadata: Metadata,
        #[serde(default)]
        spec: Spec,
    }

    #[derive(Default, Deserialize, Serialize)]
    #[serde(default)]
    struct Metadata {
        labels: std::collections::BTreeMap<String, String>,
    }

    #[derive(Default, Deserialize, Serialize)]
    #[serde(default)]
    struct Spec {
        size: Option<u32>,
        replicas: u32,
        ports: Vec<Port>,
        old: Option<String>,
    }

    #[derive(Default, Deserialize, Serialize)]
    #[serde(default)]
    struct Port {
        name: String,
        port: u32,
    }

    #[derive(Deserialize)]
    struct Config {
        least: u32,
    }

    impl Reconciler for Cache {
        type Parent = Parent;
        type Config = Config;

        fn describe() -> Descriptor {
            Descriptor::new("cache", "0.1.0", ResourceKind::new("example.com", "v1", "Cache"))
        }

        fn reconcile(_: &Request<Self>) -> Result<Answer, Failure> {
            Ok(Answer::Decided(Decision::keep()))
        }
    }

    impl Validator for Cache {
        fn validate(
            new: &Parent,
            old: Option<&Parent>,
            context: &AdmissionContext<Config>,
        ) -> Result<Verdict, Failure> {
            let mut verdict = Verdict::admitted();
            let size = |parent: &Parent| parent.spec.size.unwrap_or_default();
            if size(new) < context.config.least {
                verdict.error("spec.size", ErrorReason::Invalid, "it is too small");
            }
            if old.is_some_and(|old| size(old) > size(new)) {
                verdict.warn("it shrinks");
            }
            if context.user.as_ref().is_some_and(|user| !user.is_in("dev")) {
                verdict.warn("ask the developers");
            }
            Ok(verdict)
        }
    }

    impl Defaulter for Cache {
        type Object = Parent;

        fn default(object: &mut Parent, context: &AdmissionContext<Config>) -> Result<(), Failure> {
            object.spec.size.get_or_insert(context.config.least);
            object.spec.old = None;
            object.metadata.labels.entry("tier".to_owned()).or_insert_with(|| "cache".to_owned());
            for port in &mut object.spec.ports {
                port.port = port.port.max(80);
            }
            if object.spec.ports.iter().all(|port| port.name != "last") {
                object.spec.ports.push(Port { name: "last".to_owned(), port: 80 });
            }
            Ok(())
        }
    }

    fn object(json: &Value) -> Object {
        let kind = ResourceKind::new("example.com", "v1", "Cache");
        let reference = ObjectRef { kind, namespace: Some("shop".to_owned()), name: "a".to_owned() };
        Object { reference, json: json.to_string() }
    }

    fn context() -> AdmissionContext {
        AdmissionContext { config: r#"{"least":2}"#.to_owned(), ..AdmissionContext::default() }
    }

    fn defaulted(json: &Value) -> Value {
        serde_json::from_str(&default::<Cache>(object(json), context()).unwrap().json).unwrap()
    }

    #[test]
    fn defaults_are_filled_into_the_object_that_came_and_what_the_type_lacks_stays() {
        let came = json!({
            "metadata": { "name": "a", "uid": "1", "labels": { "app": "web" } },
            "spec": { "unknown": { "a": 1 }, "ports": [{ "name": "x", "unknown": 1 }], "old": "gone" },
            "status": { "ready": true },
        });
        let labels = json!({ "app": "web", "tier": "cache" });
        let ports = json!([{ "name": "x", "unknown": 1, "port": 80 }, { "name": "last", "port": 80 }]);
        let expected = json!({
            "metadata": { "name": "a", "uid": "1", "labels": labels },
            "spec": { "size": 2, "unknown": { "a": 1 }, "ports": ports, "old": null },
            "status": { "ready": true },
        });
        // The list has a changed element and one more, so it is not known which is which.
        let mut as_a_whole = expected.clone();
        as_a_whole["spec"]["ports"] = json!([{ "name": "x", "port": 80 }, { "name": "last", "port": 80 }]);
        assert_eq!(defaulted(&came), as_a_whole);
        let mut last = came.clone();
        last["spec"]["ports"] = json!([{ "name": "x", "unknown": 1 }, { "name": "last", "port": 1, "unknown": 2 }]);
        let ports = &defaulted(&last)["spec"]["ports"];
        assert_eq!(ports[0], json!({ "name": "x", "unknown": 1, "port": 80 }));
        assert_eq!(ports[1], json!({ "name": "last", "unknown": 2, "port": 80 }));
        let none = json!({ "spec": { "ports": [{ "name": "x", "port": 90, "unknown": 1 }] } });
        let ports = &defaulted(&none)["spec"]["ports"];
        assert_eq!(*ports, json!([{ "name": "x", "port": 90, "unknown": 1 }, { "name": "last", "port": 80 }]));
    }

    #[test]
    fn what_the_type_reads_as_a_default_of_its_own_is_not_written() {
        let came = json!({ "metadata": { "labels": { "tier": "x" } }, "spec": { "size": 5, "ports": [{ "name": "last", "port": 80 }] } });
        assert_eq!(defaulted(&came), came);
        let spec = json!({ "size": 2, "ports": [{ "name": "last", "port": 80 }] });
        let all = json!({ "metadata": { "labels": { "tier": "cache" } }, "spec": spec });
        assert_eq!((defaulted(&json!({})), defaulted(&all)), (all.clone(), all));
    }

    #[test]
    fn a_plugin_may_know_who_writes_a_parent() {
        let by = |groups: &[&str]| {
            let groups = groups.iter().map(|&group| group.to_owned()).collect();
            let user = User { username: "alice".to_owned(), uid: None, groups };
            let context = AdmissionContext { user: Some(user), ..context() };
            validate::<Cache>(&object(&json!({ "spec": { "size": 3 } })), None, context).unwrap().warnings
        };
        assert_eq!(by(&["ops", "dev"]), [""; 0]);
        assert_eq!(by(&["ops"]), ["ask the developers"]);
    }

    #[test]
    fn a_parent_is_validated_against_the_configuration_and_the_stored_one() {
        let sized = |size: u32| object(&json!({ "spec": { "size": size } }));
        let verdict = validate::<Cache>(&sized(1), Some(&sized(3)), context()).unwrap();
        let error = FieldError {
            field: "spec.size".to_owned(),
            reason: ErrorReason::Invalid,
            message: "it is too small".to_owned(),
        };
        assert_eq!(verdict, Verdict { errors: vec![error], warnings: vec!["it shrinks".to_owned()] });
        assert_eq!(validate::<Cache>(&sized(3), None, context()), Ok(Verdict::admitted()));
        let unreadable = object(&json!({ "spec": { "size": "two" } }));
        assert_eq!(validate::<Cache>(&sized(3), Some(&unreadable), context()), Ok(Verdict::admitted()));
        let refused = validate::<Cache>(&unreadable, None, context()).unwrap_err();
        assert!(matches!(&refused, Failure::Reject { field: Some(field), .. } if field == "spec.size"), "{refused:?}");
        let broken = AdmissionContext { config: "{}".to_owned(), ..context() };
        assert!(format!("{:?}", validate::<Cache>(&sized(3), None, broken)).contains("missing field `least`"));
    }
}
