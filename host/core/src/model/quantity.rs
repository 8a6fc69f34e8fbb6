//! Sizes and spans of time as `plugin.yaml` writes them.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

pub(crate) const KIB: u64 = 1024;
pub(crate) const MIB: u64 = 1024 * KIB;
pub(crate) const GIB: u64 = 1024 * MIB;

/// A number of bytes; in YAML a plain number or Kubernetes' binary quantities, `64Mi`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

impl JsonSchema for Size {
    fn schema_name() -> Cow<'static, str> {
        "Size".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        // The API server accepts no `type` beside this extension.
        json_schema!({ "x-kubernetes-int-or-string": true })
    }

    fn inline_schema() -> bool {
        true
    }
}

impl Size {
    /// Returns the size as a length in memory.
    pub fn bytes(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }

    /// Parses a size in the notation of Kubernetes: bytes, or a number with `Ki`, `Mi` or `Gi`.
    pub fn parse(text: &str) -> Option<Self> {
        let (number, unit) = split_unit(text);
        let unit = match unit {
            "" => 1,
            "Ki" => KIB,
            "Mi" => MIB,
            "Gi" => GIB,
            _ => return None,
        };
        number.parse::<u64>().ok()?.checked_mul(unit).map(Self)
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
pub struct Span(#[schemars(with = "String")] pub Duration);

impl Span {
    pub(crate) const fn millis(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (number, unit) = split_unit(text);
        let unit = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            _ => return None,
        };
        number.parse::<u64>().ok()?.checked_mul(unit).map(Self::millis)
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
        let text = String::deserialize(deserializer)?;
        Self::parse(&text)
            .ok_or_else(|| de::Error::custom(format_args!("`{text}` is no span of time: write it as 500ms, 2s or 1m")))
    }
}
