//! Changes of `plugin.yaml` while the host runs.

use hotshoe_tests::faulty::{fault, scene, scene_with_faults, serves, start};
use hotshoe_tests::guests::{Folder, reworded};
use hotshoe_tests::kinds::{CONFIG_MAP, DEPLOYMENT, FAULT, MEMCACHED, SERVICE};
use hotshoe_tests::scene::condition_parts;
use hotshoe_tests::{memcached, run};
use serde_json::{Value, json};

const WORKS: &str = "this revision works";
const NEEDS: &str = "this revision needs";
const CONFIG_MAPS: &str = "verbs: [get, list, watch, create, update, delete]";
const SERVICES: &str = "    - kind: Service\n      verbs: [get, list, watch, create]\n";

#[test]
fn a_component_that_asks_for_more_waits_and_is_activated_as_soon_as_plugin_yaml_grants_it() {
    run(async {
        let mut scene = scene_with_faults("waiting-for-grant").await;
        let services = json!([{ "apiGroups": [""], "resources": ["services"], "verbs": ["list", "watch"] }]);
        scene.plane.grant("hotshoe", "tests-services", &services).await;
        let folder = Folder::of_faulty();
        let host = start(&mut scene, &folder).await;
        let first = host.plugin().await["digest"].clone();
        folder.put(&reworded(folder.original(), WORKS, NEEDS));
        let waiting = host.until_plugin("it waits", |plugin| plugin["refused"]["reason"] == "NotGranted").await;
        let message = waiting["refused"]["message"].as_str().expect("a message");
        for word in ["create on Service", "plugin.yaml", "hotshoe grants", "without a restart"] {
            assert!(message.contains(word), "{message}");
        }
        let (_, words) = host.ask(&["status"]);
        assert!(words.contains("not activated") && words.contains("create on Service"), "{words}");
        let (status, words) = host.ask(&["approve", "faulty"]);
        assert!(!status.success() && words.contains("cannot be approved: NotGranted: "), "{words}");
        assert!(words.contains("create on Service") && words.contains("plugin.yaml"), "{words}");
        assert_eq!((&waiting["digest"], &waiting["ready"]), (&first, &json!(true)), "{waiting:#}");
        serves(&scene, "one").await;
        folder.edit("  grants:\n", &format!("  grants:\n{SERVICES}"));
        let active = host.until_plugin("it is active", |plugin| plugin["digest"] != first).await;
        assert!(active["refused"].is_null() && active["pluginFile"]["refused"].is_null(), "{active:#}");
        serves(&scene, "two").await;
        let published = host.log().lines().filter(|line| line.contains("the component is active")).count();
        assert_eq!(published, 2, "{}", host.log());
    });
}

#[test]
fn a_component_whose_parent_kind_is_not_granted_waits_for_the_grant_and_then_keeps_it() {
    run(async {
        let mut scene = scene_with_faults("parent").await;
        let folder = Folder::of_faulty();
        folder.edit("kind: Fault\n", "kind: Other\n");
        let host = scene.start().await.plugins(&[folder.path()]).start();
        scene.watch_log(&host);
        let waiting = host.until_plugin("it waits", |plugin| plugin["refused"]["reason"] == "NotGranted").await;
        let message = waiting["refused"]["message"].as_str().expect("a message");
        let asked = "Fault.fixtures.example.com as its parent, where spec.parent names Other.fixtures.example.com";
        assert!(message.contains(asked), "{message}");
        assert_eq!(waiting["watches"], json!([]), "nothing is watched for it: {waiting:#}");
        folder.edit("kind: Other\n", "kind: Fault\n");
        let active = host.until_plugin("it is active", |plugin| plugin["ready"] == true).await;
        serves(&scene, "one").await;
        // Another parent kind than the active component's needs a restart.
        folder.edit("kind: Fault\n", "kind: Other\n");
        let refused =
            host.until_plugin("the status shows it", |plugin| plugin["pluginFile"]["refused"].is_string()).await;
        let words = refused["pluginFile"]["refused"].as_str().unwrap_or_default();
        assert!(words.contains(asked) && words.contains("start the host again"), "{words}");
        assert_eq!((&refused["digest"], &refused["ready"]), (&active["digest"], &json!(true)), "{refused:#}");
        serves(&scene, "two").await;
        folder.edit("kind: Other\n", "kind: Fault\n");
        host.until_plugin("it is fixed", |plugin| plugin["pluginFile"]["refused"].is_null()).await;
    });
}

