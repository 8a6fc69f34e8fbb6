//! `hotshoe shadow`: shows what another component would change, before it is activated.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use serde_json::json;

use crate::cli::host_client::{HostOptions, UNEXPECTED_SHAPE};
use crate::cli::{project, target, terminal};
use crate::server::verb::AdminVerb;
use hotshoe_core::compare::finalizers::FinalizerChange;
use hotshoe_core::compare::json_diff::Field;
use hotshoe_core::compare::stored::{LOSE_FIELDS, StoredParents};
use hotshoe_core::compare::{Changed, Difference, Failed, Named};
use hotshoe_core::model::sanitize::clean;
use hotshoe_operator::api::shadow::Line;
use hotshoe_operator::api::shadow::Summary;
use hotshoe_operator::api::status::RefusedComponent;

/// The exit code if something would change.
const EXIT_CHANGES: u8 = 3;
/// The exit code if the new revision fails where the present one does not, or is too slow to be asked about all
/// parents.
const EXIT_FAILURES: u8 = 4;
/// The maximum length of one text that a plugin chose, in bytes, as it is printed.
const MAX_TEXT_BYTES: usize = 4096;

/// Show what a component would change, and change nothing
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    hotshoe build plugins/memcached --out new.wasm\n  \
    hotshoe shadow memcached new.wasm\n\n\
    The running host asks the component and the active one about every object, compares their answers, and writes \
    nothing. For a host in a cluster, run the command in its Pod: \
    kubectl exec -i -n hotshoe-system deployment/hotshoe -- /hotshoe shadow memcached - <new.wasm\n\n\
    Exit codes: 0 nothing would change, 3 something would, 4 the component fails where the active one does not, \
    or takes so long that the run was ended before its end, 1 an error, 2 wrong usage.")]
pub struct Args {
    /// Which plugin
    #[arg(value_parser = target::plugin_name)]
    plugin: String,
    /// The component; `-` reads it from standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// How many objects, and how many failures, to show; 0 for all
    #[arg(long, default_value_t = 20, value_name = "N")]
    show: usize,
    /// How to print: one document, or one a line as they come
    #[arg(short, long)]
    output: Option<Output>,
    #[command(flatten)]
    host: HostOptions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    Json,
    Jsonl,
}

/// The part of the host's answer that will be printed.
#[derive(Default)]
struct Received {
    changes: Vec<Difference>,
    failures: Vec<Difference>,
    summary: Option<Summary>,
}

impl Args {
    /// Has the host compare the component with the active one, and prints the differences.
    ///
    /// # Errors
    /// When the file cannot be read, no host answers, or it cannot run the component.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let component = self
            .component()
            .map_err(|error| anyhow::anyhow!("{error:#}; build it with `hotshoe build`, or name another file"))?;
        let received = super::runtime()?.block_on(self.ask(component))?;
        let summary = received.summary.as_ref().context(
            "the host's answer ended before the summary: the host may have been stopped, its log says more. Try again",
        )?;
        match self.output {
            None => {
                terminal::print(Page::new(terminal::is_coloured(&std::io::stdout())).of(summary, &received, self.show))?
            }
            Some(Output::Json) => {
                let parents: Vec<_> = received.changes.iter().chain(&received.failures).collect();
                terminal::line(serde_json::to_string_pretty(&json!({ "summary": summary, "parents": parents }))?)?;
            }
            Some(Output::Jsonl) => {}
        }
        Ok(ExitCode::from(exit_code(summary)))
    }

    fn component(&self) -> anyhow::Result<Vec<u8>> {
        let from_input = self.file.as_os_str() == "-";
        if from_input { project::read_from(std::io::stdin().lock()) } else { project::read(&self.file) }
    }

    async fn ask(&self, component: Vec<u8>) -> anyhow::Result<Received> {
        let mut received = Received::default();
        let path = format!("{}?progress=true", AdminVerb::Shadow.path(&self.plugin, None));
        let mut progress = Progress::default();
        self.host
            .post_lines(&path, component, |line| {
                let line: Line = serde_json::from_str(line).context(UNEXPECTED_SHAPE)?;
                progress.show(&line);
                self.receive(line, &mut received)
            })
            .await?;
        Ok(received)
    }

    /// Prints a line of the answer, or keeps as much of it as will be printed.
    fn receive(&self, line: Line, received: &mut Received) -> anyhow::Result<()> {
        if self.output == Some(Output::Jsonl) && !matches!(line, Line::Progress { .. }) {
            terminal::line(serde_json::to_string(&line)?)?;
        }
        let most = match self.output {
            None if self.show > 0 => self.show,
            None | Some(Output::Json) => usize::MAX,
            Some(Output::Jsonl) => 0,
        };
        received.add(line, most);
        Ok(())
    }
}

