//! As whom a request is made, and whether it may still be made. No write leaves without both.

use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest that any write may take; a server that is slower is treated as away.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// What must remain of a deadline for a request to be sent at all.
const MARGIN: Duration = Duration::from_millis(500);

/// As whom a request is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// The host's own account: finalizers, Events, its condition. It cannot write workloads.
    Host,
    /// A plugin's ServiceAccount, impersonated: children and status. The API server enforces its
    /// rights, and the audit log names it.
    Plugin(Arc<str>),
}

impl Identity {
    /// The ServiceAccount of a plugin.
    pub fn plugin(namespace: &str, plugin: &str) -> Self {
        Identity::Plugin(format!("system:serviceaccount:{namespace}:{plugin}").into())
    }

    /// The user to impersonate. No groups: the API server adds those of a ServiceAccount.
    pub fn impersonated(&self) -> Option<&str> {
        match self {
            Identity::Host => None,
            Identity::Plugin(user) => Some(user),
        }
    }
}

/// The right to write until a deadline: that of the lease, once there is one.
#[derive(Clone, Copy, Debug)]
pub struct Permit {
    deadline: Option<Instant>,
}

impl Permit {
    /// A permit that does not end: this process is the only writer.
    pub fn unlimited() -> Self {
        Self { deadline: None }
    }

    /// A permit that ends.
    pub fn until(deadline: Instant) -> Self {
        Self { deadline: Some(deadline) }
    }

    /// How long a write may take that starts now; `None` when it must not start.
    pub fn timeout(&self) -> Option<Duration> {
        let Some(deadline) = self.deadline else { return Some(WRITE_TIMEOUT) };
        let left = deadline.checked_duration_since(Instant::now())?.checked_sub(MARGIN)?;
        Some(left.min(WRITE_TIMEOUT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permit_near_its_end_allows_no_write() {
        assert_eq!(Permit::until(Instant::now() + MARGIN / 2).timeout(), None);
        assert_eq!(Permit::until(Instant::now()).timeout(), None);
    }

    #[test]
    fn a_write_ends_before_its_permit() {
        let timeout = Permit::until(Instant::now() + Duration::from_secs(3)).timeout().unwrap();
        assert!(timeout < Duration::from_secs(3));
        assert_eq!(Permit::unlimited().timeout(), Some(WRITE_TIMEOUT));
    }
}
