//! Fetches the objects that a plugin needs by name for one decision, between two rounds of *decide*. They are read
//! through the grant, and forgotten after the decision. That they change, a [watch](crate::reconcile::needed) shows.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::reconcile::active_revision::ActiveRevision;
use crate::reconcile::controller::Controller;
use crate::reconcile::error::Error;
use hotshoe_cluster::needed_watch::version_of;
use hotshoe_core::check;
use hotshoe_core::check::access_request::{Access, Request, Verb};
use hotshoe_core::check::memory_quota::NoRoom;
use hotshoe_core::check::memory_share::{Account, Charge, Part};
use hotshoe_core::flow::needs::Followed;
use hotshoe_core::model::decision::{Document, Observation, Related, Requirement};
use hotshoe_core::model::kind::{Key, Kind, ObjectRef};
use hotshoe_core::model::limits::Size;
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
    /// Which objects were fetched.
    pub objects: Vec<ObjectRef>,
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
    fn take(&mut self, parent: &ObjectRef, object: Option<&Document>) -> Result<(), Error> {
        let bytes = object.map_or(0, |object| object.json.len());
        let exceeded = || CallError::LimitExceeded(format!("fetched bytes ({})", self.limit));
        self.left = self.left.checked_sub(bytes).ok_or_else(exceeded)?;
        let no_room = |refused| NoRoom::Shared { parent: parent.to_string(), refused };
        self.charge.check(bytes).map_err(no_room)?;
        self.charge.raise(bytes);
        Ok(())
    }
}

/// Returns the observation with the required objects added. Reads each object once a round. Has the objects watched
/// before, if they are read for a parent that is reconciled.
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
    fetched.secrets |= requirements.iter().any(|one| is_secret(&one.reference.kind));
    let parent = &shown.parent.reference;
    let mut resolved = HashMap::new();
    for Requirement { reference, .. } in &requirements {
        if let Entry::Vacant(new) = resolved.entry(reference) {
            new.insert(resolve(controller, active, parent, reference).await?);
        }
    }
    let objects: Vec<ObjectRef> = resolved.values().flatten().cloned().collect();
    // No watch shows that a kind is served.
    fetched.unwatched |= objects.len() < resolved.len();
    if let Some(reader) = reader {
        controller.needed.ask(reader, &objects).await;
    }
    let mut read = HashMap::new();
    for object in &objects {
        let (document, is_watched) = read_one(controller, parent, object, reader).await?;
        fetched.unwatched |= !is_watched;
        read.insert(object, document);
    }
    let mut next = shown.clone();
    for Requirement { key, reference } in &requirements {
        let object = resolved.get(reference).and_then(Option::as_ref);
        let object = object.and_then(|object| read.get(object)).and_then(Option::as_ref);
        room.take(parent, object)?;
        next.related.retain(|known| known.key != *key);
        next.related.push(Related { key: key.clone(), objects: object.cloned().into_iter().collect() });
    }
    fetched.objects.extend(objects);
    Ok(next)
}

/// Returns whether a kind is that of Secrets.
pub fn is_secret(kind: &Kind) -> bool {
    kind.is("", "Secret")
}

/// Returns which object a plugin requires for a parent, if it may see it; none if the API server does not serve the kind.
async fn resolve(
    controller: &Controller,
    active: &ActiveRevision,
    parent: &ObjectRef,
    needed: &ObjectRef,
) -> Result<Option<ObjectRef>, Error> {
    let grant = &active.plugin.grant;
    let kind = &needed.kind;
    // If the grant does not allow the kind, the API server is not even asked for its scope.
    let namespaced = match grant.allows(Verb::Get, kind) {
        true => match controller.writer.find_kind(kind).await {
            Ok(resource) => resource.namespaced,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error.into()),
        },
        false => true,
    };
    let namespace = needed.namespace.clone().or_else(|| parent.own_namespace().cloned().filter(|_| namespaced));
    let reference = ObjectRef { namespace, ..needed.clone() };
    check::check_name(&reference)?;
    let request = Request { parent, object: &reference, namespaced, access: Access::Read };
    grant.authorise(&request, &|namespace, key| active.label_of(namespace, key))?;
    Ok(Some(reference))
}

/// Reads one object with the plugin's own account, so that the API server's RBAC applies in addition to the grant. The
/// object is never put into a cache that another plugin could be shown. Returns it, if there is one, and whether its next
/// change will be noticed.
async fn read_one(
    controller: &Controller,
    parent: &ObjectRef,
    object: &ObjectRef,
    reader: Option<&Key>,
) -> Result<(Option<Document>, bool), Error> {
    if let Some(reader) = reader {
        controller.needed.begin_read(reader, object);
    }
    let document = match controller.writer.read_as_plugin(object, parent).await {
        Ok(json) => Some(Document { reference: object.clone(), json: json.into() }),
        Err(error) if error.is_not_found() => None,
        Err(error) => return Err(error.into()),
    };
    let Some(reader) = reader else { return Ok((document, false)) };
    // Without a version, each later event counts as a change.
    let version = document.as_ref().map(|document| version_of(&document.json).unwrap_or_default());
    let followed = controller.needed.note_shown(reader, object, version);
    if followed == Followed::Changed {
        controller.queue.add(reader.clone());
    }
    Ok((document, followed != Followed::No))
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
        assert_eq!(room.take(&large.reference, None), Ok(()));
        let taken = (0..100).take_while(|_| room.take(&large.reference, Some(&large)).is_ok()).count();
        assert_eq!(taken, 8);
        let refused = room.take(&large.reference, Some(&large)).unwrap_err().to_string();
        assert_eq!(refused, "the plugin reached its limit on fetched bytes (8Mi)");
        let memory = Arc::new(SharedMemory::new(4 << 20)).account(&"one".into());
        let mut room = FetchBudget::new(limits.fetched_bytes, &memory);
        let taken = (0..100).take_while(|_| room.take(&large.reference, Some(&large)).is_ok()).count();
        assert_eq!((taken, memory.held()), (3, 3 << 20));
        assert!(matches!(room.take(&large.reference, Some(&large)), Err(Error::NoRoom(_))));
        drop(room);
        assert_eq!(memory.held(), 0);
    }
}
