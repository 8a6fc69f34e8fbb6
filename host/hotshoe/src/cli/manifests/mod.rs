//! `hotshoe manifests`: prints everything that a cluster needs to run a host, or writes it as a bundle.

mod bundle;
mod service_version;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use clap::Args as _;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior};
use serde::Serialize;
use serde_json::Value;

use crate::cli::crd;
use crate::cli::inspect::LoadedPlugin;
use crate::cli::rbac;
use crate::cli::run;
use crate::cli::terminal;
use hotshoe_core::model::names;
use hotshoe_core::rbac::Rights;
use hotshoe_operator::config::plugin_resource;
use hotshoe_operator::webhooks::configuration;

/// The Deployment and the NetworkPolicy, but for what differs between installations.
const HOST: &str = include_str!("../../../../../deploy/host.yaml.j2");
/// The image of this version, as `just image` names it.
const IMAGE: &str = concat!("hotshoe:", env!("CARGO_PKG_VERSION"));
/// The folder of the image that has the plugins.
const PLUGINS: &str = "/plugins";
/// Where the ports of the template are open.
const LISTEN: [&str; 6] = ["--listen", "0.0.0.0:8080", "--probes", "0.0.0.0:8081", "--log-format", "json"];
/// Where the webhooks are open.
const WEBHOOKS: [&str; 2] = ["--webhooks", "0.0.0.0:9443"];
/// The folder in which the template mounts the certificate of the webhooks.
const WEBHOOKS_SECRET: [&str; 2] = ["--webhooks-cert-dir", "/webhooks"];

/// Print everything that a cluster needs to run a host: its namespace, accounts, rights and Deployment
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    hotshoe manifests plugins/a --image example.com/hotshoe:1 | kubectl apply -f -\n  \
    hotshoe manifests plugins/cache --env CACHE_IMAGE=cache:1 -- --shards 2\n  \
    hotshoe manifests --objects             # a host that follows Plugin objects\n  \
    hotshoe manifests plugins/a --bundle bundle # of the Operator Lifecycle Manager\n\n\
    Not printed are the definitions of the plugins' kinds: `hotshoe crd` prints those. The plugins must be built, and be in \
    the image as /plugins/FOLDER, as `just image` puts them there. Rights are printed as by `hotshoe rbac`.")]
pub struct Args {
    /// The plugins of the host: folders with a plugin.yaml, or such files
    #[arg(value_name = "PLUGIN", required_unless_present = "objects")]
    plugins: Vec<PathBuf>,
    /// Print a host that follows the Plugin objects of the cluster, with the definition of Plugin; `hotshoe rbac
    /// --plugin-only` prints what each plugin adds to its rights
    #[arg(long, conflicts_with_all = ["plugins", "components"])]
    objects: bool,
    /// The image of the host and its plugins
    #[arg(long, default_value = IMAGE, value_name = "IMAGE", value_parser = image)]
    image: String,
    /// A variable in the environment of the host, for the plugins; repeat it for several
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(String, String)>,
    /// Serve webhooks with the tls.crt and tls.key of this Secret in the host's namespace, instead of --webhooks; then
    /// `hotshoe webhooks` prints what makes the API server ask
    #[arg(long, value_name = "SECRET", value_parser = secret, conflicts_with = "webhooks")]
    webhooks_secret: Option<String>,
    #[command(flatten)]
    rights: rbac::Options,
    #[command(flatten)]
    bundle: bundle::Options,
    /// More options of `hotshoe run`, after `--`
    #[arg(last = true, value_name = "OPTION")]
    run_options: Vec<String>,
}

/// Checks the name of an image.
fn image(text: &str) -> Result<String, &'static str> {
    let is_valid = !text.is_empty() && text.chars().all(|letter| letter.is_ascii_graphic());
    is_valid.then(|| text.to_owned()).ok_or("name an image, such as registry.example.com/hotshoe:1")
}

