//! Fetches the component of a plugin whose source is no file, into a file that the plugin's rollout follows.
//!
//! The component that was fetched last stays in the file, so that the rollout has it while the source cannot be
//! reached, and after a restart.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tracing::Instrument;

use crate::config::PluginConfig;
use crate::config::manifest::{ConfigMapKey, Source};
use crate::rollout::managed_plugin::ManagedPlugin;
use crate::rollout::state::{Fetched, FetchedComponent, PluginState};
use crate::rollout::unaccepted::Unaccepted;
use hotshoe_cluster::config_map;
use hotshoe_cluster::config_map::Found;
use hotshoe_cluster::pull_secret;
use hotshoe_core::check::provenance::SignatureRule;
use hotshoe_core::flow::backoff::doubled;
use hotshoe_core::model::digest::Digest;
use hotshoe_core::plugin::meant::NOT_KEPT;
use hotshoe_platform::candidate::Candidate;
use hotshoe_platform::safe_file;
use hotshoe_registry::{Access, Credentials, ImageRef, Pull, RegistryError};

/// The pause after the first failure before a registry is asked again. It doubles with each further failure.
const FIRST_BACKOFF: Duration = Duration::from_secs(5);
/// The longest pause after a failure. No watch shows that a registry or a pull secret is there again.
const MAX_BACKOFF: Duration = Duration::from_secs(60);
/// The pause before a component of a ConfigMap that could not be stored is read again.
const STORE_RETRY_PAUSE: Duration = Duration::from_secs(30);

/// The reason where a component has no signature.
const UNSIGNED: &str = "SignatureMissing";
/// Why no signature of a component can be looked for.
const OF_NO_IMAGE: &str = "did not come from the repository of spec.source.oci, so no signature of it can be looked \
                           for; push it there and sign it, or use another component";

/// The reason where a component cannot be stored.
const UNWRITABLE: &str = "SourceUnwritable";

/// Why a component cannot be fetched: a PascalCase reason and a message.
type Failure = (&'static str, String);

/// Fetches the source's component, and again whenever that or the source changes, until the plugin is stopped.
pub(crate) async fn run(plugin: Arc<ManagedPlugin>) {
    loop {
        let config = plugin.plugin();
        tokio::select! {
            () = follow(&plugin, &config.source) => {}
            () = redefined(&plugin, &config) => {}
        }
        if plugin.plugin().source != config.source {
            plugin.state.change(|state| (state.fetched, state.unaccepted) = (Fetched::default(), None));
        }
    }
}

/// Waits until the plugin has another source, or another limit by which a component that was refused may be accepted.
async fn redefined(plugin: &ManagedPlugin, config: &PluginConfig) {
    let is_other = |PluginState { config: now, fetched, .. }: &PluginState| {
        let is_other_limit = now.limits.component_bytes != config.limits.component_bytes;
        now.source != config.source || (is_other_limit && fetched.failing.is_some())
    };
    plugin.state.wait_for(is_other).await;
}

async fn follow(plugin: &Arc<ManagedPlugin>, source: &Source) {
    match (&source.config_map, &source.oci) {
        (Some(key), _) => follow_config_map(plugin, source, key).await,
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
        prove_active(plugin).await;
        let pause = if failures > 0 { doubled(FIRST_BACKOFF, failures - 1, MAX_BACKOFF) } else { source.interval() };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = plugin.refetch.notified() => {}
        }
    }
}

/// Finds out whether the active component is signed as required, where that is not known: the definition may have
/// changed since it was fetched, and it may not be what the source has now.
async fn prove_active(plugin: &Arc<ManagedPlugin>) {
    let active = plugin.controller.active().map(|active| active.revision.digest());
    let Some(digest) = active.filter(|active| !plugin.is_accepted(*active)) else { return };
    let refused = match pull_known(plugin, digest).await {
        Ok(_) => {
            plugin.record_signers(digest).await;
            None
        }
        Err((reason, message)) => Some(Unaccepted { digest, reason, message }),
    };
    plugin.state.set(|state| &mut state.unaccepted, refused);
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
    if before == Some(digest) {
        plugin.state.set(|state| &mut state.fetched.failing, None);
        return Ok(digest);
    }
    let image = image.pinned(digest);
    let component = pull(plugin, source, &image, access).await.map_err(failed)?;
    plugin.note_signers(component.digest(), source.signature_rule().signers().to_vec());
    store(plugin, source, component, image.to_string()).await?;
    Ok(digest)
}

