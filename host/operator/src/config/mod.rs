//! Reads flags, environment and `plugin.yaml` into the host's configuration. Every default is here.

mod component_file;
mod control;
pub mod file;
pub mod folders;
mod host_settings;
pub mod manifest;
pub mod memory;
pub mod missing;
pub mod plugin_resource;
pub mod socket;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use serde_json::{Map, Value};

pub use crate::config::host_settings::{ALLOW_ENV, HOST_NAMESPACE, HostSettings, Origin};
use crate::config::manifest::{Admission, ShardBy, Source};
use hotshoe_core::check::finalizer;
use hotshoe_core::check::finalizer::{AllowedFinalizers, Holders};
use hotshoe_core::check::glob;
use hotshoe_core::check::grant;
use hotshoe_core::check::grant::Grant;
use hotshoe_core::check::memory_share::Account;
use hotshoe_core::check::parent_kind::{ParentKind, ParentKinds};
use hotshoe_core::check::reach::IsNamespaced;
use hotshoe_core::flow::retry::RetryPolicy;
use hotshoe_core::model::annotation_selector::AnnotationSelector;
use hotshoe_core::model::decision::Descriptor;
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::kind::Kind;
use hotshoe_core::model::label_selector::LabelSelector;
use hotshoe_core::model::limits::Limits;
use hotshoe_core::model::names;
use hotshoe_core::model::predecessors::Predecessors;
use hotshoe_core::plugin::removal::DeletionPolicy;
use hotshoe_core::plugin::wanted::Wanted;
use hotshoe_core::rbac;
use hotshoe_platform::followed_file;
use hotshoe_sandbox::error::LoadError;

/// The default address of `/metrics`, `/healthz` and `/readyz`.
pub const LISTEN: &str = "127.0.0.1:8080";
/// The shortest and the longest time after which a plugin can ask to be called again. The plugin chooses the number, so
/// it is clamped: 0 would make a busy loop, and the largest would overflow the clock.
pub const REQUEUE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(24 * 3600));
/// How many reconciles of one plugin run at once. The concurrent writes of all plugins have a limit of their own.
pub const CONCURRENCY: usize = 10;
/// The default of the percentage of parents of which another component may delete children without approval.
pub const MAX_LOSING: u8 = 10;
/// The default of the percentage of parents on which another component may fail without approval.
pub const MAX_FAILING: u8 = 0;

/// Names that a plugin cannot have: those of the host itself and of the default ServiceAccount, names for which the
/// plugin's Role would have the name of a Role for another purpose, and names that finalizers of other operators end
/// with, because the finalizer `GROUP/PLUGIN` belongs to the plugin whichever field manager set it.
pub const RESERVED_NAMES: [&str; 8] = [
    "hotshoe",
    "default",
    "status",
    rbac::IMPERSONATES,
    rbac::metrics::AUTH,
    rbac::metrics::READER,
    "finalizer",
    "finalizers",
];

/// A plugin, as the administrator described it, validated.
#[derive(Clone, Debug)]
pub struct PluginConfig {
    /// Its name.
    pub name: Arc<str>,
    /// The file or object that describes it.
    pub origin: Origin,
    /// Where its component comes from.
    pub source: Source,
    /// The paths at which its component may be, now or once it is built or fetched.
    pub component: Vec<PathBuf>,
    /// What the administrator wants of its revisions.
    pub wanted: Wanted,
    /// What happens to parents when it is removed.
    pub deletion_policy: DeletionPolicy,
    /// Its configuration, a JSON object.
    pub config: Arc<str>,
    /// The kind of its parents, if its description names one.
    pub parent: Option<ParentKind>,
    /// The kinds of the parents of all plugins of the host.
    pub parentage: Arc<ParentKinds>,
    /// The finalizers that it may hold.
    pub finalizers: AllowedFinalizers,
    /// Which plugin of the host holds which finalizers.
    pub holders: Arc<Holders>,
    /// What it may do.
    pub grant: Grant,
    /// The plugins whose children it takes over.
    pub predecessors: Predecessors,
    /// Whether it takes over children of its parents that no plugin made.
    pub adopts: bool,
    /// What the host's webhook answers about a proposed parent.
    pub admission: Admission,
    /// Whether its code for admission is shown who writes a parent.
    pub shows_user: bool,
    /// Its limits.
    pub limits: Limits,
    /// The account of the memory that the host holds for it.
    pub memory: Account,
    /// When and how often a parent is tried again after its reconcile failed.
    pub retry: RetryPolicy,
    /// The percentage of parents of which another component may delete children without approval.
    pub max_losing: u8,
    /// The percentage of parents on which another component may fail, and the active one does not, without approval.
    pub max_failing: u8,
    /// What is spread over the shards of several hosts.
    pub shard_by: ShardBy,
    /// A warning for each member of its configuration whose variable is not set.
    pub unset: Vec<String>,
    /// The digest of the description, however it is written: two with the same digest mean the same.
    pub digest: Digest,
}

impl PluginConfig {
    /// Reads `plugin.yaml`, or the one in a folder.
    ///
    /// # Errors
    /// When it cannot be read, has unknown keys, or is invalid.
    pub fn read(path: &Path, host: &HostSettings) -> anyhow::Result<Self> {
        let path = if path.is_dir() { path.join(folders::PLUGIN_FILE) } else { path.to_owned() };
        Self::parse(&file::read(&path)?, &path, host, &environment)
    }

    /// Reads a `Plugin` object of this uid, as JSON without its status and most of its metadata.
    ///
    /// # Errors
    /// When it has unknown keys, or is invalid.
    pub fn of_object(json: &[u8], uid: &Arc<str>, host: &HostSettings) -> anyhow::Result<Self> {
        let plugin: manifest::Plugin = serde_json::from_slice(json).context("the Plugin cannot be read")?;
        let origin = Origin::Object { name: plugin.metadata.name.as_str().into(), uid: uid.clone() };
        Self::validate(plugin, origin, host, &environment)
    }

