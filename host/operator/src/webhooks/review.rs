//! `AdmissionReview` of `admission.k8s.io/v1`: the request of the API server, and its response.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use hotshoe_core::check::defaulting::Patch;
use hotshoe_core::model::admission::User;
use hotshoe_core::model::kind::{Key, Kind};

/// `apiVersion` of a review.
const API_VERSION: &str = "admission.k8s.io/v1";
/// `kind` of a review.
const KIND: &str = "AdmissionReview";
/// The subresource of an object that is scaled.
pub const SCALE: &str = "scale";
/// The status code of a refusal, as for an object that violates its schema.
const UNPROCESSABLE: u16 = 422;
/// The maximum length of one warning, in characters: the API server cuts longer ones off.
const MAX_WARNING_CHARS: usize = 120;
/// How many warnings a response has at most. With the maximum length, they stay within the 4,096 characters that the
/// API server passes on.
const MAX_WARNINGS: usize = 30;

/// Why a request is no review.
#[derive(Debug, thiserror::Error)]
pub enum NoReview {
    /// It is not JSON, or has another shape.
    #[error("the request is no AdmissionReview: {0}")]
    Malformed(#[from] serde_json::Error),
    /// It is another object, or a review of another version.
    #[error("the request is a {kind} of {api_version}; send an {KIND} of {API_VERSION}")]
    Other {
        /// Its `apiVersion`.
        api_version: String,
        /// Its `kind`.
        kind: String,
    },
    /// It asks for nothing.
    #[error("the AdmissionReview has no request")]
    Empty,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    api_version: String,
    kind: String,
    request: Option<Request>,
}

/// A proposed change of an object.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// Identifies the request in the response.
    uid: String,
    /// The kind of the objects below.
    kind: GroupVersionKind,
    /// The resource to which the change was sent.
    #[serde(default)]
    resource: GroupResource,
    /// The subresource to which it was sent.
    sub_resource: Option<String>,
    /// The name of the object; empty if the API server makes one.
    #[serde(default)]
    name: String,
    /// The namespace of the object; empty if it has none.
    #[serde(default)]
    namespace: String,
    /// The object as it would be stored; absent for a deletion.
    pub object: Option<Box<RawValue>>,
    /// The object that is stored; absent for a creation.
    pub old_object: Option<Box<RawValue>>,
    /// Whether the change will not be stored in any case.
    #[serde(default)]
    pub dry_run: bool,
    /// Who asks for the change.
    #[serde(default)]
    user_info: UserInfo,
}

/// A `UserInfo` of `authentication.k8s.io/v1`, without `extra`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct UserInfo {
    username: String,
    uid: String,
    groups: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
struct GroupVersionKind {
    group: String,
    version: String,
    kind: String,
}

/// A resource, in whatever version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct GroupResource {
    /// Its group.
    pub group: String,
    /// Its plural name.
    pub resource: String,
}

/// A `Scale` of `autoscaling`, as far as it is written.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Scale {
    spec: ScaleSpec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ScaleSpec {
    replicas: i64,
}

impl Request {
    /// Reads a review.
    ///
    /// # Errors
    /// When the text is no review.
    pub fn read(json: &[u8]) -> Result<Self, NoReview> {
        let Review { api_version, kind, request } = serde_json::from_slice(json)?;
        if api_version != API_VERSION || kind != KIND {
            return Err(NoReview::Other { api_version, kind });
        }
        request.ok_or(NoReview::Empty)
    }

    /// Returns what a response is about.
    pub fn subject(&self) -> Subject {
        let GroupVersionKind { group, kind, .. } = self.kind.clone();
        Subject { uid: self.uid.clone(), name: self.name.clone(), group, kind }
    }

    /// Returns who asks for the change.
    pub fn user(&self) -> User {
        let UserInfo { username, uid, groups } = self.user_info.clone();
        User { username, uid: (!uid.is_empty()).then_some(uid), groups }
    }

    /// Returns whether an object is scaled: then the objects are a `Scale` of it.
    pub fn is_scale(&self) -> bool {
        self.sub_resource.as_deref() == Some(SCALE)
    }

