//! The rules of the house that a compiler does not know: which crate and which folder may import which, that no files
//! import one another, which crate knows the Kubernetes client, which one wasmtime, and who writes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use regex::Regex;
use serde_json::Value;

use crate::imports::Imports;

/// Where the crates of the host lie.
const HOST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The crates of the host by their folders, the highest first, each with the crates that it is built on.
const CRATES: [(&str, &[&str]); 8] = [
    ("hotshoe", &["operator", "cluster", "registry", "sandbox", "platform", "core"]),
    ("operator", &["cluster", "registry", "sandbox", "platform", "crd", "core"]),
    ("cluster", &["platform", "core"]),
    ("registry", &["platform", "core"]),
    ("sandbox", &["platform", "core"]),
    ("platform", &["core"]),
    ("crd", &[]),
    ("core", &[]),
];

/// The folders of `host/hotshoe/src`, the highest first, each with the folders that it may import.
const PROGRAM_LAYERS: [(&str, &[&str]); 2] = [("cli", &["server"]), ("server", &[])];

/// The folders of `host/operator/src`, likewise.
const OPERATOR_LAYERS: [(&str, &[&str]); 8] = [
    ("fleet", &["rollout", "webhooks", "reconcile", "api", "config"]),
    ("rollout", &["shadow", "reconcile", "api", "config", "telemetry"]),
    ("webhooks", &["shadow", "reconcile", "api", "config"]),
    ("shadow", &["reconcile", "api"]),
    ("reconcile", &["api", "config", "telemetry"]),
    ("api", &["config"]),
    ("config", &[]),
    ("telemetry", &[]),
];

/// The folders of `host/core/src`, likewise.
const CORE_LAYERS: [(&str, &[&str]); 8] = [
    ("simulation", &["compare", "diff", "check", "model"]),
    ("plugin", &["flow", "model"]),
    ("rbac", &["check", "model"]),
    ("compare", &["check", "model"]),
    ("flow", &["diff", "check", "model"]),
    ("diff", &["check", "model"]),
    ("check", &["model"]),
    ("model", &[]),
];

/// Source files below `root`, with their path from there and their code before any test module.
fn sources(root: &str) -> Vec<(String, String)> {
    let named = texts(root).into_iter().map(|(name, text)| {
        let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        let code: Vec<_> = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        (name, code.join("\n"))
    });
    named.collect()
}

/// Source files of the crates of the host above the core, each with the folder of its crate and its path there, and
/// their code before any test module.
fn host_sources() -> Vec<(String, String)> {
    let above = CRATES.iter().map(|(name, _)| *name).filter(|name| !["core", "crd"].contains(name));
    let files = above.flat_map(|name| {
        let files = sources(&format!("{name}/src"));
        files.into_iter().map(move |(file, code)| (format!("{name}/{file}"), code))
    });
    files.collect()
}

