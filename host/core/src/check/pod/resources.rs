//! Checks the resources that a Pod and its containers ask for. A part of [the rules for Pods](crate::check::pod); pure.

use crate::check::glob;
use crate::check::json_cursor::Cursor;
use crate::check::pod::grant::Pods;
use crate::check::violation::{Checked, all};

/// The resources that every node has. A device plugin, a DeviceClass or an extended resource has any other name.
pub(crate) const OF_EVERY_NODE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// The prefix of the names of huge pages, which are memory; the size of a page follows.
const HUGE_PAGES: &str = "hugepages-";

impl Pods {
    /// Checks the resources of a Pod or of one of its containers.
    pub(crate) fn check_resources(&self, resources: &Cursor<'_>) -> Checked {
        all(resources.members()?.map(|(field, value)| match field {
            "requests" | "limits" => all(value.members()?.map(|(name, amount)| self.check_resource(name, &amount))),
            // Devices that the Pod's `resourceClaims` name.
            "claims" => value.ensure(self.resource_claims, "pod-resource-claims", "pods.resourceClaims"),
            _ => Err(value.unknown()),
        }))
    }

    fn check_resource(&self, name: &str, amount: &Cursor<'_>) -> Checked {
        let is_of_every_node = OF_EVERY_NODE.contains(&name) || name.starts_with(HUGE_PAGES);
        let granted = is_of_every_node || glob::matches_any(&self.resources, name);
        amount.ensure_listed(granted, "pod-resource", "pods.resources", name)
    }
}
