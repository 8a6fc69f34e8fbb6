//! Answers of the API server that are no success, and when to try again after each.

use std::time::Duration;

/// What to do where a right is missing.
pub const APPLY_RIGHTS: &str = "apply what `hotshoe rbac` prints for all plugins of this host";

/// The longest reason of an Event, bytes: the API server's bound.
const REASON: usize = 128;

/// The API server's word for a field that is another field manager's.
const FIELD_CONFLICT: &str = "FieldManagerConflict";

/// What a 404 means that is about no object, for who reads it.
const UNSERVED: &str =
    "the API server does not serve this kind, version or subresource: see its CustomResourceDefinition";

/// An answer of the API server that is not success, or none at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{verb} {target}: {message}")]
pub struct ApiError {
    /// What was tried.
    pub verb: &'static str,
    /// On what.
    pub target: String,
    /// HTTP status code; 0 where there was no answer.
    pub code: u16,
    /// The API server's reason; `Timeout` or `Unreachable` where there was no answer.
    pub reason: String,
    /// The API server's words.
    pub message: String,
    /// The API server asked for patience.
    pub retry_after: Option<Duration>,
    /// The cause that the API server names, such as `NamespaceTerminating`.
    pub cause: Option<String>,
    /// Paths of the fields that the API server complains about, such as `spec.type`.
    pub fields: Vec<String>,
    /// It has just come back, and forbids what it may allow in a moment.
    pub waking_up: bool,
    /// It has no place for such an object at the moment.
    pub unserved: bool,
}

impl ApiError {
    /// An answer, or none, of which no more is known. A reason that is no word, as an admission webhook may
    /// give, or is left out, as where an object does not fit its type, is replaced: Events and
    /// plugins are told it.
    pub fn new(verb: &'static str, target: String, code: u16, reason: &str, message: String) -> Self {
        let reason = if is_word(reason) { reason } else { reason_of(code, &message) }.to_owned();
        Self {
            verb,
            target,
            code,
            reason,
            message,
            retry_after: None,
            cause: None,
            fields: Vec::new(),
            waking_up: false,
            unserved: false,
        }
    }

    /// Blames `conflict`, the fields of other field managers that make what was applied invalid, and not the plugin:
    /// the object is valid without them.
    #[must_use]
    pub fn because_of(self, conflict: &str) -> Self {
        let message = format!(
            "other field managers set what does not go with what the plugin sets: {conflict}; remove that from the \
             object, or let those field managers do so: {}",
            self.message
        );
        let cause = Some(FIELD_CONFLICT.to_owned());
        Self { reason: FIELD_CONFLICT.to_owned(), cause, message, ..self }
    }

    /// It is the answer to a request for what has no place in the API.
    #[must_use]
    pub fn unserved(self) -> Self {
        let message = format!("{} ({UNSERVED})", self.message.trim_end());
        Self { unserved: true, message, ..self }
    }

    /// The namespace of the object is being deleted: neither failure nor strike.
    pub fn is_namespace_terminating(&self) -> bool {
        self.code == 403 && self.cause.as_deref() == Some("NamespaceTerminating")
    }

    /// There is no such object, or no place for one.
    pub fn is_not_found(&self) -> bool {
        self.code == 404
    }

    /// The object is gone. That its kind, version or subresource is not served at the moment says nothing of it.
    pub fn is_gone(&self) -> bool {
        self.code == 404 && !self.unserved
    }

    /// A `test` of a JSON patch failed: somebody else was faster. The API server does not say which, but a
    /// schema or a policy that refuses says more.
    pub fn is_failed_test(&self) -> bool {
        self.code == 422 && self.message.starts_with("the server rejected our request due to an error in our request")
    }

    /// The host may not act as the plugin.
    pub fn is_of_impersonation(&self) -> bool {
        self.lacks_rights() && self.message.contains("\" cannot impersonate")
    }

