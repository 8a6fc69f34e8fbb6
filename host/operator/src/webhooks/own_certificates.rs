//! Keeps the host's own certificates: the CAs in a Secret that all replicas share, and a leaf of this replica alone.
//!
//! ```text
//! Secret ─▶ CAs ─▶ those that there should be now ─▶ Secret, unless another replica was faster
//!            └▶ the one that signs ─▶ leaf ─▶ the port          └▶ bundle ─▶ the registrations
//! ```
//!
//! Any replica writes the Secret, whether it holds a Lease or not: each computes the same from the same CAs, and a
//! write is only for the version that was read. While the Secret cannot be read, the last known CAs are used.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::webhooks::authorities::{Authorities, Content, Leaf, MakeError};
use hotshoe_cluster::client::Cluster;
use hotshoe_cluster::discovery::Resource;
use hotshoe_cluster::error::ApiError;
use hotshoe_cluster::host_object::{self, ABSENT, HostObject};
use hotshoe_cluster::identity::Permit;
use hotshoe_cluster::time::unix_seconds;
use hotshoe_core::model::kind::{Key, Kind};
use hotshoe_core::rbac::webhooks::CA_SECRET;

/// The type of the Secret. One of another type is not the host's, and is never written.
pub const SECRET_TYPE: &str = "hotshoe.dev/webhooks-ca";
/// The entries of the Secret.
const CERTIFICATES: &str = "ca.crt";
const KEYS: &str = "ca.key";
/// The label of what a host writes, and its value.
pub(crate) const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "hotshoe");
/// How often the Secret is read. Another replica may have added a CA, which signs only after a day; or an administrator
/// has deleted the Secret, for a new CA.
const POLL_INTERVAL: Duration = Duration::from_secs(10);
/// How often the Secret is read again at once because another replica was faster.
const MAX_CONFLICTS: usize = 5;

/// The certificates of this host.
#[derive(Clone)]
pub struct OwnCertificates {
    /// What this host proves itself with.
    pub leaf: Arc<Leaf>,
    /// The certificates in PEM by which API servers trust this host and its replicas.
    pub bundle: Arc<str>,
}

/// What is known of the certificates.
#[derive(Clone, Default)]
pub struct Certified {
    /// The certificates; `None` until there are some.
    pub certificates: Option<OwnCertificates>,
    /// Why the Secret cannot be kept; `None` if it can.
    pub problem: Option<String>,
}

/// Why the Secret cannot be kept.
#[derive(Debug, thiserror::Error)]
enum Problem {
    #[error("{0}")]
    Api(Box<ApiError>),
    #[error("{0}; apply what `hotshoe rbac --webhooks` prints")]
    Right(Box<ApiError>),
    #[error("{0}")]
    NotMade(#[from] MakeError),
    #[error(
        "the Secret {0} is not the host's own: it has not the type {SECRET_TYPE} and the label \
         {label}={value}; move what is in it elsewhere and delete it, and the host makes its own",
        label = MANAGED_BY.0, value = MANAGED_BY.1
    )]
    Foreign(Key),
    #[error("the Secret {0} is changed by others again and again; another host may have a wrong clock")]
    Contended(Key),
}

/// Keeps certificates for these names until the process ends.
pub fn keep(cluster: Cluster, namespace: &str, names: Vec<String>) -> watch::Receiver<Certified> {
    let (publish, certified) = watch::channel(Certified::default());
    let resource = host_object::resource(Kind::new("", "v1", "Secret"), "secrets", true);
    let secret = Secret { cluster, resource, key: Key::new(Some(namespace), CA_SECRET) };
    tokio::spawn(Keeper { secret, names, stored: Authorities::default(), publish }.run());
    certified
}

impl From<ApiError> for Problem {
    fn from(error: ApiError) -> Self {
        let is_forbidden = error.code == 403;
        let error = Box::new(error);
        if is_forbidden { Self::Right(error) } else { Self::Api(error) }
    }
}

struct Keeper {
    secret: Secret,
    names: Vec<String>,
    /// The CAs that the Secret had when it was read or written last.
    stored: Authorities,
    publish: watch::Sender<Certified>,
}

impl Keeper {
    async fn run(mut self) {
        loop {
            let kept = self.keep(unix_seconds()).await;
            let now = unix_seconds();
            let signed = self.certify(now);
            self.report(kept.and(signed).err().map(|problem| problem.to_string()));
            let until = Duration::from_secs(self.stored.plan(now).until.saturating_sub(now).max(1));
            tokio::time::sleep(until.min(POLL_INTERVAL)).await;
        }
    }

