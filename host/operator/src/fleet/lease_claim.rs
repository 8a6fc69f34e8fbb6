//! The claim of a host to a `Plugin` object: `status.lease` names the Lease of the hosts that work for the object.
//! Without it, hosts whose selectors overlap would write over each other, and so would two between which an object is
//! relabelled.
//!
//! ```text
//! status.lease ──▶ ours: this host works
//!              ──▶ another one, held: this host waits, and reports that (OtherHost)
//!              ──▶ another one, expired, or none: the host that holds our Lease claims the object, and works
//!                  as soon as the status shows that
//! object that is no longer selected ──▶ the claim is given up, so that another host need not wait
//! ```

use std::sync::Arc;

use serde_json::Value;

use crate::config::plugin_resource::PluginStatus;
use crate::fleet::parsed_plugin::ParsedPlugin;
use hotshoe_cluster::client::Cluster;
use hotshoe_cluster::discovery::Resource;
use hotshoe_cluster::error::ApiError;
use hotshoe_cluster::foreign_lease::ForeignLeases;
use hotshoe_cluster::identity::Permit;
use hotshoe_cluster::plugin_object;
use hotshoe_cluster::shared_watch::SharedWatch;
use hotshoe_core::model::decision::{Event, Severity};
use hotshoe_core::model::object::Object;

/// The reason of the Event about an object for which another host works.
const OTHER_HOST: &str = "OtherHost";

/// The claim to one object.
pub(super) struct LeaseClaim {
    cluster: Cluster,
    resource: Resource,
    /// The namespace and name of the Lease by which this host claims objects, if it keeps one.
    ours: Option<String>,
    /// The Leases of the hosts that have claimed the object before this one.
    others: Option<ForeignLeases>,
    /// The object while this host claims it, and the term of the Lease in which the claim was seen.
    claimed: Option<(Arc<Object>, Option<u64>)>,
    /// Whether the Event that another host works for the object is not recorded yet.
    is_event_due: bool,
    /// Whether the status has no place for a claim.
    is_unclaimable: bool,
}

/// What the claims to an object allow a host to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// To work for the object.
    Works,
    /// To wait, because a host holds the Lease that the object names.
    Waits {
        /// Which host that is, and what to do about it.
        message: String,
        /// Whether this was not known before.
        is_new: bool,
    },
    /// To claim the object, and to work for it if it [may](LeaseClaim::may_work).
    Claims,
}

impl LeaseClaim {
    /// Begins without a claim. `ours` is the Lease by which this host claims objects, if it keeps one.
    pub(super) fn new(cluster: Cluster, resource: Resource, ours: Option<String>) -> Self {
        Self { cluster, resource, ours, others: None, claimed: None, is_event_due: false, is_unclaimable: false }
    }

    /// Compares the claim in the status with ours. `term` is the term in which this host holds its Lease, if it does.
    pub(super) async fn compare(&mut self, described: &ParsedPlugin, term: Option<u64>) -> Standing {
        let theirs = described.status.lease.as_deref();
        if theirs == self.ours.as_deref() {
            (self.others, self.claimed) = (None, theirs.map(|_| (described.object.clone(), term)));
            return Standing::Works;
        }
        // No other host claims an object before this Lease has expired. A claim that got there in another way stops
        // nothing.
        if let Some(theirs) = theirs.filter(|_| !self.is_seen_in(term)) {
            self.claimed = None;
            if let Some(waits) = self.wait_for(&described.object.key.name, theirs).await {
                return waits;
            }
        }
        if self.ours.is_none() || self.is_unclaimable { Standing::Works } else { Standing::Claims }
    }

    /// Returns that this host waits, while a host holds the Lease that the object of this name names.
    async fn wait_for(&mut self, object: &str, theirs: &str) -> Option<Standing> {
        let is_new = self.others.as_ref().is_none_or(|others| !others.are(theirs));
        let others = match &mut self.others {
            Some(others) if !is_new => others,
            others => others.insert(ForeignLeases::new(theirs)),
        };
        let holder = others.holder(&self.cluster).await?;
        let message = format!(
            "hosts of the Lease {theirs} work for this Plugin: {holder}; this host waits until that Lease has \
             expired: give the hosts selectors (--plugin-selector) that do not overlap, or the same --lease-name; \
             if no host of that Lease works for this Plugin any more, remove its claim: \
             `kubectl patch plugins.hotshoe.dev {object} --subresource=status --type=merge -p \
             '{{\"status\":{{\"lease\":null}}}}'`"
        );
        self.is_event_due |= is_new;
        Some(Standing::Waits { message, is_new })
    }

    /// Returns the Event that another host works for the object, unless it was returned before.
    pub(super) fn due_event(&mut self, message: String) -> Option<Event> {
        let is_due = std::mem::take(&mut self.is_event_due);
        is_due.then(|| Event { severity: Severity::Warning, reason: OTHER_HOST.to_owned(), message })
    }

