//! What the schemas of parents have room for, so that no status is written that the API server would refuse: read from
//! its OpenAPI documents, and learned from refusals where those say nothing.
//!
//! A document is read once for each kind, again when the kind is discovered anew, and, as long as a kind has no room, at
//! intervals: its CRD may get the field at any time. A document that cannot be read means that the next write shows it.

use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::RwLock;
use tokio::sync::Semaphore;

use crate::client::{ApiCall, Cluster};
use crate::error::ApiError;
use crate::identity::{Identity, Permit};
use hotshoe_core::model::kind::Kind;
use hotshoe_core::model::openapi::{FieldPresence, room_for_generation};

/// How often the schema of a kind that has no room is read.
const LOOK_INTERVAL: Duration = Duration::from_secs(60);
/// How many documents are read at once; each may have the size of the largest reply.
const MOST_AT_ONCE: usize = 4;
/// How long all tries to read a document may take: parents wait for it.
const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a document is read that does not have a kind which is served, and the pause between: the API server
/// publishes the schema of a new CRD a second later than it serves the kind.
const TRIES: u32 = 6;
const RETRY_PAUSE: Duration = Duration::from_millis(300);

/// What is known of the schemas of parents.
pub struct StatusSchemas {
    known: RwLock<HashMap<Kind, GenerationField>>,
    reads: Semaphore,
}

impl Default for StatusSchemas {
    fn default() -> Self {
        Self { known: RwLock::default(), reads: Semaphore::new(MOST_AT_ONCE) }
    }
}

/// Whether a kind has room for the observed generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GenerationField {
    /// By its schema it has.
    Present,
    /// By its schema it has none.
    Absent,
    /// The API server refused a write that stated it.
    Refused,
}

impl GenerationField {
    fn of(presence: FieldPresence) -> Option<Self> {
        match presence {
            FieldPresence::Present => Some(Self::Present),
            FieldPresence::Absent => Some(Self::Absent),
            FieldPresence::Unclear => None,
        }
    }
}

impl StatusSchemas {
    /// Returns whether it is known that the status of a kind has no room for the observed generation.
    pub fn has_no_room(&self, kind: &Kind) -> bool {
        matches!(self.known(kind), Some(GenerationField::Absent | GenerationField::Refused))
    }

    /// Records that the API server refused a status because of the observed generation.
    pub fn note_refused(&self, kind: &Kind) {
        self.known.write().insert(kind.clone(), GenerationField::Refused);
    }

    /// Reads the schema of a kind, unless it is known. After a refusal it is read again, as it may have changed since.
    pub async fn look_up(&self, cluster: &Cluster, kind: &Kind) {
        if !matches!(self.known(kind), Some(GenerationField::Present | GenerationField::Absent)) {
            self.replace(cluster, kind).await;
        }
    }

    /// Reads the schema of a kind again that was discovered anew, if it was known before.
    pub(super) async fn follow(&self, cluster: &Cluster, kind: &Kind) {
        if self.known(kind).is_some() {
            self.replace(cluster, kind).await;
        }
    }

    /// Reads the schema of a kind again that has no room so far. A refusal counts until the schema shows its reason:
    /// otherwise a schema that is read wrongly would lead to one refusal after another.
    async fn look_again(&self, cluster: &Cluster, kind: &Kind) {
        let Some(before) = self.known(kind).filter(|known| *known != GenerationField::Present) else { return };
        let Some(now) = read(&self.reads, cluster, kind).await else { return };
        if before == GenerationField::Absent || now == GenerationField::Absent {
            self.known.write().insert(kind.clone(), now);
        }
    }

    /// Waits until a kind that had no room has it. `kind` is asked for at each look, as another revision may have another
    /// kind of parents.
    pub async fn room_appears(&self, cluster: &Cluster, kind: &(impl Fn() -> Option<Kind> + Sync)) {
        let mut had_none = false;
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            let Some(kind) = kind() else { continue };
            had_none |= self.has_no_room(&kind);
            self.look_again(cluster, &kind).await;
            let has_none = self.has_no_room(&kind);
            if std::mem::replace(&mut had_none, has_none) && !has_none {
                return;
            }
        }
    }

    async fn replace(&self, cluster: &Cluster, kind: &Kind) {
        match read(&self.reads, cluster, kind).await {
            Some(now) => self.known.write().insert(kind.clone(), now),
            None => self.known.write().remove(kind),
        };
    }

    fn known(&self, kind: &Kind) -> Option<GenerationField> {
        self.known.read().get(kind).copied()
    }
}