impl Received {
    /// Adds a line, but for objects beyond these many.
    fn add(&mut self, line: Line, most: usize) {
        match line {
            Line::Progress { .. } => {}
            Line::Summary(summary) => self.summary = Some(*summary),
            Line::Parent(difference) => {
                let kept = if difference.breaks() { &mut self.failures } else { &mut self.changes };
                if kept.len() < most {
                    kept.push(*difference);
                }
            }
        }
    }
}

/// Has the host compare the component of a plugin that waits for an approval, and returns as text what it would change
/// for at most `show` objects.
///
/// # Errors
/// When no host answers, nothing waits, or the component cannot be run.
pub(super) async fn of_waiting(host: &HostOptions, plugin: &str, show: usize) -> anyhow::Result<String> {
    let (path, mut received) = (AdminVerb::Waiting.path(plugin, None), Received::default());
    host.post_lines(&format!("{path}?progress=true"), Vec::new(), |line| {
        received.add(serde_json::from_str(line).context(UNEXPECTED_SHAPE)?, show);
        Ok(())
    })
    .await?;
    let summary = received.summary.as_ref().context("the host's answer ended before the summary; try again")?;
    let mut page = Page::new(false);
    page.differences(summary, &received, show);
    page.ended(summary);
    Ok(page.text)
}

/// Returns the exit code, by which scripts decide.
fn exit_code(summary: &Summary) -> u8 {
    // A component that was not asked about all parents may fail on the others.
    if summary.counts.failures.new > 0 || summary.stopped.is_some() || summary.stored.fails() {
        return EXIT_FAILURES;
    }
    let finalizers = summary.finalizer.as_ref().is_some_and(FinalizerChange::touches_any);
    let changes = summary.counts.changed > 0 || finalizers || summary.stored.differs();
    if changes { EXIT_CHANGES } else { 0 }
}

/// A line on a terminal that shows the progress of the run.
#[derive(Default)]
struct Progress {
    shown: bool,
}

impl Progress {
    fn show(&mut self, line: &Line) {
        let mut terminal = std::io::stderr();
        if !terminal.is_terminal() {
            return;
        }
        // Errors are ignored: the terminal may be gone.
        match line {
            Line::Progress { parents, of } => {
                drop(write!(terminal, "\r{parents} of {of} objects"));
                self.shown = true;
            }
            Line::Summary(_) if self.shown => drop(write!(terminal, "\r\x1b[K")),
            Line::Summary(_) | Line::Parent(_) => {}
        }
    }
}

/// The result of a run as text.
struct Page {
    text: String,
    colours: bool,
}

/// What would happen to an object or field.
#[derive(Clone, Copy)]
enum Change {
    Created,
    Deleted,
    Changed,
}

impl Change {
    /// Returns its sign, and its colour as a code of ANSI.
    fn sign(self) -> (char, &'static str) {
        match self {
            Self::Created => ('+', "32"),
            Self::Deleted => ('-', "31"),
            Self::Changed => ('~', "33"),
        }
    }
}

impl Page {
    fn new(colours: bool) -> Self {
        Self { text: String::new(), colours }
    }

    fn of(mut self, summary: &Summary, received: &Received, show: usize) -> String {
        self.differences(summary, received, show);
        self.measured(summary);
        self.ended(summary);
        if let Some(RefusedComponent { reason, message, .. }) = &summary.refused {
            self.line(&format!(
                "\nA reload would not activate it: {reason}: {}",
                clean(message.clone(), MAX_TEXT_BYTES)
            ));
        }
        self.line("\nNothing was written.");
        self.text
    }

    fn differences(&mut self, summary: &Summary, received: &Received, show: usize) {
        self.counts(summary);
        received.changes.iter().for_each(|difference| self.difference(difference));
        let failing = summary.counts.failures.new;
        self.rest(summary.counts.changed, show, "change");
        if !received.failures.is_empty() {
            self.line("\nThe new revision fails, and the present one does not:");
            for difference in &received.failures {
                if let Some(failed) = &difference.new_failure {
                    self.line(&format!("  {}: {}", named(&difference.parent), why(failed)));
                }
            }
            self.rest(failing, show, "fail");
        }
    }

