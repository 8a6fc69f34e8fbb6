//! What of a webhook a new plugin has: functions that the API server asks for before it stores or shows an object.

use std::collections::BTreeSet;

use clap::ValueEnum;

use super::answers::Answerer;

/// A function of a plugin that the API server asks for, in the words of Kubebuilder's `create webhook`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Webhook {
    // A second version of the kind, converted to and from the stored one
    Conversion,
    // Fills in what the schema cannot
    Defaulting,
    // Refuses what neither the schema nor a rule (CEL) can
    #[value(alias = "programmatic-validation")]
    Validation,
}

impl Webhook {
    /// Returns its name, which in Rust is also that of its file and its word in `export!`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Conversion => "conversion",
            Self::Defaulting => "defaulting",
            Self::Validation => "validation",
        }
    }
}

/// Returns those that the command line names, or else the user's answer; none by default.
///
/// # Errors
/// If the input ends.
pub(super) fn answered(given: &[Webhook], answerer: &mut Answerer<'_>) -> anyhow::Result<BTreeSet<Webhook>> {
    if !given.is_empty() {
        return Ok(given.iter().copied().collect());
    }
    let answer = answerer.answer(None, "Webhooks: validation, defaulting, conversion", "none", |answer| {
        parsed(answer).map(|_| answer.to_owned())
    })?;
    parsed(&answer).map_err(anyhow::Error::msg)
}

fn parsed(answer: &str) -> Result<BTreeSet<Webhook>, String> {
    let words = answer.split([',', ' ']).filter(|word| !word.is_empty() && *word != "none");
    words.map(|word| Webhook::from_str(word, true).map_err(|_| unknown(word))).collect()
}

fn unknown(word: &str) -> String {
    format!("{word:?} is none of them; write some of validation, defaulting and conversion with commas, or none")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(typed: &str) -> (anyhow::Result<BTreeSet<Webhook>>, String) {
        let mut output = Vec::new();
        let mut answerer = Answerer::Terminal { input: &mut typed.as_bytes(), output: &mut output };
        let answer = answered(&[], &mut answerer);
        (answer, String::from_utf8(output).unwrap())
    }

    #[test]
    fn a_user_may_name_several_or_none() {
        assert!(answer("\n").0.unwrap().is_empty());
        assert_eq!(answer("validation\n").0.unwrap(), BTreeSet::from([Webhook::Validation]));
        let (several, asked) = answer("mutation\nconversion, programmatic-validation\n");
        assert_eq!(several.unwrap(), BTreeSet::from([Webhook::Conversion, Webhook::Validation]));
        assert!(asked.contains("\"mutation\" is none of them"), "{asked}");
    }
}
