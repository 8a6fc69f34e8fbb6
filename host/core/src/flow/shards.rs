//! Assigns names to shards, and balances the shards between several hosts. Pure.
//!
//! A host that holds at least two shards fewer than another asks that host for a shard. The other host gives the shard
//! up if it sees the same difference. So a new host gets its share, one shard after the other, and where the numbers
//! differ by at most one, nothing moves.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

/// Returns the shard of a name, out of `shards`. Every host and every version of it returns the same.
pub fn shard_of(name: &str, shards: usize) -> usize {
    let [a, b, c, d, e, f, g, h, ..]: [u8; 32] = Sha256::digest(name.as_bytes()).into();
    let number = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
    let shards = u64::try_from(shards.max(1)).unwrap_or(u64::MAX);
    usize::try_from(number % shards).unwrap_or_default()
}

/// Returns the shard that this host asks another host for; none while a shard is free, which can be taken without
/// asking.
pub fn wanted(holders: &[Option<&str>], me: &str) -> Option<usize> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for holder in holders {
        *counts.entry((*holder)?).or_default() += 1;
    }
    let mine = counts.get(me).copied().unwrap_or_default();
    let (richest, count) = counts.into_iter().max_by_key(|(_, count)| *count)?;
    if count < mine + 2 {
        return None;
    }
    holders.iter().rposition(|holder| *holder == Some(richest))
}

/// Returns whether this host gives up one of its shards for another host that asks for it.
pub fn gives_up(holders: &[Option<&str>], me: &str, to: &str) -> bool {
    let count = |name| holders.iter().filter(|holder| **holder == Some(name)).count();
    me != to && count(me) >= count(to) + 2
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_shard_of_a_name_never_changes() {
        assert_eq!([shard_of("memcached", 2), shard_of("nginx", 2), shard_of("redis", 2)], [1, 0, 1]);
        assert_eq!([shard_of("memcached", 3), shard_of("memcached", 8), shard_of("shop/a", 8)], [2, 3, 2]);
        assert_eq!((shard_of("any", 1), shard_of("any", 0)), (0, 0));
    }

    #[test]
    fn a_host_asks_for_no_shard_that_is_free_or_would_only_change_places() {
        assert_eq!(wanted(&[Some("a"), None], "b"), None);
        assert_eq!(wanted(&[Some("a")], "b"), None);
        assert_eq!(wanted(&[Some("a"), Some("b"), Some("a")], "b"), None);
        assert_eq!(wanted(&[Some("a"), Some("a")], "a"), None);
        assert_eq!(wanted(&[Some("a"), Some("a")], "b"), Some(1));
        assert!(!gives_up(&[Some("a"), Some("b"), Some("a")], "a", "b"));
        assert!(!gives_up(&[Some("a"), Some("a")], "a", "a"));
        assert!(gives_up(&[Some("a"), Some("a")], "a", "b"));
    }

    proptest! {
        #[test]
        fn hosts_come_to_hold_about_as_many_shards_each(
            first in prop::collection::vec(0_usize..4, 1..20), hosts in 1_usize..5,
        ) {
            let names = ["a", "b", "c", "d"];
            let mut holders: Vec<Option<&str>> = first.iter().map(|host| Some(names[host % hosts])).collect();
            let mut moved = true;
            let mut moves = 0;
            while moved {
                moved = false;
                for me in &names[..hosts] {
                    let Some(shard) = wanted(&holders, me) else { continue };
                    let holder = holders[shard].unwrap();
                    prop_assert!(gives_up(&holders, holder, me), "{:?}", holders);
                    holders[shard] = Some(me);
                    moved = true;
                    moves += 1;
                }
                prop_assert!(moves <= holders.len(), "they move for ever");
            }
            let count = |name: &&str| holders.iter().filter(|holder| **holder == Some(*name)).count();
            let counts: Vec<_> = names[..hosts].iter().map(count).collect();
            prop_assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1, "{:?}", counts);
        }
    }
}