    fn ended(&mut self, summary: &Summary) {
        for why in summary.stopped.iter().chain(&summary.stored.stopped) {
            self.line(&format!("\nThe run was ended: {}", clean(why.clone(), MAX_TEXT_BYTES)));
        }
    }

    fn counts(&mut self, summary: &Summary) {
        let (counts, children, failures) = (&summary.counts, &summary.counts.children, &summary.counts.failures);
        let (old, new) = (&summary.old, &summary.new);
        let versions = (clean(old.version.clone(), MAX_TEXT_BYTES), clean(new.version.clone(), MAX_TEXT_BYTES));
        self.line(&format!(
            "{}: {} (version {}) in the shadow of {} (version {})",
            summary.plugin, new.digest, versions.1, old.digest, versions.0
        ));
        let failing = match failures.new {
            0 => String::new(),
            new => format!(" {new} would fail,"),
        };
        self.line(&format!(
            "  objects   {}: {} would change,{failing} {} not",
            counts.parents, counts.changed, counts.unchanged
        ));
        let losing = match counts.parents_losing_children {
            0 => String::new(),
            parents => format!(", in {parents} of {} objects", counts.parents),
        };
        self.line(&format!(
            "  children  {} created, {} changed, {} deleted{losing}",
            children.created, children.changed, children.deleted
        ));
        if children.left > 0 {
            self.line(&format!("            {} no longer wanted, and not deleted: that is not granted", children.left));
        }
        self.line(&format!("  status    {} would change", counts.status_changes));
        self.line(&format!(
            "  failures  {} new, {} of both revisions, {} fixed",
            failures.new, failures.both, failures.fixed
        ));
        summary.finalizer.iter().for_each(|change| self.finalizer(change));
        self.stored(&summary.stored);
    }

    /// Prints what becomes of the stored objects where the API server asks about them; nothing if that stays the same.
    fn stored(&mut self, stored: &StoredParents) {
        let affected = [
            ("would no longer be valid", &stored.no_longer_valid),
            ("would be valid again", &stored.valid_again),
            ("make the validation fail", &stored.not_validated),
            ("would get other defaults", &stored.filled_in_otherwise),
            (LOSE_FIELDS, &stored.losing_fields),
            ("would not be converted", &stored.not_converted),
        ];
        let (of, mut title) = (stored.objects, "stored");
        for (what, affected) in affected.into_iter().filter(|(_, affected)| affected.count > 0) {
            let places = clean(affected.places(), MAX_TEXT_BYTES);
            self.line(&format!("  {title:<9} {} of {of} {what}: {places}", affected.count));
            title = "";
        }
        if !stored.versions_given_up.is_empty() {
            let versions = clean(stored.versions_given_up.join(", "), MAX_TEXT_BYTES);
            self.line(&format!("  {title:<9} none could be read or written in {versions}: it does not convert"));
        }
    }

    fn finalizer(&mut self, change: &FinalizerChange) {
        let named =
            |finalizer: &Option<String>| clean(finalizer.clone().unwrap_or_else(|| "none".to_owned()), MAX_TEXT_BYTES);
        let (old, new) = (named(&change.old), named(&change.new));
        let FinalizerChange { added, kept, stranded, .. } = *change;
        let given = change.new.as_ref().map(|_| format!(": {added} objects would get it")).unwrap_or_default();
        self.line(&format!("  finalizer {old} -> {new}{given}"));
        let cleans_up = if change.new.is_some() { "after the new revision's clean-up" } else { "without clean-up" };
        if kept > 0 {
            self.line(&format!(
                "            {kept} would keep {old} until they are deleted; the host then removes it, {cleans_up}"
            ));
        }
        if stranded > 0 {
            self.line(&format!(
                "            {stranded} of the kind that is no longer served would keep {old}; \
                                nothing would remove it, and they could not be deleted"
            ));
        }
        if kept + stranded > 0 {
            self.line("            such a component requires `hotshoe approve`");
        }
    }

