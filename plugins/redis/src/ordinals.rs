//! The state of each server, and which one keeps the others waiting.

use std::time::Duration;

use crate::{
    api::{OrdinalStatus, PodManagementPolicy, RedisSpec},
    names,
    observed::{Claim, Observed, Pod},
    quota,
};

/// How long a claim may be pending before that is a problem: most provisioners take seconds.
const MAX_CLAIM_PENDING: Duration = Duration::from_secs(60);

/// One server.
pub(crate) struct Ordinal {
    pub(crate) status: OrdinalStatus,
    /// Whether a person has to act.
    pub(crate) is_problem: bool,
    /// After how long this may have become a problem although nothing changed.
    pub(crate) look_again: Option<Duration>,
}

/// Why a server is not ready.
struct Trouble {
    reason: String,
    message: String,
    is_problem: bool,
    look_again: Option<Duration>,
}

impl Trouble {
    fn problem(reason: &str, message: String) -> Self {
        Self { is_problem: true, ..Self::waits(reason, message) }
    }

    fn waits(reason: &str, message: String) -> Self {
        Self { reason: reason.to_owned(), message, is_problem: false, look_again: None }
    }
}

/// The input for all servers.
pub(crate) struct Scene<'a> {
    pub(crate) name: &'a str,
    pub(crate) spec: &'a RedisSpec,
    pub(crate) observed: &'a Observed,
    /// The StorageClass of a pending claim, where it is known not to exist.
    pub(crate) missing_class: Option<&'a str>,
    /// The digest of the template.
    pub(crate) digest: &'a str,
    pub(crate) now: u64,
}

/// Describes each server, in the order of the ordinals.
pub(crate) fn all(scene: &Scene<'_>) -> Vec<Ordinal> {
    let mut first_unready = None;
    let ordinals = (0..scene.spec.replicas).map(|ordinal| {
        let one = one(scene, ordinal, first_unready);
        if !one.status.ready {
            first_unready.get_or_insert(ordinal);
        }
        one
    });
    ordinals.collect()
}

/// Returns the server that keeps the others waiting.
pub(crate) fn stuck(ordinals: &[Ordinal]) -> Option<&OrdinalStatus> {
    let unready = || ordinals.iter().filter(|ordinal| !ordinal.status.ready);
    let stuck = unready().find(|ordinal| ordinal.is_problem).or_else(|| unready().next());
    stuck.map(|ordinal| &ordinal.status)
}

fn one(scene: &Scene<'_>, ordinal: i32, first_unready: Option<i32>) -> Ordinal {
    let (pod_name, claim_name) = (names::pod(scene.name, ordinal), names::claim(scene.name, ordinal));
    let (pod, claim) = (scene.observed.pods.get(&pod_name), scene.observed.claims.get(&claim_name));
    let is_ready = pod.is_some_and(|pod| pod.ready_since().is_some());
    let trouble = match (is_ready, pod) {
        (true, _) => Trouble::waits("Ready", String::new()),
        (false, None) => without_pod(scene, claim, first_unready),
        (false, Some(pod)) => with_pod(scene, &pod_name, pod, claim),
    };
    let Trouble { reason, message, is_problem, look_again } = trouble;
    let updated = pod.is_some_and(|pod| is_updated(scene, pod));
    let status = OrdinalStatus { ordinal, pod: pod_name, claim: claim_name, ready: is_ready, updated, reason, message };
    Ordinal { status, is_problem, look_again }
}

fn is_updated(scene: &Scene<'_>, pod: &Pod) -> bool {
    let set = scene.observed.set.as_ref().filter(|set| set.is_current && set.template == scene.digest);
    set.is_some_and(|set| pod.has_revision(&set.update_revision))
}

