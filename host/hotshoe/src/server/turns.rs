//! Makes answers that cost time one after another, so that clients keep a tenth of a core busy at most, however many
//! there are and however often they ask. A client that asks while an answer is being made gets the next one, together with
//! all others that wait for it, so that a flood of clients keeps none of them waiting for long. No answer is older than
//! its request.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Bytes;
use tokio::sync::Mutex;
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::{Instant, sleep_until};

use hotshoe_core::flow::backoff::within_reach;

/// How many times as long as an answer took is rested after it: a tenth of a core is the share of all clients.
const REST: u32 = 9;
/// The maximum rest. A scraper waits for 10 seconds by default.
const MAX_REST: Duration = Duration::from_secs(1);

/// Makes answers one after another. `K` says which of the answers to the same question is wanted.
#[derive(Clone)]
pub(super) struct Turns<K> {
    turn: Arc<Mutex<Turn<K>>>,
    /// How many requests wait for an answer, or are given one.
    present: Arc<AtomicUsize>,
}

struct Turn<K> {
    /// When the next answer may be made.
    next: Instant,
    /// The last answers, and when each was begun. Only requests that came before can be given it.
    last: HashMap<K, (Instant, Bytes)>,
}

impl<K> Default for Turns<K> {
    fn default() -> Self {
        let turn = Turn { next: Instant::now(), last: HashMap::new() };
        Self { turn: Arc::new(Mutex::new(turn)), present: Arc::default() }
    }
}

impl<K: Clone + Eq + Hash + Send + 'static> Turns<K> {
    /// Returns an answer that was begun after this call. `make` runs on a thread where it may take long.
    ///
    /// # Errors
    /// When `make` panics.
    pub(super) async fn answer(
        &self,
        wanted: K,
        make: impl FnOnce() -> Vec<u8> + Send + 'static,
    ) -> Result<Bytes, JoinError> {
        let asked = Instant::now();
        let _present = Present::at(self);
        let mut turn = self.turn.clone().lock_owned().await;
        if let Some((begun, answer)) = turn.last.get(&wanted)
            && *begun >= asked
        {
            return Ok(answer.clone());
        }
        sleep_until(turn.next).await;
        // The turn goes along: if the client disconnects, the next one still waits for the end.
        spawn_blocking(move || {
            let begun = Instant::now();
            let answer = Bytes::from(make());
            turn.next = Instant::now() + within_reach(rest(begun.elapsed()));
            turn.last.insert(wanted, (begun, answer.clone()));
            answer
        })
        .await
    }
}

/// Returns how long to rest after an answer that took so long.
fn rest(took: Duration) -> Duration {
    took.saturating_mul(REST).min(MAX_REST)
}

/// A request that is present. When the last one leaves, no answer is kept any longer: it may be large.
struct Present<'a, K>(&'a Turns<K>);

impl<'a, K> Present<'a, K> {
    fn at(turns: &'a Turns<K>) -> Self {
        turns.present.fetch_add(1, Ordering::AcqRel);
        Self(turns)
    }
}

