//! Decides which call runs next: lanes take turns, and there is a fixed number of places for slow calls.
//!
//! A call begins without a place. If it turns out to be slow, it takes a place among the slow calls. If no place is
//! free, the call is put off: as calls have no effects, it is dropped, and made again from its beginning once it has a
//! place. So however many plugins are slow, a quick call waits only for the calls before it, each of which ends or
//! steps aside within the time after which a call is slow.

use std::collections::{BTreeMap, VecDeque};

/// The maximum number of slow calls at the same time.
pub const MAX_SLOW_CALLS: usize = 4;

/// The queue of one revision of a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lane(pub u64);

/// A call that runs. [`Lanes::end`] or [`Lanes::put_off`] must follow.
pub struct Dispatched<J> {
    /// The lane of the call.
    pub lane: Lane,
    /// The work of the call.
    pub job: J,
    /// Whether the call has a place among the slow ones.
    pub has_place: bool,
}

/// Calls that wait, by lane.
pub struct Lanes<J> {
    lanes: BTreeMap<Lane, Waiting<J>>,
    /// The lanes that have jobs and run none, each once; the first is next.
    turns: VecDeque<Lane>,
    /// The lanes whose next call waits for a place among the slow ones.
    put_off: VecDeque<Lane>,
    /// The number of taken places.
    slow: usize,
}

struct Waiting<J> {
    jobs: VecDeque<J>,
    state: State,
}

/// The state of a lane.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The lane is in `turns`, unless it has no jobs.
    Ready,
    /// The lane is in `turns`, and its next call has a place among the slow ones.
    ReadyWithPlace,
    /// The lane is in `put_off`.
    PutOff,
    /// A call of the lane runs.
    Running,
}

impl<J> Default for Lanes<J> {
    fn default() -> Self {
        Self { lanes: BTreeMap::new(), turns: VecDeque::new(), put_off: VecDeque::new(), slow: 0 }
    }
}

impl<J> Lanes<J> {
    /// Queues a job. Returns whether its lane became ready.
    pub fn push(&mut self, lane: Lane, job: J) -> bool {
        let empty = || Waiting { jobs: VecDeque::new(), state: State::Ready };
        let waiting = self.lanes.entry(lane).or_insert_with(empty);
        let becomes_ready = waiting.jobs.is_empty() && waiting.state == State::Ready;
        waiting.jobs.push_back(job);
        if becomes_ready {
            self.turns.push_back(lane);
        }
        becomes_ready
    }

    /// Begins the next call.
    pub fn dispatch(&mut self) -> Option<Dispatched<J>> {
        let lane = self.turns.pop_front()?;
        let waiting = self.lanes.get_mut(&lane)?;
        let has_place = waiting.state == State::ReadyWithPlace;
        waiting.state = State::Running;
        Some(Dispatched { lane, job: waiting.jobs.pop_front()?, has_place })
    }

    /// Takes a place for a running call that turned out to be slow. Returns whether a place was free.
    pub fn take_place(&mut self) -> bool {
        let is_free = self.slow < MAX_SLOW_CALLS;
        self.slow += usize::from(is_free);
        is_free
    }

    /// Ends a call. Returns how many lanes became ready.
    pub fn end(&mut self, lane: Lane, had_place: bool) -> usize {
        let next_slow = had_place && self.give_place();
        usize::from(self.is_ready_again(lane)) + usize::from(next_slow)
    }

    /// Puts a call off until it has a place. Returns whether a place is free at once.
    pub fn put_off(&mut self, lane: Lane, job: J) -> bool {
        let has_place = self.take_place();
        let Some(waiting) = self.lanes.get_mut(&lane) else { return false };
        waiting.jobs.push_front(job);
        waiting.state = if has_place { State::ReadyWithPlace } else { State::PutOff };
        if has_place { &mut self.turns } else { &mut self.put_off }.push_back(lane);
        has_place
    }