    /// An account has no right to do this; quotas and policies refuse with the same code.
    fn lacks_rights(&self) -> bool {
        let (user, resource) = (": User \"", " resource \"");
        let in_order = self
            .message
            .split_once(user)
            .is_some_and(|(_, rest)| rest.split_once("\" cannot ").is_some_and(|(_, rest)| rest.contains(resource)));
        self.code == 403 && !self.waking_up && in_order
    }

    /// What to do about it, where that is known: the end of a sentence. The API server does not say as whom.
    pub fn advice(&self, plugin: &str) -> Option<String> {
        match self.is_of_impersonation() {
            true => Some(format!("; the host may not act as the account of {plugin}: {APPLY_RIGHTS}")),
            false => self.lacks_rights().then(|| format!("; {APPLY_RIGHTS}")),
        }
    }

    /// What was sent is no object that anybody may have: sent again, it is none either. A policy or a webhook
    /// takes the same from others, or elsewhere.
    pub fn is_invalid(&self) -> bool {
        let is_malformed = self.code == 400 && !self.message.starts_with("admission webhook");
        is_malformed || self.is_of_fields() || is_misfit(self.code, &self.message)
    }

    /// A field of what came of it is not as it may be. A policy says the same of an object as a whole, and names none.
    pub fn is_of_fields(&self) -> bool {
        self.code == 422 && self.cause.as_deref().is_some_and(|cause| cause.starts_with("FieldValue"))
    }

    /// An apply that was not forced sets what another field manager owns.
    pub fn is_of_ownership(&self) -> bool {
        self.code == 409 && self.cause.as_deref() == Some(FIELD_CONFLICT)
    }

    /// Whether it is known that nothing was written.
    pub fn is_definite(&self) -> bool {
        let refused = (400..500).contains(&self.code) && self.code != 408;
        refused || is_misfit(self.code, &self.message)
    }

    /// 5xx, 429, 409, time-outs, credentials that are just renewed, and a server that is away or has just come
    /// back, pass by themselves; the rest does not.
    pub fn is_transient(&self) -> bool {
        !self.is_definite() || matches!(self.code, 401 | 409 | 429) || self.waking_up
    }
}

/// What fits no schema, or has a value that none of its type is, is a 500 when it is applied; sent again, it
/// fits no better. A webhook that converts between versions may be away, which passes.
fn is_misfit(code: u16, message: &str) -> bool {
    let misfits = ["failed to create typed patch object (", "failed to convert new object ("];
    let is_one = misfits.iter().any(|misfit| message.starts_with(misfit));
    code == 500 && is_one && !message.contains("conversion webhook for")
}

