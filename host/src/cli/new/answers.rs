//! What was not said on the command line is asked for on a terminal, and else taken by default.

use std::io::{self, BufRead, IsTerminal, Write, stderr, stdin};

use anyhow::bail;

/// So often an answer may be wrong.
const TRIES: usize = 3;

/// Whom to ask.
pub(super) enum Person<'a> {
    /// No terminal: the defaults are used.
    Absent,
    /// A person at a terminal, with its input and output.
    Present { input: &'a mut dyn BufRead, output: &'a mut dyn Write },
}

/// Calls a function with the person at the terminal, if there is one to be asked.
pub(super) fn with_person<T>(may_ask: bool, ask: impl FnOnce(&mut Person<'_>) -> T) -> T {
    if may_ask && stdin().is_terminal() && stderr().is_terminal() {
        ask(&mut Person::Present { input: &mut stdin().lock(), output: &mut stderr().lock() })
    } else {
        ask(&mut Person::Absent)
    }
}

impl Person<'_> {
    /// Returns what was said already, or else the answer, or else the default.
    ///
    /// # Errors
    /// Where the answers are wrong again and again, or the input ends.
    pub(super) fn answer(
        &mut self,
        said: Option<String>,
        question: &str,
        default: &str,
        check: impl Fn(&str) -> Result<String, String>,
    ) -> anyhow::Result<String> {
        match (said, self) {
            (Some(said), _) => Ok(said),
            (None, Person::Absent) => check(default).map_err(anyhow::Error::msg),
            (None, Person::Present { input, output }) => ask(*input, *output, question, default, check),
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
    for _ in 0..TRIES {
        write!(output, "{question} [{default}]: ")?;
        output.flush()?;
        let line = read_line(input)?;
        let answer = line.trim();
        match check(if answer.is_empty() { default } else { answer }) {
            Ok(answer) => return Ok(answer),
            Err(why) => writeln!(output, "{why}")?,
        }
    }
    bail!("no answer to `{question}` will do; name it on the command line, see `hotshoe new --help`")
}

/// A line, and no more of it than any name may have.
fn read_line(input: &mut dyn BufRead) -> io::Result<String> {
    let mut line = String::new();
    if io::Read::take(input, 4096).read_line(&mut line)? == 0 {
        return Err(io::Error::other("the input has ended before all was answered; nothing was written"));
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<String, String> {
        if text.starts_with('v') { Ok(text.to_owned()) } else { Err("it begins with v".to_owned()) }
    }

    fn answer(said: Option<&str>, typed: &str) -> (anyhow::Result<String>, String) {
        let mut output = Vec::new();
        let answer = Person::Present { input: &mut typed.as_bytes(), output: &mut output };
        let answer = { answer }.answer(said.map(str::to_owned), "Version", "v1", check);
        (answer, String::from_utf8(output).unwrap())
    }

    #[test]
    fn what_was_said_is_not_asked_for() {
        assert_eq!(answer(Some("x"), "").0.unwrap(), "x");
        assert_eq!(answer(Some("x"), "").1, "");
    }

    #[test]
    fn a_person_is_asked_and_an_empty_line_is_the_default() {
        assert_eq!(answer(None, "\n").0.unwrap(), "v1");
        let (answer, shown) = answer(None, "2\n v2 \n");
        assert_eq!(
            (answer.unwrap().as_str(), shown.as_str()),
            ("v2", "Version [v1]: it begins with v\nVersion [v1]: ")
        );
    }

    #[test]
    fn wrong_answers_and_the_end_of_the_input_end_it() {
        assert!(answer(None, "1\n2\n3\n4\n").0.unwrap_err().to_string().contains("no answer to `Version`"));
        assert!(answer(None, "").0.unwrap_err().to_string().contains("nothing was written"));
    }

    #[test]
    fn without_a_person_the_default_is_taken() {
        assert_eq!(Person::Absent.answer(None, "Version", "v1", check).unwrap(), "v1");
        assert!(Person::Absent.answer(None, "Version", "1", check).is_err());
    }
}
