//! Choices that look random and are the same in every run.

/// A sequence of choices.
#[derive(Clone, Debug)]
pub(super) struct Choices(u64);

impl Choices {
    /// Begins the sequence of this number.
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number, by SplitMix64: <https://prng.di.unimi.it/splitmix64.c>.
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Chooses a number from `least` to `most`, both included.
    pub(super) fn between(&mut self, least: usize, most: usize) -> usize {
        let count = most.saturating_sub(least).saturating_add(1) as u64;
        least.saturating_add(usize::try_from(self.next() % count.max(1)).unwrap_or(0))
    }

    /// Returns true once in so many times.
    pub(super) fn once_in(&mut self, times: u64) -> bool {
        self.next().is_multiple_of(times)
    }

    /// Chooses one of several; none if there is none.
    pub(super) fn of<'a, T>(&mut self, several: &'a [T]) -> Option<&'a T> {
        several.get(self.between(0, several.len().saturating_sub(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_chooses_the_same_and_all_that_may_be_chosen_is() {
        let choose = |seed| {
            let mut choices = Choices::new(seed);
            (0..100).map(|_| choices.between(3, 7)).collect::<Vec<_>>()
        };
        assert_eq!(choose(1), choose(1));
        assert_ne!(choose(1), choose(2));
        for number in 3..=7 {
            assert!(choose(1).contains(&number), "{number}");
        }
        assert!(choose(1).iter().all(|number| (3..=7).contains(number)));
        assert_eq!(Choices::new(1).of::<u8>(&[]), None);
    }
}
