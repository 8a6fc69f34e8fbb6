//! Rewrites the stored objects of a kind, so that all of them are stored in the version that its
//! CustomResourceDefinition stores now.
//!
//! The API server writes an object anew if its stored form would differ, even where nothing of it is changed. So each
//! object is patched with nothing but its own version. One that is stored in that version already is not written.

use std::fmt;

use futures::{StreamExt, stream};
use http::Method;
use kube::api::ListParams;
use serde::Deserialize;
use serde_json::json;

use crate::client::{ApiCall, Cluster, chain};
use crate::discovery::{Resource, discover};
use crate::error::ApiError;
use crate::identity::{Identity, Permit};
use crate::raw_object::RawObject;
use crate::watch::api;
use hotshoe_core::flow::page_size;
use hotshoe_core::model::kind::{Key, Kind};

/// The path of all definitions.
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// The field manager of the patches. They change no field, so it owns none.
const FIELD_MANAGER: &str = "hotshoe-storage-migrate";
/// How many groups are asked for their kinds at once.
const GROUPS_AT_ONCE: usize = 8;
/// The status code of a list that cannot be continued, because it took too long.
const EXPIRED: u16 = 410;

/// Why a kind is not found.
#[derive(Debug, thiserror::Error)]
pub enum NotFound {
    /// The API server has no custom resource of this name.
    #[error(
        "the cluster has no custom resource {0}; `kubectl get crds` lists them, and kinds of Kubernetes itself need no \
         migration by hand"
    )]
    Unknown(String),
    /// Several have it.
    #[error("{named} is the name of several kinds: {}; name one of them so", .found.join(", "))]
    Ambiguous {
        /// The name.
        named: String,
        /// The names of their definitions.
        found: Vec<String>,
    },
    /// The definition says nothing of a version that is stored.
    #[error("the definition {0} stores no version")]
    NothingStored(String),
    /// The API server does not answer as it should.
    #[error(transparent)]
    Api(#[from] ApiError),
}

/// A CustomResourceDefinition, as far as it says how objects are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// `PLURAL.GROUP`.
    pub name: String,
    /// The kind as it is served in the version that is stored.
    pub resource: Resource,
    /// The versions in which objects may be stored.
    pub stored: Vec<String>,
    /// The versions that are served.
    served: Vec<String>,
    /// The version of the definition that was read.
    resource_version: String,
}

/// An object, and the version of it that was read.
#[derive(Clone, Debug)]
pub struct Stored {
    key: Key,
    version: u64,
}

/// A page of a list.
#[derive(Debug)]
pub struct Page {
    /// The objects.
    pub objects: Vec<Stored>,
    /// Where the list goes on; none at its end.
    pub next: Option<String>,
    /// How many objects follow, where the API server says so.
    pub remaining: u64,
}

/// Lists the objects of a definition, of which only the metadata is read, in pages that grow as far as their size allows.
pub struct Lister<'a> {
    definition: &'a Definition,
    client: kube::Client,
}

impl Lister<'_> {
    /// Returns a page. One object that cannot be converted keeps all from being listed in a version, but not in the one in
    /// which it is stored.
    ///
    /// # Errors
    /// When there is none in any version.
    pub async fn page(&self, from: Option<&str>) -> Result<Page, NoPage> {
        let storage = self.definition.storage();
        let of_storage = self.page_in(storage, from).await;
        let Err(NoPage::Other(_)) = of_storage else { return of_storage };
        for version in self.definition.served.iter().filter(|version| *version != storage) {
            if let Ok(page) = self.page_in(version, from).await {
                return Ok(page);
            }
        }
        of_storage
    }

    async fn page_in(&self, version: &str, from: Option<&str>) -> Result<Page, NoPage> {
        let resource = &self.definition.resource;
        let kind = Kind { version: version.into(), ..resource.kind.clone() };
        let resource = Resource { kind, ..resource.clone() };
        let page = ListParams::default().limit(page_size::FIRST);
        let page = from.map_or(page.clone(), |token| page.continue_token(token));
        let list = api(&self.client, &resource, None).list(&page).await.map_err(|error| match error {
            kube::Error::Api(status) if status.code == EXPIRED => NoPage::Expired,
            kube::Error::Api(status) => NoPage::Other(status.message),
            error => NoPage::Other(chain(&error)),
        })?;
        let stored = |object: &RawObject| Stored { key: object.key(), version: object.version() };
        Ok(Page {
            objects: list.items.iter().map(stored).collect(),
            next: list.metadata.continue_.filter(|token| !token.is_empty()),
            remaining: list.metadata.remaining_item_count.and_then(|count| count.try_into().ok()).unwrap_or(0),
        })
    }
}

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum NoPage {
    /// The list took too long, and has to be begun again.
    #[error("the list took so long that the API server does not continue it")]
    Expired,
    /// Another error.
    #[error("the objects cannot be listed: {0}")]
    Other(String),
}

