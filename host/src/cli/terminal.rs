//! What commands print: their output for a person or a script, and notes beside it on standard error.
//!
//! The reader of either may stop at any time, as `head -1` does. That is no error and no reason to panic, as
//! `println!` and `eprintln!` do.

use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal, Write, stderr, stdout};
use std::process::ExitCode;

use anyhow::Context;
use serde::Serialize;

/// The exit code that a shell reports for a program that SIGPIPE ended.
const UNREAD: u8 = 128 + 13;

/// The reader of standard output has gone.
#[derive(Debug, thiserror::Error)]
#[error("the reader of the output has gone")]
struct Unread;

/// In which form commands print what they know.
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
            Output::Text => print(text()?),
            Output::Json => line(serde_json::to_string_pretty(value)?),
            Output::Yaml => print(serde_saphyr::to_string(value)?),
        }
    }
}

/// Prints a text as it is.
///
/// # Errors
/// When it cannot be written, or its reader has gone.
pub(super) fn print(text: impl Display) -> anyhow::Result<()> {
    let mut output = stdout().lock();
    written(write!(output, "{text}").and_then(|()| output.flush()))
}

/// Prints a text as a line.
///
/// # Errors
/// When it cannot be written, or its reader has gone.
pub(super) fn line(text: impl Display) -> anyhow::Result<()> {
    print(format_args!("{text}\n"))
}

/// Prints a line on standard error. Where that is closed, there is no place left to report it.
pub fn note(text: impl Display) {
    let _ = writeln!(stderr().lock(), "{text}");
}

/// Returns the result of writing to standard output.
///
/// # Errors
/// When it failed, or its reader has gone.
pub(super) fn written(result: io::Result<()>) -> anyhow::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(Unread.into()),
        result => result.context("cannot write to standard output"),
    }
}

/// Ends a command whose reader has gone with its exit code and without a word.
///
/// # Errors
/// All others.
pub(super) fn quietly(ended: anyhow::Result<ExitCode>) -> anyhow::Result<ExitCode> {
    match ended {
        Err(error) if error.is::<Unread>() => Ok(ExitCode::from(UNREAD)),
        ended => ended,
    }
}

/// Whether a person reads the notes as they are printed.
pub(super) fn is_watched() -> bool {
    stderr().is_terminal()
}

/// Whether to print in colour: to a terminal, unless plain text is asked for (<https://no-color.org>).
pub(super) fn is_coloured(output: &impl IsTerminal) -> bool {
    output.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
