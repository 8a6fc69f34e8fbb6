//! A bundle for the Operator Lifecycle Manager (OLM), in its format `registry+v1`: the same objects that are printed
//! otherwise, of which the ClusterServiceVersion has the Deployment and the rights in the whole cluster.
//!
//! OLM widens what a ClusterServiceVersion calls `permissions`: in an installation for all namespaces they become rights
//! in every namespace, and otherwise they hold in each watched namespace as well. The host may impersonate its plugins in
//! its own namespace only. So rights in namespaces are Roles of the bundle, which OLM applies as they are. What no bundle
//! can have is written beside it, to be applied first.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use serde_json::{Map, Value, json};

use super::service_version::{self, About};
use crate::cli::documents;
use crate::cli::project::{self, shown};
use crate::cli::terminal;
use hotshoe_core::model::names;
use hotshoe_core::rbac::Installation;

/// The file beside the bundle.
const BEFORE: &str = "before.yaml";
/// The folders of a bundle.
const MANIFESTS: &str = "manifests";
const METADATA: &str = "metadata";

/// The options of a bundle.
#[derive(clap::Args, Debug)]
pub(super) struct Options {
    /// Write a bundle for the Operator Lifecycle Manager (OLM) into this folder instead: manifests/, metadata/,
    /// bundle.Dockerfile, and in before.yaml what OLM cannot install
    #[arg(long, value_name = "DIR")]
    pub(super) bundle: Option<PathBuf>,
    /// The name of the bundle's package [default: the plugin's name; with several or --objects, hotshoe]
    #[arg(long, requires = "bundle", value_name = "NAME", value_parser = package)]
    package: Option<String>,
    /// The version of the bundle
    #[arg(long, requires = "bundle", default_value = env!("CARGO_PKG_VERSION"), value_name = "VERSION", value_parser = version)]
    bundle_version: String,
    /// A channel of the package that has this version; repeat it for several, the default one first
    #[arg(long = "channel", requires = "bundle", default_value = "candidate", value_name = "NAME", value_parser = package)]
    channels: Vec<String>,
    /// A ClusterServiceVersion with what people read: names, descriptions, icon, maintainers, links, `replaces`. What
    /// a cluster is given is not taken from it
    #[arg(long, requires = "bundle", value_name = "FILE")]
    csv: Option<PathBuf>,
}

/// Checks a name that becomes part of the names of objects.
fn package(text: &str) -> Result<String, &'static str> {
    names::is_label(text).then(|| text.to_owned()).ok_or("a name here has lower-case letters, digits and `-`")
}

/// Checks a version, as the Operator Framework reads it.
fn version(text: &str) -> Result<String, &'static str> {
    let release = text.split(['-', '+']).next().unwrap_or_default();
    let is_number = |part: &str| {
        part.bytes().all(|digit| digit.is_ascii_digit()) && !part.is_empty() && (part == "0" || !part.starts_with('0'))
    };
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '+');
    let is_valid = release.split('.').count() == 3 && release.split('.').all(is_number) && text.chars().all(is_name);
    is_valid.then(|| text.to_owned()).ok_or("write MAJOR.MINOR.PATCH, such as 1.2.3 or 1.2.3-rc.1")
}

/// What a cluster is given.
pub(super) struct Contents {
    /// The accounts and rights, as objects.
    pub(super) rights: Vec<Value>,
    /// The Deployment and what belongs to it.
    pub(super) workload: Vec<Value>,
    /// The definitions of the kinds that it serves.
    pub(super) definitions: Vec<Value>,
    /// Examples of their objects.
    pub(super) samples: Vec<Value>,
    /// The kinds of its children, as version and kind.
    pub(super) children: BTreeSet<(String, String)>,
    /// The name of its package, unless an option says another.
    pub(super) package: String,
    /// The image.
    pub(super) image: String,
}

/// Where each object belongs.
#[derive(Debug, Default)]
struct Sorted {
    /// Of the ClusterServiceVersion: accounts with their rights in the whole cluster.
    cluster_permissions: Vec<Value>,
    /// Of the ClusterServiceVersion.
    deployments: Vec<Value>,
    /// Files of their own in the bundle.
    objects: Vec<Value>,
    /// Beside the bundle.
    before: Vec<Value>,
}

