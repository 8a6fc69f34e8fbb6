//! Write the logic of a Hotshoe operator as a plain Rust function over typed Kubernetes objects.
//!
//! ```text
//!              ┌──────────────── your crate ────────────────┐
//!  request ──▶ │ parent, children, related, refusals, config │ ──▶ decision
//!   (JSON)     └─────────────────────────────────────────────┘     (JSON)
//! ```
//!
//! Implement [`Reconciler`] for a type of yours and hand it to [`export!`]:
//!
//! ```
//! use hotshoe_sdk::{Answer, Decision, Descriptor, Failure, Reconciler, Request, ResourceKind};
//! use serde::Deserialize;
//!
//! struct Greeter;
//!
//! #[derive(Deserialize)]
//! struct Greeting {
//!     spec: Spec,
//! }
//!
//! #[derive(Deserialize)]
//! struct Spec {
//!     text: String,
//! }
//!
//! impl Reconciler for Greeter {
//!     type Parent = Greeting;
//!     type Config = ();
//!
//!     fn describe() -> Descriptor {
//!         Descriptor::new("greeter", "0.1.0", ResourceKind::new("example.com", "v1", "Greeting"))
//!     }
//!
//!     fn reconcile(request: &Request<Self>) -> Result<Answer, Failure> {
//!         let seen = serde_json::json!({ "seen": request.parent.spec.text });
//!         Ok(Answer::Decided(Decision::keep().status(&seen)?))
//!     }
//! }
//!
//! hotshoe_sdk::export!(Greeter);
//! ```
//!
//! # What holds for every call
//!
//! - It is a pure function. There is no clock, network, file, randomness or API client, and equal
//!   requests must be answered equally: the host skips a call that it has seen answered.
//! - It runs in a fresh instance. Nothing kept in memory is there at the next call, and almost no
//!   memory is freed during a call (see `bump.rs`).
//! - Observed objects are *projections*: they hold the fields that [`Reconciler::describe`] asked
//!   for, and every other field reads as absent or empty.
//! - A panic costs that one decision, and its message goes to the host's log.
//!
//! Compiled natively the crate is the same without the component around it, so the logic is
//! tested by `cargo test`: build an [`Observation`] and pass it to [`reconcile`] or [`finalize`].
//!
//! # Map
//!
//! | file | contents |
//! |---|---|
//! | `reconciler.rs` | the trait that a plugin implements, and how it is called |
//! | `request.rs` | what a plugin is shown, and typed access to it |
//! | `conversion.rs` | objects in another version of their kind |
//! | `admission.rs` | parents that are checked, and completed, before they are stored |
//! | `decision.rs` | what a plugin answers: children, status, conditions, events |
//! | `answer.rs` | the possible results of a call |
//! | `descriptor.rs` | what a plugin is and what it asks for |
//! | `object.rs` | Kubernetes objects, as host and plugin exchange them |
//! | `apply/` | typed children: builders for the common kinds |
//! | `hotshoe_crd` | CustomResourceDefinitions from types, as `crd`; feature `crd` |
//! | `label.rs` | names as label values |
//! | `selector.rs` | label selectors, as a requirement carries them |
//! | `time.rs` | points in time, as Kubernetes writes them |
//! | `log.rs` | lines for the host's log |
//! | `testing.rs`, `testing/component.rs` | a plugin's cases, answered by its native build, and its component in the sandbox; feature `testing` |
//! | `guest.rs` | the component's exports and imports; only for Wasm |
//! | `bump.rs` | the memory allocator; only for Wasm |

/// Compiles the plugin of the book.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/src/write-a-plugin.md")]
struct WriteAPlugin;

/// Compiles the page on kinds of parents.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/src/write-a-plugin/kinds-of-parents.md")]
struct KindsOfParents;

/// Compiles the conversion of the book.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/src/write-a-plugin/versions-of-a-kind.md")]
struct VersionsOfAKind;

/// Compiles the validation and the defaults of the book.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/src/refuse.md")]
struct Refuse;

/// Compiles the answers of the book.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/src/write-a-plugin/how-do-i.md")]
struct HowDoI;

mod admission;
mod answer;
pub mod apply;
#[cfg(target_family = "wasm")]
mod bump;
mod conversion;
mod decision;
mod descriptor;
#[cfg(target_family = "wasm")]
#[doc(hidden)]
pub mod guest;
mod harmless;
mod label;
pub mod log;
mod object;
mod reconciler;
mod request;
mod selector;
#[cfg(feature = "testing")]
pub mod testing;
mod time;

pub use admission::{
    AdmissionContext, Defaulter, ErrorReason, FieldError, Operation, User, Validator, Verdict, default, validate,
};
pub use answer::{Answer, Cleanup, Failure, Requirement};
pub use conversion::{Annotations, Conversions, Converter, convert};
pub use decision::{Children, Condition, Decision, Event, Severity, Status};
pub use descriptor::{Descriptor, MatchRule, Owned, Read, Verb};
pub use harmless::{harmless, require_harmless};
#[cfg(feature = "crd")]
pub use hotshoe_crd as crd;
pub use label::parent_label;
pub use object::{Metadata, Object, ObjectRef, Resource, ResourceKind};
pub use reconciler::{Reconciler, finalize, reconcile};
pub use request::{Observation, Refusal, Related, Request};
pub use time::Time;

/// Exports a [`Reconciler`] as the plugin of this crate. With further words it is exported as more: `conversion` for a
/// [`Converter`], `validation` for a [`Validator`], `defaulting` for a [`Defaulter`], as in
/// `export!(Plugin, validation, defaulting)`. Does nothing when compiled natively.
#[macro_export]
macro_rules! export {
    ($plugin:ty $(, $interface:ident)* $(,)?) => {
        #[cfg(target_family = "wasm")]
        const _: () = {
            type Plugin = $crate::guest::Guest<$plugin>;
    $crate::guest::generated::export!(Plugin with_types_in $crate::guest::generated);
        };
        $($crate::export_interface!($plugin, $interface);)*
    };
}

/// Exports one of the optional interfaces, for [`export!`].
#[doc(hidden)]
#[macro_export]
macro_rules! export_interface {
    ($plugin:ty, conversion) => {
        #[cfg(target_family = "wasm")]
        const _: () = {
            type Converting = $crate::guest::Guest<$plugin>;
    $crate::guest::converting::export!(Converting with_types_in $crate::guest::converting);
        };
    };
    ($plugin:ty, validation) => {
        #[cfg(target_family = "wasm")]
        const _: () = {
            type Validating = $crate::guest::Guest<$plugin>;
    $crate::guest::validating::export!(Validating with_types_in $crate::guest::validating);
        };
    };
    ($plugin:ty, defaulting) => {
        #[cfg(target_family = "wasm")]
        const _: () = {
            type Defaulting = $crate::guest::Guest<$plugin>;
    $crate::guest::defaulting::export!(Defaulting with_types_in $crate::guest::defaulting);
        };
    };
}
