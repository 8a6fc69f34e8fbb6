//! A loaded component: what a slot holds and what a call runs.
//!
//! ```text
//! bytes ─▶ size ─▶ outside ─▶ its cases ──┐
//!                (contract.rs)  (cases/)  ├─▶ link ─▶ describe ─▶ Revision, cases
//!         cached native code, or compile ─┘         (in the sandbox)
//!             (load.rs, compile.rs)
//! ```
//!
//! A `Revision` never changes, and may be called even after another one was activated.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wasmtime::Store;
use wasmtime::component::Component;

use crate::bindings::{Instance, Linked};
use crate::call::{self, Aborted, FinishedCall, Outcome};
use crate::cases::Case;
use crate::code_cache::Purpose;
use crate::compile::Compiler;
use crate::contract;
use crate::descriptor;
use crate::engine::Engine;
use crate::error::{CallError, LoadError};
use crate::load::{Code, Native};
use crate::store::Sandbox;
use hotshoe_core::check::answer;
use hotshoe_core::check::conversion;
use hotshoe_core::check::defaulting::{self, Defaulted};
use hotshoe_core::check::memory_share::{Account, Charge, Part};
use hotshoe_core::check::validation;
use hotshoe_core::flow::lanes::{Lane, MAX_SLOW_CALLS};
use hotshoe_core::model::admission::{Proposal, Verdict};
use hotshoe_core::model::decision::{Answer, Call, Descriptor, Document, Observation};
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::limits::Limits;
use hotshoe_core::model::projection::Projection;
use hotshoe_platform::candidate::Candidate;

/// A loaded component with its self-test cases.
#[derive(Debug)]
pub struct Loaded {
    /// The loaded component.
    pub revision: Arc<Revision>,
    /// The component's cases, or why they cannot be read.
    pub cases: Result<Vec<Case>, String>,
}

/// A loaded component.
pub struct Revision {
    digest: Digest,
    descriptor: Descriptor,
    own_status: Option<Projection>,
    limits: Arc<Limits>,
    /// Keeps the native code in the cache while the revision may be active.
    native: Native,
    memory: Account,
    /// The charge for the native code, shared by all revisions that were made of the same code by [`Revision::under`].
    code: Arc<Charge>,
    engine: Engine,
    lane: Lane,
    conversions: ConversionPlaces,
    linked: Arc<Linked>,
}

impl fmt::Debug for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Revision({} {} {})", self.descriptor.name, self.descriptor.version, self.digest)
    }
}

impl Revision {
    /// Loads a component completely, up to a successful `describe`. The memory that it takes is charged to `memory`.
    ///
    /// # Errors
    /// The first thing that is wrong with the component. Only its cached code is kept then.
    pub async fn load(
        engine: &Engine,
        compiler: &Compiler,
        candidate: Candidate,
        limits: Limits,
        purpose: Purpose,
        memory: &Account,
    ) -> Result<Loaded, LoadError> {
        let limits = Arc::new(limits);
        let lane = Lane::default();
        let native = Native::new((engine.wasm(), engine.settings()), compiler.cache(), &candidate.digest(), purpose);
        let (accepted, cached, most) = (limits.clone(), native.clone(), limits.native_bytes);
        // At the same time on two threads. Cached code is trusted, even if the bytes turn out to be invalid.
        let inspected = run(engine, &lane, move || Inspected::new(candidate.clone(), &accepted));
        let beside = Lane::default();
        let cached = run(engine, &beside, move || cached.cached(most));
        let (inspected, cached) = futures::try_join!(inspected, cached)?;
        let inspected = inspected?;
        let loaded = match cached {
            Some(loaded) => loaded,
            None => inspected.compiled(native.clone(), engine, compiler, &lane, &limits).await?,
        };
        let code = charged(loaded.component(), memory)?;
        let linked = Linked::new(engine.linker(), loaded.component())
            .map(Arc::new)
            .map_err(|error| LoadError::LoadFailed(clean_message(&error)))?;
        engine.mapped_code().add(&loaded, &linked);
        let descriptor = call::describe(engine, &lane, &linked, &limits, memory)
            .await
            .map_err(|failed| LoadError::DescribeFailed(failed.to_string()))?;
        let descriptor = descriptor::validate(descriptor).map_err(LoadError::DescribeFailed)?;
        let revision = Revision {
            digest: inspected.candidate.digest(),
            own_status: descriptor.own_status(),
            descriptor,
            limits,
            native,
            memory: memory.clone(),
            code: Arc::new(code),
            engine: engine.clone(),
            lane,
            conversions: ConversionPlaces::default(),
            linked,
        };
        Ok(Loaded { revision: Arc::new(revision), cases: inspected.cases })
    }

    /// Returns the same component with other limits. The limits on size and compilation are not checked again.
    pub fn under(self: &Arc<Self>, limits: &Limits) -> Arc<Revision> {
        if *self.limits == *limits {
            return self.clone();
        }
        Arc::new(Revision {
            digest: self.digest,
            descriptor: self.descriptor.clone(),
            own_status: self.own_status.clone(),
            limits: Arc::new(limits.clone()),
            native: self.native.clone(),
            memory: self.memory.clone(),
            code: self.code.clone(),
            engine: self.engine.clone(),
            lane: self.lane.clone(),
            conversions: self.conversions.clone(),
            linked: self.linked.clone(),
        })
    }

