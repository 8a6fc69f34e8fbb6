//! Converts between the model's types and the contract's generated ones, which only this module knows.
//!
//! Nothing is checked here. The converted answer is bounded only by the limit on bytes that cross the boundary at once;
//! [`answer`](hotshoe_core::check::answer) and [`descriptor`](super::descriptor) check it.

use std::time::Duration;

use wasmtime::Store;
use wasmtime::component::{
    self, Component, ComponentExportIndex, ComponentNamedList, ComponentType, HasSelf, Lift, Linker, Lower,
};

use crate::bindings::generated::hotshoe::reconciler::{log, types as wit};
use crate::store::{Level, Sandbox};
use hotshoe_core::model::admission::{ErrorReason, FieldError, Proposal, User, Verdict};
use hotshoe_core::model::decision::{
    Answer, Call, Children, Condition, Decision, Descriptor, Document, Event, Failure, MatchRule, Observation,
    OwnedKind, ReadKind, Refusal, Related, Requirement, Severity, Truth, WriteVerb,
};
use hotshoe_core::model::kind::{Kind, ObjectRef};

mod generated {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "plugin",
        ownership: Borrowing { duplicate_if_necessary: true },
        imports: { default: trappable },
    });
}

/// The versions of the contract that this host offers, which are those of the packages in `wit/`. The later one adds
/// interfaces to those of the one before, and uses its types.
pub const CONTRACTS: [&str; 2] = ["0.1.0", "0.2.0"];

/// The interface that a plugin exports.
const INTERFACE: &str = "hotshoe:reconciler/reconciler@0.1.0";
/// The interface that a plugin exports if it converts.
const CONVERSION: &str = "hotshoe:reconciler/conversion@0.2.0";
/// The interface that a plugin exports if it validates.
const VALIDATION: &str = "hotshoe:reconciler/validation@0.2.0";
/// The interface that a plugin exports if it fills in defaults.
const DEFAULTING: &str = "hotshoe:reconciler/defaulting@0.2.0";

/// Creates a linker with all that a plugin may import: `log`.
pub(super) fn linker(engine: &wasmtime::Engine) -> wasmtime::Result<Linker<Sandbox>> {
    let mut linker = Linker::new(engine);
    generated::Plugin::add_to_linker::<_, HasSelf<Sandbox>>(&mut linker, |sandbox| sandbox)?;
    Ok(linker)
}

/// A component with its imports linked and its exports found, ready to be instantiated.
pub(super) struct Linked {
    pre: generated::PluginPre<Sandbox>,
    reconcile: ComponentExportIndex,
    finalize: ComponentExportIndex,
    convert: Option<ComponentExportIndex>,
    validate: Option<ComponentExportIndex>,
    default: Option<ComponentExportIndex>,
}

impl Linked {
    /// # Errors
    /// If the component does not fit the contract.
    pub(super) fn new(linker: &Linker<Sandbox>, component: &Component) -> wasmtime::Result<Self> {
        let pre = generated::PluginPre::new(linker.instantiate_pre(component)?)?;
        let find = |interface: &str, name: &str| {
            let found = component.get_export_index(None, interface);
            let found = found.and_then(|found| component.get_export_index(Some(&found), name));
            found.ok_or_else(|| wasmtime::Error::msg(format!("{interface} has no {name}")))
        };
        let optional = |interface: &str, name: &str| {
            let is_exported = component.get_export_index(None, interface).is_some();
            is_exported.then(|| find(interface, name)).transpose()
        };
        Ok(Self {
            reconcile: find(INTERFACE, "reconcile")?,
            finalize: find(INTERFACE, "finalize")?,
            convert: optional(CONVERSION, "convert")?,
            validate: optional(VALIDATION, "validate")?,
            default: optional(DEFAULTING, "default")?,
            pre,
        })
    }

    /// Returns whether the component converts objects between versions of their kind.
    pub(super) fn converts(&self) -> bool {
        self.convert.is_some()
    }