/// Writes the bundle, and returns the files.
///
/// # Errors
/// When a file cannot be written, or the folder has another one that would be installed as well.
pub(super) fn write(
    out: &Path,
    options: &Options,
    contents: Contents,
    installation: &Installation,
) -> anyhow::Result<Vec<PathBuf>> {
    let sorted = sort(&contents, installation);
    let package = options.package.clone().unwrap_or_else(|| contents.package.clone());
    let about = About { package: &package, version: &options.bundle_version, image: &contents.image, installation };
    let base = options.csv.as_deref().map(base).transpose()?;
    let (name, csv) = service_version::of(&about, &contents.definitions, &contents.samples, &contents.children, base)?;
    let csv = service_version::with_install(csv, &sorted.deployments, &sorted.cluster_permissions);

    let mut files = vec![(format!("{MANIFESTS}/{package}.clusterserviceversion.yaml"), yaml(&csv)?)];
    for object in contents.definitions.iter().chain(&sorted.objects) {
        files.push((format!("{MANIFESTS}/{}", file_name(object)), yaml(object)?));
    }
    let annotations = annotations(&package, &options.channels);
    files.push((format!("{METADATA}/annotations.yaml"), yaml(&json!({ "annotations": annotations }))?));
    files.push(("bundle.Dockerfile".to_owned(), dockerfile(&annotations)));
    files.push((BEFORE.to_owned(), before(&name, &sorted.before, installation)?));
    ensure_complete(out, &files)?;
    let write = |(file, text): (String, String)| {
        let path = out.join(file);
        project::write(&path, text.as_bytes()).map(|()| path)
    };
    files.into_iter().map(write).collect()
}

/// Reads the ClusterServiceVersion of an author.
fn base(file: &Path) -> anyhow::Result<Value> {
    let mut objects = documents::objects(file)?;
    let place = shown(file).display();
    ensure!(objects.len() == 1, "{place} has {} objects; --csv takes one ClusterServiceVersion", objects.len());
    let csv = objects.remove(0);
    ensure!(
        csv.get("kind").is_some_and(|kind| kind == "ClusterServiceVersion"),
        "{place} is no ClusterServiceVersion; give --csv the one that the bundle's begins with"
    );
    Ok(csv)
}

fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Sorts the objects by where they belong.
fn sort(contents: &Contents, installation: &Installation) -> Sorted {
    let mut sorted = Sorted::default();
    let rights = &contents.rights;
    let bound = |role: &str| rights.iter().find(|binding| is_binding_of(binding, role));
    for object in rights {
        let name = text(object, "/metadata/name");
        match text(object, "/kind") {
            "ClusterRole" => match bound(name) {
                Some(binding) => sorted.cluster_permissions.push(json!({
                    "serviceAccountName": text(binding, "/subjects/0/name"),
                    "rules": object.get("rules"),
                })),
                None => sorted.objects.push(object.clone()),
            },
            "ClusterRoleBinding" => {
                let has_role = |role: &Value| is_binding_of(object, text(role, "/metadata/name"));
                if !rights.iter().filter(|role| text(role, "/kind") == "ClusterRole").any(has_role) {
                    sorted.objects.push(object.clone());
                }
            }
            "ServiceAccount" => {}
            _ => sorted.add(object, installation),
        }
    }
    // OLM makes the accounts that the ClusterServiceVersion names, and refuses a bundle that has these as well.
    let named: BTreeSet<&str> = sorted.cluster_permissions.iter().map(|of| text(of, "/serviceAccountName")).collect();
    let others = rights
        .iter()
        .filter(|object| text(object, "/kind") == "ServiceAccount" && !named.contains(text(object, "/metadata/name")));
    let others: Vec<Value> = others
        .filter(|account| text(account, "/metadata/name") != installation.account)
        .map(without_namespace)
        .collect();
    sorted.objects.extend(others);
    if !named.contains(&*installation.account) {
        // Without rights in the cluster. Named so that OLM makes the account of the Deployment.
        sorted.cluster_permissions.insert(0, json!({ "serviceAccountName": installation.account, "rules": [] }));
    }
    for object in &contents.workload {
        match text(object, "/kind") {
            "Deployment" => sorted.deployments.push(json!({
                "name": text(object, "/metadata/name"),
                "label": object.pointer("/metadata/labels"),
                "spec": object.get("spec"),
            })),
            _ => sorted.add(object, installation),
        }
    }
    sorted
}

/// Returns whether an object binds a ClusterRole to one account in the whole cluster.
fn is_binding_of(binding: &Value, role: &str) -> bool {
    text(binding, "/kind") == "ClusterRoleBinding"
        && text(binding, "/roleRef/name") == role
        && binding.pointer("/subjects/1").is_none()
}

