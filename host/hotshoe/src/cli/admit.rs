//! Checks whether a host would admit a plugin's answer to a case, by the same rules as a host and by the grant of
//! `plugin.yaml`.

use std::path::Path;
use std::sync::Arc;

use hotshoe_cluster::discovery;
use hotshoe_core::check;
use hotshoe_core::check::admission::AdmittedDecision;
use hotshoe_core::check::grant::Grant;
use hotshoe_core::check::remedy;
use hotshoe_core::check::{Context, Inadmissible, ObservedState};
use hotshoe_core::model::decision::{Answer, Call, Descriptor, Observation};
use hotshoe_core::model::sanitize::clean;
use hotshoe_operator::config::{HostSettings, PluginConfig};
use hotshoe_sandbox::cases::Case;
use hotshoe_sandbox::revision::Revision;

/// The maximum length of a printed denial, in bytes: it may contain names that the plugin chose.
const MAX_DENIAL_BYTES: usize = 8_000;
/// The maximum length of one line of the printed rules, in bytes.
const MAX_RULE_LINE_BYTES: usize = 2_000;

/// Reads `plugin.yaml`. Its configuration may use any environment variable, because a case has a configuration of its
/// own.
///
/// # Errors
/// When no host would start with it.
pub(super) fn config(path: &Path) -> anyhow::Result<PluginConfig> {
    let any_variable = HostSettings { allow_env: vec!["*".to_owned()], ..HostSettings::default() };
    PluginConfig::read(path, &any_variable)
}

/// Returns why a host would deny the answer to a case, as far as this is certain without a cluster.
pub(super) async fn denial(case: &Case, revision: &Arc<Revision>, config: &PluginConfig) -> Option<String> {
    let call = case.call.decision()?;
    let observation = Arc::new(case.observation(revision.descriptor()).ok()?);
    let answer = revision.decide(call, observation.clone()).await.ok()?.result.ok()?;
    if matches!(answer, Answer::Needs(_)) {
        return None;
    }
    let denied = admit(call, answer, "", &observation, revision.descriptor(), config).err()?;
    Some(text(&certain(denied, &config.grant)?, config))
}

/// Says why a decision is denied, with the rules that are missing in `plugin.yaml`.
pub(super) fn text(denied: &Inadmissible, config: &PluginConfig) -> String {
    clean(denied.to_string(), MAX_DENIAL_BYTES) + &missing_rules(denied, config).unwrap_or_default()
}

/// Returns the rules that are missing in `plugin.yaml`, ready to be pasted, and indented as a part of a message.
pub(super) fn missing_rules(denied: &Inadmissible, config: &PluginConfig) -> Option<String> {
    let Inadmissible::Denied(denial) = denied else { return None };
    let yaml = remedy::of_denial(denial, &config.grant)?;
    let lines = yaml.lines().map(|line| format!("\n       {}", clean(line.to_owned(), MAX_RULE_LINE_BYTES)));
    Some(format!("\n     in plugin.yaml:{}", lines.collect::<String>()))
}

/// Checks a decision about a parent with this uid as a host does, as far as that is possible without a cluster: some
/// [violations](certain) are not certain.
///
/// # Errors
/// When a host would deny it.
pub(super) fn admit(
    call: Call,
    answer: Answer,
    uid: &str,
    observation: &Observation,
    descriptor: &Descriptor,
    config: &PluginConfig,
) -> Result<AdmittedDecision, Inadmissible> {
    let context = Context {
        parent: &observation.parent.reference,
        uid,
        plugin: &config.name,
        grant: &config.grant,
        descriptor,
        most_children: config.limits.children as usize,
        most_fields: config.limits.fields_per_child as usize,
        namespaced: Box::new(|kind| Some(discovery::conventional(kind).namespaced)),
        label_of: Box::new(|_, _| None),
    };
    let children: Vec<_> = observation.children.iter().map(|child| child.reference.clone()).collect();
    check::admit(call, answer, ObservedState { children: Some(&children), room: None }, &context)
}

/// Leaves out the violations that are not certain without a cluster: here a scope is guessed from the kind's name, and
/// a case does not say which labels a namespace has.
pub(super) fn certain(denied: Inadmissible, grant: &Grant) -> Option<Inadmissible> {
    let Inadmissible::Denied(denial) = denied else { return Some(denied) };
    let uncertain: &[&str] =
        if grant.namespace_labels().is_empty() { &["scope"] } else { &["scope", "namespace-not-granted"] };
    denial.without(uncertain).map(Inadmissible::Denied)
}

#[cfg(test)]
mod tests {
    use hotshoe_core::model::decision::{Children, Condition, Decision, Document, OwnedKind, Truth};
    use hotshoe_core::model::kind::{Kind, ObjectRef};

