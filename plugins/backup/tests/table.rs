//! What the plugin promises, row by row, against a simulated cluster.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test says what broke by breaking"
)]

mod cluster;

use cluster::{Cluster, DAY, HOUR, START};
use hotshoe_sdk::{Failure, Status};
use proptest::prelude::*;
use serde_json::{Value, json};

fn names(cluster: &Cluster) -> Vec<String> {
    cluster.jobs.keys().cloned().collect()
}

fn job_at(seconds: i64) -> String {
    format!("shop-{}", START + seconds)
}

#[test]
fn the_first_run_begins_at_once_and_is_named_after_its_time() {
    let mut cluster = Cluster::new();
    cluster.pass_time(7);
    let decision = cluster.decide();
    assert_eq!(names(&cluster), [job_at(0)], "it was due when the Backup was created");
    let job = &cluster.jobs[&job_at(0)];
    assert_eq!(
        job.pointer("/metadata/annotations/batch.example.com~1scheduled-time"),
        Some(&json!("2026-01-01T00:00:00Z"))
    );
    assert_eq!(job.pointer("/spec/backoffLimit"), Some(&json!(0)));
    assert_eq!(decision.events.len(), 0);
    cluster.settle();
    assert_eq!(cluster.status["active"], json!(job_at(0)));
    assert_eq!(cluster.status["lastRunTime"], json!("2026-01-01T00:00:00Z"));
    assert_eq!(cluster.status["nextRunTime"], json!("2026-01-01T01:00:00Z"));
    assert_eq!(cluster.condition("Ready"), (Status::Unknown, "NoRunYet".to_owned()));
    assert_eq!(cluster.condition("Running"), (Status::True, "Running".to_owned()));
}

#[test]
fn a_run_begins_every_so_many_seconds_and_one_tick_is_one_job() {
    let mut cluster = Cluster::new();
    for hour in 0..24 {
        // However often it is asked in between, and whatever of that is forgotten.
        for _ in 0..60 {
            cluster.decide();
            cluster.finish_all(true);
            cluster.pass_time(60);
        }
        assert_eq!(cluster.made, hour + 1);
    }
    assert_eq!(names(&cluster), [job_at(21 * HOUR), job_at(22 * HOUR), job_at(23 * HOUR)], "three are kept");
}

#[test]
fn the_next_call_is_when_the_next_run_is_due_or_when_the_clock_is_to_be_looked_at() {
    let mut cluster = Cluster::new();
    cluster.run_once(true);
    assert_eq!(cluster.settle().requeue_after.unwrap().as_secs(), 300);
    cluster.pass_time(HOUR - 10);
    assert_eq!(cluster.settle().requeue_after.unwrap().as_secs(), 10);
    cluster.millis = 250;
    assert_eq!(cluster.settle().requeue_after.unwrap().as_millis(), 9_750);
}

#[test]
fn a_restart_between_the_job_and_the_status_makes_no_second_job() {
    let mut cluster = Cluster::new();
    let before = cluster.status.clone();
    cluster.decide();
    cluster.status = before;
    cluster.pass_time(3);
    cluster.settle();
    assert_eq!(cluster.made, 1);
}

#[test]
fn a_run_that_takes_longer_than_the_interval_delays_the_next_and_there_are_never_two() {
    let mut cluster = Cluster::new();
    cluster.settle();
    cluster.pass_time(5 * HOUR / 2);
    cluster.settle();
    assert_eq!(cluster.made, 1);
    assert_eq!(cluster.condition("Running"), (Status::True, "Overrun".to_owned()));
    cluster.finish_all(true);
    cluster.settle();
    assert_eq!(names(&cluster), [job_at(0), job_at(2 * HOUR)], "that of the latest tick, and none for the one before");
}

