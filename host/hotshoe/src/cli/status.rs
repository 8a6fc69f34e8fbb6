//! `hotshoe status`: shows the state of a running host.

use std::fmt::{self, Display, Formatter};
use std::process::ExitCode;

use anyhow::Context;

use crate::cli::host_client::{HostOptions, read};
use crate::cli::target;
use crate::cli::terminal::Output;
use hotshoe_cluster::error::APPLY_RIGHTS;
use hotshoe_cluster::lease_status::LeaseStatus;
use hotshoe_core::flow::circuit::State;
use hotshoe_core::flow::circuit_breaker::{BreakerStatus, NamespaceCircuit};
use hotshoe_core::flow::unanswered::UnansweredWritesStatus;
use hotshoe_core::model::digest::Digest;
use hotshoe_operator::api::HostStatus;
use hotshoe_operator::api::status::RefusedComponent;
use hotshoe_operator::api::status::{Deleting, Stalled, StalledParent};
use hotshoe_operator::api::status::{MemoryStatus, PluginFileStatus, PluginStatus, Trouble};

/// Show the state of a running host and its plugins
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  hotshoe status -o json\n  hotshoe status memcached\n\n\
                  Exit code 1 means that the host, or the plugin, is not ready or not there.")]
pub struct Args {
    /// Which plugin [default: all]
    #[arg(value_parser = target::plugin_name)]
    plugin: Option<String>,
    #[command(flatten)]
    host: HostOptions,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

impl Args {
    /// Reads the status from the host, and prints it.
    ///
    /// # Errors
    /// When no host answers.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let answer = super::runtime()?.block_on(self.host.get("/status"))?;
        let status: HostStatus = read(&answer)?;
        let ready = match &self.plugin {
            None => {
                self.output.print(&answer, || Ok(page(&status)))?;
                status.ready
            }
            Some(name) => {
                let plugin = status.plugins.iter().find(|plugin| plugin.name == *name);
                let plugin =
                    plugin.with_context(|| format!("this host has no plugin {name}; `hotshoe status` lists all"))?;
                self.output.print(plugin, || Ok(table([plugin])))?;
                plugin.ready
            }
        };
        Ok(if ready { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn page(status: &HostStatus) -> String {
    let mut page = format!("hotshoe {} on context {}\n", status.version, status.context);
    page.extend(status.leases.iter().map(lease_line));
    page + &table(&status.plugins)
}

/// Lists plugins, with what needs attention.
fn table<'a>(plugins: impl IntoIterator<Item = &'a PluginStatus>) -> String {
    let mut table = Row::HEAD.to_owned();
    for plugin in plugins {
        table += &row(plugin).to_string();
        notes(plugin).iter().for_each(|note| table += &format!("  {note}\n"));
    }
    table
}

/// Returns who holds a Lease, until when, and what is wrong with it.
pub(super) fn lease_line(lease: &LeaseStatus) -> String {
    let LeaseStatus { name, held, holder, seconds, problem, .. } = lease;
    let until = seconds.map(|seconds| format!(", {seconds} s from now unless renewed")).unwrap_or_default();
    let held = match holder {
        _ if *held => format!("this host holds it until{}", until.trim_start_matches(',')),
        Some(holder) => format!("{holder} holds it until{}; this host stands by", until.trim_start_matches(',')),
        None => "none holds it; this host stands by".to_owned(),
    };
    let problem = problem.as_ref().map(|problem| format!("  {problem}\n")).unwrap_or_default();
    format!("Lease {name}: {held}\n{problem}")
}

/// A plugin's line in a table of plugins.
pub(super) struct Row<'a> {
    pub(super) name: &'a str,
    /// Whether it is ready; none if no host says.
    pub(super) ready: Option<bool>,
    pub(super) version: Option<&'a str>,
    pub(super) digest: Option<Digest>,
    pub(super) parents: String,
    pub(super) errors: String,
    pub(super) queued: String,
    pub(super) note: &'a str,
}

impl Row<'_> {
    pub(super) const HEAD: &'static str =
        "PLUGIN           READY  VERSION    DIGEST         PARENTS ERRORS QUEUED  NOTE\n";
}

impl Display for Row<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { name, ready, version, digest, parents, errors, queued, note } = self;
        let (version, digest) = (version.unwrap_or("-"), or_dash(*digest));
        let ready = ready.map_or("-", |ready| if ready { "yes" } else { "no" });
        let row =
            format!("{name:<16} {ready:<6} {version:<10} {digest:<14} {parents:>7} {errors:>6} {queued:>6}  {note}");
        writeln!(f, "{}", row.trim_end())
    }
}

