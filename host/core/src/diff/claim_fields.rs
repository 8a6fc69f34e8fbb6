//! What somebody set together with an edit of ours, and what makes our wish impossible: a profile of their
//! own beside the type of seccomp profile that we set, or `privileged` beside what forbids more privileges.
//! An apply leaves alone what others set, so that it would be refused for ever.
//!
//! Beside *diff*; pure. Who owns a field stands in `managedFields`, which may be written as well as read
//! (as `csaupgrade` of client-go does): what stands in the way is noted as ours, and the next apply, which
//! does not set it, takes it away. Nothing else changes with the note, and what nobody set stays, such as
//! what the API server filled in and nobody may change.

use serde_json::{Map, Value, json};

use crate::check::Desired;
use crate::diff::{PAIRS, Repair};
use crate::model::managed_fields::has_keys;
use crate::model::object::APPLIED_ANNOTATION;

/// A node of `fieldsV1`.
type Node = Map<String, Value>;

/// Where the owners of fields stand in an object.
const OWNERS: &str = "/metadata/managedFields";
/// What tells one of them from another, beside the subresource.
const WHO: [&str; 3] = ["manager", "operation", "apiVersion"];
/// Whose fields beside an edit are claimed first: those of who made it, and then everybody's; from then on all
/// below what is looked at, one step further out each time.
const EDITORS: usize = 0;
const BESIDE: usize = 1;
const BELOW: usize = 2;

/// What is claimed in one step.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// How far it reaches; the next one has to reach further.
    pub reach: usize,
    /// The owners as they are to be.
    pub owners: Repair,
    /// From whom what was claimed.
    pub taken: Vec<Taken>,
}

/// What was claimed from one owner.
#[derive(Clone, Debug, PartialEq)]
pub struct Taken {
    /// Its entry in `managedFields`, as it was.
    from: Node,
    fields: Node,
}

/// The narrowest claim that reaches at least so far and takes anything: nothing where nobody edited what we set.
pub fn claim(live: &Value, manager: &str, desired: &Desired, reach: usize) -> Option<Claim> {
    let owners = Owners::of(live, manager)?;
    let places = owners.edited(desired, is_unchanged(live, desired));
    let furthest = places.iter().map(|place| place.path.len()).max()? + BELOW;
    (reach..furthest).find_map(|reach| {
        let mut claimed = owners.clone();
        let taken: Vec<Taken> = places.iter().flat_map(|place| claimed.take(place, reach)).collect();
        (!taken.is_empty()).then(|| Claim { reach, owners: claimed.repair(), taken })
    })
}

/// Gives back what was claimed in vain, but for what somebody else took meanwhile: nothing where that is all.
/// Not simply the owners as they were: whoever writes a status is an owner, too, and does so at any time.
pub fn give_back(live: &Value, manager: &str, taken: &[Taken]) -> Option<Repair> {
    let mut owners = Owners::of(live, manager)?;
    let given = taken.iter().filter(|taken| owners.give_back(taken)).count();
    (given > 0).then(|| owners.repair())
}

/// The owners without what is noted as edits of ours, where there are any. What a repair put back we own by the
/// apply after it; as an edit it would be ours for ever, and no apply could take it away.
pub fn without_edits(live: &Value, manager: &str) -> Option<Repair> {
    let mut owners = Owners::of(live, manager)?;
    let before = owners.entries.len();
    owners.entries.retain(|entry| entry["manager"] != manager || entry["operation"] == "Apply" || !is_main(entry));
    (owners.entries.len() < before).then(|| owners.repair())
}

/// Whether the plugin wishes for what was applied last, so that whatever we do not own was taken from us.
fn is_unchanged(live: &Value, desired: &Desired) -> bool {
    let applied = live.pointer("/metadata/annotations").and_then(|annotations| annotations.get(APPLIED_ANNOTATION));
    applied.and_then(Value::as_str) == Some(&*desired.digest)
}

/// A struct, map or list of which we lost something, from the outside in: a key of `fieldsV1` and what is
/// desired below it.
#[derive(Clone)]
struct Place<'a> {
    path: Vec<(String, &'a Value)>,
    /// Which entries own what we lost; none where it was removed.
    editors: Vec<usize>,
}

impl<'a> Place<'a> {
    fn below(&self, key: &str, desired: &'a Value) -> Self {
        let mut path = self.path.clone();
        path.push((key.to_owned(), desired));
        Self { path, editors: Vec::new() }
    }
}

