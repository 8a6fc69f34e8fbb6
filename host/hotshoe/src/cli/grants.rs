//! `hotshoe grants`: compares what plugins ask for with what they are granted.

use std::process::ExitCode;

use serde::Serialize;

use crate::cli::terminal::Output;
use crate::cli::{inspect, project};
use hotshoe_core::check::access_request::Verb;
use hotshoe_core::check::denied;
use hotshoe_core::check::grant;
use hotshoe_core::check::grant::{Grant, Keyword, Namespaces};
use hotshoe_core::check::reach::{self, IsNamespaced};
use hotshoe_core::model::decision::Descriptor;
use hotshoe_core::model::kind::Kind;
use hotshoe_operator::config::{HOST_NAMESPACE, PluginConfig};

/// Show what plugins ask for beside what plugin.yaml grants them
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    hotshoe grants                     # of all plugins here\n  \
    hotshoe grants plugins/memcached -o json\n\n\
    Below the table are the rules that are missing, ready to be pasted into plugin.yaml.\n\n\
    Exit code: 0 when all that is asked for is granted, 1 otherwise.")]
pub struct Args {
    #[command(flatten)]
    inspected: inspect::Inspected,
    /// The namespace of the host, which is denied to plugins
    #[arg(short, long, default_value = HOST_NAMESPACE, env = "HOTSHOE_SERVICE_ACCOUNT_NAMESPACE")]
    namespace: String,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// One verb on one kind, or the kind of the parents.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Line {
    plugin: String,
    kind: String,
    verb: &'static str,
    asked: bool,
    given: bool,
    note: String,
}