    fn difference(&mut self, difference: &Difference) {
        self.line(&format!("\n{}", named(&difference.parent)));
        for child in &difference.created {
            self.mark(1, Change::Created, &named(child));
        }
        for child in &difference.deleted {
            self.mark(1, Change::Deleted, &named(child));
        }
        for child in &difference.left {
            self.mark(1, Change::Changed, &format!("{} is no longer wanted, and stays", named(child)));
        }
        difference.changed.iter().for_each(|child| self.changed(child));
        difference.metadata.iter().for_each(|field| self.field(1, "metadata ", field));
        difference.status.iter().for_each(|field| self.field(1, "status ", field));
        difference.conditions.iter().for_each(|field| self.field(1, "condition ", field));
        difference.events.iter().for_each(|field| self.field(1, "Event ", field));
        difference.requeue.iter().chain(&difference.answer).for_each(|field| self.field(1, "", field));
        match (&difference.old_failure, &difference.new_failure) {
            (Some(old), Some(new)) => {
                self.mark(
                    1,
                    Change::Changed,
                    &format!("fails as before, for another reason: {}, and not: {}", why(new), why(old)),
                );
            }
            (Some(old), None) => self.mark(1, Change::Changed, &format!("no longer fails: {}", why(old))),
            (None, _) => {}
        }
    }

    fn changed(&mut self, child: &Changed) {
        self.mark(1, Change::Changed, &named(&child.object));
        child.fields.iter().for_each(|field| self.field(2, "", field));
        if child.more > 0 {
            self.line(&format!("    and {} more fields", child.more));
        }
    }

    fn field(&mut self, depth: usize, what: &str, field: &Field) {
        let path = clean(field.path.clone(), MAX_TEXT_BYTES);
        let value = |value: &String| clean(value.clone(), MAX_TEXT_BYTES);
        let (change, values) = match (&field.old, &field.new) {
            (None, Some(new)) => (Change::Created, value(new)),
            (Some(old), None) => (Change::Deleted, value(old)),
            (Some(old), Some(new)) if old == new => (Change::Changed, value(new)),
            (old, new) => {
                let (old, new) = (old.as_ref().map(value), new.as_ref().map(value));
                (Change::Changed, format!("{} -> {}", old.unwrap_or_default(), new.unwrap_or_default()))
            }
        };
        self.mark(depth, change, &format!("{what}{path}: {values}"));
    }

    fn mark(&mut self, depth: usize, change: Change, text: &str) {
        let ((sign, colour), indent) = (change.sign(), "  ".repeat(depth));
        match self.colours {
            true => self.line(&format!("{indent}\x1b[{colour}m{sign} {text}\x1b[0m")),
            false => self.line(&format!("{indent}{sign} {text}")),
        }
    }

    fn rest(&mut self, all: usize, show: usize, what: &str) {
        let rest = if show == 0 { 0 } else { all.saturating_sub(show) };
        if rest > 0 {
            let more = if rest == 1 { format!("object {what}s") } else { format!("objects {what}") };
            self.line(&format!("\n{rest} more {more}; `--show 0` shows them all"));
        }
    }

    fn measured(&mut self, summary: &Summary) {
        self.line(&format!(
            "\n{:<12}{:>8}{:>12}{:>12}{:>12}{:>12}",
            "per call", "calls", "half", "99 of 100", "longest", "memory"
        ));
        for (which, measured) in [("present", &summary.old), ("new", &summary.new)] {
            let millis = |micros: u32| format!("{:.3} ms", f64::from(micros) / 1e3);
            self.line(&format!(
                "{:<12}{:>8}{:>12}{:>12}{:>12}{:>12}",
                which,
                measured.calls,
                millis(measured.p50_micros),
                millis(measured.p99_micros),
                millis(measured.max_micros),
                format!("{:.1} MB", measured.memory_bytes as f64 / 1e6),
            ));
        }
        self.line(&format!("The run took {:.3} s.", summary.seconds));
    }

    fn line(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }
}

/// Returns the name of an object for a terminal. A plugin chooses the names of kinds and children, so they may contain
/// escape sequences.
fn named(named: &Named) -> String {
    let name = match &named.namespace {
        Some(namespace) => format!("{} {namespace}/{}", named.kind, named.name),
        None => format!("{} {}", named.kind, named.name),
    };
    clean(name, MAX_TEXT_BYTES)
}

