//! A plugin's component in the real sandbox, under its grant and limits, which the program `hotshoe` runs.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::unusable;

/// The variable that names the program. Without it, it is the `hotshoe` on `PATH`.
const PROGRAM: &str = "HOTSHOE";
/// Only one call at a time: the first one may build the component.
static ONE_CALL: Mutex<()> = Mutex::new(());

/// Runs what `hotshoe test` runs: every case of the plugin in `folder` on its component, which is built first if its source
/// is newer, and what must hold besides, such as that the decisions settle. In a test, `folder` is
/// `env!("CARGO_MANIFEST_DIR")`.
///
/// # Panics
///
/// Where one of them fails: the message has all that do, each with the difference. Also where the program `hotshoe` is
/// neither on `PATH` nor named by the variable `HOTSHOE`, or the component cannot be built.
pub fn run_component_cases(folder: impl AsRef<Path>) {
    #[derive(Deserialize)]
    struct Record {
        name: String,
        passed: bool,
        error: Option<String>,
        difference: Option<String>,
        #[serde(default)]
        logs: Vec<Log>,
    }
    #[derive(Deserialize)]
    struct Log {
        message: String,
    }
    let records: Vec<Record> = call("test", folder.as_ref(), None);
    let failed = records.into_iter().filter(|record| !record.passed).map(|record| {
        let logs = record.logs.into_iter().map(|log| format!("     log: {}", log.message));
        let said: Vec<String> = record.error.into_iter().chain(record.difference).chain(logs).collect();
        format!("--- {}:\n{}", record.name, said.join("\n"))
    });
    let failed: Vec<String> = failed.collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Where a closed loop begins. Objects are as the API server returns them.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// The parent. It gets the defaults with which it would be stored.
    pub parent: Value,
    /// Its children that exist.
    pub children: Vec<Value>,
    /// Other objects that exist, by the key of a declared read or of a requirement.
    pub related: BTreeMap<String, Vec<Value>>,
    /// The configuration; none for that of `plugin.yaml`.
    pub config: Option<Value>,
    /// The time, in milliseconds since 1970, if the plugin asks for it. It stands still.
    pub now: Option<u64>,
    /// Whether the parent is being deleted.
    pub finalize: bool,
    /// The most decisions that may change something; 10 if nothing is said.
    pub within: Option<u32>,
}

/// Where a closed loop ends.
#[derive(Clone, Debug, Deserialize)]
pub struct End {
    /// The decisions that changed something, each with its `children` (`action`, `kind`, `name`, `fields`) and the lines of
    /// its `status`.
    pub decisions: Vec<Value>,
    /// The parent, with its status.
    pub parent: Value,
    /// Its children.
    pub children: Vec<Value>,
}

impl End {
    /// Returns the child of this kind and name.
    ///
    /// # Panics
    ///
    /// Where there is none: the message has those that are there.
    pub fn child(&self, kind: &str, name: &str) -> &Value {
        let is_it = |child: &&Value| text(child, "/kind") == kind && text(child, "/metadata/name") == name;
        self.children.iter().find(is_it).unwrap_or_else(|| {
            let there = |child: &Value| format!("{} {}", text(child, "/kind"), text(child, "/metadata/name"));
            let there: Vec<String> = self.children.iter().map(there).collect();
            unusable(&format!("there is no {kind} {name} in the end, but {}", there.join(", ")))
        })
    }
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Follows the decisions of the component of the plugin in `folder`, each carried out in a model of the API server before
/// the next, until one changes nothing. The component is built first if its source is newer.
///
/// # Panics
///
/// Where decisions go on to change something, or one fails or would be denied: the message has the last decisions. Also
/// where the program `hotshoe` is not found or cannot be used.
pub fn closed_loop(folder: impl AsRef<Path>, start: Start) -> End {
    #[derive(Deserialize)]
    struct Simulated {
        why: Option<String>,
        #[serde(flatten)]
        end: End,
    }
    let Start { parent, children, related, config, now, finalize, within } = start;
    let call_of = if finalize { "finalize" } else { "reconcile" };
    let given = [
        ("name", "closed loop".into()),
        ("call", call_of.into()),
        ("parent", parent),
        ("children", children.into()),
        ("related", json!(related)),
    ];
    let steady = within.map(|within| json!({ "within": within }));
    let chosen = [("config", config), ("now", now.map(Into::into)), ("steady", steady)];
    let chosen = chosen.into_iter().filter_map(|(key, value)| Some((key, value?)));
    let case: Map<String, Value> =
        given.into_iter().chain(chosen).map(|(key, value)| (key.to_owned(), value)).collect();
    let Simulated { why, end } = call("simulate", folder.as_ref(), Some(&case.into()));
    match why {
        None => end,
        Some(why) => unusable(&format!("the closed loop does not settle: {why}")),
    }
}

/// Runs a verb of the program for a plugin, and reads what it prints. It is given a case on standard input.
fn call<T: for<'a> Deserialize<'a>>(verb: &str, folder: &Path, case: Option<&Value>) -> T {
    let program = std::env::var_os(PROGRAM).filter(|program| !program.is_empty());
    let mut command = Command::new(program.unwrap_or_else(|| "hotshoe".into()));
    command.arg(verb).arg(folder).args(["--build", "--output", "json"]);
    if case.is_some() {
        command.args(["--filename", "-"]);
    }
    let output = answer(command, case).unwrap_or_else(|cause| {
        unusable(&format!(
            "the program hotshoe cannot be run: {cause}; put it on PATH, or name it by the variable {PROGRAM}. \
             `./justw build` in the repository of Hotshoe makes it"
        ))
    });
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| {
        unusable(&format!("hotshoe {verb} {}: {}", folder.display(), String::from_utf8_lossy(&output.stderr)))
    })
}

fn answer(mut command: Command, case: Option<&Value>) -> std::io::Result<Output> {
    let _one = ONE_CALL.lock().unwrap_or_else(PoisonError::into_inner);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    if let (Some(mut stdin), Some(case)) = (child.stdin.take(), case) {
        // A program that ends early says why on standard error.
        drop(stdin.write_all(case.to_string().as_bytes()));
    }
    child.wait_with_output()
}
