//! Compiles the crate of a plugin in Rust to a core module, by cargo.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};
use serde::Deserialize;

use crate::cli::new::sdk;
use crate::cli::project::{Folder, Language};

const TARGET: &str = "wasm32-unknown-unknown";

/// The profile of quick builds, in cargo's configuration. What changes seldom is optimised: it is compiled once, and the
/// component stays small enough to be compiled to native code in a moment.
const QUICK: [&str; 6] = [
    "profile.quick.inherits='release'",
    "profile.quick.codegen-units=16",
    "profile.quick.incremental=true",
    "profile.quick.lto='off'",
    "profile.quick.opt-level=1",
    "profile.quick.package.'*'.opt-level='s'",
];

/// Compiles the plugin's crate, and returns the path of the module.
pub(super) fn compile(folder: &Folder, quick: bool) -> anyhow::Result<PathBuf> {
    let manifest = folder.crate_manifest();
    ensure_target(&folder.dir)?;
    let output = Command::new(tool("CARGO", "cargo"))
        .args(["build", "--target", TARGET, "--message-format", "json-render-diagnostics"])
        .args(profile(quick))
        .arg("--manifest-path")
        .arg(&manifest)
        .arg("--target-dir")
        .arg(folder.guests())
        .current_dir(&folder.dir)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo: install Rust from https://rustup.rs")?;
    if !output.status.success() {
        ensure!(!lacks_sdk(&manifest), "{}", sdk::without_release(&folder.name, Language::Rust));
        bail!("{} does not compile; the compiler's output is above", folder.name);
    }
    module(&output.stdout, &manifest)
}

/// Returns the options for the profile of a build.
fn profile(quick: bool) -> Vec<&'static str> {
    match quick {
        true => QUICK.into_iter().flat_map(|setting| ["--config", setting]).chain(["--profile", "quick"]).collect(),
        false => vec!["--release"],
    }
}

/// Returns the command that describes a crate. What cargo has downloaded is found without the network.
fn metadata(manifest: &Path) -> Command {
    let mut command = Command::new(tool("CARGO", "cargo"));
    command.args(["metadata", "--offline", "--format-version", "1", "--manifest-path"]).arg(manifest);
    command
}

/// Returns whether cargo does not find the SDK.
fn lacks_sdk(manifest: &Path) -> bool {
    metadata(manifest).output().is_ok_and(|metadata| says_no_sdk(&String::from_utf8_lossy(&metadata.stderr)))
}

/// Returns the folders of the crates of this machine that a plugin is built with, beside its own; none if the plugin is not in
/// Rust, or if cargo cannot read the manifests, which the build reports.
pub(in crate::cli) async fn local_crates(folder: &Folder) -> Vec<PathBuf> {
    let manifest = folder.crate_manifest();
    if !manifest.is_file() {
        return Vec::new();
    }
    let output = tokio::process::Command::from(metadata(&manifest)).kill_on_drop(true).output().await;
    let metadata = output.ok().and_then(|output| serde_json::from_slice::<Metadata>(&output.stdout).ok());
    metadata.map(|metadata| metadata.local_dependencies(&manifest)).unwrap_or_default()
}

fn says_no_sdk(output: &str) -> bool {
    output.contains("no matching package named `hotshoe-sdk`")
}

/// Fails if the standard library for WebAssembly is not installed. Without this check the compiler says only that it
/// "can't find crate for `core`".
fn ensure_target(dir: &Path) -> anyhow::Result<()> {
    let output = Command::new(tool("RUSTC", "rustc"))
        .args(["--print", "target-libdir", "--target", TARGET])
        .current_dir(dir)
        .output()
        .context("cannot run rustc: install Rust from https://rustup.rs")?;
    let libraries = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    ensure!(
        output.status.success() && libraries.is_dir(),
        "Rust cannot compile for WebAssembly yet: run `rustup target add {TARGET}`"
    );
    Ok(())
}

fn tool(variable: &str, default: &str) -> std::ffi::OsString {
    std::env::var_os(variable).unwrap_or_else(|| default.into())
}

/// One line of cargo's messages.
#[derive(Deserialize)]
struct Message {
    reason: String,
    #[serde(default)]
    manifest_path: PathBuf,
    #[serde(default)]
    filenames: Vec<PathBuf>,
}

/// What cargo says about a crate and its dependencies.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    manifest_path: PathBuf,
    /// The registry or repository; none for a crate of this machine.
    source: Option<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

/// A crate and the crates that it depends on.
#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

#[derive(Deserialize)]
struct DependencyKind {
    /// `dev` or `build`; none for one that is linked.
    kind: Option<String>,
}