fn is_word(reason: &str) -> bool {
    (1..=REASON).contains(&reason.len()) && reason.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// In the API server's words, what a status code says.
fn reason_of(code: u16, message: &str) -> &'static str {
    match code {
        _ if is_misfit(code, message) => "Invalid",
        0 => "Unreachable",
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        405 => "MethodNotAllowed",
        409 => "Conflict",
        410 => "Gone",
        413 => "RequestEntityTooLarge",
        415 => "UnsupportedMediaType",
        422 => "Invalid",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        500..=599 => "InternalError",
        _ => "Unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_has_a_reason_that_is_one_word() {
        let misfit =
            "failed to create typed patch object (n/a; /v1, Kind=ConfigMap): .dta: field not declared in schema";
        let long = "x".repeat(129);
        for (code, said, message, reason) in [
            (500, "", misfit, "Invalid"),
            (500, "", "etcd is away", "InternalError"),
            (502, "", "", "InternalError"),
            (503, "", "", "ServiceUnavailable"),
            (403, "not on a Friday", "denied", "Forbidden"),
            (400, &long, "denied", "BadRequest"),
            (418, "", "", "Unknown"),
            (422, "", "", "Invalid"),
            (409, "AlreadyExists", "", "AlreadyExists"),
            (0, "Timeout", "", "Timeout"),
        ] {
            let error = ApiError::new("apply", "a ConfigMap".into(), code, said, message.into());
            assert_eq!(error.reason, reason, "{code} {said} {message}");
        }
    }

    #[test]
    fn what_fits_no_schema_is_not_sent_again_as_it_is() {
        let of = |message: &str| ApiError::new("apply", "a ConfigMap".into(), 500, "", message.into());
        let converted = "failed to convert new object (n/a; /v1, Kind=ConfigMap) to proper version: ";
        for misfit in ["failed to create typed patch object (n/a)", &format!("{converted}illegal base64 data")] {
            let error = of(misfit);
            assert!(error.is_definite() && error.is_invalid() && error.reason == "Invalid", "{misfit}");
        }
        let away = format!("{converted}conversion webhook for example.com/v1, Kind=A failed: Post: connection refused");
        for passes in ["etcd is away", &away] {
            assert!(!of(passes).is_definite() && of(passes).is_transient(), "{passes}");
        }
    }

    #[test]
    fn a_policy_that_denies_an_object_finds_fault_with_no_field() {
        let refusal = |code, cause: Option<&str>| {
            let error = ApiError::new("apply", "a Deployment".into(), code, "Invalid", "no".into());
            ApiError { cause: cause.map(str::to_owned), ..error }
        };
        let duplicate = refusal(422, Some("FieldValueDuplicate"));
        assert!(duplicate.is_of_fields() && duplicate.is_invalid());
        for denied in [refusal(422, None), refusal(409, Some("FieldManagerConflict"))] {
            assert!(!denied.is_of_fields() && !denied.is_invalid(), "{denied:?}");
        }
        let of = |message: &str| ApiError::new("apply", "a Deployment".into(), 400, "BadRequest", message.into());
        assert!(of("unknown field").is_invalid());
        assert!(!of("admission webhook \"a.example.com\" denied the request: no").is_invalid());
    }

    #[test]
    fn a_refusal_because_of_other_field_managers_is_no_fault_of_what_was_sent() {
        let refusal = ApiError::new("apply", "a Deployment".into(), 422, "Invalid", "no".into());
        let refusal = ApiError { cause: Some("FieldValueInvalid".into()), ..refusal };
        assert!(refusal.is_invalid());
        let conflict = refusal.because_of("spec.paused by kubectl-edit");
        assert_eq!(conflict.reason, "FieldManagerConflict");
        assert!(conflict.message.contains("spec.paused by kubectl-edit") && conflict.message.ends_with(": no"));
        assert!(conflict.is_definite() && !conflict.is_invalid() && !conflict.is_of_ownership());
    }

    fn forbidden(message: &str) -> ApiError {
        ApiError::new("apply", "Service n/web".into(), 403, "Forbidden", message.to_owned())
    }

    #[test]
    fn who_lacks_rights_is_told_what_to_apply_and_whom_a_quota_or_policy_refuses_is_not() {
        for message in [
            r#"serviceaccounts "demo" is forbidden: User "system:serviceaccount:h:hotshoe" cannot impersonate resource "serviceaccounts" in API group "" in the namespace "h""#,
            r#"services "web" is forbidden: User "system:serviceaccount:h:hotshoe" cannot impersonate-on:serviceaccount:patch resource "services" in API group "" in the namespace "n""#,
        ] {
            let advice = forbidden(message).advice("demo").unwrap_or_default();
            assert!(forbidden(message).is_of_impersonation() && advice.contains("the account of demo"), "{advice}");
        }
        let right = forbidden(
            r#"services "web" is forbidden: User "system:serviceaccount:h:demo" cannot patch resource "services" in API group "" in the namespace "n""#,
        );
        assert!(
            !right.is_of_impersonation() && right.advice("demo").is_some_and(|advice| advice.contains("hotshoe rbac"))
        );
        for message in [
            r#"pods "web" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"#,
            r#"services "web" is forbidden: ValidatingAdmissionPolicy 'p' denied request: you cannot have it"#,
        ] {
            assert_eq!(forbidden(message).advice("demo"), None, "{message}");
        }
        let waking_up = ApiError { waking_up: true, ..right };
        assert_eq!(waking_up.advice("demo"), None, "it may be allowed in a moment");
    }
}
