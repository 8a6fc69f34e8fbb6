//! `hotshoe build` of plugins in Python: what it needs, and its messages where something is missing.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::plugin_support::{HOTSHOE, exports, folder};
use tempfile::TempDir;

const PROJECT: &str =
    "[project]\nname = \"demo-plugin\"\nversion = \"0.1.0\"\ndependencies = [\"hotshoe-sdk==0.1.*\"]\n";
const MODULE: &str = "from hotshoe import Decision, Kind, Plugin\n\n\
    plugin = Plugin('demo', version='0.1.0', parent=Kind('example.com/v1', 'Test'))\n\n\n\
    @plugin.reconcile\ndef reconcile(request):\n    return Decision()\n";

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// A project file that depends on the SDK of this repository.
fn project() -> String {
    let sdk = repository("plugins/sdk-python").canonicalize().unwrap();
    format!("{PROJECT}[tool.uv.sources]\nhotshoe-sdk = {{ path = \"{}\" }}\n", sdk.display())
}

/// A plugin's folder without tools.
fn plugin(project: &str, module: &str) -> TempDir {
    let dir = folder();
    let manifest = "apiVersion: hotshoe.dev/v1alpha1\nkind: Plugin\nmetadata: {name: demo}\n\
                    spec:\n  source: {file: demo.wasm}\n";
    fs::write(dir.path().join("plugin.yaml"), manifest).unwrap();
    fs::write(dir.path().join("pyproject.toml"), project).unwrap();
    fs::write(dir.path().join("demo_plugin.py"), module).unwrap();
    dir
}

/// A plugin's folder with the tools of this repository.
fn plugin_with_tools(project: &str, module: &str) -> TempDir {
    let dir = plugin(project, module);
    let tools = repository("target/tools/python");
    fs::create_dir_all(&tools).unwrap();
    fs::create_dir_all(dir.path().join("target/tools")).unwrap();
    symlink(tools.canonicalize().unwrap(), dir.path().join("target/tools/python")).unwrap();
    dir
}

fn build(dir: &Path, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(HOTSHOE);
    command.args(["build", "."]).current_dir(dir).env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
    command.envs(variables.iter().copied()).output().unwrap()
}

/// Returns the error output of a build that must fail.
fn failure(dir: &Path, variables: &[(&str, &str)]) -> String {
    let output = build(dir, variables);
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn without_a_python_that_is_new_enough_it_says_which_one_is_needed() {
    let dir = plugin(&project(), MODULE);
    let said = failure(dir.path(), &[("PYTHON", "/nowhere/python3")]);
    assert!(said.contains("cannot run /nowhere/python3") && said.contains("Python 3.10 or newer"), "{said}");
    let old = dir.path().join("old");
    fs::write(&old, "#!/bin/sh\necho 3.9\n").unwrap();
    fs::set_permissions(&old, fs::Permissions::from_mode(0o755)).unwrap();
    let said = failure(dir.path(), &[("PYTHON", old.to_str().unwrap())]);
    assert!(said.contains("is Python 3.9: a plugin in Python needs Python 3.10 or newer"), "{said}");
}

#[test]
fn where_pypi_is_not_reached_it_says_how_to_go_on() {
    let dir = plugin(&project(), MODULE);
    let nowhere = [("PIP_INDEX_URL", "http://127.0.0.1:1/"), ("PIP_RETRIES", "0"), ("PIP_CONFIG_FILE", "/dev/null")];
    let said = failure(dir.path(), &[&nowhere[..], &[("PIP_NO_INDEX", ""), ("PIP_FIND_LINKS", "")]].concat());
    assert!(said.contains("cannot install componentize-py") && said.contains("PIP_FIND_LINKS"), "{said}");
}

#[test]
fn a_project_that_is_no_plugin_is_refused_before_anything_is_made() {
    let nameless = "[project]\nversion = \"1\"\n";
    let without_sdk = "[project]\nname = \"demo-plugin\"\ndependencies = []\n";
    let other = project().replace("demo-plugin", "other");
    let broken = "[project\n";
    for (project, words) in [
        (nameless, "pyproject.toml has no [project] name"),
        (without_sdk, "pyproject.toml depends on no hotshoe-sdk: add it, as in dependencies ="),
        (&other, "names the module other, and neither other.py nor other/__init__.py is in"),
        (broken, "pyproject.toml cannot be read"),
    ] {
        let said = failure(plugin_with_tools(project, MODULE).path(), &[]);
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn an_exception_at_the_top_of_a_module_is_shown_with_its_line() {
    let dir = plugin_with_tools(&project(), &format!("{MODULE}\n\nraise ValueError('not today')\n"));
    let said = failure(dir.path(), &[]);
    assert!(said.contains("demo_plugin.py\", line 11") && said.contains("ValueError: not today"), "{said}");
    assert!(said.contains("demo is not built; the output above says why"), "{said}");
    fs::write(dir.path().join("demo_plugin.py"), "import json\n").unwrap();
    let said = failure(dir.path(), &[]);
    assert!(said.contains("the module demo_plugin has no hotshoe.Plugin at its top"), "{said}");
}

#[test]
fn a_component_exports_the_interfaces_that_the_plugin_has_functions_for_and_no_other() {
    let functions = "\n\n@plugin.validate\ndef validate(proposal):\n    pass\n\n\n@plugin.convert('v1', 'v2')\n\
                     @plugin.convert('v2', 'v1')\ndef same(object, annotations):\n    return object\n";
    let dir = plugin_with_tools(&project(), &format!("{MODULE}{functions}"));
    let component = dir.path().join("target/plugins/demo.wasm");
    let built = build(dir.path(), &[]);
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    assert_eq!(exports(&component), ["conversion@0.2.0", "reconciler@0.1.0", "validation@0.2.0"]);
    fs::write(dir.path().join("demo_plugin.py"), MODULE).unwrap();
    assert!(build(dir.path(), &[]).status.success());
    assert_eq!(exports(&component), ["reconciler@0.1.0"]);
}

#[test]
fn a_version_that_cannot_be_converted_stops_the_build_with_what_to_define() {
    let function = "\n\n@plugin.convert('v1', 'v2')\ndef to_v2(object, annotations):\n    return object\n";
    let said = failure(plugin_with_tools(&project(), &format!("{MODULE}{function}")).path(), &[]);
    assert!(said.contains("no conversion leads from v2 to v1: define one with @plugin.convert('v2', 'v1')"), "{said}");
}

#[test]
fn a_component_that_a_host_loads_is_made_again_only_after_a_change() {
    let dir = plugin_with_tools(&project(), MODULE);
    let built = build(dir.path(), &[]);
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let made = dir.path().join("target/guests/python/demo/component.wasm");
    let time = || fs::metadata(&made).unwrap().modified().unwrap();
    let before = time();
    assert!(build(dir.path(), &[]).status.success());
    assert_eq!(time(), before, "nothing has changed");
    fs::write(dir.path().join("demo_plugin.py"), format!("{MODULE}# more\n")).unwrap();
    assert!(build(dir.path(), &[]).status.success());
    assert_ne!(time(), before, "a line has changed");
}
