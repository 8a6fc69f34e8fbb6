//! The namespaces that a host is to watch: whether each exists, and whether the kinds of the plugins here may be listed and
//! watched there.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::{StreamExt, stream};
use tokio::time::timeout;

use hotshoe_cluster::access_review::may_watch;
use hotshoe_cluster::client::{Cluster, ConnectOptions};
use hotshoe_cluster::discovery::{self, Kinds};
use hotshoe_cluster::error::ApiError;
use hotshoe_cluster::namespace::{Presence, presence};
use hotshoe_core::check::access_request::Verb;
use hotshoe_core::model::kind::Kind;
use hotshoe_core::model::watched_namespaces::WatchedNamespaces;
use hotshoe_operator::config::{HostSettings, PluginConfig};

/// A cluster that has not answered all questions after this time is given up.
const TIMEOUT: Duration = Duration::from_secs(30);

/// How many questions are asked at once.
const AT_ONCE: usize = 8;

/// A kind that plugins watch: its group, its plural, and how it is named for people.
struct Watched {
    group: String,
    plural: String,
    name: String,
}

/// What is found of a namespace, or of a plugin that cannot be read: its name, and that all is well, or what is wrong and
/// what to do.
pub(super) type Found = (String, Result<String, String>);

/// Looks at each namespace, for the plugins in these folders, with the account of the kubeconfig. Asks nothing if all are
/// watched.
pub(super) async fn look(namespaces: &WatchedNamespaces, plugins: &[PathBuf], connect: &ConnectOptions) -> Vec<Found> {
    if namespaces.is_all() {
        return Vec::new();
    }
    let (kinds, unread) = kinds(plugins);
    let looked = async {
        let cluster = Cluster::connect(connect).await.map_err(|error| format!("{error:#}"))?;
        let watched = &served(&cluster, kinds).await;
        let each = namespaces.names().iter().map(|name| {
            let cluster = &cluster;
            async move { state(cluster, name, watched).await }
        });
        Ok(stream::iter(each).buffered(AT_ONCE).collect::<Vec<_>>().await)
    };
    let looked = match timeout(TIMEOUT, looked).await {
        Ok(looked) => looked,
        Err(_) => Err(format!("it does not answer within {TIMEOUT:?}")),
    };
    let named = namespaces.names().iter().map(|name| name.to_string());
    let mut found: Vec<Found> = match looked {
        Ok(states) => named.zip(states).collect(),
        Err(why) => named.map(|name| (name, Err(format!("the cluster cannot be asked: {why}")))).collect(),
    };
    found.extend(unread.into_iter().map(|(plugin, why)| (plugin, Err(why))));
    found
}

/// Returns the kinds that the plugins in these folders watch, and of each that cannot be read, why.
fn kinds(plugins: &[PathBuf]) -> (BTreeSet<Kind>, Vec<(String, String)>) {
    // No configuration is used here, so any variable may be named in it.
    let host = HostSettings { allow_env: vec!["*".to_owned()], ..HostSettings::default() };
    let (mut kinds, mut unread) = (BTreeSet::new(), Vec::new());
    for path in plugins {
        match PluginConfig::read(path, &host) {
            Ok(config) => {
                kinds.extend(config.parent.iter().map(|parent| Kind::new(&parent.group, "", &parent.kind)));
                let watched = config.grant.rules.iter().filter(|rule| rule.verbs.contains(&Verb::Watch));
                kinds.extend(watched.map(|rule| Kind::new(&rule.group, "", &rule.kind)));
            }
            Err(error) => unread.push((name_of(path), format!("{error:#}"))),
        }
    }
    (kinds, unread)
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// Returns those of the kinds whose objects are in namespaces. What the cluster does not serve yet has the plural that it
/// most likely gets.
async fn served(cluster: &Cluster, kinds: BTreeSet<Kind>) -> Vec<Watched> {
    let (known, mut watched) = (Kinds::default(), Vec::new());
    for kind in kinds {
        let served = discovery::find_in_any_version(cluster, &known, &kind).await;
        let served = served.unwrap_or_else(|_| discovery::conventional(&kind));
        if served.namespaced {
            watched.push(Watched { group: kind.group.to_string(), plural: served.plural, name: kind.to_string() });
        }
    }
    watched
}

/// Returns what is found of a namespace, or what is wrong with it and what to do.
async fn state(cluster: &Cluster, namespace: &str, watched: &[Watched]) -> Result<String, String> {
    let unknown = |error: ApiError| format!("the cluster cannot be asked: {error}");
    let presence = presence(cluster, namespace).await.map_err(unknown)?;
    match presence {
        Presence::Missing => {
            return Err(format!(
                "it does not exist: create it with `kubectl create namespace {namespace}`, or name another one"
            ));
        }
        Presence::Ending => {
            return Err("it is being deleted, and nothing can be created there: create it again once it is gone, \
                        or name another one"
                .to_owned());
        }
        Presence::There | Presence::Unreadable => {}
    }
    let mut refused = Vec::new();
    for kind in watched {
        if !may_watch(cluster, namespace, &kind.group, &kind.plural).await.map_err(unknown)? {
            refused.push(kind.name.as_str());
        }
    }
    if !refused.is_empty() {
        return Err(format!(
            "the account of the context {} may not list and watch {} there: apply what `hotshoe rbac PLUGIN… \
             --watch-namespace …,{namespace}` prints, or name the host's own account with --kubeconfig",
            cluster.context,
            refused.join(", ")
        ));
    }
    let there = match presence {
        Presence::Unreadable => "whether it exists is not known, because the account may not get it",
        _ => "there",
    };
    Ok(match watched.len() {
        0 => format!("{there}; no plugin is here whose kinds would be watched"),
        1 => format!("{there}; the kind of the plugins here may be listed and watched"),
        count => format!("{there}; the {count} kinds of the plugins here may be listed and watched"),
    })
}
