//! The source of a plugin's definition, followed while the plugin runs: a `plugin.yaml`, or a `Plugin` object.

use std::path::Path;
use std::sync::Arc;

use tokio::sync::watch;

use crate::config::file;
use hotshoe_platform::candidate::Candidate;
use hotshoe_platform::followed_file::{FileError, FollowedFile};

/// The source of a plugin's definition.
#[derive(Debug)]
pub enum Definition {
    /// A `plugin.yaml`.
    File(Box<FollowedFile>),
    /// A `Plugin` object, as JSON.
    Object(watch::Receiver<Arc<[u8]>>),
}

impl Definition {
    /// Follows a `plugin.yaml`.
    pub fn file(path: &Path) -> Self {
        Self::File(Box::new(FollowedFile::file(path, file::MAX_SIZE)))
    }

    /// Returns the same source, of which nothing was returned yet.
    #[must_use]
    pub fn again(&self) -> Self {
        match self {
            Self::File(file) => Self::file(file.path()),
            Self::Object(object) => Self::Object(object.clone()),
        }
    }

    /// Waits for a definition that was not returned before.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub async fn next(&mut self) -> Result<Candidate, FileError> {
        match self {
            Self::File(file) => file.next().await,
            Self::Object(object) => match object.changed().await {
                Ok(()) => Ok(Candidate::of(object.borrow_and_update().to_vec())),
                // The sender is gone, so no change will come.
                Err(_) => std::future::pending().await,
            },
        }
    }

    /// Returns whether the definition may have changed since [`Self::next`] returned it.
    pub fn has_changed(&self) -> bool {
        match self {
            Self::File(file) => file.has_changed(),
            Self::Object(object) => object.has_changed().unwrap_or(false),
        }
    }

    /// Reads a file once more although its metadata has not changed.
    pub fn reread(&mut self) {
        if let Self::File(file) = self {
            file.reread();
        }
    }
}
