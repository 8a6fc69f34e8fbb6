//! Points in time, as Kubernetes writes them and as [`Request::now`](crate::Request::now) shows them.

use std::{fmt, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// From `0000-03-01`, where the arithmetic below begins its years, to the Unix epoch.
const EPOCH_DAY: i64 = 719_468;
/// A cycle of the Gregorian calendar is 400 years.
const CYCLE_DAYS: i64 = 146_097;

/// A point in time, in whole seconds. It is written as in RFC 3339, for example `2026-01-31T12:00:00Z`, like the times
/// in Kubernetes objects.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Time(i64);

impl Time {
    /// `0001-01-01T00:00:00Z`, the earliest time that can be written; earlier ones are clamped to it.
    pub const MIN: Self = Self(-62_135_596_800);
    /// `9999-12-31T23:59:59Z`, the latest time that can be written; later ones are clamped to it.
    pub const MAX: Self = Self(253_402_300_799);

    /// The time this many seconds after the Unix epoch.
    pub fn from_unix(seconds: i64) -> Self {
        Self(seconds.clamp(Self::MIN.0, Self::MAX.0))
    }

    /// The time this many milliseconds after the Unix epoch, as in `now`; a fraction of a second is dropped.
    pub fn from_unix_millis(millis: u64) -> Self {
        Self::from_unix(i64::try_from(millis / 1000).unwrap_or(i64::MAX))
    }

    /// The seconds since the Unix epoch.
    pub fn unix(self) -> i64 {
        self.0
    }

    /// The time this many seconds later; a negative number gives an earlier time.
    #[must_use]
    pub fn plus_seconds(self, seconds: i64) -> Self {
        Self::from_unix(self.0.saturating_add(seconds))
    }

    /// The number of seconds from `earlier` to this time; negative where this time comes first.
    pub fn seconds_since(self, earlier: Self) -> i64 {
        self.0 - earlier.0
    }

    /// The duration from this time until `later`; zero where `later` comes first.
    pub fn until(self, later: Self) -> Duration {
        Duration::from_secs(u64::try_from(later.seconds_since(self)).unwrap_or_default())
    }

    /// Parses a time as in RFC 3339; a fraction of a second is dropped.
    pub fn parse(text: &str) -> Option<Self> {
        let (date, time) = text.split_once(['T', 't'])?;
        let (clock, offset) = time.split_at_checked(time.find(['Z', 'z', '+', '-'])?)?;
        let whole = clock.split_once('.').map_or(Some(clock), |(whole, part)| is_number(part).then_some(whole))?;
        let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
        let [hour, minute, second] = numbers(whole, ':', [2, 2, 2])?;
        // A leap second has no number of its own.
        let is_of_a_day = hour < 24 && minute < 60 && second <= 60;
        let days = days_of(year, month, day).filter(|_| is_of_a_day)?;
        let seconds = days * DAY + hour * HOUR + minute * MINUTE + second.min(59);
        Some(Self::from_unix(seconds - seconds_of_offset(offset)?))
    }
}

/// Parses three separated numbers of exactly these many digits.
fn numbers(text: &str, separator: char, digits: [usize; 3]) -> Option<[i64; 3]> {
    let mut parts = text.split(separator);
    let mut next = |digits: usize| {
        let part = parts.next().filter(|part| part.len() == digits && is_number(part))?;
        part.parse().ok()
    };
    let [first, second, third] = digits;
    let found = [next(first)?, next(second)?, next(third)?];
    parts.next().is_none().then_some(found)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn seconds_of_offset(offset: &str) -> Option<i64> {
    if matches!(offset, "Z" | "z") {
        return Some(0);
    }
    let (sign, offset) = offset.split_at_checked(1)?;
    let [hours, minutes, _] = numbers(&format!("{offset}:00"), ':', [2, 2, 2])?;
    let seconds = hours * HOUR + minutes * MINUTE;
    let is_of_a_day = hours < 24 && minutes < 60;
    is_of_a_day.then_some(if sign == "-" { -seconds } else { seconds })
}

/// The days from the Unix epoch to a date, where there is such a date.
///
/// After Howard Hinnant, <https://howardhinnant.github.io/date_algorithms.html>.
fn days_of(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=12).contains(&month) {
        return None;
    }
    // Years begin in March, so that the leap day is the last of one.
    let shifted = if month <= 2 { year - 1 } else { year };
    let of_cycle = shifted.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = of_cycle * 365 + of_cycle / 4 - of_cycle / 100 + of_year;
    let days = shifted.div_euclid(400) * CYCLE_DAYS + days - EPOCH_DAY;
    (date_of(days) == (year, month, day)).then_some(days)
}

/// Year, month and day.
fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + EPOCH_DAY;
    let of_cycle = days.rem_euclid(CYCLE_DAYS);
    let year = (of_cycle - of_cycle / 1_460 + of_cycle / 36_524 - of_cycle / 146_096) / 365;
    let of_year = of_cycle - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + days.div_euclid(CYCLE_DAYS) * 400;
    (if month <= 2 { year + 1 } else { year }, month, day)
}

