//! `hotshoe new`: makes a complete project with a plugin, or adds a plugin to a project.

mod answers;
mod container;
mod files;
mod form;
mod license;
mod names;
mod place;
mod plan;
pub(super) mod sdk;
mod templates;
mod vendored;
mod webhooks;
mod workspace;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use anyhow::ensure;

use crate::cli::doctor;
use crate::cli::project::{Language, shown};
use crate::cli::terminal;
use answers::{Answerer, with_answerer};
use container::Container;
use form::{ChildNamespace, Form, Makes};
use hotshoe_core::model::names as rules;
use license::Licensing;
use names::Names;
use place::Place;
use plan::{Plan, Wanted};
use sdk::Sdk;
use templates::Context;
use webhooks::Webhook;

/// Make a new plugin: a complete project in an empty folder, or another kind in a project
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    hotshoe new cache                                # in this folder, which is empty\n  \
    hotshoe new cache --into operator --lang python  # in another folder, in Python\n  \
    hotshoe new web --into operator --kind WebServer # one more kind in a project\n  \
    hotshoe new memcached --group cache --image memcached:1.6-alpine \\\n    \
      --image-container-command memcached,-m=64,-v \\\n    \
      --image-container-port 11211 --run-as-user 1001\n  \
    hotshoe new cache --webhooks validation,defaulting,conversion\n  \
    hotshoe new cache --empty                        # a kind, and no logic yet\n  \
    hotshoe new tier --cluster-scoped                # a kind without namespaces\n  \
    hotshoe new audit --parent apps/v1/StatefulSet   # a kind that is there already\n\n\
    The new operator makes a Deployment of each object of its kind, and builds, passes its tests and runs as it is. Names \
    that are not given are asked for on a terminal, and else taken by default. Where something is in the way, nothing is \
    written.\n\n\
    A project has the sources of the SDK in vendor/, so that it builds wherever it is cloned. With `--sdk released` it \
    depends on hotshoe-sdk on crates.io or PyPI, or @hotshoe/sdk on npm, of which there is no release yet.")]
pub struct Args {
    /// The plugin's name: of its folder, its component and its ServiceAccount
    #[arg(value_name = "NAME", value_parser = names::plugin)]
    name: String,
    /// The language of its logic
    #[arg(long, value_name = "LANGUAGE", default_value = "rust")]
    lang: Language,
    /// The first part of the API group, GROUP.DOMAIN [default: NAME]
    #[arg(long, value_parser = names::group)]
    group: Option<String>,
    /// The rest of the API group [default: example.com]
    #[arg(long, value_parser = names::domain)]
    domain: Option<String>,
    /// The version of the kind [default: v1alpha1]
    #[arg(long, value_parser = names::version)]
    version: Option<String>,
    /// The kind [default: NAME, as in MyCache for my-cache]
    #[arg(long, value_parser = names::kind)]
    kind: Option<String>,
    /// The plural of the kind [default: by rule]
    #[arg(long, value_parser = names::plural)]
    plural: Option<String>,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    container: Container,
    #[command(flatten)]
    licensing: Licensing,
    /// What the API server asks the plugin for as well; as Kubebuilder's `create webhook --defaulting
    /// --programmatic-validation --conversion`
    #[arg(long, value_name = "WEBHOOK,...", value_delimiter = ',')]
    webhooks: Vec<Webhook>,
    /// A project, or an empty or new folder [default: this one]
    #[arg(long, value_name = "DIR", default_value = ".", hide_default_value = true)]
    into: PathBuf,
    /// The SDK: `vendored`, its sources in the project; `released`; or the folder of a copy, such as plugins/sdk,
    /// sdk-python or sdk-js of Hotshoe
    #[arg(long, value_name = "SDK", default_value = "vendored", value_hint = clap::ValueHint::DirPath)]
    sdk: Sdk,
    /// Ask nothing, and take the defaults
    #[arg(short, long)]
    yes: bool,
}