#[test]
fn a_clock_that_jumps_a_day_ahead_makes_one_run_and_not_twenty_four() {
    let mut cluster = Cluster::new();
    cluster.run_once(true);
    cluster.pass_time(DAY + 1800);
    for _ in 0..=30 {
        cluster.settle();
        cluster.finish_all(true);
        cluster.pass_time(60);
    }
    assert_eq!(cluster.made, 3, "one for the day, and one half an hour later: {:?}", names(&cluster));
    assert_eq!(names(&cluster), [job_at(0), job_at(DAY), job_at(DAY + HOUR)]);
}

#[test]
fn a_clock_that_is_set_back_by_a_day_makes_no_run_at_once_and_the_next_within_an_interval() {
    let mut cluster = Cluster::new();
    cluster.pass_time(3 * DAY);
    cluster.run_once(true);
    cluster.pass_time(10);
    cluster.settle();
    cluster.pass_time(-DAY);
    for minute in 0..60 {
        cluster.settle();
        assert_eq!(cluster.made, 1, "after {minute} minutes");
        let next = cluster.time("nextRunTime");
        assert!((0..=HOUR).contains(&(next - cluster.now)), "the next run is in {} s", next - cluster.now);
        cluster.pass_time(60);
    }
    for hour in 2..50 {
        cluster.settle();
        cluster.finish_all(true);
        cluster.settle();
        assert_eq!(cluster.made, hour, "one an hour, also where the clock passes the time of before");
        cluster.pass_time(HOUR);
    }
}

#[test]
fn a_clock_that_is_never_right_makes_no_more_than_a_run_for_each_jump() {
    let mut cluster = Cluster::new();
    cluster.pass_time(30 * DAY);
    for jump in 0..20 {
        for _ in 0..10 {
            cluster.settle();
            cluster.finish_all(true);
            cluster.pass_time(1);
        }
        assert!(cluster.made <= jump + 1, "{} runs after {jump} jumps", cluster.made);
        cluster.pass_time(if jump % 2 == 0 { -DAY } else { DAY });
    }
}

#[test]
fn a_run_that_fails_is_tried_again_after_a_delay_that_doubles() {
    let mut cluster = Cluster::new();
    cluster.spec["failure"] = json!({ "retry": { "baseDelaySeconds": 30, "maxDelaySeconds": 100, "maxTries": 9 } });
    cluster.run_once(false);
    for (tries, delay) in [(1, 30), (2, 60), (3, 100), (4, 100)] {
        cluster.settle();
        assert_eq!(cluster.made, tries);
        assert_eq!(cluster.status["failedTries"], json!(tries));
        assert_eq!(cluster.condition("Ready"), (Status::False, "RunFailed".to_owned()));
        assert_eq!(cluster.time("nextRunTime") - cluster.now, delay);
        cluster.pass_time(delay - 1);
        cluster.settle();
        assert_eq!(cluster.made, tries, "it is not time yet");
        cluster.pass_time(1);
        cluster.run_once(false);
    }
    cluster.pass_time(100);
    cluster.run_once(true);
    cluster.settle();
    assert_eq!(cluster.status["failedTries"], json!(0));
    assert_eq!(cluster.condition("Ready"), (Status::True, "RunSucceeded".to_owned()));
    assert_eq!(cluster.time("nextRunTime"), cluster.time("lastRunTime") + HOUR, "an interval after that run");
}

#[test]
fn the_next_regular_run_comes_before_a_second_try_that_is_due_later() {
    let mut cluster = Cluster::new();
    cluster.spec["intervalSeconds"] = json!(10);
    cluster.spec["failure"] = json!({ "retry": { "baseDelaySeconds": 3600 } });
    cluster.run_once(false);
    cluster.pass_time(10);
    cluster.settle();
    assert_eq!(cluster.made, 2);
}