impl fmt::Display for Time {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = date_of(self.0.div_euclid(DAY));
        let second = self.0.rem_euclid(DAY);
        let (hour, minute, second) = (second / HOUR, second % HOUR / MINUTE, second % MINUTE);
        write!(formatter, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl de::Visitor<'_> for Text {
            type Value = Time;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a time such as 2026-01-31T12:00:00Z")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Time, E> {
                Time::parse(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }

        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unix(text: &str) -> Option<i64> {
        Time::parse(text).map(Time::unix)
    }

    #[test]
    fn times_are_read_as_kubernetes_writes_them() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2026-01-31T12:00:00Z", 1_769_860_800),
            ("2024-02-29T23:59:59Z", 1_709_251_199),
            ("2000-03-01T00:00:00Z", 951_868_800),
            ("1900-02-28T00:00:00Z", -2_203_977_600),
            ("2026-01-31T12:00:00.999999Z", 1_769_860_800),
            ("2026-01-31T13:30:00+01:30", 1_769_860_800),
            ("2026-01-31T04:00:00-08:00", 1_769_860_800),
            ("2016-12-31T23:59:60Z", 1_483_228_799),
        ] {
            assert_eq!(unix(text), Some(seconds), "{text}");
        }
    }

    #[test]
    fn a_text_that_is_no_time_is_refused() {
        for text in [
            "",
            "now",
            "2026-01-31",
            "2026-01-31T12:00:00",
            "2026-01-31 12:00:00Z",
            "2026-02-29T12:00:00Z",
            "1900-02-29T12:00:00Z",
            "2026-13-01T12:00:00Z",
            "2026-00-01T12:00:00Z",
            "2026-01-00T12:00:00Z",
            "2026-01-31T24:00:00Z",
            "2026-01-31T12:60:00Z",
            "2026-01-31T12:00:61Z",
            "2026-01-31T12:00:00.Z",
            "2026-01-31T12:00:00.aZ",
            "2026-01-31T12:00:00+1",
            "2026-01-31T12:00:00+24:00",
            "2026-01-31T12:00:00Zulu",
            "+026-01-31T12:00:00Z",
            "2026-1-31T12:00:00Z",
            "2026-01-31T12:00Z",
            "ä026-01-31T12:00:00Z",
        ] {
            assert_eq!(unix(text), None, "{text}");
        }
    }

    #[test]
    fn every_day_of_eight_hundred_years_is_written_and_read_as_itself() {
        for day in -150_000..150_000 {
            let time = Time::from_unix(day * DAY + 12_345);
            assert_eq!(Time::parse(&time.to_string()), Some(time), "{time}");
        }
    }

    #[test]
    fn a_time_that_cannot_be_written_is_clamped_to_one_that_can() {
        assert_eq!(Time::from_unix(i64::MAX).to_string(), "9999-12-31T23:59:59Z");
        assert_eq!(Time::from_unix(i64::MIN).to_string(), "0001-01-01T00:00:00Z");
        assert_eq!(Time::MAX.plus_seconds(i64::MAX), Time::MAX);
        assert_eq!(Time::from_unix_millis(u64::MAX), Time::MAX);
        for end in [Time::MIN, Time::MAX] {
            assert_eq!(Time::parse(&end.to_string()), Some(end));
        }
    }

    #[test]
    fn the_duration_until_a_time_in_the_past_is_zero() {
        let (noon, later) = (Time::from_unix(0), Time::from_unix(90));
        assert_eq!(noon.until(later), Duration::from_secs(90));
        assert_eq!(later.until(noon), Duration::ZERO);
        assert_eq!((later.seconds_since(noon), noon.seconds_since(later)), (90, -90));
        assert_eq!(Time::from_unix_millis(90_999), later);
    }

    #[test]
    fn a_time_is_a_string_in_json() {
        let time: Time = serde_json::from_str("\"2026-01-31T12:00:00Z\"").unwrap();
        assert_eq!(serde_json::to_string(&time).unwrap(), "\"2026-01-31T12:00:00Z\"");
        let error = serde_json::from_str::<Time>("\"soon\"").unwrap_err().to_string();
        assert!(error.contains("a time such as 2026-01-31T12:00:00Z"), "{error}");
    }
}
