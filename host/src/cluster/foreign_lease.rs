//! The Leases of other hosts, whose objects this host may also see: whether one of them is still held.
//!
//! As everywhere, no clock of another machine is read: a Lease has expired when it has not changed for its duration.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease as Object;
use serde::Deserialize;

use crate::cluster::boot_clock;
use crate::cluster::client::{ApiCall, Cluster};
use crate::cluster::error::ApiError;
use crate::cluster::identity::{Identity, Permit};
use crate::cluster::lease_object::{self, GROUP};
use hotshoe_core::flow::boot_time::BootTime;
use hotshoe_core::flow::lease::Sighting;
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

    /// Returns who holds one of the Leases, or why that is not known; `None` if no host holds any of them any more.
    pub async fn holder(&mut self, cluster: &Cluster) -> Option<String> {
        let now = boot_clock::now();
        if self.looked.is_none_or(|looked| now.saturating_duration_since(looked) >= LOOK_INTERVAL) {
            self.look(cluster).await;
        }
        let now = boot_clock::now();
        let held = self.seen.iter().find_map(|(name, seen)| Some((name, seen.live_holder(now)?)));
        let held = held.map(|(name, holder)| format!("{holder} holds the Lease {name}"));
        held.or_else(|| self.unreadable.clone())
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
            let Some(name) = lease.metadata.name.clone() else { continue };
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
        let (namespace, name) = self.name.split_once('/').unwrap_or_default();
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
