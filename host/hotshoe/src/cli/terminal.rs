//! Prints the output of commands, as text or for a script, and notes on standard error.
//!
//! The reader of either may stop at any time, as `head -1` does. That is no error. It must not panic either, as it does
//! with `println!` and `eprintln!`.

use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal, Write, stderr, stdout};
use std::process::ExitCode;

use anyhow::Context;
use serde::Serialize;

/// The exit code that a shell reports for a program that SIGPIPE ended.
const EXIT_SIGPIPE: u8 = 128 + 13;

/// The error that the reader of standard output has gone.
#[derive(Debug, thiserror::Error)]
#[error("the reader of the output has gone")]
struct ReaderGone;

/// The form in which commands print their output.
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
    /// Prints a value in this form; `text` returns its text form.
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

/// Prints a line on standard error. Errors are ignored: there is no other place to report them.
pub fn note(text: impl Display) {
    let _ = writeln!(stderr().lock(), "{text}");
}

/// Converts the result of writing to standard output.
///
/// # Errors
/// When writing has failed, or the reader has gone.
pub(super) fn written(result: io::Result<()>) -> anyhow::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(ReaderGone.into()),
        result => result.context("cannot write to standard output"),
    }
}

/// Turns the error that the reader has gone into an exit code, so that no message is printed.
///
/// # Errors
/// All other errors of the command.
pub(super) fn quietly(result: anyhow::Result<ExitCode>) -> anyhow::Result<ExitCode> {
    match result {
        Err(error) if error.is::<ReaderGone>() => Ok(ExitCode::from(EXIT_SIGPIPE)),
        result => result,
    }
}

/// Returns whether notes go to a terminal.
pub(super) fn is_watched() -> bool {
    stderr().is_terminal()
}

/// Returns whether to print in colour: to a terminal, unless the user asks for plain text (<https://no-color.org>).
pub(super) fn is_coloured(output: &impl IsTerminal) -> bool {
    output.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
