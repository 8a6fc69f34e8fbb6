//! In which form commands print what they know.

use serde::Serialize;

use crate::cli::stdout;

/// For a person, or for a script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Output {
    /// For a person
    #[default]
    Text,
    /// JSON
    Json,
    /// YAML
    Yaml,
}

impl Output {
    /// Prints a value, which is this text for a person.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn print(
        self,
        value: &impl Serialize,
        text: impl FnOnce() -> anyhow::Result<String>,
    ) -> anyhow::Result<()> {
        match self {
            Output::Text => stdout::print(text()?),
            Output::Json => stdout::line(serde_json::to_string_pretty(value)?),
            Output::Yaml => stdout::print(serde_saphyr::to_string(value)?),
        }
    }
}
