//! The templates of a new project, from `host/hotshoe/templates/new`, and the values that are put into them.

use std::collections::BTreeSet;

use anyhow::Context as _;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior};
use serde::Serialize;

use super::form::{Form, Makes};
use super::webhooks::Webhook;
use crate::cli::project::Language;

/// A file below a plugin's folder, its template, and its purpose for the plugin's README; empty if it is not listed
/// there.
pub(super) type Template = (&'static str, &'static str, &'static str);

macro_rules! template {
    ($path:literal) => {
        include_str!(concat!("../../../templates/new/", $path))
    };
}

/// The files of a plugin in one language.
struct Sources {
    manifest: Template,
    /// The logic that makes a Deployment of each parent, a ConfigMap, or nothing.
    deployment: Template,
    config_map: Template,
    nothing: Template,
    tests: Template,
    /// What defines a new kind, and one of which nothing is made.
    kind: &'static [Template],
    kind_of_nothing: &'static [Template],
}

const RUST: Sources = Sources {
    manifest: ("Cargo.toml", template!("rust/Cargo.toml.j2"), ""),
    deployment: ("src/lib.rs", template!("rust/lib.rs.j2"), LOGIC),
    config_map: ("src/lib.rs", template!("rust/config_map.rs.j2"), LOGIC),
    nothing: ("src/lib.rs", template!("rust/nothing.rs.j2"), LOGIC),
    tests: ("tests/operator.rs", template!("rust/tests.rs.j2"), NATIVE_TESTS),
    kind: &[
        ("src/api.rs", template!("rust/api.rs.j2"), "the kind and the configuration; the CRD is made from these types"),
        RUST_CRD,
    ],
    kind_of_nothing: &[
        ("src/api.rs", template!("rust/nothing_api.rs.j2"), "the kind; the CRD is made from these types"),
        RUST_CRD,
    ],
};
const PYTHON: Sources = Sources {
    manifest: ("pyproject.toml", template!("python/pyproject.toml.j2"), ""),
    deployment: ("src/{{ module }}.py", template!("python/plugin.py.j2"), LOGIC),
    config_map: ("src/{{ module }}.py", template!("python/config_map.py.j2"), LOGIC),
    nothing: ("src/{{ module }}.py", template!("python/nothing.py.j2"), LOGIC),
    tests: ("tests/test_operator.py", template!("python/test.py.j2"), NATIVE_TESTS),
    kind: &[CRD_FILE],
    kind_of_nothing: &[CRD_FILE],
};
const JAVASCRIPT: Sources = Sources {
    manifest: ("package.json", template!("javascript/package.json.j2"), ""),
    deployment: ("plugin.js", template!("javascript/plugin.js.j2"), LOGIC),
    config_map: ("plugin.js", template!("javascript/config-map.js.j2"), LOGIC),
    nothing: ("plugin.js", template!("javascript/nothing.js.j2"), LOGIC),
    tests: ("test/operator.test.js", template!("javascript/test.js.j2"), NATIVE_TESTS),
    kind: &[CRD_FILE],
    kind_of_nothing: &[CRD_FILE],
};
const LOGIC: &str = "the logic";
const NATIVE_TESTS: &str = "the logic, tested natively";
/// The binary that prints the CRD.
const RUST_CRD: Template = ("src/bin/crd.rs", template!("rust/crd.rs.j2"), "");
const CRD_FILE: Template = ("crd.yaml", template!("plugin/crd.yaml.j2"), "the CRD of the kind");
/// The files of each webhook that only Rust has. In the other languages its functions are beside the rest of the logic.
const RUST_CONVERSION: Template =
    ("src/conversion.rs", template!("rust/conversion.rs.j2"), "the versions of the kind, converted into one another");
const RUST_DEFAULTING: Template =
    ("src/defaulting.rs", template!("rust/defaulting.rs.j2"), "what is filled in before an object is stored");
const RUST_VALIDATION: Template =
    ("src/validation.rs", template!("rust/validation.rs.j2"), "what is refused before an object is stored");
/// The cases of webhooks. Conversion has none: its round trip is tried anyway.
const DEFAULTING_CASES: [Template; 1] = [("cases/labelled.yaml", template!("plugin/cases/labelled.yaml.j2"), "")];
const VALIDATION_CASES: [Template; 2] = [
    ("cases/too-many.yaml", template!("plugin/cases/too-many.yaml.j2"), ""),
    ("cases/too-many-before.yaml", template!("plugin/cases/too-many-before.yaml.j2"), ""),
];
/// The cases of the logic.
const DEPLOYMENT_CASES: [Template; 6] = [
    ("cases/first-sight.yaml", template!("plugin/cases/first-sight.yaml.j2"), ""),
    ("cases/becoming-ready.yaml", template!("plugin/cases/becoming-ready.yaml.j2"), ""),
    ("cases/available.yaml", template!("plugin/cases/available.yaml.j2"), ""),
    ("cases/refused.yaml", template!("plugin/cases/refused.yaml.j2"), ""),
    ("cases/out-of-bounds.yaml", template!("plugin/cases/out-of-bounds.yaml.j2"), ""),
    ("cases/deleted.yaml", template!("plugin/cases/deleted.yaml.j2"), ""),
];
const CONFIG_MAP_CASES: [Template; 2] = [
    ("cases/first-sight.yaml", template!("plugin/cases/config-map.yaml.j2"), ""),
    ("cases/another-message.yaml", template!("plugin/cases/another-message.yaml.j2"), ""),
];
const NOTHING_CASES: [Template; 1] = [("cases/first-sight.yaml", template!("plugin/cases/nothing.yaml.j2"), "")];
const ALL_LANGUAGES: [Template; 2] =
    [("plugin.yaml", template!("plugin/plugin.yaml.j2"), ""), ("README.md", template!("plugin/README.md.j2"), "")];
/// What several templates include.
const INCLUDED: [(&str, &str); 1] = [("deployment", template!("plugin/cases/deployment.yaml.j2"))];

/// The CRD. For a plugin in Rust too, although the crate prints it later.
pub(super) const CRD: &str = template!("plugin/crd.yaml.j2");
pub(super) const SAMPLE: &str = template!("plugin/sample.yaml.j2");
/// A sample of a kind that exists already.
pub(super) const EXISTING_SAMPLE: &str = template!("plugin/existing-sample.yaml.j2");
pub(super) const README: &str = template!("project/README.md.j2");
/// The workspace of a project's crates.
pub(super) const WORKSPACE: &str = template!("rust/workspace.toml.j2");

/// The files that every project has beside the contract. They do not depend on names.
pub(super) const PROJECT: [(&str, &str); 3] = [
    ("justfile", template!("project/justfile")),
    (".gitignore", template!("project/gitignore")),
    (".github/workflows/ci.yaml", template!("project/ci.yaml")),
];

/// The files that a project with crates has beside the manifest of its workspace. `Cargo.lock` has the versions of
/// dependencies that the SDK was tested with; Cargo removes those that are not needed. It is a copy: otherwise each new
/// plugin in this repository would have the host compiled again.
pub(super) const CRATES: [(&str, &str); 4] = [
    ("Cargo.lock", template!("rust/Cargo.lock")),
    ("rust-toolchain.toml", include_str!("../../../../../rust-toolchain.toml")),
    ("rustfmt.toml", template!("project/rustfmt.toml")),
    (".cargo/config.toml", include_str!("../../../../../plugins/.cargo/config.toml")),
];

/// Returns the templates of a plugin of this form in this language, with these webhooks.
pub(super) fn of(language: Language, form: &Form, webhooks: &BTreeSet<Webhook>) -> Vec<Template> {
    let sources = match language {
        Language::Rust => RUST,
        Language::Python => PYTHON,
        Language::JavaScript => JAVASCRIPT,
    };
    let (logic, kind, cases): (_, _, &[Template]) = match form.makes() {
        Makes::Deployment => (sources.deployment, sources.kind, &DEPLOYMENT_CASES),
        Makes::ConfigMap => (sources.config_map, sources.kind, &CONFIG_MAP_CASES),
        Makes::Nothing => (sources.nothing, sources.kind_of_nothing, &NOTHING_CASES),
    };
    let kind = if form.has_crd() { kind } else { &[] };
    let of_webhooks = webhooks.iter().flat_map(|webhook| {
        let (in_rust, cases): (Template, &[Template]) = match webhook {
            Webhook::Conversion => (RUST_CONVERSION, &[]),
            Webhook::Defaulting => (RUST_DEFAULTING, &DEFAULTING_CASES),
            Webhook::Validation => (RUST_VALIDATION, &VALIDATION_CASES),
        };
        (language == Language::Rust).then_some(in_rust).into_iter().chain(cases.iter().copied())
    });
    let own = [sources.manifest, logic].into_iter().chain(kind.iter().copied()).chain([sources.tests]);
    own.chain(of_webhooks).chain(ALL_LANGUAGES).chain(cases.iter().copied()).collect()
}

/// The values that are put into the templates.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Context {
    /// The name of the plugin.
    pub(super) name: String,
    /// The name of the plugin's crate or module, as code spells it.
    pub(super) module: String,
    /// The name of the component's file.
    pub(super) file: String,
    /// The title of the project's README.
    pub(super) title: String,
    pub(super) api_group: String,
    pub(super) api_version: String,
    /// The version that is stored and watched.
    pub(super) version: String,
    /// The version that a plugin with conversion has beside it, an older one.
    pub(super) other_version: String,
    /// The versions of the CRD.
    pub(super) versions: Vec<Version>,
    /// The names of its webhooks.
    pub(super) webhooks: Vec<&'static str>,
    pub(super) kind: String,
    /// Whether the plugin makes a CRD, because its kind is a new one.
    pub(super) has_crd: bool,
    /// Whether the kind is one of Kubernetes itself.
    pub(super) is_builtin: bool,
    /// Whether parents are in namespaces.
    pub(super) is_namespaced: bool,
    /// What names the namespace of a child: `spec`, `config`, or neither if it is the parent's.
    pub(super) child_namespace: Option<&'static str>,
    /// Whether nothing is made of a parent.
    pub(super) is_empty: bool,
    /// The prefix of the plugin's labels and annotations, for parents of a kind that exists already.
    pub(super) prefix: String,
    pub(super) plural: String,
    pub(super) plural_by_rule: String,
    pub(super) singular: String,
    pub(super) image: String,
    pub(super) command: Vec<String>,
    pub(super) port: Option<u16>,
    pub(super) run_as_user: Option<u32>,
    /// The SPDX identifier of the licence.
    pub(super) license: Option<&'static str>,
    /// The released version of the SDK.
    pub(super) sdk_version: String,
    /// The path of the sources of the SDK that are used instead.
    pub(super) sdk_path: Option<String>,
    /// The files that the plugin's README lists, with their purposes.
    pub(super) files: Vec<(String, &'static str)>,
}

/// A version of the CRD.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Version {
    pub(super) name: String,
    /// What it calls the number of Pods.
    pub(super) size: &'static str,
    pub(super) is_stored: bool,
}