impl Sorted {
    /// Adds an object that OLM applies as it is, in the namespace of the installation, or that it does not know.
    fn add(&mut self, object: &Value, installation: &Installation) {
        const KNOWN: [&str; 6] = ["NetworkPolicy", "PodDisruptionBudget", "Role", "RoleBinding", "Secret", "Service"];
        let is_here = text(object, "/metadata/namespace") == installation.namespace;
        match KNOWN.contains(&text(object, "/kind")) && is_here {
            true => self.objects.push(without_namespace(object)),
            false => self.before.push(object.clone()),
        }
    }
}

/// Returns an object as a bundle has it: OLM chooses its namespace.
fn without_namespace(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("namespace");
    }
    object
}

/// Returns the name of an object's file, as the Operator SDK forms it.
fn file_name(object: &Value) -> String {
    let (kind, name) = (text(object, "/kind"), text(object, "/metadata/name"));
    if kind == "CustomResourceDefinition" {
        return format!("{}_{}.yaml", text(object, "/spec/group"), text(object, "/spec/names/plural"));
    }
    format!("{name}_{}_{}.yaml", text(object, "/apiVersion").replace('/', "_"), kind.to_lowercase())
}

/// Returns what a catalog reads of a bundle; also labels of its image.
fn annotations(package: &str, channels: &[String]) -> Map<String, Value> {
    let bundle = |what: &str| format!("operators.operatorframework.io.bundle.{what}.v1");
    let annotations = [
        (bundle("mediatype"), "registry+v1".to_owned()),
        (bundle("manifests"), format!("{MANIFESTS}/")),
        (bundle("metadata"), format!("{METADATA}/")),
        (bundle("package"), package.to_owned()),
        (bundle("channels"), channels.join(",")),
        (bundle("channel.default"), channels.first().cloned().unwrap_or_default()),
    ];
    annotations.into_iter().map(|(name, value)| (name, value.into())).collect()
}

fn dockerfile(annotations: &Map<String, Value>) -> String {
    let labels: String = annotations
        .iter()
        .map(|(name, value)| format!("LABEL {name}={}\n", value.as_str().unwrap_or_default()))
        .collect();
    format!(
        "# The image of the bundle, to be built in this folder.\nFROM scratch\n{labels}\
         COPY {MANIFESTS} /{MANIFESTS}/\nCOPY {METADATA} /{METADATA}/\n"
    )
}

/// Returns what is applied before the bundle is installed: the namespace, what no bundle can have, and the OperatorGroup
/// that has OLM watch the same namespaces as the host.
fn before(name: &str, objects: &[Value], installation: &Installation) -> anyhow::Result<String> {
    let watched: Vec<&str> = installation.watched.names().iter().map(|name| &**name).collect();
    let spec = if watched.is_empty() { json!({}) } else { json!({ "targetNamespaces": watched }) };
    let group = json!({
        "apiVersion": "operators.coreos.com/v1",
        "kind": "OperatorGroup",
        "metadata": { "name": installation.account, "namespace": installation.namespace },
        "spec": spec,
    });
    let documents = objects.iter().chain([&group]).map(yaml).collect::<anyhow::Result<Vec<_>>>()?;
    let header = format!(
        "# What OLM cannot install of {name}: apply it before the Subscription, and delete it after an uninstallation.\n"
    );
    Ok(header + &documents.join("---\n"))
}

/// Fails if the folder of manifests has another file, which would be installed with the bundle.
fn ensure_complete(out: &Path, files: &[(String, String)]) -> anyhow::Result<()> {
    for folder in [MANIFESTS, METADATA] {
        let Ok(entries) = std::fs::read_dir(out.join(folder)) else { continue };
        for entry in entries {
            let path = entry?.path();
            let is_written = files.iter().any(|(file, _)| out.join(file) == path);
            let place = shown(&path).display();
            ensure!(is_written, "{place} is no part of this bundle, and would be installed with it; remove it");
        }
    }
    Ok(())
}

fn yaml(object: &Value) -> anyhow::Result<String> {
    serde_saphyr::to_string(object).context("an object of the bundle cannot be written as YAML")
}

/// Prints what the user has to know about the written files.
pub(super) fn print(out: &Path, files: &[PathBuf]) -> anyhow::Result<()> {
    for file in files {
        terminal::line(format_args!("{}", shown(file).display()))?;
    }
    terminal::note(format_args!(
        "note: apply {} before the bundle is installed: OLM installs none of what is in it",
        shown(&out.join(BEFORE)).display()
    ));
    Ok(())
}