/// Reads the schema of a kind. Returns `None` if it cannot be read or says nothing.
async fn read(reads: &Semaphore, cluster: &Cluster, kind: &Kind) -> Option<GenerationField> {
    // The schemas of the core group refer to others, and its document is the longest of all.
    if kind.group.is_empty() {
        return None;
    }
    let tries = async {
        for _ in 1..TRIES {
            match read_once(reads, cluster, kind).await {
                // The kind is served, so its schema is on its way.
                Ok(None) => {}
                Err(error) if error.is_not_found() => {}
                read => return read,
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
        read_once(reads, cluster, kind).await
    };
    match tokio::time::timeout(READ_TIMEOUT, tries).await {
        Ok(Ok(room)) => room.and_then(GenerationField::of),
        Ok(Err(error)) => {
            tracing::debug!(%kind, %error, "the schema is not known");
            None
        }
        Err(_) => {
            tracing::debug!(%kind, "the schema is not known: it was not read within {READ_TIMEOUT:?}");
            None
        }
    }
}

async fn read_once(reads: &Semaphore, cluster: &Cluster, kind: &Kind) -> Result<Option<FieldPresence>, ApiError> {
    let _turn = reads.acquire().await;
    let uri = format!("/openapi/v3/apis/{}/{}", kind.group, kind.version);
    let call = ApiCall::get("read the schema of", kind, uri);
    let document = cluster.send(call, &Identity::Host, &Permit::unlimited()).await?;
    let sought = kind.clone();
    // It may be megabytes long.
    let read = tokio::task::spawn_blocking(move || room_for_generation(&document, &sought)).await;
    let room = read.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
    room.map_err(|error| ApiError::unreadable("read the schema of", kind.to_string(), &error))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::Router;
    use axum::http::StatusCode;
    use axum::response::IntoResponse;
    use parking_lot::Mutex;
    use serde_json::{Value, json};

    use super::*;
    use crate::served;

    /// What an API server of a test answers: the last answer again and again.
    type Answers = Arc<Mutex<Vec<Result<Value, StatusCode>>>>;

    struct Scene {
        cluster: Cluster,
        schemas: StatusSchemas,
        answers: Answers,
        requests: Arc<Mutex<Vec<String>>>,
    }

    impl Scene {
        async fn new(answers: &[Result<Value, StatusCode>]) -> Self {
            let answers: Answers = Arc::new(Mutex::new(answers.to_vec()));
            let requests = Arc::new(Mutex::new(Vec::new()));
            let (left, seen) = (answers.clone(), requests.clone());
            let server = Router::new().fallback(move |uri: axum::http::Uri| async move {
                seen.lock().push(uri.path().to_owned());
                let mut left = left.lock();
                let answer = if left.len() > 1 { left.remove(0) } else { left[0].clone() };
                match answer {
                    Ok(document) => document.to_string().into_response(),
                    Err(code) => (code, "{}").into_response(),
                }
            });
            Self { cluster: served::by(server).await, schemas: StatusSchemas::default(), answers, requests }
        }

        fn answers(&self, answer: Result<Value, StatusCode>) {
            *self.answers.lock() = vec![answer];
        }

        async fn look_up(&self) -> bool {
            self.schemas.look_up(&self.cluster, &demo()).await;
            self.has_no_room()
        }

        async fn look_again(&self) -> bool {
            self.schemas.look_again(&self.cluster, &demo()).await;
            self.has_no_room()
        }

        async fn follow(&self) -> bool {
            self.schemas.follow(&self.cluster, &demo()).await;
            self.has_no_room()
        }

        fn has_no_room(&self) -> bool {
            self.schemas.has_no_room(&demo())
        }

        fn requests(&self) -> usize {
            self.requests.lock().len()
        }
    }

    fn demo() -> Kind {
        Kind::new("example.com", "v1", "Demo")
    }

    fn document(status: &Value) -> Result<Value, StatusCode> {
        let schema = json!({
            "properties": { "status": { "type": "object", "properties": status } },
            "x-kubernetes-group-version-kind": [{ "group": "example.com", "version": "v1", "kind": "Demo" }],
        });
        Ok(json!({ "components": { "schemas": { "com.example.v1.Demo": schema } } }))
    }

    fn with_room() -> Result<Value, StatusCode> {
        document(&json!({ "observedGeneration": { "type": "integer" } }))
    }

    fn without_room() -> Result<Value, StatusCode> {
        document(&json!({ "word": { "type": "string" } }))
    }

    #[tokio::test]
    async fn a_schema_is_read_once_from_the_document_of_its_group_version() {
        for (document, lacks) in [(with_room(), false), (without_room(), true)] {
            let scene = Scene::new(&[document]).await;
            assert!(!scene.has_no_room(), "nothing is known yet");
            assert_eq!((scene.look_up().await, scene.look_up().await), (lacks, lacks));
            assert_eq!(*scene.requests.lock(), ["/openapi/v3/apis/example.com/v1"]);
        }
        let scene = Scene::new(&[without_room()]).await;
        scene.schemas.look_up(&scene.cluster, &Kind::new("", "v1", "Namespace")).await;
        assert_eq!(scene.requests(), 0, "the document of the core group says nothing");
    }

    #[tokio::test]
    async fn a_schema_that_is_not_published_yet_is_waited_for() {
        let empty = Ok(json!({ "components": { "schemas": {} } }));
        let scene = Scene::new(&[Err(StatusCode::NOT_FOUND), empty, without_room()]).await;
        assert!(scene.look_up().await);
        assert_eq!(scene.requests(), 3);
    }

    #[tokio::test]
    async fn where_no_schema_can_be_read_a_refused_write_shows_that_there_is_no_room() {
        for answer in [Err(StatusCode::FORBIDDEN), Ok(json!("a proxy"))] {
            let scene = Scene::new(&[answer]).await;
            assert!(!scene.look_up().await);
            assert_eq!(scene.requests(), 1, "another try would be in vain");
            scene.schemas.note_refused(&demo());
            assert!(scene.has_no_room() && scene.look_again().await);
        }
    }

    #[tokio::test]
    async fn room_that_a_schema_gets_later_is_noticed() {
        let scene = Scene::new(&[without_room()]).await;
        assert!(scene.look_up().await && scene.look_again().await);
        scene.answers(Err(StatusCode::SERVICE_UNAVAILABLE));
        assert!(scene.look_again().await, "what is known stays");
        scene.answers(with_room());
        assert!(!scene.look_again().await);
        let requests = scene.requests();
        assert!(!scene.look_again().await);
        assert_eq!(scene.requests(), requests, "a schema with room is not read again");
    }

    #[tokio::test]
    async fn a_refusal_counts_more_than_a_schema_that_does_not_explain_it() {
        let scene = Scene::new(&[with_room()]).await;
        assert!(!scene.look_up().await);
        scene.schemas.note_refused(&demo());
        assert!(scene.look_again().await);
        scene.answers(without_room());
        assert!(scene.look_again().await);
        scene.answers(with_room());
        assert!(!scene.look_again().await, "the reason of the refusal is gone");
        scene.schemas.note_refused(&demo());
        assert!(!scene.look_up().await, "another revision tries once more");
    }

    #[tokio::test]
    async fn a_kind_that_is_discovered_anew_has_the_schema_of_its_new_definition() {
        let scene = Scene::new(&[without_room()]).await;
        assert!(!scene.follow().await);
        assert_eq!(scene.requests(), 0, "it is no kind of parents");
        assert!(scene.look_up().await);
        scene.answers(with_room());
        assert!(!scene.follow().await);
        scene.answers(without_room());
        assert!(scene.follow().await);
        scene.answers(Err(StatusCode::FORBIDDEN));
        assert!(!scene.follow().await, "the earlier definition says nothing of the new one");
    }
}
