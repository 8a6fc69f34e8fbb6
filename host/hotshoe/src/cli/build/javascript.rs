//! Makes a component of a plugin in JavaScript: esbuild bundles its modules, QuickJS runs the bundle once, and the
//! component keeps the state after that run, so that a call starts no engine. `componentize.mjs` does this, with the
//! tools that are pinned beside it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::cli::build::tools::Tools;
use crate::cli::build::worlds;
use crate::cli::new::sdk;
use crate::cli::project::{Folder, Language, shown};
use crate::cli::terminal;

/// The oldest major version of Node.js that the tools run on.
const OLDEST_NODE: u32 = 20;
/// Where the tools are installed, below the root of the project.
pub(in crate::cli) const TOOLS: Tools = Tools { folder: "target/tools/js", version: LOCK };
/// Where the components are written before `hotshoe build` adds the cases, below the root of the project.
const COMPONENTS: &str = "target/guests/js";
/// The package of the SDK.
const SDK: &str = "@hotshoe/sdk";
/// The folder of the worlds among the tools.
const WORLDS: &str = "worlds";
const LOCK: &str = include_str!("javascript/package-lock.json");
const FILES: [(&str, &str); 3] = [
    ("package.json", include_str!("javascript/package.json")),
    ("package-lock.json", LOCK),
    ("componentize.mjs", include_str!("javascript/componentize.mjs")),
];

/// Makes a component of the folder's modules, and returns its path.
///
/// # Errors
/// Where Node.js is missing, a package cannot be installed, or the modules cannot be bundled or loaded.
pub(super) fn componentize(folder: &Folder) -> anyhow::Result<PathBuf> {
    ensure_node()?;
    let tools = install_tools(folder.root())?;
    let components = folder.root().join(COMPONENTS);
    let cannot_write = || format!("cannot write {}", components.display());
    fs::create_dir_all(&components).with_context(cannot_write)?;
    // No two components of the same modules are equal. Of concurrent builds, the later ones keep the component of the
    // first.
    let lock = File::create(components.join(format!("{}.lock", folder.name))).with_context(cannot_write)?;
    lock.lock().with_context(cannot_write)?;
    install_dependencies(&folder.dir, &folder.name)?;
    let component = components.join(format!("{}.wasm", folder.name));
    let built = Command::new("node")
        .arg(tools.join("componentize.mjs"))
        .args([&folder.dir, &tools.join(WORLDS), &component])
        .current_dir(&folder.dir)
        .stdout(Stdio::null())
        .status()
        .context("cannot run node")?;
    ensure!(built.success(), "{} does not build; the output above says why", folder.name);
    Ok(component)
}

fn ensure_node() -> anyhow::Result<()> {
    let missing =
        format!("install Node.js {OLDEST_NODE} or newer, with npm, from https://nodejs.org or your system's packages");
    let output = Command::new("node").arg("--version").output();
    let output = output.with_context(|| format!("cannot run node: {missing}"))?;
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let Some(major) = major(&version) else { bail!("`node --version` says {version:?}: {missing}") };
    ensure!(major >= OLDEST_NODE, "Node.js {version} is too old: {missing}");
    Ok(())
}

/// Returns the first number of a version such as `v20.20.2`.
fn major(version: &str) -> Option<u32> {
    version.strip_prefix('v')?.split('.').next()?.parse().ok()
}

