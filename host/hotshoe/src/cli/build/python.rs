//! Makes a component of a plugin in Python: componentize-py imports the plugin's module, and the component keeps the
//! state of the interpreter after that, so that a call starts no interpreter and imports nothing.

mod immortal;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, bail, ensure};
use serde::Deserialize;

use crate::cli::build::tools::Tools;
use crate::cli::build::worlds;
use crate::cli::new::sdk;
use crate::cli::project::{Folder, Language, shown};
use crate::cli::terminal;
use hotshoe_core::model::digest::Digest;

/// The version of componentize-py. No other file names it but [`REQUIREMENTS`]. It brings its own Python, 3.14, for the
/// component.
const COMPONENTIZE_PY: &str = "0.25.1";
/// What pip installs, with the digest of each file, so that a package index cannot serve another one.
const REQUIREMENTS: &str = include_str!("python/requirements.txt");
/// The version of Python in the components.
const GUEST_PYTHON: &str = "3.14";
/// The oldest version of Python that the tools run on.
const OLDEST_PYTHON: (u32, u32) = (3, 10);
/// Where the tools are installed, below the root of the project: a virtual environment of their own.
pub(in crate::cli) const TOOLS: Tools = Tools { folder: "target/tools/python", version: COMPONENTIZE_PY };
/// Where components are made, below the root of the project.
const WORK: &str = "target/guests/python";
/// The module that componentize-py is given: it has the SDK export the plugin's own module.
const ENTRY: &str = "hotshoe_entry";
/// How the SDK says that the plugin has functions for other optional interfaces than the world has.
const OTHER_INTERFACES: &str = "hotshoe:interfaces=";
/// The file beside [`ENTRY`] into which the SDK writes the addresses of all objects.
const OBJECTS: &str = "objects";
/// The folder of the worlds, in the folder in which a component is built.
const WORLDS: &str = "worlds";
/// The file with the optional interfaces of the last build, beside it.
const INTERFACES: &str = "interfaces";
const STAGE: &str = include_str!("python/stage.py");
/// Runs the command line of componentize-py. The script that pip installs has the absolute path of its folder in it,
/// and fails when an author has moved the project.
const SCRIPT: &str =
    "import sys; from componentize_py import script; sys.argv[0] = 'componentize-py'; sys.exit(script())";

/// Makes a component of the folder's module, and returns its path. It is built again only if one of its inputs has
/// changed.
///
/// # Errors
/// Where Python is missing, a package cannot be installed, or the module cannot be imported.
pub(super) fn componentize(folder: &Folder) -> anyhow::Result<PathBuf> {
    let tools = install_tools(folder.root())?;
    let work = Work::of(folder)?;
    let staged = stage(folder, &tools, &work)?;
    let inputs = staged.inputs();
    let component = work.dir.join("component.wasm");
    if component.is_file() && work.holds("inputs", &inputs) {
        return Ok(component);
    }
    work.install(&tools, &staged.requires).map_err(|error| match names_sdk(&error) {
        true => error.context(sdk::without_release(&folder.name, Language::Python)),
        false => error,
    })?;
    let made = work.dir.join("component.new.wasm");
    work.componentize(&tools, &staged.module, &made)
        .with_context(|| format!("{} is not built; the output above says why", folder.name))?;
    work.make_immortal(&made)?;
    fs::rename(&made, &component).with_context(|| format!("cannot write {}", component.display()))?;
    work.write("inputs", &inputs)?;
    Ok(component)
}