impl<K> Drop for Present<'_, K> {
    fn drop(&mut self) {
        if self.0.present.fetch_sub(1, Ordering::AcqRel) == 1
            && let Ok(mut turn) = self.0.turn.try_lock()
        {
            turn.last = HashMap::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use futures::future::join_all;
    use futures::{FutureExt, poll};
    use tokio::sync::oneshot;

    use super::*;

    /// Longer than any test takes.
    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn requests_that_wait_share_an_answer_that_was_begun_after_them() {
        let (turns, made) = (Turns::default(), Arc::new(AtomicUsize::new(0)));
        let ((begin, begun), (go, may_go)) = (oneshot::channel(), mpsc::channel::<()>());
        let first = turns.answer("text", {
            let made = made.clone();
            move || {
                begin.send(()).unwrap();
                may_go.recv().unwrap();
                vec![u8::try_from(made.fetch_add(1, Ordering::AcqRel)).unwrap()]
            }
        });
        let mut first = Box::pin(first);
        tokio::select! {
            _ = &mut first => panic!("it is being made"),
            begun = begun => begun.unwrap(),
        }
        let others = (0..100).map(|number| {
            let made = made.clone();
            turns.answer(if number % 2 == 0 { "text" } else { "gzip" }, move || {
                vec![u8::try_from(made.fetch_add(1, Ordering::AcqRel)).unwrap()]
            })
        });
        let mut others = Box::pin(join_all(others));
        assert!(poll!(&mut others).is_pending(), "they came while the first was being made");
        go.send(()).unwrap();
        let (first, others) = tokio::join!(first, others);
        assert_eq!(first.unwrap(), [0].as_slice());
        let others: Vec<Bytes> = others.into_iter().map(Result::unwrap).collect();
        assert!(others.iter().step_by(2).all(|answer| *answer == [1].as_slice()), "{others:?}");
        assert!(others.iter().skip(1).step_by(2).all(|answer| *answer == [2].as_slice()), "{others:?}");
        assert!(turns.turn.lock().await.last.is_empty(), "nothing is kept when all have left");
    }

    #[tokio::test]
    async fn a_flood_of_requests_leaves_most_of_the_time_to_others() {
        const COST: Duration = Duration::from_millis(5);
        let (turns, made) = (Turns::default(), Arc::new(AtomicUsize::new(0)));
        let began = std::time::Instant::now();
        let flood = (0..16).map(|_| async {
            for _ in 0..5 {
                let made = made.clone();
                let make = move || {
                    thread::sleep(COST);
                    made.fetch_add(1, Ordering::AcqRel);
                    Vec::new()
                };
                turns.answer((), make).await.unwrap();
            }
        });
        join_all(flood).await;
        let (made, took) = (u32::try_from(made.load(Ordering::Acquire)).unwrap(), began.elapsed());
        assert!((2..=80).contains(&made), "{made} were made");
        // There is no rest after the last one.
        let least = COST * (made - 1) * (1 + REST);
        assert!(took >= least, "{made} answers were made in {took:?}");
    }

    #[tokio::test]
    async fn a_client_that_disconnects_does_not_make_room_for_a_second_answer_beside_the_first() {
        let ((begin, begun), (go, may_go)) = (oneshot::channel(), mpsc::channel::<()>());
        let turns = Turns::default();
        let mut gone = Box::pin(turns.answer((), move || {
            begin.send(()).unwrap();
            may_go.recv().unwrap();
            vec![1]
        }));
        tokio::select! {
            _ = &mut gone => panic!("it is being made"),
            begun = begun => begun.unwrap(),
        }
        drop(gone);
        let mut next = Box::pin(turns.answer((), || vec![2]));
        assert!(poll!(&mut next).is_pending());
        assert!(turns.turn.try_lock().is_err(), "the first is still being made");
        go.send(()).unwrap();
        assert_eq!(next.await.unwrap(), [2].as_slice());
    }

    #[tokio::test(start_paused = true)]
    async fn a_rest_has_a_limit_and_a_panic_ends_one_answer_only() {
        let turns: Turns<()> = Turns::default();
        turns.turn.lock().await.next = Instant::now() + LONG;
        assert!(turns.answer((), || vec![1]).now_or_never().is_none(), "it rests");
        turns.turn.lock().await.next = Instant::now();
        assert!(turns.answer((), || panic!("of a test")).await.unwrap_err().is_panic());
        assert_eq!(turns.answer((), || vec![2]).await.unwrap(), [2].as_slice());
        for (took, rests) in
            [(LONG, MAX_REST), (Duration::MAX, MAX_REST), (Duration::from_millis(1), Duration::from_millis(9))]
        {
            assert_eq!(rest(took), rests, "after {took:?}");
        }
    }
}
