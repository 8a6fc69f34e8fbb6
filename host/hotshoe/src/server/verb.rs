//! The paths of the admin commands: the server routes them, and the command line requests them.

use hotshoe_core::model::digest_prefix::DigestPrefix;

/// An admin command about one plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdminVerb {
    /// Activates the component that the plugin's file has now.
    Reload,
    /// Activates an earlier revision.
    Rollback,
    /// Activates a component that requires approval or was rolled back.
    Approve,
    /// Shows the earlier revisions and what happened to each.
    History,
    /// Runs a component in the shadow of the active revision.
    Shadow,
    /// Runs the component that waits for an approval in the shadow of the active revision.
    Waiting,
    /// Shows the last decisions about a parent, and what holds it back.
    Explain,
    /// Shows the same of the parents that are in trouble.
    Trouble,
}

impl AdminVerb {
    fn as_str(self) -> &'static str {
        match self {
            Self::Reload => "reload",
            Self::Rollback => "rollback",
            Self::Approve => "approve",
            Self::History => "history",
            Self::Shadow => "shadow",
            Self::Waiting => "waiting",
            Self::Explain => "explain",
            Self::Trouble => "trouble",
        }
    }

    /// Returns the server's route.
    pub(super) fn route(self) -> String {
        format!("/{}/{{plugin}}", self.as_str())
    }

    /// Returns the path of the command for a plugin, and optionally for one of its revisions.
    pub fn path(self, plugin: &str, digest: Option<&DigestPrefix>) -> String {
        let query = digest.map(|digest| format!("?digest={}", digest.hex())).unwrap_or_default();
        format!("/{}/{plugin}{query}", self.as_str())
    }

    /// Returns the path of the command for a parent of a plugin. Its names must need no escapes.
    pub fn path_of_parent(self, plugin: &str, namespace: Option<&str>, name: &str) -> String {
        let namespace = namespace.map(|namespace| format!("namespace={namespace}&")).unwrap_or_default();
        format!("/{}/{plugin}?{namespace}name={name}", self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_has_only_the_digits_of_a_digest() {
        let digest = "sha256:3F2A91C0".parse().unwrap();
        assert_eq!(AdminVerb::Rollback.path("memcached", Some(&digest)), "/rollback/memcached?digest=3f2a91c0");
        assert_eq!(AdminVerb::Reload.path("memcached", None), "/reload/memcached");
    }
}
