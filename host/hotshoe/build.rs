//! How the binary is linked, and the SDKs that it carries.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The SDK of each language: the name of its list, and where each of its folders in this repository is written.
const SDKS: [(&str, &[(&str, &str)]); 3] = [
    ("RUST", &[("plugins/sdk", "sdk"), ("host/crd", "crd")]),
    ("PYTHON", &[("plugins/sdk-python", "")]),
    ("JAVASCRIPT", &[("plugins/sdk-js", "")]),
];
/// Folders that a project has no use for: tests of the SDK, and what tools leave.
const LEFT_OUT: [&str; 6] = ["test", "tests", "target", "node_modules", "__pycache__", "hotshoe_sdk.egg-info"];

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    // A binary that may be loaded anywhere relocates itself at its start: by a list of 1.3 MB that stays
    // resident, or by one of a few kilobytes. musl understands the short one since 1.2.4; other C libraries
    // are left alone, where it would ask for a new one.
    if env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|environment| environment == "musl") {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    carry_sdks()
}

/// Writes a list of the files of each SDK, with their texts, for `hotshoe new`.
fn carry_sdks() -> io::Result<()> {
    let folder = |variable| env::var_os(variable).map(PathBuf::from).ok_or(io::ErrorKind::NotFound);
    let repository = folder("CARGO_MANIFEST_DIR")?.join("../..").canonicalize()?;
    let mut lists = String::new();
    for (name, folders) in SDKS {
        let mut files = Vec::new();
        for (from, to) in folders {
            let from = repository.join(from);
            println!("cargo::rerun-if-changed={}", from.display());
            add_files(&from, Path::new(to), &mut files)?;
        }
        files.sort();
        let mut entries = String::new();
        for (path, source) in files {
            _ = writeln!(entries, "    ({path:?}, include_str!({source:?})),");
        }
        _ = writeln!(lists, "const {name}: &[(&str, &str)] = &[\n{entries}];");
    }
    println!("cargo::rerun-if-changed={}", repository.join("wit").display());
    fs::write(folder("OUT_DIR")?.join("sdks.rs"), lists)
}

/// Adds the files of a folder, each with the path at which it is written.
fn add_files(folder: &Path, to: &Path, files: &mut Vec<(PathBuf, PathBuf)>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let (path, to) = (folder.join(&name), to.join(&name));
        let is_left_out = name.as_encoded_bytes().starts_with(b".") || LEFT_OUT.iter().any(|left| name == *left);
        match path.is_dir() {
            _ if is_left_out => {}
            true => add_files(&path, &to, files)?,
            false => files.push((to, path)),
        }
    }
    Ok(())
}
