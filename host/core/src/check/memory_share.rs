//! The memory that all plugins share: accounts for what each plugin holds, and decides which plugin may hold more.
//! Pure.
//!
//! Each plugin has limits of its own, but their sum may exceed the container's memory. Then the kernel would kill the
//! host and all plugins with it. So one half of the memory is divided equally: within its share a plugin is never
//! refused, whatever the others do. Of the other half a plugin may hold at most as much as it leaves free. So the
//! plugin that holds most is refused first, the sum of what was admitted never exceeds the memory, and a plugin that
//! comes late still finds room.
//!
//! Objects that a plugin watches are held without being asked for. Nothing of them can be refused, but they count: a
//! plugin that reads more than its share is refused everything else. But the users of one namespace write only a part of
//! them, so of one namespace no more counts than its [part](super::namespace_share), except for its own parents. What
//! is held all the same is bounded by a reserve beside the memory that is shared.
//!
//! Only native code may take all that is left of the other half: else a plugin that holds as much as it may could not be
//! replaced by a revision that needs less.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::RwLock;

use crate::model::kind::Namespace;
use crate::model::limits::Size;

/// The purpose for which memory is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The native code of the plugin's revisions.
    Code,
    /// The cached parents, with their status.
    Parents,
    /// The cached children.
    Children,
    /// The cached objects that the plugin reads but does not own. Those that several plugins read count for each of
    /// them in full.
    Reads,
    /// The objects that are fetched for decisions in progress.
    Fetched,
    /// The linear memories of running calls.
    Calls,
    /// The last decisions about each parent, for those who ask why it is as it is.
    Explained,
}

/// All parts.
pub const PARTS: [Part; 7] =
    [Part::Code, Part::Parents, Part::Children, Part::Reads, Part::Fetched, Part::Calls, Part::Explained];

impl Part {
    /// Returns the part's name in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Part::Code => "code",
            Part::Parents => "parents",
            Part::Children => "children",
            Part::Reads => "reads",
            Part::Fetched => "fetched",
            Part::Calls => "calls",
            Part::Explained => "explained",
        }
    }
}

/// The memory that the host holds for one plugin.
#[derive(Debug, Default)]
struct Held {
    /// The bytes for each [`Part`].
    parts: [AtomicUsize; PARTS.len()],
    /// How many of these bytes namespaces hold beyond their parts.
    excess: RwLock<Vec<(Namespace, usize)>>,
}

impl Held {
    fn of(&self, part: Part) -> &AtomicUsize {
        let [code, parents, children, reads, fetched, calls, explained] = &self.parts;
        match part {
            Part::Code => code,
            Part::Parents => parents,
            Part::Children => children,
            Part::Reads => reads,
            Part::Fetched => fetched,
            Part::Calls => calls,
            Part::Explained => explained,
        }
    }

    fn sum(&self) -> usize {
        self.parts.iter().map(|part| part.load(Ordering::Relaxed)).fold(0, usize::saturating_add)
    }

    /// Returns the bytes without those that namespaces other than these hold beyond their parts.
    fn counted_for(&self, namespaces: &[Namespace]) -> usize {
        let excess = self.excess.read();
        let excess = excess.iter().filter(|(namespace, _)| !namespaces.contains(namespace)).map(|(_, bytes)| *bytes);
        self.sum().saturating_sub(excess.fold(0, usize::saturating_add))
    }
}

/// The memory that all plugins share.
#[derive(Debug)]
pub struct SharedMemory {
    most: usize,
    held: RwLock<BTreeMap<Arc<str>, Arc<Held>>>,
}

/// The account of one plugin's part of the shared memory; cheap to clone.
#[derive(Clone, Debug)]
pub struct Account {
    plugin: Arc<str>,
    shared: Arc<SharedMemory>,
    held: Arc<Held>,
}

/// Memory that an account holds until the charge is dropped.
#[derive(Debug)]
pub struct Charge {
    account: Account,
    part: Part,
    bytes: usize,
}

