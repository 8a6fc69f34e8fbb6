//! Follows one key of a ConfigMap in the host's namespace: a component that an administrator keeps in the cluster.

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::Api;
use kube::runtime::watcher;

use crate::client::{Cluster, chain};
use crate::time_limit::WATCH_SECONDS;
use crate::watch::Backoff;

/// The component in a ConfigMap, or why there is none.
#[derive(Debug)]
pub enum Found {
    /// The bytes of the component, and the version of the ConfigMap.
    Component(Vec<u8>, String),
    /// Why there is no component: a reason in PascalCase, and a message.
    Nothing(&'static str, String),
}

/// Reports the value of a key, now and whenever it changes. A watch that is interrupted is not reported, unless it
/// cannot be begun again.
pub async fn follow(cluster: &Cluster, namespace: &str, name: &str, key: &str, mut report: impl FnMut(Found)) {
    let api: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), namespace);
    let mut backoff = Backoff::default();
    loop {
        let config = watcher::Config::default().fields(&format!("metadata.name={name}")).timeout(WATCH_SECONDS);
        let mut events = watcher(api.clone(), config).boxed();
        let mut is_there = false;
        while let Some(event) = events.next().await {
            match event {
                Ok(watcher::Event::Init) => is_there = false,
                Ok(watcher::Event::InitApply(object) | watcher::Event::Apply(object)) => {
                    is_there = true;
                    report(component(object, namespace, name, key));
                }
                Ok(watcher::Event::InitDone) if is_there => {}
                Ok(watcher::Event::InitDone | watcher::Event::Delete(_)) => report(missing(namespace, name)),
                // The watch resumes where it was.
                Err(watcher::Error::WatchError(_) | watcher::Error::WatchFailed(_)) => backoff.wait().await,
                Err(error) => {
                    report(failing(namespace, name, &error));
                    backoff.wait().await;
                    break;
                }
            }
        }
    }
}

fn component(object: ConfigMap, namespace: &str, name: &str, key: &str) -> Found {
    let version = object.metadata.resource_version.unwrap_or_default();
    match object.binary_data.and_then(|mut data| data.remove(key)) {
        Some(bytes) => Found::Component(bytes.0, format!("ConfigMap {name}, version {version}")),
        None => Found::Nothing(
            "KeyMissing",
            format!(
                "the ConfigMap {name} has no key {key} in its binaryData; put the component there (`kubectl create \
                 configmap {name} --namespace {namespace} --from-file={key}=FILE --dry-run=client -o yaml | kubectl \
                 apply -f -`)"
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
    use std::time::Duration;

    use axum::extract::RawQuery;
    use axum::http::StatusCode;
    use axum::routing::get;
    use k8s_openapi::ByteString;
    use serde_json::{Value, json};
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

    use super::*;
    use crate::served;

    const LONG: Duration = Duration::from_secs(20);
    const PATH: &str = "/api/v1/namespaces/hotshoe/configmaps";

    /// Returns a ConfigMap whose component is `bytes`.
    fn object(version: &str) -> Value {
        let metadata = json!({ "name": "one", "namespace": "hotshoe", "resourceVersion": version });
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "binaryData": { "a.wasm": "Ynl0ZXM=" } })
    }

    /// Follows the ConfigMap in an API server, and returns what is reported.
    async fn followed(server: axum::Router) -> UnboundedReceiver<Found> {
        let (send, reports) = unbounded_channel();
        let cluster = served::by(server).await;
        tokio::spawn(async move {
            follow(&cluster, "hotshoe", "one", "a.wasm", |found| drop(send.send(found))).await;
        });
        reports
    }

    #[tokio::test]
    async fn an_interrupted_watch_is_not_reported_and_resumes() {
        let serve = |RawQuery(query): RawQuery| async move {
            let query = query.unwrap_or_default();
            if !query.contains("watch=true") {
                let list = json!({ "metadata": { "resourceVersion": "1" }, "items": [object("1")] });
                return list.to_string();
            }
            assert!(query.contains(&format!("timeoutSeconds={WATCH_SECONDS}")), "{query}");
            let status =
                json!({ "code": 500, "message": "etcd is away", "reason": "InternalError", "status": "Failure" });
            let interrupted = json!({ "type": "ERROR", "object": status });
            format!("{interrupted}\n{}\n", json!({ "type": "MODIFIED", "object": object("2") }))
        };
        let mut reports = followed(axum::Router::new().route(PATH, get(serve))).await;
        for expected in ["ConfigMap one, version 1", "ConfigMap one, version 2"] {
            let reported = tokio::time::timeout(LONG, reports.recv()).await.unwrap().unwrap();
            assert!(matches!(&reported, Found::Component(_, version) if version == expected), "{reported:?}");
        }
    }

    #[tokio::test]
    async fn a_config_map_that_cannot_be_listed_is_reported() {
        let refuse = get(|| async { (StatusCode::FORBIDDEN, r#"{"code":403,"message":"no","reason":"Forbidden"}"#) });
        let mut reports = followed(axum::Router::new().route(PATH, refuse)).await;
        let reported = tokio::time::timeout(LONG, reports.recv()).await.unwrap().unwrap();
        assert!(matches!(&reported, Found::Nothing("SourceUnreachable", _)), "{reported:?}");
    }

    #[test]
    fn a_component_is_read_by_its_key_and_a_missing_key_is_named() {
        let data = BTreeMap::from([("a.wasm".to_owned(), ByteString(b"bytes".to_vec()))]);
        let object = || ConfigMap { binary_data: Some(data.clone()), ..ConfigMap::default() };
        assert!(
            matches!(component(object(), "system", "one", "a.wasm"), Found::Component(bytes, _) if bytes == b"bytes")
        );
        let Found::Nothing(reason, message) = component(object(), "system", "one", "b.wasm") else {
            panic!("it is not there")
        };
        assert!(reason == "KeyMissing" && message.contains("no key b.wasm"), "{message}");
    }
}
