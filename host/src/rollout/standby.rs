//! Waits while another host runs the plugin from the same cache directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::rollout::history::History;
use crate::rollout::host_lock::{self, HostLock, LockError};
use crate::rollout::managed_plugin::ManagedPlugin;

/// How often a host that stands by checks whether the other one has ended.
const STANDBY_INTERVAL: Duration = Duration::from_secs(1);

impl ManagedPlugin {
    /// Makes this the plugin's only host in its cache directory. Where hosts share the work by Leases, another host may
    /// use the same directory: then that one writes the history until it ends.
    pub(crate) async fn become_only_host(self: Arc<Self>) -> Option<HostLock> {
        if !self.shared.leases.are_kept() {
            return self.stand_by().await;
        }
        let path = self.lock_path()?;
        if let Err(error @ LockError::Locked { .. }) = acquire(&path).await {
            let plugin = &*self.controller.name;
            tracing::info!(plugin, "the other host writes the history of the plugin in this cache directory: {error}");
            self.remember(History::make_read_only).await;
            let plugin = self.clone();
            self.spawn(async move {
                let _lock = plugin.stand_by().await;
                std::future::pending::<()>().await;
            });
            return None;
        }
        self.stand_by().await
    }

    fn lock_path(&self) -> Option<PathBuf> {
        let base = self.shared.kept.as_deref()?;
        let (plugin, identity) = (self.plugin(), &self.shared.cluster.identity);
        Some(host_lock::path(base, &plugin.name, identity, self.shared.watches.namespace()))
    }

    /// Waits until this is the plugin's only host. Then reads the history again, because the other host may have
    /// changed it.
    async fn stand_by(&self) -> Option<HostLock> {
        let base = self.shared.kept.clone()?;
        let (plugin, identity) = (self.plugin(), &self.shared.cluster.identity);
        let namespace = self.shared.watches.namespace();
        let path = self.lock_path()?;
        let mut first = !self.history().is_read_only();
        loop {
            match acquire(&path).await {
                Ok(lock) if first => return Some(lock),
                Ok(lock) => {
                    let plugin_name = &*plugin.name;
                    match self.shared.leases.are_kept() {
                        true => tracing::info!(
                            plugin = plugin_name,
                            "the other host has ended; this one writes the history of the plugin now"
                        ),
                        false => tracing::info!(
                            plugin = plugin_name,
                            "the other host has ended; this one works for the plugin now"
                        ),
                    }
                    let place = plugin.place(identity, namespace);
                    let room = self.shared.room.clone();
                    self.remember(move |history| *history = History::open(Some(&base), &place, room)).await;
                    *self.standby.lock() = None;
                    return Some(lock);
                }
                Err(LockError::Unusable { .. }) if !first => {}
                Err(error @ LockError::Unusable { .. }) => {
                    tracing::warn!(
                        plugin = &*plugin.name,
                        "another host for the same plugin would not be noticed: {error}"
                    );
                    return None;
                }
                Err(error) => {
                    if first {
                        tracing::error!(plugin = &*plugin.name, "{error}");
                    }
                    if !self.shared.leases.are_kept() {
                        *self.standby.lock() = Some(error.to_string());
                    }
                }
            }
            first = false;
            tokio::time::sleep(STANDBY_INTERVAL).await;
        }
    }
}

/// Locks a file on a blocking thread, because the disk may be slow.
async fn acquire(path: &Path) -> Result<HostLock, LockError> {
    let file = path.to_owned();
    let acquired = tokio::task::spawn_blocking(move || HostLock::acquire(&file)).await;
    acquired.unwrap_or_else(|error| Err(LockError::Unusable { path: path.to_owned(), source: error.into() }))
}
