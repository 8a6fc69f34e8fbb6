//! Releases of the chart on a control plane: at work, for one namespace, and in a restricted one.

use hotshoe_tests::kinds::{BUDGET, CLUSTER_ROLE, CRD, Kind, MEMCACHED, NAMESPACE};
use hotshoe_tests::{ControlPlane, Scene, memcached, run};
use serde_json::json;
use tempfile::TempDir;

use crate::alone::run_alone;

use super::release::{PLUGIN_MEMCACHED, Release};
use super::{CHART, printed, said, template};

/// The kind of Prometheus' operator, with a definition that allows any fields.
const SERVICE_MONITOR: Kind =
    Kind { group: "monitoring.coreos.com", version: "v1", kind: "ServiceMonitor", plural: "servicemonitors" };
const SERVICE_MONITORS: &str = r#"{
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": { "name": "servicemonitors.monitoring.coreos.com" },
    "spec": {
        "group": "monitoring.coreos.com",
        "names": { "kind": "ServiceMonitor", "plural": "servicemonitors" },
        "scope": "Namespaced",
        "versions": [{
            "name": "v1",
            "served": true,
            "storage": true,
            "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } }
        }]
    }
}"#;

#[test]
fn a_release_serves_is_upgraded_at_work_and_rolled_back_and_leaves_only_definitions() {
    run_alone(async {
        let _turn = PLUGIN_MEMCACHED.lock().await;
        let mut release = Release::new("chart").await;
        // The definitions on this control plane were applied without Helm.
        let notes = release.install(&["--take-ownership"]);
        assert!(notes.contains("These plugins have their accounts and rights: memcached"), "{notes}");
        let mut host = release.start().await;
        release.apply_plugin().await;
        release.scene.create(memcached("cache", 2)).await;
        release.scene.available("cache").await;
        let written = release.writes_of_child().await;

        // The host is replaced by one with other values, and writes nothing that is there already.
        release
            .helm("upgrade", &[CHART, "--reuse-values", "--wait", "--set", "replicaCount=2,log.level=hotshoe=debug"]);
        let full = format!("{}-hotshoe", release.name);
        assert!(release.scene.admin.get(&BUDGET, &release.namespace, &full).await.is_ok());
        assert!(host.stop().success());
        let mut host = release.start().await;
        host.until_logged(&["the component is active"]).await;
        let change = json!({ "spec": { "size": 3 } });
        release.scene.merge(&MEMCACHED, "cache", change).await;
        release.scene.available("cache").await;
        let since = release.writes_of_child().await.split_off(written.len());
        assert_eq!(since.len(), 1, "the child is written once, when its parent has changed: {since:#?}");

        release.helm("rollback", &["1", "--wait"]);
        assert_eq!(release.deployment().await["spec"]["replicas"], 1);
        assert!(release.scene.admin.get(&BUDGET, &release.namespace, &full).await.is_err());
        assert!(host.stop().success());
        let host = release.start().await;
        let kept = release.uninstall(host).await;
        for definition in ["plugins.hotshoe.dev", "memcacheds.cache.example.com"] {
            assert!(kept.contains(definition), "{kept}");
            assert!(release.scene.admin.get(&CRD, "", definition).await.is_ok(), "{definition}");
        }
    });
}

#[test]
fn a_release_for_one_namespace_has_rights_there_and_enough_of_them() {
    run_alone(async {
        let _turn = PLUGIN_MEMCACHED.lock().await;
        let mut release = Release::new("chart-one").await;
        let watched = format!("watchNamespaces={{{}}}", release.scene.namespace);
        release.install(&["--set", "crds.enabled=false,roles.create=false", "--set", &watched]);
        let roles = release.scene.admin.list(&CLUSTER_ROLE, "").await.expect("a list");
        let rules =
            roles.iter().filter(|role| role["metadata"]["labels"]["app.kubernetes.io/instance"] == *release.name);
        let groups: Vec<_> = rules.flat_map(|role| role["rules"].as_array().cloned().unwrap_or_default()).collect();
        assert!(groups.iter().all(|rule| rule["apiGroups"] == json!(["hotshoe.dev"])), "{groups:#?}");
        let host = release.start().await;
        release.apply_plugin().await;
        release.scene.create(memcached("cache", 1)).await;
        release.scene.available("cache").await;
        release.uninstall(host).await;
    });
}

#[test]
fn a_service_monitor_is_left_out_and_said_so_until_the_cluster_has_its_definition() {
    run_alone(async {
        let _turn = PLUGIN_MEMCACHED.lock().await;
        let release = Release::new("chart-monitor").await;
        let labels = "metrics.serviceMonitor.enabled=true,metrics.serviceMonitor.labels.release=prometheus";
        let notes = release.install(&["--set", labels, "--set", "crds.enabled=false"]);
        assert!(notes.contains("The ServiceMonitor was left out"), "{notes}");
        let upgrade = "  helm upgrade NAME CHART --namespace NAME-host --reset-then-reuse-values\n";
        assert!(notes.contains(&upgrade.replace("NAME", &release.name)), "{notes}");

        let folder = TempDir::new().expect("a folder");
        let definition = folder.path().join("servicemonitors.yaml");
        std::fs::write(&definition, SERVICE_MONITORS).expect("a file");
        release.scene.plane.install_definition(&definition).await;
        let notes = release.helm("upgrade", &[CHART, "--wait", "--reset-then-reuse-values"]);
        assert!(!notes.contains("ServiceMonitor"), "{notes}");
        let full = format!("{}-hotshoe", release.name);
        let admin = &release.scene.admin;
        let monitor = admin.get(&SERVICE_MONITOR, &release.namespace, &full).await.expect("the ServiceMonitor");
        assert_eq!(monitor["metadata"]["labels"]["release"], "prometheus");

        release.helm("uninstall", &["--wait"]);
        assert!(admin.get(&SERVICE_MONITOR, &release.namespace, &full).await.is_err());
        admin.delete(&CRD, "", "servicemonitors.monitoring.coreos.com").await.expect("the definition is there");
        release.scene.gone_from_cluster(&CRD, "servicemonitors.monitoring.coreos.com").await;
    });
}

#[test]
fn the_api_server_accepts_every_object_in_a_restricted_namespace_without_a_warning() {
    run(async {
        let scene = Scene::new(ControlPlane::shared().await, "chart-dry").await;
        let labels = json!({ "metadata": { "labels": { "pod-security.kubernetes.io/warn": "restricted" } } });
        scene.admin.merge(&NAMESPACE, "", &scene.namespace, &labels).await.expect("labels");
        let all = "webhooks.enabled=true,metrics.secure=true,replicaCount=2,cache.existingClaim=cache,imagePullSecrets[0].name=registry";
        let plugins = "plugins.backup.enabled=true,plugins.default-deny.enabled=true,plugins.memcached.enabled=true,\
                       plugins.nginx.enabled=true,plugins.pdb.enabled=true,plugins.redis.enabled=true,plugins.tenant.enabled=true";
        let folder = TempDir::new().expect("a folder");
        for values in ["log.format=text", all, plugins] {
            let rendered = printed(template(&scene.namespace, &scene.namespace, &["--set", values]));
            let file = folder.path().join("rendered.yaml");
            std::fs::write(&file, rendered).expect("a file");
            let file = file.display().to_string();
            let dry = ["apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", &file];
            let output = scene.kubectl(&dry);
            let said = said(&output);
            assert!(output.status.success() && !said.contains("Warning"), "{values}: {said}");
        }
    });
}
