//! Numbers that look random and are the same in each run.

use serde_json::{Map, Value, json};

/// splitmix64.
pub(super) struct Numbers(pub(super) u64);

impl Numbers {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn chance(&mut self) -> bool {
        self.next().is_multiple_of(2)
    }

    /// Returns some of these names.
    pub(super) fn some<'n>(&mut self, names: &[&'n str]) -> Vec<&'n str> {
        names.iter().copied().filter(|_| self.chance()).collect()
    }

    /// Returns values for some of these names.
    pub(super) fn texts(&mut self, names: &[&str]) -> Map<String, Value> {
        self.some(names).into_iter().map(|name| (name.to_owned(), json!(format!("{}", self.next() % 3)))).collect()
    }
}
