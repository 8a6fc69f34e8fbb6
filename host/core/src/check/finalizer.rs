//! Decides which finalizers a plugin may hold, and which of the finalizers on an object it may have removed. Pure.
//!
//! A component chooses its finalizer, and the host removes it with the host's own account. So a finalizer is allowed
//! only if its name carries the plugin's name, or if the administrator lists it in the plugin's `plugin.yaml`. A listed
//! finalizer that another field manager set, according to `managedFields`, stays. One that carries the plugin's name is
//! the plugin's alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::managed_fields::BEFORE_FIRST_APPLY;
use crate::model::names;
use crate::model::object::{HOST_MANAGER, Object, plugin_manager};

/// The maximum number of finalizers in `plugin.yaml`.
const MAX_FINALIZERS: usize = 16;

/// The domain of finalizers on parents of the core group.
const CORE_DOMAIN: &str = "plugin.hotshoe.dev";

/// Field managers into which the API server merges the entries of others. They do not show who set a field.
const MERGED_MANAGERS: [&str; 2] = ["ancient-changes", BEFORE_FIRST_APPLY];

/// Returns the domain of the finalizers on parents of a group.
pub fn domain(group: &str) -> &str {
    if group.is_empty() { CORE_DOMAIN } else { group }
}

/// Returns the name of the plugin that a finalizer carries. `DOMAIN/PLUGIN` and `DOMAIN/PLUGIN.ANYTHING` belong to
/// `PLUGIN` alone, because the name of a plugin has no dot.
pub fn carried_name(finalizer: &str) -> Option<&str> {
    let (_, name) = finalizer.split_once('/')?;
    name.split('.').next().filter(|plugin| !plugin.is_empty())
}

/// A finalizer that `plugin.yaml` names for its plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Named {
    /// `DOMAIN/NAME`, in the group of the parents.
    pub name: String,
    /// Field managers that may have set it in place of the host: of an operator that the plugin replaces, or of a tool that
    /// restores backups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also_set_by: Vec<String>,
}

/// The finalizers that a plugin may hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedFinalizers {
    plugin: String,
    named: Vec<Named>,
    /// Field managers under which the host has set finalizers for this plugin.
    managers: Vec<String>,
}

impl AllowedFinalizers {
    /// Returns the finalizers that carry a plugin's name.
    pub fn of_name(plugin: &str) -> Self {
        let managers = vec![HOST_MANAGER.to_owned(), plugin_manager(plugin)];
        Self { plugin: plugin.to_owned(), named: Vec::new(), managers }
    }

    /// Validates the finalizers in a plugin's `plugin.yaml`. `predecessors` are the field managers of the plugins from
    /// which it takes over.
    ///
    /// # Errors
    /// When a finalizer is invalid or there are too many; the message is for the administrator.
    pub fn new(plugin: &str, named: Vec<Named>, predecessors: &[String]) -> Result<Self, String> {
        if named.len() > MAX_FINALIZERS {
            return Err(format!("it has more than {MAX_FINALIZERS} finalizers"));
        }
        let is_invalid = |name: &&String| !name.contains('/') || !names::is_qualified(name);
        if let Some(name) = named.iter().map(|named| &named.name).find(is_invalid) {
            return Err(format!("it has {name:?}, which is no finalizer of the form DOMAIN/NAME"));
        }
        let mut allowed = Self { named, ..Self::of_name(plugin) };
        allowed.managers.extend(predecessors.iter().cloned());
        Ok(allowed)
    }

    /// Returns the finalizers in `plugin.yaml`.
    pub fn named(&self) -> &[Named] {
        &self.named
    }

    /// Returns whether the plugin may hold a finalizer.
    pub fn has(&self, finalizer: &str) -> bool {
        self.carries_its_name(finalizer) || self.find(finalizer).is_some()
    }

