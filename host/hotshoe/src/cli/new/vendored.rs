//! The sources of the SDKs, which the program carries: a project that has them builds without any release of the SDK,
//! and wherever it is cloned.

use std::path::{Path, PathBuf};

use crate::cli::project::Language;

include!(concat!(env!("OUT_DIR"), "/sdks.rs"));

/// The workspace of this repository's plugins. What the crate of the SDK inherits from it is written beside it.
const WORKSPACE: &str = include_str!("../../../../../plugins/Cargo.toml");
const LICENSE: &str = include_str!("../../../../../LICENSE");

/// Returns the folder of a project in which the SDK of a language is written.
pub(super) const fn folder(language: Language) -> &'static str {
    match language {
        Language::Rust => "vendor/hotshoe-sdk",
        Language::Python => "vendor/hotshoe-sdk-python",
        Language::JavaScript => "vendor/hotshoe-sdk-js",
    }
}

/// Returns the path by which a project depends on it: the workspace of the crates in the project's folder, or a plugin
/// two folders below.
pub(super) fn dependency(language: Language) -> String {
    let folder = folder(language);
    match language {
        Language::Rust => format!("{folder}/sdk"),
        Language::Python | Language::JavaScript => format!("../../{folder}"),
    }
}

/// Returns the files, with their paths in a project and their texts.
pub(super) fn files(language: Language) -> Vec<(PathBuf, String)> {
    let sources = match language {
        Language::Rust => RUST,
        Language::Python => PYTHON,
        Language::JavaScript => JAVASCRIPT,
    };
    let manifest = (language == Language::Rust).then(|| ("Cargo.toml", workspace()));
    let sources = sources.iter().copied().chain([("LICENSE", LICENSE)]);
    let files = sources.map(|(path, text)| (path, text.to_owned())).chain(manifest);
    files.map(|(path, text)| (Path::new(folder(language)).join(path), text)).collect()
}

/// Returns the manifest of a workspace of the SDK's own crates, with what they inherit.
fn workspace() -> String {
    let inherited = WORKSPACE.lines().skip_while(|line| *line != "[workspace.package]");
    let inherited = inherited.take_while(|line| !line.starts_with("[workspace.lints"));
    let mut text = "# The SDK of Hotshoe for Rust, as `hotshoe new` wrote it.\n[workspace]\nresolver = \"3\"\n\
                    members = [\"crd\", \"sdk\"]\n\n"
        .to_owned();
    for line in inherited {
        match line.split_once(" = ") {
            Some(("hotshoe-sdk", _)) => continue,
            Some(("hotshoe-crd", _)) => text += &line.replace("../host/crd", "crd"),
            _ => text += line,
        }
        text += "\n";
    }
    text + "[workspace.lints.rust]\nunsafe_code = \"deny\"\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sdk_has_its_manifest_its_sources_and_its_licence_and_no_tests_of_python_and_javascript() {
        for (language, manifest, source) in [
            (Language::Rust, "sdk/Cargo.toml", "sdk/wit/0.2.0/admission.wit"),
            (Language::Python, "pyproject.toml", "hotshoe/plugin.py"),
            (Language::JavaScript, "package.json", "src/plugin.js"),
        ] {
            let files = files(language);
            let has = |path: &str| files.iter().any(|(file, _)| *file == Path::new(folder(language)).join(path));
            assert!([manifest, source, "LICENSE"].into_iter().all(has), "{language}");
            let is_test = |path: &Path| path.iter().any(|part| part == "test" || part == "tests");
            assert!(!files.iter().any(|(path, _)| is_test(path)), "{files:?}");
            let all: usize = files.iter().map(|(_, text)| text.len()).sum();
            assert!((10_000..1_000_000).contains(&all), "{all} bytes of {language}");
        }
    }

    #[test]
    fn the_workspace_of_the_crates_has_all_that_they_inherit() {
        let text = workspace();
        for part in ["[workspace.package]", "\nlicense = ", "\nschemars = ", "path = \"crd\"", "[workspace.lints.rust]"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("[profile") && !text.contains("../") && !text.contains("hotshoe-sdk ="), "{text}");
    }
}
