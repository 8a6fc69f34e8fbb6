//! A steady trickle of changes, one CR after the other, and the time from the sending of each change
//! until its child shows it.
//!
//! Changes are sent when they are due, even while earlier ones are not done: a host or an API server that is
//! slow for a moment does not get fewer changes.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use serde::Deserialize;
use tokio::time::{MissedTickBehavior, interval};

use crate::NAMESPACE;
use crate::figure::quantile;
use crate::load::{name, resize};
use crate::plane::Plane;
use crate::watcher::{Metadata, Named, follow};

/// How long to wait for the rest of a run.
const TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Changes of a number of CRs, at a fixed interval.
pub struct Trickle {
    count: usize,
    every: Duration,
    /// The size of each CR now, over all runs.
    sizes: Mutex<HashMap<String, i32>>,
}

/// How long the changes of one run took.
#[derive(Clone, Debug)]
pub struct Times(Vec<Duration>);

impl Trickle {
    /// Changes the first `count` CRs, all of which desire one server now, at this interval.
    pub fn over(count: usize, every: Duration) -> Self {
        Self { count, every, sizes: Mutex::default() }
    }

    /// Changes CRs for this time.
    ///
    /// # Errors
    /// When the run is void: a change was refused, or not acted upon.
    pub async fn run(&self, plane: &Plane, lasts: Duration) -> Result<Times> {
        let board = Arc::new(Mutex::new(Board::default()));
        let path = format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments");
        let task = follow(&plane.admin, path, &board, |board: &mut Board, child: Deployment| board.note(&child));
        let sent = self.send(plane, lasts, &board).await;
        let settled = settled(plane, &board).await;
        task.abort();
        sent.and(settled)?;
        let mut took = std::mem::take(&mut lock(&board).took);
        took.sort_unstable();
        ensure!(!took.is_empty(), "void: nothing was changed");
        Ok(Times(took))
    }

    async fn send(&self, plane: &Plane, lasts: Duration, board: &Mutex<Board>) -> Result<()> {
        let ends = Instant::now() + lasts;
        let mut pace = interval(self.every);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut turn, mut sending, mut on_its_way) = (0_usize, FuturesUnordered::new(), HashSet::new());
        while Instant::now() < ends {
            tokio::select! {
                _ = pace.tick() => {
                    let number = turn % self.count;
                    turn += 1;
                    // Of two concurrent changes of one CR, either may be the last.
                    if on_its_way.insert(number) {
                        let name = name(number);
                        let size = self.another_size(&name, lock(board).shown.get(&name).copied());
                        lock(board).expect_size(&name, size);
                        sending.push(async move { resize(&plane.user, &name, size).await.map(|()| number) });
                    }
                }
                Some(sent) = sending.next() => drop(on_its_way.remove(&sent?)),
            }
        }
        while let Some(sent) = sending.next().await {
            sent?;
        }
        Ok(())
    }

    /// Returns a size that differs from the last one and from the one that the child shows, which may be
    /// behind: otherwise there would be nothing to write.
    fn another_size(&self, name: &str, shown: Option<i32>) -> i32 {
        let mut sizes = lock(&self.sizes);
        let size = sizes.entry(name.to_owned()).or_insert(1);
        *size = another(*size, shown);
        *size
    }
}

/// Returns one of the three sizes that is neither of these.
fn another(size: i32, shown: Option<i32>) -> i32 {
    let next = |size: i32| size % 3 + 1;
    if shown == Some(next(size)) { next(next(size)) } else { next(size) }
}

async fn settled(plane: &Plane, board: &Mutex<Board>) -> Result<()> {
    let began = Instant::now();
    loop {
        // The lock is not held while a request waits.
        let laggard = lock(board).laggard();
        let Some((name, words)) = laggard else { return Ok(()) };
        if began.elapsed() > TIMEOUT {
            let child = plane.admin.get(&format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{name}")).await?;
            bail!("void: {words}; it has {:?}", child.pointer("/spec/replicas"));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

impl Times {
    /// Returns the number of changes.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns a percentile of the times, in seconds.
    pub fn percentile(&self, percent: f64) -> f64 {
        quantile(&self.0, percent / 100.0).as_secs_f64()
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |percent| self.percentile(percent) * 1000.0;
        write!(f, "{} changes, p50 {:.1} ms, p99 {:.1} ms, most {:.1} ms", self.count(), ms(50.0), ms(99.0), ms(100.0))
    }
}

/// The sizes that are desired and not there yet, and the times of the others.
#[derive(Default)]
struct Board {
    waiting: HashMap<String, (i32, Instant)>,
    took: Vec<Duration>,
    shown: HashMap<String, i32>,
}

impl Board {
    /// Keeps the start time where the size before is not there yet.
    fn expect_size(&mut self, name: &str, size: i32) {
        let since = self.waiting.get(name).map_or_else(Instant::now, |(_, since)| *since);
        self.waiting.insert(name.to_owned(), (size, since));
    }

    /// Returns a parent whose child does not have the desired size yet.
    fn laggard(&self) -> Option<(String, String)> {
        let (name, (size, since)) = self.waiting.iter().next()?;
        let (shown, since) = (self.shown.get(name), since.elapsed());
        let words = format!("{name} was to have the size {size}, {since:.1?} ago, and its child showed {shown:?}");
        Some((name.clone(), words))
    }

    fn note(&mut self, child: &Deployment) {
        let name = &child.metadata.name;
        self.shown.insert(name.clone(), child.spec.replicas);
        if let Some((size, since)) = self.waiting.get(name).copied()
            && child.spec.replicas == size
        {
            self.waiting.remove(name);
            self.took.push(since.elapsed());
        }
    }
}

#[derive(Clone, Deserialize)]
struct Deployment {
    metadata: Metadata,
    spec: Spec,
}

#[derive(Clone, Deserialize)]
struct Spec {
    #[serde(default)]
    replicas: i32,
}

impl Named for Deployment {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_never_what_the_child_shows_already() {
        for size in 1..=3 {
            for shown in [None, Some(1), Some(2), Some(3)] {
                let next = another(size, shown);
                assert!((1..=3).contains(&next) && next != size && Some(next) != shown, "{size} {shown:?} {next}");
            }
        }
    }
}
