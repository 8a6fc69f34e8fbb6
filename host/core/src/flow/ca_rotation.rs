//! When the CA of the webhooks is replaced, so that no API server ever meets a certificate of a CA that it does not
//! trust yet, or no longer.
//!
//! ```text
//! made ─▶ in the bundle ──TRUSTED_AFTER──▶ signs ──▶ its successor signs: the key goes
//!                                                └──LEAF_LIFETIME──▶ leaves the bundle
//! ```
//!
//! Nothing is stored but the CAs themselves: a CA was made, and so published, [`CLOCK_SKEW`] after it becomes valid.
//! Every replica computes the same from the same CAs. Times are seconds since the epoch.

const HOUR: u64 = 60 * 60;
const DAY: u64 = 24 * HOUR;

/// How long before it is made a certificate is valid: the clock of an API server may be as much slower. Let's Encrypt
/// does the same.
pub const CLOCK_SKEW: u64 = HOUR;
/// How long a CA is valid. A stolen key is of use no longer than that, and a host need not be there often to renew it.
pub const CA_LIFETIME: u64 = 365 * DAY;
/// How long before its end a CA gets a successor. A host may be away for a quarter of a year before the API server
/// trusts it no longer at its return.
pub const REPLACED_BEFORE: u64 = 90 * DAY;
/// How long a CA is in the bundle before it signs. The bundle is registered within seconds, and API servers follow
/// registrations by watch; a day leaves time to give the host a right that it lacks for that.
pub const TRUSTED_AFTER: u64 = DAY;
/// How long before its end a CA hands over at the latest, if its successor was made too late for [`TRUSTED_AFTER`].
pub const HANDED_OVER_BEFORE: u64 = HOUR;
/// How long a leaf is valid at most. It exists in the memory of one replica alone, which makes another at half of the
/// time; so an API server that is away for two weeks keeps no host from being trusted.
pub const LEAF_LIFETIME: u64 = 30 * DAY;
/// The maximum number of CAs. Two are there while one replaces another; more come only from the clocks of replicas
/// that differ, or from others who write the Secret.
pub const MAX_AUTHORITIES: usize = 4;

/// The time in which a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Validity {
    /// The first second.
    pub not_before: u64,
    /// The second after the last one.
    pub not_after: u64,
}

impl Validity {
    /// Returns the validity of a certificate that is made now, for so long.
    pub fn of_new(now: u64, lifetime: u64) -> Self {
        Self { not_before: now.saturating_sub(CLOCK_SKEW), not_after: now.saturating_add(lifetime) }
    }

    /// Returns the validity of a leaf that is made now and signed by a CA of this validity. It ends with the CA.
    #[must_use]
    pub fn of_leaf(self, now: u64) -> Self {
        let leaf = Self::of_new(now, LEAF_LIFETIME);
        Self { not_before: leaf.not_before.max(self.not_before), not_after: leaf.not_after.min(self.not_after) }
    }

    /// Returns whether a leaf of this validity is to be replaced: half of its time is over, or the clock was set back.
    pub fn is_to_be_renewed(self, now: u64) -> bool {
        let made = self.made();
        !self.contains(now) || now >= made.saturating_add(self.not_after.saturating_sub(made) / 2)
    }

    fn contains(self, now: u64) -> bool {
        self.not_before <= now && now < self.not_after
    }

    fn made(self) -> u64 {
        self.not_before.saturating_add(CLOCK_SKEW)
    }
}

/// A CA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Authority {
    /// When it is valid.
    pub validity: Validity,
    /// Whether its key is known, so that it can sign.
    pub has_key: bool,
}

/// A CA that stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Its place in the list.
    pub place: usize,
    /// Whether its key stays, too.
    pub with_key: bool,
}

/// What is to be done with the CAs at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Those that stay in the bundle, the oldest first.
    pub kept: Vec<Kept>,
    /// The place of the one that signs; `None` if another has to be made first.
    pub signer: Option<usize>,
    /// Whether a CA is to be made. It is added to those that stay, for which there is another plan then.
    pub is_one_due: bool,
    /// When something of this may change next, unless others write.
    pub until: u64,
}

