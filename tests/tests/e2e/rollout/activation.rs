//! Difficult activations, case by case: many decisions in flight, components that compile slowly or follow each
//! other too fast, a clean-up, a rollback from a bad component, and files that are damaged, half written, replaced by
//! a symbolic link in the path, or missing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hotshoe_components::{slow_to_compile, text};
use hotshoe_tests::faulty::{WORKS, another, fault, scene_with_faults, serves, until_digest, words};
use hotshoe_tests::guests::{Folder, reworded};
use hotshoe_tests::kinds::{CONFIG_MAP, FAULT};
use hotshoe_tests::scene::condition_parts;
use hotshoe_tests::{Host, Scene, run};
use serde_json::{Value, json};
use tempfile::TempDir;

pub(super) async fn start(scene: &mut Scene, plugin: &Path, cache: &Path) -> Host {
    let host = scene.start().await.plugins(&[plugin]).cache(cache).ready().await;
    scene.watch_log(&host);
    host
}

/// Waits until every parent and its child show this revision.
async fn all_show(scene: &Scene, count: usize, words: &str) {
    scene
        .until(&format!("all {count} show {words:?}"), async || {
            let parents = scene.list(&FAULT).await;
            let parents = parents.iter().filter(|parent| parent["status"]["word"] == words).count();
            let children = scene.list(&CONFIG_MAP).await;
            let children = children.iter().filter(|child| child["data"]["revision"] == words).count();
            if (parents, children) == (count, count) { Ok(()) } else { Err(format!("{parents} and {children}")) }
        })
        .await;
}

/// Counts the lines of the log that have all of these words.
fn lines(host: &Host, words: &[&str]) -> usize {
    host.log().lines().filter(|line| words.iter().all(|word| line.contains(word))).count()
}

/// Watches the compiler processes of a host, many times a second.
struct Compilers {
    ended: Arc<AtomicBool>,
    looking: JoinHandle<(usize, BTreeSet<u32>)>,
}

impl Compilers {
    fn of(host: &Host) -> Self {
        let (ended, process) = (Arc::new(AtomicBool::new(false)), host.process());
        let end = ended.clone();
        let looking = thread::spawn(move || {
            let (mut most, mut seen) = (0, BTreeSet::new());
            while !end.load(Ordering::Relaxed) {
                let now = compilers(process);
                most = most.max(now.len());
                seen.extend(now);
                thread::sleep(Duration::from_millis(5));
            }
            (most, seen)
        });
        Self { ended, looking }
    }

    /// Returns the maximum number of compilers at once, and their number in all.
    fn end(self) -> (usize, usize) {
        self.ended.store(true, Ordering::Relaxed);
        let (most, seen) = self.looking.join().expect("it looks to the end");
        (most, seen.len())
    }
}

fn compilers(host: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").expect("/proc").filter_map(Result::ok);
    let processes = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    processes.filter(|process| is_compiler(*process, host).unwrap_or(false)).collect()
}

fn is_compiler(process: u32, host: u32) -> Option<bool> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let parent: u32 = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
    let command = fs::read(format!("/proc/{process}/cmdline")).ok()?;
    Some(parent == host && String::from_utf8_lossy(&command).contains("compile-component"))
}

#[test]
fn each_decision_is_of_one_component_and_none_is_lost_while_500_are_in_flight() {
    run(async {
        const COUNT: usize = 500;
        let mut scene = scene_with_faults("in-flight").await;
        for number in 0..COUNT {
            scene.create(fault(&format!("fault-{number}"), "say")).await;
        }
        let (folder, cache) = (Folder::of_faulty(), TempDir::new().expect("a folder"));
        let host = scene.start().await.plugins(&[folder.path()]).cache(cache.path()).start();
        scene.watch_log(&host);
        for number in 1..=3 {
            // Each swap happens while the queue is full: from the start, or from the swap before.
            host.until_plugin("many wait", |plugin| plugin["queued"].as_u64() >= Some(100)).await;
            let component = another(&folder, number);
            folder.put(&component);
            until_digest(&host, &component).await;
        }
        all_show(&scene, COUNT, &words(3)).await;
        // Every line that the plugin logs carries the digest of its component.
        let log = host.log();
        let of_digest = |line: &str| {
            let said = line.split_once("this revision ")?.1.split_whitespace().next()?.to_owned();
            let digest = line.split_once("digest=")?.1.split_whitespace().next()?.to_owned();
            line.contains("object=").then_some((digest, said))
        };
        let mut spoken: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (digest, said) in log.lines().filter_map(of_digest) {
            spoken.entry(digest).or_default().insert(said);
        }
        assert!(spoken.len() >= 2, "several components have decided: {spoken:#?}");
        assert!(spoken.values().all(|said| said.len() == 1), "a digest is that of who spoke: {spoken:#?}");
        let refused = scene.recorded_writes().await.into_iter().filter(|write| write.code >= 400);
        let refused: Vec<_> = refused.filter(|write| write.resource == "configmaps").collect();
        assert!(refused.is_empty(), "{refused:#?}");
        assert_eq!(lines(&host, &["panicked"]), 0, "{log}");
    });
}

