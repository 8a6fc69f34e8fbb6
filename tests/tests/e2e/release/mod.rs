//! What a release has: each part is installed from its file and used, without the repository.

mod documents;
mod image;
mod installer;
mod packages;

use std::fs;
use std::process::{Command, Output};

use hotshoe_core::model::digest::Digest;
use hotshoe_tests::release::release;

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
