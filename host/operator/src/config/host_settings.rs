//! The settings of the host for all of its plugins, and where it reads the description of each.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use anyhow::bail;

use hotshoe_core::check::finalizer::Holders;
use hotshoe_core::check::memory_share::SharedMemory;
use hotshoe_core::check::parent_kind::ParentKinds;

/// The namespace of the host and of the plugins' ServiceAccounts.
pub const HOST_NAMESPACE: &str = "hotshoe-system";
/// The variables of the host's environment that a plugin's configuration may use, unless `--allow-env` names
/// others: names of images, which are no secrets.
pub const ALLOW_ENV: [&str; 2] = ["*_IMAGE", "RELATED_IMAGE_*"];

/// The settings of the host for all of its plugins.
#[derive(Clone, Debug)]
pub struct HostSettings {
    /// The namespace of the host and of the plugins' ServiceAccounts.
    pub namespace: Arc<str>,
    /// The name of the host's own ServiceAccount in that namespace, once the API server has said which it is. No plugin
    /// may have this name: both would have the same account.
    pub account: Arc<OnceLock<String>>,
    /// The variables of the environment that a configuration may use; each has one `*` at most.
    pub allow_env: Vec<String>,
    /// The kind of each plugin's parents.
    pub parentage: Arc<ParentKinds>,
    /// Which plugin holds which finalizers.
    pub holders: Arc<Holders>,
    /// The memory that all plugins share.
    pub memory: Arc<SharedMemory>,
    /// Whether a component is activated when its file changes. Otherwise a reload activates it. Components of `Plugin`
    /// objects are always activated when they change.
    pub follow: bool,
    /// The folder of the files that `Plugin` objects name.
    pub files: PathBuf,
    /// The folder of fetched components; none without a cache directory.
    pub fetched: Option<PathBuf>,
}

impl Default for HostSettings {
    fn default() -> Self {
        Self {
            namespace: HOST_NAMESPACE.into(),
            account: Arc::default(),
            allow_env: ALLOW_ENV.map(str::to_owned).to_vec(),
            parentage: Arc::default(),
            holders: Arc::default(),
            memory: Arc::default(),
            follow: false,
            files: PathBuf::from("."),
            fetched: None,
        }
    }
}

impl HostSettings {
    /// Checks that a plugin does not have the account of the host, as far as that is known.
    ///
    /// # Errors
    /// When it has.
    pub fn ensure_apart(&self, plugin: &str) -> anyhow::Result<()> {
        match self.account.get() {
            Some(own) if own == plugin => bail!(
                "metadata.name {plugin:?} is the name of the host's own ServiceAccount, so the plugin would have the rights of the host; choose another"
            ),
            _ => Ok(()),
        }
    }
}

/// The file or object that describes a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A `plugin.yaml`.
    File(PathBuf),
    /// A `Plugin` object.
    Object {
        /// Its name.
        name: Arc<str>,
        /// Its uid: another object of the same name is another plugin.
        uid: Arc<str>,
    },
}

impl Origin {
    /// Returns the file, if it is one.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Object { .. } => None,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Object { name, .. } => write!(f, "Plugin {name}"),
        }
    }
}
