//! The control planes of the tests, and accounts on them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

pub use hotshoe_attacks::kinds::SYSTEM;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::audit::{Entry, entries, entries_of};
use crate::host::program;
use crate::kinds::{CLUSTER_ROLE, CLUSTER_ROLE_BINDING, CRD, NAMESPACE, ROLE, ROLE_BINDING, SERVICE, SERVICE_ACCOUNT};
use crate::kube::Kube;
use crate::{repository, wait};

/// The name of the host's account.
const HOST: &str = "hotshoe";
/// The host's account.
pub const HOST_USER: &str = "system:serviceaccount:hotshoe-system:hotshoe";
/// The Memcached plugin's account.
pub const PLUGIN_USER: &str = "system:serviceaccount:hotshoe-system:memcached";
/// The message of the policy that closes the namespace of the host.
pub const CLOSED: &str = "the namespace hotshoe-system is the host's";

const CRD_FILE: &str = "crds/cache.example.com_memcacheds.yaml";
const RBAC_FILE: &str = "deploy/rbac.yaml";

/// A control plane, which ends with the process that started it. There are three, for tests whose hosts would disturb
/// each other on one.
pub struct ControlPlane {
    dir: PathBuf,
    /// The administrator's client.
    pub admin: Kube,
}

impl ControlPlane {
    /// Returns the control plane on which each host watches a namespace of its own.
    pub async fn shared() -> &'static Self {
        static SHARED: OnceCell<ControlPlane> = OnceCell::const_new();
        SHARED.get_or_init(|| Self::installed("shared")).await
    }

    /// Returns the control plane on which a single host watches all namespaces.
    pub async fn of_one_host() -> &'static Self {
        static OF_ONE_HOST: OnceCell<ControlPlane> = OnceCell::const_new();
        OF_ONE_HOST.get_or_init(|| Self::installed("one-host")).await
    }

    /// Returns the control plane that a test may change as a whole.
    pub async fn alone() -> &'static Self {
        static ALONE: OnceCell<ControlPlane> = OnceCell::const_new();
        ALONE.get_or_init(|| Self::installed("alone")).await
    }

    /// Starts a control plane, and applies the CRD and the manifests of the accounts.
    async fn installed(name: &str) -> Self {
        let plane = Self::up(name).await;
        plane.install_crd().await;
        plane.install_accounts().await;
        plane
    }

    /// Starts an empty control plane.
    async fn up(name: &str) -> Self {
        let process = std::process::id();
        let dir = std::env::temp_dir().join(format!("hotshoe-tests-{process}-{name}"));
        control_plane(&["up", "--owner-pid", &process.to_string()], &dir);
        let admin = Kube::of(&dir.join("kubeconfig")).await;
        Self { dir, admin }
    }

    /// Applies the CRD of `Memcached`, and waits until it is served.
    pub async fn install_crd(&self) {
        self.install_definition(&repository(CRD_FILE)).await;
    }

    /// Applies a CRD, and waits until it is served.
    pub async fn install_definition(&self, file: &Path) {
        let manifest = read(file);
        self.admin.apply_manifest(&manifest).await;
        let name = crate::kube::documents(&manifest)[0]["metadata"]["name"].as_str().expect("a name").to_owned();
        wait::until(&format!("{name} is served"), wait::TIMEOUT, async || {
            let crd = self.admin.get(&CRD, "", &name).await.map_err(|refused| refused.message)?;
            let established = |condition: &Value| condition["type"] == "Established" && condition["status"] == "True";
            let conditions = crd["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(established).then_some(()).ok_or_else(|| format!("{:#}", crd["status"]))
        })
        .await;
    }

    /// Applies the accounts and rights of the host and of its plugins.
    pub async fn install_accounts(&self) {
        self.admin.apply_manifest(&read(&repository(RBAC_FILE))).await;
    }

    /// Applies a plugin's CRD, and what `hotshoe rbac` prints for a host with this plugin alone, whose account has the
    /// name `hotshoe-PLUGIN`. Returns the kubeconfig of that account.
    pub async fn install_plugin(&self, folder: &Path, crd: &str) -> PathBuf {
        self.install_definition(&repository(crd)).await;
        let name = folder.file_name().and_then(|name| name.to_str()).expect("a folder with a name");
        let account = format!("{HOST}-{name}");
        self.apply_rights(&[&folder.display().to_string()], &account).await;
        self.kubeconfig_of(SYSTEM, &account).await
    }

    /// Applies what `hotshoe rbac` prints with these arguments for a host of this account.
    pub async fn apply_rights(&self, arguments: &[&str], account: &str) {
        self.apply_rights_for(&["--offline"], arguments, account).await;
    }

    /// Does the same as [`Self::apply_rights`], with the plural names that the API server serves the kinds under now.
    pub async fn apply_rights_as_served(&self, arguments: &[&str], account: &str) {
        let kubeconfig = self.dir.join("kubeconfig").display().to_string();
        self.apply_rights_for(&["--kubeconfig", &kubeconfig], arguments, account).await;
    }

    async fn apply_rights_for(&self, cluster: &[&str], arguments: &[&str], account: &str) {
        let output = Command::new(program())
            .arg("rbac")
            .args(arguments)
            .args(cluster)
            .args(["--host-account", account])
            .output()
            .expect("the program runs");
        assert!(output.status.success(), "no rights are printed: {}", String::from_utf8_lossy(&output.stderr));
        // The admission policy is left out: the namespace is closed already, to all but one host.
        let accounts = ["ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"];
        for object in crate::kube::documents(&String::from_utf8_lossy(&output.stdout)) {
            if accounts.iter().any(|kind| object["kind"] == *kind) {
                self.admin.apply("tests", &object).await.expect("the rights are applied");
            }
        }
    }

    /// Waits until the API server enforces the policy that closes the namespace of the host, which takes a moment after
    /// the policy was applied.
    pub async fn until_closed(&self) {
        let path = format!("{}?dryRun=All", SERVICE.path(SYSTEM, None));
        let headers = [("Content-Type", "application/json"), ("Impersonate-User", PLUGIN_USER)];
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": "any" }, "spec": { "ports": [{ "port": 80 }] },
        });
        wait::until("the namespace of the host is closed", wait::TIMEOUT, async || {
            match self.admin.request_with(http::Method::POST, &path, &headers, &service).await {
                Err(refused) if refused.message.contains(CLOSED) => Ok(()),
                answer => Err(format!("{answer:?}")),
            }
        })
        .await;
    }

    /// Writes a kubeconfig for a ServiceAccount, with a token of the TokenRequest API.
    pub async fn kubeconfig_of(&self, namespace: &str, account: &str) -> PathBuf {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = self.dir.join(format!("{namespace}-{account}-{number}.kubeconfig"));
        let kubeconfig = self.kubeconfig_with(&json!({ "token": self.token_of(namespace, account).await }));
        std::fs::write(&path, kubeconfig.to_string()).expect("the folder of the control plane is writable");
        path
    }

    /// Requests a token of a ServiceAccount.
    pub async fn token_of(&self, namespace: &str, account: &str) -> String {
        let path = SERVICE_ACCOUNT.path(namespace, Some(&format!("{account}/token")));
        let body = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": { "expirationSeconds": 7200 },
        });
        let answer = self.admin.request(http::Method::POST, &path, "application/json", &body).await;
        let answer = answer.unwrap_or_else(|refused| panic!("no token for {account}: {}", refused.message));
        answer["status"]["token"].as_str().expect("a token").to_owned()
    }

    fn kubeconfig_with(&self, user: &Value) -> Value {
        let cluster = json!({ "server": self.server(), "certificate-authority": self.certificate_authority() });
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "tests",
            "clusters": [{ "name": "tests", "cluster": cluster }],
            "users": [{ "name": "tests", "user": user }],
            "contexts": [{ "name": "tests", "context": { "cluster": "tests", "user": "tests" } }],
        })
    }

    /// Creates an account without any right.
    pub async fn create_account(&self, name: &str) {
        let metadata = json!({ "name": name, "namespace": SYSTEM });
        let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata });
        self.admin.apply("tests", &account).await.expect("an account");
    }

    /// Creates a ClusterRole, which is not bound to any account yet.
    pub async fn create_role(&self, name: &str, rules: &Value) {
        let (api_version, kind) = (CLUSTER_ROLE.api_version(), CLUSTER_ROLE.kind);
        let metadata = json!({ "name": name });
        let role = json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata, "rules": rules });
        self.admin.apply("tests", &role).await.expect("a role");
    }

    /// Gives a ServiceAccount of the host's namespace the rights of a ClusterRole in one namespace.
    pub async fn bind(&self, account: &str, role: &str, namespace: &str) {
        let binding = json!({
            "apiVersion": ROLE_BINDING.api_version(),
            "kind": ROLE_BINDING.kind,
            "metadata": { "name": format!("{role}-{account}"), "namespace": namespace },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": CLUSTER_ROLE.kind, "name": role },
            "subjects": [{ "kind": "ServiceAccount", "namespace": SYSTEM, "name": account }],
        });
        self.admin.apply("tests", &binding).await.expect("a binding");
    }

    /// Gives a ServiceAccount of the host's namespace rights in all namespaces.
    pub async fn grant(&self, account: &str, name: &str, rules: &Value) {
        self.create_role(name, rules).await;
        let (api_version, kind) = (CLUSTER_ROLE.api_version(), CLUSTER_ROLE.kind);
        let metadata = json!({ "name": name });
        let binding = json!({
            "apiVersion": api_version,
            "kind": CLUSTER_ROLE_BINDING.kind,
            "metadata": metadata,
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name },
            "subjects": [{ "kind": "ServiceAccount", "namespace": SYSTEM, "name": account }],
        });
        self.admin.apply("tests", &binding).await.expect("a binding");
    }

    /// Lets the host impersonate the plugin's account of this name.
    pub async fn allow_impersonation(&self, plugin: &str) {
        let metadata = json!({ "name": format!("tests-be-{plugin}"), "namespace": SYSTEM });
        let api_version = ROLE.api_version();
        let rules = json!([{
            "apiGroups": [""], "resources": ["serviceaccounts"], "resourceNames": [plugin], "verbs": ["impersonate"],
        }]);
        let role = json!({ "apiVersion": api_version, "kind": ROLE.kind, "metadata": metadata, "rules": rules });
        self.admin.apply("tests", &role).await.expect("a role");
        let binding = json!({
            "apiVersion": api_version,
            "kind": ROLE_BINDING.kind,
            "metadata": metadata,
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": ROLE.kind, "name": metadata["name"] },
            "subjects": [{ "kind": "ServiceAccount", "namespace": SYSTEM, "name": "hotshoe" }],
        });
        self.admin.apply("tests", &binding).await.expect("a binding");
    }

    /// Creates a namespace that enforces the Pod Security level `restricted`.
    pub async fn create_namespace(&self, name: &str) {
        let labels = json!({ "pod-security.kubernetes.io/enforce": "restricted" });
        let metadata = json!({ "name": name, "labels": labels });
        let namespace = json!({ "apiVersion": "v1", "kind": NAMESPACE.kind, "metadata": metadata });
        self.admin.create(&namespace).await.expect("a new namespace");
    }

    /// Returns the API server's address.
    pub fn server(&self) -> String {
        let kubeconfig: Value = serde_saphyr::from_str(&read(&self.dir.join("kubeconfig"))).expect("a kubeconfig");
        kubeconfig["clusters"][0]["cluster"]["server"].as_str().expect("a server").to_owned()
    }

    /// Returns the file of the CA certificate with which the API server's certificate is signed.
    pub fn certificate_authority(&self) -> PathBuf {
        self.dir.join("ca.crt")
    }

    /// Returns the path of a file in the control plane's folder, which is removed with the control plane.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Stops the API server.
    pub fn stop_api_server(&self) {
        control_plane(&["stop", "kube-apiserver"], &self.dir);
    }

    /// Kills the API server, without a graceful shutdown.
    pub fn kill_api_server(&self) {
        control_plane(&["stop", "kube-apiserver", "--kill"], &self.dir);
    }

    /// Starts the API server again, and waits until it is ready.
    pub fn start_api_server(&self) {
        control_plane(&["start", "kube-apiserver"], &self.dir);
    }

    /// Stops all components, calls `change` with etcd's data folder, and starts them again.
    pub fn while_stopped(&self, change: impl FnOnce(&Path)) {
        let components = ["kwok", "kube-scheduler", "kube-controller-manager", "kube-apiserver", "etcd"];
        for component in components {
            control_plane(&["stop", component], &self.dir);
        }
        change(&self.dir.join("etcd"));
        for component in components.into_iter().rev() {
            control_plane(&["start", component], &self.dir);
        }
    }

    /// Restarts the controllers, which would otherwise back off for up to a minute after the API
    /// server was away.
    pub fn restart_controllers(&self) {
        for component in ["kube-controller-manager", "kube-scheduler", "kwok"] {
            control_plane(&["stop", component], &self.dir);
            control_plane(&["start", component], &self.dir);
        }
    }

    /// Returns the audit log's entries about a namespace.
    pub fn audit(&self, namespace: &str) -> Vec<Entry> {
        entries(&read(&self.dir.join("audit.log")), namespace)
    }

    /// Returns the audit log's entries of requests in the name of this account, in all namespaces.
    pub fn audit_of(&self, user: &str) -> Vec<Entry> {
        entries_of(&read(&self.dir.join("audit.log")), user)
    }
}

/// Runs a command of the `control-plane` program.
fn control_plane(verb: &[&str], dir: &Path) {
    let program = repository("target/control-plane/bin/control-plane");
    assert!(program.exists(), "{} is missing; build it with tests/control-plane/build.sh", program.display());
    let began = std::time::Instant::now();
    let output =
        Command::new(program).args(verb).arg("--dir").arg(dir).output().expect("the control plane's program runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "control-plane {verb:?} failed: {said}");
    let took = began.elapsed();
    assert!(took < Duration::from_secs(120), "control-plane {verb:?} took {took:?}");
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
}