/// The entries of `managedFields`, with the place of ours.
#[derive(Clone)]
struct Owners {
    entries: Vec<Value>,
    mine: usize,
}

impl Owners {
    fn of(live: &Value, manager: &str) -> Option<Self> {
        let entries = live.pointer(OWNERS)?.as_array()?.clone();
        let is_mine = |entry: &Value| entry["manager"] == manager && entry["operation"] == "Apply" && is_main(entry);
        let mine = entries.iter().position(is_mine)?;
        Some(Self { entries, mine })
    }

    /// Which entries are about the same fields as ours: what was written in another version, or to a
    /// subresource, is left alone.
    fn alike(&self) -> impl Iterator<Item = usize> {
        let version = self.entries.get(self.mine).map(|entry| &entry["apiVersion"]);
        (0..)
            .zip(&self.entries)
            .filter(move |(_, entry)| is_main(entry) && Some(&entry["apiVersion"]) == version)
            .map(|(index, _)| index)
    }

    /// Where others took something from us.
    fn edited<'a>(&self, desired: &'a Desired, unchanged: bool) -> Vec<Place<'a>> {
        let alike: Vec<usize> = self.alike().collect();
        let root: Vec<_> =
            alike.iter().filter_map(|index| Some((*index, fields(self.entries.get(*index)?)?))).collect();
        let mut search = Search { mine: self.mine, unchanged, found: Vec::new() };
        for (key, value) in desired.body.as_object().into_iter().flatten() {
            // Which object it is, and metadata that others share with us.
            if !matches!(key.as_str(), "apiVersion" | "kind" | "metadata") {
                let key = format!("f:{key}");
                search.look(Place { path: vec![(key.clone(), value)], editors: Vec::new() }, &below(&root, &key));
            }
        }
        search.found
    }

    /// Makes ours what others own around a place.
    fn take(&mut self, place: &Place<'_>, reach: usize) -> Vec<Taken> {
        let further = reach.saturating_sub(BELOW);
        let Some(path) = place.path.len().checked_sub(further).and_then(|depth| place.path.get(..depth)) else {
            return Vec::new();
        };
        let mut all = Vec::new();
        for index in self.alike().collect::<Vec<_>>() {
            let asked = reach > EDITORS || place.editors.is_empty() || place.editors.contains(&index);
            if !asked || index == self.mine {
                continue;
            }
            let Some(entry) = self.entries.get_mut(index) else { continue };
            let from = entry.as_object().cloned().unwrap_or_default();
            let fields = fields_mut(entry).map(|node| take_at(node, path, reach > BESIDE)).unwrap_or_default();
            if !fields.is_empty() {
                self.add(self.mine, fields.clone());
                all.push(Taken { from, fields });
            }
        }
        all
    }

    /// Says whether any of it was still ours.
    fn give_back(&mut self, taken: &Taken) -> bool {
        let Some(mine) = self.entries.get_mut(self.mine).and_then(fields_mut) else { return false };
        let given = take_same(mine, &taken.fields);
        if given.is_empty() {
            return false;
        }
        let is_same = |entry: &Value| is_main(entry) && WHO.iter().all(|key| entry.get(key) == taken.from.get(*key));
        let owner = self.entries.iter().position(is_same).unwrap_or_else(|| {
            let mut entry = taken.from.clone();
            entry.insert("fieldsV1".to_owned(), json!({}));
            self.entries.push(entry.into());
            self.entries.len() - 1
        });
        self.add(owner, given);
        true
    }

    fn add(&mut self, owner: usize, fields: Node) {
        if let Some(node) = self.entries.get_mut(owner).and_then(fields_mut) {
            merge(node, fields);
        }
    }

    fn repair(&self) -> Repair {
        let owns_any = |entry: &&Value| fields(entry).is_none_or(|node| !node.is_empty());
        Repair { pointer: OWNERS.to_owned(), value: self.entries.iter().filter(owns_any).cloned().collect() }
    }
}

/// Whether an entry is about the object itself and none of its subresources.
fn is_main(entry: &Value) -> bool {
    entry["subresource"].as_str().unwrap_or_default().is_empty()
}

fn fields(entry: &Value) -> Option<&Node> {
    entry.get("fieldsV1")?.as_object()
}

fn fields_mut(entry: &mut Value) -> Option<&mut Node> {
    entry.get_mut("fieldsV1")?.as_object_mut()
}

