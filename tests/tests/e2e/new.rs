//! Projects of `hotshoe new`, from nothing to Pods that run, with nothing of this repository but the program and the
//! SDK. Those that go the whole way have nothing but files of the release: the installed program and the packed SDK.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use hotshoe_tests::guests::caches;
use hotshoe_tests::host::{in_session_of_tests, program};
use hotshoe_tests::kinds::{
    CONFIG_MAP, DEPLOYMENT, IDLE_JS, Kind, MADE_JS, MADE_PYTHON, MADE_RUST, SENT_JS, STATEFUL_SET, TIER_JS,
};
use hotshoe_tests::kstatus::{Kstatus, kstatus};
use hotshoe_tests::release::{VERSION, artefact, installed_program, release, unpacked_crate};
use hotshoe_tests::scene::condition_parts;
use hotshoe_tests::{ControlPlane, Host, Scene, repository, run};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::alone::run_alone;

/// The build folder and the tools folder that the projects of all tests share.
const TARGET: &str = "target/tests/new";
const TOOLS: &str = "target/tools";

/// A project with one plugin, in a folder of its own.
pub(crate) struct Project {
    folder: TempDir,
    plugin: String,
    program: PathBuf,
    /// What the author has in the environment.
    environment: Vec<(&'static str, PathBuf)>,
}

impl Project {
    /// Creates, builds and tests a project by the files of the release alone, with another group and domain than those of
    /// the plugins in this repository. It depends on the SDK as if that were published.
    fn of_release(language: &str) -> Self {
        // pip takes the wheel from there, and asks no index.
        let environment = vec![("PIP_FIND_LINKS", release().to_owned()), ("PIP_NO_INDEX", PathBuf::from("1"))];
        let project = Self::empty(installed_program(), format!("made-{language}"), environment);
        project.create(&project.plugin, language, "released", &["--group", "made"]);
        match language {
            "rust" => patch_crates(&project.path("Cargo.toml")),
            "js" => install_package(&project.path("plugins/made-js")),
            _ => {}
        }
        project.build();
        let tested = project.hotshoe(&["test"]);
        assert!(tested.contains("8 passed, 0 failed"), "{tested}");
        project
    }

    /// Creates and builds a project of this plugin, with these options.
    pub(crate) fn made(plugin: String, language: &str, sdk: &str, options: &[&str]) -> Self {
        let project = Self::empty(&program(), plugin, Vec::new());
        project.add(&project.plugin, language, sdk, &[&["--group", "made"], options].concat());
        project.build();
        project
    }

    fn empty(program: &Path, plugin: String, environment: Vec<(&'static str, PathBuf)>) -> Self {
        Self { folder: TempDir::new().expect("a folder"), plugin, program: program.to_owned(), environment }
    }

    /// Builds it, with the products and the tools that the projects of all tests share.
    fn build(&self) {
        for folder in [TARGET, TOOLS] {
            fs::create_dir_all(repository(folder)).expect("a folder for products");
        }
        // The test that comes first creates it.
        drop(symlink(repository(TOOLS), repository(TARGET).join("tools")));
        symlink(repository(TARGET), self.path("target")).expect("a link to the products");
        self.hotshoe(&["build"]);
    }

    /// Adds a plugin, and returns what is printed. Those in Rust depend on the SDK of this repository, which is compiled
    /// once for all tests; the others have its sources, as they have where nothing is said.
    fn add(&self, plugin: &str, language: &str, sdk: &str, options: &[&str]) -> String {
        let of_repository = repository("plugins").join(sdk).display().to_string();
        self.create(plugin, language, if language == "rust" { &of_repository } else { "vendored" }, options)
    }

    fn create(&self, plugin: &str, language: &str, sdk: &str, options: &[&str]) -> String {
        let names = ["new", plugin, "--domain", "example.org", "--lang", language, "--sdk", sdk];
        self.hotshoe(&[&names[..], options].concat())
    }

    /// Creates a project with a plugin of each form other than the default, whose names end in the language. Each is built
    /// and passes its cases.
    fn of_each_form(language: &str, sdk: &str) -> Self {
        let project = Self::made(format!("idle-{language}"), language, sdk, &["--empty"]);
        let [idle, tier, audit] = ["idle", "tier", "audit"].map(|name| format!("{name}-{language}"));
        let said = project.add(&tier, language, sdk, &["--group", "made", "--cluster-scoped"]);
        assert!(said.contains("in the namespace that its spec names"), "{said}");
        let said = project.add(&audit, language, sdk, &["--parent", "apps/v1/StatefulSet"]);
        assert!(said.contains("create, update and delete ConfigMaps"), "{said}");
        for (plugin, passed) in [(idle, "3 passed"), (tier, "8 passed"), (audit, "3 passed")] {
            let folder = format!("plugins/{plugin}");
            project.hotshoe(&["build", &folder]);
            let tested = project.hotshoe(&["test", &folder]);
            assert!(tested.contains(&format!("{passed}, 0 failed")) && !tested.contains("warning"), "{tested}");
            project.hotshoe(&["grants", &folder]);
        }
        project
    }

    pub(crate) fn hotshoe(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(&self.program);
        command.args(arguments).current_dir(self.folder.path()).env("XDG_CACHE_HOME", caches());
        command.envs(self.environment.iter().cloned());
        // The hosts of other tests compile components only where no compiler wants the processors.
        command.env("CARGO_BUILD_JOBS", "1");
        let output = command.output();
        let output = output.expect("the program runs");
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(output.status.success(), "hotshoe {arguments:?}: {said}");
        said
    }

    /// Runs the tests that the author of a plugin in Python or JavaScript runs, and returns what they print.
    fn own_tests(&self) -> String {
        let output = self.just(&["test-logic"]).env("PYTEST_ADDOPTS", "-vv").output().expect("just runs");
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success(), "{said}");
        said
    }

