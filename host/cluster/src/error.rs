//! Errors of the API server, and which of them are transient.

use std::time::Duration;

use hotshoe_core::flow::backoff::{refused, soon, under_load};
use hotshoe_core::flow::unanswered::Unanswered;

/// The advice if a right is missing.
pub const APPLY_RIGHTS: &str = "apply what `hotshoe rbac --plugin-only` prints for the plugin, or, \
                                where the host has folders of plugins, what `hotshoe rbac` prints for all of them";

/// The reason of a write that was not sent, or was cut off, because its permit was over.
pub(super) const PERMIT_EXPIRED: &str = "PermitExpired";

/// The reason of a reply that is too large to be read.
const REPLY_TOO_LARGE: &str = "ReplyTooLarge";

/// The code of an answer that cannot be used: the answer itself says that the request succeeded.
const USELESS_ANSWER: u16 = 200;

/// The maximum length of the reason of an Event, in bytes: the API server's limit.
const MAX_REASON_BYTES: usize = 128;

/// The longest pause that the API server, or a webhook behind it, may ask for.
const LONGEST_ASKED_PAUSE: Duration = Duration::from_secs(300);

/// The API server's cause for a creation in a namespace that is being deleted.
const NAMESPACE_TERMINATING: &str = "NamespaceTerminating";

/// The API server's cause for a conflict with another field manager.
const FIELD_CONFLICT: &str = "FieldManagerConflict";

/// The explanation of a 404 that is not about an object.
const UNSERVED: &str =
    "the API server does not serve this kind, version or subresource: see its CustomResourceDefinition";

/// An error of the API server, or no answer at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{verb} {target}: {message}")]
pub struct ApiError {
    /// What was attempted, such as `apply`.
    pub verb: &'static str,
    /// The object.
    pub target: String,
    /// HTTP status code: 0 without an answer, and 200 for an answer that cannot be used.
    pub code: u16,
    /// The API server's reason; `Timeout` or `Unreachable` without an answer, `Unreadable` or `ReplyTooLarge` for one
    /// that cannot be used.
    pub reason: String,
    /// The API server's message.
    pub message: String,
    /// How long the API server asks to wait, within reason.
    pub retry_after: Option<Duration>,
    /// The cause that the API server names, such as `NamespaceTerminating`.
    pub cause: Option<String>,
    /// Paths of the fields that the API server complains about, such as `spec.type`.
    pub fields: Vec<String>,
    /// Whether all that the API server complains about is that fields would change that may not change.
    pub is_immutable: bool,
    /// Whether the API server has just come back, so that it may soon allow what it forbids now.
    pub after_outage: bool,
    /// Whether the kind, version or subresource is not served at the moment.
    pub unserved: bool,
    /// The details of a write that had no answer in time.
    pub unanswered: Option<Unanswered>,
}

