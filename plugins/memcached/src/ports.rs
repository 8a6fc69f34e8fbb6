//! The ports of `v1beta1`, and how `v1`, which says one port, keeps them.
//!
//! The annotation never says the number of the main port: `spec.containerPort` does, so that an edit of it is an edit
//! of the list.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::json;

/// The annotation in which `v1` and `v1alpha1` keep the names of the ports and the numbers of all but the main one. It is
/// absent where the only port has the usual name.
pub const ANNOTATION: &str = "cache.example.com/ports";

/// The name of the main port.
const MEMCACHED: &str = "memcached";

/// How many ports `v1beta1` has at most.
pub(crate) const MAX_PORTS: u32 = 16;
/// The maximum length of a name, in bytes: the API server's, for the name of a container's port.
const MAX_NAME_BYTES: u32 = 15;
/// The numbers that a port may have.
const MIN_NUMBER: i32 = 1;
const MAX_NUMBER: i32 = 65535;

/// A port of a server's container.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[cfg_attr(feature = "crd", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Port {
    /// The name of the port, unique in the list.
    #[cfg_attr(feature = "crd", schemars(length(max = MAX_NAME_BYTES), regex(pattern = r"^[a-z]([a-z0-9]|-[a-z0-9])*$")))]
    pub name: String,

    /// The number of the port.
    // Optional, because the annotation leaves one out, and because the API server converts parts of objects too.
    #[cfg_attr(feature = "crd", schemars(required, with = "i32", range(min = MIN_NUMBER, max = MAX_NUMBER)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_port: Option<i32>,
}

impl Port {
    /// Builds the port of a server that has no other.
    pub fn memcached(container_port: i32) -> Self {
        Self { name: MEMCACHED.to_owned(), container_port: Some(container_port) }
    }
}

/// Returns the ports of an object in `v1` with this main port and this annotation, or none if it says none. An annotation
/// that cannot be read, or says ports that `v1beta1` does not allow, counts as absent: users may write it, and an object
/// with it must be readable and valid in every version.
pub(crate) fn of_stored(container_port: Option<i32>, annotation: Option<&str>) -> Option<Vec<Port>> {
    let mut kept = annotation.and_then(read);
    if let Some(main) = kept.as_deref_mut().and_then(main) {
        main.container_port = container_port;
        return kept;
    }
    match container_port {
        Some(only) => Some(vec![Port::memcached(only)]),
        None => kept,
    }
}

/// Returns the main port of an object in `v1`, and the annotation that keeps the rest of its ports, if there is a rest.
pub(crate) fn to_stored(mut ports: Vec<Port>) -> (Option<i32>, Option<String>) {
    let container_port = main(&mut ports).and_then(|main| main.container_port.take());
    let is_usual = container_port.is_some() && matches!(ports.as_slice(), [only] if only.name == MEMCACHED);
    (container_port, (!is_usual).then(|| json!(ports).to_string()))
}

/// Returns the port that the Service leads to.
fn main(ports: &mut [Port]) -> Option<&mut Port> {
    let named = ports.iter().position(|port| port.name == MEMCACHED);
    ports.get_mut(named.unwrap_or(0))
}

/// Reads the annotation; what `v1beta1` does not allow is none.
fn read(annotation: &str) -> Option<Vec<Port>> {
    let ports: Vec<Port> = serde_json::from_str(annotation).ok()?;
    let names: BTreeSet<&str> = ports.iter().map(|port| port.name.as_str()).collect();
    let is_list = names.len() == ports.len() && ports.len() <= MAX_PORTS as usize;
    (is_list && ports.iter().all(is_allowed)).then_some(ports)
}

/// Returns whether the schema of `v1beta1` allows a port. The number may be absent: see [`Port::container_port`].
fn is_allowed(port: &Port) -> bool {
    let has_number = port.container_port.is_none_or(|number| (MIN_NUMBER..=MAX_NUMBER).contains(&number));
    has_number && port.name.len() <= MAX_NAME_BYTES as usize && is_name(&port.name)
}

