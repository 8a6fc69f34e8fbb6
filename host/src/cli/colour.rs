//! Whether output is coloured.

use std::io::IsTerminal;

/// Whether somebody looks at a terminal and has not asked for plain text (<https://no-color.org>).
pub(super) fn is_wanted(output: &impl IsTerminal) -> bool {
    output.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
