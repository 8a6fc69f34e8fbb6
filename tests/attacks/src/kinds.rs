//! The kinds that the tests use.

/// The namespace of the host and of the plugins' ServiceAccounts.
pub const SYSTEM: &str = "hotshoe-system";

/// A kind as the API server serves it.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Empty for the core group.
    pub group: &'static str,
    /// For example `v1`.
    pub version: &'static str,
    /// For example `Deployment`.
    pub kind: &'static str,
    /// For example `deployments`.
    pub plural: &'static str,
}

macro_rules! kinds {
    ($($name:ident = $group:literal / $version:literal $kind:literal $plural:literal;)+) => {
        $(
            #[doc = concat!("`", $kind, "`")]
            pub const $name: Kind = Kind { group: $group, version: $version, kind: $kind, plural: $plural };
        )+
        /// All kinds.
        pub const ALL: &[Kind] = &[$($name),+];
    };
}

kinds! {
    MEMCACHED = "cache.example.com" / "v1" "Memcached" "memcacheds";
    MEMCACHED_V1ALPHA1 = "cache.example.com" / "v1alpha1" "Memcached" "memcacheds";
    MEMCACHED_V1BETA1 = "cache.example.com" / "v1beta1" "Memcached" "memcacheds";
    NGINX_SERVER = "web.example.com" / "v1" "NginxServer" "nginxservers";
    REDIS = "cache.example.com" / "v1alpha1" "Redis" "redises";
    FAULT = "fixtures.example.com" / "v1" "Fault" "faults";
    OLD_FAULT = "oldstyle.example.com" / "v1" "Fault" "faults";
    CANARY_FAULT = "canaries.example.com" / "v1" "Fault" "faults";
    UNLISTED_FAULT = "unlisted.example.com" / "v1" "Fault" "faults";
    UNSERVED_FAULT = "unserved.example.com" / "v1" "Fault" "faults";
    STATUSLESS_FAULT = "statless.example.com" / "v1" "Fault" "faults";
    REMOVED_FAULT = "crdsgone.example.com" / "v1" "Fault" "faults";
    RENAMED_FAULT = "replural.example.com" / "v1" "Fault" "faults";
    BLUE_GREEN = "apps.example.com" / "v1" "BlueGreenDeployment" "bluegreendeployments";
    INDEXED_JOB = "batch.example.com" / "v1" "IndexedJob" "indexedjobs";
    EPHEMERAL_VOLUME = "storage.example.com" / "v1" "EphemeralVolumeClaim" "ephemeralvolumeclaims";
    PROPAGATION = "platform.example.com" / "v1" "Propagation" "propagations";
    BACKUP = "batch.example.com" / "v1alpha1" "Backup" "backups";
    ATTACK = "fixtures.example.com" / "v1" "Attack" "attacks";
    DOOR = "fixtures.example.com" / "v1" "Door" "doors";
    CHOICE = "fixtures.example.com" / "v1" "Choice" "choices";
    MADE_RUST = "made.example.org" / "v1alpha1" "MadeRust" "maderusts";
    MADE_PYTHON = "made.example.org" / "v1alpha1" "MadePython" "madepythons";
    MADE_DEV = "made.example.org" / "v1alpha1" "MadeDev" "madedevs";
    MADE_JS = "made.example.org" / "v1alpha1" "MadeJs" "madejses";
    IDLE_JS = "made.example.org" / "v1alpha1" "IdleJs" "idlejses";
    SENT_JS = "made.example.org" / "v1alpha1" "SentJs" "sentjses";
    TIER_JS = "made.example.org" / "v1alpha1" "TierJs" "tierjses";
    DEPLOYMENT = "apps" / "v1" "Deployment" "deployments";
    REPLICA_SET = "apps" / "v1" "ReplicaSet" "replicasets";
    DAEMON_SET = "apps" / "v1" "DaemonSet" "daemonsets";
    STATEFUL_SET = "apps" / "v1" "StatefulSet" "statefulsets";
    CLAIM = "" / "v1" "PersistentVolumeClaim" "persistentvolumeclaims";
    JOB = "batch" / "v1" "Job" "jobs";
    CRON_JOB = "batch" / "v1" "CronJob" "cronjobs";
    AUTOSCALER = "autoscaling" / "v2" "HorizontalPodAutoscaler" "horizontalpodautoscalers";
    SERVICE = "" / "v1" "Service" "services";
    LIMIT_RANGE = "" / "v1" "LimitRange" "limitranges";
    NETWORK_POLICY = "networking.k8s.io" / "v1" "NetworkPolicy" "networkpolicies";
    BUDGET = "policy" / "v1" "PodDisruptionBudget" "poddisruptionbudgets";
    TENANT = "platform.example.com" / "v1alpha1" "Tenant" "tenants";
    POD = "" / "v1" "Pod" "pods";
    EVENT = "" / "v1" "Event" "events";
    CONFIG_MAP = "" / "v1" "ConfigMap" "configmaps";
    SECRET = "" / "v1" "Secret" "secrets";
    QUOTA = "" / "v1" "ResourceQuota" "resourcequotas";
    NAMESPACE = "" / "v1" "Namespace" "namespaces";
    SERVICE_ACCOUNT = "" / "v1" "ServiceAccount" "serviceaccounts";
    ROLE = "rbac.authorization.k8s.io" / "v1" "Role" "roles";
    ROLE_BINDING = "rbac.authorization.k8s.io" / "v1" "RoleBinding" "rolebindings";
    CLUSTER_ROLE = "rbac.authorization.k8s.io" / "v1" "ClusterRole" "clusterroles";
    CLUSTER_ROLE_BINDING = "rbac.authorization.k8s.io" / "v1" "ClusterRoleBinding" "clusterrolebindings";
    ADMISSION_POLICY = "admissionregistration.k8s.io" / "v1" "ValidatingAdmissionPolicy" "validatingadmissionpolicies";
    ADMISSION_BINDING = "admissionregistration.k8s.io" / "v1" "ValidatingAdmissionPolicyBinding" "validatingadmissionpolicybindings";
    MUTATING_WEBHOOK = "admissionregistration.k8s.io" / "v1" "MutatingWebhookConfiguration" "mutatingwebhookconfigurations";
    VALIDATING_WEBHOOK = "admissionregistration.k8s.io" / "v1" "ValidatingWebhookConfiguration" "validatingwebhookconfigurations";
    PERSISTENT_VOLUME = "" / "v1" "PersistentVolume" "persistentvolumes";
    STORAGE_CLASS = "storage.k8s.io" / "v1" "StorageClass" "storageclasses";
    LEASE = "coordination.k8s.io" / "v1" "Lease" "leases";
    PLUGIN = "hotshoe.dev" / "v1alpha1" "Plugin" "plugins";
    CRD = "apiextensions.k8s.io" / "v1" "CustomResourceDefinition" "customresourcedefinitions";
    FLOW_SCHEMA = "flowcontrol.apiserver.k8s.io" / "v1" "FlowSchema" "flowschemas";
    PRIORITY_LEVEL = "flowcontrol.apiserver.k8s.io" / "v1" "PriorityLevelConfiguration" "prioritylevelconfigurations";
}

impl Kind {
    /// Returns the `apiVersion` of its objects.
    pub fn api_version(&self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// Whether its objects are namespaced.
    pub fn is_namespaced(&self) -> bool {
        let global = [
            "Namespace",
            "CustomResourceDefinition",
            "PersistentVolume",
            "Plugin",
            "Propagation",
            "StorageClass",
            "Tenant",
        ];
        let starts = ["Cluster", "Validating", "Mutating"];
        !(global.contains(&self.kind) || starts.iter().any(|start| self.kind.starts_with(start)))
    }

    /// Returns the request path of the list, or of one object.
    pub fn path(&self, namespace: &str, name: Option<&str>) -> String {
        let root = if self.group.is_empty() { "/api" } else { "/apis" };
        let namespace = match self.is_namespaced() && !namespace.is_empty() {
            true => format!("/namespaces/{namespace}"),
            false => String::new(),
        };
        let name = name.map(|name| format!("/{name}")).unwrap_or_default();
        format!("{root}/{}{namespace}/{}{name}", self.api_version(), self.plural)
    }
}
