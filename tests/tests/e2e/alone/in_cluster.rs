//! The deployment in a cluster: the manifests, accepted by a real API server, and the program in the
//! layout of its image, with the account, the environment and the restrictions of its Pod.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use hotshoe_tests::control_plane::SYSTEM;
use hotshoe_tests::kinds::{DEPLOYMENT, MEMCACHED, NETWORK_POLICY, PLUGIN, POD};
use hotshoe_tests::{ControlPlane, Host, Scene, memcached, repository};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::run_alone;

const ACCOUNT: &str = "var/run/secrets/kubernetes.io/serviceaccount";

/// Does what a kubelet and a container runtime do: a read-only root with the account and an empty folder
/// mounted into it, and the user `nobody`.
const CONTAINER: &str = r#"
set -eu
root=$1 account=$2 user=$3; shift 3
mount --bind "$root" "$root"
mount --bind "$account" "$root/var/run/secrets/kubernetes.io/serviceaccount"
mount --rbind /proc "$root/proc"
mount -t tmpfs -o mode=1777 tmpfs "$root/cache"
mount -o remount,bind,ro "$root"
exec chroot $user "$root" /hotshoe "$@"
"#;

/// Applies what `just deploy` applies, and returns the host's Pod once it is ready.
async fn deploy(plane: &ControlPlane, manifest: &str) -> Value {
    let manifest = std::fs::read_to_string(repository(manifest)).expect("the manifest");
    plane.admin.apply_manifest(&manifest).await;
    let deployment = plane.admin.get(&DEPLOYMENT, SYSTEM, "hotshoe").await.expect("the Deployment");
    let arguments = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
    let what = "the host's Pod is ready in the namespace that enforces `restricted`";
    hotshoe_tests::wait::until(what, hotshoe_tests::wait::TIMEOUT, async || {
        let pods = plane.admin.list(&POD, SYSTEM).await.map_err(|refused| refused.message)?;
        let is_ready = |pod: &&Value| {
            let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let is_true = |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
            pod["spec"]["containers"][0]["args"] == *arguments && conditions.iter().any(is_true)
        };
        pods.iter().find(is_ready).cloned().ok_or_else(|| format!("{} Pods, none is ready", pods.len()))
    })
    .await
}

#[test]
fn the_manifests_are_accepted_and_the_pod_is_ready() {
    run_alone(async {
        let plane = ControlPlane::alone().await;
        let pod = deploy(plane, "deploy/install.yaml").await;
        assert_eq!(pod["spec"]["serviceAccountName"], "hotshoe");
        // The Deployment's status counts the Pod a moment later.
        hotshoe_tests::wait::until("the Deployment counts it", hotshoe_tests::wait::TIMEOUT, async || {
            let read = plane.admin.get(&DEPLOYMENT, SYSTEM, "hotshoe").await;
            let deployment = read.map_err(|refused| refused.message)?;
            let counts = deployment["status"]["readyReplicas"] == 1;
            counts.then_some(()).ok_or_else(|| format!("{:#}", deployment["status"]))
        })
        .await;
        let container = &pod["spec"]["containers"][0];
        assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
        for probe in ["livenessProbe", "readinessProbe"] {
            assert!(container[probe]["httpGet"]["path"].is_string(), "{probe} of {container:#}");
            assert_eq!(container[probe]["httpGet"]["port"], "probes", "{probe} has a port of its own");
        }
        let policy = plane.admin.get(&NETWORK_POLICY, SYSTEM, "hotshoe").await.expect("a NetworkPolicy");
        let labels = &policy["spec"]["podSelector"]["matchLabels"];
        assert!(labels.as_object().is_some_and(|wanted| !wanted.is_empty()), "{policy:#}");
        for (label, value) in labels.as_object().expect("labels") {
            assert_eq!(&pod["metadata"]["labels"][label], value, "it selects the host's Pod");
        }
        let named = |name: &str| {
            let ports = container["ports"].as_array().expect("ports").iter();
            ports.clone().find(|port| port["name"] == name).expect("a port of this name")["containerPort"].clone()
        };
        let metrics = json!([{ "namespaceSelector": { "matchLabels": { "metrics": "enabled" } } }]);
        assert_eq!(
            policy["spec"]["ingress"],
            json!([
                { "ports": [{ "protocol": "TCP", "port": named("probes") }] },
                { "ports": [{ "protocol": "TCP", "port": named("metrics") }], "from": metrics },
            ])
        );
    });
}