    /// Returns the resource to which the change was sent.
    pub fn resource(&self) -> &GroupResource {
        &self.resource
    }

    /// Returns the namespace and the name of the object.
    pub fn key(&self) -> Key {
        Key::new((!self.namespace.is_empty()).then_some(&*self.namespace), &self.name)
    }

    /// Returns the number of replicas to which an object is scaled; `None` if that is unreadable.
    pub fn replicas(&self) -> Option<i64> {
        let scale: Scale = serde_json::from_str(self.object.as_ref()?.get()).ok()?;
        Some(scale.spec.replicas)
    }

    /// Returns the request as if the object of this kind itself had been sent.
    ///
    /// # Errors
    /// If one of the objects cannot be written.
    pub fn of_object(&self, kind: &Kind, new: &Value, old: &Value) -> serde_json::Result<Self> {
        let (group, version, named) = (kind.group.to_string(), kind.version.to_string(), kind.kind.to_string());
        Ok(Self {
            uid: self.uid.clone(),
            kind: GroupVersionKind { group, version, kind: named },
            resource: self.resource.clone(),
            sub_resource: None,
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            object: Some(to_raw_value(new)?),
            old_object: Some(to_raw_value(old)?),
            dry_run: self.dry_run,
            user_info: self.user_info.clone(),
        })
    }

    /// Returns the kind of the object.
    pub fn kind(&self) -> Kind {
        let GroupVersionKind { group, version, kind } = &self.kind;
        Kind::new(group, version, kind)
    }
}

/// What a response is about.
#[derive(Clone, Debug)]
pub struct Subject {
    uid: String,
    name: String,
    group: String,
    kind: String,
}

/// Why an object is refused: at least one cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(pub Vec<Cause>);

impl From<Cause> for Refusal {
    fn from(cause: Cause) -> Self {
        Self(vec![cause])
    }
}

/// One thing that is wrong with an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// One PascalCase word: the reason of the condition that a reconcile would write, or one of `metav1.CauseType`.
    pub reason: &'static str,
    /// What is wrong, and what to do.
    pub message: String,
    /// The field of the object that is at fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
}

impl Cause {
    /// Returns the field and what is wrong with it.
    pub fn text(&self) -> String {
        let field = self.field.as_ref().map(|field| format!("{field}: ")).unwrap_or_default();
        format!("{field}{}", self.message)
    }
}

/// Whether an object is admitted, and how it is changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Why it is refused; `None` if it is admitted.
    pub refusal: Option<Refusal>,
    /// What is changed in it, as in RFC 6902; `None` if it is stored as it came.
    pub patch: Option<Patch>,
    /// What `kubectl` prints as warnings.
    pub warnings: Vec<String>,
}

impl Verdict {
    /// Admits an object, and warns.
    pub fn warn(warning: impl Into<String>) -> Self {
        Self { warnings: vec![warning.into()], ..Self::default() }
    }

    /// Returns the review that answers a request, as JSON.
    pub fn into_json(self, subject: &Subject) -> Vec<u8> {
        let response = Response {
            uid: &subject.uid,
            allowed: self.refusal.is_none(),
            status: self.refusal.map(|refusal| Status::of(refusal, subject)),
            patch_type: self.patch.as_ref().map(|_| "JSONPatch"),
            patch: self.patch.map(|patch| STANDARD.encode(serde_json::to_vec(&patch).unwrap_or_default())),
            warnings: limited(self.warnings),
        };
        let review = Answered { api_version: API_VERSION, kind: KIND, response };
        serde_json::to_vec(&review).unwrap_or_default()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answered<'a> {
    api_version: &'static str,
    kind: &'static str,
    response: Response<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    uid: &'a str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

/// The part of `metav1.Status` that clients show.
#[derive(Serialize)]
struct Status<'a> {
    status: &'static str,
    code: u16,
    reason: &'static str,
    message: String,
    details: Details<'a>,
}

#[derive(Serialize)]
struct Details<'a> {
    name: &'a str,
    group: &'a str,
    kind: &'a str,
    causes: Vec<Cause>,
}