fn row(plugin: &PluginStatus) -> Row<'_> {
    Row {
        name: &plugin.name,
        ready: Some(plugin.ready),
        version: plugin.version.as_deref(),
        digest: plugin.digest,
        parents: plugin.parents.to_string(),
        errors: (plugin.trouble.failing + plugin.trouble.refused).to_string(),
        queued: plugin.queued.to_string(),
        note: plugin.waiting.as_deref().unwrap_or_default(),
    }
}

/// Says for which objects a plugin is not called.
fn circuit_notes(breaker: &BreakerStatus) -> Vec<String> {
    let circuit = |state: State, seconds: Option<u64>| {
        let left = seconds.map(|seconds| format!(" for another {seconds} s")).unwrap_or_default();
        format!("circuit {}{left}", state.as_str())
    };
    let mut notes = Vec::new();
    if breaker.state != State::Closed {
        let last = breaker.parent.as_ref().map(|parent| format!(", at last for {parent}")).unwrap_or_default();
        let circuit = circuit(breaker.state, breaker.seconds);
        notes.push(format!("{circuit}: it failed too often to be called{last}; another component closes it"));
    }
    notes.extend(breaker.namespaces.iter().map(|NamespaceCircuit { namespace, parent, state, seconds }| {
        let circuit = circuit(*state, *seconds);
        format!("namespace {namespace}: {circuit}: it failed too often for the objects there, at last for {parent}; fix or delete that object")
    }));
    let more = breaker.namespace_count.saturating_sub(breaker.namespaces.len());
    if more > 0 {
        notes.push(format!("{more} more namespaces: circuit open: it failed too often for the objects there"));
    }
    notes
}

/// Lists what needs attention.
pub(super) fn notes(plugin: &PluginStatus) -> Vec<String> {
    let mut notes = call_notes(plugin);
    notes.extend(host_notes(plugin));
    notes.extend(namespace_notes(plugin));
    notes.extend(parent_notes(plugin));
    notes.extend(memory_note(&plugin.memory));
    notes.extend(plugin.canary.as_ref().map(ToString::to_string));
    notes.extend(plugin_file_notes(&plugin.plugin_file));
    notes.extend(revision_notes(plugin));
    notes
}

/// Says why the plugin is called less often.
fn call_notes(plugin: &PluginStatus) -> Vec<String> {
    let mut notes = circuit_notes(&plugin.breaker);
    notes.extend(plugin.unanswered.as_ref().map(|UnansweredWritesStatus { count, last, seconds }| {
        format!(
            "{count} writes of the last ten minutes had no answer in time while the API server answers others, \
             which counts against the plugin; the last was {last}, {seconds} s ago: write less, or smaller objects"
        )
    }));
    notes
}

/// Says why this host does less for the plugin than it was started for.
fn host_notes(plugin: &PluginStatus) -> impl Iterator<Item = String> {
    let removal = plugin.removal.as_ref().map(|why| format!("its Plugin object is being deleted: {why}"));
    let unable = plugin
        .unable
        .as_ref()
        .map(|why| format!("nothing is written, for the host may not impersonate its account: {why}; {APPLY_RIGHTS}"));
    [plugin.standing_by.clone(), plugin.fetch_failing.clone(), removal, unable].into_iter().flatten()
}

/// Says in which namespaces nothing is done, because the host may not list all that the plugin needs there.
fn namespace_notes(plugin: &PluginStatus) -> impl Iterator<Item = String> {
    let partly = plugin.watches.iter().filter(|watch| watch.synced && !watch.refused.is_empty());
    partly.filter_map(|watch| watch.failing.clone())
}

/// Says with which parents something is wrong.
fn parent_notes(plugin: &PluginStatus) -> impl Iterator<Item = String> {
    let (all, Trouble { failing, refused }) = (plugin.parents, plugin.trouble);
    let failing = (failing > 0).then(|| format!("fails on {failing} of {all}: their Events and conditions say why"));
    let refused =
        (refused > 0).then(|| format!("children of {refused} of {all} are refused: their conditions say why"));
    let stalled = plugin.stalled.as_ref().map(|stalled| stalled_note(stalled, all));
    let deleting = plugin.deleting.as_ref().map(|deleting| deleting_note(deleting, all));
    [failing, refused, stalled, deleting].into_iter().flatten()
}

