//! `hotshoe storage-migrate`: has all objects of a kind stored in the version that its CRD stores now.

use std::fmt;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use futures::{StreamExt, stream};

use crate::cli::terminal;
use hotshoe_cluster::client::{Cluster, ConnectOptions};
use hotshoe_cluster::error::ApiError;
use hotshoe_cluster::storage_migration::{Definition, NoPage, Rewritten, Stored};

/// How many objects are rewritten at once: a small API server is fastest with eight to ten.
const AT_ONCE: usize = 8;
/// How often an object is tried whose write fails for a reason that may pass.
const TRIES: u32 = 5;
/// How often all objects are gone over at most. Each time fewer have to be written.
const PASSES: usize = 5;
/// How long the API server may take to learn which version it stores.
const IN_FORCE_TIMEOUT: Duration = Duration::from_secs(30);
/// The pause before it is asked again.
const IN_FORCE_PAUSE: Duration = Duration::from_millis(200);
/// How often the change of the CRD's status is tried while others change the CRD.
const FINISHES: usize = 5;
/// How many failed objects are named.
const MAX_NAMED: usize = 10;
/// The pause between two reports of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);

/// Have all objects of a kind stored in the version that its CRD stores now
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    hotshoe storage-migrate memcacheds.cache.example.com --dry-run\n  \
    hotshoe storage-migrate memcached\n\n\
    After the version with `storage: true` in a CRD has changed, objects stay stored in the former one until they are \
    written. This writes each, without a change, and then sets the CRD's status.storedVersions to the new version alone. \
    Only then may the former version be removed from the CRD, and only then are objects read without the conversion of a \
    host that is away.\n\n\
    If it is interrupted, run it again: an object that is stored in the new version already costs a request and no \
    write. If an object cannot be written, the others are, and status.storedVersions stays as it is.\n\n\
    Rights: `get` of the CRD, `patch` of its status, `list` and `patch` of the objects in all namespaces.")]
pub struct Args {
    /// The kind, by a name that kubectl knows: memcacheds.cache.example.com, memcached, Memcached
    #[arg(value_name = "KIND")]
    kind: String,
    /// Print what would be done, and write nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    connect: ConnectOptions,
}

impl Args {
    /// Rewrites the objects.
    ///
    /// # Errors
    /// When the kind is not found, an object cannot be written, or the CRD changes meanwhile.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let cluster = Cluster::connect(&self.connect).await?;
        let definition = Definition::find(&cluster, &self.kind).await?;
        let (name, storage) = (&definition.name, definition.storage());
        if definition.is_migrated() {
            terminal::line(format_args!("all objects of {name} are stored in {storage}: nothing to do"))?;
            return Ok(ExitCode::SUCCESS);
        }
        let stored = definition.stored.join(", ");
        if self.dry_run {
            let page = definition.lister(&cluster).page(None).await?;
            let count = page.objects.len() as u64 + page.remaining;
            terminal::line(format_args!(
                "would have the API server write those of {count} objects of {name} anew that are not stored in {storage}, \
                 and then set its status.storedVersions from [{stored}] to [{storage}]"
            ))?;
            return Ok(ExitCode::SUCCESS);
        }
        until_in_force(&cluster, &definition).await?;
        let done = rewrite_all(&cluster, &definition).await?;
        ensure_all(&done)?;
        finish(&cluster, &definition).await?;
        terminal::line(format_args!("{name}: {done}; status.storedVersions is [{storage}]"))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// What was done so far.
#[derive(Default)]
struct Done {
    storage: String,
    written: u64,
    not_needed: u64,
    failed: u64,
    /// The first objects that failed, with the error.
    named: Vec<String>,
}

impl Done {
    fn add(&mut self, object: &Stored, result: Result<Rewritten, ApiError>) {
        match result {
            Ok(Rewritten::Written) => self.written += 1,
            Ok(Rewritten::NotNeeded) => self.not_needed += 1,
            Err(error) => {
                self.failed += 1;
                if self.named.len() < MAX_NAMED {
                    self.named.push(format!("  {object}: {error}"));
                }
            }
        }
    }
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { storage, written, not_needed, failed, .. } = self;
        write!(f, "{written} objects written anew, {not_needed} stored in {storage} already")?;
        if *failed > 0 { write!(f, ", {failed} failed") } else { Ok(()) }
    }
}