#[test]
fn an_invalid_plugin_yaml_changes_nothing_and_is_reported() {
    run(async {
        let mut scene = scene_with_faults("broken-yaml").await;
        let folder = Folder::of_faulty();
        let host = start(&mut scene, &folder).await;
        let good = std::fs::read_to_string(folder.plugin_file()).expect("plugin.yaml");
        for (number, (what, into, words)) in [
            ("spec:\n", "spec:\n  sauce: {}\n", "sauce"),
            ("verbs: [get,", "verbs: [get, escalate,", "escalate"),
            ("name: faulty\n", "name: another\n", "start the host again"),
            ("spec:\n", "spec:\n  limits: { memory: 2Gi }\n", "limits.memory"),
            ("apiVersion:", "\u{0}", "plugin.yaml"),
        ]
        .into_iter()
        .enumerate()
        {
            folder.edit(what, into);
            let is_said = |plugin: &Value| {
                plugin["pluginFile"]["refused"].as_str().is_some_and(|refused| refused.contains(words))
            };
            let plugin = host.until_plugin(&format!("{words} is in the status"), is_said).await;
            assert_eq!(plugin["ready"], true, "{plugin:#}");
            host.until_logged(&["ERROR", "faulty", "plugin.yaml is not applied", words]).await;
            let (_, shown) = host.ask(&["status"]);
            assert!(shown.contains("plugin.yaml is rejected") && shown.contains(words), "{shown}");
            serves(&scene, &format!("fault-{number}")).await;
            std::fs::write(folder.plugin_file(), &good).expect("plugin.yaml is fixed");
            host.until_plugin("it is fixed", |plugin| plugin["pluginFile"]["refused"].is_null()).await;
        }
        std::fs::remove_file(folder.plugin_file()).expect("plugin.yaml is removed");
        host.until_plugin("it is missed", |plugin| !plugin["pluginFile"]["refused"].is_null()).await;
        serves(&scene, "without").await;
        std::fs::write(folder.plugin_file(), &good).expect("plugin.yaml is back");
        host.until_plugin("it is seen", |plugin| plugin["pluginFile"]["refused"].is_null()).await;
        assert!(!host.log().contains("plugin.yaml has changed"), "nothing was applied: {}", host.log());
    });
}

#[test]
fn another_value_in_plugin_yaml_reaches_the_children_without_a_restart() {
    run(async {
        let mut scene = scene("value").await;
        let folder = Folder::of_memcached();
        let host = start(&mut scene, &folder).await;
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
        let before = (host.plugin().await, scene.get(&DEPLOYMENT, "cache").await);
        folder.edit("fromEnv:\n      image: MEMCACHED_IMAGE", "values:\n      image: memcached:1.6.40");
        // `hotshoe reload` waits for plugin.yaml, too.
        let (status, words) = host.ask(&["reload", "memcached"]);
        assert!(status.success(), "{words}");
        let runs =
            |deployment: &Value| deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "memcached:1.6.40";
        let after = scene.until_object(&DEPLOYMENT, "cache", "runs the other image", runs).await;
        assert_eq!(after["metadata"]["uid"], before.1["metadata"]["uid"]);
        scene.available("cache").await;
        let now = host.plugin().await;
        assert_eq!(now["digest"], before.0["digest"], "the component is the same");
        assert!(now["seconds"].as_u64() >= before.0["seconds"].as_u64(), "and goes on: {now:#}");
        // An edit that changes only the formatting is no change.
        folder.edit("kind: Plugin\n", "kind: Plugin # as before\n");
        let (status, words) = host.ask(&["reload", "memcached"]);
        assert!(status.success(), "{words}");
        let changes = host.log().lines().filter(|line| line.contains("plugin.yaml has changed")).count();
        assert_eq!(changes, 1, "{}", host.log());
        let lists = scene.audit().into_iter().filter(|entry| entry.verb == "list");
        let lists: Vec<_> = lists.filter(|entry| entry.by == hotshoe_tests::control_plane::HOST_USER).collect();
        assert!(lists.len() <= 4, "no cache was filled again: {lists:#?}");
    });
}

#[test]
fn a_revoked_grant_is_denied_at_once() {
    run(async {
        let mut scene = scene("narrowed").await;
        let folder = Folder::of_memcached();
        let host = start(&mut scene, &folder).await;
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
        let names = "      kind: Service\n      names: [good-*]\n";
        folder.edit("      kind: Service\n", names);
        // Only the change of plugin.yaml requeued the parent. The child is no longer the plugin's, and may not be desired.
        let denied = scene.until_condition_of(&MEMCACHED, "cache", "Reconciled", "False", "Denied").await;
        assert!(condition_parts(&denied, "Reconciled").2.contains("cache-service"), "{denied:#}");
        assert_eq!(condition_parts(&denied, "ChildrenIgnored").1, "OutsideGrant", "{denied:#}");
        scene.get(&SERVICE, "cache-service").await;
        folder.edit(names, "      kind: Service\n");
        let is_well = |object: &Value| condition_parts(object, "Reconciled").0.is_empty();
        scene.until_object(&MEMCACHED, "cache", "is well again", is_well).await;
        assert!(host.plugin().await["pluginFile"]["notGranted"].is_null());
    });
}