    /// Reads the Secret, and writes the CAs into it that there should be.
    async fn keep(&mut self, now: u64) -> Result<(), Problem> {
        for _ in 0..MAX_CONFLICTS {
            let found = self.secret.read().await?;
            let (stored, rubbish) = Authorities::read(&found.content);
            let next = stored.next(now)?;
            let content = next.content();
            self.stored = stored;
            if content == found.content {
                return Ok(());
            }
            match self.secret.write(&content, &found.version).await {
                Ok(()) => {
                    self.log_change(&rubbish, &next);
                    self.stored = next;
                    return Ok(());
                }
                Err(error) if error.code == 409 => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Problem::Contended(self.secret.key.clone()))
    }

    fn log_change(&self, rubbish: &[String], next: &Authorities) {
        let key = &self.secret.key;
        for what in rubbish {
            tracing::warn!("what cannot be used in the Secret {key} is removed: {what}");
        }
        let (before, after) = (self.stored.bundle(), next.bundle());
        if before != after {
            let count = after.matches("BEGIN CERTIFICATE").count();
            tracing::info!("the Secret {key} has new CAs: {count} in all, which API servers are to trust");
        }
    }

    /// Publishes the bundle, with a leaf of the CA that signs.
    fn certify(&self, now: u64) -> Result<(), Problem> {
        let known = self.publish.borrow().certificates.clone();
        let leaf = match known.as_ref().filter(|known| self.stored.is_current(&known.leaf, now)) {
            Some(known) => known.leaf.clone(),
            None => match self.stored.sign(&self.names, now)? {
                Some(leaf) => Arc::new(leaf),
                // The port goes on with the last leaf.
                None => return Ok(()),
            },
        };
        let bundle = self.stored.bundle();
        let is_known = known.is_some_and(|known| Arc::ptr_eq(&known.leaf, &leaf) && *known.bundle == *bundle);
        if !is_known {
            let certificates = Some(OwnCertificates { leaf, bundle: bundle.into() });
            self.publish.send_modify(|certified| certified.certificates = certificates);
        }
        Ok(())
    }

    /// Publishes why the Secret cannot be kept, and logs it if that is news.
    fn report(&self, problem: Option<String>) {
        self.publish.send_if_modified(|certified| {
            let is_new = certified.problem != problem;
            match &problem {
                Some(why) if is_new => {
                    tracing::warn!("the CA of the webhooks cannot be kept: {why}; it is tried again");
                }
                None if is_new => tracing::info!("the CA of the webhooks can be kept again"),
                _ => {}
            }
            certified.problem = problem;
            is_new
        });
    }
}

struct Secret {
    cluster: Cluster,
    resource: Resource,
    key: Key,
}

/// What the Secret has.
struct Found {
    content: Content,
    version: String,
}

impl Secret {
    fn object(&self) -> HostObject<'_> {
        HostObject { cluster: &self.cluster, resource: &self.resource, key: &self.key }
    }

    async fn read(&self) -> Result<Found, Problem> {
        let Some(object) = self.object().read().await? else {
            return Ok(Found { content: Content::default(), version: ABSENT.to_owned() });
        };
        let (label, value) = MANAGED_BY;
        let labels = object.pointer("/metadata/labels");
        let text = |found: Option<&Value>| found.and_then(Value::as_str).unwrap_or_default().to_owned();
        if text(object.get("type")) != SECRET_TYPE || text(labels.and_then(|labels| labels.get(label))) != value {
            return Err(Problem::Foreign(self.key.clone()));
        }
        // What is no Base64 is no object of an API server.
        let entry = |name: &str| {
            STANDARD.decode(text(object.get("data").and_then(|entries| entries.get(name)))).unwrap_or_default()
        };
        let version = text(object.pointer("/metadata/resourceVersion"));
        Ok(Found { content: Content { certificates: entry(CERTIFICATES), keys: entry(KEYS) }, version })
    }

    async fn write(&self, content: &Content, version: &str) -> Result<(), ApiError> {
        let written = self.object().apply(&self.body(content, version), &Permit::unlimited()).await;
        written.map(drop)
    }

