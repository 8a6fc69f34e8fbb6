//! The form of a plugin's history.

use serde::{Deserialize, Serialize};

use hotshoe_core::check::provenance::Signer;
use hotshoe_core::flow::probation::CallStats;
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::kind::Kind;
use hotshoe_core::plugin::past::Event;

/// The history of a plugin, as it is shown.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PluginHistory {
    /// The active revision.
    pub current: Option<Digest>,
    /// The revisions that a rollback can activate, the last active one first. Only the host itself knows them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Vec<Digest>>,
    /// The entries, the newest last.
    pub entries: Vec<Entry>,
}

/// One thing that happened to a component.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// The component's digest.
    pub digest: Digest,
    /// The component's version, from its descriptor; empty where the descriptor was never read.
    pub version: String,
    /// Seconds since the epoch; in JSON as Kubernetes writes times.
    #[serde(with = "written_time")]
    pub at: u64,
    /// What happened.
    pub event: Event,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The component's finalizer, if the event is its activation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finalizer: Option<String>,
    /// The kinds that the component owns, if the event is its activation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owns: Vec<Kind>,
    /// Where the component was fetched from, exactly, if the event is its activation and its source is no file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The signers of whom one has signed the component's image, if the event is its activation and a signature was
    /// required.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signed_by: Vec<Signer>,
    /// The call statistics of the revision before the component, if the event is its activation.
    #[serde(default, skip_serializing_if = "CallStats::is_empty")]
    pub before: CallStats,
    /// Whether the component requires approval because it fails on parents.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fails: bool,
}

/// Writes seconds since the epoch as RFC 3339, or as a number where they are too large for that form.
mod written_time {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use hotshoe_cluster::time;

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Stored {
        Seconds(u64),
        Time(String),
    }

    pub(super) fn serialize<S: Serializer>(at: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        match time::at(*at) {
            Some(time) => serializer.serialize_str(&time),
            None => serializer.serialize_u64(*at),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let time = match Stored::deserialize(deserializer)? {
            Stored::Seconds(seconds) => return Ok(seconds),
            Stored::Time(time) => time,
        };
        time::seconds(&time).ok_or_else(|| D::Error::custom(format_args!("{time:?} is no RFC 3339 time since 1970")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(text: &str) -> Digest {
        Digest::of(text.as_bytes())
    }

    #[test]
    fn an_entry_of_before_there_were_signers_has_none() {
        let old = serde_json::json!({ "digest": digest("a").full(), "version": "1", "at": 1, "event": "Activated" });
        assert!(serde_json::from_value::<Entry>(old).unwrap().signed_by.is_empty());
    }

    #[test]
    fn times_are_written_as_kubernetes_does_and_read_as_numbers_too() {
        let entry = |at: serde_json::Value| serde_json::json!({ "digest": digest("a").full(), "version": "1", "at": at, "event": "Activated" });
        for (read, at, written) in [
            (serde_json::json!("2026-11-23T04:00:00Z"), 1_795_406_400, serde_json::json!("2026-11-23T04:00:00Z")),
            (serde_json::json!(1), 1, serde_json::json!("1970-01-01T00:00:01Z")),
            (serde_json::json!(u64::MAX), u64::MAX, serde_json::json!(u64::MAX)),
        ] {
            let known: Entry = serde_json::from_value(entry(read)).unwrap();
            assert_eq!(known.at, at);
            assert_eq!(serde_json::to_value(&known).unwrap(), entry(written));
        }
        assert!(serde_json::from_value::<Entry>(entry(serde_json::json!("yesterday"))).is_err());
        assert!(serde_json::from_value::<Entry>(entry(serde_json::json!("1960-01-01T00:00:00Z"))).is_err());
    }
}
