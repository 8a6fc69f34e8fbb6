//! Templates of users lose what a host would deny. The examples are those of each SDK and of the host.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, reason = "a test fails by panicking")]

use hotshoe_sdk::harmless;
use serde_json::{Value, json};

#[test]
fn what_a_host_would_deny_is_removed_and_named_and_the_rest_stays() {
    let examples: Vec<Value> = serde_json::from_str(include_str!("harmless.json")).unwrap();
    assert!(examples.len() > 5);
    for example in &examples {
        let (kept, removed) = harmless(&example["template"]);
        let named = &example["name"];
        assert_eq!(kept, *example.get("harmless").unwrap_or(&example["template"]), "{named}");
        assert_eq!(json!(removed), example["removed"], "{named}");
        assert_eq!(harmless(&kept), (kept.clone(), Vec::new()), "{named}: again, nothing is removed");
    }
}
