//! The account that a request is made with, and the permit to make it. No write leaves without both.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

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

/// The right to write until a deadline, which moves as long as the lease behind it is renewed in time.
///
/// Every write needs one, so that none outlives the lease by which one of several hosts is the only writer. Once it was
/// too late to write, the permit is over for good: another host may have written meanwhile, and what was decided before
/// is decided again under the next permit.
#[derive(Clone, Debug)]
pub struct Permit {
    /// None where this process is the only writer.
    term: Option<Arc<Term>>,
}

/// One uninterrupted time in which a lease is held.
#[derive(Debug)]
struct Term {
    number: u64,
    /// None once it is over.
    deadline: Mutex<Option<Instant>>,
}

impl Permit {
    /// Returns a permit that does not end: this process is the only writer.
    pub fn unlimited() -> Self {
        Self { term: None }
    }

    /// Returns a permit of a term of a lease, which ends at `deadline` unless it is extended.
    pub fn until(number: u64, deadline: Instant) -> Self {
        Self { term: Some(Arc::new(Term { number, deadline: Mutex::new(Some(deadline)) })) }
    }

    /// Returns the number of its term; 0 where it does not end.
    pub fn term(&self) -> u64 {
        self.term.as_ref().map_or(0, |term| term.number)
    }

    /// Moves the end, unless it is over by now. Returns whether it is not.
    pub(super) fn extend(&self, to: Instant) -> bool {
        let Some(term) = &self.term else { return true };
        let mut deadline = term.deadline.lock();
        let is_valid = left(*deadline, Instant::now()).is_some();
        *deadline = is_valid.then_some(to);
        is_valid
    }

    /// Ends it now.
    pub(super) fn end(&self) {
        if let Some(term) = &self.term {
            *term.deadline.lock() = None;
        }
    }

    /// Returns until when writes may leave; none where that has no end, or has come to its end.
    pub fn deadline(&self) -> Option<Instant> {
        *self.term.as_ref()?.deadline.lock()
    }

    /// Returns whether no write may leave any more.
    pub fn is_over(&self) -> bool {
        self.timeout().is_none()
    }

    /// Returns how long a write may take that starts now; `None` if it must not start.
    pub fn timeout(&self) -> Option<Duration> {
        let Some(term) = &self.term else { return Some(WRITE_TIMEOUT) };
        let left = left(*term.deadline.lock(), Instant::now())?;
        Some(left.min(WRITE_TIMEOUT))
    }
}

fn left(deadline: Option<Instant>, now: Instant) -> Option<Duration> {
    deadline?.checked_duration_since(now)?.checked_sub(MARGIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permit_near_its_end_allows_no_write() {
        assert_eq!(Permit::until(1, Instant::now() + MARGIN / 2).timeout(), None);
        assert_eq!(Permit::until(1, Instant::now()).timeout(), None);
    }

    #[test]
    fn a_write_ends_before_its_permit() {
        let timeout = Permit::until(1, Instant::now() + Duration::from_secs(3)).timeout().unwrap();
        assert!(timeout < Duration::from_secs(3));
        assert_eq!(Permit::unlimited().timeout(), Some(WRITE_TIMEOUT));
    }

    #[test]
    fn a_permit_that_was_over_once_is_over_for_all_who_have_it() {
        let (now, soon) = (Instant::now(), Duration::from_secs(3));
        let permit = Permit::until(7, now + soon);
        let copy = permit.clone();
        assert!(permit.extend(now + 2 * soon) && copy.timeout() > Some(soon) && copy.term() == 7);
        permit.end();
        assert!(copy.is_over() && !permit.extend(now + 3 * soon) && copy.is_over());
        let late = Permit::until(8, now);
        assert!(!late.extend(now + soon) && late.is_over(), "it was too late to write for a moment");
    }
}
