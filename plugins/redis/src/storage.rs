//! The size of the claims, which Kubernetes fixes when a StatefulSet is created.

use hotshoe_sdk::Failure;

use crate::{api::RedisSpec, observed::Observed, quantity};

const FIELD: &str = "spec.storage.size";

/// The size of the claims.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Size {
    /// The size in the StatefulSet.
    pub(crate) size: String,
    /// Why that size differs from the one in the spec; absent where it does not.
    pub(crate) lags: Option<String>,
}

/// Decides the size of the claims.
///
/// # Errors
///
/// Rejects an invalid size, and one that is smaller than that of the claims.
pub(crate) fn size(name: &str, spec: &RedisSpec, observed: &Observed) -> Result<Size, Failure> {
    let wanted = &spec.storage.size;
    let Some(value) = quantity::parse(wanted).filter(|value| *value > 0) else {
        let message = format!("{FIELD} {wanted:?} is no size; write it as 1Gi or 500Mi");
        return Err(Failure::reject_field(FIELD, message));
    };
    let present = observed.set.as_ref().and_then(|set| set.claim_size.as_ref());
    let Some((present, known)) = present.and_then(|present| Some((present, quantity::parse(present)?))) else {
        return Ok(Size { size: wanted.clone(), lags: None });
    };
    if value < known {
        let message = format!(
            "volumes do not shrink: the claims of {name} have {present}, and {FIELD} is {wanted}; set it to {present} or more"
        );
        return Err(Failure::reject_field(FIELD, message));
    }
    let lags = (value > known).then(|| {
        format!(
            "the claims have {present} and the spec says {wanted}, which Kubernetes does not change in a StatefulSet: raise \
             spec.resources.requests.storage of each claim, then `kubectl delete statefulset {name} --cascade=orphan`, and \
             it is made anew around its Pods"
        )
    });
    Ok(Size { size: present.clone(), lags })
}