    fn body(&self, content: &Content, version: &str) -> Value {
        json!({
            "apiVersion": self.resource.kind.api_version(),
            "kind": &*self.resource.kind.kind,
            "metadata": {
                "name": &*self.key.name,
                "namespace": self.key.namespace,
                "resourceVersion": version,
                "labels": { MANAGED_BY.0: MANAGED_BY.1 },
            },
            "type": SECRET_TYPE,
            "data": {
                CERTIFICATES: STANDARD.encode(&content.certificates),
                KEYS: STANDARD.encode(&content.keys),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use axum::Router;
    use axum::body::Bytes;
    use axum::http::StatusCode;
    use axum::routing::get;
    use parking_lot::Mutex;

    use super::*;
    use crate::served;

    const LONG: Duration = Duration::from_secs(60);

    /// An API server with one Secret, whose versions are numbers from 2 on.
    #[derive(Default)]
    struct Server {
        secret: Mutex<Option<Value>>,
        versions: Mutex<Vec<Value>>,
    }

    impl Server {
        fn read(&self) -> (StatusCode, String) {
            match &*self.secret.lock() {
                Some(secret) => (StatusCode::OK, secret.to_string()),
                None => (StatusCode::NOT_FOUND, json!({ "code": 404, "details": { "name": CA_SECRET } }).to_string()),
            }
        }

        fn apply(&self, body: &[u8]) -> (StatusCode, String) {
            let (mut secret, mut next) = (self.secret.lock(), serde_json::from_slice::<Value>(body).unwrap());
            let present = secret.as_ref().map_or(json!(ABSENT), |secret| secret["metadata"]["resourceVersion"].clone());
            if next["metadata"]["resourceVersion"] != present {
                return (StatusCode::CONFLICT, json!({ "code": 409, "reason": "Conflict" }).to_string());
            }
            let mut versions = self.versions.lock();
            next["metadata"]["resourceVersion"] = (versions.len() + 2).to_string().into();
            versions.push(next.clone());
            *secret = Some(next.clone());
            (StatusCode::OK, next.to_string())
        }

        async fn serve(self: &Arc<Self>) -> Cluster {
            let (read, apply) = (self.clone(), self.clone());
            let routes =
                get(move || async move { read.read() }).patch(move |body: Bytes| async move { apply.apply(&body) });
            served::by(Router::new().route(&format!("/api/v1/namespaces/system/secrets/{CA_SECRET}"), routes)).await
        }
    }

    async fn certified(cluster: &Cluster) -> (watch::Receiver<Certified>, OwnCertificates) {
        let mut certified = keep(cluster.clone(), "system", vec!["a.example.com".to_owned()]);
        let is_there = certified.wait_for(|certified| certified.certificates.is_some());
        let certificates = tokio::time::timeout(LONG, is_there).await.unwrap().unwrap().certificates.clone().unwrap();
        (certified, certificates)
    }

    #[tokio::test]
    async fn replicas_that_start_at_once_share_one_ca_and_have_leafs_of_their_own() {
        let server = Arc::new(Server::default());
        let cluster = server.serve().await;
        let replicas = futures::future::join_all((0..5).map(|_| certified(&cluster))).await;
        let bundles: BTreeSet<&str> = replicas.iter().map(|(_, certificates)| &*certificates.bundle).collect();
        assert_eq!((bundles.len(), server.versions.lock().len()), (1, 1));
        let leafs: BTreeSet<&[u8]> =
            replicas.iter().map(|(_, certificates)| certificates.leaf.certificate.as_ref()).collect();
        assert_eq!(leafs.len(), 5);
    }

    #[tokio::test]
    async fn rubbish_in_the_hosts_own_secret_is_replaced() {
        let server = Arc::new(Server::default());
        let data = json!({ CERTIFICATES: STANDARD.encode("rubbish"), KEYS: 1 });
        *server.secret.lock() = Some(json!({
            "metadata": { "resourceVersion": "9", "labels": { MANAGED_BY.0: MANAGED_BY.1 } },
            "type": SECRET_TYPE,
            "data": data,
        }));
        let (_, certificates) = certified(&server.serve().await).await;
        let stored = server.versions.lock()[0]["data"][CERTIFICATES].as_str().unwrap().to_owned();
        assert_eq!(STANDARD.decode(stored).unwrap(), certificates.bundle.as_bytes());
    }

    #[tokio::test]
    async fn a_secret_that_is_not_the_hosts_own_is_reported_and_never_written() {
        let label = json!({ MANAGED_BY.0: MANAGED_BY.1 });
        for (type_, labels) in [("Opaque", label.clone()), (SECRET_TYPE, json!({})), ("kubernetes.io/tls", label)] {
            let server = Arc::new(Server::default());
            let metadata = json!({ "resourceVersion": "9", "labels": labels });
            *server.secret.lock() = Some(json!({ "metadata": metadata, "type": type_ }));
            let mut certified = keep(server.serve().await, "system", Vec::new());
            let is_reported = certified.wait_for(|certified| certified.problem.is_some());
            let problem = tokio::time::timeout(LONG, is_reported).await.unwrap().unwrap().problem.clone().unwrap();
            assert!(problem.contains("is not the host's own") && problem.contains("delete it"), "{problem}");
            assert!(server.versions.lock().is_empty());
        }
    }
}
