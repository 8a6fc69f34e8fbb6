//! A short run without a fuzzer: each target on its seeds and on many mutations of them, which are the same
//! every time. `just fuzz TARGET` searches further, guided by coverage.

use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

/// The number of mutations for each target; all four targets take seconds.
const ROUNDS: usize = 600_000;

/// Texts that mutations insert: special in JSON, in names, or in Kubernetes objects.
const WORDS: [&str; 36] = [
    "{",
    "}",
    "[",
    "]",
    "\"",
    ":",
    ",",
    "null",
    "true",
    "-1",
    "1e999",
    "18446744073709551616",
    "\\u0000",
    "\\ud800",
    "\u{202e}",
    "\u{1b}[2J",
    "f:",
    "k:",
    "v:",
    ".",
    "{}",
    "[]",
    "~1",
    "/",
    "\"metadata\":",
    "\"name\":\"x\"",
    "\"namespace\":\"other\"",
    "\"ownerReferences\":[{}]",
    "\"finalizers\":[\"a\"]",
    "\"status\":{}",
    "\"hotshoe.dev/plugin\":\"other\"",
    "\"kind\":\"Secret\"",
    "\n---\n",
    "\n",
    "é",
    "[[[[[[[[[[[[[[[[",
];

#[test]
fn accepted_decisions_are_within_the_limits_and_clean() {
    run("decision", hotshoe_fuzz::decision);
}

#[test]
fn kept_fields_were_there_and_were_asked_for() {
    run("pruning", hotshoe_fuzz::pruning);
}

#[test]
fn coverage_and_excess_agree_with_a_naive_comparison() {
    run("ownership", hotshoe_fuzz::ownership);
}

#[test]
fn admitted_objects_are_granted_and_have_the_hosts_metadata() {
    run("gate", hotshoe_fuzz::gate);
}

fn run(target: &str, read: fn(&[u8])) {
    let seeds = seeds(target);
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    for seed in &seeds {
        check(seed, read);
    }
    for _ in 0..ROUNDS {
        let mut input = seeds[dice.below(seeds.len())].clone();
        for _ in 0..=dice.below(4) {
            let other = &seeds[dice.below(seeds.len())];
            change(&mut input, other, &mut dice);
        }
        check(&input, read);
    }
}

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target);
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 3, "{target} has no seeds");
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

fn check(input: &[u8], read: fn(&[u8])) {
    if catch_unwind(|| read(input)).is_err() {
        panic!("this input breaks it; keep it as a seed:\n{}", String::from_utf8_lossy(input));
    }
}

fn change(input: &mut Vec<u8>, other: &[u8], dice: &mut Dice) {
    let at = dice.below(input.len() + 1);
    let end = (at + dice.below(24)).min(input.len());
    match dice.below(6) {
        0 => drop(input.drain(at..end)),
        1 => {
            let word = WORDS[dice.below(WORDS.len())];
            drop(input.splice(at..at, word.bytes()));
        }
        2 => {
            let word = WORDS[dice.below(WORDS.len())];
            drop(input.splice(at..end, word.bytes()));
        }
        3 => {
            let part = input[at..end].to_vec();
            drop(input.splice(at..at, part));
        }
        4 => {
            let from = dice.below(other.len() + 1);
            let to = (from + dice.below(64)).min(other.len());
            drop(input.splice(at..end, other[from..to].iter().copied()));
        }
        _ if at < input.len() => input[at] = dice.below(256) as u8,
        _ => {}
    }
}

/// A random number generator, xorshift64*, with the same numbers every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, count: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % count.max(1)
    }
}