impl Args {
    /// Loads the plugins and prints the comparison.
    ///
    /// # Errors
    /// When a plugin cannot be loaded.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let plugins = project::named_or_all(&self.inspected.plugins)?;
        let plugins = inspect::load(&inspect::Inspected { plugins, ..self.inspected }, &self.namespace).await?;
        let of_plugin = |loaded: &inspect::LoadedPlugin| {
            let (config, descriptor) = (&loaded.config, loaded.revision.descriptor());
            let is_shown = loaded.revision.validates() || loaded.revision.defaults();
            let asked = std::iter::once(parent(config, descriptor)).chain(finalizer(config, descriptor));
            let is_namespaced = |kind: &Kind| Some(loaded.files.is_namespaced(kind));
            asked.chain(user(config, descriptor, is_shown)).chain(compare(
                &config.name,
                &config.grant,
                descriptor,
                &is_namespaced,
            ))
        };
        let lines: Vec<Line> = plugins.iter().flat_map(of_plugin).collect();
        let missing = plugins.iter().filter_map(inspect::LoadedPlugin::missing);
        self.output.print(&lines, || Ok(table(&lines) + &missing.collect::<String>()))?;
        let satisfied = lines.iter().all(|line| line.given || !line.asked);
        Ok(if satisfied { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

const VERBS: [Verb; 6] = [Verb::Get, Verb::List, Verb::Watch, Verb::Create, Verb::Update, Verb::Delete];

/// Returns the line that compares the kind of parents that a plugin asks for with the one that it is granted.
fn parent(config: &PluginConfig, descriptor: &Descriptor) -> Line {
    let lacking = config.parent_lacking(&descriptor.parent);
    let note = match (&config.parent, &lacking) {
        (Some(given), Some(_)) => format!("missing: spec.parent names {given}"),
        (None, Some(_)) => "missing: name it in spec.parent".to_owned(),
        (None, None) => "not named in spec.parent; it may be any custom kind of no other plugin".to_owned(),
        (Some(_), None) => String::new(),
    };
    let (plugin, kind) = (config.name.to_string(), descriptor.parent.to_string());
    Line { plugin, kind, verb: "parent", asked: true, given: lacking.is_none(), note }
}

/// Returns the line of the finalizer that a plugin asks for, if it asks for one.
fn finalizer(config: &PluginConfig, descriptor: &Descriptor) -> Option<Line> {
    let finalizer = descriptor.finalizer.as_deref()?;
    let lacking = config.finalizer_lacking(descriptor);
    let given = lacking.is_none();
    let note = lacking.map_or_else(|| finalizer.to_owned(), |lacking| format!("missing: {lacking}"));
    let (plugin, kind) = (config.name.to_string(), descriptor.parent.to_string());
    Some(Line { plugin, kind, verb: "finalizer", asked: true, given, note })
}

/// Returns the line of who writes a parent, if plugin.yaml has that shown. The contract has no way to ask for it: what has code
/// for admission may use it.
fn user(config: &PluginConfig, descriptor: &Descriptor, asked: bool) -> Option<Line> {
    let note = if asked { "who writes a parent, for validate and default" } else { "unused" };
    let (plugin, kind) = (config.name.to_string(), descriptor.parent.to_string());
    config.shows_user.then(|| Line { plugin, kind, verb: "user", asked, given: true, note: note.to_owned() })
}

fn compare(plugin: &str, grant: &Grant, descriptor: &Descriptor, is_namespaced: &IsNamespaced<'_>) -> Vec<Line> {
    let asked = grant::asked(descriptor);
    let mut kinds: Vec<(Kind, Vec<Verb>)> = asked;
    for rule in &grant.rules {
        if !kinds.iter().any(|(kind, _)| kind.is(&rule.group, &rule.kind)) {
            kinds.push((Kind::new(&rule.group, "", &rule.kind), Vec::new()));
        }
    }
    let mut lines = Vec::new();
    for (kind, verbs) in &kinds {
        let is_beyond_own = reach::is_beyond_own(&descriptor.parent, kind, is_namespaced);
        for verb in VERBS {
            let (asked, named) = (verbs.contains(&verb), grant.rules.iter().any(|rule| rule.is_for(verb, kind)));
            if asked || named {
                let given = grant.allows_somewhere(verb, kind, is_beyond_own);
                let note = note(grant, verb, kind, asked, given);
                let (plugin, kind, verb) = (plugin.to_owned(), kind.to_string(), verb.as_str());
                lines.push(Line { plugin, kind, verb, asked, given, note });
            }
        }
    }
    lines
}

fn note(grant: &Grant, verb: Verb, kind: &Kind, asked: bool, given: bool) -> String {
    if let Some((_, why)) = denied::reason(kind) {
        return format!("never: {why}");
    }
    if !verb.reads() && denied::is_read_only(kind) {
        return "never: no plugin may write this kind".to_owned();
    }
    let rules: Vec<_> = grant.rules.iter().filter(|rule| rule.is_for(verb, kind)).collect();
    let mut notes = Vec::new();
    let may_open = rules.iter().any(|rule| rule.can_grant(verb));
    match (asked, given) {
        (_, false) if may_open && rules.iter().all(|rule| grant.is_closed(rule)) => {
            notes.push("missing: the namespace of the host is denied to plugins".to_owned());
        }
        (_, false) if may_open => notes.push("missing: the parents are in no namespace; add `namespaces`".to_owned()),
        (_, false) if !rules.is_empty() => notes.push("missing: Secrets are read by name only; add `names`".to_owned()),
        (_, false) => notes.push("missing: add it to spec.grants".to_owned()),
        (false, true) if verb == Verb::Get => notes.push("not asked for; used for what a decision `needs`".to_owned()),
        // The children that a plugin no longer desires are pruned, whether it asks for the verb or not.
        (false, true) if verb == Verb::Delete => notes.push("not asked for; used to prune children".to_owned()),
        (false, true) => notes.push("unused".to_owned()),
        (true, true) => {}
    }
    for rule in rules {
        if rule.namespaces != Namespaces::Keyword(Keyword::Own) {
            notes.push(format!("in {}", rule.namespaces));
        }
        if !rule.names.is_empty() {
            notes.push(format!("named {}", rule.names.join(", ")));
        }
    }
    notes.join("; ")
}

fn table(lines: &[Line]) -> String {
    let yes = |holds: bool| if holds { "yes" } else { "no" };
    let rows = lines
        .iter()
        .map(|line| [line.plugin.as_str(), &line.kind, line.verb, yes(line.asked), yes(line.given), &line.note]);
    let rows: Vec<[&str; 6]> =
        std::iter::once(["PLUGIN", "KIND", "VERB", "ASKED", "GIVEN", "NOTE"]).chain(rows).collect();
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..5).map(width).collect();
    let line = |row: &[&str; 6]| {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let width = widths.get(column).copied().unwrap_or(0);
            format!("{cell:<width$}")
        });
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use hotshoe_core::model::decision::{MatchRule, OwnedKind, ReadKind, WriteVerb};

    fn descriptor() -> Descriptor {
        let read = |key: &str, kind: &str| ReadKind {
            key: key.into(),
            kind: Kind::new("", "v1", kind),
            selector: String::new(),
            rule: MatchRule::ParentLabel("l".into()),
            fields: Vec::new(),
        };
        Descriptor {
            name: "d".into(),
            version: "1".into(),
            parent: Kind::new("c.example.com", "v1", "Memcached"),
            owns: vec![OwnedKind {
                kind: Kind::new("apps", "v1", "Deployment"),
                verbs: vec![WriteVerb::Create],
                fields: Vec::new(),
            }],
            reads: vec![read("pods", "Pod"), read("secrets", "Secret")],
            ..Descriptor::default()
        }
    }

    fn grant(rules: serde_json::Value) -> Grant {
        Grant {
            rules: serde_json::from_value(rules).unwrap(),
            prune_all: false,
            finalize: Vec::new(),
            parent_metadata: Default::default(),
            host_namespace: "host".into(),
        }
    }

    #[test]
    fn a_grant_for_the_closed_namespace_alone_grants_nothing() {
        let named = |names: &[&str]| {
            let verbs = json!(["get", "list", "watch"]);
            let rule = json!({ "kind": "Pod", "verbs": verbs, "namespaces": names });
            let lines = compare("demo", &grant(json!([rule])), &descriptor(), &|_| Some(true));
            let pod = lines.into_iter().find(|line| line.kind == "Pod").unwrap();
            (pod.given, pod.note)
        };
        let missing = "missing: the namespace of the host is denied to plugins; in namespaces host";
        assert_eq!(named(&["host"]), (false, missing.to_owned()));
        assert_eq!(named(&["host", "a"]), (true, "in namespaces host, a".to_owned()));
    }

    #[test]
    fn asked_and_granted_are_printed_side_by_side() {
        let grant = grant(json!([
            { "group": "apps", "kind": "Deployment", "verbs": ["get", "list", "watch", "create", "update", "delete"] },
            { "kind": "Secret", "verbs": ["get", "list"] },
            { "kind": "ConfigMap", "verbs": ["get"], "namespaces": ["a", "b"], "names": ["x"] },
            { "group": "rbac.authorization.k8s.io", "kind": "Role", "verbs": ["create"] },
        ]));
        let text = table(&compare("demo", &grant, &descriptor(), &|_| Some(true)));
        let expected = "\
PLUGIN  KIND                            VERB    ASKED  GIVEN  NOTE
demo    Deployment.apps                 get     yes    yes
demo    Deployment.apps                 list    yes    yes
demo    Deployment.apps                 watch   yes    yes
demo    Deployment.apps                 create  yes    yes
demo    Deployment.apps                 update  no     yes    unused
demo    Deployment.apps                 delete  no     yes    not asked for; used to prune children
demo    Pod                             get     yes    no     missing: add it to spec.grants
demo    Pod                             list    yes    no     missing: add it to spec.grants
demo    Pod                             watch   yes    no     missing: add it to spec.grants
demo    Secret                          get     yes    no     missing: Secrets are read by name only; add `names`
demo    Secret                          list    yes    no     missing: Secrets are read by name only; add `names`
demo    Secret                          watch   yes    no     missing: add it to spec.grants
demo    ConfigMap                       get     no     yes    not asked for; used for what a decision `needs`; in namespaces a, b; named x
demo    Role.rbac.authorization.k8s.io  create  no     no     never: this kind is denied to plugins
";
        assert_eq!(text, expected);
    }
}