    /// Returns the SHA-256 of the component's bytes.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Returns the component's validated descriptor.
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// Returns which fields of its parents' status the component sees, if any.
    pub fn own_status(&self) -> Option<&Projection> {
        self.own_status.as_ref()
    }

    /// Returns the limits of its calls.
    pub fn limits(&self) -> &Arc<Limits> {
        &self.limits
    }
}

impl Revision {
    /// Calls `reconcile` or `finalize` in a fresh instance on a decision thread.
    ///
    /// # Errors
    /// If the plugin traps, exceeds a limit, or gives an unusable answer. A
    /// [`Failure`](hotshoe_core::model::decision::Failure) that the plugin returns is no error here.
    pub async fn decide(self: &Arc<Self>, call: Call, observation: Arc<Observation>) -> Result<Outcome, Aborted> {
        self.decide_then(call, observation, |answer| answer).await
    }

    /// Calls the revision, and processes the answer with `then`, on the same thread and within the time limit of the call,
    /// because the plugin chooses how much there is to process.
    ///
    /// # Errors
    /// As [`Self::decide`].
    pub async fn decide_then<T: Send + 'static>(
        self: &Arc<Self>,
        call: Call,
        observation: Arc<Observation>,
        then: impl Fn(Answer) -> T + Send + 'static,
    ) -> Result<Outcome<T>, Aborted> {
        let revision = Arc::clone(self);
        let work = move || {
            let limits = revision.limits();
            let answer =
                |store: &mut Store<Sandbox>, instance: Instance<'_>| instance.decide(store, call, &observation);
            let run = FinishedCall::of(&revision.engine, &revision.linked, limits, &revision.memory, answer);
            run.finish(
                |answered| match answered {
                    Ok(answer) => Ok(Ok(answer::enforce_limits(answer, limits)?)),
                    Err(failure) => Ok(Err(answer::sanitize_failure(failure))),
                },
                &then,
            )
        };
        call::on_thread(&self.engine, &self.lane, work).await
    }

    /// Returns whether the component converts objects between versions of its parents' kind.
    pub fn converts(&self) -> bool {
        self.linked.converts()
    }

    /// Calls `convert` in a fresh instance on a decision thread, and checks the answer there, within the time limit of the
    /// call. Returns the objects complete with `apiVersion` and `kind`. Waits for no other call of the plugin but
    /// conversions, and [`Self::forget_waiting`] drops none.
    ///
    /// # Errors
    /// As [`Self::decide`], and if the answer is denied.
    pub async fn convert(
        self: &Arc<Self>,
        objects: Vec<Document>,
        to_version: String,
    ) -> Result<Outcome<Vec<Box<RawValue>>>, Aborted> {
        let place = self.conversions.enter().await;
        let lane = place.lane.clone();
        let revision = Arc::clone(self);
        let work = move || {
            // Kept until the call has ended, whether it is still waited for or not.
            let _place = &place;
            let limits = revision.limits();
            let convert =
                |store: &mut Store<Sandbox>, instance: Instance<'_>| instance.convert(store, &objects, &to_version);
            let run = FinishedCall::of(&revision.engine, &revision.linked, limits, &revision.memory, convert);
            let admit = |converted: Vec<Document>| conversion::admit(&objects, &to_version, &converted, limits);
            run.finish(
                |answered| match answered {
                    Ok(converted) => Ok(Ok(admit(converted)?)),
                    Err(failure) => Ok(Err(answer::sanitize_failure(failure))),
                },
                |converted| converted,
            )
        };
        call::on_thread(&self.engine, &lane, work).await
    }

    /// Returns whether the component validates proposed parents.
    pub fn validates(&self) -> bool {
        self.linked.validates()
    }

    /// Calls `validate` in a fresh instance on a decision thread. Returns the verdict within its limits.
    ///
    /// # Errors
    /// As [`Self::decide`].
    pub async fn validate(self: &Arc<Self>, proposal: Arc<Proposal>) -> Result<Outcome<Verdict>, Aborted> {
        let revision = Arc::clone(self);
        let work = move || {
            let limits = revision.limits();
            let validate = |store: &mut Store<Sandbox>, instance: Instance<'_>| instance.validate(store, &proposal);
            let run = FinishedCall::of(&revision.engine, &revision.linked, limits, &revision.memory, validate);
            run.finish(|answered| Ok(answered.map_err(answer::sanitize_failure)), validation::limited)
        };
        call::on_thread(&self.engine, &self.lane, work).await
    }

    /// Returns whether the component fills defaults into proposed parents.
    pub fn defaults(&self) -> bool {
        self.linked.defaults()
    }

    /// Calls `default` in a fresh instance on a decision thread, and checks the answer there, within the time limit of the
    /// call.
    ///
    /// # Errors
    /// As [`Self::decide`], and if the answer is denied.
    pub async fn default(self: &Arc<Self>, proposal: Arc<Proposal>) -> Result<Outcome<Defaulted>, Aborted> {
        let revision = Arc::clone(self);
        let work = move || {
            let limits = revision.limits();
            let default = |store: &mut Store<Sandbox>, instance: Instance<'_>| instance.default(store, &proposal);
            let run = FinishedCall::of(&revision.engine, &revision.linked, limits, &revision.memory, default);
            run.finish(
                |answered| match answered {
                    Ok(returned) => Ok(Ok(defaulting::admit(&proposal.new, &returned, limits)?)),
                    Err(failure) => Ok(Err(answer::sanitize_failure(failure))),
                },
                |defaulted| defaulted,
            )
        };
        call::on_thread(&self.engine, &self.lane, work).await
    }

    /// Calls `describe` in a fresh instance, and returns how long the call ran: a lower bound for the time of a
    /// decision, which also processes its input.
    ///
    /// # Errors
    /// If the plugin traps or exceeds a limit.
    pub async fn time_describe(self: &Arc<Self>) -> Result<Duration, CallError> {
        let revision = Arc::clone(self);
        let work = move || {
            let Revision { engine, linked, limits, memory, .. } = &*revision;
            let described = FinishedCall::describing(engine, linked, limits, memory);
            described.result.map(|_| described.start.elapsed())
        };
        self.work(work).await?
    }

    /// Does other work for the plugin on a decision thread. The work waits for its turn like a call.
    ///
    /// # Errors
    /// [`CallError::Stopped`], if the work was not done.
    pub async fn work<T: Send + 'static>(&self, work: impl FnMut() -> T + Send + 'static) -> Result<T, CallError> {
        self.engine.executor().run(&self.lane, work).await.map_err(|_| CallError::Stopped)
    }

    /// Drops the calls that wait for a thread: they return [`CallError::Stopped`].
    pub fn forget_waiting(&self) {
        self.engine.executor().clear(&self.lane);
    }
}