/// Source files below `root`, with their path from there and their whole text.
fn texts(root: &str) -> Vec<(String, String)> {
    let root = Path::new(HOST).join(root);
    let mut files = Vec::new();
    collect(&root, &mut files);
    let named = files.into_iter().map(|file| {
        let text = fs::read_to_string(&file).unwrap();
        (file.strip_prefix(&root).unwrap().display().to_string(), text)
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

/// The files of the host outside of `rooms` in which one of these words stands.
fn strays(words: &[&str], rooms: &[&str]) -> Vec<String> {
    let sources = host_sources();
    assert!(sources.len() > 40, "the sources are not where they were");
    let outside = sources.iter().filter(|(name, _)| !rooms.iter().any(|room| name.starts_with(room)));
    let found = outside.filter_map(|(name, code)| {
        let word = words.iter().find(|word| code.contains(**word))?;
        Some(format!("{name}: {word}"))
    });
    found.collect()
}

/// The folders that the files of each folder import from the same crate: whatever follows `crate::`, and,
/// in a file at the top of its folder, `super::super::`.
fn imports(root: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, code) in sources(root) {
        let Some((folder, _)) = name.split_once('/') else { continue };
        let named = code.split("crate::").skip(1).map(|rest| {
            let word = |letter: char| letter.is_ascii_lowercase() || letter == '_';
            let module = rest.split(|letter| !word(letter)).next().unwrap_or_default();
            assert!(!module.is_empty(), "{name}: name each imported folder after `crate::`, not a list of them");
            module.to_owned()
        });
        let others = named.filter(|module| module != folder);
        edges.entry(folder.to_owned()).or_default().extend(others);
    }
    edges
}

/// The imports that no layer allows, and the layers that allow what nothing imports.
fn wrong_edges(root: &str, layers: &[(&str, &[&str])]) -> Vec<String> {
    let edges = imports(root);
    let mut wrong = Vec::new();
    for (folder, imported) in &edges {
        let allowed = layers.iter().find(|(layer, _)| layer == folder).map(|(_, allowed)| *allowed);
        let Some(allowed) = allowed else {
            wrong.push(format!("the folder {folder} is no layer"));
            continue;
        };
        wrong
            .extend(imported.iter().filter(|to| !allowed.contains(&to.as_str())).map(|to| format!("{folder} -> {to}")));
        let unused = allowed.iter().filter(|to| !imported.contains(**to));
        wrong.extend(unused.map(|to| format!("{folder} -> {to} is allowed, and nothing imports it")));
    }
    wrong
}

/// The packages that a crate of the host depends on, by a section of its manifest.
fn dependencies(name: &str, section: &str) -> BTreeSet<String> {
    let manifest = fs::read_to_string(Path::new(HOST).join(name).join("Cargo.toml")).unwrap();
    let (_, section) = manifest.split_once(&format!("\n[{section}]\n")).unwrap_or_default();
    let lines = section.lines().take_while(|line| !line.starts_with('[')).filter(|line| !line.starts_with('#'));
    let package = |line: &str| line.split(['.', ' ', '=']).next().unwrap_or_default().to_owned();
    lines.map(package).filter(|package| !package.is_empty()).collect()
}

/// The crates of the host with one of these packages among their dependencies, those of tests included.
fn dependents(packages: &[&str]) -> Vec<&'static str> {
    let names = CRATES.iter().map(|(name, _)| *name).filter(|name| {
        let mut all = dependencies(name, "dependencies");
        all.extend(dependencies(name, "dev-dependencies"));
        packages.iter().any(|package| all.contains(*package))
    });
    names.collect()
}

#[test]
fn each_crate_of_the_host_is_built_on_crates_below_it_and_on_no_more_than_it_says_here() {
    let folders = fs::read_dir(HOST).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(folders.collect::<BTreeSet<_>>(), CRATES.map(|(name, _)| name.to_owned()).into());
    for (name, built_on) in CRATES {
        let ours = dependencies(name, "dependencies").into_iter().filter(|package| package.starts_with("hotshoe"));
        let expected: BTreeSet<_> = built_on.iter().map(|name| format!("hotshoe-{name}")).collect();
        assert_eq!(ours.collect::<BTreeSet<_>>(), expected, "{name}");
        let of_tests = dependencies(name, "dev-dependencies").into_iter();
        let above: Vec<_> =
            of_tests.filter(|package| CRATES.iter().any(|(name, _)| is_package(name, package))).collect();
        assert_eq!(above, [""; 0], "tests of {name} are built on no more than its code");
    }
}

/// Whether a crate of the host has this package name.
fn is_package(name: &str, package: &str) -> bool {
    package == name || package.strip_prefix("hotshoe-") == Some(name)
}

#[test]
fn folders_of_the_program_and_of_the_operator_import_downwards_only() {
    assert_eq!(wrong_edges("hotshoe/src", &PROGRAM_LAYERS), [""; 0]);
    assert_eq!(wrong_edges("operator/src", &OPERATOR_LAYERS), [""; 0]);
}

#[test]
fn folders_of_the_core_import_downwards_only() {
    assert_eq!(wrong_edges("core/src", &CORE_LAYERS), [""; 0]);
}

#[test]
fn a_layer_allows_layers_below_it_alone() {
    for layers in [&CRATES[..], &PROGRAM_LAYERS[..], &OPERATOR_LAYERS[..], &CORE_LAYERS[..]] {
        for (at, (layer, allowed)) in layers.iter().enumerate() {
            let below: Vec<_> = layers.iter().skip(at + 1).map(|(name, _)| *name).collect();
            for to in *allowed {
                assert!(below.contains(to), "{layer} -> {to} points upwards");
            }
        }
    }
}

#[test]
fn no_files_import_one_another() {
    for (name, _) in CRATES {
        let cycles = Imports::of(texts(&format!("{name}/src"))).cycles();
        assert!(cycles.is_empty(), "{name}:\n{}", cycles.join("\n"));
    }
}

#[test]
fn only_lib_and_main_lie_beside_the_folders() {
    for (root, files) in
        [("hotshoe/src", &["lib.rs", "main.rs"][..]), ("operator/src", &["lib.rs"]), ("core/src", &["lib.rs"])]
    {
        let mut flat: Vec<_> =
            sources(root).into_iter().map(|(name, _)| name).filter(|name| !name.contains('/')).collect();
        flat.sort();
        assert_eq!(flat, files, "{root}");
    }
}

/// The packages that `hotshoe-core` is built with, by Cargo's own account.
fn core_dependencies() -> BTreeSet<String> {
    let mut metadata = Command::new(env!("CARGO"));
    metadata.args(["metadata", "--format-version", "1", "--locked"]);
    // What other platforms need is not downloaded here.
    metadata.args(["--filter-platform", "x86_64-unknown-linux-musl"]);
    metadata.arg("--manifest-path").arg(Path::new(HOST).join("core/Cargo.toml"));
    let printed = metadata.output().unwrap();
    assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    let metadata: Value = serde_json::from_slice(&printed.stdout).unwrap();
    let names: BTreeMap<&str, &str> = metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|package| (package["id"].as_str().unwrap(), package["name"].as_str().unwrap()))
        .collect();
    let nodes: BTreeMap<&str, &Value> = metadata["resolve"]["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| (node["id"].as_str().unwrap(), node))
        .collect();
    let core = names.iter().find(|(_, name)| **name == "hotshoe-core").unwrap().0;
    let (mut reached, mut open) = (BTreeSet::new(), vec![*core]);
    while let Some(id) = open.pop() {
        for dependency in nodes[id]["deps"].as_array().unwrap() {
            let is_linked = dependency["dep_kinds"].as_array().unwrap().iter().any(|kind| kind["kind"].is_null());
            let package = dependency["pkg"].as_str().unwrap();
            if is_linked && reached.insert(package) {
                open.push(package);
            }
        }
    }
    reached.into_iter().map(|id| names[id].to_owned()).collect()
}

#[test]
fn the_core_is_built_without_client_sandbox_runtime_or_io() {
    let reached = core_dependencies();
    assert!(reached.contains("serde_json"), "the dependencies are not found: {reached:?}");
    let forbidden = [
        "kube",
        "kube-client",
        "kube-core",
        "k8s-openapi",
        "wasmtime",
        "wasmparser",
        "tokio",
        "tokio-util",
        "mio",
        "hyper",
        "axum",
        "reqwest",
        "rustix",
        "tempfile",
        "socket2",
        "async-std",
        "smol",
    ];
    let found: Vec<_> = forbidden.iter().filter(|name| reached.contains(**name)).collect();
    assert_eq!(found, [&""; 0]);
}

#[test]
fn the_core_neither_awaits_nor_reads_files_sockets_or_the_wall_clock() {
    for (name, code) in sources("core/src") {
        for word in ["async ", ".await", "std::fs", "std::net", "std::process", "std::env", "SystemTime"] {
            assert!(!code.contains(word), "{name}: {word}");
        }
    }
}

#[test]
fn only_the_cluster_side_knows_the_client() {
    assert_eq!(dependents(&["kube", "kube-client", "kube-core", "kube-runtime", "k8s-openapi"]), ["cluster"]);
}

#[test]
fn only_the_sandbox_knows_wasmtime() {
    assert_eq!(dependents(&["wasmtime"]), ["sandbox"]);
}

#[test]
fn only_the_registry_side_knows_its_client_and_signatures() {
    assert_eq!(dependents(&["reqwest", "sigstore-verify"]), ["registry"]);
}

#[test]
fn children_parents_plugins_and_events_are_each_written_in_one_file() {
    let writes = ["Method::PATCH", "Method::POST", "Method::DELETE", "Method::PUT"];
    // `cluster/host_object.rs` writes what is the host's own, and `cluster/write.rs` what a test of samples makes, which
    // no host does. `hotshoe/cli/host_client.rs` speaks with a host, and `registry/push.rs` with a registry, and neither
    // with an API server; a review is not stored.
    let files = [
        "cluster/apply.rs",
        "cluster/parent.rs",
        "cluster/plugin_object.rs",
        "cluster/storage_migration.rs",
        "cluster/events.rs",
        "cluster/host_object.rs",
        "cluster/write.rs",
        "cluster/lease_keeper.rs",
        "cluster/access_review.rs",
        "hotshoe/cli/host_client.rs",
        "registry/push.rs",
    ];
    assert_eq!(strays(&writes, &files), [""; 0]);
}

#[test]
fn unsafe_code_loads_native_code_and_nothing_else() {
    assert_eq!(strays(&["unsafe {", "unsafe fn", "unsafe impl"], &["sandbox/load.rs"]), [""; 0]);
}

#[test]
fn no_pause_from_outside_is_added_to_a_time_before_it_is_bounded() {
    // A sum that the clock cannot hold is a panic.
    let sum = r"(?-u:\b)(Instant::now\(\)|now|since|sent|began|started|ended|due|until|deadline|went_on)[ \n]*\+[ \n]*([!-~]+)";
    let bounded = r"^\(?([A-Z][A-Z_]*|within_reach|doubled|soon|self\.gap|open\.period|limits\.whole_reply|self\.silence)(?-u:\b)";
    let (sum, bounded) = (Regex::new(sum).unwrap(), Regex::new(bounded).unwrap());
    let mut unbounded = Vec::new();
    for (name, code) in host_sources().into_iter().chain(sources("core/src")) {
        let sums = sum.captures_iter(&code).filter(|sum| !bounded.is_match(&sum[2]));
        unbounded.extend(sums.map(|sum| format!("{name}: {}", &sum[0])));
    }
    // These times are of a type whose sums saturate.
    unbounded.retain(|sum| !sum.starts_with("flow/lease.rs: "));
    assert_eq!(unbounded, [""; 0], "use within_reach");
}

#[test]
fn deadlines_of_leases_are_times_of_a_clock_that_counts_sleep() {
    let files = ["shards.rs", "lease.rs", "lease_keeper.rs", "lease_object.rs", "lease_status.rs", "identity.rs"];
    let files: Vec<_> = files.iter().map(|file| format!("cluster/{file}")).collect();
    let of_leases = host_sources().into_iter().filter(|(name, _)| files.contains(name));
    let of_leases: Vec<_> =
        of_leases.chain(sources("core/src").into_iter().filter(|(name, _)| name == "flow/lease.rs")).collect();
    assert_eq!(of_leases.len(), files.len() + 1, "a file is not where it was");
    for (name, code) in of_leases {
        assert!(!code.contains("Instant"), "{name} uses Instant, which stands still while the machine sleeps");
    }
    // A machine that has never slept shows no difference between this clock and the others.
    let clocks: Vec<_> = host_sources().into_iter().filter(|(_, code)| code.contains("ClockId::Boottime")).collect();
    assert_eq!(clocks.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["cluster/boot_clock.rs"]);
}

/// The folders whose lines are all about one object, and in which the span of the reconcile has it.
const WITHIN_RECONCILES: &str = "operator/reconcile/";

#[test]
fn lines_have_plugin_and_object_from_the_span_around_them() {
    assert_eq!(strays(&["_span!("], &["platform/spans.rs"]), [""; 0], "spans have one place");
    let call = Regex::new(r#"tracing::(?:trace|debug|info|warn|error|event)!\((?:\s*target: "\w+",)?([^"]*)"#).unwrap();
    let field = Regex::new(r"^\s*[%?]?(\w+)\s*(?:=|$)").unwrap();
    let (mut calls, mut by_hand) = (0, Vec::new());
    for (name, code) in host_sources() {
        for call in call.captures_iter(&code) {
            calls += 1;
            for one in call[1].split(',').filter_map(|part| field.captures(part)) {
                let is_of_span = match &one[1] {
                    "plugin" => true,
                    "digest" | "object" => name.starts_with(WITHIN_RECONCILES),
                    _ => false,
                };
                if is_of_span {
                    by_hand.push(format!("{name}: {}", &one[1]));
                }
            }
        }
    }
    assert!(calls > 80, "the log lines are not written as they were: {calls}");
    assert_eq!(by_hand, [""; 0], "a line has these fields from the span around it: platform/src/spans.rs");
}

#[test]
fn every_reason_is_one_pascal_case_word() {
    let errors: Vec<_> = host_sources().into_iter().filter(|(name, _)| name.ends_with("/error.rs")).collect();
    let reasons: Vec<_> = errors
        .iter()
        .flat_map(|(_, code)| code.lines())
        .filter_map(|line| line.split_once("=> \"")?.1.split_once('"').map(|(reason, _)| reason.to_owned()))
        .collect();
    assert!(reasons.len() > 20, "the reasons are not where they were: {reasons:?}");
    for reason in reasons {
        let pascal = reason.starts_with(|first: char| first.is_ascii_uppercase());
        assert!(pascal && reason.chars().all(|letter| letter.is_ascii_alphanumeric()), "{reason}");
    }
}
