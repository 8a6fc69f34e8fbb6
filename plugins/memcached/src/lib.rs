//! The logic of a Memcached operator: one Deployment and one Service for each `Memcached`, and
//! a status that shows what was observed.
//!
//! ```text
//!            ┌── names.rs ──── can its children be named? ─┐
//!  request ──┼── image.rs ──── which image, which version? ┼── reconcile.rs ──▶ decision
//!            ├── observed.rs ─ what was observed?          │
//!            └── trouble.rs ── which problems are there? ──┘
//! ```
//!
//! | file | contents |
//! |---|---|
//! | `api.rs` | the `Memcached` resource and the plugin's configuration |
//! | `descriptor.rs` | what the plugin asks the host for |
//! | `reconcile.rs` | from an observation to a decision: begin here |
//! | `finalize.rs` | the clean-up before a `Memcached` goes |
//! | `children.rs` | the desired Deployment and Service |
//! | `observed.rs` | what the plugin reads from the Deployment and the Pods |
//! | `trouble.rs` | problems, with their reasons and messages |
//! | `status.rs` | status and conditions |
//! | `names.rs` | labels, names, and which names are invalid |
//! | `ports.rs` | the ports of a server, in `v1beta1` and in `v1` |
//! | `conversion.rs` | the versions of a `Memcached`, converted into one another |
//! | `admission.rs` | what is refused and filled in before a `Memcached` is stored |
//! | `image.rs` | image references and the versions in them |
//! | `crd.rs` | the CRD, printed by the binary `crd` (feature `crd`) |

pub mod admission;
pub mod api;
mod children;
mod conversion;
#[cfg(feature = "crd")]
pub mod crd;
mod descriptor;
mod finalize;
mod image;
mod names;
mod observed;
pub mod ports;
mod reconcile;
mod status;
mod trouble;

use hotshoe_sdk::{
    AdmissionContext, Answer, Cleanup, Conversions, Converter, Defaulter, Descriptor, Failure, Reconciler, Request,
    Validator, Verdict,
};

/// The plugin.
pub struct Memcached;

impl Reconciler for Memcached {
    type Parent = api::Memcached;
    type Config = api::Config;

    fn describe() -> Descriptor {
        descriptor::describe()
    }

    fn reconcile(request: &Request<Self>) -> Result<Answer, Failure> {
        reconcile::reconcile(request)
    }

    fn finalize(request: &Request<Self>) -> Result<Cleanup, Failure> {
        finalize::finalize(request)
    }
}

impl Converter for Memcached {
    fn conversions() -> Conversions {
        conversion::conversions()
    }
}

impl Validator for Memcached {
    fn validate(
        new: &api::Memcached,
        _: Option<&api::Memcached>,
        context: &AdmissionContext<api::Config>,
    ) -> Result<Verdict, Failure> {
        admission::validate(new, context)
    }
}

impl Defaulter for Memcached {
    type Object = admission::Sparse;

    fn default(object: &mut Self::Object, context: &AdmissionContext<api::Config>) -> Result<(), Failure> {
        admission::default(object, context)
    }
}

hotshoe_sdk::export!(Memcached, conversion, validation, defaulting);
