//! Makes a plugin's text safe for logs, Events, conditions and terminals.
//!
//! A plugin's text is shown to users who trust what they read: an escape sequence could rewrite
//! a terminal, a line break could forge a log line, and a bidirectional mark could turn words
//! around. So all of these are removed, and a text that is too long is cut in its middle: Kubernetes
//! says what it is about at the beginning, and has the reason at the end, behind the whole object.

/// Marks a place where text was cut.
const ELLIPSIS: &str = "…";

/// Returns `text` without control, escape and bidirectional characters, on one line, and with its middle cut out if it
/// has more than `limit` bytes (which must leave room for an ellipsis).
pub fn clean(text: String, limit: usize) -> String {
    if text.len() <= limit && text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return text;
    }
    cut(visible(&text), limit)
}

/// Joins texts with the separator `between`, in at most `limit` bytes. A text that is too long is cut in its own
/// middle, so that each keeps its beginning and its end.
pub fn join(texts: &[String], between: &str, limit: usize) -> String {
    let room = limit.saturating_sub(between.len() * texts.len().saturating_sub(1));
    let (mut left, mut share) = (room, room);
    // What short texts leave is for the long ones.
    let mut lengths: Vec<usize> = texts.iter().map(String::len).collect();
    lengths.sort_unstable();
    for (index, length) in lengths.iter().enumerate() {
        share = left / (lengths.len() - index);
        if *length > share {
            break;
        }
        left -= length;
    }
    let cut_to_share = |text: &String| cut(text.clone(), share.max(MIN_SHARE));
    let joined: Vec<String> = texts.iter().map(cut_to_share).collect();
    cut(joined.join(between), limit)
}

/// The least share of a text among others, in bytes. Where there are so many that this does not suffice, those in the
/// middle are cut out.
const MIN_SHARE: usize = 120;

/// Cuts out the middle of `text`, on character boundaries, if it has more than `limit` bytes.
fn cut(text: String, limit: usize) -> String {
    if text.len() <= limit {
        return text;
    }
    let room = limit.saturating_sub(ELLIPSIS.len());
    let (begin, end) = text.split_at(text.floor_char_boundary(room.div_ceil(2)));
    let end = end.get(end.ceil_char_boundary(end.len().saturating_sub(room / 2))..).unwrap_or_default();
    format!("{begin}{ELLIPSIS}{end}")
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
        assert_eq!(clean("ééééé".to_owned(), 8), "é…é");
        assert_eq!(clean("x".repeat(1000), 10).len(), 10);
        assert_eq!(clean("long".to_owned(), 3), "…");
    }

    #[test]
    fn a_long_message_keeps_its_beginning_and_its_end() {
        let object = "core.PodTemplateSpec{…}, ".repeat(200);
        let message = format!("Job.batch \"a\" is invalid: spec.template: Invalid value: {object}: field is immutable");
        for limit in [200, 1_000] {
            let short = clean(message.clone(), limit);
            assert!(short.len() <= limit && short.len() > limit - 8, "{}", short.len());
            assert!(short.starts_with("Job.batch \"a\" is invalid: spec.template"), "{short}");
            assert!(short.contains('…') && short.ends_with(": field is immutable"), "{short}");
        }
    }

    #[test]
    fn each_of_several_long_messages_keeps_its_beginning_and_its_end() {
        let long = |name: &str| format!("{name} is refused: {}: because of {name}", "x".repeat(5_000));
        let all = join(&[long("a"), "b is refused".to_owned(), long("c")], "; ", 1_000);
        assert!((990..=1_000).contains(&all.len()), "{}", all.len());
        for part in ["a is refused: x", ": because of a; b is refused; c is refused: x", ": because of c"] {
            assert!(all.contains(part), "{part}: {all}");
        }
        let many: Vec<String> = (0..100).map(|number| long(&number.to_string())).collect();
        let all = join(&many, "; ", 1_000);
        assert!(all.len() <= 1_000 && all.starts_with("0 is") && all.ends_with("of 99"), "{all}");
        assert_eq!(join(&[], "; ", 10), "");
        assert_eq!(join(&["a".to_owned(), "b".to_owned()], "; ", 10), "a; b");
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
