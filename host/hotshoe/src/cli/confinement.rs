//! What this machine lacks to confine the child processes of a host.

use std::collections::BTreeSet;
use std::io;

use hotshoe_platform::child::Children;
use hotshoe_registry::process;
use hotshoe_sandbox::compile;

/// Has a child of each kind confine itself. The one that verifies signatures is confined like the one that compiles.
/// Returns the barriers that this machine cannot enforce; none if it can enforce all.
///
/// # Errors
/// If a child cannot be run.
pub(super) async fn missing(children: &Children) -> io::Result<Option<String>> {
    let mut missing = BTreeSet::new();
    for verb in [compile::VERB, process::VERB] {
        missing.extend(children.missing(verb).await?);
    }
    let missing: Vec<_> = missing.into_iter().collect();
    Ok(Some(missing.join("; ")).filter(|missing| !missing.is_empty()))
}
