//! Authorises one request: for each verb, a rule must grant the verb on this object and allow everything in its body.

use serde_json::Value;

use crate::check::access_request::{Access, LabelOf, READ_VERBS, Request, Verb};
use crate::check::denied;
use crate::check::fix::{Fix, GrantChange};
use crate::check::grant::{Grant, Rule};
use crate::check::update_strategy;
use crate::check::violation::{Checked, Denial, Violation, all};
use crate::model::kind::{Kind, ObjectRef};

/// The rule that denies access to namespaces that no grant covers.
pub const NAMESPACE_NOT_GRANTED: &str = "namespace-not-granted";

impl Grant {
    /// Checks that the grant allows a request. Every read and every write is checked here.
    ///
    /// # Errors
    /// When the request is not allowed. Lists the broken rules with their fixes.
    pub fn authorise(&self, request: &Request<'_>, label_of: &LabelOf<'_>) -> Checked {
        denied::check(request, &self.host_namespace)?;
        check_namespace(request)?;
        self.check_recreate(request)?;
        self.check_verbs(request.access.verbs(), request, label_of).map_err(|denial| self.with_present_rules(denial))
    }

    /// Checks that the plugin may be shown an object that the host lists and watches for it: a child, or an object of a
    /// kind that the plugin declares to read. That also requires the verbs `list` and `watch`.
    ///
    /// # Errors
    /// As for [`Self::authorise`].
    pub fn authorise_watched(&self, request: &Request<'_>, label_of: &LabelOf<'_>) -> Checked {
        self.authorise(request, label_of)?;
        self.check_verbs(&[Verb::List, Verb::Watch], request, label_of)
            .map_err(|denial| self.with_present_rules(denial))
    }

    /// Returns whether an object that names a parent as its controller is within the grant. Users may create others,
    /// which are [ignored](crate::check::ignored). A child of a kind that the plugin no longer sees only waits to be
    /// pruned, so the right to delete it is enough.
    pub fn covers_child(&self, parent: &ObjectRef, child: &ObjectRef, is_seen: bool, label_of: &LabelOf<'_>) -> bool {
        let namespaced = child.namespace.is_some();
        let request = |access| Request { parent, object: child, namespaced, access };
        self.authorise_watched(&request(Access::Read), label_of).is_ok()
            || (!is_seen && self.authorise(&request(Access::Delete), label_of).is_ok())
    }

    /// Adds to each fix what the rule that it changes has now.
    pub(super) fn with_present_rules(&self, denial: Denial) -> Denial {
        denial.map(|mut violation| {
            if let Some(Fix::Grant(change)) = &mut violation.fix {
                let rule = change.rule.and_then(|rule| self.rules.get(rule));
                change.now = rule.map(Rule::without_defaults).unwrap_or_default();
            }
            violation
        })
    }

    /// Checks that each verb is granted. Verbs that no rule grants on the kind are reported together, because one line
    /// of `plugin.yaml` can grant them all.
    fn check_verbs(&self, verbs: &[Verb], request: &Request<'_>, label_of: &LabelOf<'_>) -> Checked {
        let kind = &request.object.kind;
        let is_granted = |verb: &Verb| self.rules.iter().any(|rule| rule.is_for(*verb, kind));
        if !verbs.iter().all(is_granted) {
            let missing: Vec<_> = verbs.iter().copied().filter(|verb| !is_granted(verb)).collect();
            let not_granted = Err(self.not_granted(&missing, request).into());
            return all([not_granted, self.check_body_without_grant(request)]);
        }
        let mut body_rule = None;
        all(verbs.iter().map(|verb| self.check_verb(*verb, request, label_of, &mut body_rule)))
    }

    /// Checks that a child that is to be made anew holds no data, of itself or by deleting claims with it.
    fn check_recreate(&self, request: &Request<'_>) -> Result<(), Violation> {
        let (Access::Recreate(body), object) = (request.access, request.object) else { return Ok(()) };
        match self.holds_data(&object.kind) {
            true => Err(update_strategy::holds_data(object, "it holds data")),
            false => update_strategy::check_claims_stay(object, body),
        }
    }

