//! `hotshoe crd`: the CustomResourceDefinition of the kind that a plugin serves.

mod definition;
mod source;
mod structural;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::cli::project::{self, Folder, Language, shown};
use crate::cli::terminal;
use definition::Definition;
use hotshoe_operator::config::plugin_resource;
use source::Source;

/// Print the CustomResourceDefinition of the kind that a plugin serves
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    hotshoe crd plugins/memcached | kubectl apply -f -\n  \
    hotshoe crd --out crds                   # of every plugin: crds/GROUP_PLURAL.yaml\n  \
    hotshoe crd --host | kubectl apply -f -  # of Plugin\n\n\
    It comes from the binary `crd` of the plugin's crate, or else from crd.yaml beside plugin.yaml. The API server and a \
    host must accept it: a structural schema, one storage version, a status subresource, the kind of spec.parent.\n\n\
    Plugins may share a kind: then their definitions must be equal. A kind of Kubernetes itself needs none; a note says so.")]
pub struct Args {
    /// Plugins: folders with a plugin.yaml, or such files [default: this folder, or all in plugins/]
    #[arg(value_name = "PLUGIN")]
    plugins: Vec<PathBuf>,
    /// The definition of the host's own kind, Plugin, instead
    #[arg(long, conflicts_with = "plugins")]
    host: bool,
    /// Write each to a file GROUP_PLURAL.yaml in this folder instead
    #[arg(long, value_name = "DIR", conflicts_with = "output")]
    out: Option<PathBuf>,
    /// How to print
    #[arg(short, long, default_value = "yaml")]
    output: Output,
}

/// What `kubectl apply` reads.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Output {
    Json,
    Yaml,
}

/// A definition, and the file or crate that it comes from.
struct Found {
    definition: Definition,
    source: String,
}

impl Args {
    /// Prints or writes the definitions.
    ///
    /// # Errors
    /// Where a plugin has none, or the API server would refuse it.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let definitions = if self.host { of_host()? } else { self.find()? };
        match &self.out {
            Some(out) => write(&definitions, out),
            None => print(&definitions, self.output),
        }?;
        Ok(ExitCode::SUCCESS)
    }

    /// Returns the definitions by name; several plugins may have the same one.
    fn find(&self) -> anyhow::Result<BTreeMap<String, Found>> {
        let mut definitions: BTreeMap<String, Found> = BTreeMap::new();
        for path in project::named_or_all(&self.plugins)? {
            let folder = Folder::open(&path)?;
            let Some(source) = Source::of(&folder) else {
                note_missing(&folder, self.plugins.is_empty())?;
                continue;
            };
            let place = source.place(&folder);
            let definition =
                definition(&folder, &source).with_context(|| format!("the CRD of {place} cannot be used"))?;
            if let Some(other) = definitions.get(&definition.name) {
                ensure!(
                    other.definition == definition,
                    "{} and {place} both define {}, and differently; {}",
                    other.source,
                    definition.name,
                    definition.first_difference(&other.definition)
                );
            } else {
                definitions.insert(definition.name.clone(), Found { definition, source: place });
            }
        }
        Ok(definitions)
    }
}

/// Returns the definition of `Plugin` as YAML.
///
/// # Errors
/// When it cannot be serialised.
pub(super) fn definition_of_plugin() -> anyhow::Result<String> {
    Ok(serde_saphyr::to_string(&plugin_resource::definition()?)?)
}

/// Returns the definition of `Plugin`.
fn of_host() -> anyhow::Result<BTreeMap<String, Found>> {
    let definition = Definition::read(plugin_resource::definition()?)?;
    let source = "host/operator/src/config/manifest.rs and plugin_resource.rs".to_owned();
    Ok(BTreeMap::from([(definition.name.clone(), Found { definition, source })]))
}

fn definition(folder: &Folder, source: &Source) -> anyhow::Result<Definition> {
    let definition = Definition::read(source.definition(folder)?)?;
    if let Some(parent) = &folder.parent {
        ensure!(
            parent.group == definition.group && parent.kind == definition.kind,
            "it defines {}.{}, but spec.parent in {} names {parent}; correct one of them",
            definition.kind,
            definition.group,
            shown(folder.manifest()).display()
        );
    }
    for note in definition.notes() {
        terminal::note(format_args!("note: {}: {note}", folder.name));
    }
    Ok(definition)
}

/// Notes why a plugin has no definition.
///
/// # Errors
/// If the plugin needs one and was named by the user, that is, if not `all` plugins are looked at.
fn note_missing(folder: &Folder, all: bool) -> anyhow::Result<()> {
    let name = &folder.name;
    if let Some(parent) = folder.parent.as_ref().filter(|parent| !parent.is_custom()) {
        terminal::note(format_args!("note: {name} serves {parent}, a kind of Kubernetes itself, which needs no CRD"));
        return Ok(());
    }
    let how = if folder.language() == Some(Language::Rust) {
        "give its crate a binary `crd` that prints it (src/bin/crd.rs), or write crd.yaml beside plugin.yaml"
    } else {
        "write crd.yaml beside its plugin.yaml"
    };
    ensure!(all, "{name} has no CRD: {how}");
    terminal::note(format_args!("note: {name} has no CRD, so none is written; {how}"));
    Ok(())
}

fn print(definitions: &BTreeMap<String, Found>, output: Output) -> anyhow::Result<()> {
    let values: Vec<&Value> = definitions.values().map(|found| &found.definition.value).collect();
    match (output, values.as_slice()) {
        (_, []) => Ok(()),
        (Output::Json, [only]) => terminal::line(format_args!("{only:#}")),
        (Output::Json, _) => {
            let list = json!({ "apiVersion": "v1", "kind": "List", "items": values });
            terminal::line(format_args!("{list:#}"))
        }
        (Output::Yaml, _) => {
            let documents = values.iter().map(serde_saphyr::to_string).collect::<Result<Vec<_>, _>>()?;
            terminal::print(documents.join("---\n"))
        }
    }
}

fn write(definitions: &BTreeMap<String, Found>, out: &Path) -> anyhow::Result<()> {
    for Found { definition, source } in definitions.values() {
        let path = out.join(definition.file_name());
        let text = text(definition, source)?;
        project::write(&path, text.as_bytes())?;
        terminal::line(format_args!("{}", shown(&path).display()))?;
    }
    Ok(())
}

/// Returns the text of the file for a definition in YAML. A comment in it names the source.
///
/// # Errors
/// Where the API server would refuse it.
pub(super) fn generated(definition: &str, source: &str) -> anyhow::Result<String> {
    text(&Definition::read(serde_saphyr::from_str(definition)?)?, source)
}

fn text(definition: &Definition, source: &str) -> anyhow::Result<String> {
    let yaml = serde_saphyr::to_string(&definition.value)?;
    Ok(format!("# Generated from {source} by `hotshoe crd`; change it there.\n{yaml}"))
}