    /// Returns whether the component validates proposed parents.
    pub(super) fn validates(&self) -> bool {
        self.validate.is_some()
    }

    /// Returns whether the component fills defaults into proposed parents.
    pub(super) fn defaults(&self) -> bool {
        self.default.is_some()
    }

    pub(super) fn component(&self) -> &Component {
        self.pre.instance_pre().component()
    }

    /// Creates an instance, which is dropped with the store.
    pub(super) fn instantiate(&self, store: &mut Store<Sandbox>) -> wasmtime::Result<Instance<'_>> {
        let instance = self.pre.instance_pre().instantiate(store)?;
        Ok(Instance { linked: self, instance })
    }
}

/// The parameters of `convert`, and its result.
type Convert<'a> = (&'a [wit::ObjectParam<'a>], &'a str);
type Converted = (Result<Vec<wit::ObjectResult>, wit::Failure>,);

/// The parameters of `validate`, and its result.
type Validate<'a> = (wit::ObjectParam<'a>, Option<wit::ObjectParam<'a>>, AdmissionContext<'a>);
type Validated = (Result<ValidationVerdict, wit::Failure>,);

/// The parameters of `default`, and its result.
type FillDefaults<'a> = (wit::ObjectParam<'a>, AdmissionContext<'a>);
type Defaulted = (Result<wit::ObjectResult, wit::Failure>,);

/// `operation` of the interface `admission`. It and what follows are written by hand, because the optional interfaces are
/// in a package of their own, and one that no component has to have.
#[derive(Clone, Copy, ComponentType, Lower)]
#[component(enum)]
#[repr(u8)]
enum Operation {
    #[component(name = "create")]
    Create,
    #[component(name = "update")]
    Update,
}

/// `user-info` of the interface `admission`.
#[derive(Clone, Copy, ComponentType, Lower)]
#[component(record)]
struct UserInfo<'a> {
    username: &'a str,
    uid: Option<&'a str>,
    groups: &'a [String],
}

/// `context` of the interface `admission`.
#[derive(Clone, Copy, ComponentType, Lower)]
#[component(record)]
struct AdmissionContext<'a> {
    operation: Operation,
    config: &'a str,
    #[component(name = "dry-run")]
    dry_run: bool,
    user: Option<UserInfo<'a>>,
}

/// `error-reason` of the interface `validation`.
#[derive(Clone, Copy, ComponentType, Lift)]
#[component(enum)]
#[repr(u8)]
#[expect(dead_code, reason = "wasmtime makes the variants of the bytes that a plugin answers")]
enum ValidationReason {
    #[component(name = "invalid")]
    Invalid,
    #[component(name = "required")]
    Required,
    #[component(name = "forbidden")]
    Forbidden,
    #[component(name = "not-supported")]
    NotSupported,
    #[component(name = "duplicate")]
    Duplicate,
    #[component(name = "not-found")]
    NotFound,
    #[component(name = "too-long")]
    TooLong,
    #[component(name = "too-many")]
    TooMany,
    #[component(name = "type-invalid")]
    TypeInvalid,
}

/// `field-error` of the interface `validation`.
#[derive(ComponentType, Lift)]
#[component(record)]
struct ValidationError {
    field: String,
    reason: ValidationReason,
    message: String,
}

/// `verdict` of the interface `validation`.
#[derive(ComponentType, Lift)]
#[component(record)]
struct ValidationVerdict {
    errors: Vec<ValidationError>,
    warnings: Vec<String>,
}

/// One instance of a plugin.
pub(super) struct Instance<'a> {
    linked: &'a Linked,
    instance: component::Instance,
}

