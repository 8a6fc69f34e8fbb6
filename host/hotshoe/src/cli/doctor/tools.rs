//! The tools that plugins are made and run with: how each is found, the oldest version that works, and how to get it.

use std::path::Path;

use serde::Deserialize;

use super::probe::{Version, ask};
use crate::cli::build::tools::Tools;
use crate::cli::build::{javascript, python};
use crate::cli::confinement;
use crate::cli::project::Language;
use hotshoe_operator::config::folders;
use hotshoe_platform::child::{Children, THIS_PROGRAM};

/// What a tool is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Building and testing plugins in this language.
    Language(Language),
    /// Running plugins, and the recipes of a project.
    Run,
}

/// A tool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tool {
    pub(super) name: &'static str,
    pub(super) purpose: Purpose,
    /// Whether its purpose needs it.
    is_needed: bool,
    probe: Probe,
    /// How to get it.
    get: &'static str,
}

/// How a tool is found.
#[derive(Clone, Copy, Debug)]
enum Probe {
    /// A program that prints its version, and the oldest version that works. The variable may name another program.
    Program { program: &'static str, variable: &'static str, arguments: &'static [&'static str], oldest: &'static str },
    /// The standard library of Rust for WebAssembly.
    Target,
    /// Modules of Python, which are installed if this code runs without an error.
    Python(&'static str),
    /// Tools that the first build of a plugin installs below the root of its project.
    Installed(&'static Tools),
    /// The cluster of the current context.
    Cluster,
    /// The features of the kernel that confine the process which compiles plugins.
    Confinement,
}

const TARGET: &str = "wasm32-unknown-unknown";
const RUST: Purpose = Purpose::Language(Language::Rust);
const PYTHON: Purpose = Purpose::Language(Language::Python);
const JAVASCRIPT: Purpose = Purpose::Language(Language::JavaScript);

const fn program(program: &'static str, arguments: &'static [&'static str], oldest: &'static str) -> Probe {
    Probe::Program { program, variable: "", arguments, oldest }
}

const fn needed(name: &'static str, purpose: Purpose, probe: Probe, get: &'static str) -> Tool {
    Tool { name, purpose, is_needed: true, probe, get }
}

const fn useful(name: &'static str, purpose: Purpose, probe: Probe, get: &'static str) -> Tool {
    Tool { name, purpose, is_needed: false, probe, get }
}

impl Tool {
    /// All tools, grouped by purpose.
    pub(super) const ALL: &[Tool] = &[
        useful("rustup", RUST, program("rustup", &["--version"], ""), "install Rust with it, from https://rustup.rs"),
        needed(
            "rustc",
            RUST,
            Probe::Program {
                program: "rustc",
                variable: "RUSTC",
                arguments: &["--version"],
                oldest: env!("CARGO_PKG_RUST_VERSION"),
            },
            "install Rust from https://rustup.rs, or bring it up to date: `rustup update`",
        ),
        needed(
            "cargo",
            RUST,
            Probe::Program { program: "cargo", variable: "CARGO", arguments: &["--version"], oldest: "" },
            "install Rust from https://rustup.rs",
        ),
        needed(TARGET, RUST, Probe::Target, "run `rustup target add wasm32-unknown-unknown`"),
        needed(
            "cc",
            RUST,
            program("cc", &["--version"], ""),
            "install a C compiler, which Rust needs for linking: gcc or clang of your system",
        ),
        needed(
            "python3",
            PYTHON,
            Probe::Program { program: "python3", variable: "PYTHON", arguments: &["--version"], oldest: "3.10" },
            "install Python from https://python.org or your system's packages, or name one with the variable PYTHON",
        ),
        needed(
            "venv",
            PYTHON,
            Probe::Python("import ensurepip, venv"),
            "install it: Debian and Ubuntu have it in python3-venv",
        ),
        useful(
            "componentize",
            PYTHON,
            Probe::Installed(&python::TOOLS),
            "the first build installs componentize-py, 20 MB from PyPI",
        ),
        needed("node", JAVASCRIPT, program("node", &["--version"], "20"), "install Node.js from https://nodejs.org"),
        needed(
            "npm",
            JAVASCRIPT,
            program("npm", &["--version"], ""),
            "install it with Node.js, from https://nodejs.org",
        ),
        useful(
            "componentize",
            JAVASCRIPT,
            Probe::Installed(&javascript::TOOLS),
            "the first build installs esbuild and componentize-qjs, 50 MB from npm",
        ),
        useful(
            "just",
            Purpose::Run,
            program("just", &["--version"], ""),
            "install it from https://just.systems, or by `cargo install --locked just`",
        ),
        useful(
            "kubectl",
            Purpose::Run,
            program("kubectl", &["version", "--client"], ""),
            "install it from https://kubernetes.io/docs/tasks/tools",
        ),
        useful(
            "cluster",
            Purpose::Run,
            Probe::Cluster,
            "set a current context (`kubectl config use-context NAME`), or start a cluster: kind, minikube, or `./justw up` in the \
             repository of Hotshoe",
        ),
        useful(
            "confinement",
            Purpose::Run,
            Probe::Confinement,
            "the processes that compile, pull and verify components are less confined here: run hosts where the kernel has what is missing",
        ),
        useful(
            "go",
            Purpose::Run,
            program("go", &["version"], "1.26"),
            "only the local control plane of the repository of Hotshoe is built with it: install it from https://go.dev/dl",
        ),
    ];

    pub(super) fn is_needed_for(self, language: Language) -> bool {
        self.is_needed && self.purpose == Purpose::Language(language)
    }

    /// Looks for the tool, and returns its version, or `there` if it has none.
    ///
    /// # Errors
    /// What is wrong, and how to fix it.
    pub(super) async fn find(self) -> Result<String, String> {
        let found = match self.probe {
            Probe::Program { program, variable, arguments, oldest } => {
                version(program, variable, arguments, oldest).await
            }
            Probe::Target => target().await,
            Probe::Python(code) => {
                let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
                ask(&python, &["-c", code]).await.map(|_| "there".to_owned())
            }
            Probe::Installed(tools) => installed(tools),
            Probe::Cluster => cluster().await,
            Probe::Confinement => confinement().await,
        };
        found.map_err(|why| format!("{why}; {}", self.get))
    }
}

async fn version(program: &str, variable: &str, arguments: &[&str], oldest: &str) -> Result<String, String> {
    let named = std::env::var(variable).ok().filter(|named| !variable.is_empty() && !named.is_empty());
    let output = ask(&named.unwrap_or_else(|| program.to_owned()), arguments).await?;
    let found = Version::in_text(&output)
        .ok_or_else(|| format!("it prints no version, but {:?}", output.lines().next().unwrap_or_default()))?;
    match Version::in_text(oldest) {
        Some(oldest) if found < oldest => Err(format!("it is {found}, and {oldest} or newer is needed")),
        _ => Ok(found.to_string()),
    }
}

async fn target() -> Result<String, String> {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let folder = ask(&rustc, &["--print", "target-libdir", "--target", TARGET]).await?;
    if Path::new(folder.trim()).is_dir() { Ok("there".to_owned()) } else { Err("it is not installed".to_owned()) }
}

/// Looks for tools below the root of the project that the current folder is in.
fn installed(tools: &Tools) -> Result<String, String> {
    let here = std::env::current_dir().map_err(|error| format!("the current folder cannot be read: {error}"))?;
    match tools.are_installed(folders::root_of(&here)) {
        true => Ok("there".to_owned()),
        false => Err("it is not installed here yet".to_owned()),
    }
}

async fn cluster() -> Result<String, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Server {
        server_version: Git,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Git {
        git_version: String,
    }
    let context =
        ask("kubectl", &["config", "current-context"]).await.map_err(|_| "no current context is set".to_owned())?;
    let context = context.trim();
    let output = ask("kubectl", &["version", "--output", "json", "--request-timeout", "5s"]).await;
    let output = output.map_err(|why| format!("the current context, {context}, does not answer ({why})"))?;
    let server: Server =
        serde_json::from_str(&output).map_err(|_| format!("the current context, {context}, reports no version"))?;
    Ok(format!("{context}, Kubernetes {}", server.server_version.git_version))
}

async fn confinement() -> Result<String, String> {
    match confinement::missing(&Children::of(THIS_PROGRAM.into())).await {
        Ok(None) => Ok("Landlock and seccomp".to_owned()),
        Ok(Some(missing)) => Err(missing),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::runtime;

    #[test]
    fn a_missing_or_old_program_is_reported_with_the_way_to_get_it() {
        let find = |probe| runtime().unwrap().block_on(needed("tool", RUST, probe, "install it from there").find());
        let missing = find(program("no-such-program-is-there", &[], "")).unwrap_err();
        assert_eq!(missing, "it is not installed; install it from there");
        let old = find(program("echo", &["tool 1.2.3 (abc 2026-01-01)"], "1.10")).unwrap_err();
        assert_eq!(old, "it is 1.2.3, and 1.10 or newer is needed; install it from there");
        assert_eq!(find(program("echo", &["v22.1.0"], "20")).unwrap(), "22.1.0");
        let unversioned = find(program("echo", &["hello"], "")).unwrap_err();
        assert!(unversioned.starts_with("it prints no version, but \"hello\""), "{unversioned}");
        let broken = find(program("false", &[], "")).unwrap_err();
        assert!(broken.starts_with("it ends with exit code 1"), "{broken}");
    }

    #[test]
    fn each_language_needs_something() {
        for language in Language::ALL {
            assert!(Tool::ALL.iter().any(|tool| tool.is_needed_for(language)), "{language}");
        }
    }
}
