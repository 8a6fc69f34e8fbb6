//! Where the history and the components of each plugin lie in the cache directory, and what is read there.

use std::io;
use std::path::{Path, PathBuf};

use crate::api::history::Entry;
use crate::rollout::history::entry::plausible;
use hotshoe_cluster::time;
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::limits::Size;
use hotshoe_platform::safe_file;

/// The folder of the components that were fetched, in the cache directory.
pub const FETCHED: &str = "fetched";
/// The folder of the plugins' histories and kept components, in the cache directory.
pub(super) const REVISIONS: &str = "revisions";
/// The file of a plugin's entries.
pub(super) const HISTORY_FILE: &str = "history.json";
/// The maximum size of the history's file. A larger file was not written by a host.
const MAX_HISTORY: Size = Size(1024 * 1024);

/// Returns the file of a component in the directory of its plugin.
pub(super) fn component_path(dir: &Path, digest: Digest) -> PathBuf {
    dir.join(digest.full()).with_extension("wasm")
}

/// Reads the entries in the directory of a plugin.
///
/// # Errors
/// If the file cannot be read, or a host did not write it.
pub(super) fn read_entries(dir: &Path) -> io::Result<Vec<Entry>> {
    let whole = safe_file::read_whole(&dir.join(HISTORY_FILE), MAX_HISTORY)?;
    let bytes = whole.ok_or_else(|| io::Error::other("it is too large"))?;
    Ok(plausible(serde_json::from_slice(&bytes)?, time::unix_seconds()))
}
