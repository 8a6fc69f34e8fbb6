//! The first look at an answer, as the host has it.

#[path = "../../../host/src/plugin/answer.rs"]
mod answer;
#[path = "../../../host/src/plugin/json.rs"]
mod json;
#[path = "../../../host/src/plugin/limits.rs"]
pub(crate) mod limits;
#[path = "../../../host/src/plugin/names.rs"]
mod names;
#[path = "../../../host/src/plugin/text.rs"]
mod text;

pub(crate) use answer::{clean, measure};