/// Creates the files of the image, and the folders that a runtime creates for mounts.
fn lay_out(root: &Path) {
    let script = repository("deploy/image-root.sh");
    let output = Command::new(script).arg(root).output().expect("deploy/image-root.sh runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for folder in [ACCOUNT, "proc", "cache"] {
        std::fs::create_dir_all(root.join(folder)).expect("a folder");
    }
    std::fs::set_permissions(root, PermissionsExt::from_mode(0o755)).expect("permissions");
}

/// Writes the files of the volume that the kubelet projects for an account.
async fn project_account(plane: &ControlPlane, folder: &Path) {
    let token = plane.token_of(SYSTEM, "hotshoe").await;
    let authority = std::fs::read(plane.certificate_authority()).expect("ca.crt");
    for (file, content) in [("token", token.as_bytes()), ("ca.crt", &authority), ("namespace", SYSTEM.as_bytes())] {
        std::fs::write(folder.join(file), content).expect("a file");
    }
    std::fs::set_permissions(folder, PermissionsExt::from_mode(0o755)).expect("permissions");
}

/// Returns a container's environment variables, with the values that the kubelet would fill in.
fn environment(container: &Value) -> Vec<(String, String)> {
    let variables = container["env"].as_array().cloned().unwrap_or_default();
    let value = |variable: &Value| match variable["valueFrom"]["fieldRef"]["fieldPath"].as_str() {
        Some("metadata.namespace") => SYSTEM.to_owned(),
        Some(other) => panic!("the tests do not know the field {other}"),
        None => variable["value"].as_str().unwrap_or_default().to_owned(),
    };
    variables.iter().map(|variable| (variable["name"].as_str().unwrap().to_owned(), value(variable))).collect()
}

/// Returns the command by which this user may mount file systems, as root or in a user namespace; none where it may
/// not.
fn unshare() -> Option<(Command, &'static str)> {
    let works = |arguments: &[&str]| {
        let tried = Command::new("unshare").args(arguments).arg("true").stderr(Stdio::null()).status();
        tried.is_ok_and(|status| status.success())
    };
    let mut command = Command::new("unshare");
    if works(&["--mount"]) {
        command.arg("--mount");
        return Some((command, "--userspec=65532:65532"));
    }
    if works(&["--mount", "--map-root-user"]) {
        command.args(["--mount", "--map-root-user"]);
        return Some((command, "--userspec=0:0"));
    }
    None
}

