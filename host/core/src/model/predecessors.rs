//! The earlier names of a plugin, whose children it takes over: `spec.takesOverFrom`. Pure.

use serde::{Deserialize, Serialize};

use crate::model::names;
use crate::model::object::plugin_manager;

/// The maximum number of earlier names of one plugin.
const MAX_PREDECESSORS: usize = 16;

/// A plugin that was here before, under another name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Predecessor {
    /// Its name.
    pub plugin: String,
    /// The finalizer that it had on parents, if it was another than this plugin's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finalizer: Option<String>,
}

/// The plugins that a plugin takes over from, validated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Predecessors {
    names: Vec<String>,
    managers: Vec<String>,
    finalizers: Vec<String>,
}

impl Predecessors {
    /// Validates the earlier names in the `plugin.yaml` of this plugin.
    ///
    /// # Errors
    /// Returns what is wrong, for the administrator.
    pub fn new(plugin: &str, predecessors: Vec<Predecessor>) -> Result<Self, String> {
        if predecessors.len() > MAX_PREDECESSORS {
            return Err(format!("it has more than {MAX_PREDECESSORS} plugins"));
        }
        for Predecessor { plugin: name, finalizer } in &predecessors {
            if !names::is_label(name) {
                return Err(format!("it has {name:?}, which is no name of a plugin"));
            }
            if name == plugin {
                return Err(format!("it names the plugin itself; remove {name}"));
            }
            let is_invalid = |finalizer: &&String| !finalizer.contains('/') || !names::is_qualified(finalizer);
            if let Some(finalizer) = finalizer.as_ref().filter(is_invalid) {
                return Err(format!("it has {finalizer:?}, which is no finalizer of the form DOMAIN/NAME"));
            }
        }
        Ok(Self {
            managers: predecessors.iter().map(|one| plugin_manager(&one.plugin)).collect(),
            finalizers: predecessors.iter().filter_map(|one| one.finalizer.clone()).collect(),
            names: predecessors.into_iter().map(|one| one.plugin).collect(),
        })
    }

    /// Returns whether the plugin has an earlier name at all.
    pub fn are_any(&self) -> bool {
        !self.names.is_empty()
    }

    /// Returns the earlier names.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the field managers of the earlier plugins.
    pub fn managers(&self) -> &[String] {
        &self.managers
    }

    /// Returns the finalizers that the earlier plugins had on parents, as far as `plugin.yaml` names them.
    pub fn finalizers(&self) -> &[String] {
        &self.finalizers
    }

    /// Returns whether this is one of the earlier names.
    pub fn has(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn predecessors(plugin: &str, finalizer: Option<&str>) -> Result<Predecessors, String> {
        let one = Predecessor { plugin: plugin.to_owned(), finalizer: finalizer.map(str::to_owned) };
        Predecessors::new("web", vec![one])
    }

    #[test]
    fn earlier_names_are_those_of_plugins_and_never_the_present_one() {
        let earlier = predecessors("nginx", Some("web.example.com/nginx")).unwrap();
        assert!(earlier.are_any() && !Predecessors::default().are_any());
        assert!(earlier.has("nginx") && !earlier.has("web"));
        assert_eq!(
            (earlier.names(), earlier.managers()),
            (&["nginx".to_owned()][..], &["hotshoe/nginx".to_owned()][..])
        );
        assert_eq!(earlier.finalizers(), ["web.example.com/nginx"]);
        for (plugin, finalizer, says) in [
            ("web", None, "names the plugin itself"),
            ("hotshoe/x", None, "no name of a plugin"),
            ("", None, "no name of a plugin"),
            ("nginx", Some("foregroundDeletion"), "no finalizer of the form"),
            ("nginx", Some("a/b/c"), "no finalizer of the form"),
        ] {
            let error = predecessors(plugin, finalizer).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
        let many = (0..17).map(|n| Predecessor { plugin: format!("p{n}"), finalizer: None }).collect();
        assert!(Predecessors::new("web", many).is_err());
    }
}
