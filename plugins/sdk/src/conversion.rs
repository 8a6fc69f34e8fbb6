//! Versions of a kind: functions from the type of one version to that of another.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::{Failure, Object, Reconciler, Resource};

/// The annotations of an object that is converted. What the new version cannot say is kept here, and taken from here
/// on the way back, so that nothing is lost.
pub type Annotations = BTreeMap<String, String>;

/// A plugin that converts its parents between versions of their kind. Hand it to [`export!`](crate::export!) with the
/// word `conversion`. The book has an example: *Versions of a kind*.
pub trait Converter: Reconciler {
    /// Lists the conversions.
    fn conversions() -> Conversions;
}

/// Functions between versions of a kind. Two versions need no function of their own where others lead from one to the
/// other, so with one version in the middle each other version needs two.
#[derive(Default)]
pub struct Conversions {
    steps: Vec<Step>,
}

struct Step {
    from: &'static str,
    to: &'static str,
    convert: Box<Convert>,
}

type Convert = dyn Fn(&Object, &mut Annotations) -> Result<Value, Failure>;

impl Conversions {
    /// No conversion.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a conversion. It converts what the types have, such as `spec` and `status`; name, labels and the rest of the
    /// metadata stay as they are, also if the types have them.
    #[must_use]
    pub fn with<From, To>(mut self, convert: impl Fn(From, &mut Annotations) -> Result<To, Failure> + 'static) -> Self
    where
        From: Resource + DeserializeOwned,
        To: Resource + Serialize,
    {
        let convert = move |object: &Object, annotations: &mut Annotations| {
            let converted = convert(object.read()?, annotations)?;
            serde_json::to_value(&converted).map_err(|cause| unwritten(object, To::VERSION, &cause))
        };
        self.steps.push(Step { from: From::VERSION, to: To::VERSION, convert: Box::new(convert) });
        self
    }

    fn convert(&self, object: Object, to_version: &str) -> Result<Object, Failure> {
        let from = &object.reference.kind.version;
        let Some(path) = self.path(from, to_version) else {
            let (kind, name) = (&object.reference.kind.kind, &object.reference.name);
            return Err(Failure::other(format!("{kind} {name}: no conversion leads from {from} to {to_version}")));
        };
        path.into_iter().try_fold(object, |object, step| step.apply(object))
    }

    /// Returns the shortest path.
    fn path(&self, from: &str, to: &str) -> Option<Vec<&Step>> {
        let mut seen = BTreeSet::from([from]);
        let mut paths = VecDeque::from([(from, Vec::new())]);
        while let Some((at, path)) = paths.pop_front() {
            if at == to {
                return Some(path);
            }
            for step in self.steps.iter().filter(|step| step.from == at) {
                if seen.insert(step.to) {
                    paths.push_back((step.to, [path.as_slice(), &[step]].concat()));
                }
            }
        }
        None
    }
}

impl Step {
    fn apply(&self, mut object: Object) -> Result<Object, Failure> {
        let mut metadata: Map<String, Value> = object.read::<WithMetadata>()?.metadata;
        let mut annotations: Annotations = match metadata.remove("annotations") {
            Some(annotations) => {
                serde_json::from_value(annotations).map_err(|cause| unwritten(&object, self.to, &cause))?
            }
            None => Annotations::new(),
        };
        let converted = (self.convert)(&object, &mut annotations)?;
        let mut converted: Map<String, Value> =
            serde_json::from_value(converted).map_err(|cause| unwritten(&object, self.to, &cause))?;
        if !annotations.is_empty() {
            metadata.insert("annotations".to_owned(), annotations.into_iter().collect());
        }
        converted.insert("metadata".to_owned(), metadata.into());
        object.json = Value::Object(converted).to_string();
        self.to.clone_into(&mut object.reference.kind.version);
        Ok(object)
    }
}

/// The part of an object that a conversion leaves alone.
#[derive(serde::Deserialize)]
struct WithMetadata {
    metadata: Map<String, Value>,
}

fn unwritten(object: &Object, version: &str, cause: &serde_json::Error) -> Failure {
    let (kind, name) = (&object.reference.kind.kind, &object.reference.name);
    Failure::other(format!("{kind} {name} cannot be written as {version}: {cause}"))
}

/// Calls the plugin's conversions, as the host does.
///
/// # Errors
///
/// The failure of a conversion, or one that says which object cannot be read or has no conversion.
pub fn convert<C: Converter>(objects: Vec<Object>, to_version: &str) -> Result<Vec<Object>, Failure> {
    let conversions = C::conversions();
    objects.into_iter().map(|object| conversions.convert(object, to_version)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ObjectRef, ResourceKind};
    use serde::Deserialize;
    use serde_json::json;

    macro_rules! version {
        ($name:ident, $version:literal, $field:ident) => {
            #[derive(Serialize, Deserialize)]
            struct $name {
                $field: u32,
            }

            impl Resource for $name {
                const GROUP: &'static str = "example.com";
                const VERSION: &'static str = $version;
                const KIND: &'static str = "Test";
            }
        };
    }

    version!(Alpha, "v1alpha1", size);
    version!(Beta, "v1beta1", replicas);
    version!(Stable, "v1", count);

    /// The rest of a division, which v1 cannot say.
    const REST: &str = "example.com/rest";

    /// v1alpha1 ⇄ v1beta1 ⇄ v1, which counts in pairs.
    fn conversions() -> Conversions {
        Conversions::new()
            .with(|old: Alpha, _| Ok(Beta { replicas: old.size }))
            .with(|new: Beta, _| Ok(Alpha { size: new.replicas }))
            .with(|old: Beta, annotations| {
                if old.replicas % 2 == 1 {
                    annotations.insert(REST.to_owned(), "1".to_owned());
                }
                Ok(Stable { count: old.replicas / 2 })
            })
            .with(|new: Stable, annotations| {
                let rest = annotations.remove(REST).map_or(0, |_| 1);
                match new.count {
                    0 => Err(Failure::reject("none")),
                    count => Ok(Beta { replicas: 2 * count + rest }),
                }
            })
    }

    fn object(version: &str, json: Value) -> Object {
        let kind = ResourceKind::new("example.com", version, "Test");
        let reference = ObjectRef { kind, namespace: Some("shop".to_owned()), name: "a".to_owned() };
        Object { reference, json: json.to_string() }
    }

    fn json_of(object: &Object) -> Value {
        serde_json::from_str(&object.json).unwrap()
    }

    #[test]
    fn an_object_is_converted_over_a_version_in_the_middle_and_back_without_loss() {
        let metadata = json!({ "name": "a", "namespace": "shop", "uid": "1", "labels": { "app": "web" } });
        let old = object("v1alpha1", json!({ "metadata": metadata, "size": 5 }));
        let new = conversions().convert(old.clone(), "v1").unwrap();
        assert_eq!(new.reference.kind.version, "v1");
        let mut kept = metadata.clone();
        kept["annotations"] = json!({ REST: "1" });
        assert_eq!(json_of(&new), json!({ "metadata": kept, "count": 2 }));
        let back = conversions().convert(new, "v1alpha1").unwrap();
        assert_eq!((&back.reference, json_of(&back)), (&old.reference, json_of(&old)));
    }

    #[test]
    fn an_object_that_has_the_version_stays_as_it_is() {
        let object = object("v1", json!({ "metadata": { "name": "a" }, "count": 2, "unknown": 1 }));
        assert_eq!(conversions().convert(object.clone(), "v1").unwrap(), object);
    }

    #[test]
    fn what_cannot_be_converted_is_named() {
        let stable = |json| object("v1", json);
        let metadata = json!({ "name": "a" });
        let failure = |object, version| match conversions().convert(object, version) {
            Err(Failure::Other(message) | Failure::Reject { message, .. }) => message,
            other => panic!("{other:?}"),
        };
        let some = stable(json!({ "metadata": metadata, "count": 2 }));
        assert_eq!(failure(some, "v2"), "Test a: no conversion leads from v1 to v2");
        assert_eq!(failure(stable(json!({ "metadata": metadata, "count": 0 })), "v1alpha1"), "none");
        let unreadable = failure(stable(json!({ "metadata": metadata })), "v1beta1");
        assert!(unreadable.contains("Test a") && unreadable.contains("missing field `count`"), "{unreadable}");
    }
}
