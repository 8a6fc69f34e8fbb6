//! The tasks that watch what the parents of a plugin [need](crate::reconcile::needed): one for each object and for each
//! selection of objects, for as long as a parent needs it. They queue the parents when it changes.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;

use crate::reconcile::controller::Controller;
use hotshoe_cluster::error::{APPLY_RIGHTS, ApiError};
use hotshoe_cluster::needed_watch::ObjectEvent;
use hotshoe_core::flow::backoff::{jittered, under_load};
use hotshoe_core::flow::needs::{NeededObject, Seen};
use hotshoe_platform::spans;

/// How long the changes of an object, or of a selection, are gathered before its parents are queued again. An object that
/// changes all the time has them reconciled twice a second.
const GATHERING: Duration = Duration::from_millis(500);
/// A watch that has stood for this long has not failed when it ends: the API server ends each after a minute.
const LASTING: Duration = Duration::from_secs(5);

/// Watches what the parents of a plugin need, for as long as the plugin runs.
pub async fn run(controller: Arc<Controller>) {
    let mut watches = HashMap::new();
    loop {
        let needed = controller.needed.objects();
        watches.retain(|object, _| needed.contains(object));
        for object in needed {
            watches.entry(object).or_insert_with_key(|object| {
                let span = spans::object(&controller.name, None, &object.wanted);
                let watch = Watch { controller: controller.clone(), object: object.clone(), after: None };
                AbortOnDropHandle::new(tokio::spawn(watch.run().instrument(span)))
            });
        }
        controller.needed.changed().await;
    }
}

/// The watch of one object, or of one selection.
struct Watch {
    controller: Arc<Controller>,
    object: NeededObject,
    /// The version after which it continues; none if it begins with the objects as they are.
    after: Option<u64>,
}

impl Watch {
    /// Watches until this is dropped.
    async fn run(mut self) {
        let mut failures = 0;
        loop {
            // On the heap: the request takes much more memory than the open watch, and only until that is open.
            let request = Box::pin(self.controller.writer.watch_as_plugin(&self.object.wanted, self.after));
            match request.await {
                Ok(events) => {
                    let began = Instant::now();
                    self.controller.needed.stands(&self.object);
                    let mut after = self.after;
                    match relay(pin!(events.stream()), &mut after, |seen| self.observe(seen)).await {
                        End::Closed => self.after = after,
                        End::Expired => self.lose(),
                    }
                    failures = if began.elapsed() < LASTING { failures + 1 } else { 0 };
                }
                Err(error) => {
                    failures += 1;
                    self.fail(&error, failures);
                    self.pause(error.pause(failures).max(under_load(failures))).await;
                    continue;
                }
            }
            if failures > 0 {
                self.pause(under_load(failures)).await;
            }
        }
    }

    fn observe(&self, seen: Seen) {
        let due = self.controller.needed.observe(&self.object, seen);
        due.into_iter().for_each(|parent| self.controller.queue.add(parent));
    }

    /// Records a failure. A single one that should pass is none: the watch continues from where it was.
    fn fail(&mut self, error: &ApiError, failures: u32) {
        if error.is_transient() && failures == 1 {
            return;
        }
        let kind = self.object.wanted.kind();
        if error.code == 403 && !error.after_outage && self.controller.needed.is_newly_forbidden(kind) {
            tracing::warn!(
                "the plugin's account may not watch this, so it is read again every 15 s, as others of this kind \
                 may be: {error}; {APPLY_RIGHTS}"
            );
        }
        self.lose();
    }

    /// Records that changes may have been missed.
    fn lose(&mut self) {
        self.after = None;
        let due = self.controller.needed.fails(&self.object);
        due.into_iter().for_each(|parent| self.controller.queue.add(parent));
    }

    async fn pause(&self, pause: Duration) {
        sleep(jittered(pause, RandomState::new().hash_one(&self.object))).await;
    }
}

/// How a watch has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It continues from where it was.
    Closed,
    /// It cannot continue.
    Expired,
}

