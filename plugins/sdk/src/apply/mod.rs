//! Typed children: the fields that a plugin sets, and no others. Go's clients call such types apply
//! configurations.
//!
//! Each kind has a builder, and each of its fields a method with the field's name in snake case. Names and types
//! are checked when the plugin is compiled; a field that is not set is left to its field manager in the cluster.
//!
//! ```
//! use hotshoe_sdk::apply::apps_v1::{Deployment, DeploymentSpec};
//! use hotshoe_sdk::apply::core_v1::{Container, ContainerPort, PodSpec, PodTemplateSpec};
//! use hotshoe_sdk::apply::meta_v1::{LabelSelector, ObjectMeta};
//!
//! let labels = [("app", "web")];
//! let container = Container::new().name("web").image("nginx:1.27").ports([ContainerPort::new().container_port(80)]);
//! let deployment = Deployment::new("web").labels(labels).spec(
//!     DeploymentSpec::new()
//!         .replicas(2)
//!         .selector(LabelSelector::new().match_labels(labels))
//!         .template(
//!             PodTemplateSpec::new()
//!                 .metadata(ObjectMeta::new().labels(labels))
//!                 .spec(PodSpec::new().containers([container])),
//!         ),
//! );
//! # let json = hotshoe_sdk::Object::from(deployment).json;
//! # assert!(json.starts_with(r#"{"spec":{"replicas":2,"#), "{json}");
//! ```
//!
//! A name that Kubernetes does not have, or a value of another type, does not compile:
//!
//! ```compile_fail
//! hotshoe_sdk::apply::apps_v1::DeploymentSpec::new().replica(2);
//! ```
//!
//! ```compile_fail
//! hotshoe_sdk::apply::apps_v1::DeploymentSpec::new().replicas("two");
//! ```
//!
//! The types are generated from the OpenAPI document of Kubernetes by `just apply-types`. Only the fields that a plugin
//! sets add code to its component.

mod fields;

pub mod apps_v1;
pub mod autoscaling_v2;
pub mod batch_v1;
pub mod core_v1;
pub mod meta_v1;
pub mod networking_v1;
pub mod policy_v1;

pub use fields::{Bytes, Configuration, Fields, IntOrString, List, Map, Text, Value};