/// Runs a command of the program as `kubectl exec` does: in the container, as its user, with its environment.
fn exec(host: &Host, user: &str, container: &Value, verb: &[&str]) -> (bool, String) {
    let mut command = Command::new("nsenter");
    command.args(["--target", &host.process().to_string(), "--mount", "--root"]);
    match user.strip_suffix("65532:65532") {
        Some(_) => command.args(["--setgid", "65532", "--setuid", "65532"]),
        None => command.args(["--user", "--preserve-credentials"]),
    };
    command.args(["--", "/hotshoe"]).args(verb).env_clear().envs(environment(container));
    command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    let output = command.output().expect("nsenter runs");
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

/// The program as it runs in its Pod.
struct Running {
    host: Host,
    user: &'static str,
    _files: [TempDir; 2],
}

impl Running {
    /// Starts it, unless this machine does not allow that.
    async fn start(scene: &mut Scene, container: &Value) -> Option<Self> {
        let files = [tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder")];
        let [root, account] = &files;
        // The image copies the component from the folder of build products.
        hotshoe_tests::guests::product("plugins/memcached");
        lay_out(root.path());
        project_account(scene.plane, account.path()).await;
        let Some((mut command, user)) = unshare() else {
            eprintln!("skipped: this machine does not allow mounts (unshare --mount)");
            return None;
        };
        command.args(["sh", "-c", CONTAINER, "sh"]).arg(root.path()).arg(account.path()).arg(user);
        // As in the Pod, except for the ports, which may be in use on this machine.
        let arguments = container["args"].as_array().expect("arguments");
        let arguments = arguments.iter().filter_map(Value::as_str);
        command.args(arguments.map(|argument| if argument.starts_with("0.0.0.0:") { "127.0.0.1:0" } else { argument }));
        let server = scene.plane.server();
        let (host, port) = server.trim_start_matches("https://").rsplit_once(':').expect("an address");
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").envs(environment(container));
        command.env("KUBERNETES_SERVICE_HOST", host).env("KUBERNETES_SERVICE_PORT", port);
        let host = Host::spawn(command);
        scene.watch_log(&host);
        host.ready().await;
        Some(Self { host, user, _files: files })
    }
}

#[test]
fn the_program_serves_in_the_layout_of_its_image_with_the_account_of_its_pod() {
    run_alone(async {
        let plane = ControlPlane::alone().await;
        let pod = deploy(plane, "deploy/install.yaml").await;
        let container = &pod["spec"]["containers"][0];
        let mut scene = Scene::new(plane, "in-cluster").await;
        let Some(mut pod) = Running::start(&mut scene, container).await else { return };
        scene.create(memcached("cache", 2)).await;
        scene.available("cache").await;
        let (succeeded, said) = exec(&pod.host, pod.user, container, &["status"]);
        assert!(succeeded && said.contains("memcached"), "as `kubectl exec` would: {said}");
        scene.delete(&MEMCACHED, "cache").await;
        scene.gone(&MEMCACHED, "cache").await;
        let log = pod.host.log();
        let first: Value = serde_json::from_str(log.lines().next().expect("a line")).expect("lines of JSON");
        assert!(first["message"].as_str().is_some_and(|message| message.contains("in-cluster")), "{first}");
        assert!(pod.host.stop().success(), "SIGTERM stops it gracefully");
        assert_eq!(json!(pod.host.ended().map(|status| status.success())), json!(true));
    });
}

#[test]
fn a_host_that_one_manifest_installs_serves_the_plugin_that_is_applied() {
    run_alone(async {
        let plane = ControlPlane::alone().await;
        let pod = deploy(plane, "deploy/install-objects.yaml").await;
        let mut scene = Scene::new(plane, "in-cluster").await;
        let Some(pod) = Running::start(&mut scene, &pod["spec"]["containers"][0]).await else { return };
        let folder = repository("plugins/memcached").display().to_string();
        plane.apply_rights(&["--plugin-only", &folder], "hotshoe").await;
        let plugin = std::fs::read_to_string(repository("plugins/memcached/plugin.yaml")).expect("plugin.yaml");
        // Other tests on this control plane leave parents behind.
        let namespaces = format!("kind: Memcached\n    namespaces: [{}]\n", scene.namespace);
        plane.admin.apply_manifest(&plugin.replace("kind: Memcached\n", &namespaces)).await;
        scene.create(memcached("cache", 2)).await;
        scene.available("cache").await;
        scene.delete(&MEMCACHED, "cache").await;
        scene.gone(&MEMCACHED, "cache").await;
        plane.admin.delete(&PLUGIN, "", "memcached").await.expect("the Plugin is there");
        scene.gone_from_cluster(&PLUGIN, "memcached").await;
        drop(pod);
    });
}
