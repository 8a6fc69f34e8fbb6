//! Reads YAML that people write, and says in one line what is wrong with it: the path of the key, what was found and what
//! is expected there, and the line.

use std::borrow::Cow;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_saphyr::{
    Error, MessageFormatter, Options, SnippetMode, UserMessageFormatter, with_deserializer_from_str_with_options,
};

/// How alike two keys are at least if one is a misspelling of the other, from 0 to 1.
const ALIKE: f64 = 0.8;

/// Parses a text.
///
/// # Errors
/// Returns what is wrong and where, without the values in the text, which may be confidential.
pub fn parse<T: DeserializeOwned>(text: &str, options: Options) -> Result<T, String> {
    let mut path = None;
    let parsed = with_deserializer_from_str_with_options(text, options, |yaml| {
        serde_path_to_error::deserialize(yaml).map_err(|error| {
            path = Some(error.path().to_string());
            error.into_inner()
        })
    });
    parsed.map_err(|error| {
        let options = serde_saphyr::render_options! { formatter: &Messages, snippets: SnippetMode::Off };
        let message = error.render_with_options(options);
        // What is no value of a key ends with `?`, and the whole text is `.`.
        match path.as_deref().map(|path| path.trim_end_matches(['.', '?'])) {
            None | Some("") => message,
            Some(path) => format!("{path}: {message}"),
        }
    })
}

/// Formats a value as it is written by hand: a text is one line between quotes.
///
/// # Errors
/// If a value has no form in YAML.
pub(crate) fn format(value: &impl Serialize) -> Result<String, String> {
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    serde_saphyr::to_string_with_options(value, options).map_err(|error| error.to_string())
}

/// The parser's messages for users, except those that name types or read as advice to programmers.
struct Messages;

impl MessageFormatter for Messages {
    fn format_message<'a>(&self, error: &'a Error) -> Cow<'a, str> {
        match error {
            Error::DuplicateMappingKey { key: Some(key), .. } => format!("the key `{key}` is there twice").into(),
            Error::InvalidScalar { ty, .. } => format!("{} is expected here", scalar(ty)).into(),
            Error::Unexpected { expected, .. } => format!("{} is expected here", in_words(expected)).into(),
            Error::SerdeInvalidType { unexpected, expected, .. } => {
                format!("{} is expected here, and not {}", in_words(expected), in_words(unexpected)).into()
            }
            Error::SerdeMissingField { field, .. } => format!("the key `{field}` is missing").into(),
            Error::SerdeUnknownField { field, expected, .. } => {
                format!("there is no key `{field}` here ({})", instead(field, expected)).into()
            }
            Error::SerdeUnknownVariant { variant, expected, .. } => {
                format!("`{variant}` is not known here ({})", instead(variant, expected)).into()
            }
            _ => UserMessageFormatter.format_message(error),
        }
    }
}

/// Describes what the parser calls by the name of a type of Rust.
fn scalar(name: &str) -> &'static str {
    match name {
        _ if name.starts_with("bool") => "true or false",
        _ if name.starts_with('f') => "a number",
        _ if name.starts_with(['u', 'i']) => "a whole number",
        _ => "another value",
    }
}

/// Describes what the parser found or expects, without its value.
fn in_words(what: &str) -> Cow<'_, str> {
    let begins = [
        ("string scalar", "a single value"),
        ("mapping end", "the end of the mapping"),
        ("a string", "a text"),
        ("string", "a text"),
        ("mapping", "a mapping"),
        ("a map", "a mapping"),
        ("map", "a mapping"),
        ("struct", "a mapping"),
        ("a sequence", "a list"),
        ("sequence", "a list"),
        ("integer", "a whole number"),
        ("floating point", "a number"),
        ("a boolean", "true or false"),
        ("boolean", "true or false"),
        ("unit", "nothing"),
        ("null", "nothing"),
    ];
    let known = begins.into_iter().find(|(begin, _)| what.starts_with(begin));
    known.map_or(Cow::Borrowed(what), |(_, words)| words.into())
}

/// Names the known word that is most like an unknown one, or all of them where none is.
fn instead(unknown: &str, known: &[&str]) -> String {
    let alike = known.iter().map(|word| (strsim::jaro(unknown, word), word)).filter(|(alike, _)| *alike >= ALIKE);
    match alike.max_by(|(one, _), (other, _)| one.total_cmp(other)) {
        Some((_, nearest)) => format!("nearest: `{nearest}`"),
        None => format!("known: {}", known.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::Case;

    #[derive(Debug, serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Flags {
        #[expect(dead_code, reason = "it is only read from a text")]
        prune_all: bool,
    }

    #[test]
    fn an_error_names_the_key_what_is_expected_there_and_the_line() {
        let parent = "name: x\nparent: {}\n";
        for (more, says) in [
            ("attempt: many", "attempt: a whole number is expected here at line 3, column 10"),
            ("attempt: {}", "attempt: a single value is expected here at line 3, column 10"),
            ("children: a", "children: a list is expected here at line 3, column 11"),
            ("refusals: [3]", "refusals[0]: a mapping is expected here at line 3, column 12"),
            ("expect: {decided: {conditions: [{type: x}]}}", "conditions[0]: the key `status` is missing at line 3"),
            ("name: y", "the key `name` is there twice at line 3, column 1"),
        ] {
            let error = Case::from_yaml(&format!("{parent}{more}")).unwrap_err();
            assert!(error.ends_with(says) || error.contains(&format!("{says}, ")), "{more}: {error}");
            assert!(!error.contains('?'), "{error}");
        }
        let flag = parse::<Flags>("pruneAll: perhaps", Options::default()).unwrap_err();
        assert_eq!(flag, "pruneAll: true or false is expected here at line 1, column 11");
    }

    #[test]
    fn for_an_unknown_word_the_nearest_one_is_named_or_all_of_them() {
        for (more, says) in [
            ("paretn: {}", "paretn: there is no key `paretn` here (nearest: `parent`) at line 2, column 1"),
            (
                "expect: {decided: {statsu: 1}}",
                "expect.decided.statsu: there is no key `statsu` here (nearest: `status`)",
            ),
            ("call: finalise", "call: `finalise` is not known here (nearest: `finalize`)"),
            ("call: qq", "call: `qq` is not known here (known: `reconcile`, `finalize`, `validate`, `default`)"),
        ] {
            let error = Case::from_yaml(&format!("name: x\n{more}")).unwrap_err();
            assert!(error.contains(says), "{more}: {error}");
        }
    }
}
