//! A host with converged CRs, to which components are offered one after the other.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hotshoe_tests::guests::{Folder, reworded};

use crate::cells::Setup;
use crate::load;
use crate::plane::Plane;
use crate::process::Process;
use crate::subject::{decides, metrics, start_host};
use crate::watcher::Watcher;

/// The timeout for an activation, for which a component may have to be compiled.
const TIMEOUT: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A word in the command of every Deployment.
const WORD: &str = "modern";

/// A control plane, a host and its component's file.
pub struct Rig {
    /// Its control plane.
    pub plane: Plane,
    /// The host.
    pub host: Process,
    /// The folder of its component.
    pub folder: Folder,
}

impl Rig {
    /// Starts all, and waits until the CRs have converged.
    ///
    /// # Errors
    /// When they have not converged in time.
    pub async fn up(setup: &Setup, log: &str) -> Result<Self> {
        let plane = Plane::up(&setup.manifests).await?;
        let folder = Folder::of_memcached();
        let host = start_host(&plane, &setup.programs, &[folder.path()], log).await?;
        let rig = Self { plane, host, folder };
        rig.grow(0, setup.count).await?;
        Ok(rig)
    }

    /// Creates the CRs with these numbers, and waits until all have converged.
    ///
    /// # Errors
    /// When they have not converged in time.
    pub async fn grow(&self, from: usize, to: usize) -> Result<()> {
        let watcher = Watcher::start(&self.plane.admin);
        load::create(&self.plane.user, from..to, |_, _| ()).await?;
        watcher.converged(to, TIMEOUT).await?;
        self.host.until_idle().await
    }

    /// Replaces the component, as `hotshoe build` does, and waits until the new one is active.
    ///
    /// # Errors
    /// When it is not activated.
    pub async fn offer(&self, component: &[u8]) -> Result<()> {
        self.folder.put(component);
        let began = Instant::now();
        while !decides(&self.host, component).await? {
            ensure!(began.elapsed() < TIMEOUT, "void: a component is not activated; see {}", self.host.log().display());
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }

    /// Replaces the component by one that must be refused, and waits until it is refused.
    ///
    /// # Errors
    /// When it is not refused.
    pub async fn refuse(&self, component: &[u8]) -> Result<()> {
        let before = self.refusals().await?;
        self.folder.put(component);
        let began = Instant::now();
        while self.refusals().await? <= before {
            ensure!(began.elapsed() < TIMEOUT, "void: a component is not refused; see {}", self.host.log().display());
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }

    /// Returns how often the host refused a component.
    ///
    /// # Errors
    /// When it does not serve its metrics.
    pub async fn refusals(&self) -> Result<f64> {
        let metrics = metrics(&self.host).await?;
        let published = "hotshoe_plugin_revisions_total{controller=\"memcached\",reason=\"Activated\"}";
        Ok(metrics.of("hotshoe_plugin_revisions_total") - metrics.of(published))
    }

    /// Returns the number of finished swaps.
    ///
    /// # Errors
    /// When it does not serve its metrics.
    pub async fn swaps(&self) -> Result<f64> {
        Ok(metrics(&self.host).await?.of("hotshoe_swap_seconds_count"))
    }

    /// Returns the original component with another digest, which decides the same.
    pub fn renamed(&self, number: u8) -> Vec<u8> {
        // A custom section of the name `n` with one byte in it.
        [self.folder.original(), &[0, 3, 1, b'n', number]].concat()
    }

    /// Returns the original component with another word in every Deployment.
    pub fn marked(&self, number: usize) -> Vec<u8> {
        reworded(self.folder.original(), WORD, &mark(number))
    }

    /// Returns the original component with another word in every Deployment, but not in the cases that it carries.
    pub fn unlike_its_cases(&self, word: &str) -> Vec<u8> {
        let mut component = self.folder.original().to_vec();
        let at = component.windows(WORD.len()).position(|window| window == WORD.as_bytes());
        if let Some(place) = at.and_then(|at| component.get_mut(at..at + WORD.len())) {
            place.copy_from_slice(word.as_bytes());
        }
        component
    }

    /// Ends all.
    ///
    /// # Errors
    /// When something is left behind.
    pub async fn down(self) -> Result<()> {
        self.host.stop()?;
        self.plane.down().await
    }
}

/// The word that a marked component puts into every Deployment, as long as the original one.
pub fn mark(number: usize) -> String {
    format!("mark{number:02}")
}