/// Checks the name of a Secret.
fn secret(text: &str) -> Result<String, &'static str> {
    let is_valid = names::is_subdomain(text);
    is_valid.then(|| text.to_owned()).ok_or("a Secret's name has lower-case letters, digits, `-` and `.`")
}

/// Reads a variable of the environment.
fn variable(text: &str) -> Result<(String, String), &'static str> {
    let is_name = |name: &str| {
        name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    };
    let (name, value) = text.split_once('=').unwrap_or_default();
    let variable = is_name(name).then(|| (name.to_owned(), value.to_owned()));
    variable.ok_or("write NAME=VALUE, with a name of letters, digits and `_`, such as CACHE_IMAGE=cache:1")
}

/// The values that are put into the template, as YAML.
#[derive(Debug, Serialize)]
struct Host {
    objects: bool,
    image: String,
    namespace: String,
    account: String,
    arguments: Vec<String>,
    env: Vec<Variable>,
    /// Whether the port of the webhooks is open.
    webhooks: bool,
    /// The Secret with the certificate of the webhooks; `None` if the host keeps it itself.
    webhooks_secret: Option<String>,
}

#[derive(Debug, Serialize)]
struct Variable {
    name: String,
    value: String,
    /// Whether it is an image that is named by a tag, which can be moved.
    pin: bool,
}

impl Variable {
    fn new((name, value): &(String, String)) -> Self {
        Self { name: name.clone(), value: scalar(value), pin: name.ends_with("_IMAGE") && !value.contains('@') }
    }
}

