//! From an observation to a decision.

use hotshoe_sdk::{Answer, Decision, Failure, Refusal, Request, Requirement, ResourceKind};
use serde::de::IgnoredAny;

use crate::{
    Redis, by_hand, children, names,
    observed::Observed,
    ordinals::{self, Scene},
    stage,
    status::{self, Obstacle},
    storage,
    template::Template,
};

/// The key of the requirement for the StorageClass of a pending claim.
const CLASS: &str = "storageClass";

pub(crate) fn reconcile(request: &Request<Redis>) -> Result<Answer, Failure> {
    let (name, spec) = (request.name(), &request.parent.spec);
    names::check(name)?;
    let observed = Observed::of(request)?;
    let size = storage::size(name, spec, &observed)?;
    let missing_class = match observed.pending_class() {
        Some(class) => match request.related::<IgnoredAny>(CLASS) {
            Ok(found) => Some(class).filter(|_| found.is_empty()),
            Err(_) => return Ok(Answer::Needs(vec![of_class(class)])),
        },
        None => None,
    };
    let template = Template::of(name, spec);
    let (digest, now) = (template.digest.clone(), request.now.unwrap_or_default());
    let scene = Scene { name, spec, observed: &observed, missing_class, digest: &digest, now };
    let stage = stage::of(name, spec, &observed, &digest, now);
    let ordinals = ordinals::all(&scene);
    let status = status::status(&scene, &stage, &ordinals);
    let obstacle = refused(request).or(size.lags.map(|message| Obstacle { reason: "StorageNotGrown", message }));
    let mut decision = Decision::exactly(children::desired(name, spec, template, stage.partition, &size.size)?)
        .status(&status)?
        .conditions(status::conditions(&scene, &status, &ordinals, obstacle))
        .events(by_hand::events(name, spec, &observed, &digest));
    decision.requeue_after = ordinals.iter().filter_map(|one| one.look_again).chain(stage.look_again).min();
    Ok(Answer::Decided(decision))
}

/// Requires a StorageClass, which is cluster-scoped.
fn of_class(class: &str) -> Requirement {
    let kind = ResourceKind::new("storage.k8s.io", "v1", "StorageClass");
    Requirement { key: CLASS.to_owned(), kind, namespace: None, name: class.to_owned() }
}

/// Returns the child that the API server refused, with its message.
fn refused(request: &Request<Redis>) -> Option<Obstacle> {
    let Refusal { reference, reason, message, .. } = request.refusals.first()?;
    let (kind, name) = (&reference.kind.kind, &reference.name);
    Some(match reason.as_str() {
        "Conflict" => Obstacle {
            reason: "Conflict",
            message: format!(
                "{kind} {name} exists and does not belong to this Redis, so it is left as it is; delete it, or create the \
                 Redis under another name"
            ),
        },
        _ => Obstacle { reason: "Refused", message: format!("{kind} {name} was refused: {reason}: {message}") },
    })
}