    /// Writes the claim into the status. Returns the API server's reply.
    ///
    /// # Errors
    /// The API server's error; a conflict where the object was changed meanwhile.
    pub(super) async fn write(&mut self, object: &Object, permit: &Permit) -> Result<String, ApiError> {
        let reply = plugin_object::set_lease(&self.cluster, &self.resource, object, self.ours.as_deref(), permit).await;
        // The API server drops a field that an older CustomResourceDefinition does not have.
        let claimed = reply.as_ref().ok().and_then(|reply| serde_json::from_str(reply).ok());
        self.is_unclaimable = claimed.is_some_and(|claimed: Value| PluginStatus::of(&claimed).lease.is_none());
        reply
    }

    /// Returns whether this host may work for the object though the status does not show its claim.
    pub(super) fn may_work(&self, term: Option<u64>) -> bool {
        self.is_unclaimable || self.is_seen_in(term)
    }

    /// Returns whether the claim was seen in this term of our Lease.
    fn is_seen_in(&self, term: Option<u64>) -> bool {
        term.is_some() && self.claimed.as_ref().is_some_and(|(_, claimed)| *claimed == term)
    }

    /// Removes this host's claim from the status of an object that its selector no longer selects. Does nothing if the
    /// object was deleted.
    pub(super) async fn release(&mut self, watch: &SharedWatch, permit: Option<Permit>) {
        let (Some((claimed, _)), Some(permit)) = (self.claimed.take(), permit) else { return };
        let (cluster, resource, name) = (&self.cluster, &self.resource, &*claimed.key.name);
        let Ok(live) = plugin_object::read(cluster, resource, Some(name)).await else { return };
        let Ok(live) = watch.read(&live.to_string()) else { return };
        if live.uid == claimed.uid
            && let Err(error) = plugin_object::set_lease(cluster, resource, &live, None, &permit).await
        {
            tracing::warn!("the claim to the Plugin object was not given up: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::http::Method;
    use parking_lot::Mutex;
    use serde_json::json;

    use super::*;
    use crate::config::manifest::KIND;
    use crate::config::plugin_resource::{GROUP, PLURAL, VERSION};
    use crate::served;
    use hotshoe_cluster::shared_watch::Scope;
    use hotshoe_core::model::object::KeptFields;
    use hotshoe_core::model::projection::Projection;

    const OURS: &str = "system/ours";
    const THEIRS: &str = "system/theirs";
    /// The term in which the host of a test holds its Lease.
    const TERM: Option<u64> = Some(1);

    /// An API server with one `Plugin` object and the Leases of other hosts.
    #[derive(Default)]
    struct Server {
        /// Whether a host holds the other Lease.
        is_held: bool,
        /// Whether the CustomResourceDefinition has no `status.lease`.
        is_old: bool,
        /// The uid of the object.
        uid: &'static str,
        /// The Leases that were written into the status.
        written: Vec<Value>,
    }

    impl Server {
        fn answer(&mut self, method: &Method, path: &str, body: &str) -> String {
            if path.contains("/leases") {
                let spec = json!({ "holderIdentity": "other-host", "leaseDurationSeconds": 10 });
                let marks = json!({ "hotshoe.dev/sharding": "1" });
                let metadata = json!({ "name": "theirs", "resourceVersion": "1", "annotations": marks });
                let lease = json!({ "metadata": metadata, "spec": spec });
                let items = if self.is_held { vec![lease] } else { Vec::new() };
                return json!({ "items": items }).to_string();
            }
            if *method == Method::GET {
                return object(self.uid, Some(OURS)).to_string();
            }
            let patch: Value = serde_json::from_str(body).unwrap();
            let lease = patch["status"]["lease"].clone();
            self.written.push(lease.clone());
            object(self.uid, lease.as_str().filter(|_| !self.is_old)).to_string()
        }
    }

    fn object(uid: &str, lease: Option<&str>) -> Value {
        json!({
            "apiVersion": format!("{GROUP}/{VERSION}"), "kind": KIND,
            "metadata": { "name": "demo", "uid": uid, "resourceVersion": "1" },
            "status": { "lease": lease },
        })
    }

    fn resource() -> Resource {
        plugin_object::resource(GROUP, VERSION, KIND, PLURAL)
    }

    fn watch() -> Arc<SharedWatch> {
        let kept_fields = KeptFields { projection: Projection::new::<&str>(&[]), labels: Vec::new(), status: true };
        SharedWatch::within(Arc::default(), Scope::new(resource().kind, ""), kept_fields, "system".into())
    }

    /// Returns an object whose status names this Lease.
    fn described(lease: Option<&str>) -> ParsedPlugin {
        ParsedPlugin::read(Arc::new(watch().read(&object("u", lease).to_string()).unwrap()))
    }

    /// Returns the claim of a host with this Lease.
    async fn claim(ours: Option<&str>, server: Server) -> (LeaseClaim, Arc<Mutex<Server>>) {
        let server = Arc::new(Mutex::new(server));
        let served = server.clone();
        let answer = async move |method: Method, uri: axum::http::Uri, body: String| {
            served.lock().answer(&method, uri.path(), &body)
        };
        let cluster = served::by(Router::new().fallback(answer)).await;
        (LeaseClaim::new(cluster, resource(), ours.map(str::to_owned)), server)
    }

    #[tokio::test]
    async fn a_host_without_a_lease_works_for_objects_that_name_none() {
        let (mut claim, _) = claim(None, Server::default()).await;
        assert_eq!(claim.compare(&described(None), Some(0)).await, Standing::Works);
        assert_eq!(claim.compare(&described(Some(THEIRS)), Some(0)).await, Standing::Works, "it has expired");
    }

    #[tokio::test]
    async fn a_host_works_for_an_object_only_once_the_status_shows_its_claim() {
        let (mut claim, server) = claim(Some(OURS), Server::default()).await;
        assert_eq!(claim.compare(&described(None), TERM).await, Standing::Claims);
        let unclaimed = described(None);
        claim.write(&unclaimed.object, &Permit::unlimited()).await.unwrap();
        assert_eq!(server.lock().written, [OURS]);
        assert!(!claim.may_work(TERM));
        assert_eq!(claim.compare(&described(Some(OURS)), TERM).await, Standing::Works);
    }

    #[tokio::test]
    async fn a_status_without_a_place_for_a_claim_stops_nothing() {
        let (mut claim, _) = claim(Some(OURS), Server { is_old: true, ..Server::default() }).await;
        assert_eq!(claim.compare(&described(None), TERM).await, Standing::Claims);
        claim.write(&described(None).object, &Permit::unlimited()).await.unwrap();
        assert!(claim.may_work(TERM));
        assert_eq!(claim.compare(&described(None), TERM).await, Standing::Works);
    }

    #[tokio::test]
    async fn a_host_waits_while_another_lease_is_held_and_reports_that_once() {
        let (mut claim, _) = claim(Some(OURS), Server { is_held: true, ..Server::default() }).await;
        let theirs = described(Some(THEIRS));
        let Standing::Waits { message, is_new: true } = claim.compare(&theirs, TERM).await else { panic!() };
        assert!(message.contains("other-host holds the Lease theirs"), "{message}");
        let event = claim.due_event(message.clone()).unwrap();
        assert_eq!((&*event.reason, &event.message), (OTHER_HOST, &message));
        assert_eq!(claim.compare(&theirs, TERM).await, Standing::Waits { message: message.clone(), is_new: false });
        assert!(claim.due_event(message).is_none());
    }

    #[tokio::test]
    async fn an_object_whose_lease_no_host_holds_is_claimed() {
        let (mut claim, _) = claim(Some(OURS), Server::default()).await;
        assert_eq!(claim.compare(&described(Some(THEIRS)), TERM).await, Standing::Claims);
        assert!(!claim.may_work(TERM));
    }

    #[tokio::test]
    async fn a_claim_that_was_seen_holds_as_long_as_our_lease_is_held_without_a_break() {
        let (mut claim, _) = claim(Some(OURS), Server { is_held: true, ..Server::default() }).await;
        assert_eq!(claim.compare(&described(Some(OURS)), TERM).await, Standing::Works);
        let theirs = described(Some(THEIRS));
        assert_eq!(claim.compare(&theirs, TERM).await, Standing::Claims, "no other host can have written that");
        assert!(claim.may_work(TERM));
        for term in [Some(2), None] {
            assert_eq!(claim.compare(&described(Some(OURS)), TERM).await, Standing::Works);
            assert!(matches!(claim.compare(&theirs, term).await, Standing::Waits { .. }), "{term:?}");
            assert!(!claim.may_work(TERM));
        }
    }

    #[tokio::test]
    async fn a_claim_is_given_up_only_by_the_host_that_has_it_and_not_to_a_new_object() {
        for (uid, has_claimed, permit, written) in [
            ("u", true, Some(Permit::unlimited()), &[Value::Null][..]),
            ("u", true, None, &[]),
            ("u", false, Some(Permit::unlimited()), &[]),
            ("new", true, Some(Permit::unlimited()), &[]),
        ] {
            let (mut claim, server) = claim(Some(OURS), Server { uid, ..Server::default() }).await;
            if has_claimed {
                assert_eq!(claim.compare(&described(Some(OURS)), TERM).await, Standing::Works);
            }
            claim.release(&watch(), permit).await;
            assert_eq!(server.lock().written, written, "{uid} {has_claimed}");
        }
    }
}
