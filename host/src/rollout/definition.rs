//! What describes a plugin while it runs: its `plugin.yaml`, or a `Plugin` object.

use std::path::Path;
use std::sync::Arc;

use tokio::sync::watch;

use crate::config::file;
use crate::sandbox::candidate::Candidate;
use crate::sandbox::error::LoadError;
use crate::sandbox::followed_file::FollowedFile;

/// What describes a plugin.
#[derive(Debug)]
pub enum Definition {
    /// A file.
    File(Box<FollowedFile>),
    /// An object, as JSON.
    Object(watch::Receiver<Arc<[u8]>>),
}

impl Definition {
    /// Follows a `plugin.yaml`.
    pub fn file(path: &Path) -> Self {
        Self::File(Box::new(FollowedFile::file(path, file::MAX_SIZE)))
    }

    /// Waits until it says something that was not returned before.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub async fn next(&mut self) -> Result<Candidate, LoadError> {
        match self {
            Self::File(file) => file.next().await,
            Self::Object(object) => match object.changed().await {
                Ok(()) => Ok(Candidate::of(object.borrow_and_update().to_vec())),
                // Its sender is gone, and with it whatever would change.
                Err(_) => std::future::pending().await,
            },
        }
    }

    /// Returns whether it may say something that was not returned yet.
    pub fn has_changed(&self) -> bool {
        match self {
            Self::File(file) => file.has_changed(),
            Self::Object(object) => object.has_changed().unwrap_or(false),
        }
    }

    /// Reads a file once more although its metadata has not changed.
    pub fn look_anew(&mut self) {
        if let Self::File(file) = self {
            file.look_anew();
        }
    }
}
