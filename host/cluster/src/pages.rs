//! Lists in pages that are bounded by their bytes. The client for watches asks for pages by a number of objects; this
//! layer below it replaces the number by one that fits the size of the objects, and asks again for a page that turns out
//! to be too large.

use std::sync::Arc;

use http::{HeaderMap, Method, Request, Response, Uri, header};
use http_body_util::{BodyExt, Either, Full, LengthLimitError, Limited};
use hyper::body::Bytes;
use kube::client::Body;
use parking_lot::Mutex;
use tower::{BoxError, ServiceExt};

use crate::time_limit::{LimitedBody, LimitedService, is_watch};
use hotshoe_core::flow::page_size::PageSize;

/// The body of a watch as it arrives, or a page that was read.
type PageBody = Either<LimitedBody, Full<Bytes>>;

/// The size of the pages of one list after the other; cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Pages(Arc<Mutex<PageSize>>);

impl Pages {
    /// Sends a request. The page of a list is read whole, within its bounds.
    pub(super) async fn send(
        self,
        service: LimitedService,
        request: Request<Body>,
    ) -> Result<Response<PageBody>, BoxError> {
        if !is_page(&request) {
            let response = service.oneshot(request).await?;
            return Ok(response.map(Either::Left));
        }
        let (parts, _) = request.into_parts();
        loop {
            let size = *self.0.lock();
            let request = page_request(&parts.method, &parts.headers, &parts.uri, size)?;
            let response = service.clone().oneshot(request).await?;
            let (head, body) = response.into_parts();
            match Limited::new(body, size.most_bytes()).collect().await {
                Ok(page) => {
                    let page = page.to_bytes();
                    if head.status.is_success() {
                        *self.0.lock() = size.after(page.len());
                    }
                    return Ok(Response::from_parts(head, Either::Right(Full::new(page))));
                }
                Err(error) if error.is::<LengthLimitError>() => match size.after_too_large() {
                    Some(smaller) => *self.0.lock() = smaller,
                    None => return Err(format!("one object has more than {} bytes", size.most_bytes()).into()),
                },
                Err(error) => return Err(error),
            }
        }
    }
}

fn is_page(request: &Request<Body>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    request.method() == Method::GET && pairs(query).any(|pair| pair.starts_with(LIMIT)) && !is_watch(request)
}

const LIMIT: &str = "limit=";

fn pairs(query: &str) -> impl Iterator<Item = &str> {
    query.split('&')
}

/// Returns the request of a page with another number of objects.
fn page_request(method: &Method, headers: &HeaderMap, uri: &Uri, size: PageSize) -> Result<Request<Body>, BoxError> {
    let others = pairs(uri.query().unwrap_or_default()).filter(|pair| !pair.is_empty() && !pair.starts_with(LIMIT));
    let query: Vec<String> = others.map(str::to_owned).chain([format!("{LIMIT}{}", size.objects())]).collect();
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(format!("{}?{}", uri.path(), query.join("&")).parse()?);
    let mut request = Request::builder().method(method).uri(Uri::from_parts(parts)?).body(Body::empty())?;
    *request.headers_mut() = headers.clone();
    // The body is empty, whatever it was before.
    request.headers_mut().remove(header::CONTENT_LENGTH);
    Ok(request)
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::extract::Query;
    use kube::api::{Api, ListParams};
    use serde_json::json;

    use super::*;
    use crate::client::Cluster;
    use crate::discovery::Resource;
    use crate::raw_object::RawObject;
    use crate::served;
    use crate::watch::api;
    use hotshoe_core::model::kind::Kind;

    #[derive(serde::Deserialize)]
    struct Asked {
        limit: usize,
        #[serde(rename = "continue")]
        from: Option<usize>,
    }

    /// Serves objects of these sizes, in pages as they are asked for, and records how many objects each page was to have.
    async fn serving(sizes: &'static [usize]) -> (Cluster, Arc<Mutex<Vec<usize>>>) {
        let limits = Arc::new(Mutex::new(Vec::new()));
        let asked = limits.clone();
        let page = async move |Query(Asked { limit, from }): Query<Asked>| {
            asked.lock().push(limit);
            let (begin, end) = (from.unwrap_or(0), sizes.len().min(from.unwrap_or(0) + limit));
            let object = |index: usize| {
                let metadata = json!({ "name": index.to_string(), "namespace": "n", "resourceVersion": "1" });
                json!({ "metadata": metadata, "data": { "text": "x".repeat(sizes[index]) } })
            };
            let items: Vec<_> = (begin..end).map(object).collect();
            let next = if end < sizes.len() { end.to_string() } else { String::new() };
            let list = json!({ "apiVersion": "v1", "kind": "ConfigMapList", "metadata": { "resourceVersion": "7", "continue": next }, "items": items });
            axum::Json(list)
        };
        (served::by(Router::new().fallback(page)).await, limits)
    }

    async fn names(cluster: &Cluster) -> Vec<String> {
        let kind = Kind::new("", "v1", "ConfigMap");
        let resource = Resource {
            kind,
            plural: "configmaps".to_owned(),
            namespaced: true,
            has_status: false,
            has_scale: false,
            is_converted: false,
        };
        let all: Api<RawObject> = api(&cluster.lister(false), &resource, None);
        let (mut page, mut names) = (ListParams::default().limit(5), Vec::new());
        loop {
            let list = all.list(&page).await.unwrap();
            names.extend(list.items.iter().map(|raw| raw.key().name.to_string()));
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => return names,
            }
        }
    }

    #[tokio::test]
    async fn a_list_has_all_objects_in_pages_that_fit_the_size_of_the_objects() {
        const SMALL: [usize; 100] = [100; 100];
        const LARGE: [usize; 20] = [900_000; 20];
        let all = |count: usize| (0..count).map(|index| index.to_string()).collect::<Vec<_>>();
        let (cluster, limits) = serving(&SMALL).await;
        assert_eq!(names(&cluster).await, all(100));
        assert_eq!(*limits.lock(), [5, 10, 20, 40, 80]);
        let (cluster, limits) = serving(&LARGE).await;
        assert_eq!(names(&cluster).await, all(20));
        assert!(limits.lock().iter().skip(1).all(|limit| *limit <= 2), "{limits:?}");
    }

    #[tokio::test]
    async fn a_page_of_large_objects_after_many_small_ones_is_not_read_but_asked_for_again_in_parts() {
        static MIXED: [usize; 180] = {
            let mut sizes = [100; 180];
            let mut index = 160;
            while index < 180 {
                sizes[index] = 1_400_000;
                index += 1;
            }
            sizes
        };
        let (cluster, limits) = serving(&MIXED).await;
        assert_eq!(names(&cluster).await, (0..180).map(|index| index.to_string()).collect::<Vec<_>>());
        let limits = limits.lock();
        assert!(limits.contains(&160) && limits.contains(&1), "{limits:?}");
    }
}
