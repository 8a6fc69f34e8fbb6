//! The first project of a user who has nothing but what was downloaded.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use hotshoe_tests::guests::caches;
use hotshoe_tests::release::{VERSION, artefact, release, unpack};
use hotshoe_tests::repository;
use tempfile::TempDir;

use super::done;

/// The folder of the products, which has the compiled dependencies of other projects, and that of the unpacked crates,
/// which is the same each time, so that they are compiled once.
const TARGET: &str = "target/tests/new";
const CRATES: &str = "target/tests/crates";

/// Unpacks a crate, and returns its folder.
fn crate_of(name: &str) -> String {
    let name = format!("{name}-{VERSION}");
    unpack(&artefact(&name, ".crate"), &repository(CRATES));
    repository(CRATES).join(name).display().to_string()
}

/// Installs the program into an empty home, and returns a command of it in an empty folder.
fn installed(home: &Path) -> impl Fn(&[&str]) -> String {
    let installer = release().join("install.sh");
    let mut install = Command::new("sh");
    install.arg(installer).arg("--from").arg(release()).env("HOME", home).current_dir(home);
    let said = done(&mut install);
    assert!(said.contains(&format!("installed hotshoe {VERSION} for ")), "{said}");
    let (program, folder) = (home.join(".local/bin/hotshoe"), home.join("operator"));
    fs::create_dir(&folder).expect("an empty folder");
    let user = std::env::var("HOME").unwrap_or_default();
    move |arguments| {
        let mut command = Command::new(&program);
        command.args(arguments).current_dir(&folder).env("HOME", &folder).env("XDG_CACHE_HOME", caches());
        // Rust is installed on the machine, and what it downloaded is kept.
        for (variable, place) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
            command.env(variable, std::env::var(variable).unwrap_or_else(|_| format!("{user}/{place}")));
        }
        done(command.env("CARGO_BUILD_JOBS", "1").env_remove("HOTSHOE"))
    }
}

#[test]
fn the_installed_program_makes_builds_and_tests_a_project_of_the_packed_crates() {
    let home = TempDir::new().expect("a folder");
    let hotshoe = installed(home.path());
    let (sdk, crd) = (crate_of("hotshoe-sdk"), crate_of("hotshoe-crd"));
    hotshoe(&[
        "new",
        "packed",
        "--lang",
        "rust",
        "--domain",
        "example.org",
        "--group",
        "made",
        "--empty",
        "--sdk",
        &sdk,
    ]);
    // In place of the registry, which has no release of the crates yet.
    let manifest = home.path().join("operator/Cargo.toml");
    let text = fs::read_to_string(&manifest).expect("a manifest");
    fs::write(&manifest, format!("{text}\n[patch.crates-io]\nhotshoe-crd = {{ path = {crd:?} }}\n"))
        .expect("a manifest");
    fs::create_dir_all(repository(TARGET)).expect("a folder for products");
    symlink(repository(TARGET), home.path().join("operator/target")).expect("a link to the products");
    hotshoe(&["build"]);
    let tested = hotshoe(&["test"]);
    assert!(tested.contains("3 passed, 0 failed"), "{tested}");
}
