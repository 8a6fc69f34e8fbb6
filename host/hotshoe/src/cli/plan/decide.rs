//! Asks a plugin for one decision as a host does: with the same observation, all rounds of what it needs, the same grant,
//! gate and limits.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use serde_json::Value;

use super::plugin::Plugin;
use super::source::Source;
use crate::cli::admit::missing_rules;
use crate::cli::terminal;
use hotshoe_core::check::access_request::{Access, Request};
use hotshoe_core::check::admission::AdmittedDecision;
use hotshoe_core::check::memory_share::Account;
use hotshoe_core::check::selection::selector_of;
use hotshoe_core::check::{self, Inadmissible, ObservedState};
use hotshoe_core::model::decision::{Answer, Call, Children, Failure, Observation, Requirement};
use hotshoe_core::model::kind::ObjectRef;
use hotshoe_core::model::sanitize::clean;
use hotshoe_core::model::wanted::Wanted;
use hotshoe_operator::reconcile::decide::shows_secrets;
use hotshoe_operator::reconcile::requirements::FetchBudget;
use hotshoe_sandbox::cases::{Case, Function};

/// The maximum length of a printed text that a plugin chose, in bytes.
const MAX_TEXT_BYTES: usize = 8_000;

/// A decision that a host would carry out.
pub(super) struct Decided {
    pub(super) admitted: AdmittedDecision,
    /// The children that exist.
    pub(super) children: Vec<Value>,
    /// Whether the plugin was shown Secrets, so that what it decides may contain their values.
    pub(super) is_tainted: bool,
}

/// Asks for a decision about a parent.
///
/// # Errors
/// When the plugin does not decide, or a host would deny the decision.
pub(super) async fn decide(plugin: &Plugin, parent: &Value, source: &Source) -> anyhow::Result<Decided> {
    let reference = ObjectRef::of(parent).map_err(anyhow::Error::msg)?;
    let descriptor = plugin.revision.descriptor();
    let labels = Labels::of(plugin, &reference, source).await?;
    let mut case = case_of(plugin, parent)?;
    case.children = source.children(parent, &reference, plugin).await?;
    for read in &descriptor.reads {
        let found = source.related(read, &reference, parent).await?;
        let found = found.into_iter().filter(|object| may_read(plugin, &reference, object, &labels)).collect();
        case.related.insert(read.key.clone(), found);
    }
    let call = case.call.decision().context("the function has no decision")?;
    let mut room = FetchBudget::new(plugin.config.limits.fetched_bytes, &Account::default());
    for _ in 0..=plugin.config.limits.request_rounds {
        let observation = Arc::new(case.observation(descriptor).map_err(anyhow::Error::msg)?);
        match answer(plugin, call, observation.clone()).await? {
            Answer::Needs(requirements) => {
                fetch(&mut case, plugin, &reference, requirements, (source, &labels), &mut room).await?
            }
            answer => {
                let is_tainted = shows_secrets(&observation);
                let admitted = admit(plugin, call, answer, &observation, (source, labels)).await?;
                return Ok(Decided { admitted, children: case.children, is_tainted });
            }
        }
    }
    bail!(
        "the plugin still needs more after {} rounds (limits.requestRounds); have it ask for all at once",
        plugin.config.limits.request_rounds
    )
}

/// Returns what a host would know of the parent alone.
fn case_of(plugin: &Plugin, parent: &Value) -> anyhow::Result<Case> {
    let is_deleting = parent.pointer("/metadata/deletionTimestamp").is_some();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    Ok(Case {
        call: if is_deleting { Function::Finalize } else { Function::Reconcile },
        config: serde_json::from_str(&plugin.config.config).context("the configuration of the plugin is no JSON")?,
        now: u64::try_from(now).ok(),
        attempt: Some(0),
        ..Case::of_parent("plan".to_owned(), parent.clone())
    })
}

/// Calls the plugin once, and prints what it logs unless it is quiet.
async fn answer(plugin: &Plugin, call: Call, observation: Arc<Observation>) -> anyhow::Result<Answer> {
    let called = plugin.revision.decide(call, observation).await;
    let logs = match &called {
        Ok(outcome) => &outcome.logs,
        Err(aborted) => &aborted.logs,
    };
    for line in logs.iter().filter(|_| plugin.prints_logs) {
        terminal::note(format_args!("log: {}", clean(line.message.clone(), MAX_TEXT_BYTES)));
    }
    called.map_err(|aborted| aborted.error)?.result.map_err(|failure| anyhow::anyhow!(why(&failure)))
}

fn why(failure: &Failure) -> String {
    let text = match failure {
        Failure::Retry { message, .. } => format!("the plugin cannot decide now: {message}"),
        Failure::Reject { message, field: Some(field) } => format!("the plugin rejects the object: {field}: {message}"),
        Failure::Reject { message, field: None } => format!("the plugin rejects the object: {message}"),
        Failure::Other(message) => format!("the plugin failed: {message}"),
    };
    clean(text, MAX_TEXT_BYTES)
}

