//! `hotshoe report`: the state of a host as one HTML page, for a browser, a ticket or a pull request. The page needs no
//! other file, and has no script.

use std::process::ExitCode;

use anyhow::Context;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior};
use serde::Serialize;

use crate::cli::explain;
use crate::cli::host_client::{HostOptions, read};
use crate::cli::shadow;
use crate::cli::status;
use crate::cli::terminal;
use crate::server::verb::AdminVerb;
use hotshoe_cluster::time;
use hotshoe_core::model::sanitize::clean;
use hotshoe_operator::api::HostStatus;
use hotshoe_operator::api::explain::{Decided, Explanation};
use hotshoe_operator::api::history::PluginHistory;
use hotshoe_operator::api::status::{PluginStatus, RefusedComponent};
use hotshoe_operator::rollout::history::Entry;

/// The template. The ending of its name has minijinja escape each value.
const TEMPLATE: (&str, &str) = ("report.html", include_str!("../../templates/report.html.j2"));
/// The maximum length of a text on the page, in bytes.
const MAX_TEXT_BYTES: usize = 4_000;
/// How many entries of a history are shown, the newest first.
const MAX_ENTRIES: usize = 50;
/// For how many objects it is shown what a component that waits would change, and in how many lines.
const MAX_COMPARED: usize = 20;
const MAX_LINES: usize = 400;

/// Write the state of a running host as an HTML page: plugins, what waits for approval, objects in trouble
#[derive(clap::Args, Debug)]
#[command(after_help = "Example: hotshoe report > report.html\n\
                  \n\
                  The page is one file that needs no other, has no script, and fits a narrow screen; it is light or dark \
                  as the browser is. Objects in trouble are explained as `hotshoe explain` does, without a value of an object. \
                  A component that waits for an approval is compared as `hotshoe shadow` does, with the values that would \
                  change, but none of a Secret; --no-diff leaves that out.")]
pub struct Args {
    /// Do not compare components that wait for an approval, so that the page has no value of an object
    #[arg(long)]
    no_diff: bool,
    #[command(flatten)]
    host: HostOptions,
}

impl Args {
    /// Asks the host, and prints the page.
    ///
    /// # Errors
    /// When no host answers.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        terminal::print(super::runtime()?.block_on(self.page())?)?;
        Ok(ExitCode::SUCCESS)
    }

    async fn page(&self) -> anyhow::Result<String> {
        let status: HostStatus = read(&self.host.get("/status").await?)?;
        let mut plugins = Vec::new();
        for plugin in &status.plugins {
            let history = read(&self.host.get(&AdminVerb::History.path(&plugin.name, None)).await?)?;
            let trouble = read(&self.host.get(&AdminVerb::Trouble.path(&plugin.name, None)).await?)?;
            plugins.push(Plugin::of(plugin, &history, trouble, self.compared(plugin).await));
        }
        render(&Page::of(&status, plugins))
    }

    /// Returns what the component that waits would change; `None` if none waits, or it is not wanted.
    async fn compared(&self, plugin: &PluginStatus) -> Option<Compared> {
        let waits = plugin.refused.as_ref().is_some_and(RefusedComponent::can_be_approved);
        if !waits || self.no_diff {
            return None;
        }
        // What cannot be compared now must not keep the rest of the page back.
        Some(match shadow::of_waiting(&self.host, &plugin.name, MAX_COMPARED).await {
            Ok(text) => Compared::of(&text),
            Err(why) => Compared { failure: Some(shown(&format!("{why:#}"))), ..Compared::default() },
        })
    }
}

/// What is put into the template.
#[derive(Debug, Serialize)]
struct Page {
    context: String,
    version: String,
    at: String,
    ready: bool,
    unknown: Option<String>,
    leases: Vec<String>,
    plugins: Vec<Plugin>,
}

#[derive(Debug, Serialize)]
struct Plugin {
    name: String,
    ready: bool,
    digest: String,
    version: String,
    parents: usize,
    errors: usize,
    notes: Vec<String>,
    pending: Option<Pending>,
    trouble: Vec<Object>,
    more_trouble: usize,
    history: Vec<Event>,
}

#[derive(Debug, Serialize)]
struct Pending {
    digest: String,
    reason: String,
    message: String,
    can_be_approved: bool,
    compared: Option<Compared>,
}

/// What a component would change.
#[derive(Debug, Default, Serialize)]
struct Compared {
    lines: Vec<Compare>,
    more: usize,
    failure: Option<String>,
}

#[derive(Debug, Serialize)]
struct Compare {
    class: &'static str,
    text: String,
}

#[derive(Debug, Serialize)]
struct Object {
    name: String,
    next: Vec<String>,
    decisions: Vec<Decision>,
}