impl<'a> Status<'a> {
    fn of(Refusal(causes): Refusal, subject: &'a Subject) -> Self {
        let message = causes.iter().map(Cause::text).collect::<Vec<_>>().join("; ");
        let Subject { name, group, kind, .. } = subject;
        let details = Details { name, group, kind, causes };
        Self { status: "Failure", code: UNPROCESSABLE, reason: "Invalid", message, details }
    }
}

/// Returns the warnings within the limits of the API server; the last one says how many more there are.
fn limited(mut warnings: Vec<String>) -> Vec<String> {
    let more = warnings.len().saturating_sub(MAX_WARNINGS);
    if more > 0 {
        warnings.truncate(MAX_WARNINGS - 1);
        warnings.push(format!("and {} more", more + 1));
    }
    warnings.into_iter().map(|warning| cut(&warning)).collect()
}

/// Returns one line of at most [`MAX_WARNING_CHARS`] characters.
fn cut(warning: &str) -> String {
    let line = warning.chars().map(|one| if one.is_control() { ' ' } else { one });
    if warning.chars().count() <= MAX_WARNING_CHARS {
        return line.collect();
    }
    line.take(MAX_WARNING_CHARS - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn review(request: &Value) -> Vec<u8> {
        json!({ "apiVersion": API_VERSION, "kind": KIND, "request": request }).to_string().into_bytes()
    }

    fn answer(verdict: Verdict) -> Value {
        let [uid, name, group, kind] = ["u1", "web", "g.example.com", "Thing"].map(str::to_owned);
        serde_json::from_slice(&verdict.into_json(&Subject { uid, name, group, kind })).unwrap()
    }

    #[test]
    fn a_review_has_its_objects_as_they_were_sent() {
        let kind = json!({ "group": "g.example.com", "version": "v1", "kind": "Thing" });
        let object = json!({ "spec": { "size": 1 } });
        let user = json!({ "username": "alice", "uid": "", "groups": ["dev"], "extra": { "a": ["b"] } });
        let request =
            json!({ "uid": "u1", "kind": kind, "object": object, "oldObject": null, "dryRun": true, "userInfo": user });
        let request = Request::read(&review(&request)).unwrap();
        let alice = User { username: "alice".into(), uid: None, groups: vec!["dev".into()] };
        assert_eq!(request.user(), alice);
        assert_eq!((&*request.subject().uid, request.dry_run), ("u1", true));
        assert_eq!(request.kind(), Kind::new("g.example.com", "v1", "Thing"));
        assert_eq!(request.object.unwrap().get(), r#"{"spec":{"size":1}}"#);
        assert!(request.old_object.is_none());
    }

    #[test]
    fn a_scale_has_a_number_and_names_the_object_that_it_is_of() {
        let kind = json!({ "group": "autoscaling", "version": "v1", "kind": "Scale" });
        let resource = json!({ "group": "g.example.com", "version": "v2", "resource": "things" });
        let scale = |spec: &Value| {
            let request = json!({
                "uid": "u1", "kind": kind, "resource": resource, "subResource": "scale", "name": "web", "namespace": "shop",
                "dryRun": true, "object": { "spec": spec },
            });
            Request::read(&review(&request)).unwrap()
        };
        let request = scale(&json!({ "replicas": 3 }));
        assert!(request.is_scale());
        assert_eq!((request.key(), request.replicas()), (Key::new(Some("shop"), "web"), Some(3)));
        let named = GroupResource { group: "g.example.com".into(), resource: "things".into() };
        assert_eq!(*request.resource(), named);
        assert_eq!(scale(&json!({})).replicas(), Some(0), "the API server leaves zero out");
        assert_eq!(scale(&json!({ "replicas": "three" })).replicas(), None);
        let of_object =
            request.of_object(&Kind::new("g.example.com", "v1", "Thing"), &json!({ "a": 1 }), &json!({})).unwrap();
        assert!(!of_object.is_scale() && of_object.dry_run);
        assert_eq!(of_object.kind(), Kind::new("g.example.com", "v1", "Thing"));
        assert_eq!((of_object.object.unwrap().get(), of_object.old_object.unwrap().get()), (r#"{"a":1}"#, "{}"));
    }

    #[test]
    fn what_is_no_review_is_named() {
        let read = |text: &[u8]| Request::read(text).unwrap_err().to_string();
        assert!(read(b"{").contains("no AdmissionReview"));
        assert!(read(b"[]").contains("no AdmissionReview"));
        assert_eq!(
            read(br#"{"apiVersion":"v1","kind":"Pod"}"#),
            "the request is a Pod of v1; send an AdmissionReview of admission.k8s.io/v1"
        );
        assert_eq!(read(&review(&Value::Null)), "the AdmissionReview has no request");
    }

    #[test]
    fn a_refusal_names_the_field_in_the_message_and_as_a_cause() {
        let cause = Cause { reason: "Rejected", message: "it is 0; give 1".into(), field: Some("spec.size".into()) };
        let refused = answer(Verdict { refusal: Some(cause.into()), ..Verdict::default() });
        let response = &refused["response"];
        assert_eq!((&response["uid"], &response["allowed"]), (&json!("u1"), &json!(false)));
        let status = &response["status"];
        assert_eq!((&status["code"], &status["message"]), (&json!(422), &json!("spec.size: it is 0; give 1")));
        let details = &status["details"];
        assert_eq!((&details["kind"], &details["name"]), (&json!("Thing"), &json!("web")), "as kubectl prints it");
        let cause = json!({ "reason": "Rejected", "message": "it is 0; give 1", "field": "spec.size" });
        assert_eq!(details["causes"], json!([cause]));
    }

    #[test]
    fn each_of_several_causes_is_named() {
        let cause =
            |reason, field: Option<&str>| Cause { reason, message: "no".into(), field: field.map(str::to_owned) };
        let causes = vec![cause("FieldValueInvalid", Some("spec.size")), cause("FieldValueRequired", None)];
        let refused = answer(Verdict { refusal: Some(Refusal(causes)), ..Verdict::default() });
        let status = &refused["response"]["status"];
        assert_eq!(status["message"], "spec.size: no; no");
        let expected = json!([
            { "reason": "FieldValueInvalid", "message": "no", "field": "spec.size" },
            { "reason": "FieldValueRequired", "message": "no" },
        ]);
        assert_eq!(status["details"]["causes"], expected);
    }

    #[test]
    fn a_change_is_a_patch_in_base64() {
        let operations = json!([{ "op": "add", "path": "/spec/size", "value": 1 }]);
        let patch = serde_json::from_value(operations.clone()).unwrap();
        let changed = &answer(Verdict { patch: Some(patch), ..Verdict::default() })["response"];
        assert_eq!((&changed["allowed"], &changed["patchType"]), (&json!(true), &json!("JSONPatch")));
        let patch = STANDARD.decode(changed["patch"].as_str().unwrap()).unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&patch).unwrap(), operations);
        let unchanged = &answer(Verdict::default())["response"];
        assert_eq!((unchanged.get("patch"), unchanged.get("patchType")), (None, None));
    }

    #[test]
    fn warnings_are_short_lines_and_few() {
        let many: Vec<String> = (0..100).map(|number| format!("{number}\n{}", "x".repeat(200))).collect();
        let verdict = answer(Verdict { warnings: many, ..Verdict::default() });
        assert_eq!(verdict["response"]["allowed"], true);
        let warnings: Vec<&str> =
            verdict["response"]["warnings"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert_eq!(warnings.len(), MAX_WARNINGS);
        assert!(warnings.iter().all(|one| one.chars().count() <= MAX_WARNING_CHARS && !one.contains('\n')));
        assert_eq!(warnings.last(), Some(&"and 71 more"));
        assert!(warnings.iter().map(|one| one.chars().count()).sum::<usize>() <= 4096);
    }
}
