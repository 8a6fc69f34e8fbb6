//! Components in a real registry, pushed and pulled by `hotshoe` and by `skopeo`.

mod access;
mod images;
mod puller;
pub(crate) mod signatures;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use hotshoe_components::owner_of_config_maps;
use hotshoe_tests::host::program;
use hotshoe_tests::tool;
use serde_json::Value;
use tempfile::TempDir;

/// The folder of a user who is not logged in to any registry.
pub(crate) struct Desk(TempDir);

/// The result of a command.
struct Ended {
    code: Option<i32>,
    output: String,
    errors: String,
}

impl Desk {
    /// Creates the folder, with a component in `a.wasm`.
    pub(crate) fn new() -> Self {
        let desk = Self(TempDir::with_prefix("hotshoe-desk-").expect("a folder"));
        desk.write("a.wasm", component());
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.path(name), bytes).expect("a file is written");
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).expect("a file is read")
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.0).env("DOCKER_CONFIG", self.0.path()).env("HOME", self.0.path());
        for variable in ["HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "https_proxy", "http_proxy", "no_proxy", "ALL_PROXY"]
        {
            command.env_remove(variable);
        }
        command
    }

    fn hotshoe(&self, arguments: &[&str]) -> Ended {
        Ended::of(self.command(&program()).args(arguments).output().expect("hotshoe runs"))
    }

    /// Runs skopeo, another client, and returns its output.
    fn skopeo(&self, arguments: &[&str]) -> Vec<u8> {
        // The machine may have no file with a signature policy, which skopeo needs by default.
        let output = self.command(&tool("registry", "skopeo")).arg("--insecure-policy").args(arguments).output();
        let output = output.expect("skopeo is installed; tests/install.sh does so");
        assert!(output.status.success(), "skopeo {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }
}

impl Ended {
    fn of(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        Self { code: output.status.code(), output: text(output.stdout), errors: text(output.stderr) }
    }

    /// Returns the output of a command that must succeed, without the line break at its end.
    fn done(self) -> String {
        assert_eq!(self.code, Some(0), "{}", self.errors);
        self.output.trim_end().to_owned()
    }

    /// Returns the JSON output of a command that must succeed.
    fn json(self) -> Value {
        serde_json::from_str(&self.done()).expect("JSON")
    }

    /// Returns the error of a command that must fail.
    fn refused(self) -> String {
        assert_eq!(self.code, Some(1), "{}{}", self.output, self.errors);
        self.errors
    }
}

/// A component that a host accepts.
fn component() -> Vec<u8> {
    owner_of_config_maps().component()
}

/// Another component that a host accepts.
fn other_component() -> Vec<u8> {
    owner_of_config_maps().of("other.example.com", "v1", "Other").component()
}
