//! Times as Kubernetes writes them.

/// Parses a time such as `2026-01-31T12:00:00Z` into milliseconds since the Unix epoch; absent where the text is not a
/// time.
pub(crate) fn parse(text: &str) -> Option<u64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let [year, month, day] = numbers(date, '-')?;
    let (time, _) = time.split_once('.').unwrap_or((time, ""));
    let [hour, minute, second] = numbers(time, ':')?;
    let in_range = year >= 1970 && (1..=12).contains(&month) && (1..=31).contains(&day);
    let seconds = ((days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second;
    in_range.then_some(seconds.checked_mul(1000)?)
}

fn numbers(text: &str, separator: char) -> Option<[u64; 3]> {
    let mut parts = text.split(separator).map(|part| part.parse::<u32>().ok().map(u64::from));
    let numbers = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(numbers)
}

/// Days since the epoch in the Gregorian calendar, counting years from March so that the leap day is the last.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year.saturating_sub(1), month + 9) };
    let leap_days = year / 4 - year / 100 + year / 400;
    (365 * year + leap_days + (153 * month + 2) / 5 + day).saturating_sub(719_469)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_counted_from_the_epoch() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T12:00:00Z", 951_825_600),
            ("2000-03-01T00:00:00Z", 951_868_800),
            ("2026-01-31T23:59:59.123456Z", 1_769_903_999),
        ] {
            assert_eq!(parse(text), Some(seconds * 1000), "{text}");
        }
    }

    #[test]
    fn a_text_that_is_no_time_is_none() {
        for text in ["", "2026-01-01", "2026-01-01T00:00:00+01:00", "2026-13-01T00:00:00Z", "yesterday", "1-1-1T1:1:1Z"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
