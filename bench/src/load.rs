//! The CRs: created and touched as a user would, with a bounded number of requests in flight.

use std::future::Future;
use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, stream};
use http::Method;
use serde_json::{Value, json};

use crate::NAMESPACE;
use crate::client::{Client, JSON, MERGE};
use crate::resource::API_VERSION;

/// The number of concurrent requests of the client that creates objects.
const IN_FLIGHT: usize = 16;

/// The name of one CR.
pub fn name(number: usize) -> String {
    format!("m{number:05}")
}

/// The path of all CRs.
pub fn list_path() -> String {
    format!("/apis/{API_VERSION}/namespaces/{NAMESPACE}/memcacheds")
}

/// The path of one CR.
pub fn path(name: &str) -> String {
    format!("{}/{name}", list_path())
}

/// Creates the CRs of these numbers and returns how long that took. `started` is called for each before it is sent.
///
/// # Errors
/// When one is refused.
pub async fn create(client: &Client, numbers: Range<usize>, started: impl Fn(&str, Instant)) -> Result<Duration> {
    let began = Instant::now();
    let (list, started) = (list_path(), &started);
    each(numbers, IN_FLIGHT, |number| {
        let (name, list) = (name(number), &list);
        async move {
            let body = json!({
                "apiVersion": API_VERSION,
                "kind": "Memcached",
                "metadata": { "name": name, "namespace": NAMESPACE },
                "spec": { "size": 1 },
            });
            started(&name, Instant::now());
            client.send(Method::POST, list, JSON, body.to_string().into_bytes()).await
        }
    })
    .await?;
    Ok(began.elapsed())
}

/// Sets an annotation of each CR that operators ignore.
///
/// # Errors
/// When one is refused.
pub async fn touch(client: &Client, count: usize, value: &str) -> Result<()> {
    let body = json!({ "metadata": { "annotations": { "bench/touched": value } } }).to_string().into_bytes();
    each(0..count, IN_FLIGHT, |number| {
        let (path, body) = (path(&name(number)), body.clone());
        async move { client.send(Method::PATCH, &path, MERGE, body).await }
    })
    .await
}

/// Sets the size of one CR.
///
/// # Errors
/// When it is refused.
pub async fn resize(client: &Client, name: &str, size: i32) -> Result<()> {
    set(client, name, &json!({ "size": size })).await
}

/// Sets fields in the spec of one CR.
///
/// # Errors
/// When it is refused.
pub async fn set(client: &Client, name: &str, spec: &Value) -> Result<()> {
    let body = json!({ "spec": spec }).to_string().into_bytes();
    client.send(Method::PATCH, &path(name), MERGE, body).await
}

/// Runs a request for each item, with a maximum number in flight.
///
/// # Errors
/// The first error ends it.
pub async fn each<T, F: Future<Output = Result<()>>>(
    items: impl IntoIterator<Item = T>,
    at_once: usize,
    work: impl FnMut(T) -> F,
) -> Result<()> {
    stream::iter(items).map(work).buffer_unordered(at_once).try_collect().await
}
