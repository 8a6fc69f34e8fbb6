//! What a release has: each part is installed from its file and used, without the repository.

mod documents;
mod image;
mod installer;
mod packages;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use hotshoe_core::model::digest::Digest;
use hotshoe_tests::release::{VERSION, artefact, release};
use tempfile::TempDir;

/// Runs a command that must succeed, and returns all that it prints.
fn done(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", said(&output));
    said(&output)
}

/// Returns all that a program has printed.
fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&*output.stdout, &*output.stderr].concat()).into_owned()
}

#[test]
fn the_sums_have_each_file_of_the_release_and_its_digest() {
    let mut files = Vec::new();
    for entry in fs::read_dir(release()).expect("the folder of the release") {
        let path = entry.expect("a file").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        if name != "SHA256SUMS" {
            files.push(format!("{}  {name}", Digest::of(&fs::read(path).expect("a file is read")).full()));
        }
    }
    let sums = fs::read_to_string(release().join("SHA256SUMS")).expect("the sums");
    let mut sums: Vec<&str> = sums.lines().collect();
    files.sort();
    sums.sort_unstable();
    assert_eq!(sums, files);
    assert_eq!(files.len(), 10, "{files:?}");
}

/// Compares the files of a folder with the sums in it, as the page about releases says.
fn checked(folder: &Path) -> Output {
    let mut check = Command::new("sha256sum");
    check.args(["--check", "--ignore-missing", "SHA256SUMS"]).env("LC_ALL", "C").current_dir(folder);
    check.output().expect("sha256sum, of coreutils, runs")
}

#[test]
fn each_file_that_was_downloaded_is_compared_with_the_sums_and_one_that_was_changed_is_named() {
    let all = checked(release());
    assert!(all.status.success() && said(&all).matches(": OK\n").count() == 10, "{}", said(&all));
    // Some of them are downloaded, and the chart has another byte.
    let folder = TempDir::new().expect("a folder");
    let chart = artefact(&format!("hotshoe-{VERSION}"), ".tgz");
    for file in [&chart, &artefact("hotshoe-sdk-", ".crate"), &release().join("SHA256SUMS")] {
        fs::copy(file, folder.path().join(file.file_name().expect("a name"))).expect("a copy");
    }
    let some = checked(folder.path());
    assert!(some.status.success() && said(&some).matches(": OK\n").count() == 2, "{}", said(&some));
    let name = format!("hotshoe-{VERSION}.tgz");
    let mut bytes = fs::read(&chart).expect("the chart");
    bytes[100] ^= 1;
    fs::write(folder.path().join(&name), bytes).expect("another chart");
    let changed = checked(folder.path());
    assert!(!changed.status.success() && said(&changed).contains(&format!("{name}: FAILED\n")), "{}", said(&changed));
}
