//! Fetches the objects that a plugin needs for one decision, by their names or by label selectors, between two rounds of
//! *decide*. They are read through the grant, and forgotten after the decision. That they change, a
//! [watch](crate::reconcile::needed) shows.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::reconcile::active_revision::ActiveRevision;
use crate::reconcile::controller::Controller;
use crate::reconcile::error::Error;
use hotshoe_cluster::needed_list::{ListError, ListRoom};
use hotshoe_cluster::needed_watch::version_of;
use hotshoe_core::check;
use hotshoe_core::check::access_request::{Access, Request, Verb};
use hotshoe_core::check::memory_quota::NoRoom;
use hotshoe_core::check::memory_share::{Account, Charge, Part};
use hotshoe_core::check::selection::{SelectionError, selector_of};
use hotshoe_core::flow::needs::Followed;
use hotshoe_core::model::decision::{Document, Observation, Related, Requirement};
use hotshoe_core::model::kind::{Key, Kind, ObjectRef};
use hotshoe_core::model::limits::{SELECTED_OBJECTS, Size};
use hotshoe_core::model::wanted::{Selection, Wanted};
use hotshoe_sandbox::error::CallError;

/// Which objects were fetched for an answer or failure, in addition to the watched ones.
#[derive(Debug, Default)]
pub struct Fetched {
    /// Whether any object was fetched.
    pub any: bool,
    /// Whether a Secret was fetched.
    pub secrets: bool,
    /// Whether the next change of one of them will not be noticed.
    pub unwatched: bool,
    /// Which objects and selections were fetched.
    pub wanted: Vec<Wanted>,
}

/// The bytes that may still be fetched for a decision. The memory of the fetched objects is charged until this is
/// dropped.
pub struct FetchBudget {
    left: usize,
    limit: Size,
    charge: Charge,
}

impl FetchBudget {
    /// Creates the room of a decision; what is taken is charged to the memory that all plugins share.
    pub fn new(limit: Size, memory: &Account) -> Self {
        Self { left: limit.bytes(), limit, charge: memory.charge(Part::Fetched) }
    }

    /// Takes the bytes of an object that is shown. An object that is read once counts for each key that it is shown
    /// under: a plugin may ask for it under a hundred keys.
    ///
    /// # Errors
    /// When that is more than is left for the decision, or for all plugins.
    pub fn take(&mut self, parent: &ObjectRef, bytes: usize) -> Result<(), Error> {
        let exceeded = || CallError::LimitExceeded(format!("fetched bytes ({})", self.limit));
        self.left = self.left.checked_sub(bytes).ok_or_else(exceeded)?;
        let no_room = |refused| NoRoom::Shared { parent: parent.to_string(), refused };
        self.charge.check(bytes).map_err(no_room)?;
        self.charge.raise(bytes);
        Ok(())
    }
}

/// Returns the observation with the required objects added. Reads each object, and each selection, once a round. Has them
/// watched before, if they are read for a parent that is reconciled.
///
/// # Errors
/// When the plugin may not see an object, the objects exceed the room, or the API server does not answer.
pub async fn fetch(
    controller: &Controller,
    active: &ActiveRevision,
    shown: &Observation,
    requirements: Vec<Requirement>,
    (reader, fetched): (Option<&Key>, &mut Fetched),
    room: &mut FetchBudget,
) -> Result<Observation, Error> {
    fetched.any = true;
    fetched.secrets |= requirements.iter().any(|one| is_secret(one.wanted.kind()));
    let parent = &shown.parent.reference;
    let mut resolved = HashMap::new();
    for Requirement { wanted, .. } in &requirements {
        if let Entry::Vacant(new) = resolved.entry(wanted) {
            new.insert(resolve(controller, active, parent, wanted).await?);
        }
    }
    let served: Vec<Wanted> = resolved.values().flatten().cloned().collect();
    // No watch shows that a kind is served.
    fetched.unwatched |= served.len() < resolved.len();
    if let Some(reader) = reader {
        controller.needed.ask(reader, &served, controller.writer.watches_share()).await;
    }
    let mut read: HashMap<&Wanted, Vec<Document>> = HashMap::new();
    let mut next = shown.clone();
    for Requirement { key, wanted } in &requirements {
        let found = match resolved.get(wanted).and_then(Option::as_ref) {
            None => Vec::new(),
            Some(wanted) => match read.entry(wanted) {
                Entry::Occupied(known) => known.get().clone(),
                Entry::Vacant(new) => {
                    let (documents, is_watched) = read_one(controller, parent, wanted, reader, room).await?;
                    fetched.unwatched |= !is_watched;
                    new.insert(documents).clone()
                }
            },
        };
        found.iter().try_for_each(|object| room.take(parent, object.json.len()))?;
        next.related.retain(|known| known.key != *key);
        next.related.push(Related { key: key.clone(), objects: found });
    }
    fetched.wanted.extend(served);
    Ok(next)
}

/// Returns whether a kind is that of Secrets.
pub fn is_secret(kind: &Kind) -> bool {
    kind.is("", "Secret")
}

