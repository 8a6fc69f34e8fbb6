//! The Leases of other hosts, whose objects this host may also see: whether one of them is still held.
//!
//! As everywhere, no clock of another machine is read: a Lease has expired when it has not changed for its duration.
//!
//! An account that may write the status of a `Plugin` object chooses which Leases it names. So only Leases that a host
//! keeps count: they have a name and the marks that a host gives its Leases.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease as Object;
use serde::Deserialize;

use crate::boot_clock;
use crate::client::{ApiCall, Cluster};
use crate::error::ApiError;
use crate::identity::{Identity, Permit};
use crate::lease_object::{self, GROUP};
use hotshoe_core::flow::boot_time::BootTime;
use hotshoe_core::flow::lease::Sighting;
use hotshoe_core::model::names::{is_label, is_subdomain};
use hotshoe_core::model::parent_label::parent_label;

/// The time between two looks at the Leases of others.
const LOOK_INTERVAL: Duration = Duration::from_secs(3);

/// What was seen of the Leases of another group of hosts.
#[derive(Debug)]
pub struct ForeignLeases {
    /// The namespace and name of the Leases, as a `Plugin` object has them.
    name: String,
    seen: BTreeMap<String, Sighting>,
    looked: Option<BootTime>,
    /// Why the Leases cannot be read.
    unreadable: Option<String>,
}

impl ForeignLeases {
    /// Begins to look at the Leases with this namespace and name. If there are several shards, their number follows the
    /// name.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), seen: BTreeMap::new(), looked: None, unreadable: None }
    }

    /// Returns whether these are the Leases with this namespace and name.
    pub fn are(&self, name: &str) -> bool {
        self.name == name
    }

    /// Returns who holds one of the Leases, or why that is not known; `None` if no host holds any of them any more, or
    /// none can have this name.
    pub async fn holder(&mut self, cluster: &Cluster) -> Option<String> {
        self.parts()?;
        let now = boot_clock::now();
        if self.looked.is_none_or(|looked| now.saturating_duration_since(looked) >= LOOK_INTERVAL) {
            self.look(cluster).await;
        }
        let now = boot_clock::now();
        let held = self.seen.iter().find_map(|(name, seen)| Some((name, seen.live_holder(now)?)));
        let held = held.map(|(name, holder)| format!("{holder} holds the Lease {name}"));
        held.or_else(|| self.unreadable.clone())
    }

    /// Returns the namespace and name of the Leases; `None` if no Lease can have them.
    fn parts(&self) -> Option<(&str, &str)> {
        self.name.split_once('/').filter(|(namespace, name)| is_label(namespace) && is_subdomain(name))
    }

    /// Returns whether a Lease with this name is one of these: its name is the common one, alone or with the number of
    /// a shard after it.
    fn is_kept_as(&self, lease: &str) -> bool {
        let rest = self.parts().and_then(|(_, name)| lease.strip_prefix(name));
        rest.is_some_and(|rest| {
            let shard = rest.strip_prefix('-').unwrap_or_default();
            rest.is_empty() || (!shard.is_empty() && shard.bytes().all(|byte| byte.is_ascii_digit()))
        })
    }

    async fn look(&mut self, cluster: &Cluster) {
        let listed = self.list(cluster).await;
        let now = boot_clock::now();
        self.looked = Some(now);
        match listed {
            Ok(leases) => {
                self.unreadable = None;
                self.see(leases, now);
            }
            Err(error) => {
                self.unreadable = Some(format!("whether its Lease {} is held is not known: {error}", self.name))
            }
        }
    }

    fn see(&mut self, leases: Vec<Object>, now: BootTime) {
        let mut before = std::mem::take(&mut self.seen);
        for lease in leases {
            let Some(name) = lease.metadata.name.clone().filter(|name| self.is_kept_as(name)) else { continue };
            // Every host says in its Leases how it spreads parents over shards.
            if lease_object::sharding(&lease).is_none() {
                continue;
            }
            let record = Some(lease_object::record(&lease));
            let sighting = match before.remove(&name) {
                Some(mut seen) => {
                    seen.see(record, "", now);
                    seen
                }
                None => Sighting::first(record, now),
            };
            self.seen.insert(name, sighting);
        }
    }

    async fn list(&self, cluster: &Cluster) -> Result<Vec<Object>, ApiError> {
        #[derive(Deserialize)]
        struct List {
            items: Vec<Object>,
        }
        let (namespace, name) = self.parts().unwrap_or_default();
        let uri = format!(
            "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases?labelSelector={GROUP}%3D{}",
            parent_label(name)
        );
        let target = format!("the Leases of the namespace {namespace}");
        let text = cluster.send(ApiCall::get("list", &target, uri), &Identity::Host, &Permit::unlimited()).await?;
        let list: List =
            serde_json::from_str(&text).map_err(|error| ApiError::unreadable("list", target.clone(), &error))?;
        Ok(list.items)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_claim_that_no_host_can_have_made_names_no_leases() {
        let parts = |name: &str| {
            ForeignLeases::new(name).parts().map(|(namespace, name)| (namespace.to_owned(), name.to_owned()))
        };
        assert_eq!(parts("hotshoe-system/hotshoe"), Some(("hotshoe-system".into(), "hotshoe".into())));
        for forged in ["", "hotshoe", "/hotshoe", "system/", "a/b/c", "a?watch=1/b", "a%2Fb/c", "../b", "A/b", "a/b c"]
        {
            assert_eq!(parts(forged), None, "{forged}");
        }
    }

    #[test]
    fn a_lease_counts_if_it_has_the_name_and_the_marks_of_one_that_a_host_keeps() {
        let lease = |name: &str, sharding: Option<&str>| {
            let annotations = json!({ "hotshoe.dev/sharding": sharding });
            let annotations = if sharding.is_some() { annotations } else { json!({}) };
            serde_json::from_value::<Object>(json!({
                "metadata": { "name": name, "resourceVersion": "1", "annotations": annotations },
                "spec": { "holderIdentity": "a", "leaseDurationSeconds": 10 },
            }))
            .unwrap()
        };
        let mut leases = ForeignLeases::new("system/second");
        let listed = [
            ("second", Some("1")),
            ("second-0", Some("2")),
            ("second-12", Some("2")),
            ("second-", Some("1")),
            ("second-a", Some("1")),
            ("seconds", Some("1")),
            ("other", Some("1")),
            ("second-3", None),
        ];
        leases.see(listed.map(|(name, sharding)| lease(name, sharding)).to_vec(), boot_clock::now());
        assert_eq!(leases.seen.keys().collect::<Vec<_>>(), ["second", "second-0", "second-12"]);
    }
}