/// The refusal of memory to a plugin that would hold more than it may hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the plugin needs {more} more bytes of memory, but it holds {held} and may hold {may} of the {most} that all \
     plugins share ({by_plugin}); have it return less and ask for fewer fields, or give the host more memory: \
     raise the limit of its container, or `--memory`"
)]
#[expect(missing_docs, reason = "the message names each field")]
pub struct NoShare {
    pub more: usize,
    pub held: usize,
    pub may: usize,
    pub most: usize,
    pub by_plugin: ByPlugin,
}

/// The bytes that each plugin holds, the plugin with most bytes first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByPlugin(pub Vec<(Arc<str>, usize)>);

/// The maximum number of plugins that a message names.
const MAX_NAMED_PLUGINS: usize = 3;

impl fmt::Display for ByPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (plugin, held)) in self.0.iter().take(MAX_NAMED_PLUGINS).enumerate() {
            write!(f, "{}{plugin} {held}", if place == 0 { "" } else { ", " })?;
        }
        match self.0.len().saturating_sub(MAX_NAMED_PLUGINS) {
            0 => Ok(()),
            others => write!(f, ", and {others} others hold less"),
        }
    }
}

/// The reserve for what namespaces hold beyond their parts, as a divisor of the memory that is shared.
const RESERVE: usize = 8;

/// Computes how much a plugin may hold, from what it holds, what each other plugin holds, and what all may hold.
type Rule = fn(usize, &[usize], usize) -> usize;

/// Returns how much a plugin may hold. `own` is what the plugin holds now, `others` what each other plugin holds now,
/// and `most` what all plugins together may hold.
pub fn may_hold(own: usize, others: &[usize], most: usize) -> usize {
    let (share, left) = share_and_left(own, others, most);
    // Beyond its share a plugin may hold as much of the common half as it then leaves free.
    share + left / 2
}

/// Returns how much a plugin may hold after native code is added; the arguments are those of [`may_hold`].
fn may_hold_with_code(own: usize, others: &[usize], most: usize) -> usize {
    let (share, left) = share_and_left(own, others, most);
    share + left
}

/// Returns a plugin's share, and how much of the common half the others leave to it.
fn share_and_left(own: usize, others: &[usize], most: usize) -> (usize, usize) {
    let plugins = others.len() + 1;
    let share = most / (2 * plugins);
    let beyond = |held: usize| held.saturating_sub(share);
    let common = most - share * plugins;
    let taken = others.iter().map(|held| beyond(*held)).fold(beyond(own), usize::saturating_add);
    (share, common.saturating_sub(taken).saturating_add(beyond(own)))
}

impl Default for SharedMemory {
    /// Returns a memory without a limit, for commands that run without a host.
    fn default() -> Self {
        Self::new(usize::MAX)
    }
}

impl SharedMemory {
    /// Creates the memory of a host whose plugins together may hold `most` bytes.
    pub fn new(most: usize) -> Self {
        Self { most, held: RwLock::default() }
    }

    /// Returns how many bytes all plugins together may hold; `None` where there is no limit.
    pub fn most(&self) -> Option<usize> {
        (self.most < usize::MAX).then_some(self.most)
    }

    /// Returns whether all plugins together may hold `more` additional bytes, with all that namespaces hold beyond
    /// their parts. For that there is a reserve beside the memory that is shared.
    fn has_reserve(&self, more: usize) -> bool {
        let held = self.held.read().values().map(|held| held.sum()).fold(more, usize::saturating_add);
        held <= self.most.saturating_add(self.most / RESERVE)
    }

    /// Returns the account of a plugin. From then on the plugin has a share.
    pub fn account(self: &Arc<Self>, plugin: &Arc<str>) -> Account {
        let held = self.held.write().entry(plugin.clone()).or_default().clone();
        Account { plugin: plugin.clone(), shared: self.clone(), held }
    }

    /// Removes a plugin; its share becomes free for the others.
    pub fn forget(&self, plugin: &str) {
        self.held.write().remove(plugin);
    }

    fn by_plugin(&self) -> ByPlugin {
        let mut all: Vec<_> = self.held.read().iter().map(|(plugin, held)| (plugin.clone(), held.sum())).collect();
        all.sort_by(|(a, x), (b, y)| y.cmp(x).then_with(|| a.cmp(b)));
        ByPlugin(all)
    }
}

