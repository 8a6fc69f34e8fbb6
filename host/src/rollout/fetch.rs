//! Fetches the component of a plugin whose source is no file, into a file that its rollout follows.
//!
//! What was fetched last stays in the file: while a source cannot be reached, and after a restart, it is what the
//! rollout has.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::mpsc;

use crate::cluster::config_map;
use crate::cluster::config_map::Found;
use crate::config::manifest::{ConfigMapKey, Source};
use crate::rollout::managed_plugin::{Fetched, ManagedPlugin};
use crate::sandbox::safe_file;

/// Fetches what the source has, again whenever that or the source changes, until the plugin is stopped.
pub(crate) async fn run(plugin: Arc<ManagedPlugin>) {
    loop {
        let source = plugin.plugin().source.clone();
        let follow = follow(&plugin, &source);
        tokio::select! {
            () = follow => {}
            () = is_another(&plugin, &source) => *plugin.fetched.lock() = Fetched::default(),
        }
    }
}

/// Waits until the plugin has another source.
async fn is_another(plugin: &ManagedPlugin, source: &Source) {
    while plugin.plugin().source == *source {
        plugin.redefined.notified().await;
    }
}

async fn follow(plugin: &Arc<ManagedPlugin>, source: &Source) {
    match &source.config_map {
        Some(key) => follow_config_map(plugin, key).await,
        None => std::future::pending().await,
    }
}

async fn follow_config_map(plugin: &Arc<ManagedPlugin>, ConfigMapKey { name, key }: &ConfigMapKey) {
    let shared = &plugin.shared;
    let (send, mut found) = mpsc::unbounded_channel();
    let report = |news| drop(send.send(news));
    let stored = async {
        while let Some(news) = found.recv().await {
            match news {
                Found::Component(bytes, resolved) => store(plugin, bytes, resolved).await,
                Found::Nothing(reason, message) => fail(plugin, reason, message),
            }
        }
    };
    tokio::join!(config_map::follow(&shared.cluster, &shared.host.namespace, name, key, report), stored);
}

/// Puts a component where the rollout finds it.
async fn store(plugin: &Arc<ManagedPlugin>, bytes: Vec<u8>, resolved: String) {
    let config = plugin.plugin();
    let limit = config.limits.component_bytes;
    if bytes.len() as u64 > limit.0 {
        let message = format!(
            "{resolved} has a component of {} bytes, more than the {limit} that are accepted (limits.componentBytes)",
            bytes.len()
        );
        return fail(plugin, "ComponentTooLarge", message);
    }
    let (name, path) = (config.name.clone(), config.component_path().to_owned());
    let written = tokio::task::spawn_blocking(move || replace(&name, &path, &bytes)).await;
    match written.unwrap_or_else(|error| Err(error.into())) {
        Ok(()) => *plugin.fetched.lock() = Fetched { resolved: Some(resolved), failing: None },
        Err(error) => {
            let path = config.component_path().display();
            fail(
                plugin,
                "SourceUnwritable",
                format!(
                    "the component cannot be written to {path}: {error}; give the host a --cache directory with room"
                ),
            );
        }
    }
}

fn fail(plugin: &ManagedPlugin, reason: &'static str, message: String) {
    let mut fetched = plugin.fetched.lock();
    let failing = Some((reason, message));
    if fetched.failing != failing {
        if let Some((reason, message)) = &failing {
            tracing::error!(plugin = &*plugin.controller.name, reason, "the component cannot be fetched: {message}");
        }
        fetched.failing = failing;
    }
}

/// Writes the file, and removes those of the plugin's other sources.
fn replace(name: &str, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("/"));
    safe_file::make_private_dir(dir)?;
    for other in fs::read_dir(dir)?.filter_map(Result::ok).map(|entry| entry.path()).filter(|other| other != path) {
        if is_of(name, &other) {
            let _ = fs::remove_file(other);
        }
    }
    safe_file::replace_durably(path, safe_file::PRIVATE, &[bytes])
}

/// Returns whether a file is a component of a plugin: `NAME-DIGEST.wasm`.
fn is_of(name: &str, path: &Path) -> bool {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    stem.rsplit_once('-').is_some_and(|(plugin, _)| plugin == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_components_of_other_sources_go_and_those_of_other_plugins_stay() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("fetched");
        for (name, file) in [("a", "a-1.wasm"), ("a-b", "a-b-1.wasm"), ("a", "a-2.wasm")] {
            replace(name, &dir.join(file), b"bytes").unwrap();
        }
        let left = |file: &str| dir.join(file).is_file();
        assert_eq!((left("a-1.wasm"), left("a-2.wasm"), left("a-b-1.wasm")), (false, true, true));
    }
}