impl Args {
    /// Loads the plugins and prints the manifests.
    ///
    /// # Errors
    /// When a plugin cannot be loaded, asks for more than it is granted, or the host could not be started like that.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let plugins = self.rights.installed.load(&self.plugins).await?;
        let rights = if self.objects { self.rights.rights_of_host()? } else { self.rights.rights(&plugins).await? };
        let host = self.host(&plugins)?;
        if let Some(out) = &self.bundle.bundle {
            let contents = self.contents(&plugins, &rights, &host)?;
            let files = bundle::write(out, &self.bundle, contents, &self.rights.installed.installation()?)?;
            rbac::print_notes(&rights);
            bundle::print(out, &files)?;
            return Ok(ExitCode::SUCCESS);
        }
        rbac::print_notes(&rights);
        let mut documents = vec![rbac::to_yaml(&rights)?, host];
        documents.extend(self.service()?);
        if self.objects {
            documents.insert(0, crd::definition_of_plugin()?);
            return print(
                "# A host that follows Plugin objects, printed by `hotshoe manifests --objects`.",
                &documents,
            );
        }
        print("# A host and its plugins, printed by `hotshoe manifests`.", &documents)
    }

    /// Returns what a bundle has.
    fn contents(&self, plugins: &[LoadedPlugin], rights: &Rights, host: &str) -> anyhow::Result<bundle::Contents> {
        let mut workload: Vec<Value> = serde_saphyr::from_multiple(host).context("the Deployment is no YAML")?;
        if self.rights.webhooks {
            workload.push(configuration::service(&self.rights.installed.installation()?));
        }
        // Plugins may share a kind.
        let mut definitions = BTreeMap::new();
        if self.objects {
            definitions.insert("plugins.hotshoe.dev".to_owned(), plugin_resource::definition()?);
        }
        let (mut samples, mut children) = (Vec::new(), BTreeSet::new());
        for plugin in plugins {
            let descriptor = plugin.revision.descriptor();
            children.extend(
                descriptor.owns.iter().map(|owned| (owned.kind.version.to_string(), owned.kind.kind.to_string())),
            );
            if descriptor.parent.is_builtin() {
                continue;
            }
            let definition = plugin.files.definition(&descriptor.parent);
            let (name, definition) = definition.with_context(|| missing_definition(plugin))?;
            definitions.insert(name.to_owned(), definition.clone());
            for (_, sample) in plugin.files.samples() {
                if !samples.contains(sample) {
                    samples.push(sample.clone());
                }
            }
        }
        let package = match plugins {
            [plugin] => plugin.config.name.to_string(),
            _ => "hotshoe".to_owned(),
        };
        let rights = rights.manifests.iter().map(serde_json::to_value).collect::<Result<Vec<_>, _>>()?;
        let (definitions, image) = (definitions.into_values().collect(), self.image.clone());
        Ok(bundle::Contents { rights, workload, definitions, samples, children, package, image })
    }

    /// Returns the Service of the webhooks, if the host registers them itself.
    fn service(&self) -> anyhow::Result<Option<String>> {
        if !self.rights.webhooks {
            return Ok(None);
        }
        let service = configuration::service(&self.rights.installed.installation()?);
        Ok(Some(serde_saphyr::to_string(&service).context("the Service cannot be written as YAML")?))
    }

    /// Returns the Deployment and what belongs to it.
    fn host(&self, plugins: &[LoadedPlugin]) -> anyhow::Result<String> {
        let folders = plugins.iter().map(folder_in_image).collect::<anyhow::Result<Vec<_>>>()?;
        let arguments = self.arguments(folders)?;
        ensure_valid(&arguments)?;
        let host = Host {
            objects: self.objects,
            image: scalar(&self.image),
            namespace: scalar(&self.rights.installed.namespace),
            account: scalar(&self.rights.installed.host_account),
            arguments: arguments.iter().map(|argument| scalar(argument)).collect(),
            env: self.env.iter().map(Variable::new).collect(),
            webhooks: self.serves_webhooks(),
            webhooks_secret: self.webhooks_secret.as_deref().map(scalar),
        };
        host.render()
    }

    fn serves_webhooks(&self) -> bool {
        self.rights.webhooks || self.webhooks_secret.is_some()
    }

    /// Returns the arguments of the host's container.
    fn arguments(&self, folders: Vec<String>) -> anyhow::Result<Vec<String>> {
        // Components that an object names by `file` are those of the image.
        let source = if self.objects { vec!["--files-dir".into(), PLUGINS.into()] } else { folders };
        let follow = if self.objects { None } else { Some("--follow".to_owned()) };
        let watched = self.rights.installed.installation()?.watched;
        let watched = watched.names().iter().flat_map(|namespace| ["--namespace".to_owned(), namespace.to_string()]);
        let secure = self.rights.metrics_secure.then(|| "--metrics-secure".to_owned());
        let secret = self.webhooks_secret.iter().flat_map(|_| WEBHOOKS_SECRET.map(str::to_owned));
        let webhooks =
            self.serves_webhooks().then_some(WEBHOOKS).into_iter().flatten().map(str::to_owned).chain(secret);
        let run = ["run".to_owned()].into_iter().chain(source).chain(follow).chain(LISTEN.map(str::to_owned));
        Ok(run.chain(watched).chain(secure).chain(webhooks).chain(self.run_options.iter().cloned()).collect())
    }
}

/// Returns what to do if the definition of a plugin's kind is not among the files of its project.
fn missing_definition(plugin: &LoadedPlugin) -> String {
    let folder = plugin.config.origin.file().and_then(Path::parent).unwrap_or(Path::new("."));
    format!(
        "the CRD of {} is not in the folder crds of the project; write it there with `hotshoe crd --out crds {}`",
        plugin.revision.descriptor().parent,
        folder.display()
    )
}

