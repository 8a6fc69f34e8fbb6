//! Fetches the component of a plugin whose source is no file, into a file that the plugin's rollout follows.
//!
//! The component that was fetched last stays in the file, so that the rollout has it while the source cannot be
//! reached, and after a restart.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use crate::cluster::config_map;
use crate::cluster::config_map::Found;
use crate::cluster::pull_secret;
use crate::config::manifest::{ConfigMapKey, Source};
use crate::registry::{Access, Credentials, ImageRef, Pull, RegistryError};
use crate::rollout::managed_plugin::{Fetched, ManagedPlugin};
use crate::sandbox::safe_file;
use hotshoe_core::flow::backoff::doubled;
use hotshoe_core::model::digest::Digest;

/// The pause after the first failure before a registry is asked again. It doubles with each further failure.
const FIRST_BACKOFF: Duration = Duration::from_secs(5);
/// The longest pause after a failure.
const MAX_BACKOFF: Duration = Duration::from_secs(300);

/// Why a component cannot be fetched: a PascalCase reason and a message.
type Failure = (&'static str, String);

/// Fetches the source's component, and again whenever that or the source changes, until the plugin is stopped.
pub(crate) async fn run(plugin: Arc<ManagedPlugin>) {
    loop {
        let source = plugin.plugin().source.clone();
        let follow = follow(&plugin, &source);
        tokio::select! {
            () = follow => {}
            () = source_changed(&plugin, &source) => *plugin.fetched.lock() = Fetched::default(),
        }
    }
}

/// Waits until the plugin has another source.
async fn source_changed(plugin: &ManagedPlugin, source: &Source) {
    while plugin.plugin().source == *source {
        plugin.redefined.notified().await;
    }
}

async fn follow(plugin: &Arc<ManagedPlugin>, source: &Source) {
    match (&source.config_map, &source.oci) {
        (Some(key), _) => follow_config_map(plugin, key).await,
        (None, Some(image)) => follow_image(plugin, source, image).await,
        (None, None) => std::future::pending().await,
    }
}

/// Pulls the component of an image, and checks at intervals whether the tag refers to another image by now.
async fn follow_image(plugin: &Arc<ManagedPlugin>, source: &Source, image: &str) {
    // It parses: the definition was validated when it was applied.
    let Ok(image) = image.parse::<ImageRef>() else { return std::future::pending().await };
    let (mut pulled, mut failures) = (None, 0);
    loop {
        match pull_if_changed(plugin, source, &image, pulled).await {
            Ok(digest) => (pulled, failures) = (Some(digest), 0),
            Err((reason, message)) => {
                fail(plugin, reason, message);
                failures += 1;
            }
        }
        let pause = if failures > 0 { doubled(FIRST_BACKOFF, failures - 1, MAX_BACKOFF) } else { source.interval() };
        tokio::time::sleep(pause).await;
    }
}

/// Pulls the image that the reference means now, unless it is the one that was pulled before. Returns its digest.
async fn pull_if_changed(
    plugin: &Arc<ManagedPlugin>,
    source: &Source,
    image: &ImageRef,
    before: Option<Digest>,
) -> Result<Digest, Failure> {
    let access = access(plugin, source).await?;
    let failed = |error: RegistryError| (error.reason(), error.to_string());
    let puller = &plugin.shared.puller;
    let digest = puller.resolve(image, &access).await.map_err(failed)?;
    let resolved = image.pinned(digest).to_string();
    if before == Some(digest) {
        succeed(plugin, resolved);
        return Ok(digest);
    }
    let most = plugin.plugin().limits.component_bytes.0;
    let pull = Pull { image: image.pinned(digest), access, most, verify: source.verify.clone() };
    let pulled = puller.pull(&pull).await.map_err(failed)?;
    tracing::info!(plugin = &*plugin.controller.name, image = resolved, "the component was pulled");
    store(plugin, pulled.component.bytes().to_vec(), resolved).await?;
    Ok(digest)
}

/// Returns how the registry is reached.
async fn access(plugin: &Arc<ManagedPlugin>, source: &Source) -> Result<Access, Failure> {
    let (authorities, plain_http) = (source.ca_bundle.clone(), source.plain_http);
    let Some(name) = &source.pull_secret else {
        return Ok(Access { credentials: Credentials::default(), authorities, plain_http });
    };
    let (shared, reason) = (&plugin.shared, "PullSecretMissing");
    let namespace = &*shared.host.namespace;
    let read = pull_secret::read(&shared.cluster, namespace, name).await;
    let value = read.map_err(|error| {
        (
            reason,
            format!("{error}; create it in {namespace}, and grant the host what `hotshoe rbac --plugin-only` prints"),
        )
    })?;
    let value = value.ok_or_else(|| {
        (
            reason,
            format!("the Secret {name} has no .dockerconfigjson; create it by `kubectl create secret docker-registry`"),
        )
    })?;
    let credentials = Credentials::of_secret(&value).map_err(|error| (error.reason(), error.to_string()))?;
    Ok(Access { credentials, authorities, plain_http })
}

async fn follow_config_map(plugin: &Arc<ManagedPlugin>, ConfigMapKey { name, key }: &ConfigMapKey) {
    let shared = &plugin.shared;
    let (send, mut found) = mpsc::unbounded_channel();
    let report = |news| drop(send.send(news));
    let stored = async {
        while let Some(news) = found.recv().await {
            let stored = match news {
                Found::Component(bytes, resolved) => store(plugin, bytes, resolved).await,
                Found::Nothing(reason, message) => Err((reason, message)),
            };
            if let Err((reason, message)) = stored {
                fail(plugin, reason, message);
            }
        }
    };
    tokio::join!(config_map::follow(&shared.cluster, &shared.host.namespace, name, key, report), stored);
}

/// Writes a component to the file that the rollout follows.
async fn store(plugin: &Arc<ManagedPlugin>, bytes: Vec<u8>, resolved: String) -> Result<(), Failure> {
    let config = plugin.plugin();
    let (limit, size) = (config.limits.component_bytes, bytes.len());
    if size as u64 > limit.0 {
        let message = format!(
            "{resolved} has a component of {size} bytes, more than the {limit} that are accepted (limits.componentBytes)"
        );
        return Err(("ComponentTooLarge", message));
    }
    let (name, path) = (config.name.clone(), config.component_path().to_owned());
    // Before the file is there: the rollout may activate it at once, and then the status names its source, too.
    let before = succeed(plugin, resolved);
    let room = plugin.shared.room.clone();
    let write = move || room.fetch(&path, bytes.len(), |other| is_of(&name, other), || replace(&name, &path, &bytes));
    let written = tokio::task::spawn_blocking(write).await;
    written.unwrap_or_else(|error| Err(error.into())).map_err(|error| {
        *plugin.fetched.lock() = before;
        let path = config.component_path().display();
        let message =
            format!("the component cannot be written to {path}: {error}; give the host a --cache directory with room");
        ("SourceUnwritable", message)
    })
}

/// Notes that a version was fetched. Returns what was noted before.
fn succeed(plugin: &ManagedPlugin, resolved: String) -> Fetched {
    std::mem::replace(&mut *plugin.fetched.lock(), Fetched { resolved: Some(resolved), failing: None })
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

/// Writes the file, and removes the files of the plugin's other sources.
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

/// Removes the component that was fetched for a plugin.
pub(crate) fn forget(folder: &Path, name: &str) {
    let files = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path());
    // A failure only costs space.
    files.filter(|path| is_of(name, path)).for_each(|path| drop(fs::remove_file(path)));
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
        forget(&dir, "a");
        assert_eq!((left("a-2.wasm"), left("a-b-1.wasm")), (false, true));
    }
}
