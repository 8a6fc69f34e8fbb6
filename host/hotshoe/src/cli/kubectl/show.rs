//! The command that shows `Plugin` objects, as text or as JSON or YAML.

use std::process::ExitCode;

use serde_json::{Value, json};

use crate::cli::history;
use crate::cli::kubectl::objects::Objects;
use crate::cli::status::Row;
use crate::cli::terminal::Output;
use hotshoe_core::model::digest::Digest;
use hotshoe_operator::api::history::PluginHistory;
use hotshoe_operator::config::plugin_resource::{Pending, PluginStatus, RevisionStatus, short};
use hotshoe_operator::rollout::history::History;

pub(super) async fn all(objects: &Objects, output: Output) -> anyhow::Result<ExitCode> {
    let items = objects.list().await?;
    output.print(&json!({ "apiVersion": "v1", "kind": "List", "items": items }), || Ok(table(&items)))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn one(objects: &Objects, name: &str, output: Output) -> anyhow::Result<ExitCode> {
    let object = objects.get(name).await?;
    output.print(&object, || Ok(page(name, &object)))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn history(objects: &Objects, name: &str, output: Output) -> anyhow::Result<ExitCode> {
    let status = PluginStatus::of(&objects.get(name).await?);
    let (current, entries) = (digest(&status), History::read(&status.history));
    let history = PluginHistory { current, kept: None, entries };
    output.print(&history, || Ok(history::table(&history)))?;
    Ok(ExitCode::SUCCESS)
}

fn digest(status: &PluginStatus) -> Option<Digest> {
    status.digest.as_deref().and_then(|digest| digest.parse().ok())
}

fn table(items: &[Value]) -> String {
    let mut table = Row::HEAD.to_owned();
    for item in items {
        let status = PluginStatus::of(item);
        let (ready, note) = ready(&status);
        let row = Row {
            name: item.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default(),
            ready,
            version: status.version.as_deref(),
            digest: digest(&status),
            parents: status.parents.to_string(),
            errors: status.errors.to_string(),
            queued: "-".to_owned(),
            note: &note,
        };
        table += &row.to_string();
    }
    table
}

/// Returns whether a plugin is ready, and if not, why.
fn ready(status: &PluginStatus) -> (Option<bool>, String) {
    let Some(ready) = status.conditions.iter().find(|condition| condition.type_ == "Ready") else {
        return (None, "no host follows it yet".to_owned());
    };
    let is_ready = ready.status == "True";
    let why = if is_ready { String::new() } else { format!("{}: {}", ready.reason, ready.message) };
    (Some(is_ready), why)
}

fn page(name: &str, object: &Value) -> String {
    let status = PluginStatus::of(object);
    let mut page = format!("Plugin {name}\n");
    for condition in &status.conditions {
        let message = if condition.message.is_empty() { String::new() } else { format!(": {}", condition.message) };
        page += &format!("  {:<12} {:<6} {}{message}\n", condition.type_, condition.status, condition.reason);
    }
    let (digest, parents, errors) = (status.digest.as_deref().map_or("-", short), status.parents, status.errors);
    page += &format!("  active       {digest} {}\n", status.version.as_deref().unwrap_or_default());
    page += &format!("  parents      {parents}, {errors} of them in trouble\n");
    if let Some(source) = &status.source {
        page += &format!("  source       {source}\n");
    }
    if let Some(canary) = &status.canary {
        page += &format!("  canary       {canary}\n");
    }
    if let Some(pending) = &status.pending {
        page += &pending_lines(pending);
    }
    page += "  revisions\n";
    for RevisionStatus { digest, version, state, time, message } in &status.revisions {
        let row = format!("    {} {version:<10} {state:<16} {time:<20} {message}", short(digest));
        page.push_str(row.trim_end());
        page.push('\n');
    }
    page
}

fn pending_lines(pending: &Pending) -> String {
    let mut lines = format!(
        "  pending      {} {}: {}\n",
        pending.digest.as_deref().map_or("-", short),
        pending.reason,
        pending.message
    );
    let Some(shadow) = &pending.shadow else { return lines };
    lines += &format!(
        "    would change {} of {} parents, fail on {}; children: {} created, {} changed, {} deleted\n",
        shadow.changed, shadow.parents, shadow.failing, shadow.created, shadow.updated, shadow.deleted
    );
    if let Some(why) = &shadow.incomplete {
        lines += &format!("    incomplete: {why}\n");
    }
    shadow.sample.iter().for_each(|line| lines += &format!("    {line}\n"));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_without_a_host_and_one_that_is_not_ready_say_so() {
        let condition =
            json!({ "type": "Ready", "status": "False", "reason": "ConfigMapMissing", "message": "create it" });
        let items = [
            json!({ "metadata": { "name": "new" } }),
            json!({ "metadata": { "name": "waits" }, "status": { "conditions": [condition], "parents": 3 } }),
        ];
        let table = table(&items);
        assert!(table.contains("no host follows it yet") && table.contains("ConfigMapMissing: create it"), "{table}");
    }

    #[test]
    fn what_waits_for_an_approval_is_shown_with_what_it_would_change() {
        let shadow =
            json!({ "changed": 2, "parents": 3, "created": 1, "sample": ["Memcached a/b; deletes Service a/c"] });
        let pending =
            json!({ "digest": "a".repeat(64), "reason": "ApprovalRequired", "message": "look", "shadow": shadow });
        let page = page("cache", &json!({ "status": { "pending": pending } }));
        for words in ["aaaaaaaaaaaa ApprovalRequired: look", "would change 2 of 3 parents", "deletes Service a/c"] {
            assert!(page.contains(words), "{page}");
        }
    }

    #[test]
    fn a_canary_is_shown_with_its_time_or_with_what_it_waits_for() {
        let (since, until) = ("2026-11-25T04:00:00Z", "2026-11-25T04:10:00Z");
        let shown = |waits: Value| {
            let canary = json!({
                "digest": "c".repeat(64), "version": "2", "share": "10%", "parents": 3, "since": since, "until": until,
                "waitsFor": waits
            });
            page("cache", &json!({ "status": { "canary": canary } }))
        };
        let of = format!("revision cccccccccccc (2) is the canary for 10%: 3 parents since {since}, ");
        assert!(shown(Value::Null).contains(&format!("{of}until {until}\n")), "{}", shown(Value::Null));
        let waits = shown(json!("its time is over, but the plugin is paused"));
        assert!(waits.contains(&format!("{of}its time is over, but the plugin is paused\n")), "{waits}");
    }
}
