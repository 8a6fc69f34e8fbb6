//! Divides the cache directory into shares, and chooses the files to evict from a full one.
//!
//! | share | of the whole | what is never evicted |
//! |---|---|---|
//! | components | a third | the fetched one, the active one and the one before it of each plugin |
//! | code of revisions that are to be active | a half | that of the active revisions |
//! | code that was only tried, as by a shadow run | a sixth | nothing |
//!
//! No share takes room from another: a user who sends many components to be tried evicts neither active code nor what a
//! rollback needs. The whole is the size that the administrator gave, but no more than the volume has. What does not fit
//! beside the files that are never evicted is not stored.

use crate::model::limits::{HISTORY_BYTES, Size};

/// A part of the cache directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// Components that were fetched, or are kept for a rollback.
    Components,
    /// Native code of revisions that were loaded to be active.
    ActiveCode,
    /// Native code that was compiled for a trial only.
    TriedCode,
}

impl Share {
    fn of(self, whole: u64) -> u64 {
        match self {
            Self::Components => whole / 3,
            Self::ActiveCode => whole / 2,
            Self::TriedCode => whole / 6,
        }
    }

    /// Returns how many bytes the share may have, when it holds `held` now. On a full volume the result is `held`:
    /// other programs that fill the disk must not evict what is stored already.
    pub fn bound(self, whole: Size, volume: Option<Volume>, held: u64) -> u64 {
        let share = self.most(whole, volume);
        let Some(volume) = volume else { return share };
        share.min(held.saturating_add(volume.free.saturating_sub(HISTORY_BYTES.0)))
    }

    /// Returns whether `more` bytes fit into the share once all files are evicted that are not needed.
    pub fn fits<T, Time>(self, whole: Size, volume: Option<Volume>, stored: &[Stored<T, Time>], more: u64) -> bool {
        let needed = stored.iter().filter(|stored| stored.is_needed).map(|stored| stored.bytes);
        needed.fold(more, u64::saturating_add) <= self.most(whole, volume)
    }

    fn most(self, whole: Size, volume: Option<Volume>) -> u64 {
        self.of(volume.map_or(whole.0, |volume| whole.0.min(volume.total)))
    }
}

/// A volume, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Volume {
    /// What it can hold.
    pub total: u64,
    /// What may still be written.
    pub free: u64,
}

/// A file of a share. Its time is only compared with those of other files.
#[derive(Clone, Debug)]
pub struct Stored<T, Time> {
    /// Which file.
    pub file: T,
    /// Its size on the disk, in bytes.
    pub bytes: u64,
    /// When it was used last.
    pub used: Time,
    /// Whether it must not be evicted.
    pub is_needed: bool,
}

/// The files to remove to make room in a share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eviction<T> {
    /// The files to remove.
    pub files: Vec<T>,
    /// Whether there is enough room once they are removed.
    pub suffices: bool,
}