    /// Returns the field manager that set a finalizer of an object, if that was another one than the host on behalf of
    /// this plugin or of a plugin from which it takes over. Returns `None` where the plugin may have the finalizer
    /// removed. That includes a finalizer without a known setter, for example after `managedFields` was lost: then
    /// `plugin.yaml` alone decides.
    pub fn set_by_another<'o>(&self, object: &'o Object, finalizer: &str) -> Option<&'o str> {
        if self.carries_its_name(finalizer) {
            return None;
        }
        let setters = || object.setters_of(finalizer).filter(|manager| !MERGED_MANAGERS.contains(manager));
        let also = self.find(finalizer).map_or(&[][..], |named| &named.also_set_by);
        let is_ours = setters().any(|manager| self.managers.iter().chain(also).any(|ours| ours == manager));
        if is_ours { None } else { setters().next() }
    }

    /// Returns which of the finalizers on an object are among `candidates` and may be removed for this plugin.
    pub fn removable<'o>(&self, object: &'o Object, candidates: &[String]) -> Vec<&'o str> {
        let is_removable = |present: &&str| {
            candidates.iter().any(|one| one == present) && self.set_by_another(object, present).is_none()
        };
        object.finalizers.iter().map(|present| &**present).filter(is_removable).collect()
    }

    fn find(&self, finalizer: &str) -> Option<&Named> {
        self.named.iter().find(|named| named.name == finalizer)
    }

    /// Returns whether a finalizer carries this plugin's name. Such a finalizer is the plugin's, whichever field
    /// manager set it: an object that was restored from a backup has another one.
    fn carries_its_name(&self, finalizer: &str) -> bool {
        carried_name(finalizer) == Some(&*self.plugin)
    }
}

/// The holder of each finalizer among the plugins of a host. No two plugins share one: it would be removed for both
/// when the first is done.
#[derive(Debug, Default)]
pub struct Holders(Mutex<BTreeMap<String, Arc<str>>>);

impl Holders {
    /// Records a plugin's finalizers: the current one, and former ones that objects still have.
    ///
    /// # Errors
    /// When another plugin has the current finalizer already: the name of that plugin. Then nothing changes.
    pub fn hold(&self, plugin: &Arc<str>, finalizer: Option<&str>, former: &[String]) -> Result<(), Arc<str>> {
        let mut holders = self.0.lock();
        let other = finalizer.and_then(|finalizer| holders.get(finalizer)).filter(|holder| *holder != plugin);
        if let Some(other) = other {
            return Err(other.clone());
        }
        holders.retain(|_, holder| holder != plugin);
        for finalizer in finalizer.into_iter().chain(former.iter().map(String::as_str)) {
            holders.entry(finalizer.to_owned()).or_insert_with(|| plugin.clone());
        }
        Ok(())
    }

    /// Forgets the finalizers of a plugin.
    pub fn forget(&self, plugin: &str) {
        self.0.lock().retain(|_, holder| **holder != *plugin);
    }