#[test]
fn a_component_that_is_slow_to_compile_delays_no_other() {
    run(async {
        let mut scene = scene_with_faults("laborious").await;
        let (folder, cache) = (Folder::of_faulty(), TempDir::new().expect("a folder"));
        let host = start(&mut scene, folder.path(), cache.path()).await;
        let first = host.digest().await;
        let component = slow_to_compile(&another(&folder, 1), 1_500);
        folder.put(&component);
        let compiling = async || match compilers(host.process()).as_slice() {
            [] => Err("no compiler".to_owned()),
            _ => Ok(()),
        };
        host.until("it is being compiled", compiling).await;
        for number in 0..10 {
            serves(&scene, &format!("fault-{number}")).await;
        }
        compiling().await.expect("it is still being compiled: make it larger");
        assert_eq!(host.digest().await, first);
        until_digest(&host, &component).await;
        serves(&scene, "later").await;
    });
}

#[test]
fn a_component_that_does_not_fit_is_reported_once_and_not_retried() {
    run(async {
        let mut scene = scene_with_faults("unfit").await;
        let (folder, cache) = (Folder::of_faulty(), TempDir::new().expect("a folder"));
        let host = start(&mut scene, folder.path(), cache.path()).await;
        let first = host.digest().await;
        let exporting = |name: &str| {
            text(&format!(
                "(component (component $c) (instance $i (instantiate $c)) (export \"{name}\" (instance $i)))"
            ))
        };
        for (number, (component, reason)) in [
            (exporting("hotshoe:reconciler/reconciler@2.0.0"), "ContractMismatch"),
            // It has the exports of a plugin, but no functions in them.
            (exporting("hotshoe:reconciler/reconciler@0.1.0"), "LoadFailed"),
            (reworded(folder.original(), WORKS, "this revision traps"), "ApprovalRequired"),
        ]
        .into_iter()
        .enumerate()
        {
            let compilers = Compilers::of(&host);
            if reason == "ApprovalRequired" {
                serves(&scene, "met").await;
            }
            folder.put(&component);
            let plugin = host.until_plugin(reason, |plugin| plugin["refused"]["reason"] == reason).await;
            assert_eq!((&plugin["digest"], &plugin["ready"]), (&json!(first), &json!(true)), "{plugin:#}");
            // The host looks at the file several times more, and the same bytes are written again.
            for round in 0..5 {
                folder.put(&component);
                serves(&scene, &format!("fault-{number}-{round}")).await;
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
            assert_eq!(lines(&host, &["the component is not activated", reason]), 1, "{}", host.log());
            let (_, compiled) = compilers.end();
            assert!(compiled <= 1, "compiled {compiled} times");
        }
    });
}

#[test]
fn components_that_come_faster_than_they_compile_are_coalesced_and_the_last_one_decides() {
    run(async {
        const COUNT: usize = 10;
        const BURSTS: usize = 6;
        let mut scene = scene_with_faults("burst").await;
        let (folder, cache) = (Folder::of_faulty(), TempDir::new().expect("a folder"));
        let host = start(&mut scene, folder.path(), cache.path()).await;
        for number in 0..COUNT {
            scene.create(fault(&format!("fault-{number}"), "say")).await;
        }
        all_show(&scene, COUNT, WORKS).await;
        let compilers = Compilers::of(&host);
        let mut memory = Vec::new();
        for burst in 1..=BURSTS {
            // Twenty components a second.
            for number in 1..=20 {
                folder.put(&another(&folder, burst * 100 + number));
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            all_show(&scene, COUNT, &words(burst * 100 + 20)).await;
            memory.push(host.memory("VmRSS") / 1024);
        }
        let (most, all) = compilers.end();
        println!("{all} compilations of {} components, {most} at most at once; memory {memory:?} MB", BURSTS * 20);
        assert!(most == 1, "{most} compilers at once");
        assert!(all < BURSTS * 20 / 2, "{all} compilations of {} components", BURSTS * 20);
        assert!(memory[BURSTS - 1] <= memory[0] + 8, "memory grows: {memory:?} MB");
        assert_eq!(lines(&host, &["the component is not activated"]), 0, "{}", host.log());
    });
}

#[test]
fn a_clean_up_during_a_swap_completes_and_the_finalizer_is_removed_once() {
    run(async {
        const COUNT: usize = 8;
        let mut scene = scene_with_faults("swap-clean-up").await;
        let (folder, cache) = (Folder::of_faulty(), TempDir::new().expect("a folder"));
        let host = start(&mut scene, folder.path(), cache.path()).await;
        let names: Vec<String> = (0..COUNT).map(|number| format!("fault-{number}")).collect();
        for name in &names {
            scene.create(fault(name, "linger in clean-up")).await;
        }
        for name in &names {
            scene.until_object(&FAULT, name, "is served", |object| condition_parts(object, "Kept").0 == "True").await;
            scene.delete(&FAULT, name).await;
        }
        for (number, name) in names.iter().enumerate() {
            if number % 2 == 0 {
                let component = another(&folder, number + 1);
                folder.put(&component);
                until_digest(&host, &component).await;
            }
            // The clean-up may end now: by the new component or, for every second parent, during the next swap.
            scene.merge(&FAULT, name, json!({ "spec": { "fault": "" } })).await;
        }
        for name in &names {
            scene.gone(&FAULT, name).await;
        }
        let writes = scene.recorded_writes().await;
        for name in &names {
            let of_parent: Vec<_> =
                writes.iter().filter(|write| write.is_about("faults") && write.name == **name).collect();
            let done: Vec<_> = of_parent.iter().filter(|write| write.code < 400).collect();
            // The finalizer was added before the first child, and removed once.
            assert_eq!(done.len(), 2, "{of_parent:#?}");
        }
    });
}

#[test]
fn a_rollback_from_a_failing_component_needs_neither_source_nor_compiler() {
    run(async {
        let mut scene = scene_with_faults("back-from-bad").await;
        let (folder, cache) = (Folder::of_faulty(), TempDir::new().expect("a folder"));
        let host = start(&mut scene, folder.path(), cache.path()).await;
        let first = host.digest().await;
        let bad = reworded(folder.original(), WORKS, "this revision slips");
        folder.put(&bad);
        until_digest(&host, &bad).await;
        for number in 0..8 {
            scene.create(fault(&format!("fault-{number}"), "slip")).await;
        }
        until_digest(&host, folder.original()).await;
        host.until_plugin("the rollback is shown", |plugin| !plugin["refused"].is_null()).await;
        // A component that was approved after its rollback is not rolled back automatically for the same failures.
        let (status, words) = host.ask(&["approve", "faulty"]);
        assert!(status.success(), "{words}");
        host.until_plugin("it is not called any more", |plugin| plugin["breaker"]["state"] == "open").await;
        fs::remove_file(folder.component()).expect("the source goes");
        let compilers = Compilers::of(&host);
        let (status, words) = host.ask(&["rollback", "faulty"]);
        assert!(status.success(), "{words}");
        assert_eq!(host.digest().await, first);
        assert_eq!(compilers.end(), (0, 0), "nothing was compiled");
        for number in 0..8 {
            let is_served = |object: &Value| {
                object["status"]["word"] == "slip" && condition_parts(object, "Reconciled").0.is_empty()
            };
            scene.until_object(&FAULT, &format!("fault-{number}"), "is served", is_served).await;
        }
    });
}

#[test]
fn a_component_that_is_being_compiled_survives_a_rollback() {
    run(async {
        let mut scene = scene_with_faults("fix-on-its-way").await;
        let (folder, cache) = (Folder::of_faulty(), TempDir::new().expect("a folder"));
        let host = start(&mut scene, folder.path(), cache.path()).await;
        for number in 0..6 {
            serves(&scene, &format!("fault-{number}")).await;
        }
        let bad = reworded(folder.original(), WORKS, "this revision slips");
        folder.put(&bad);
        until_digest(&host, &bad).await;
        let fix = slow_to_compile(&another(&folder, 1), 1_500);
        folder.put(&fix);
        compiles(&host).await;
        for number in 0..6 {
            scene.merge(&FAULT, &format!("fault-{number}"), json!({ "spec": { "fault": "slip" } })).await;
        }
        host.until_logged(&["ERROR", "RolledBack", "calls failed"]).await;
        until_digest(&host, &fix).await;
        let plugin = host.until_plugin("all is well", |plugin| plugin["refused"].is_null()).await;
        assert_eq!(plugin["ready"], true, "{plugin:#}");
        // The good component decided in between.
        let good = hotshoe_core::model::digest::Digest::of(folder.original()).full();
        let (_, words) = host.ask(&["history", "faulty", "-o", "json"]);
        let history: Value = serde_json::from_str(&words).expect("JSON");
        let published = history["entries"].as_array().expect("entries").iter();
        let published = published.filter(|entry| entry["event"] == "Activated" && entry["digest"] == *good).count();
        assert_eq!(published, 2, "{history:#}");
    });
}

#[test]
fn a_component_that_is_being_compiled_survives_a_command_that_fails() {
    run(async {
        let mut scene = scene_with_faults("failed-command").await;
        let (folder, cache) = (Folder::of_faulty(), TempDir::new().expect("a folder"));
        let first = slow_to_compile(folder.original(), 1_000);
        folder.put(&first);
        let host = scene.start().await.plugins(&[folder.path()]).cache(cache.path()).start();
        scene.watch_log(&host);
        host.until("it takes commands", async || host.socket()).await;
        compiles(&host).await;
        let (status, words) = host.ask(&["rollback", "faulty"]);
        assert!(!status.success() && words.contains("no earlier revision"), "{words}");
        until_digest(&host, &first).await;
        let second = slow_to_compile(&another(&folder, 1), 1_000);
        folder.put(&second);
        compiles(&host).await;
        let (status, words) = host.ask(&["rollback", "faulty", "--to", "123456"]);
        assert!(!status.success() && words.contains("no revision"), "{words}");
        until_digest(&host, &second).await;
        let first = hotshoe_core::model::digest::Digest::of(&first);
        let (status, words) = host.ask(&["rollback", "faulty", "--to", &format!("sha256:{}", first.full())]);
        assert!(status.success() && words.contains(&first.to_string()), "{words}");
    });
}

#[test]
fn a_cache_that_is_deleted_while_the_host_runs_is_rebuilt_and_does_not_prevent_a_rollback() {
    run(async {
        let mut scene = scene_with_faults("cache-gone").await;
        let (folder, cache) = (Folder::of_faulty(), TempDir::new().expect("a folder"));
        let host = start(&mut scene, folder.path(), cache.path()).await;
        let first = host.digest().await;
        let second = another(&folder, 1);
        folder.put(&second);
        until_digest(&host, &second).await;
        // A file may be written there at the same moment.
        host.until("it is deleted", async || fs::remove_dir_all(cache.path()).map_err(|error| error.to_string())).await;
        let (_, words) = host.ask(&["history", "faulty", "-o", "json"]);
        let history: Value = serde_json::from_str(&words).expect("JSON");
        assert_eq!(history["kept"], json!([first]), "it is in memory still: {history:#}");
        let (status, words) = host.ask(&["rollback", "faulty"]);
        assert!(status.success(), "{words}");
        assert_eq!(host.digest().await, first);
        let third = another(&folder, 2);
        folder.put(&third);
        until_digest(&host, &third).await;
        host.until("it is cached", async || match natives(cache.path()).len() {
            1 => Ok(()),
            count => Err(format!("{count} compiled components")),
        })
        .await;
        assert_eq!(lines(&host, &["cannot be cached"]), 0, "{}", host.log());
        serves(&scene, "one").await;
    });
}

async fn compiles(host: &Host) {
    host.until("it is being compiled", async || match compilers(host.process()).as_slice() {
        [] => Err("no compiler".to_owned()),
        _ => Ok(()),
    })
    .await;
}

/// Lists the files of compiled components in a cache.
fn natives(cache: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(cache.join("compiled")).expect("a cache").filter_map(Result::ok).map(|file| file.path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "native")).collect()
}

#[test]
fn native_code_that_is_damaged_or_of_another_host_is_never_run_but_compiled_again() {
    run(async {
        let mut scene = scene_with_faults("damaged").await;
        let (folder, cache, other) =
            (Folder::of_faulty(), TempDir::new().expect("a folder"), TempDir::new().expect("a folder"));
        let mut host = start(&mut scene, folder.path(), cache.path()).await;
        host.stop();
        let mut host_of_other = start(&mut scene, folder.path(), other.path()).await;
        host_of_other.stop();
        let [native] = natives(cache.path()).try_into().expect("one compiled component");
        let [foreign] = natives(other.path()).try_into().expect("one compiled component");
        let good = fs::read(&native).expect("native code");
        let mut flipped = good.clone();
        flipped[good.len() / 2] ^= 1;
        let foreign = fs::read(foreign).expect("native code of another host");
        for (number, damaged) in [&good[..good.len() / 2], &flipped, b"", b"\x7fELF", &foreign].into_iter().enumerate()
        {
            fs::write(&native, damaged).expect("it is damaged");
            let mut host = start(&mut scene, folder.path(), cache.path()).await;
            host.until_logged(&["WARN", "corrupt or foreign"]).await;
            serves(&scene, &format!("fault-{number}")).await;
            assert_eq!(fs::read(&native).expect("native code").len(), good.len(), "it is fixed");
            host.stop();
        }
        // The code of another build of the host has another name, so it is not even read.
        let name = native.file_name().and_then(|name| name.to_str()).expect("a name");
        let (digest, settings) = name.trim_end_matches(".native").split_once('-').expect("digest and settings");
        let of_another =
            native.with_file_name(format!("{digest}-{}.native", settings.chars().rev().collect::<String>()));
        fs::rename(&native, &of_another).expect("it is renamed");
        let host = start(&mut scene, folder.path(), cache.path()).await;
        serves(&scene, "other-build").await;
        assert!(native.exists(), "it was compiled");
        assert_eq!(lines(&host, &["corrupt or foreign"]), 0, "{}", host.log());
    });
}

#[test]
fn a_component_whose_file_is_gone_stays_active_also_after_a_restart_and_status_says_so() {
    run(async {
        let mut scene = scene_with_faults("gone").await;
        let (folder, cache) = (Folder::of_faulty(), TempDir::new().expect("a folder"));
        folder.edit("file: faulty.wasm", &format!("file: {}", folder.component().display()));
        let mut host = start(&mut scene, folder.path(), cache.path()).await;
        let first = host.digest().await;
        fs::remove_file(folder.component()).expect("it is removed");
        for name in ["at-once", "after-restart"] {
            let plugin = host.until_plugin("it is missed", |plugin| plugin["refused"]["reason"] == "Unreadable").await;
            assert_eq!((&plugin["digest"], &plugin["ready"]), (&json!(first), &json!(true)), "{plugin:#}");
            let (_, words) = host.ask(&["status"]);
            assert!(words.contains("not activated") && words.contains("cannot read the component"), "{words}");
            serves(&scene, name).await;
            if name == "at-once" {
                host.stop();
                host = start(&mut scene, folder.path(), cache.path()).await;
            }
        }
        folder.put(folder.original());
        let plugin = host.until_plugin("it is found again", |plugin| plugin["refused"].is_null()).await;
        assert_eq!(plugin["digest"], first);
    });
}

/// Files as a kubelet mounts them: symbolic links by way of `..data`, the only link that an update replaces.
struct Mount(TempDir);

impl Mount {
    fn new() -> Self {
        let this = Self(TempDir::new().expect("a folder"));
        for file in ["plugin.yaml", "faulty.wasm"] {
            symlink(Path::new("..data").join(file), this.0.path().join(file)).expect("a link");
        }
        this
    }

    fn exchange(&self, version: &str, plugin_file: &str, component: &[u8]) {
        let (data, next) = (self.0.path().join("..data"), self.0.path().join("..next"));
        let before = fs::read_link(&data).ok();
        fs::create_dir(self.0.path().join(version)).expect("a folder");
        fs::write(self.0.path().join(version).join("plugin.yaml"), plugin_file).expect("plugin.yaml");
        fs::write(self.0.path().join(version).join("faulty.wasm"), component).expect("a component");
        symlink(version, &next).expect("a link");
        fs::rename(next, data).expect("the link is exchanged");
        if let Some(before) = before {
            fs::remove_dir_all(self.0.path().join(before)).expect("the version before goes");
        }
    }
}

#[test]
fn an_updated_volume_mount_activates_plugin_yaml_and_component_together() {
    run(async {
        let mut scene = scene_with_faults("mount").await;
        let services = json!([{ "apiGroups": [""], "resources": ["services"], "verbs": ["list", "watch"] }]);
        scene.plane.grant("hotshoe", "tests-services-of-mount", &services).await;
        let (folder, cache, mount) = (Folder::of_faulty(), TempDir::new().expect("a folder"), Mount::new());
        let yaml = fs::read_to_string(folder.plugin_file()).expect("plugin.yaml");
        mount.exchange("..v1", &yaml, folder.original());
        let host = start(&mut scene, mount.0.path(), cache.path()).await;
        serves(&scene, "one").await;
        let larger = reworded(folder.original(), WORKS, "this revision needs");
        let rule = "  grants:\n    - kind: Service\n      verbs: [get, list, watch, create]\n";
        mount.exchange("..v2", &yaml.replace("  grants:\n", rule), &larger);
        until_digest(&host, &larger).await;
        serves(&scene, "two").await;
        mount.exchange("..v3", &yaml, folder.original());
        until_digest(&host, folder.original()).await;
        let plugin = host.until_plugin("all is well", |plugin| plugin["refused"].is_null()).await;
        assert!(
            plugin["pluginFile"]["refused"].is_null() && plugin["pluginFile"]["notGranted"].is_null(),
            "{plugin:#}"
        );
        serves(&scene, "three").await;
    });
}

#[test]
fn a_file_that_is_written_slowly_in_place_is_activated_when_it_is_complete() {
    run(async {
        let mut scene = scene_with_faults("half").await;
        let (folder, cache) = (Folder::of_faulty(), TempDir::new().expect("a folder"));
        let host = start(&mut scene, folder.path(), cache.path()).await;
        let component = another(&folder, 1);
        let mut file = fs::File::create(folder.component()).expect("the file is cut off");
        for part in component.chunks(component.len() / 60) {
            file.write_all(part).expect("a part");
            thread::sleep(Duration::from_millis(25));
        }
        drop(file);
        until_digest(&host, &component).await;
        assert_eq!(lines(&host, &["the component is not activated"]), 0, "{}", host.log());
        serves(&scene, "one").await;
    });
}

#[test]
fn a_reload_waits_for_a_file_that_is_being_written() {
    run(async {
        let mut scene = scene_with_faults("half-reload").await;
        let (folder, cache) = (Folder::of_faulty(), TempDir::new().expect("a folder"));
        let host = start(&mut scene, folder.path(), cache.path()).await;
        let component = another(&folder, 1);
        let (status, words) = thread::scope(|scope| {
            let mut file = fs::File::create(folder.component()).expect("the file is cut off");
            let asked = scope.spawn(|| host.ask(&["reload", "faulty"]));
            for part in component.chunks(component.len() / 80) {
                file.write_all(part).expect("a part");
                thread::sleep(Duration::from_millis(25));
            }
            asked.join().expect("it is answered")
        });
        let wanted = hotshoe_core::model::digest::Digest::of(&component).to_string();
        assert!(status.success() && words.contains(&wanted), "{words}");
    });
}

#[test]
fn concurrent_reload_commands_do_not_wait_for_each_other() {
    run(async {
        let mut scene = scene_with_faults("reloads").await;
        let (folder, cache) = (Folder::of_faulty(), TempDir::new().expect("a folder"));
        folder.edit("file: faulty.wasm", &format!("file: {}", folder.component().display()));
        let host = start(&mut scene, folder.path(), cache.path()).await;
        let began = Instant::now();
        thread::scope(|scope| {
            let asked: Vec<_> = (0..40).map(|_| scope.spawn(|| host.ask(&["reload", "faulty"]))).collect();
            for one in asked {
                let (status, words) = one.join().expect("it is answered");
                assert!(status.success(), "{words}");
            }
        });
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        // A file that cannot be read is reported at once, and again.
        fs::remove_file(folder.component()).expect("it is removed");
        for _ in 0..2 {
            let (status, words) = host.ask(&["reload", "faulty"]);
            assert!(!status.success() && words.contains("Unreadable"), "{words}");
        }
    });
}
