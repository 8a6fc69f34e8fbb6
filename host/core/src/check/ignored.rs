//! What is said about objects that name a parent as their controller and are outside of the plugin's grant. They are
//! left out of everything, so they stop nothing. Pure.
//!
//! Any user may create such an object, so the text never advises to widen the grant for it, and its length is bounded.

use crate::model::kind::ObjectRef;
use crate::model::sanitize;

/// The type of the host's condition about such objects.
pub const CHILDREN_IGNORED: &str = "ChildrenIgnored";
/// The reason of that condition, and of the Event.
pub const OUTSIDE_GRANT: &str = "OutsideGrant";

/// How many of the objects are named.
const MAX_NAMED: usize = 3;
/// The maximum length of the name of one object, with its kind and namespace, in bytes.
const MAX_NAME_BYTES: usize = 120;

/// The objects that one parent does not get as its children: their number, and the first of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ignored {
    /// How many there are.
    pub count: usize,
    named: Vec<ObjectRef>,
}

impl Ignored {
    /// Adds an object. They come in a fixed order, so that the text changes only with the objects.
    pub fn add(&mut self, object: ObjectRef) {
        self.count = self.count.saturating_add(1);
        if self.named.len() < MAX_NAMED {
            self.named.push(object);
        }
    }

    /// Returns the text of condition and Event; `None` if there is no such object.
    pub fn message(&self) -> Option<String> {
        let names: Vec<String> =
            self.named.iter().map(|object| sanitize::clean(object.to_string(), MAX_NAME_BYTES)).collect();
        let more = self.count.checked_sub(names.len()).filter(|more| *more > 0);
        let more = more.map(|more| format!(" and {more} more")).unwrap_or_default();
        let (objects, are, them) = match self.count {
            0 => return None,
            1 => ("1 object".to_owned(), "names this one as its controller and is", "it"),
            count => (format!("{count} objects"), "name this one as their controller and are", "them"),
        };
        let names = names.join(", ");
        Some(format!(
            "{objects} outside of the plugin's grant {are} ignored: {names}{more}; the plugin is not shown {them}, \
             and nothing waits for {them}. Delete {them} if nothing needs {them}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::kind::Kind;

    fn policy(name: &str) -> ObjectRef {
        let kind = Kind::new("networking.k8s.io", "v1", "NetworkPolicy");
        ObjectRef { kind, namespace: Some("shop".into()), name: name.into() }
    }

    fn said(names: impl Iterator<Item = String>) -> Option<String> {
        let mut ignored = Ignored::default();
        names.for_each(|name| ignored.add(policy(&name)));
        ignored.message()
    }

    #[test]
    fn each_of_a_few_objects_is_named_and_none_is_no_text() {
        assert_eq!(said([].into_iter()), None);
        let one = said(["x".to_owned()].into_iter()).unwrap();
        assert!(
            one.starts_with("1 object ") && one.contains("ignored: NetworkPolicy.networking.k8s.io shop/x;"),
            "{one}"
        );
        let three = said((0..3).map(|number| format!("x-{number}"))).unwrap();
        assert!(three.starts_with("3 objects ") && three.contains("shop/x-2;") && !three.contains("more"), "{three}");
    }

    #[test]
    fn five_hundred_objects_with_long_names_are_one_short_text_on_one_line() {
        let long = said((0..500).map(|number| format!("{number}\n{}", "x".repeat(253)))).unwrap();
        assert!(long.contains(" and 497 more;") && long.len() < 700, "{long}");
        assert!(!long.contains('\n') && !long.contains("names: ["), "{long}");
    }
}
