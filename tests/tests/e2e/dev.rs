//! `hotshoe dev`: from a save to an active component, and what is not activated.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use hotshoe_tests::guests::caches;
use hotshoe_tests::host::{in_session_of_tests, program};
use hotshoe_tests::kinds::{DEPLOYMENT, MADE_DEV};
use hotshoe_tests::{ControlPlane, Host, Scene, run};
use serde_json::Value;

use crate::new::Project;

/// The expression of the template that says how many Pods there are. No case has three of them.
const REPLICAS: &str = ".replicas(request.parent.spec.size)";

/// A syntax error.
const BROKEN: &str = "\nfn broken() {\n    let = 1;\n}\n";

/// `hotshoe dev` as a process, and the source that its author changes.
struct Author {
    dev: Host,
    source: PathBuf,
    original: String,
}

impl Author {
    /// Starts `hotshoe dev` on a plugin, with the cluster of this kubeconfig and the host with this socket.
    fn starts(plugin: &Path, kubeconfig: &Path, socket: &Path) -> Self {
        let mut command = Command::new(program());
        command.arg("dev").arg(plugin).arg("--kubeconfig").arg(kubeconfig);
        in_session_of_tests(&mut command);
        command.arg("--socket").arg(socket).env("XDG_CACHE_HOME", caches());
        let source = plugin.join("src/lib.rs");
        let original = fs::read_to_string(&source).expect("the source is read");
        Self { dev: Host::spawn(command), source, original }
    }

    /// Saves the source as editors do: another file takes its place.
    fn saves(&self, text: &str) {
        let new = self.source.with_file_name(".lib.rs.swp");
        fs::write(&new, text).expect("the source is written");
        fs::rename(&new, &self.source).expect("the source is replaced");
    }

    /// Saves the original source, with a Deployment that has so many Pods where three are asked for.
    fn saves_with(&self, replicas: u32) {
        assert!(self.original.contains(REPLICAS), "{}", self.original);
        let changed =
            format!(".replicas(if request.parent.spec.size == 3 {{ {replicas} }} else {{ request.parent.spec.size }})");
        self.saves(&self.original.replace(REPLICAS, &changed));
    }

    /// Waits until there are so many lines of saves, and returns the last one.
    async fn line(&self, number: usize) -> String {
        self.dev
            .until(&format!("there are {number} lines of saves"), async || {
                let log = self.dev.log();
                let is_of_save = |line: &&str| line.split_once("Z  ").is_some_and(|(time, _)| time.len() == 8);
                let lines: Vec<&str> = log.lines().filter(is_of_save).collect();
                let line = lines.get(number - 1).map(|line| (*line).to_owned());
                line.ok_or_else(|| format!("{lines:#?}"))
            })
            .await
    }
}

/// The crate beside the plugin that it is built with.
const BESIDE: &str = "rules/src/lib.rs";

/// Makes a project whose plugin is built with a crate beside it, and compiles the crates that its quick builds share,
/// which takes long once.
fn project(plugin: &str) -> Project {
    let project = Project::made(plugin.to_owned(), "rust", "sdk", &[]);
    fs::create_dir_all(project.path("rules/src")).expect("a folder");
    let manifest = "[package]\nname = \"rules\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";
    fs::write(project.path("rules/Cargo.toml"), manifest).expect("a file");
    fs::write(project.path(BESIDE), "").expect("a file");
    let of_plugin = project.path(&format!("plugins/{plugin}/Cargo.toml"));
    let text = fs::read_to_string(&of_plugin).expect("a manifest");
    let with_rules = text.replace("[dependencies]\n", "[dependencies]\nrules = { path = \"../../rules\" }\n");
    assert_ne!(with_rules, text);
    fs::write(&of_plugin, with_rules).expect("a file");
    project.hotshoe(&["build", "--quick"]);
    project
}

/// Waits until the Deployment has so many Pods by its spec.
async fn until_replicas(scene: &Scene, replicas: u32) {
    let has = |object: &Value| object["spec"]["replicas"] == replicas;
    scene.until_object(&DEPLOYMENT, "madedev-sample", &format!("has {replicas} replicas"), has).await;
}

