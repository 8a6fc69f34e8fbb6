//! Asks the API server which user a bearer token belongs to (TokenReview), whether that user may read a path
//! (SubjectAccessReview), whether the host may impersonate a plugin or watch a kind in a namespace
//! (SelfSubjectAccessReview), and which account the host itself has (SelfSubjectReview). No review stores anything.

use http::Method;
use k8s_openapi::api::authentication::v1::{
    SelfSubjectReview, SelfSubjectReviewStatus, TokenReview, TokenReviewSpec, TokenReviewStatus, UserInfo,
};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
    SubjectAccessReview, SubjectAccessReviewSpec, SubjectAccessReviewStatus,
};
use serde::{Deserialize, Serialize};

use crate::client::{ApiCall, Cluster};
use crate::error::ApiError;
use crate::identity::{Identity, Permit};

/// The access that a token's user has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The user may read the path.
    Allowed,
    /// The user may not read the path.
    Forbidden,
    /// The token belongs to no user.
    Unauthenticated,
}

/// An answer, of which only the status is read.
#[derive(Deserialize)]
struct Answer<S> {
    status: Option<S>,
}

/// Returns whether the user of a token may `get` a non-resource path.
///
/// # Errors
/// When the API server does not answer, or the host may not create reviews.
pub async fn may_get(cluster: &Cluster, token: &str, path: &str) -> Result<Access, ApiError> {
    let review =
        TokenReview { spec: TokenReviewSpec { token: token.to_owned(), audiences: None }, ..Default::default() };
    let of_token: Option<TokenReviewStatus> =
        ask(cluster, "TokenReview", "/apis/authentication.k8s.io/v1/tokenreviews", &review).await?;
    let Some(user) = of_token.filter(|status| status.authenticated == Some(true)).and_then(|status| status.user) else {
        return Ok(Access::Unauthenticated);
    };
    let review = SubjectAccessReview { spec: reading(user, path), ..Default::default() };
    let of_user: Option<SubjectAccessReviewStatus> =
        ask(cluster, "SubjectAccessReview", "/apis/authorization.k8s.io/v1/subjectaccessreviews", &review).await?;
    Ok(if of_user.is_some_and(is_allowed) { Access::Allowed } else { Access::Forbidden })
}

/// Returns whether the host may impersonate a ServiceAccount.
///
/// # Errors
/// When the API server does not answer, or refuses the review.
pub async fn may_impersonate(cluster: &Cluster, namespace: &str, account: &str) -> Result<bool, ApiError> {
    let attributes = ResourceAttributes {
        verb: Some("impersonate".to_owned()),
        resource: Some("serviceaccounts".to_owned()),
        namespace: Some(namespace.to_owned()),
        name: Some(account.to_owned()),
        ..Default::default()
    };
    may(cluster, attributes).await
}

/// Returns whether the account of this connection may list and watch the objects of a resource in a namespace.
///
/// # Errors
/// When the API server does not answer, or refuses the review.
pub async fn may_watch(cluster: &Cluster, namespace: &str, group: &str, plural: &str) -> Result<bool, ApiError> {
    for verb in ["list", "watch"] {
        let attributes = ResourceAttributes {
            verb: Some(verb.to_owned()),
            group: Some(group.to_owned()),
            resource: Some(plural.to_owned()),
            namespace: Some(namespace.to_owned()),
            ..Default::default()
        };
        if !may(cluster, attributes).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn may(cluster: &Cluster, attributes: ResourceAttributes) -> Result<bool, ApiError> {
    let spec = SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), non_resource_attributes: None };
    let review = SelfSubjectAccessReview { spec, ..Default::default() };
    let uri = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let of_account: Option<SubjectAccessReviewStatus> = ask(cluster, "SelfSubjectAccessReview", uri, &review).await?;
    Ok(of_account.is_some_and(is_allowed))
}

/// Returns the name of the host's own ServiceAccount; `None` if it has none in this namespace.
///
/// # Errors
/// When the API server does not answer, or refuses the review.
pub async fn own_account(cluster: &Cluster, namespace: &str) -> Result<Option<String>, ApiError> {
    let uri = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let review = SelfSubjectReview::default();
    let of_host: Option<SelfSubjectReviewStatus> = ask(cluster, "SelfSubjectReview", uri, &review).await?;
    let user = of_host.and_then(|status| status.user_info?.username);
    Ok(user.as_deref().and_then(|user| account_in(user, namespace)))
}

/// Returns the name of the ServiceAccount that a user is in a namespace.
fn account_in(user: &str, namespace: &str) -> Option<String> {
    let (of, account) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    (of == namespace).then(|| account.to_owned())
}

fn is_allowed(status: SubjectAccessReviewStatus) -> bool {
    status.allowed && status.denied != Some(true)
}

fn reading(UserInfo { extra, groups, uid, username }: UserInfo, path: &str) -> SubjectAccessReviewSpec {
    let attributes = NonResourceAttributes { path: Some(path.to_owned()), verb: Some("get".to_owned()) };
    SubjectAccessReviewSpec {
        extra,
        groups,
        non_resource_attributes: Some(attributes),
        resource_attributes: None,
        uid,
        user: username,
    }
}

async fn ask<S: for<'de> Deserialize<'de>>(
    cluster: &Cluster,
    kind: &'static str,
    uri: &str,
    review: &impl Serialize,
) -> Result<Option<S>, ApiError> {
    let unreadable = |error: serde_json::Error| ApiError::unreadable("create", kind.to_owned(), &error);
    let call = ApiCall {
        verb: "create",
        target: &kind,
        method: Method::POST,
        uri: uri.to_owned(),
        content_type: "application/json",
        body: serde_json::to_vec(review).map_err(unreadable)?,
    };
    let text = cluster.send(call, &Identity::Host, &Permit::unlimited()).await?;
    Ok(serde_json::from_str::<Answer<S>>(&text).map_err(unreadable)?.status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_account_of_the_host_is_a_service_account_of_its_own_namespace() {
        for (user, account) in [
            ("system:serviceaccount:system:hotshoe", Some("hotshoe")),
            ("system:serviceaccount:other:hotshoe", None),
            ("system:serviceaccount:system", None),
            ("admin", None),
        ] {
            assert_eq!(account_in(user, "system").as_deref(), account, "{user}");
        }
    }

    #[test]
    fn the_access_review_has_all_attributes_of_the_user_of_the_token() {
        let user = serde_json::json!({
            "username": "system:serviceaccount:monitoring:prometheus", "uid": "1",
            "groups": ["system:serviceaccounts"], "extra": { "pod": ["a"] },
        });
        let spec = reading(serde_json::from_value(user).unwrap(), "/metrics");
        assert_eq!(
            serde_json::to_value(&spec).unwrap(),
            serde_json::json!({
                "user": "system:serviceaccount:monitoring:prometheus", "uid": "1",
                "groups": ["system:serviceaccounts"], "extra": { "pod": ["a"] },
                "nonResourceAttributes": { "path": "/metrics", "verb": "get" },
            })
        );
    }
}
