//! The account that a request is made with, and the permit to make it. No write leaves without both.

use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest that one write may take; a slower server counts as unavailable.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// How much of a permit must be left for a request to be sent at all.
const MARGIN: Duration = Duration::from_millis(500);

/// The account that a request is made with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// The host's own account: finalizers, Events, its condition. It cannot write workloads.
    Host,
    /// A plugin's ServiceAccount, impersonated: children and status. The API server enforces its
    /// rights, and the audit log names it.
    Plugin(Arc<str>),
}

impl Identity {
    /// Returns the ServiceAccount of a plugin in the host's namespace.
    pub fn plugin(namespace: &str, plugin: &str) -> Self {
        Identity::Plugin(format!("system:serviceaccount:{namespace}:{plugin}").into())
    }

    /// Returns the user to impersonate. No groups: the API server adds those of a ServiceAccount.
    pub fn impersonated(&self) -> Option<&str> {
        match self {
            Identity::Host => None,
            Identity::Plugin(user) => Some(user),
        }
    }
}

/// The right to write until a deadline.
///
/// Every write needs one, so that none can outlive the lease by which one of several hosts will be the only writer.
/// Until there is a lease, the host uses [`Permit::unlimited`] alone.
#[derive(Clone, Copy, Debug)]
pub struct Permit {
    deadline: Option<Instant>,
}

impl Permit {
    /// Returns a permit that does not end: this process is the only writer.
    pub fn unlimited() -> Self {
        Self { deadline: None }
    }

    /// Returns a permit that ends at `deadline`, which the lease will set.
    pub fn until(deadline: Instant) -> Self {
        Self { deadline: Some(deadline) }
    }

    /// Returns how long a write may take that starts now; `None` if it must not start.
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