#[test]
fn a_read_that_is_no_longer_granted_is_reported_on_the_parent_and_is_not_an_empty_list() {
    run(async {
        let mut scene = scene("unlisted").await;
        let folder = Folder::of_memcached();
        let host = start(&mut scene, &folder).await;
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
        let all = "    - group: \"\"\n      kind: Pod\n      verbs: [get, list, watch]\n";
        let with = |verbs: &str| all.replace("[get, list, watch]", verbs);
        for less in [with("[get, watch]"), with("[get, list]"), String::new()] {
            folder.edit(all, &format!("{less}    #\n"));
            let denied = scene.until_condition_of(&MEMCACHED, "cache", "Reconciled", "False", "NotGranted").await;
            let message = condition_parts(&denied, "Reconciled").2;
            assert!(message.contains("Pod") && message.contains("verbs: [get, list, watch]"), "{message}");
            assert_eq!(
                denied["status"]["nodes"].as_array().map(Vec::len),
                Some(1),
                "its servers are there: {denied:#}"
            );
            scene.create(memcached("new", 1)).await;
            scene.until_condition_of(&MEMCACHED, "new", "Reconciled", "False", "NotGranted").await;
            assert!(scene.find(&DEPLOYMENT, "new").await.is_none(), "it is not decided");
            folder.edit(&format!("{less}    #\n"), all);
            let is_well = |object: &Value| condition_parts(object, "Reconciled").0.is_empty();
            scene.until_object(&MEMCACHED, "cache", "is well again", is_well).await;
            scene.available("new").await;
            scene.delete(&MEMCACHED, "new").await;
            scene.gone(&MEMCACHED, "new").await;
        }
        drop(host);
    });
}

#[test]
fn an_active_component_that_is_granted_less_than_it_asks_for_stays_active_and_status_says_so() {
    run(async {
        let mut scene = scene_with_faults("less").await;
        let folder = Folder::of_faulty();
        let host = start(&mut scene, &folder).await;
        serves(&scene, "one").await;
        folder.edit(CONFIG_MAPS, "verbs: [get, list, watch, update]");
        let plugin =
            host.until_plugin("the status shows it", |plugin| plugin["pluginFile"]["notGranted"].is_string()).await;
        let words = plugin["pluginFile"]["notGranted"].as_str().unwrap_or_default();
        assert!(words.contains("create, delete on ConfigMap") && words.contains("restart"), "{words}");
        assert_eq!(plugin["ready"], true, "{plugin:#}");
        host.until_logged(&["WARN", "faulty", "create, delete on ConfigMap"]).await;
        let (_, shown) = host.ask(&["status"]);
        assert!(shown.contains("less granted") && shown.contains("create, delete"), "{shown}");
        scene.create(fault("two", "")).await;
        scene.until_condition_of(&FAULT, "two", "Reconciled", "False", "Denied").await;
        assert!(scene.find(&CONFIG_MAP, "two").await.is_none());
        folder.edit("verbs: [get, list, watch, update]", CONFIG_MAPS);
        scene.until_object(&FAULT, "two", "is served", |object| condition_parts(object, "Kept").0 == "True").await;
        host.until_plugin("nothing is lacking", |plugin| plugin["pluginFile"]["notGranted"].is_null()).await;
    });
}

#[test]
fn changed_limits_apply_to_the_active_component() {
    run(async {
        let mut scene = scene_with_faults("limits").await;
        let folder = Folder::of_faulty();
        let host = start(&mut scene, &folder).await;
        serves(&scene, "one").await;
        let digest = host.plugin().await["digest"].clone();
        folder.edit("spec:\n", "spec:\n  limits: { children: 0 }\n");
        scene.until_condition_of(&FAULT, "one", "Reconciled", "False", "OutputTooLarge").await;
        folder.edit("children: 0 }", "children: 7 }");
        let is_well = |object: &Value| condition_parts(object, "Reconciled").0.is_empty();
        scene.until_object(&FAULT, "one", "is well again", is_well).await;
        assert_eq!(host.plugin().await["digest"], digest);
    });
}
