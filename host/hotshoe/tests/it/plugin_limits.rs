//! The limits of a call, each obeyed and violated by a real component.

use std::time::Duration;

use crate::plugin_support::{Guest, call, call_with, failure, limits, load, observation, reconcile, refusal};
use hotshoe_core::model::decision::{Answer, Call, Children, Failure};

/// Grows the memory until that is refused, and then traps.
const EAT_MEMORY: &str = "(loop $more (br_if $more (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) unreachable";

#[tokio::test]
async fn an_obedient_plugin_is_answered() {
    let outcome = call(Guest::default()).await.unwrap();
    let Ok(Answer::Decided(decision)) = outcome.result else { panic!("{outcome:?}") };
    assert_eq!(decision.children, Children::Exactly(Vec::new()));
    assert_eq!(outcome.memory, 2 * 65_536);
}

#[tokio::test]
async fn finalize_is_called_while_deleting() {
    let revision = load(Guest::default().component()).await.unwrap();
    let outcome = revision.decide(Call::Finalize, observation()).await.unwrap();
    assert!(matches!(outcome.result, Ok(Answer::Waiting(_))), "{outcome:?}");
}

#[tokio::test]
async fn an_endless_loop_ends_by_its_deadline_and_not_before() {
    let endless = reconcile("(loop $ever (br $ever)) (i32.const 0)");
    let aborted = call_with(endless, limits(r#"{"callTime":"200ms"}"#)).await.unwrap_err();
    assert_eq!(aborted.error.reason(), "DeadlineExceeded");
    assert!(aborted.to_string().contains("200ms"), "{aborted}");
    // 10 ms in a try that was put off, and the whole time in the other.
    assert!(aborted.used >= Duration::from_millis(210) && aborted.elapsed >= aborted.used, "{aborted:?}");
}

#[tokio::test]
async fn a_loop_in_the_allocator_ends_by_its_deadline() {
    let guest = Guest { realloc: "(loop $ever (br $ever)) (i32.const 0)".into(), ..Guest::default() };
    assert_eq!(failure(guest).await.0, "DeadlineExceeded");
}

#[tokio::test]
async fn a_loop_at_the_start_refuses_the_revision() {
    let guest = Guest { fields: "(func $start (loop $ever (br $ever))) (start $start)".into(), ..Guest::default() };
    let (reason, message) = refusal(guest.component()).await;
    assert_eq!(reason, "DescribeFailed");
    assert!(message.contains("time limit of 500ms"), "{message}");
}

#[tokio::test]
async fn a_memory_bomb_is_stopped_at_its_limit() {
    let (reason, message) = failure(reconcile(EAT_MEMORY)).await;
    assert_eq!(reason, "LimitExceeded");
    assert!(message.contains("memory (64Mi, limits.memory)"), "{message}");
}

#[tokio::test]
async fn a_plugin_that_copes_with_less_memory_goes_on() {
    let cope = EAT_MEMORY.replace("unreachable", "(i32.const 256)");
    let outcome = call(reconcile(&cope)).await.unwrap();
    assert!(outcome.result.is_ok());
    assert!((60 << 20..=64 << 20).contains(&outcome.memory), "{}", outcome.memory);
}

#[tokio::test]
async fn memory_that_is_too_large_from_the_start_refuses_the_revision() {
    let (reason, message) = refusal(Guest { pages: 1_100, ..Guest::default() }.component()).await;
    assert_eq!(reason, "DescribeFailed");
    assert!(message.contains("memory (64Mi, limits.memory)"), "{message}");
}

#[tokio::test]
async fn a_table_bomb_is_stopped_at_its_limit() {
    let guest = Guest {
        fields: "(table $t 1 funcref)".into(),
        ..reconcile(
            "(loop $more (br_if $more (i32.ne (table.grow $t (ref.null func) (i32.const 1000)) (i32.const -1)))) unreachable",
        )
    };
    let (reason, message) = failure(guest).await;
    assert_eq!(reason, "LimitExceeded");
    assert!(message.contains("table elements (100000)"), "{message}");
}

#[tokio::test]
async fn too_many_tables_refuse_the_revision() {
    let guest = Guest { fields: "(table 1 funcref)".repeat(33), ..Guest::default() };
    let (reason, message) = refusal(guest.component()).await;
    assert_eq!(reason, "DescribeFailed");
    assert!(message.contains("instances, tables or memories"), "{message}");
}

#[tokio::test]
async fn deep_recursion_traps() {
    let guest = Guest {
        fields: "(func $deep (param i32) (result i32) (i32.add (call $deep (local.get 0)) (call $deep (local.get 0))))"
            .into(),
        ..reconcile("(call $deep (i32.const 1))")
    };
    let (reason, message) = failure(guest).await;
    assert_eq!(reason, "Trapped");
    assert!(message.contains("call stack exhausted"), "{message}");
}

#[tokio::test]
async fn unreachable_traps_and_a_panic_says_why() {
    let (reason, message) = failure(reconcile("unreachable")).await;
    assert_eq!(
        (reason, message.as_str()),
        ("Trapped", "the plugin trapped: wasm trap: wasm `unreachable` instruction executed")
    );
    let guest = Guest {
        fields: r#"(data (i32.const 0x500) "panicked at src/lib.rs:7")"#.into(),
        ..reconcile("(call $log (i32.const 4) (i32.const 0x500) (i32.const 24)) unreachable")
    };
    let aborted = call(guest).await.unwrap_err();
    assert!(aborted.to_string().ends_with("executed: panicked at src/lib.rs:7"), "{aborted}");
    assert_eq!(aborted.logs.len(), 1);
}

/// Answers `err(other(text))` with a text of this many bytes at address 65536.
fn answer_with_text(length: usize) -> Guest {
    Guest {
        pages: 400,
        ..reconcile(&format!(
            "(i32.store8 (i32.const 256) (i32.const 1)) (i32.store8 (i32.const 264) (i32.const 2))
             (i32.store (i32.const 272) (i32.const 65536)) (i32.store (i32.const 276) (i32.const {length}))
             (i32.const 256)"
        ))
    }
}

#[tokio::test]
async fn a_text_of_20_mb_is_too_large_and_one_of_1_mb_is_cut() {
    let (reason, message) = failure(answer_with_text(20_000_000)).await;
    assert_eq!(reason, "OutputTooLarge");
    assert!(message.contains("4Mi"), "{message}");
    let outcome = call(answer_with_text(1_000_000)).await.unwrap();
    assert_eq!(outcome.result, Err(Failure::Other(String::new())), "NUL characters are removed from a text");
}

#[tokio::test]
async fn an_answer_outside_its_memory_is_invalid() {
    assert_eq!(failure(answer_with_text(50_000_000)).await.0, "InvalidOutput");
    assert_eq!(
        failure(reconcile("(i32.store8 (i32.const 256) (i32.const 9)) (i32.const 256)")).await.0,
        "InvalidOutput"
    );
    assert_eq!(failure(reconcile("(i32.const 257)")).await.0, "InvalidOutput");
    assert_eq!(failure(reconcile("(i32.const -16)")).await.0, "InvalidOutput");
}

#[tokio::test]
async fn invalid_utf8_is_invalid_both_ways() {
    let invalid = Guest { fields: r#"(data (i32.const 65536) "\ff\fe")"#.into(), ..answer_with_text(2) };
    let (reason, message) = failure(invalid).await;
    assert_eq!(reason, "InvalidOutput");
    assert!(message.contains("no valid Unicode"), "{message}");
    let log = Guest {
        fields: r#"(data (i32.const 0x500) "\ff")"#.into(),
        ..reconcile("(call $log (i32.const 1) (i32.const 0x500) (i32.const 1)) (i32.const 256)")
    };
    assert_eq!(failure(log).await.0, "InvalidOutput");
}

/// Logs a line of this many bytes, this many times.
fn chatter(times: u32, bytes: u32) -> Guest {
    Guest {
        fields: "(global $n (mut i32) (i32.const 0))".into(),
        pages: 32,
        ..reconcile(&format!(
            "(memory.fill (i32.const 65536) (i32.const 120) (i32.const {bytes}))
             (loop $more
                (call $log (i32.const 2) (i32.const 65536) (i32.const {bytes}))
                (global.set $n (i32.add (global.get $n) (i32.const 1)))
                (br_if $more (i32.lt_u (global.get $n) (i32.const {times}))))
             (i32.const 256)"
        ))
    }
}

#[tokio::test]
async fn many_log_lines_are_dropped_and_a_flood_ends_the_call() {
    let outcome = call(chatter(900, 5)).await.unwrap();
    assert_eq!((outcome.logs.len(), outcome.logs_dropped), (100, 800));
    let (reason, message) = failure(chatter(1_001, 5)).await;
    assert_eq!(reason, "LimitExceeded");
    assert!(message.contains("calls of the host (1000)"), "{message}");
    assert_eq!(failure(chatter(10, 500_000)).await.0, "LimitExceeded");
}

#[tokio::test]
async fn no_state_survives_from_one_call_to_the_next() {
    let remember = Guest {
        fields: "(global $calls (mut i32) (i32.const 0))".into(),
        ..reconcile(
            "(if (global.get $calls) (then unreachable))
             (global.set $calls (i32.const 1))
             (if (i32.load (i32.const 60000)) (then unreachable))
             (i32.store (i32.const 60000) (i32.const 1))
             (i32.const 256)",
        )
    };
    let revision = load(remember.component()).await.unwrap();
    for _ in 0..20 {
        revision.decide(Call::Reconcile, observation()).await.unwrap();
    }
}

/// The next call, of any plugin, reuses the memory. A plugin that reads memory it did not write must find
/// zeros, both in pages that the host zeroes itself and in those that it returns to the kernel.
#[tokio::test]
async fn no_memory_of_one_plugin_is_visible_to_another() {
    let writes = reconcile(
        "(drop (memory.grow (i32.const 38)))
         (memory.fill (i32.const 65536) (i32.const 0x5a) (i32.const 2555904))
         (i32.const 256)",
    );
    let reads = Guest {
        fields: "(global $at (mut i32) (i32.const 65536))".into(),
        ..reconcile(
            "(drop (memory.grow (i32.const 38)))
             (loop $next
                (if (i32.ne (i32.load (global.get $at)) (i32.const 0)) (then unreachable))
                (global.set $at (i32.add (global.get $at) (i32.const 64)))
                (br_if $next (i32.lt_u (global.get $at) (i32.const 2621440))))
             (i32.const 256)",
        )
    };
    let (writes, reads) = (load(writes.component()).await.unwrap(), load(reads.component()).await.unwrap());
    for _ in 0..20 {
        writes.decide(Call::Reconcile, observation()).await.unwrap();
        reads.decide(Call::Reconcile, observation()).await.unwrap();
    }
}

#[tokio::test]
async fn a_plugin_that_loops_delays_no_other() {
    let endless = load(reconcile("(loop $ever (br $ever)) (i32.const 0)").component()).await.unwrap();
    let good = load(Guest::default().component()).await.unwrap();
    let mut bad = Vec::new();
    for _ in 0..4 {
        let endless = endless.clone();
        bad.push(tokio::spawn(async move { endless.decide(Call::Reconcile, observation()).await }));
    }
    tokio::task::yield_now().await;
    for _ in 0..50 {
        good.decide(Call::Reconcile, observation()).await.unwrap();
    }
    assert!(bad.iter().any(|call| !call.is_finished()), "the good calls waited for all the bad ones");
    for call in bad {
        assert_eq!(call.await.unwrap().unwrap_err().error.reason(), "DeadlineExceeded");
    }
}