impl Instance<'_> {
    /// Calls `describe`, and checks the types of all functions.
    pub(super) fn describe(&self, store: &mut Store<Sandbox>) -> wasmtime::Result<Descriptor> {
        let plugin = generated::Plugin::new(&mut *store, &self.instance)?;
        if let Some(convert) = &self.linked.convert {
            self.instance.get_typed_func::<Convert<'_>, Converted>(&mut *store, convert)?;
        }
        if let Some(validate) = &self.linked.validate {
            self.instance.get_typed_func::<Validate<'_>, Validated>(&mut *store, validate)?;
        }
        if let Some(default) = &self.linked.default {
            self.instance.get_typed_func::<FillDefaults<'_>, Defaulted>(&mut *store, default)?;
        }
        let descriptor = plugin.hotshoe_reconciler_reconciler().call_describe(store)?;
        Ok(descriptor.into())
    }

    pub(super) fn decide(
        &self,
        store: &mut Store<Sandbox>,
        call: Call,
        observation: &Observation,
    ) -> wasmtime::Result<Result<Answer, Failure>> {
        let children = objects(&observation.children);
        let found: Vec<_> = observation.related.iter().map(|related| objects(&related.objects)).collect();
        let related: Vec<_> = observation.related.iter().zip(&found).map(related).collect();
        let refusals: Vec<_> = observation.refusals.iter().map(refusal).collect();
        let request = wit::Request {
            parent: object(&observation.parent),
            children: &children,
            related: &related,
            refusals: &refusals,
            config: &observation.config,
            now: observation.now,
            attempt: observation.attempt,
        };
        Ok(match call {
            Call::Reconcile => self.ask::<wit::Answer, _>(store, &self.linked.reconcile, (request,))?.map(Answer::from),
            Call::Finalize => self.ask::<wit::Cleanup, _>(store, &self.linked.finalize, (request,))?.map(Answer::from),
        }
        .map_err(Failure::from))
    }

    pub(super) fn convert(
        &self,
        store: &mut Store<Sandbox>,
        given: &[Document],
        to_version: &str,
    ) -> wasmtime::Result<Result<Vec<Document>, Failure>> {
        let function = exported(&self.linked.convert, CONVERSION)?;
        let converted = self.ask::<Vec<wit::ObjectResult>, _>(store, function, (&*objects(given), to_version))?;
        Ok(converted.map(convert).map_err(Failure::from))
    }

    pub(super) fn validate(
        &self,
        store: &mut Store<Sandbox>,
        proposal: &Proposal,
    ) -> wasmtime::Result<Result<Verdict, Failure>> {
        let function = exported(&self.linked.validate, VALIDATION)?;
        let parameters = (object(&proposal.new), proposal.old.as_ref().map(object), context(proposal));
        let verdict = self.ask::<ValidationVerdict, _>(store, function, parameters)?;
        Ok(verdict.map(Verdict::from).map_err(Failure::from))
    }

    pub(super) fn default(
        &self,
        store: &mut Store<Sandbox>,
        proposal: &Proposal,
    ) -> wasmtime::Result<Result<Document, Failure>> {
        let function = exported(&self.linked.default, DEFAULTING)?;
        let parameters = (object(&proposal.new), context(proposal));
        let defaulted = self.ask::<wit::ObjectResult, _>(store, function, parameters)?;
        Ok(defaulted.map(Document::from).map_err(Failure::from))
    }

    /// Calls one function and checks the type of that function only: checking all of them takes a measurable part of a
    /// call.
    fn ask<T: Lift + 'static, P: ComponentNamedList + Lower>(
        &self,
        store: &mut Store<Sandbox>,
        function: &ComponentExportIndex,
        parameters: P,
    ) -> wasmtime::Result<Result<T, wit::Failure>> {
        let function = self.instance.get_typed_func::<P, (Result<T, wit::Failure>,)>(&mut *store, function)?;
        Ok(function.call(store, parameters)?.0)
    }
}

/// Returns the function of an optional interface.
///
/// # Errors
/// If the component does not export the interface.
fn exported<'a>(
    function: &'a Option<ComponentExportIndex>,
    interface: &str,
) -> wasmtime::Result<&'a ComponentExportIndex> {
    function.as_ref().ok_or_else(|| wasmtime::Error::msg(format!("the component does not export {interface}")))
}

// === what a plugin may call ===

impl wit::Host for Sandbox {}

