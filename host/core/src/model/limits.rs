//! All limits of a plugin. Ten are keys of `plugin.yaml`, each with a default and a cap that an administrator cannot
//! exceed; the rest are constants.
//!
//! [`Limits`] are those of one plugin; [`Overrides`] are `spec.limits` of its `plugin.yaml`. The
//! defaults are those that kept every hostile component of the test suite below 80 MB and half a
//! second, with room for guests that carry a language runtime.

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::quantity::{GIB, KIB, MIB};
pub use crate::model::quantity::{Size, Span};

/// The size of one page of linear memory, the smallest that a guest can use.
const WASM_PAGE: u64 = 64 * KIB;

/// The name, default and bounds of one limit.
#[derive(Clone, Copy, Debug)]
pub struct Bound<T> {
    /// Its key in `plugin.yaml`, below `spec.limits`.
    pub name: &'static str,
    /// The smallest value that an override may have. With a smaller one no plugin would work, or the value would not
    /// mean what it seems to.
    pub least: T,
    /// The value without an override.
    pub default: T,
    /// The largest value that an override may have.
    pub cap: T,
}

/// Processor time for one call. It is checked at ticks of the epoch clock, so a call ends a tick or two late.
pub const CALL_TIME: Bound<Span> = bound("callTime", Span::millis(1), Span::millis(500), Span::millis(5_000));
/// Linear memory of all memories of one call together. A Rust guest needs 2 MiB, one with a
/// JavaScript or Python runtime 13 to 64 MiB.
pub const MEMORY: Bound<Size> = bound("memory", Size(WASM_PAGE), Size(64 * MIB), Size(GIB));
/// The memory that a call may take even if its plugin has used up its share of the memory of all plugins, so that the
/// plugin can still decide to have fewer objects. It is as much as a guest with a JavaScript runtime needs.
pub const CALL_MEMORY: Size = Size(16 * MIB);
/// Elements of all tables of one call together, 8 bytes each.
pub const TABLE_ELEMENTS: u32 = 100_000;
/// Core instances of one call. A Rust guest has 2 to 4, one with adapters a few dozen.
pub const INSTANCES: u32 = 64;
/// Tables of one call.
pub const TABLES: u32 = 32;
/// Memories of one call.
pub const MEMORIES: u32 = 8;
/// Calls of host functions by the guest in one call. Without a bound a guest can make five million a second.
pub const HOST_CALLS: u32 = 1_000;
/// Bytes that the guest passes to the host: for each answer, and for all log lines of a call together.
pub const BOUNDARY_BYTES: Size = Size(4 * MIB);
/// Depth of the JSON that a plugin returns; the checks of a child accept no more.
pub const JSON_DEPTH: u32 = 64;
/// Bytes of one desired child as JSON. The default limit of an API server is that of etcd, 1.5 MiB.
pub const OBJECT_BYTES: Size = Size(1_500_000);
/// Desired children of one decision. A decision that adds one may also not lead to more children in all, including
/// those that are no longer desired but may not be deleted.
pub const CHILDREN: Bound<u32> = bound("children", 0, 500, 5_000);
/// Fields of one desired child: keys and list elements, at every depth. The API server keeps each in `managedFields`: an
/// apply of 3 takes it 2 ms of processor time, of 1,000 14 to 24 ms, of 10,000 140 to 290 ms, of 20,000 350 to 740 ms,
/// and of 50,000 2.7 s, so that a few of these at once have no answer in time (1.36, 2 cores).
pub const FIELDS_PER_CHILD: Bound<u32> = bound("fieldsPerChild", 1, 10_000, 20_000);
/// Fields of all desired children of one decision: five thousand children of 40 each.
pub const DECISION_FIELDS: usize = 200_000;
/// Fields of one desired child that are left to others by name.
pub const LEFT_FIELDS: usize = 32;
/// Log lines that are kept of one call; further ones are dropped and counted.
pub const LOG_LINES: u32 = 100;
/// Bytes of log that are kept of one call.
pub const LOG_BYTES: Size = Size(64 * KIB);
/// Events of one decision.
pub const EVENTS: u32 = 5;
/// Bytes of the status of one decision with its conditions, as JSON.
pub const STATUS_BYTES: Size = Size(64 * KIB);
/// Rounds of `needs` before one decision.
pub const REQUEST_ROUNDS: u32 = 5;
/// Bytes of the objects that are fetched by `needs` for one decision in all rounds, as JSON; an object that is asked
/// for twice counts twice. The host holds them for each parent that is being reconciled.
pub const FETCHED_BYTES: Size = Size(8 * MIB);
/// The memory that the host uses for a plugin's children, those of all parents together: the fields that the plugin
/// asked for, and a KiB more for each child. A decision that would exceed it is refused. The default is a quarter of
/// the memory of the host's Pod.
pub const HELD_BYTES: Bound<Size> = bound("heldBytes", Size(0), Size(128 * MIB), Size(4 * GIB));
/// How many bytes a page of a list should have, of the objects that a watch begins with. The number of objects is
/// adapted to that: users choose how large they are.
pub const PAGE_BYTES: Size = Size(MIB);
/// How many bytes of one page are read. A larger page is asked for again with fewer objects. While it is parsed, the host
/// holds it twice.
pub const PAGE_BYTES_MAX: Size = Size(4 * MIB);
/// How many bytes of a page are read if the page has a single object. An API server stores 1.5 MiB of each, of which
/// JSON may make six times as much: each `<` is escaped.
pub const SINGLE_OBJECT_BYTES: Size = Size(16 * MIB);
/// Writes of children and status in a second, for all parents together. Further writes wait. A small API server
/// takes about 700 in a second from all its clients.
pub const WRITES_PER_SECOND: Bound<u32> = bound("writesPerSecond", 1, 500, 10_000);
/// A write counts as one more of [`WRITES_PER_SECOND`] for each so many bytes: the API server needs as long for them as
/// for an ordinary object, 2 ms.
pub const BYTES_PER_TOKEN: usize = 32 * 1024;
/// A write also counts as one more of [`WRITES_PER_SECOND`] for each so many fields, for the same reason.
pub const FIELDS_PER_TOKEN: usize = 100;
/// Objects that `needs` reads from the API server in a second, for all parents together. Further reads wait.
pub const READS_PER_SECOND: Bound<u32> = bound("readsPerSecond", 1, 500, 10_000);
/// Deletions of children in a second, for all parents together. Further deletions wait, so that an administrator has
/// time to notice what a plugin deletes by mistake.
pub const DELETIONS_PER_SECOND: Bound<u32> = bound("deletionsPerSecond", 1, 10, 1_000);
/// The size of the component.
pub const COMPONENT_BYTES: Bound<Size> = bound("componentBytes", Size(1), Size(32 * MIB), Size(256 * MIB));
/// The size of a component's declarations, nested ones included: types, imports, exports and functions, but not the
/// bodies of functions and the data. While the host parses them it needs up to 60 times as much memory.
pub const DECLARATION_BYTES: Size = Size(MIB);
/// The size of a component's types alone. The host keeps 100 times as much for them.
pub const TYPE_BYTES: Size = Size(256 * KIB);
/// The size of the test cases that a component carries. Parsed, they take the host up to 40 times as much memory.
pub const CASE_BYTES: Size = Size(MIB);
/// The size of the native code of a component, 3 to 6 times that of the component. The host keeps all of it in memory,
/// and at a swap four times as much: the code of the active revision, of the one before it, and of the new one both as
/// the compiler wrote it and as it is loaded. With the default, that is half of the memory of the host's Pod.
pub const NATIVE_BYTES: Size = Size(64 * MIB);
/// Processor time for compiling a component. How long that takes depends on the code and on the processor, not on the
/// size alone.
pub const COMPILE_TIME: Bound<Span> =
    bound("compileTime", Span::millis(1), Span::millis(60_000), Span::millis(600_000));
