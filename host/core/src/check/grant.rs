//! What a plugin may read and write, as the administrator said in `plugin.yaml`.
//!
//! One pure function, [`Grant::authorise`], stands between cache and observation and between
//! decision and write; nothing of a plugin's passes beside it. It judges the final object: after
//! its scope has been discovered, its namespace filled in and its body stamped. What no grant
//! opens stands in [`denied`], what a Pod may ask for in [`pod`], a claim in [`pvc`], a
//! selector in [`selector`] and a Service in [`service`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::check::access_request::{Access, LabelOf, Request, Verb};
use crate::check::fix::{Fix, Opening};
use crate::check::pod::grant::Pods;
use crate::check::service;
use crate::check::service::Services;
use crate::check::violation::{Checked, Denial, Violation, all};
use crate::check::{denied, glob, pod, pvc, selector};
use crate::model::decision::Descriptor;
use crate::model::kind::{Kind, ObjectRef};
use crate::model::names::{is_group, is_kind, is_label, is_plain, is_qualified};

/// One line of a grant: verbs on a kind, in some namespaces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Rule {
    /// API group; empty for the core group.
    #[serde(default)]
    pub group: String,
    /// Kind, for example `Deployment`.
    pub kind: String,
    /// What may be done with objects of that kind.
    pub verbs: Vec<Verb>,
    /// In which namespaces. Whatever is said here, a child never leaves the namespace of its
    /// parent, if that has one.
    #[serde(default)]
    pub namespaces: Namespaces,
    /// Names of the objects, in each one `*` at most; empty for all. Secrets are read by name
    /// only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Whether children of this kind that hold data may be pruned: PersistentVolumeClaims and Namespaces are
    /// otherwise left alone. Of a StatefulSet, whether it may have its claims deleted with it.
    #[serde(default)]
    pub prune_data: bool,
    /// What the Pods of such objects may ask for beyond what is harmless.
    #[serde(default)]
    pub pods: Pods,
    /// What such Services may ask for beyond an address inside the cluster.
    #[serde(default)]
    pub services: Services,
}

/// The namespaces in which a rule holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(
    untagged,
    expecting = "namespaces are `own`, `cluster`, a list of names, or {matchLabels: {KEY: VALUE}} and nothing else"
)]
pub enum Namespaces {
    /// `own` or `cluster`.
    Word(Word),
    /// These.
    Named(Vec<String>),
    /// Those with certain labels.
    Selected(Selector),
}

/// Namespaces in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Word {
    /// The parent's.
    Own,
    /// All, and objects without a namespace.
    Cluster,
}

/// Which labels a namespace must have, all of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Selector {
    /// Key and value.
    pub match_labels: BTreeMap<String, String>,
}

impl Default for Namespaces {
    fn default() -> Self {
        Namespaces::Word(Word::Own)
    }
}

/// Everything that a plugin may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// What is allowed; the rest is not.
    pub rules: Vec<Rule>,
    /// Whether an answer without any child may delete all that are there.
    pub prune_all: bool,
    /// The namespace of the host and of the plugins' accounts, which is closed to all plugins.
    pub host_namespace: Arc<str>,
}

const SECRET: (&str, &str) = ("", "Secret");

/// Kinds whose deletion loses what cannot be made anew.
const HOLDS_DATA: [(&str, &str); 2] = [("", "PersistentVolumeClaim"), ("", "Namespace")];

/// Kinds of which `pruneData` says something.
const LOSES_DATA: [(&str, &str); 3] = [HOLDS_DATA[0], HOLDS_DATA[1], ("apps", "StatefulSet")];

impl Grant {
    /// Makes sure that the plugin may do this. Every read and every write passes here.
    ///
    /// # Errors
    /// The rules that forbid it, with what to do.
    pub fn authorise(&self, request: &Request<'_>, label_of: &LabelOf<'_>) -> Checked {
        denied::check(request, &self.host_namespace)?;
        check_place(request)?;
        self.check_verbs(request.access.verbs(), request, label_of)
    }

    /// Whether the plugin may be shown an object that the host lists and watches for it: a child, or one
    /// of a kind that it declared to read. That takes those verbs as well.
    ///
    /// # Errors
    /// As for [`Self::authorise`].
    pub fn authorise_watched(&self, request: &Request<'_>, label_of: &LabelOf<'_>) -> Checked {
        self.authorise(request, label_of)?;
        self.check_verbs(&[Verb::List, Verb::Watch], request, label_of)
    }

    /// Verbs that no rule gives on the kind are named together, as one line of `plugin.yaml` gives them.
    fn check_verbs(&self, verbs: &[Verb], request: &Request<'_>, label_of: &LabelOf<'_>) -> Checked {
        let kind = &request.object.kind;
        let is_given = |verb: &Verb| self.rules.iter().any(|rule| rule.is_for(*verb, kind));
        if !verbs.iter().all(is_given) {
            let missing: Vec<_> = verbs.iter().copied().filter(|verb| !is_given(verb)).collect();
            let not_granted = Err(self.not_granted(&missing, request.object).into());
            return all([not_granted, self.check_body_without_grant(request)]);
        }
        let mut opens = None;
        all(verbs.iter().map(|verb| self.check_verb(*verb, request, label_of, &mut opens)))
    }

    /// What the body asks for beyond what the grant of its kind opens, or a new one would: who adds the verbs has
    /// to know that too.
    fn check_body_without_grant(&self, request: &Request<'_>) -> Checked {
        let (Access::Apply(body), kind) = (request.access, &request.object.kind) else { return Ok(()) };
        let place = self.rules.iter().position(|rule| kind.is(&rule.group, &rule.kind));
        let checked = match place.and_then(|place| self.rules.get(place)) {
            Some(rule) => rule.check_body(request, body),
            None => Rule::new(kind).check_body(request, body),
        };
        checked.map_err(|denial| denial.map(|violation| in_grant(violation, place, request.object)))
    }