fn print(header: &str, documents: &[String]) -> anyhow::Result<ExitCode> {
    terminal::print(format_args!("{header}\n{}", documents.join("---\n")))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the folder of a plugin in the image.
fn folder_in_image(plugin: &LoadedPlugin) -> anyhow::Result<String> {
    let file = plugin.config.origin.file().context("a plugin that is loaded here has a file")?;
    let file = std::path::absolute(file)?;
    let folder = file.parent().and_then(|folder| folder.file_name()).and_then(|name| name.to_str());
    let folder = folder.with_context(|| format!("{} is in no folder with a name in UTF-8; move it", file.display()))?;
    Ok(format!("{PLUGINS}/{folder}"))
}

/// Fails if `hotshoe` would refuse these arguments, for then the Pod would never start.
fn ensure_valid(arguments: &[String]) -> anyhow::Result<()> {
    let command = run::Args::augment_args(clap::Command::new("run"));
    let refused = command.try_get_matches_from(arguments).err();
    ensure!(
        refused.is_none(),
        "the host could not be started: `hotshoe {}` is refused; change what comes after `--`\n{}",
        arguments.join(" "),
        refused.map(|error| error.to_string()).unwrap_or_default().trim_end()
    );
    Ok(())
}

/// Returns a text as YAML, which is without quotes where no reader takes it for anything but a text.
fn scalar(text: &str) -> String {
    const PUNCTUATION: &str = "/-_.:@";
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || PUNCTUATION.contains(letter);
    let begins = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '/') || text.starts_with("--");
    // `true`, `no` and the like are nothing but letters.
    let means_itself = matches!(text, "run" | "json" | "hotshoe") || text.contains(['/', '-', ':']);
    if begins && means_itself && text.chars().all(is_word) && !text.ends_with(':') {
        text.to_owned()
    } else {
        serde_json::Value::from(text).to_string()
    }
}