/// What became of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rewritten {
    /// It is stored anew.
    Written,
    /// It was stored in this version already, or was written or deleted by others meanwhile.
    NotNeeded,
}

#[derive(Deserialize)]
struct Crd {
    metadata: CrdMetadata,
    spec: Spec,
    #[serde(default)]
    status: CrdStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CrdMetadata {
    name: String,
    resource_version: String,
}

#[derive(Deserialize)]
struct Spec {
    group: String,
    names: Names,
    scope: String,
    versions: Vec<Version>,
}

#[derive(Deserialize)]
struct Names {
    plural: String,
    kind: String,
}

#[derive(Deserialize)]
struct Version {
    name: String,
    served: bool,
    storage: bool,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CrdStatus {
    stored_versions: Vec<String>,
}

/// The groups of an API server, or the versions of a group.
#[derive(Deserialize)]
struct Groups {
    groups: Vec<Group>,
}

#[derive(Clone, Deserialize)]
struct Group {
    name: String,
    versions: Vec<GroupVersion>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct GroupVersion {
    group_version: String,
}

#[derive(Deserialize)]
struct Listing {
    resources: Vec<Listed>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    name: String,
    #[serde(default)]
    singular_name: String,
    kind: String,
    #[serde(default)]
    short_names: Vec<String>,
}

impl Listed {
    /// Returns whether kubectl would take this name for the kind.
    fn is_called(&self, name: &str) -> bool {
        let mut names = [&self.name, &self.singular_name, &self.kind].into_iter().chain(&self.short_names);
        !name.is_empty() && !self.name.contains('/') && names.any(|known| known.eq_ignore_ascii_case(name))
    }
}

impl Definition {
    /// Finds the definition of a kind by a name that kubectl knows: plural, singular, kind or short name, with or without
    /// the group.
    ///
    /// # Errors
    /// When there is none of this name, or several.
    pub async fn find(cluster: &Cluster, named: &str) -> Result<Self, NotFound> {
        let (name, group) = named.split_once('.').map_or((named, None), |(name, group)| (name, Some(group)));
        let mut found = definitions(cluster, name, group).await?;
        match (found.pop(), found.is_empty()) {
            (Some(only), true) => Self::read(cluster, &only).await,
            (None, _) => Err(NotFound::Unknown(named.to_owned())),
            (Some(last), false) => {
                found.push(last);
                Err(NotFound::Ambiguous { named: named.to_owned(), found })
            }
        }
    }

    /// Reads the definition of this name.
    ///
    /// # Errors
    /// When there is none.
    pub async fn read(cluster: &Cluster, name: &str) -> Result<Self, NotFound> {
        let crd: Crd = match get(cluster, &name, format!("{DEFINITIONS}/{name}")).await {
            Err(error) if error.is_not_found() => return Err(NotFound::Unknown(name.to_owned())),
            read => read?,
        };
        Self::of(crd).ok_or_else(|| NotFound::NothingStored(name.to_owned()))
    }

    fn of(Crd { metadata, spec, status }: Crd) -> Option<Self> {
        let storage = spec.versions.iter().find(|version| version.storage)?;
        let resource = Resource {
            kind: Kind::new(&spec.group, &storage.name, &spec.names.kind),
            plural: spec.names.plural,
            namespaced: spec.scope == "Namespaced",
            has_status: false,
            has_scale: false,
            is_converted: false,
        };
        let CrdMetadata { name, resource_version } = metadata;
        let served = spec.versions.into_iter().filter(|version| version.served).map(|version| version.name).collect();
        Some(Self { name, resource, stored: status.stored_versions, served, resource_version })
    }

    /// Returns the version in which objects are stored now.
    pub fn storage(&self) -> &str {
        &self.resource.kind.version
    }

    /// Returns whether all objects are known to be stored in this version.
    pub fn is_migrated(&self) -> bool {
        self.stored == [self.storage()]
    }

    /// Returns whether the API server stores this version already: it learns of a change of the definition a moment later.
    ///
    /// # Errors
    /// When the API server does not serve this version (404), or does not answer.
    pub async fn is_in_force(&self, cluster: &Cluster) -> Result<bool, ApiError> {
        discover(cluster, &self.resource.kind).await.map(|served| !served.is_converted)
    }