/// The default of `--cache-bytes`, the size of the host's cache directory: compiled code, and the components that are
/// kept for a rollback. A revision of the default size has up to 96Mi, a usual one of Rust less than 1Mi.
pub const CACHE_BYTES: Size = Size(GIB);
/// The smallest value of `--cache-bytes`: enough for the history and the code of a few small plugins.
pub const CACHE_BYTES_LEAST: Size = Size(16 * MIB);
/// The room that compiled code and kept components leave free on the volume, so that a rollback can still be recorded
/// in the history. A history has at most this size, and usually a hundredth of it.
pub const HISTORY_BYTES: Size = Size(MIB);
/// Address space of the process that compiles a component.
pub const COMPILE_MEMORY: Size = Size(2 * GIB);

/// How long a registry may take to accept a connection.
pub const REGISTRY_CONNECT: Duration = Duration::from_secs(10);
/// How long a registry may send nothing.
pub const REGISTRY_SILENCE: Duration = Duration::from_secs(30);
/// How long one answer of a registry may take. A component of 32 MiB, the default limit, takes this long at 2 Mbit/s.
pub const REGISTRY_TIME: Duration = Duration::from_secs(120);
/// How long the download of a component with its signatures may take.
pub const PULL_TIME: Duration = Duration::from_secs(300);
/// The size of an image's manifest: what the distribution specification requires registries to accept.
pub const MANIFEST_BYTES: Size = Size(4 * MIB);
/// The size of a signature of an image with its payload. Bundles of cosign have about 10 KiB.
pub const SIGNATURE_BYTES: Size = Size(MIB);
/// A signature with its payload and its annotations, as the process that pulls hands it to the host.
pub const EVIDENCE_BYTES: Size = Size(4 * SIGNATURE_BYTES.0 + 2 * MANIFEST_BYTES.0);
/// How long a signature may take to verify, and so much of a processor.
pub const VERIFY_TIME: Duration = Duration::from_secs(30);
/// Signatures of one image that are checked, in each of the two forms. Others may be put there by all who may push.
pub const SIGNATURES: usize = 256;
/// Address space of the process that pulls, in addition to three times the size of the component.
pub const PULL_MEMORY: Size = Size(256 * MIB);