/// The node of each entry at one place.
type Nodes<'f> = Vec<(usize, &'f Node)>;

fn below<'f>(nodes: &Nodes<'f>, key: &str) -> Nodes<'f> {
    nodes.iter().filter_map(|(index, node)| Some((*index, node.get(key)?.as_object()?))).collect()
}

struct Search<'a> {
    mine: usize,
    unchanged: bool,
    found: Vec<Place<'a>>,
}

impl<'a> Search<'a> {
    fn look(&mut self, place: Place<'a>, nodes: &Nodes<'_>) {
        let mut lost = None;
        for (key, wish) in place.path.last().map(|(_, desired)| parts(desired, nodes)).unwrap_or_default() {
            let owners = key.as_deref().map_or_else(Vec::new, |key| below(nodes, key));
            let is_split = owners.iter().any(|(_, node)| !node.is_empty()) && is_composite(wish);
            let is_ours = owners.iter().any(|(index, node)| *index == self.mine && (node.is_empty() || !is_split));
            match key {
                _ if is_ours => {}
                Some(key) if is_split => self.look(place.below(&key, wish), &owners),
                _ => lost.get_or_insert_with(Vec::new).extend(owners.iter().map(|(index, _)| *index)),
            }
        }
        let Some(editors) = lost else { return };
        // What is not ours may be a new wish.
        if self.unchanged || !editors.is_empty() {
            self.found.push(Place { editors, ..place });
        }
    }
}

/// The members or elements of what is desired, with their keys; none where nobody owns an element.
fn parts<'a>(desired: &'a Value, nodes: &Nodes<'_>) -> Vec<(Option<String>, &'a Value)> {
    match desired {
        Value::Object(members) => members.iter().map(|(key, value)| (Some(format!("f:{key}")), value)).collect(),
        Value::Array(elements) => {
            let keys: Vec<&String> = nodes.iter().flat_map(|(_, node)| node.keys()).collect();
            let elements = elements.iter().filter(|_| elements.len() * keys.len() <= PAIRS);
            elements
                .map(|element| (keys.iter().find(|key| is_at(element, key)).map(|key| (*key).clone()), element))
                .collect()
        }
        _ => Vec::new(),
    }
}

fn is_composite(value: &Value) -> bool {
    match value {
        Value::Object(members) => !members.is_empty(),
        Value::Array(elements) => !elements.is_empty(),
        _ => false,
    }
}

/// Whether a key of `fieldsV1` is that of a list element.
fn is_at(element: &Value, key: &str) -> bool {
    match (element, key.strip_prefix("v:")) {
        (Value::Object(members), _) => has_keys(members, key),
        (value, Some(text)) => serde_json::from_str::<Value>(text).is_ok_and(|there| there == *value),
        _ => false,
    }
}

/// What is desired at a key of `fieldsV1`.
fn wish_at<'a>(desired: &'a Value, key: &str) -> Option<&'a Value> {
    match key.strip_prefix("f:") {
        Some(name) => desired.get(name),
        None => desired.as_array()?.iter().find(|element| is_at(element, key)),
    }
}

/// Takes what nobody desires out of the node at the end of a path, with the path to it.
fn take_at(node: &mut Node, path: &[(String, &Value)], deep: bool) -> Node {
    let Some(((key, desired), rest)) = path.split_first() else { return Node::new() };
    take_below(node, key, |below| match rest {
        [] => take_undesired(below, desired, deep),
        rest => take_at(below, rest, deep),
    })
}

fn take_undesired(node: &mut Node, desired: &Value, deep: bool) -> Node {
    let mut taken = Node::new();
    let too_many = desired.as_array().is_some_and(|elements| elements.len() * node.len() > PAIRS);
    let keys: Vec<String> = node.keys().filter(|key| *key != "." && !too_many).cloned().collect();
    for key in keys {
        match wish_at(desired, &key) {
            None => taken.extend(node.remove_entry(&key)),
            Some(wish) if deep => taken.extend(take_below(node, &key, |below| take_undesired(below, wish, true))),
            Some(_) => {}
        }
    }
    taken
}

/// Takes something out of a member. What is left empty goes: it would stand for all that is below it.
fn take_below(node: &mut Node, key: &str, take: impl FnOnce(&mut Node) -> Node) -> Node {
    let Some(below) = node.get_mut(key).and_then(Value::as_object_mut) else { return Node::new() };
    let taken = take(below);
    if taken.is_empty() {
        return taken;
    }
    if below.is_empty() {
        node.remove(key);
    }
    Node::from_iter([(key.to_owned(), taken.into())])
}

