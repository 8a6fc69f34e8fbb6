//! The SDK that a new plugin depends on: its sources in the project, a released version, or a local copy.

use std::convert::Infallible;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, ensure};

use crate::cli::project::Language;

/// Which SDK a new plugin depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sdk {
    /// The one that the project has already, or else the sources that this program carries, written into the project.
    Vendored,
    /// The released version.
    Released,
    /// The copy in this folder.
    Local(PathBuf),
}

impl FromStr for Sdk {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text {
            "vendored" => Self::Vendored,
            "released" => Self::Released,
            folder => Self::Local(folder.into()),
        })
    }
}

impl Sdk {
    /// Checks that a local copy is the SDK of a language, and makes its path absolute.
    ///
    /// # Errors
    /// If it is not.
    pub(super) fn checked(&self, language: Language) -> anyhow::Result<Self> {
        match self {
            Self::Local(path) => Ok(Self::Local(local(path, language)?)),
            other => Ok(other.clone()),
        }
    }
}

/// Returns how the SDK of a language is found: its folder below `plugins`, in a project that contains the SDK; its
/// manifest; and a text in that manifest.
const fn package(language: Language) -> (&'static str, &'static str, &'static str) {
    match language {
        Language::Rust => ("sdk", "Cargo.toml", "name = \"hotshoe-sdk\""),
        Language::Python => ("sdk-python", "pyproject.toml", "name = \"hotshoe-sdk\""),
        Language::JavaScript => ("sdk-js", "package.json", "\"name\": \"@hotshoe/sdk\""),
    }
}

/// Returns the released version, as major and minor number: every patch version works.
pub(super) fn released() -> String {
    format!("{}.{}", env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"))
}

/// Returns what to do about a plugin whose SDK cannot be installed from the registry of its language.
pub(in crate::cli) fn without_release(plugin: &str, language: Language) -> String {
    format!(
        "the SDK cannot be had: its version {} must be released and within reach; without it, make the plugin anew in \
         another folder with `hotshoe new {plugin} --lang {language}`, which writes the sources of the SDK into the project",
        released()
    )
}

/// Checks that a folder is the SDK of a language, and returns its absolute path.
///
/// # Errors
/// If it is not.
fn local(path: &Path, language: Language) -> anyhow::Result<PathBuf> {
    let (_, file, name) = package(language);
    let shown = path.display();
    let wanted = || format!("{shown} is no SDK for {language}: it has no {file} with {name}");
    let path = fs::canonicalize(path).with_context(wanted)?;
    ensure!(is_sdk(&path, language), "{}", wanted());
    Ok(path)
}

/// Returns the path of the SDK relative to a plugin's folder, if the project contains the SDK.
pub(super) fn beside(project: &Path, language: Language) -> Option<String> {
    let (folder, ..) = package(language);
    is_sdk(&project.join("plugins").join(folder), language).then(|| format!("../{folder}"))
}

fn is_sdk(path: &Path, language: Language) -> bool {
    let (_, file, name) = package(language);
    fs::read_to_string(path.join(file)).is_ok_and(|text| text.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_released_sdk_the_command_that_needs_none_is_given() {
        let advice = without_release("cache", Language::Python);
        assert!(advice.contains("`hotshoe new cache --lang python`"), "{advice}");
    }

    #[test]
    fn the_sdk_of_this_repository_is_one_and_another_folder_is_none() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for (language, folder) in
            [(Language::Rust, "sdk"), (Language::Python, "sdk-python"), (Language::JavaScript, "sdk-js")]
        {
            assert!(local(&root.join("plugins").join(folder), language).unwrap().is_absolute());
            assert_eq!(beside(&root, language), Some(format!("../{folder}")));
            for other in ["plugins/memcached", "nowhere", "plugins"] {
                let error = local(&root.join(other), language).unwrap_err().to_string();
                assert!(error.contains("is no SDK for"), "{error}");
            }
        }
        assert_eq!(beside(Path::new("/nowhere"), Language::Rust), None);
    }
}
