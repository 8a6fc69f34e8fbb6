//! Asks on a terminal for what the command line does not give; without a terminal, takes the default.

use std::io::{self, BufRead, IsTerminal, Write, stderr, stdin};

use anyhow::bail;

/// How often a question is asked until the answer is valid.
const MAX_TRIES: usize = 3;
/// The maximum length of a line that is read, in bytes: longer than any name.
const MAX_LINE_BYTES: u64 = 4096;

/// Who answers questions.
pub(super) enum Answerer<'a> {
    /// The defaults, because there is no terminal.
    Defaults,
    /// A user at a terminal, with its input and output.
    Terminal { input: &'a mut dyn BufRead, output: &'a mut dyn Write },
}

/// Calls a function with the user at the terminal, if there is a terminal and the user may be asked.
pub(super) fn with_answerer<T>(may_ask: bool, ask: impl FnOnce(&mut Answerer<'_>) -> T) -> T {
    if may_ask && stdin().is_terminal() && stderr().is_terminal() {
        ask(&mut Answerer::Terminal { input: &mut stdin().lock(), output: &mut stderr().lock() })
    } else {
        ask(&mut Answerer::Defaults)
    }
}

impl Answerer<'_> {
    /// Returns the value that the command line gives, or else the user's answer, or else the default.
    ///
    /// # Errors
    /// If no answer is valid, or the input ends.
    pub(super) fn answer(
        &mut self,
        given: Option<String>,
        question: &str,
        default: &str,
        check: impl Fn(&str) -> Result<String, String>,
    ) -> anyhow::Result<String> {
        match (given, self) {
            (Some(given), _) => Ok(given),
            (None, Answerer::Defaults) => check(default).map_err(anyhow::Error::msg),
            (None, Answerer::Terminal { input, output }) => ask(*input, *output, question, default, check),
        }
    }
}

fn ask(
    input: &mut dyn BufRead,
    output: &mut dyn Write,
    question: &str,
    default: &str,
    check: impl Fn(&str) -> Result<String, String>,
) -> anyhow::Result<String> {
    for _ in 0..MAX_TRIES {
        write!(output, "{question} [{default}]: ")?;
        output.flush()?;
        let line = read_line(input)?;
        let answer = line.trim();
        match check(if answer.is_empty() { default } else { answer }) {
            Ok(answer) => return Ok(answer),
            Err(why) => writeln!(output, "{why}")?,
        }
    }
    bail!("no answer to `{question}` is valid; give it on the command line, see `hotshoe new --help`")
}

/// Reads a line of bounded length.
fn read_line(input: &mut dyn BufRead) -> io::Result<String> {
    let mut line = String::new();
    if io::Read::take(input, MAX_LINE_BYTES).read_line(&mut line)? == 0 {
        return Err(io::Error::other("the input ended before all questions were answered; nothing was written"));
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<String, String> {
        if text.starts_with('v') { Ok(text.to_owned()) } else { Err("it begins with v".to_owned()) }
    }

    fn answer(given: Option<&str>, typed: &str) -> (anyhow::Result<String>, String) {
        let mut output = Vec::new();
        let answer = Answerer::Terminal { input: &mut typed.as_bytes(), output: &mut output };
        let answer = { answer }.answer(given.map(str::to_owned), "Version", "v1", check);
        (answer, String::from_utf8(output).unwrap())
    }

    #[test]
    fn a_value_of_the_command_line_is_not_asked_for() {
        assert_eq!(answer(Some("x"), "").0.unwrap(), "x");
        assert_eq!(answer(Some("x"), "").1, "");
    }

    #[test]
    fn a_user_is_asked_and_an_empty_line_is_the_default() {
        assert_eq!(answer(None, "\n").0.unwrap(), "v1");
        let (answer, shown) = answer(None, "2\n v2 \n");
        assert_eq!(
            (answer.unwrap().as_str(), shown.as_str()),
            ("v2", "Version [v1]: it begins with v\nVersion [v1]: ")
        );
    }

    #[test]
    fn wrong_answers_and_the_end_of_the_input_are_errors() {
        assert!(answer(None, "1\n2\n3\n4\n").0.unwrap_err().to_string().contains("no answer to `Version`"));
        assert!(answer(None, "").0.unwrap_err().to_string().contains("nothing was written"));
    }

    #[test]
    fn without_a_terminal_the_default_is_taken() {
        assert_eq!(Answerer::Defaults.answer(None, "Version", "v1", check).unwrap(), "v1");
        assert!(Answerer::Defaults.answer(None, "Version", "1", check).is_err());
    }
}