/// Takes out of a node what stands in another one as well.
fn take_same(node: &mut Node, same: &Node) -> Node {
    let mut taken = Node::new();
    for (key, same) in same {
        match same.as_object() {
            Some(same) if !same.is_empty() => taken.extend(take_below(node, key, |below| take_same(below, same))),
            _ => taken.extend(node.remove_entry(key)),
        }
    }
    taken
}

fn merge(into: &mut Node, from: Node) {
    for (key, below) in from {
        let Value::Object(below) = below else { continue };
        if let Some(node) = into.entry(key).or_insert_with(|| json!({})).as_object_mut() {
            merge(node, below);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::kind::{Kind, ObjectRef};

    const MANAGER: &str = "hotshoe/demo";
    const DIGEST: &str = "d";

    fn desired(body: Value) -> Desired {
        let kind = Kind::new("apps", "v1", "Deployment");
        let reference = ObjectRef { kind, namespace: Some("n".into()), name: "web".into() };
        Desired { reference, body: Arc::new(body), digest: DIGEST.into() }
    }

    /// A Deployment with a container of such a security context.
    fn wish() -> Desired {
        let context = json!({ "runAsNonRoot": true, "allowPrivilegeEscalation": false });
        let containers = json!([{ "name": "web", "image": "i", "securityContext": context }]);
        desired(json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web", "labels": { "app": "web" } },
            "spec": { "replicas": 1, "template": { "spec": { "containers": containers } } },
        }))
    }

    fn of_container(fields: Value) -> Value {
        json!({ "f:spec": { "f:template": { "f:spec": { "f:containers": { "k:{\"name\":\"web\"}": fields } } } } })
    }

    /// What we own of that while somebody else has `allowPrivilegeEscalation`.
    fn ours() -> Value {
        let mut fields = of_container(
            json!({ ".": {}, "f:name": {}, "f:image": {}, "f:securityContext": { "f:runAsNonRoot": {} } }),
        );
        fields["f:spec"]["f:replicas"] = json!({});
        fields
    }

    fn entry(manager: &str, operation: &str, fields: Value) -> Value {
        json!({ "manager": manager, "operation": operation, "apiVersion": "apps/v1", "fieldsV1": fields })
    }

    fn live(ours: Value, others: &[(&str, Value)]) -> Value {
        let mine = entry(MANAGER, "Apply", ours);
        let others = others.iter().map(|(manager, fields)| entry(manager, "Update", fields.clone()));
        let owners: Vec<Value> = others.chain([mine]).collect();
        json!({ "metadata": { "annotations": { "hotshoe.dev/applied": DIGEST }, "managedFields": owners } })
    }

    /// Who owns what after a claim, and how far it reaches.
    fn claimed(live: &Value, desired: &Desired, reach: usize) -> Option<(usize, Vec<(String, Value)>)> {
        let claim = claim(live, MANAGER, desired, reach)?;
        assert_eq!(claim.owners.pointer, OWNERS);
        let given_back = give_back(&with_owners(live, &claim.owners), MANAGER, &claim.taken).unwrap();
        assert_eq!(sorted(&given_back.value), sorted(&live["metadata"]["managedFields"]));
        let owners = claim.owners.value.as_array().unwrap().iter();
        let owners = owners.map(|owner| (owner["manager"].as_str().unwrap().to_owned(), owner["fieldsV1"].clone()));
        Some((claim.reach, owners.collect()))
    }

    fn with_owners(live: &Value, owners: &Repair) -> Value {
        let mut live = live.clone();
        *live.pointer_mut(&owners.pointer).unwrap() = owners.value.clone();
        live
    }

    /// The API server orders owners itself.
    fn sorted(owners: &Value) -> Vec<String> {
        let mut owners: Vec<_> = owners.as_array().unwrap().iter().map(Value::to_string).collect();
        owners.sort();
        owners
    }

    fn context(fields: Value) -> Value {
        of_container(json!({ "f:securityContext": fields }))
    }

    #[test]
    fn what_is_noted_as_an_edit_of_ours_is_forgotten_and_nothing_else() {
        let others = json!({ "f:spec": { "f:paused": {} } });
        let before = live(ours(), &[("injector", others.clone())]);
        assert_eq!(without_edits(&before, MANAGER), None);
        let mut edited = live(ours(), &[("injector", others.clone()), (MANAGER, others.clone())]);
        assert_eq!(with_owners(&edited, &without_edits(&edited, MANAGER).unwrap()), before);
        edited["metadata"]["managedFields"][1]["subresource"] = json!("status");
        assert_eq!(without_edits(&edited, MANAGER), None, "that is no part of the object itself");
        let only_edited = json!({ "metadata": { "managedFields": [entry(MANAGER, "Update", others)] } });
        assert_eq!(without_edits(&only_edited, MANAGER), None, "it was never applied");
    }

    #[test]
    fn what_an_editor_set_beside_what_it_took_from_us_is_claimed_and_what_others_set_stays() {
        let editor = context(json!({ "f:allowPrivilegeEscalation": {}, "f:privileged": {} }));
        let injector = context(json!({ "f:readOnlyRootFilesystem": {} }));
        let live = live(ours(), &[("editor", editor), ("injector", injector.clone())]);
        let (reach, owners) = claimed(&live, &wish(), 0).unwrap();
        let mut mine = ours();
        let path = "/f:spec/f:template/f:spec/f:containers/k:{\"name\":\"web\"}/f:securityContext";
        mine.pointer_mut(path).unwrap()["f:privileged"] = json!({});
        let left = context(json!({ "f:allowPrivilegeEscalation": {} }));
        assert_eq!(reach, 0);
        assert_eq!(owners, [("editor".into(), left), ("injector".into(), injector), (MANAGER.into(), mine)]);
    }

    #[test]
    fn each_claim_reaches_further_until_all_that_others_own_of_the_spec_is_ours() {
        let editor = context(json!({ "f:allowPrivilegeEscalation": {}, "f:privileged": {} }));
        let mut injector = context(json!({ "f:readOnlyRootFilesystem": {}, "f:capabilities": { "f:drop": {} } }));
        injector["f:metadata"] = json!({ "f:annotations": { "f:note": {} } });
        injector["f:spec"]["f:paused"] = json!({});
        injector["f:spec"]["f:template"]["f:spec"]["f:tolerations"] = json!({});
        let live = live(ours(), &[("editor", editor), ("injector", injector)]);
        let reaches: Vec<_> =
            std::iter::successors(claimed(&live, &wish(), 0), |(reach, _)| claimed(&live, &wish(), reach + 1))
                .collect();
        assert_eq!(reaches.iter().map(|(reach, _)| *reach).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6, 7]);
        let of_injector =
            |reach: usize| reaches[reach].1.iter().find(|(manager, _)| manager == "injector").unwrap().1.to_string();
        assert!(
            of_injector(0).contains("readOnlyRootFilesystem") && !of_injector(1).contains("readOnlyRootFilesystem")
        );
        assert!(of_injector(4).contains("tolerations") && !of_injector(5).contains("tolerations"));
        assert!(of_injector(6).contains("paused") && !of_injector(7).contains("paused"));
        assert!(of_injector(7).contains("note"), "metadata makes no wish impossible");
    }

    #[test]
    fn what_is_given_back_is_what_nobody_else_took_meanwhile_whoever_wrote_a_status() {
        let editor = context(json!({ "f:allowPrivilegeEscalation": {}, "f:privileged": {}, "f:procMount": {} }));
        let before = live(ours(), &[("editor", editor)]);
        let claim = claim(&before, MANAGER, &wish(), 0).unwrap();
        let mut now = with_owners(&before, &claim.owners);
        let owners = now["metadata"]["managedFields"].as_array_mut().unwrap();
        let mine = owners.iter().position(|entry| entry["manager"] == MANAGER).unwrap();
        let path =
            "/fieldsV1/f:spec/f:template/f:spec/f:containers/k:{\"name\":\"web\"}/f:securityContext/f:privileged";
        let (parent, key) = path.rsplit_once('/').unwrap();
        owners[mine].pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(key).unwrap();
        owners.push(entry("other", "Update", context(json!({ "f:privileged": {} }))));
        let mut status = entry("controller", "Update", json!({ "f:status": {} }));
        status["subresource"] = json!("status");
        owners.push(status.clone());
        let given_back = give_back(&now, MANAGER, &claim.taken).unwrap();
        let expected = [
            entry("editor", "Update", context(json!({ "f:allowPrivilegeEscalation": {}, "f:procMount": {} }))),
            entry("other", "Update", context(json!({ "f:privileged": {} }))),
            entry(MANAGER, "Apply", ours()),
            status,
        ];
        assert_eq!(sorted(&given_back.value), sorted(&json!(expected)));
        assert_eq!(give_back(&with_owners(&now, &given_back), MANAGER, &claim.taken), None);
    }

    #[test]
    fn nothing_is_claimed_where_nobody_edited_what_we_set() {
        let mut owned = ours();
        let path = "/f:spec/f:template/f:spec/f:containers/k:{\"name\":\"web\"}/f:securityContext";
        owned.pointer_mut(path).unwrap()["f:allowPrivilegeEscalation"] = json!({});
        let added = of_container(json!({ "f:securityContext": { "f:privileged": {} }, "f:env": {} }));
        assert_eq!(claimed(&live(owned, &[("injector", added)]), &wish(), 0), None);
    }

    #[test]
    fn a_new_wish_that_is_refused_is_no_edit() {
        let added = context(json!({ "f:privileged": {} }));
        let mut live = live(ours(), &[("injector", added)]);
        assert!(claimed(&live, &wish(), 0).is_some(), "removed from what was applied last");
        live["metadata"]["annotations"]["hotshoe.dev/applied"] = json!("another");
        assert_eq!(claimed(&live, &wish(), 0), None);
    }

    #[test]
    fn what_replaced_a_value_of_ours_is_claimed_whoever_set_it() {
        let desired = desired(json!({ "spec": { "env": [{ "name": "A", "value": "1" }], "type": "t" } }));
        let of = |fields: Value| json!({ "f:spec": { "f:env": { "k:{\"name\":\"A\"}": fields } } });
        let mut mine = of(json!({ ".": {}, "f:name": {} }));
        mine["f:spec"]["f:type"] = json!({});
        let live = live(mine, &[("editor", of(json!({ "f:valueFrom": { "f:fieldRef": {} } })))]);
        let (_, owners) = claimed(&live, &desired, 0).unwrap();
        let all = of(json!({ ".": {}, "f:name": {}, "f:valueFrom": { "f:fieldRef": {} } }));
        assert_eq!(owners.len(), 1, "an owner of nothing is none");
        assert_eq!(owners[0].1["f:spec"]["f:env"], all["f:spec"]["f:env"]);
    }

    #[test]
    fn elements_that_stand_where_one_of_ours_stood_are_claimed() {
        let desired = desired(json!({ "spec": { "ports": [{ "port": 1 }, { "port": 2 }] } }));
        let of = |ports: Value| json!({ "f:spec": { "f:ports": ports } });
        let mine = of(json!({ "k:{\"port\":1}": { ".": {}, "f:port": {} } }));
        let live = live(mine, &[("editor", of(json!({ ".": {}, "k:{\"port\":3}": { ".": {}, "f:port": {} } })))]);
        let (_, owners) = claimed(&live, &desired, 0).unwrap();
        let both = json!({ "k:{\"port\":1}": { ".": {}, "f:port": {} }, "k:{\"port\":3}": { ".": {}, "f:port": {} } });
        assert_eq!(owners, [("editor".into(), of(json!({ ".": {} }))), (MANAGER.into(), of(both))]);
    }

    #[test]
    fn what_is_written_to_a_subresource_or_in_another_version_is_left_alone() {
        let editor = context(json!({ "f:allowPrivilegeEscalation": {}, "f:privileged": {} }));
        for (field, other) in [("subresource", "status"), ("apiVersion", "apps/v1beta1")] {
            let mut live = live(ours(), &[("editor", editor.clone())]);
            live["metadata"]["managedFields"][0][field] = json!(other);
            assert_eq!(claimed(&live, &wish(), 0), None, "{field}");
        }
        assert_eq!(claimed(&json!({}), &wish(), 0), None);
    }

    #[test]
    fn lists_longer_than_anybody_edits_are_not_searched() {
        let ports: Vec<_> = (0..20_000).map(|port| json!({ "port": port })).collect();
        let owned: Node =
            (0..20_000).map(|port| (format!(r#"k:{{"port":-{port}}}"#), json!({ "f:port": {} }))).collect();
        let live =
            live(json!({ "f:spec": { "f:replicas": {} } }), &[("editor", json!({ "f:spec": { "f:ports": owned } }))]);
        assert_eq!(claimed(&live, &desired(json!({ "spec": { "ports": ports } })), 0), None);
    }
}