/// The number of strikes within [`BREAKER_WINDOW`] that opens the circuit. A bad call adds one, a good call removes
/// one.
pub const BREAKER_STRIKES: usize = 5;
/// The number of strikes that a call adds if it uses up its time.
pub const BREAKER_OVERDUE: usize = 3;
/// How long a strike counts.
pub const BREAKER_WINDOW: Duration = Duration::from_secs(60);
/// How long the circuit stays open at first; each bad trial after that doubles the time.
pub const BREAKER_OPEN: Duration = Duration::from_secs(60);
/// The longest time that the circuit stays open.
pub const BREAKER_OPEN_MAX: Duration = Duration::from_secs(1_800);
/// The time after which a call counts as slow and gives way to others. A Rust guest decides in microseconds,
/// one with a language runtime in milliseconds.
pub const SLOW: Duration = Duration::from_millis(10);
/// While other plugins are called, a slow call pauses for this many times as long as it runs, and so does
/// compiling: each gets an eighth of a processor.
pub const PAUSE_FACTOR: u32 = 7;
/// The niceness of slow calls and of compiling: they get a tenth of the processor time of the threads that
/// serve watches and writes.
pub const NICENESS: i32 = 10;
/// The wall-clock time of a call as a multiple of its [`CALL_TIME`], and of compiling as a multiple of its
/// [`COMPILE_TIME`]: enough for its pauses, and as long again for waiting.
pub const WALL_TIME: u32 = 2 * (PAUSE_FACTOR + 1);
/// Native stack of a guest, in bytes. The compiled code of all plugins depends on it, so it cannot be
/// overridden.
pub const WASM_STACK: usize = 512 * 1024;
/// Conditions of one decision; more would not make a readable status.
pub const CONDITIONS: usize = 32;
/// Field errors of one verdict; further ones are left out. A refusal is printed whole.
pub const FIELD_ERRORS: usize = 32;
/// Warnings of one verdict; further ones are left out. API servers pass on 4,096 characters of all webhooks.
pub const WARNINGS: usize = 32;
/// The maximum length of the message of a field error, and of a warning, in bytes.
pub const VERDICT_MESSAGE: usize = 1_000;
/// Groups of the user that a plugin is shown for admission. Identity providers put a few hundred at most into a token.
pub const USER_GROUPS: usize = 1_000;
/// Bytes of the name, the uid and the groups of that user together. The headers in which API servers accept a token have 16
/// KiB at most, too.
pub const USER_BYTES: usize = 16 * 1024;
/// The last decisions about one parent that `hotshoe explain` shows.
pub const EXPLAINED_DECISIONS: usize = 5;
/// Bytes of what `hotshoe explain` shows of one decision; what exceeds them is counted. A decision that creates two children
/// has about 200.
pub const EXPLAINED_TEXT: usize = 480;
/// Bytes of the decisions about one parent that are kept for `hotshoe explain`, beyond the last one.
pub const EXPLAINED_BYTES: usize = 640;
/// Bytes of what is kept for `hotshoe explain` of all parents of a plugin together: about 30,000 parents with all that is
/// kept of each, or 60,000 with the last decision alone.
pub const EXPLAINED_OF_ALL: Size = Size(32 * MIB);
/// Requirements of one `needs`.
pub const REQUIREMENTS: usize = 100;
/// Objects, and selections of objects, that the parents of one plugin need and that are watched, a hundred on each connection
/// (HTTP/2). Those beyond are read again every 15 seconds.
pub const NEEDED_OBJECTS: usize = 1000;
/// The same, where the API server lets watches share no connection. Each is one of its own then, which takes the host 40 kB:
/// 100 of them 4 MB (1.36, with TLS).
pub const NEEDED_OBJECTS_UNSHARED: usize = 100;
/// Objects that the label selector of one requirement selects: as many as an API server returns in the largest page.
pub const SELECTED_OBJECTS: usize = 500;
/// Bytes of a label selector of a plugin, which becomes a part of a request's URL.
pub const SELECTOR_BYTES: usize = 1024;
/// Children that one pass prunes. Users of a namespace may make thousands of objects that look like children, which are
/// deleted one after the other; what is desired in other namespaces must not wait for all of that.
pub const PRUNED: usize = 20;
/// Events of a plugin in a second, for all parents together; further ones are dropped. The host's own Events about the
/// plugin have a limit of the same size.
pub const EVENTS_PER_SECOND: u32 = 10;
/// The burst of a plugin's Events. None is lost if a few hundred parents are deleted together.
pub const EVENTS_AT_ONCE: u32 = 200;
/// Bytes of log of a plugin in a second, for all parents together; further lines are dropped. The host's own lines
/// about the plugin's failures have a limit of the same size. All are written on the thread that serves watches and
/// writes.
pub const LOGGED_PER_SECOND: u32 = 64 * 1024;
/// The burst of a plugin's log, in bytes.
pub const LOGGED_AT_ONCE: u32 = 1024 * 1024;
/// The maximum length of a key of a JSON object, in bytes. The longest in Kubernetes have 317.
pub const MAX_JSON_KEY_BYTES: usize = 1024;
/// The maximum length of a condition's message, in bytes: the schema of `metav1.Condition`.
pub const CONDITION_MESSAGE: usize = 32 * 1024;
/// The maximum length of a condition's type, in bytes: the schema of `metav1.Condition`.
pub const CONDITION_TYPE: usize = 316;
/// The maximum length of an Event's message, in bytes: the API server's bound.
pub const EVENT_MESSAGE: usize = 1_000;
/// The maximum length of the reason of a condition or an Event, in bytes: the API server's bound for Events.
pub const REASON: usize = 128;
/// The maximum length of the message of a failure, in bytes. The host adds text to it and makes it a condition's
/// message.
pub const FAILURE_MESSAGE: usize = 8 * 1024;
/// The maximum length of one log line, in bytes.
pub const LOG_LINE: usize = 8 * 1024;

