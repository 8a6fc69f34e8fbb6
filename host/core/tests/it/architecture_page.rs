//! The page `ARCHITECTURE.md` is true: the crates and functions that it names are there.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use regex::Regex;

/// The root of the repository.
const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn page() -> String {
    fs::read_to_string(Path::new(REPOSITORY).join("ARCHITECTURE.md")).unwrap()
}

/// Returns the places that a text names, each a file with a function or type. A name alone is one of the file before it.
fn places(text: &str) -> Vec<(&str, &str)> {
    let place = Regex::new(r"`(?:([a-z_/]+\.rs)::)?([A-Za-z_]+)`").unwrap();
    let mut file = "";
    let named = place.captures_iter(text).filter_map(|found| {
        let (named, name) = (found.get(1), found.get(2)?.as_str());
        file = named.map_or(file, |named| named.as_str());
        // A word such as `Plugin` is no function.
        let is_place = named.is_some() || name.starts_with(|first: char| first.is_ascii_lowercase());
        is_place.then_some((file, name))
    });
    named.collect()
}

/// Returns the places that are not there: the file is missing, or its code before any test module defines no such name.
fn missing<'a>(places: &[(&'a str, &'a str)], read: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let mut files: HashMap<&str, String> = HashMap::new();
    let missing = places.iter().filter(|(file, name)| {
        let text = files.entry(*file).or_insert_with(|| read(file).unwrap_or_default());
        let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        !Regex::new(&format!(r"(?m)^[^/\n]*(?-u:\b)(fn|struct) {name}(?-u:\b)")).unwrap().is_match(code)
    });
    missing.map(|(file, name)| format!("{file}::{name}")).collect()
}

#[test]
fn each_place_of_the_architecture_page_is_there() {
    let page = page();
    let (_, walks) = page.split_once("\n## A parent").expect("the walk of a parent");
    let places = places(walks);
    let items = walks.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_digit()));
    assert!(items.clone().count() > 40, "the walks are not where they were");
    for item in items {
        assert!(item.contains(". `host/"), "a step of a walk begins with its place: {item}");
    }
    let read = |file: &str| fs::read_to_string(Path::new(REPOSITORY).join(file)).ok();
    assert_eq!(missing(&places, read), [""; 0], "rename these in ARCHITECTURE.md too");
}

#[test]
fn each_crate_of_the_host_is_on_the_architecture_page() {
    let page = page();
    for entry in fs::read_dir(Path::new(REPOSITORY).join("host")).unwrap() {
        let path = format!("`host/{}`", entry.unwrap().file_name().display());
        assert!(page.contains(&path), "ARCHITECTURE.md does not name {path}");
    }
}

#[test]
fn a_place_that_was_renamed_is_found() {
    let text = "1. `a/b.rs::first`: it calls `second` and `Third`, then\n   `a/c.rs::Fourth`.";
    let named = places(text);
    assert_eq!(named, [("a/b.rs", "first"), ("a/b.rs", "second"), ("a/c.rs", "Fourth")]);
    let there = "async fn first<T>() {}\n    pub(crate) fn second(&self) {}";
    let read = |b: &'static str| move |file: &str| if file == "a/b.rs" { Some(b.to_owned()) } else { None };
    assert_eq!(missing(&named, read(there)), ["a/c.rs::Fourth"]);
    let renamed = "fn first_of() {}\n// fn first() was here\n#[cfg(test)]\nmod tests { fn second() {} }";
    assert_eq!(missing(&named, read(renamed)), ["a/b.rs::first", "a/b.rs::second", "a/c.rs::Fourth"]);
}