impl ApiError {
    /// Creates an error without details. Events and plugins get the reason, so a reason that is not a single word is
    /// replaced: an admission webhook may give several words, and an object that does not fit its type has an empty
    /// reason.
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
            is_immutable: false,
            after_outage: false,
            unserved: false,
            unanswered: None,
        }
    }

    /// Notes how long the API server asks to wait, but not longer than is reasonable: an admission webhook and an
    /// aggregated API server choose the pause, and may choose centuries.
    #[must_use]
    pub fn asking_to_wait(self, pause: Option<Duration>) -> Self {
        Self { retry_after: pause.map(|pause| pause.min(LONGEST_ASKED_PAUSE)), ..self }
    }

    /// Creates the error of an answer that is not what was asked for. The API server did answer, so this is no outage,
    /// and it may have carried out the request.
    pub fn unreadable(verb: &'static str, target: String, error: &serde_json::Error) -> Self {
        let message =
            format!("the reply cannot be read: {error}; check that the API server itself answers at its address");
        Self::new(verb, target, USELESS_ANSWER, "Unreadable", message)
    }

    /// Creates the error of an answer that is larger than the `most` bytes that are read. It is no outage either.
    pub(super) fn too_large(verb: &'static str, target: String, code: u16, most: usize) -> Self {
        let message = format!(
            "the reply is larger than {most} bytes, which no object is; ask for less, or check that the API server itself answers at its address"
        );
        Self::new(verb, target, code, REPLY_TOO_LARGE, message)
    }

    /// Returns whether the reply was too large to be read.
    pub(super) fn is_too_large(&self) -> bool {
        self.reason == REPLY_TOO_LARGE
    }

    /// Attributes the error to `conflict`, the fields of other field managers that make the applied object invalid, and
    /// not to the plugin: the object is valid without these fields.
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

    /// Marks a 404 that is not about an object.
    #[must_use]
    pub fn unserved(self) -> Self {
        let message = format!("{} ({UNSERVED})", self.message.trim_end());
        Self { unserved: true, message, ..self }
    }

    /// Returns whether the permit was over, so that another host may be writing by now.
    pub fn is_of_permit(&self) -> bool {
        self.code == 0 && self.reason == PERMIT_EXPIRED
    }

    /// Returns whether the namespace of the object is being deleted, which is no fault of the plugin.
    pub fn is_namespace_terminating(&self) -> bool {
        self.code == 403 && self.cause.as_deref() == Some(NAMESPACE_TERMINATING)
    }

    /// Returns the reason that plugins are shown: `NamespaceTerminating` where the namespace is being deleted, which
    /// `Forbidden` would not say.
    pub fn shown_reason(&self) -> &str {
        if self.is_namespace_terminating() { NAMESPACE_TERMINATING } else { &self.reason }
    }

    /// Returns whether there is no such object, or its kind is not served.
    pub fn is_not_found(&self) -> bool {
        self.code == 404
    }

    /// Returns whether the API server did not answer in time, or says that it could not. An unreachable API server does
    /// not count.
    pub fn is_late(&self) -> bool {
        self.code == 504 || self.reason == "Timeout"
    }

    /// Returns whether the object is gone. If its kind, version or subresource is not served at the moment, that is
    /// unknown.
    pub fn is_gone(&self) -> bool {
        self.code == 404 && !self.unserved
    }

    /// Returns whether a `test` of a JSON patch failed because another writer was faster. The API server gives no cause
    /// for that; it does give one if a schema or a policy refuses the patch.
    pub fn is_failed_test(&self) -> bool {
        self.code == 422 && self.message.starts_with("the server rejected our request due to an error in our request")
    }

    /// Returns whether the host may not impersonate the plugin.
    pub fn is_of_impersonation(&self) -> bool {
        self.lacks_rights() && self.message.contains("\" cannot impersonate")
    }

    /// Returns whether the account lacks a right. Quotas and policies refuse with the same code, so the message
    /// decides.
    fn lacks_rights(&self) -> bool {
        let (user, resource) = (": User \"", " resource \"");
        let is_about_rights = self
            .message
            .split_once(user)
            .is_some_and(|(_, rest)| rest.split_once("\" cannot ").is_some_and(|(_, rest)| rest.contains(resource)));
        self.code == 403 && !self.after_outage && is_about_rights
    }

    /// Returns advice on the error as the end of a sentence, if there is any. Names the plugin, which the API server's
    /// message does not.
    pub fn advice(&self, plugin: &str) -> Option<String> {
        match self.is_of_impersonation() {
            true => Some(format!("; the host may not act as the account of {plugin}: {APPLY_RIGHTS}")),
            false => self.lacks_rights().then(|| format!("; {APPLY_RIGHTS}")),
        }
    }

    /// Returns whether the sent object is invalid for every client and at any time. An object that a policy or a
    /// webhook refuses may be valid for other clients.
    pub fn is_invalid(&self) -> bool {
        let is_malformed = self.code == 400 && !self.message.starts_with("admission webhook");
        is_malformed || self.is_of_fields() || is_misfit(self.code, &self.message)
    }

    /// Returns whether a field of the resulting object is invalid. A policy refuses the object as a whole, and names no
    /// field.
    pub fn is_of_fields(&self) -> bool {
        self.code == 422 && self.cause.as_deref().is_some_and(|cause| cause.starts_with("FieldValue"))
    }

    /// Returns whether an apply is refused because `managedFields` has fields of another version of the kind, which is no
    /// longer converted. Nothing of what was sent is at fault.
    pub fn is_of_other_version(&self) -> bool {
        self.code == 500
            && !is_misfit(self.code, &self.message)
            && self.message.ends_with(": field not declared in schema")
    }

    /// Returns whether an apply that was not forced sets a field that another field manager owns.
    pub fn is_of_ownership(&self) -> bool {
        self.code == 409 && self.cause.as_deref() == Some(FIELD_CONFLICT)
    }

    /// Returns whether the schema of a parent has no `status.observedGeneration`, or another type for it.
    pub fn has_no_room_for_generation(&self) -> bool {
        is_misfit(self.code, &self.message) && self.message.contains(".status.observedGeneration: ")
    }

    /// Returns whether it is certain that nothing was written.
    pub fn is_definite(&self) -> bool {
        let refused = (400..500).contains(&self.code) && self.code != 408;
        refused || is_misfit(self.code, &self.message)
    }

    /// Returns whether the API server is away, has just come back, or may not be written to at the moment.
    pub fn is_of_outage(&self) -> bool {
        self.after_outage || (self.code == 0 && self.reason != "Timeout")
    }

    /// Returns whether an admission webhook refused the request or did not answer. A webhook chooses the code.
    fn is_of_webhook(&self) -> bool {
        self.message.starts_with("admission webhook") || self.message.contains("failed calling webhook")
    }

    /// Returns the pause before the next try of a request that failed for a reason that should pass, after this many in
    /// a row. It grows, except in an outage: what happens after that is to be acted upon soon. It is never shorter than
    /// the API server asks for.
    pub fn pause(&self, tries: u32) -> Duration {
        let is_of_load = self.is_late() || matches!(self.code, 429 | 503);
        let pause = match is_of_load && !self.is_of_webhook() {
            _ if self.is_of_outage() => soon(tries),
            true => under_load(tries),
            false => refused(tries),
        };
        pause.max(self.retry_after.unwrap_or_default())
    }

    /// Returns whether the error is transient: 5xx, 429, 409, timeouts, credentials that are being renewed, an answer
    /// that cannot be used, and an API server that does not answer or has just come back.
    pub fn is_transient(&self) -> bool {
        !self.is_definite() || matches!(self.code, 401 | 409 | 429) || self.after_outage
    }
}

