//! Keeps a PodDisruptionBudget for each Deployment with the label `pdb.example.com/enabled: "true"`, so that a drain
//! evicts one of its Pods at a time. The parents are objects of a built-in kind: whichever tool created a Deployment
//! continues to own it.

use std::collections::BTreeMap;

use hotshoe_sdk::apply::apps_v1::Deployment;
use hotshoe_sdk::apply::meta_v1::{LabelSelector, LabelSelectorRequirement};
use hotshoe_sdk::apply::policy_v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use hotshoe_sdk::{Answer, Decision, Descriptor, Failure, Reconciler, Request, ResourceKind, Verb};
use serde::Deserialize;

/// The annotation with the number of Pods that may be unavailable at once, or a share such as `25%`; 1 by default.
const MAX_UNAVAILABLE: &str = "pdb.example.com/max-unavailable";

/// The plugin.
pub struct Pdb;

/// The fields of the Deployment that the plugin reads.
#[derive(Deserialize)]
pub struct Parent {
    #[serde(default)]
    metadata: Metadata,
    spec: Spec,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Spec {
    #[serde(default = "one")]
    replicas: i32,
    selector: Selector,
}

fn one() -> i32 {
    1
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Selector {
    #[serde(default)]
    match_labels: BTreeMap<String, String>,
    #[serde(default)]
    match_expressions: Vec<Requirement>,
}

#[derive(Deserialize)]
struct Requirement {
    key: String,
    operator: String,
    #[serde(default)]
    values: Vec<String>,
}

impl Reconciler for Pdb {
    type Parent = Parent;
    type Config = ();

    fn describe() -> Descriptor {
        Descriptor::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"), ResourceKind::of::<Deployment>())
            .parent_fields(&["metadata.annotations"])
            .owns::<PodDisruptionBudget>(&[Verb::Create, Verb::Update, Verb::Delete], &[])
    }

    fn reconcile(request: &Request<Self>) -> Result<Answer, Failure> {
        let Spec { replicas, selector } = &request.parent.spec;
        // For a single Pod a budget would forbid every drain.
        if *replicas < 2 {
            return Ok(Answer::Decided(Decision::exactly([])));
        }
        let spec = PodDisruptionBudgetSpec::new().selector(selects_same_pods(selector));
        let spec = match request.parent.metadata.annotations.get(MAX_UNAVAILABLE) {
            None => spec.max_unavailable(1),
            Some(share) if is_share(share) => spec.max_unavailable(share),
            Some(number) => {
                spec.max_unavailable(number.parse::<i32>().ok().filter(|most| *most > 0).ok_or_else(|| {
                    let field = format!("metadata.annotations[{MAX_UNAVAILABLE}]");
                    Failure::reject_field(
                        field,
                        format!("{number:?} is neither a number above 0 nor a share such as 25%"),
                    )
                })?)
            }
        };
        Ok(Answer::Decided(Decision::exactly([PodDisruptionBudget::new(request.name()).spec(spec).into()])))
    }
}

fn is_share(text: &str) -> bool {
    text.strip_suffix('%').and_then(|share| share.parse::<u8>().ok()).is_some_and(|share| (1..=100).contains(&share))
}

fn selects_same_pods(selector: &Selector) -> LabelSelector {
    let expressions = selector
        .match_expressions
        .iter()
        .map(|one| LabelSelectorRequirement::new().key(&one.key).operator(&one.operator).values(one.values.iter()));
    let same = LabelSelector::new().match_labels(&selector.match_labels);
    if selector.match_expressions.is_empty() { same } else { same.match_expressions(expressions) }
}

hotshoe_sdk::export!(Pdb);
