//! Objects of watch events as undecoded text with their name and version: most events are echoes of our own writes, of
//! which nothing else is read.

use std::borrow::Cow;

use kube::api::{ApiResource, ObjectMeta};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use hotshoe_core::model::kind::{Key, Kind};

/// The text of an object, and the metadata that the watch client needs.
#[derive(Clone, Debug)]
pub(super) struct RawObject {
    meta: ObjectMeta,
    json: Box<RawValue>,
}

impl RawObject {
    /// Returns the namespace and name of the object.
    pub(super) fn key(&self) -> Key {
        Key::new(self.meta.namespace.as_deref(), self.meta.name.as_deref().unwrap_or_default())
    }

    /// Returns the text.
    pub(super) fn json(&self) -> &str {
        self.json.get()
    }

    /// Returns the text as that of the object when it is read alone: in a list, an object of a kind of Kubernetes names no
    /// kind.
    pub(super) fn typed(&self, kind: &Kind) -> String {
        let json = self.json();
        let names_kind = serde_json::from_str::<TypeMeta>(json).is_ok_and(|found| found.kind.is_some());
        match json.strip_prefix('{') {
            Some(members) if !names_kind => {
                let (api_version, kind) = (kind.api_version(), &kind.kind);
                // The names of a kind and of a group have no characters that JSON escapes.
                let comma = if members.trim_start().starts_with('}') { "" } else { "," };
                format!(r#"{{"apiVersion":"{api_version}","kind":"{kind}"{comma}{members}"#)
            }
            _ => json.to_owned(),
        }
    }

    /// Returns the resource version; the highest possible one if the object has none.
    pub(super) fn version(&self) -> u64 {
        self.meta.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or(u64::MAX)
    }
}

impl<'de> Deserialize<'de> for RawObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Box::<RawValue>::deserialize(deserializer)?;
        let head = Head::read(json.get()).map_err(serde::de::Error::custom)?;
        let meta = ObjectMeta {
            name: head.name,
            namespace: head.namespace,
            resource_version: head.resource_version,
            ..ObjectMeta::default()
        };
        Ok(Self { meta, json })
    }
}

/// Whether an object names its kind.
#[derive(serde::Deserialize)]
struct TypeMeta {
    kind: Option<IgnoredAny>,
}

/// The metadata that identifies an object and its version.
#[derive(serde::Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Head {
    name: Option<String>,
    namespace: Option<String>,
    resource_version: Option<String>,
}

impl Head {
    /// Reads up to the end of `metadata`: most events are echoes of our own writes, of which nothing else is needed.
    fn read(json: &str) -> serde_json::Result<Self> {
        let mut found = None;
        let mut deserializer = serde_json::Deserializer::from_str(json);
        let stopped = (&mut deserializer).deserialize_map(UpToMetadata(&mut found));
        match found {
            Some(head) => Ok(head),
            None => stopped.map(|()| Self::default()),
        }
    }
}

struct UpToMetadata<'a>(&'a mut Option<Head>);

impl<'de> Visitor<'de> for UpToMetadata<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a Kubernetes object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Cow<'_, str>>()? {
            if key == "metadata" {
                *self.0 = Some(map.next_value()?);
                return Ok(());
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

impl kube::Resource for RawObject {
    type DynamicType = ApiResource;
    type Scope = kube::core::DynamicResourceScope;

    fn kind(kind: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&kind.kind)
    }
    fn group(kind: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&kind.group)
    }
    fn version(kind: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&kind.version)
    }
    fn api_version(kind: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&kind.api_version)
    }
    fn plural(kind: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&kind.plural)
    }
    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_an_object_is_read_wherever_its_fields_are() {
        for json in [
            r#"{"kind":"A","metadata":{"name":"a","namespace":"n","resourceVersion":"7","labels":{}},"spec":{}}"#,
            r#"{"spec":{"metadata":{"name":"no"}},"metadata":{"namespace":"n","name":"a","resourceVersion":"7"}}"#,
        ] {
            let wire: RawObject = serde_json::from_str(json).unwrap();
            assert_eq!((wire.key(), wire.version()), (Key::new(Some("n"), "a"), 7));
            assert_eq!(wire.json(), json);
        }
    }

    #[test]
    fn an_object_of_a_list_gets_the_kind_that_it_does_not_name_and_is_otherwise_as_it_was() {
        let kind = Kind::new("apps", "v1", "Deployment");
        let named = r#""apiVersion":"apps/v1","kind":"Deployment""#;
        for (json, typed) in [
            (r#"{"metadata":{},"n":1.0}"#, format!(r#"{{{named},"metadata":{{}},"n":1.0}}"#)),
            ("{ }", format!("{{{named} }}")),
            (r#"{"spec":{"kind":"A"}}"#, format!(r#"{{{named},"spec":{{"kind":"A"}}}}"#)),
            (r#"{"kind":"Other","apiVersion":"a/v1"}"#, r#"{"kind":"Other","apiVersion":"a/v1"}"#.to_owned()),
        ] {
            let object: RawObject = serde_json::from_str(json).unwrap();
            assert_eq!(object.typed(&kind), typed);
        }
    }

    #[test]
    fn an_object_that_is_cut_off_is_an_error() {
        assert!(serde_json::from_str::<RawObject>(r#"{"metadata":{"name":"a"#).is_err());
    }
}
