//! The clock of Leases and of the permits to write.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use hotshoe_core::flow::boot_time::BootTime;

/// Returns the time by a clock that goes on while the machine is suspended.
pub(super) fn now() -> BootTime {
    let now = clock_gettime(ClockId::Boottime);
    let (seconds, nanos) =
        (u64::try_from(now.tv_sec).unwrap_or_default(), u32::try_from(now.tv_nsec).unwrap_or_default());
    BootTime::at(Duration::new(seconds, nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_counts_the_time_in_which_the_machine_was_suspended() {
        // Linux counts that in this file, too.
        let uptime = || {
            let text = std::fs::read_to_string("/proc/uptime").unwrap();
            Duration::from_secs_f64(text.split(' ').next().unwrap().parse().unwrap())
        };
        let tick = Duration::from_millis(20);
        let (before, now, after) = (uptime(), now(), uptime());
        assert!(
            BootTime::at(before) <= now + tick && now <= BootTime::at(after) + tick,
            "{before:?} {now:?} {after:?}"
        );
    }
}
