//! Formats log lines, as text or as JSON: the message, the fields of the [spans](super::spans) around the line, and then
//! its own. JSON has all of them at its top level.

use std::fmt;
use std::fmt::Write;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::field::{RecordFields, VisitOutput};
use tracing_subscriber::fmt::format::{DefaultFields, DefaultVisitor, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields, Layer, MakeWriter};
use tracing_subscriber::registry::LookupSpan;

/// The name under which tracing has the message of a line.
const MESSAGE: &str = "message";
/// The ANSI code of what is dimmed.
const DIMMED: &str = "2";

/// Returns a layer that writes lines of text.
pub fn text<S, W>(writer: W) -> Layer<S, DefaultFields, Text, W>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + 'static,
{
    Layer::default().fmt_fields(DefaultFields::new()).event_format(Text).with_writer(writer)
}

/// Returns a layer that writes lines of JSON.
pub fn json<S, W>(writer: W) -> Layer<S, Members, Json, W>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + 'static,
{
    Layer::default().fmt_fields(Members).event_format(Json).with_writer(writer)
}

/// Formats a line as text.
pub struct Text;

impl<S, N> FormatEvent<S, N> for Text
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut line: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        write_head(&mut line, event.metadata())?;
        write_part(&mut line, event, Part::Message)?;
        for_each_span(context, |fields| write!(line, " {fields}"))?;
        write_part(&mut line, event, Part::Fields)?;
        writeln!(line)
    }
}

/// Writes time, level and target.
fn write_head(line: &mut Writer<'_>, metadata: &Metadata<'_>) -> fmt::Result {
    let (level, colour) = match *metadata.level() {
        Level::ERROR => ("ERROR", "31"),
        Level::WARN => (" WARN", "33"),
        Level::INFO => (" INFO", "32"),
        Level::DEBUG => ("DEBUG", "34"),
        Level::TRACE => ("TRACE", "35"),
    };
    let mut time = String::new();
    SystemTime.format_time(&mut Writer::new(&mut time))?;
    for (code, word, end) in [(DIMMED, &*time, " "), (colour, level, " "), (DIMMED, metadata.target(), ": ")] {
        match line.has_ansi_escapes() {
            true => write!(line, "\x1b[{code}m{word}\x1b[0m{end}")?,
            false => write!(line, "{word}{end}")?,
        }
    }
    Ok(())
}

fn write_part(line: &mut Writer<'_>, event: &Event<'_>, part: Part) -> fmt::Result {
    let mut visitor = PartOfText { text: DefaultVisitor::new(line.by_ref(), part == Part::Message), part };
    event.record(&mut visitor);
    visitor.text.finish()
}

/// A part of a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Message,
    Fields,
}

impl Part {
    fn has(self, field: &Field) -> bool {
        (field.name() == MESSAGE) == (self == Self::Message)
    }
}

/// Writes one part of a line as text.
struct PartOfText<'a> {
    text: DefaultVisitor<'a>,
    part: Part,
}

impl Visit for PartOfText<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        if self.part.has(field) {
            self.text.record_str(field, value);
        }
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        if self.part.has(field) {
            self.text.record_error(field, value);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if self.part.has(field) {
            self.text.record_debug(field, value);
        }
    }
}

/// Calls a function with the fields of each span around a line, the outermost first.
fn for_each_span<S, N>(context: &FmtContext<'_, S, N>, mut write: impl FnMut(&str) -> fmt::Result) -> fmt::Result
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    for span in context.event_scope().into_iter().flat_map(|scope| scope.from_root()) {
        let extensions = span.extensions();
        let fields = extensions.get::<FormattedFields<N>>().map_or("", |fields| &fields.fields);
        if !fields.is_empty() {
            write(fields)?;
        }
    }
    Ok(())
}

/// Formats a line as JSON.
pub struct Json;

impl<S, N> FormatEvent<S, N> for Json
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut line: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let metadata = event.metadata();
        line.write_str(r#"{"timestamp":""#)?;
        SystemTime.format_time(&mut line)?;
        write!(line, r#"","level":"{}""#, metadata.level())?;
        write_members(&mut line, |visitor| event.record(visitor), Part::Message.into())?;
        for_each_span(context, |members| line.write_str(members))?;
        write_members(&mut line, |visitor| event.record(visitor), Part::Fields.into())?;
        writeln!(line, r#","target":"{}"}}"#, metadata.target())
    }
}

/// Formats the fields of a span as members of a JSON object, each after a comma.
pub struct Members;

impl<'a> FormatFields<'a> for Members {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'a>, fields: R) -> fmt::Result {
        write_members(&mut writer, |visitor| fields.record(visitor), None)
    }
}

/// Writes the members of one part, or of all.
fn write_members(line: &mut Writer<'_>, record: impl FnOnce(&mut MemberWriter<'_>), part: Option<Part>) -> fmt::Result {
    let mut visitor = MemberWriter { line: line.by_ref(), part, result: Ok(()) };
    record(&mut visitor);
    visitor.result
}

