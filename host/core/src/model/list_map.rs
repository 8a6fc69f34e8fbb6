//! Finds the objects of two lists that have the same keys: the elements of an associative list, and the elements that
//! `fieldsV1` names.
//!
//! Part of [`ownership`](crate::model::managed_fields); pure. Two objects agree when every key that both have is
//! equal in both: a key that is left out is filled in by the API server, such as a port's protocol. A
//! plugin chooses how long its lists are, so the elements of long lists are not compared each with each.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};

type Members = Map<String, Value>;

/// Up to this many elements are compared one by one, which is faster than to build a table.
pub const MAX_LINEAR_SEARCH: usize = 16;
/// The maximum number of keys of one list; no schema has so many.
pub const MAX_KEYS: usize = u32::BITS as usize;
/// The maximum number of tables of one list. A list with four keys that may each be left out needs at most 81. A list
/// that needs more is an attack, and its elements are not found.
const MAX_TABLES: usize = 81;

/// Returns, for each object of `asked`, the index of the first object of `among` that agrees with it in the keys with
/// these names. An element that is no object agrees with none.
pub fn places<'v>(
    names: &[&str],
    asked: impl IntoIterator<Item = Option<&'v Members>>,
    among: &[Option<&'v Members>],
) -> Vec<Option<usize>> {
    let asked = asked.into_iter();
    if names.len() > MAX_KEYS {
        return asked.map(|_| None).collect();
    }
    if among.len() <= MAX_LINEAR_SEARCH {
        let agrees = |one: &Members| among.iter().position(|other| other.is_some_and(|other| agree(names, one, other)));
        return asked.map(|one| agrees(one?)).collect();
    }
    let mut index = Index::new(names, among);
    asked.map(|one| index.first(one?)).collect()
}

fn agree(names: &[&str], one: &Members, other: &Members) -> bool {
    names.iter().all(|name| match (one.get(*name), other.get(*name)) {
        (Some(mine), Some(theirs)) => mine == theirs,
        _ => true,
    })
}

/// A set of names, one bit for each.
type Names = u32;

/// A list, grouped by the keys that its objects have. Each group has a table for each set of keys that was
/// asked for.
struct Index<'v, 'n> {
    names: &'n [&'n str],
    groups: BTreeMap<Names, Vec<(usize, &'v Members)>>,
    tables: HashMap<(Names, Names), HashMap<Vec<&'v Value>, usize>>,
}

impl<'v, 'n> Index<'v, 'n> {
    fn new(names: &'n [&'n str], among: &[Option<&'v Members>]) -> Self {
        let mut groups = BTreeMap::<Names, Vec<_>>::new();
        for (place, members) in among.iter().enumerate() {
            if let Some(members) = members {
                groups.entry(present(names, members)).or_default().push((place, *members));
            }
        }
        Self { names, groups, tables: HashMap::new() }
    }

    fn first(&mut self, asked: &'v Members) -> Option<usize> {
        let has = present(self.names, asked);
        let mut first = None;
        for (group, objects) in &self.groups {
            let shared = group & has;
            let full = self.tables.len() >= MAX_TABLES;
            let table = match self.tables.entry((*group, shared)) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(_) if full => return None,
                Entry::Vacant(new) => new.insert(table(self.names, shared, objects)),
            };
            let found = table.get(&values(self.names, shared, asked)).copied();
            first = first.into_iter().chain(found).min();
        }
        first
    }
}

fn table<'v>(names: &[&str], of: Names, objects: &[(usize, &'v Members)]) -> HashMap<Vec<&'v Value>, usize> {
    let mut table = HashMap::with_capacity(objects.len());
    for (place, members) in objects {
        table.entry(values(names, of, members)).or_insert(*place);
    }
    table
}

fn present(names: &[&str], members: &Members) -> Names {
    // Each name has a bit of its own.
    names.iter().enumerate().map(|(bit, name)| Names::from(members.contains_key(*name)) << bit).sum()
}

fn values<'v>(names: &[&str], of: Names, members: &'v Members) -> Vec<&'v Value> {
    let chosen = names.iter().enumerate().filter(|(bit, _)| of >> bit & 1 == 1);
    chosen.filter_map(|(_, name)| members.get(*name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    const KEYS: [&str; 3] = ["port", "protocol", "zone"];

    fn objects(values: &[Value]) -> Vec<Option<&Members>> {
        values.iter().map(Value::as_object).collect()
    }

    /// Objects with some of the keys, few values for each, and a member that is no key.
    fn list() -> impl Strategy<Value = Vec<Value>> {
        let value = || proptest::option::of(0..4_u8);
        let object = (value(), value(), value(), any::<u8>()).prop_map(|(port, protocol, zone, other)| {
            let mut members = Map::new();
            members.insert("other".into(), json!(other));
            for (name, value) in KEYS.into_iter().zip([port, protocol, zone]) {
                members.extend(value.map(|value| (name.to_owned(), json!(value))));
            }
            Value::Object(members)
        });
        proptest::collection::vec(prop_oneof![9 => object, 1 => Just(json!("no object"))], 0..60)
    }

    proptest! {
        #[test]
        fn the_first_object_that_agrees_is_found_however_long_the_list_is(asked in list(), among in list()) {
            let (asked, among) = (objects(&asked), objects(&among));
            let one_by_one = asked.iter().map(|one| {
                among.iter().position(|other| matches!((one, other), (Some(one), Some(other)) if agree(&KEYS, one, other)))
            });
            prop_assert_eq!(places(&KEYS, asked.iter().copied(), &among), one_by_one.collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_list_that_no_schema_allows_is_not_searched_for_long() {
        let names: Vec<String> = (0..MAX_KEYS).map(|n| format!("key{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let some = |set: u32| {
            let members = names.iter().enumerate().filter(|(bit, _)| set >> bit & 1 == 1);
            Value::Object(members.map(|(_, name)| ((*name).to_owned(), json!(1))).collect())
        };
        let values: Vec<Value> = (0..20_000).map(some).collect();
        let list = objects(&values);
        assert_eq!(places(&names, list.iter().copied(), &list).len(), list.len());
        let one = list.get(1..2).unwrap_or_default();
        assert_eq!(places(&names, one.iter().copied(), one), [Some(0)], "the maximum of keys is allowed");
        let too_many = vec!["key"; MAX_KEYS + 1];
        assert_eq!(places(&too_many, list.iter().copied().take(1), &list), [None]);
    }
}
