//! A host of several namespaces, under an account with Roles in some of them only.

use hotshoe_tests::guests;
use hotshoe_tests::kinds::{DEPLOYMENT, MEMCACHED};
use hotshoe_tests::scene::condition_parts;
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
        let kubeconfig = self.other.plane.kubeconfig_of(&self.system, &self.account).await;
        let [a, b, c] = self.teams.each_ref().map(|scene| scene.namespace.clone());
        // In one option and in another one.
        let mut command = self.other.start().await.kubeconfig(&kubeconfig).namespace(&format!("{b},{a}")).command();
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
