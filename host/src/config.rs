//! Flags, environment and `plugin.yaml` → what the host works with. Every default stands here.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::api;
use crate::grant::Grant;
use crate::plugin::limits::Limits;

/// Where `plugin.yaml` is looked for when a folder is named.
pub const PLUGIN_FILE: &str = "plugin.yaml";
/// Where `/metrics`, `/healthz`, `/readyz` and `/status` are served.
pub const LISTEN: &str = "127.0.0.1:8080";
/// The namespace of the host and of the plugins' ServiceAccounts.
pub const HOST_NAMESPACE: &str = "hotshoe-system";
/// The soonest and the latest that a plugin can ask to decide again. It chooses the number, so it
/// is clamped: 0 would be a loop, and the largest would overflow the clock.
pub const REQUEUE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(24 * 3600));
/// How many reconciles of one plugin run at once; the writes of all of them share a lower bound.
pub const CONCURRENCY: usize = 10;
/// How often a component's file is looked at.
pub const SOURCE_POLL: Duration = Duration::from_millis(500);

/// Names that are the host's own or everybody's ServiceAccount.
const RESERVED_NAMES: [&str; 3] = ["hotshoe", "default", "status"];

/// A plugin, as the administrator described it, validated.
#[derive(Clone, Debug)]
pub struct PluginConfig {
    /// Its name.
    pub name: Arc<str>,
    /// The file that describes it.
    pub path: PathBuf,
    /// Where its component may be; the first that exists is meant.
    pub component: Vec<PathBuf>,
    /// Its configuration, a JSON object.
    pub config: Arc<str>,
    /// What it may do.
    pub grant: Grant,
    /// What it may use up.
    pub limits: Limits,
}

impl PluginConfig {
    /// Reads `plugin.yaml`, or the one in a folder.
    ///
    /// # Errors
    /// When it cannot be read, has unknown keys, or says something impossible.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let path = if path.is_dir() { path.join(PLUGIN_FILE) } else { path.to_owned() };
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}: name a plugin's folder or its {PLUGIN_FILE}", path.display()))?;
        Self::parse(&text, &path, &|name| std::env::var(name).ok())
    }

    fn parse(text: &str, path: &Path, env: &dyn Fn(&str) -> Option<String>) -> anyhow::Result<Self> {
        let plugin: api::Plugin = serde_saphyr::from_str(text)
            .with_context(|| format!("{} is no valid Plugin: mend the named key", path.display()))?;
        Self::validate(plugin, path, env).with_context(|| format!("{} cannot be used", path.display()))
    }

    fn validate(plugin: api::Plugin, path: &Path, env: &dyn Fn(&str) -> Option<String>) -> anyhow::Result<Self> {
        ensure!(
            plugin.api_version == api::API_VERSION && plugin.kind == api::KIND,
            "it is {} {}, this host reads {} {}",
            plugin.api_version,
            plugin.kind,
            api::API_VERSION,
            api::KIND
        );
        check_name(&plugin.metadata.name)?;
        let spec = plugin.spec;
        Ok(Self {
            name: plugin.metadata.name.into(),
            path: path.to_owned(),
            component: candidates(path, &spec.source.file),
            config: configuration(&spec.config, env)?.into(),
            grant: Grant { rules: spec.grants, prune_all: spec.prune_all },
            limits: Limits::with(&spec.limits)?,
        })
    }

    /// A name for what this host remembers of the plugin: two of one name in different places are
    /// different plugins.
    pub fn place(&self) -> String {
        let path = std::path::absolute(&self.path).unwrap_or_else(|_| self.path.clone());
        let digest = Sha256::digest(path.as_os_str().as_encoded_bytes());
        let place: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        format!("{}-{place}", self.name)
    }

    /// The component's file: the first candidate that exists, or the last one to be named in an
    /// error.
    pub fn component_path(&self) -> &Path {
        let found = self.component.iter().find(|path| path.exists());
        found.or(self.component.last()).unwrap_or(&self.path)
    }
}

/// The name becomes a ServiceAccount, a label value and part of a field manager.
fn check_name(name: &str) -> anyhow::Result<()> {
    let valid = name.len() <= 63 && !name.contains('.') && crate::check::is_dns_subdomain(name);
    ensure!(valid, "metadata.name {name:?} is no DNS label of at most 63 characters; choose another");
    if RESERVED_NAMES.contains(&name) {
        bail!("metadata.name {name:?} is reserved; choose another");
    }
    Ok(())
}

fn candidates(plugin_yaml: &Path, file: &str) -> Vec<PathBuf> {
    let folder = plugin_yaml.parent().unwrap_or(Path::new(""));
    let mut found = vec![folder.join(file)];
    if Path::new(file).is_relative() {
        let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        let built = absolute.ancestors().map(|above| above.join("target/plugins")).find(|products| products.is_dir());
        found.extend(built.map(|products| products.join(file)));
    }
    found
}

fn configuration(config: &api::Config, env: &dyn Fn(&str) -> Option<String>) -> anyhow::Result<String> {
    let mut members: Map<String, Value> = config.values.clone().into_iter().collect();
    for (member, variable) in &config.from_env {
        ensure!(!members.contains_key(member), "config.{member} is given both in values and in fromEnv; keep one");
        if let Some(value) = env(variable) {
            members.insert(member.clone(), value.into());
        }
    }
    Ok(Value::Object(members).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLUGIN: &str = "apiVersion: hotshoe.dev/v1alpha1\nkind: Plugin\nmetadata: {name: memcached}\nspec:\n  source: {file: memcached.wasm}\n  config:\n    values: {size: 1}\n    fromEnv: {image: IMAGE}\n  grants:\n  - {group: apps, kind: Deployment, verbs: [get, create]}\n";

    fn parse(text: &str) -> anyhow::Result<PluginConfig> {
        PluginConfig::parse(text, Path::new("plugins/memcached/plugin.yaml"), &|name| {
            (name == "IMAGE").then(|| "memcached:1".to_owned())
        })
    }

    #[test]
    fn the_configuration_is_what_is_written_and_what_the_environment_says() {
        let plugin = parse(PLUGIN).unwrap();
        assert_eq!(&*plugin.config, r#"{"image":"memcached:1","size":1}"#);
        assert_eq!(plugin.component[0], Path::new("plugins/memcached/memcached.wasm"));
    }

    #[test]
    fn a_variable_that_is_not_set_leaves_the_member_out() {
        let plugin = parse(&PLUGIN.replace("IMAGE", "OTHER")).unwrap();
        assert_eq!(&*plugin.config, r#"{"size":1}"#);
    }

    #[test]
    fn an_unknown_key_is_named() {
        let error = parse(&PLUGIN.replace("source:", "sauce:")).unwrap_err();
        assert!(format!("{error:#}").contains("sauce"), "{error:#}");
    }

    #[test]
    fn an_unknown_verb_is_named() {
        let error = parse(&PLUGIN.replace("create]", "escalate]")).unwrap_err();
        assert!(format!("{error:#}").contains("escalate"), "{error:#}");
    }

    #[test]
    fn the_hosts_own_name_is_reserved() {
        let error = parse(&PLUGIN.replace("name: memcached", "name: hotshoe")).unwrap_err();
        assert!(format!("{error:#}").contains("reserved"), "{error:#}");
    }
}
