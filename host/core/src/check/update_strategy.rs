//! How a desired child is brought to its new form where the API server does not let it change. Pure.
//!
//! A desired child names its strategy in an annotation, which the host reads and never writes to the object.

use serde_json::{Map, Value};

use crate::check::pvc;
use crate::check::violation::{Denial, Violation};
use crate::model::kind::ObjectRef;
use crate::model::object::UPDATE_STRATEGY_ANNOTATION;

/// What becomes of a child of which a field would change that may not change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UpdateStrategy {
    /// It stays as it is, and the refusal of the API server is reported.
    #[default]
    InPlace,
    /// It is deleted, and made anew once it is gone.
    Recreate,
}

/// Takes the strategy out of a child's annotations.
///
/// # Errors
/// When it is none that there is.
pub fn take(body: &mut Map<String, Value>, child: &ObjectRef) -> Result<UpdateStrategy, Denial> {
    let annotations = body.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations"));
    let annotations = annotations.and_then(Value::as_object_mut);
    let Some(stated) = annotations.and_then(|texts| texts.remove(UPDATE_STRATEGY_ANNOTATION)) else {
        return Ok(UpdateStrategy::default());
    };
    match stated.as_str() {
        Some("InPlace") => Ok(UpdateStrategy::InPlace),
        Some("Recreate") => Ok(UpdateStrategy::Recreate),
        _ => {
            let message = format!("{child}: {UPDATE_STRATEGY_ANNOTATION}: {stated} is no strategy");
            Err(Violation::new("update-strategy", message).answer("say InPlace or Recreate").into())
        }
    }
}

/// Checks that the deletion of an object, which is to be made anew, deletes no claims with it.
///
/// # Errors
/// When it does: these hold data.
pub fn check_claims_stay(child: &ObjectRef, object: &Value) -> Result<(), Violation> {
    match pvc::deletes_claims(&child.kind, object) {
        true => Err(holds_data(child, "its deletion would delete its claims, which hold data")),
        false => Ok(()),
    }
}

/// Reports that an object that holds data is to be made anew. No grant allows that.
pub(in crate::check) fn holds_data(child: &ObjectRef, what: &str) -> Violation {
    let message = format!("{child}: {what}, so it is never deleted to be made anew");
    Violation::new("recreate-data", message).answer("keep its update strategy InPlace")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::kind::Kind;

    #[test]
    fn the_strategy_is_taken_out_of_the_annotations_and_one_that_there_is_not_is_denied_with_those_that_there_are() {
        let child = ObjectRef { kind: Kind::new("batch", "v1", "Job"), namespace: None, name: "a".into() };
        let taken = |metadata: Value| {
            let Value::Object(mut body) = json!({ "metadata": metadata }) else { unreachable!() };
            let strategy = take(&mut body, &child).map_err(|denial| denial.reasons());
            (strategy, body["metadata"].clone())
        };
        let stating = |strategy: Value| json!({ "annotations": { UPDATE_STRATEGY_ANNOTATION: strategy, "note": "x" } });
        let rest = json!({ "annotations": { "note": "x" } });
        assert_eq!(taken(stating(json!("InPlace"))), (Ok(UpdateStrategy::InPlace), rest.clone()));
        assert_eq!(taken(stating(json!("Recreate"))), (Ok(UpdateStrategy::Recreate), rest.clone()));
        assert_eq!(taken(rest.clone()), (Ok(UpdateStrategy::InPlace), rest.clone()));
        assert_eq!(take(&mut Map::new(), &child), Ok(UpdateStrategy::InPlace));
        for wrong in [json!("recreate"), json!("RollingUpdate"), json!(""), json!(true), json!({ "type": "Recreate" })]
        {
            let (strategy, left) = taken(stating(wrong.clone()));
            let why = strategy.unwrap_err();
            assert!(why.contains("InPlace or Recreate") && why.contains(&wrong.to_string()), "{why}");
            assert_eq!(left, rest);
        }
    }
}
