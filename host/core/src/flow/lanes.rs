//! Decides which call runs next: lanes take turns, and slow lanes have a fixed number of threads of their own.
//!
//! A call that turns out to be slow on a thread for quick ones is put off: as calls have no effects, it is dropped, and
//! made again from its beginning by a thread for slow ones. Its lane is slow from then on, until a call of it is not. So
//! however many plugins are slow, a quick call waits only for the calls before it, each of which ends or is put off
//! within the time after which a call is slow.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::flow::fair_queue::FairQueue;

/// The maximum number of slow calls at the same time.
pub const MAX_SLOW_CALLS: usize = 4;

/// The queue of one revision of a plugin. A clone is the same queue.
#[derive(Clone, Debug, Default)]
pub struct Lane(Arc<AtomicBool>);

/// Whether a call is slow. A lane has the pace of its last call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// The call is not slow.
    Quick,
    /// The call is slow.
    Slow,
}

/// Calls that wait or run, by lane. A lane runs one call at a time.
pub struct Lanes<J> {
    waiting: FairQueue<Lane, J>,
    /// The lanes of the calls that run.
    running: Vec<Lane>,
}

impl PartialEq for Lane {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Lane {}

impl Hash for Lane {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

impl Lane {
    /// Returns which threads run the next call.
    pub fn pace(&self) -> Pace {
        if self.0.load(Ordering::Relaxed) { Pace::Slow } else { Pace::Quick }
    }
}

impl<J> Default for Lanes<J> {
    fn default() -> Self {
        Self { waiting: FairQueue::default(), running: Vec::new() }
    }
}

impl<J> Lanes<J> {
    /// Queues a call. Returns whether its lane became ready.
    pub fn push(&mut self, lane: &Lane, job: J) -> bool {
        let becomes_ready = self.waiting.waiting(lane) == 0 && !self.running.contains(lane);
        self.waiting.push(lane, job);
        becomes_ready
    }

    /// Begins the next call of a pace; [`Lanes::end`] must follow.
    pub fn dispatch(&mut self, pace: Pace) -> Option<(Lane, J)> {
        let Self { waiting, running } = self;
        let next = waiting.pop_where(|lane| lane.pace() == pace && !running.contains(lane))?;
        running.push(next.0.clone());
        Some(next)
    }

    /// Ends a call that turned out to have this pace. A call that is put off is made again, before the others of its lane.
    /// Returns whether the lane is ready again.
    pub fn end(&mut self, lane: &Lane, pace: Pace, put_off: Option<J>) -> bool {
        lane.0.store(pace == Pace::Slow, Ordering::Relaxed);
        self.running.retain(|running| running != lane);
        if let Some(job) = put_off {
            self.waiting.push_first(lane, job);
        }
        self.waiting.waiting(lane) > 0
    }

    /// Drops the calls that wait in a lane.
    pub fn clear(&mut self, lane: &Lane) {
        self.waiting.remove(lane);
    }

    /// Drops all calls that wait.
    pub fn clear_all(&mut self) {
        self.waiting = FairQueue::default();
    }

    /// Returns whether no call runs or waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty()
    }

