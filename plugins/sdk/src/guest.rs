//! The component around a plugin. No other file uses the generated bindings.

use std::{marker::PhantomData, time::Duration};

use crate::{
    AdmissionContext, Answer, Children, Cleanup, Condition, Converter, Decision, Defaulter, Descriptor, ErrorReason,
    Event, Failure, FieldError, MatchRule, Object, ObjectRef, Observation, Operation, Owned, Read, Reconciler, Refusal,
    Related, Requirement, ResourceKind, Severity, Status, User, Validator, Verb, Verdict, log::Level,
};

use self::converting::exports::hotshoe::reconciler0_2_0::conversion;
use self::defaulting::exports::hotshoe::reconciler0_2_0::defaulting as defaults;
use self::generated::exports::hotshoe::reconciler::reconciler as export;
use self::generated::hotshoe::reconciler::{log as import, types as wit};
use self::validating::exports::hotshoe::reconciler0_2_0::validation;
use self::validating::hotshoe::reconciler0_2_0::admission;

/// Written by `wit-bindgen` from the contract. Public only for [`crate::export!`].
#[allow(
    missing_docs,
    unreachable_pub,
    unsafe_code,
    clippy::all,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "generated code, which speaks the canonical ABI"
)]
pub mod generated {
    wit_bindgen::generate!({
        path: "wit",
        world: "plugin",
        pub_export_macro: true,
    });
}

/// Written by `wit-bindgen` from what 0.2.0 of the contract adds, over the types of the first version. Public only for
/// [`crate::export!`].
#[allow(
    missing_docs,
    unreachable_pub,
    unsafe_code,
    clippy::all,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "generated code, which speaks the canonical ABI"
)]
pub mod converting {
    wit_bindgen::generate!({
        path: ["wit", "wit/0.2.0"],
        inline: "package hotshoe:sdk; world converting { export hotshoe:reconciler/conversion@0.2.0; }",
        world: "hotshoe:sdk/converting",
        with: { "hotshoe:reconciler/types@0.1.0": crate::guest::generated::hotshoe::reconciler::types },
        pub_export_macro: true,
    });
}

/// As [`converting`], for plugins that validate.
#[allow(
    missing_docs,
    unreachable_pub,
    unsafe_code,
    clippy::all,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "generated code, which speaks the canonical ABI"
)]
pub mod validating {
    wit_bindgen::generate!({
        path: ["wit", "wit/0.2.0"],
        inline: "package hotshoe:sdk; world validating { export hotshoe:reconciler/validation@0.2.0; }",
        world: "hotshoe:sdk/validating",
        with: {
            "hotshoe:reconciler/types@0.1.0": crate::guest::generated::hotshoe::reconciler::types,
            "hotshoe:reconciler/admission@0.2.0": generate,
        },
        pub_export_macro: true,
    });
}

/// As [`converting`], for plugins that fill in defaults.
#[allow(
    missing_docs,
    unreachable_pub,
    unsafe_code,
    clippy::all,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "generated code, which speaks the canonical ABI"
)]
pub mod defaulting {
    wit_bindgen::generate!({
        path: ["wit", "wit/0.2.0"],
        inline: "package hotshoe:sdk; world defaulting { export hotshoe:reconciler/defaulting@0.2.0; }",
        world: "hotshoe:sdk/defaulting",
        with: {
            "hotshoe:reconciler/types@0.1.0": crate::guest::generated::hotshoe::reconciler::types,
            "hotshoe:reconciler/admission@0.2.0": crate::guest::validating::hotshoe::reconciler0_2_0::admission,
        },
        pub_export_macro: true,
    });
}

/// Exports a [`Reconciler`] in the form that the contract requires.
pub struct Guest<R>(PhantomData<R>);

impl<R: Reconciler> export::Guest for Guest<R> {
    fn describe() -> wit::Descriptor {
        log_panics();
        R::describe().into()
    }

    fn reconcile(request: wit::Request) -> Result<wit::Answer, wit::Failure> {
        log_panics();
        crate::reconcile::<R>(request.into()).map(Into::into).map_err(Into::into)
    }

    fn finalize(request: wit::Request) -> Result<wit::Cleanup, wit::Failure> {
        log_panics();
        crate::finalize::<R>(request.into()).map(Into::into).map_err(Into::into)
    }
}

