//! Watches what a plugin needs under the plugin's own account: one object by its name, or those that a label selector selects.
//!
//! Such a watch asks for metadata alone, and of each event only the beginning is read, up to the version of the object.
//! So it costs the same whatever the objects hold, and holds nothing of them. It needs no right to `list`: without a
//! version to begin at, it begins with the objects as they are. An object that a selector selects no longer is deleted, as
//! far as the watch is concerned.

use std::borrow::Cow;
use std::fmt;
use std::mem;

use futures::{Stream, stream};
use http_body_util::BodyExt;
use hyper::body::{Buf, Bytes};
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

use crate::apply::Writer;
use crate::client::ApiCall;
use crate::error::ApiError;
use crate::needed_list::label_query;
use crate::time_limit::{LimitedBody, WATCH_SECONDS};
use hotshoe_core::flow::needs::Seen;
use hotshoe_core::model::wanted::Wanted;

/// How many bytes of an event are read; the rest is skipped. Kubernetes writes the version of an object behind its name,
/// its namespace and its uid, which have 600 bytes at most.
const HEAD_BYTES: usize = 2 * 1024;

impl Writer {
    /// Returns whether such watches share connections, as far as is known.
    pub fn watches_share(&self) -> bool {
        self.cluster.watches_share()
    }

    /// Watches an object, or a selection, as the plugin: after a version, or from the objects as they are. A watch begins
    /// within the plugin's rate limit of reads, in which the namespaces of objects take turns.
    ///
    /// # Errors
    /// The API server's error, or that it did not answer in time.
    pub async fn watch_as_plugin(&self, wanted: &Wanted, after: Option<u64>) -> Result<ObjectEvents, ApiError> {
        let resource = self.kinds.find(&self.cluster, wanted.kind()).await?;
        self.rate_limit.read(wanted.namespace().as_ref()).await;
        let which = match wanted {
            Wanted::Object(object) => format!("&fieldSelector=metadata.name%3D{}", object.name),
            Wanted::Selection(selection) => label_query(selection),
        };
        let after = after.map(|version| format!("&resourceVersion={version}")).unwrap_or_default();
        let uri = format!(
            "{}?watch=true&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}{which}{after}",
            resource.collection(wanted.namespace().as_deref()),
        );
        let body = self.cluster.watch(ApiCall::get("watch", wanted, uri), &self.identity).await?;
        Ok(ObjectEvents { body, unread: Bytes::new(), head: Vec::new() })
    }
}

/// An event of such a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectEvent {
    /// The object is there, has changed or is gone. An event whose version cannot be read has the highest.
    Seen(Seen),
    /// Nothing has changed up to this version.
    Bookmark(u64),
    /// The API server cannot continue the watch from where it was.
    Expired,
}

impl ObjectEvent {
    /// Reads the beginning of an event; `Expired` if it is none.
    fn read(head: &[u8]) -> Self {
        let mut found = EventHead::default();
        // A head that is cut off is an error, behind what is looked for.
        drop(serde_json::Deserializer::from_slice(head).deserialize_map(&mut found));
        let version = found.version.unwrap_or(u64::MAX);
        match found.kind.as_deref() {
            Some("ADDED" | "MODIFIED") => Self::Seen(Seen::Present(version)),
            Some("DELETED") => Self::Seen(Seen::Gone(version)),
            Some("BOOKMARK") => Self::Bookmark(version),
            _ => Self::Expired,
        }
    }

    /// Returns the version after which a watch may continue.
    pub fn version(self) -> Option<u64> {
        match self {
            Self::Seen(seen) => Some(seen.version()).filter(|version| *version < u64::MAX),
            Self::Bookmark(version) => Some(version).filter(|version| *version < u64::MAX),
            Self::Expired => None,
        }
    }
}

/// The events of such a watch.
pub struct ObjectEvents {
    body: LimitedBody,
    /// What has arrived and is not read yet.
    unread: Bytes,
    /// The beginning of the event that is being read.
    head: Vec<u8>,
}

impl ObjectEvents {
    /// Returns the events as a stream, which ends with the watch.
    pub fn stream(self) -> impl Stream<Item = ObjectEvent> {
        stream::unfold(self, async |mut events| Some((events.next().await?, events)))
    }

