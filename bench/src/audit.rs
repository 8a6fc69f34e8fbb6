//! Which requests an account made, as the API server recorded them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use serde::Deserialize;

/// The time without a request after which an account has settled. The API server writes audit events after the
/// responses, in batches of less than this time.
const SETTLE_TIME: Duration = Duration::from_secs(3);
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// The writes of some accounts, read from the audit log since this value was created.
pub struct Audit {
    log: PathBuf,
    offset: u64,
    users: Vec<String>,
    writes: BTreeMap<Write, u64>,
}

/// A kind of write.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Write {
    /// For example `patch`.
    pub verb: String,
    /// For example `memcacheds/status`.
    pub resource: String,
    /// HTTP status code.
    pub code: u16,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    verb: String,
    user: User,
    #[serde(default)]
    object_ref: Object,
    #[serde(default)]
    response_status: Response,
}

#[derive(Deserialize)]
struct User {
    username: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Object {
    api_group: String,
    resource: String,
    subresource: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Response {
    code: u16,
}

impl Audit {
    /// Begins to count the writes with the credentials of these users.
    ///
    /// # Errors
    /// When there is no log.
    pub fn of(log: &Path, users: &[&str]) -> Result<Self> {
        let users = users.iter().map(|user| (*user).to_owned()).collect();
        Ok(Self { log: log.to_owned(), offset: log.metadata()?.len(), users, writes: BTreeMap::new() })
    }

    /// Returns the writes so far, by kind.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn writes(&mut self) -> Result<&BTreeMap<Write, u64>> {
        let mut file = File::open(&self.log)?;
        file.seek(SeekFrom::Start(self.offset))?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        // The last line may be half written.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        self.offset += whole as u64;
        let lines: Vec<&str> = text.get(..whole).unwrap_or_default().lines().collect();
        lines.into_iter().for_each(|line| self.count(line));
        Ok(&self.writes)
    }

    /// Returns the number of writes so far.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn total(&mut self) -> Result<u64> {
        Ok(self.writes()?.values().sum())
    }

    /// Waits until nothing is written any more, and returns the number of writes.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub async fn settled(&mut self) -> Result<u64> {
        let (mut total, mut quiet) = (self.total()?, Duration::ZERO);
        while quiet < SETTLE_TIME {
            tokio::time::sleep(POLL_INTERVAL).await;
            let now = self.total()?;
            quiet = if now == total { quiet + POLL_INTERVAL } else { Duration::ZERO };
            total = now;
        }
        Ok(total)
    }

    fn count(&mut self, line: &str) {
        if !self.users.iter().any(|user| line.contains(user.as_str())) {
            return;
        }
        let Ok(event) = serde_json::from_str::<Event>(line) else { return };
        let writes = matches!(event.verb.as_str(), "create" | "update" | "patch" | "delete" | "deletecollection");
        if writes && !event.object_ref.is_review() && self.users.contains(&event.user.username) {
            let write = Write { verb: event.verb, resource: event.object_ref.path(), code: event.response_status.code };
            *self.writes.entry(write).or_default() += 1;
        }
    }
}

impl Object {
    /// Returns whether the request is a question, as for the caller's rights: nothing is stored of what it creates.
    fn is_review(&self) -> bool {
        self.api_group == "authorization.k8s.io" || self.api_group == "authentication.k8s.io"
    }

    fn path(self) -> String {
        if self.subresource.is_empty() { self.resource } else { format!("{}/{}", self.resource, self.subresource) }
    }
}

impl Write {
    /// Whether it was refused.
    pub fn failed(&self) -> bool {
        self.code >= 400
    }
}

impl std::fmt::Display for Write {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.verb, self.resource, self.code)
    }
}