/// Pulls a component that was active before from the image that the history names, because it is not kept on this
/// machine: the host may run in a new Pod.
///
/// # Errors
/// Why it cannot be pulled.
pub(crate) async fn pull_again(plugin: &ManagedPlugin, digest: Digest) -> Result<Candidate, String> {
    pull_known(plugin, digest).await.map_err(|(_, message)| message)
}

/// Pulls a component that was active, and verifies by whom its image is signed.
async fn pull_known(plugin: &ManagedPlugin, digest: Digest) -> Result<Candidate, Failure> {
    let source = plugin.plugin().source.clone();
    let image = image_to_pull_again(plugin, digest).ok_or_else(|| match source.signature_rule() {
        SignatureRule::Nothing => ("SourceUnreachable", NOT_KEPT.to_owned()),
        SignatureRule::OneOf(_) => (UNSIGNED, format!("{digest} {OF_NO_IMAGE}")),
    })?;
    let access = access(plugin, &source).await?;
    let pulled = pull(plugin, &source, &image, access).instrument(plugin.span_of(digest)).await;
    let component = pulled.map_err(|error| (error.reason(), error.to_string()))?;
    if component.digest() != digest {
        let message = format!("{image} has the component {} and not {digest}", component.digest());
        return Err(("WrongDigest", message));
    }
    plugin.note_signers(digest, source.signature_rule().signers().to_vec());
    Ok(component)
}

/// Returns the image from which a component can be pulled again: one that is named by its digest, in the repository of
/// the source. Otherwise an account that may write the status of a `Plugin` object could have the host pull from anywhere.
fn image_of(source: &Source, named: &str) -> Option<ImageRef> {
    let (of, image): (ImageRef, ImageRef) = (source.oci.as_deref()?.parse().ok()?, named.parse().ok()?);
    image.digest().filter(|digest| of.pinned(*digest) == image).map(|_| image)
}

/// Returns the image from which a component that was active can be pulled again, as far as is known without a request.
pub(crate) fn image_to_pull_again(plugin: &ManagedPlugin, digest: Digest) -> Option<ImageRef> {
    image_of(&plugin.plugin().source, plugin.history().source_of(digest)?)
}

async fn pull(
    plugin: &ManagedPlugin,
    source: &Source,
    image: &ImageRef,
    access: Access,
) -> Result<Candidate, RegistryError> {
    let most = plugin.plugin().limits.component_bytes.0;
    let pull = Pull { image: image.clone(), access, most, verify: source.verify.clone() };
    let pulled = plugin.shared.puller.pull(&pull).await?;
    tracing::info!(%image, "the component was pulled");
    Ok(pulled.component)
}

/// Returns how the registry is reached.
async fn access(plugin: &ManagedPlugin, source: &Source) -> Result<Access, Failure> {
    let access = Access {
        credentials: Credentials::default(),
        authorities: source.ca_bundle.clone(),
        plain_http: source.plain_http,
        token_host: source.token_host.clone(),
    };
    let Some(name) = &source.pull_secret else { return Ok(access) };
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
    Ok(Access { credentials, ..access })
}

async fn follow_config_map(plugin: &Arc<ManagedPlugin>, source: &Source, ConfigMapKey { name, key }: &ConfigMapKey) {
    let shared = &plugin.shared;
    let found = Newest::default();
    let stored = async {
        loop {
            let stored = match found.next().await {
                Found::Component(bytes, version) => store(plugin, source, Candidate::of(bytes), version).await,
                Found::Nothing(reason, message) => Err((reason, message)),
            };
            if let Err((reason, message)) = stored {
                fail(plugin, reason, message);
                if reason == UNWRITABLE {
                    // No watch shows that there is room, and the component is not held in memory until then.
                    return tokio::time::sleep(STORE_RETRY_PAUSE).await;
                }
            }
        }
    };
    let report = |news| found.put(news);
    tokio::select! {
        () = config_map::follow(&shared.cluster, &shared.host.namespace, name, key, report) => {}
        () = stored => {}
    }
}

