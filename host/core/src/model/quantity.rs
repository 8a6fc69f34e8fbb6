//! Sizes and spans of time as `plugin.yaml` writes them.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

pub(crate) const KIB: u64 = 1024;
pub(crate) const MIB: u64 = 1024 * KIB;
pub(crate) const GIB: u64 = 1024 * MIB;

/// The texts that [`Size::parse`] takes.
const SIZE_PATTERN: &str = "^([0-9]{1,19}|[0-9]{1,10}(Ki|Mi|Gi))$";
/// The texts that [`Span::parse`] takes.
const SPAN_PATTERN: &str = "^([0-9]{1,14}(ms|s|m)|[0-9]{1,12}h)$";
/// The length of the longest of them. By it the API server estimates what a rule about a span costs.
const SPAN_CHARACTERS: usize = 16;

/// A number of bytes; in YAML a plain number or Kubernetes' binary quantities, `64Mi`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

impl JsonSchema for Size {
    fn schema_name() -> Cow<'static, str> {
        "Size".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        // The API server accepts no `type` beside this extension.
        json_schema!({ "minimum": 0, "pattern": SIZE_PATTERN, "x-kubernetes-int-or-string": true })
    }

    fn inline_schema() -> bool {
        true
    }
}

impl Size {
    /// Converts the size to a `usize`. A larger size becomes the largest `usize`.
    pub fn bytes(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }

    /// Parses a size in the notation of Kubernetes: bytes, or a number with `Ki`, `Mi` or `Gi`.
    pub fn parse(text: &str) -> Option<Self> {
        let (number, unit) = split_unit(text);
        let (unit, digits) = match unit {
            "" => (1, 19),
            "Ki" => (KIB, 10),
            "Mi" => (MIB, 10),
            "Gi" => (GIB, 10),
            _ => return None,
        };
        multiple(number, unit, digits).map(Self)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n >= GIB && n % GIB == 0 => write!(f, "{}Gi", n / GIB),
            n if n >= MIB && n % MIB == 0 => write!(f, "{}Mi", n / MIB),
            n if n >= KIB && n % KIB == 0 => write!(f, "{}Ki", n / KIB),
            n => write!(f, "{n}"),
        }
    }
}

/// A span of time; in YAML `500ms` or `2s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, JsonSchema)]
#[schemars(transparent)]
pub struct Span(
    #[schemars(with = "String", regex(pattern = SPAN_PATTERN), length(max = SPAN_CHARACTERS))] pub Duration,
);

impl Span {
    pub(crate) const fn millis(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (number, unit) = split_unit(text);
        let (unit, digits) = match unit {
            "ms" => (1, 14),
            "s" => (1_000, 14),
            "m" => (60_000, 14),
            "h" => (3_600_000, 12),
            _ => return None,
        };
        multiple(number, unit, digits).map(Self::millis)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_millis() {
            n if n >= 1_000 && n % 1_000 == 0 => write!(f, "{}s", n / 1_000),
            n => write!(f, "{n}ms"),
        }
    }
}

fn split_unit(text: &str) -> (&str, &str) {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    text.split_at_checked(digits).unwrap_or((text, ""))
}

/// Returns a number of so many digits at most, times its unit. The number of digits is bounded because a pattern can
/// express that, but not which number is too large.
fn multiple(number: &str, unit: u64, digits: usize) -> Option<u64> {
    if number.len() > digits {
        return None;
    }
    number.parse::<u64>().ok()?.checked_mul(unit)
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(u64),
            Text(String),
            Other(de::IgnoredAny),
        }
        match Written::deserialize(deserializer)? {
            Written::Number(bytes) => Some(Self(bytes)),
            Written::Text(text) => Self::parse(&text),
            Written::Other(_) => None,
        }
        .ok_or_else(|| de::Error::custom("a size is a number of bytes, or one with Ki, Mi or Gi, such as 64Mi"))
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text).ok_or_else(|| format!("`{text}` is no span of time: write it as 500ms, 2s, 1m or 1h"))
    }
}

#[cfg(test)]
mod tests {
    use regex::Regex;
    use serde_json::{Value, json};

    use super::*;

    fn schema<T: JsonSchema>() -> Value {
        schemars::schema_for!(T).to_value()
    }

    /// Returns all texts of up to so many of these parts, and numbers around the limits of what is parsed.
    fn texts() -> Vec<String> {
        let parts = ["0", "7", "m", "s", "h", "K", "M", "G", "i", " ", "+", "-", ".", "\n", "\u{664}"];
        let mut texts = vec![String::new()];
        let mut longest = texts.clone();
        for _ in 0..4 {
            longest = longest.iter().flat_map(|text| parts.map(|part| format!("{text}{part}"))).collect();
            texts.extend(longest.iter().cloned());
        }
        for digits in 1..=21 {
            for (digit, unit) in ["0", "1", "9"]
                .iter()
                .flat_map(|digit| ["", "ms", "s", "m", "h", "Ki", "Mi", "Gi", "Ti"].map(|unit| (digit, unit)))
            {
                texts.push(digit.repeat(digits) + unit);
            }
        }
        texts
    }

    #[test]
    fn a_span_is_written_in_the_units_that_kubernetes_uses() {
        for (text, seconds) in [("1500ms", 1.5), ("2s", 2.0), ("3m", 180.0), ("168h", 604_800.0)] {
            assert_eq!(Span::parse(text).map(|span| span.0.as_secs_f64()), Some(seconds), "{text}");
        }
        for other in ["1", "1d", "h", "1.5h", "-1s", "1h30m"] {
            assert_eq!(Span::parse(other), None, "{other}");
        }
    }

    #[test]
    fn the_schema_of_a_span_admits_exactly_what_is_parsed() {
        let schema = schema::<Span>();
        let pattern = Regex::new(schema["pattern"].as_str().unwrap()).unwrap();
        let longest = schema["maxLength"].as_u64().unwrap();
        let texts = texts();
        for text in &texts {
            let is_parsed = serde_json::from_value::<Span>(json!(text)).is_ok();
            assert_eq!(pattern.is_match(text), is_parsed, "{text:?}");
            assert!(!is_parsed || text.len() as u64 <= longest, "{text:?}");
        }
        assert!(texts.iter().any(|text| text.len() as u64 == longest && Span::parse(text).is_some()));
        assert_eq!(schema["type"], "string");
    }

    #[test]
    fn the_schema_of_a_size_admits_exactly_what_is_parsed() {
        let schema = schema::<Size>();
        let pattern = Regex::new(schema["pattern"].as_str().unwrap()).unwrap();
        for text in texts() {
            let is_parsed = serde_json::from_value::<Size>(json!(text)).is_ok();
            assert_eq!(pattern.is_match(&text), is_parsed, "{text:?}");
        }
        let least = schema["minimum"].as_i64().unwrap();
        for number in [-1, 0, 1, i64::MAX] {
            assert_eq!(number >= least, serde_json::from_value::<Size>(json!(number)).is_ok(), "{number}");
        }
        for other in [json!(1.5), json!(true), json!([])] {
            assert!(serde_json::from_value::<Size>(other.clone()).is_err(), "{other}");
        }
    }
}
