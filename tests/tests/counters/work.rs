//! The works that are counted, all about a Memcached with its Deployment, its Service and three Pods.

use std::fs;
use std::sync::Arc;

use hotshoe_cluster::discovery;
use hotshoe_cluster::shared_watch::{Scope, SharedWatch};
use hotshoe_core::check::memory_share::Account;
use hotshoe_core::check::{self, Context, ObservedState};
use hotshoe_core::model::decision::{Answer, Call, Observation};
use hotshoe_core::model::kind::{Kind, ObjectRef};
use hotshoe_core::model::limits::{CACHE_BYTES, Limits};
use hotshoe_core::model::object::{KeptFields, Object};
use hotshoe_core::model::projection::Projection;
use hotshoe_operator::config::{HostSettings, PluginConfig};
use hotshoe_platform::candidate::Candidate;
use hotshoe_sandbox::cases::Case;
use hotshoe_sandbox::code_cache::Purpose;
use hotshoe_sandbox::compile::Compiler;
use hotshoe_sandbox::engine::Engine;
use hotshoe_sandbox::revision::Revision;
use hotshoe_tests::host::program;
use hotshoe_tests::{guests, repository};
use serde_json::Value;
use tokio::runtime::Runtime;

/// A work that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// The plugin is called in a fresh instance.
    Decision,
    /// Its answer is checked.
    Admission,
    /// A Deployment is read, and reduced to the fields that the plugin asks for.
    Read,
}

impl Work {
    pub(crate) const ALL: [Self; 3] = [Self::Decision, Self::Admission, Self::Read];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Decision => "decision",
            Self::Admission => "admission",
            Self::Read => "read",
        }
    }
}

/// A loaded plugin, and what it decides about.
pub(crate) struct Prepared {
    runtime: Runtime,
    revision: Arc<Revision>,
    observation: Arc<Observation>,
    children: Vec<ObjectRef>,
    config: PluginConfig,
    answer: Answer,
    deployments: Arc<SharedWatch>,
    deployment: Value,
}

impl Prepared {
    /// Loads the plugin as a host does.
    pub(crate) fn new() -> Self {
        let engine = Engine::new().expect("an engine");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (folder, limits) = (guests::memcached(), Limits::default());
        let compiler = Compiler::new(program(), Some(&guests::caches()), CACHE_BYTES);
        let component = Candidate::of(fs::read(folder.join("memcached.wasm")).expect("a component"));
        let memory = Account::default();
        let load = Revision::load(&engine, &compiler, component, limits, Purpose::Trial, &memory);
        let revision = runtime.block_on(load).expect("a component that loads").revision;
        let case = fs::read_to_string(repository("plugins/memcached/cases/available.yaml")).expect("a case");
        let case = Case::from_yaml(&case).expect("a valid case");
        let observation = Arc::new(case.observation(revision.descriptor()).expect("a valid case"));
        let decided = runtime.block_on(revision.decide(Call::Reconcile, observation.clone())).expect("an answer");
        let host = HostSettings { allow_env: vec!["*".to_owned()], ..HostSettings::default() };
        let kind = Kind::new("apps", "v1", "Deployment");
        let owned = revision.descriptor().owns.iter().find(|owned| owned.kind == kind).expect("an owned kind");
        let projection = Projection::new(&owned.fields);
        let kept_fields = KeptFields { projection, labels: Vec::new(), status: false };
        Self {
            children: observation.children.iter().map(|child| child.reference.clone()).collect(),
            config: PluginConfig::read(&folder.join("plugin.yaml"), &host).expect("a valid plugin.yaml"),
            answer: decided.result.expect("a decision"),
            deployments: SharedWatch::within(Arc::default(), Scope::new(kind, ""), kept_fields, "".into()),
            deployment: case.children.into_iter().find(|child| child["kind"] == "Deployment").expect("a Deployment"),
            runtime,
            revision,
            observation,
        }
    }

    pub(crate) fn run(&self, work: Work) {
        match work {
            Work::Decision => self.decide(),
            Work::Admission => self.admit(),
            Work::Read => drop(self.read(&self.deployment)),
        }
    }

    fn decide(&self) {
        let decided = self.runtime.block_on(self.revision.decide(Call::Reconcile, self.observation.clone()));
        assert!(decided.expect("an answer").result.is_ok());
    }

    fn admit(&self) {
        let context = Context {
            parent: &self.observation.parent.reference,
            uid: "",
            plugin: &self.config.name,
            grant: &self.config.grant,
            descriptor: self.revision.descriptor(),
            most_children: self.config.limits.children as usize,
            most_fields: self.config.limits.fields_per_child as usize,
            namespaced: Box::new(|kind| Some(discovery::conventional(kind).namespaced)),
            label_of: Box::new(|_, _| None),
        };
        let observed = ObservedState { children: Some(&self.children), room: None };
        check::admit(Call::Reconcile, self.answer.clone(), observed, &context).expect("an admitted answer");
    }

    /// Stores so many Deployments, each with names of its own.
    pub(crate) fn store(&self, count: usize) {
        for number in 0..count {
            let mut deployment = self.deployment.clone();
            deployment["metadata"]["name"] = format!("cache-{number}").into();
            deployment["metadata"]["uid"] = format!("5f0f6f0e-8f4f-4d0e-9a55-{number:012}").into();
            deployment["metadata"]["resourceVersion"] = (1000 + number).to_string().into();
            self.deployments.store(self.read(&deployment));
        }
    }

    fn read(&self, deployment: &Value) -> Object {
        self.deployments.read(&deployment.to_string()).expect("an object")
    }
}
