//! Hotshoe: a Kubernetes operator host whose operators' logic is a sandboxed WebAssembly component.
//!
//! ```text
//!  API server ──watch──▶ observe ──▶ decide ──▶ check ──▶ apply ──write──▶ API server
//!                         host       plugin      host      host
//!                      (caches)   (Wasm, pure) (hostile?) (only writer)
//! ```
//!
//! Begin with [`reconcile`]: one parent, all four steps.
//!
//! | before | what is told there |
//! |---|---|
//! | [`cli`] | the command line, one file a verb; [`cli::run`] starts the host |
//! | [`api`] | the schema of `plugin.yaml` |
//! | [`config`] | flags, environment and `plugin.yaml`, validated; every default |
//! | [`pattern`] | names with one `*` |
//! | `names` | the forms of Kubernetes' names |
//! | [`supervisor`] | one controller for each plugin, and its workers |
//! | [`supervised`] | a plugin with all that is known of it, and how it is |
//! | [`taking`] | in which order another component, `plugin.yaml`, a verdict and a person's wish are followed |
//! | [`rollout`] | from a component's bytes to the logic that decides |
//! | [`proving`] | what a component has to show before it does |
//! | [`way_back`] | from the one that decides to one that did |
//! | [`wiring`] | from what a component asks for to open watches |
//! | [`controller`] | one plugin at work, and what is remembered of each parent |
//! | [`queue`] | which parents are looked at next |
//!
//! | observe | |
//! |---|---|
//! | [`cluster`] | all contact with the API server: `watch` fills `cache`, `observe` reads an [`Observation`](decision::Observation) from it |
//! | [`object`] | an object as the host holds it |
//! | [`projection`] | which of its fields are kept and shown |
//! | [`observed`] | what a plugin is shown of one parent |
//! | [`fingerprint`] | whether anything of that has changed |
//!
//! | decide | |
//! |---|---|
//! | [`reconcile`] | all four steps of one parent |
//! | [`pass`] | what may come of one pass over it |
//! | [`finalize`] | the same while it is being deleted |
//! | [`decide`] | the call, in as many rounds as it needs objects for |
//! | [`needs`] | what it needs to see for one decision and does not watch |
//! | [`decision`] | what a plugin sees, and what it may answer |
//! | [`plugin`] | all contact with wasmtime and with a plugin's bytes: a fresh instance for each call |
//! | [`churn`] | whether a plugin comes to an end with one parent |
//! | [`breaker`] | a plugin that keeps failing is not called for a while |
//!
//! | check | pure, and it assumes that the plugin is hostile |
//! |---|---|
//! | [`check`] | from a decision to what may be written, all or nothing |
//! | [`access`] | what somebody wants to do with one object |
//! | [`grant`] | what the administrator opened |
//! | [`pod_grant`] | of that, what is opened for Pods |
//! | [`never`] | what no grant opens |
//! | [`parentage`] | of which kind a plugin's parents may be |
//! | [`pod_policy`] | what a Pod may ask for |
//! | [`pod_containers`] | what one of its containers may |
//! | [`pod_volumes`] | what its volumes may show it |
//! | [`pod_security`] | what it may ask of the kernel |
//! | [`claim_policy`] | what a claim of a volume may ask for |
//! | [`held`] | whether the host has room for what a plugin wishes its children to be |
//! | [`adoption`] | which Pods a controller may take for its own |
//! | [`service_policy`] | what a Service may ask for |
//! | [`shape`] | how these walk JSON that nobody trusts |
//!
//! | apply | |
//! |---|---|
//! | [`diff`] | what must be written, without schemas |
//! | [`ownership`] | which fields are ours, as the API server says |
//! | [`renamed`] | elements of ours that somebody renamed |
//! | [`companions`] | what others set together with an edit of ours |
//! | [`keys`] | which objects of two lists have the same keys |
//! | [`carry_out`] | the writes of one reconcile in their order; [`cluster::apply`] is the only writer of children |
//! | [`learn`] | what a write of a parent tells of it |
//! | [`status`] | the status as it will be written |
//! | [`refusals`] | writes that were refused, and when each is tried again |
//! | [`contention`] | what somebody else undoes each time, and how it is slowed down |
//! | [`rivals`] | who that is, and in which fields |
//!
//! | after | |
//! |---|---|
//! | [`error`] | what can go wrong, and the reasons that are shown |
//! | [`report`] | what became of a reconcile: log, Event, condition, metric |
//! | [`backoff`] | how long until it is tried again |
//! | [`metrics`] | everything that is counted |
//! | [`tally`] | the same by revision |
//! | [`server`] | metrics, health, status and a person's wishes, over HTTP |
//!
//! | another component, or another `plugin.yaml` | |
//! |---|---|
//! | [`plugin_file`] | `plugin.yaml` as it comes from the disk |
//! | [`followed`] | `plugin.yaml` holds as soon as it is changed |
//! | [`shadow`] | what a revision that is not at work would change: the first three steps, and no write |
//! | [`debut`] | how long it takes until its first decision |
//! | [`probation`] | whether it does worse than the one before it |
//!
//! | beside | |
//! |---|---|
//! | [`allowance`] | how much a plugin may say over time |
//! | [`wakings`] | how often the host's own thread wakes up |
//! | [`rbac`] | grants as RBAC, for `hotshoe rbac` |
//! | [`private_dir`] | directories that only the host's own user can write |
//! | [`closed_namespace`] | what RBAC cannot say of the host's namespace, as an admission policy |
//! | [`whole_file`] | files that are written whole or not at all |
//!
//! `kube` is used only below [`cluster`], `wasmtime` only below [`plugin`].

pub mod access;
pub mod adoption;
pub mod allowance;
pub mod api;
pub mod backoff;
pub mod breaker;
pub mod carry_out;
pub mod check;
pub mod churn;
pub mod claim_policy;
pub mod cli;
pub mod closed_namespace;
pub mod cluster;
pub mod companions;
pub mod config;
pub mod contention;
pub mod controller;
pub mod debut;
pub mod decide;
pub mod decision;
pub mod diff;
pub mod error;
pub mod finalize;
pub mod fingerprint;
pub mod followed;
pub mod grant;
pub mod held;
pub mod keys;
pub mod learn;
pub mod metrics;
mod names;
pub mod needs;
pub mod never;
pub mod object;
pub mod observed;
pub mod ownership;
pub mod parentage;
pub mod pass;
pub mod pattern;
pub mod plugin;
pub mod plugin_file;
pub mod pod_containers;
pub mod pod_grant;
pub mod pod_policy;
pub mod pod_security;
pub mod pod_volumes;
pub mod private_dir;
pub mod probation;
pub mod projection;
pub mod proving;
pub mod queue;
pub mod rbac;
pub mod reconcile;
pub mod refusals;
pub mod renamed;
pub mod report;
pub mod rivals;
pub mod rollout;
pub mod server;
pub mod service_policy;
pub mod shadow;
pub mod shape;
pub mod status;
pub mod supervised;
pub mod supervisor;
pub mod taking;
pub mod tally;
pub mod wakings;
pub mod way_back;
pub mod whole_file;
pub mod wiring;
