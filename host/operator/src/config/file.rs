//! Reads `plugin.yaml` up to a maximum size, and reports what is wrong with it in one line.

use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, anyhow};
use serde::de::DeserializeOwned;

use crate::config::folders::{self, PLUGIN_FILE};
use hotshoe_core::model::limits::Size;
use hotshoe_platform::safe_file;
use hotshoe_sandbox::yaml;

/// The maximum size of the file.
pub const MAX_SIZE: Size = Size(1 << 20);

/// Reads a file of at most the size of a `plugin.yaml`.
///
/// # Errors
/// When it is no regular file, too large, or no text.
pub fn read(path: &Path) -> anyhow::Result<String> {
    let shown = path.display();
    let bytes = safe_file::read_whole(path, MAX_SIZE)
        .map_err(|error| match error.kind() {
            ErrorKind::NotFound => anyhow!(missing(path)),
            _ => anyhow::Error::from(error).context(missing(path)),
        })?
        .with_context(|| format!("{shown} has more than the {MAX_SIZE} bytes that are read"))?;
    String::from_utf8(bytes).with_context(|| format!("{shown} is no text"))
}

/// Returns a message about a missing file, where a plugin's folder or its file was expected.
fn missing(path: &Path) -> String {
    let folder = if path.ends_with(PLUGIN_FILE) { path.parent().unwrap_or(path) } else { path };
    match folder.exists() {
        true => format!("cannot read {}: {}", path.display(), folders::beside(folder)),
        false => format!("there is no plugin {}; {}", folder.display(), folders::beside(folder)),
    }
}

/// Parses the text of a file.
///
/// # Errors
/// Returns what is wrong and where, without the lines of the file, which may have confidential values.
pub fn parse<T: DeserializeOwned>(text: &str, path: &Path) -> anyhow::Result<T> {
    let parsed = yaml::parse(text, serde_saphyr::Options::default());
    parsed.map_err(|error| anyhow!("{} is no valid Plugin: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::config::manifest;

    fn wrong(text: &str) -> String {
        format!("{:#}", parse::<manifest::Plugin>(text, Path::new("a/plugin.yaml")).unwrap_err())
    }

    const PLUGIN: &str = "apiVersion: hotshoe.dev/v1alpha1\n\
                          kind: Plugin\n\
                          metadata: {name: a}\n\
                          spec:\n  \
                          source: {file: a.wasm}\n  \
                          config:\n    \
                          values: {password: \"1234\"}\n";

    #[test]
    fn an_error_is_reported_once_in_one_line_with_its_place() {
        assert!(parse::<manifest::Plugin>(PLUGIN, Path::new("a")).is_ok());
        for (text, says) in [
            (PLUGIN.replace("source:", "sauce:"), "spec.sauce: there is no key `sauce` here (nearest: `source`)"),
            (format!("{PLUGIN}spec: {{}}\n"), "the key `spec` is there twice"),
            (format!("{PLUGIN}---\nkind: Plugin\n"), "multiple"),
            (PLUGIN.replace("\"1234\"", ".nan"), "is not a finite number"),
            (
                format!("{PLUGIN}  limits: {{children: many}}\n"),
                "spec.limits.children: a whole number is expected here at line 8",
            ),
            (format!("{PLUGIN}  limits: {{children: -1}}\n"), "a whole number is expected here at line 8"),
            (format!("{PLUGIN}  pruneAll: perhaps\n"), "spec.pruneAll: true or false is expected here at line 8"),
            (PLUGIN.replace("{file: a.wasm}", "[unclosed"), "a/plugin.yaml is no valid Plugin: "),
            (String::new(), "a/plugin.yaml is no valid Plugin: "),
        ] {
            let error = wrong(&text);
            assert!(error.starts_with("a/plugin.yaml is no valid Plugin: ") && error.contains(says), "{error}");
            assert!(error.contains("at line ") && error.contains("column "), "{error}");
            assert_eq!(error.matches("at line ").count(), 1, "{error}");
            for foreign in ["\n", "1234", "Options", "from_str", "policy", "<input>"] {
                assert!(!error.contains(foreign), "{error}");
            }
        }
    }

    #[test]
    fn no_more_is_read_than_a_plugin_file_may_have() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: &[u8]| {
            let path = dir.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        let most = MAX_SIZE.bytes();
        assert_eq!(read(&file("whole", &vec![b'a'; most])).unwrap().len(), most);
        let pipe = dir.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        for (path, says) in [
            (file("large", &vec![b'a'; most + 1]), "has more than the 1Mi bytes"),
            (file("binary", b"\xff"), "is no text"),
            (pipe, "no regular file"),
            (PathBuf::from("/dev/zero"), "no regular file"),
            (dir.path().to_owned(), "no regular file"),
            (dir.path().join("missing"), "name a plugin's folder"),
        ] {
            let error = format!("{:#}", read(&path).unwrap_err());
            assert!(error.contains(says), "{error}");
        }
    }
}