const fn bound<T>(name: &'static str, least: T, default: T, cap: T) -> Bound<T> {
    Bound { name, least, default, cap }
}

impl<T: Copy + PartialOrd + fmt::Display> Bound<T> {
    /// Returns the override if there is one, otherwise the default.
    ///
    /// # Errors
    /// When the override is out of bounds.
    fn choose(&self, wanted: Option<T>) -> Result<T, LimitError> {
        let Some(wanted) = wanted else { return Ok(self.default) };
        let (name, given) = (self.name, wanted.to_string());
        if wanted > self.cap {
            return Err(LimitError::TooMuch { name, wanted: given, cap: self.cap.to_string() });
        }
        if wanted < self.least {
            return Err(LimitError::TooLittle { name, wanted: given, least: self.least.to_string() });
        }
        Ok(wanted)
    }
}

/// An override that is not allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are parts of the message")]
pub enum LimitError {
    /// More than its cap.
    #[error("limits.{name} is {wanted}, but at most {cap} can be given; lower it, or leave it out for the default")]
    TooMuch { name: &'static str, wanted: String, cap: String },
    /// Less than its least.
    #[error(
        "limits.{name} is {wanted}, but at least {least} must be given; raise it, or leave it out for the default{}",
        instead(.name)
    )]
    TooLittle { name: &'static str, wanted: String, least: String },
}

