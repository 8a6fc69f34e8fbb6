//! Plans all files of a new plugin before any of them is written.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::ensure;

use super::container::Container;
use super::files::Files;
use super::form::{ChildNamespace, Form, Makes};
use super::license::{self, Licensing};
use super::names::{self, Names};
use super::place::Place;
use super::sdk::{self, Sdk};
use super::templates::{self, Context, Template, Version};
use super::vendored;
use super::webhooks::Webhook;
use super::workspace::Workspace;
use crate::cli::crd;
use crate::cli::project::Language;
use crate::cli::wit;
use hotshoe_core::model::kind::Kind;

/// The files that are written for a new plugin.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) context: Context,
    pub(super) files: Files,
    /// The path of a sample of the kind, relative to the project's folder.
    pub(super) sample: PathBuf,
    /// The manifest of the workspace to which the new crate is added, if the plugin is a crate.
    pub(super) workspace_manifest: Option<PathBuf>,
}

/// What is to be made.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) names: Names,
    pub(super) language: Language,
    pub(super) form: Form,
    pub(super) container: Container,
    pub(super) webhooks: BTreeSet<Webhook>,
    pub(super) licensing: Licensing,
    /// The prefix of the plugin's labels and annotations.
    pub(super) prefix: String,
    pub(super) sdk: Sdk,
}

impl Plan {
    /// Plans the files of a new plugin.
    ///
    /// # Errors
    /// If the plugin cannot be added to the project.
    pub(super) fn new(place: &Place, wanted: &Wanted) -> anyhow::Result<Self> {
        let context = context(place, wanted);
        let Wanted { names, language, form, .. } = wanted;
        let sample = format!("crds/samples/{}_{}_{}.yaml", names.group, context.version, names.singular());
        let mut plan = Self { context, files: Files::default(), sample: sample.into(), workspace_manifest: None };
        plan.add_plugin(place, templates::of(*language, form, &wanted.webhooks), &wanted.licensing)?;
        if let Some(text) = wanted.licensing.license.text() {
            plan.files.add_missing(place.folder(), "LICENSE", text);
        }
        if form.has_crd() {
            plan.add_crd()?;
        }
        let sample = if form.has_crd() { templates::SAMPLE } else { templates::EXISTING_SAMPLE };
        plan.files.add(plan.sample.clone(), plan.context.render(sample)?);
        if let Place::Empty(_) = place {
            for (path, text) in templates::PROJECT {
                plan.files.add(path, text);
            }
            for (name, text) in wit::BASE.into_iter().chain(wit::OPTIONAL) {
                plan.files.add(Path::new("wit").join(name), text);
            }
            plan.files.add("README.md", plan.context.render(templates::README)?);
        }
        if *language == Language::Rust {
            plan.add_to_workspace(place, &wanted.sdk)?;
        }
        if plan.context.sdk_path == Some(vendored::dependency(*language)) {
            for (path, text) in vendored::files(*language) {
                plan.files.add_missing(place.folder(), &path, text);
            }
        }
        Ok(plan)
    }

    fn add_plugin(&mut self, place: &Place, templates: Vec<Template>, licensing: &Licensing) -> anyhow::Result<()> {
        let name = &self.context.name;
        let folder = Path::new("plugins").join(name);
        ensure!(
            !place.folder().join(&folder).exists(),
            "{} is there already; nothing was written. Take another name, or remove it",
            folder.display()
        );
        let mut listed = Vec::new();
        for (path, _, purpose) in &templates {
            if !purpose.is_empty() {
                listed.push((self.context.render(path)?, *purpose));
            }
        }
        self.context.files = listed;
        let year = license::year();
        for (path, template, _) in templates {
            let (path, text) = (folder.join(self.context.render(path)?), self.context.render(template)?);
            let head = licensing.head(&path, year);
            self.files.add(path, head + &text);
        }
        Ok(())
    }

    /// Adds the CRD as `hotshoe crd` writes it.
    fn add_crd(&mut self) -> anyhow::Result<()> {
        let context = &self.context;
        let source = match self.files.paths().any(|path| path.ends_with("crd.yaml")) {
            true => format!("plugins/{}/crd.yaml", context.name),
            false => format!("plugins/{}", context.name),
        };
        let text = crd::generated(&context.render(templates::CRD)?, &source)?;
        self.files.add(format!("crds/{}_{}.yaml", context.api_group, context.plural), text);
        Ok(())
    }

    fn add_to_workspace(&mut self, place: &Place, sdk: &Sdk) -> anyhow::Result<()> {
        let project = place.folder();
        let manifest = match Workspace::of(project)? {
            Some(workspace) => {
                self.context.sdk_path = None;
                ensure!(
                    *sdk == Sdk::Vendored,
                    "the crates of this project use the SDK that {} names; change it there, and leave --sdk out",
                    workspace.manifest
                );
                let text = workspace.with_member(&self.context.name)?;
                self.files.change(workspace.manifest, text);
                project.join(workspace.manifest)
            }
            None => {
                self.files.add("Cargo.toml", self.context.render(templates::WORKSPACE)?);
                for (path, text) in templates::CRATES {
                    self.files.add_missing(project, path, text);
                }
                project.join("Cargo.toml")
            }
        };
        self.workspace_manifest = Some(manifest);
        Ok(())
    }
}

fn context(place: &Place, wanted: &Wanted) -> Context {
    let Wanted { names, language, form, container, webhooks, licensing, prefix, sdk } = wanted;
    // Of several versions the newer one is stored, because the API server prefers it.
    let newer = webhooks.contains(&Webhook::Conversion).then(|| names::next_version(&names.version));
    let version = newer.clone().unwrap_or_else(|| names.version.clone());
    let stored = Version { name: version.clone(), size: "size", is_stored: true };
    let other = newer.map(|_| Version { name: names.version.clone(), size: "replicas", is_stored: false });
    let sdk_path = match sdk {
        Sdk::Local(path) => Some(path.display().to_string()),
        Sdk::Released => None,
        // The repository of Hotshoe has the SDK beside its plugins.
        Sdk::Vendored => sdk::beside(place.folder(), *language).or_else(|| Some(vendored::dependency(*language))),
    };
    let child_namespace = match form.child_namespace() {
        ChildNamespace::OfParent => None,
        ChildNamespace::InSpec => Some("spec"),
        ChildNamespace::InConfig => Some("config"),
    };
    let kind = Kind::new(&names.api_group, &version, &names.kind);
    let folder = place.folder().file_name().unwrap_or_default().to_string_lossy();
    Context {
        name: names.plugin.clone(),
        module: names.plugin.replace('-', "_"),
        file: format!("{}.wasm", names.plugin),
        title: folder.chars().filter(|letter| !letter.is_control()).collect(),
        api_group: names.api_group.clone(),
        api_version: kind.api_version(),
        version,
        other_version: names.version.clone(),
        versions: [stored].into_iter().chain(other).collect(),
        webhooks: webhooks.iter().map(|webhook| webhook.name()).collect(),
        kind: names.kind.clone(),
        has_crd: form.has_crd(),
        is_builtin: kind.is_builtin(),
        is_namespaced: form.is_namespaced(),
        child_namespace,
        is_empty: form.makes() == Makes::Nothing,
        prefix: prefix.clone(),
        plural: names.plural.clone(),
        plural_by_rule: names::plural_of(&names.kind),
        singular: names.singular(),
        image: container.image.clone(),
        command: container.image_container_command.clone(),
        port: container.image_container_port,
        run_as_user: container.run_as_user,
        license: licensing.license.identifier(),
        sdk_version: sdk::released(),
        sdk_path,
        files: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
