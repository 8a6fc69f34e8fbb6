//! The first look at an answer, as the host has it.

#[path = "../../../host/src/plugin/answer.rs"]
mod answer;
#[path = "../../../host/src/plugin/json.rs"]
mod json;
#[path = "../../../host/src/plugin/limits.rs"]
pub(crate) mod limits;
#[path = "../../../host/src/plugin/text.rs"]
mod text;

use crate::decision::{Answer, Failure};
use crate::error::CallError;
use limits::Limits;

/// The answer with its words cleaned, if it keeps within the limits.
pub(crate) fn measure(answer: Answer, limits: &Limits) -> Result<Answer, CallError> {
    answer::measure(answer, limits)
}

/// The failure with its words cleaned.
pub(crate) fn clean(failure: Failure) -> Failure {
    answer::clean(failure)
}