impl Host {
    fn render(&self) -> anyhow::Result<String> {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).keep_trailing_newline(true).build()?);
        let rendered = environment.render_str(HOST, Serde(self));
        rendered.context("the template of the Deployment cannot be used; that is a defect of this program")
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    fn args(words: &[&str]) -> Args {
        Command::parse_from(["hotshoe"].iter().chain(words)).args
    }

    /// Returns the Deployment of a host that is printed with these arguments.
    fn deployment(words: &[&str]) -> Value {
        let printed = args(words).host(&[]).unwrap();
        let (deployment, policy) = printed.split_once("---\n").unwrap();
        assert!(serde_saphyr::from_str::<Value>(policy).unwrap()["kind"] == "NetworkPolicy", "{policy}");
        serde_saphyr::from_str(deployment).unwrap()
    }

    fn container(deployment: &Value) -> Value {
        deployment["spec"]["template"]["spec"]["containers"][0].clone()
    }

    #[test]
    fn a_host_of_objects_finds_components_in_the_image_and_follows_no_file() {
        let container = container(&deployment(&["--objects"]));
        assert_eq!(
            container["args"],
            json!(["run", "--files-dir", "/plugins"].iter().chain(&LISTEN).collect::<Vec<_>>())
        );
        assert_eq!(container["image"], IMAGE);
    }

    #[test]
    fn webhooks_are_served_with_the_certificate_of_the_named_secret() {
        let deployment = deployment(&["--objects", "--webhooks-secret", "webhooks-tls"]);
        let container = container(&deployment);
        let arguments: Vec<String> = serde_json::from_value(container["args"].clone()).unwrap();
        let expected: Vec<String> = WEBHOOKS.iter().chain(&WEBHOOKS_SECRET).map(|word| (*word).to_owned()).collect();
        assert!(arguments.ends_with(&expected), "{arguments:?}");
        let port = configuration::PORT;
        let ports = container["ports"].as_array().unwrap();
        assert!(ports.contains(&json!({ "name": "webhooks", "containerPort": port })), "{ports:?}");
        assert!(WEBHOOKS.contains(&&*format!("0.0.0.0:{port}")));
        let volumes = deployment["spec"]["template"]["spec"]["volumes"].as_array().unwrap();
        assert!(
            volumes.contains(&json!({ "name": "webhooks", "secret": { "secretName": "webhooks-tls" } })),
            "{volumes:?}"
        );
    }

    #[test]
    fn a_host_that_keeps_its_own_ca_mounts_no_certificate_and_is_found_by_the_service() {
        let args = args(&["--objects", "--webhooks"]);
        let deployment = deployment(&["--objects", "--webhooks"]);
        let container = container(&deployment);
        let arguments: Vec<String> = serde_json::from_value(container["args"].clone()).unwrap();
        assert!(arguments.ends_with(&WEBHOOKS.map(str::to_owned)), "{arguments:?}");
        assert!(container["ports"].to_string().contains("9443"), "{container:#}");
        assert!(!deployment.to_string().contains("secretName"), "{deployment:#}");
        assert!(args.service().unwrap().unwrap().contains("name: hotshoe-webhooks\n"));
        let parsed = Command::try_parse_from(["hotshoe", "--objects", "--webhooks", "--webhooks-secret", "a"]);
        assert!(parsed.is_err());
    }

    #[test]
    fn plugins_are_named_as_folders_of_the_image_before_the_options() {
        let named = args(&["plugins/a", "--metrics-secure", "--", "--shards", "2"]);
        let arguments = named.arguments(vec!["/plugins/a".into()]).unwrap();
        assert!(
            arguments.starts_with(&["run", "/plugins/a", "--follow", "--listen"].map(str::to_owned)),
            "{arguments:?}"
        );
        assert!(arguments.ends_with(&["--metrics-secure", "--shards", "2"].map(str::to_owned)), "{arguments:?}");
        ensure_valid(&arguments).unwrap();
    }

    #[test]
    fn what_is_named_stands_in_the_deployment_whatever_letters_it_has() {
        let odd = "say \"hi\", {{ x }} #: [1]\n\u{1}";
        let variable = format!("GREETING={odd}");
        let words = [
            "--objects",
            "--image",
            "yes",
            "-n",
            "there",
            "--host-account",
            "1e3",
            "--env",
            &variable,
            "--env",
            "A_IMAGE=a:1",
        ];
        let deployment = deployment(&words);
        assert_eq!(deployment["metadata"]["namespace"], "there");
        assert_eq!(deployment["spec"]["template"]["spec"]["serviceAccountName"], "1e3");
        let container = container(&deployment);
        assert_eq!(container["image"], "yes");
        assert_eq!(container["env"][0], json!({ "name": "GREETING", "value": odd }));
        assert_eq!(container["env"][1], json!({ "name": "A_IMAGE", "value": "a:1" }));
        assert_eq!(container["env"][2]["name"], "HOTSHOE_SERVICE_ACCOUNT_NAMESPACE");
    }

    #[test]
    fn an_option_that_the_host_does_not_have_is_refused_with_the_reason() {
        let refused = args(&["--objects", "--", "--shards", "many"]).host(&[]).unwrap_err().to_string();
        assert!(refused.contains("--shards many` is refused") && refused.contains("after `--`"), "{refused}");
        assert!(refused.contains("invalid value 'many'"), "{refused}");
    }

    #[test]
    fn a_variable_and_an_image_that_cannot_be_meant_are_refused() {
        for wrong in ["A", "=a", "1A=a", "A-B=a"] {
            assert!(variable(wrong).unwrap_err().contains("NAME=VALUE"), "{wrong}");
        }
        assert_eq!(variable("A=b=c"), Ok(("A".to_owned(), "b=c".to_owned())));
        assert!(image("").is_err() && image("a b").is_err());
    }

    #[test]
    fn a_namespace_that_is_watched_is_an_option_of_the_host() {
        let arguments = args(&["--objects", "--watch-namespace", "team-a"]).arguments(Vec::new()).unwrap();
        assert!(arguments.ends_with(&["--namespace", "team-a"].map(str::to_owned)), "{arguments:?}");
        let several = args(&["--objects", "--watch-namespace", "team-b,team-a"]).arguments(Vec::new()).unwrap();
        let watched = ["--namespace", "team-a", "--namespace", "team-b"].map(str::to_owned);
        assert!(several.ends_with(&watched), "{several:?}");
        let twice = args(&["--objects", "--watch-namespace", "team-a,team-a"]).arguments(Vec::new()).unwrap_err();
        assert!(format!("{twice:#}").contains("--watch-namespace: the namespace team-a is named twice"), "{twice:#}");
    }
}
