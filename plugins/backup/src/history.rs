//! Which finished runs are kept.

use hotshoe_sdk::Time;

use crate::api::HistoryLimit;
use crate::runs::{Run, State};

/// Returns the runs to keep: all unfinished ones, the last one, and the latest finished ones up to the limit.
pub(crate) fn kept<'a>(now: Time, limit: &HistoryLimit, runs: &'a [Run]) -> Vec<&'a Run> {
    // A run with a time after now began before the clock was set back, so it counts as older than the others.
    let mut latest: Vec<&Run> = runs.iter().collect();
    latest.sort_by_key(|run| std::cmp::Reverse((run.time <= now, run.time)));
    let (mut successful, mut failed) = (limit.successful, limit.failed);
    let mut room = |run: &Run, is_last: bool| {
        let left = match run.state {
            State::Running => return true,
            State::Succeeded { .. } => &mut successful,
            State::Failed { .. } => &mut failed,
        };
        *left -= 1;
        is_last || *left >= 0
    };
    latest.into_iter().enumerate().filter(|(place, run)| room(run, *place == 0)).map(|(_, run)| run).collect()
}