fn why(failed: &Failed) -> String {
    clean(format!("{}: {}", failed.reason, failed.message), MAX_TEXT_BYTES)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn summary(changed: usize, failing: usize) -> Summary {
        let measured = json!({
            "digest": "0123456789abcdef".repeat(4), "version": "1", "calls": 3,
            "p50Micros": 80, "p99Micros": 900, "maxMicros": 1234, "memoryBytes": 1_100_000,
        });
        serde_json::from_value(json!({
            "plugin": "demo", "parents": 9, "unchanged": 9 - changed - failing, "changed": changed,
            "children": { "created": 1, "changed": 1, "deleted": 1, "left": 0 },
            "parentsLosingChildren": 1, "statusChanges": 1,
            "failures": { "new": failing, "both": 0, "fixed": 0 },
            "old": measured, "new": measured, "seconds": 0.5, "stopped": null,
        }))
        .unwrap()
    }

    fn difference(more: Value) -> Difference {
        let mut value = json!({ "parent": { "kind": "Demo.example.com", "namespace": "n", "name": "a" } });
        value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(value).unwrap()
    }

    fn page(changes: Vec<Difference>, failures: Vec<Difference>, show: usize, colours: bool) -> String {
        let (changed, failing) = (changes.len(), failures.len());
        let shown = |mut all: Vec<Difference>| {
            all.truncate(if show == 0 { usize::MAX } else { show });
            all
        };
        let received = Received { changes: shown(changes), failures: shown(failures), summary: None };
        Page::new(colours).of(&summary(changed, failing), &received, show)
    }

    #[test]
    fn the_exit_code_distinguishes_no_change_changes_and_failures() {
        assert_eq!(
            [(0, 0), (2, 0), (2, 1), (0, 1)].map(|(changed, failing)| exit_code(&summary(changed, failing))),
            [0, 3, 4, 4]
        );
    }

    fn with_finalizer(old: Option<&str>, new: Option<&str>, [added, kept, stranded]: [usize; 3]) -> Summary {
        let (old, new) = (old.map(str::to_owned), new.map(str::to_owned));
        Summary { finalizer: Some(FinalizerChange { old, new, added, kept, stranded }), ..summary(0, 0) }
    }

    #[test]
    fn another_finalizer_is_a_change_if_an_object_would_get_or_keep_one() {
        let (a, b) = (Some("e.com/a"), Some("e.com/b"));
        for (numbers, code) in
            [([0, 0, 0], 0), ([1, 0, 0], EXIT_CHANGES), ([0, 1, 0], EXIT_CHANGES), ([0, 0, 1], EXIT_CHANGES)]
        {
            assert_eq!(exit_code(&with_finalizer(a, b, numbers)), code, "{numbers:?}");
        }
        let page = |summary: Summary| Page::new(false).of(&summary, &Received::default(), 20);
        let exchanged = page(with_finalizer(a, b, [4, 5, 0]));
        for words in
            ["  finalizer e.com/a -> e.com/b: 4 objects would get it\n", "5 would keep e.com/a until", "approve"]
        {
            assert!(exchanged.contains(words), "{words:?} in {exchanged}");
        }
        let dropped = page(with_finalizer(a, None, [0, 5, 0]));
        assert!(dropped.contains("e.com/a -> none\n") && dropped.contains("without clean-up"), "{dropped}");
        let begun = page(with_finalizer(None, b, [9, 0, 0]));
        assert!(begun.contains("none -> e.com/b: 9 objects would get it\n") && !begun.contains("keep"), "{begun}");
        assert!(page(with_finalizer(a, b, [0, 0, 5])).contains("could not be deleted"));
        assert!(!page(summary(0, 0)).contains("finalizer"));
    }

    #[test]
    fn what_becomes_of_stored_objects_is_counted_and_the_first_are_named() {
        let with = |change: fn(&mut StoredParents)| {
            let mut stored = StoredParents { objects: 200, looked_at: 200, ..StoredParents::default() };
            change(&mut stored);
            Summary { stored, ..summary(0, 0) }
        };
        let page = |summary: &Summary| Page::new(false).of(summary, &Received::default(), 20);
        assert!(!page(&with(|_| {})).contains("stored"));
        let changed = with(|stored| {
            stored.no_longer_valid.note("shop/a", ["spec.size".to_owned()]);
            stored.filled_in_otherwise.note("shop/b", ["spec.\u{1b}[2Jmode".to_owned()]);
        });
        let text = page(&changed);
        let lines = [
            "  stored    1 of 200 would no longer be valid: shop/a (spec.size)\n",
            "            1 of 200 would get other defaults: shop/b (spec.",
        ];
        assert!(lines.iter().all(|line| text.contains(line)) && !text.contains('\u{1b}'), "{text}");
        assert_eq!(exit_code(&changed), EXIT_CHANGES);
        let failing = with(|stored| stored.versions_given_up = vec!["v1beta1".to_owned()]);
        assert!(page(&failing).contains("none could be read or written in v1beta1"));
        assert_eq!(exit_code(&failing), EXIT_FAILURES);
        let ended = with(|stored| stored.stopped = Some("forbidden".to_owned()));
        assert!(page(&ended).contains("The run was ended: forbidden"));
        assert_eq!(exit_code(&ended), EXIT_FAILURES);
    }

    #[test]
    fn a_run_that_was_ended_early_counts_as_a_failure() {
        let ended = Summary { stopped: Some("only 20 of 50 were looked at".to_owned()), ..summary(0, 0) };
        assert_eq!(exit_code(&ended), EXIT_FAILURES);
        let page = Page::new(false).of(&ended, &Received::default(), 20);
        assert!(page.contains("The run was ended: only 20 of 50"), "{page}");
    }

    #[test]
    fn a_page_has_counts_first_then_objects_then_failures_then_times() {
        let change = difference(json!({
            "created": [{ "kind": "Service", "namespace": "n", "name": "new" }],
            "deleted": [{ "kind": "Service", "namespace": "n", "name": "old" }],
            "changed": [{ "object": { "kind": "Deployment.apps", "namespace": "n", "name": "a" }, "more": 2,
                "fields": [{ "path": "spec.replicas", "old": "1", "new": "3" }, { "path": "spec.paused", "old": "true" }] }],
            "conditions": [{ "path": "Ready.message", "old": "\"x\"", "new": "\"y\"" }],
            "requeue": { "path": "requeue", "new": "5s" },
        }));
        let failure = difference(json!({ "newFailure": { "reason": "Trapped", "message": "it trapped" } }));
        let page = page(vec![change], vec![failure], 20, false);
        let expected = [
            "  objects   9: 1 would change, 1 would fail, 7 not",
            "  children  1 created, 1 changed, 1 deleted, in 1 of 9 objects",
            "Demo.example.com n/a",
            "  + Service n/new",
            "  - Service n/old",
            "  ~ Deployment.apps n/a",
            "    ~ spec.replicas: 1 -> 3",
            "    - spec.paused: true",
            "    and 2 more fields",
            "  ~ condition Ready.message: \"x\" -> \"y\"",
            "  + requeue: 5s",
            "The new revision fails, and the present one does not:",
            "  Demo.example.com n/a: Trapped: it trapped",
            "new                3    0.080 ms    0.900 ms    1.234 ms      1.1 MB",
            "The run took 0.500 s.",
            "Nothing was written.",
        ];
        let mut rest = page.as_str();
        for line in expected {
            let (_, after) = rest.split_once(&format!("{line}\n")).unwrap_or_else(|| panic!("no {line:?} in\n{rest}"));
            rest = after;
        }
        assert!(!page.contains('\x1b'));
    }

    #[test]
    fn a_limited_number_of_objects_is_shown_and_the_rest_is_counted() {
        let changes = || vec![difference(json!({ "requeue": { "path": "requeue", "new": "5s" } })); 5];
        assert!(page(changes(), Vec::new(), 2, false).contains("3 more objects change; `--show 0`"));
        assert!(!page(changes(), Vec::new(), 0, false).contains("more objects"));
        assert!(!page(changes(), Vec::new(), 5, false).contains("more objects"));
    }

    #[test]
    fn text_of_a_plugin_is_sanitized_for_the_terminal() {
        let change = difference(json!({ "status": [{ "path": "a\u{1b}[2J", "new": "\"\u{202e}evil\u{9b}\"" }] }));
        let page = page(vec![change], Vec::new(), 20, true);
        assert!(!page.contains("\x1b[2J") && !page.contains('\u{202e}') && !page.contains('\u{9b}'), "{page:?}");
        assert!(page.contains("\x1b[32m+ status a: \"evil\"\x1b[0m"), "{page:?}");
    }
}
