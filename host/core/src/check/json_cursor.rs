//! Walks untrusted JSON and keeps track of the path: a value of an unexpected type is denied with its path, never
//! skipped. Pure.

use std::rc::Rc;

use serde_json::{Map, Value};

use crate::check::fix::{Fix, GrantChange};
use crate::check::violation::{Checked, Denial, Violation};
use crate::model::kind::Kind;

/// The rule that denies a field that the host does not know.
pub const UNKNOWN_FIELD: &str = "field-unknown";

/// A value and its path. The path is formatted only for a denial, because nearly every value passes.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    container: Option<Rc<Position<'a>>>,
    step: Step<'a>,
    value: &'a Value,
}

/// The position of a value that contains another one.
#[derive(Debug)]
struct Position<'a> {
    container: Option<Rc<Position<'a>>>,
    step: Step<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    Root,
    Member(&'a str),
    Element(usize),
}

impl<'a> Cursor<'a> {
    /// Builds a cursor at the root of a value.
    pub fn root(value: &'a Value) -> Self {
        Self { container: None, step: Step::Root, value }
    }

    /// Returns the members of an object.
    ///
    /// # Errors
    /// When the value is not an object.
    pub fn members(&self) -> Result<impl Iterator<Item = (&'a str, Cursor<'a>)>, Denial> {
        let (members, container) = (self.object()?, self.position());
        let member = move |(key, value): (&'a String, _)| {
            (key.as_str(), Self { container: container.clone(), step: Step::Member(key), value })
        };
        Ok(members.iter().map(member))
    }

    /// Returns the member of an object with this key, if any.
    ///
    /// # Errors
    /// When the value is not an object, or has a member whose key differs from this one only in case: the API server
    /// would not confuse the two, but nothing should rely on that.
    pub fn child(&self, key: &str) -> Result<Option<Cursor<'a>>, Denial> {
        let members = self.object()?;
        let member =
            |(key, value): (&'a String, _)| Self { container: self.position(), step: Step::Member(key), value };
        match members.iter().find(|(other, _)| *other != key && other.eq_ignore_ascii_case(key)) {
            Some(other) => Err(member(other).unknown()),
            None => Ok(members.get_key_value(key).map(member)),
        }
    }

