//! Makes a plugin's text safe for logs, Events, conditions and terminals.
//!
//! A plugin's text is shown to users who trust what they read: an escape sequence could rewrite
//! a terminal, a line break could forge a log line, and a bidirectional mark could turn words
//! around. So all of these are removed, and a text that is too long is cut.

/// Marks a place where text was cut.
const ELLIPSIS: &str = "…";

/// Returns `text` without control, escape and bidirectional characters, on one line, and cut to at most
/// `limit` bytes (which must leave room for an ellipsis).
pub fn clean(text: String, limit: usize) -> String {
    if text.len() <= limit && text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return text;
    }
    cut(visible(&text), limit)
}

/// Cuts `text` on a character boundary if it has more than `limit` bytes.
fn cut(mut text: String, limit: usize) -> String {
    if text.len() > limit {
        text.truncate(text.floor_char_boundary(limit.saturating_sub(ELLIPSIS.len())));
        text.push_str(ELLIPSIS);
    }
    text
}

fn visible(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' if chars.next_if_eq(&'[').is_some() => {
                // A control sequence ends with its first character from @ to ~.
                while chars.next().is_some_and(|c| !('@'..='~').contains(&c)) {}
            }
            '\r' if chars.peek() == Some(&'\n') => {}
            '\n' | '\r' | '\t' | '\u{2028}' | '\u{2029}' => clean.push(' '),
            c if c.is_control() || is_invisible(c) => {}
            c => clean.push(c),
        }
    }
    clean
}

/// Returns whether it is a bidirectional control, a zero-width character or a tag: these are invisible, but
/// change how other text is read.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cleaned(text: &str) -> String {
        clean(text.to_owned(), 100)
    }

    #[test]
    fn ordinary_text_stays_as_it_is() {
        for text in ["", "Starting reconciliation", "trailing space ", "größer als 3 日本"] {
            assert_eq!(cleaned(text), text);
        }
    }

    #[test]
    fn escapes_controls_and_bidirectional_marks_are_removed() {
        assert_eq!(cleaned("a\u{1b}[31;1mred\u{1b}[0m b\u{7}\u{0}c"), "ared bc");
        assert_eq!(cleaned("user\u{202e}gnp.exe\u{2066}"), "usergnp.exe");
        assert_eq!(cleaned("\u{9b}31m"), "31m");
        assert_eq!(cleaned("\u{1b}[never ends"), "ever ends");
    }

    #[test]
    fn a_forged_second_line_stays_on_the_first() {
        assert_eq!(cleaned("done\r\nERROR forged\nmore"), "done ERROR forged more");
    }

    #[test]
    fn text_is_cut_on_a_character_boundary() {
        assert_eq!(clean("ééééé".to_owned(), 8), "éé…");
        assert_eq!(clean("x".repeat(1000), 10).len(), 10);
    }

    proptest! {
        #[test]
        fn any_text_becomes_one_short_visible_line(text in ".*", limit in 3usize..64) {
            let clean = clean(text, limit);
            prop_assert!(clean.len() <= limit);
            prop_assert!(!clean.chars().any(|c| c.is_control() || is_invisible(c)));
        }
    }
}