#[test]
fn after_the_last_try_the_backup_is_stalled_until_its_spec_changes() {
    let mut cluster = Cluster::new();
    cluster.spec["failure"] = json!({ "retry": { "baseDelaySeconds": 10, "maxTries": 2 } });
    cluster.run_once(false);
    cluster.settle();
    assert_eq!(cluster.events, ["RunFailed"]);
    cluster.pass_time(10);
    cluster.run_once(false);
    let decision = cluster.settle();
    assert_eq!(cluster.condition("Stalled"), (Status::True, "TriesExhausted".to_owned()));
    assert_eq!(cluster.events, ["RunFailed", "TriesExhausted"], "each is said once");
    assert!(decision.requeue_after.is_none() && cluster.status["nextRunTime"].is_null());
    cluster.pass_time(3 * DAY);
    cluster.settle();
    assert_eq!(cluster.made, 2);

    // Nor where the Jobs that showed it are gone.
    cluster.jobs.clear();
    cluster.settle();
    assert_eq!((cluster.made, cluster.condition("Stalled").0), (2, Status::True));

    cluster.spec["image"] = json!("busybox:1.38");
    cluster.generation += 1;
    cluster.settle();
    assert_eq!(cluster.made, 3, "it is tried at once");
    assert!(!cluster.has_condition("Stalled"));
    let job = cluster.jobs.values().next_back().unwrap();
    assert_eq!(job.pointer("/metadata/annotations/batch.example.com~1try"), Some(&json!("1")), "its tries begin anew");
}

#[test]
fn while_it_is_suspended_no_run_begins_and_one_that_is_under_way_goes_on() {
    let mut cluster = Cluster::new();
    cluster.settle();
    cluster.spec["suspend"] = json!(true);
    cluster.settle();
    assert_eq!(names(&cluster), [job_at(0)]);
    assert_eq!(cluster.condition("Running"), (Status::True, "Running".to_owned()));
    cluster.finish_all(true);
    cluster.pass_time(5 * HOUR + 60);
    let decision = cluster.settle();
    assert!(decision.requeue_after.is_none() && cluster.status["nextRunTime"].is_null());
    assert_eq!(cluster.condition("Running"), (Status::False, "Suspended".to_owned()));
    assert_eq!(cluster.condition("Ready").0, Status::True);
    cluster.spec["suspend"] = json!(false);
    cluster.settle();
    assert_eq!(names(&cluster), [job_at(0), job_at(5 * HOUR)], "one run for all that was left out");
}

#[test]
fn of_finished_runs_so_many_are_kept_as_the_spec_says_and_always_the_last() {
    let mut cluster = Cluster::new();
    cluster.spec["historyLimit"] = json!({ "successful": 2, "failed": 1 });
    cluster.spec["failure"] =
        json!({ "retry": { "baseDelaySeconds": 3600, "maxDelaySeconds": 3600, "maxTries": 100 } });
    for succeeds in [true, true, true, false, false, true, false] {
        cluster.run_once(succeeds);
        cluster.pass_time(HOUR);
    }
    // The next is under way.
    cluster.settle();
    assert_eq!(names(&cluster), [job_at(2 * HOUR), job_at(5 * HOUR), job_at(6 * HOUR), job_at(7 * HOUR)]);
}

#[test]
fn a_job_that_is_there_is_never_applied_again_whatever_becomes_of_the_spec() {
    let mut cluster = Cluster::new();
    cluster.settle();
    cluster.spec["image"] = json!("busybox:1.38");
    let decision = cluster.settle();
    let children = cluster::children(&decision);
    assert_eq!(children.len(), 1);
    assert_eq!(children[0].json, "{}", "its name says that it is kept");
}

#[test]
fn what_the_api_server_refuses_is_stated_and_desired_again() {
    let mut cluster = Cluster::new();
    cluster.refuse("Forbidden", "exceeded quota: jobs");
    cluster.settle();
    assert_eq!(cluster.made, 0);
    assert_eq!(cluster.condition("Ready"), (Status::False, "JobRefused".to_owned()));
    cluster.refusal = None;
    cluster.settle();
    assert_eq!(names(&cluster), [job_at(0)]);
}

