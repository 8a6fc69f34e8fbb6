//! What the host's work costs in units that no load of the machine changes: allocations, allocated bytes, and the bytes
//! that a stored object takes. Each is compared with the value that is committed in `counters.json`, with a slack of 3 %.
//! A change that makes one worse is committed with the new value and its reason: `HOTSHOE_WRITE_COUNTERS=1
//! ./justw test-e2e --test counters`.
//!
//! Instructions are not among them: valgrind 3.19 can run neither the pool of instances nor a static program that looks
//! for its clock in the auxiliary vector, and processors of rented machines do not count for their guests.

mod work;

use std::alloc::System;
use std::collections::BTreeMap;

use hotshoe_tests::repository;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

use crate::work::{Prepared, Work};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const COMMITTED: &str = "tests/tests/counters/counters.json";
/// How much worse than the committed value a counter may be.
const SLACK: f64 = 0.03;
/// The repetitions of each work.
const TIMES: usize = 100;
/// The objects that are stored to count the memory of one.
const STORED: usize = 1000;

#[test]
fn no_counter_is_worse_than_the_committed_one() {
    let counted = counted();
    if std::env::var_os("HOTSHOE_WRITE_COUNTERS").is_some() {
        return write(&counted);
    }
    let committed = std::fs::read(repository(COMMITTED)).expect("the committed counters");
    let committed: BTreeMap<String, usize> = serde_json::from_slice(&committed).expect("a number each");
    assert!(counted.keys().eq(committed.keys()), "{COMMITTED} has other counters");
    let is_worse = |(now, before): (&usize, &usize)| *now as f64 > *before as f64 * (1.0 + SLACK);
    let all: Vec<_> = counted.iter().zip(committed.values()).collect();
    for ((name, now), before) in &all {
        println!("{name:<24} {now:>7}, committed {before:>7}");
    }
    let worse: Vec<_> = all.iter().filter(|((_, now), before)| is_worse((now, before))).collect();
    assert!(worse.is_empty(), "worse by more than 3 %: {worse:?}; mend it, or commit the values with the reason");
}

fn counted() -> BTreeMap<String, usize> {
    let prepared = Prepared::new();
    let mut counted = BTreeMap::new();
    for work in Work::ALL {
        // The first time also fills what is kept for the next.
        prepared.run(work);
        let region = Region::new(ALLOCATOR);
        (0..TIMES).for_each(|_| prepared.run(work));
        let heap = region.change();
        counted.insert(format!("{} allocations", work.name()), heap.allocations / TIMES);
        counted.insert(format!("{} allocated bytes", work.name()), heap.bytes_allocated / TIMES);
    }
    let region = Region::new(ALLOCATOR);
    prepared.store(STORED);
    let heap = region.change();
    counted.insert("stored bytes".to_owned(), (heap.bytes_allocated - heap.bytes_deallocated) / STORED);
    counted
}

fn write(counted: &BTreeMap<String, usize>) {
    let text = serde_json::to_string_pretty(counted).expect("numbers");
    std::fs::write(repository(COMMITTED), text + "\n").expect("the table can be written");
}
