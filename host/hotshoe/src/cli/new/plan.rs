//! Plans all files of a new plugin before any of them is written.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::ensure;

use super::container::Container;
use super::files::Files;
use super::names::{self, Names};
use super::place::Place;
use super::templates::{self, Context, Version};
use super::webhooks::Webhook;
use super::{sdk, workspace::Workspace};
use crate::cli::crd;
use crate::cli::project::Language;
use crate::cli::wit;

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

impl Plan {
    /// Plans the files of a new plugin.
    ///
    /// # Errors
    /// If the plugin cannot be added to the project.
    pub(super) fn new(
        place: &Place,
        names: Names,
        language: Language,
        container: &Container,
        webhooks: &BTreeSet<Webhook>,
        local_sdk: Option<PathBuf>,
    ) -> anyhow::Result<Self> {
        let context = context(place, &names, language, container, webhooks, local_sdk);
        let sample = format!("crds/samples/{}_{}_{}.yaml", names.group, context.version, names.singular());
        let mut plan = Self { context, files: Files::default(), sample: sample.into(), workspace_manifest: None };
        plan.add_plugin(place, language, webhooks)?;
        plan.add_kind()?;
        if let Place::Empty(_) = place {
            for (path, text) in templates::PROJECT {
                plan.files.add(path, text);
            }
            for (name, text) in wit::BASE.into_iter().chain(wit::OPTIONAL) {
                plan.files.add(Path::new("wit").join(name), text);
            }
            plan.files.add("README.md", plan.context.render(templates::README)?);
        }
        if language == Language::Rust {
            plan.add_to_workspace(place)?;
        }
        Ok(plan)
    }

    fn add_plugin(&mut self, place: &Place, language: Language, webhooks: &BTreeSet<Webhook>) -> anyhow::Result<()> {
        let name = &self.context.name;
        let folder = Path::new("plugins").join(name);
        ensure!(
            !place.folder().join(&folder).exists(),
            "{} is there already; nothing was written. Take another name, or remove it",
            folder.display()
        );
        let language_files = templates::of(language, webhooks);
        let mut listed = Vec::new();
        for (path, _, purpose) in &language_files {
            if !purpose.is_empty() {
                listed.push((self.context.render(path)?, *purpose));
            }
        }
        self.context.files = listed;
        for (path, template, _) in language_files {
            let (path, text) = (self.context.render(path)?, self.context.render(template)?);
            self.files.add(folder.join(path), text);
        }
        Ok(())
    }

    /// Adds the CRD as `hotshoe crd` writes it, and a sample.
    fn add_kind(&mut self) -> anyhow::Result<()> {
        let context = &self.context;
        let source = match self.files.paths().any(|path| path.ends_with("crd.yaml")) {
            true => format!("plugins/{}/crd.yaml", context.name),
            false => format!("plugins/{}", context.name),
        };
        let text = crd::generated(&context.render(templates::CRD)?, &source)?;
        let file = format!("crds/{}_{}.yaml", context.api_group, context.plural);
        let sample = context.render(templates::SAMPLE)?;
        self.files.add(file, text);
        self.files.add(self.sample.clone(), sample);
        Ok(())
    }

    fn add_to_workspace(&mut self, place: &Place) -> anyhow::Result<()> {
        let project = place.folder();
        let manifest = match Workspace::of(project)? {
            Some(workspace) => {
                ensure!(
                    self.context.sdk_path.is_none(),
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

fn context(
    place: &Place,
    names: &Names,
    language: Language,
    container: &Container,
    webhooks: &BTreeSet<Webhook>,
    local_sdk: Option<PathBuf>,
) -> Context {
    // Of several versions the newer one is stored, because the API server prefers it.
    let newer = webhooks.contains(&Webhook::Conversion).then(|| names::next_version(&names.version));
    let version = newer.clone().unwrap_or_else(|| names.version.clone());
    let stored = Version { name: version.clone(), replicas: "replicas", is_stored: true };
    let other = newer.map(|_| Version { name: names.version.clone(), replicas: "size", is_stored: false });
    let sdk_path = match (local_sdk, place, language) {
        (Some(path), ..) => Some(path.display().to_string()),
        // A crate depends on the SDK that its workspace names.
        (None, Place::Project(project), Language::Python | Language::JavaScript) => sdk::beside(project, language),
        (None, ..) => None,
    };
    let folder = place.folder().file_name().unwrap_or_default().to_string_lossy();
    Context {
        name: names.plugin.clone(),
        module: names.plugin.replace('-', "_"),
        file: format!("{}.wasm", names.plugin),
        title: folder.chars().filter(|letter| !letter.is_control()).collect(),
        api_group: names.api_group(),
        api_version: format!("{}/{version}", names.api_group()),
        version,
        other_version: names.version.clone(),
        versions: [stored].into_iter().chain(other).collect(),
        webhooks: webhooks.iter().map(|webhook| webhook.name()).collect(),
        kind: names.kind.clone(),
        plural: names.plural.clone(),
        plural_by_rule: names::plural_of(&names.kind),
        singular: names.singular(),
        image: container.image.clone(),
        command: container.image_container_command.clone(),
        port: container.image_container_port,
        run_as_user: container.run_as_user,
        sdk_version: sdk::released(),
        sdk_path,
        files: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
