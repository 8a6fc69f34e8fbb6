//! Who sent which requests to the API server, read from its audit log.

use serde_json::Value;

/// One request that was answered.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The account in whose name it was made: the impersonated one, where there is one.
    pub user: String,
    /// The account whose credentials were used.
    pub by: String,
    /// The ID of the token that was used.
    pub token: String,
    /// For example `patch`.
    pub verb: String,
    /// For example `deployments`.
    pub resource: String,
    /// For example `status`; empty for the object itself.
    pub subresource: String,
    /// The object's namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// HTTP status code.
    pub code: u64,
    /// When the request came in, RFC 3339 in microseconds.
    pub at: String,
    /// Path and query.
    pub uri: String,
    /// The client's user agent.
    pub agent: String,
}

impl Entry {
    /// Whether it was a write.
    pub fn is_write(&self) -> bool {
        matches!(self.verb.as_str(), "create" | "update" | "patch" | "delete" | "deletecollection")
    }

    /// Whether it was about this resource, for example `memcacheds/status`.
    pub fn is_about(&self, resource: &str) -> bool {
        let (plural, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        self.resource == plural && self.subresource == subresource
    }
}

/// Returns the entries about a namespace, in the order in which the requests came in.
pub(crate) fn entries(log: &str, namespace: &str) -> Vec<Entry> {
    let hint = format!("\"namespace\":\"{namespace}\"");
    matching(log, &hint, |entry| entry.namespace == namespace)
}

/// Returns the entries of requests in the name of this account, in the order in which they came in.
pub(crate) fn entries_of(log: &str, user: &str) -> Vec<Entry> {
    matching(log, user, |entry| entry.user == user)
}

fn matching(log: &str, hint: &str, wanted: impl Fn(&Entry) -> bool) -> Vec<Entry> {
    let mut entries: Vec<Entry> = log
        .lines()
        .filter(|line| line.contains(hint))
        // The last line may be half written.
        .filter_map(|line| serde_json::from_str(line).ok())
        .map(|event| entry(&event))
        .filter(wanted)
        .collect();
    entries.sort_by(|a, b| a.at.cmp(&b.at));
    entries
}

fn entry(event: &Value) -> Entry {
    let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let by = text("/user/username");
    let user = text("/impersonatedUser/username");
    Entry {
        user: if user.is_empty() { by.clone() } else { user },
        by,
        token: text("/user/extra/authentication.kubernetes.io~1credential-id/0"),
        verb: text("/verb"),
        resource: text("/objectRef/resource"),
        subresource: text("/objectRef/subresource"),
        namespace: text("/objectRef/namespace"),
        name: text("/objectRef/name"),
        code: event.pointer("/responseStatus/code").and_then(Value::as_u64).unwrap_or_default(),
        at: text("/requestReceivedTimestamp"),
        uri: text("/requestURI"),
        agent: text("/userAgent"),
    }
}
