//! Formats and patterns, as the API server reads them. Pure.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::civil::Date;
use regex::RegexBuilder;

/// The maximum size of a compiled pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 1_000_000;

/// Classes that have fewer characters in Go than here.
const OF_ASCII: [&str; 8] = [r"\b", r"\d", r"\s", r"\w", r"\B", r"\D", r"\S", r"\W"];

/// Formats of which any text is one for the API server. It ignores formats that it does not know.
const NO_FORMATS: [&str; 2] = ["password", "binary"];
/// Formats that the API server checks and that are not checked here.
/// <https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#validation>
const NOT_CHECKED: [&str; 16] = [
    "bsonobjectid",
    "cidr",
    "creditcard",
    "duration",
    "email",
    "hexcolor",
    "hostname",
    "isbn",
    "isbn10",
    "isbn13",
    "mac",
    "rgbcolor",
    "ssn",
    "uri",
    "uuid3",
    "uuid5",
];

/// Returns whether a text has a format; none if that is not known here.
pub(super) fn has_format(format: &str, text: &str) -> Option<bool> {
    match format {
        "byte" => Some(STANDARD.decode(text).is_ok()),
        "date" => Some(is_date(text)),
        "date-time" | "datetime" => Some(is_date_time(text)),
        "ipv4" => Some(text.parse::<Ipv4Addr>().is_ok()),
        "ipv6" => Some(text.parse::<Ipv6Addr>().is_ok()),
        "uuid" => Some(is_uuid(text)),
        "duration" if is_go_duration(text) => Some(true),
        _ if NO_FORMATS.contains(&format) || !NOT_CHECKED.contains(&format) => Some(true),
        _ => None,
    }
}

/// Returns the number that a text of digits of this length is.
fn number<T: FromStr>(text: &str, digits: usize) -> Option<T> {
    let is_number = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

/// Returns whether it is a date of the calendar, as in 2026-01-31.
fn is_date(text: &str) -> bool {
    let date = || {
        let mut parts = text.splitn(3, '-');
        let (year, month) = (number(parts.next()?, 4)?, number(parts.next()?, 2)?);
        Date::new(year, month, number(parts.next()?, 2)?).ok()
    };
    date().is_some()
}

/// Returns whether it is a time, as the API server reads one: it takes any offset, and any character before the fraction.
/// <https://github.com/kubernetes/kube-openapi/blob/master/pkg/validation/strfmt/time.go>
fn is_date_time(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['T', 't']) else { return false };
    let time = time.split(['T', 't']).next().unwrap_or_default();
    let Some((clock, rest)) = time.split_at_checked(8) else { return false };
    let zone = match rest.strip_suffix(['Z', 'z']) {
        Some(fraction) => Some(fraction),
        None => rest.len().checked_sub(6).and_then(|at| rest.split_at_checked(at)).and_then(|(fraction, offset)| {
            let offset = offset.strip_prefix(['+', '-'])?;
            is_clock(offset, &[99, 99]).then_some(fraction)
        }),
    };
    let is_fraction = |fraction: &str| {
        let digits = fraction.strip_prefix(|separator| separator != '\n');
        digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let is_zone = zone.is_some_and(|fraction| fraction.is_empty() || is_fraction(fraction));
    is_date(date) && is_clock(clock, &[23, 59, 59]) && is_zone
}

/// Returns whether it is two digits for each of these numbers, with colons between them, and none is greater.
fn is_clock(text: &str, most: &[u8]) -> bool {
    let parts: Vec<&str> = text.split(':').collect();
    let is_within = |(part, most): (&&str, &u8)| number::<u8>(part, 2).is_some_and(|number| number <= *most);
    parts.len() == most.len() && parts.iter().zip(most).all(is_within)
}

fn is_uuid(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    let digits = parts.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_hexdigit()));
    digits && [&[8, 4, 4, 4, 12][..], &[32]].contains(&lengths.as_slice())
}

/// Returns whether it is a sequence of whole numbers with units of Go, as in 1m30s. There are other durations.
fn is_go_duration(text: &str) -> bool {
    let units = text.split_inclusive(|letter: char| letter.is_ascii_alphabetic());
    let is_unit = |part: &str| {
        let digits = part.trim_end_matches(['h', 'm', 's']);
        digits.len() + 1 == part.len() && !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    !text.is_empty() && units.into_iter().all(is_unit)
}

/// Returns whether a part of a text matches a pattern, as for the API server, which takes the syntax of Go.
///
/// # Errors
/// If the pattern cannot be read here, or if its answer would depend on letters outside of ASCII, which Go leaves out of
/// classes such as `\w`.
pub(super) fn matches(pattern: &str, text: &str) -> Result<bool, String> {
    let read = RegexBuilder::new(pattern).size_limit(MAX_PATTERN_BYTES).build().map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => "it is too large".to_owned(),
        _ => "it cannot be read here".to_owned(),
    })?;
    if !text.is_ascii() && OF_ASCII.iter().any(|class| pattern.contains(class)) {
        return Err("its answer depends on letters outside of ASCII".to_owned());
    }
    Ok(read.is_match(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_checked_or_known_not_to_be() {
        for (format, right, wrong) in [
            ("byte", "YQ==", "YQ="),
            ("date", "2024-02-29", "2026-02-29"),
            ("date", "2026-12-31", "2026-13-01"),
            ("date-time", "2026-01-02T03:04:05Z", "2026-01-02 03:04:05"),
            ("date-time", "2026-01-02T03:04:05.678+01:00", "2026-01-02T24:04:05Z"),
            ("date-time", "2026-01-02t03:04:05z", "2026-01-02T03:04Z"),
            ("date-time", "2026-01-02T03:04:05+99:99", "2026-01-02T23:59:60Z"),
            ("date-time", "2026-01-02T03:04:05,5Z", "2026-01-02T03:04:05"),
            ("date", "0000-02-29", "2026-1-2"),
            ("date", "2000-02-29", "1900-02-29"),
            ("ipv4", "192.0.2.1", "192.0.2.256"),
            ("ipv6", "2001:db8::1", "192.0.2.1"),
            ("uuid", "5f0f6f0e-8f4f-4d0e-9a55-0c1f6a1d9a01", "5f0f6f0e-8f4f-4d0e-9a55"),
        ] {
            assert_eq!(has_format(format, right), Some(true), "{format} {right}");
            assert_eq!(has_format(format, wrong), Some(false), "{format} {wrong}");
        }
        assert_eq!(has_format("duration", "1m30s"), Some(true));
        assert_eq!(has_format("duration", "1 week"), None);
        assert_eq!(has_format("email", "a@example.com"), None);
        assert_eq!(has_format("password", ""), Some(true));
        assert_eq!(has_format("house-number", "?"), Some(true), "the API server ignores what it does not know");
    }

    #[test]
    fn a_pattern_matches_a_part_of_a_text() {
        assert_eq!(matches("b", "abc"), Ok(true));
        assert_eq!(matches("^b$", "abc"), Ok(false));
        assert_eq!(matches("^[a-zä]+$", "ä"), Ok(true));
        assert_eq!(matches("^.$", "ä"), Ok(true));
        assert_eq!(matches(r"^\w+$", "ä"), Err("its answer depends on letters outside of ASCII".to_owned()));
        assert_eq!(matches("^ä$", "ä"), Ok(true));
        assert_eq!(matches("(?=a)", "a"), Err("it cannot be read here".to_owned()));
        assert_eq!(matches(r"(\w{100}){1000}", "a"), Err("it is too large".to_owned()));
    }
}