    fn not_granted(&self, verbs: &[Verb], object: &ObjectRef) -> Violation {
        let kind = &object.kind;
        let words: Vec<_> = verbs.iter().map(|verb| format!("`{}`", verb.as_str())).collect();
        let message = format!("{} on {kind} is not granted", words.join(", "));
        let rule = self.rules.iter().position(|rule| kind.is(&rule.group, &rule.kind));
        let verbs: Vec<_> = verbs.iter().map(|verb| verb.as_str()).collect();
        refused("not-granted", object, &message).fixed_by(opening(kind, rule, "verbs", verbs.into()))
    }

    /// Some rule must give the verb for this object, and open all that its body asks for. `opens` is one that
    /// is known to do so: that it opens is said of no verb.
    fn check_verb<'r>(
        &'r self,
        verb: Verb,
        request: &Request<'_>,
        label_of: &LabelOf<'_>,
        opens: &mut Option<&'r Rule>,
    ) -> Checked {
        let Request { parent, object, access, .. } = request;
        let steps: [Step<'_>; 5] = [
            (&|rule| rule.is_for(verb, &object.kind), &|_| self.not_granted(&[verb], object)),
            (&|rule| rule.may_open(verb), &|rule| unnamed_secret(object, rule)),
            (&|rule| rule.covers_name(&object.name), &|rule| other_name(verb, object, rule)),
            (&|rule| rule.namespaces.cover(parent, object, label_of), &|_| other_namespace(verb, request)),
            (&|rule| rule.may_lose(verb), &|rule| holds_data(object, rule)),
        ];
        let passed = |rule: &Rule| steps.iter().take_while(|(passes, _)| passes(rule)).count();
        let furthest = self.rules.iter().map(passed).max().unwrap_or_default();
        if let Some((_, why_not)) = steps.get(furthest) {
            let nearest = self.rules.iter().position(|rule| passed(rule) == furthest);
            return Err(why_not(nearest).into());
        }
        let Access::Apply(body) = access else { return Ok(()) };
        let mut giving = self.rules.iter().enumerate().filter(|(_, rule)| passed(rule) == steps.len());
        if !opens.is_some_and(|opens| giving.clone().any(|(_, rule)| std::ptr::eq(rule, opens))) {
            *opens = check_body(&mut giving, request, body)?;
        }
        Ok(())
    }

    /// Whether some rule gives the verb for some object of the kind.
    pub fn allows(&self, verb: Verb, kind: &Kind) -> bool {
        let opens = |rule: &Rule| rule.is_for(verb, kind) && rule.may_open(verb) && !self.is_closed(rule);
        denied::why(kind).is_none() && self.rules.iter().any(opens)
    }

    /// Whether a rule holds nowhere but in the namespace of the host, which is closed to all plugins.
    pub fn is_closed(&self, rule: &Rule) -> bool {
        let Namespaces::Named(names) = &rule.namespaces else { return false };
        names.iter().all(|name| **name == *self.host_namespace)
    }

    /// The label keys by which rules select namespaces; empty where none need be known.
    pub fn namespace_labels(&self) -> BTreeSet<String> {
        let keys = self.rules.iter().filter_map(|rule| match &rule.namespaces {
            Namespaces::Selected(selector) => Some(selector.match_labels.keys().cloned()),
            _ => None,
        });
        keys.flatten().collect()
    }
}

/// What a rule must pass, and the violation where none gets beyond it, by the place of the first of those that
/// come so far. This runs for each object that is
/// shown, so it makes nothing.
type Step<'a> = (&'a dyn Fn(&Rule) -> bool, &'a dyn Fn(Option<usize>) -> Violation);

/// Owner references do not cross namespaces, so neither do children; forcing a namespace on an
/// object that has none would do nothing (CVE-2026-22872).
fn check_place(request: &Request<'_>) -> Result<(), Violation> {
    let Request { parent, object, namespaced, access } = request;
    if *namespaced != object.namespace.is_some() {
        let has = if *namespaced { "belongs into a namespace" } else { "has no namespace" };
        return Err(refused("scope", object, &format!("an object of this kind {has}")));
    }
    let leaves = parent.namespace.is_some() && parent.namespace != object.namespace;
    if leaves && !matches!(access, Access::Read) {
        return Err(refused(
            "foreign-namespace",
            object,
            &format!("it is not in the namespace of its parent, {parent}"),
        ));
    }
    Ok(())
}

/// The first of the rules that opens all that the body asks for.
fn check_body<'r>(
    rules: &mut dyn Iterator<Item = (usize, &'r Rule)>,
    request: &Request<'_>,
    body: &Value,
) -> Result<Option<&'r Rule>, Denial> {
    let mut first = None;
    for (place, rule) in rules {
        match rule.check_body(request, body) {
            Ok(()) => return Ok(Some(rule)),
            Err(denial) => first = first.or(Some((place, denial))),
        }
    }
    match first {
        None => Ok(None),
        Some((place, denial)) => Err(denial.map(|violation| in_grant(violation, Some(place), request.object))),
    }
}

/// Names the object of a violation, and the grant of what would open it.
fn in_grant(violation: Violation, place: Option<usize>, object: &ObjectRef) -> Violation {
    let Violation { rule, message, fix } = violation;
    let fix = match fix {
        Some(Fix::Grant(found)) => {
            Some(Fix::Grant(Box::new(Opening { kind: object.kind.clone(), rule: place, ..*found })))
        }
        fix => fix,
    };
    Violation { rule, message: format!("{object}: {message}"), fix }
}

fn opening(kind: &Kind, rule: Option<usize>, item: &'static str, value: Value) -> Fix {
    Fix::Grant(Box::new(Opening { kind: kind.clone(), rule, items: vec![(item, value)] }))
}

fn refused(rule: &'static str, object: &ObjectRef, message: &str) -> Violation {
    Violation::new(rule, format!("{object}: {message}"))
}

fn unnamed_secret(object: &ObjectRef, rule: Option<usize>) -> Violation {
    let fix = opening(&object.kind, rule, "names", vec![&*object.name].into());
    refused("secret-names", object, "Secrets are read by name only").fixed_by(fix)
}

fn other_name(verb: Verb, object: &ObjectRef, rule: Option<usize>) -> Violation {
    let message = format!("no grant of `{}` on this kind has this name", verb.as_str());
    let fix = opening(&object.kind, rule, "names", vec![&*object.name].into());
    refused("name-not-granted", object, &message).fixed_by(fix)
}

