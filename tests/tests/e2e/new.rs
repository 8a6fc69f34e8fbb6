//! Projects of `hotshoe new`, from nothing to Pods that run, with nothing of this repository but the program and the
//! SDK.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use hotshoe_tests::guests::caches;
use hotshoe_tests::host::{in_session_of_tests, program};
use hotshoe_tests::kinds::{DEPLOYMENT, Kind, MADE_JS, MADE_PYTHON, MADE_RUST};
use hotshoe_tests::kstatus::{Kstatus, kstatus};
use hotshoe_tests::scene::condition_parts;
use hotshoe_tests::{ControlPlane, Host, Scene, repository, run};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::alone::run_alone;

/// The build folder and the tools folder that the projects of all tests share.
const TARGET: &str = "target/tests/new";
const TOOLS: &str = "target/tools";

/// A project with one plugin, in a folder of its own.
struct Project {
    folder: TempDir,
    plugin: String,
}

impl Project {
    /// Creates, builds and tests a project, with another group and domain than those of the plugins in this repository.
    fn new(language: &str, sdk: &str) -> Self {
        let project = Self::made(format!("made-{language}"), language, sdk, &[]);
        let tested = project.hotshoe(&["test"]);
        assert!(tested.contains("6 passed, 0 failed"), "{tested}");
        project
    }

    /// Creates and builds a project of this plugin, with these options.
    fn made(plugin: String, language: &str, sdk: &str, options: &[&str]) -> Self {
        let folder = TempDir::new().expect("a folder");
        let project = Self { folder, plugin };
        let sdk = repository("plugins").join(sdk).display().to_string();
        let names = ["--group", "made", "--domain", "example.org", "--lang", language, "--sdk", &sdk];
        project.hotshoe(&[&["new", &project.plugin], &names[..], options].concat());
        for folder in [TARGET, TOOLS] {
            fs::create_dir_all(repository(folder)).expect("a folder for products");
        }
        // The test that comes first creates it.
        drop(symlink(repository(TOOLS), repository(TARGET).join("tools")));
        symlink(repository(TARGET), project.folder.path().join("target")).expect("a link to the products");
        project.hotshoe(&["build"]);
        project
    }

