//! `ConversionReview` of `apiextensions.k8s.io/v1`: the request of the API server, and its response.
//!
//! The API server accepts an answer that has each object once, in the order of the request, in the version that it asked
//! for. Anything else fails the request of its client, who sees the message of a failure.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// `apiVersion` of a review.
const API_VERSION: &str = "apiextensions.k8s.io/v1";
/// `kind` of a review.
const KIND: &str = "ConversionReview";

/// Why a request is no review.
#[derive(Debug, thiserror::Error)]
pub enum NoReview {
    /// It is not JSON, or has another shape.
    #[error("the request is no ConversionReview: {0}")]
    Malformed(#[from] serde_json::Error),
    /// It is another object, or a review of another version.
    #[error(
        "the request is a {kind} of {api_version}; send a {KIND} of {API_VERSION}: the CRD's \
         spec.conversion.webhook.conversionReviewVersions must be [v1]"
    )]
    Other {
        /// Its `apiVersion`.
        api_version: String,
        /// Its `kind`.
        kind: String,
    },
    /// It asks for nothing.
    #[error("the ConversionReview has no request")]
    Empty,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review<'a> {
    api_version: String,
    kind: String,
    #[serde(borrow)]
    request: Option<Request<'a>>,
}

/// Objects that are to be written in another version.
#[derive(Debug, Deserialize)]
pub struct Request<'a> {
    /// Identifies the request in the response.
    uid: String,
    /// The `apiVersion` that the objects are to have.
    #[serde(rename = "desiredAPIVersion")]
    pub desired: String,
    /// The objects as they were sent.
    #[serde(borrow)]
    pub objects: Vec<&'a RawValue>,
}

/// Why objects are not converted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unconverted {
    /// One PascalCase word.
    pub reason: &'static str,
    /// What happened, and what to do. The API server shows it to its client.
    pub message: String,
}

/// An object of a response.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Converted<'a> {
    /// It has the desired version, and is returned as it was sent.
    AsSent(&'a RawValue),
    /// What the plugin made of it.
    ByPlugin(Box<RawValue>),
}

impl<'a> Request<'a> {
    /// Reads a review.
    ///
    /// # Errors
    /// When the text is no review.
    pub fn read(json: &'a [u8]) -> Result<Self, NoReview> {
        let Review { api_version, kind, request } = serde_json::from_slice(json)?;
        if api_version != API_VERSION || kind != KIND {
            return Err(NoReview::Other { api_version, kind });
        }
        request.ok_or(NoReview::Empty)
    }

    /// Returns the review that answers this request, as JSON.
    pub fn answer(&self, converted: &Result<Vec<Converted<'_>>, Unconverted>) -> Vec<u8> {
        let (objects, result) = match converted {
            Ok(objects) => (objects.as_slice(), Status { status: "Success", reason: None, message: None }),
            Err(Unconverted { reason, message }) => {
                (&[][..], Status { status: "Failure", reason: Some(reason), message: Some(message) })
            }
        };
        let response = Response { uid: &self.uid, converted_objects: objects, result };
        serde_json::to_vec(&Answered { api_version: API_VERSION, kind: KIND, response }).unwrap_or_default()
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
    converted_objects: &'a [Converted<'a>],
    result: Status<'a>,
}

/// The part of `metav1.Status` that the API server reads.
#[derive(Serialize)]
struct Status<'a> {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn review(request: &Value) -> Vec<u8> {
        json!({ "apiVersion": API_VERSION, "kind": KIND, "request": request }).to_string().into_bytes()
    }

    #[test]
    fn an_answer_has_the_objects_as_they_were_sent_or_converted() {
        let object = r#"{"spec":{"share":1.50}}"#;
        let text = format!(
            r#"{{"apiVersion":"{API_VERSION}","kind":"{KIND}","request":{{"uid":"u1","desiredAPIVersion":"g/v1","objects":[{object}]}}}}"#
        );
        let request = Request::read(text.as_bytes()).unwrap();
        assert_eq!(request.desired, "g/v1");
        let made = RawValue::from_string("{\"a\": 1}".to_owned()).unwrap();
        let answer = request.answer(&Ok(vec![Converted::AsSent(request.objects[0]), Converted::ByPlugin(made)]));
        let expected = format!(
            r#"{{"apiVersion":"{API_VERSION}","kind":"{KIND}","response":{{"uid":"u1","convertedObjects":[{object},{{"a": 1}}],"result":{{"status":"Success"}}}}}}"#
        );
        assert_eq!(String::from_utf8(answer).unwrap(), expected);
    }

    #[test]
    fn a_failure_says_why() {
        let text = review(&json!({ "uid": "u1", "desiredAPIVersion": "g/v1", "objects": [] }));
        let request = Request::read(&text).unwrap();
        let failed = Unconverted { reason: "Trapped", message: "it trapped".to_owned() };
        let answer: Value = serde_json::from_slice(&request.answer(&Err(failed))).unwrap();
        let result = json!({ "status": "Failure", "reason": "Trapped", "message": "it trapped" });
        assert_eq!(answer["response"], json!({ "uid": "u1", "convertedObjects": [], "result": result }));
    }

    #[test]
    fn what_is_no_review_is_named() {
        let read = |text: &[u8]| Request::read(text).unwrap_err().to_string();
        for text in [&b"{"[..], b"[]", br#"{"apiVersion":"a","kind":"b","request":{"uid":"u"}}"#] {
            assert!(read(text).starts_with("the request is no ConversionReview: "));
        }
        let beta = json!({ "apiVersion": "apiextensions.k8s.io/v1beta1", "kind": KIND }).to_string();
        let said = read(beta.as_bytes());
        assert!(said.starts_with("the request is a ConversionReview of apiextensions.k8s.io/v1beta1; send "), "{said}");
        assert!(said.contains("conversionReviewVersions must be [v1]"), "{said}");
        assert_eq!(read(&review(&Value::Null)), "the ConversionReview has no request");
    }
}
