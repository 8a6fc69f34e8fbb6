//! The SDK that a new plugin depends on: a released version, the one beside the project's other plugins, or a local
//! copy.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use crate::cli::project::Language;

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
    let (folder, ..) = package(language);
    format!(
        "the SDK cannot be had: its version {} must be released and within reach; before that, make the plugin anew in \
         another folder with `hotshoe new {plugin} --lang {language} --sdk DIR`, where DIR is plugins/{folder} in a copy of Hotshoe",
        released()
    )
}

/// Checks that a folder is the SDK of a language, and returns its absolute path.
///
/// # Errors
/// If it is not.
pub(super) fn local(path: &Path, language: Language) -> anyhow::Result<PathBuf> {
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
    fn without_a_released_sdk_the_option_that_names_a_copy_is_given() {
        let advice = without_release("cache", Language::Python);
        assert!(advice.contains("`hotshoe new cache --lang python --sdk DIR`"), "{advice}");
        assert!(advice.ends_with("plugins/sdk-python in a copy of Hotshoe"), "{advice}");
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