/// The places of a plugin's conversions that run at once. Each has a lane of its own: one object that is converted for
/// ever keeps one place, and no reconcile waiting. One fewer than there are threads for slow calls, so that a plugin
/// whose conversions are all slow leaves one to others.
#[derive(Clone)]
struct ConversionPlaces {
    free: Arc<Semaphore>,
    lanes: Arc<Mutex<Vec<Lane>>>,
}

/// A place, which is free again when this is dropped.
struct ConversionPlace {
    lane: Lane,
    lanes: Arc<Mutex<Vec<Lane>>>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Default for ConversionPlaces {
    fn default() -> Self {
        const PLACES: usize = MAX_SLOW_CALLS - 1;
        Self { free: Arc::new(Semaphore::new(PLACES)), lanes: Arc::default() }
    }
}

impl ConversionPlaces {
    /// Waits for a free place.
    async fn enter(&self) -> ConversionPlace {
        // The semaphore is never closed.
        let permit = self.free.clone().acquire_owned().await.ok();
        let lane = self.lanes.lock().pop().unwrap_or_default();
        ConversionPlace { lane, lanes: self.lanes.clone(), _permit: permit }
    }
}

impl Drop for ConversionPlace {
    fn drop(&mut self) {
        // A lane remembers whether its last call was slow.
        self.lanes.lock().push(self.lane.clone());
    }
}

/// Bytes that passed the inspection from the outside.
struct Inspected {
    candidate: Candidate,
    cases: Result<Vec<Case>, String>,
}

impl Inspected {
    fn new(candidate: Candidate, limits: &Limits) -> Result<Self, LoadError> {
        let carried = contract::inspect(candidate.bytes(), limits)?.cases;
        let cases = Case::carried(candidate.bytes().get(carried).unwrap_or_default());
        Ok(Self { candidate, cases })
    }

    async fn compiled(
        &self,
        native: Native,
        engine: &Engine,
        compiler: &Compiler,
        lane: &Lane,
        limits: &Limits,
    ) -> Result<Code, LoadError> {
        let code = compiler.compile(self.candidate.bytes(), limits, engine.executor().others()).await?;
        run(engine, lane, move || native.compiled(&code)).await?
    }
}

/// Charges the native code of a component.
///
/// # Errors
/// If the plugin may not hold so much more memory.
fn charged(component: &Component, memory: &Account) -> Result<Charge, LoadError> {
    let code = component.image_range();
    let (code, mut charge) = (code.end.addr() - code.start.addr(), memory.charge(Part::Code));
    charge.check(code).map_err(|refused| LoadError::LoadFailed(refused.to_string()))?;
    charge.raise(code);
    Ok(charge)
}

async fn run<T: Send + 'static>(
    engine: &Engine,
    lane: &Lane,
    work: impl FnMut() -> T + Send + 'static,
) -> Result<T, LoadError> {
    let stopped = |_| LoadError::LoadFailed("the host is shutting down".to_owned());
    engine.executor().run(lane, work).await.map_err(stopped)
}

fn clean_message(error: &wasmtime::Error) -> String {
    hotshoe_core::model::sanitize::clean(format!("{error:#}"), 1_000)
}
