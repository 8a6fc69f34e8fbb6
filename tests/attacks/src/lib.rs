//! The tables of attacks: what a plugin tries, which reason is reported, and where it is stopped; and what a user of a
//! namespace tries.
//!
//! These are their only definitions. The end-to-end tests run every row, the benchmark runs one of
//! each class beside a healthy plugin, and a test compares docs/src/security.md with them.
//!
//! | file | contents |
//! |---|---|
//! | `lib.rs` | the table of plugins |
//! | `users.rs` | the table of users |
//! | `components.rs` | components that no compiler would emit, made of text |
//! | `forged.rs` | objects that must never be written for a plugin |
//! | `kinds.rs` | the kinds of these objects |

#![allow(
    clippy::panic,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a wrong table fails the test that reads it"
)]

pub mod components;
pub mod forged;
pub mod kinds;
pub mod users;

use std::fmt;

use self::components::Offered;
use self::forged::{Forged, Place};

/// One row of the table.
pub struct Attack {
    /// A short description, which is unique.
    pub name: &'static str,
    /// How the attack is made.
    pub how: How,
    /// The reason in condition, Event, status or metric; [`SERVED`] where the decision is admitted and
    /// only its harm is removed.
    pub reason: &'static str,
    /// The layers that stop it; each of them is sufficient by itself.
    pub stopped: &'static [Layer],
}

/// Stands for a reason where none is reported, because the parent is served.
pub const SERVED: &str = "served";

