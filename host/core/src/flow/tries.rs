//! Counts the failed tries of one parent since its last success or change, and whether the host has stopped retrying
//! it. Pure.

/// The tries of one parent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tries {
    failed: u32,
    /// Fingerprint of what is tried: the parent without its status, the plugin, its configuration and its grant.
    basis: u64,
    stalled: Option<RetriesExhausted>,
}

/// Why a parent is not tried again before it changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetriesExhausted {
    /// Why the last try failed, in one word.
    pub reason: &'static str,
    /// Fingerprint of the labels and annotations at that time. A user asks for another try by changing one of them.
    marks: u64,
}

impl Tries {
    /// Resets the count where what is tried has changed. Returns whether the parent was stalled until now.
    pub fn begin(&mut self, basis: u64, marks: u64) -> bool {
        let is_touched = self.stalled.is_some_and(|stalled| stalled.marks != marks);
        if self.basis == basis && !is_touched {
            return false;
        }
        let before = std::mem::replace(self, Self { basis, ..Self::default() });
        before.stalled.is_some()
    }

    /// Counts a failed try.
    pub fn count(&mut self) {
        self.failed = self.failed.saturating_add(1);
    }

    /// Returns how many tries failed.
    pub fn made(&self) -> u32 {
        self.failed
    }

    /// Stalls the parent for this reason, or records that it is not stalled.
    pub fn stall(&mut self, reason: Option<&'static str>, marks: u64) {
        self.stalled = reason.map(|reason| RetriesExhausted { reason, marks });
    }

    /// Returns why the parent is not tried again, if so.
    pub fn stalled(&self) -> Option<RetriesExhausted> {
        self.stalled
    }

    /// Forgets the failures: the parent was reconciled.
    pub fn succeed(&mut self) {
        (self.failed, self.stalled) = (0, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(times: u32) -> Tries {
        let mut tries = Tries::default();
        assert!(!tries.begin(1, 1), "it is new, and was never stalled");
        (0..times).for_each(|_| tries.count());
        tries
    }

    #[test]
    fn tries_begin_anew_when_the_object_or_its_plugin_changes_and_after_a_success() {
        let mut tries = tried(3);
        assert!(!tries.begin(1, 1));
        assert_eq!(tries.made(), 3);
        assert!(!tries.begin(2, 1));
        assert_eq!(tries.made(), 0);
        tries.count();
        tries.succeed();
        assert_eq!(tries.made(), 0);
    }

    #[test]
    fn to_touch_a_label_or_annotation_asks_a_stalled_object_for_another_try_and_no_other() {
        let mut tries = tried(3);
        assert!(!tries.begin(1, 2), "other controllers may change its annotations every second");
        assert_eq!(tries.made(), 3);
        tries.stall(Some("Trapped"), 2);
        assert!(!tries.begin(1, 2));
        assert_eq!(tries.stalled().map(|stalled| stalled.reason), Some("Trapped"));
        assert!(tries.begin(1, 3), "it was stalled");
        assert_eq!((tries.made(), tries.stalled()), (0, None));
    }

    #[test]
    fn what_was_stalled_is_so_no_more_after_a_change_or_a_success() {
        let mut tries = tried(1);
        tries.stall(Some("Rejected"), 1);
        assert!(tries.begin(2, 1));
        tries.stall(Some("Rejected"), 1);
        tries.succeed();
        assert!(tries.stalled().is_none() && !tries.begin(3, 1));
    }
}
