//! A host of several namespaces, under an account with Roles in some of them only.

use std::path::Path;
use std::process::Command;

use hotshoe_tests::guests::{self, Folder};
use hotshoe_tests::host::program;
use hotshoe_tests::kinds::{DEPLOYMENT, MEMCACHED};
use hotshoe_tests::scene::{condition_parts, labelled};
use hotshoe_tests::{ControlPlane, Host, Scene, memcached, run};
use serde_json::{Value, json};

/// Three namespaces that a host watches, and one that it does not.
struct Setting {
    teams: [Scene; 3],
    other: Scene,
    /// The namespace of the host.
    system: String,
    /// The account of the host.
    account: String,
}

impl Setting {
    async fn new() -> Self {
        let plane = ControlPlane::shared().await;
        let teams =
            [Scene::new(plane, "team-a").await, Scene::new(plane, "team-b").await, Scene::new(plane, "team-c").await];
        let other = Scene::new(plane, "team-other").await;
        let (system, account) = (format!("{}-system", other.namespace), format!("host-{}", other.namespace));
        plane.create_namespace(&system).await;
        Self { teams, other, system, account }
    }

    /// Applies what `hotshoe rbac` prints for a host of these namespaces.
    async fn grant(&self, teams: &[Scene]) {
        let names: Vec<&str> = teams.iter().map(|scene| &*scene.namespace).collect();
        let (names, plugin) = (names.join(","), guests::memcached().display().to_string());
        let arguments = [&*plugin, "--namespace", &self.system, "--watch-namespace", &names];
        self.other.plane.apply_rights(&arguments, &self.account).await;
    }

    /// Starts a host of all three namespaces.
    async fn host(&mut self) -> Host {
        self.host_of(&guests::memcached()).await
    }

    /// Does the same with another plugin.
    async fn host_of(&mut self, plugin: &Path) -> Host {
        let kubeconfig = self.other.plane.kubeconfig_of(&self.system, &self.account).await;
        let [a, b, c] = self.teams.each_ref().map(|scene| scene.namespace.clone());
        // In one option and in another one.
        let start = self.other.start().await.kubeconfig(&kubeconfig).plugins(&[plugin]);
        let mut command = start.namespace(&format!("{b},{a}")).command();
        command.args(["--namespace", &c, "--service-account-namespace", &self.system]);
        let host = Host::spawn(command);
        self.teams.iter_mut().for_each(|scene| scene.watch_log(&host));
        host
    }
}

