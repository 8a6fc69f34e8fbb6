//! What commands say beside their output. Whoever started them may have closed standard error, and there
//! is nobody left to tell that to: `eprintln!` would panic.

use std::fmt::Display;
use std::io::{Write, stderr};

/// Says a line.
pub fn line(text: impl Display) {
    let _ = writeln!(stderr().lock(), "{text}");
}