impl Default for Account {
    /// Returns the account of a plugin that shares with no other and has no limit.
    fn default() -> Self {
        Arc::new(SharedMemory::default()).account(&"".into())
    }
}

impl Account {
    /// Returns how many bytes the plugin holds.
    pub fn held(&self) -> usize {
        self.held.sum()
    }

    /// Returns how many bytes the plugin holds for this part.
    pub fn held_for(&self, part: Part) -> usize {
        self.held.of(part).load(Ordering::Relaxed)
    }

    /// Returns how many bytes the plugin may hold now; `None` where there is no limit.
    pub fn may_hold(&self) -> Option<usize> {
        self.limit(may_hold)
    }

    fn limit(&self, rule: Rule) -> Option<usize> {
        Some(self.limit_beside(rule, self.held(), self.shared.most()?, Held::sum))
    }

    /// Returns how much the plugin may hold if it holds `own` bytes, and the others so much.
    fn limit_beside(&self, rule: Rule, own: usize, most: usize, of_other: impl Fn(&Held) -> usize) -> usize {
        let held = self.shared.held.read();
        let others = held.iter().filter(|(plugin, _)| **plugin != self.plugin).map(|(_, held)| of_other(held));
        rule(own, &others.collect::<Vec<_>>(), most)
    }

    /// Sets how many bytes the plugin holds for this part.
    pub fn set(&self, part: Part, bytes: usize) {
        self.held.of(part).store(bytes, Ordering::Relaxed);
    }

    /// Sets which namespaces hold more of the plugin's memory than their parts, and by how many bytes.
    pub fn set_excess(&self, excess: Vec<(Namespace, usize)>) {
        *self.held.excess.write() = excess;
    }

    /// Returns a charge for this part that holds nothing until it is raised.
    pub fn charge(&self, part: Part) -> Charge {
        Charge { account: self.clone(), part, bytes: 0 }
    }

    /// Checks that the plugin may hold `more` additional bytes.
    ///
    /// # Errors
    /// When it may not.
    pub fn admit(&self, more: usize) -> Result<(), NoShare> {
        self.admit_by(may_hold, more, None)
    }

    /// Checks that the plugin may hold `more` additional bytes for the objects of these namespaces. What others hold
    /// beyond their parts does not count.
    ///
    /// # Errors
    /// When it may not.
    pub fn admit_for(&self, namespaces: &[Namespace], more: usize) -> Result<(), NoShare> {
        self.admit_by(may_hold, more, Some(namespaces))
    }

    fn admit_by(&self, rule: Rule, more: usize, namespaces: Option<&[Namespace]>) -> Result<(), NoShare> {
        let (Some(may), held) = (self.limit(rule), self.held()) else { return Ok(()) };
        if more == 0 || held.saturating_add(more) <= may {
            return Ok(());
        }
        if let Some(namespaces) = namespaces
            && self.fits_without_excess(rule, more, namespaces)
        {
            return Ok(());
        }
        Err(NoShare { more, held, may, most: self.shared.most, by_plugin: self.shared.by_plugin() })
    }

    /// Returns whether the plugin may hold `more` additional bytes for these namespaces. Of each other namespace, no
    /// more than its part counts as held.
    fn fits_without_excess(&self, rule: Rule, more: usize, namespaces: &[Namespace]) -> bool {
        let own = self.held.counted_for(namespaces);
        let may = self.limit_beside(rule, own, self.shared.most, |other| other.counted_for(namespaces));
        own.saturating_add(more) <= may && self.shared.has_reserve(more)
    }
}

impl Charge {
    /// Adds `more` bytes to the charge.
    pub fn raise(&mut self, more: usize) {
        self.bytes = self.bytes.saturating_add(more);
        self.account.held.of(self.part).fetch_add(more, Ordering::Relaxed);
    }