/// Returns what to do instead for a limit that was probably set to 0 in order to forbid something.
fn instead(name: &str) -> &'static str {
    match name {
        "deletionsPerSecond" => " (to forbid deletions, leave `delete` out of spec.grants)",
        "readsPerSecond" => " (to forbid reads, leave `get` out of spec.grants)",
        "writesPerSecond" => " (to forbid writes, leave `create` and `update` out of spec.grants)",
        _ => "",
    }
}

/// What one plugin may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "each field is explained at the constant of its name")]
pub struct Limits {
    pub call_time: Span,
    pub memory: Size,
    pub table_elements: u32,
    pub instances: u32,
    pub tables: u32,
    pub memories: u32,
    pub host_calls: u32,
    pub boundary_bytes: Size,
    pub json_depth: u32,
    pub object_bytes: Size,
    pub children: u32,
    pub fields_per_child: u32,
    pub log_lines: u32,
    pub log_bytes: Size,
    pub events: u32,
    pub status_bytes: Size,
    pub request_rounds: u32,
    pub fetched_bytes: Size,
    pub held_bytes: Size,
    pub reads_per_second: u32,
    pub writes_per_second: u32,
    pub deletions_per_second: u32,
    pub component_bytes: Size,
    pub declaration_bytes: Size,
    pub type_bytes: Size,
    pub case_bytes: Size,
    pub native_bytes: Size,
    pub compile_time: Span,
    pub compile_memory: Size,
}

/// `spec.limits` of a `plugin.yaml`: what differs from the defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[expect(missing_docs, reason = "each field is explained at the constant of its name")]
pub struct Overrides {
    pub call_time: Option<Span>,
    pub memory: Option<Size>,
    pub children: Option<u32>,
    pub fields_per_child: Option<u32>,
    pub held_bytes: Option<Size>,
    pub reads_per_second: Option<u32>,
    pub writes_per_second: Option<u32>,
    pub deletions_per_second: Option<u32>,
    pub component_bytes: Option<Size>,
    pub compile_time: Option<Span>,
}

impl Limits {
    /// Returns the defaults with these overrides. Limits that depend on the size of a component grow with
    /// `componentBytes`.
    ///
    /// # Errors
    /// Where an override is out of bounds.
    pub fn with(wanted: &Overrides) -> Result<Self, LimitError> {
        let component_bytes = COMPONENT_BYTES.choose(wanted.component_bytes)?;
        let larger = component_bytes.0.div_ceil(COMPONENT_BYTES.default.0).max(1);
        Ok(Self {
            call_time: CALL_TIME.choose(wanted.call_time)?,
            memory: MEMORY.choose(wanted.memory)?,
            children: CHILDREN.choose(wanted.children)?,
            fields_per_child: FIELDS_PER_CHILD.choose(wanted.fields_per_child)?,
            held_bytes: HELD_BYTES.choose(wanted.held_bytes)?,
            reads_per_second: READS_PER_SECOND.choose(wanted.reads_per_second)?,
            writes_per_second: WRITES_PER_SECOND.choose(wanted.writes_per_second)?,
            deletions_per_second: DELETIONS_PER_SECOND.choose(wanted.deletions_per_second)?,
            component_bytes,
            declaration_bytes: Size(DECLARATION_BYTES.0 * larger),
            type_bytes: Size(TYPE_BYTES.0 * larger),
            case_bytes: Size(CASE_BYTES.0 * larger),
            native_bytes: Size(NATIVE_BYTES.0 * larger),
            compile_time: COMPILE_TIME.choose(wanted.compile_time)?,
            compile_memory: Size(COMPILE_MEMORY.0 * larger),
            ..Self::default()
        })
    }
}

