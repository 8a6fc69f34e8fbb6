//! Bounds what a plugin answers to `validate`. Pure.

use crate::check::answer::MAX_NAME_BYTES;
use crate::model::admission::{FieldError, Verdict};
use crate::model::limits::{FIELD_ERRORS, VERDICT_MESSAGE, WARNINGS};
use crate::model::sanitize;

/// Cuts a verdict down to the limits, and sanitizes its texts. One with more errors is still a refusal: denied as a
/// whole, it would admit the object.
pub fn limited(verdict: Verdict) -> Verdict {
    let clean = |message| sanitize::clean(message, VERDICT_MESSAGE);
    let errors = verdict.errors.into_iter().take(FIELD_ERRORS).map(|error| FieldError {
        field: sanitize::clean(error.field, MAX_NAME_BYTES),
        message: clean(error.message),
        ..error
    });
    let warnings = verdict.warnings.into_iter().take(WARNINGS).map(clean);
    Verdict { errors: errors.collect(), warnings: warnings.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::admission::ErrorReason;

    #[test]
    fn a_verdict_keeps_its_first_errors_and_warnings_in_a_bounded_form() {
        let error = |number: usize| FieldError {
            field: format!("spec.{number}{}", "x".repeat(1_000)),
            reason: ErrorReason::Invalid,
            message: format!("\u{1b}[2J{}", "y".repeat(10_000)),
        };
        let many = Verdict { errors: (0..100).map(error).collect(), warnings: vec!["line\nfeed".repeat(1_000); 100] };
        let limited = limited(many);
        assert_eq!((limited.errors.len(), limited.warnings.len()), (FIELD_ERRORS, WARNINGS));
        assert!(limited.errors[0].field.starts_with("spec.0x") && limited.errors[0].field.len() <= MAX_NAME_BYTES);
        let texts = limited.errors.iter().map(|error| &error.message).chain(&limited.warnings);
        assert!(texts.into_iter().all(|text| text.len() <= VERDICT_MESSAGE && !text.contains(char::is_control)));
    }

    #[test]
    fn an_ordinary_verdict_stays_as_it_is() {
        let error = FieldError { field: "spec.size".into(), reason: ErrorReason::Invalid, message: "odd".into() };
        let verdict = Verdict { errors: vec![error], warnings: vec!["size 1 is not for production".into()] };
        assert_eq!(limited(verdict.clone()), verdict);
    }
}