/// Installs the tools once, and returns their folder. Concurrent builds wait for each other.
fn install_tools(root: &Path) -> anyhow::Result<PathBuf> {
    let tools = root.join(TOOLS.folder);
    let cannot_write = || format!("cannot write {}", shown(&tools).display());
    fs::create_dir_all(&tools).with_context(cannot_write)?;
    let lock = File::create(tools.join("lock")).with_context(cannot_write)?;
    lock.lock().with_context(cannot_write)?;
    if TOOLS.are_installed(root) {
        return Ok(tools);
    }
    let place = shown(&tools).display().to_string();
    let python = find_python()?;
    if !tools.join("bin/python").is_file() {
        let made = run(Command::new(&python).args(["-m", "venv"]).arg(&tools))?;
        ensure!(
            made.status.success(),
            "{python} cannot make an environment in {place}: {}\nDebian and Ubuntu have what it lacks in python3-venv",
            output_of(&made)
        );
    }
    terminal::note(format_args!("installing componentize-py {COMPONENTIZE_PY} into {place}, once: 20 MB from PyPI"));
    let requirements = tools.join("requirements.txt");
    fs::write(&requirements, REQUIREMENTS).with_context(cannot_write)?;
    let listed = requirements.to_string_lossy();
    pip(&tools, &["--require-hashes", "--no-deps", "--only-binary=:all:", "-r", &listed]).with_context(|| {
        format!(
            "cannot install componentize-py {COMPONENTIZE_PY}. It is needed once, so connect to PyPI, or name a mirror of \
             it with PIP_INDEX_URL, or a folder of wheels with PIP_NO_INDEX=1 and PIP_FIND_LINKS"
        )
    })?;
    TOOLS.record(root).with_context(cannot_write)?;
    Ok(tools)
}

/// Returns whether pip has found no SDK.
fn names_sdk(error: &anyhow::Error) -> bool {
    format!("{error:#}").contains("No matching distribution found for hotshoe-sdk")
}

/// Returns the Python to run the tools on: `python3`, or the program that the variable `PYTHON` names.
fn find_python() -> anyhow::Result<String> {
    let (major, minor) = OLDEST_PYTHON;
    let needed = format!(
        "a plugin in Python needs Python {major}.{minor} or newer to be built: install it from https://python.org or your \
         system's packages, or name one with the variable PYTHON"
    );
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let version = "import sys; print(*sys.version_info[:2], sep='.')";
    let output = Command::new(&python).args(["-c", version]).output();
    let output = output.with_context(|| format!("cannot run {python}: {needed}"))?;
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    match parse(&version) {
        Some(found) if found >= OLDEST_PYTHON => Ok(python),
        Some(_) => bail!("{python} is Python {version}: {needed}"),
        None => bail!("{python} prints no version ({}): {needed}", output_of(&output)),
    }
}

/// Returns the first two numbers of a version.
fn parse(version: &str) -> Option<(u32, u32)> {
    let (major, rest) = version.split_once('.')?;
    Some((major.parse().ok()?, rest.split('.').next()?.parse().ok()?))
}

/// The output of `stage.py`: the module, what pip has to install, and a digest of the files that were copied.
#[derive(Deserialize)]
struct Staged {
    module: String,
    requires: Vec<String>,
    digest: String,
}

impl Staged {
    /// Returns a text that changes whenever any input of the component does.
    fn inputs(&self) -> String {
        let contract: String = worlds::files().into_iter().map(|(_, text)| text).collect();
        let contract = Digest::of(contract.as_bytes());
        let requires = self.requires.join("\n");
        format!("{COMPONENTIZE_PY}\n{contract}\n{}\n{requires}\n{}\n", entry(&self.module, ""), self.digest)
    }
}

fn stage(folder: &Folder, tools: &Path, work: &Work) -> anyhow::Result<Staged> {
    let mut command = Command::new(tools.join("bin/python"));
    let staged = run(command.args(["-c", STAGE]).arg(&folder.dir).arg(work.modules()))?;
    ensure!(staged.status.success(), "{}", output_of(&staged));
    serde_json::from_slice(&staged.stdout).context("stage.py does not print JSON")
}

/// The folder in which a component is built.
struct Work {
    dir: PathBuf,
    /// Held until the build is over, so that two builds of one plugin wait for each other.
    _lock: File,
}

impl Work {
    fn of(folder: &Folder) -> anyhow::Result<Self> {
        let dir = folder.root().join(WORK).join(&folder.name);
        let cannot_write = || format!("cannot write {}", dir.display());
        fs::create_dir_all(dir.join("entry")).with_context(cannot_write)?;
        let lock = File::create(dir.join("lock")).with_context(cannot_write)?;
        lock.lock().with_context(cannot_write)?;
        Ok(Self { dir, _lock: lock })
    }

    /// Returns where the plugin's modules and those of its local dependencies are copied to.
    fn modules(&self) -> PathBuf {
        self.dir.join("modules")
    }

