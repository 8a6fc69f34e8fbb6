//! Carries out the decisions about the parents of cases in a model of the API server until nothing changes, and tries what
//! must hold for every plugin: the same input gives the same answer, a decision that is carried out changes nothing when it is
//! made again, whichever child is lost the same children are there in the end, no decision is denied, and a clean-up ends.
//!
//! | file | contents |
//! |---|---|
//! | `save.rs` | a counter-example as a case of its own |
//! | `smallest.rs` | the smallest start of a counter-example |
//! | `follow.rs` | what is tried from one start |
//! | `related.rs` | the related objects of a case, and the Pods of its workloads |
//! | `rounds.rs` | decisions, each carried out before the next is made |
//! | `simulated.rs` | the end to which the decisions lead from one start |
//! | `story.rs` | what decisions changed, in lines |

mod follow;
mod related;
mod rounds;
mod save;
mod simulated;
mod smallest;
mod story;

use serde_json::Value;

pub(super) use self::follow::CounterExamples;
use self::follow::{Broken, Followed};
pub(super) use self::rounds::Plugin;
pub(super) use self::save::save;
pub(super) use self::simulated::Simulated;
use crate::cli::api_server::ApiServer;
use crate::cli::project::CaseFile;
use crate::cli::trial::Trial;
use hotshoe_sandbox::cases::expect::Expect;
use hotshoe_sandbox::cases::{Case, Function};

/// Tries the closed loop from each case in which the plugin decides. The parents have the defaults of their schema, as those
/// that a host is shown.
pub(super) async fn all(
    cases: &[CaseFile],
    plugin: Plugin<'_>,
    api_server: &ApiServer<'_>,
) -> (Vec<Trial>, CounterExamples) {
    let (mut followed, mut trials, mut found) = (Followed::default(), Vec::new(), CounterExamples::default());
    for file in cases.iter().filter(|file| is_decision(&file.case)) {
        let broken = followed.follow(&api_server.as_shown(&file.case), plugin).await;
        if broken.is_some() || file.case.steady.is_some() {
            trials.push(trial(file, broken.as_ref()));
        }
        found.0.extend(broken.map(|broken| (file.case.clone(), broken)));
    }
    if followed.most_decisions > 0 && found.is_empty() {
        let name = format!(
            "{} within {}, whichever child is lost",
            counted(followed.settled, "case settles", "cases settle"),
            counted(followed.most_decisions as usize, "decision", "decisions")
        );
        trials.push(Trial::new(name, "cases".into(), Value::Null, None));
    }
    (trials, found)
}

fn trial(file: &CaseFile, broken: Option<&Broken>) -> Trial {
    let name = match file.case.steady {
        Some(steady) => {
            let within = counted(steady.within.get() as usize, "decision", "decisions");
            format!("steady within {within}: {}", file.case.name)
        }
        None => format!("the closed loop: {}", file.case.name),
    };
    Trial::new(name, file.path.clone(), Value::Null, broken.map(Broken::to_string))
}

pub(super) fn counted(number: usize, one: &str, several: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { several })
}

fn is_decision(case: &Case) -> bool {
    let decides = matches!(case.expect, None | Some(Expect::Decided(_) | Expect::Needs(_)));
    case.call == Function::Reconcile && (decides || case.steady.is_some())
}
