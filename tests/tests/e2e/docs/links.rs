//! All links have a target, and the book's summary has all of its pages.

use std::path::{Component, Path, PathBuf};

use hotshoe_tests::repository;

use super::{markdown, pages, read};

/// Resolves `..` in the text of a path, without the file system.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(plain.pop()),
            other => plain.push(other),
        }
    }
    plain
}

/// Returns what is wrong with a link of a page, if anything.
fn wrong(page: &Path, link: &str) -> Option<String> {
    if link.contains("://") {
        return None;
    }
    let (file, anchor) = link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
    let target = if file.is_empty() { page.to_owned() } else { plain(&page.parent()?.join(file)) };
    if !repository(target.to_str()?).exists() {
        return Some(format!("{}: {link} leads nowhere", page.display()));
    }
    if page.starts_with("docs/src") && !target.starts_with("docs/src") {
        return Some(format!("{}: {link} leads out of the book", page.display()));
    }
    let anchor = anchor?;
    let is_there = markdown::anchors(&read(&target)).iter().any(|found| found == anchor);
    (!is_there).then(|| format!("{}: {} has no heading #{anchor}", page.display(), target.display()))
}

#[test]
fn every_link_leads_somewhere() {
    let wrong: Vec<String> = pages()
        .iter()
        .flat_map(|page| markdown::links(&read(page)).into_iter().filter_map(|link| wrong(page, &link)))
        .collect();
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn every_file_that_a_page_includes_is_there() {
    for page in pages() {
        for include in read(&page).split("{{#include ").skip(1).filter_map(|rest| rest.split_once("}}")) {
            let file = plain(&page.parent().expect("a page in a folder").join(include.0));
            assert!(
                repository(file.to_str().expect("UTF-8")).exists(),
                "{}: {} is not there",
                page.display(),
                include.0
            );
        }
    }
}

#[test]
fn every_page_of_the_book_is_in_its_summary() {
    let pages = pages();
    let mut folders = vec![PathBuf::from("docs/src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(repository(folder.to_str().expect("UTF-8"))).expect("a folder") {
            let path = folder.join(entry.expect("an entry").file_name());
            if repository(path.to_str().expect("UTF-8")).is_dir() {
                folders.push(path);
            } else {
                assert!(
                    pages.contains(&path) || path.ends_with("SUMMARY.md"),
                    "{} is not in SUMMARY.md",
                    path.display()
                );
            }
        }
    }
}

#[test]
fn the_readme_is_short() {
    let lines = read(Path::new("README.md")).lines().count();
    assert!(lines <= 150, "README.md has {lines} lines; move some into docs/");
}