    fn holds_data(&self, kind: &Kind) -> bool {
        Rule::new(kind).is_about_data()
            || self.rules.iter().any(|rule| kind.is(&rule.group, &rule.kind) && rule.is_about_data())
    }

    /// Reports what the body needs besides the missing verbs, so that one edit of `plugin.yaml` allows all of it.
    fn check_body_without_grant(&self, request: &Request<'_>) -> Checked {
        let (Some(body), kind) = (request.access.body(), &request.object.kind) else { return Ok(()) };
        let index = self.rules.iter().position(|rule| kind.is(&rule.group, &rule.kind));
        let checked = match index.and_then(|index| self.rules.get(index)) {
            Some(rule) => rule.check_body(request, body),
            None => Rule::new(kind).check_body(request, body),
        };
        checked.map_err(|denial| denial.map(|violation| in_grant(violation, index, request.object)))
    }

    fn not_granted(&self, verbs: &[Verb], request: &Request<'_>) -> Violation {
        let Request { object, access, .. } = request;
        let kind = &object.kind;
        let words: Vec<_> = verbs.iter().map(|verb| format!("`{}`", verb.as_str())).collect();
        let message = format!("{} on {kind} is not granted", words.join(", "));
        let rule = self.rules.iter().position(|rule| kind.is(&rule.group, &rule.kind));
        // The host watches the children of a plugin, too.
        let watching: &[Verb] = if rule.is_none() && !matches!(access, Access::Read) { &READ_VERBS } else { &[] };
        let also = watching.iter().filter(|verb| !verbs.contains(verb));
        let verbs: Vec<_> = also.chain(verbs).map(|verb| verb.as_str()).collect();
        let mut items = vec![("verbs", verbs.into())];
        if rule.is_none() && request.namespaced && request.parent.own_namespace().is_none() {
            items.push(("namespaces", "cluster".into()));
        }
        let fix = Fix::Grant(Box::new(GrantChange::new(kind.clone(), rule, items)));
        violation("not-granted", object, &message).fixed_by(fix)
    }

    /// Checks that a rule grants the verb on this object and allows its body. `body_rule` caches a rule that allows the
    /// body, so that the body is not checked again for the next verb.
    fn check_verb<'r>(
        &'r self,
        verb: Verb,
        request: &Request<'_>,
        label_of: &LabelOf<'_>,
        body_rule: &mut Option<&'r Rule>,
    ) -> Checked {
        let Request { parent, object, access, .. } = request;
        let loses_data = verb == Verb::Delete && self.holds_data(&object.kind);
        let recreates = matches!(access, Access::Recreate(_));
        let steps: [Step<'_>; 6] = [
            (&|rule| rule.is_for(verb, &object.kind), &|_| self.not_granted(&[verb], request)),
            (&|rule| rule.can_grant(verb), &|rule| unnamed_secret(object, rule)),
            (&|rule| rule.covers_name(&object.name), &|rule| other_name(verb, object, rule)),
            (&|rule| rule.namespaces.cover(parent, object, label_of), &|_| other_namespace(verb, request)),
            (&|rule| !loses_data || rule.prune_data, &|rule| holds_data(object, rule)),
            (&|rule| !recreates || rule.recreate, &|rule| not_recreated(object, rule)),
        ];
        let passed = |rule: &Rule| steps.iter().take_while(|(passes, _)| passes(rule)).count();
        let furthest = self.rules.iter().map(passed).max().unwrap_or_default();
        if let Some((_, violation)) = steps.get(furthest) {
            let closest = self.rules.iter().position(|rule| passed(rule) == furthest);
            return Err(violation(closest).into());
        }
        let Some(body) = access.body() else { return Ok(()) };
        let mut granting = self.rules.iter().enumerate().filter(|(_, rule)| passed(rule) == steps.len());
        if !body_rule.is_some_and(|known| granting.clone().any(|(_, rule)| std::ptr::eq(rule, known))) {
            *body_rule = check_body(&mut granting, request, body)?;
        }
        Ok(())
    }
}

