//! Keeps the Leases of a host: one for each shard, in the namespace of the host.
//!
//! ```text
//! watch of the Leases ─▶ observed state ─▶ next step ─▶ request ─▶ the permit of the shard
//! ```
//!
//! | file | contents |
//! |---|---|
//! | `lease.rs` | the tasks |
//! | `lease_keeper.rs` | the steps of the tasks |
//! | `lease_object.rs` | which Leases a host keeps, and the content of each |
//! | `lease_status.rs` | the status, the log lines and the metrics of the Leases |
//!
//! [`hotshoe_core::flow::lease`] decides; this module sends the requests. A Lease that this host holds is renewed by
//! one request every three seconds; a Lease of another host costs no request beyond the watch. If there are several
//! shards, a host that holds at least two fewer than another asks the other for a shard, by an annotation of the Lease.
//! The other host drains that shard and releases its Lease.
//!
//! Hosts survive that a Lease is deleted or edited by hand. But the API server has no fencing: a write that was sent in
//! time may arrive late.

use std::collections::HashSet;
use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::join_all;
use k8s_openapi::api::coordination::v1::Lease as Object;
use kube::api::Api;
use kube::runtime::watcher;
use kube::runtime::watcher::Event;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::boot_clock;
use crate::client::Cluster;
use crate::events::Recorder;
use crate::lease_keeper::{Keeper, Next, Slot, State};
pub use crate::lease_object::LeaseSettings;
use crate::lease_object::{GROUP, Holder};
use crate::lease_status::LeaseStatus;
use crate::shards::Shards;
use crate::time_limit::WATCH_SECONDS;
use crate::watch::Backoff;
use hotshoe_core::flow::lease::{Lease, RENEW};
use hotshoe_core::model::parent_label::parent_label;

/// The timeout of each request by which a host that ends releases its Leases.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// The Leases of a host.
pub struct Leases {
    /// `None` if the host is the only one.
    keeper: Option<Arc<Keeper>>,
    tasks: Mutex<Vec<AbortOnDropHandle<()>>>,
    shards: Arc<Shards>,
}

/// Returns the name of this process among all hosts: the name of its machine or Pod, and a random part.
fn identity() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = if name.trim().is_empty() { "host" } else { name.trim() };
    format!("{name}_{:08x}", RandomState::new().hash_one(std::process::id()) & 0xffff_ffff)
}

impl Leases {
    /// Returns the Leases of a host that is the only one: it keeps none.
    pub fn none() -> Self {
        Self { keeper: None, tasks: Mutex::default(), shards: Arc::new(Shards::alone()) }
    }

    /// Starts the tasks that keep the Leases.
    pub fn keep(cluster: Cluster, settings: LeaseSettings, recorder: Recorder) -> Self {
        let shards = Arc::new(Shards::new(settings.shards));
        let holder = Holder {
            identity: identity().into(),
            group: parent_label(&settings.name),
            sharding: settings.sharding(),
            plugins: settings.plugins.join(" "),
        };
        let slot = |shard| Slot {
            name: settings.name_of(shard),
            state: Mutex::new(State {
                lease: Lease::new(holder.identity.clone()),
                object: None,
                problem: None,
                is_ending: false,
                logged_holder: None,
            }),
        };
        let slots = (0..shards.count()).map(slot).collect();
        let keeper = Arc::new(Keeper {
            cluster,
            settings,
            holder,
            shards: shards.clone(),
            slots,
            others: Mutex::default(),
            watch_problem: Mutex::default(),
            changes: watch::Sender::new(()),
            recorder,
            last_asked: Mutex::default(),
        });
        let mut tasks = vec![tokio::spawn(follow(keeper.clone()))];
        tasks.extend((0..shards.count()).map(|shard| tokio::spawn(keep(keeper.clone(), shard))));
        if shards.count() > 1 {
            tasks.push(tokio::spawn(balance(keeper.clone())));
        }
        let tasks = tasks.into_iter().map(AbortOnDropHandle::new).collect();
        Self { keeper: Some(keeper), tasks: Mutex::new(tasks), shards }
    }