#[test]
fn a_save_becomes_active_unless_it_does_not_compile_or_a_case_fails() {
    let project = project("made-dev");
    run(async {
        let plane = ControlPlane::shared().await;
        let folder = project.path("plugins/made-dev");
        let crd = project.path("crds/made.example.org_madedevs.yaml");
        let kubeconfig = plane.install_plugin(&folder, crd.to_str().expect("a path in UTF-8")).await;
        let mut scene = Scene::new(plane, "made-dev").await;
        let host = scene.start().await.plugins(&[&folder]).kubeconfig(&kubeconfig).on_reload().ready().await;
        scene.watch_log(&host);
        let mut sample = project.sample(&MADE_DEV);
        sample["spec"]["size"] = 3.into();
        scene.create(sample).await;
        until_replicas(&scene, 3).await;

        let mut author = Author::starts(&folder, &plane.file("kubeconfig"), &host.socket().expect("a socket"));
        let first = author.line(1).await;
        assert!(first.contains("  begin  built  8 passed  "), "{first}");

        author.saves_with(5);
        let line = author.line(2).await;
        assert!(
            line.contains("  src/lib.rs  built  8 passed  ~ 1 Deployment  active "),
            "{line}\n{}",
            author.dev.log()
        );
        until_replicas(&scene, 5).await;
        let active = host.digest().await;

        author.saves(&format!("{}{BROKEN}", author.original));
        let line = author.line(3).await;
        assert!(line.contains("  src/lib.rs  build failed  ") && !line.contains("as before"), "{line}");
        author.saves(&format!("{}{BROKEN}\n// Something else.\n", author.original));
        let line = author.line(4).await;
        assert!(line.contains("  build failed  ") && line.ends_with("  as before"), "{line}\n{}", author.dev.log());
        let log = author.dev.log();
        assert_eq!(log.matches("src/lib.rs:").count(), 1, "the error is shown once, with its place: {log}");
        assert!(log.contains("error: "), "{log}");

        author.saves(&author.original.replace("every write was taken", "all is well"));
        let line = author.line(5).await;
        assert!(line.contains("  built  ") && line.contains(" failed  not activated "), "{line}");
        let log = author.dev.log();
        assert!(log.contains(": - expected, + answered") && log.contains("all is well"), "{log}");
        assert_eq!(host.digest().await, active, "neither is activated");

        author.saves_with(6);
        let line = author.line(6).await;
        assert!(line.contains("  8 passed  ~ 1 Deployment  active "), "{line}");
        until_replicas(&scene, 6).await;

        fs::write(project.path(BESIDE), "pub const SIZE: u32 = 1;\n").expect("a file");
        let line = author.line(7).await;
        assert!(line.contains("  rules/src/lib.rs  built  8 passed  "), "{line}");

        let ended = author.dev.stop();
        assert!(ended.success(), "{ended}: {}", author.dev.log());
        scene.delete(&MADE_DEV, "madedev-sample").await;
        scene.gone(&MADE_DEV, "madedev-sample").await;
    });
}

#[test]
fn without_a_cluster_and_a_host_it_says_so_once_and_ends_with_all_its_processes() {
    let project = project("made-alone");
    run(async {
        let folder = project.path("plugins/made-alone");
        let mut author = Author::starts(&folder, Path::new("/nowhere"), Path::new("/nowhere"));
        let line = author.line(1).await;
        assert!(line.contains("  built  8 passed  done "), "{line}");
        author.saves_with(5);
        author.line(2).await;
        let log = author.dev.log();
        for note in ["changes on a cluster are not shown", "no host on this machine serves made-alone"] {
            assert_eq!(log.matches(note).count(), 1, "{note}: {log}");
        }

        let script = folder.join("build.rs");
        fs::write(&script, ENDLESS).expect("a build script");
        until_building(&author, true).await;
        fs::remove_file(&script).expect("the build script is removed");
        let line = author.line(3).await;
        assert!(line.contains("  build.rs  built  8 passed  done "), "the build that does not end is stopped: {line}");
        until_building(&author, false).await;

        fs::write(&script, ENDLESS).expect("a build script");
        until_building(&author, true).await;
        let ended = author.dev.stop();
        assert!(ended.success(), "{ended}: {}", author.dev.log());
        until_building(&author, false).await;
    });
}

/// A build script that does not end.
const ENDLESS: &str = "fn main() {\n    loop {\n        std::thread::park();\n    }\n}\n";

/// Waits until the build script of the plugin runs, or no longer does.
async fn until_building(author: &Author, runs: bool) {
    let what = format!("the build script runs: {runs}");
    author.dev.until(&what, async || if is_building() == runs { Ok(()) } else { Err(author.dev.log()) }).await;
}

fn is_building() -> bool {
    let processes = fs::read_dir("/proc").expect("the processes").flatten();
    let mut commands = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    commands.any(|command| {
        let command = String::from_utf8_lossy(&command).into_owned();
        command.contains("/made-alone-") && command.contains("build-script-build")
    })
}
