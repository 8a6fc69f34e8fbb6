//! The admin commands as paths: the server routes them, and the command line asks for them.

/// An admin command about one plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdminVerb {
    /// Activates the component that its file holds.
    Reload,
    /// Activates an earlier revision.
    Rollback,
    /// Activates a component that requires approval or was rolled back.
    Approve,
    /// Shows what was active, and what became of it.
    History,
    /// Runs a component in the shadow of the active revision.
    Shadow,
}

impl AdminVerb {
    fn as_str(self) -> &'static str {
        match self {
            Self::Reload => "reload",
            Self::Rollback => "rollback",
            Self::Approve => "approve",
            Self::History => "history",
            Self::Shadow => "shadow",
        }
    }

    /// Returns the server's route.
    pub(super) fn route(self) -> String {
        format!("/{}/{{plugin}}", self.as_str())
    }

    /// Returns the path of the command for a plugin, perhaps for one of its revisions.
    pub fn path(self, plugin: &str, digest: Option<&str>) -> String {
        let digits = |digest: &str| {
            let digits = digest.strip_prefix("sha256:").unwrap_or(digest);
            digits.chars().filter(char::is_ascii_alphanumeric).collect::<String>()
        };
        let query = digest.map(|digest| format!("?digest={}", digits(digest))).unwrap_or_default();
        format!("/{}/{plugin}{query}", self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_asked_for_by_its_digits() {
        let rollback = |digest| AdminVerb::Rollback.path("memcached", Some(digest));
        assert_eq!(rollback("sha256:3f2a91c0"), "/rollback/memcached?digest=3f2a91c0");
        assert_eq!(rollback("3f2a&x=1"), "/rollback/memcached?digest=3f2ax1");
        assert_eq!(AdminVerb::Reload.path("memcached", None), "/reload/memcached");
    }
}
