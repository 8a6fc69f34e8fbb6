//! The book of a release, and its list of what the program is made of.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use hotshoe_tests::release::{VERSION, artefact, unpack};
use hotshoe_tests::repository;
use serde_json::Value;
use tempfile::TempDir;

/// Returns what follows `begin` in a text, up to `end`, each time.
fn between<'a>(text: &'a str, begin: &'a str, end: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(begin).skip(1).filter_map(move |rest| rest.split_once(end).map(|(found, _)| found))
}

/// Returns the pages of the book's table of contents.
fn pages() -> Vec<String> {
    let contents = fs::read_to_string(repository("docs/src/SUMMARY.md")).expect("the table of contents");
    between(&contents, "](", ")").map(|page| page.replace(".md", ".html").replace("README", "index")).collect()
}

/// Returns the links of a page to other files of the book that are not there.
fn broken(book: &Path, page: &str) -> Vec<String> {
    let text = fs::read_to_string(book.join(page)).unwrap_or_else(|error| panic!("{page}: {error}"));
    let body = text.split_once("<main>").expect("a page has a body").1;
    let folder = book.join(page).parent().expect("a folder").to_owned();
    let is_broken = |link: &&str| {
        let file = link.split('#').next().unwrap_or_default();
        !link.contains("://") && !file.is_empty() && !folder.join(file).exists()
    };
    between(body, "href=\"", "\"").filter(is_broken).map(|link| format!("{page}: {link}")).collect()
}

#[test]
fn the_book_has_each_page_of_its_table_of_contents_and_every_file_that_these_link_to() {
    let folder = TempDir::new().expect("a folder");
    unpack(&artefact(&format!("hotshoe-book-{VERSION}"), ".tar.gz"), folder.path());
    let book = folder.path().join("book");
    let pages = pages();
    assert!(pages.len() > 30, "{pages:?}");
    let broken: Vec<_> = pages.iter().flat_map(|page| broken(&book, page)).collect();
    assert_eq!(broken, [""; 0]);
}

/// Returns the crates of a lock file that are of a registry, as `NAME VERSION`.
fn locked(file: &PathBuf) -> BTreeSet<String> {
    let text = fs::read_to_string(file).expect("the lock file");
    let of_registry = text.split("[[package]]").filter(|one| one.contains("\nsource = \"registry"));
    let value = |one: &str, key: &str| between(one, &format!("\n{key} = \""), "\"").next().map(str::to_owned);
    of_registry.filter_map(|one| Some(format!("{} {}", value(one, "name")?, value(one, "version")?))).collect()
}

#[test]
fn the_bill_of_materials_names_each_crate_that_the_program_is_made_of_with_version_and_licence() {
    let file = artefact(&format!("hotshoe-{VERSION}"), ".cdx.json");
    let text = fs::read_to_string(file).expect("the bill of materials");
    let bill: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((&bill["bomFormat"], &bill["specVersion"]), (&"CycloneDX".into(), &"1.5".into()));
    let program = &bill["metadata"]["component"];
    assert_eq!((&program["name"], &program["version"]), (&"hotshoe".into(), &VERSION.into()));
    assert!(!text.contains(repository("").to_str().expect("UTF-8")), "it does not say where the program was built");

    let components = bill["components"].as_array().expect("components");
    let is_ours =
        |component: &&Value| component["purl"].as_str().is_some_and(|purl| purl.contains("download_url=file"));
    let (ours, others): (Vec<_>, Vec<_>) = components.iter().partition(is_ours);
    assert!(ours.iter().all(|one| one["version"] == VERSION), "{ours:#?}");
    let named: BTreeSet<String> = others
        .iter()
        .map(|one| format!("{} {}", one["name"].as_str().expect("a name"), one["version"].as_str().expect("a version")))
        .collect();
    let locked = locked(&repository("Cargo.lock"));
    assert!(named.is_subset(&locked), "{:?}", named.difference(&locked));
    for known in ["kube ", "rustls ", "tokio ", "wasmtime "] {
        assert!(named.iter().any(|one| one.starts_with(known)), "{known}");
    }
    let is_complete = |one: &&&Value| one["licenses"][0].is_object() && one["hashes"][0]["alg"] == "SHA-256";
    assert_eq!(others.iter().filter(is_complete).count(), others.len());
    // A development dependency of the program's crate is no part of it.
    assert!(!named.iter().any(|one| one.starts_with("wat ")), "{named:?}");
}
