//! Formats log lines, as text or as JSON: the message, the fields of the [spans](super::spans) around the line, and then
//! its own. JSON has all of them at its top level.

use std::fmt;
use std::fmt::Write;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields, Layer, MakeWriter};
use tracing_subscriber::registry::LookupSpan;

/// The name under which tracing has the message of a line.
const MESSAGE: &str = "message";
/// The ANSI codes of what is dimmed, and of the names of fields.
const DIMMED: &str = "2";
const ITALIC: &str = "3";

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineFormat {
    /// For people.
    Text,
    /// For programs: each line is an object.
    Json,
}

/// Returns a layer that writes lines.
pub fn layer<S, W>(format: LineFormat, writer: W) -> Layer<S, LineFormat, LineFormat, W>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + 'static,
{
    Layer::default().fmt_fields(format).event_format(format).with_writer(writer)
}

impl<S> FormatEvent<S, Self> for LineFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn format_event(&self, context: &FmtContext<'_, S, Self>, mut line: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let metadata = event.metadata();
        match self {
            Self::Text => write_head(&mut line, metadata)?,
            Self::Json => {
                line.write_str(r#"{"timestamp":""#)?;
                SystemTime.format_time(&mut line)?;
                write!(line, r#"","level":"{}""#, metadata.level())?;
            }
        }
        self.write(&mut line, |visitor| event.record(visitor), |name| name == MESSAGE)?;
        for span in context.event_scope().into_iter().flat_map(|scope| scope.from_root()) {
            if let Some(fields) = span.extensions().get::<FormattedFields<Self>>() {
                line.write_str(&fields.fields)?;
            }
        }
        self.write(&mut line, |visitor| event.record(visitor), |name| name != MESSAGE)?;
        match self {
            Self::Text => writeln!(line),
            Self::Json => writeln!(line, r#","target":"{}"}}"#, metadata.target()),
        }
    }
}

/// Formats the fields of a span once, when it begins. That is the most of what a span costs.
impl<'a> FormatFields<'a> for LineFormat {
    fn format_fields<R: RecordFields>(&self, mut line: Writer<'a>, fields: R) -> fmt::Result {
        self.write(&mut line, |visitor| fields.record(visitor), |_| true)
    }
}

impl LineFormat {
    /// Writes the fields whose names are wanted.
    fn write(
        self,
        line: &mut Writer<'_>,
        record: impl FnOnce(&mut FieldWriter<'_>),
        is_wanted: fn(&str) -> bool,
    ) -> fmt::Result {
        let mut visitor = FieldWriter { format: self, line: line.by_ref(), is_wanted, result: Ok(()) };
        record(&mut visitor);
        visitor.result
    }
}

/// Writes time, level and target of a line of text.
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
    for (code, word, end) in [(DIMMED, &*time, " "), (colour, level, " "), (DIMMED, metadata.target(), ":")] {
        write_painted(line, code, word)?;
        line.write_str(end)?;
    }
    Ok(())
}

/// Writes a word, in a colour if the line has colours.
fn write_painted(line: &mut Writer<'_>, code: &str, word: &str) -> fmt::Result {
    match line.has_ansi_escapes() {
        true => write!(line, "\x1b[{code}m{word}\x1b[0m"),
        false => line.write_str(word),
    }
}

/// Writes fields, each behind what is there already.
struct FieldWriter<'a> {
    format: LineFormat,
    line: Writer<'a>,
    is_wanted: fn(&str) -> bool,
    result: fmt::Result,
}

impl FieldWriter<'_> {
    fn write(&mut self, field: &Field, value: Value<'_>) {
        if self.result.is_ok() && (self.is_wanted)(field.name()) {
            self.result = match self.format {
                LineFormat::Text => self.write_text(field.name(), value),
                LineFormat::Json => self.write_member(field.name(), value),
            };
        }
    }

    fn write_text(&mut self, name: &str, value: Value<'_>) -> fmt::Result {
        self.line.write_char(' ')?;
        if name != MESSAGE {
            write_painted(&mut self.line, ITALIC, name)?;
            write_painted(&mut self.line, DIMMED, "=")?;
        }
        match value {
            Value::Text(text) if name != MESSAGE => write!(self.line, "{text:?}"),
            Value::Text(text) => Escaping::text(&mut self.line).write_str(text),
            Value::Shown(shown) => write!(Escaping::text(&mut self.line), "{shown:?}"),
            Value::Plain(plain) => self.line.write_fmt(plain),
        }
    }

    fn write_member(&mut self, name: &str, value: Value<'_>) -> fmt::Result {
        write!(self.line, r#","{name}":"#)?;
        if let Value::Plain(plain) = value {
            return self.line.write_fmt(plain);
        }
        self.line.write_char('"')?;
        match value {
            Value::Text(text) => Escaping::json(&mut self.line).write_str(text)?,
            Value::Shown(shown) => write!(Escaping::json(&mut self.line), "{shown:?}")?,
            Value::Plain(_) => {}
        }
        self.line.write_char('"')
    }
}

/// The value of a field.
enum Value<'a> {
    Text(&'a str),
    Shown(&'a dyn fmt::Debug),
    /// A number or a truth value.
    Plain(fmt::Arguments<'a>),
}

impl Visit for FieldWriter<'_> {
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.write(field, Value::Plain(format_args!("{value}")));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.write(field, Value::Plain(format_args!("{value}")));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.write(field, Value::Plain(format_args!("{value}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.write(field, Value::Text(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.write(field, Value::Shown(value));
    }
}

/// Escapes what is written: in text what a terminal would obey, in JSON what would end a string.
struct Escaping<'a, 'b> {
    line: &'a mut Writer<'b>,
    is_special: fn(char) -> bool,
}

impl<'a, 'b> Escaping<'a, 'b> {
    fn text(line: &'a mut Writer<'b>) -> Self {
        Self { line, is_special: |letter| letter.is_control() && !matches!(letter, '\n' | '\t') }
    }

    fn json(line: &'a mut Writer<'b>) -> Self {
        Self { line, is_special: |letter| letter.is_control() || matches!(letter, '"' | '\\') }
    }
}

impl fmt::Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for piece in text.split_inclusive(self.is_special) {
            let special = piece.chars().next_back().filter(|last| (self.is_special)(*last));
            self.line.write_str(piece.get(..piece.len() - special.map_or(0, char::len_utf8)).unwrap_or_default())?;
            match special {
                None => {}
                Some(letter @ ('"' | '\\')) => write!(self.line, "\\{letter}")?,
                Some('\n') => self.line.write_str("\\n")?,
                Some(letter) => write!(self.line, "\\u{:04x}", u32::from(letter))?,
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
    use serde_json::json;
    use tracing_subscriber::prelude::*;

    use super::*;
    use hotshoe_core::model::digest::Digest;
    use hotshoe_platform::spans;

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
    fn line(write: impl Fn()) -> (String, serde_json::Value) {
        let (in_text, in_json) = (Kept::default(), Kept::default());
        let (to_text, to_json) = (in_text.clone(), in_json.clone());
        let as_text =
            tracing_subscriber::registry().with(layer(LineFormat::Text, move || to_text.clone()).with_ansi(false));
        tracing::subscriber::with_default(as_text, &write);
        let as_json = tracing_subscriber::registry().with(layer(LineFormat::Json, move || to_json.clone()));
        tracing::subscriber::with_default(as_json, &write);
        let mut value: serde_json::Value = serde_json::from_str(&in_json.text()).unwrap();
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
        let (text, json) = line(|| {
            let _span = spans::object("memcached", None, forged).entered();
            tracing::info!(why = forged, "{forged}");
        });
        assert!(!text.contains('\u{1b}') && text.contains("\\u001b"), "no terminal obeys it: {text}");
        for member in ["message", "object", "why"] {
            assert_eq!(json[member], forged, "{member}");
        }
        assert_eq!((&json["plugin"], &json["digest"]), (&json!("memcached"), &serde_json::Value::Null));
    }
}