/// Hands the events of a watch on until it ends: of those that are gathered, only the latest. Keeps the version `after`
/// which it continues.
async fn relay(
    mut events: Pin<&mut impl Stream<Item = ObjectEvent>>,
    after: &mut Option<u64>,
    mut hand_on: impl FnMut(Seen),
) -> End {
    let (mut gathered, mut until) = (None, Instant::now());
    let end = loop {
        if gathered.is_some() && Instant::now() >= until {
            gathered.take().into_iter().for_each(&mut hand_on);
            until = Instant::now() + GATHERING;
        }
        let event = tokio::select! {
            event = events.next() => event,
            () = sleep_until(until), if gathered.is_some() => continue,
        };
        match event {
            Some(ObjectEvent::Seen(seen)) => gathered = Some(seen.or_later(gathered)),
            Some(ObjectEvent::Bookmark(_)) => {}
            Some(ObjectEvent::Expired) => break End::Expired,
            None => break End::Closed,
        }
        *after = event.and_then(ObjectEvent::version).max(*after);
    };
    gathered.into_iter().for_each(hand_on);
    end
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use hotshoe_core::flow::needs::Seen::{Gone, Present};

    use super::*;

    /// Relays events that come at this interval, and then the end of the watch.
    async fn relayed(events: Vec<ObjectEvent>, interval: Duration) -> (End, Option<u64>, Vec<Seen>) {
        let events = stream::iter(events).then(|event| async move {
            sleep(interval).await;
            event
        });
        let (mut after, mut handed_on) = (Some(1), Vec::new());
        let end = relay(pin!(events), &mut after, |seen| handed_on.push(seen)).await;
        (end, after, handed_on)
    }

    #[test]
    fn the_task_of_a_watch_has_no_room_for_the_request_that_opens_it() {
        /// Returns the size of what a function returns.
        fn size_of_result<F>(_: impl FnOnce(Watch) -> F) -> usize {
            size_of::<F>()
        }
        let size = size_of_result(Watch::run);
        assert!((200..2_000).contains(&size), "a thousand watches are a thousand tasks of {size} bytes");
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_is_handed_on_at_once_and_of_thousands_a_second_two_with_the_last() {
        let each = (2..10_002).map(|version| ObjectEvent::Seen(Present(version))).collect();
        let (end, after, handed_on) = relayed(each, Duration::from_millis(1)).await;
        assert_eq!(
            (end, after, handed_on.first(), handed_on.last()),
            (End::Closed, Some(10_001), Some(&Present(2)), Some(&Present(10_001)))
        );
        assert!((20..=22).contains(&handed_on.len()), "{} in ten seconds", handed_on.len());
        let seldom = [Present(5), Gone(6), Present(7)];
        let (.., handed_on) = relayed(seldom.map(ObjectEvent::Seen).to_vec(), GATHERING).await;
        assert_eq!(handed_on, seldom);
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_continues_after_the_last_version_that_it_has_shown() {
        let changed = ObjectEvent::Seen(Present(7));
        let none_to_continue_at = ObjectEvent::Seen(Present(u64::MAX));
        for (events, end, after, handed_on) in [
            (vec![], End::Closed, 1, vec![]),
            (vec![changed, ObjectEvent::Bookmark(9)], End::Closed, 9, vec![Present(7)]),
            (vec![changed, none_to_continue_at], End::Closed, 7, vec![Present(7), Present(u64::MAX)]),
            (vec![changed, ObjectEvent::Expired, changed], End::Expired, 7, vec![Present(7)]),
            // The events with which the watch of a selection begins come in any order.
            (
                vec![ObjectEvent::Seen(Present(2)), changed, ObjectEvent::Seen(Present(3))],
                End::Closed,
                7,
                vec![Present(2), Present(7)],
            ),
        ] {
            assert_eq!(relayed(events, Duration::ZERO).await, (end, Some(after), handed_on));
        }
    }
}
