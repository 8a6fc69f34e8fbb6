//! One object on which a property of a plugin or of its CRD was tried.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::{Value, json};

use hotshoe_core::model::sanitize::clean;

/// The maximum length of a printed object, in bytes.
const MAX_OBJECT_BYTES: usize = 8_000;

/// One object, and whether the property holds for it.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    name: String,
    file: PathBuf,
    /// `null` if there is none.
    object: Value,
    /// Why the property does not hold; nothing if it does.
    failure: Option<String>,
}

impl Trial {
    pub(super) fn new(name: String, file: PathBuf, object: Value, failure: Option<String>) -> Self {
        Self { name, file, object, failure }
    }

    pub(super) fn passed(&self) -> bool {
        self.failure.is_none()
    }

    pub(super) fn text(&self) -> String {
        let Some(failure) = &self.failure else { return format!("ok   {}\n", self.name) };
        let mut text = format!("FAIL {}\n", self.name);
        for line in failure.lines() {
            let _ = writeln!(text, "     {line}");
        }
        if !self.object.is_null() {
            let _ = writeln!(text, "     the object: {}", clean(self.object.to_string(), MAX_OBJECT_BYTES));
        }
        text
    }

    pub(super) fn record(&self) -> Value {
        json!({
            "name": self.name,
            "file": self.file,
            "passed": self.passed(),
            "error": self.failure,
            "object": self.failure.is_some().then_some(&self.object),
        })
    }
}