/// Waits until the API server stores the version that the CRD names.
async fn until_in_force(cluster: &Cluster, definition: &Definition) -> anyhow::Result<()> {
    let begun = Instant::now();
    while !definition.is_in_force(cluster).await? {
        ensure!(
            begun.elapsed() < IN_FORCE_TIMEOUT,
            "the API server does not store {} in {} yet; run it again in a moment",
            definition.name,
            definition.storage()
        );
        tokio::time::sleep(IN_FORCE_PAUSE).await;
    }
    Ok(())
}

/// Goes over all objects until none has to be written any more. One of several API servers may learn of the change of the
/// CRD later than the others, and stores the former version until then.
async fn rewrite_all(cluster: &Cluster, definition: &Definition) -> anyhow::Result<Done> {
    let mut written = 0;
    for _ in 0..PASSES {
        match rewrite_list(cluster, definition).await {
            Ok(done) if done.written == 0 || done.failed > 0 => {
                let not_needed = done.not_needed.saturating_sub(written);
                return Ok(Done { written: written + done.written, not_needed, ..done });
            }
            Ok(done) => written += done.written,
            Err(NoPage::Expired) => terminal::note("the list took too long, and is begun anew"),
            Err(error) => return Err(error.into()),
        }
    }
    bail!("objects of {} are still stored in another version after {PASSES} passes; run it again", definition.name)
}

async fn rewrite_list(cluster: &Cluster, definition: &Definition) -> Result<Done, NoPage> {
    let (mut done, mut from) = (Done { storage: definition.storage().to_owned(), ..Done::default() }, None);
    let (lister, mut reported) = (definition.lister(cluster), Instant::now());
    loop {
        let page = lister.page(from.as_deref()).await?;
        let rewritten =
            stream::iter(&page.objects).map(async |object| (object, rewrite(cluster, definition, object).await));
        let mut rewritten = std::pin::pin!(rewritten.buffer_unordered(AT_ONCE));
        while let Some((object, result)) = rewritten.next().await {
            done.add(object, result);
        }
        if reported.elapsed() >= PROGRESS_INTERVAL {
            reported = Instant::now();
            terminal::note(format_args!("{done}, {} to go", page.remaining));
        }
        match page.next {
            Some(next) => from = Some(next),
            None => return Ok(done),
        }
    }
}

async fn rewrite(cluster: &Cluster, definition: &Definition, object: &Stored) -> Result<Rewritten, ApiError> {
    for tries in 1..TRIES {
        match definition.rewrite(cluster, object).await {
            Err(error) if error.is_transient() => tokio::time::sleep(error.pause(tries)).await,
            result => return result,
        }
    }
    definition.rewrite(cluster, object).await
}

fn ensure_all(done: &Done) -> anyhow::Result<()> {
    let Done { failed, named, .. } = done;
    let more = failed.saturating_sub(named.len() as u64);
    let more = if more > 0 { format!("\n  and {more} more") } else { String::new() };
    ensure!(
        *failed == 0,
        "{done}; correct these and run it again, status.storedVersions stays as it is:\n{}{more}",
        named.join("\n")
    );
    Ok(())
}

/// Sets `status.storedVersions`. Other changes of the CRD meanwhile do not matter, but one of the stored version does.
async fn finish(cluster: &Cluster, begun: &Definition) -> anyhow::Result<()> {
    let mut definition = begun.clone();
    for _ in 0..FINISHES {
        match definition.finish(cluster).await {
            Err(error) if error.code == 409 => definition = Definition::read(cluster, &begun.name).await?,
            result => return Ok(result?),
        }
        ensure!(
            definition.storage() == begun.storage() && definition.stored == begun.stored,
            "the stored version of {} has changed meanwhile from {} to {}; run it again",
            begun.name,
            begun.storage(),
            definition.storage()
        );
    }
    bail!("{} is changed by others all the time; run it again", begun.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_that_failed_are_named_up_to_a_number_and_counted() {
        let mut done = Done { storage: "v1".to_owned(), written: 3, not_needed: 2, ..Done::default() };
        assert!(ensure_all(&done).is_ok());
        done.failed = 12;
        done.named = (0..MAX_NAMED).map(|number| format!("  shop/{number}: refused")).collect();
        let said = ensure_all(&done).unwrap_err().to_string();
        assert!(said.starts_with("3 objects written anew, 2 stored in v1 already, 12 failed; correct these"), "{said}");
        assert!(said.contains("shop/9: refused\n  and 2 more"), "{said}");
    }
}
