//! What others changed in the StatefulSet. The host reverts such changes; the Events made here say what to edit
//! instead.

use hotshoe_sdk::Event;

use crate::{
    api::RedisSpec,
    observed::{Observed, Set},
};

/// Builds an Event for each change by hand. A difference that the plugin itself is about to remove is none: the
/// annotation [`APPLIED`](crate::children::APPLIED) shows that the StatefulSet was not given what is desired now.
pub(crate) fn events(name: &str, spec: &RedisSpec, observed: &Observed, digest: &str) -> Vec<Event> {
    let Some(set) = &observed.set else { return Vec::new() };
    [scaled(name, spec, set), another_template(name, spec, set, digest), another_partition(name, spec, set)]
        .into_iter()
        .flatten()
        .collect()
}

fn scaled(name: &str, spec: &RedisSpec, set: &Set) -> Option<Event> {
    let (desired, found) = (spec.replicas, set.replicas);
    let was_given = set.applied.as_ref().is_some_and(|applied| applied.replicas == desired);
    (was_given && found != desired).then(|| {
        let message = format!(
            "StatefulSet {name} was scaled to {found} by hand and is put back to {desired}; edit spec.replicas of Redis \
             {name} instead, as `kubectl scale redis/{name} --replicas={found}` does"
        );
        Event::warning("ScaledByHand", message)
    })
}

fn another_template(name: &str, spec: &RedisSpec, set: &Set, digest: &str) -> Option<Event> {
    let was_given = set.applied.as_ref().is_some_and(|applied| applied.template == digest);
    let is_another = set.template != digest || set.image != spec.image;
    (was_given && is_another).then(|| {
        let (found, image) = (&set.image, &spec.image);
        let message = format!(
            "the Pod template of StatefulSet {name} was changed by hand, as `kubectl rollout undo` and `kubectl set image` do \
             (image {found}), and is put back (image {image}); edit spec of Redis {name} instead, for example spec.image"
        );
        Event::warning("TemplateChangedByHand", message)
    })
}

fn another_partition(name: &str, spec: &RedisSpec, set: &Set) -> Option<Event> {
    let applied = set.applied.as_ref().filter(|applied| applied.partition != set.partition)?;
    let (found, given, last) = (set.partition, applied.partition, spec.update_strategy.partition);
    let message = format!(
        "the partition of StatefulSet {name} was changed from {given} to {found} by hand and is put back; edit \
         spec.updateStrategy.partition of Redis {name} instead, which is {last}"
    );
    Some(Event::warning("PartitionChangedByHand", message))
}
