//! Compiles the crate of a plugin in Rust to a core module, by cargo.

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

/// Returns whether cargo does not find the SDK. What it has downloaded is found without the network.
fn lacks_sdk(manifest: &Path) -> bool {
    let metadata = Command::new(tool("CARGO", "cargo"))
        .args(["metadata", "--offline", "--format-version", "1", "--manifest-path"])
        .arg(manifest)
        .output();
    metadata.is_ok_and(|metadata| says_no_sdk(&String::from_utf8_lossy(&metadata.stderr)))
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
    fn the_module_of_the_crate_itself_is_used() {
        let messages = br#"{"reason":"compiler-artifact","manifest_path":"/p/sdk/Cargo.toml","filenames":["/t/sdk.wasm"]}
            {"reason":"compiler-artifact","manifest_path":"/p/demo/Cargo.toml","filenames":["/t/demo.wasm","/t/libdemo.rlib"]}
            {"reason":"build-finished","success":true}"#;
        assert_eq!(module(messages, Path::new("/p/demo/Cargo.toml")).unwrap(), Path::new("/t/demo.wasm"));
        assert!(module(messages, Path::new("/p/other/Cargo.toml")).unwrap_err().to_string().contains("cdylib"));
    }
}
