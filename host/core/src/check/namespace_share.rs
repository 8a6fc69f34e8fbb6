//! The memory that namespaces share: decides how much of what one namespace holds counts against the others. Pure.
//!
//! Namespaces share memory by the [rule](super::memory_share::may_hold) by which plugins do. But that rule refuses
//! growth only, and a user of a namespace may write objects that the host observes without having admitted them: large
//! parents, and objects that look like children of a parent of his own. If they counted in full, they would take the
//! part of memory that is common to all namespaces. So of each namespace counts no more than the rule would have
//! admitted, had the largest come first.

use std::collections::HashMap;

use crate::check::memory_share::may_hold;
use crate::model::kind::Namespace;

/// What each namespace holds, in bytes.
#[derive(Debug, Default)]
pub struct BytesByNamespace {
    sum: usize,
    by_namespace: HashMap<Namespace, usize>,
}

impl BytesByNamespace {
    /// Counts more bytes for a namespace.
    pub fn add(&mut self, namespace: &Namespace, bytes: usize) {
        self.sum = self.sum.saturating_add(bytes);
        *self.by_namespace.entry(namespace.clone()).or_default() += bytes;
    }

    /// Counts fewer bytes for a namespace; one that holds nothing is forgotten.
    pub fn subtract(&mut self, namespace: &Namespace, bytes: usize) {
        self.sum = self.sum.saturating_sub(bytes);
        if let Some(here) = self.by_namespace.get_mut(namespace) {
            *here = here.saturating_sub(bytes);
            if *here == 0 {
                self.by_namespace.remove(namespace);
            }
        }
    }

    /// Returns what all namespaces hold.
    pub fn sum(&self) -> usize {
        self.sum
    }

    /// Returns what each namespace holds that holds anything.
    pub fn of_each(&self) -> impl Iterator<Item = (&Namespace, usize)> {
        self.by_namespace.iter().map(|(namespace, bytes)| (namespace, *bytes))
    }

    /// Returns what a namespace holds.
    pub fn of(&self, namespace: &Namespace) -> usize {
        self.by_namespace.get(namespace).copied().unwrap_or_default()
    }
}

/// Returns, in the order of `held`, how many bytes of each of these namespaces count against a further namespace.
/// `held` has the bytes that each of them holds; `most` is what all may hold together.
pub fn counted(held: &[usize], most: usize) -> Vec<usize> {
    let mut counted = held.to_vec();
    let mut largest_first: Vec<&mut usize> = counted.iter_mut().collect();
    largest_first.sort_unstable_by(|a, b| b.cmp(a));
    let mut common = Common::of(held.len() + 1, most);
    for bytes in largest_first {
        *bytes = (*bytes).min(common.may_hold());
        common.take(*bytes);
    }
    counted
}

/// Returns the namespaces that hold more than [counts](counted), and by how many bytes. `most` is what all may hold.
pub fn excess(held: Vec<(Namespace, usize)>, most: usize) -> Vec<(Namespace, usize)> {
    let counted = counted(&held.iter().map(|(_, bytes)| *bytes).collect::<Vec<_>>(), most);
    let beyond = held.into_iter().zip(counted).map(|((namespace, bytes), counted)| (namespace, bytes - counted));
    beyond.filter(|(_, bytes)| *bytes > 0).collect()
}

/// Returns how many bytes a namespace may hold. `own` is what it holds now, `others` what each other namespace holds,
/// and `most` what all may hold.
pub fn may_hold_beside(own: usize, others: &[usize], most: usize) -> usize {
    may_hold(own, &counted(others, most), most)
}

/// The memory during a count: one half is divided equally between namespaces, the other half is common to them.
struct Common {
    /// The part of each namespace in what is divided.
    share: usize,
    /// What is left of the common part.
    left: usize,
}

impl Common {
    fn of(namespaces: usize, most: usize) -> Self {
        let share = most / (2 * namespaces);
        Self { share, left: most - share * namespaces }
    }

    fn may_hold(&self) -> usize {
        self.share + self.left / 2
    }

    fn take(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes.saturating_sub(self.share));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn of_a_namespace_counts_no_more_than_it_could_have_been_admitted() {
        assert_eq!(counted(&[10_000], 1_000), [500]);
        assert_eq!(counted(&[100, 10_000, 0], 1_000), [100, 375, 0]);
        assert_eq!(counted(&[10_000, 10_000], 1_000), [417, 291]);
        assert_eq!(counted(&[], 1_000), Vec::<usize>::new());
        assert_eq!(counted(&[5], 0), [0]);
    }

    #[test]
    fn excess_names_the_namespaces_that_hold_too_much() {
        let held = |greedy| vec![(Some("greedy".into()), greedy), (None, 10), (Some("modest".into()), 100)];
        assert_eq!(excess(held(5_000), 1_000), [(Some("greedy".into()), 4_625)]);
        assert_eq!(excess(held(375), 1_000), []);
    }

    proptest! {
        #[test]
        fn whatever_one_namespace_holds_half_of_what_is_common_is_left_to_the_others(
            greedy in 0_usize..10_000, others in prop::collection::vec(0_usize..100, 0..6), own in 0_usize..300,
        ) {
            let most = 2_000;
            let held: Vec<usize> = std::iter::once(greedy).chain(others.iter().copied()).collect();
            let share = most / (2 * (held.len() + 1));
            let others_beyond: usize = others.iter().map(|bytes| bytes.saturating_sub(share)).sum();
            let quarter = most / 4 - 1;
            prop_assert!(may_hold_beside(own, &held, most) >= share + quarter.saturating_sub(others_beyond) / 2);
        }

        #[test]
        fn what_takes_no_more_than_a_quarter_counts_in_full(held in prop::collection::vec(0_usize..500, 0..8)) {
            prop_assert_eq!(&counted(&held, 4 * held.iter().sum::<usize>()), &held);
        }

        #[test]
        fn what_the_rule_admitted_counts_in_full_whoever_came_first(
            steps in prop::collection::vec((0_usize..6, 0_usize..400), 1..100), most in 0_usize..2_000,
        ) {
            // One of seven namespaces holds nothing; so many there are from the beginning.
            let mut held = [0; 6];
            for (namespace, bytes) in steps {
                let others = (0..6).filter(|other| *other != namespace).map(|other| held[other]);
                let others: Vec<_> = others.chain([0]).collect();
                if held[namespace] + bytes <= may_hold(held[namespace], &others, most) {
                    held[namespace] += bytes;
                }
            }
            let counted = counted(&held, most);
            // Halves are rounded down.
            let is_near = held.iter().zip(&counted).all(|(held, counted)| held - counted <= 1);
            prop_assert!(is_near, "{:?} {:?}", held, counted);
        }

        #[test]
        fn no_more_counts_than_all_may_hold(
            held in prop::collection::vec(0_usize..5_000, 0..8), most in 0_usize..2_000,
        ) {
            prop_assert!(counted(&held, most).iter().sum::<usize>() <= most);
        }
    }
}