    /// Returns the next event; none once the watch has ended.
    async fn next(&mut self) -> Option<ObjectEvent> {
        loop {
            let end = self.unread.iter().position(|byte| *byte == b'\n');
            let part = self.unread.split_to(end.unwrap_or(self.unread.len()));
            let room = HEAD_BYTES.saturating_sub(self.head.len());
            self.head.extend(part.iter().take(room));
            if end.is_some() {
                self.unread.advance(1);
                // Empty, it would still hold the buffer that the events of other watches came in.
                if self.unread.is_empty() {
                    self.unread = Bytes::new();
                }
                return Some(ObjectEvent::read(&mem::take(&mut self.head)));
            }
            let frame = self.body.frame().await?.ok()?;
            self.unread = frame.into_data().unwrap_or_default();
        }
    }
}

/// Returns the version of an object that was read.
pub fn version_of(json: &str) -> Option<u64> {
    let mut version = None;
    let seed = VersionAt { path: &OBJECT_VERSION, found: &mut version };
    // Ends with an error where the version was found.
    drop(seed.deserialize(&mut serde_json::Deserializer::from_str(json)));
    version
}

/// The path of the version in an object.
const OBJECT_VERSION: [&str; 2] = ["metadata", "resourceVersion"];

/// The type of an event, and the version of its object.
#[derive(Default)]
struct EventHead {
    kind: Option<String>,
    version: Option<u64>,
}

impl<'de> Visitor<'de> for &mut EventHead {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event of a watch")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Cow<'_, str>>()? {
            match &*key {
                "type" => self.kind = Some(map.next_value()?),
                "object" => map.next_value_seed(VersionAt { path: &OBJECT_VERSION, found: &mut self.version })?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// Reads JSON up to the version at a path.
struct VersionAt<'a> {
    path: &'a [&'static str],
    found: &'a mut Option<u64>,
}

impl<'de> DeserializeSeed<'de> for VersionAt<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if !self.path.is_empty() {
            return deserializer.deserialize_map(self);
        }
        *self.found = Cow::<'_, str>::deserialize(deserializer)?.parse().ok();
        Err(D::Error::custom("the rest is not read"))
    }
}