    /// Begins to list the objects in all namespaces.
    pub fn lister(&self, cluster: &Cluster) -> Lister<'_> {
        Lister { definition: self, client: cluster.lister(true) }
    }

    /// Has the API server store an object anew.
    ///
    /// # Errors
    /// The API server's error. An object that others have written or deleted meanwhile is no error: it is stored in this
    /// version now, or not at all.
    pub async fn rewrite(&self, cluster: &Cluster, object: &Stored) -> Result<Rewritten, ApiError> {
        let unchanged = json!({ "metadata": { "resourceVersion": object.version.to_string() } });
        let call = ApiCall {
            verb: "rewrite",
            target: &self.resource.reference(&object.key),
            method: Method::PATCH,
            uri: format!("{}?fieldManager={FIELD_MANAGER}", self.resource.path(&object.key, None)),
            content_type: "application/merge-patch+json",
            body: unchanged.to_string().into_bytes(),
        };
        match cluster.send(call, &Identity::Host, &Permit::unlimited()).await {
            Ok(reply) => match serde_json::from_str::<RawObject>(&reply) {
                Ok(now) if now.version() == object.version => Ok(Rewritten::NotNeeded),
                _ => Ok(Rewritten::Written),
            },
            Err(error) if error.code == 409 || error.is_gone() || error.is_not_found() => Ok(Rewritten::NotNeeded),
            Err(error) => Err(error),
        }
    }

    /// States that all objects are stored in the version that is stored now, unless the definition has changed since it
    /// was read.
    ///
    /// # Errors
    /// The API server's error; its code is 409 if the definition has changed.
    pub async fn finish(&self, cluster: &Cluster) -> Result<(), ApiError> {
        let status = json!({
            "metadata": { "resourceVersion": self.resource_version },
            "status": { "storedVersions": [self.storage()] },
        });
        let call = ApiCall {
            verb: "patch the status of",
            target: &self.name,
            method: Method::PATCH,
            uri: format!("{DEFINITIONS}/{}/status?fieldManager={FIELD_MANAGER}", self.name),
            content_type: "application/merge-patch+json",
            body: status.to_string().into_bytes(),
        };
        cluster.send(call, &Identity::Host, &Permit::unlimited()).await.map(drop)
    }
}

impl fmt::Display for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key.fmt(f)
    }
}

/// Returns the names of the definitions of kinds that have this name, in a group or in all of them. `kubectl` also takes
/// `NAME.VERSION.GROUP`.
async fn definitions(cluster: &Cluster, name: &str, group: Option<&str>) -> Result<Vec<String>, ApiError> {
    let Groups { groups } = get(cluster, &"the groups", "/apis".to_owned()).await?;
    let is_meant = |known: &Group| {
        let has_version = |asked: &str| {
            asked.split_once('.').is_some_and(|(version, group)| {
                let is_it = |served: &GroupVersion| served.group_version == format!("{group}/{version}");
                group == known.name && known.versions.iter().any(is_it)
            })
        };
        group.is_none_or(|asked| asked == known.name || has_version(asked))
    };
    let groups = groups.into_iter().filter(is_meant);
    let found = stream::iter(groups.map(|group| in_group(cluster, group, name))).buffered(GROUPS_AT_ONCE);
    Ok(found.filter_map(|found| async { found }).collect().await)
}

/// Returns the name of the definition of a kind of this group that has this name. A group that cannot be asked, such as
/// one of an aggregated API server that is away, has none.
async fn in_group(cluster: &Cluster, group: Group, name: &str) -> Option<String> {
    if Kind::new(&group.name, "", "").is_builtin() {
        return None;
    }
    for version in &group.versions {
        let path = format!("/apis/{}", version.group_version);
        let Ok(Listing { resources }) = get(cluster, &version.group_version, path).await else { continue };
        if let Some(listed) = resources.iter().find(|listed| listed.is_called(name)) {
            return Some(format!("{}.{}", listed.name, group.name));
        }
    }
    None
}

async fn get<T: for<'de> Deserialize<'de>>(
    cluster: &Cluster,
    target: &(dyn fmt::Display + Sync),
    uri: String,
) -> Result<T, ApiError> {
    let text = cluster.send(ApiCall::get("get", target, uri), &Identity::Host, &Permit::unlimited()).await?;
    serde_json::from_str(&text).map_err(|error| ApiError::unreadable("get", target.to_string(), &error))
}

#[cfg(test)]
mod tests {
    use axum::Json;
    use axum::Router;
    use axum::extract::Query;
    use axum::routing::get as served_get;