    /// Returns whether a call of a pace can begin.
    pub fn has_turn(&self, pace: Pace) -> bool {
        self.waiting.has_where(|lane| lane.pace() == pace && !self.running.contains(lane))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use Pace::{Quick, Slow};

    /// Queues a job for each number, which is that of its lane.
    fn queued(jobs: &[usize]) -> (Lanes<usize>, Vec<Lane>) {
        let count = jobs.iter().max().map_or(0, |last| last + 1);
        let (mut lanes, all): (_, Vec<_>) = (Lanes::default(), (0..count).map(|_| Lane::default()).collect());
        for number in jobs {
            lanes.push(&all[*number], *number);
        }
        (lanes, all)
    }

    #[test]
    fn lanes_take_turns() {
        let (mut lanes, _) = queued(&[1, 1, 1, 1, 2, 3]);
        let mut order = Vec::new();
        while let Some((lane, number)) = lanes.dispatch(Quick) {
            order.push(number);
            lanes.end(&lane, Quick, None);
        }
        assert_eq!(order, [1, 2, 3, 1, 1, 1]);
        assert!(lanes.is_empty());
    }

    #[test]
    fn a_lane_never_runs_twice_at_once_and_is_ready_once_until_its_call_ends() {
        let (mut lanes, lane) = (Lanes::default(), Lane::default());
        assert!(lanes.push(&lane, 0) && !lanes.push(&lane, 1));
        assert_eq!(lanes.dispatch(Quick), Some((lane.clone(), 0)));
        assert!(!lanes.has_turn(Quick) && lanes.dispatch(Quick).is_none() && !lanes.push(&lane, 2));
        assert!(lanes.end(&lane, Quick, None) && lanes.has_turn(Quick));
        assert_eq!(lanes.dispatch(Quick), Some((lane, 1)));
    }

    #[test]
    fn a_call_that_is_put_off_is_the_first_of_its_lane_which_is_slow_until_a_call_is_not() {
        let (mut lanes, lane) = (Lanes::default(), Lane::default());
        for number in 0..3 {
            lanes.push(&lane, number);
        }
        let (_, first) = lanes.dispatch(Quick).unwrap();
        assert!(lanes.end(&lane, Slow, Some(first)) && lanes.has_turn(Slow) && !lanes.has_turn(Quick));
        for number in 0..2 {
            assert_eq!((lanes.dispatch(Quick), lanes.dispatch(Slow)), (None, Some((lane.clone(), number))));
            lanes.end(&lane, if number == 0 { Slow } else { Quick }, None);
        }
        assert_eq!((lanes.dispatch(Slow), lanes.dispatch(Quick)), (None, Some((lane, 2))));
    }

    #[test]
    fn the_calls_that_wait_in_a_cleared_lane_are_dropped_and_later_ones_are_made() {
        let (mut lanes, all) = queued(&[0, 0, 1]);
        let (cleared, first) = lanes.dispatch(Quick).unwrap();
        lanes.end(&cleared, Slow, Some(first));
        lanes.clear(&cleared);
        assert_eq!((lanes.dispatch(Slow), lanes.dispatch(Quick)), (None, Some((all[1].clone(), 1))));
        assert!(lanes.push(&cleared, 2));
        assert_eq!(lanes.dispatch(Slow), Some((cleared, 2)));
    }

    const THREADS: usize = 2;

    /// A simulation of the threads, step by step. A job is the number of its lane, whose calls take this many steps; one of
    /// more than one step is slow.
    struct Pool {
        lanes: Lanes<usize>,
        steps: Vec<u8>,
        quick: Vec<(Lane, usize)>,
        slow: Vec<(Lane, usize, u8)>,
        ended: Vec<usize>,
    }

    impl Pool {
        /// Lets every call run for one step. Each lane whose call ended makes another call.
        fn step(&mut self) {
            let mut ended = Vec::new();
            for (lane, number) in std::mem::take(&mut self.quick) {
                match self.steps[number] {
                    1 => ended.push((lane, number, Quick)),
                    _ => assert!(self.lanes.end(&lane, Slow, Some(number))),
                }
            }
            self.slow.iter_mut().for_each(|(.., left)| *left -= 1);
            let done = self.slow.extract_if(.., |(.., left)| *left == 0);
            ended.extend(done.map(|(lane, number, _)| (lane, number, Slow)));
            for (lane, number, pace) in ended {
                self.ended[number] += 1;
                self.lanes.push(&lane, number);
                self.lanes.end(&lane, pace, None);
            }
            while self.quick.len() < THREADS
                && let Some(call) = self.lanes.dispatch(Quick)
            {
                self.quick.push(call);
            }
            while self.slow.len() < MAX_SLOW_CALLS
                && let Some((lane, number)) = self.lanes.dispatch(Slow)
            {
                self.slow.push((lane, number, self.steps[number]));
            }
        }
    }

    proptest! {
        #[test]
        fn a_quick_call_waits_for_no_slow_one_and_a_slow_one_only_for_those_before_it(
            steps in prop::collection::vec(1_u8..40, 1..24),
        ) {
            let steps: Vec<_> = steps.into_iter().chain([1]).collect();
            let count = steps.len();
            let (lanes, _) = queued(&(0..count).collect::<Vec<_>>());
            let mut pool = Pool { lanes, steps, quick: Vec::new(), slow: Vec::new(), ended: vec![0; count] };
            let rounds = 40 * count;
            (0..rounds).for_each(|_| pool.step());
            for (steps, ended) in pool.steps.into_iter().zip(pool.ended) {
                if steps == 1 {
                    // Between two of its calls each other lane has at most one call on the threads for quick ones.
                    prop_assert!(ended * (count + 1) >= rounds - count, "{} of {}", ended, rounds);
                } else {
                    prop_assert!(ended > 0, "a slow lane never had a turn");
                }
            }
        }
    }
}