/// Installs the tools once, and returns their folder. Concurrent builds wait for each other.
fn install_tools(root: &Path) -> anyhow::Result<PathBuf> {
    let tools = root.join(TOOLS.folder);
    let cannot_write = || format!("cannot write {}", shown(&tools).display());
    fs::create_dir_all(&tools).with_context(cannot_write)?;
    let lock = File::create(tools.join("lock")).with_context(cannot_write)?;
    lock.lock().with_context(cannot_write)?;
    let own = FILES.map(|(name, text)| (tools.join(name), text.to_owned()));
    let worlds = worlds::files().into_iter().map(|(path, text)| (tools.join(WORLDS).join(path), text));
    for (path, text) in own.into_iter().chain(worlds) {
        if fs::read_to_string(&path).is_ok_and(|there| there == text) {
            continue;
        }
        path.parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| fs::write(&path, text))
            .with_context(cannot_write)?;
    }
    if TOOLS.are_installed(root) {
        return Ok(tools);
    }
    let place = shown(&tools).display().to_string();
    terminal::note(format_args!("installing the tools for JavaScript into {place}, once: 50 MB from the npm registry"));
    npm(&["install", "--ignore-scripts"], &tools).with_context(|| {
        format!(
            "cannot install the tools for JavaScript; they are needed once, so connect to the npm registry, name a \
             mirror of it with `npm config set registry URL`, or copy {place} from another machine"
        )
    })?;
    TOOLS.record(root).with_context(cannot_write)?;
    Ok(tools)
}

/// The part of a `package.json` that names other packages.
#[derive(Deserialize)]
struct Package {
    #[serde(default)]
    dependencies: Map<String, Value>,
}

/// Installs the dependencies of the author's `package.json`, if any is missing. Where all are there, the author has
/// installed them, and they stay as they are.
fn install_dependencies(dir: &Path, plugin: &str) -> anyhow::Result<()> {
    let manifest = dir.join("package.json");
    let text = fs::read_to_string(&manifest).with_context(|| format!("cannot read {}", manifest.display()))?;
    let package: Package =
        serde_json::from_str(&text).with_context(|| format!("{} cannot be used", shown(&manifest).display()))?;
    let is_there = |name: &String| dir.ancestors().any(|above| above.join("node_modules").join(name).is_dir());
    if package.dependencies.keys().all(is_there) {
        return Ok(());
    }
    let place = shown(dir).display();
    let verb = if dir.join("package-lock.json").is_file() { "ci" } else { "install" };
    terminal::note(format_args!("installing the npm packages of {place}, by `npm {verb}`"));
    npm(&[verb], dir).with_context(|| {
        // npm itself prints what it does not find.
        let sdk = match package.dependencies.get(SDK).and_then(Value::as_str) {
            Some(version) if !version.starts_with("file:") => {
                format!("; where npm does not find {SDK}, {}", sdk::without_release(plugin, Language::JavaScript))
            }
            _ => String::new(),
        };
        format!("cannot install the npm packages of {place}{sdk}")
    })
}

fn npm(arguments: &[&str], dir: &Path) -> anyhow::Result<()> {
    let status = Command::new("npm")
        .args(arguments)
        .args(["--no-audit", "--no-fund", "--no-update-notifier", "--loglevel", "error"])
        .current_dir(dir)
        .stdout(Stdio::null())
        .status()
        .context("cannot run npm: it comes with Node.js")?;
    ensure!(status.success(), "`npm {}` failed; its output is above", arguments.join(" "));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_major_version_of_node_is_read() {
        assert_eq!((major("v20.20.2"), major("v8.0.0")), (Some(20), Some(8)));
        assert_eq!((major("20.20.2"), major(""), major("vnext")), (None, None, None));
    }

    #[test]
    fn every_installed_package_is_pinned_by_its_digest() {
        let lock: Value = serde_json::from_str(LOCK).unwrap();
        for (name, package) in lock["packages"].as_object().unwrap().iter().filter(|(name, _)| !name.is_empty()) {
            assert!(package["integrity"].as_str().is_some_and(|digest| digest.starts_with("sha512-")), "{name}");
            assert!(package["resolved"].is_null(), "{name} names a registry, so that no mirror can serve it");
        }
    }

    #[test]
    fn packages_that_are_there_are_not_installed_again() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("package.json"), r#"{"dependencies": {"@hotshoe/sdk": "1"}}"#).unwrap();
        fs::create_dir_all(dir.path().join("node_modules/@hotshoe/sdk")).unwrap();
        install_dependencies(dir.path(), "demo").unwrap();
        fs::write(dir.path().join("package.json"), "{").unwrap();
        assert!(format!("{:#}", install_dependencies(dir.path(), "demo").unwrap_err()).contains("package.json"));
    }
}