impl log::Host for Sandbox {
    fn log(&mut self, level: log::Level, message: String) -> wasmtime::Result<()> {
        let level = match level {
            log::Level::Trace => Level::Trace,
            log::Level::Debug => Level::Debug,
            log::Level::Info => Level::Info,
            log::Level::Warn => Level::Warn,
            log::Level::Error => Level::Error,
        };
        Ok(self.log(level, message)?)
    }
}

// === into the plugin ===

fn kind(kind: &Kind) -> wit::ResourceKindParam<'_> {
    wit::ResourceKindParam { group: &kind.group, version: &kind.version, kind: &kind.kind }
}

fn reference(reference: &ObjectRef) -> wit::ObjectRefParam<'_> {
    wit::ObjectRefParam {
        kind: kind(&reference.kind),
        namespace: reference.namespace.as_deref(),
        name: &reference.name,
    }
}

fn object(document: &Document) -> wit::ObjectParam<'_> {
    wit::ObjectParam { ref_: reference(&document.reference), json: &document.json }
}

fn objects(documents: &[Document]) -> Vec<wit::ObjectParam<'_>> {
    documents.iter().map(object).collect()
}

fn related<'a>((related, objects): (&'a Related, &'a Vec<wit::ObjectParam<'a>>)) -> wit::Related<'a> {
    wit::Related { key: &related.key, objects }
}

fn refusal(refusal: &Refusal) -> wit::Refusal<'_> {
    wit::Refusal {
        ref_: reference(&refusal.reference),
        code: refusal.code.into(),
        reason: &refusal.reason,
        message: &refusal.message,
    }
}

fn context(proposal: &Proposal) -> AdmissionContext<'_> {
    let operation = if proposal.old.is_some() { Operation::Update } else { Operation::Create };
    let user = proposal.user.as_ref().map(user);
    AdmissionContext { operation, config: &proposal.config, dry_run: proposal.dry_run, user }
}

fn user(User { username, uid, groups }: &User) -> UserInfo<'_> {
    UserInfo { username, uid: uid.as_deref(), groups }
}

// === out of the plugin ===

impl From<ValidationVerdict> for Verdict {
    fn from(verdict: ValidationVerdict) -> Self {
        Verdict { errors: convert(verdict.errors), warnings: verdict.warnings }
    }
}

impl From<ValidationError> for FieldError {
    fn from(error: ValidationError) -> Self {
        FieldError { field: error.field, reason: error.reason.into(), message: error.message }
    }
}

impl From<ValidationReason> for ErrorReason {
    fn from(reason: ValidationReason) -> Self {
        match reason {
            ValidationReason::Invalid => ErrorReason::Invalid,
            ValidationReason::Required => ErrorReason::Required,
            ValidationReason::Forbidden => ErrorReason::Forbidden,
            ValidationReason::NotSupported => ErrorReason::NotSupported,
            ValidationReason::Duplicate => ErrorReason::Duplicate,
            ValidationReason::NotFound => ErrorReason::NotFound,
            ValidationReason::TooLong => ErrorReason::TooLong,
            ValidationReason::TooMany => ErrorReason::TooMany,
            ValidationReason::TypeInvalid => ErrorReason::TypeInvalid,
        }
    }
}

impl From<wit::ResourceKindResult> for Kind {
    fn from(kind: wit::ResourceKindResult) -> Self {
        Kind::new(&kind.group, &kind.version, &kind.kind)
    }
}

impl From<wit::ObjectResult> for Document {
    fn from(object: wit::ObjectResult) -> Self {
        Document {
            reference: ObjectRef {
                kind: object.ref_.kind.into(),
                namespace: object.ref_.namespace.map(Into::into),
                name: object.ref_.name.into(),
            },
            json: object.json.into(),
        }
    }
}

impl From<wit::Answer> for Answer {
    fn from(answer: wit::Answer) -> Self {
        match answer {
            wit::Answer::Decided(decision) => Answer::Decided(decision.into()),
            wit::Answer::Needs(needs) => Answer::Needs(convert(needs)),
        }
    }
}

