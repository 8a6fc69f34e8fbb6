//! Checks what a plugin asks for by a label selector. Pure.
//!
//! Such a selector often comes from the spec of the parent. So one that is wrong, or selects too much, fails this parent
//! alone, and is no fault of the plugin.

use crate::model::label_selector::LabelSelector;
use crate::model::limits::{SELECTED_OBJECTS, SELECTOR_BYTES, Size};
use crate::model::names::is_subdomain;
use crate::model::sanitize;
use crate::model::wanted::Selection;

/// The maximum length of a selector in a message, in bytes.
const SHOWN_BYTES: usize = 200;

/// Why the objects of a selection cannot be shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the message names each field")]
pub enum SelectionError {
    /// The selector, or the namespace, is not valid.
    #[error(
        "the plugin asks for {selection}, which cannot be looked for: {why}; correct it where it comes from: in the object, \
         or in the plugin"
    )]
    Invalid { selection: String, why: String },
    /// The selector selects too many objects.
    #[error(
        "the plugin asks for {0}, which are more than {SELECTED_OBJECTS} objects; narrow the selector where it comes from: \
         in the object, or in the plugin"
    )]
    TooMany(Selection),
    /// The objects are too large.
    #[error(
        "the plugin asks for {selection}, with which it would be shown more than {most} of fetched objects; narrow the \
         selector where it comes from: in the object, or in the plugin"
    )]
    TooLarge { selection: Selection, most: Size },
}

impl SelectionError {
    /// Returns the reason for Event, condition and metric: one PascalCase word.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Invalid { .. } => "InvalidSelector",
            Self::TooMany(_) | Self::TooLarge { .. } => "TooManySelected",
        }
    }
}

/// Returns the selector of a selection, whose text and namespace may then be a part of a request's URL.
///
/// # Errors
/// When it is no selector, or exceeds a limit.
pub fn selector_of(selection: &Selection) -> Result<LabelSelector, SelectionError> {
    let selector = &selection.selector;
    let invalid = |why: String| {
        let shown = |text: String| sanitize::clean(text, SHOWN_BYTES);
        SelectionError::Invalid { selection: shown(selection.to_string()), why: shown(why) }
    };
    if selector.len() > SELECTOR_BYTES {
        return Err(invalid(format!("the selector has more than {SELECTOR_BYTES} bytes")));
    }
    if !selection.namespace.as_deref().is_none_or(is_subdomain) {
        return Err(invalid("the namespace has no valid name".to_owned()));
    }
    if selector.is_empty() { Ok(LabelSelector::default()) } else { selector.parse().map_err(invalid) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::kind::Kind;

    fn selection(namespace: &str, selector: &str) -> Selection {
        Selection {
            kind: Kind::new("", "v1", "ConfigMap"),
            namespace: Some(namespace.into()),
            selector: selector.into(),
        }
    }

    #[test]
    fn an_empty_selector_selects_all_and_one_of_the_maximum_length_is_valid() {
        assert_eq!(selector_of(&selection("n", "")), Ok(LabelSelector::default()));
        let values = ["a".repeat(63), "b".repeat(63)].join(",");
        let longest = (0..7).map(|number| format!("k{number} in ({values})")).collect::<Vec<_>>().join(",");
        let prefix = "p".repeat(SELECTOR_BYTES - longest.len() - ",/".len() - 63);
        let longest = format!("{longest},{prefix}/{}", "k".repeat(63));
        assert_eq!(longest.len(), SELECTOR_BYTES);
        assert!(selector_of(&selection("n", &longest)).is_ok(), "{:?}", selector_of(&selection("n", &longest)));
        let too_long = selector_of(&selection("n", &format!("{longest},a"))).unwrap_err();
        assert!(too_long.to_string().contains("more than 1024 bytes"), "{too_long}");
    }

    #[test]
    fn what_would_change_the_request_is_refused_and_the_message_names_it_without_its_control_characters() {
        for (namespace, selector) in [
            ("n", "a=b&limit=9"),
            ("n", "a b"),
            ("n", "?a"),
            ("n", "a=b,"),
            ("n", "a=\u{1b}[2J"),
            ("../n", "a=b"),
            ("N", ""),
        ] {
            let refused = selector_of(&selection(namespace, selector)).unwrap_err();
            assert_eq!(refused.reason(), "InvalidSelector");
            let message = refused.to_string();
            assert!(message.contains("in the object, or in the plugin") && !message.contains('\u{1b}'), "{message}");
        }
    }
}
