//! Finds the quota that has no room for one more server.

use crate::{
    api::{Amount, RedisSpec},
    observed::Quota,
    quantity,
};

/// An amount of a resource, as quotas name it.
type Need = (String, String);

/// Returns the quota that one more Pod needs.
pub(crate) fn of_pod(spec: &RedisSpec) -> Vec<Need> {
    let (requests, limits) = (&spec.resources.requests, &spec.resources.limits);
    let mut needs = vec![one("pods"), one("count/pods")];
    for name in ["cpu", "memory"] {
        // Where only a limit is set, Kubernetes uses it as the request.
        if let Some(Amount(amount)) = requests.get(name).or(limits.get(name)) {
            needs.extend([(name.to_owned(), amount.clone()), (format!("requests.{name}"), amount.clone())]);
        }
        if let Some(Amount(amount)) = limits.get(name) {
            needs.push((format!("limits.{name}"), amount.clone()));
        }
    }
    needs
}

/// Returns the quota that one more claim needs.
pub(crate) fn of_claim(spec: &RedisSpec) -> Vec<Need> {
    let storage = &spec.storage;
    let size = |name: String| (name, storage.size.clone());
    let mut needs =
        vec![one("persistentvolumeclaims"), one("count/persistentvolumeclaims"), size("requests.storage".to_owned())];
    if let Some(class) = &storage.storage_class_name {
        let of_class = format!("{class}.storageclass.storage.k8s.io");
        needs
            .extend([one(&format!("{of_class}/persistentvolumeclaims")), size(format!("{of_class}/requests.storage"))]);
    }
    needs
}

fn one(name: &str) -> Need {
    (name.to_owned(), "1".to_owned())
}

/// Returns a message with the first quota that has no room for one of these needs, and for which.
pub(crate) fn exhausted(quotas: &[Quota], needs: &[Need]) -> Option<String> {
    let mut unscoped = quotas.iter().filter(|quota| quota.is_unscoped());
    unscoped.find_map(|quota| {
        let (resource, amount) = needs.iter().find(|(resource, amount)| !has_room(quota, resource, amount))?;
        let (hard, used) = (quota.status.hard.get(resource)?, used(quota, resource));
        Some(format!(
            "the ResourceQuota {} leaves no room: of {resource} {used} of {hard} is used, and {amount} more is needed; \
             raise it, or lower what the spec asks for",
            quota.metadata.name
        ))
    })
}

fn has_room(quota: &Quota, resource: &str, amount: &str) -> bool {
    let Some(hard) = quota.status.hard.get(resource) else { return true };
    let numbers = [hard, used(quota, resource), amount].map(quantity::parse);
    match numbers {
        [Some(hard), Some(used), Some(amount)] => used.saturating_add(amount) <= hard,
        _ => true,
    }
}

fn used<'a>(quota: &'a Quota, resource: &str) -> &'a str {
    quota.status.used.get(resource).map_or("0", String::as_str)
}
