//! Each guarantee of the host and each promise of the page on security has tests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use hotshoe_tests::repository;

use super::read;

/// Returns the text of a page between a heading and the next one of its level.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let (_, after) = page.split_once(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("no {heading}"));
    after.split("\n## ").next().unwrap_or(after)
}

/// Returns the promises: the bold text at the beginning of each item.
fn promises(section: &str) -> BTreeSet<&str> {
    let bold = section.lines().filter_map(|line| line.strip_prefix("- **")?.split_once("**"));
    bold.map(|(promise, _)| promise.trim_end_matches('.')).collect()
}

/// Returns the rows of the table, each a promise with its tests.
fn rows(section: &str) -> BTreeMap<&str, Vec<&str>> {
    let cells = section.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | "));
    cells
        .skip(1)
        .map(|(promise, tests)| (promise, tests.split(", ").map(|test| test.trim_matches('`')).collect()))
        .collect()
}

/// Returns the names of all tests of the repository.
fn tests() -> BTreeSet<String> {
    let mut grep = Command::new("git");
    grep.args(["grep", "-hA3", "--untracked", "-E", r"#\[(tokio::)?test\b", "--", "*.rs"]);
    let found = grep.current_dir(repository("")).output().expect("git runs");
    let found = String::from_utf8(found.stdout).expect("sources are text");
    let names = found.lines().filter_map(|line| line.split_once("fn ")?.1.split_once('('));
    names.map(|(name, _)| name.to_owned()).collect()
}

/// Each page with promises: the headings of the promises and of the table of their tests, and how many there are at least.
const PAGES: [(&str, &str, &str, usize); 2] = [
    ("docs/src/security.md", "What is promised", "What holds each promise", 20),
    ("docs/src/concepts.md", "What the host guarantees", "What holds each guarantee", 12),
];

#[test]
fn each_promise_has_tests_and_each_of_them_is_there() {
    let there = tests();
    for (page, promised, held, least) in PAGES {
        let text = read(Path::new(page));
        let (promises, rows) = (promises(section(&text, promised)), rows(section(&text, held)));
        assert!(promises.len() > least, "{page}: {promises:?}");
        assert_eq!(rows.keys().copied().collect::<BTreeSet<_>>(), promises, "{page}");
        let missing: Vec<_> = rows.values().flatten().filter(|test| !there.contains(**test)).collect();
        assert!(missing.is_empty(), "{page}: there are no such tests: {missing:?}");
    }
}
