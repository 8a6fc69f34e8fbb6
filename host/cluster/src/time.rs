//! The time of the clock, as seconds since the epoch and as Kubernetes writes it (RFC 3339).

use std::time::{SystemTime, UNIX_EPOCH};

use k8s_openapi::jiff::Timestamp;

/// Returns the time now, in milliseconds since the epoch.
pub fn unix_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the time now, in seconds since the epoch.
pub fn unix_seconds() -> u64 {
    unix_millis() / 1000
}

/// Returns the time now as Kubernetes formats it.
pub fn now() -> String {
    at(unix_seconds()).unwrap_or_default()
}

/// Formats seconds after the epoch as Kubernetes does; `None` if that form has no such year.
pub fn at(seconds: u64) -> Option<String> {
    let time = Timestamp::from_second(i64::try_from(seconds).ok()?).ok()?;
    Some(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// Returns the seconds after the epoch of a time in the format of Kubernetes; `None` for another text, or a time before
/// the epoch.
pub fn seconds(time: &str) -> Option<u64> {
    u64::try_from(time.parse::<Timestamp>().ok()?.as_second()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_and_read_as_kubernetes_does() {
        assert_eq!(at(1_795_406_400).as_deref(), Some("2026-11-23T04:00:00Z"));
        assert_eq!(seconds("2026-11-23T04:00:00Z"), Some(1_795_406_400));
        assert_eq!(at(u64::MAX), None);
        assert_eq!([seconds("yesterday"), seconds("1960-01-01T00:00:00Z")], [None, None]);
        assert!(seconds(&now()).is_some_and(|now| now.abs_diff(unix_seconds()) < 60));
    }
}
