//! What a plugin is shown of a proposed parent, and what it may say about it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::decision::Document;
use crate::model::kind::{Kind, ObjectRef};
use crate::model::limits::{USER_BYTES, USER_GROUPS};

/// A parent that is to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// The object as it would be stored.
    pub new: Document,
    /// The object that is stored; absent if this is a creation.
    pub old: Option<Document>,
    /// The plugin's configuration, a JSON object.
    pub config: Arc<str>,
    /// Whether nothing will be stored in any case.
    pub dry_run: bool,
    /// Who writes the object, if the plugin may know.
    pub user: Option<User>,
}

/// Who writes an object, as the API server has authenticated it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct User {
    /// Its name, such as `alice` or `system:serviceaccount:shop:deployer`.
    pub username: String,
    /// Its uid, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Its groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
}

impl User {
    /// Returns whether the user is small enough to be shown to a plugin. Without some of its groups it would be another one.
    pub fn fits(&self) -> bool {
        let texts = [&self.username].into_iter().chain(&self.uid).chain(&self.groups);
        self.groups.len() <= USER_GROUPS && texts.map(String::len).sum::<usize>() <= USER_BYTES
    }
}

/// The answer to `validate`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// What is wrong; the object is refused if there is anything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
    /// What its author should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A field that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FieldError {
    /// Its path, such as `spec.ports[0].name`.
    pub field: String,
    /// Why it is wrong.
    pub reason: ErrorReason,
    /// What is wrong with it.
    pub message: String,
}

/// Why a field is wrong, in the words of `metav1.CauseType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the words of metav1")]
pub enum ErrorReason {
    #[serde(rename = "FieldValueInvalid")]
    Invalid,
    #[serde(rename = "FieldValueRequired")]
    Required,
    #[serde(rename = "FieldValueForbidden")]
    Forbidden,
    #[serde(rename = "FieldValueNotSupported")]
    NotSupported,
    #[serde(rename = "FieldValueDuplicate")]
    Duplicate,
    #[serde(rename = "FieldValueNotFound")]
    NotFound,
    #[serde(rename = "FieldValueTooLong")]
    TooLong,
    #[serde(rename = "FieldValueTooMany")]
    TooMany,
    #[serde(rename = "FieldValueTypeInvalid")]
    TypeInvalid,
}

impl ErrorReason {
    /// Returns the word of `metav1.CauseType`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "FieldValueInvalid",
            Self::Required => "FieldValueRequired",
            Self::Forbidden => "FieldValueForbidden",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Duplicate => "FieldValueDuplicate",
            Self::NotFound => "FieldValueNotFound",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }
}

/// Returns a parent of this kind as a plugin is given it for admission: complete but for `apiVersion` and `kind`, which
/// the reference has, and for the fields that API servers keep for themselves. It may have no name yet.
pub fn shown(kind: &Kind, mut object: Value) -> Document {
    if let Value::Object(members) = &mut object {
        members.remove("apiVersion");
        members.remove("kind");
    }
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.remove("managedFields");
    }
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let namespace = text("/metadata/namespace").filter(|namespace| !namespace.is_empty());
    let name = text("/metadata/name").unwrap_or_default();
    let reference = ObjectRef { kind: kind.clone(), namespace: namespace.map(Into::into), name: name.into() };
    Document { reference, json: object.to_string().into() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_is_shown_without_what_its_reference_says_and_may_have_no_name_yet() {
        let kind = Kind::new("example.com", "v1", "Cache");
        let metadata =
            json!({ "generateName": "web-", "namespace": "shop", "managedFields": [{ "manager": "kubectl" }] });
        let object = json!({ "apiVersion": "example.com/v1", "kind": "Cache", "metadata": metadata, "spec": {} });
        let shown = shown(&kind, object);
        assert_eq!((shown.reference.namespace.as_deref(), &*shown.reference.name), (Some("shop"), ""));
        assert_eq!(&*shown.json, r#"{"metadata":{"generateName":"web-","namespace":"shop"},"spec":{}}"#);
    }

    #[test]
    fn a_user_is_shown_whole_or_not_at_all() {
        let user = |group: &str, count| User {
            username: "alice".to_owned(),
            uid: None,
            groups: std::iter::repeat_n(group.to_owned(), count).collect(),
        };
        assert!(user("dev", 2).fits() && user("", USER_GROUPS).fits());
        assert!(!user("", USER_GROUPS + 1).fits());
        let rest = "x".repeat(USER_BYTES - "alice".len());
        assert!(user(&rest, 1).fits() && !user(&format!("{rest}x"), 1).fits());
        let long = User { uid: Some("x".repeat(USER_BYTES)), ..user("", 0) };
        assert!(!long.fits() && !User { username: "x".repeat(USER_BYTES + 1), ..User::default() }.fits());
    }

    #[test]
    fn a_reason_is_written_as_it_is_said() {
        for reason in [ErrorReason::Invalid, ErrorReason::TypeInvalid, ErrorReason::NotSupported] {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
        }
    }
}