/// Adds what a decision needs, through the grant.
async fn fetch(
    case: &mut Case,
    plugin: &Plugin,
    parent: &ObjectRef,
    requirements: Vec<Requirement>,
    (source, labels): (&Source, &Labels),
    room: &mut FetchBudget,
) -> anyhow::Result<()> {
    for requirement in requirements {
        let Requirement { key, wanted } = requirement;
        let namespaced = source.is_namespaced(wanted.kind()).await.unwrap_or(true);
        let own = parent.own_namespace().cloned().filter(|_| namespaced);
        let wanted = wanted.in_namespace(wanted.namespace().clone().or(own));
        let grant = &plugin.config.grant;
        let label_of = |namespace: &str, key: &str| labels.get(namespace, key);
        let found: Vec<Value> = match &wanted {
            Wanted::Object(object) => {
                let request = Request { parent, object, namespaced, access: Access::Read };
                grant.authorise(&request, &label_of).map_err(|denial| denied(plugin, &denial.into()))?;
                source.needed(object).await?.into_iter().collect()
            }
            Wanted::Selection(selection) => {
                let selector = selector_of(selection)?;
                let authorised = grant.authorise_list(parent, selection, namespaced, &label_of);
                authorised.map_err(|denial| denied(plugin, &denial.into()))?;
                source.selected(selection, &selector).await?
            }
        };
        found.iter().try_for_each(|object| room.take(parent, object.to_string().len()))?;
        case.related.insert(key, found);
    }
    Ok(())
}

/// Returns whether the grant lets the plugin see an object that a rule has found.
fn may_read(plugin: &Plugin, parent: &ObjectRef, object: &Value, labels: &Labels) -> bool {
    ObjectRef::of(object).is_ok_and(|object| {
        let request = Request { parent, object: &object, namespaced: object.namespace.is_some(), access: Access::Read };
        plugin.config.grant.authorise_watched(&request, &|namespace, key| labels.get(namespace, key)).is_ok()
    })
}

/// The labels of namespaces, where the grant depends on them.
#[derive(Default)]
struct Labels(HashMap<String, HashMap<String, String>>);

impl Labels {
    async fn of(plugin: &Plugin, parent: &ObjectRef, source: &Source) -> anyhow::Result<Self> {
        let mut labels = Self::default();
        if let Some(namespace) = parent.own_namespace() {
            labels.learn(plugin, [&**namespace], source).await?;
        }
        Ok(labels)
    }

    /// Reads the labels of more namespaces.
    async fn learn<'a>(
        &mut self,
        plugin: &Plugin,
        namespaces: impl IntoIterator<Item = &'a str>,
        source: &Source,
    ) -> anyhow::Result<()> {
        if plugin.config.grant.namespace_labels().is_empty() {
            return Ok(());
        }
        for namespace in namespaces {
            if !self.0.contains_key(namespace) {
                self.0.insert(namespace.to_owned(), source.namespace_labels(namespace).await?);
            }
        }
        Ok(())
    }

    fn get(&self, namespace: &str, key: &str) -> Option<String> {
        self.0.get(namespace)?.get(key).cloned()
    }
}

async fn admit(
    plugin: &Plugin,
    call: Call,
    answer: Answer,
    observation: &Observation,
    (source, mut labels): (&Source, Labels),
) -> anyhow::Result<AdmittedDecision> {
    let desired = match answer.decision().map(|decision| &decision.children) {
        Some(Children::Exactly(desired)) => desired.as_slice(),
        _ => &[],
    };
    let namespaces: BTreeSet<&str> = desired.iter().filter_map(|child| child.reference.namespace.as_deref()).collect();
    labels.learn(plugin, namespaces, source).await?;
    let mut scopes = HashMap::new();
    for child in desired {
        let kind = &child.reference.kind;
        if !scopes.contains_key(kind)
            && let Some(namespaced) = source.is_namespaced(kind).await
        {
            scopes.insert(kind.clone(), namespaced);
        }
    }
    let context = check::Context {
        parent: &observation.parent.reference,
        uid: "",
        plugin: &plugin.config.name,
        grant: &plugin.config.grant,
        descriptor: plugin.revision.descriptor(),
        most_children: plugin.config.limits.children as usize,
        most_fields: plugin.config.limits.fields_per_child as usize,
        namespaced: Box::new(|kind| scopes.get(kind).copied()),
        label_of: Box::new(|namespace, key| labels.get(namespace, key)),
    };
    let children: Vec<_> = observation.children.iter().map(|child| child.reference.clone()).collect();
    let observed = ObservedState { children: Some(&children), room: None };
    check::admit(call, answer, observed, &context).map_err(|why| denied(plugin, &why))
}

/// Returns the error of a decision that a host would deny, with the lines of `plugin.yaml` that allow it.
fn denied(plugin: &Plugin, why: &Inadmissible) -> anyhow::Error {
    let add = missing_rules(why, &plugin.config).unwrap_or_default();
    anyhow::anyhow!("a host would deny this: {}{add}", clean(why.to_string(), MAX_TEXT_BYTES))
}