    /// Drops the jobs that wait in a lane. Returns how many other lanes became ready.
    pub fn clear(&mut self, lane: Lane) -> usize {
        let Some(waiting) = self.lanes.get_mut(&lane) else { return 0 };
        waiting.jobs.clear();
        let state = waiting.state;
        if state == State::Running {
            return 0;
        }
        self.lanes.remove(&lane);
        self.turns.retain(|turn| *turn != lane);
        self.put_off.retain(|turn| *turn != lane);
        usize::from(state == State::ReadyWithPlace && self.give_place())
    }

    /// Drops all jobs.
    pub fn clear_all(&mut self) {
        *self = Self::default();
    }

    /// Returns whether no call runs or waits.
    pub fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// Returns whether a call can begin.
    pub fn has_turn(&self) -> bool {
        !self.turns.is_empty()
    }

    /// Returns how many slow calls have a place.
    pub fn slow_calls(&self) -> usize {
        self.slow
    }

    /// Returns whether the next call of a lane waits for a place.
    pub fn is_put_off(&self, lane: Lane) -> bool {
        self.put_off.contains(&lane)
    }

    fn is_ready_again(&mut self, lane: Lane) -> bool {
        let Some(waiting) = self.lanes.get_mut(&lane) else { return false };
        waiting.state = State::Ready;
        if waiting.jobs.is_empty() {
            self.lanes.remove(&lane);
            return false;
        }
        self.turns.push_back(lane);
        true
    }