/// What opens a namespace is a grant of its own: beside `own` there is no room for others in a list.
fn other_namespace(verb: Verb, request: &Request<'_>) -> Violation {
    let Request { object, parent, .. } = request;
    let (verb, kind) = (verb.as_str(), &object.kind);
    let (place, namespaces) = match &object.namespace {
        None => ("objects without a namespace".to_owned(), Value::from("cluster")),
        Some(namespace) if parent.namespace.as_ref() == Some(namespace) => {
            (format!("the namespace {namespace}"), Value::from("own"))
        }
        Some(namespace) => (format!("the namespace {namespace}"), vec![&**namespace].into()),
    };
    let message = format!("no grant of `{verb}` on this kind covers {place}");
    let items = vec![("verbs", vec![verb].into()), ("namespaces", namespaces)];
    let fix = Fix::Grant(Box::new(Opening { kind: kind.clone(), rule: None, items }));
    refused("namespace-not-granted", object, &message).fixed_by(fix)
}

fn holds_data(object: &ObjectRef, rule: Option<usize>) -> Violation {
    let fix = opening(&object.kind, rule, "pruneData", true.into());
    refused("prune-data", object, "it holds data").fixed_by(fix)
}

impl Rule {
    /// Builds a rule about a kind that gives nothing.
    fn new(kind: &Kind) -> Self {
        Self {
            group: kind.group.to_string(),
            kind: kind.kind.to_string(),
            verbs: Vec::new(),
            namespaces: Namespaces::default(),
            names: Vec::new(),
            prune_data: false,
            pods: Pods::default(),
            services: Services::default(),
        }
    }

    /// Whether it gives the verb for some object of the kind.
    pub fn is_for(&self, verb: Verb, kind: &Kind) -> bool {
        kind.is(&self.group, &self.kind) && self.verbs.contains(&verb)
    }

    /// A Secret is shown only to a plugin that was given its name.
    pub fn may_open(&self, verb: Verb) -> bool {
        !self.names.is_empty() || !verb.reads() || (self.group.as_str(), self.kind.as_str()) != SECRET
    }

    fn may_lose(&self, verb: Verb) -> bool {
        self.prune_data || verb != Verb::Delete || !HOLDS_DATA.contains(&(&self.group, &self.kind))
    }

    fn covers_name(&self, name: &str) -> bool {
        self.names.is_empty() || glob::matches_any(&self.names, name)
    }

    fn check_body(&self, request: &Request<'_>, body: &Value) -> Checked {
        let kind = &request.object.kind;
        all([
            pod::check(kind, body, &self.pods),
            pvc::check(request, body, &self.pods, self.prune_data),
            selector::check(request, body, &self.pods),
            service::check(kind, body, &self.services),
        ])
    }

    /// Whether what it says can be meant.
    ///
    /// # Errors
    /// What is wrong, in words for the administrator.
    pub fn validate(&self) -> Result<(), String> {
        self.validate_kind()?;
        self.namespaces.validate()?;
        glob::validate_names("names", &self.names)?;
        self.validate_items(&Kind::new(&self.group, "", &self.kind))?;
        self.pods.validate()?;
        self.services.validate()?;
        match self.verbs.is_empty() {
            true => Err("verbs is an empty list, which gives nothing; name some, or remove the rule".into()),
            false => Ok(()),
        }
    }

    fn validate_kind(&self) -> Result<(), String> {
        let Self { group, kind, .. } = self;
        if !is_group(group) {
            return Err(format!("group has {group:?}; a group is written without a version, such as `apps`"));
        }
        if is_kind(kind) {
            return Ok(());
        }
        let hint = hint(&Kind::new(group, "", kind)).unwrap_or_else(|| "subresources cannot be granted".to_owned());
        Err(format!("kind has {kind:?}, which is no kind, such as `Deployment`; {hint}"))
    }

    /// What means something to some kinds only.
    fn validate_items(&self, kind: &Kind) -> Result<(), String> {
        let (pods, services) = (self.pods != Pods::default(), self.services != Services::default());
        let remove = || hint(kind).unwrap_or_else(|| "remove it".to_owned());
        if pods && pvc::is_claim(kind) && !pvc::is_about_claims(kind, &self.pods) {
            return Err(format!(
                "pods is said of {kind}, which makes no Pods; leave claimSources and annotations of it"
            ));
        }
        if pods && !pvc::is_claim(kind) && !pod::makes_pods(kind) {
            return Err(format!("pods is said of {}, which makes no Pods; {}", in_full(kind), remove()));
        }
        if services && !service::is_service(kind) {
            return Err(format!("services is said of {}, another kind than Service; {}", in_full(kind), remove()));
        }
        if self.prune_data && !LOSES_DATA.iter().any(|(group, name)| kind.is(group, name)) {
            return Err(format!("pruneData is said of {}, which holds no data; {}", in_full(kind), remove()));
        }
        Ok(())
    }
}

fn in_full(kind: &Kind) -> String {
    format!("the kind {:?} of the group {:?}", &*kind.kind, &*kind.group)
}

/// What somebody may have meant whose kind differs in its group or its case from one that is known.
fn hint(kind: &Kind) -> Option<String> {
    let mut known = LOSES_DATA.iter().chain(&[SECRET, ("", "Service")]);
    let alike = known.find(|(_, name)| name.eq_ignore_ascii_case(&kind.kind));
    let alike = alike.map(|(group, name)| Kind::new(group, "", name)).filter(|alike| !alike.is_served_as(kind));
    pod::alike(kind).or(alike).map(|meant| format!("is {} meant?", in_full(&meant)))
}

impl Namespaces {
    fn cover(&self, parent: &ObjectRef, object: &ObjectRef, label_of: &LabelOf<'_>) -> bool {
        let Some(namespace) = &object.namespace else { return *self == Namespaces::Word(Word::Cluster) };
        match self {
            Namespaces::Word(Word::Cluster) => true,
            Namespaces::Word(Word::Own) => parent.namespace.as_ref() == Some(namespace),
            Namespaces::Named(names) => names.iter().any(|name| **name == **namespace),
            Namespaces::Selected(Selector { match_labels }) => {
                let mut labels = match_labels.iter();
                !match_labels.is_empty() && labels.all(|(key, value)| label_of(namespace, key).as_ref() == Some(value))
            }
        }
    }