/// Returns the files to evict so that `more` bytes fit into `bound`: the least recently used ones, and none that is
/// needed.
pub fn make_room<T, Time: Ord>(mut stored: Vec<Stored<T, Time>>, more: u64, bound: u64) -> Eviction<T> {
    let mut held: u64 = stored.iter().map(|stored| stored.bytes).sum();
    stored.retain(|stored| !stored.is_needed);
    stored.sort_by(|one, other| one.used.cmp(&other.used));
    let mut files = Vec::new();
    for old in stored {
        if held.saturating_add(more) <= bound {
            break;
        }
        held -= old.bytes;
        files.push(old.file);
    }
    Eviction { files, suffices: held.saturating_add(more) <= bound }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::limits::{CACHE_BYTES, COMPONENT_BYTES, NATIVE_BYTES};
    use crate::model::quantity::{GIB, MIB};

    const SHARES: [Share; 3] = [Share::Components, Share::ActiveCode, Share::TriedCode];

    fn stored(files: &[(u64, u64, bool)]) -> Vec<Stored<usize, u64>> {
        let stored = |(file, (bytes, used, is_needed)): (usize, &(u64, u64, bool))| Stored {
            file,
            bytes: *bytes,
            used: *used,
            is_needed: *is_needed,
        };
        files.iter().enumerate().map(stored).collect()
    }

    #[test]
    fn the_least_recently_used_is_evicted_first_and_no_more_than_necessary() {
        let files = [(10, 3, false), (10, 1, false), (10, 2, false)];
        let evicted = |more, bound| make_room(stored(&files), more, bound);
        assert_eq!(evicted(10, 40), Eviction { files: vec![], suffices: true });
        assert_eq!(evicted(1, 30), Eviction { files: vec![1], suffices: true });
        assert_eq!(evicted(11, 30), Eviction { files: vec![1, 2], suffices: true });
        assert_eq!(evicted(31, 30), Eviction { files: vec![1, 2, 0], suffices: false });
    }

    #[test]
    fn a_needed_file_is_not_evicted_but_counts() {
        let files = [(20, 1, true), (10, 2, false)];
        assert_eq!(make_room(stored(&files), 10, 30), Eviction { files: vec![1], suffices: true });
        assert_eq!(make_room(stored(&files), 20, 30), Eviction { files: vec![1], suffices: false });
    }

    #[test]
    fn what_fits_beside_the_needed_files_of_a_share_fits_however_full_the_volume_is() {
        let files = stored(&[(20, 1, true), (70, 2, false)]);
        let fits = |more, volume| Share::Components.fits(Size(300), volume, &files, more);
        assert!(fits(80, None) && !fits(81, None) && !fits(u64::MAX, None));
        let full = |total| Some(Volume { total, free: 0 });
        assert!(fits(80, full(300)) && fits(10, full(90)) && !fits(11, full(90)));
    }

    #[test]
    fn a_disk_that_others_filled_evicts_nothing() {
        let full = Some(Volume { total: 1000 * GIB, free: 0 });
        for share in SHARES {
            assert_eq!(share.bound(CACHE_BYTES, full, 5 * MIB), 5 * MIB, "{share:?}");
        }
    }

    #[test]
    fn on_a_small_volume_code_leaves_room_for_components_and_the_history() {
        let empty = Volume { total: 12 * MIB, free: 12 * MIB };
        let bounds = SHARES.map(|share| share.bound(CACHE_BYTES, Some(empty), 0));
        assert_eq!(bounds, [4 * MIB, 6 * MIB, 2 * MIB]);
        let nearly_full = Volume { free: 3 * MIB / 2, ..empty };
        assert_eq!(Share::ActiveCode.bound(CACHE_BYTES, Some(nearly_full), 0), MIB / 2);
    }

    #[test]
    fn by_default_two_revisions_of_the_largest_size_fit_and_half_as_many_that_are_tried() {
        let bound = |share: Share| share.bound(CACHE_BYTES, None, 0);
        assert!(bound(Share::Components) >= 2 * COMPONENT_BYTES.default.0);
        assert!(bound(Share::ActiveCode) >= 2 * NATIVE_BYTES.0 && bound(Share::TriedCode) >= NATIVE_BYTES.0);
    }

    #[test]
    fn the_host_as_it_is_deployed_leaves_a_quarter_of_its_volume() {
        let pod = include_str!("../../../../deploy/host.yaml.j2");
        let size_after = |key: &str| {
            let line = pod.split_once(key).unwrap().1.lines().find(|line| !line.is_empty()).unwrap();
            Size::parse(line.trim().trim_start_matches("value: ")).unwrap()
        };
        let (volume, whole) = (size_after("sizeLimit:"), size_after("name: HOTSHOE_CACHE_BYTES"));
        assert_eq!(4 * whole.0, 3 * volume.0, "{whole} of {volume}");
        let active = Share::ActiveCode.bound(whole, None, 0);
        assert!(active >= NATIVE_BYTES.0 && Share::Components.bound(whole, None, 0) >= 2 * COMPONENT_BYTES.default.0);
    }

    proptest! {
        #[test]
        fn a_share_never_outgrows_its_bound_except_by_needed_files(
            files in prop::collection::vec((0u64..100, 0u64..10, any::<bool>()), 0..20),
            more in 0u64..200,
            bound in 0u64..1000,
        ) {
            let eviction = make_room(stored(&files), more, bound);
            let left = files.iter().enumerate().filter(|(file, _)| !eviction.files.contains(file));
            let held: u64 = left.map(|(_, (bytes, ..))| bytes).sum();
            prop_assert_eq!(held + more <= bound, eviction.suffices);
            prop_assert!(eviction.files.iter().all(|file| !files[*file].2));
            let evictable = files.iter().filter(|(.., is_needed)| !is_needed).count();
            prop_assert!(eviction.suffices || eviction.files.len() == evictable);
        }

        #[test]
        fn the_shares_are_no_more_than_the_whole_nor_than_the_volume_has(
            whole in any::<u64>(), total in any::<u64>(), free in any::<u64>(), held in 0u64..GIB,
        ) {
            let volume = Volume { total, free: free.min(total) };
            let bounds = SHARES.map(|share| share.bound(Size(whole), Some(volume), held));
            let sum = bounds.iter().map(|bound| u128::from(*bound)).sum::<u128>();
            prop_assert!(sum <= u128::from(whole.min(total)));
            prop_assert!(bounds.iter().all(|bound| *bound <= held + volume.free));
        }
    }
}