/// Returns whether the sent object does not fit its schema. An apply gets a 500 for that, which is not transient. A
/// conversion webhook that does not answer is transient.
fn is_misfit(code: u16, message: &str) -> bool {
    let misfits = ["failed to create typed patch object (", "failed to convert new object ("];
    let is_one = misfits.iter().any(|misfit| message.starts_with(misfit));
    code == 500 && is_one && !message.contains("conversion webhook for")
}

fn is_word(reason: &str) -> bool {
    (1..=MAX_REASON_BYTES).contains(&reason.len()) && reason.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Returns the API server's reason for a status code.
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
    fn an_object_that_fits_no_schema_is_invalid_and_not_retried_as_it_is() {
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
    fn a_refusal_for_the_fields_of_another_version_is_none_for_the_fields_that_were_sent() {
        let of = |message: &str| ApiError::new("apply", "a ConfigMap".into(), 500, "", message.into());
        assert!(of(".spec.size: field not declared in schema").is_of_other_version());
        assert!(of("failed to convert new object: .spec.size: field not declared in schema").is_of_other_version());
        let sent = "failed to create typed patch object (n/a; /v1, Kind=A): .status.x: field not declared in schema";
        assert!(!of(sent).is_of_other_version() && !of("etcd is away").is_of_other_version());
    }

    #[test]
    fn an_answer_that_cannot_be_read_is_tried_again_and_is_no_outage() {
        let no_json = serde_json::from_str::<u8>("<html>").unwrap_err();
        let error = ApiError::unreadable("get", "a ConfigMap".into(), &no_json);
        assert!(error.is_transient() && !error.is_definite() && !error.is_late() && error.code != 0, "{error:?}");
        assert_eq!(error.reason, "Unreadable");
    }

    #[test]
    fn pauses_grow_with_each_refusal_whatever_its_code_and_not_in_an_outage() {
        let pauses = |code: u16, reason: &str, message: &str, after_outage: bool| {
            let error = ApiError::new("apply", "a ConfigMap".into(), code, reason, message.into());
            let error = ApiError { after_outage, ..error };
            [1, 3, 5, 7, 99].map(|tries| error.pause(tries).as_millis())
        };
        let webhook = "failed calling webhook \"a.example.com\": dial tcp 127.0.0.1:1: connect: connection refused";
        let denied = "admission webhook \"a.example.com\" denied the request: no";
        for (code, message) in [(500, webhook), (503, denied), (429, denied), (504, denied), (409, denied), (500, "")] {
            assert_eq!(pauses(code, "", message, false), [250, 1_000, 4_000, 16_000, 60_000], "{code} {message}");
        }
        for (code, reason) in [(429, ""), (503, ""), (504, ""), (0, "Timeout")] {
            assert_eq!(pauses(code, reason, "", false), [250, 1_000, 4_000, 10_000, 10_000], "{code} {reason}");
        }
        for (code, after_outage) in [(0, false), (503, true), (403, true)] {
            assert_eq!(pauses(code, "", "", after_outage), [250, 1_000, 2_000, 2_000, 2_000], "{code}");
        }
        let asked = ApiError::new("apply", "a ConfigMap".into(), 429, "", denied.into());
        let asked = ApiError { retry_after: Some(Duration::from_secs(1)), ..asked };
        assert_eq!([1, 9].map(|tries| asked.pause(tries).as_secs()), [1, 60], "it asks for the same each time");
    }

    #[test]
    fn the_refusal_of_a_policy_does_not_make_an_object_invalid() {
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
    fn a_refusal_because_of_other_field_managers_does_not_make_the_sent_object_invalid() {
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
    fn a_missing_right_comes_with_advice_and_the_refusal_of_a_quota_or_policy_does_not() {
        for message in [
            "serviceaccounts \"demo\" is forbidden: User \"system:serviceaccount:h:hotshoe\" cannot impersonate \
             resource \"serviceaccounts\" in API group \"\" in the namespace \"h\"",
            "services \"web\" is forbidden: User \"system:serviceaccount:h:hotshoe\" cannot \
             impersonate-on:serviceaccount:patch resource \"services\" in API group \"\" in the namespace \"n\"",
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
        let after_outage = ApiError { after_outage: true, ..right };
        assert_eq!(after_outage.advice("demo"), None, "it may be allowed in a moment");
    }
}