fn without_pod(scene: &Scene<'_>, claim: Option<&Claim>, first_unready: Option<i32>) -> Trouble {
    let ordered = scene.spec.pod_management_policy == PodManagementPolicy::OrderedReady;
    if scene.observed.set.is_none() {
        return Trouble::waits("NoStatefulSet", "the StatefulSet is not there yet".to_owned());
    }
    if let Some(before) = first_unready.filter(|_| ordered) {
        let before = names::pod(scene.name, before);
        return Trouble::waits("WaitsForOthers", format!("it starts once {before} is ready"));
    }
    let of_claim = if claim.is_none() { quota::of_claim(scene.spec) } else { Vec::new() };
    if let Some(message) = quota::exhausted(&scene.observed.quotas, &[of_claim, quota::of_pod(scene.spec)].concat()) {
        return Trouble::problem("QuotaExceeded", message);
    }
    let of_class = claim.filter(|claim| claim.is_pending()).and_then(|claim| class_trouble(scene, claim));
    of_class.unwrap_or_else(|| {
        let set = scene.name;
        let message =
            format!("its Pod is not there yet; `kubectl describe statefulset {set}` says why it cannot be made");
        Trouble::waits("Creating", message)
    })
}

fn with_pod(scene: &Scene<'_>, name: &str, pod: &Pod, claim: Option<&Claim>) -> Trouble {
    if pod.is_going() {
        return Trouble::waits("Ending", "its Pod is ending, and is made anew".to_owned());
    }
    if let Some(claim) = claim.filter(|claim| claim.is_pending()) {
        return pending(scene, claim);
    }
    let trouble = if let Some((container, reason, message)) = pod.waiting() {
        Trouble::problem(reason, format!("its container {container} waits: {message}"))
    } else if let Some(message) = pod.unschedulable() {
        Trouble::problem("Unschedulable", message.to_owned())
    } else {
        Trouble::waits("NotReady", "its Pod is not ready yet".to_owned())
    };
    with_way_out(scene, name, pod, trouble)
}

/// Adds the command to run where Kubernetes does not proceed by itself: with ordered Pods, a Pod that never became
/// ready is not replaced.
fn with_way_out(scene: &Scene<'_>, name: &str, pod: &Pod, trouble: Trouble) -> Trouble {
    let ordered = scene.spec.pod_management_policy == PodManagementPolicy::OrderedReady;
    let set = scene.observed.set.as_ref().filter(|set| set.is_current && ordered);
    if set.is_none_or(|set| pod.has_revision(&set.update_revision)) {
        return trouble;
    }
    let message = format!(
        "{}; it runs an older template, and Kubernetes does not replace it before it is ready: kubectl delete pod {name}",
        trouble.message
    );
    Trouble { message, ..trouble }
}

fn pending(scene: &Scene<'_>, claim: &Claim) -> Trouble {
    class_trouble(scene, claim).unwrap_or_else(|| {
        let class = claim.class().filter(|class| !class.is_empty());
        let of = class.map_or("made by hand".to_owned(), |class| format!("of the class {class}"));
        let message = format!("its claim is pending: it waits for a volume {of}");
        let left = left(claim, scene.now);
        Trouble {
            is_problem: left.is_zero(),
            look_again: Some(left).filter(|left| !left.is_zero()),
            ..Trouble::waits("ClaimPending", message)
        }
    })
}

/// Returns how much longer a claim may be pending: nothing where its creation time cannot be read, and the whole time
/// where that lies in the future.
fn left(claim: &Claim, now: u64) -> Duration {
    let Some(created) = claim.created() else { return Duration::ZERO };
    let left = (Duration::from_millis(created) + MAX_CLAIM_PENDING).saturating_sub(Duration::from_millis(now));
    left.min(MAX_CLAIM_PENDING)
}

/// Returns what is wrong with the StorageClass of a pending claim.
fn class_trouble(scene: &Scene<'_>, claim: &Claim) -> Option<Trouble> {
    match claim.class() {
        None => {
            let message = "its claim is pending: it names no class, and the cluster has no default one; create one with the \
                           annotation storageclass.kubernetes.io/is-default-class";
            Some(Trouble::problem("NoDefaultStorageClass", message.to_owned()))
        }
        Some(class) if scene.missing_class == Some(class) => {
            let message = format!(
                "its claim is pending: there is no StorageClass {class}; create it, or create a Redis that names another"
            );
            Some(Trouble::problem("StorageClassMissing", message))
        }
        Some(_) => None,
    }
}