impl Context {
    /// Renders a template with these values.
    ///
    /// # Errors
    /// If the template uses a value that does not exist.
    pub(super) fn render(&self, template: &str) -> anyhow::Result<String> {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_syntax(SyntaxConfig::builder().keep_trailing_newline(true).build()?);
        environment.add_filter("quoted", quoted);
        for (name, included) in INCLUDED {
            environment.add_template(name, included)?;
        }
        let rendered = environment.render_str(template, Serde(self));
        rendered.context("a template of this program cannot be used; that is a defect of it")
    }
}

/// Quotes a text so that YAML, TOML, Rust, Python and JavaScript all read it the same. It has no control characters, so
/// only quotes and backslashes are escaped.
fn quoted(text: String) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_project_gets_the_versions_that_the_plugins_here_are_tested_with() {
        let tested = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../plugins/Cargo.lock")).unwrap();
        fn fetched(lock: &str) -> HashSet<&str> {
            let packages = lock.split("[[package]]").skip(1).filter(|package| package.contains("checksum = "));
            packages.map(|package| package.split("dependencies = ").next().unwrap_or_default().trim()).collect()
        }
        let (copied, tested) = (fetched(CRATES[0].1), fetched(&tested));
        let other: Vec<_> = copied.difference(&tested).collect();
        assert!(
            copied.len() > 20 && other.is_empty(),
            "copy plugins/Cargo.lock to host/hotshoe/templates/new/rust: {other:#?}"
        );
    }

    #[test]
    fn a_text_between_quotes_is_read_back_by_yaml() {
        for text in ["a", "say \"hi\"", r"C:\temp\new", "{{ a }} #: &", "ä"] {
            assert_eq!(serde_saphyr::from_str::<String>(&quoted(text.to_owned())).unwrap(), text);
            assert_eq!(serde_json::from_str::<String>(&quoted(text.to_owned())).unwrap(), text);
        }
    }
}
