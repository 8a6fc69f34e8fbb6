//! The logic of a Redis operator: a headless Service and a StatefulSet for each `Redis`, and a status that shows the
//! state of each server.
//!
//! ```text
//!            ┌── names.rs ───── can its children be named? ────────┐
//!            ├── storage.rs ─── how large are its claims? ─────────┤
//!  request ──┼── observed.rs ── what was observed? ─ ordinals.rs ──┼── reconcile.rs ──▶ decision
//!            ├── stage.rs ───── how far may a rollout go? ─────────┤
//!            └── by_hand.rs ─── what did others change? ───────────┘
//! ```
//!
//! | file | contents |
//! |---|---|
//! | `api.rs` | the `Redis` resource |
//! | `reconcile.rs` | from an observation to a decision: begin here |
//! | `children.rs`, `template.rs` | the desired Service and StatefulSet, and the template of its Pods |
//! | `observed.rs` | what the plugin reads |
//! | `ordinals.rs`, `quota.rs` | the state of each server, and what it waits for |
//! | `stage.rs` | the partition at each stage of a rollout |
//! | `storage.rs` | the size of the claims |
//! | `by_hand.rs` | what others changed in the StatefulSet |
//! | `status.rs` | status and conditions |
//! | `names.rs`, `quantity.rs`, `time.rs` | labels and names; quantities; times |
//! | `crd.rs` | the CRD, printed by the binary `crd` (feature `crd`) |

pub mod api;
mod by_hand;
mod children;
#[cfg(feature = "crd")]
pub mod crd;
mod names;
mod observed;
mod ordinals;
mod quantity;
mod quota;
mod reconcile;
mod stage;
mod status;
mod storage;
mod template;

use hotshoe_sdk::apply::apps_v1::StatefulSet;
use hotshoe_sdk::apply::core_v1::{PersistentVolumeClaim, Pod, Service};
use hotshoe_sdk::{Answer, Descriptor, Failure, MatchRule, Reconciler, Request, Resource, ResourceKind, Verb};

/// The plugin.
pub struct Redis;

/// The kind ResourceQuota, which the plugin only reads.
struct ResourceQuota;

impl Resource for ResourceQuota {
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "ResourceQuota";
}

impl Reconciler for Redis {
    type Parent = api::Redis;
    type Config = ();

    fn describe() -> Descriptor {
        let parent = ResourceKind::new(api::GROUP, api::VERSION, api::KIND);
        let of_parent = || MatchRule::parent_label(names::INSTANCE);
        Descriptor::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"), parent)
            .owns::<StatefulSet>(&[Verb::Create, Verb::Update], observed::SET_FIELDS)
            .owns::<Service>(&[Verb::Create, Verb::Update], &[])
            .reads::<Pod>(observed::PODS, names::APP, of_parent(), observed::POD_FIELDS)
            .reads::<PersistentVolumeClaim>(observed::CLAIMS, names::APP, of_parent(), observed::CLAIM_FIELDS)
            .reads::<ResourceQuota>(observed::QUOTAS, "", MatchRule::same_namespace(), observed::QUOTA_FIELDS)
            // For how long a server has been ready, and for how long a claim has been pending.
            .wants_now()
    }

    fn reconcile(request: &Request<Self>) -> Result<Answer, Failure> {
        reconcile::reconcile(request)
    }
}

hotshoe_sdk::export!(Redis);