/// Writes fields as members of a JSON object.
struct MemberWriter<'a> {
    line: Writer<'a>,
    part: Option<Part>,
    result: fmt::Result,
}

impl MemberWriter<'_> {
    /// Writes a member whose value is JSON.
    fn write(&mut self, field: &Field, value: impl fmt::Display) {
        if self.result.is_ok() && self.part.is_none_or(|part| part.has(field)) {
            self.result = write!(self.line, r#","{}":{value}"#, field.name());
        }
    }

    /// Writes a member whose value is a string.
    fn write_text(&mut self, field: &Field, value: fmt::Arguments<'_>) {
        self.write(field, format_args!("\"{}\"", Escaped(value)));
    }
}

impl Visit for MemberWriter<'_> {
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.write(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.write(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.write(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.write_text(field, format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.write_text(field, format_args!("{value:?}"));
    }
}

/// Text as it is within a string of JSON.
struct Escaped<'a>(fmt::Arguments<'a>);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        Escaping(formatter).write_fmt(self.0)
    }
}

/// Escapes what is written.
struct Escaping<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl fmt::Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let is_special = |letter: char| matches!(letter, '"' | '\\') || letter.is_control();
        for piece in text.split_inclusive(is_special) {
            let special = piece.chars().next_back().filter(|last| is_special(*last));
            self.0.write_str(&piece[..piece.len() - special.map_or(0, char::len_utf8)])?;
            match special {
                None => {}
                Some(letter @ ('"' | '\\')) => write!(self.0, "\\{letter}")?,
                Some('\n') => self.0.write_str("\\n")?,
                Some(letter) => write!(self.0, "\\u{:04x}", u32::from(letter))?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use parking_lot::Mutex;
    use serde_json::{Value, json};
    use tracing_subscriber::prelude::*;

    use super::*;
    use crate::telemetry::spans;
    use hotshoe_core::model::digest::Digest;

    const PARENT: &str = "Memcached.cache.example.com shop/cache";

    /// Keeps what is written.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Kept {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().clone()).unwrap()
        }
    }

    impl io::Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Returns the line that is written as text and as JSON, without its time.
    fn line(write: impl Fn()) -> (String, Value) {
        let (in_text, in_json) = (Kept::default(), Kept::default());
        let (to_text, to_json) = (in_text.clone(), in_json.clone());
        let as_text = tracing_subscriber::registry().with(text(move || to_text.clone()).with_ansi(false));
        tracing::subscriber::with_default(as_text, &write);
        let as_json = tracing_subscriber::registry().with(json(move || to_json.clone()));
        tracing::subscriber::with_default(as_json, &write);
        let mut value: Value = serde_json::from_str(&in_json.text()).unwrap();
        let time = value.as_object_mut().unwrap().remove("timestamp").unwrap();
        assert!(time.as_str().is_some_and(|time| time.ends_with('Z')), "{time}");
        (in_text.text().split_once(' ').unwrap().1.to_owned(), value)
    }

    #[test]
    fn a_line_within_a_reconcile_has_plugin_digest_and_object_before_its_own_fields() {
        let digest = Digest::of(b"a");
        let (text, json) = line(|| {
            let _span = spans::object("memcached", Some(digest), PARENT).entered();
            tracing::warn!(target: "hotshoe::x", reason = "Invalid", tries = 3, last = true, "it {}", "failed");
        });
        let fields =
            format!(r#"plugin="memcached" digest={digest} object={PARENT} reason="Invalid" tries=3 last=true"#);
        assert_eq!(text, format!(" WARN hotshoe::x: it failed {fields}\n"));
        let expected = json!({
            "level": "WARN", "message": "it failed", "plugin": "memcached", "digest": digest.to_string(),
            "object": PARENT, "reason": "Invalid", "tries": 3, "last": true, "target": "hotshoe::x",
        });
        assert_eq!(json, expected);
    }

    #[test]
    fn a_line_within_two_spans_has_the_fields_of_the_inner_one_alone() {
        let (left, next) = (Digest::of(b"a"), Digest::of(b"b"));
        let (text, json) = line(|| {
            let _task = spans::plugin("memcached").entered();
            let _rollback = spans::revision("memcached", left).entered();
            let _activation = spans::revision("memcached", next).entered();
            tracing::info!(target: "hotshoe::x", "active");
        });
        assert_eq!(text, format!(" INFO hotshoe::x: active plugin=\"memcached\" digest={next}\n"));
        assert_eq!((&json["plugin"], &json["digest"]), (&json!("memcached"), &json!(next.to_string())));
    }

    #[test]
    fn text_of_others_forges_neither_a_line_of_json_nor_a_member() {
        let forged = "a\",\"plugin\":\"b\\\n{\u{1b}\t";
        let (_, json) = line(|| {
            let _span = spans::object("memcached", None, forged).entered();
            tracing::info!(why = forged, "{forged}");
        });
        for member in ["message", "object", "why"] {
            assert_eq!(json[member], forged, "{member}");
        }
        assert_eq!((&json["plugin"], &json["digest"]), (&json!("memcached"), &Value::Null));
    }
}
