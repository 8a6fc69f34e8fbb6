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
    /// use the same directory: then that one writes the history until it ends, and this one works meanwhile. The lock is
    /// acquired by one attempt and kept: another host that starts now would acquire it between two.
    pub(crate) async fn become_only_host(self: Arc<Self>) -> Option<HostLock> {
        let path = self.lock_path()?;
        match acquire(&path).await {
            Ok(lock) => Some(lock),
            Err(error @ LockError::Unusable { .. }) => {
                tracing::warn!("another host for the same plugin would not be noticed: {error}");
                None
            }
            Err(error @ LockError::Locked { .. }) if self.shared.leases.are_kept() => {
                tracing::info!("the other host writes the history of the plugin in this cache directory: {error}");
                self.remember(History::make_read_only).await;
                let reader = self.clone();
                self.spawn(async move {
                    let _lock = reader.stand_by(&path).await;
                    std::future::pending::<()>().await;
                });
                None
            }
            Err(error @ LockError::Locked { .. }) => {
                tracing::error!("{error}");
                self.state.set(|state| &mut state.standby, Some(error.to_string()));
                Some(self.stand_by(&path).await)
            }
        }
    }

    fn lock_path(&self) -> Option<PathBuf> {
        let base = self.shared.kept.as_deref()?;
        let (plugin, identity) = (self.plugin(), &self.shared.cluster.identity);
        let namespaces = self.shared.watches.namespaces().joined();
        Some(host_lock::path(base, &plugin.name, identity, namespaces.as_deref()))
    }

    /// Waits until the other host has ended. Then reads the history again, because that host may have changed it.
    async fn stand_by(&self, path: &Path) -> HostLock {
        let lock = loop {
            tokio::time::sleep(STANDBY_INTERVAL).await;
            match acquire(path).await {
                Ok(lock) => break lock,
                // It names the process that holds the lock now.
                Err(error) if !self.shared.leases.are_kept() => {
                    self.state.set(|state| &mut state.standby, Some(error.to_string()));
                }
                Err(_) => {}
            }
        };
        let plugin = self.plugin();
        let now = if self.shared.leases.are_kept() { "writes the history of" } else { "works for" };
        tracing::info!("the other host has ended; this one {now} the plugin now");
        let place = plugin.place(&self.shared.cluster.identity, self.shared.watches.namespaces().joined().as_deref());
        let (base, room) = (self.shared.kept.clone(), self.shared.room.clone());
        self.remember(move |history| *history = History::open(base.as_deref(), &place, room)).await;
        self.state.set(|state| &mut state.standby, None);
        lock
    }
}

/// Locks a file on a blocking thread, because the disk may be slow.
async fn acquire(path: &Path) -> Result<HostLock, LockError> {
    let file = path.to_owned();
    let acquired = tokio::task::spawn_blocking(move || HostLock::acquire(&file)).await;
    acquired.unwrap_or_else(|error| Err(LockError::Unusable { path: path.to_owned(), source: error.into() }))
}
