//! The lines that `plugin.yaml` lacks for what a component asks for, ready to be pasted.

use std::fmt::Write as _;

use crate::config::PluginConfig;
use hotshoe_core::check::access_request::Verb;
use hotshoe_core::check::denied;
use hotshoe_core::check::grant;
use hotshoe_core::model::decision::Descriptor;
use hotshoe_core::model::kind::Kind;

/// A rule of `spec.grants` that is missing.
#[derive(Debug, PartialEq, Eq)]
struct Rule {
    kind: Kind,
    verbs: Vec<&'static str>,
}

impl Rule {
    /// Its lines, without indentation.
    fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.kind.group.is_empty() {
            lines.push(format!("group: {}", self.kind.group));
        }
        lines.push(format!("kind: {}", self.kind.kind));
        lines.push(format!("verbs: [{}]", self.verbs.join(", ")));
        if self.kind.is("", "Secret") {
            lines.push("names: [NAME]".to_owned());
        }
        lines
    }
}

/// Returns what is missing in `spec` as YAML, for a person who pastes it; nothing where all is granted or no
/// grant can give it.
pub fn block(plugin: &PluginConfig, descriptor: &Descriptor) -> Option<String> {
    let mut yaml = String::new();
    if let Some(parent) = parent(plugin, descriptor) {
        let _ = write!(yaml, "  parent:\n    group: {:?}\n    kind: {}\n", &*parent.group, parent.kind);
    }
    let rules = rules(plugin, descriptor);
    if !rules.is_empty() {
        yaml += "  grants:\n";
    }
    for rule in rules {
        for (number, line) in rule.lines().into_iter().enumerate() {
            let _ = writeln!(yaml, "    {} {line}", if number == 0 { "-" } else { " " });
        }
    }
    (!yaml.is_empty()).then(|| format!("spec:\n{yaml}"))
}

/// Returns the missing rules in one line, for a log.
pub fn line(plugin: &PluginConfig, descriptor: &Descriptor) -> Option<String> {
    let rules: Vec<String> =
        rules(plugin, descriptor).iter().map(|rule| format!("- {{{}}}", rule.lines().join(", "))).collect();
    (!rules.is_empty()).then(|| rules.join(" "))
}

fn parent<'a>(plugin: &PluginConfig, descriptor: &'a Descriptor) -> Option<&'a Kind> {
    let asked = &descriptor.parent;
    plugin.parent_lacking(asked)?;
    denied::why(asked).is_none().then_some(asked)
}

fn rules(plugin: &PluginConfig, descriptor: &Descriptor) -> Vec<Rule> {
    let grantable = grant::asked(descriptor).into_iter().filter(|(kind, _)| denied::why(kind).is_none());
    let rule = |(kind, verbs): (Kind, Vec<Verb>)| {
        let verbs: Vec<_> = verbs.into_iter().filter(|verb| !plugin.grant.allows(*verb, &kind)).collect();
        let verbs: Vec<_> = verbs.into_iter().map(Verb::as_str).collect();
        (!verbs.is_empty()).then_some(Rule { kind, verbs })
    };
    grantable.filter_map(rule).collect()
}