/// How an attack is made.
pub enum How {
    /// The fixture carries it out when it is called; its parent has this word.
    Called(&'static str),
    /// A component made from text carries it out when it is called.
    Component(fn() -> Vec<u8>),
    /// A file, made from the good component, is put in that component's place.
    Offered(fn(&[u8]) -> Offered),
    /// The fixture carries it out while its parent, which has this word, is being deleted.
    AtTheEnd(&'static str),
    /// The fixture desires these objects as its children.
    Forged(fn(&Place<'_>) -> Vec<Forged>),
    /// The fixture desires a harmless child, in which others have set fields that are denied unless granted.
    Beside,
    /// The fixture requires these objects to be shown to it.
    Read(fn(&Place<'_>) -> Vec<Forged>),
}

/// Where an attack is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// Loading: the component is refused.
    Load,
    /// The instance ends, and the call with it.
    Sandbox,
    /// The validation of the answer, right after the sandbox.
    Answer,
    /// The answer is accepted after it was clamped or cleaned.
    Tamed,
    /// The check of the decision against grant and policy.
    Gate,
    /// The conditions under which a child is written.
    Write,
    /// The API server: the plugin's account has no such right.
    Rbac,
    /// RBAC too, but only where the host watches certain namespaces: rights in all namespaces cannot have exceptions.
    RbacByNamespace,
    /// The API server: the policy that closes the namespace of the host.
    Policy,
    /// The API server: the namespace enforces Pod Security `restricted`.
    PodSecurity,
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Load => "load",
            Self::Sandbox => "sandbox",
            Self::Answer => "answer",
            Self::Tamed => "tamed",
            Self::Gate => "gate",
            Self::Write => "write",
            Self::Rbac => "RBAC",
            Self::RbacByNamespace => "RBAC by namespace",
            Self::Policy => "policy",
            Self::PodSecurity => "Pod Security",
        })
    }
}

impl Attack {
    /// Whether only the gate stops it, because the API server cannot.
    pub fn is_gate_only(&self) -> bool {
        self.stopped == [Layer::Gate]
    }

    /// Names the layers that stop it.
    pub fn stopped(&self) -> String {
        if self.is_gate_only() {
            return "gate only".to_owned();
        }
        let layers: Vec<String> = self.stopped.iter().map(Layer::to_string).collect();
        layers.join(", ")
    }
}

use How::{AtTheEnd, Beside, Called, Component, Offered as Lies, Read};
use Layer::{Answer, Gate, Load, PodSecurity, Policy, Rbac, RbacByNamespace, Sandbox, Tamed, Write};

const fn row(name: &'static str, how: How, reason: &'static str, stopped: &'static [Layer]) -> Attack {
    Attack { name, how, reason, stopped }
}

const fn forged(name: &'static str, objects: fn(&Place<'_>) -> Vec<Forged>, stopped: &'static [Layer]) -> Attack {
    Attack { name, how: How::Forged(objects), reason: "Denied", stopped }
}

/// All attacks.
pub const ATTACKS: &[Attack] = &[
    // Too much of something.
    row("endless loop", Called("loop"), "DeadlineExceeded", &[Sandbox]),
    row("endless loop in the allocator", Component(components::loop_in_realloc), "DeadlineExceeded", &[Sandbox]),
    row("endless loop after the answer", Component(components::loop_after_return), "DeadlineExceeded", &[Sandbox]),
    row("slow calls with good answers", Called("slow"), SERVED, &[Sandbox]),
    row("memory bomb", Called("memory"), "LimitExceeded", &[Sandbox]),
    row("table bomb", Component(components::table_bomb), "LimitExceeded", &[Sandbox]),
    row("recursion on the guest's stack", Called("recursion"), "Trapped", &[Sandbox]),
    row("recursion on the native stack", Component(components::stack_bomb), "Trapped", &[Sandbox]),
    row("panic", Called("panic"), "Trapped", &[Sandbox]),
    row("text of 20 MB", Called("long text"), "OutputTooLarge", &[Sandbox]),
    row("list of a million records", Component(components::million_records), "OutputTooLarge", &[Sandbox]),
    row("100,000 children", Component(components::many_children), "OutputTooLarge", &[Sandbox]),
    row("one child too many", Called("a few too many children"), "OutputTooLarge", &[Answer]),
    row("one condition too many", Called("many conditions"), "OutputTooLarge", &[Answer]),
    row("child of 2 MB", Called("large child"), "OutputTooLarge", &[Answer]),
    row("child of 110,000 keys", Called("many keys"), "Denied", &[Gate]),
    row("many children of as many keys as may be", Called("many large children"), SERVED, &[Tamed]),
    row("children that the API server finds invalid, again and again", Called("invalid children"), SERVED, &[Tamed]),
    row("flood of host calls", Called("host calls"), "LimitExceeded", &[Sandbox]),
    row("flood of log lines", Called("log lines"), SERVED, &[Tamed]),
    row("log line of 20 MB", Called("large line"), "OutputTooLarge", &[Sandbox]),
    // Invalid answers.
    row("JSON 100,000 lists deep", Called("deep JSON"), "InvalidOutput", &[Answer]),
    row("JSON 100,000 objects deep", Called("deep objects"), "InvalidOutput", &[Answer]),
    row("duplicate keys", Called("duplicate keys"), "InvalidOutput", &[Answer]),
    row("duplicate keys in disguise", Called("duplicate keys in disguise"), "InvalidOutput", &[Answer]),
    row("NaN", Called("NaN"), "InvalidOutput", &[Answer]),
    row("NUL", Called("NUL"), "InvalidOutput", &[Answer]),
    row("key of 1 MB", Called("large key"), "InvalidOutput", &[Answer]),
    row("number of 400 digits", Called("large number"), "InvalidOutput", &[Answer]),
    row("half a surrogate pair", Called("half a surrogate"), "InvalidOutput", &[Answer]),
    row("two documents", Called("two documents"), "InvalidOutput", &[Answer]),
    row("JSON that ends too soon", Called("no JSON"), "InvalidOutput", &[Answer]),
    row("JSON that is no object", Called("no object"), "InvalidOutput", &[Answer]),
    row("invalid UTF-8 in the answer", Component(components::invalid_answer), "InvalidOutput", &[Sandbox]),
    row("invalid UTF-8 in a log line", Component(components::invalid_log), "InvalidOutput", &[Sandbox]),
    row("answer outside of its memory", Component(components::answer_outside), "InvalidOutput", &[Sandbox]),
    row("answer of no known variant", Component(components::unknown_variant), "InvalidOutput", &[Sandbox]),
    row("escape sequences in log, Event and condition", Called("escapes"), SERVED, &[Tamed]),
    row("escape sequences in a failure", Called("escapes in a failure"), "PluginFailed", &[Tamed]),
    // Attacks of several calls.
    row("state kept for the next call", Called("hidden state"), SERVED, &[Sandbox]),
    row("another decision at every call", Called("flip"), SERVED, &[Tamed]),
    row("a new decision at every call, for ever", Called("count"), SERVED, &[Tamed]),
    row("a trap after a hundred good calls", Called("a hundred good calls"), "Trapped", &[Sandbox]),
    row("requeue after 0", Called("soon"), SERVED, &[Tamed]),
    row("requeue after u64::MAX", Called("never"), SERVED, &[Tamed]),
    row("retry after u64::MAX", Called("retry at the end of time"), "RetryRequested", &[Tamed]),
    row("asking for more in every round", Called("needs"), "TooManyRounds", &[Answer]),
    row("status of 60 KB for each of many parents", Called("large status"), "LimitExceeded", &[Gate]),
    row("no children after a good life", Called("nothing"), "Denied", &[Gate]),
    row("the host's own condition", Called("the host's condition"), "Denied", &[Gate]),
    // While the parent goes.
    row("clean-up that always waits", AtTheEnd("wait"), SERVED, &[Tamed]),
    row("clean-up that always traps", AtTheEnd("trap"), "Trapped", &[Sandbox]),
    row("clean-up that loops", AtTheEnd("loop"), "DeadlineExceeded", &[Sandbox]),
    row("clean-up that is done while children exist", AtTheEnd("done at once"), SERVED, &[Tamed]),
    row("clean-up that creates", AtTheEnd("create"), "Denied", &[Gate]),
    // Files that are no usable plugin.
    row("endless loop at the start", Lies(components::loop_in_start), "DescribeFailed", &[Load]),
    row("endless loop in describe", Lies(components::loop_in_describe), "DescribeFailed", &[Load]),
    row(
        "more memory than its limit from the start",
        Lies(components::memory_from_the_start),
        "DescribeFailed",
        &[Load],
    ),
    row("too many tables", Lies(components::many_tables), "DescribeFailed", &[Load]),
    row("import of an unknown interface", Lies(components::unknown_import), "ForbiddenImport", &[Load]),
    row("import of WASI", Lies(components::wasi), "ForbiddenImport", &[Load]),
    row("another version of the contract", Lies(components::other_contract), "ContractMismatch", &[Load]),
    row("component that is no plugin", Lies(components::no_plugin), "NoPlugin", &[Load]),
    row("core module", Lies(components::core_module), "NotAComponent", &[Load]),
    row("half a file", Lies(components::half), "NotAComponent", &[Load]),
    row("text", Lies(components::garbage), "NotAComponent", &[Load]),
    row("10,000 nested components", Lies(components::many_components), "NotAComponent", &[Load]),
    row("file of 1 GB", Lies(components::large_file), "ComponentTooLarge", &[Load]),
    row("pipe without a writer", Lies(components::pipe), "Unreadable", &[Load]),
    row("compile bomb: one huge function", Lies(components::huge_function), "CompileFailed", &[Load]),
    row("compile bomb: huge branch tables", Lies(components::branch_tables), "CompileFailed", &[Load]),
    row("compile bomb: functions that take long", Lies(components::slow_functions), "CompileFailed", &[Load]),
    row("100,000 types", Lies(components::many_types), "ComponentTooComplex", &[Load]),
    row("150,000 exports", Lies(components::many_exports), "ComponentTooComplex", &[Load]),
    row("cases of 16 MB", Lies(components::large_cases), "ComponentTooComplex", &[Load]),
    row("plugin that asks to own RoleBindings", Lies(components::owns_role_bindings), "NotGranted", &[Load]),
    row("plugin that asks to own Secrets", Lies(components::owns_secrets), "NotGranted", &[Load]),
    row("parent is a Pod", Lies(components::parent_is_a_pod), "NotGranted", &[Load]),
    row("parent of another plugin", Lies(components::parent_of_another), "NotGranted", &[Load]),
    // Reads.
    row("read of a Secret", Read(forged::secret), "Denied", &[Gate, Rbac]),
    row("read of another namespace", Read(forged::config_map_elsewhere), "Denied", &[Gate, RbacByNamespace]),
    row("read of the host's Deployment", Read(forged::hosts_deployment), "Denied", &[Gate, RbacByNamespace]),
    row("read of a Namespace", Read(forged::namespace), "Denied", &[Gate, Rbac]),
    // Objects that must never be written.
    forged("a ClusterRole", forged::cluster_role, &[Gate, Rbac]),
    forged("a ClusterRole that claims a namespace", forged::cluster_role_in_namespace, &[Gate, Rbac]),
    forged("a ClusterRoleBinding", forged::cluster_role_binding, &[Gate, Rbac]),
    forged("a webhook configuration", forged::webhook, &[Gate, Rbac]),
    forged("a CustomResourceDefinition", forged::definition, &[Gate, Rbac]),
    forged("a PersistentVolume", forged::persistent_volume, &[Gate, Rbac]),
    forged("a PersistentVolume with another tenant's Secret", forged::persistent_volume_with_secret, &[Gate, Rbac]),
    forged("a Namespace", forged::namespace, &[Gate, Rbac]),
    forged("a Namespace with a finalizer", forged::namespace_with_finalizer, &[Gate, Rbac]),
    forged("another namespace", forged::config_map_elsewhere, &[Gate, RbacByNamespace]),
    forged("another namespace in the JSON alone", forged::config_map_elsewhere_in_json, &[Gate, RbacByNamespace]),
    forged("a Role", forged::role, &[Gate, Rbac]),
    forged("a RoleBinding", forged::role_binding, &[Gate, Rbac]),
    forged("a ServiceAccount", forged::service_account, &[Gate, Rbac]),
    forged("a ServiceAccount's token in a Secret", forged::token_secret, &[Gate, Rbac]),
    forged("a ServiceAccount's token, where Secrets are granted", forged::token_secret, &[Gate]),
    forged("a release of Helm's in a ConfigMap", forged::helm_config_map, &[Gate]),
    forged("a release of Helm's, where Secrets are granted", forged::helm_secret, &[Gate]),
    forged("a token request", forged::token_request, &[Gate, Rbac]),
    forged("a privileged Pod", forged::privileged_pod, &[Gate, PodSecurity]),
    forged("a Pod that mounts the node's files", forged::host_path_pod, &[Gate, PodSecurity]),
    forged("a Pod in the node's network", forged::host_network_pod, &[Gate, PodSecurity]),
    forged("a Pod under another ServiceAccount", forged::other_account_pod, &[Gate]),
    forged("a Pod with the token of its ServiceAccount", forged::token_pod, &[Gate]),
    forged("a Pod that names its node", forged::node_name_pod, &[Gate]),
    forged("a Pod that mounts a Secret", forged::secret_volume_pod, &[Gate]),
    forged("a Pod that takes a Secret as its environment", forged::secret_environment_pod, &[Gate]),
    forged("a Deployment of privileged Pods", forged::privileged_deployment, &[Gate, PodSecurity]),
    forged("a Deployment of Pods that mount the node's files", forged::host_path_deployment, &[Gate, PodSecurity]),
    forged("a Pod that writes where it may read the node's files", forged::host_path_writing_pod, &[Gate, PodSecurity]),
    forged(
        "a Pod that makes a folder where it may read the node's files",
        forged::host_path_making_pod,
        &[Gate, PodSecurity],
    ),
    forged("a Pod with an annotation for an add-on", forged::annotated_pod, &[Gate]),
    forged("a Pod with a label for an add-on", forged::labelled_pod, &[Gate]),
    forged("a Deployment of Pods with a label for an add-on", forged::labelled_deployment, &[Gate]),
    forged("a Pod with a device by the name of its class", forged::device_pod, &[Gate]),
    forged("a Deployment of Pods with a device of a device plugin", forged::device_deployment, &[Gate]),
    forged("a Deployment of Pods whose containers share their processes", forged::shared_processes, &[Gate]),
    forged("a Pod with a device by an annotation of CRI-O", forged::pod_with_cri_o_device, &[Gate]),
    forged(
        "a Deployment of Pods with a device by an annotation of CRI-O",
        forged::deployment_with_cri_o_device,
        &[Gate],
    ),
    forged("a Pod with a file of the node by an annotation of crun", forged::pod_with_crun_hook_output, &[Gate]),
    forged(
        "a Pod with kernel parameters by an annotation of Kata Containers",
        forged::pod_with_kata_parameters,
        &[Gate],
    ),
    forged("a Pod with a flag of gVisor", forged::pod_with_gvisor_flag, &[Gate]),
    forged("a Pod with a setting of a Windows node's virtual machine", forged::pod_with_hcsshim_setting, &[Gate]),
    forged("a Service with an annotation for an add-on", forged::annotated_service, &[Gate]),
    forged("containers in a custom kind", forged::foreign_pods, &[Gate]),
    forged("a ReplicaSet that takes another tenant's Pods", forged::adopting_replica_set, &[Gate]),
    forged("a Deployment that takes another tenant's ReplicaSet", forged::adopting_deployment, &[Gate]),
    forged("a StatefulSet that takes another tenant's Pods", forged::adopting_stateful_set, &[Gate]),
    forged("a StatefulSet that takes another tenant's claim", forged::claim_of_another_set, &[Gate]),
    forged("a StatefulSet that copies another tenant's claim", forged::filled_claim_of_set, &[Gate]),
    forged("a StatefulSet whose claims have a finalizer", forged::claim_with_finalizer, &[Gate]),
    forged("a StatefulSet that has its claims deleted", forged::claims_deleted_with_set, &[Gate]),
    forged("a copy of another tenant's claim", forged::filled_claim, &[Gate]),
    forged("a claim of another tenant's volume", forged::claim_of_volume, &[Gate]),
    forged("an owner that is another object", forged::foreign_owner, &[Gate]),
    row("a Deployment that another operator left", Beside, "Conflict", &[Write]),
    row("the ServiceAccount and the Secrets of a Deployment that another operator left", Beside, "Denied", &[Gate]),
    row("the token of a Pod that another operator left", Beside, "Denied", &[Gate]),
    row("the addresses of a Service that another operator left", Beside, "Denied", &[Gate]),
    row("the capabilities of a container that an injector added", Beside, "Denied", &[Gate]),
    row("the Secret of a container that a mutating webhook added", Beside, "Denied", &[Gate]),
    row("the Secret of a container that was renamed", Beside, "Denied", &[Gate]),
    row("the name of an object that is another tenant's", How::Forged(forged::taken_name), "Conflict", &[Write]),
    forged("managedFields", forged::managed_fields, &[Gate]),
    forged("finalizers", forged::finalizers, &[Gate]),
    forged("a uid", forged::uid, &[Gate]),
    forged("a resourceVersion", forged::resource_version, &[Gate]),
    forged("a deletionTimestamp", forged::deletion_timestamp, &[Gate]),
    forged("a generateName", forged::generate_name, &[Gate]),
    forged("the host's label", forged::our_label, &[Gate]),
    forged("the host's annotation", forged::our_annotation, &[Gate]),
    forged("a last-applied annotation", forged::last_applied, &[Gate]),
    forged("the status of a child", forged::status_of_child, &[Gate, Rbac]),
    forged("the scale of a child", forged::scale, &[Gate, Rbac]),
    forged("a command in a Pod", forged::exec, &[Gate, Rbac]),
    forged("a Plugin object", forged::plugin, &[Gate, Rbac]),
    forged("a Lease", forged::lease, &[Gate, Rbac]),
    forged("the host's Deployment", forged::hosts_deployment, &[Gate, RbacByNamespace, Policy]),
    forged("the host's Secret", forged::hosts_secret, &[Gate, RbacByNamespace, Policy]),
    row("a path in the name", How::Forged(forged::path_in_name), "InvalidOutput", &[Answer, Gate]),
    forged("another name in the JSON", forged::other_name_in_json, &[Gate]),
    forged("another kind in the JSON", forged::other_kind_in_json, &[Gate]),
    forged("the same child twice", forged::twice, &[Gate]),
];

/// Returns the row of this name.
pub fn named(name: &str) -> &'static Attack {
    ATTACKS.iter().find(|attack| attack.name == name).unwrap_or_else(|| panic!("there is no attack {name:?}"))
}

/// Renders the table of docs/src/security.md.
pub fn markdown() -> String {
    let mut table = "| what a plugin tries | what is said | where it is stopped |\n|---|---|---|\n".to_owned();
    for attack in ATTACKS {
        let reason = if attack.reason == SERVED { "–".to_owned() } else { format!("`{}`", attack.reason) };
        table += &format!("| {} | {reason} | {} |\n", attack.name, attack.stopped());
    }
    table
}
