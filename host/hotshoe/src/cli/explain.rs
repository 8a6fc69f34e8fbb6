//! `hotshoe explain`: why an object is as it is, and what holds it back.

use std::process::ExitCode;
use std::str::FromStr;

use serde_json::Value;

use crate::cli::host_client::{HostOptions, read};
use crate::cli::target;
use crate::cli::terminal::Output;
use crate::server::verb::AdminVerb;
use hotshoe_core::model::sanitize::clean;
use hotshoe_operator::api::explain::{Act, Cause, Decided, Decider, Ended, Explanation, Held, Hold, Note};

/// The maximum length of a printed text, in bytes: the program that answers may be no host.
const MAX_TEXT_BYTES: usize = 600;
/// The maximum length of a namespace or name, in bytes: that of Kubernetes.
const MAX_NAME_BYTES: usize = 253;

/// Show why an object is as it is: the last decisions about it, and what holds it back
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
                  hotshoe explain memcached/cache -n shop\n  \
                  hotshoe explain memcached/shop/cache -o json\n\
                  \n\
                  A decision is shown with what had changed, what was written, and how it ended, the newest last; \
                  the last lines say what holds the object back, and until when. Only names and paths are shown, and no \
                  value of any object. A host remembers the last five decisions that changed something, \
                  since it began to work for the object.")]
pub struct Args {
    /// Which object of which plugin
    #[arg(value_name = "PLUGIN/[NAMESPACE/]NAME")]
    object: Named,
    /// Its namespace [default: the only one with an object of this name]
    #[arg(short, long, value_parser = part)]
    namespace: Option<String>,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    #[command(flatten)]
    host: HostOptions,
}

/// An object that a user names, of one plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) plugin: String,
    pub(super) namespace: Option<String>,
    pub(super) name: String,
}

impl FromStr for Named {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = |namespace: Option<&str>, plugin: &str, name: &str| {
            let namespace = namespace.map(part).transpose()?;
            Ok(Self { plugin: target::plugin_name(plugin)?, namespace, name: part(name)? })
        };
        match *text.split('/').collect::<Vec<_>>() {
            [plugin, name] => named(None, plugin, name),
            [plugin, namespace, name] => named(Some(namespace), plugin, name),
            _ => Err("name a plugin and an object of its kind, as memcached/cache or memcached/shop/cache".to_owned()),
        }
    }
}

/// Checks a namespace or name, which becomes a part of a request. Some kinds have names that are not those of domains.
pub(super) fn part(text: &str) -> Result<String, String> {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '.' | '_' | ':');
    let is_valid = !text.is_empty() && text.len() <= MAX_NAME_BYTES && text.chars().all(is_letter);
    is_valid.then(|| text.to_owned()).ok_or_else(|| "it is no name of a Kubernetes object".to_owned())
}

impl Named {
    /// Adds the namespace that is given beside the name.
    ///
    /// # Errors
    /// When two namespaces are given.
    pub(super) fn within(self, namespace: Option<String>) -> anyhow::Result<Self> {
        let is_once = self.namespace.is_none() || namespace.is_none();
        anyhow::ensure!(is_once, "the namespace is named twice; leave out --namespace");
        Ok(Self { namespace: namespace.or(self.namespace), ..self })
    }

    fn path(&self) -> String {
        AdminVerb::Explain.path_of_parent(&self.plugin, self.namespace.as_deref(), &self.name)
    }

    /// Returns the arguments with which the program asks its host for JSON.
    pub(super) fn arguments(&self) -> Vec<String> {
        let Self { plugin, namespace, name } = self;
        let namespace = namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
        ["explain", &format!("{plugin}/{namespace}{name}"), "-o", "json"].map(str::to_owned).to_vec()
    }
}

impl Args {
    /// Asks the host, and prints its answer.
    ///
    /// # Errors
    /// When no host answers, or it does not know the object.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let path = self.object.within(self.namespace)?.path();
        print(&super::runtime()?.block_on(self.host.get(&path))?, self.output)
    }
}

