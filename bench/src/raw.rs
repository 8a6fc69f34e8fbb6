//! The raw writer: the fewest requests that lead to the end state, eight at once, with responses read and
//! dropped. The plugin's own code makes the bodies beforehand, in the form that costs the API server least. The
//! speed of these requests is the API server's limit.

use anyhow::{Context, Result};
use hotshoe_cluster::apply_body;
use http::Method;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::behaviour::{self, Seen};
use crate::client::{APPLY, Client, JSON_PATCH};
use crate::load::{each, list_path, path};
use crate::resource::{FINALIZER, Memcached};
use crate::{IMAGE, NAMESPACE};

/// The number of concurrent requests at which the API server is fastest.
pub const IN_FLIGHT: usize = 8;
const QUERY: &str = "fieldManager=raw&force=true&fieldValidation=Ignore";

/// One request.
pub struct Write {
    path: String,
    content_type: &'static str,
    body: Vec<u8>,
}

/// Returns the requests of every CR, in order: finalizer, Deployment, Service and the status without these
/// children; and, once every CR has these, the status with them. Right after another write of the same object,
/// the API server first works on a stale copy and has to retry, so this order is the faster one.
///
/// # Errors
/// When the CRs cannot be read.
pub async fn prepare(admin: &Client) -> Result<Vec<Vec<Write>>> {
    let list = admin.get(&list_path()).await?;
    let items = list.get("items").and_then(Value::as_array).context("a list without items")?;
    let (mut first, mut last) = (Vec::with_capacity(items.len()), Vec::with_capacity(items.len()));
    for item in items {
        let mut writes = writes(&serde_json::from_value(item.clone())?)?;
        last.extend(writes.pop().map(|write| vec![write]));
        first.push(writes);
    }
    first.append(&mut last);
    Ok(first)
}

/// Sends the requests.
///
/// # Errors
/// When one is refused.
pub async fn run(client: &Client, writes: Vec<Vec<Write>>) -> Result<()> {
    each(writes, IN_FLIGHT, |writes| async move {
        for write in writes {
            client.send(Method::PATCH, &write.path, write.content_type, write.body).await?;
        }
        Ok(())
    })
    .await
}

fn writes(parent: &Memcached) -> Result<Vec<Write>> {
    let config = json!({ "image": IMAGE }).to_string();
    let first = behaviour::reconcile(parent, Seen::default(), &config)?;
    let said_first = behaviour::status(parent, &first)?;
    let mut writes = vec![finalizer(parent)];
    let (mut deployment, mut service) = (None, None);
    for (child, body) in behaviour::desired(parent, &first)? {
        writes.push(creation(&child.kind.kind, &child.name, &body));
        match child.kind.kind.as_str() {
            "Deployment" => deployment = Some(created(serde_json::from_value(body)?)),
            _ => service = Some(serde_json::from_value::<Service>(body)?),
        }
    }
    writes.push(status(parent, behaviour::status_body(parent, &said_first)));
    let parent = Memcached { status: Some(said_first), ..parent.clone() };
    let seen = Seen { deployment: deployment.as_ref(), service: service.as_ref(), ..Seen::default() };
    let second = behaviour::reconcile(&parent, seen, &config)?;
    writes.push(status(&parent, behaviour::status_body(&parent, &behaviour::status(&parent, &second)?)));
    Ok(writes)
}

/// Adds to a Deployment what the API server will show of it.
fn created(mut deployment: Deployment) -> Deployment {
    deployment.metadata.generation = Some(1);
    deployment
}

fn finalizer(parent: &Memcached) -> Write {
    let patch = json!([
        { "op": "test", "path": "/metadata/uid", "value": parent.uid() },
        { "op": "test", "path": "/metadata/finalizers", "value": null },
        { "op": "add", "path": "/metadata/finalizers", "value": [FINALIZER] },
    ]);
    let path = format!("{}?fieldManager=raw", path(&parent.name_any()));
    Write { path, content_type: JSON_PATCH, body: patch.to_string().into_bytes() }
}

fn creation(kind: &str, name: &str, body: &Value) -> Write {
    let path = match kind {
        "Deployment" => format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{name}?{QUERY}"),
        _ => format!("/api/v1/namespaces/{NAMESPACE}/services/{name}?{QUERY}"),
    };
    Write { path, content_type: APPLY, body: apply_body::write(body) }
}

fn status(parent: &Memcached, body: Value) -> Write {
    let path = format!("{}/status?{QUERY}", path(&parent.name_any()));
    Write { path, content_type: APPLY, body: apply_body::write(&body) }
}