/// One step of the check of a rule, and the violation to report if no rule passes this step. The violation takes the
/// index of the first rule that passed all steps before. The steps run for each object that is shown, so they allocate
/// nothing.
type Step<'a> = (&'a dyn Fn(&Rule) -> bool, &'a dyn Fn(Option<usize>) -> Violation);

/// Checks the scope of an object, and that a child is in the namespace of its parent, because owner references do not
/// cross namespaces. A namespace on a cluster-scoped object would have no effect (CVE-2026-22872).
pub(super) fn check_namespace(request: &Request<'_>) -> Result<(), Violation> {
    let Request { parent, object, namespaced, access } = request;
    if *namespaced != object.namespace.is_some() {
        let has = if *namespaced { "needs a namespace" } else { "has no namespace" };
        return Err(violation("scope", object, &format!("an object of this kind {has}")));
    }
    let leaves = parent.namespace.is_some() && parent.namespace != object.namespace;
    if leaves && !matches!(access, Access::Read) {
        return Err(violation(
            "foreign-namespace",
            object,
            &format!("it is not in the namespace of its parent, {parent}"),
        ));
    }
    Ok(())
}

/// Returns the first of the rules that allows everything in the body.
fn check_body<'r>(
    rules: &mut dyn Iterator<Item = (usize, &'r Rule)>,
    request: &Request<'_>,
    body: &Value,
) -> Result<Option<&'r Rule>, Denial> {
    let mut first = None;
    for (index, rule) in rules {
        match rule.check_body(request, body) {
            Ok(()) => return Ok(Some(rule)),
            Err(denial) => first = first.or(Some((index, denial))),
        }
    }
    match first {
        None => Ok(None),
        Some((index, denial)) => Err(denial.map(|violation| in_grant(violation, Some(index), request.object))),
    }
}

/// Adds the object to the message of a violation, and the kind and the index of the rule to its fix.
fn in_grant(violation: Violation, index: Option<usize>, object: &ObjectRef) -> Violation {
    let fix = match violation.fix {
        Some(Fix::Grant(found)) => {
            Some(Fix::Grant(Box::new(GrantChange { kind: object.kind.clone(), rule: index, ..*found })))
        }
        fix => fix,
    };
    Violation { message: format!("{object}: {}", violation.message), fix, ..violation }
}

fn grant_change(kind: &Kind, rule: Option<usize>, item: &'static str, value: Value) -> Fix {
    Fix::Grant(Box::new(GrantChange::new(kind.clone(), rule, vec![(item, value)])))
}

pub(super) fn violation(rule: &'static str, object: &ObjectRef, message: &str) -> Violation {
    Violation::new(rule, format!("{object}: {message}"))
}

fn unnamed_secret(object: &ObjectRef, rule: Option<usize>) -> Violation {
    let fix = grant_change(&object.kind, rule, "names", vec![&*object.name].into());
    violation("secret-names", object, "Secrets are read by name only").fixed_by(fix)
}

fn other_name(verb: Verb, object: &ObjectRef, rule: Option<usize>) -> Violation {
    let message = format!("no grant of `{}` on this kind has this name", verb.as_str());
    let fix = grant_change(&object.kind, rule, "names", vec![&*object.name].into());
    violation("name-not-granted", object, &message).fixed_by(fix)
}

/// Reports a namespace that no rule covers. The fix is a new grant, because a rule with `own` cannot name other
/// namespaces too.
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
    let fix = Fix::Grant(Box::new(GrantChange::new(kind.clone(), None, items)));
    violation(NAMESPACE_NOT_GRANTED, object, &message).fixed_by(fix)
}

fn not_recreated(object: &ObjectRef, rule: Option<usize>) -> Violation {
    let fix = grant_change(&object.kind, rule, "recreate", true.into());
    let message = "it is to be deleted and made anew where it cannot change, which is not granted";
    violation("recreate", object, message).fixed_by(fix)
}

fn holds_data(object: &ObjectRef, rule: Option<usize>) -> Violation {
    let fix = grant_change(&object.kind, rule, "pruneData", true.into());
    violation("prune-data", object, "it holds data").fixed_by(fix)
}