    fn validate(&self) -> Result<(), String> {
        match self {
            Namespaces::Word(_) => Ok(()),
            Namespaces::Named(names) if names.is_empty() => {
                Err("namespaces is an empty list; name some, or remove it".into())
            }
            Namespaces::Named(names) => names.iter().try_for_each(|name| validate_namespace(name)),
            Namespaces::Selected(Selector { match_labels }) if match_labels.is_empty() => {
                Err("namespaces.matchLabels is empty; for every namespace say `namespaces: cluster`".into())
            }
            Namespaces::Selected(Selector { match_labels }) => {
                match match_labels.iter().find(|(key, value)| !is_qualified(key) || !is_value(value)) {
                    Some((key, value)) => {
                        Err(format!("namespaces.matchLabels has {key:?}: {value:?}, which is no label"))
                    }
                    None => Ok(()),
                }
            }
        }
    }
}

fn is_value(label: &str) -> bool {
    label.is_empty() || is_plain(label)
}

/// A namespace may be named like one of our words, but whoever writes that means the word.
fn validate_namespace(name: &str) -> Result<(), String> {
    match name {
        "own" | "cluster" => Err(format!(
            "namespaces has {name:?} in a list; write `namespaces: {name}` without brackets, or, for a namespace of that name, {{matchLabels: {{kubernetes.io/metadata.name: {name}}}}}"
        )),
        _ if is_label(name) => Ok(()),
        _ => Err(format!("namespaces has {name:?}, which is no name of a namespace")),
    }
}

impl std::fmt::Display for Namespaces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Namespaces::Word(Word::Own) => f.write_str("the parent's namespace"),
            Namespaces::Word(Word::Cluster) => f.write_str("every namespace"),
            Namespaces::Named(names) => write!(f, "namespaces {}", names.join(", ")),
            Namespaces::Selected(Selector { match_labels }) => {
                let labels: Vec<_> = match_labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
                write!(f, "namespaces with {}", labels.join(","))
            }
        }
    }
}

/// What a plugin asks for and a grant does not give, such as `create, delete on Deployment.apps`;
/// none where all is given. Asking gives nothing.
pub fn lacking(descriptor: &Descriptor, grant: &Grant) -> Option<String> {
    let of_kind = |(kind, verbs): (Kind, Vec<Verb>)| {
        let missing = verbs.into_iter().filter(|verb| !grant.allows(*verb, &kind));
        let missing: Vec<_> = missing.map(Verb::as_str).collect();
        (!missing.is_empty()).then(|| format!("{} on {kind}", missing.join(", ")))
    };
    let lacking: Vec<_> = asked(descriptor).into_iter().filter_map(of_kind).collect();
    (!lacking.is_empty()).then(|| lacking.join("; "))
}