    /// Returns where its other dependencies are installed, in the layout of an environment that componentize-py
    /// expects.
    fn packages(&self) -> PathBuf {
        self.dir.join("environment/lib/site-packages")
    }

    fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let path = self.dir.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    fn holds(&self, name: &str, text: &str) -> bool {
        fs::read_to_string(self.dir.join(name)).is_ok_and(|there| there == text)
    }

    /// Installs what the plugin requires from PyPI. Only packages of pure Python are accepted: those with native code
    /// have no build for WebAssembly.
    fn install(&self, tools: &Path, requires: &[String]) -> anyhow::Result<()> {
        let packages = self.packages();
        let wanted = requires.join("\n");
        if packages.is_dir() && self.holds("requires", &wanted) {
            return Ok(());
        }
        if packages.exists() {
            fs::remove_dir_all(&packages).with_context(|| format!("cannot empty {}", packages.display()))?;
        }
        fs::create_dir_all(&packages).with_context(|| format!("cannot write {}", packages.display()))?;
        if !requires.is_empty() {
            terminal::note(format_args!("installing {} for the component", requires.join(", ")));
            let target = packages.to_string_lossy().into_owned();
            let mut arguments = vec!["--target", &target, "--only-binary=:all:", "--python-version", GUEST_PYTHON];
            arguments.extend(["--platform", "any", "--abi", "none", "--implementation", "py"]);
            arguments.extend(requires.iter().map(String::as_str));
            pip(tools, &arguments).context(
                "cannot install what pyproject.toml depends on: a component takes only packages of pure Python, with wheels",
            )?;
        }
        self.write("requires", &wanted)
    }

    /// Makes the component. Which interfaces the plugin has functions for is known only when its module is imported, and
    /// the world is chosen before: it is that of the last build, and if the SDK finds that it is another, that one.
    fn componentize(&self, tools: &Path, module: &str, component: &Path) -> anyhow::Result<()> {
        let last = fs::read_to_string(self.dir.join(INTERFACES)).unwrap_or_default();
        let Some(own) = self.componentize_in(&last, tools, module, component)? else { return Ok(()) };
        self.write(INTERFACES, &own)?;
        match self.componentize_in(&own, tools, module, component)? {
            None => Ok(()),
            Some(other) => bail!("the module {module} defines {own} when it is first imported, and then {other}"),
        }
    }

    /// Makes the component by componentize-py, without WASI, in the world with these optional interfaces, separated by
    /// commas. Returns those that the plugin has functions for, if they are others.
    fn componentize_in(
        &self,
        interfaces: &str,
        tools: &Path,
        module: &str,
        component: &Path,
    ) -> anyhow::Result<Option<String>> {
        for (path, text) in worlds::files() {
            let file = self.dir.join(WORLDS).join(path);
            let written = file.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&file, text));
            written.with_context(|| format!("cannot write {}", file.display()))?;
        }
        self.write(&format!("entry/{ENTRY}.py"), &entry(module, interfaces))?;
        let world = ["plugin"].into_iter().chain(names(interfaces)).collect::<Vec<_>>().join("-");
        let made = Command::new(tools.join("bin/python"))
            .args(["-c", SCRIPT, "--quiet"])
            .args(["--wit-path", WORLDS, "--world", &world])
            .args(["componentize", ENTRY, "--stub-wasi", "--python-path", "entry", "--python-path", "modules"])
            .arg("--output")
            .arg(component)
            .current_dir(&self.dir)
            // Otherwise componentize-py would take the packages of an environment that is active in the shell.
            .env("VIRTUAL_ENV", "environment")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .output()
            .context("cannot run componentize-py")?;
        if made.status.success() {
            return Ok(None);
        }
        let output = output_of(&made);
        if let Some(others) = other_interfaces(&output) {
            return Ok(Some(others.to_owned()));
        }
        terminal::note(exception(&output));
        bail!("componentize-py made no component of the module {module}");
    }
}

impl Work {
    /// Makes the objects of a component immortal, at the addresses that the SDK has written.
    fn make_immortal(&self, component: &Path) -> anyhow::Result<()> {
        let read = |path: &Path| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
        let mut bytes = read(component)?;
        let addresses = read(&self.dir.join("entry").join(OBJECTS))?;
        immortal::write(&mut bytes, &addresses)?;
        fs::write(component, bytes).with_context(|| format!("cannot write {}", component.display()))
    }
}