/// Returns what a plugin requires for a parent with its namespace, if it may see it; none if the API server does not serve
/// the kind.
async fn resolve(
    controller: &Controller,
    active: &ActiveRevision,
    parent: &ObjectRef,
    wanted: &Wanted,
) -> Result<Option<Wanted>, Error> {
    let grant = &active.plugin.grant;
    let (kind, verb) = match wanted {
        Wanted::Object(object) => (&object.kind, Verb::Get),
        Wanted::Selection(selection) => (&selection.kind, Verb::List),
    };
    // If the grant does not allow the kind, the API server is not even asked for its scope.
    let namespaced = match grant.allows(verb, kind) {
        true => match controller.writer.find_kind(kind).await {
            Ok(resource) => resource.namespaced,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error.into()),
        },
        false => true,
    };
    let namespace = wanted.namespace().clone().or_else(|| parent.own_namespace().cloned().filter(|_| namespaced));
    let wanted = wanted.in_namespace(namespace);
    let label_of = |namespace: &str, key: &str| active.label_of(namespace, key);
    match &wanted {
        Wanted::Object(object) => {
            check::check_name(object)?;
            grant.authorise(&Request { parent, object, namespaced, access: Access::Read }, &label_of)?;
        }
        Wanted::Selection(selection) => {
            selector_of(selection)?;
            grant.authorise_list(parent, selection, namespaced, &label_of)?;
        }
    }
    Ok(Some(wanted))
}

/// Reads an object, or a selection, with the plugin's own account, so that the API server's RBAC applies in addition to the
/// grant. Nothing of it is ever put into a cache that another plugin could be shown. Returns the objects that there are, and
/// whether the next change will be noticed.
async fn read_one(
    controller: &Controller,
    parent: &ObjectRef,
    wanted: &Wanted,
    reader: Option<&Key>,
    room: &FetchBudget,
) -> Result<(Vec<Document>, bool), Error> {
    if let Some(reader) = reader {
        controller.needed.begin_read(reader, wanted);
    }
    let (documents, version) = match wanted {
        Wanted::Object(object) => read_object(controller, parent, object).await?,
        Wanted::Selection(selection) => read_selection(controller, parent, selection, room).await?,
    };
    let Some(reader) = reader else { return Ok((documents, false)) };
    let followed = controller.needed.note_shown(reader, wanted, version);
    if followed == Followed::Changed {
        controller.queue.add(reader.clone());
    }
    Ok((documents, followed != Followed::No))
}

/// Reads one object. Returns its version, too; none if there is no such object. Without a version, each later event counts as
/// a change.
async fn read_object(
    controller: &Controller,
    parent: &ObjectRef,
    object: &ObjectRef,
) -> Result<(Vec<Document>, Option<u64>), Error> {
    match controller.writer.read_as_plugin(object, parent).await {
        Ok(json) => {
            let version = version_of(&json).unwrap_or_default();
            Ok((vec![Document { reference: object.clone(), json: json.into() }], Some(version)))
        }
        Err(error) if error.is_not_found() => Ok((Vec::new(), None)),
        Err(error) => Err(error.into()),
    }
}

/// Reads all objects of a selection. Returns the version of their list, too, which there is even if they are none.
async fn read_selection(
    controller: &Controller,
    parent: &ObjectRef,
    selection: &Selection,
    room: &FetchBudget,
) -> Result<(Vec<Document>, Option<u64>), Error> {
    let of_list = ListRoom { objects: SELECTED_OBJECTS, bytes: room.left };
    match controller.writer.list_as_plugin(selection, parent, of_list).await {
        Ok(listed) => Ok((listed.objects, Some(listed.version.unwrap_or_default()))),
        Err(ListError::TooMany) => Err(SelectionError::TooMany(selection.clone()).into()),
        Err(ListError::TooLarge) => {
            Err(SelectionError::TooLarge { selection: selection.clone(), most: room.limit }.into())
        }
        Err(ListError::Api(error)) => Err(Error::Api(error)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hotshoe_core::check::memory_share::SharedMemory;

    use super::*;

    #[test]
    fn the_limit_on_fetched_bytes_holds_over_all_rounds_of_a_decision() {
        let reference = ObjectRef {
            kind: hotshoe_core::model::kind::Kind::new("", "v1", "ConfigMap"),
            namespace: Some("n".into()),
            name: "large".into(),
        };
        let large = Document { reference, json: "x".repeat(1 << 20).into() };
        let limits = hotshoe_core::model::limits::Limits::default();
        let mut room = FetchBudget::new(limits.fetched_bytes, &Account::default());
        let taken = (0..100).take_while(|_| room.take(&large.reference, large.json.len()).is_ok()).count();
        assert_eq!(taken, 8);
        let refused = room.take(&large.reference, large.json.len()).unwrap_err().to_string();
        assert_eq!(refused, "the plugin reached its limit on fetched bytes (8Mi)");
        let memory = Arc::new(SharedMemory::new(4 << 20)).account(&"one".into());
        let mut room = FetchBudget::new(limits.fetched_bytes, &memory);
        let taken = (0..100).take_while(|_| room.take(&large.reference, large.json.len()).is_ok()).count();
        assert_eq!((taken, memory.held()), (3, 3 << 20));
        assert!(matches!(room.take(&large.reference, large.json.len()), Err(Error::NoRoom(_))));
        drop(room);
        assert_eq!(memory.held(), 0);
    }
}