impl<C: Converter> conversion::Guest for Guest<C> {
    fn convert(objects: Vec<wit::Object>, to_version: String) -> Result<Vec<wit::Object>, wit::Failure> {
        log_panics();
        crate::convert::<C>(each(objects), &to_version).map(each).map_err(Into::into)
    }
}

impl<V: Validator> validation::Guest for Guest<V> {
    fn validate(
        new: wit::Object,
        old: Option<wit::Object>,
        context: admission::Context,
    ) -> Result<validation::Verdict, wit::Failure> {
        log_panics();
        let old: Option<Object> = old.map(Into::into);
        crate::validate::<V>(&new.into(), old.as_ref(), context.into()).map(Into::into).map_err(Into::into)
    }
}

impl<D: Defaulter> defaults::Guest for Guest<D> {
    fn default(object: wit::Object, context: admission::Context) -> Result<wit::Object, wit::Failure> {
        log_panics();
        crate::default::<D>(object.into(), context.into()).map(Into::into).map_err(Into::into)
    }
}

/// Logs the place and the message of a panic before it traps: the trap itself carries neither.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| log(Level::Error, &panic.to_string())));
}

pub(crate) fn log(level: Level, message: &str) {
    let level = match level {
        Level::Trace => import::Level::Trace,
        Level::Debug => import::Level::Debug,
        Level::Info => import::Level::Info,
        Level::Warn => import::Level::Warn,
        Level::Error => import::Level::Error,
    };
    import::log(level, message);
}

fn each<A: Into<B>, B>(items: Vec<A>) -> Vec<B> {
    items.into_iter().map(Into::into).collect()
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

// From the host.

impl From<wit::Request> for Observation {
    fn from(request: wit::Request) -> Self {
        Self {
            parent: request.parent.into(),
            children: each(request.children),
            related: each(request.related),
            refusals: each(request.refusals),
            config: request.config,
            now: request.now,
            attempt: request.attempt,
        }
    }
}

impl From<wit::Related> for Related {
    fn from(related: wit::Related) -> Self {
        Self { key: related.key, objects: each(related.objects) }
    }
}

impl From<wit::Refusal> for Refusal {
    fn from(refusal: wit::Refusal) -> Self {
        Self { reference: refusal.ref_.into(), code: refusal.code, reason: refusal.reason, message: refusal.message }
    }
}

impl From<wit::Object> for Object {
    fn from(object: wit::Object) -> Self {
        Self { reference: object.ref_.into(), json: object.json }
    }
}

impl From<wit::ObjectRef> for ObjectRef {
    fn from(reference: wit::ObjectRef) -> Self {
        Self { kind: reference.kind.into(), namespace: reference.namespace, name: reference.name }
    }
}

impl From<wit::ResourceKind> for ResourceKind {
    fn from(kind: wit::ResourceKind) -> Self {
        Self { group: kind.group, version: kind.version, kind: kind.kind }
    }
}

impl From<admission::Context> for AdmissionContext {
    fn from(context: admission::Context) -> Self {
        let operation = match context.operation {
            admission::Operation::Create => Operation::Create,
            admission::Operation::Update => Operation::Update,
        };
        let user = context.user.map(User::from);
        Self { operation, config: context.config, dry_run: context.dry_run, user }
    }
}

impl From<admission::UserInfo> for User {
    fn from(user: admission::UserInfo) -> Self {
        Self { username: user.username, uid: user.uid, groups: user.groups }
    }
}

// To the host.

impl From<Verdict> for validation::Verdict {
    fn from(verdict: Verdict) -> Self {
        Self { errors: each(verdict.errors), warnings: verdict.warnings }
    }
}

impl From<FieldError> for validation::FieldError {
    fn from(error: FieldError) -> Self {
        let reason = match error.reason {
            ErrorReason::Invalid => validation::ErrorReason::Invalid,
            ErrorReason::Required => validation::ErrorReason::Required,
            ErrorReason::Forbidden => validation::ErrorReason::Forbidden,
            ErrorReason::NotSupported => validation::ErrorReason::NotSupported,
            ErrorReason::Duplicate => validation::ErrorReason::Duplicate,
            ErrorReason::NotFound => validation::ErrorReason::NotFound,
            ErrorReason::TooLong => validation::ErrorReason::TooLong,
            ErrorReason::TooMany => validation::ErrorReason::TooMany,
            ErrorReason::TypeInvalid => validation::ErrorReason::TypeInvalid,
        };
        Self { field: error.field, reason, message: error.message }
    }
}

impl From<Object> for wit::Object {
    fn from(object: Object) -> Self {
        Self { ref_: object.reference.into(), json: object.json }
    }
}

impl From<ObjectRef> for wit::ObjectRef {
    fn from(reference: ObjectRef) -> Self {
        Self { kind: reference.kind.into(), namespace: reference.namespace, name: reference.name }
    }
}

impl From<ResourceKind> for wit::ResourceKind {
    fn from(kind: ResourceKind) -> Self {
        Self { group: kind.group, version: kind.version, kind: kind.kind }
    }
}

impl From<Answer> for wit::Answer {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Decided(decision) => Self::Decided(decision.into()),
            Answer::Needs(requirements) => Self::Needs(each(requirements)),
        }
    }
}

