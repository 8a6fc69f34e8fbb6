//! Adds a new crate to the workspace of a project's crates.

use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};

/// The possible manifests of the workspace. The first one is that of this repository, where the host has a workspace of
/// its own.
const MANIFESTS: [&str; 2] = ["plugins/Cargo.toml", "Cargo.toml"];
/// The dependencies that a new crate inherits from the workspace.
const DEPENDENCIES: [&str; 4] = ["hotshoe-sdk", "schemars", "serde", "serde_json"];

/// An existing workspace.
#[derive(Debug)]
pub(super) struct Workspace {
    /// The path of its manifest, relative to the project's folder.
    pub(super) manifest: &'static str,
    text: String,
}

impl Workspace {
    /// Finds the workspace of a project.
    ///
    /// # Errors
    /// Where its manifest cannot be read.
    pub(super) fn of(project: &Path) -> anyhow::Result<Option<Self>> {
        let Some(manifest) = MANIFESTS.into_iter().find(|manifest| project.join(manifest).is_file()) else {
            return Ok(None);
        };
        let text = fs::read_to_string(project.join(manifest)).with_context(|| format!("cannot read {manifest}"))?;
        Ok(Some(Self { manifest, text }))
    }

    /// Returns the text of its manifest with the plugin as another member. Everything else stays as it is.
    ///
    /// # Errors
    /// If the manifest has no list of members, or lacks a dependency of a new crate.
    pub(super) fn with_member(&self, plugin: &str) -> anyhow::Result<String> {
        let Self { manifest, text } = self;
        let member = if *manifest == "Cargo.toml" { format!("plugins/{plugin}") } else { plugin.to_owned() };
        let lacks = DEPENDENCIES.iter().find(|name| !text.lines().any(|line| is_key(line, name)));
        ensure!(
            lacks.is_none(),
            "{manifest} has no workspace.dependencies.{}, which the new crate inherits; add it",
            lacks.unwrap_or(&"")
        );
        let head = "members = [";
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let workspace = lines.iter().position(|line| line.trim() == "[workspace]");
        let members = workspace
            .and_then(|from| (from..lines.len()).find(|at| lines.get(*at).is_some_and(|line| line.starts_with(head))));
        let line = members.and_then(|at| lines.get_mut(at));
        let line =
            line.with_context(|| format!("{manifest} has no line `{head}` under [workspace]; add one, and try again"))?;
        let rest = line.trim_start_matches(head).to_owned();
        let is_empty = rest.trim_start().starts_with(']');
        *line = format!("{head}\"{member}\"{}{rest}", if is_empty { "" } else { ", " });
        Ok(lines.join("\n") + "\n")
    }
}

fn is_key(line: &str, name: &str) -> bool {
    line.strip_prefix(name).is_some_and(|rest| rest.trim_start().starts_with('=') || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEPENDENCIES: &str = "[workspace.dependencies]\nhotshoe-sdk = \"0.1\"\nschemars = \"1\"\nserde = \"1\"\nserde_json.version = \"1\"\n";

    fn with_member(manifest: &'static str, members: &str) -> anyhow::Result<String> {
        let text = format!("# why\n[workspace]\nresolver = \"3\"\n{members}\n\n{DEPENDENCIES}");
        Workspace { manifest, text }.with_member("cache")
    }

    #[test]
    fn a_member_is_added_and_the_rest_stays() {
        for (members, expected) in [
            ("members = [\"plugins/a\"]", "members = [\"plugins/cache\", \"plugins/a\"]"),
            ("members = []", "members = [\"plugins/cache\"]"),
            ("members = [\n  \"a\", # why\n]", "members = [\"plugins/cache\", \n  \"a\", # why\n]"),
        ] {
            let text = with_member("Cargo.toml", members).unwrap();
            assert_eq!(text, format!("# why\n[workspace]\nresolver = \"3\"\n{expected}\n\n{DEPENDENCIES}"));
        }
        assert!(with_member("plugins/Cargo.toml", "members = []").unwrap().contains("members = [\"cache\"]"));
    }

    #[test]
    fn a_workspace_that_lacks_something_is_left_alone() {
        let error = with_member("Cargo.toml", "").unwrap_err().to_string();
        assert!(error.contains("no line `members = [`"), "{error}");
        let text = "[workspace]\nmembers = []\n[workspace.dependencies]\nserde = \"1\"\n".to_owned();
        let error = Workspace { manifest: "Cargo.toml", text }.with_member("cache").unwrap_err().to_string();
        assert!(error.contains("no workspace.dependencies.hotshoe-sdk"), "{error}");
    }
}