#[test]
fn an_archive_of_the_source_is_written_to_the_target_unless_another_command_is_named() {
    let container = |spec: Value| {
        let mut cluster = Cluster::new();
        cluster.spec = spec;
        cluster.settle();
        let pod = cluster.jobs[&job_at(0)].pointer("/spec/template/spec").unwrap().clone();
        (pod["containers"][0].clone(), pod)
    };
    let claims = json!({ "source": { "claimName": "data" }, "target": { "claimName": "backups" } });
    let (archive, pod) = container(claims);
    assert!(archive["command"][2].as_str().unwrap().starts_with("tar -czf \"/target/$BACKUP_NAME.tar.gz\""));
    assert_eq!(archive["volumeMounts"][0], json!({ "name": "source", "mountPath": "/source", "readOnly": true }));
    assert_eq!(archive["volumeMounts"][1], json!({ "name": "target", "mountPath": "/target" }));
    assert_eq!(pod["volumes"][1]["persistentVolumeClaim"]["claimName"], "backups");
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    let (own, pod) = container(json!({ "command": ["pg_dump"], "image": "postgres:18", "runAsUser": 0 }));
    assert_eq!((&own["command"], &own["image"]), (&json!(["pg_dump"]), &json!("postgres:18")));
    assert!(pod.get("volumes").is_none_or(|volumes| *volumes == json!([])), "{pod:#}");
    assert_eq!(pod["securityContext"]["runAsNonRoot"], false);
    let names: Vec<_> = own["env"].as_array().unwrap().iter().map(|one| one["name"].clone()).collect();
    assert_eq!(names, ["BACKUP_NAME", "BACKUP_TIME"]);
}

#[test]
fn what_cannot_be_served_is_rejected_by_its_field() {
    for (change, field) in [
        (json!({ "intervalSeconds": -1 }), "spec.intervalSeconds"),
        (json!({ "intervalSeconds": 0 }), "spec.intervalSeconds"),
        (json!({ "intervalSeconds": i64::MAX }), "spec.intervalSeconds"),
        (json!({ "intervalSeconds": "hourly" }), "spec.intervalSeconds"),
        (json!({ "intervalSeconds": 1.5 }), "spec.intervalSeconds"),
        (json!({ "image": "" }), "spec.image"),
        (json!({ "command": [], "source": { "claimName": "data" } }), "spec.command"),
        (json!({ "runAsUser": -1 }), "spec.runAsUser"),
        (json!({ "historyLimit": { "successful": 0 } }), "spec.historyLimit.successful"),
        (json!({ "historyLimit": { "failed": -1 } }), "spec.historyLimit.failed"),
        (json!({ "failure": { "deadlineSeconds": -5 } }), "spec.failure.deadlineSeconds"),
        (json!({ "failure": { "retry": { "baseDelaySeconds": 0 } } }), "spec.failure.retry.baseDelaySeconds"),
        (json!({ "failure": { "retry": { "maxDelaySeconds": -1 } } }), "spec.failure.retry.maxDelaySeconds"),
        (json!({ "failure": { "retry": { "maxTries": 0 } } }), "spec.failure.retry.maxTries"),
    ] {
        let mut cluster = Cluster::new();
        cluster.change(&change);
        match cluster.ask() {
            Err(Failure::Reject { field: Some(found), .. }) => assert_eq!(found, field, "{change}"),
            other => panic!("{change}: {other:?}"),
        }
    }
    let mut cluster = Cluster::new();
    cluster.name = "a".repeat(53);
    assert!(matches!(cluster.ask(), Err(Failure::Reject { field: Some(field), .. }) if field == "metadata.name"));
    cluster.name = "a".repeat(52);
    cluster.settle();
    assert!(cluster.jobs.keys().all(|name| name.len() == 63));
}