/// The newest of what is reported: a component that was not stored before the next one came is of no use, and would
/// take memory.
#[derive(Debug)]
struct Newest<T> {
    value: Mutex<Option<T>>,
    added: Notify,
}

impl<T> Default for Newest<T> {
    fn default() -> Self {
        Self { value: Mutex::default(), added: Notify::new() }
    }
}

impl<T> Newest<T> {
    fn put(&self, value: T) {
        *self.value.lock() = Some(value);
        self.added.notify_one();
    }

    /// Waits for a value, and takes it.
    async fn next(&self) -> T {
        loop {
            if let Some(value) = self.value.lock().take() {
                return value;
            }
            self.added.notified().await;
        }
    }
}

/// Writes a component of a source to the file that the rollout follows.
async fn store(plugin: &ManagedPlugin, asked: &Source, component: Candidate, source: String) -> Result<(), Failure> {
    let config = plugin.plugin();
    if config.source != *asked {
        // The file of the present source must have nothing that was verified by the rules of another.
        return Ok(());
    }
    let (limit, size) = (config.limits.component_bytes, component.bytes().len());
    if size as u64 > limit.0 {
        let message = format!(
            "{source} has a component of {size} bytes, more than the {limit} that are accepted (limits.componentBytes)"
        );
        return Err(("ComponentTooLarge", message));
    }
    let (name, path) = (config.name.clone(), config.component_path().to_owned());
    // Before the file is there: the rollout may activate it at once, and then the status names its source, too.
    let fetched = FetchedComponent { digest: component.digest(), source };
    let fetched = Fetched { component: Some(fetched), failing: None };
    let before = plugin.state.replace(|state| &mut state.fetched, fetched);
    let (room, bytes) = (plugin.shared.room.clone(), component.bytes().len());
    let write =
        move || room.fetch(&path, bytes, |other| is_of(&name, other), || replace(&name, &path, component.bytes()));
    let written = tokio::task::spawn_blocking(write).await;
    written.unwrap_or_else(|error| Err(error.into())).map_err(|error| {
        plugin.state.set(|state| &mut state.fetched, before);
        let path = config.component_path().display();
        let message =
            format!("the component cannot be written to {path}: {error}; give the host a --cache directory with room");
        (UNWRITABLE, message)
    })
}

fn fail(plugin: &ManagedPlugin, reason: &'static str, message: String) {
    let is_known = |failing: &Failure| *failing == (reason, message.clone());
    if !plugin.state.read(|state| state.fetched.failing.as_ref().is_some_and(is_known)) {
        tracing::error!(reason, "the component cannot be fetched: {message}");
        plugin.state.set(|state| &mut state.fetched.failing, Some((reason, message)));
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

    #[tokio::test]
    async fn of_the_components_that_come_faster_than_they_are_stored_only_the_newest_is_kept() {
        let found = Newest::default();
        for version in 1..=3 {
            found.put(version);
        }
        assert_eq!(found.next().await, 3);
        let mut next = Box::pin(found.next());
        assert!(futures::poll!(&mut next).is_pending(), "the older ones are gone");
        found.put(4);
        assert_eq!(next.await, 4);
    }

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

    #[test]
    fn a_component_is_pulled_again_only_by_its_digest_and_from_the_repository_of_the_source() {
        let digest = format!("sha256:{}", Digest::of(b"manifest").full());
        let source = Source { oci: Some("oci://example.com/a/plugin:stable".into()), ..Source::default() };
        let named = format!("oci://example.com/a/plugin@{digest}");
        assert_eq!(image_of(&source, &named).map(|image| image.to_string()), Some(named.clone()));
        for other in ["oci://example.com/a/plugin:stable", "example.com/a/plugin", "ConfigMap plugin, version 3"] {
            assert_eq!(image_of(&source, other), None, "{other}");
        }
        for other in ["example.com/a/other", "example.org/a/plugin", "example.com:5000/a/plugin"] {
            assert_eq!(image_of(&source, &format!("oci://{other}@{digest}")), None, "{other}");
        }
        assert_eq!(image_of(&Source::default(), &named), None);
    }
}