fn stalled_note(Stalled { count, parents }: &Stalled, all: usize) -> String {
    let shown =
        |StalledParent { object, tries, reason }: &StalledParent| format!("{object} ({reason}, tries: {tries})");
    let mut named: Vec<_> = parents.iter().map(shown).collect();
    if count > &parents.len() {
        named.push(format!("and {} more", count - parents.len()));
    }
    let named = named.join(", ");
    format!("{count} of {all} are stalled, and not tried again until they, the plugin or plugin.yaml change: {named}")
}

fn deleting_note(Deleting { count, oldest, seconds, reason }: &Deleting, all: usize) -> String {
    format!(
        "{count} of {all} have been deleting for more than a minute; the oldest is {oldest}, for {seconds} s: {reason}"
    )
}

/// Says that the plugin takes nearly all the memory that it may.
fn memory_note(memory: &MemoryStatus) -> Option<String> {
    let MemoryStatus { held, may_hold } = memory;
    let may_hold = may_hold.filter(|_| memory.is_nearly_full())?;
    Some(format!(
        "takes {held} bytes of the memory that all plugins share, and may take {may_hold}: \
         a decision that adds more is refused; have the plugin write less status and own fewer children, \
         or give the host more memory"
    ))
}

/// Says what is wrong with plugin.yaml.
fn plugin_file_notes(file: &PluginFileStatus) -> impl Iterator<Item = String> {
    let refused = file.refused.as_ref();
    let refused = refused.map(|why| format!("plugin.yaml is rejected, and the last valid one stays in effect: {why}"));
    let not_granted = file.not_granted.as_ref().map(|lacking| format!("less granted: {lacking}"));
    refused.into_iter().chain(not_granted)
}

/// Says which component is not active, and which earlier ones are not kept.
fn revision_notes(plugin: &PluginStatus) -> impl Iterator<Item = String> {
    let refused = plugin.refused.as_ref().map(|RefusedComponent { digest, reason, message }| {
        format!("not activated: {}: {reason}: {message}", or_dash(*digest))
    });
    let not_kept = plugin
        .history_failing
        .as_ref()
        .map(|why| format!("earlier revisions cannot be kept for a rollback: {why}; let the host write there"));
    // With no active and no refused component, the plugin's row already says what it waits for.
    let is_shown = plugin.digest.is_some() || plugin.refused.is_some();
    let in_progress = plugin.in_progress.as_ref().filter(|_| is_shown).map(target::progress);
    [refused, not_kept, in_progress].into_iter().flatten()
}