/// A CA with its place in the list.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Placed {
    place: usize,
    authority: Authority,
}

impl Placed {
    fn validity(&self) -> Validity {
        self.authority.validity
    }
}

/// Returns what is to be done with CAs now.
pub fn plan(authorities: &[Authority], now: u64) -> Plan {
    let placed = authorities.iter().enumerate().map(|(place, authority)| Placed { place, authority: *authority });
    // One that is not valid yet was made by a clock that was wrong: no API server would accept it.
    let mut valid: Vec<Placed> = placed.filter(|placed| placed.validity().contains(now)).collect();
    valid.sort_by_key(Placed::validity);
    let turns = turns(valid.iter().filter(|placed| placed.authority.has_key));
    let signer = turns.iter().rev().find(|(_, from)| *from <= now).or(turns.first()).map(|(placed, _)| *placed);
    let kept = kept(&valid, signer, now);
    let newest = turns.last().map(|(newest, _)| newest.validity());
    let replaced_at = newest.map(|newest| newest.not_after.saturating_sub(REPLACED_BEFORE));
    let leave_at = signer.map(|signer| predecessors_leave_at(signer.validity()));
    let ends = valid.iter().map(|placed| placed.validity().not_after);
    let turning_points = turns.iter().map(|(_, from)| *from).chain(replaced_at).chain(leave_at).chain(ends);
    Plan {
        signer: signer.map(|signer| signer.place),
        is_one_due: replaced_at.is_none_or(|replaced_at| replaced_at <= now),
        until: turning_points.filter(|time| *time > now).min().unwrap_or(u64::MAX),
        kept,
    }
}

/// Returns from when on each of these CAs signs, of which the oldest is the first.
fn turns<'a>(able: impl Iterator<Item = &'a Placed>) -> Vec<(Placed, u64)> {
    let mut earlier: Option<Validity> = None;
    let turn = |placed: &Placed| {
        let validity = placed.validity();
        let from = earlier.map_or(validity.made(), |earlier| hand_over(earlier, validity));
        earlier = Some(validity);
        (*placed, from)
    };
    able.map(turn).collect()
}

/// Returns when a CA hands over to its successor. If there is too little time for the successor to become trusted, it
/// gets at least half of what there is.
fn hand_over(earlier: Validity, successor: Validity) -> u64 {
    let made = successor.made();
    let left = earlier.not_after.saturating_sub(made);
    let latest = earlier.not_after.saturating_sub(HANDED_OVER_BEFORE.min(left / 2));
    made.saturating_add(TRUSTED_AFTER).min(latest.max(made))
}

/// Returns when the last leaf has ended of the CAs to which this one succeeded, on whatever replica.
fn predecessors_leave_at(successor: Validity) -> u64 {
    successor.made().saturating_add(TRUSTED_AFTER + LEAF_LIFETIME)
}

