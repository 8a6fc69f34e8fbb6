//! How a configuration is stored until it is sent: as the JSON of the fields that were set.

use std::fmt;
use std::marker::PhantomData;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The fields of one configuration that were set, as JSON. A field that was not set takes no space, in memory
/// as in the component.
#[derive(Clone, Default, Eq, PartialEq)]
pub struct Fields {
    /// The members of the object, without its braces.
    members: String,
    /// A bit for each field that is among the members, by its number.
    is_set: u64,
}

impl Fields {
    /// Sets the field of this number and name; a field that is set again has the later value.
    pub(crate) fn set<T>(&mut self, number: u32, name: &str, value: impl Value<T>) {
        self.begin(number, name);
        value.write(&mut self.members);
    }

    // Not generic, so that one copy of the code serves all types of values.
    fn begin(&mut self, number: u32, name: &str) {
        let bit = 1 << number;
        if self.is_set & bit != 0 {
            self.remove(name);
        }
        self.is_set |= bit;
        if !self.members.is_empty() {
            self.members.push(',');
        }
        // Names are those of Kubernetes' fields, which need no escapes.
        self.members.push('"');
        self.members.push_str(name);
        self.members.push_str("\":");
    }

    #[cold]
    fn remove(&mut self, name: &str) {
        let kept = members(&self.members).filter(|member| {
            !member
                .strip_prefix('"')
                .and_then(|rest| rest.strip_prefix(name))
                .is_some_and(|rest| rest.starts_with("\":"))
        });
        self.members = kept.collect::<Vec<_>>().join(",");
    }

    pub(crate) fn write(&self, out: &mut String) {
        out.push('{');
        out.push_str(&self.members);
        out.push('}');
    }
}

/// Splits the members of a JSON object at the commas between them.
fn members(text: &str) -> impl Iterator<Item = &str> {
    let (mut depth, mut in_text, mut escaped) = (0_u32, false, false);
    text.split(move |letter: char| {
        let is_escaped = std::mem::take(&mut escaped);
        match letter {
            '\\' if in_text => escaped = !is_escaped,
            '"' if !is_escaped => in_text = !in_text,
            '{' | '[' if !in_text => depth += 1,
            '}' | ']' if !in_text => depth = depth.saturating_sub(1),
            ',' => return !in_text && depth == 0,
            _ => {}
        }
        false
    })
}

/// As JSON.
impl fmt::Debug for Fields {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{{{}}}", self.members)
    }
}

/// The type of text fields: `&str`, `String` and `&String` are their values.
#[derive(Clone, Copy, Debug)]
pub enum Text {}

/// The type of text fields that hold bytes in base64: whatever is `AsRef<[u8]>` is their value.
#[derive(Clone, Copy, Debug)]
pub enum Bytes {}

/// The type of fields that take a number or a text, such as a port or a share in percent.
#[derive(Clone, Copy, Debug)]
pub enum IntOrString {}

/// The type of list fields: whatever iterates over values of `T`, such as an array or a vector.
#[derive(Clone, Copy, Debug)]
pub struct List<T>(PhantomData<T>);

/// The type of map fields: whatever iterates over pairs of a text and a value of `T`, such as a reference to a
/// `BTreeMap` or an array of pairs.
#[derive(Clone, Copy, Debug)]
pub struct Map<T>(PhantomData<T>);

/// A configuration: some fields of an object, or of a part of one.
pub trait Configuration {
    #[doc(hidden)]
    fn write_json(&self, out: &mut String);
}

/// A value that fits a field of type `T`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no value of a field of type `{T}`",
    label = "the field takes a value of type `{T}`"
)]
pub trait Value<T> {
    #[doc(hidden)]
    fn write(self, out: &mut String);
}

impl<C: Configuration> Value<C> for C {
    fn write(self, out: &mut String) {
        self.write_json(out);
    }
}

impl Value<bool> for bool {
    fn write(self, out: &mut String) {
        out.push_str(if self { "true" } else { "false" });
    }
}

macro_rules! numbers {
    ($($value:ty => $field:ty),*) => {$(
        impl Value<$field> for $value {
            fn write(self, out: &mut String) {
                out.push_str(itoa::Buffer::new().format(self));
            }
        }
    )*};
}

numbers!(i32 => i32, u16 => i32, i32 => i64, u32 => i64, i64 => i64, i32 => IntOrString, u16 => IntOrString);

macro_rules! texts {
    ($($value:ty),*) => {$(
        impl Value<Text> for $value {
            fn write(self, out: &mut String) {
                write_text(&self, out);
            }
        }

        impl Value<IntOrString> for $value {
            fn write(self, out: &mut String) {
                write_text(&self, out);
            }
        }
    )*};
}

texts!(&str, String, &String);

impl<B: AsRef<[u8]>> Value<Bytes> for B {
    fn write(self, out: &mut String) {
        write_text(&STANDARD.encode(self), out);
    }
}

impl<T, I: IntoIterator<Item: Value<T>>> Value<List<T>> for I {
    fn write(self, out: &mut String) {
        out.push('[');
        for (at, value) in self.into_iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            value.write(out);
        }
        out.push(']');
    }
}

impl<T, K: AsRef<str>, V: Value<T>, I: IntoIterator<Item = (K, V)>> Value<Map<T>> for I {
    fn write(self, out: &mut String) {
        out.push('{');
        for (at, (key, value)) in self.into_iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            write_text(key.as_ref(), out);
            out.push(':');
            value.write(out);
        }
        out.push('}');
    }
}

fn write_text(text: &str, out: &mut String) {
    if text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
        out.push('"');
        out.push_str(text);
        out.push('"');
    } else {
        // A string can always be written as JSON.
        out.push_str(&serde_json::to_string(text).unwrap_or_default());
    }
}