    /// Returns a mandatory member.
    ///
    /// # Errors
    /// When the member is missing, and as for [`Self::child`].
    pub fn required(&self, key: &str) -> Result<Cursor<'a>, Denial> {
        self.child(key)?.ok_or_else(|| self.refuse("field-shape", &format!("has no {key}")))
    }

    /// Follows a path of nested members; returns `None` where one of them is missing.
    ///
    /// # Errors
    /// As for [`Self::child`], for each of the members.
    pub fn descendant(&self, path: &[&str]) -> Result<Option<Cursor<'a>>, Denial> {
        let mut at = self.clone();
        for key in path {
            match at.child(key)? {
                Some(found) => at = found,
                None => return Ok(None),
            }
        }
        Ok(Some(at))
    }

    /// Returns the elements of a list.
    ///
    /// # Errors
    /// When the value is not a list.
    pub fn elements(&self) -> Result<impl Iterator<Item = Cursor<'a>>, Denial> {
        let elements = self.value.as_array().ok_or_else(|| self.wrong_type("a list"))?;
        let container = self.position();
        let element = move |(index, value)| Self { container: container.clone(), step: Step::Element(index), value };
        Ok(elements.iter().enumerate().map(element))
    }

    /// Returns the outermost objects of a value of any type: the value itself, or the objects in its lists, however
    /// nested.
    pub fn objects(&self) -> Vec<Cursor<'a>> {
        match self.value {
            Value::Object(_) => vec![self.clone()],
            _ => self.elements().into_iter().flatten().flat_map(|element| element.objects()).collect(),
        }
    }

    /// Returns the value of a string.
    ///
    /// # Errors
    /// When the value is not a string.
    pub fn text(&self) -> Result<&'a str, Denial> {
        self.value.as_str().ok_or_else(|| self.wrong_type("a text"))
    }

    /// Checks that the value is `false`, or that the flag `item` of the grant allows `true`.
    ///
    /// # Errors
    /// When the value is `true` and not granted, or not a boolean.
    pub fn ensure_false_or_granted(&self, granted: bool, rule: &'static str, item: &'static str) -> Checked {
        self.ensure(!self.flag()? || granted, rule, item)
    }

    /// Returns the value of a boolean.
    ///
    /// # Errors
    /// When the value is not a boolean.
    pub fn flag(&self) -> Result<bool, Denial> {
        self.value.as_bool().ok_or_else(|| self.wrong_type("true or false"))
    }

    /// Returns whether a number is 0.
    ///
    /// # Errors
    /// When the value is not a number.
    pub fn is_zero(&self) -> Result<bool, Denial> {
        match self.value {
            Value::Number(number) => Ok(number.as_i64() == Some(0)),
            _ => Err(self.wrong_type("a number")),
        }
    }

    /// Denies the value unless it is granted by the flag `item`.
    ///
    /// # Errors
    /// When it is not granted.
    pub fn ensure(&self, granted: bool, rule: &'static str, item: &'static str) -> Checked {
        if granted { Ok(()) } else { Err(self.not_granted(rule, item, true.into())) }
    }

    /// Denies the value unless it is granted because the list `item` contains `name`.
    ///
    /// # Errors
    /// When it is not granted.
    pub fn ensure_listed(&self, granted: bool, rule: &'static str, item: &'static str, name: &str) -> Checked {
        if granted { Ok(()) } else { Err(self.not_granted(rule, item, vec![name].into())) }
    }

    fn not_granted(&self, rule: &'static str, item: &'static str, value: Value) -> Denial {
        self.violation(rule, "is not granted").fixed_by(grant_change(item, value)).into()
    }

    /// Builds the denial of a field that is not known to be harmless.
    pub fn unknown(&self) -> Denial {
        self.violation(UNKNOWN_FIELD, "is no field that this host knows to be harmless; leave it out").into()
    }

    /// Builds a denial by `rule` whose message is the path followed by `why`.
    pub fn refuse(&self, rule: &'static str, why: &str) -> Denial {
        self.violation(rule, why).into()
    }

    /// Builds a denial like [`Self::refuse`] that the flag or list `item` of a grant would fix.
    pub fn refuse_unless(&self, rule: &'static str, why: &str, item: &'static str, value: Value) -> Denial {
        self.violation(rule, why).fixed_by(grant_change(item, value)).into()
    }

    /// Builds a denial like [`Self::refuse_unless`], whose message names a better fix: a change of the object.
    pub fn refuse_better(&self, rule: &'static str, why: &str, item: &'static str, value: Value) -> Denial {
        self.refuse_unless(rule, why, item, value).map(Violation::with_better_fix)
    }

    fn violation(&self, rule: &'static str, why: &str) -> Violation {
        Violation::new(rule, format!("{} {why}", self.path())).at(self.pointer())
    }

    fn wrong_type(&self, wanted: &str) -> Denial {
        self.refuse("field-shape", &format!("is not {wanted}"))
    }

    fn object(&self) -> Result<&'a Map<String, Value>, Denial> {
        self.value.as_object().ok_or_else(|| self.wrong_type("an object"))
    }

    fn position(&self) -> Option<Rc<Position<'a>>> {
        Some(Rc::new(Position { container: self.container.clone(), step: self.step }))
    }

    /// Returns the steps from the root.
    fn steps(&self) -> Vec<Step<'a>> {
        let container = std::iter::successors(self.container.as_deref(), |position| position.container.as_deref());
        let mut steps: Vec<_> = std::iter::once(self.step).chain(container.map(|position| position.step)).collect();
        steps.reverse();
        steps
    }

    fn pointer(&self) -> String {
        let part = |step: &Step<'a>| match step {
            Step::Root => String::new(),
            Step::Member(key) => format!("/{}", key.replace('~', "~0").replace('/', "~1")),
            Step::Element(index) => format!("/{index}"),
        };
        self.steps().iter().map(part).collect()
    }

    /// Formats the path for a message. Keys are cut, because the plugin chooses them.
    fn path(&self) -> String {
        let mut path = String::new();
        for step in self.steps() {
            match step {
                Step::Root => {}
                Step::Member(key) => {
                    path.extend((!path.is_empty()).then_some('.'));
                    path.extend(key.chars().take(64).filter(|letter| !letter.is_control()));
                }
                Step::Element(index) => path.push_str(&format!("[{index}]")),
            }
        }
        path
    }
}