/// What a plugin asks for by its descriptor, kind by kind, each verb once.
pub fn asked(descriptor: &Descriptor) -> Vec<(Kind, Vec<Verb>)> {
    let mut asked: Vec<(Kind, Vec<Verb>)> = Vec::new();
    let watching = [Verb::Get, Verb::List, Verb::Watch];
    let owned = descriptor.owns.iter().map(|owned| {
        let writing = owned.verbs.iter().map(|verb| Verb::from(*verb));
        (&owned.kind, watching.into_iter().chain(writing).collect::<Vec<_>>())
    });
    let read = descriptor.reads.iter().map(|read| (&read.kind, watching.to_vec()));
    for (kind, verbs) in owned.chain(read) {
        let place = asked.iter().position(|(known, _)| known.is_served_as(kind));
        match place.and_then(|place| asked.get_mut(place)) {
            Some((_, known)) => {
                let new: Vec<_> = verbs.into_iter().filter(|verb| !known.contains(verb)).collect();
                known.extend(new);
            }
            None => asked.push((kind.clone(), verbs)),
        }
    }
    asked
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::decision::{MatchRule, OwnedKind, ReadKind, WriteVerb};

    fn object(group: &str, kind: &str, place: &str) -> ObjectRef {
        let (namespace, name) =
            place.split_once('/').map_or((None, place), |(namespace, name)| (Some(namespace), name));
        ObjectRef { kind: Kind::new(group, "v1", kind), namespace: namespace.map(Into::into), name: name.into() }
    }

    /// A grant as it stands in plugin.yaml, in JSON.
    fn grant(rules: Value) -> Grant {
        let rules: Vec<Rule> = serde_json::from_value(rules).unwrap();
        assert_eq!(rules.iter().try_for_each(Rule::validate), Ok(()));
        Grant { rules, prune_all: false, host_namespace: "hotshoe-system".into() }
    }

    const ALL: [&str; 6] = ["get", "list", "watch", "create", "update", "delete"];

    fn maps(rule: Value) -> Grant {
        let mut rule = rule;
        for (key, value) in [("kind", json!("ConfigMap")), ("verbs", json!(ALL))] {
            rule.as_object_mut().unwrap().entry(key).or_insert(value);
        }
        grant(json!([rule]))
    }

    /// Two namespaces are labelled: `blue` and `red`.
    fn label_of(namespace: &str, key: &str) -> Option<String> {
        (key == "colour" && ["blue", "red"].contains(&namespace)).then(|| namespace.to_owned())
    }

    fn broken_for(grant: &Grant, parent: &str, access: Access<'_>, object: &ObjectRef) -> Option<&'static str> {
        let parent = self::object("c", "Memcached", parent);
        let request = Request { parent: &parent, object, namespaced: object.namespace.is_some(), access };
        let violation = grant.authorise(&request, &label_of).err()?;
        assert!(violation.violations()[0].message.starts_with(&object.to_string()), "{violation}");
        Some(violation.rule())
    }

    fn broken(grant: &Grant, access: Access<'_>, object: &ObjectRef) -> Option<&'static str> {
        broken_for(grant, "n/parent", access, object)
    }

    fn map(place: &str) -> ObjectRef {
        object("", "ConfigMap", place)
    }

    #[test]
    fn what_is_granted_is_allowed_in_the_parents_namespace() {
        let grant = maps(json!({}));
        for access in [Access::Read, Access::Apply(&json!({})), Access::Delete] {
            assert_eq!(broken(&grant, access, &map("n/a")), None);
        }
    }

    #[test]
    fn another_kind_or_group_is_not_granted() {
        let grant = grant(json!([{ "group": "apps", "kind": "Deployment", "verbs": ALL }]));
        for (group, kind) in [("apps", "DaemonSet"), ("", "Deployment"), ("apps.example.com", "Deployment")] {
            for access in [Access::Read, Access::Apply(&json!({})), Access::Delete] {
                assert_eq!(broken(&grant, access, &object(group, kind, "n/a")), Some("not-granted"));
            }
        }
        assert_eq!(broken(&grant, Access::Delete, &object("apps", "Deployment", "n/a")), None);
    }

    #[test]
    fn each_access_needs_its_own_verbs_and_an_apply_needs_two() {
        for (access, needed) in [
            (Access::Read, vec!["get"]),
            (Access::Apply(&json!({})), vec!["create", "update"]),
            (Access::Delete, vec!["delete"]),
        ] {
            assert_eq!(broken(&maps(json!({ "verbs": needed })), access, &map("n/a")), None);
            for missing in &needed {
                let others: Vec<_> = ALL.into_iter().filter(|verb| verb != missing).collect();
                let grant = maps(json!({ "verbs": others }));
                assert_eq!(broken(&grant, access, &map("n/a")), Some("not-granted"), "{missing}");
            }
        }
    }

    #[test]
    fn what_is_opened_for_one_verb_is_not_opened_for_another() {
        let body = json!({ "spec": { "automountServiceAccountToken": false, "hostNetwork": true } });
        let apply = Access::Apply(&body);
        let rule =
            |verbs: &[&str], open: bool| json!({ "kind": "Pod", "verbs": verbs, "pods": { "hostNetwork": open } });
        let pod = object("", "Pod", "n/a");
        for (rules, breaks) in [
            (json!([rule(&["create"], true), rule(&["update"], false)]), true),
            (json!([rule(&["create"], false), rule(&["update"], true)]), true),
            (json!([rule(&["create"], true), rule(&["update"], true)]), false),
            (json!([rule(&["create", "update"], false), rule(&["create", "update"], true)]), false),
            (json!([rule(&["create"], true), rule(&["create", "update"], false)]), true),
        ] {
            let grant = grant(rules.clone());
            assert_eq!(broken(&grant, apply, &pod).is_some(), breaks, "{rules}");
        }
    }

    #[test]
    fn what_is_watched_is_shown_only_with_all_three_verbs_of_reading() {
        let shown = |verbs: &[&str], place: &str| {
            let (parent, object) = (object("c", "Memcached", "n/parent"), map(place));
            let request = Request { parent: &parent, object: &object, namespaced: true, access: Access::Read };
            maps(json!({ "verbs": verbs })).authorise_watched(&request, &label_of).map_err(|denial| denial.rule())
        };
        assert_eq!(shown(&["get", "list", "watch"], "n/a"), Ok(()));
        for verbs in [["list", "watch"], ["get", "watch"], ["get", "list"]] {
            assert_eq!(shown(&verbs, "n/a"), Err("not-granted"), "{verbs:?}");
        }
        assert_eq!(shown(&["get", "list", "watch"], "other/a"), Err("namespace-not-granted"));
    }

    #[test]
    fn two_rules_together_give_what_an_apply_needs() {
        let grant = grant(json!([
            { "kind": "ConfigMap", "verbs": ["create"], "names": ["a"] },
            { "kind": "ConfigMap", "verbs": ["update"] },
        ]));
        assert_eq!(broken(&grant, Access::Apply(&json!({})), &map("n/a")), None);
        assert_eq!(broken(&grant, Access::Apply(&json!({})), &map("n/b")), Some("name-not-granted"));
    }

    #[test]
    fn a_child_never_leaves_the_namespace_of_its_parent() {
        for namespaces in
            [json!("own"), json!("cluster"), json!(["n", "other"]), json!({ "matchLabels": { "colour": "red" } })]
        {
            let grant = maps(json!({ "namespaces": namespaces }));
            for place in ["other/a", "red/a", "a"] {
                for access in [Access::Apply(&json!({})), Access::Delete] {
                    assert_eq!(broken(&grant, access, &map(place)), Some("foreign-namespace"), "{place}");
                }
            }
        }
    }

    #[test]
    fn reads_reach_as_far_as_a_rule_says() {
        let read =
            |namespaces: Value, place| broken(&maps(json!({ "namespaces": namespaces })), Access::Read, &map(place));
        let denied = Some("namespace-not-granted");
        assert_eq!(read(json!("own"), "n/a"), None);
        assert_eq!(read(json!("own"), "other/a"), denied);
        assert_eq!(read(json!("own"), "a"), denied);
        assert_eq!(read(json!(["other"]), "other/a"), None);
        assert_eq!(read(json!(["other"]), "n/a"), denied, "a list without the parent's namespace leaves it out");
        assert_eq!(read(json!(["other"]), "a"), denied);
        assert_eq!(read(json!("cluster"), "other/a"), None);
        assert_eq!(read(json!("cluster"), "a"), None);
        let red = json!({ "matchLabels": { "colour": "red" } });
        assert_eq!(read(red.clone(), "red/a"), None);
        assert_eq!(read(red.clone(), "blue/a"), denied);
        assert_eq!(read(red.clone(), "unlabelled/a"), denied);
        assert_eq!(read(red, "a"), denied);
        let two = json!({ "matchLabels": { "colour": "red", "size": "big" } });
        assert_eq!(read(two, "red/a"), denied, "every label must be there");
    }

    #[test]
    fn a_selector_with_nothing_in_it_selects_nothing() {
        let mut grant = maps(json!({ "namespaces": { "matchLabels": { "a": "b" } } }));
        grant.rules[0].namespaces = Namespaces::Selected(Selector { match_labels: BTreeMap::new() });
        assert_eq!(broken(&grant, Access::Read, &map("n/a")), Some("namespace-not-granted"));
    }

    #[test]
    fn under_a_parent_without_a_namespace_children_need_a_rule_that_says_where() {
        let apply = |namespaces: Value, place| {
            let grant = maps(json!({ "namespaces": namespaces }));
            broken_for(&grant, "parent", Access::Apply(&json!({})), &map(place))
        };
        let denied = Some("namespace-not-granted");
        assert_eq!(apply(json!("own"), "n/a"), denied);
        assert_eq!(apply(json!("own"), "a"), denied);
        assert_eq!(apply(json!(["n"]), "n/a"), None);
        assert_eq!(apply(json!(["n"]), "other/a"), denied);
        assert_eq!(apply(json!({ "matchLabels": { "colour": "red" } }), "red/a"), None);
        assert_eq!(apply(json!({ "matchLabels": { "colour": "red" } }), "blue/a"), denied);
        assert_eq!(apply(json!("cluster"), "n/a"), None);
        assert_eq!(apply(json!("cluster"), "a"), None);
    }

    #[test]
    fn scope_is_what_discovery_says() {
        let parent = object("c", "Memcached", "parent");
        let grant = maps(json!({ "namespaces": "cluster" }));
        for (place, namespaced) in [("n/a", false), ("a", true)] {
            let object = map(place);
            let request = Request { parent: &parent, object: &object, namespaced, access: Access::Read };
            assert_eq!(grant.authorise(&request, &label_of).unwrap_err().rule(), "scope");
        }
    }

    #[test]
    fn a_rule_with_names_is_about_those_names() {
        let grant = maps(json!({ "names": ["exact", "prefix-*"] }));
        for access in [Access::Read, Access::Apply(&json!({})), Access::Delete] {
            assert_eq!(broken(&grant, access, &map("n/exact")), None);
            assert_eq!(broken(&grant, access, &map("n/prefix-1")), None);
            assert_eq!(broken(&grant, access, &map("n/exactly")), Some("name-not-granted"));
        }
    }

    #[test]
    fn secrets_are_read_by_a_rule_with_names_only() {
        let secret = object("", "Secret", "n/a");
        let without = grant(json!([{ "kind": "Secret", "verbs": ALL }]));
        assert_eq!(broken(&without, Access::Read, &secret), Some("secret-names"));
        assert_eq!(broken(&without, Access::Apply(&json!({})), &secret), None);
        assert_eq!(broken(&without, Access::Delete, &secret), None);
        let with = grant(json!([{ "kind": "Secret", "verbs": ALL, "names": ["a"] }]));
        assert_eq!(broken(&with, Access::Read, &secret), None);
        assert_eq!(broken(&with, Access::Read, &object("", "Secret", "n/b")), Some("name-not-granted"));
        let alike = grant(json!([{ "group": "g", "kind": "Secret", "verbs": ALL }]));
        assert_eq!(broken(&alike, Access::Read, &object("g", "Secret", "n/a")), None);
        for (verb, open) in [(Verb::Get, false), (Verb::List, false), (Verb::Watch, false), (Verb::Create, true)] {
            assert_eq!(without.allows(verb, &secret.kind), open);
            assert!(with.allows(verb, &secret.kind));
        }
    }

    #[test]
    fn what_holds_data_is_deleted_only_where_that_is_said() {
        for (group, kind, place, data) in [
            ("", "PersistentVolumeClaim", "n/a", true),
            ("", "Namespace", "a", true),
            ("", "ConfigMap", "n/a", false),
            ("g", "PersistentVolumeClaim", "n/a", false),
        ] {
            let child = object(group, kind, place);
            let parent = if place.contains('/') { "n/parent" } else { "parent" };
            let with = |prune_data: bool| {
                let rule = json!({ "group": group, "kind": kind, "verbs": ALL, "namespaces": "cluster", "pruneData": prune_data });
                // Where it means nothing it cannot be said, and would change nothing.
                let rules = serde_json::from_value(json!([rule])).unwrap();
                Grant { rules, prune_all: false, host_namespace: "hotshoe-system".into() }
            };
            assert_eq!(broken_for(&with(false), parent, Access::Delete, &child), data.then_some("prune-data"));
            assert_eq!(broken_for(&with(true), parent, Access::Delete, &child), None);
            assert_eq!(broken_for(&with(false), parent, Access::Apply(&json!({})), &child), None);
        }
    }

    #[test]
    fn one_rule_must_open_all_that_a_body_asks_for() {
        let service = object("", "Service", "n/a");
        let rule = |services: Value| json!({ "kind": "Service", "verbs": ALL, "services": services });
        let body = json!({ "spec": { "type": "NodePort", "externalIPs": ["1.2.3.4"] } });
        let apart = grant(json!([rule(json!({ "types": ["NodePort"] })), rule(json!({ "externalIPs": true }))]));
        assert_eq!(broken(&apart, Access::Apply(&body), &service), Some("service-external-ips"), "of the first rule");
        let together = json!({ "types": ["NodePort"], "externalIPs": true });
        let second = grant(json!([rule(json!({})), rule(together)]));
        assert_eq!(broken(&second, Access::Apply(&body), &service), None);
    }

    #[test]
    fn claims_of_a_stateful_set_are_judged_by_the_rule_that_grants_it() {
        let selector = json!({ "matchLabels": { "app": "parent" } });
        let claims = [json!({ "metadata": { "name": "data" } })];
        let claims = json!({ "spec": { "selector": selector, "volumeClaimTemplates": claims } });
        let policy = json!({ "whenDeleted": "Delete" });
        let loses = json!({ "spec": { "selector": selector, "persistentVolumeClaimRetentionPolicy": policy } });
        let with = |more: Value| {
            let mut rule = json!({ "group": "apps", "kind": "StatefulSet", "verbs": ALL });
            rule.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            grant(json!([rule]))
        };
        let set = |name: &str| object("apps", "StatefulSet", name);
        assert_eq!(broken(&with(json!({})), Access::Apply(&claims), &set("n/parent")), None);
        assert_eq!(broken(&with(json!({})), Access::Apply(&claims), &set("n/a")), Some("pod-volume-claim"));
        let open = with(json!({ "pods": { "persistentVolumeClaims": ["data-*"] } }));
        assert_eq!(broken(&open, Access::Apply(&claims), &set("n/a")), None);
        assert_eq!(broken(&with(json!({})), Access::Apply(&loses), &set("n/a")), Some("prune-data"));
        assert_eq!(broken(&with(json!({ "pruneData": true })), Access::Apply(&loses), &set("n/a")), None);
    }

    #[test]
    fn a_selector_is_judged_by_the_rule_that_grants_it() {
        let body = json!({ "spec": { "selector": { "matchLabels": { "app": "ci-runner" } } } });
        for kind in ["ReplicaSet", "Deployment", "StatefulSet"] {
            let with = |pods: Value| grant(json!([{ "group": "apps", "kind": kind, "verbs": ALL, "pods": pods }]));
            let child = object("apps", kind, "n/a");
            assert_eq!(broken(&with(json!({})), Access::Apply(&body), &child), Some("pod-adoption"), "{kind}");
            assert_eq!(broken(&with(json!({ "adopt": true })), Access::Apply(&body), &child), None, "{kind}");
        }
    }

    #[test]
    fn a_pod_template_is_judged_on_every_apply() {
        let grant = grant(json!([{ "group": "apps", "kind": "Deployment", "verbs": ALL }]));
        let body = json!({ "spec": { "template": { "spec": { "hostNetwork": true } } } });
        let deployment = object("apps", "Deployment", "n/a");
        assert_eq!(broken(&grant, Access::Apply(&body), &deployment), Some("pod-host-network"));
        assert_eq!(broken(&grant, Access::Delete, &deployment), None);
    }

    #[test]
    fn nothing_is_allowed_by_no_rule_at_all() {
        let grant = grant(json!([]));
        assert_eq!(broken(&grant, Access::Read, &map("n/a")), Some("not-granted"));
        assert!(!grant.allows(Verb::Get, &map("n/a").kind));
    }

    #[test]
    fn a_kind_that_is_never_granted_is_not_allowed_either() {
        let grant = grant(json!([
            { "group": "rbac.authorization.k8s.io", "kind": "Role", "verbs": ALL },
            { "kind": "ConfigMap", "verbs": ["get"] },
        ]));
        assert!(!grant.allows(Verb::Get, &Kind::new("rbac.authorization.k8s.io", "v1", "Role")));
        assert!(grant.allows(Verb::Get, &Kind::new("", "v1", "ConfigMap")));
        assert!(!grant.allows(Verb::List, &Kind::new("", "v1", "ConfigMap")));
    }

    #[test]
    fn a_rule_for_the_closed_namespace_alone_allows_nothing() {
        let allowed = |namespaces: Value| maps(json!({ "namespaces": namespaces })).allows(Verb::Get, &map("n/a").kind);
        assert!(!allowed(json!(["hotshoe-system"])));
        for namespaces in [json!(["hotshoe-system", "a"]), json!(["a"]), json!("own"), json!("cluster")] {
            assert!(allowed(namespaces.clone()), "{namespaces}");
        }
    }

    #[test]
    fn only_labels_that_a_rule_selects_by_need_be_known() {
        let selecting = grant(json!([
            { "kind": "ConfigMap", "verbs": ["get"], "namespaces": { "matchLabels": { "b": "1", "a": "2" } } },
            { "kind": "Pod", "verbs": ["get"], "namespaces": { "matchLabels": { "a": "3" } } },
        ]));
        assert_eq!(selecting.namespace_labels().into_iter().collect::<Vec<_>>(), ["a", "b"]);
        assert!(maps(json!({ "namespaces": ["a"] })).namespace_labels().is_empty());
    }

    #[test]
    fn a_rule_says_where_it_holds() {
        for (namespaces, text) in [
            (json!("own"), "the parent's namespace"),
            (json!("cluster"), "every namespace"),
            (json!(["a", "b"]), "namespaces a, b"),
            (json!({ "matchLabels": { "a": "b", "c": "d" } }), "namespaces with a=b,c=d"),
        ] {
            assert_eq!(maps(json!({ "namespaces": namespaces })).rules[0].namespaces.to_string(), text);
        }
    }

    #[test]
    fn each_refusal_says_what_to_do() {
        let message = |grant: &Grant, access: Access<'_>, object: ObjectRef| {
            let parent = self::object("c", "Memcached", "n/parent");
            let request = Request { parent: &parent, object: &object, namespaced: object.namespace.is_some(), access };
            grant.authorise(&request, &label_of).unwrap_err().to_string()
        };
        let none = maps(json!({ "verbs": ["list"] }));
        assert!(message(&none, Access::Read, map("n/a")).ends_with(
            "`get` on ConfigMap is not granted; to allow it, add to spec.grants[0] in plugin.yaml: verbs: [get]"
        ));
        let own = maps(json!({}));
        assert!(message(&own, Access::Read, map("a")).contains("namespaces: cluster"));
        let other = message(&own, Access::Read, map("x/a"));
        assert!(other.contains("covers the namespace x"), "{other}");
        assert!(other.ends_with("- {kind: ConfigMap, namespaces: [x], verbs: [get]}"), "{other}");
    }

    #[test]
    fn a_rule_that_cannot_be_meant_is_named() {
        let error = |rule: Value| serde_json::from_value::<Rule>(rule).unwrap().validate().unwrap_err();
        for (rule, says) in [
            (json!({ "kind": "", "verbs": [] }), "no kind"),
            (json!({ "kind": "Pod/exec", "verbs": [] }), "subresources"),
            (json!({ "kind": "Pod", "verbs": [] }), "verbs is an empty list"),
            (json!({ "kind": "Pod", "verbs": [], "namespaces": [] }), "namespaces is an empty list"),
            (json!({ "kind": "Pod", "verbs": [], "namespaces": ["a", "B"] }), "\"B\""),
            (json!({ "kind": "Pod", "verbs": [], "namespaces": { "matchLabels": {} } }), "matchLabels is empty"),
            (json!({ "kind": "Pod", "verbs": [], "names": ["a", ""] }), "names has"),
            (json!({ "kind": "Pod", "verbs": [], "pods": { "secrets": ["**"] } }), "pods.secrets has"),
            (json!({ "kind": "Secret", "verbs": [], "pods": { "hostPID": true } }), "no Pods"),
            (json!({ "kind": "PersistentVolumeClaim", "verbs": [], "pods": { "hostPID": true } }), "no Pods"),
            (json!({ "kind": "Pod", "verbs": [], "services": { "clusterIP": true } }), "another kind than Service"),
            (
                json!({ "kind": "Service", "verbs": [], "services": { "annotations": [""] } }),
                "services.annotations has",
            ),
            (
                json!({ "kind": "Service", "verbs": [], "services": { "types": ["Nodeport"] } }),
                "services.types has \"Nodeport\"",
            ),
            (json!({ "kind": "Pod", "verbs": [], "names": ["ABC"] }), "names has \"ABC\""),
            (
                json!({ "kind": "Pod", "verbs": [], "namespaces": ["a", "own"] }),
                "write `namespaces: own` without brackets",
            ),
            (json!({ "kind": "Pod", "verbs": [], "namespaces": ["cluster"] }), "metadata.name: cluster}}"),
            (json!({ "kind": "Pod", "verbs": [], "namespaces": { "matchLabels": { "a b": "c" } } }), "\"a b\""),
            (json!({ "kind": "Pod", "verbs": [], "namespaces": { "matchLabels": { "a": "b c" } } }), "\"b c\""),
            (
                json!({ "kind": "ConfigMap", "verbs": [], "pruneData": true }),
                "pruneData is said of the kind \"ConfigMap\"",
            ),
        ] {
            let error = error(rule);
            assert!(error.contains(says), "{error}");
        }
        let empty = json!({ "kind": "Pod", "verbs": ["get"], "namespaces": { "matchLabels": { "a.io/b": "" } } });
        assert_eq!(serde_json::from_value::<Rule>(empty).unwrap().validate(), Ok(()), "a label may have no value");
        for (group, kind) in [("", "Namespace"), ("", "PersistentVolumeClaim"), ("apps", "StatefulSet")] {
            let loses = json!({ "group": group, "kind": kind, "verbs": ["get"], "pruneData": true });
            assert_eq!(serde_json::from_value::<Rule>(loses).unwrap().validate(), Ok(()), "{kind}");
        }
        let pods = json!({ "claimSources": ["a"], "annotations": ["a.io/*"] });
        let filled = json!({ "kind": "PersistentVolumeClaim", "verbs": ["get"], "pods": pods });
        assert_eq!(serde_json::from_value::<Rule>(filled).unwrap().validate(), Ok(()));
    }

    #[test]
    fn a_kind_that_differs_from_a_known_one_in_case_or_group_is_named_with_it() {
        let set = "is the kind \"StatefulSet\" of the group \"apps\" meant?";
        let service = "is the kind \"Service\" of the group \"\" meant?";
        for (group, kind, more, says) in [
            ("apps", "statefulset", json!({}), set),
            ("app", "StatefulSet", json!({ "pods": { "hostPID": true } }), set),
            ("", "StatefulSet", json!({ "pruneData": true }), set),
            ("apps", "deployment", json!({}), "is the kind \"Deployment\" of the group \"apps\" meant?"),
            ("v1", "service", json!({}), service),
            ("v1", "Service", json!({ "services": { "clusterIP": true } }), service),
            ("apps/v1", "StatefulSet", json!({}), "group has \"apps/v1\"; a group is written without a version"),
            ("", "widget", json!({}), "kind has \"widget\""),
            ("g", "Widget", json!({ "pods": { "hostPID": true } }), "makes no Pods; remove it"),
            ("", "Secret", json!({ "pruneData": true }), "holds no data; remove it"),
            ("", "PersistentVolumeClaim", json!({ "pods": { "adopt": true } }), "claimSources and annotations"),
        ] {
            let mut rule = json!({ "group": group, "kind": kind, "verbs": ["get"] });
            rule.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let error = serde_json::from_value::<Rule>(rule).unwrap().validate().unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn what_a_descriptor_asks_for_is_counted_once() {
        let kind = Kind::new("apps", "v1", "Deployment");
        let read = |kind: &Kind| ReadKind {
            key: "k".into(),
            kind: kind.clone(),
            selector: String::new(),
            rule: MatchRule::ParentLabel("l".into()),
            fields: Vec::new(),
        };
        let owned =
            OwnedKind { kind: kind.clone(), verbs: vec![WriteVerb::Create, WriteVerb::Delete], fields: Vec::new() };
        let pod = Kind::new("", "v1", "Pod");
        let descriptor = Descriptor {
            name: "n".into(),
            version: "1".into(),
            parent: Kind::new("c", "v1", "Memcached"),
            parent_fields: Vec::new(),
            owns: vec![owned],
            reads: vec![read(&Kind::new("apps", "v2", "Deployment")), read(&pod)],
            finalizer: None,
            wants_now: false,
            wants_attempt: false,
            config_schema: None,
        };
        let watching = vec![Verb::Get, Verb::List, Verb::Watch];
        let writing = [watching.clone(), vec![Verb::Create, Verb::Delete]].concat();
        assert_eq!(asked(&descriptor), [(kind, writing), (pod, watching)]);
        let given =
            grant(json!([{ "group": "apps", "kind": "Deployment", "verbs": ["get", "list", "watch", "update"] }]));
        let missing = "create, delete on Deployment.apps; get, list, watch on Pod";
        assert_eq!(lacking(&descriptor, &given).as_deref(), Some(missing));
        let rule = |group: &str, kind: &str| json!({ "group": group, "kind": kind, "verbs": ALL });
        assert_eq!(lacking(&descriptor, &grant(json!([rule("apps", "Deployment"), rule("", "Pod")]))), None);
    }

    #[test]
    fn verbs_are_rbacs() {
        let words: Vec<_> =
            [Verb::Get, Verb::List, Verb::Watch, Verb::Create, Verb::Update, Verb::Delete].map(Verb::as_str).into();
        assert_eq!(words, ALL);
        assert_eq!(Verb::from(WriteVerb::Update), Verb::Update);
    }
}