    fn hotshoe(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(program());
        command.args(arguments).current_dir(self.folder.path()).env("XDG_CACHE_HOME", caches());
        let output = command.output();
        let output = output.expect("the program runs");
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(output.status.success(), "hotshoe {arguments:?}: {said}");
        said
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn sample(&self, kind: &Kind) -> Value {
        let singular = kind.kind.to_lowercase();
        let sample = fs::read_to_string(self.path(&format!("crds/samples/made_v1alpha1_{singular}.yaml")));
        serde_saphyr::from_str(&sample.expect("the sample is read")).expect("the sample is YAML")
    }
}

/// Checks that the sample becomes available, can be scaled, and is deleted with all its children.
async fn serves(project: &Project, kind: Kind) {
    let plane = ControlPlane::shared().await;
    let folder = project.path("plugins").join(&project.plugin);
    let crd = project.path(&format!("crds/made.example.org_{}.yaml", kind.plural));
    let kubeconfig = plane.install_plugin(&folder, crd.to_str().expect("a path in UTF-8")).await;
    let mut scene = Scene::new(plane, &project.plugin).await;
    let host = scene.start().await.plugins(&[&folder]).kubeconfig(&kubeconfig).ready().await;
    scene.watch_log(&host);

    let name = format!("{}-sample", kind.kind.to_lowercase());
    scene.create(project.sample(&kind)).await;
    let object = scene.until_condition_of(&kind, &name, "Available", "True", "PodsReady").await;
    assert_eq!(condition_parts(&object, "Degraded"), ("False", "AsDesired", "every write was taken"));
    assert_eq!(object["status"]["observedGeneration"], object["metadata"]["generation"], "{object:#}");
    assert_eq!(kstatus(&object), Kstatus::Current, "{object:#}");

    // As `kubectl scale` does it.
    let scale = json!({ "spec": { "replicas": 3 } });
    let path = kind.path(&scene.namespace, Some(&format!("{name}/scale")));
    let patched = scene.admin.request(http::Method::PATCH, &path, "application/merge-patch+json", &scale).await;
    patched.expect("it can be scaled");
    let is_scaled = |object: &Value| condition_parts(object, "Available").2 == "3 of 3 Pods are ready";
    let object = scene.until_object(&kind, &name, "has three Pods", is_scaled).await;
    let selector = object["status"]["selector"].as_str().unwrap_or_default();
    assert!(selector.contains(&format!("app.kubernetes.io/instance={name}")), "{selector}");

    scene.delete(&kind, &name).await;
    scene.gone(&kind, &name).await;
    scene.gone(&DEPLOYMENT, &name).await;
}

#[test]
fn a_project_in_rust_goes_from_nothing_to_available() {
    let project = Project::new("rust", "sdk");
    run(serves(&project, MADE_RUST));
}

#[test]
fn a_project_in_python_goes_from_nothing_to_available() {
    let project = Project::new("python", "sdk-python");
    run(serves(&project, MADE_PYTHON));
}

#[test]
fn a_project_in_javascript_goes_from_nothing_to_available() {
    let project = Project::new("js", "sdk-js");
    run(serves(&project, MADE_JS));
}

#[test]
fn a_project_with_webhooks_in_python_passes_its_tests_as_it_is() {
    passes_with_webhooks("python", "sdk-python");
}

#[test]
fn a_project_with_webhooks_in_javascript_passes_its_tests_as_it_is() {
    passes_with_webhooks("js", "sdk-js");
}

/// Checks a project with every webhook: all of its cases but the one that the CRD refuses are in the component, and the
/// round trips of its two versions are tried.
fn passes_with_webhooks(language: &str, sdk: &str) {
    let port = ["--image", "memcached:1.6", "--image-container-port", "11211"];
    let options = [&["--webhooks", "validation,defaulting,conversion"], &port[..]].concat();
    // The products of all projects are in one folder.
    let project = Project::made(format!("asked-{language}"), language, sdk, &options);
    let tested = project.hotshoe(&["test"]);
    assert!(!tested.contains("FAIL") && !tested.contains("warning"), "{tested}");
    for tried in [
        "more Pods than the configuration allows are refused",
        "one that has too many already may be made smaller",
        "a negative number of Pods is refused before the plugin is asked",
        "the label is filled in",
        "valid by its CRD: ",
        "v1beta1 → v1alpha1 → v1beta1: ",
        "v1alpha1 → v1beta1 → v1alpha1: ",
        "defaults filled in twice: ",
    ] {
        assert!(tested.contains(&format!("ok   {tried}")), "{tried} is not among\n{tested}");
    }
    // How many there are depends on the time that is left for them.
    assert_eq!(tested.matches(" objects made from crds/").count(), 2, "{tested}");
    let built = project.hotshoe(&["build"]);
    assert!(built.contains(", 7 cases"), "{built}");
}

/// A recipe that runs a host, with all its processes. They are killed when this value is dropped.
struct Recipe(Host);

impl Recipe {
    /// Runs a recipe of a project as its author does, who is the administrator of the cluster.
    fn run(project: &Project, plane: &ControlPlane, words: &[&str]) -> Self {
        let programs = [repository("target/control-plane/bin"), repository("target/tools/bin")];
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths(programs.into_iter().chain(std::env::split_paths(&path)));
        let mut just = Command::new("just");
        just.arg("--justfile").arg(project.path("justfile")).args(words).process_group(0);
        just.env("PATH", path.expect("folders without colons")).env("HOTSHOE", program());
        just.env("XDG_CACHE_HOME", caches()).env("KUBECONFIG", plane.file("kubeconfig"));
        in_session_of_tests(&mut just);
        Self(Host::spawn(just))
    }
}

impl Drop for Recipe {
    fn drop(&mut self) {
        // Where one of these fails, the processes have ended.
        drop(Command::new("kill").args(["-9", "--", &format!("-{}", self.0.process())]).status());
    }
}

#[test]
fn the_recipe_run_of_a_project_applies_its_crds_and_rights_and_serves_its_samples() {
    let project = Project::new("rust", "sdk");
    run_alone(async {
        let plane = ControlPlane::alone().await;
        let scene = Scene::new(plane, "recipe").await;
        let host = Recipe::run(&project, plane, &["run", "--listen", "127.0.0.1:0"]);
        host.0.ready().await;
        scene.create(project.sample(&MADE_RUST)).await;
        scene.until_condition_of(&MADE_RUST, "maderust-sample", "Available", "True", "PodsReady").await;
        scene.delete(&MADE_RUST, "maderust-sample").await;
        scene.gone(&MADE_RUST, "maderust-sample").await;
    });
}