/// Returns which of the valid CAs stay, the oldest first.
fn kept(valid: &[Placed], signer: Option<Placed>, now: u64) -> Vec<Kept> {
    let Some(signer) = signer else {
        // Replicas may still use leafs of a CA whose key was lost. The one that is to be made needs a place, too.
        let surplus = valid.len().saturating_sub(MAX_AUTHORITIES - 1);
        return valid.iter().skip(surplus).map(|placed| Kept { place: placed.place, with_key: false }).collect();
    };
    let is_earlier = |placed: &Placed| placed.validity() < signer.validity();
    let is_over = now >= predecessors_leave_at(signer.validity());
    let mut kept: Vec<&Placed> = valid.iter().filter(|placed| !(is_over && is_earlier(placed))).collect();
    let mut surplus = kept.len().saturating_sub(MAX_AUTHORITIES);
    kept.retain(|placed| {
        let goes = surplus > 0 && **placed != signer;
        surplus -= usize::from(goes);
        !goes
    });
    let with_key = |placed: &Placed| placed.authority.has_key && !is_earlier(placed);
    kept.into_iter().map(|placed| Kept { place: placed.place, with_key: with_key(placed) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;

    /// A host, or several, with a clock that the test sets.
    #[derive(Default)]
    struct World {
        authorities: Vec<Authority>,
        /// What signs, and since when its leaf is in use.
        leaf: Option<(Validity, Validity)>,
    }

    impl World {
        /// Does at this time what a replica does: carries out the plan, and renews its leaf.
        fn pass(&mut self, now: u64) -> Plan {
            let mut next = plan(&self.authorities, now);
            if next.is_one_due {
                self.keep(&next);
                let validity = Validity::of_new(now, CA_LIFETIME);
                self.authorities.push(Authority { validity, has_key: true });
                next = plan(&self.authorities, now);
                assert!(!next.is_one_due, "one is enough: {next:?}");
            }
            self.keep(&next);
            next = plan(&self.authorities, now);
            let signer = self.authorities[next.signer.expect("one signs")];
            assert!(signer.has_key && signer.validity.contains(now));
            let is_stale = |(by, leaf): &(Validity, Validity)| *by != signer.validity || leaf.is_to_be_renewed(now);
            if self.leaf.as_ref().is_none_or(is_stale) {
                self.leaf = Some((signer.validity, signer.validity.of_leaf(now)));
            }
            next
        }

        fn keep(&mut self, plan: &Plan) {
            let of = |kept: &Kept| Authority { has_key: kept.with_key, ..self.authorities[kept.place] };
            self.authorities = plan.kept.iter().map(of).collect();
        }

        fn bundle(&self) -> Vec<Validity> {
            self.authorities.iter().map(|authority| authority.validity).collect()
        }
    }

    fn authority(made: u64, lifetime: u64) -> Authority {
        Authority { validity: Validity::of_new(made, lifetime), has_key: true }
    }

    #[test]
    fn over_ten_years_no_leaf_is_of_a_ca_that_was_not_in_the_bundle_for_long_enough() {
        let mut world = World::default();
        let mut published: Vec<(Validity, u64)> = Vec::new();
        let (mut most, mut signers) = (0, std::collections::BTreeSet::new());
        for now in (NOW..NOW + 10 * 365 * DAY).step_by(6 * 60 * 60) {
            world.pass(now);
            let bundle = world.bundle();
            for validity in &bundle {
                if !published.iter().any(|(known, _)| known == validity) {
                    published.push((*validity, now));
                }
            }
            let (by, leaf) = world.leaf.unwrap();
            let since = published.iter().find(|(known, _)| *known == by).map(|(_, since)| *since).unwrap();
            assert!(bundle.contains(&by) && leaf.contains(now), "at {now}");
            assert!(signers.is_empty() || signers.contains(&by) || now >= since + TRUSTED_AFTER, "too early at {now}");
            signers.insert(by);
            most = most.max(bundle.len());
            assert!(world.authorities.iter().filter(|authority| authority.has_key).count() <= 2);
        }
        assert_eq!(most, 2);
        assert!((12..=15).contains(&signers.len()), "about one in nine months: {}", signers.len());
    }

    #[test]
    fn a_leaf_of_the_old_ca_that_a_cut_off_replica_still_uses_is_trusted_to_its_end() {
        let mut world = World::default();
        let (mut last_of_old, mut old_left) = (None, None);
        for now in (NOW..NOW + CA_LIFETIME).step_by(6 * 60 * 60) {
            world.pass(now);
            let first = Validity::of_new(NOW, CA_LIFETIME);
            if world.leaf.unwrap().0 == first {
                // The latest leaf that any replica may have of the first CA.
                last_of_old = Some(first.of_leaf(now));
            }
            if old_left.is_none() && !world.bundle().contains(&first) {
                old_left = Some(now);
            }
        }
        assert!(old_left.unwrap() >= last_of_old.unwrap().not_after);
        assert!(old_left.unwrap() < NOW + CA_LIFETIME - CLOCK_SKEW, "it does not stay until its own end");
    }

    #[test]
    fn a_ca_that_is_about_to_end_is_followed_by_one_that_was_in_the_bundle_before_it_signs() {
        for left in [10, 60, 30 * 60, 2 * HOUR, 10 * HOUR, 2 * DAY] {
            let old = authority(NOW - DAY, DAY + left);
            let mut world = World { authorities: vec![old], leaf: None };
            world.pass(NOW);
            assert_eq!(world.bundle(), [old.validity, Validity::of_new(NOW, CA_LIFETIME)], "{left}");
            assert_eq!(world.leaf.unwrap().0, old.validity, "{left}");
            let mut now = NOW;
            while world.leaf.unwrap().0 == old.validity {
                now = world.pass(now).until.max(now + 1);
            }
            let waited = world.leaf.unwrap().1.made() - NOW;
            assert!(waited >= (left / 2).min(TRUSTED_AFTER) && waited < left, "{left}: {waited}");
        }
    }

    #[test]
    fn a_clock_that_jumps_past_the_end_and_back_leaves_a_ca_that_is_valid() {
        let mut world = World::default();
        world.pass(NOW);
        let later = NOW + 3 * CA_LIFETIME;
        world.pass(later);
        assert_eq!(world.bundle(), [Validity::of_new(later, CA_LIFETIME)]);
        world.pass(NOW + DAY);
        assert_eq!(world.bundle(), [Validity::of_new(NOW + DAY, CA_LIFETIME)]);
        assert!(world.leaf.unwrap().1.contains(NOW + DAY));
    }

    #[test]
    fn without_a_usable_ca_one_is_made_and_signs_at_once() {
        let expired = authority(NOW - 2 * CA_LIFETIME, CA_LIFETIME);
        let keyless = Authority { has_key: false, ..authority(NOW - DAY, CA_LIFETIME) };
        for (before, trusted) in [(vec![], 1), (vec![expired], 1), (vec![keyless], 2), (vec![expired, keyless], 2)] {
            let mut world = World { authorities: before, leaf: None };
            world.pass(NOW);
            assert_eq!(world.bundle().len(), trusted);
            assert_eq!(world.leaf.unwrap().0, Validity::of_new(NOW, CA_LIFETIME));
        }
    }

    #[test]
    fn more_cas_than_there_can_be_are_dropped_but_never_the_one_that_signs() {
        let many: Vec<Authority> = (0..50).map(|number| authority(NOW + number - 40, CA_LIFETIME)).collect();
        let plan = plan(&many, NOW);
        assert_eq!(plan.kept.len(), MAX_AUTHORITIES);
        assert!(plan.kept.iter().any(|kept| Some(kept.place) == plan.signer && kept.with_key), "{plan:?}");
        let keyless: Vec<Authority> = many.iter().map(|authority| Authority { has_key: false, ..*authority }).collect();
        let mut world = World { authorities: keyless, leaf: None };
        world.pass(NOW);
        assert_eq!(world.bundle().len(), MAX_AUTHORITIES);
    }

    #[test]
    fn the_next_look_is_never_late() {
        let mut world = World::default();
        let mut now = NOW;
        while now < NOW + 3 * CA_LIFETIME {
            let (next, before) = (world.pass(now), world.authorities.clone());
            let just_before = super::plan(&world.authorities, next.until - 1);
            assert_eq!(
                (just_before.signer, &just_before.kept),
                (next.signer, &next.kept),
                "between {now} and its next"
            );
            assert!(!just_before.is_one_due && next.until > now, "{before:?}");
            now = next.until;
        }
    }

    #[test]
    fn no_time_at_all_overflows() {
        for made in [0, CLOCK_SKEW, u64::MAX - 1, u64::MAX] {
            for now in [0, made, u64::MAX] {
                let odd = Authority { validity: Validity { not_before: made, not_after: u64::MAX }, has_key: true };
                plan(&[odd, authority(now, CA_LIFETIME)], now);
                let short = Validity { not_before: made, not_after: 0 };
                assert!(odd.validity.of_leaf(now).not_after >= now && short.is_to_be_renewed(now));
            }
        }
    }
}
