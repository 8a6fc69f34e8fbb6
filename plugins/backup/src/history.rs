//! Which finished runs are kept.

use hotshoe_sdk::Time;

use crate::api::HistoryLimit;
use crate::runs::{Run, State};

/// The runs that are kept: those that are not finished, the last one, and of the finished ones the latest.
pub(crate) fn kept<'a>(now: Time, limit: &HistoryLimit, runs: &'a [Run]) -> Vec<&'a Run> {
    // What is after now was before the clock was set back.
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
