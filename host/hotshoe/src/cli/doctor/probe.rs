//! Runs programs to learn their versions, each with a timeout.

use std::fmt;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

/// A program that has not ended after this time is considered broken.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Runs a program, and returns what it prints.
///
/// # Errors
/// Why it cannot be used.
pub(super) async fn ask(program: &str, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    // Otherwise rustup would download a toolchain that is missing.
    command.env("RUSTUP_AUTO_INSTALL", "0");
    let output = match timeout(TIMEOUT, command.output()).await {
        Ok(Ok(output)) => output,
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => return Err("it is not installed".to_owned()),
        Ok(Err(error)) => return Err(format!("it cannot be run: {error}")),
        Err(_) => return Err(format!("it does not answer within {TIMEOUT:?}")),
    };
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let last: String =
        stderr.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default().chars().take(200).collect();
    let code = output.status.code().map_or_else(|| "a signal".to_owned(), |code| format!("exit code {code}"));
    Err(if last.is_empty() { format!("it ends with {code}") } else { format!("it ends with {code}: {last}") })
}

/// The numbers of a version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version(Vec<u64>);

impl Version {
    /// Finds the first version in a text, such as in `go version go1.26.1 linux/amd64`.
    pub(super) fn in_text(text: &str) -> Option<Self> {
        let words = text.split(|letter: char| letter.is_whitespace() || "(),\"".contains(letter));
        words.filter_map(Self::in_word).next()
    }

    fn in_word(word: &str) -> Option<Self> {
        let start = word.find(|letter: char| letter.is_ascii_digit())?;
        let (name, numbers) = word.split_at(start);
        let is_named = name.chars().all(|letter| letter.is_ascii_alphabetic());
        let end = numbers.find(|letter: char| !(letter.is_ascii_digit() || letter == '.')).unwrap_or(numbers.len());
        let (numbers, rest) = numbers.split_at(end);
        let parts: Option<Vec<u64>> = numbers.trim_end_matches('.').split('.').map(|part| part.parse().ok()).collect();
        // A date is no version.
        parts
            .filter(|_| is_named && !rest.starts_with('/'))
            .filter(|parts| parts.len() > 1 || rest.is_empty())
            .map(Self)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<_> = self.0.iter().map(u64::to_string).collect();
        formatter.write_str(&parts.join("."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::runtime;

    #[test]
    fn a_version_is_found_in_the_output_of_each_tool() {
        for (text, version) in [
            ("rustc 1.95.0 (59807616e 2026-04-14)", "1.95.0"),
            ("go version go1.26.1 linux/amd64", "1.26.1"),
            ("Python 3.11.7", "3.11.7"),
            ("v20.20.2", "20.20.2"),
            ("10.8.2\n", "10.8.2"),
            ("Client Version: v1.36.3\nKustomize Version: v5.7.1", "1.36.3"),
            ("cc (Debian 12.2.0-14) 12.2.0", "12.2.0"),
            ("just 1.43.0", "1.43.0"),
            ("20", "20"),
        ] {
            assert_eq!(Version::in_text(text).map(|found| found.to_string()).as_deref(), Some(version), "{text}");
        }
        assert_eq!(Version::in_text("hello"), None);
        assert!(Version::in_text("1.9") < Version::in_text("1.10"));
    }

    #[test]
    fn a_program_that_does_not_end_is_given_up() {
        let begun = std::time::Instant::now();
        let paused = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let error = paused.block_on(ask("sleep", &["600"])).unwrap_err();
        assert!(error.contains("does not answer"), "{error}");
        assert!(begun.elapsed() < TIMEOUT, "the clock of the test runs ahead");
        assert!(runtime().unwrap().block_on(ask("echo", &["a"])).unwrap().starts_with('a'));
    }
}