    use super::*;

    fn document(kind: &str, name: &str) -> Document {
        let reference = ObjectRef { kind: Kind::new("", "v1", kind), namespace: Some("n".into()), name: name.into() };
        Document { reference, json: "{}".into() }
    }

    /// Returns why an answer is denied for a parent with one child, the ConfigMap `old`; empty if it is admitted.
    fn denied(call: Call, answer: Answer, namespaces: &str) -> String {
        let kind = Kind::new("", "v1", "ConfigMap");
        let descriptor = Descriptor {
            name: "demo".into(),
            version: "1".into(),
            parent: Kind::new("example.com", "v1", "Test"),
            owns: vec![OwnedKind { kind, verbs: Vec::new(), fields: Vec::new() }],
            ..Descriptor::default()
        };
        let one = document("Test", "one");
        let observation = Observation {
            parent: Document {
                reference: ObjectRef { kind: descriptor.parent.clone(), ..one.reference.clone() },
                ..one
            },
            children: vec![document("ConfigMap", "old")],
            related: Vec::new(),
            refusals: Vec::new(),
            config: "{}".into(),
            now: None,
            attempt: None,
        };
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("plugin.yaml");
        let text = format!(
            "apiVersion: hotshoe.dev/v1alpha1\n\
             kind: Plugin\n\
             metadata: {{name: demo}}\n\
             spec:\n  \
             source: {{file: demo.wasm}}\n  \
             grants:\n  \
             - {{kind: ConfigMap, verbs: [create, update, delete], namespaces: {namespaces}}}\n"
        );
        std::fs::write(&path, text).unwrap();
        let config = PluginConfig::read(&path, &HostSettings::default()).unwrap();
        let denied = admit(call, answer, "", &observation, &descriptor, &config).err();
        denied.and_then(|denied| certain(denied, &config.grant)).map(|denied| denied.to_string()).unwrap_or_default()
    }

    #[test]
    fn an_answer_that_a_host_admits_passes() {
        let children = || Children::Exactly(vec![document("ConfigMap", "old")]);
        let old = || Decision { children: children(), status: Some(r#"{"a":1}"#.into()), ..Decision::default() };
        assert_eq!(denied(Call::Reconcile, Answer::Decided(old()), "own"), "");
        assert_eq!(denied(Call::Finalize, Answer::Waiting(old()), "own"), "");
        let none = Decision { children: Children::Exactly(Vec::new()), ..Decision::default() };
        assert_eq!(denied(Call::Finalize, Answer::Done(none), "own"), "", "deleting all is what clean-up is for");
    }

    #[test]
    fn a_status_with_conditions_in_it_is_denied() {
        let decision = Decision { status: Some(r#"{"conditions":[]}"#.into()), ..Decision::default() };
        let denied = denied(Call::Reconcile, Answer::Decided(decision), "own");
        assert!(denied.contains("conditions belong in the list of conditions"), "{denied}");
    }

    #[test]
    fn the_hosts_condition_is_denied_in_every_answer() {
        let condition =
            Condition { name: "Reconciled".into(), status: Truth::True, reason: "R".into(), message: "m".into() };
        let decision = || Decision { conditions: vec![condition.clone()], ..Decision::default() };
        for (call, answer) in [
            (Call::Reconcile, Answer::Decided(decision())),
            (Call::Finalize, Answer::Waiting(decision())),
            (Call::Finalize, Answer::Done(decision())),
        ] {
            let denied = denied(call, answer, "own");
            assert!(denied.contains("Reconciled is the host's"), "{denied}");
        }
    }

    #[test]
    fn a_clean_up_that_creates_a_child_is_denied() {
        let decision =
            Decision { children: Children::Exactly(vec![document("ConfigMap", "new")]), ..Decision::default() };
        let denied = denied(Call::Finalize, Answer::Waiting(decision), "own");
        assert!(denied.contains("ConfigMap n/new: clean-up may not create a child"), "{denied}");
    }

    #[test]
    fn rules_that_depend_on_labels_of_namespaces_are_skipped_and_all_others_hold() {
        let labelled = "{matchLabels: {a: b}}";
        let new = |json: &str| {
            let child = Document { json: json.into(), ..document("ConfigMap", "new") };
            Answer::Decided(Decision { children: Children::Exactly(vec![child]), ..Decision::default() })
        };
        assert_eq!(denied(Call::Reconcile, new("{}"), labelled), "");
        let denied = denied(Call::Reconcile, new(r#"{"status":{}}"#), labelled);
        assert!(denied.contains("belongs to its own controller"), "{denied}");
    }
}