    /// Passes a place on to the call that has waited longest for one. Returns whether a call waited.
    fn give_place(&mut self) -> bool {
        let next = self.put_off.pop_front();
        let Some((lane, waiting)) = next.and_then(|lane| Some((lane, self.lanes.get_mut(&lane)?))) else {
            self.slow = self.slow.saturating_sub(1);
            return false;
        };
        waiting.state = State::ReadyWithPlace;
        self.turns.push_back(lane);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Runs all calls. Returns the lanes in the order of their calls.
    fn run_all(lanes: &mut Lanes<()>) -> Vec<u64> {
        let mut order = Vec::new();
        while let Some(call) = lanes.dispatch() {
            order.push(call.lane.0);
            lanes.end(call.lane, call.has_place);
        }
        order
    }

    #[test]
    fn lanes_take_turns() {
        let mut lanes = Lanes::default();
        for lane in [1, 1, 1, 1, 2, 3] {
            lanes.push(Lane(lane), ());
        }
        assert_eq!(run_all(&mut lanes), [1, 2, 3, 1, 1, 1]);
    }

    #[test]
    fn a_lane_never_runs_twice_at_once() {
        let mut lanes = Lanes::default();
        for _ in 0..2 {
            lanes.push(Lane(1), ());
        }
        let call = lanes.dispatch().unwrap();
        assert!(lanes.dispatch().is_none());
        assert_eq!(lanes.end(call.lane, call.has_place), 1);
        assert!(lanes.dispatch().is_some());
    }

    /// Begins the next call, which turns out to be slow.
    fn slow(lanes: &mut Lanes<u64>) -> Dispatched<u64> {
        let call = lanes.dispatch().unwrap();
        Dispatched { has_place: call.has_place || lanes.take_place(), ..call }
    }

    #[test]
    fn a_slow_call_that_was_put_off_is_the_first_of_its_lane_once_a_place_is_free() {
        let mut lanes = Lanes::default();
        for lane in 0..=MAX_SLOW_CALLS as u64 {
            lanes.push(Lane(lane), 0);
            lanes.push(Lane(lane), 1);
        }
        let with_place: Vec<_> = (0..MAX_SLOW_CALLS).map(|_| slow(&mut lanes)).collect();
        assert!(with_place.iter().all(|call| call.has_place));
        let Dispatched { lane, job, has_place } = slow(&mut lanes);
        assert!(!has_place && !lanes.put_off(lane, job) && !lanes.has_turn());
        // The lane of the call that ended, which has another one, and the lane that was put off.
        assert_eq!(lanes.end(with_place[0].lane, true), 2);
        let again = lanes.dispatch().map(|call| (call.lane, call.job, call.has_place));
        let other = lanes.dispatch().map(|call| (call.lane, call.job, call.has_place));
        assert_eq!((again, other), (Some((lane, 0, true)), Some((Lane(0), 1, false))));
    }

    #[test]
    fn the_place_of_a_cleared_lane_passes_to_the_next_call() {
        let mut lanes = Lanes::default();
        for lane in 0..MAX_SLOW_CALLS as u64 + 2 {
            lanes.push(Lane(lane), 0);
        }
        let with_place: Vec<_> = (0..MAX_SLOW_CALLS).map(|_| slow(&mut lanes)).collect();
        for _ in 0..2 {
            let Dispatched { lane, job, .. } = slow(&mut lanes);
            lanes.put_off(lane, job);
        }
        assert_eq!(lanes.end(with_place[0].lane, true), 1);
        assert_eq!(lanes.clear(Lane(MAX_SLOW_CALLS as u64)), 1);
        assert_eq!(lanes.dispatch().map(|call| (call.lane.0, call.has_place)), Some((MAX_SLOW_CALLS as u64 + 1, true)));
    }

    const WORKERS: usize = 2;

    /// A simulation of two threads and the places, step by step. A job is the number of steps that it takes; a job of
    /// more than one step is slow.
    struct Pool {
        lanes: Lanes<u8>,
        quick: Vec<Dispatched<u8>>,
        slow: Vec<(Dispatched<u8>, u8)>,
        ended: BTreeMap<u64, u32>,
    }

    impl Pool {
        /// Lets every call run for one step. Each lane whose call ended makes another call.
        fn step(&mut self) {
            let mut ended = Vec::new();
            for (call, left) in &mut self.slow {
                *left -= 1;
                if *left == 0 {
                    ended.push((call.lane, call.job, true));
                }
            }
            self.slow.retain(|(_, left)| *left > 0);
            for call in std::mem::take(&mut self.quick) {
                match call.job {
                    1 => ended.push((call.lane, call.job, call.has_place)),
                    steps if call.has_place || self.lanes.take_place() => self.slow.push((call, steps - 1)),
                    steps => {
                        self.lanes.put_off(call.lane, steps);
                    }
                }
            }
            for (lane, steps, had_place) in ended {
                *self.ended.entry(lane.0).or_default() += 1;
                self.lanes.push(lane, steps);
                self.lanes.end(lane, had_place);
            }
            while self.quick.len() < WORKERS
                && let Some(call) = self.lanes.dispatch()
            {
                self.quick.push(call);
            }
        }
    }

    proptest! {
        #[test]
        fn a_quick_call_waits_for_no_slow_one_and_a_slow_one_only_for_those_before_it(
            steps in prop::collection::vec(1_u8..40, 1..24),
        ) {
            let mut pool = Pool {
                lanes: Lanes::default(), quick: Vec::new(), slow: Vec::new(), ended: BTreeMap::new(),
            };
            let plugins: Vec<_> = steps.into_iter().chain([1]).collect();
            for (lane, steps) in (0..).zip(&plugins) {
                pool.lanes.push(Lane(lane), *steps);
            }
            let rounds = 40 * plugins.len();
            for _ in 0..rounds {
                pool.step();
                prop_assert!(pool.slow.len() <= MAX_SLOW_CALLS);
            }
            for (lane, steps) in (0..).zip(&plugins) {
                let ended = pool.ended.get(&lane).copied().unwrap_or_default() as usize;
                if *steps == 1 {
                    // Between two of its calls each other lane has at most one call, or two where it is put off.
                    prop_assert!(ended * (plugins.len() + 1) >= rounds - plugins.len(), "{lane}: {ended} of {rounds}");
                } else {
                    prop_assert!(ended > 0, "{lane} never had a place");
                }
            }
        }
    }
}