/// Returns the short form of a digest, or a dash if there is none.
pub(super) fn or_dash(digest: Option<Digest>) -> String {
    digest.map_or_else(|| "-".to_owned(), |digest| digest.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn plugin(more: Value) -> PluginStatus {
        let mut value = json!({
            "name": "memcached", "source": "m.wasm", "pluginFile": { "file": "plugin.yaml" }, "ready": true,
            "parents": 0, "queued": 0, "running": 0, "breaker": { "state": "closed", "strikes": 0 }, "watches": []
        });
        value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        read(&value).unwrap()
    }

    #[test]
    fn the_number_of_failing_and_refused_objects_is_noted() {
        let trouble = json!({ "failing": 2, "refused": 1 });
        let noted = notes(&plugin(json!({ "parents": 5, "trouble": trouble.clone() })));
        assert!(noted[0].starts_with("fails on 2 of 5") && noted[1].contains("children of 1 of 5"), "{noted:?}");
        assert!(notes(&plugin(json!({ "parents": 5 }))).is_empty());
        let columns = Row::HEAD.split("NOTE").next().unwrap().len();
        let waits = plugin(json!({ "parents": 5, "trouble": trouble, "waiting": "for a CRD" }));
        let row = row(&waits).to_string();
        assert_eq!(row.get(columns..), Some("for a CRD\n"), "{row}");
        assert!(row.contains(" 5      3      0 "), "{row}");
    }

    #[test]
    fn writes_without_an_answer_are_noted_with_the_last_of_them() {
        let unanswered = json!({ "count": 3, "last": "ConfigMap shop/bulk", "seconds": 5 });
        let noted = notes(&plugin(json!({ "unanswered": unanswered })));
        assert!(noted[0].starts_with("3 writes of the last ten minutes had no answer"), "{noted:?}");
        assert!(noted[0].contains("the last was ConfigMap shop/bulk, 5 s ago"), "{noted:?}");
    }

    #[test]
    fn stalled_objects_are_noted_by_name_with_their_tries_and_reasons() {
        let parents = json!([
            { "object": "shop/a", "tries": 3, "reason": "Trapped" },
            { "object": "shop/b", "tries": 3, "reason": "PluginFailed" },
        ]);
        let noted =
            |count: usize| notes(&plugin(json!({ "parents": 5, "stalled": { "count": count, "parents": parents } })));
        let said = "2 of 5 are stalled, and not tried again until they, the plugin or plugin.yaml change: \
                    shop/a (Trapped, tries: 3), shop/b (PluginFailed, tries: 3)";
        assert_eq!(noted(2), [said]);
        assert!(noted(5)[0].ends_with(", and 3 more"));
    }

    #[test]
    fn long_deletions_are_noted_with_the_oldest_and_its_reason() {
        let deleting = json!({ "count": 2, "oldest": "shop/cache", "seconds": 90, "reason": "Trapped: unreachable" });
        let noted = notes(&plugin(json!({ "parents": 5, "deleting": deleting })));
        let said = "2 of 5 have been deleting for more than a minute; the oldest is shop/cache, for 90 s: Trapped: unreachable";
        assert_eq!(noted, [said]);
    }

    #[test]
    fn a_plugin_near_its_limit_of_memory_is_noted() {
        let noted = |held: usize| notes(&plugin(json!({ "memory": { "held": held, "mayHold": 1_000 } })));
        assert!(noted(899).is_empty());
        assert!(noted(900)[0].starts_with("takes 900 bytes of the memory that all plugins share, and may take 1000"));
    }

    #[test]
    fn a_canary_is_noted_with_its_share_and_its_time_or_what_it_waits_for() {
        let canary = |waits: Value| {
            let (digest, since, until) = ("cd".repeat(32), "2026-11-25T04:00:00Z", "2026-11-25T04:10:00Z");
            json!({ "canary": {
                "digest": digest, "version": "2", "share": "10%", "parents": 3, "since": since, "until": until, "waitsFor": waits
            } })
        };
        let since = "revision cdcdcdcdcdcd (2) is the canary for 10%: 3 parents since 2026-11-25T04:00:00Z, ";
        assert_eq!(notes(&plugin(canary(Value::Null))), [format!("{since}until 2026-11-25T04:10:00Z")]);
        assert_eq!(notes(&plugin(canary(json!("it is paused")))), [format!("{since}it is paused")]);
    }

    #[test]
    fn a_history_that_cannot_be_kept_is_noted() {
        let noted = notes(&plugin(json!({ "historyFailing": "/cache/revisions/memcached: No space left" })));
        assert!(matches!(&*noted, [note] if note.contains("/cache/revisions/memcached: No space left")), "{noted:?}");
    }

    #[test]
    fn a_component_that_waits_beside_the_active_one_is_noted_with_what_it_waits_for() {
        let (old, new) = ("ab".repeat(32), "cd".repeat(32));
        let in_progress = json!({ "digest": new, "waitsFor": "the caches are being filled: Ingress is being listed" });
        let noted = ["activating: cdcdcdcdcdcd: the caches are being filled: Ingress is being listed"];
        assert_eq!(notes(&plugin(json!({ "digest": old, "inProgress": in_progress }))), noted);
        assert!(
            notes(&plugin(json!({ "inProgress": in_progress, "waiting": "the caches are being filled" }))).is_empty()
        );
        assert!(notes(&plugin(json!({ "digest": old, "inProgress": null }))).is_empty());
    }

    #[test]
    fn a_plugin_whose_account_the_host_may_not_impersonate_is_noted_with_what_to_do() {
        assert!(notes(&plugin(json!({ "unable": null }))).is_empty());
        let notes = notes(&plugin(json!({ "unable": "it cannot impersonate" })));
        assert!(notes[0].contains("it cannot impersonate") && notes[0].contains("hotshoe rbac"), "{notes:?}");
    }
}