    /// Checks that the charge's account may hold `more` additional bytes.
    ///
    /// # Errors
    /// When it may not.
    pub fn check(&self, more: usize) -> Result<(), NoShare> {
        let rule = if self.part == Part::Code { may_hold_with_code } else { may_hold };
        // Calls, what they fetch, and code belong to no namespace.
        self.account.admit_by(rule, more, Some(&[]))
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.held.of(self.part).fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Returns what all plugins together may hold, for a given memory limit of the host's process: three quarters of it.
/// The rest is for the host itself and for memory that is not accounted: lists and replies that are being read, bodies
/// of writes, and what the allocator keeps.
pub fn budget(limit: Size) -> usize {
    limit.bytes() / 4 * 3
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn plugins_share_three_quarters_of_the_processs_memory() {
        assert_eq!(budget(Size(96 << 20)), 72 << 20);
    }

    #[test]
    fn a_single_plugin_may_hold_three_quarters_and_one_of_ten_three_tenths() {
        assert_eq!(may_hold(0, &[], 1_000), 750);
        assert_eq!(may_hold(0, &[0], 1_000), 500);
        assert_eq!(may_hold(0, &[0; 9], 1_000), 300);
    }

    #[test]
    fn a_heavy_plugin_is_refused_and_its_neighbours_are_not() {
        let memory = Arc::new(SharedMemory::new(1_000));
        let [heavy, light] = ["heavy", "light"].map(|name| memory.account(&name.into()));
        heavy.set(Part::Parents, 480);
        let refused = heavy.admit(30).unwrap_err();
        assert_eq!((refused.held, refused.may, refused.most), (480, 500, 1_000));
        assert!(refused.to_string().contains("heavy 480, light 0") && refused.to_string().contains("--memory"));
        assert_eq!((heavy.admit(10), heavy.admit(0), light.admit(250)), (Ok(()), Ok(()), Ok(())));
        heavy.set(Part::Parents, 100);
        assert_eq!(heavy.admit(30), Ok(()));
        heavy.set(Part::Parents, 480);
        memory.forget("light");
        assert_eq!(heavy.admit(30), Ok(()), "the share of a plugin that is gone is free");
    }

    #[test]
    fn each_part_has_a_name_and_an_amount_of_its_own() {
        assert_eq!(PARTS.map(Part::as_str), ["code", "parents", "children", "reads", "fetched", "calls", "explained"]);
        let account = Account::default();
        for (place, part) in PARTS.into_iter().enumerate() {
            account.set(part, 1 << place);
        }
        assert_eq!(PARTS.map(|part| account.held_for(part)), [1, 2, 4, 8, 16, 32, 64]);
        assert_eq!(account.held(), 127);
    }

    #[test]
    fn what_is_charged_is_held_until_the_charge_is_dropped() {
        let account = Arc::new(SharedMemory::new(1_000)).account(&"one".into());
        let mut charge = account.charge(Part::Calls);
        assert_eq!(charge.check(700), Ok(()));
        charge.raise(700);
        assert!(charge.check(100).is_err());
        assert_eq!((account.held(), account.held_for(Part::Calls)), (700, 700));
        drop(charge);
        assert_eq!(account.held(), 0);
    }

    #[test]
    fn a_plugin_that_holds_all_that_it_may_can_load_another_revision() {
        let memory = Arc::new(SharedMemory::new(1_000));
        let [full, light] = ["full", "light"].map(|name| memory.account(&name.into()));
        full.set(Part::Code, 100);
        full.set(Part::Children, 400);
        assert!(full.admit(1).is_err() && full.charge(Part::Calls).check(1).is_err());
        assert_eq!(full.charge(Part::Code).check(250), Ok(()));
        assert_eq!(full.charge(Part::Code).check(251).unwrap_err().may, 750);
        // Nothing of another plugin's share is taken.
        let mut code = full.charge(Part::Code);
        code.raise(250);
        assert_eq!(light.admit(250), Ok(()));
    }

    #[test]
    fn what_a_namespace_holds_beyond_its_part_counts_against_no_other_namespace_and_no_other_plugin() {
        let memory = Arc::new(SharedMemory::new(8_000));
        let [used, other] = ["used", "other"].map(|name| memory.account(&name.into()));
        used.set(Part::Children, 6_000);
        other.set(Part::Parents, 2_400);
        let one = || [Some("n".into())];
        assert!(used.admit_for(&one(), 100).is_err() && other.admit_for(&one(), 100).is_err());
        used.set_excess(vec![(Some("greedy".into()), 4_000)]);
        assert_eq!((used.admit_for(&one(), 500), other.admit_for(&one(), 500)), (Ok(()), Ok(())));
        let greedy = [Some("n".into()), Some("greedy".into())];
        assert!(used.admit_for(&greedy, 100).is_err() && other.admit_for(&greedy, 100).is_err());
        assert_eq!((used.charge(Part::Calls).check(500), other.charge(Part::Calls).check(500)), (Ok(()), Ok(())));
        // All that is held stays within nine eighths of the memory that is shared.
        assert_eq!(used.admit_for(&one(), 600), Ok(()));
        assert_eq!(used.admit_for(&one(), 601).unwrap_err().held, 6_000);
    }

    #[test]
    fn without_a_limit_nothing_is_refused() {
        assert_eq!(Account::default().admit(usize::MAX), Ok(()));
        assert_eq!(Account::default().may_hold(), None);
    }

    #[test]
    fn of_many_plugins_the_heaviest_are_named() {
        let named = ByPlugin(["a", "b", "c", "d", "e"].map(|name| (name.into(), 1)).to_vec()).to_string();
        assert_eq!(named, "a 1, b 1, c 1, and 2 others hold less");
    }

    /// Generates steps: a plugin, a number of bytes, whether the plugin releases them instead of asking for them, and
    /// whether it asks for code.
    fn steps() -> impl Strategy<Value = Vec<(usize, usize, bool, bool)>> {
        prop::collection::vec((0_usize..8, 0_usize..400, any::<bool>(), any::<bool>()), 1..200)
    }

    proptest! {
        #[test]
        fn the_sum_never_exceeds_the_memory_and_no_plugin_is_refused_its_share(
            plugins in 1_usize..8, most in 0_usize..2_000, steps in steps(),
        ) {
            let mut held = vec![0; plugins];
            let share = most / (2 * plugins);
            for (plugin, bytes, releases, is_code) in steps {
                let plugin = plugin % plugins;
                if releases {
                    held[plugin] -= bytes.min(held[plugin]);
                    continue;
                }
                let others: Vec<_> = (0..plugins).filter(|other| *other != plugin).map(|other| held[other]).collect();
                let limit = if is_code { may_hold_with_code } else { may_hold };
                let may = limit(held[plugin], &others, most);
                prop_assert!(may >= share);
                if held[plugin] + bytes <= may {
                    held[plugin] += bytes;
                }
                prop_assert!(held.iter().sum::<usize>() <= most, "{:?} of {}", held, most);
            }
        }

        #[test]
        fn who_holds_more_has_less_room(held in prop::collection::vec(0_usize..500, 2..8), most in 1_usize..2_000) {
            let room = |plugin: usize| {
                let others: Vec<_> = (0..held.len()).filter(|other| *other != plugin).map(|other| held[other]).collect();
                may_hold(held[plugin], &others, most).saturating_sub(held[plugin])
            };
            for (light, heavy) in (0..held.len()).flat_map(|a| (0..held.len()).map(move |b| (a, b))) {
                if held[light] <= held[heavy] {
                    prop_assert!(room(light) >= room(heavy), "{:?}", held);
                }
            }
        }

        #[test]
        fn a_plugin_that_comes_late_finds_its_share_though_all_others_take_all_that_they_may(
            others in prop::collection::vec(0_usize..4_000, 1..7), most in 100_usize..2_000,
        ) {
            let mut held = vec![0; others.len()];
            for (plugin, wanted) in others.iter().enumerate() {
                let rest: Vec<_> = (0..held.len()).filter(|other| *other != plugin).map(|other| held[other]).chain([0]).collect();
                held[plugin] = (*wanted).min(may_hold(0, &rest, most));
            }
            let share = most / (2 * (held.len() + 1));
            prop_assert!(may_hold(0, &held, most) >= share);
            prop_assert!(held.iter().sum::<usize>() + share <= most);
        }
    }
}
