//! The rules of the house that a compiler does not know: who may speak to the cluster, who to
//! wasmtime, who may write, and what must stay pure.

#![expect(clippy::unwrap_used, reason = "a test says what is wrong by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

/// Source files below `src`, with their path from there and their code before any test module.
fn sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    collect(&root, &mut files);
    let named = files.into_iter().map(|file| {
        let text = fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        let code: Vec<_> = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        (file.strip_prefix(&root).unwrap().display().to_string(), code.join("\n"))
    });
    named.collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// The files outside of `rooms` in which one of these words stands.
fn strays(words: &[&str], rooms: &[&str]) -> Vec<String> {
    let sources = sources();
    assert!(sources.len() > 40, "the sources are not where they were");
    let outside = sources.iter().filter(|(name, _)| !rooms.iter().any(|room| name.starts_with(room)));
    let found = outside.filter_map(|(name, code)| {
        let word = words.iter().find(|word| code.contains(**word))?;
        Some(format!("{name}: {word}"))
    });
    found.collect()
}

#[test]
fn only_the_cluster_side_knows_the_client() {
    assert_eq!(strays(&["kube::", "kube_runtime::", "k8s_openapi::"], &["cluster/"]), [""; 0]);
}

#[test]
fn only_the_plugin_side_knows_wasmtime() {
    assert_eq!(strays(&["wasmtime::", "bindgen!"], &["plugin/"]), [""; 0]);
}

#[test]
fn children_parents_and_events_are_each_written_in_one_file() {
    let writes = ["Method::PATCH", "Method::POST", "Method::DELETE", "Method::PUT"];
    assert_eq!(strays(&writes, &["cluster/apply.rs", "cluster/parent.rs", "cluster/events.rs"]), [""; 0]);
}

#[test]
fn pure_modules_do_not_await() {
    let pure = [
        "access.rs",
        "adoption.rs",
        "backoff.rs",
        "check.rs",
        "churn.rs",
        "claim_policy.rs",
        "companions.rs",
        "contention.rs",
        "decision.rs",
        "diff.rs",
        "error.rs",
        "grant.rs",
        "held.rs",
        "keys.rs",
        "names.rs",
        "never.rs",
        "object.rs",
        "ownership.rs",
        "pattern.rs",
        "pod_containers.rs",
        "pod_grant.rs",
        "pod_policy.rs",
        "pod_security.rs",
        "pod_volumes.rs",
        "projection.rs",
        "rbac.rs",
        "renamed.rs",
        "rivals.rs",
        "service_policy.rs",
        "shadow/compare.rs",
        "shadow/fields.rs",
        "shadow/finalizers.rs",
        "shape.rs",
        "status.rs",
    ];
    for (name, code) in sources().into_iter().filter(|(name, _)| pure.contains(&name.as_str())) {
        for word in
            ["async ", ".await", "tokio", "crate::cluster", "crate::plugin", "std::fs", "std::net", "SystemTime"]
        {
            assert!(!code.contains(word), "{name}: {word}");
        }
    }
}

#[test]
fn unsafe_code_loads_native_code_and_nothing_else() {
    assert_eq!(strays(&["unsafe {", "unsafe fn", "unsafe impl"], &["plugin/native.rs"]), [""; 0]);
}

#[test]
fn every_reason_is_one_pascal_case_word() {
    let (_, errors) = sources().into_iter().find(|(name, _)| name == "error.rs").unwrap();
    let reasons: Vec<_> = errors
        .lines()
        .filter_map(|line| line.split_once("=> \"")?.1.split_once('"').map(|(reason, _)| reason.to_owned()))
        .collect();
    assert!(reasons.len() > 20, "the reasons are not where they were: {reasons:?}");
    for reason in reasons {
        let pascal = reason.starts_with(|first: char| first.is_ascii_uppercase());
        assert!(pascal && reason.chars().all(|letter| letter.is_ascii_alphanumeric()), "{reason}");
    }
}

#[test]
fn the_map_of_the_crate_names_every_module_once() {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs")).unwrap();
    let rows: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("//! | [`")).collect();
    let modules: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';')).collect();
    assert!(modules.len() > 30, "the modules are declared elsewhere");
    let told = |module: &&str| rows.iter().filter(|row| row.starts_with(&format!("{module}`]"))).count();
    let wrong: Vec<_> = modules.into_iter().filter(|module| told(module) != 1).collect();
    assert_eq!(wrong, [""; 0]);
}