/// Builds the fix that adds an item to a grant. The caller that knows the grant fills in its kind and index.
pub fn grant_change(item: &'static str, value: Value) -> Fix {
    Fix::Grant(Box::new(GrantChange::new(Kind::new("", "", ""), None, vec![(item, value)])))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(denial: &Denial) -> &str {
        &denial.violations()[0].message
    }

    #[test]
    fn a_refusal_names_the_path() {
        let value = json!({ "a": { "b": [{}, { "c": 1 }] } });
        let b = Cursor::root(&value).child("a").unwrap().unwrap().child("b").unwrap().unwrap();
        let c = b.elements().unwrap().nth(1).unwrap().child("c").unwrap().unwrap();
        assert!(message(&c.unknown()).starts_with("a.b[1].c is no field"), "{:?}", c.unknown());
        let closed = c.ensure(false, "rule", "pods.c").unwrap_err();
        assert_eq!(closed.rule(), "rule");
        assert!(message(&closed).starts_with("a.b[1].c is not granted"), "{closed}");
        assert!(closed.to_string().contains("pods: {c: true}"), "{closed}");
        let listed = c.ensure_listed(false, "rule", "pods.c", "*").unwrap_err();
        assert!(listed.to_string().contains(r#"pods: {c: ["*"]}"#), "{listed}");
        assert!(c.ensure(true, "rule", "pods.c").is_ok());
        assert_eq!(message(&c.refuse("rule", "says so")), "a.b[1].c says so");
    }

    #[test]
    fn a_key_that_is_long_or_hostile_is_not_repeated_whole() {
        let value = json!({ format!("\u{1b}[2J{}", "x".repeat(100)): 1 });
        let (_, member) = Cursor::root(&value).members().unwrap().next().unwrap();
        let denial = member.refuse("rule", "!");
        assert_eq!(message(&denial), format!("[2J{} !", "x".repeat(60)));
    }

    #[test]
    fn the_wrong_shape_is_an_error() {
        let value = json!({ "text": "t", "flag": true, "number": 0, "other": 1, "list": [], "null": null });
        let root = Cursor::root(&value);
        let at = |key: &str| root.child(key).unwrap().unwrap();
        for key in ["text", "flag", "number", "list", "null"] {
            assert_eq!(at(key).text().is_ok(), key == "text");
            assert_eq!(at(key).flag().is_ok(), key == "flag");
            assert_eq!(at(key).is_zero().is_ok(), key == "number");
            assert_eq!(at(key).elements().is_ok(), key == "list");
            assert!(at(key).members().is_err() && at(key).child("x").is_err());
        }
        assert!(at("number").is_zero().unwrap() && !at("other").is_zero().unwrap());
        assert!(root.child("missing").unwrap().is_none());
        let violation = at("null").text().unwrap_err();
        assert_eq!((violation.rule(), message(&violation)), ("field-shape", "null is not a text"));
    }

    #[test]
    fn objects_are_found_in_lists_of_lists() {
        let value = json!([1, {}, [[{ "a": 1 }], "x"], null]);
        let found: Vec<_> = Cursor::root(&value).objects().iter().map(Cursor::path).collect();
        assert_eq!(found, ["[1]", "[2][0][0]"]);
        let object = json!({ "a": {} });
        assert_eq!(Cursor::root(&object).objects().len(), 1);
    }

    #[test]
    fn a_member_that_differs_only_in_case_is_refused() {
        for value in [json!({ "Spec": 1 }), json!({ "spec": 1, "SPEC": 2 })] {
            let violation = Cursor::root(&value).child("spec").unwrap_err();
            assert_eq!(violation.rule(), "field-unknown");
            assert!(message(&violation).starts_with('S'), "{violation}");
        }
    }
}