impl Dependency {
    /// Returns whether a component is built with it, and not tests alone.
    fn is_built_with(&self) -> bool {
        self.dep_kinds.iter().any(|kind| kind.kind.as_deref() != Some("dev"))
    }
}

impl Metadata {
    /// Returns the folders of the crates without a source that the crate with this manifest depends on, directly or not.
    /// Other members of its workspace are no dependencies.
    fn local_dependencies(&self, manifest: &Path) -> Vec<PathBuf> {
        let Some(own) = self.packages.iter().find(|package| is_same(&package.manifest_path, manifest)) else {
            return Vec::new();
        };
        let (mut reached, mut open) = (HashSet::from([&*own.id]), vec![&*own.id]);
        while let Some(id) = open.pop() {
            let deps = self.resolve.nodes.iter().filter(|node| node.id == id).flat_map(|node| &node.deps);
            let built_with = deps.filter(|dependency| dependency.is_built_with()).map(|dependency| &*dependency.pkg);
            open.extend(built_with.filter(|id| reached.insert(id)));
        }
        let is_local = |package: &&Package| package.source.is_none() && package.id != own.id;
        let local = self.packages.iter().filter(is_local).filter(|package| reached.contains(&*package.id));
        local.filter_map(|package| package.manifest_path.parent().map(Path::to_path_buf)).collect()
    }
}

/// Returns the module that cargo made of this crate, among those of its dependencies.
fn module(messages: &[u8], manifest: &Path) -> anyhow::Result<PathBuf> {
    let messages = serde_json::Deserializer::from_slice(messages).into_iter::<Message>().filter_map(Result::ok);
    let own =
        messages.filter(|message| message.reason == "compiler-artifact" && is_same(&message.manifest_path, manifest));
    let modules: Vec<_> =
        own.flat_map(|message| message.filenames).filter(|file| file.extension() == Some(OsStr::new("wasm"))).collect();
    match modules.as_slice() {
        [module] => Ok(module.clone()),
        [] => bail!("{} makes no module: give its [lib] crate-type = [\"cdylib\", \"rlib\"]", manifest.display()),
        _ => bail!("{} makes more than one module: a plugin is one library", manifest.display()),
    }
}

fn is_same(a: &Path, b: &Path) -> bool {
    a == b || matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_sdk_that_cargo_does_not_find_is_recognised() {
        assert!(says_no_sdk(
            "error: no matching package named `hotshoe-sdk` found\nlocation searched: crates.io index"
        ));
        assert!(!says_no_sdk(
            "error: no matching package named `other` found\nrequired by package `hotshoe-sdk v0.1.0`"
        ));
    }

    #[test]
    fn the_crates_of_this_machine_that_a_plugin_is_built_with_are_found_over_others_and_its_neighbours_are_not() {
        let package = |name: &str, source: Option<&str>| serde_json::json!({ "id": name, "manifest_path": format!("/p/{name}/Cargo.toml"), "source": source });
        let node = |name: &str, deps: &[(&str, Option<&str>)]| {
            let dep = |(name, kind): &(&str, Option<&str>)| serde_json::json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
            serde_json::json!({ "id": name, "deps": deps.iter().map(dep).collect::<Vec<_>>() })
        };
        let metadata = serde_json::json!({
            "packages": [
                package("demo", None), package("rules", None), package("names", None), package("neighbour", None),
                package("fixtures", None), package("serde", Some("registry")),
            ],
            "resolve": { "nodes": [
                node("demo", &[("rules", None), ("serde", None), ("fixtures", Some("dev"))]),
                node("rules", &[("names", Some("build")), ("rules", None)]), node("names", &[]), node("serde", &[]),
                node("neighbour", &[("demo", None)]), node("fixtures", &[]),
            ] },
        });
        let metadata: Metadata = serde_json::from_value(metadata).unwrap();
        let found = metadata.local_dependencies(Path::new("/p/demo/Cargo.toml"));
        assert_eq!(found, ["/p/rules", "/p/names"].map(PathBuf::from));
    }

    #[test]
    fn the_module_of_the_crate_itself_is_used() {
        let messages = br#"{"reason":"compiler-artifact","manifest_path":"/p/sdk/Cargo.toml","filenames":["/t/sdk.wasm"]}
            {"reason":"compiler-artifact","manifest_path":"/p/demo/Cargo.toml","filenames":["/t/demo.wasm","/t/libdemo.rlib"]}
            {"reason":"build-finished","success":true}"#;
        assert_eq!(module(messages, Path::new("/p/demo/Cargo.toml")).unwrap(), Path::new("/t/demo.wasm"));
        assert!(module(messages, Path::new("/p/other/Cargo.toml")).unwrap_err().to_string().contains("cdylib"));
    }
}
