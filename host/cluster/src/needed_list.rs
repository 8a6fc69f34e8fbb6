//! Lists what a plugin needs by a label selector, under the plugin's own account.
//!
//! Who made the objects may have made them large or many. So pages are [bounded by their bytes](page_size), and no more
//! pages are read than there is room for.

use std::fmt::Write;

use serde::Deserialize;

use crate::apply::Writer;
use crate::client::ApiCall;
use crate::error::ApiError;
use crate::identity::Permit;
use crate::raw_object::RawObject;
use hotshoe_core::flow::page_size::PageSize;
use hotshoe_core::model::decision::Document;
use hotshoe_core::model::kind::{Kind, ObjectRef};
use hotshoe_core::model::wanted::Selection;

/// How much of a selection is read.
#[derive(Clone, Copy, Debug)]
pub struct ListRoom {
    /// The maximum number of objects.
    pub objects: usize,
    /// The maximum number of their bytes, as JSON.
    pub bytes: usize,
}

/// The objects of a selection.
#[derive(Debug)]
pub struct Listed {
    /// The version of the list: no object in it is newer, and no change up to it is missing. Absent if it cannot be read.
    pub version: Option<u64>,
    /// The objects, sorted by namespace and name.
    pub objects: Vec<Document>,
}

/// Why a selection was not read whole.
#[derive(Debug)]
pub enum ListError {
    /// There are more objects than there is room for.
    TooMany,
    /// They have more bytes than there is room for.
    TooLarge,
    /// The API server's error, or that it did not answer in time.
    Api(Box<ApiError>),
}

impl From<ApiError> for ListError {
    fn from(error: ApiError) -> Self {
        Self::Api(Box::new(error))
    }
}

impl Writer {
    /// Lists the objects of a selection as the plugin, for a parent. Each page counts for the plugin's rate limit of reads.
    ///
    /// # Errors
    /// When there is no room for all of them, or the API server does not list them.
    pub async fn list_as_plugin(
        &self,
        selection: &Selection,
        parent: &ObjectRef,
        room: ListRoom,
    ) -> Result<Listed, ListError> {
        let resource = self.kinds.find(&self.cluster, &selection.kind).await?;
        let collection = resource.collection(selection.namespace.as_deref());
        let which = label_query(selection);
        let mut listed = Listed { version: None, objects: Vec::new() };
        let (mut size, mut next, mut bytes) = (PageSize::default(), String::new(), 0);
        loop {
            self.rate_limit.read(parent.namespace.as_ref()).await;
            let uri = format!("{collection}?limit={}{which}{next}", size.objects());
            let call = ApiCall::get("list", selection, uri);
            let text = match self.cluster.send(call, &self.identity, &Permit::unlimited()).await {
                Ok(text) => text,
                Err(error) if error.is_too_large() => {
                    size = size.after_too_large().ok_or(ListError::TooLarge)?;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let page: Page = serde_json::from_str(&text).map_err(|error| unreadable(selection, &error))?;
            // All pages show the objects as they were at the version of the first one.
            listed.version = listed.version.or_else(|| page.metadata.resource_version.parse().ok());
            let objects = page.items.iter().map(|object| document(object, &selection.kind));
            listed.objects.extend(objects);
            bytes += page.items.iter().map(|object| object.json().len()).sum::<usize>();
            if listed.objects.len() > room.objects {
                return Err(ListError::TooMany);
            }
            if bytes > room.bytes {
                return Err(ListError::TooLarge);
            }
            if page.metadata.next.is_empty() {
                listed.objects.sort_by(|one, other| one.reference.cmp(&other.reference));
                return Ok(listed);
            }
            next = format!("&continue={}", encoded(&page.metadata.next));
            size = size.after(text.len());
        }
    }
}

/// Returns the part of a query that names the labels; nothing where all objects are selected.
pub(super) fn label_query(selection: &Selection) -> String {
    match &*selection.selector {
        "" => String::new(),
        selector => format!("&labelSelector={}", encoded(selector)),
    }
}

/// Encodes a text as the value of a query (RFC 3986).
fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        match byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            true => encoded.push(byte.into()),
            false => drop(write!(encoded, "%{byte:02X}")),
        }
        encoded
    })
}

fn document(object: &RawObject, kind: &Kind) -> Document {
    let key = object.key();
    let reference = ObjectRef { kind: kind.clone(), namespace: key.namespace, name: key.name };
    Document { reference, json: object.typed(kind).into() }
}

/// One page of a list.
#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: PageMetadata,
    #[serde(default)]
    items: Vec<RawObject>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PageMetadata {
    resource_version: String,
    /// The token of the next page; empty in the last one.
    #[serde(rename = "continue")]
    next: String,
}