impl<'de> Visitor<'de> for VersionAt<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Some((first, rest)) = self.path.split_first() else { return Ok(()) };
        while let Some(key) = map.next_key::<Cow<'_, str>>()? {
            match key == *first {
                true => map.next_value_seed(VersionAt { path: rest, found: self.found })?,
                false => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::Router;
    use axum::extract::Request;
    use axum::http::StatusCode;
    use axum::response::{IntoResponse, Response};
    use futures::StreamExt;
    use hotshoe_core::flow::needs::Seen::{Gone, Present};
    use hotshoe_core::model::kind::{Kind, ObjectRef};
    use hotshoe_core::model::limits::Limits;
    use parking_lot::Mutex;
    use serde_json::json;

    use super::ObjectEvent::{Bookmark, Expired, Seen};
    use super::*;
    use crate::identity::Identity;
    use crate::rate_limit::{Delays, RateLimit};
    use crate::served;

    fn config_map(namespace: Option<&str>) -> Wanted {
        wanted(namespace, "a.b")
    }

    /// Returns an object or, if the name begins with `?`, a selection.
    fn wanted(namespace: Option<&str>, name: &str) -> Wanted {
        let kind = Kind::new("", "v1", "ConfigMap");
        Wanted::from(ObjectRef { kind, namespace: namespace.map(Into::into), name: name.into() })
    }

    fn event(kind: &str, rest: &str) -> String {
        let metadata = r#""metadata":{"name":"a.b","namespace":"n","uid":"u","resourceVersion":"7""#;
        format!(r#"{{"type":"{kind}","object":{{"kind":"PartialObjectMetadata",{metadata}{rest}"#)
    }

    async fn watching(server: Router) -> Writer {
        let served = json!({ "resources": [{ "name": "configmaps", "kind": "ConfigMap", "namespaced": true }] });
        let server = server.route("/api/v1", axum::routing::get(move || std::future::ready(served.to_string())));
        let rate_limit = RateLimit::new(&Limits::default(), Delays::default());
        let identity = Identity::plugin("hotshoe", "demo");
        Writer::new(&served::by(server).await, Arc::default(), "demo", identity, rate_limit)
    }

    #[test]
    fn the_version_of_an_event_is_read_wherever_it_ends() {
        let whole = event("MODIFIED", "}}}");
        for (text, read) in [
            (&*whole, Seen(Present(7))),
            (&event("ADDED", r#","annotations":{"a":"cut o"#), Seen(Present(7))),
            (&event("DELETED", ""), Seen(Gone(7))),
            (&event("BOOKMARK", "}}}"), Bookmark(7)),
            (r#"{"object":{"data":{"a":{"metadata":[]}},"metadata":{"resourceVersion":"7"}},"type":"ADDED"}"#, Expired),
            (r#"{"type":"MODIFIED","object":{"data":{"a":"cut o"#, Seen(Present(u64::MAX))),
            (r#"{"type":"ERROR","object":{"kind":"Status","metadata":{},"code":410}}"#, Expired),
            (r#"{"type":"#, Expired),
            ("<html>", Expired),
            ("", Expired),
        ] {
            assert_eq!(ObjectEvent::read(text.as_bytes()), read, "{text}");
        }
        assert_eq!(Seen(Present(u64::MAX)).version(), None, "no watch continues after it");
        assert_eq!(version_of(r#"{"kind":"A","metadata":{"resourceVersion":"7"},"data":{"#), Some(7));
        assert_eq!(version_of(r#"{"metadata":{"resourceVersion":"x"}}"#), None);
    }

    #[tokio::test]
    async fn an_object_is_watched_by_name_or_by_labels_as_the_plugin_and_for_its_metadata_alone() {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = asked.clone();
        let writer = watching(Router::new().fallback(move |request: Request| {
            let header = |name: &str| request.headers()[name].to_str().unwrap().to_owned();
            seen.lock().push([request.uri().to_string(), header("impersonate-user"), header("accept")]);
            std::future::ready("")
        }))
        .await;
        let by_name = [(Some("n"), None), (Some("n"), Some(7)), (None, None)];
        let selected = wanted(Some("n"), "?app=shop,tier in (a,b)");
        let all = [(selected, None), (wanted(None, "?"), Some(7))];
        for (wanted, after) in by_name.map(|(namespace, after)| (config_map(namespace), after)).into_iter().chain(all) {
            let mut events = writer.watch_as_plugin(&wanted, after).await.unwrap();
            assert_eq!(events.next().await, None);
        }
        let begin = "watch=true&allowWatchBookmarks=true&timeoutSeconds=60";
        let query = format!("{begin}&fieldSelector=metadata.name%3Da.b");
        let asked = asked.lock();
        let uris: Vec<_> = asked.iter().map(|[uri, ..]| uri.as_str()).collect();
        let in_namespace = format!("/api/v1/namespaces/n/configmaps?{query}");
        assert_eq!(
            uris,
            [
                &*in_namespace,
                &format!("{in_namespace}&resourceVersion=7"),
                &format!("/api/v1/configmaps?{query}"),
                &format!("/api/v1/namespaces/n/configmaps?{begin}&labelSelector=app%3Dshop%2Ctier%20in%20%28a%2Cb%29"),
                &format!("/api/v1/configmaps?{begin}&resourceVersion=7"),
            ]
        );
        for [_, user, accept] in &*asked {
            assert_eq!(user, "system:serviceaccount:hotshoe:demo");
            assert!(accept.contains("as=PartialObjectMetadata;"), "{accept}");
        }
    }

    #[tokio::test]
    async fn events_are_read_whatever_their_size_and_however_they_arrive() {
        let large = event("MODIFIED", &format!(r#","annotations":{{"a":"{}"}}}}}}}}"#, "x".repeat(1_400_000)));
        let text = format!("{large}\n{}\n{}\n", event("DELETED", "}}}"), event("BOOKMARK", "}}}"));
        for part in [70, 1_000, 100_000, usize::MAX] {
            let parts: Vec<_> = text.as_bytes().chunks(part).map(<[u8]>::to_vec).collect();
            let reply = move || {
                let parts = futures::stream::iter(parts.clone()).map(Ok::<_, std::io::Error>);
                let body = axum::body::Body::from_stream(parts);
                std::future::ready(Response::new(body))
            };
            let writer = watching(Router::new().fallback(reply)).await;
            let mut events = writer.watch_as_plugin(&config_map(Some("n")), None).await.unwrap();
            for expected in [Some(Seen(Present(7))), Some(Seen(Gone(7))), Some(Bookmark(7)), None] {
                assert_eq!(events.next().await, expected);
                assert!(events.head.capacity() == 0, "nothing of an event is kept");
            }
        }
    }

    #[tokio::test]
    async fn a_watch_that_is_forbidden_is_an_error_of_the_api_server() {
        let reply =
            || std::future::ready((StatusCode::FORBIDDEN, r#"{"message":"no","reason":"Forbidden"}"#).into_response());
        let writer = watching(Router::new().fallback(reply)).await;
        let error = writer.watch_as_plugin(&config_map(Some("n")), None).await.err().unwrap();
        assert_eq!((error.verb, error.code, &*error.reason), ("watch", 403, "Forbidden"));
    }
}
