//! What commands print. Whoever reads it may stop at any time, as `head -1` does; that is no error of
//! theirs, and no reason to panic, as `println!` does.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write, stdout};
use std::process::ExitCode;

use anyhow::Context;

/// As a shell tells of a program that was ended by SIGPIPE, as most are here.
const UNREAD: u8 = 128 + 13;

/// Nobody reads any more.
#[derive(Debug, thiserror::Error)]
#[error("nobody reads the output any more")]
struct Unread;

/// Prints a text as it is.
///
/// # Errors
/// When it cannot be written, or nobody reads it.
pub(super) fn print(text: impl Display) -> anyhow::Result<()> {
    let mut output = stdout().lock();
    written(write!(output, "{text}").and_then(|()| output.flush()))
}

/// What came of writing to it.
///
/// # Errors
/// When it cannot be written, or nobody reads it.
pub(super) fn written(result: io::Result<()>) -> anyhow::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(Unread.into()),
        result => result.context("cannot write to standard output"),
    }
}

/// Prints a text as a line.
///
/// # Errors
/// When it cannot be written, or nobody reads it.
pub(super) fn line(text: impl Display) -> anyhow::Result<()> {
    print(format_args!("{text}\n"))
}

/// A command that nobody reads any more has ended, and there is nothing to be said of it.
///
/// # Errors
/// All others.
pub(super) fn quietly(ended: anyhow::Result<ExitCode>) -> anyhow::Result<ExitCode> {
    match ended {
        Err(error) if error.is::<Unread>() => Ok(ExitCode::from(UNREAD)),
        ended => ended,
    }
}