#[derive(Debug, Serialize)]
struct Decision {
    at: String,
    by: String,
    parts: Vec<Part>,
}

#[derive(Debug, Serialize)]
struct Part {
    title: &'static str,
    lines: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Event {
    at: String,
    digest: String,
    version: String,
    event: String,
    message: String,
}

impl Page {
    fn of(status: &HostStatus, plugins: Vec<Plugin>) -> Self {
        Self {
            context: shown(&status.context),
            version: shown(&status.version),
            at: time::now(),
            ready: status.ready,
            unknown: status.unknown.as_deref().map(shown),
            leases: status.leases.iter().map(|lease| shown(&status::lease_line(lease))).collect(),
            plugins,
        }
    }
}

impl Plugin {
    fn of(
        status: &PluginStatus,
        history: &PluginHistory,
        trouble: Vec<Explanation>,
        compared: Option<Compared>,
    ) -> Self {
        let errors = status.trouble.failing + status.trouble.refused;
        Self {
            name: shown(&status.name),
            ready: status.ready,
            digest: status::or_dash(status.digest),
            version: status.version.as_deref().map(shown).unwrap_or_default(),
            parents: status.parents,
            errors,
            notes: status
                .waiting
                .iter()
                .map(|why| shown(why))
                .chain(status::notes(status).iter().map(|note| shown(note)))
                .collect(),
            pending: status.refused.as_ref().map(|refused| Pending {
                digest: status::or_dash(refused.digest),
                reason: refused.reason.to_string(),
                message: shown(&refused.message),
                can_be_approved: refused.can_be_approved(),
                compared,
            }),
            more_trouble: errors.saturating_sub(trouble.len()),
            trouble: trouble.iter().map(Object::of).collect(),
            history: history.entries.iter().rev().take(MAX_ENTRIES).map(Event::of).collect(),
        }
    }
}

impl Compared {
    fn of(text: &str) -> Self {
        let lines = text.trim_end().lines();
        let class = |line: &str| match line.trim_start().get(..2) {
            Some("+ ") => "good",
            Some("- ") => "bad",
            Some("~ ") => "wait",
            _ => "",
        };
        let shown = lines.clone().take(MAX_LINES).map(|line| Compare { class: class(line), text: shown(line) });
        Self { lines: shown.collect(), more: lines.count().saturating_sub(MAX_LINES), failure: None }
    }
}

impl Object {
    fn of(explained: &Explanation) -> Self {
        let decisions = explained.decisions.iter().rev().map(Decision::of).collect();
        Self { name: shown(&explained.object), next: explain::next(&explained.now), decisions }
    }
}

impl Decision {
    fn of(decided: &Decided) -> Self {
        let parts = explain::story(decided).into_iter().filter(|(_, lines)| !lines.is_empty());
        Self {
            at: shown(&decided.at),
            by: explain::decider(&decided.by),
            parts: parts.map(|(title, lines)| Part { title, lines }).collect(),
        }
    }
}

impl Event {
    fn of(entry: &Entry) -> Self {
        Self {
            at: time::at(entry.at).unwrap_or_default(),
            digest: entry.digest.to_string(),
            version: shown(&entry.version),
            event: format!("{:?}", entry.event),
            message: shown(&entry.message),
        }
    }
}

/// Returns a text as it may be shown: users and plugins choose names. The template escapes it for HTML.
fn shown(text: &str) -> String {
    clean(text.to_owned(), MAX_TEXT_BYTES)
}

fn render(page: &Page) -> anyhow::Result<String> {
    let (name, template) = TEMPLATE;
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    let render = environment.render_named_str(name, template, Serde(page));
    render.context("the template of the report cannot be used; that is a defect of this program")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A text that would end an element, begin a script, and turn around what follows.
    const EVIL: &str =
        "\"'></title></style><script>alert(1)</script><img src=x onerror=alert(1)>{{ 7*7 }}\u{202e}\u{1b}[2J";

    fn page(status: &Value, history: &Value, trouble: &Value) -> String {
        let status: HostStatus = read(status).unwrap();
        let compared =
            status.plugins[0].refused.as_ref().map(|refused| Compared::of(&format!("{}\n", refused.message)));
        let plugin = Plugin::of(&status.plugins[0], &read(history).unwrap(), read(trouble).unwrap(), compared);
        render(&Page::of(&status, vec![plugin])).unwrap()
    }

    fn host(text: &str) -> Value {
        let digest = "ab".repeat(32);
        json!({
            "version": text, "context": text, "ready": false, "unknown": text,
            "leases": [{ "name": text, "held": false, "holder": text, "seconds": 9, "unusable": false }],
            "plugins": [{
                "name": text, "source": text, "pluginFile": { "file": text, "refused": text }, "ready": false, "waiting": text,
                "digest": digest, "version": text, "parents": 30, "trouble": { "failing": 1, "refused": 1 },
                "refused": { "digest": digest, "reason": "ApprovalRequired", "message": text },
                "queued": 0, "running": 0, "breaker": { "state": "closed", "strikes": 0 }, "watches": [],
            }],
        })
    }

    fn page_of(text: &str) -> String {
        let by = json!({ "digest": "ab".repeat(32), "version": text });
        let note = json!({ "what": "changed", "object": text, "fields": [text] });
        let decided = json!({
            "at": text, "by": by, "because": [note], "wrote": [note], "ended": "failed", "reason": text, "about": [text],
        });
        let held = json!({ "what": "backOff", "message": text, "until": text, "seconds": 3 });
        let trouble =
            json!([{ "plugin": text, "object": text, "revision": by, "decisions": [decided], "now": [held] }]);
        let entry =
            json!({ "digest": "ab".repeat(32), "version": text, "at": 1, "event": "Activated", "message": text });
        page(&host(text), &json!({ "current": null, "entries": [entry] }), &trouble)
    }

    /// The tags of a page, without what is in their quotes.
    fn tags(page: &str) -> Vec<String> {
        let tag = |rest: &str| {
            rest.split_once('>').map(|(tag, _)| tag.split([' ', '\n']).next().unwrap_or_default().to_owned())
        };
        page.split('<').skip(1).filter_map(tag).collect()
    }

    #[test]
    fn the_page_has_the_same_elements_whatever_others_have_named_things() {
        let (tame, evil) = (page_of("tame"), page_of(EVIL));
        assert_eq!(tags(&tame), tags(&evil));
        for forbidden in ["<script", "<img", "onerror=alert(1)>", "\u{202e}", "\u{1b}", ">49"] {
            assert!(!evil.contains(forbidden), "{forbidden:?} in {evil}");
        }
        assert!(evil.contains("&lt;script&gt;alert(1)&lt;") && evil.contains("{{ 7*7 }}"), "{evil}");
    }

    #[test]
    fn every_element_of_the_page_is_closed_and_it_needs_no_other_file() {
        let (page, mut open) = (page_of(EVIL), Vec::new());
        for tag in tags(&page) {
            match tag.strip_prefix('/') {
                Some(closed) => assert_eq!(open.pop().as_deref(), Some(closed), "{open:?}"),
                None if ["!doctype", "meta", "br"].contains(&&*tag) => {}
                None => open.push(tag),
            }
        }
        assert!(open.is_empty(), "{open:?}");
        for word in ["http:", "https:", "url(", "@import", "<link", "<script", " src=", " href=", "<iframe"] {
            assert!(!page_of("tame").contains(word), "{word}");
        }
        assert!(page.contains("default-src 'none'") && page.contains("prefers-color-scheme: dark"), "{page}");
    }

    #[test]
    fn what_would_change_is_shown_line_by_line_up_to_a_limit() {
        let compared =
            Compared::of("1: 1 would change\n\nDemo n/a\n  + Service n/b\n  - Pod n/c\n    ~ spec.a: 1 -> 2\n\n");
        let lines: Vec<_> = compared.lines.iter().map(|line| (line.class, &*line.text)).collect();
        assert_eq!(
            lines[2..],
            [("", "Demo n/a"), ("good", "  + Service n/b"), ("bad", "  - Pod n/c"), ("wait", "    ~ spec.a: 1 -> 2")]
        );
        let compared = Compared::of(&"  + a\n".repeat(MAX_LINES + 7));
        assert_eq!((compared.lines.len(), compared.more), (MAX_LINES, 7));
        let long = Compared::of(&format!("  + {}", "a".repeat(2 * MAX_TEXT_BYTES)));
        assert!(long.lines[0].text.len() < MAX_TEXT_BYTES + 100, "{}", long.lines[0].text.len());
    }

    #[test]
    fn the_page_says_what_waits_who_is_in_trouble_and_why_and_what_has_happened() {
        let page = page_of("tame");
        for words in [
            "Waits for an approval: <code>abababababab</code>",
            "hotshoe approve tame",
            "30 objects, 2 of them in trouble",
            "1 more objects are in trouble",
            "tame, until tame (in 3 s)",
            "<dt>because</dt>\n<dd>tame has changed: tame</dd>",
            "<td>Activated</td>",
            "1970-01-01T00:00:01Z",
        ] {
            assert!(page.contains(words), "{words:?} in {page}");
        }
        let mut empty = host("tame");
        empty["plugins"][0]["refused"] = Value::Null;
        let page = self::page(&empty, &json!({ "current": null, "entries": [] }), &json!([]));
        assert!(page.contains("nothing yet") && !page.contains("Waits for"), "{page}");
    }
}