    use super::*;
    use crate::served;

    fn group(name: &str, resources: serde_json::Value) -> Router {
        let path = format!("/apis/{name}/v1");
        Router::new().route(&path, served_get(move || async move { Json(json!({ "resources": resources })) }))
    }

    fn crd() -> serde_json::Value {
        json!({
            "metadata": { "name": "caches.a.example.com", "resourceVersion": "7" },
            "spec": {
                "group": "a.example.com",
                "names": { "plural": "caches", "kind": "Cache" },
                "scope": "Namespaced",
                "versions": [
                    { "name": "v1beta1", "served": true, "storage": false },
                    { "name": "v1", "served": true, "storage": true },
                ],
            },
            "status": { "storedVersions": ["v1beta1", "v1"] },
        })
    }

    async fn cluster() -> Cluster {
        let listed = |name: &str, kind: &str, short: &str| json!({ "name": name, "singularName": kind.to_lowercase(), "kind": kind, "shortNames": [short] });
        let group_of = |name: &str| json!({ "name": name, "versions": [{ "groupVersion": format!("{name}/v1") }] });
        let groups = json!({ "groups": [group_of("apps"), group_of("a.example.com"), group_of("b.example.com"), group_of("away.example.com")] });
        let definitions = format!("{DEFINITIONS}/caches.a.example.com");
        let router = Router::new()
            .route("/apis", served_get(move || async move { Json(groups) }))
            .route(&definitions, served_get(move || async move { Json(crd()) }))
            .merge(group("apps", json!([listed("deployments", "Deployment", "deploy")])))
            .merge(group(
                "a.example.com",
                json!([listed("caches", "Cache", "ca"), listed("caches/status", "Cache", "")]),
            ))
            .merge(group("b.example.com", json!([listed("stores", "Store", "ca")])));
        served::by(router).await
    }

    #[tokio::test]
    async fn a_kind_is_found_by_each_name_that_kubectl_knows() {
        let cluster = cluster().await;
        for named in
            ["caches", "cache", "Cache", "CACHE", "ca.a.example.com", "caches.a.example.com", "cache.v1.a.example.com"]
        {
            let found = Definition::find(&cluster, named).await.unwrap_or_else(|error| panic!("{named}: {error}"));
            assert_eq!((&*found.name, found.storage(), found.is_migrated()), ("caches.a.example.com", "v1", false));
        }
    }

    #[tokio::test]
    async fn a_name_of_no_custom_resource_or_of_several_is_an_error_that_says_what_to_name() {
        let cluster = cluster().await;
        for named in ["deployments", "caches/status", "caches.b.example.com", "cache.v2.a.example.com", "", "none"] {
            let error = Definition::find(&cluster, named).await.unwrap_err().to_string();
            assert!(error.contains("kubectl get crds"), "{named}: {error}");
        }
        let several = Definition::find(&cluster, "ca").await.unwrap_err().to_string();
        assert!(several.contains("caches.a.example.com, stores.b.example.com"), "{several}");
    }

    #[tokio::test]
    async fn the_pages_of_a_list_grow() {
        #[derive(Deserialize)]
        struct Asked {
            limit: usize,
            #[serde(rename = "continue")]
            from: Option<usize>,
        }
        const OBJECTS: usize = 60;
        let page = async |Query(Asked { limit, from }): Query<Asked>| {
            let begin = from.unwrap_or(0);
            let end = OBJECTS.min(begin + limit);
            let metadata =
                |index: usize| json!({ "name": index.to_string(), "namespace": "n", "resourceVersion": "1" });
            let items: Vec<_> = (begin..end).map(|index| json!({ "metadata": metadata(index) })).collect();
            let next = if end < OBJECTS { end.to_string() } else { String::new() };
            let metadata = json!({ "resourceVersion": "7", "continue": next });
            Json(json!({ "apiVersion": "v1", "kind": "List", "metadata": metadata, "items": items }))
        };
        let router = Router::new().route("/apis/a.example.com/v1/caches", served_get(page));
        let definition = Definition::of(serde_json::from_value(crd()).unwrap()).unwrap();
        let cluster = served::by(router).await;
        let (lister, mut from, mut sizes) = (definition.lister(&cluster), None, Vec::new());
        loop {
            let page = lister.page(from.as_deref()).await.unwrap();
            sizes.push(page.objects.len());
            let Some(next) = page.next else { break };
            from = Some(next);
        }
        assert_eq!(sizes, [5, 10, 20, 25]);
    }
}
