//! The versions of a Memcached, converted over v1, the stored one.
//!
//! | field | v1alpha1 | v1 | v1beta1 |
//! |---|---|---|---|
//! | the number of servers | `size` | `size` | `replicas` |
//! | the port that the Service leads to | `containerPort` | `containerPort` | in `ports` |
//! | names of ports, further ports | annotation | annotation | `ports` |
//!
//! No bound is checked here, so that an object which one version allows can be read in each. What is absent stays absent,
//! because the API server converts parts of objects too.

use hotshoe_sdk::{Annotations, Conversions, Failure, Resource};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    api,
    ports::{self, ANNOTATION, Port},
};

pub(crate) fn conversions() -> Conversions {
    Conversions::new()
        .with(|V1alpha1(same): V1alpha1, _| Ok(same))
        .with(|same: V1, _| Ok(V1alpha1(same)))
        .with(to_v1beta1)
        .with(from_v1beta1)
}

fn to_v1beta1(V1 { spec, status }: V1, annotations: &mut Annotations) -> Result<V1beta1, Failure> {
    let kept = annotations.remove(ANNOTATION);
    let spec = spec.map(|V1Spec { size, container_port }| V1beta1Spec {
        replicas: size,
        ports: ports::of_stored(container_port, kept.as_deref()),
    });
    Ok(V1beta1 { spec, status })
}

fn from_v1beta1(V1beta1 { spec, status }: V1beta1, annotations: &mut Annotations) -> Result<V1, Failure> {
    // One that a user wrote would say other ports than the list.
    annotations.remove(ANNOTATION);
    let spec = spec.map(|V1beta1Spec { replicas, ports }| {
        let (container_port, kept) = ports.map(ports::to_stored).unwrap_or_default();
        annotations.extend(kept.map(|kept| (ANNOTATION.to_owned(), kept)));
        V1Spec { size: replicas, container_port }
    });
    Ok(V1 { spec, status })
}

/// An object in `v1alpha1`, which has the fields of `v1`.
#[derive(Deserialize, Serialize)]
struct V1alpha1(V1);

#[derive(Deserialize, Serialize)]
struct V1 {
    #[serde(skip_serializing_if = "Option::is_none")]
    spec: Option<V1Spec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Value>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct V1Spec {
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    container_port: Option<i32>,
}

#[derive(Deserialize, Serialize)]
struct V1beta1 {
    #[serde(skip_serializing_if = "Option::is_none")]
    spec: Option<V1beta1Spec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Value>,
}

#[derive(Deserialize, Serialize)]
struct V1beta1Spec {
    #[serde(skip_serializing_if = "Option::is_none")]
    replicas: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ports: Option<Vec<Port>>,
}

macro_rules! version {
    ($object:ident, $version:expr) => {
        impl Resource for $object {
            const GROUP: &'static str = api::GROUP;
            const VERSION: &'static str = $version;
            const KIND: &'static str = api::KIND;
        }
    };
}

version!(V1alpha1, api::V1ALPHA1);
version!(V1beta1, api::V1BETA1);
version!(V1, api::VERSION);