impl From<Cleanup> for wit::Cleanup {
    fn from(cleanup: Cleanup) -> Self {
        match cleanup {
            Cleanup::Waiting(decision) => Self::Waiting(decision.into()),
            Cleanup::Done(decision) => Self::Done(decision.into()),
        }
    }
}

impl From<Requirement> for wit::Requirement {
    fn from(requirement: Requirement) -> Self {
        Self {
            key: requirement.key,
            kind: requirement.kind.into(),
            namespace: requirement.namespace,
            name: requirement.name,
        }
    }
}

impl From<Failure> for wit::Failure {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Retry { message, after } => Self::Retry(wit::Retry { message, after: after.map(milliseconds) }),
            Failure::Reject { message, field } => Self::Reject(wit::Rejection { message, field }),
            Failure::Other(message) => Self::Other(message),
        }
    }
}

impl From<Decision> for wit::Decision {
    fn from(decision: Decision) -> Self {
        Self {
            children: decision.children.into(),
            status: decision.status,
            conditions: each(decision.conditions),
            events: each(decision.events),
            requeue_after: decision.requeue_after.map(milliseconds),
        }
    }
}

impl From<Children> for wit::Children {
    fn from(children: Children) -> Self {
        match children {
            Children::Exactly(objects) => Self::Exactly(each(objects)),
            Children::Keep => Self::Keep,
        }
    }
}

impl From<Condition> for wit::Condition {
    fn from(condition: Condition) -> Self {
        Self {
            name: condition.name,
            status: match condition.status {
                Status::True => wit::ConditionStatus::True,
                Status::False => wit::ConditionStatus::False,
                Status::Unknown => wit::ConditionStatus::Unknown,
            },
            reason: condition.reason,
            message: condition.message,
        }
    }
}

impl From<Event> for wit::Event {
    fn from(event: Event) -> Self {
        Self {
            severity: match event.severity {
                Severity::Normal => wit::EventSeverity::Normal,
                Severity::Warning => wit::EventSeverity::Warning,
            },
            reason: event.reason,
            message: event.message,
        }
    }
}

impl From<Descriptor> for wit::Descriptor {
    fn from(descriptor: Descriptor) -> Self {
        Self {
            name: descriptor.name,
            version: descriptor.version,
            parent: descriptor.parent.into(),
            parent_fields: descriptor.parent_fields,
            owns: each(descriptor.owns),
            reads: each(descriptor.reads),
            finalizer: descriptor.finalizer,
            wants_now: descriptor.wants_now,
            wants_attempt: descriptor.wants_attempt,
            config_schema: descriptor.config_schema,
        }
    }
}

impl From<Owned> for wit::OwnedKind {
    fn from(owned: Owned) -> Self {
        Self { kind: owned.kind.into(), verbs: each(owned.verbs), fields: owned.fields }
    }
}

impl From<Verb> for wit::Verb {
    fn from(verb: Verb) -> Self {
        match verb {
            Verb::Create => Self::Create,
            Verb::Update => Self::Update,
            Verb::Delete => Self::Delete,
        }
    }
}

impl From<Read> for wit::ReadKind {
    fn from(read: Read) -> Self {
        Self {
            key: read.key,
            kind: read.kind.into(),
            selector: read.selector,
            match_: match read.rule {
                MatchRule::ParentLabel(key) => wit::MatchRule::ParentLabel(key),
                MatchRule::ParentField(path) => wit::MatchRule::ParentField(path),
            },
            fields: read.fields,
        }
    }
}