/// Returns the source of the module [`ENTRY`], in a world with these optional interfaces.
fn entry(module: &str, interfaces: &str) -> String {
    let interfaces: Vec<&str> = names(interfaces).collect();
    format!(
        "from pathlib import Path\n\nfrom hotshoe.component import export\n\nglobals().update(export({module:?}, \
         Path(__file__).parent, {interfaces:?}))\n"
    )
}

/// Returns the names in a list with commas.
fn names(interfaces: &str) -> impl Iterator<Item = &str> {
    interfaces.split(',').filter(|name| !name.is_empty())
}

/// Returns the optional interfaces that the SDK names in the output of componentize-py, with commas between them.
fn other_interfaces(output: &str) -> Option<&str> {
    let named = output.split(OTHER_INTERFACES).skip(1).filter_map(|rest| rest.split_once('.'));
    // Among the frames is the line of the SDK that makes the text.
    named.map(|(names, _)| names).find(|names| names.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b','))
}

/// Returns the author's exception from the output of componentize-py, which has frames of its own before and after it.
fn exception(output: &str) -> &str {
    let end = output.find("\nStack backtrace:").or_else(|| output.find("\n\nCaused by:")).unwrap_or(output.len());
    let begin = output.find("Traceback (most recent call last)").filter(|begin| *begin < end).unwrap_or(0);
    output.get(begin..end).unwrap_or(output).trim()
}

fn pip(tools: &Path, arguments: &[&str]) -> anyhow::Result<()> {
    let mut command = Command::new(tools.join("bin/python"));
    command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(arguments);
    let installed = run(&mut command)?;
    ensure!(installed.status.success(), "{}", output_of(&installed));
    Ok(())
}

fn run(command: &mut Command) -> anyhow::Result<Output> {
    let program = command.get_program().to_owned();
    command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {}", OsStr::display(&program)))
}

/// Returns what a command printed: its standard error, or its standard output where that is empty.
fn output_of(output: &Output) -> String {
    let printed = if output.stderr.is_empty() { &output.stdout } else { &output.stderr };
    String::from_utf8_lossy(printed).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_compared_by_its_numbers() {
        let oldest = Some(OLDEST_PYTHON);
        assert!(parse("3.9") < oldest && parse("3.10.2") >= oldest && parse("3.14") > oldest);
        assert_eq!(parse("three"), None);
    }

    #[test]
    fn the_tools_are_pinned_by_the_digests_of_their_files() {
        let mut lines = REQUIREMENTS.lines().filter(|line| !line.starts_with('#'));
        assert_eq!(lines.next(), Some(&*format!("componentize-py=={COMPONENTIZE_PY} \\")));
        let hashes: Vec<_> = lines.map(|line| line.trim().trim_end_matches(" \\")).collect();
        let is_digest = |hash: &&str| hash.strip_prefix("--hash=sha256:").is_some_and(|digits| digits.len() == 64);
        assert!(!hashes.is_empty() && hashes.iter().all(is_digest), "{hashes:?}");
    }

    #[test]
    fn the_interfaces_that_a_plugin_has_functions_for_are_read() {
        let output = "    raise ImportError(f\"hotshoe:interfaces={','.join(names)}.\")\n\
                      ImportError: hotshoe:interfaces=validation,conversion.\nmore";
        assert_eq!(other_interfaces(output), Some("validation,conversion"));
        assert_eq!(other_interfaces("ImportError: hotshoe:interfaces=."), Some(""));
        assert_eq!(other_interfaces("Traceback:\nValueError: no"), None);
    }

    #[test]
    fn the_exception_is_shown_without_the_frames_of_componentize_py() {
        let output = "Error: failed\nTraceback (most recent call last):\n  File \"/1/a.py\", line 3\nValueError: no\n\n\
                      Caused by:\n    0: x";
        assert_eq!(exception(output), "Traceback (most recent call last):\n  File \"/1/a.py\", line 3\nValueError: no");
        assert_eq!(exception("Error: no such file"), "Error: no such file");
    }
}
