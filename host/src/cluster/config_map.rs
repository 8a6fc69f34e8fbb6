//! Follows one key of a ConfigMap in the host's namespace: a component that an administrator keeps in the cluster.

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::Api;
use kube::runtime::watcher;

use crate::cluster::client::{Cluster, chain};
use crate::cluster::watch::Backoff;

/// The component in a ConfigMap, or why there is none.
#[derive(Debug)]
pub enum Found {
    /// The bytes of the component, and the version of the ConfigMap.
    Component(Vec<u8>, String),
    /// Why there is no component: a reason in PascalCase, and a message.
    Nothing(&'static str, String),
}

/// Reports the value of a key, now and whenever it changes.
pub async fn follow(cluster: &Cluster, namespace: &str, name: &str, key: &str, mut report: impl FnMut(Found)) {
    let api: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), namespace);
    let mut backoff = Backoff::default();
    loop {
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let mut events = watcher(api.clone(), config).boxed();
        let mut is_there = false;
        while let Some(event) = events.next().await {
            match event {
                Ok(watcher::Event::Init) => is_there = false,
                Ok(watcher::Event::InitApply(object) | watcher::Event::Apply(object)) => {
                    is_there = true;
                    report(component(object, name, key));
                }
                Ok(watcher::Event::InitDone) if is_there => {}
                Ok(watcher::Event::InitDone | watcher::Event::Delete(_)) => report(missing(namespace, name)),
                Err(error) => {
                    report(failing(namespace, name, &error));
                    backoff.wait().await;
                    break;
                }
            }
        }
    }
}

fn component(object: ConfigMap, name: &str, key: &str) -> Found {
    let version = object.metadata.resource_version.unwrap_or_default();
    match object.binary_data.and_then(|mut data| data.remove(key)) {
        Some(bytes) => Found::Component(bytes.0, format!("ConfigMap {name}, version {version}")),
        None => Found::Nothing(
            "KeyMissing",
            format!(
                "the ConfigMap {name} has no key {key} in its binaryData; put the component there (`kubectl create configmap {name} --from-file={key}=FILE`)"
            ),
        ),
    }
}

fn missing(namespace: &str, name: &str) -> Found {
    let message = format!("there is no ConfigMap {name} in the namespace {namespace}; create it there");
    Found::Nothing("ConfigMapMissing", message)
}

fn failing(namespace: &str, name: &str, error: &watcher::Error) -> Found {
    let message = format!(
        "the ConfigMap {name} in the namespace {namespace} cannot be watched: {}; it is tried again",
        chain(error)
    );
    Found::Nothing("SourceUnreachable", message)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::ByteString;

    use super::*;

    #[test]
    fn a_component_is_read_by_its_key_and_a_missing_key_is_named() {
        let data = BTreeMap::from([("a.wasm".to_owned(), ByteString(b"bytes".to_vec()))]);
        let object = || ConfigMap { binary_data: Some(data.clone()), ..ConfigMap::default() };
        assert!(matches!(component(object(), "one", "a.wasm"), Found::Component(bytes, _) if bytes == b"bytes"));
        let Found::Nothing(reason, message) = component(object(), "one", "b.wasm") else { panic!("it is not there") };
        assert!(reason == "KeyMissing" && message.contains("no key b.wasm"), "{message}");
    }
}
