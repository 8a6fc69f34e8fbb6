//! Lease objects of the API: reads them, and builds those to write.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease as Object, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use hotshoe_core::flow::lease::{DURATION, Record};

/// The label of the Leases that belong together, those of all shards.
pub(super) const GROUP: &str = "hotshoe.dev/lease";
/// The annotation that says how the parents are spread over shards. Hosts that spread them differently must not work
/// side by side.
const SHARDING: &str = "hotshoe.dev/sharding";
/// The annotation with the plugins of the holder.
const PLUGINS: &str = "hotshoe.dev/plugins";
/// The annotation with the host that released the Lease.
const RELEASED_BY: &str = "hotshoe.dev/released-by";
/// The annotation with the host for which the Lease was released.
const OFFERED_TO: &str = "hotshoe.dev/offered-to";
/// The annotation with the host that asks for the Lease.
const WANTED_BY: &str = "hotshoe.dev/wanted-by";

/// Which Leases a host keeps, and what it writes into them.
#[derive(Clone, Debug)]
pub struct LeaseSettings {
    /// The namespace of the host.
    pub namespace: String,
    /// The name of the Lease. If there are several shards, the number of the shard is appended.
    pub name: String,
    /// The number of shards.
    pub shards: usize,
    /// The plugins of this host.
    pub plugins: Vec<String>,
    /// The plugins whose parents are spread over the shards one by one.
    pub spread: Vec<String>,
}

impl LeaseSettings {
    /// Describes how parents are spread over shards. Hosts that work side by side must agree on it.
    pub(super) fn sharding(&self) -> String {
        match self.shards {
            0 | 1 => "1".to_owned(),
            shards => {
                let mut spread = self.spread.clone();
                spread.sort_unstable();
                std::iter::once(shards.to_string()).chain(spread).collect::<Vec<_>>().join(" ")
            }
        }
    }

    /// Returns the name of the Lease of a shard.
    pub(super) fn name_of(&self, shard: usize) -> String {
        if self.shards > 1 { format!("{}-{shard}", self.name) } else { self.name.clone() }
    }
}

/// What a host writes into its Leases.
#[derive(Clone, Debug)]
pub(super) struct Holder {
    pub(super) identity: Arc<str>,
    pub(super) group: String,
    pub(super) sharding: String,
    pub(super) plugins: String,
}

/// Returns the content of a Lease.
pub(super) fn record(object: &Object) -> Record {
    let spec = object.spec.clone().unwrap_or_default();
    let text = |key: &str| annotation(object, key).map(Arc::from);
    Record {
        version: version(object),
        holder: spec.holder_identity.filter(|holder| !holder.is_empty()).map(Arc::from),
        renewed: spec.renew_time.map(|MicroTime(time)| time.to_string()).unwrap_or_default(),
        transitions: spec.lease_transitions.unwrap_or_default(),
        duration: spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs),
        released_by: text(RELEASED_BY),
        offered_to: text(OFFERED_TO),
        wanted_by: text(WANTED_BY),
    }
}

/// Returns the resource version of a Lease, which grows with each change.
pub(super) fn version(object: &Object) -> u64 {
    object.metadata.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or_default()
}

/// Returns how the holder of a Lease spreads parents over shards; `None` if the Lease does not say that.
pub(super) fn sharding(object: &Object) -> Option<&str> {
    annotation(object, SHARDING)
}

/// Returns the plugins of the holder of a Lease; `None` if the Lease does not name them.
pub(super) fn plugins(object: &Object) -> Option<&str> {
    annotation(object, PLUGINS)
}

fn annotation<'a>(object: &'a Object, key: &str) -> Option<&'a str> {
    let value = object.metadata.annotations.as_ref()?.get(key)?;
    Some(value.as_str()).filter(|value| !value.is_empty())
}

/// Returns a Lease that this host holds, with a new `renewTime`.
pub(super) fn held(before: Option<&Object>, namespace: &str, name: &str, holder: &Holder) -> Object {
    let mut object = before.cloned().unwrap_or_else(|| Object {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        ..Object::default()
    });
    let now = new_renew_time(&object);
    let spec = object.spec.get_or_insert_default();
    if spec.holder_identity.as_deref() != Some(&holder.identity) {
        let transitions = spec.lease_transitions.unwrap_or_default();
        spec.lease_transitions = Some(if before.is_some() { transitions.saturating_add(1) } else { 0 });
        spec.acquire_time = Some(now.clone());
    }
    spec.holder_identity = Some(holder.identity.to_string());
    spec.lease_duration_seconds = i32::try_from(DURATION.as_secs()).ok();
    spec.renew_time = Some(now);
    object.metadata.managed_fields = None;
    object.metadata.labels.get_or_insert_default().insert(GROUP.to_owned(), holder.group.clone());
    let annotations = object.metadata.annotations.get_or_insert_default();
    let _ = [RELEASED_BY, OFFERED_TO, WANTED_BY].map(|key| annotations.remove(key));
    set(annotations, SHARDING, &holder.sharding);
    set(annotations, PLUGINS, &holder.plugins);
    object
}

