//! Prints the output of commands, as text or for a script, and notes on standard error.
//!
//! The reader of either may stop at any time, as `head -1` does. That is no error. It must not panic either, as it does
//! with `println!` and `eprintln!`.

use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal, Write, stderr, stdout};
use std::process::ExitCode;

use anyhow::Context;
use parking_lot::Mutex;
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

/// The line at the bottom of the terminal. What is printed meanwhile is written above it.
static BOTTOM: Mutex<String> = Mutex::new(String::new());
/// Goes to the begin of the line and erases it (ECMA-48, `CR` and `EL`).
const ERASE: &str = "\r\x1b[2K";

/// Prints a text as it is.
///
/// # Errors
/// When it cannot be written, or its reader has gone.
pub(super) fn print(text: impl Display) -> anyhow::Result<()> {
    let bottom = BOTTOM.lock();
    let mut output = stdout().lock();
    let erase = if bottom.is_empty() { "" } else { ERASE };
    written(write!(output, "{erase}{text}{bottom}").and_then(|()| output.flush()))
}

/// Replaces the line at the bottom, on a terminal; an empty text ends it. A text longer than the terminal is wide is cut.
///
/// # Errors
/// When it cannot be written, or its reader has gone.
pub(super) fn set_bottom(text: &str) -> anyhow::Result<()> {
    let width = rustix::termios::tcgetwinsize(stdout()).map_or(0, |size| size.ws_col.into());
    let mut bottom = BOTTOM.lock();
    let text: String = text.chars().take(usize::saturating_sub(width, 1)).collect();
    if *bottom == text {
        return Ok(());
    }
    let mut output = stdout().lock();
    *bottom = text;
    written(write!(output, "{ERASE}{bottom}").and_then(|()| output.flush()))
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
    let bottom = BOTTOM.lock();
    if bottom.is_empty() {
        let _ = writeln!(stderr().lock(), "{text}");
        return;
    }
    let mut output = stdout().lock();
    let _ = write!(output, "{ERASE}").and_then(|()| output.flush());
    let _ = writeln!(stderr().lock(), "{text}");
    let _ = write!(output, "{bottom}").and_then(|()| output.flush());
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
