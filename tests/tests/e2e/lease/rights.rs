//! A host that may not use Leases says which right it lacks, and works once it has it.

use std::time::Duration;

use hotshoe_tests::control_plane::SYSTEM;
use hotshoe_tests::{memcached, run};
use serde_json::json;

use super::{holds, requests, scene};

#[test]
fn a_missing_right_is_reported_with_the_way_to_grant_it_and_waited_for() {
    run(async {
        let mut scene = scene("lease-rights").await;
        let plane = scene.plane;
        plane.create_account("leaseless").await;
        let kubeconfig = plane.kubeconfig_of(SYSTEM, "leaseless").await;
        let rules = json!([
            { "apiGroups": ["cache.example.com"], "resources": ["memcacheds"], "verbs": ["get", "list", "watch", "patch"] },
            { "apiGroups": ["apps", ""], "resources": ["deployments", "services", "pods"], "verbs": ["get", "list", "watch"] },
        ]);
        plane.grant("leaseless", "tests-leaseless", &rules).await;
        let host = scene.start().await.kubeconfig(&kubeconfig).shards(1).start();
        scene.watch_log(&host);
        host.until_logged(&["WARN", "Leases", "cannot be watched", "forbidden", "hotshoe rbac"]).await;
        let problem = host
            .until("its status says so", async || {
                let status = host.status().await?;
                let lease = status["leases"][0].clone();
                if lease["unusable"] == true { Ok(lease["problem"].to_string()) } else { Err(format!("{status:#}")) }
            })
            .await;
        assert!(problem.contains("hotshoe rbac"), "{problem}");
        host.until("its plugin is ready, and the host is not", async || {
            let (code, text) = host.get("/readyz").await?;
            let is_it = code == 503 && text.contains("not ready: Lease hotshoe-system/");
            if is_it { Ok(()) } else { Err(format!("{code} {text}")) }
        })
        .await;
        scene.create(memcached("cache", 1)).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert!(scene.writes().is_empty(), "without a Lease nothing is written");
        assert_eq!(host.log().matches("cannot be watched").count(), 1, "{}", host.log());
        assert!(requests(&scene).len() <= 10, "the requests are no hot loop");
        let rules =
            json!([{ "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["list", "watch"] }]);
        plane.grant("leaseless", "tests-leaseless-watch", &rules).await;
        host.until_logged(&["WARN", "Lease", "cannot create", "hotshoe rbac"]).await;
        let rules = json!([{ "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create", "get", "update"] }]);
        plane.grant("leaseless", "tests-leaseless-write", &rules).await;
        // The policy that closes the namespace of the hosts lets only one account write there.
        host.until_logged(&["WARN", "Lease", "the namespace hotshoe-system is the host's"]).await;
        let own = scene.start().await.shards(1).ready().await;
        holds(&own, Duration::from_secs(5)).await;
        scene.available("cache").await;
    });
}
