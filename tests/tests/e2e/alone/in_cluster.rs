//! The deployment in a cluster: the manifests, accepted by a real API server, and the program in the unpacked layers of
//! the image of a release, with the account, the environment and the restrictions of its Pod.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use hotshoe_tests::control_plane::SYSTEM;
use hotshoe_tests::guests;
use hotshoe_tests::kinds::{CONFIG_MAP, DEPLOYMENT, MEMCACHED, NETWORK_POLICY, PLUGIN, POD};
use hotshoe_tests::release::{VERSION, unpack_image};
use hotshoe_tests::{ControlPlane, Host, Scene, memcached, repository};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::run_alone;

const ACCOUNT: &str = "var/run/secrets/kubernetes.io/serviceaccount";

/// Does what a kubelet and a container runtime do: a read-only root with the account and an empty folder
/// mounted into it, and the user of the image.
const CONTAINER: &str = r#"
set -eu
root=$1 account=$2 user=$3; shift 3
mount --bind "$root" "$root"
mount --bind "$account" "$root/var/run/secrets/kubernetes.io/serviceaccount"
mount --rbind /proc "$root/proc"
mount -t tmpfs -o mode=1777 tmpfs "$root/cache"
mount -o remount,bind,ro "$root"
exec chroot --userspec="$user" "$root" "$@"
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

/// Unpacks the image with this tag, and creates the folders that a runtime creates for mounts. Returns its configuration.
fn lay_out(tag: &str, root: &Path) -> Value {
    let config = unpack_image(tag, root);
    for folder in [ACCOUNT, "proc", "cache"] {
        std::fs::create_dir_all(root.join(folder)).expect("a folder");
    }
    std::fs::set_permissions(root, PermissionsExt::from_mode(0o755)).expect("permissions");
    config
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

/// Returns the command by which this user may mount file systems, and as whom the program then runs: as the image says
/// where this is root, or else as this user, who is root in a user namespace.
fn unshare(user: &str) -> (Command, String) {
    let tried = |options: &[&str]| Command::new("unshare").args(options).arg("true").output().expect("unshare runs");
    let said = |tried: &Output| String::from_utf8_lossy(&tried.stderr).into_owned();
    let mut command = Command::new("unshare");
    let as_root = tried(&["--mount"]);
    if as_root.status.success() {
        command.arg("--mount");
        return (command, user.to_owned());
    }
    let as_user = tried(&["--mount", "--map-root-user"]);
    assert!(as_user.status.success(), "this machine allows no mounts: {}{}", said(&as_root), said(&as_user));
    command.args(["--mount", "--map-root-user"]);
    (command, "0:0".to_owned())
}

/// Runs a command of the program as `kubectl exec` does: in the container, as its user, with its environment.
fn exec(host: &Host, user: &str, container: &Value, verb: &[&str]) -> (bool, String) {
    let mut command = Command::new("nsenter");
    command.args(["--target", &host.process().to_string(), "--mount", "--root"]);
    match user.split_once(':') {
        Some((user, group)) if user != "0" => command.args(["--setgid", group, "--setuid", user]),
        _ => command.args(["--user", "--preserve-credentials"]),
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
    user: String,
    _files: [TempDir; 2],
}

impl Running {
    /// Starts the container in the image with this tag.
    async fn start(scene: &mut Scene, tag: &str, container: &Value) -> Self {
        let files = [tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder")];
        let [root, account] = &files;
        let image = lay_out(tag, root.path());
        project_account(scene.plane, account.path()).await;
        let (mut command, user) = unshare(image["User"].as_str().expect("a user"));
        command.args(["sh", "-c", CONTAINER, "sh"]).arg(root.path()).arg(account.path()).arg(&user);
        command.args(image["Entrypoint"].as_array().expect("a program").iter().filter_map(Value::as_str));
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
        Self { host, user, _files: files }
    }
}

#[test]
fn the_program_serves_in_the_layers_of_its_image_with_the_account_of_its_pod() {
    run_alone(async {
        let plane = ControlPlane::alone().await;
        let pod = deploy(plane, "deploy/install.yaml").await;
        let container = &pod["spec"]["containers"][0];
        let mut scene = Scene::new(plane, "in-cluster").await;
        let mut pod = Running::start(&mut scene, &format!("{VERSION}-plugins"), container).await;
        scene.create(memcached("cache", 2)).await;
        scene.available("cache").await;
        let (succeeded, said) = exec(&pod.host, &pod.user, container, &["status"]);
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
fn a_host_alone_in_its_image_serves_the_plugin_that_is_applied() {
    run_alone(async {
        let plane = ControlPlane::alone().await;
        let pod = deploy(plane, "deploy/install-objects.yaml").await;
        let mut scene = Scene::new(plane, "in-cluster").await;
        let pod = Running::start(&mut scene, VERSION, &pod["spec"]["containers"][0]).await;
        // The image has the host alone.
        let component = std::fs::read(guests::memcached().join("memcached.wasm")).expect("the component");
        let metadata = json!({ "name": "memcached-component", "namespace": SYSTEM });
        let binary = json!({ "memcached.wasm": BASE64.encode(component) });
        let map = json!({ "apiVersion": "v1", "kind": CONFIG_MAP.kind, "metadata": metadata, "binaryData": binary });
        plane.admin.apply("tests", &map).await.expect("a ConfigMap with the component");
        let folder = repository("plugins/memcached").display().to_string();
        plane.apply_rights(&["--plugin-only", &folder], "hotshoe").await;
        let plugin = std::fs::read_to_string(repository("plugins/memcached/plugin.yaml")).expect("plugin.yaml");
        // Other tests on this control plane leave parents behind.
        let namespaces = format!("kind: Memcached\n    namespaces: [{}]\n", scene.namespace);
        let plugin = plugin.replace("kind: Memcached\n", &namespaces);
        let in_map =
            plugin.replace("file: memcached.wasm", "configMap: { name: memcached-component, key: memcached.wasm }");
        assert_ne!(in_map, plugin);
        plane.admin.apply_manifest(&in_map).await;
        scene.create(memcached("cache", 2)).await;
        scene.available("cache").await;
        scene.delete(&MEMCACHED, "cache").await;
        scene.gone(&MEMCACHED, "cache").await;
        plane.admin.delete(&PLUGIN, "", "memcached").await.expect("the Plugin is there");
        scene.gone_from_cluster(&PLUGIN, "memcached").await;
        drop(pod);
    });
}