fn unreadable(selection: &Selection, error: &serde_json::Error) -> ApiError {
    ApiError::new("list", selection.to_string(), 0, "Unreadable", format!("the reply is no list: {error}"))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Arc;

    use axum::Router;
    use axum::extract::Query;
    use axum::http::HeaderMap;
    use hotshoe_core::model::limits::Limits;
    use parking_lot::Mutex;
    use serde_json::json;

    use super::*;
    use crate::identity::Identity;
    use crate::rate_limit::{Delays, RateLimit};
    use crate::served;

    const ROOM: ListRoom = ListRoom { objects: 500, bytes: 8 << 20 };

    fn selection(selector: &str) -> Selection {
        Selection { kind: Kind::new("", "v1", "ConfigMap"), namespace: Some("n".into()), selector: selector.into() }
    }

    fn parent() -> ObjectRef {
        ObjectRef { kind: Kind::new("example.com", "v1", "Shop"), namespace: Some("n".into()), name: "a".into() }
    }

    /// Serves objects of these sizes, the last name first, at version 7, and records the requests.
    async fn serving(sizes: Vec<usize>) -> (Writer, Arc<Mutex<Vec<HashMap<String, String>>>>) {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = requests.clone();
        let page = move |Query(query): Query<HashMap<String, String>>, headers: HeaderMap| {
            let number = |key: &str| query.get(key).and_then(|text| text.parse().ok()).unwrap_or(0_usize);
            let (begin, end) = (number("continue"), sizes.len().min(number("continue") + number("limit")));
            let object = |(at, size): (usize, &usize)| {
                let name = format!("o{:05}", sizes.len() - begin - at);
                json!({ "metadata": { "name": name, "namespace": "n" }, "data": { "text": "x".repeat(*size) } })
            };
            let items: Vec<_> = sizes[begin..end].iter().enumerate().map(object).collect();
            let next = if end < sizes.len() { end.to_string() } else { String::new() };
            let mut query = query;
            query.insert("user".to_owned(), headers["impersonate-user"].to_str().unwrap().to_owned());
            seen.lock().push(query);
            let metadata = json!({ "resourceVersion": "7", "continue": next });
            std::future::ready(json!({ "kind": "ConfigMapList", "metadata": metadata, "items": items }).to_string())
        };
        let served = json!({ "resources": [{ "name": "configmaps", "kind": "ConfigMap", "namespaced": true }] });
        let server = Router::new()
            .route("/api/v1", axum::routing::get(move || std::future::ready(served.to_string())))
            .route("/api/v1/namespaces/n/configmaps", axum::routing::get(page));
        let rate_limit = RateLimit::new(&Limits::default(), Delays::default());
        let identity = Identity::plugin("hotshoe", "demo");
        (Writer::new(&served::by(server).await, Arc::default(), "demo", identity, rate_limit), requests)
    }

    #[tokio::test]
    async fn a_selection_is_listed_as_the_plugin_in_pages_and_sorted() {
        let (writer, requests) = serving(vec![10; 100]).await;
        let listed = writer.list_as_plugin(&selection("app=shop,tier in (a,b)"), &parent(), ROOM).await.unwrap();
        assert_eq!((listed.version, listed.objects.len()), (Some(7), 100));
        assert!(listed.objects.is_sorted_by_key(|object| object.reference.name.clone()));
        let first: serde_json::Value = serde_json::from_str(&listed.objects[0].json).unwrap();
        assert_eq!(
            (&first["apiVersion"], &first["kind"], &first["data"]["text"]),
            (&json!("v1"), &json!("ConfigMap"), &json!("xxxxxxxxxx"))
        );
        let requests = requests.lock();
        assert_eq!(requests.iter().map(|query| &*query["limit"]).collect::<Vec<_>>(), ["5", "10", "20", "40", "80"]);
        for query in &*requests {
            assert_eq!(query["labelSelector"], "app=shop,tier in (a,b)");
            assert_eq!(query["user"], "system:serviceaccount:hotshoe:demo");
        }
    }

    #[tokio::test]
    async fn an_empty_selector_asks_for_all_and_an_empty_list_has_a_version() {
        let (writer, requests) = serving(Vec::new()).await;
        let listed = writer.list_as_plugin(&selection(""), &parent(), ROOM).await.unwrap();
        assert_eq!((listed.version, listed.objects.len()), (Some(7), 0));
        assert!(!requests.lock()[0].contains_key("labelSelector"));
    }

    #[tokio::test]
    async fn ten_thousand_objects_are_not_read_and_neither_are_large_ones() {
        for (sizes, is_refused, most_requests) in [
            (vec![10; 500], None, 7),
            (vec![10; 501], Some("TooMany"), 7),
            (vec![10; 10_000], Some("TooMany"), 7),
            (vec![1_400_000; 5], None, 8),
            (vec![1_400_000; 100], Some("TooLarge"), 12),
            (vec![5 << 20; 2], Some("TooLarge"), 4),
        ] {
            let (writer, requests) = serving(sizes.clone()).await;
            let listed = writer.list_as_plugin(&selection("a"), &parent(), ROOM).await;
            let refused = listed.err().map(|error| format!("{error:?}"));
            assert_eq!(refused.as_deref(), is_refused, "{} of {}", sizes.len(), sizes[0]);
            assert!(requests.lock().len() <= most_requests, "{} requests", requests.lock().len());
        }
    }
}