/// Returns a cluster whose Backup with `finalRun` is being deleted, after one run that succeeded.
fn deleted() -> Cluster {
    let mut cluster = Cluster::new();
    cluster.spec["finalRun"] = json!(true);
    cluster.run_once(true);
    cluster.settle();
    cluster.pass_time(60);
    cluster.delete();
    cluster
}

#[test]
fn a_backup_with_a_final_run_goes_once_that_has_ended_well_or_not() {
    for (succeeds, reason, events) in [(true, "RunSucceeded", 0), (false, "RunFailed", 1)] {
        let mut cluster = deleted();
        for _ in 0..3 {
            assert!(!cluster.clean_up());
            cluster.pass_time(1);
        }
        assert_eq!(names(&cluster), [job_at(60)], "it is named after the deletion, and those that are finished went");
        assert_eq!(cluster.status["finalJob"], json!(job_at(60)));
        cluster.finish_all(succeeds);
        assert!(cluster.clean_up());
        assert_eq!((cluster.made, cluster.events.len()), (2, events));
        assert_eq!(cluster.condition("Ready").1, reason);
        assert_eq!(cluster.condition("Running"), (Status::False, "Deleted".to_owned()));
    }
}

#[test]
fn a_run_that_is_under_way_ends_before_the_final_one_begins() {
    let mut cluster = Cluster::new();
    cluster.spec["finalRun"] = json!(true);
    cluster.settle();
    cluster.pass_time(60);
    cluster.delete();
    assert!(!cluster.clean_up());
    assert_eq!(names(&cluster), [job_at(0)]);
    cluster.finish_all(true);
    assert!(!cluster.clean_up());
    assert_eq!(names(&cluster), [job_at(60)]);
}

#[test]
fn a_final_run_that_was_seen_is_not_made_again_where_its_job_is_deleted() {
    let mut cluster = deleted();
    assert!(!cluster.clean_up());
    assert!(!cluster.clean_up(), "it is seen");
    cluster.jobs.clear();
    assert!(cluster.clean_up());
    assert_eq!(cluster.made, 2);
}

#[test]
fn in_a_namespace_that_is_being_deleted_a_backup_goes_without_a_final_run_and_a_quota_holds_it() {
    let mut cluster = deleted();
    cluster.refuse("Forbidden", "exceeded quota: jobs");
    for _ in 0..3 {
        assert!(!cluster.clean_up());
    }
    assert_eq!(cluster.condition("Ready"), (Status::False, "JobRefused".to_owned()));
    cluster.refuse("NamespaceTerminating", "it is being terminated");
    assert!(!cluster.clean_up());
    assert!(cluster.clean_up());
    assert_eq!(cluster.made, 1);
}

#[test]
fn without_a_final_run_and_while_it_is_suspended_a_deleted_backup_goes_at_once() {
    for change in [json!({ "finalRun": false }), json!({ "suspend": true }), json!({ "finalRun": false, "image": "" })]
    {
        let mut cluster = deleted();
        cluster.change(&change);
        assert!(cluster.clean_up(), "{change}");
        assert_eq!(names(&cluster), [job_at(0)], "the garbage collector deletes it");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn however_the_clock_jumps_one_run_begins_at_most_and_the_next_is_no_further_away_than_the_interval(
        steps in prop::collection::vec((prop_oneof![4 => 0..1800i64, 1 => -2 * DAY..2 * DAY], any::<bool>()), 1..40),
    ) {
        let mut cluster = Cluster::new();
        cluster.spec["failure"] = json!({ "retry": { "maxTries": 1000 } });
        cluster.pass_time(100 * DAY);
        for (seconds, succeeds) in steps {
            cluster.pass_time(seconds);
            let before = cluster.made;
            cluster.settle();
            prop_assert!(cluster.made <= before + 1);
            let next = cluster.time("nextRunTime") - cluster.now;
            prop_assert!((0..=HOUR).contains(&next), "the next run is in {} s: {}", next, cluster.status);
            cluster.finish_all(succeeds);
        }
    }
}