    /// Returns the shards of the Leases.
    pub fn shards(&self) -> Arc<Shards> {
        self.shards.clone()
    }

    /// Returns whether this host coordinates with others by Leases.
    pub fn are_kept(&self) -> bool {
        self.keeper.is_some()
    }

    /// Returns the namespace and name by which this host claims objects; if there are several shards, their number
    /// follows the name of each Lease. `None` if the host keeps no Lease.
    pub fn claim(&self) -> Option<String> {
        let LeaseSettings { namespace, name, .. } = &self.keeper.as_ref()?.settings;
        Some(format!("{namespace}/{name}"))
    }

    /// Returns the status of each Lease; nothing if the host keeps none.
    pub fn status(&self) -> Vec<LeaseStatus> {
        let Some(keeper) = &self.keeper else { return Vec::new() };
        (0..keeper.slots.len()).map(|shard| keeper.status(shard)).collect()
    }

    /// Returns why this host does not write for a shard, such as the host that does; `None` if this host holds the
    /// shard.
    pub fn standing_by(&self, shard: usize) -> Option<String> {
        let status = self.keeper.as_ref().filter(|keeper| shard < keeper.slots.len())?.status(shard);
        let LeaseStatus { name, held, holder, problem, .. } = status;
        if held {
            return None;
        }
        Some(match (problem, holder) {
            (Some(problem), _) => format!("nothing is written: {problem}"),
            (None, Some(holder)) => format!("stands by: {holder} holds the Lease {name}"),
            (None, None) => format!("stands by until it holds the Lease {name}"),
        })
    }

    /// Ends the renewals and releases the Leases, so that another host can take them at once. To be called only when no
    /// reconcile that began under them is still running.
    pub async fn release(&self) {
        self.tasks.lock().clear();
        let Some(keeper) = &self.keeper else { return };
        join_all((0..keeper.slots.len()).map(|shard| keeper.release(shard, None, RELEASE_TIMEOUT))).await;
    }
}

/// Follows all Leases of the group.
async fn follow(keeper: Arc<Keeper>) {
    let api: Api<Object> = Api::namespaced(keeper.cluster.client.clone(), &keeper.settings.namespace);
    let selector = format!("{GROUP}={}", keeper.holder.group);
    let config = watcher::Config::default().labels(&selector).timeout(WATCH_SECONDS);
    let (mut events, mut listed, mut backoff) = (watcher(api, config).boxed(), HashSet::new(), Backoff::default());
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                if !matches!(event, Event::Init) {
                    *keeper.watch_problem.lock() = None;
                }
                keeper.observe(event, &mut listed);
            }
            Err(error) => {
                keeper.note_watch_problem(&error);
                backoff.wait().await;
            }
        }
        keeper.changes.send_replace(());
    }
}

/// Keeps the Lease of one shard.
async fn keep(keeper: Arc<Keeper>, shard: usize) {
    match keep_for_ever(&keeper, shard).await {}
}

