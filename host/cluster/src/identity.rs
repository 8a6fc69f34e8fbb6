//! The account that a request is made with, and the permit to make it. No write leaves without both.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::boot_clock;
use hotshoe_core::flow::boot_time::BootTime;

/// The timeout of one write; a slower server counts as unavailable.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// The remaining time that a permit must have for a request to be sent at all.
const MIN_REMAINING: Duration = Duration::from_millis(500);

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

    /// Returns the namespace and the name of a plugin's ServiceAccount.
    pub fn account(&self) -> Option<(&str, &str)> {
        self.impersonated()?.strip_prefix("system:serviceaccount:")?.split_once(':')
    }

    /// Returns the user to impersonate. No groups: the API server adds those of a ServiceAccount.
    pub fn impersonated(&self) -> Option<&str> {
        match self {
            Identity::Host => None,
            Identity::Plugin(user) => Some(user),
        }
    }
}

/// The right to write until a deadline, which moves as long as the lease behind it is renewed in time.
///
/// Every write needs a permit, so that no write outlives the lease by which one of several hosts is the only writer.
/// Once a permit was too close to its deadline, it is over for good: another host may have written meanwhile, and
/// everything has to be decided again under the next permit.
#[derive(Clone, Debug)]
pub struct Permit {
    /// `None` if this process is the only writer.
    term: Option<Arc<Term>>,
}

/// One uninterrupted period in which a lease is held.
#[derive(Debug)]
struct Term {
    number: u64,
    /// The end of the term; `None` once it is over.
    deadline: Mutex<Option<BootTime>>,
}

impl Permit {
    /// Returns a permit that does not end: this process is the only writer.
    pub fn unlimited() -> Self {
        Self { term: None }
    }

    /// Returns a permit of a term of a lease, which ends at `deadline` unless it is extended.
    pub fn until(number: u64, deadline: BootTime) -> Self {
        Self { term: Some(Arc::new(Term { number, deadline: Mutex::new(Some(deadline)) })) }
    }

    /// Returns the number of the term; 0 for a permit that does not end.
    pub fn term(&self) -> u64 {
        self.term.as_ref().map_or(0, |term| term.number)
    }

    /// Moves the deadline, unless the permit is over by now. Returns whether the permit is still valid.
    pub(super) fn extend(&self, to: BootTime) -> bool {
        let Some(term) = &self.term else { return true };
        let mut deadline = term.deadline.lock();
        let is_valid = remaining(*deadline, boot_clock::now()).is_some();
        *deadline = is_valid.then_some(to);
        is_valid
    }

    /// Ends the permit now.
    pub(super) fn end(&self) {
        if let Some(term) = &self.term {
            *term.deadline.lock() = None;
        }
    }

    /// Returns the deadline for writes; `None` if the permit does not end, or is over.
    pub fn deadline(&self) -> Option<BootTime> {
        *self.term.as_ref()?.deadline.lock()
    }

    /// Returns whether no write may be sent any more.
    pub fn is_over(&self) -> bool {
        self.timeout().is_none()
    }

    /// Returns the timeout of a write that starts now; `None` if no write may start.
    pub fn timeout(&self) -> Option<Duration> {
        let Some(term) = &self.term else { return Some(WRITE_TIMEOUT) };
        let remaining = remaining(*term.deadline.lock(), boot_clock::now())?;
        Some(remaining.min(WRITE_TIMEOUT))
    }
}

fn remaining(deadline: Option<BootTime>, now: BootTime) -> Option<Duration> {
    deadline?.checked_duration_since(now)?.checked_sub(MIN_REMAINING)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permit_near_its_end_allows_no_write() {
        assert_eq!(Permit::until(1, boot_clock::now() + MIN_REMAINING / 2).timeout(), None);
        assert_eq!(Permit::until(1, boot_clock::now()).timeout(), None);
    }

    #[test]
    fn a_write_ends_before_its_permit() {
        let timeout = Permit::until(1, boot_clock::now() + Duration::from_secs(3)).timeout().unwrap();
        assert!(timeout < Duration::from_secs(3));
        assert_eq!(Permit::unlimited().timeout(), Some(WRITE_TIMEOUT));
    }

    #[test]
    fn a_permit_that_was_over_once_stays_over_in_all_copies() {
        let (now, soon) = (boot_clock::now(), Duration::from_secs(3));
        let permit = Permit::until(7, now + soon);
        let copy = permit.clone();
        assert!(permit.extend(now + 2 * soon) && copy.timeout() > Some(soon) && copy.term() == 7);
        permit.end();
        assert!(copy.is_over() && !permit.extend(now + 3 * soon) && copy.is_over());
        let late = Permit::until(8, now);
        assert!(!late.extend(now + soon) && late.is_over(), "it was too late to write for a moment");
    }
}