/// Returns the namespaces that some watch of the first plugin is without.
fn refused(plugin: &Value) -> Vec<&str> {
    let watches = plugin["watches"].as_array().into_iter().flatten();
    let mut names: Vec<&str> =
        watches.flat_map(|watch| watch["refused"].as_array().into_iter().flatten()).filter_map(Value::as_str).collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[test]
fn a_namespace_that_the_host_may_not_list_keeps_no_other_one_waiting_and_is_named() {
    run(async {
        let mut setting = Setting::new().await;
        setting.grant(&setting.teams[..2]).await;
        for scene in setting.teams.iter().chain([&setting.other]) {
            scene.create(memcached("cache", 1)).await;
        }
        let mut host = setting.host().await;
        host.ready().await;
        let [a, b, c] = &setting.teams;
        a.available("cache").await;
        b.available("cache").await;
        let plugin = host.until_plugin("a namespace is refused", |plugin| !refused(plugin).is_empty()).await;
        assert_eq!(refused(&plugin), [&*c.namespace], "{plugin:#}");
        let (_, said) = host.ask(&["status"]);
        let note = format!("nothing is done in {}, because ", c.namespace);
        assert!(said.contains(&note) && said.contains("may not be listed there"), "{said}");
        host.until_logged(&["WARN", &c.namespace, "grant the host get, list and watch"]).await;
        for unserved in [c, &setting.other] {
            let untouched = unserved.get(&MEMCACHED, "cache").await;
            let written = [&untouched["status"]["conditions"], &untouched["metadata"]["finalizers"]];
            assert_eq!(written, [&Value::Null; 2], "{untouched:#}");
        }

        // The rights come, and the objects there are served without a restart.
        setting.grant(&setting.teams).await;
        c.available("cache").await;
        host.until_plugin("no namespace is refused", |plugin| refused(plugin).is_empty()).await;
        host.until_logged(&[&c.namespace, "may be listed again"]).await;

        // They go again, and a new host serves the others.
        assert!(host.stop().success());
        let gone = b.kubectl(&["delete", "rolebinding", "--all"]);
        assert!(gone.status.success(), "{gone:?}");
        let mut host = setting.host().await;
        host.ready().await;
        let [a, b, c] = &setting.teams;
        for scene in [a, b, c] {
            scene.merge(&MEMCACHED, "cache", json!({ "spec": { "size": 2 } })).await;
        }
        for scene in [a, c] {
            scene.available("cache").await;
        }
        let plugin = host.plugin().await;
        assert_eq!(refused(&plugin), [&*b.namespace], "{plugin:#}");
        assert_eq!(b.get(&DEPLOYMENT, "cache").await["spec"]["replicas"], 1);
        assert_eq!(setting.other.list(&DEPLOYMENT).await, [Value::Null; 0]);
        assert!(host.stop().success());
    });
}

#[test]
fn nothing_is_decided_where_the_host_may_not_list_the_children() {
    run(async {
        let mut setting = Setting::new().await;
        setting.grant(&setting.teams).await;
        let account = setting.account.clone();
        let b = &setting.teams[1];
        let role = b.kubectl(&["get", "role", &account, "-o", "json"]);
        let role: Value = serde_json::from_slice(&role.stdout).expect("a Role");
        let with = |rules: &Value| json!({ "rules": rules }).to_string();
        let is_kept = |rule: &&Value| rule["resources"][0] != "deployments";
        let rules: Value = role["rules"].as_array().expect("rules").iter().filter(is_kept).cloned().collect();
        assert_ne!(rules, role["rules"]);
        let patched = b.kubectl(&["patch", "role", &account, "--type", "merge", "-p", &with(&rules)]);
        assert!(patched.status.success(), "{patched:?}");

        let mut host = setting.host().await;
        host.ready().await;
        let [a, b, _] = &setting.teams;
        for scene in [a, b] {
            scene.create(memcached("cache", 1)).await;
        }
        a.available("cache").await;
        let object = b.until_condition_of(&MEMCACHED, "cache", "Reconciled", "False", "Forbidden").await;
        let message = condition_parts(&object, "Reconciled").2;
        for words in ["nothing is decided", "Deployment.apps", &*b.namespace, "hotshoe rbac"] {
            assert!(message.contains(words), "{words}: {message}");
        }
        assert_eq!(b.list(&DEPLOYMENT).await, [Value::Null; 0]);

        let patched = b.kubectl(&["patch", "role", &account, "--type", "merge", "-p", &with(&role["rules"])]);
        assert!(patched.status.success(), "{patched:?}");
        b.available("cache").await;
        assert!(host.stop().success());
    });
}

#[test]
fn what_is_no_longer_selected_is_released_although_another_namespace_may_not_be_listed() {
    run(async {
        let mut setting = Setting::new().await;
        setting.grant(&setting.teams).await;
        let folder = Folder::of_memcached();
        folder.edit("    kind: Memcached\n", "    kind: Memcached\n    selector: {matchLabels: {tier: gold}}\n");
        for scene in &setting.teams {
            scene.create(labelled(memcached("cache", 1), &json!({ "tier": "gold" }))).await;
        }
        let mut host = setting.host_of(folder.path()).await;
        host.ready().await;
        for scene in &setting.teams {
            scene.available("cache").await;
        }
        assert!(host.stop().success());
        for scene in &setting.teams {
            scene.merge(&MEMCACHED, "cache", json!({ "metadata": { "labels": { "tier": null } } })).await;
        }
        let gone = setting.teams[1].kubectl(&["delete", "rolebinding", "--all"]);
        assert!(gone.status.success(), "{gone:?}");

        let mut host = setting.host_of(folder.path()).await;
        host.ready().await;
        let [a, b, c] = &setting.teams;
        let is_released = |object: &Value| object["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty);
        for scene in [a, c] {
            scene.until_object(&MEMCACHED, "cache", "is released", is_released).await;
        }
        host.until_logged(&["WARN", "no longer selected", &b.namespace, "forbidden"]).await;
        assert!(!is_released(&b.get(&MEMCACHED, "cache").await));

        setting.grant(&setting.teams).await;
        setting.teams[1].until_object(&MEMCACHED, "cache", "is released", is_released).await;
        assert!(host.stop().success());
    });
}

#[test]
fn doctor_says_of_each_namespace_whether_a_host_could_watch_it_and_what_to_do() {
    run(async {
        let setting = Setting::new().await;
        setting.grant(&setting.teams[..2]).await;
        let kubeconfig = setting.other.plane.kubeconfig_of(&setting.system, &setting.account).await;
        let admin = setting.other.plane.file("kubeconfig");
        let [a, b, c] = setting.teams.each_ref().map(|scene| &*scene.namespace);
        let doctor = |kubeconfig: &Path, namespaces: &[&str]| {
            let mut command = Command::new(program());
            command.current_dir(guests::memcached()).args(["doctor", "--kubeconfig"]).arg(kubeconfig);
            let output = command.args(["-o", "json", "--namespace", &namespaces.join(",")]).output().expect("it runs");
            let found: Vec<Value> = serde_json::from_slice(&output.stdout).expect("findings");
            let is_about = |finding: &&Value| finding["purpose"] == "to watch namespaces";
            (output.status.code(), found.iter().filter(is_about).cloned().collect::<Vec<_>>())
        };
        let problem = |finding: &Value| finding["problem"].as_str().expect("a problem").to_owned();

        let (code, found) = doctor(&kubeconfig, &[a, b]);
        assert!(code == Some(0) && found.iter().all(|finding| finding["ok"] == true), "{found:#?}");
        assert!(
            found[0]["found"].as_str().is_some_and(|said| said.contains("may be listed and watched")),
            "{found:#?}"
        );

        let (code, found) = doctor(&kubeconfig, &[a, c]);
        assert_eq!((code, found.len(), &found[0]["ok"]), (Some(1), 2, &json!(true)), "{found:#?}");
        for words in ["may not list and watch", "Memcached.cache.example.com", "hotshoe rbac", "--kubeconfig", c] {
            assert!(problem(&found[1]).contains(words), "{words}: {found:#?}");
        }

        let (code, found) = doctor(&admin, &["no-such-namespace"]);
        assert_eq!((code, found.len()), (Some(1), 1), "{found:#?}");
        for words in ["does not exist", "kubectl create namespace no-such-namespace"] {
            assert!(problem(&found[0]).contains(words), "{found:#?}");
        }

        let (code, found) = doctor(Path::new("/no/such/kubeconfig"), &[a, b]);
        assert_eq!((code, found.len()), (Some(1), 2), "{found:#?}");
        assert!(problem(&found[1]).contains("/no/such/kubeconfig"), "{found:#?}");
    });
}