async fn keep_for_ever(keeper: &Keeper, shard: usize) -> Infallible {
    let mut changes = keeper.changes.subscribe();
    loop {
        changes.mark_unchanged();
        match keeper.next(shard, boot_clock::now()) {
            Next::Ask(step) => keeper.ask(shard, step).await,
            Next::GiveUp(to) => keeper.give_up(shard, to.as_deref()).await,
            Next::Wait(until) => {
                let due = async {
                    match until {
                        Some(until) => tokio::time::sleep(until.saturating_duration_since(boot_clock::now())).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    // The keeper holds the sender, so the channel is open.
                    _ = changes.changed() => {}
                    () = due => {}
                }
            }
        }
    }
}

/// Asks other hosts for shards, as long as another host holds at least two more than this one.
async fn balance(keeper: Arc<Keeper>) {
    loop {
        tokio::time::sleep(RENEW).await;
        if let Some(shard) = keeper.wants(boot_clock::now()) {
            keeper.ask_for(shard).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::extract::RawQuery;
    use axum::http::StatusCode;
    use axum::response::AppendHeaders;
    use axum::routing::get;

    use super::*;
    use crate::served;

    fn settings(shards: usize, spread: &[&str]) -> LeaseSettings {
        LeaseSettings {
            namespace: "system".to_owned(),
            name: "hotshoe".to_owned(),
            shards,
            plugins: Vec::new(),
            spread: spread.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    #[test]
    fn hosts_agree_on_the_sharding_whatever_the_order_of_their_plugins() {
        assert_eq!(settings(2, &["b", "a"]).sharding(), settings(2, &["a", "b"]).sharding());
        assert_ne!(settings(2, &["a"]).sharding(), settings(2, &[]).sharding());
        assert_ne!(settings(2, &[]).sharding(), settings(3, &[]).sharding());
        assert_eq!(settings(1, &["a"]).sharding(), settings(1, &[]).sharding(), "one shard has all");
        assert_eq!((settings(1, &[]).name_of(0), settings(2, &[]).name_of(1)), ("hotshoe".into(), "hotshoe-1".into()));
    }

    /// Keeps Leases at an API server that answers every write of a Lease with this status, and counts the writes.
    async fn keep_with_writes_refused(status: StatusCode, headers: &'static [(&'static str, &'static str)]) -> Trial {
        let writes = Arc::new(AtomicUsize::new(0));
        let counted = writes.clone();
        let listed = |query: RawQuery| async move {
            let is_watch = query.0.is_some_and(|query| query.contains("watch=true"));
            let body = r#"{"kind":"LeaseList","apiVersion":"coordination.k8s.io/v1","metadata":{"resourceVersion":"1"},"items":[]}"#;
            if is_watch {
                std::future::pending::<()>().await;
            }
            ([("content-type", "application/json")], body)
        };
        let refused = move || async move {
            counted.fetch_add(1, Ordering::Relaxed);
            (status, AppendHeaders(headers.iter().copied()), r#"{"kind":"Status","message":"not now"}"#)
        };
        let path = "/apis/coordination.k8s.io/v1/namespaces/system/leases";
        let server = axum::Router::new().route(path, get(listed).post(refused));
        let cluster = served::by(server).await;
        let leases = Leases::keep(cluster.clone(), settings(1, &[]), Recorder::start(cluster));
        Trial { leases, writes }
    }

    struct Trial {
        leases: Leases,
        writes: Arc<AtomicUsize>,
    }

    impl Trial {
        async fn problem(&self) -> LeaseStatus {
            let found = async {
                loop {
                    let status = self.leases.status().remove(0);
                    if status.problem.is_some() {
                        return status;
                    }
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            };
            tokio::time::timeout(Duration::from_secs(10), found).await.unwrap()
        }
    }

    #[tokio::test]
    async fn an_overloaded_api_server_gets_no_request_for_as_long_as_it_asks() {
        let trial = keep_with_writes_refused(StatusCode::TOO_MANY_REQUESTS, &[("retry-after", "30")]).await;
        let status = trial.problem().await;
        let problem = status.problem.unwrap();
        assert!(problem.contains("asks to wait 30 s") && problem.contains("not now"), "{problem}");
        assert!(!status.held && !status.unusable, "it is transient");
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(trial.writes.load(Ordering::Relaxed), 1);
        assert!(trial.leases.shards().enter(0).is_none(), "without a Lease nothing begins");
    }

    #[tokio::test]
    async fn a_missing_right_or_namespace_is_named_and_retried_less_and_less_often() {
        for (code, words) in
            [(StatusCode::FORBIDDEN, "hotshoe rbac"), (StatusCode::NOT_FOUND, "create the namespace system")]
        {
            let trial = keep_with_writes_refused(code, &[]).await;
            let status = trial.problem().await;
            assert!(status.problem.as_ref().is_some_and(|problem| problem.contains(words)), "{status:?}");
            assert!(status.unusable, "it is permanent");
            tokio::time::sleep(Duration::from_secs(3)).await;
            assert!(trial.writes.load(Ordering::Relaxed) <= 3);
        }
    }

    #[test]
    fn hosts_of_one_machine_have_different_names() {
        assert_ne!(identity(), identity());
    }
}