/// Declares builders: `Name { field(type) = number "JSON name", … }`.
macro_rules! configurations {
    ($($(#[$about:meta])* $name:ident {
        $($(#[$doc:meta])* $field:ident($type:ty) = $number:literal $json:literal,)*
    })*) => {$(
        $(#[$about])*
        #[derive(Clone, Debug, Default, Eq, PartialEq)]
        #[must_use]
        pub struct $name($crate::apply::Fields);

        impl $crate::apply::Configuration for $name {
            fn write_json(&self, out: &mut String) {
                self.0.write(out);
            }
        }

        #[allow(clippy::should_implement_trait, reason = "`add` and `drop` are fields of Capabilities")]
        impl $name {
            /// Builds a configuration without any field.
            #[inline]
            pub fn new() -> Self {
                Self::default()
            }

            $(
                $(#[$doc])*
                #[inline]
                pub fn $field(mut self, value: impl $crate::apply::Value<$type>) -> Self {
                    self.0.set($number, $json, value);
                    self
                }
            )*
        }
    )*};
}

/// Declares builders of whole objects: `Name(group, version) { field(type) = number "JSON name", … }`.
macro_rules! objects {
    ($($(#[$about:meta])* $name:ident($group:literal, $version:literal) {
        $($(#[$doc:meta])* $field:ident($type:ty) = $number:literal $json:literal,)*
    })*) => {$(
        $(#[$about])*
        #[derive(Clone, Debug, Eq, PartialEq)]
        #[must_use]
        pub struct $name {
            name: String,
            metadata: $crate::apply::meta_v1::ObjectMeta,
            fields: $crate::apply::Fields,
        }

        impl $crate::apply::Configuration for $name {
            fn write_json(&self, out: &mut String) {
                let mut fields = self.fields.clone();
                let metadata = self.metadata.clone().name(&self.name);
                fields.set($crate::apply::METADATA, "metadata", metadata);
                fields.write(out);
            }
        }

        impl $crate::Resource for $name {
            const GROUP: &'static str = $group;
            const VERSION: &'static str = $version;
            const KIND: &'static str = stringify!($name);
        }

        impl $name {
            /// Builds an object of this name, in the parent's namespace, without any other field.
            #[inline]
            pub fn new(name: impl Into<String>) -> Self {
                Self { name: name.into(), metadata: Default::default(), fields: Default::default() }
            }

            /// Sets the labels. The host adds its own.
            #[inline]
            pub fn labels(mut self, value: impl $crate::apply::Value<$crate::apply::Map<$crate::apply::Text>>) -> Self {
                self.metadata = self.metadata.labels(value);
                self
            }

            /// Sets the annotations. The host adds its own.
            #[inline]
            pub fn annotations(
                mut self,
                value: impl $crate::apply::Value<$crate::apply::Map<$crate::apply::Text>>,
            ) -> Self {
                self.metadata = self.metadata.annotations(value);
                self
            }

            $(
                $(#[$doc])*
                #[inline]
                pub fn $field(mut self, value: impl $crate::apply::Value<$type>) -> Self {
                    self.fields.set($number, $json, value);
                    self
                }
            )*
        }

        impl From<$name> for $crate::Object {
            fn from(object: $name) -> Self {
                let (kind, mut json) = ($crate::ResourceKind::of::<$name>(), String::new());
                $crate::apply::Configuration::write_json(&object, &mut json);
                Self { reference: $crate::ObjectRef { kind, namespace: None, name: object.name }, json }
            }
        }
    )*};
}

/// The number of the field `metadata` in whole objects; the generator gives smaller ones to the others.
const METADATA: u32 = 63;

use {configurations, objects};

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value as Json, json};

    use super::core_v1::{ConfigMap, Container, ContainerPort, Probe, Secret, Service, ServicePort, ServiceSpec};
    use super::core_v1::{HTTPGetAction, ResourceRequirements};
    use crate::Object;

    fn json(object: impl Into<Object>) -> Json {
        serde_json::from_str(&object.into().json).unwrap_or_default()
    }

    #[test]
    fn only_fields_that_were_set_are_written() {
        let service = Service::new("web").spec(ServiceSpec::new().ports([ServicePort::new().port(80)]));
        assert_eq!(json(service), json!({ "metadata": { "name": "web" }, "spec": { "ports": [{ "port": 80 }] } }));
        assert_eq!(json(Service::new("web")), json!({ "metadata": { "name": "web" } }));
    }

    #[test]
    fn a_field_that_is_set_again_has_the_later_value() {
        let port = ContainerPort::new().container_port(1).name("a,\"{").container_port(2);
        let container = Container::new().ports([port]);
        assert_eq!(format!("{container:?}"), r#"Container({"ports":[{"name":"a,\"{","containerPort":2}]})"#);
    }

    #[test]
    fn labels_and_annotations_are_both_kept_in_the_metadata() {
        let labels: BTreeMap<String, String> = [("app".to_owned(), "web".to_owned())].into();
        let service = Service::new("web").labels(&labels).annotations([("a.example.com/b", "\"quoted\"\n")]);
        let annotations = json!({ "a.example.com/b": "\"quoted\"\n" });
        let metadata = json!({ "name": "web", "labels": { "app": "web" }, "annotations": annotations });
        assert_eq!(json(service), json!({ "metadata": metadata }));
    }

    #[test]
    fn ports_are_numbers_or_names_and_quantities_are_text() {
        let probe = |port: Probe| {
            json(
                crate::apply::core_v1::Pod::new("a")
                    .spec(crate::apply::core_v1::PodSpec::new().containers([Container::new().liveness_probe(port)])),
            )
        };
        let named = probe(Probe::new().http_get(HTTPGetAction::new().port("web")));
        let numbered = probe(Probe::new().http_get(HTTPGetAction::new().port(80)));
        let port = "/spec/containers/0/livenessProbe/httpGet/port";
        assert_eq!((named.pointer(port), numbered.pointer(port)), (Some(&json!("web")), Some(&json!(80))));
        let resources = ResourceRequirements::new().limits([("memory", "64Mi")]);
        assert_eq!(format!("{resources:?}"), r#"ResourceRequirements({"limits":{"memory":"64Mi"}})"#);
    }

    #[test]
    fn bytes_of_a_secret_are_written_as_base64() {
        let secret = Secret::new("a").data([("key", b"\xff\x00a".as_slice())]).string_data([("word", "b")]);
        assert_eq!(
            json(secret),
            json!({ "metadata": { "name": "a" }, "data": { "key": "/wBh" }, "stringData": { "word": "b" } })
        );
        let map = ConfigMap::new("a").data([("key", String::new())]).immutable(true);
        assert_eq!(json(map), json!({ "metadata": { "name": "a" }, "data": { "key": "" }, "immutable": true }));
    }
}
