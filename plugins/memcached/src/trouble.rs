//! Problems of one custom resource, with their reasons and messages.

use hotshoe_sdk::apply::apps_v1::Deployment;
use hotshoe_sdk::{Event, Refusal, Request};

use crate::{Memcached, admission, api::Rule, names, observed::Observed};

/// The reason of conditions in the ordinary course of a reconcile.
pub(crate) const RECONCILING: &str = "Reconciling";

/// A problem of one custom resource.
pub(crate) struct Trouble {
    kind: Kind,
    /// One PascalCase word.
    pub(crate) reason: &'static str,
    /// What happened, to what, and what to do where that is for a person to do.
    pub(crate) message: String,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Name,
    Size,
    Image,
    Selector,
    Foreign,
    Refused,
}

impl Trouble {
    /// Whether an existing Deployment is not affected by the problem.
    pub(crate) fn spares_the_servers(&self) -> bool {
        matches!(self.kind, Kind::Size | Kind::Selector | Kind::Foreign)
    }

    /// Returns an Event, except for a refused write, for which the host emits one.
    pub(crate) fn event(&self) -> Option<Event> {
        match self.kind {
            Kind::Name | Kind::Size => Some(Event::warning(self.reason, self.message.as_str())),
            Kind::Image => Some(Event::warning(
                "NoImage",
                format!("{}; set it where the host runs, and start the host again", self.message),
            )),
            Kind::Selector | Kind::Foreign | Kind::Refused => None,
        }
    }

    /// Whether nothing is tried before a person changes something.
    pub(crate) fn needs_a_person(&self) -> bool {
        matches!(self.kind, Kind::Name | Kind::Size | Kind::Image | Kind::Selector)
    }

    /// Whether nothing of the specification will come about, however long one waits.
    pub(crate) fn ends_progress(&self) -> bool {
        matches!(self.kind, Kind::Name | Kind::Size)
    }
}

/// Reports a name that the children cannot have.
pub(crate) fn invalid_name(name: &str) -> Option<Trouble> {
    let rule = names::broken_rule(name)?;
    Some(Trouble {
        kind: Kind::Name,
        reason: "InvalidName",
        message: format!(
            "The name of the custom resource ({name}) cannot be used for its children: {rule}; \
             delete it and create it again under another name"
        ),
    })
}

/// Reports a size that the rule of the Java Operator SDK's tutorial forbids, where the configuration has it: one that was
/// stored in another version, or while no webhook refused it. The tutorial's Event has the reason `Invalid size`; a reason
/// is one word here.
pub(crate) fn invalid_size(request: &Request<Memcached>) -> Option<Trouble> {
    let rule = request.config.validation.iter().find(|rule| **rule == Rule::SizeUpTo10)?;
    let message = admission::broken(*rule, request.parent.spec.size)?;
    Some(Trouble { kind: Kind::Size, reason: "InvalidSize", message: message.to_owned() })
}

/// Reports that no image is configured.
pub(crate) fn no_image(name: &str) -> Trouble {
    Trouble {
        kind: Kind::Image,
        reason: RECONCILING,
        message: failed(
            "create Deployment",
            name,
            "Unable to find MEMCACHED_IMAGE environment variable with the image",
        ),
    }
}

/// Reports a Deployment of this custom resource that another operator created with another selector.
pub(crate) fn immutable_selector(name: &str, observed: &Observed) -> Option<Trouble> {
    let rollout = observed.rollout.as_ref()?;
    if rollout.selects(&names::selector(name)) {
        return None;
    }
    Some(Trouble {
        kind: Kind::Selector,
        reason: "SelectorImmutable",
        message: format!(
            "Deployment ({name}) has another spec.selector than the custom resource ({name}) \
             gives it, and spec.selector cannot be changed; delete the Deployment and it will \
             be created again"
        ),
    })
}

/// Reports a child that the API server refused: the Deployment first, because without it the Service leads nowhere.
pub(crate) fn refused(request: &Request<Memcached>, observed: &Observed) -> Option<Trouble> {
    let of_deployment = request.refusals.iter().find(|refusal| refusal.concerns::<Deployment>());
    let refusal = of_deployment.or(request.refusals.first())?;
    let exists = match of_deployment {
        Some(_) => observed.rollout.is_some(),
        None => observed.has_service,
    };
    if !exists && refusal.reason == "Conflict" {
        return Some(foreign(refusal, request));
    }
    Some(failed_write(refusal, exists, request, observed))
}

fn foreign(refusal: &Refusal, request: &Request<Memcached>) -> Trouble {
    let (kind, name) = (&refusal.reference.kind.kind, &refusal.reference.name);
    Trouble {
        kind: Kind::Foreign,
        reason: "Conflict",
        message: format!(
            "{kind} ({name}) in the namespace {} exists and does not belong to the custom \
             resource ({}), so it is left as it is; delete it, or create the custom resource \
             under another name",
            request.namespace(),
            request.name(),
        ),
    }
}

fn failed_write(refusal: &Refusal, exists: bool, request: &Request<Memcached>, observed: &Observed) -> Trouble {
    let (name, kind) = (request.name(), &refusal.reference.kind.kind);
    let resizes = refusal.concerns::<Deployment>()
        && observed.rollout.as_ref().is_some_and(|rollout| rollout.desired != request.parent.spec.size);
    let (reason, action) = match (exists, resizes) {
        (false, _) => (RECONCILING, format!("create {kind}")),
        (true, true) => ("Resizing", "update the size".to_owned()),
        (true, false) => (RECONCILING, format!("update {kind}")),
    };
    Trouble { kind: Kind::Refused, reason, message: failed(&action, name, &refusal.message) }
}

fn failed(action: &str, name: &str, cause: &str) -> String {
    format!("Failed to {action} for the custom resource ({name}): ({cause})")
}
