//! Authorises one request: some rule must give each verb for this object, and open all that its body asks for.

use serde_json::Value;

use crate::check::access_request::{Access, LabelOf, Request, Verb};
use crate::check::denied;
use crate::check::fix::{Fix, Opening};
use crate::check::grant::{Grant, Rule};
use crate::check::violation::{Checked, Denial, Violation, all};
use crate::model::kind::{Kind, ObjectRef};

/// The rule that keeps a plugin out of namespaces in which no grant holds.
pub const NAMESPACE_NOT_GRANTED: &str = "namespace-not-granted";

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

    /// Authorises showing an object that the host lists and watches for the plugin: a child, or one of a kind
    /// that it declared to read. It needs the verbs `list` and `watch` too.
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

    /// Lists what the body needs beyond the verbs, so that one edit of `plugin.yaml` opens all of it.
    fn check_body_without_grant(&self, request: &Request<'_>) -> Checked {
        let (Some(body), kind) = (request.access.body(), &request.object.kind) else { return Ok(()) };
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

    /// Checks that a rule grants the verb on this object and opens what its body asks for. `opens` remembers a rule
    /// that opens the body, whatever the verb.
    fn check_verb<'r>(
        &'r self,
        verb: Verb,
        request: &Request<'_>,
        label_of: &LabelOf<'_>,
        opens: &mut Option<&'r Rule>,
    ) -> Checked {
        let Request { parent, object, access, .. } = request;
        let of_data = |rule: &Rule| object.kind.is(&rule.group, &rule.kind) && rule.is_of_data();
        let loses_data = verb == Verb::Delete && self.rules.iter().any(of_data);
        let steps: [Step<'_>; 5] = [
            (&|rule| rule.is_for(verb, &object.kind), &|_| self.not_granted(&[verb], object)),
            (&|rule| rule.may_open(verb), &|rule| unnamed_secret(object, rule)),
            (&|rule| rule.covers_name(&object.name), &|rule| other_name(verb, object, rule)),
            (&|rule| rule.namespaces.cover(parent, object, label_of), &|_| other_namespace(verb, request)),
            (&|rule| !loses_data || rule.prune_data, &|rule| holds_data(object, rule)),
        ];
        let passed = |rule: &Rule| steps.iter().take_while(|(passes, _)| passes(rule)).count();
        let furthest = self.rules.iter().map(passed).max().unwrap_or_default();
        if let Some((_, why_not)) = steps.get(furthest) {
            let nearest = self.rules.iter().position(|rule| passed(rule) == furthest);
            return Err(why_not(nearest).into());
        }
        let Some(body) = access.body() else { return Ok(()) };
        let mut giving = self.rules.iter().enumerate().filter(|(_, rule)| passed(rule) == steps.len());
        if !opens.is_some_and(|opens| giving.clone().any(|(_, rule)| std::ptr::eq(rule, opens))) {
            *opens = check_body(&mut giving, request, body)?;
        }
        Ok(())
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
    let fix = match violation.fix {
        Some(Fix::Grant(found)) => {
            Some(Fix::Grant(Box::new(Opening { kind: object.kind.clone(), rule: place, ..*found })))
        }
        fix => fix,
    };
    Violation { message: format!("{object}: {}", violation.message), fix, ..violation }
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
        Some(namespace) if parent.own_namespace() == Some(namespace) => {
            (format!("the namespace {namespace}"), Value::from("own"))
        }
        Some(namespace) => (format!("the namespace {namespace}"), vec![&**namespace].into()),
    };
    let message = format!("no grant of `{verb}` on this kind covers {place}");
    let items = vec![("verbs", vec![verb].into()), ("namespaces", namespaces)];
    let fix = Fix::Grant(Box::new(Opening { kind: kind.clone(), rule: None, items }));
    refused(NAMESPACE_NOT_GRANTED, object, &message).fixed_by(fix)
}

fn holds_data(object: &ObjectRef, rule: Option<usize>) -> Violation {
    let fix = opening(&object.kind, rule, "pruneData", true.into());
    refused("prune-data", object, "it holds data").fixed_by(fix)
}