impl Args {
    /// Makes the plugin, and prints what to do next.
    ///
    /// # Errors
    /// If a name is invalid or a file exists already. Then nothing is written.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let place = Place::of(&self.into)?;
        let wanted = with_answerer(!self.yes, |answerer| self.wanted(answerer))?;
        let plan = Plan::new(&place, &wanted)?;
        plan.files.write(place.folder())?;
        if self.lang == Language::Rust {
            add_to_lockfile(&plan);
        }
        terminal::print(self.next_steps(&place, &plan))?;
        for missing in doctor::missing_for(self.lang) {
            terminal::note(format_args!("note: {missing}"));
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Returns what is to be made; asks for what is missing.
    ///
    /// # Errors
    /// If a name is invalid, or an answer is missing.
    fn wanted(&self, answerer: &mut Answerer<'_>) -> anyhow::Result<Wanted> {
        let sdk = self.sdk.checked(self.lang)?;
        let names = match &self.form.parent {
            Some(kind) => Names::existing(&self.name, kind),
            None => self.names(answerer)?,
        };
        let may_have_webhooks = self.form.makes() == Makes::Deployment;
        let webhooks = if may_have_webhooks { webhooks::answered(&self.webhooks, answerer)? } else { BTreeSet::new() };
        let domain = self.domain.as_deref().unwrap_or(names::DEFAULT_DOMAIN);
        let prefix = names::api_group(&self.name, domain);
        ensure!(rules::is_group(&prefix), "{prefix} has more than 253 characters; take a shorter domain");
        Ok(Wanted {
            names,
            language: self.lang,
            form: self.form.clone(),
            container: self.container.clone(),
            webhooks,
            licensing: self.licensing.clone(),
            prefix,
            sdk,
        })
    }

    /// Returns the names of a new kind.
    fn names(&self, answerer: &mut Answerer<'_>) -> anyhow::Result<Names> {
        let plugin = self.name.clone();
        let kind = answerer.answer(self.kind.clone(), "Kind", &names::kind_of(&plugin), names::kind)?;
        let group = answerer.answer(self.group.clone(), "Group", &plugin, names::group)?;
        let domain = answerer.answer(self.domain.clone(), "Domain", names::DEFAULT_DOMAIN, names::domain)?;
        let version = answerer.answer(self.version.clone(), "Version", names::DEFAULT_VERSION, names::version)?;
        let plural = self.plural.clone().unwrap_or_else(|| names::plural_of(&kind));
        let api_group = names::api_group(&group, &domain);
        let names = Names { plugin, group, api_group, version, kind, plural };
        names.check()?;
        if let Some(note) = names.note() {
            terminal::note(note);
        }
        Ok(names)
    }

    /// Returns what was made, and the commands to type next.
    fn next_steps(&self, place: &Place, plan: &Plan) -> String {
        let context = &plan.context;
        let (name, kind, api_version) = (&context.name, &context.kind, &context.api_version);
        let folder = place.folder();
        let is_here = std::env::current_dir().is_ok_and(|here| here == folder);
        let cd = if is_here { String::new() } else { format!("  cd {}\n", shown(folder).display()) };
        let just = if folder.join("justw").is_file() { "./justw" } else { "just" };
        let (test, run) = match place {
            Place::Project(_) if just == "./justw" => (format!("test-plugin {name}"), format!("run {name}")),
            _ => ("test".to_owned(), "run".to_owned()),
        };
        let sdk = match &self.sdk {
            Sdk::Vendored => String::new(),
            Sdk::Local(path) => format!("note: it depends on the SDK in {}, on this machine\n", shown(path).display()),
            Sdk::Released => {
                format!("note: it depends on version {} of the SDK, which must be released\n", context.sdk_version)
            }
        };
        let webhooks = match context.webhooks.as_slice() {
            [] => "",
            _ => {
                "note: the API server asks a host that runs with --webhooks; one on this machine asks with \
                 `--webhooks 127.0.0.1:9443 --webhooks-url https://127.0.0.1`\n"
            }
        };
        format!(
            "made the plugin {name}, of {kind} in {api_version}, in {}\n{sdk}{webhooks}{}next:\n{cd}  {just} {test:<24} # its logic \
             natively, and the component on its cases\n  {just} {run:<24} # a host here, with a cluster\n  kubectl apply -f {}\n",
            shown(&folder.join("plugins").join(name)).display(),
            self.rights(context),
            plan.sample.display()
        )
    }

    /// Returns notes of whose parents the plugin serves and which rights it asks for, where that is not what a new kind
    /// in namespaces has.
    fn rights(&self, context: &Context) -> String {
        let Context { kind, prefix, .. } = context;
        let parents = match self.form.parent {
            Some(_) => format!(
                "note: its parents are objects of {kind} with the label {prefix}/enabled: \"true\"; it reads them, and leaves \
                 them as they are\n"
            ),
            None => String::new(),
        };
        let place = match self.form.child_namespace() {
            ChildNamespace::OfParent => "in its namespace",
            ChildNamespace::InSpec => "in the namespace that its spec names",
            ChildNamespace::InConfig => "in the namespace that plugin.yaml names",
        };
        let children = match (self.form.makes(), self.form.child_namespace()) {
            (Makes::Nothing, _) => {
                "note: it makes nothing yet, and asks for no rights but to read its parents\n".to_owned()
            }
            (Makes::Deployment, ChildNamespace::OfParent) => String::new(),
            (Makes::Deployment, _) => format!(
                "note: it makes a Deployment for each {kind}, {place}: it asks to create, update and delete Deployments in \
                 every namespace, which plugin.yaml grants and can restrict\n"
            ),
            (Makes::ConfigMap, _) => format!(
                "note: it makes a ConfigMap for each {kind}, {place}: it asks to create, update and delete ConfigMaps there, \
                 which plugin.yaml grants\n"
            ),
        };
        parents + &children
    }
}

/// Adds the new crate to `Cargo.lock`, so that the next build does not have to change that file. Errors are ignored:
/// without Cargo, the first build does it.
fn add_to_lockfile(plan: &Plan) {
    let Some(manifest) = &plan.workspace_manifest else { return };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut update = Command::new(cargo);
    update.args(["update", "--quiet", "--offline", "--workspace", "--manifest-path"]).arg(manifest);
    drop(update.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status());
}
