//! The search for a counter-example among objects that are made from a schema.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use super::choices::Choices;
use super::generate::{Limit, Maker};
use crate::cli::schema::files::Version;
use crate::cli::schema::keywords::Schema;
use crate::cli::schema::smaller;

/// The number of objects that are made from the schema of a version.
const MADE: usize = 300;
/// The number with which the choices begin, in every run.
const SEED: u64 = 1;
/// The maximum number of objects that are tried to make a counter-example smaller.
const MAX_SMALLER: usize = 2_000;
/// The time after which no further object is tried. 300 objects of Memcached take about 50 ms.
const MAX_TIME: Duration = Duration::from_secs(5);

/// What a search found.
#[derive(Debug)]
pub(super) struct Found {
    /// The number of objects that were made and tried.
    pub(super) tried: usize,
    /// The smallest object that was found to fail, and how it fails.
    pub(super) failed: Option<(Value, String)>,
    /// What no object had, because it is larger than what is made, by its path.
    pub(super) left_out: BTreeMap<String, Limit>,
}

/// Tries objects made from the schema of a version until one fails, and then smaller ones, until none of them fails.
pub(super) async fn search(version: &Version<'_>, fails: impl AsyncFn(&Value) -> Option<String>) -> Found {
    let end = Instant::now() + MAX_TIME;
    let mut maker = Maker::new(version.schema, Choices::new(SEED));
    let (mut tried, mut failed) = (0, None);
    for _ in 0..MADE {
        let Some(object) = object(version, &mut maker).filter(|_| Instant::now() < end) else { continue };
        tried += 1;
        if let Some(failure) = fails(&object).await {
            failed = Some(smallest(version.schema, (object, failure), end, fails).await);
            break;
        }
    }
    Found { tried, failed, left_out: maker.left_out() }
}

/// Makes an object of a version; none if the schema is one from which none can be made.
fn object(version: &Version<'_>, maker: &mut Maker<'_>) -> Option<Value> {
    let mut object = maker.members()?;
    let mut metadata = Map::from_iter([("name".to_owned(), "made".into())]);
    if version.is_namespaced {
        metadata.insert("namespace".to_owned(), "default".into());
    }
    let annotations = maker.annotations();
    if !annotations.is_empty() {
        metadata.insert("annotations".to_owned(), annotations.into());
    }
    object.insert("apiVersion".to_owned(), version.kind.api_version().into());
    object.insert("kind".to_owned(), version.kind.kind.to_string().into());
    object.insert("metadata".to_owned(), metadata.into());
    Some(object.into())
}

/// Goes from an object that fails to a smaller one that fails, until there is none.
async fn smallest(
    schema: Schema<'_>,
    mut failed: (Value, String),
    end: Instant,
    fails: impl AsyncFn(&Value) -> Option<String>,
) -> (Value, String) {
    let mut left = MAX_SMALLER;
    while let Some(smaller) = first_that_fails(smaller::objects(schema, &failed.0), &mut left, end, &fails).await {
        failed = smaller;
    }
    failed
}

/// Tries objects until one fails, the number `left` is used up, or the time is over.
async fn first_that_fails(
    objects: impl Iterator<Item = Value>,
    left: &mut usize,
    end: Instant,
    fails: &impl AsyncFn(&Value) -> Option<String>,
) -> Option<(Value, String)> {
    for object in objects {
        if *left == 0 || Instant::now() >= end {
            break;
        }
        *left -= 1;
        if let Some(failure) = fails(&object).await {
            return Some((object, failure));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use hotshoe_core::model::kind::Kind;

    fn schema() -> Value {
        json!({ "type": "object", "properties": {
            "metadata": { "type": "object" },
            "spec": { "type": "object", "properties": {
                "mode": { "type": "string", "enum": ["Fast", "Slow", "Off"] },
                "limit": { "type": "integer", "format": "int32", "minimum": 0 },
                "names": { "type": "array", "items": { "type": "string" } },
                "labels": { "type": "object", "additionalProperties": { "type": "string" } },
            } },
            "status": { "type": "object", "properties": { "ready": { "type": "integer" } } },
        } })
    }

    async fn found(schema: &Value, fails: impl Fn(&Value) -> bool) -> Found {
        let kind = Kind::new("example.com", "v1", "Test");
        let version = Version { file: Path::new(""), kind, is_namespaced: true, schema: Schema::new(schema) };
        search(&version, async |object: &Value| fails(object).then(|| "lost".to_owned())).await
    }

    #[tokio::test]
    async fn a_loss_that_needs_two_values_is_found_and_nothing_else_is_left_of_the_object() {
        let loses = |object: &Value| object["spec"]["mode"] == "Slow" && object["spec"]["limit"].as_i64() > Some(99);
        let (object, failure) = found(&schema(), loses).await.failed.expect("a counter-example");
        assert_eq!(failure, "lost");
        let expected = json!({
            "apiVersion": "example.com/v1",
            "kind": "Test",
            "metadata": { "name": "made", "namespace": "default" },
            "spec": { "mode": "Slow", "limit": 100 },
        });
        assert_eq!(object, expected);
    }

    #[tokio::test]
    async fn an_annotation_that_is_lost_is_found() {
        let (object, _) =
            found(&schema(), |object| object["metadata"]["annotations"]["made"].is_string()).await.failed.unwrap();
        assert_eq!(object["metadata"]["annotations"].as_object().map(|all| all.len()), Some(1));
        assert_eq!(object.get("spec"), None);
    }

    #[tokio::test]
    async fn where_nothing_fails_all_objects_are_tried() {
        let found = found(&schema(), |_| false).await;
        assert!(found.tried == MADE && found.failed.is_none(), "{found:?}");
    }

    #[tokio::test]
    async fn of_a_schema_from_which_nothing_can_be_made_nothing_is_tried() {
        let mut schema = schema();
        schema["x-kubernetes-validations"] = json!([{ "rule": "has(self.spec)" }]);
        assert_eq!(found(&schema, |_| true).await.tried, 0);
    }
}