    /// Returns the same plugin, as its file or object describes it now.
    ///
    /// # Errors
    /// When it has unknown keys, is invalid, or describes another plugin.
    pub fn changed(&self, text: &[u8], host: &HostSettings) -> anyhow::Result<Self> {
        let origin = &self.origin;
        let changed = match origin {
            Origin::Object { uid, .. } => Self::of_object(text, uid, host)?,
            Origin::File(path) => {
                let text = str::from_utf8(text).with_context(|| format!("{origin} is no text"))?;
                Self::parse(text, path, host, &environment)?
            }
        };
        ensure!(
            changed.name == self.name,
            "{origin} now names the plugin {}, but the host runs it as {}; start the host again to use the new name, or restore the old one",
            changed.name,
            self.name
        );
        ensure!(
            changed.shard_by == self.shard_by,
            "{origin} now has another spec.shardBy, but all hosts of a Lease must have the same; \
             stop all hosts and start them again to use the new value, or restore the old one"
        );
        Ok(changed)
    }

    fn parse(
        text: &str,
        path: &Path,
        host: &HostSettings,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> anyhow::Result<Self> {
        let plugin: manifest::Plugin = file::parse(text, path)?;
        let origin = Origin::File(path.to_owned());
        Self::validate(plugin, origin, host, env).with_context(|| format!("{} cannot be used", path.display()))
    }

    fn validate(
        mut plugin: manifest::Plugin,
        origin: Origin,
        host: &HostSettings,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> anyhow::Result<Self> {
        ensure!(
            plugin.api_version == manifest::API_VERSION && plugin.kind == manifest::KIND,
            "it is {} {}, this host reads {} {}",
            plugin.api_version,
            plugin.kind,
            manifest::API_VERSION,
            manifest::KIND
        );
        check_name(&plugin.metadata.name)?;
        host.ensure_apart(&plugin.metadata.name)?;
        let wanted = control::take(&mut plugin.spec)?;
        let digest = Digest::of(&serde_json::to_vec(&plugin)?);
        let spec = plugin.spec;
        for (index, rule) in spec.grants.iter().enumerate() {
            rule.validate().map_err(|error| anyhow!("spec.grants[{index}] ({}): {error}", rule.kind.escape_debug()))?;
        }
        for (index, kind) in spec.finalize.iter().enumerate() {
            kind.validate(&spec.grants).map_err(|error| anyhow!("spec.finalize[{index}]: {error}"))?;
        }
        if let Some(parent) = &spec.parent {
            parent.validate().map_err(|error| anyhow!("spec.parent: {error}"))?;
        }
        spec.parent_metadata.validate().map_err(|error| anyhow!("spec.parentMetadata: {error}"))?;
        let (parent, granted) = (spec.parent.as_ref(), &spec.parent_metadata);
        let labels = parent.and_then(|parent| parent.selector.as_ref());
        let annotations = parent.and_then(|parent| parent.annotation_selector.as_ref());
        let apart = granted.check_apart_from(
            labels.into_iter().flat_map(LabelSelector::keys),
            annotations.into_iter().flat_map(AnnotationSelector::keys),
        );
        apart.map_err(|error| anyhow!("spec.parentMetadata: {error}"))?;
        let predecessors = Predecessors::new(&plugin.metadata.name, spec.takes_over_from)
            .map_err(|error| anyhow!("spec.takesOverFrom: {error}"))?;
        let finalizers = AllowedFinalizers::new(&plugin.metadata.name, spec.finalizers, predecessors.managers())
            .map_err(|error| anyhow!("spec.finalizers: {error}"))?;
        let max_losing = percentage("spec.swap.maxLosing", spec.swap.max_losing.unwrap_or(MAX_LOSING))?;
        let max_failing = percentage("spec.swap.maxFailing", spec.swap.max_failing.unwrap_or(MAX_FAILING))?;
        let name: Arc<str> = plugin.metadata.name.into();
        Ok(Self {
            memory: host.memory.account(&name),
            component: component_file::places(&name, &spec.source, &origin, host)?,
            name,
            origin,
            source: spec.source,
            wanted,
            deletion_policy: spec.deletion_policy,
            config: configuration(&spec.config, &host.allow_env, env)?.into(),
            unset: unset(&spec.config, env),
            parent: spec.parent,
            parentage: host.parentage.clone(),
            finalizers,
            holders: host.holders.clone(),
            grant: Grant {
                rules: spec.grants,
                prune_all: spec.prune_all,
                finalize: spec.finalize,
                parent_metadata: spec.parent_metadata,
                host_namespace: host.namespace.clone(),
            },
            predecessors,
            adopts: spec.adopt,
            admission: spec.admission,
            shows_user: spec.show_user,
            limits: Limits::with(&spec.limits)?,
            retry: RetryPolicy::with(&spec.retry).map_err(|error| anyhow!("spec.{error}"))?,
            max_losing,
            max_failing,
            shard_by: spec.shard_by,
            digest,
        })
    }

    /// Returns a message that names what a component asks for and is not granted; none if everything is granted. Asking
    /// alone grants nothing.
    pub fn lacking(&self, descriptor: &Descriptor, is_namespaced: &IsNamespaced<'_>) -> Option<String> {
        let parent = self.parent_lacking(&descriptor.parent);
        let rival = self.predecessors.names().iter().find(|name| self.parentage.has(name)).map(|rival| {
            format!("the children of {rival}, which is a plugin of this host; end that one, or remove it from spec.takesOverFrom")
        });
        let finalizer = self.finalizer_lacking(descriptor);
        let rights = grant::lacking(descriptor, &self.grant, is_namespaced);
        let lacking: Vec<String> = parent.into_iter().chain(finalizer).chain(rival).chain(rights).collect();
        (!lacking.is_empty()).then(|| lacking.join("; "))
    }

    /// Returns why a component may not hold the finalizer that it asks for; none if it may. A finalizer must carry the
    /// plugin's name or stand in `spec.finalizers`, and no other plugin of the host may have it.
    pub fn finalizer_lacking(&self, descriptor: &Descriptor) -> Option<String> {
        let finalizer = descriptor.finalizer.as_deref()?;
        let carried = finalizer::carried_name(finalizer).filter(|name| **name != *self.name);
        let why = if let Some(other) = carried.filter(|name| self.parentage.has(name)) {
            format!("which carries the name of the plugin {other} of this host")
        } else if !self.finalizers.has(finalizer) {
            let own = format!("{}/{}", finalizer::domain(&descriptor.parent.group), self.name);
            format!("which neither carries the plugin's name, as {own} does, nor stands in spec.finalizers")
        } else {
            let other = self.holders.other_than(&self.name, finalizer)?;
            format!("which the plugin {other} of this host has; no two share one, so give one of them another")
        };
        Some(format!("the finalizer {finalizer}, {why}"))
    }

    /// Checks that a component has the parents that `spec.parent` names, if it names any.
    ///
    /// # Errors
    /// Returns both kinds: no grant makes the component one of this plugin.
    pub fn ensure_parent(&self, asked: &Kind) -> Result<(), LoadError> {
        match &self.parent {
            Some(given) if !given.is(asked) => {
                Err(LoadError::OtherParents { asked: asked.to_string(), given: given.to_string() })
            }
            _ => Ok(()),
        }
    }

    /// Returns a warning if the plugin's folder in `plugins` or its component has another name than `plugin.yaml` gives
    /// the plugin.
    pub fn names_differ(&self, component: &str) -> Option<String> {
        let folder = self.origin.file().and_then(Path::parent);
        let folder = folder.filter(|folder| folder.parent().is_some_and(|above| above.ends_with("plugins")));
        let folder = folder.and_then(Path::file_name).map(|name| name.to_string_lossy());
        let folder = folder.filter(|folder| **folder != *self.name).map(|folder| format!("its folder {folder:?}"));
        let component = (component != &*self.name).then(|| format!("its component {component:?}"));
        let others: Vec<_> = [folder, component].into_iter().flatten().collect();
        (!others.is_empty()).then(|| {
            let (others, name) = (others.join(" and "), &self.name);
            format!(
                "the plugin is {name:?} in {}, but {others}; it runs as {name}, give it one name everywhere",
                self.described_in()
            )
        })
    }

    /// Returns the label selector of parents; empty if the description has none.
    pub fn parent_selector(&self) -> LabelSelector {
        self.parent.as_ref().and_then(|parent| parent.selector.clone()).unwrap_or_default()
    }

    /// Returns what the annotations of parents must fulfil; empty if the description says nothing of them.
    pub fn parent_annotations(&self) -> LabelSelector {
        let selector = self.parent.as_ref().and_then(|parent| parent.annotation_selector.as_ref());
        selector.map(AnnotationSelector::comparing).unwrap_or_default()
    }

    /// Returns the namespaces of parents; none if they may be in every namespace.
    pub fn parent_namespaces(&self) -> Option<BTreeSet<String>> {
        Some(self.parent.as_ref()?.namespaces.as_ref()?.iter().cloned().collect())
    }

    /// Returns whether only some objects of the parents' kind are parents.
    pub fn selects_parents(&self) -> bool {
        let selects = !self.parent_selector().is_empty() || !self.parent_annotations().is_empty();
        selects || self.parent_namespaces().is_some()
    }

    /// Returns the names in the plugin label of its children: its own, and those of the plugins whose children it takes
    /// over.
    pub fn makers(&self) -> Vec<&str> {
        std::iter::once(&*self.name).chain(self.predecessors.names().iter().map(String::as_str)).collect()
    }

    /// Returns whether a child with this value of the plugin label belongs to this plugin: the plugin made it, or takes
    /// it over.
    pub fn has_made(&self, label: Option<&str>) -> bool {
        label.is_some_and(|made_by| *made_by == *self.name || self.predecessors.has(made_by))
    }

    /// Returns why a component may not have its parent kind; none if it may.
    pub fn parent_lacking(&self, parent: &Kind) -> Option<String> {
        self.parentage.lacking(&self.name, self.parent.as_ref(), parent)
    }

    /// Returns the name under which this host stores what it remembers of the plugin. Two plugins of the same name that
    /// are described in different places are different plugins, and so are those of different clusters.
    pub fn place(&self, cluster: &[u8], namespaces: Option<&str>) -> String {
        let origin = match &self.origin {
            Origin::File(path) => std::path::absolute(path).unwrap_or_else(|_| path.clone()).into_os_string(),
            Origin::Object { uid, .. } => OsString::from(&**uid),
        };
        // A host that watches all namespaces names none here.
        let namespaces = namespaces.unwrap_or_default().as_bytes();
        let digest = Digest::of(&[origin.as_encoded_bytes(), cluster, namespaces].concat());
        format!("{}-{}", self.name, digest.digits(8))
    }

    /// Returns what describes it, as a part of a sentence.
    pub fn described_in(&self) -> &'static str {
        match self.origin {
            Origin::File(_) => "plugin.yaml",
            Origin::Object { .. } => "its Plugin object",
        }
    }

    /// Returns the path at which the component is found now.
    pub fn component_path(&self) -> &Path {
        followed_file::chosen(&self.component)
    }
}

/// Returns a variable of the host's environment, which does not change while it runs.
fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Returns a percentage of the parents.
///
/// # Errors
/// If it is none: names the key.
fn percentage(key: &str, percent: u8) -> anyhow::Result<u8> {
    ensure!(percent <= 100, "{key} is {percent}, but it is a percentage of the parents; lower it to at most 100");
    Ok(percent)
}

/// Checks a plugin's name, which becomes the name of a ServiceAccount, a label value and part of a field manager.
fn check_name(name: &str) -> anyhow::Result<()> {
    let is_valid = names::is_label(name);
    ensure!(is_valid, "metadata.name {name:?} is no DNS label of at most 63 characters; choose another");
    if RESERVED_NAMES.contains(&name) {
        bail!("metadata.name {name:?} is reserved, as are {}; choose another", RESERVED_NAMES.join(", "));
    }
    Ok(())
}

/// Returns a plugin's configuration. The host's environment may have credentials, so the configuration takes only
/// variables that plugins may know.
fn configuration(
    config: &manifest::Config,
    allowed: &[String],
    env: &dyn Fn(&str) -> Option<String>,
) -> anyhow::Result<String> {
    let mut members: Map<String, Value> = config.values.clone().into_iter().collect();
    for (member, variable) in &config.from_env {
        ensure!(!members.contains_key(member), "config.{member} is given both in values and in fromEnv; keep one");
        ensure!(
            glob::matches_any(allowed, variable),
            "config.fromEnv.{member} uses the variable {variable}, which this host keeps from plugins; \
             allow it with `hotshoe run --allow-env {variable} --allow-env '{}'`, \
             because the flag replaces what was allowed before",
            allowed.join(",")
        );
        if let Some(value) = env(variable) {
            members.insert(member.clone(), value.into());
        }
    }
    Ok(Value::Object(members).to_string())
}

/// Returns a warning for each variable that is not set. This is no error, for a plugin may work without it.
fn unset(config: &manifest::Config, env: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let unset = config.from_env.iter().filter(|(_, variable)| env(variable).is_none());
    unset
        .map(|(member, variable)| {
            format!(
                "config.fromEnv.{member} uses the variable {variable}, which is not set, \
                 so that the plugin has no {member}; set it where the host runs, and start the host again"
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotshoe_core::check::grant::{CleanUpKind, Keyword, Namespaces, Selector};
    use hotshoe_core::check::pod::grant::Pods;
    use hotshoe_core::flow::canary::{self, Share};
    use hotshoe_core::model::watched_namespaces::WatchedNamespaces;

    fn unknown(_: &Kind) -> Option<bool> {
        None
    }

    const PLUGIN: &str = "apiVersion: hotshoe.dev/v1alpha1\n\
                          kind: Plugin\n\
                          metadata: {name: memcached}\n\
                          spec:\n  \
                          source: {file: memcached.wasm}\n  \
                          config:\n    \
                          values: {size: 1}\n    \
                          fromEnv: {image: MEMCACHED_IMAGE}\n  \
                          grants:\n  \
                          - {group: apps, kind: Deployment, verbs: [get, create]}\n";

    fn parse(text: &str) -> anyhow::Result<PluginConfig> {
        parse_with(text, &HostSettings::default())
    }

    fn parse_with(text: &str, host: &HostSettings) -> anyhow::Result<PluginConfig> {
        PluginConfig::parse(text, Path::new("plugins/memcached/plugin.yaml"), host, &|name| match name {
            "MEMCACHED_IMAGE" => Some("memcached:1".to_owned()),
            "DATABASE_PASSWORD" => Some("secret".to_owned()),
            _ => None,
        })
    }

    #[test]
    fn the_configuration_has_fixed_values_and_values_of_the_environment() {
        let plugin = parse(PLUGIN).unwrap();
        assert_eq!(&*plugin.config, r#"{"image":"memcached:1","size":1}"#);
        assert_eq!(plugin.component[0], Path::new("plugins/memcached/memcached.wasm"));
    }

    /// The names of all members, at every depth.
    fn members(schema: &Value, names: &mut Vec<String>) {
        if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
            names.extend(properties.keys().cloned());
        }
        match schema {
            Value::Object(inner) => inner.values().for_each(|inner| members(inner, names)),
            Value::Array(inner) => inner.iter().for_each(|inner| members(inner, names)),
            _ => {}
        }
    }

    #[test]
    fn the_page_for_authors_has_every_key_and_what_it_shows_can_be_used() {
        let page = include_str!("../../../../docs/src/reference/plugin-yaml.md");
        let shown: Vec<&str> = page.split("```yaml\n").skip(1).filter_map(|block| block.split("```").next()).collect();
        assert!(shown[1].starts_with("spec:\n"), "{}", shown[1]);
        let whole = parse(shown[0]).unwrap();
        assert_eq!((&*whole.name, whole.limits), ("hello", Limits::default()));
        assert_eq!((whole.max_losing, whole.max_failing), (MAX_LOSING, MAX_FAILING));
        assert_eq!(whole.retry, RetryPolicy::default());
        let rule = &parse(&shown[0].replace("  grants: []", &shown[1].replace("spec:\n", ""))).unwrap().grant.rules[0];
        assert_eq!(rule.namespaces, Namespaces::default());
        let (mut names, limits) = (Vec::new(), include_str!("../../../../docs/src/reference/limits.md"));
        members(&serde_json::to_value(schemars::schema_for!(manifest::Plugin)).unwrap(), &mut names);
        assert!(names.iter().any(|name| name == "pruneData"), "{names:?}");
        for name in names {
            assert!(page.contains(&name) || limits.contains(&name), "{name} is explained nowhere");
        }
    }

    #[test]
    fn a_component_that_is_built_later_is_found_where_it_is_built() {
        let workspace = tempfile::tempdir().unwrap();
        let [folder, products] = ["plugins/memcached", "target/plugins"].map(|dir| workspace.path().join(dir));
        std::fs::create_dir_all(&folder).unwrap();
        for above in ["Cargo.toml", "plugins/Cargo.toml"] {
            std::fs::write(workspace.path().join(above), "").unwrap();
        }
        let path = folder.join("plugin.yaml");
        let plugin = PluginConfig::parse(PLUGIN, &path, &HostSettings::default(), &|_| None).unwrap();
        assert_eq!(plugin.component_path(), folder.join("memcached.wasm"));
        std::fs::create_dir_all(&products).unwrap();
        assert_eq!(plugin.component_path(), products.join("memcached.wasm"), "it is built there");
        std::fs::write(folder.join("memcached.wasm"), "").unwrap();
        assert_eq!(plugin.component_path(), folder.join("memcached.wasm"), "what is beside comes first");
    }

    /// Another user of the machine, or an account that may write above the folder of a plugin, could make the host run
    /// another component.
    #[test]
    fn a_component_is_not_taken_from_above_the_project() {
        let shared = tempfile::tempdir().unwrap();
        let folder = shared.path().join("mine/plugin");
        std::fs::create_dir_all(&folder).unwrap();
        for above in ["target/plugins", "mine/target/plugins"].map(|above| shared.path().join(above)) {
            std::fs::create_dir_all(&above).unwrap();
            std::fs::write(above.join("memcached.wasm"), "").unwrap();
        }
        let plugin = PluginConfig::parse(PLUGIN, &folder.join("plugin.yaml"), &HostSettings::default(), &|_| None);
        let expected = [folder.join("memcached.wasm"), folder.join("target/plugins/memcached.wasm")];
        assert_eq!(plugin.unwrap().component, expected);
    }

    #[test]
    fn a_rollout_has_one_share_and_a_bounded_duration_and_does_not_change_the_digest() {
        let with = |rollout: &str| parse(&PLUGIN.replace("spec:\n", &format!("spec:\n  rollout: {rollout}\n")));
        let rollout = |text: &str| with(text).unwrap().wanted.rollout.unwrap();
        let tenth = rollout("{canary: {percent: 10}}");
        assert_eq!((tenth.share, tenth.duration), (Share::Percent(10), canary::DEFAULT_DURATION));
        let named = rollout("{canary: {namespaces: {matchLabels: {tier: canary}}}, duration: 90s}");
        assert_eq!((named.share.to_string(), named.duration.as_secs()), ("namespaces with tier=canary".to_owned(), 90));
        assert_eq!(with("{canary: {percent: 10}}").unwrap().digest, parse(PLUGIN).unwrap().digest);
        for (wrong, why) in [
            ("{canary: {}}", "exactly one of percent and namespaces"),
            ("{canary: {percent: 10, namespaces: {matchLabels: {a: b}}}}", "exactly one of percent and namespaces"),
            ("{canary: {percent: 0}}", "1 to 99"),
            ("{canary: {percent: 100}}", "1 to 99"),
            ("{canary: {namespaces: {}}}", "names no label"),
            ("{canary: {namespaces: {matchLabels: {'no label': b}}}}", "which is no label"),
            ("{canary: {percent: 10}, duration: 0s}", "1s to 168h"),
            ("{canary: {percent: 10}, duration: 20000m}", "1s to 168h"),
            ("{duration: 10m}", "canary"),
            ("{canary: {percent: 10}, steps: 3}", "steps"),
        ] {
            let error = format!("{:#}", with(wrong).unwrap_err());
            assert!(error.contains(why), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_tag_is_looked_up_every_ten_seconds_at_most_and_the_api_server_refuses_the_same_intervals() {
        let with = |interval: &str| {
            let source = format!("{{oci: 'oci://registry.example.com/a:1', interval: {interval}}}");
            parse(&PLUGIN.replace("{file: memcached.wasm}", &source))
        };
        let pattern = regex::Regex::new(manifest::INTERVAL_PATTERN).unwrap();
        for long_enough in
            ["10s", "10000ms", "00010s", "11s", "90s", "100s", "1m", "020m", "123456ms", "10000000s", "1h"]
        {
            assert!(with(long_enough).is_ok() && pattern.is_match(long_enough), "{long_enough}");
        }
        for wrong in ["0s", "1s", "9s", "009s", "9999ms", "09999ms", "0m", "000m", "0h", "10", "10d", "banana"] {
            assert!(with(wrong).is_err() && !pattern.is_match(wrong), "{wrong}");
        }
        let error = format!("{:#}", with("9999ms").unwrap_err());
        assert!(error.contains("spec.source: interval is 9.999s, but at least 10s must be given"), "{error}");
        assert_eq!(parse(PLUGIN).unwrap().source.interval().as_secs(), 60);
    }

    #[test]
    fn a_variable_that_is_not_set_is_left_out_and_reported() {
        let plugin = parse(&PLUGIN.replace("MEMCACHED_IMAGE", "OTHER_IMAGE")).unwrap();
        assert_eq!(&*plugin.config, r#"{"size":1}"#);
        let [unset] = plugin.unset.as_slice() else { panic!("{:?}", plugin.unset) };
        assert!(unset.contains("config.fromEnv.image") && unset.contains("OTHER_IMAGE"), "{unset}");
        assert_eq!(parse(PLUGIN).unwrap().unset, [""; 0]);
    }

    #[test]
    fn a_variable_that_the_host_keeps_from_plugins_is_an_error_that_names_the_flag() {
        let text = PLUGIN.replace("MEMCACHED_IMAGE", "DATABASE_PASSWORD");
        let error = format!("{:#}", parse(&text).unwrap_err());
        assert!(error.contains("DATABASE_PASSWORD") && error.contains("--allow-env DATABASE_PASSWORD"), "{error}");
        assert!(error.contains("--allow-env '*_IMAGE,RELATED_IMAGE_*'"), "{error}");
        let host = HostSettings { allow_env: vec!["DATABASE_*".into()], ..HostSettings::default() };
        assert_eq!(&*parse_with(&text, &host).unwrap().config, r#"{"image":"secret","size":1}"#);
        assert!(parse_with(PLUGIN, &host).is_err(), "what is allowed replaces the defaults");
    }

    #[test]
    fn the_related_images_of_operator_bundles_are_allowed() {
        assert!(parse(&PLUGIN.replace("MEMCACHED_IMAGE", "RELATED_IMAGE_MEMCACHED")).is_ok());
    }

    #[test]
    fn a_grant_without_namespaces_means_the_parents_namespace_and_nothing_more() {
        let plugin = parse(PLUGIN).unwrap();
        let rule = &plugin.grant.rules[0];
        assert_eq!(rule.namespaces, Namespaces::Keyword(Keyword::Own));
        assert!(rule.names.is_empty() && rule.pods == Pods::default());
        assert_eq!(&*plugin.grant.host_namespace, HOST_NAMESPACE);
    }

    #[test]
    fn namespaces_are_a_word_a_list_or_a_selector() {
        let with = |namespaces: &str| {
            parse(&PLUGIN.replace("verbs:", &format!("namespaces: {namespaces}, verbs:")))
                .map(|plugin| plugin.grant.rules[0].namespaces.clone())
        };
        assert_eq!(with("own").unwrap(), Namespaces::Keyword(Keyword::Own));
        assert_eq!(with("cluster").unwrap(), Namespaces::Keyword(Keyword::Cluster));
        assert_eq!(with("[a, b]").unwrap(), Namespaces::Named(vec!["a".into(), "b".into()]));
        let match_labels = [("team".to_owned(), "x".to_owned())].into();
        assert_eq!(with("{matchLabels: {team: x}}").unwrap(), Namespaces::Selected(Selector { match_labels }));
        for (bad, says) in [
            ("all", "own"),
            ("{matchLabel: {team: x}}", "matchLabels"),
            ("{matchLabels: {team: x}, matchExpressions: []}", "nothing else"),
            ("{matchLabels: {}}", "matchLabels is empty"),
            ("[]", "empty list"),
            ("['a/b']", "a/b"),
        ] {
            let error = format!("{:#}", with(bad).unwrap_err());
            assert!(error.contains(says), "{bad}: {error}");
        }
    }

    #[test]
    fn an_invalid_rule_is_reported_with_its_place() {
        for (more, says) in [
            ("names: ['*-*']", "names has"),
            ("services: {types: [NodePort]}", "services"),
            ("pods: {hostPath: [var]}", "pods.hostPath"),
            ("pods: {hostPath: ['/var/*']}", "and no `*`, as it opens"),
            ("pods: {secret: [a]}", "secret"),
        ] {
            let error = format!("{:#}", parse(&PLUGIN.replace("verbs:", &format!("{more}, verbs:"))).unwrap_err());
            assert!(error.contains(says), "{more}: {error}");
        }
        let map = PLUGIN.replace("group: apps, kind: Deployment,", "kind: ConfigMap, pods: {hostNetwork: true},");
        let error = format!("{:#}", parse(&map).unwrap_err());
        assert!(error.contains("spec.grants[0] (ConfigMap)") && error.contains("no Pods"), "{error}");
        let subresource = PLUGIN.replace("kind: Deployment", "kind: Deployment/scale");
        assert!(parse(&subresource).is_err());
    }

    #[test]
    fn the_retry_policy_is_bounded_and_changes_the_digest() {
        let with = |retry: &str| parse(&PLUGIN.replace("  grants:", &format!("  retry: {retry}\n  grants:")));
        let plugin = with("{baseDelay: 500ms, maxDelay: 2m, maxTries: 4}").unwrap();
        let said = RetryPolicy {
            base_delay: Duration::from_millis(500),
            max_delay: Duration::from_secs(120),
            max_tries: Some(4),
        };
        assert_eq!(plugin.retry, said);
        assert_ne!(plugin.digest, with("{}").unwrap().digest);
        assert_eq!(parse(PLUGIN).unwrap().retry, RetryPolicy::default());
        for (bad, says) in [
            ("{baseDelay: -1s}", "`-1s` is no span of time"),
            ("{baseDelay: 5}", "`5` is no span of time"),
            ("{baseDelay: 0s}", "spec.retry.baseDelay is 0ms"),
            ("{maxDelay: 1s, baseDelay: 2s}", "spec.retry.maxDelay is 1s"),
            ("{maxTries: 0}", "spec.retry.maxTries is 0"),
            ("{maxTries: -1}", "a whole number is expected here"),
            ("{maxTries: many}", "a whole number is expected here"),
            ("{retries: 3}", "spec.retry.retries: there is no key `retries` here"),
        ] {
            let error = format!("{:#}", with(bad).unwrap_err());
            assert!(error.contains(says), "{bad}: {error}");
        }
    }

    #[test]
    fn a_plugin_has_a_schema() {
        let schema = serde_json::to_string(&schemars::schema_for!(manifest::Plugin)).unwrap();
        for word in ["matchLabels", "serviceAccountToken", "externalIPs", "fromEnv"] {
            assert!(schema.contains(word), "{word} is not in {schema}");
        }
    }

    #[test]
    fn a_change_of_the_file_is_the_same_plugin_until_its_name_changes() {
        let plugin = parse(PLUGIN).unwrap();
        let changed = |text: &str| plugin.changed(text.as_bytes(), &HostSettings::default());
        let same = changed(&PLUGIN.replace("{size: 1}", "{ \"size\": 1 } # as before")).unwrap();
        assert_eq!(same.digest, plugin.digest, "it is only written differently");
        for (what, into) in
            [("{size: 1}", "{size: 2}"), ("[get, create]", "[get]"), ("  grants:", "  pruneAll: true\n  grants:")]
        {
            let changed = changed(&PLUGIN.replace(what, into)).unwrap();
            assert_ne!(changed.digest, plugin.digest, "{into}");
            assert_eq!((&changed.name, changed.place(b"c", None)), (&plugin.name, plugin.place(b"c", None)));
            assert_ne!(plugin.place(b"c", None), plugin.place(b"another cluster", None));
            assert_ne!(plugin.place(b"c", None), plugin.place(b"c", Some("n")));
        }
        let error = format!("{:#}", changed(&PLUGIN.replace("name: memcached", "name: redis")).unwrap_err());
        assert!(error.contains("redis") && error.contains("start the host again"), "{error}");
        let error = format!("{:#}", plugin.changed(b"\xff", &HostSettings::default()).unwrap_err());
        assert!(error.contains("plugin.yaml is no text"), "{error}");
    }

    #[test]
    fn the_parent_is_named_by_group_and_kind() {
        let with = |parent: &str| parse(&PLUGIN.replace("  grants:", &format!("  parent: {parent}\n  grants:")));
        let plugin = with("{group: cache.example.com, kind: Memcached}").unwrap();
        assert_eq!(plugin.parent_lacking(&Kind::new("cache.example.com", "v1alpha1", "Memcached")), None);
        assert!(plugin.parent_lacking(&Kind::new("cache.example.com", "v1", "Redis")).is_some());
        assert!(with("{kind: Pod}").unwrap().parent_lacking(&Kind::new("", "v1", "Pod")).is_none());
        for (bad, says) in [
            ("{group: rbac.authorization.k8s.io, kind: Role}", "spec.parent: Role.rbac.authorization.k8s.io"),
            ("{group: cache.example.com}", "kind"),
            ("{group: cache.example.com, version: v1, kind: Memcached}", "version"),
        ] {
            let error = format!("{:#}", with(bad).unwrap_err());
            assert!(error.contains(says), "{bad}: {error}");
        }
        assert_ne!(plugin.digest, parse(PLUGIN).unwrap().digest);
    }

    #[test]
    fn parents_are_selected_by_their_labels() {
        let with = |selector: &str| {
            let parent = format!("  parent: {{kind: ConfigMap, selector: {selector}}}\n  grants:");
            parse(&PLUGIN.replace("  grants:", &parent))
        };
        let plugin =
            with("{matchLabels: {a.example.com/b: c}, matchExpressions: [{key: d, operator: Exists}]}").unwrap();
        assert_eq!(plugin.parent_selector().to_string(), "a.example.com/b=c,d");
        assert!(
            parse(PLUGIN).unwrap().parent_selector().is_empty() && with("{}").unwrap().parent_selector().is_empty()
        );
        for (bad, says) in [
            ("{matchLabel: {a: b}}", "matchLabel"),
            ("{matchLabels: {a: 'b c'}}", "spec.parent: selector.matchLabels"),
            ("{matchExpressions: [{key: a, operator: Is}]}", "Is"),
            ("{matchExpressions: [{key: a, operator: In}]}", "name some"),
        ] {
            let error = format!("{:#}", with(bad).unwrap_err());
            assert!(error.contains(says), "{bad}: {error}");
        }
    }

    #[test]
    fn parents_are_selected_by_their_namespaces() {
        let with = |namespaces: &str| {
            let parent = format!("  parent: {{kind: ConfigMap, namespaces: {namespaces}}}\n  grants:");
            parse(&PLUGIN.replace("  grants:", &parent))
        };
        let plugin = with("[b, a, b]").unwrap();
        assert!(plugin.selects_parents() && !parse(PLUGIN).unwrap().selects_parents());
        assert_eq!(plugin.parent_namespaces(), Some(["a".to_owned(), "b".to_owned()].into()));
        for bad in ["[]", "[A]", "cluster"] {
            let error = format!("{:#}", with(bad).unwrap_err());
            assert!(error.contains("namespaces") || error.contains("sequence"), "{bad}: {error}");
        }
    }

    #[test]
    fn children_are_taken_over_from_named_plugins_unless_this_host_runs_them() {
        let with = |said: &str| parse(&PLUGIN.replace("  grants:", &format!("  takesOverFrom: {said}\n  grants:")));
        let plugin = with("[{plugin: cache, finalizer: cache.example.com/old}]").unwrap();
        for (label, is_ours) in
            [(Some("memcached"), true), (Some("cache"), true), (Some("other"), false), (None, false)]
        {
            assert_eq!(plugin.has_made(label), is_ours, "{label:?}");
        }
        for (bad, says) in [
            ("[cache]", "expected"),
            ("[{plugin: memcached}]", "spec.takesOverFrom: it names the plugin itself"),
            ("[{plugin: cache, finalizers: [a/b]}]", "finalizers"),
        ] {
            let error = format!("{:#}", with(bad).unwrap_err());
            assert!(error.contains(says), "{bad}: {error}");
        }
        let descriptor = |kind: Kind| Descriptor {
            name: "d".into(),
            version: "1".into(),
            parent: kind,
            parent_fields: Vec::new(),
            owns: Vec::new(),
            reads: Vec::new(),
            finalizer: None,
            wants_now: false,
            wants_attempt: false,
            config_schema: None,
        };
        let asked = descriptor(Kind::new("example.com", "v1", "Cache"));
        assert_eq!(plugin.lacking(&asked, &unknown), None);
        plugin.parentage.note_named(&"cache".into(), None);
        let lacking = plugin.lacking(&asked, &unknown).unwrap();
        assert!(lacking.contains("the children of cache, which is a plugin of this host"), "{lacking}");
    }

    #[test]
    fn a_finalizer_carries_the_plugins_name_or_is_named_and_no_other_plugin_has_it() {
        let named = "  finalizers: [{name: c.example.com/finalizer}, {name: c.example.com/redis.x}]\n  grants:";
        let plugin = parse(&PLUGIN.replace("  grants:", named)).unwrap();
        let lacking = |plugin: &PluginConfig, finalizer: &str| {
            let parent = Kind::new("c.example.com", "v1", "Cache");
            let descriptor = Descriptor { parent, finalizer: Some(finalizer.to_owned()), ..Descriptor::default() };
            plugin.lacking(&descriptor, &unknown).unwrap_or_default()
        };
        for own in ["c.example.com/memcached", "c.example.com/memcached.x"] {
            assert_eq!(lacking(&parse(PLUGIN).unwrap(), own), "");
        }
        let said = lacking(&parse(PLUGIN).unwrap(), "c.example.com/finalizer");
        assert!(said.contains("as c.example.com/memcached does") && said.contains("spec.finalizers"), "{said}");
        for given in ["c.example.com/finalizer", "c.example.com/redis.x"] {
            assert_eq!(lacking(&plugin, given), "");
        }
        plugin.parentage.note_named(&"redis".into(), None);
        assert!(lacking(&plugin, "c.example.com/redis.x").contains("carries the name of the plugin redis"));
        assert_eq!(plugin.holders.hold(&"other".into(), Some("c.example.com/finalizer"), &[]), Ok(()));
        assert!(lacking(&plugin, "c.example.com/finalizer").contains("which the plugin other of this host has"));
        for (bad, says) in [
            ("[finalizer]", "expected"),
            ("[{name: finalizer}]", "spec.finalizers: it has \"finalizer\""),
            ("[{name: a.b/c, setBy: [x]}]", "setBy"),
        ] {
            let text = PLUGIN.replace("  grants:", &format!("  finalizers: {bad}\n  grants:"));
            let error = format!("{:#}", parse(&text).unwrap_err());
            assert!(error.contains(says), "{bad}: {error}");
        }
    }

    #[test]
    fn a_clean_up_may_create_only_children_of_kinds_on_which_a_grant_has_create() {
        let with = |finalize: &str| parse(&PLUGIN.replace("  grants:", &format!("  finalize: {finalize}\n  grants:")));
        assert!(parse(PLUGIN).unwrap().grant.finalize.is_empty());
        let kinds = with("[{group: apps, kind: Deployment}]").unwrap().grant.finalize;
        assert_eq!(kinds, [CleanUpKind::of(&Kind::new("apps", "", "Deployment"))]);
        for (bad, says) in [
            ("[{kind: Deployment}]", "spec.finalize[0]: no grant has `create` on Deployment; add it"),
            ("[{group: apps, kind: Deployment}, {group: batch, kind: Job}]", "spec.finalize[1]: no grant has `create`"),
            ("[Job]", "expected"),
        ] {
            let error = format!("{:#}", with(bad).unwrap_err());
            assert!(error.contains(says), "{bad}: {error}");
        }
    }

    #[test]
    fn a_lacking_parent_and_lacking_rights_are_named() {
        let descriptor = Descriptor {
            name: "d".into(),
            version: "1".into(),
            parent: Kind::new("", "v1", "Pod"),
            reads: vec![hotshoe_core::model::decision::ReadKind {
                key: "nodes".into(),
                kind: Kind::new("", "v1", "Node"),
                selector: String::new(),
                rule: hotshoe_core::model::decision::MatchRule::ParentLabel("l".into()),
                fields: Vec::new(),
            }],
            ..Descriptor::default()
        };
        let lacking = parse(PLUGIN).unwrap().lacking(&descriptor, &unknown).unwrap();
        assert!(
            lacking.starts_with("Pod as its parent, ") && lacking.ends_with("; get, list, watch on Node"),
            "{lacking}"
        );
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
        for name in RESERVED_NAMES {
            let error = parse(&PLUGIN.replace("name: memcached", &format!("name: {name}"))).unwrap_err();
            assert!(format!("{error:#}").contains("reserved"), "{error:#}");
        }
    }

    #[test]
    fn the_name_of_the_hosts_own_account_is_no_name_of_a_plugin() {
        let host = HostSettings::default();
        assert!(parse_with(PLUGIN, &host).is_ok(), "the account is not known yet");
        host.account.set("memcached".to_owned()).unwrap();
        let error = parse_with(PLUGIN, &host).unwrap_err();
        assert!(format!("{error:#}").contains("the host's own ServiceAccount"), "{error:#}");
        let plugin = parse_with(&PLUGIN.replace("name: memcached", "name: other"), &host).unwrap();
        assert_eq!(&*plugin.name, "other");
    }

    #[test]
    fn no_plugin_can_have_a_name_for_which_its_role_would_be_one_of_the_host() {
        let installation =
            rbac::Installation { namespace: "s".into(), account: "h".into(), watched: WatchedNamespaces::default() };
        let served = |_: &Kind| rbac::Served { plural: "ones".into(), namespaced: true };
        let rights = [rbac::rights(&[], &installation, &served), rbac::rights_of_host(&installation)];
        let of_host = rights.into_iter().flat_map(|rights| rights.manifests);
        let objects = of_host.chain(rbac::metrics::manifests(&installation)).map(serde_json::to_value);
        let roles = objects.map(Result::unwrap).filter(|object| object["kind"].as_str().unwrap().contains("Role"));
        let names: BTreeSet<String> = roles.map(|role| role["metadata"]["name"].as_str().unwrap().to_owned()).collect();
        assert!(names.contains("h-metrics-reader") && names.contains("h.objects"), "{names:?}");
        for name in names {
            let plugin = name.strip_prefix("h-").filter(|plugin| names::is_label(plugin));
            assert!(plugin.is_none_or(|plugin| RESERVED_NAMES.contains(&plugin)), "{name}");
        }
    }
}
