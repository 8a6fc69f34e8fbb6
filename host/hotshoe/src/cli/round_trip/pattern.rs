//! Texts that match a pattern. Pure.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};

use super::choices::Choices;

/// The maximum number of repetitions more than the least.
const MAX_MORE: u32 = 3;

/// Returns a text that matches a pattern; none if the pattern cannot be read. What a pattern says of the neighbours of a
/// character, such as `\b`, is not looked at.
pub(super) fn matching(pattern: &str, choices: &mut Choices) -> Option<String> {
    // Without Unicode, classes such as `\w` are those of the API server, which are of ASCII.
    let parsed = ParserBuilder::new().unicode(false).utf8(false).build().parse(pattern).ok()?;
    let mut bytes = Vec::new();
    write(&parsed, choices, &mut bytes);
    String::from_utf8(bytes).ok()
}

fn write(pattern: &Hir, choices: &mut Choices, bytes: &mut Vec<u8>) {
    match pattern.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => bytes.extend(literal.0.iter()),
        HirKind::Class(Class::Bytes(class)) => {
            // Control characters are left out where others match, too.
            let ranges = class.ranges().iter().map(|range| (range.start().max(b' '), range.end().min(b'~')));
            let ranges: Vec<(u8, u8)> = ranges.filter(|(start, end)| start <= end).collect();
            let chosen = choices
                .of(&ranges)
                .copied()
                .or_else(|| class.ranges().first().map(|range| (range.start(), range.start())));
            if let Some((start, end)) = chosen {
                bytes.push(u8::try_from(choices.between(start.into(), end.into())).unwrap_or(start));
            }
        }
        HirKind::Class(Class::Unicode(class)) => {
            let mut utf8 = [0; 4];
            let first = class.ranges().first().map(|range| range.start());
            bytes.extend(first.map(|first| first.encode_utf8(&mut utf8).as_bytes()).unwrap_or_default());
        }
        HirKind::Repetition(repetition) => {
            let least = repetition.min;
            let most = repetition.max.unwrap_or(u32::MAX).min(least.saturating_add(MAX_MORE));
            for _ in 0..choices.between(least as usize, most as usize) {
                write(&repetition.sub, choices, bytes);
            }
        }
        HirKind::Capture(capture) => write(&capture.sub, choices, bytes),
        HirKind::Concat(parts) => parts.iter().for_each(|part| write(part, choices, bytes)),
        HirKind::Alternation(parts) => {
            if let Some(part) = choices.of(parts) {
                write(part, choices, bytes);
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
        assert_eq!(matching("^$", &mut choices).as_deref(), Some(""));
        assert_eq!(matching("(", &mut choices), None);
    }
}