/// Returns a Lease that this host releases, for the host `to` if that asked for it.
pub(super) fn released(before: &Object, holder: &Holder, to: Option<&str>) -> Object {
    let mut object = before.clone();
    object.metadata.managed_fields = None;
    let now = new_renew_time(&object);
    let spec = object.spec.get_or_insert_default();
    *spec = LeaseSpec { holder_identity: None, acquire_time: None, renew_time: Some(now), ..spec.clone() };
    let annotations = object.metadata.annotations.get_or_insert_default();
    annotations.remove(WANTED_BY);
    set(annotations, RELEASED_BY, &holder.identity);
    match to {
        Some(to) => set(annotations, OFFERED_TO, to),
        None => drop(annotations.remove(OFFERED_TO)),
    }
    object
}

/// Returns a Lease of another host, with the annotation by which this host asks for it.
pub(super) fn wanted(before: &Object, holder: &Holder) -> Object {
    let mut object = before.clone();
    object.metadata.managed_fields = None;
    set(object.metadata.annotations.get_or_insert_default(), WANTED_BY, &holder.identity);
    object
}

fn set(annotations: &mut BTreeMap<String, String>, key: &str, value: &str) {
    annotations.insert(key.to_owned(), value.to_owned());
}

/// Returns the time now, or a little more if the wall clock was set back to exactly the time of the last renewal: other
/// hosts notice a renewal only by a different time.
fn new_renew_time(object: &Object) -> MicroTime {
    let now = Timestamp::now();
    let before = object.spec.as_ref().and_then(|spec| spec.renew_time.as_ref());
    let is_same = before.is_some_and(|before| before.0.as_microsecond() == now.as_microsecond());
    let later = now.checked_add(SignedDuration::from_millis(1)).unwrap_or(now);
    MicroTime(if is_same { later } else { now })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(identity: &str) -> Holder {
        Holder { identity: identity.into(), group: "hotshoe".into(), sharding: "1".into(), plugins: "demo".into() }
    }

    #[test]
    fn a_lease_passes_between_hosts_and_keeps_what_others_added() {
        let mut object = held(None, "system", "hotshoe", &holder("a"));
        assert_eq!(object.metadata.labels.as_ref().unwrap()[GROUP], "hotshoe");
        let created = record(&object);
        assert_eq!((created.holder.as_deref(), created.transitions), (Some("a"), 0));
        assert_eq!(created.duration, Some(DURATION));
        object.metadata.annotations.as_mut().unwrap().insert("theirs".into(), "kept".into());
        let asked = wanted(&object, &holder("b"));
        assert_eq!(record(&asked).wanted_by.as_deref(), Some("b"));
        assert_eq!(record(&asked).renewed, created.renewed, "that is no renewal");
        let given = released(&asked, &holder("a"), Some("b"));
        let said = record(&given);
        assert_eq!((&said.holder, said.released_by.as_deref()), (&None, Some("a")));
        assert_eq!((said.offered_to.as_deref(), &said.wanted_by), (Some("b"), &None));
        let taken = held(Some(&given), "system", "hotshoe", &holder("b"));
        let said = record(&taken);
        assert_eq!((said.holder.as_deref(), said.transitions), (Some("b"), 1));
        assert_eq!((&said.released_by, &said.offered_to), (&None, &None));
        assert_eq!(taken.metadata.annotations.as_ref().unwrap()["theirs"], "kept");
        let renewed = record(&held(Some(&taken), "system", "hotshoe", &holder("b")));
        assert_eq!(renewed.transitions, 1);
        assert_ne!(renewed.renewed, said.renewed);
    }

    #[test]
    fn a_renewal_shows_even_where_the_wall_clock_stands_still() {
        let mut object = held(None, "system", "hotshoe", &holder("a"));
        let ahead = MicroTime(Timestamp::now() + SignedDuration::from_hours(1));
        object.spec.as_mut().unwrap().renew_time = Some(ahead.clone());
        assert_ne!(new_renew_time(&object), ahead);
        let now = Timestamp::now();
        assert_ne!(new_renew_time(&object).0.as_microsecond(), ahead.0.as_microsecond());
        assert!(new_renew_time(&object).0 >= now);
    }
}
