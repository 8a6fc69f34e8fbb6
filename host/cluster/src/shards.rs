//! The shards of a host: which of them it holds, and with which permit. [Leases](crate::lease) decide that.
//!
//! A shard is a part of the parents: all parents of some plugins, or some parents of a plugin. Without leases there is
//! one shard, which is held for ever.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::identity::Permit;
use hotshoe_core::flow::boot_time::BootTime;
use hotshoe_core::flow::shards::shard_of;
use hotshoe_core::model::kind::Key;

/// The shards of a host.
pub struct Shards {
    shards: Vec<Arc<Shard>>,
    /// Changed whenever a shard is acquired or lost.
    changes: watch::Sender<()>,
}

/// One shard.
pub struct Shard {
    held: Mutex<Held>,
    /// The number of running reconciles in the shard.
    running: watch::Sender<usize>,
}

/// How a shard is held.
#[derive(Default)]
struct Held {
    permit: Option<Permit>,
    /// The term of the Lease of the shard.
    term: u64,
    /// How often the shard was acquired.
    count: u64,
    /// Whether the shard is being drained, so that no reconcile begins.
    is_draining: bool,
}

/// A running reconcile in a held shard, until this is dropped.
pub struct RunningReconcile {
    shard: Arc<Shard>,
    /// The permit for the writes of the reconcile.
    pub permit: Permit,
}

impl Drop for RunningReconcile {
    fn drop(&mut self) {
        self.shard.running.send_modify(|running| *running = running.saturating_sub(1));
    }
}

impl Shards {
    /// Creates the only shard of a host without Leases, which is always held.
    pub fn alone() -> Self {
        let shards = Self::new(1);
        shards.shards.iter().for_each(|shard| shard.held.lock().permit = Some(Permit::unlimited()));
        shards
    }

    /// Creates shards that are not held yet.
    pub fn new(count: usize) -> Self {
        let shard = || Arc::new(Shard { held: Mutex::default(), running: watch::Sender::new(0) });
        Self { shards: std::iter::repeat_with(shard).take(count.max(1)).collect(), changes: watch::Sender::new(()) }
    }

    /// Returns the number of shards.
    pub fn count(&self) -> usize {
        self.shards.len()
    }

    /// Returns the shard of all parents of a plugin.
    pub fn of_plugin(&self, plugin: &str) -> usize {
        shard_of(plugin, self.shards.len())
    }

    /// Returns the shard of a parent of a plugin whose parents are spread.
    pub fn of_parent(&self, key: &Key) -> usize {
        match self.shards.len() {
            1 => 0,
            count => shard_of(&key.to_string(), count),
        }
    }

    /// Begins a reconcile in a shard; `None` if the shard is not held.
    pub fn enter(&self, shard: usize) -> Option<RunningReconcile> {
        let shard = self.shards.get(shard)?;
        let held = shard.held.lock();
        let permit = held.permit.clone().filter(|permit| !held.is_draining && !permit.is_over())?;
        // Counted under the lock: a drain then either waits for this reconcile, or was seen here and no reconcile
        // begins.
        shard.running.send_modify(|running| *running += 1);
        Some(RunningReconcile { shard: shard.clone(), permit })
    }

    /// Returns the permit of a shard that is held.
    pub fn permit(&self, shard: usize) -> Option<Permit> {
        self.shards.get(shard)?.permit()
    }

    /// Returns a receiver that wakes up whenever a shard is acquired or lost.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Holds a shard until `deadline`, in this term of its Lease. Returns whether the shard was newly acquired.
    pub(super) fn hold(&self, number: usize, term: u64, deadline: BootTime) -> bool {
        let Some(shard) = self.shards.get(number) else { return false };
        let mut held = shard.held.lock();
        let continues = held.term == term && held.permit.as_ref().is_some_and(|permit| permit.extend(deadline));
        if !continues {
            let permit = Permit::until(held.count + 1, deadline);
            if permit.is_over() {
                // It is too late to write, so the shard counts as lost until its Lease is renewed.
                drop(held);
                self.lose(number);
                return false;
            }
            held.count += 1;
            let before = held.permit.replace(permit);
            before.iter().for_each(Permit::end);
            (held.term, held.is_draining) = (term, false);
            drop(held);
            self.changes.send_replace(());
        }
        !continues
    }

