//! `hotshoe build` of plugins in JavaScript: which interfaces a component exports.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::plugin_support::{HOTSHOE, exports, folder};
use tempfile::TempDir;

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// A plugin's folder with the tools and the SDK of this repository.
fn plugin() -> TempDir {
    let dir = folder();
    let manifest = "apiVersion: hotshoe.dev/v1alpha1\nkind: Plugin\nmetadata: {name: demo}\n\
                    spec:\n  source: {file: demo.wasm}\n";
    fs::write(dir.path().join("plugin.yaml"), manifest).unwrap();
    fs::write(dir.path().join("package.json"), r#"{"name": "demo", "type": "module"}"#).unwrap();
    let (tools, sdk) = (repository("target/tools/js"), repository("plugins/sdk-js"));
    fs::create_dir_all(&tools).unwrap();
    for (from, to) in [(tools, "target/tools/js"), (sdk, "node_modules/@hotshoe/sdk")] {
        let to = dir.path().join(to);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        symlink(from.canonicalize().unwrap(), to).unwrap();
    }
    dir
}

/// Builds the plugin with these functions beside `reconcile`.
fn build(dir: &Path, functions: &str) -> Output {
    let module = format!(
        "import {{ definePlugin }} from \"@hotshoe/sdk\";\n\nexport default definePlugin({{\n  name: \"demo\",\n  version: \
         \"0.1.0\",\n  parent: {{ apiVersion: \"example.com/v1\", kind: \"Test\" }},\n  reconcile: () => ({{ children: \
         \"keep\" }}),\n  {functions}\n}});\n"
    );
    fs::write(dir.join("plugin.js"), module).unwrap();
    let mut command = Command::new(HOTSHOE);
    command.args(["build", "."]).current_dir(dir).env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
    command.output().unwrap()
}

#[test]
fn a_component_exports_the_interfaces_that_the_plugin_has_functions_for_and_no_other() {
    let dir = plugin();
    let component = dir.path().join("target/plugins/demo.wasm");
    for (functions, expected) in [
        ("", vec!["reconciler@0.1.0"]),
        ("validate() {},", vec!["reconciler@0.1.0", "validation@0.2.0"]),
        (
            "setDefaults() {}, conversions: { v1: { v2: (same) => same }, v2: { v1: (same) => same } },",
            vec!["conversion@0.2.0", "defaulting@0.2.0", "reconciler@0.1.0"],
        ),
        ("", vec!["reconciler@0.1.0"]),
    ] {
        let built = build(dir.path(), functions);
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        assert_eq!(exports(&component), expected, "{functions}");
    }
}

#[test]
fn a_version_that_cannot_be_converted_stops_the_build_with_what_to_define() {
    let dir = plugin();
    let built = build(dir.path(), "conversions: { v1: { v2: (same) => same } },");
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(!built.status.success(), "{said}");
    assert!(said.contains("no conversion leads from v2 to v1: define conversions.v2.v1"), "{said}");
    assert!(said.contains("plugin.js:3"), "{said}");
}