impl From<wit::Cleanup> for Answer {
    fn from(cleanup: wit::Cleanup) -> Self {
        match cleanup {
            wit::Cleanup::Waiting(decision) => Answer::Waiting(decision.into()),
            wit::Cleanup::Done(decision) => Answer::Done(decision.into()),
        }
    }
}

impl From<wit::Decision> for Decision {
    fn from(decision: wit::Decision) -> Self {
        Decision {
            children: match decision.children {
                wit::Children::Exactly(children) => Children::Exactly(convert(children)),
                wit::Children::Keep => Children::Keep,
            },
            status: decision.status,
            conditions: convert(decision.conditions),
            events: convert(decision.events),
            requeue_after: decision.requeue_after.map(Duration::from_millis),
        }
    }
}

impl From<wit::Condition> for Condition {
    fn from(condition: wit::Condition) -> Self {
        Condition {
            name: condition.name,
            status: match condition.status {
                wit::ConditionStatus::True => Truth::True,
                wit::ConditionStatus::False => Truth::False,
                wit::ConditionStatus::Unknown => Truth::Unknown,
            },
            reason: condition.reason,
            message: condition.message,
        }
    }
}

impl From<wit::Event> for Event {
    fn from(event: wit::Event) -> Self {
        Event {
            severity: match event.severity {
                wit::EventSeverity::Normal => Severity::Normal,
                wit::EventSeverity::Warning => Severity::Warning,
            },
            reason: event.reason,
            message: event.message,
        }
    }
}

impl From<wit::Requirement> for Requirement {
    fn from(need: wit::Requirement) -> Self {
        let reference =
            ObjectRef { kind: need.kind.into(), namespace: need.namespace.map(Into::into), name: need.name.into() };
        Requirement { key: need.key, wanted: reference.into() }
    }
}

impl From<wit::Failure> for Failure {
    fn from(failure: wit::Failure) -> Self {
        match failure {
            wit::Failure::Retry(retry) => {
                Failure::Retry { message: retry.message, after: retry.after.map(Duration::from_millis) }
            }
            wit::Failure::Reject(rejection) => Failure::Reject { message: rejection.message, field: rejection.field },
            wit::Failure::Other(message) => Failure::Other(message),
        }
    }
}

impl From<wit::Descriptor> for Descriptor {
    fn from(descriptor: wit::Descriptor) -> Self {
        Descriptor {
            name: descriptor.name,
            version: descriptor.version,
            parent: descriptor.parent.into(),
            parent_fields: descriptor.parent_fields,
            owns: convert(descriptor.owns),
            reads: convert(descriptor.reads),
            finalizer: descriptor.finalizer,
            wants_now: descriptor.wants_now,
            wants_attempt: descriptor.wants_attempt,
            config_schema: descriptor.config_schema,
        }
    }
}

impl From<wit::OwnedKind> for OwnedKind {
    fn from(owned: wit::OwnedKind) -> Self {
        OwnedKind { kind: owned.kind.into(), verbs: convert(owned.verbs), fields: owned.fields }
    }
}

impl From<wit::Verb> for WriteVerb {
    fn from(verb: wit::Verb) -> Self {
        match verb {
            wit::Verb::Create => WriteVerb::Create,
            wit::Verb::Update => WriteVerb::Update,
            wit::Verb::Delete => WriteVerb::Delete,
        }
    }
}

impl From<wit::ReadKind> for ReadKind {
    fn from(read: wit::ReadKind) -> Self {
        ReadKind {
            key: read.key,
            kind: read.kind.into(),
            selector: read.selector,
            rule: match read.match_ {
                wit::MatchRule::ParentLabel(label) => MatchRule::ParentLabel(label),
                wit::MatchRule::ParentField(path) => MatchRule::ParentField(path),
            },
            fields: read.fields,
        }
    }
}

fn convert<T: Into<U>, U>(items: Vec<T>) -> Vec<U> {
    items.into_iter().map(Into::into).collect()
}