/// Prints the answer of a host.
///
/// # Errors
/// When it has another form.
pub(super) fn print(answer: &Value, output: Output) -> anyhow::Result<ExitCode> {
    output.print(answer, || Ok(page(&read(answer)?)))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns whether an answer is from the host that works for the object.
pub(super) fn is_of_its_host(answer: &Value) -> bool {
    read::<Explanation>(answer).is_ok_and(|answer| answer.now.iter().all(|hold| hold.what != Held::AnotherHost))
}

/// Writes the story of an object: its last decisions, the newest last, and what comes next.
pub(super) fn page(explained: &Explanation) -> String {
    let Explanation { plugin, object, revision, canary, needs, decisions, now } = explained;
    let canary = if *canary { ", the canary" } else { "" };
    let mut page = format!("{} of {}, decided by {}{canary}\n", shown(object), shown(plugin), decider(revision));
    if decisions.is_empty() {
        page += "\nThis host has decided nothing about it since it began to work for it.\n";
    }
    for decided in decisions {
        page += &format!("\n{}  by {}\n", shown(&decided.at), decider(&decided.by));
        for (title, lines) in story(decided) {
            page += &titled(title, &lines);
        }
    }
    page += "\nnow\n";
    page += &titled("", &next(now));
    page += &titled("needs", &needs.iter().map(|needed| shown(needed)).collect::<Vec<_>>());
    page
}

/// Returns the lines of one decision, below their titles.
pub(super) fn story(decided: &Decided) -> [(&'static str, Vec<String>); 4] {
    let mut causes: Vec<String> = decided.because.iter().map(cause).collect();
    causes.extend(more(decided.more_causes));
    let mut acts: Vec<String> = decided.wrote.iter().map(act).collect();
    acts.extend(more(decided.more_writes));
    let since = match (decided.repeated, &decided.repeated_at) {
        (0, _) | (_, None) => Vec::new(),
        (count, Some(at)) => {
            let times = if count == 1 { "once".to_owned() } else { format!("{count} times") };
            let what = if decided.ended == Ended::Failed { "the same again" } else { "nothing to change" };
            vec![format!("{what}, {times}, at last {}", shown(at))]
        }
    };
    [("because", causes), ("wrote", acts), ("ended", vec![ended(decided)]), ("since", since)]
}

/// Returns what holds an object back now or is due, one line each.
pub(super) fn next(now: &[Hold]) -> Vec<String> {
    if now.is_empty() {
        return vec!["nothing is due: it is looked at again when something changes".to_owned()];
    }
    let line = |Hold { message, until, seconds, .. }: &Hold| match (until, seconds) {
        (Some(until), Some(seconds)) => format!("{}, until {} (in {seconds} s)", shown(message), shown(until)),
        _ => shown(message),
    };
    now.iter().map(line).collect()
}

fn titled(title: &str, lines: &[String]) -> String {
    let titles = std::iter::once(title).chain(std::iter::repeat(""));
    titles.zip(lines).map(|(title, line)| format!("  {title:<8} {line}\n")).collect()
}

fn more(count: usize) -> Option<String> {
    (count > 0).then(|| format!("and {count} more"))
}

/// Returns a text of the answer for a terminal. Users and plugins choose names, so they may contain escape sequences.
fn shown(text: &str) -> String {
    clean(text.to_owned(), MAX_TEXT_BYTES)
}

pub(super) fn decider(Decider { digest, version }: &Decider) -> String {
    format!("{digest} ({})", shown(version))
}

fn cause(Note { what, object, fields }: &Note<Cause>) -> String {
    let fields = if fields.is_empty() { String::new() } else { format!(": {}", shown(&fields.join(", "))) };
    let object = object.as_deref().map_or_else(|| "the object".to_owned(), shown);
    match what {
        Cause::First => "it is the first decision of this host about it".to_owned(),
        Cause::Revision => "another revision decides".to_owned(),
        Cause::Settings => "plugin.yaml has changed".to_owned(),
        Cause::Due => "the plugin had asked to be called at this time".to_owned(),
        Cause::Retry => "the try before had failed".to_owned(),
        Cause::Changed => format!("{object} has changed{fields}"),
        Cause::Appeared => format!("{object} is there now"),
        Cause::Gone => format!("{object} is gone"),
        Cause::Needed => format!("{object}, which the plugin needs, has changed"),
        Cause::Others => "one of the further objects has changed".to_owned(),
        Cause::Refusals => "a write is refused, or no longer".to_owned(),
        Cause::Again => "nothing that the plugin is shown has changed; it was looked at again".to_owned(),
    }
}

fn act(Note { what, object, fields }: &Note<Act>) -> String {
    let (object, names) = (object.as_deref().map(shown).unwrap_or_default(), shown(&fields.join(", ")));
    match what {
        Act::Created => format!("created {object}"),
        Act::Changed if names.is_empty() => format!("changed {object}"),
        Act::Changed => format!("changed {object}: {names}"),
        Act::Deleted => format!("deleted {object}"),
        Act::Status => "the status".to_owned(),
        Act::Metadata => "its labels and annotations".to_owned(),
        Act::FinalizerAdded => format!("added the finalizer {names}"),
        Act::FinalizerRemoved => format!("removed the finalizer {names}"),
        Act::Event => format!("an Event {names}").trim_end().to_owned(),
        Act::CleanUpBegun => "began the clean-up".to_owned(),
        Act::CleanUpEnded => "ended the clean-up".to_owned(),
        Act::Released => "released it, for it is no longer selected".to_owned(),
    }
}

fn ended(decided: &Decided) -> String {
    let mut text = match decided.ended {
        Ended::Settled => "settled",
        Ended::Changed => "decided again at once, since what was written may change what the plugin is shown",
        Ended::Overtaken => "another writer changed it first; decided again",
        Ended::Stalled => "a write met a conflict, an overload or no answer, and is tried again",
        Ended::NamespaceTerminating => "its namespace is being deleted, and accepts nothing new",
        Ended::CleaningUp => "its clean-up is not done",
        Ended::Orphaned => "it is being deleted, and finalizers of others may keep it",
        Ended::Released => "it is being deleted, and this plugin no longer keeps it",
        Ended::Failed if decided.wrote.is_empty() => "failed, and nothing was written",
        Ended::Failed => "failed, and the rest was not written",
    }
    .to_owned();
    if let Some(reason) = &decided.reason {
        text += &format!(": {}", shown(reason));
    }
    if !decided.about.is_empty() {
        text += &format!(" ({})", shown(&decided.about.join("; ")));
    }
    if decided.reason.is_some() {
        text += "; its condition Reconciled says more";
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn explained(decisions: &Value, now: &Value) -> Explanation {
        let revision = json!({ "digest": "0123456789abcdef".repeat(4), "version": "0.1.0" });
        let of = |mut decided: Value| {
            decided["by"] = revision.clone();
            decided["at"] = "2026-11-28T13:20:24Z".into();
            decided
        };
        let decisions: Vec<Value> = decisions.as_array().into_iter().flatten().cloned().map(of).collect();
        let object = "Memcached.cache.example.com shop/cache";
        read(&json!({ "plugin": "memcached", "object": object, "revision": revision, "decisions": decisions, "now": now }))
            .unwrap()
    }

    #[test]
    fn an_object_is_named_by_its_plugin_its_namespace_and_its_name() {
        let named = |text: &str| text.parse::<Named>().map(|named| (named.plugin, named.namespace, named.name));
        let of = |namespace: Option<&str>| Ok(("memcached".into(), namespace.map(Into::into), "cache".into()));
        assert_eq!(named("memcached/cache"), of(None));
        assert_eq!(named("memcached/shop/cache"), of(Some("shop")));
        for wrong in ["memcached", "", "/", "memcached/", "a/b/c/d", "Mem/cache", "memcached/a?b", "memcached/../x y"] {
            assert!(named(wrong).is_err(), "{wrong}");
        }
        let within = |text: &str, namespace: Option<&str>| {
            text.parse::<Named>().unwrap().within(namespace.map(str::to_owned)).ok()
        };
        let cache = within("memcached/cache", Some("shop")).unwrap();
        assert_eq!(cache.path(), "/explain/memcached?namespace=shop&name=cache");
        assert_eq!(cache.arguments(), ["explain", "memcached/shop/cache", "-o", "json"]);
        assert_eq!(within("memcached/shop/cache", None), Some(cache));
        assert_eq!(within("memcached/shop/cache", Some("other")), None);
    }

    #[test]
    fn the_story_of_an_object_says_why_what_and_how_and_then_what_comes() {
        let page = page(&explained(
            &json!([
                {
                    "because": [{ "what": "first" }], "ended": "changed",
                    "wrote": [
                        { "what": "created", "object": "Deployment.apps shop/cache" },
                        { "what": "finalizerAdded", "fields": ["cache.example.com/finalizer"] },
                        { "what": "status" }
                    ],
                },
                {
                    "because": [{ "what": "changed", "object": "Deployment.apps shop/cache", "fields": ["status.readyReplicas"] }],
                    "wrote": [{ "what": "status" }], "moreWrites": 2, "ended": "settled",
                    "repeated": 12, "repeatedAt": "2026-11-28T13:30:00Z",
                },
                { "because": [], "wrote": [], "ended": "failed", "reason": "Denied", "about": ["kind-not-granted"] },
            ]),
            &json!([{ "what": "backOff", "message": "it failed once, and backs off", "until": "2026-11-28T13:31:00Z", "seconds": 42 }]),
        ));
        let expected = [
            "Memcached.cache.example.com shop/cache of memcached, decided by 0123456789ab (0.1.0)",
            "2026-11-28T13:20:24Z  by 0123456789ab (0.1.0)",
            "  because  it is the first decision of this host about it",
            "  wrote    created Deployment.apps shop/cache",
            "           added the finalizer cache.example.com/finalizer",
            "           the status",
            "  ended    decided again at once, since what was written may change what the plugin is shown",
            "  because  Deployment.apps shop/cache has changed: status.readyReplicas",
            "  wrote    the status",
            "           and 2 more",
            "  ended    settled",
            "  since    nothing to change, 12 times, at last 2026-11-28T13:30:00Z",
            "  ended    failed, and nothing was written: Denied (kind-not-granted); its condition Reconciled says more",
            "now",
            "           it failed once, and backs off, until 2026-11-28T13:31:00Z (in 42 s)",
        ];
        let mut rest = page.as_str();
        for line in expected {
            let (_, after) = rest.split_once(&format!("{line}\n")).unwrap_or_else(|| panic!("no {line:?} in\n{rest}"));
            rest = after;
        }
    }

    #[test]
    fn an_object_without_decisions_and_one_that_waits_for_nothing_say_so() {
        let page = page(&explained(&json!([]), &json!([])));
        assert!(page.contains("has decided nothing") && page.contains("nothing is due"), "{page}");
    }

    #[test]
    fn names_that_others_chose_are_sanitized_for_the_terminal() {
        let evil = "a\u{1b}[2J\n  forged\u{202e}";
        let page = page(&explained(
            &json!([{
                "because": [{ "what": "changed", "object": evil, "fields": [evil] }],
                "wrote": [{ "what": "changed", "object": evil, "fields": [evil, "x".repeat(10_000)] }],
                "ended": "failed", "reason": evil, "about": [evil],
            }]),
            &json!([{ "what": "running", "message": evil }]),
        ));
        assert!(!page.contains(['\u{1b}', '\u{202e}']) && !page.contains("\n  forged"), "{page:?}");
        assert!(page.lines().all(|line| line.len() < 2 * MAX_TEXT_BYTES), "{page:?}");
    }
}
