//! The SDKs and the chart, each as another program installs it: the crates, the wheel, the package of npm.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use hotshoe_tests::host::program;
use hotshoe_tests::release::{VERSION, artefact, unpack};
use hotshoe_tests::repository;
use tempfile::TempDir;

use super::done;

/// Returns the texts of all files below a folder, by their paths in it.
fn texts(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).unwrap_or_else(|error| panic!("{}: {error}", next.display())) {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).expect("a path below").to_owned();
                found.insert(name, fs::read_to_string(&path).expect("a text"));
            }
        }
    }
    found
}

/// Returns a new project with the sources of an SDK, and the folder of these.
fn vendored(language: &str, folder: &str) -> (TempDir, PathBuf) {
    let project = TempDir::new().expect("a folder");
    let names = ["new", "cache", "--lang", language, "--domain", "example.org"];
    done(Command::new(program()).args(names).current_dir(project.path()));
    let vendor = project.path().join("vendor").join(folder);
    (project, vendor)
}

/// Lays out the tests of an SDK in a folder as they lie in the repository, with what they read, but without the SDK.
fn lay_out_tests(folder: &Path, sdk: &str, tests: &str) {
    let place = folder.join("plugins").join(sdk);
    fs::create_dir_all(&place).expect("a folder");
    done(Command::new("cp").arg("-R").arg(repository("plugins").join(sdk).join(tests)).arg(place));
    for read in ["plugins/sdk", "tests"] {
        symlink(repository(read), folder.join(read)).expect("a link");
    }
}

#[test]
fn the_crates_have_the_files_that_a_new_project_has_in_its_vendor_folder() {
    let (_project, vendor) = vendored("rust", "hotshoe-sdk");
    for name in ["crd", "sdk"] {
        let folder = TempDir::new().expect("a folder");
        let begin = format!("hotshoe-{name}-{VERSION}");
        unpack(&artefact(&begin, ".crate"), folder.path());
        let mut packed = texts(&folder.path().join(&begin));
        // Cargo writes the versions of all dependencies into the manifest, and keeps the original beside it.
        let manifest = packed.remove(Path::new("Cargo.toml")).expect("a manifest");
        assert!(!manifest.contains("path = \"../"), "{manifest}");
        let original = packed.remove(Path::new("Cargo.toml.orig")).expect("the original manifest");
        packed.insert("Cargo.toml".into(), original);
        assert!(packed.remove(Path::new("LICENSE")).is_some_and(|text| text.contains("Apache License")));
        assert_eq!(packed, texts(&vendor.join(name)));
    }
}

#[test]
fn the_wheel_is_installed_without_a_network_and_passes_the_tests_of_the_sdk() {
    let (_project, vendor) = vendored("python", "hotshoe-sdk-python");
    let folder = TempDir::new().expect("a folder");
    let tools = repository("target/tools/python/bin/python");
    done(Command::new(&tools).args(["-m", "venv", "--without-pip"]).arg(folder.path().join("venv")));
    let python = folder.path().join("venv/bin/python");
    let mut pip = Command::new(&tools);
    pip.args(["-m", "pip", "--python"]).arg(&python);
    pip.args(["install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-compile"]);
    done(pip.arg(artefact("hotshoe_sdk-", ".whl")));

    lay_out_tests(folder.path(), "sdk-python", "tests");
    let ask = |python: &Path, script: &str| {
        let mut command = Command::new(python);
        done(command.args(["-c", script]).current_dir(&folder)).trim_end().to_owned()
    };
    let module = PathBuf::from(ask(&python, "import hotshoe; print(hotshoe.__path__[0])"));
    assert!(module.starts_with(folder.path()), "{}", module.display());
    assert_eq!(texts(&module), texts(&vendor.join("hotshoe")));
    // The environment has nothing but the wheel: what runs the tests is elsewhere.
    let pytest = ask(&tools, "import sysconfig; print(sysconfig.get_path('purelib'))");
    let mut tests = Command::new(&python);
    tests.args(["-m", "pytest", "--quiet", "-p", "no:cacheprovider", "plugins/sdk-python/tests"]).current_dir(&folder);
    let passed = done(tests.env("PYTHONPATH", pytest).env("PYTHONDONTWRITEBYTECODE", "1"));
    assert!(passed.contains(" passed"), "{passed}");
}

#[test]
fn the_package_of_npm_is_installed_without_a_network_and_imported_by_node() {
    let (_project, vendor) = vendored("js", "hotshoe-sdk-js");
    let folder = TempDir::new().expect("a folder");
    let npm = ["install", "--offline", "--no-audit", "--no-fund", "--loglevel", "error"];
    let package = artefact("hotshoe-sdk-", ".tgz");
    done(Command::new("npm").args(npm).arg(package).current_dir(folder.path()));
    let installed = folder.path().join("node_modules/@hotshoe/sdk");
    assert_eq!(texts(&installed), texts(&vendor));
    let script = "import { definePlugin } from '@hotshoe/sdk'; import * as testing from '@hotshoe/sdk/testing';\n\
                  console.log(typeof definePlugin, Object.keys(testing).length > 0);";
    fs::write(folder.path().join("use.mjs"), script).expect("a script");
    assert_eq!(done(Command::new("node").arg("use.mjs").current_dir(folder.path())), "function true\n");
    // Its tests import the files beside them.
    lay_out_tests(folder.path(), "sdk-js", "test");
    let sdk = folder.path().join("plugins/sdk-js");
    done(Command::new("cp").arg("-R").arg(installed.join(".")).arg(&sdk));
    done(Command::new("sh").args(["-c", "node --test test/*.test.js"]).current_dir(sdk));
}

#[test]
fn the_chart_is_installed_from_its_package() {
    let chart = artefact(&format!("hotshoe-{VERSION}"), ".tgz");
    let helm = repository("target/tools/bin/helm");
    let linted = done(Command::new(&helm).args(["lint", "--strict"]).arg(&chart));
    assert!(linted.contains("1 chart(s) linted, 0 chart(s) failed"), "{linted}");
    let render = |chart: &Path| {
        let options = ["--namespace", "hotshoe-system", "--set", "plugins.memcached.enabled=true"];
        done(Command::new(&helm).args(["template", "hotshoe"]).arg(chart).args(options))
    };
    assert_eq!(render(&chart), render(&repository("deploy/chart/hotshoe")));
}
