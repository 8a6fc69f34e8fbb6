//! Each command of the README and of the book works, typed in the order of the pages. One page is followed by itself,
//! because it begins with an empty cluster.
//!
//! Blocks of `sh` and `console` run in a [`Scratch`]. A comment above a block says what is different about it:
//!
//! | comment | meaning |
//! |---|---|
//! | `<!-- file: PATH -->` | the block is this file |
//! | `<!-- runs on: the host -->` | the block runs until the next such block, as in another terminal |
//! | `<!-- runs on: another host -->` | the same in a third terminal, beside the host |
//! | `<!-- exit code: N -->` | the block ends with this code |
//! | `<!-- not run: REASON -->` | the block cannot run here |
//!
//! A `console` block also shows output: each of its lines is printed in that order, between others perhaps. A line that
//! ends with `…` is the beginning of a line that is printed.

use std::path::Path;
use std::time::Instant;

use hotshoe_tests::Registry;

use super::markdown::{self, Block};
use super::scratch::{Scratch, free_address};
use super::{pages, read};

/// The page that begins with an empty cluster, and needs a registry and a second host.
const FROM_A_REGISTRY: &str = "docs/src/from-a-registry.md";
/// The address of the registry on that page.
const REGISTRY: &str = "localhost:5000";
/// The address of the second host on that page.
const SECOND_HOST: &str = "127.0.0.1:8081";
/// How the paths of the first host's files begin on that page.
const FILES: &str = "target/run/hotshoe.";

/// What is done with a block.
#[derive(Debug, PartialEq)]
enum Step<'a> {
    File(&'a str),
    /// It is the host with this number.
    Host(usize),
    Run(i32),
    NotRun(&'a str),
    /// It only shows something.
    Shown,
}

fn step(block: &Block) -> Step<'_> {
    let runs = matches!(block.language.as_str(), "sh" | "console");
    let comment = block.comment.as_deref().and_then(|comment| comment.split_once(": "));
    match comment {
        Some(("file", path)) => Step::File(path),
        Some(("runs on", "the host")) => Step::Host(0),
        Some(("runs on", "another host")) => Step::Host(1),
        Some(("exit code", code)) => Step::Run(code.parse().expect("a number")),
        Some(("not run", reason)) => Step::NotRun(reason),
        _ if runs => Step::Run(0),
        _ => Step::Shown,
    }
}

/// The commands of a block, and the output that it shows.
fn commands(block: &Block) -> (String, Vec<&str>) {
    if block.language != "console" {
        return (block.text.clone(), Vec::new());
    }
    let (mut script, mut output) = (String::new(), Vec::new());
    for line in block.text.lines() {
        match line.strip_prefix("$ ") {
            Some(command) => script += &format!("{command}\n"),
            None => output.push(line),
        }
    }
    (script, output)
}

/// A line without what differs from one run to the next: digests, times, numbers, and the width of columns.
fn loose(line: &str) -> String {
    let words = line.split_whitespace().map(|word| {
        let is_digest = |part: &str| part.len() == 12 && part.chars().all(|digit| digit.is_ascii_hexdigit());
        if is_digest(word.trim_matches(|letter: char| !letter.is_ascii_alphanumeric())) { "DIGEST" } else { word }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// The first line of what is shown that was not printed after those before it.
fn missing<'a>(shown: &[&'a str], printed: &str) -> Option<&'a str> {
    let mut printed = printed.lines().map(loose);
    shown.iter().copied().filter(|line| !line.trim().is_empty()).find(|line| {
        let wanted = loose(line);
        !printed.any(|found| match wanted.strip_suffix('…') {
            Some(beginning) => found.starts_with(beginning),
            None => found == wanted,
        })
    })
}

fn follow(scratch: &mut Scratch, page: &Path, block: &Block) {
    let place = format!("{}:{}", page.display(), block.line);
    let (script, shown) = commands(block);
    match step(block) {
        Step::File(path) => scratch.write(path, &block.text),
        Step::Host(number) => scratch.run_host(number, &script),
        Step::NotRun(reason) => println!("{place}: not run: {reason}"),
        Step::Shown => {}
        Step::Run(code) => {
            let began = Instant::now();
            let ended = scratch.run(&script);
            println!("{place}: {:.1} s", began.elapsed().as_secs_f64());
            assert_eq!(ended.code, Some(code), "{place}:\n{script}\n{}", ended.output);
            if let Some(line) = missing(&shown, &ended.output) {
                panic!("{place}: {script}\nthis line is not printed:\n{line}\nbut:\n{}", ended.output);
            }
        }
    }
}

#[test]
fn every_command_works() {
    let mut scratch = Scratch::new();
    let is_run = |page: &Path| page.starts_with("docs") || page == "README.md";
    for page in pages().iter().filter(|page| is_run(page) && *page != FROM_A_REGISTRY) {
        markdown::blocks(&read(page)).iter().for_each(|block| follow(&mut scratch, page, block));
    }
}

#[test]
fn an_operator_from_a_registry_outlives_a_bad_version_and_a_killed_host_by_the_commands_of_its_page() {
    let (registry, mut scratch, page) = (Registry::start(), Scratch::new(), Path::new(FROM_A_REGISTRY));
    let text = read(page).replace(REGISTRY, &registry.address).replace(SECOND_HOST, &free_address());
    let text = text.replace(FILES, &scratch.files());
    markdown::blocks(&text).iter().for_each(|block| follow(&mut scratch, page, block));
}

#[test]
fn output_is_compared_without_digests_and_widths() {
    let printed = "warning: x\nmemcached  decides with 0123456789ab (version 0.1.0)\n  objects   1: 1 would change\n";
    assert_eq!(
        missing(&["memcached decides with ba9876543210 (version 0.1.0)", "", "  objects 1: 1 would change"], printed),
        None
    );
    assert_eq!(missing(&["objects 1: 1 would change", "warning: x"], printed), Some("warning: x"));
}

#[test]
fn a_line_that_ends_with_an_ellipsis_is_the_beginning_of_one_that_is_printed() {
    let printed = "Warning   RolledBack   5 of 7 calls failed\n";
    assert_eq!(missing(&["Warning RolledBack …"], printed), None);
    assert_eq!(missing(&["Warning RolledBack"], printed), Some("Warning RolledBack"));
    assert_eq!(missing(&["Normal RolledBack …"], printed), Some("Normal RolledBack …"));
}

#[test]
fn a_block_that_is_not_run_says_why() {
    let of = |comment: &str, language: &str| {
        let page = format!("<!-- {comment} -->\n```{language}\na\n```\n");
        format!("{:?}", step(&markdown::blocks(&page)[0]))
    };
    assert_eq!(of("not run: needs a registry", "sh"), "NotRun(\"needs a registry\")");
    assert_eq!(of("not run", "sh"), "Run(0)", "without a reason it runs");
    assert_eq!(of("exit code: 3", "console"), "Run(3)");
    assert_eq!(of("any", "yaml"), "Shown");
}