impl Limits {
    /// Returns the most memory that a plugin within these limits needs in the host, without its parents: that of a
    /// swap, of its children, of one call, and of the objects fetched for one decision.
    pub fn memory_at_most(&self) -> Size {
        let parts = [4 * self.native_bytes.0, self.held_bytes.0, self.memory.0, self.fetched_bytes.0];
        Size(parts.into_iter().fold(0, u64::saturating_add))
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            call_time: CALL_TIME.default,
            memory: MEMORY.default,
            table_elements: TABLE_ELEMENTS,
            instances: INSTANCES,
            tables: TABLES,
            memories: MEMORIES,
            host_calls: HOST_CALLS,
            boundary_bytes: BOUNDARY_BYTES,
            json_depth: JSON_DEPTH,
            object_bytes: OBJECT_BYTES,
            children: CHILDREN.default,
            fields_per_child: FIELDS_PER_CHILD.default,
            log_lines: LOG_LINES,
            log_bytes: LOG_BYTES,
            events: EVENTS,
            status_bytes: STATUS_BYTES,
            request_rounds: REQUEST_ROUNDS,
            fetched_bytes: FETCHED_BYTES,
            held_bytes: HELD_BYTES.default,
            reads_per_second: READS_PER_SECOND.default,
            writes_per_second: WRITES_PER_SECOND.default,
            deletions_per_second: DELETIONS_PER_SECOND.default,
            component_bytes: COMPONENT_BYTES.default,
            declaration_bytes: DECLARATION_BYTES,
            type_bytes: TYPE_BYTES,
            case_bytes: CASE_BYTES,
            native_bytes: NATIVE_BYTES,
            compile_time: COMPILE_TIME.default,
            compile_memory: COMPILE_MEMORY,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn no_override_means_the_defaults() {
        assert_eq!(Limits::with(&Overrides::default()), Ok(Limits::default()));
    }

    #[test]
    fn overrides_are_written_in_the_notation_of_kubernetes() {
        let wanted: Overrides =
            serde_json::from_str(r#"{"callTime":"2s","memory":"128Mi","heldBytes":1000,"children":7}"#).unwrap();
        let limits = Limits::with(&wanted).unwrap();
        assert_eq!(limits.call_time.0, Duration::from_secs(2));
        assert_eq!(limits.memory.0, 128 << 20);
        assert_eq!(limits.held_bytes.0, 1000);
        assert_eq!(limits.children, 7);
        assert_eq!(limits.log_lines, LOG_LINES);
    }

    /// Returns, for each limit, its least, its cap, the value just above the cap, and the value just below the least,
    /// if there is one.
    fn bounds() -> Vec<(&'static str, [Value; 3], Option<Value>)> {
        let count = |Bound { name, least, cap, .. }: Bound<u32>| {
            (name, [json!(least), json!(cap), json!(cap + 1)], least.checked_sub(1).map(|below| json!(below)))
        };
        let size = |Bound { name, least, cap, .. }: Bound<Size>| {
            let below = least.0.checked_sub(1).map(|below| json!(Size(below)));
            (name, [least, cap, Size(cap.0 + 1)].map(|size| json!(size)), below)
        };
        let span = |Bound { name, least, cap, .. }: Bound<Span>| {
            let step = Duration::from_millis(1);
            let below = least.0.checked_sub(step).map(|below| json!(Span(below)));
            (name, [least, cap, Span(cap.0 + step)].map(|span| json!(span)), below)
        };
        let counts = [CHILDREN, FIELDS_PER_CHILD, READS_PER_SECOND, WRITES_PER_SECOND, DELETIONS_PER_SECOND];
        let sizes = [MEMORY, COMPONENT_BYTES, HELD_BYTES];
        let spans = [CALL_TIME, COMPILE_TIME];
        counts.map(count).into_iter().chain(sizes.map(size)).chain(spans.map(span)).collect()
    }

    #[test]
    fn each_limit_can_be_overridden_alone_within_its_bounds() {
        let defaults = json!(Limits::default());
        let keys = json!(Overrides::default());
        let keys: BTreeSet<_> = keys.as_object().unwrap().keys().cloned().collect();
        let tried: BTreeSet<_> = bounds().into_iter().map(|(name, ..)| name.to_owned()).collect();
        assert_eq!(tried, keys);
        for (name, [least, cap, above], below) in bounds() {
            let with = |value: &Value| Limits::with(&serde_json::from_value(json!({ name: value })).unwrap());
            for wanted in [least, cap] {
                let mut expected = defaults.clone();
                expected[name] = wanted.clone();
                let mut limits = json!(with(&wanted).unwrap());
                if name == COMPONENT_BYTES.name {
                    // The limits that grow with it have a test of their own.
                    GROW_WITH_COMPONENT.iter().for_each(|limit| limits[limit] = defaults[limit].clone());
                }
                assert_eq!(limits, expected, "{name}");
            }
            for (wanted, bound) in [(Some(above), "at most"), (below, "at least")] {
                let Some(wanted) = wanted else { continue };
                let refused = with(&wanted).unwrap_err().to_string();
                assert!(refused.starts_with(&format!("limits.{name} is ")) && refused.contains(bound), "{refused}");
            }
        }
    }

    const GROW_WITH_COMPONENT: [&str; 5] =
        ["declarationBytes", "typeBytes", "caseBytes", "nativeBytes", "compileMemory"];

    #[test]
    fn limits_of_a_component_grow_with_its_size_and_never_shrink() {
        let with =
            |size: &str| Limits::with(&serde_json::from_value(json!({ "componentBytes": size })).unwrap()).unwrap();
        for size in ["1", "1Mi", "32Mi"] {
            let component_bytes = Limits::default().component_bytes;
            assert_eq!(Limits { component_bytes, ..with(size) }, Limits::default(), "{size}");
        }
        let larger = with("33Mi");
        assert_eq!((larger.native_bytes, larger.type_bytes), (Size(128 * MIB), Size(512 * KIB)));
        let largest = with("256Mi");
        assert_eq!((largest.native_bytes, largest.case_bytes), (Size(512 * MIB), Size(8 * MIB)));
        assert_eq!((largest.compile_time, largest.compile_memory), (COMPILE_TIME.default, Size(16 * GIB)));
        assert_eq!((largest.declaration_bytes, largest.memory), (Size(8 * MIB), MEMORY.default));
    }

    #[test]
    fn a_limit_without_a_key_cannot_be_overridden() {
        for name in GROW_WITH_COMPONENT.iter().chain(&["events", "statusBytes", "jsonDepth", "hostCalls"]) {
            assert!(serde_json::from_value::<Overrides>(json!({ *name: 1 })).is_err(), "{name}");
        }
    }

    #[test]
    fn an_override_above_its_cap_is_refused_by_name() {
        let wanted = serde_json::from_str(r#"{"callTime":"6s"}"#).unwrap();
        assert_eq!(
            Limits::with(&wanted).unwrap_err().to_string(),
            "limits.callTime is 6s, but at most 5s can be given; lower it, or leave it out for the default"
        );
    }

    #[test]
    fn zero_is_refused_where_it_would_not_mean_what_it_seems_to() {
        let refused = |text: &str| Limits::with(&serde_json::from_str(text).unwrap()).unwrap_err().to_string();
        assert_eq!(
            refused(r#"{"deletionsPerSecond":0}"#),
            "limits.deletionsPerSecond is 0, but at least 1 must be given; raise it, \
             or leave it out for the default (to forbid deletions, leave `delete` out of spec.grants)"
        );
        assert!(refused(r#"{"writesPerSecond":0}"#).contains("leave `create` and `update` out of spec.grants"));
        assert_eq!(
            refused(r#"{"memory":0}"#),
            "limits.memory is 0, but at least 64Ki must be given; raise it, or leave it out for the default"
        );
        let none = serde_json::from_str(r#"{"children":0}"#).unwrap();
        assert!(Limits::with(&none).is_ok(), "none at all is a limit as well");
    }

    #[test]
    fn a_swap_of_the_largest_components_leaves_half_of_the_pods_memory() {
        let pod = include_str!("../../../../deploy/host.yaml.j2");
        let limit = pod.split_once("limits:").and_then(|(_, limits)| limits.split_once("memory: ")).unwrap().1;
        let limit = Size::parse(limit.lines().next().unwrap()).unwrap();
        assert!(4 * NATIVE_BYTES.0 <= limit.0 / 2, "{} at a swap, of {limit}", 4 * NATIVE_BYTES.0);
    }

    /// Returns the row of a limit in the table for authors of plugins.
    fn row<T: fmt::Display>(bound: &Bound<T>) -> String {
        format!("| `{}` | {} | {} |", bound.name, bound.default, bound.cap)
    }

    #[test]
    fn the_page_for_authors_names_the_limits_without_a_key() {
        let page = include_str!("../../../../docs/src/reference/limits.md");
        let constants = [
            TABLE_ELEMENTS.to_string(),
            INSTANCES.to_string(),
            HOST_CALLS.to_string(),
            BOUNDARY_BYTES.to_string(),
            JSON_DEPTH.to_string(),
            OBJECT_BYTES.to_string(),
            DECISION_FIELDS.to_string(),
            LOG_LINES.to_string(),
            LOG_BYTES.to_string(),
            STATUS_BYTES.to_string(),
            FETCHED_BYTES.to_string(),
            NATIVE_BYTES.to_string(),
            format!("{PRUNED} |"),
        ];
        let fixed = page.split_once("## What no key changes").unwrap().1;
        for constant in constants {
            assert!(fixed.contains(&format!("| {constant}")), "{constant}");
        }
    }

    #[test]
    fn the_table_for_authors_has_the_present_value_of_every_limit() {
        let page = include_str!("../../../../docs/src/reference/limits.md");
        let rows_below = |head: &str| {
            let table = page.lines().skip_while(|line| !line.starts_with(head));
            let rows = table.skip(2).take_while(|line| line.starts_with('|'));
            rows.map(|line| line.rsplitn(3, '|').last().unwrap_or_default().to_owned() + "|").collect::<Vec<_>>()
        };
        let mut written = rows_below("| limit |");
        let mut expected = [CALL_TIME, COMPILE_TIME].map(|bound| row(&bound)).to_vec();
        expected.extend([MEMORY, HELD_BYTES, COMPONENT_BYTES].map(|bound| row(&bound)));
        let counts = [CHILDREN, FIELDS_PER_CHILD, READS_PER_SECOND, WRITES_PER_SECOND, DELETIONS_PER_SECOND];
        expected.extend(counts.map(|bound| row(&bound)));
        expected.sort();
        written.sort();
        assert_eq!(written, expected);
    }

    #[test]
    fn unknown_limits_and_units_are_errors() {
        for text in
            [r#"{"calltime":"1s"}"#, r#"{"memory":"1MB"}"#, r#"{"callTime":5}"#, r#"{"memory":"99999999999Gi"}"#]
        {
            assert!(serde_json::from_str::<Overrides>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_and_spans_are_shown_as_they_are_written() {
        for text in ["64Mi", "1Gi", "3Ki", "1500000"] {
            assert_eq!(Size::parse(text).unwrap().to_string(), text);
        }
        for text in ["500ms", "5s"] {
            assert_eq!(Span::parse(text).unwrap().to_string(), text);
        }
    }
}