/// Returns whether a text has the pattern of [`Port::name`].
fn is_name(text: &str) -> bool {
    let is_word = |word: &str| !word.is_empty() && word.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9'));
    text.starts_with(|first: char| first.is_ascii_lowercase()) && text.split('-').all(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(name: &str, number: i32) -> Port {
        Port { name: name.to_owned(), container_port: Some(number) }
    }

    #[test]
    fn the_usual_port_needs_no_annotation() {
        assert_eq!(to_stored(vec![port("memcached", 11211)]), (Some(11211), None));
        assert_eq!(of_stored(Some(11211), None), Some(vec![port("memcached", 11211)]));
    }

    #[test]
    fn the_main_port_is_the_one_named_memcached_or_else_the_first() {
        let (main, kept) = to_stored(vec![port("metrics", 9150), port("memcached", 11212)]);
        let expected = r#"[{"containerPort":9150,"name":"metrics"},{"name":"memcached"}]"#;
        assert_eq!((main, kept.as_deref()), (Some(11212), Some(expected)));
        let (main, kept) = to_stored(vec![port("cache", 11212), port("metrics", 9150)]);
        let expected = r#"[{"name":"cache"},{"containerPort":9150,"name":"metrics"}]"#;
        assert_eq!((main, kept.as_deref()), (Some(11212), Some(expected)));
    }

    #[test]
    fn the_list_follows_a_main_port_that_was_edited_meanwhile() {
        let (_, kept) = to_stored(vec![port("metrics", 9150), port("memcached", 11212)]);
        let ports = of_stored(Some(12000), kept.as_deref());
        assert_eq!(ports, Some(vec![port("metrics", 9150), port("memcached", 12000)]));
    }

    #[test]
    fn what_is_absent_stays_absent() {
        let unnumbered = || Port { name: "memcached".to_owned(), container_port: None };
        for ports in [vec![], vec![unnumbered()], vec![unnumbered(), port("metrics", 9150)]] {
            let (main, kept) = to_stored(ports.clone());
            assert_eq!(main, None);
            assert_eq!(of_stored(main, kept.as_deref()), Some(ports));
        }
        assert_eq!(of_stored(None, None), None);
    }

    #[test]
    fn an_annotation_that_cannot_be_read_counts_as_absent() {
        let twice = r#"[{"name":"a"},{"name":"a","containerPort":1}]"#;
        for wrong in ["", "no", "{}", r#"[{"name":1}]"#, r#"[{"name":"a","containerPort":99999999999}]"#, twice] {
            assert_eq!(of_stored(Some(11211), Some(wrong)), Some(vec![port("memcached", 11211)]), "{wrong}");
        }
    }

    #[test]
    fn an_annotation_with_ports_that_v1beta1_does_not_allow_counts_as_absent() {
        let is_kept = |ports: &[Port]| {
            let annotation = json!(ports).to_string();
            of_stored(Some(11211), Some(&annotation)) != Some(vec![Port::memcached(11211)])
        };
        let many = |count| (0..count).map(|number| port(&format!("p{number}"), 80)).collect::<Vec<_>>();
        assert!(is_kept(&many(16)) && !is_kept(&many(17)));
        let beside = |other: Port| [Port { name: "main".to_owned(), container_port: None }, other];
        for (number, is_allowed) in [(-1, false), (0, false), (1, true), (65535, true), (65536, false)] {
            assert_eq!(is_kept(&beside(port("metrics", number))), is_allowed, "{number}");
        }
        for name in ["a", "a1", "a-1", "abcdefghijklmno"] {
            assert!(is_kept(&beside(port(name, 80))), "{name}");
        }
        for name in ["", "1a", "A", "-a", "a-", "a--b", "a_b", "é", "abcdefghijklmnop"] {
            assert!(!is_kept(&beside(port(name, 80))), "{name}");
        }
    }
}