    /// Returns the plugin that has a finalizer, if that is another one than this plugin.
    pub fn other_than(&self, plugin: &str, finalizer: &str) -> Option<Arc<str>> {
        self.0.lock().get(finalizer).filter(|holder| ***holder != *plugin).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::object::KeptFields;
    use crate::model::projection::Projection;

    const NAMED: &str = "example.com/finalizer";
    const CARRIED: &str = "example.com/web";

    fn named(name: &str) -> Named {
        Named { name: name.to_owned(), also_set_by: vec!["old-operator".to_owned()] }
    }

    fn allowed() -> AllowedFinalizers {
        AllowedFinalizers::new("web", vec![named(NAMED)], &["hotshoe/nginx".to_owned()]).unwrap()
    }

    /// Returns an object with both finalizers, each set by these field managers.
    fn set_by(managers: &[&str]) -> Object {
        let fields = serde_json::json!({ "f:metadata": { "f:finalizers": {
            ".": {}, format!("v:{NAMED:?}"): {}, format!("v:{CARRIED:?}"): {},
        } } });
        let entry = |manager| serde_json::json!({ "manager": manager, "operation": "Update", "fieldsV1": fields });
        let entries: Vec<_> = managers.iter().map(entry).collect();
        let metadata = serde_json::json!({ "name": "a", "finalizers": [NAMED, CARRIED], "managedFields": entries });
        let kept_fields = KeptFields { projection: Projection::new::<&str>(&[]), labels: Vec::new(), status: false };
        Object::read(&serde_json::json!({ "metadata": metadata }).to_string(), &kept_fields).unwrap()
    }

    #[test]
    fn a_plugin_may_hold_what_carries_its_name_or_is_named_for_it() {
        for (finalizer, may) in [
            ("example.com/web", true),
            ("other.example.com/web", true),
            ("example.com/web.cleanup", true),
            (NAMED, true),
            ("example.com/web-cache", false),
            ("example.com/webs", false),
            ("example.com/my.web", false),
            ("example.com/Web", false),
            ("example.com/", false),
            ("web", false),
            ("", false),
        ] {
            assert_eq!(allowed().has(finalizer), may, "{finalizer}");
        }
        assert!(!AllowedFinalizers::default().has("example.com/"), "a finalizer without a name belongs to no plugin");
    }

    #[test]
    fn a_finalizer_is_named_with_its_domain() {
        for wrong in ["foregroundDeletion", "a/b/c", "", "example.com/"] {
            let error = AllowedFinalizers::new("web", vec![named(wrong)], &[]).unwrap_err();
            assert!(error.contains("of the form DOMAIN/NAME"), "{error}");
        }
        assert!(AllowedFinalizers::new("web", vec![named(NAMED); MAX_FINALIZERS + 1], &[]).is_err());
        let most = vec![named(NAMED); MAX_FINALIZERS];
        assert_eq!(AllowedFinalizers::new("web", most.clone(), &[]).unwrap().named(), most);
    }

    #[test]
    fn a_named_finalizer_that_another_manager_set_is_not_the_plugins() {
        for (managers, other) in [
            (&["kubectl-create"][..], Some("kubectl-create")),
            (&["hotshoe/other"], Some("hotshoe/other")),
            (&["before-first-apply", "velero-server"], Some("velero-server")),
            (&["hotshoe/web"], None),
            (&["hotshoe"], None),
            (&["hotshoe/nginx"], None),
            (&["old-operator"], None),
            (&["kubectl", "hotshoe/web"], None),
            (&["ancient-changes"], None),
            (&["before-first-apply"], None),
            (&[], None),
        ] {
            let object = set_by(managers);
            assert_eq!(allowed().set_by_another(&object, NAMED), other, "{managers:?}");
            assert_eq!(allowed().set_by_another(&object, CARRIED), None, "the plugin's, by any manager");
        }
    }

    #[test]
    fn what_another_manager_set_and_what_is_no_candidate_is_not_removable() {
        let both = [NAMED.to_owned(), CARRIED.to_owned()];
        assert_eq!(allowed().removable(&set_by(&["kubectl"]), &both), [CARRIED]);
        assert_eq!(allowed().removable(&set_by(&["hotshoe/web"]), &both), [NAMED, CARRIED]);
        assert_eq!(allowed().removable(&set_by(&["hotshoe/web"]), &both[..1]), [NAMED]);
        assert!(allowed().removable(&set_by(&["hotshoe/web"]), &[]).is_empty());
    }

    #[test]
    fn by_its_name_alone_a_plugin_has_what_carries_the_name_and_what_the_host_set_for_it() {
        let allowed = AllowedFinalizers::of_name("web");
        assert!(allowed.has(CARRIED) && !allowed.has(NAMED));
        assert_eq!(allowed.set_by_another(&set_by(&["hotshoe/web"]), NAMED), None);
        assert_eq!(allowed.set_by_another(&set_by(&["old-operator"]), NAMED), Some("old-operator"));
    }

    #[test]
    fn the_plugin_that_has_a_finalizer_keeps_it() {
        let (holders, web, other): (Holders, Arc<str>, Arc<str>) = (Holders::default(), "web".into(), "other".into());
        assert_eq!(holders.hold(&web, Some("a/1"), &["a/former".to_owned()]), Ok(()));
        assert_eq!(holders.hold(&other, Some("a/1"), &[]), Err(web.clone()));
        assert_eq!(holders.hold(&other, Some("a/former"), &[]), Err(web.clone()));
        assert_eq!(holders.hold(&other, Some("a/2"), &["a/former".to_owned()]), Ok(()));
        assert_eq!(holders.other_than("other", "a/former"), Some(web.clone()), "it had it first");
        assert_eq!(holders.hold(&web, Some("a/2"), &[]), Err(other.clone()));
        assert_eq!(holders.other_than("other", "a/1"), Some(web.clone()), "a refusal changes nothing");
        assert_eq!(holders.hold(&web, None, &[]), Ok(()));
        assert_eq!(holders.hold(&other, Some("a/1"), &[]), Ok(()), "it is free again");
        assert_eq!(holders.other_than("other", "a/1"), None);
    }

    #[test]
    fn the_finalizers_of_a_plugin_that_is_gone_are_free_and_those_of_others_are_not() {
        let (holders, web, other): (Holders, Arc<str>, Arc<str>) = (Holders::default(), "web".into(), "other".into());
        assert_eq!(holders.hold(&web, Some("a/1"), &[]), Ok(()));
        assert_eq!(holders.hold(&other, Some("a/2"), &[]), Ok(()));
        holders.forget("web");
        assert_eq!(holders.hold(&other, Some("a/1"), &["a/2".to_owned()]), Ok(()));
        assert_eq!(holders.hold(&web, Some("a/2"), &[]), Err(other));
    }

    #[test]
    fn finalizers_have_the_domain_of_the_group_or_that_of_plugins_in_the_core_group() {
        assert_eq!((domain("example.com"), domain("")), ("example.com", "plugin.hotshoe.dev"));
    }
}