    /// Returns a recipe of this project as its author runs it, who is the administrator of the cluster.
    fn recipe(&self, plane: &ControlPlane, words: &[&str]) -> Command {
        let mut just = self.just(words);
        just.env("KUBECONFIG", plane.file("kubeconfig"));
        just
    }

    fn just(&self, words: &[&str]) -> Command {
        let programs = [repository("target/control-plane/bin"), repository("target/tools/bin")];
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths(programs.into_iter().chain(std::env::split_paths(&path)));
        let mut just = Command::new("just");
        just.arg("--justfile").arg(self.path("justfile")).args(words);
        just.env("PATH", path.expect("folders without colons")).env("HOTSHOE", &self.program);
        just.env("XDG_CACHE_HOME", caches()).envs(self.environment.iter().cloned());
        just
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    pub(crate) fn sample(&self, kind: &Kind) -> Value {
        let singular = kind.kind.to_lowercase();
        let sample = fs::read_to_string(self.path(&format!("crds/samples/made_v1alpha1_{singular}.yaml")));
        serde_saphyr::from_str(&sample.expect("the sample is read")).expect("the sample is YAML")
    }
}

/// Has the crates of the release stand in for the registry, which has none of them yet.
fn patch_crates(manifest: &Path) {
    let text = fs::read_to_string(manifest).expect("a manifest");
    let (sdk, crd) = (unpacked_crate("hotshoe-sdk"), unpacked_crate("hotshoe-crd"));
    let patch = format!("[patch.crates-io]\nhotshoe-sdk = {{ path = {sdk:?} }}\nhotshoe-crd = {{ path = {crd:?} }}\n");
    fs::write(manifest, format!("{text}\n{patch}")).expect("a manifest");
}

/// Installs the package of the release beside a plugin, where npm would put that of the registry.
fn install_package(plugin: &Path) {
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-save", "--prefer-offline", "--no-audit", "--no-fund"]).current_dir(plugin);
    let output = npm.arg(artefact(&format!("hotshoe-sdk-{VERSION}"), ".tgz")).output().expect("npm runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Checks that the sample becomes available, can be scaled, and is deleted with all its children.
async fn serves(project: &Project, kind: Kind) {
    let plane = ControlPlane::shared().await;
    let folder = project.path("plugins").join(&project.plugin);
    let crd = project.path(&format!("crds/made.example.org_{}.yaml", kind.plural));
    let kubeconfig = plane.install_plugin(&folder, crd.to_str().expect("a path in UTF-8")).await;
    let mut scene = Scene::new(plane, &project.plugin).await;
    let start = scene.start().await.program(&project.program).plugins(&[&folder]).kubeconfig(&kubeconfig);
    let host = start.ready().await;
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
    let deleting = format!("Custom Resource {name} is being deleted from the namespace {}", scene.namespace);
    assert_eq!(scene.event(&name, "Deleting", &deleting).await["type"], "Warning");
}

#[test]
fn a_project_in_rust_goes_from_nothing_to_available() {
    let project = Project::of_release("rust");
    run(serves(&project, MADE_RUST));
}

#[test]
fn a_project_in_python_goes_from_nothing_to_available() {
    let project = Project::of_release("python");
    run(serves(&project, MADE_PYTHON));
}

#[test]
fn a_project_in_javascript_goes_from_nothing_to_available() {
    let project = Project::of_release("js");
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
        "more Pods than the kind allows are refused before the plugin is asked",
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
    assert!(built.contains(", 8 cases"), "{built}");
    // Its own tests: the logic natively, and the component by the program.
    let own = project.own_tests();
    let lines = ["the component: available", "the component: what must hold besides", "test_component[available]"];
    assert!(lines.iter().any(|line| own.contains(line)), "{own}");
}

#[test]
fn a_project_in_python_has_plugins_of_each_form_that_pass_their_cases() {
    Project::of_each_form("python", "sdk-python");
}

#[test]
fn one_host_serves_plugins_of_each_form_with_the_samples_of_their_project() {
    let project = Project::of_each_form("js", "sdk-js");
    run_alone(async {
        let plane = ControlPlane::alone().await;
        let mut scene = Scene::new(plane, "forms").await;
        let host = Recipe::run(&project, plane, &["run", "--listen", "127.0.0.1:0"]);
        scene.watch_log(&host.0);
        host.0.ready().await;
        let samples = project.path("crds/samples").display().to_string();
        let applied = scene.kubectl(&["apply", "-f", &samples]);
        assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));

        scene.until_condition_of(&IDLE_JS, "idlejs-sample", "Available", "Unknown", "NothingMade").await;

        let has_message = |object: &Value| object["data"]["message"] == "good morning";
        let made = scene.until_object(&CONFIG_MAP, "audit-js-sample-audit-js", "has the message", has_message).await;
        assert_eq!(made["metadata"]["ownerReferences"][0]["kind"], "StatefulSet", "{made:#}");
        let label = json!({ "metadata": { "labels": { "audit-js.example.org/enabled": null } } });
        scene.merge(&STATEFUL_SET, "audit-js-sample", label).await;
        scene.gone(&CONFIG_MAP, "audit-js-sample-audit-js").await;

        // From the namespace of the sample into another one.
        let elsewhere = json!({ "spec": { "namespace": scene.namespace } });
        scene.admin.merge(&TIER_JS, "", "tierjs-sample", &elsewhere).await.expect("another namespace");
        scene.until_object(&DEPLOYMENT, "tierjs-sample", "is there", |_| true).await;
        scene
            .until("one Deployment is left, and available", async || {
                let tier = scene.admin.get(&TIER_JS, "", "tierjs-sample").await.map_err(|refused| refused.message)?;
                let before = scene.admin.get(&DEPLOYMENT, "default", "tierjs-sample").await;
                let is_done = condition_parts(&tier, "Available").0 == "True" && before.is_err();
                if is_done { Ok(()) } else { Err(format!("{:#}", tier["status"])) }
            })
            .await;
        scene.admin.delete(&TIER_JS, "", "tierjs-sample").await.expect("a deletion");
        scene.gone(&DEPLOYMENT, "tierjs-sample").await;
    });
}

/// A recipe that runs a host, with all its processes. They are killed when this value is dropped.
struct Recipe(Host);

impl Recipe {
    /// Runs a recipe of a project.
    fn run(project: &Project, plane: &ControlPlane, words: &[&str]) -> Self {
        let mut just = project.recipe(plane, words);
        just.process_group(0);
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
    let project = Project::of_release("rust");
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

#[test]
fn the_recipes_deploy_and_undeploy_of_a_project_apply_all_of_a_host_and_leave_nothing() {
    let project = Project::made("sent-js".to_owned(), "js", "sdk-js", &[]);
    run_alone(async {
        let plane = ControlPlane::alone().await;
        let scene = Scene::new(plane, "sent").await;
        let just = |words: &[&str]| {
            let output = project.recipe(plane, words).output().expect("just runs");
            assert!(output.status.success(), "just {words:?}: {}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).expect("UTF-8")
        };
        let host = just(&["--evaluate", "project"]);
        let left = |what: &str| {
            let listed = scene.kubectl(&["get", what, "--all-namespaces", "--output", "name"]);
            String::from_utf8_lossy(&listed.stdout).lines().filter(|line| line.contains(&host)).count()
        };
        let kinds = ["namespaces", "clusterroles", "clusterrolebindings", "validatingadmissionpolicies"];
        just(&["deploy", "registry.example.com/operator:1"]);
        assert!(kinds.map(left).iter().all(|count| *count > 0), "{:?} of {kinds:?}", kinds.map(left));
        let deployed = plane.admin.get(&DEPLOYMENT, &host, "hotshoe").await.expect("the Deployment of the host");
        let pod = &deployed["spec"]["template"]["spec"];
        assert_eq!(pod["containers"][0]["image"], "registry.example.com/operator:1", "{pod:#}");
        assert_eq!(pod["serviceAccountName"], host.as_str());
        let lease = json!({ "name": "HOTSHOE_LEASE_NAME", "value": host });
        assert!(pod["containers"][0]["env"].as_array().is_some_and(|env| env.contains(&lease)), "{pod:#}");
        // Its kind is there, and applied again it is as it was.
        just(&["install"]);
        scene.create(project.sample(&SENT_JS)).await;
        just(&["undeploy"]);
        assert_eq!(kinds.map(left), [0; 4], "{kinds:?}");
        assert!(!scene.kubectl(&["get", SENT_JS.plural]).status.success(), "the kind is gone");
        just(&["undeploy"]);
    });
}
