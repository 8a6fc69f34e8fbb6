//! Work for an API server that has just been started, before anything is measured on it.
//!
//! A new process touches its memory and its code for the first time, whose cost on a virtual machine varies
//! widely: the same 1,000 CRs took a new API server between 19 and 41 seconds of processor time. So CRs are
//! created, given their children and status by the raw writer, and deleted again.

use anyhow::{Result, ensure};
use http::Method;
use serde_json::{Value, json};

use crate::NAMESPACE;
use crate::client::{Client, JSON, MERGE};
use crate::load::{self, each, list_path, name, path};
use crate::raw;

const COUNT: usize = 500;

/// Has an API server serve some CRs, of which nothing is left.
///
/// # Errors
/// When a request is refused, or something is left.
pub async fn up(admin: &Client) -> Result<()> {
    load::create(admin, 0..COUNT, |_, _| ()).await?;
    raw::run(admin, raw::prepare(admin).await?).await?;
    let lists = [
        list_path(),
        format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments"),
        format!("/api/v1/namespaces/{NAMESPACE}/services"),
    ];
    for list in &lists {
        admin.send(Method::DELETE, list, JSON, Vec::new()).await?;
    }
    let let_go = json!({ "metadata": { "finalizers": null } }).to_string().into_bytes();
    each(0..COUNT, raw::IN_FLIGHT, |number| {
        let (path, let_go) = (path(&name(number)), let_go.clone());
        async move { admin.send(Method::PATCH, &path, MERGE, let_go).await }
    })
    .await?;
    for list in &lists {
        let left = admin.get(list).await?;
        let left = left.get("items").and_then(Value::as_array).map_or(0, Vec::len);
        ensure!(left == 0, "void: {left} of {list} are left of the warm-up");
    }
    Ok(())
}
