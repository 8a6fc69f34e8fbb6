//! From an observation to a decision.

use hotshoe_sdk::{Answer, Decision, Failure, Request};

use crate::{
    Memcached, children,
    observed::Observed,
    status,
    trouble::{self, Trouble},
};

pub(crate) fn reconcile(request: &Request<Memcached>) -> Result<Answer, Failure> {
    let observed = Observed::of(request)?;
    let (decision, trouble) = decide(request, &observed)?;
    let conditions = match request.parent.status.nodes {
        // The other conditions follow with the next call: the host calls again once this status is written.
        None => status::starting(request.name()),
        Some(_) => status::conditions(request.name(), request.parent.spec.size, &observed, trouble.as_ref()),
    };
    let events = trouble.as_ref().and_then(Trouble::event);
    Ok(Answer::Decided(
        decision.status(&status::status(request.name(), &observed))?.conditions(conditions).events(events),
    ))
}

/// Decides the children, and finds the problem that prevents them, if any. A problem that only a person can
/// fix leaves the children alone; a write that the API server refused stays desired.
fn decide(request: &Request<Memcached>, observed: &Observed) -> Result<(Decision, Option<Trouble>), Failure> {
    let name = request.name();
    if let Some(trouble) = trouble::invalid_name(name).or_else(|| trouble::invalid_size(request)) {
        return Ok((Decision::keep(), Some(trouble)));
    }
    let Some(image) = request.config.image.as_deref().filter(|image| !image.is_empty()) else {
        return Ok((Decision::keep(), Some(trouble::no_image(name))));
    };
    if let Some(trouble) = trouble::immutable_selector(name, observed) {
        return Ok((Decision::keep(), Some(trouble)));
    }
    let children = children::desired(name, &request.parent, image);
    Ok((Decision::exactly(children), trouble::refused(request, observed)))
}