    /// Stops holding a shard. Returns whether it was held.
    pub(super) fn lose(&self, shard: usize) -> bool {
        let Some(shard) = self.shards.get(shard) else { return false };
        let mut held = shard.held.lock();
        held.is_draining = false;
        let before = held.permit.take();
        before.iter().for_each(Permit::end);
        drop(held);
        if before.is_some() {
            self.changes.send_replace(());
        }
        before.is_some()
    }

    /// Begins no more reconciles in a shard, and waits until none is running.
    pub(super) async fn drain(&self, shard: usize) {
        let Some(shard) = self.shards.get(shard) else { return };
        shard.held.lock().is_draining = true;
        // The shard holds the sender, so the channel is open.
        drop(shard.running.subscribe().wait_for(|running| *running == 0).await);
    }
}

impl Shard {
    fn permit(&self) -> Option<Permit> {
        self.held.lock().permit.clone().filter(|permit| !permit.is_over())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::boot_clock;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_host_that_is_the_only_one_holds_its_shard_for_ever() {
        let shards = Shards::alone();
        assert_eq!((shards.count(), shards.of_plugin("any"), shards.of_parent(&Key::new(None, "any"))), (1, 0, 0));
        assert!(shards.enter(0).is_some_and(|running| running.permit.term() == 0 && !running.permit.is_over()));
    }

    #[test]
    fn a_reconcile_of_one_term_has_no_permit_in_the_next() {
        let shards = Shards::new(2);
        assert!(shards.enter(0).is_none() && shards.permit(0).is_none());
        let deadline = boot_clock::now() + LONG;
        assert!(shards.hold(0, 1, deadline));
        let running = shards.enter(0).unwrap();
        assert!(shards.enter(1).is_none(), "the other shard is not held");
        assert!(!shards.hold(0, 1, deadline + LONG), "the term goes on");
        assert_eq!(running.permit.deadline(), Some(deadline + LONG));
        assert!(shards.hold(0, 2, deadline));
        assert!(running.permit.is_over());
        assert_ne!(shards.enter(0).unwrap().permit.term(), running.permit.term());
        assert!(shards.lose(0) && !shards.lose(0));
        assert!(shards.enter(0).is_none());
    }

    #[test]
    fn a_permit_that_was_over_for_a_moment_is_followed_by_one_of_another_term() {
        let shards = Shards::new(1);
        assert!(shards.hold(0, 1, boot_clock::now() + LONG));
        let running = shards.enter(0).unwrap();
        assert!(!shards.hold(0, 1, boot_clock::now()), "the permit ends");
        assert!(shards.enter(0).is_none() && running.permit.is_over());
        assert!(!shards.hold(0, 1, boot_clock::now()), "and stays over");
        assert!(shards.hold(0, 1, boot_clock::now() + LONG));
        assert_eq!(shards.enter(0).unwrap().permit.term(), 2);
        assert!(running.permit.is_over());
    }

    #[tokio::test]
    async fn a_drained_shard_begins_no_reconcile_and_waits_for_running_ones() {
        let shards = Shards::new(1);
        shards.hold(0, 1, boot_clock::now() + LONG);
        let running = shards.enter(0).unwrap();
        let mut drain = Box::pin(shards.drain(0));
        assert!(futures::poll!(&mut drain).is_pending());
        assert!(shards.enter(0).is_none());
        assert!(!running.permit.is_over(), "the running reconcile may finish");
        drop(running);
        drain.await;
    }
}
