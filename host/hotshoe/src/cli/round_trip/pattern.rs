//! Texts that match a pattern. Pure.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};

use super::choices::Choices;

/// The maximum number of repetitions more than the least.
const MAX_MORE: u32 = 3;
/// The maximum length of a pattern that is read, in bytes.
const MAX_PATTERN_BYTES: usize = 10_000;
/// The maximum length of a text, in bytes.
const MAX_TEXT_BYTES: usize = 10_000;
/// The maximum number of parts of a pattern that are written for a text. Some write nothing, however often.
const MAX_PARTS: usize = 100_000;

/// Why there is no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoText {
    /// The pattern cannot be read, or what matches it is no text.
    Unreadable,
    /// The pattern, or what matches it, is longer than is made.
    TooLarge,
}

/// Returns a text that matches a pattern. What a pattern says of the neighbours of a character, such as `\b`, is not looked
/// at.
///
/// # Errors
/// If the pattern cannot be read, or the text is too large.
pub(super) fn matching(pattern: &str, choices: &mut Choices) -> Result<String, NoText> {
    if pattern.len() > MAX_PATTERN_BYTES {
        return Err(NoText::TooLarge);
    }
    // Without Unicode, classes such as `\w` are those of the API server, which are of ASCII.
    let parsed = ParserBuilder::new().unicode(false).utf8(false).build().parse(pattern);
    let mut writer = Writer { choices, bytes: Vec::new(), parts: 0 };
    writer.write(&parsed.map_err(|_| NoText::Unreadable)?).ok_or(NoText::TooLarge)?;
    String::from_utf8(writer.bytes).map_err(|_| NoText::Unreadable)
}

struct Writer<'c> {
    choices: &'c mut Choices,
    bytes: Vec<u8>,
    /// The number of parts of the pattern that were written.
    parts: usize,
}

impl Writer<'_> {
    /// Writes what matches a part of a pattern; none if the text becomes too large.
    fn write(&mut self, pattern: &Hir) -> Option<()> {
        self.parts += 1;
        if self.parts > MAX_PARTS || self.bytes.len() > MAX_TEXT_BYTES {
            return None;
        }
        match pattern.kind() {
            HirKind::Empty | HirKind::Look(_) => {}
            HirKind::Literal(literal) => self.bytes.extend(literal.0.iter()),
            HirKind::Class(class) => self.one_of(class),
            HirKind::Repetition(repetition) => {
                let least = repetition.min;
                let most = repetition.max.unwrap_or(u32::MAX).min(least.saturating_add(MAX_MORE));
                let times = self.choices.between(least as usize, most as usize);
                (0..times).try_for_each(|_| self.write(&repetition.sub))?;
            }
            HirKind::Capture(capture) => self.write(&capture.sub)?,
            HirKind::Concat(parts) => parts.iter().try_for_each(|part| self.write(part))?,
            HirKind::Alternation(parts) => self.choices.of(parts).map_or(Some(()), |part| self.write(part))?,
        }
        Some(())
    }

    /// Writes one character of a class.
    fn one_of(&mut self, class: &Class) {
        match class {
            Class::Bytes(class) => {
                // Control characters are left out where others match, too.
                let ranges = class.ranges().iter().map(|range| (range.start().max(b' '), range.end().min(b'~')));
                let ranges: Vec<(u8, u8)> = ranges.filter(|(start, end)| start <= end).collect();
                let first = class.ranges().first().map(|range| (range.start(), range.start()));
                if let Some((start, end)) = self.choices.of(&ranges).copied().or(first) {
                    self.bytes.push(u8::try_from(self.choices.between(start.into(), end.into())).unwrap_or(start));
                }
            }
            Class::Unicode(class) => {
                let mut utf8 = [0; 4];
                let first = class.ranges().first().map(|range| range.start());
                self.bytes.extend(first.map(|first| first.encode_utf8(&mut utf8).as_bytes()).unwrap_or_default());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_made_from_a_pattern() {
        let mut choices = Choices::new(1);
        for _ in 0..50 {
            let name = matching("^[a-z]([a-z0-9]|-[a-z0-9])*$", &mut choices).unwrap();
            assert!(name.starts_with(|first: char| first.is_ascii_lowercase()), "{name}");
            assert!(!name.ends_with('-') && !name.contains("--"), "{name}");
            let either = matching(r"^(yes|\d{2,3})$", &mut choices).unwrap();
            let is_number = either.bytes().all(|byte| byte.is_ascii_digit()) && (2..=3).contains(&either.len());
            assert!(either == "yes" || is_number, "{either}");
        }
        assert_eq!(matching("^$", &mut choices), Ok(String::new()));
        assert_eq!(matching("(", &mut choices), Err(NoText::Unreadable));
        assert_eq!(matching(r"^\xff$", &mut choices), Err(NoText::Unreadable));
    }

    #[test]
    fn a_pattern_of_large_texts_is_given_up() {
        let mut choices = Choices::new(1);
        for pattern in
            ["(((a{1000}){1000}){1000})", "((((|a)?|\\b){1000}){1000}){1000}", &"a".repeat(MAX_PATTERN_BYTES + 1)]
        {
            assert_eq!(matching(pattern, &mut choices), Err(NoText::TooLarge), "{pattern}");
        }
        assert_eq!(matching("^a{1000}$", &mut choices), Ok("a".repeat(1_000)));
    }
}
