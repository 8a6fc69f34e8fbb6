//! What `kubectl get` shows.

use serde_json::{Value, json};

use super::members::insert;

/// A column of what `kubectl get` shows.
#[derive(Clone, Debug)]
#[must_use]
pub struct Column {
    name: String,
    type_: &'static str,
    path: String,
    description: Option<String>,
    is_wide: bool,
}

impl Column {
    /// Shows the number at this path, such as `.spec.size`.
    pub fn integer(name: &str, path: &str) -> Self {
        Self::of("integer", name, path)
    }

    /// Shows the text at this path.
    pub fn string(name: &str, path: &str) -> Self {
        Self::of("string", name, path)
    }

    /// Shows whether what is at this path is true.
    pub fn boolean(name: &str, path: &str) -> Self {
        Self::of("boolean", name, path)
    }

    /// Shows how long ago the time at this path was.
    pub fn date(name: &str, path: &str) -> Self {
        Self::of("date", name, path)
    }

    /// Shows the status of the condition of this type, under its name.
    pub fn condition(name: &str) -> Self {
        Self::string(name, &format!(".status.conditions[?(@.type==\"{name}\")].status"))
    }

    /// Shows how old an object is.
    pub fn age() -> Self {
        Self::date("Age", ".metadata.creationTimestamp").description("The time since it was created.")
    }

    /// Sets the description of the column.
    pub fn description(mut self, description: &str) -> Self {
        self.description = Some(description.to_owned());
        self
    }

    /// Makes `kubectl` show the column only with `-o wide`.
    pub fn wide(mut self) -> Self {
        self.is_wide = true;
        self
    }

    fn of(type_: &'static str, name: &str, path: &str) -> Self {
        Self { name: name.to_owned(), type_, path: path.to_owned(), description: None, is_wide: false }
    }

    pub(super) fn definition(&self) -> Value {
        let mut column = json!({ "name": self.name, "type": self.type_, "jsonPath": self.path });
        if let Some(description) = &self.description {
            insert(&mut column, "description", json!(description));
        }
        if self.is_wide {
            insert(&mut column, "priority", json!(1));
        }
        column
    }
}
