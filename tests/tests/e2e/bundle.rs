//! The bundle for the Operator Lifecycle Manager (OLM): valid by the Operator Framework's own validators, accepted by a
//! control plane, and with exactly what `hotshoe manifests` prints.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use hotshoe_tests::guests::{self, shipped};
use hotshoe_tests::host::program;
use hotshoe_tests::kube::documents;
use hotshoe_tests::{ControlPlane, Scene, repository, run};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The namespace of the host, unless an option says another.
const SYSTEM: &str = "hotshoe-system";

/// Returns the output of the validators about a folder, or of what else they are asked.
fn validator(argument: &Path) -> Output {
    let program = repository("target/tools/bin/bundle-validator");
    assert!(program.exists(), "{} is missing; build it with tests/bundle.sh", program.display());
    Command::new(program).arg(argument).output().expect("the validators run")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&*output.stdout, &*output.stderr].concat()).into_owned()
}

/// A folder with the components of some plugins, and with what is made of them.
pub(crate) struct Project {
    folder: TempDir,
    plugins: Vec<String>,
}

impl Project {
    pub(crate) fn of(plugins: &[&'static str]) -> Self {
        let folder = TempDir::new().expect("a folder");
        for name in plugins {
            let component = format!("{name}.wasm");
            fs::copy(guests::plugin(name).join(&component), folder.path().join(&component)).expect("a component");
        }
        Self { folder, plugins: plugins.iter().map(|name| format!("plugins/{name}")).collect() }
    }

    /// Runs `hotshoe manifests` about the plugins, in the root of the repository, where their definitions are.
    fn manifests(&self, options: &[&str]) -> Output {
        let mut command = Command::new(program());
        command.arg("manifests").args(&self.plugins).args(options).current_dir(repository(""));
        match self.plugins.is_empty() {
            true => command.arg("--objects"),
            false => command.arg("--components").arg(self.folder.path()).arg("--offline"),
        };
        command.output().expect("the program runs")
    }

    fn printed(&self, options: &[&str]) -> Vec<Value> {
        let output = self.manifests(options);
        assert!(output.status.success(), "{}", said(&output));
        documents(&String::from_utf8_lossy(&output.stdout))
    }

    /// Writes a bundle, and returns its folder.
    pub(crate) fn bundle(&self, options: &[&str]) -> PathBuf {
        let folder = self.folder.path().join("bundle");
        drop(fs::remove_dir_all(&folder));
        let output = self.manifests(&[&["--bundle", &folder.display().to_string()], options].concat());
        assert!(output.status.success(), "{}", said(&output));
        folder
    }
}

/// Returns the objects of a bundle's manifests.
pub(crate) fn manifests(bundle: &Path) -> Vec<Value> {
    let entries =
        fs::read_dir(bundle.join("manifests")).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries.flat_map(|path| documents(&fs::read_to_string(path).expect("a file"))).collect()
}

/// Returns the ClusterServiceVersion of a bundle.
pub(crate) fn service_version(bundle: &Path) -> Value {
    let is_csv = |object: &Value| object["kind"] == "ClusterServiceVersion";
    manifests(bundle).into_iter().find(is_csv).expect("a ClusterServiceVersion")
}

pub(crate) fn items<'v>(object: &'v Value, pointer: &str) -> &'v [Value] {
    object.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns the objects that are in a cluster after an installation by OLM.
fn installed(bundle: &Path) -> Vec<Value> {
    let mut objects = documents(&fs::read_to_string(bundle.join("before.yaml")).expect("a file"));
    objects.retain(|object| object["kind"] != "OperatorGroup");
    for mut object in manifests(bundle) {
        match object["kind"].as_str().expect("a kind") {
            "ClusterServiceVersion" => objects.extend(installed_by(&object)),
            kind => {
                if !["ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"].contains(&kind) {
                    object["metadata"]["namespace"] = SYSTEM.into();
                }
                objects.push(object);
            }
        }
    }
    objects
}

/// Returns what OLM makes of a ClusterServiceVersion.
fn installed_by(csv: &Value) -> Vec<Value> {
    let mut objects = Vec::new();
    for (at, permission) in items(csv, "/spec/install/spec/clusterPermissions").iter().enumerate() {
        let (account, name) = (&permission["serviceAccountName"], format!("olm-{at}"));
        objects.push(json!({ "kind": "ServiceAccount", "metadata": { "name": account, "namespace": SYSTEM } }));
        objects.push(json!({ "kind": "ClusterRole", "metadata": { "name": name }, "rules": permission["rules"] }));
        objects.push(json!({
            "kind": "ClusterRoleBinding", "metadata": { "name": name },
            "roleRef": { "kind": "ClusterRole", "name": name },
            "subjects": [{ "kind": "ServiceAccount", "name": account, "namespace": SYSTEM }],
        }));
    }
    for deployment in items(csv, "/spec/install/spec/deployments") {
        let metadata = json!({ "name": deployment["name"], "namespace": SYSTEM, "labels": deployment["label"] });
        objects.push(
            json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": deployment["spec"] }),
        );
    }
    objects
}

/// Returns each rule of each account, with the namespace in which it holds.
fn rights(objects: &[Value]) -> BTreeSet<String> {
    let mut rights = BTreeSet::new();
    for binding in objects.iter().filter(|object| object["roleRef"].is_object()) {
        let namespace = &binding["metadata"]["namespace"];
        let is_role = |object: &&Value| {
            object["kind"] == binding["roleRef"]["kind"]
                && object["metadata"]["name"] == binding["roleRef"]["name"]
                && object["metadata"]["namespace"] == *namespace
        };
        let rules = objects.iter().filter(is_role).flat_map(|role| items(role, "/rules"));
        rights.extend(rules.map(|rule| format!("{} in {namespace}: {rule}", binding["subjects"])));
    }
    rights
}

/// Returns the objects that are neither accounts nor rights nor definitions.
fn others(objects: &[Value]) -> BTreeMap<String, &Value> {
    let is_other = |object: &&Value| {
        let kind = object["kind"].as_str().expect("a kind");
        !kind.contains("Role") && !["ServiceAccount", "CustomResourceDefinition"].contains(&kind)
    };
    let key = |object: &Value| {
        format!("{} {} {}", object["kind"], object["metadata"]["namespace"], object["metadata"]["name"])
    };
    objects.iter().filter(is_other).map(|object| (key(object), object)).collect()
}

fn accounts(objects: &[Value]) -> BTreeSet<&str> {
    let accounts = objects.iter().filter(|object| object["kind"] == "ServiceAccount");
    accounts.map(|account| account["metadata"]["name"].as_str().expect("a name")).collect()
}

/// The options of a host that is installed otherwise.
const OPTIONS: [&[&str]; 5] = [
    &[],
    &["--webhooks", "--metrics-secure"],
    &["--watch-namespace", "team-a"],
    &["--watch-namespace", "team-a,team-b"],
    &["--watch-namespace", "team-a", "--webhooks", "--env", "MEMCACHED_IMAGE=memcached:1.6-alpine"],
];

#[test]
fn the_bundle_of_each_shipped_plugin_and_of_all_of_them_is_valid() {
    let every = shipped();
    let mut choices: Vec<Vec<&'static str>> = every.iter().map(|name| vec![*name]).collect();
    choices.extend([Vec::new(), every]);
    for plugins in choices {
        let project = Project::of(&plugins);
        let bundle = project.bundle(&[]);
        let output = validator(&bundle);
        assert!(output.status.success(), "{plugins:?}: {}", said(&output));
        // Kinds of Kubernetes itself are owned by none.
        let csv = service_version(&bundle);
        let owned = items(&csv, "/spec/customresourcedefinitions/owned");
        let definitions =
            manifests(&bundle).iter().filter(|object| object["kind"] == "CustomResourceDefinition").count();
        assert_eq!(owned.is_empty(), definitions == 0, "{plugins:?}");
        for kind in owned {
            let described = kind["displayName"].as_str().is_some_and(|name| !name.is_empty())
                && kind["description"].as_str().is_some_and(|text| !text.is_empty());
            assert!(described && !items(kind, "/specDescriptors").is_empty(), "{kind:#}");
        }
    }
}

#[test]
fn an_installation_by_a_bundle_has_exactly_what_hotshoe_manifests_prints() {
    for plugins in [&["memcached"][..], &["memcached", "tenant", "pdb", "redis"], &[]] {
        let project = Project::of(plugins);
        for options in OPTIONS {
            let (installed, printed) = (installed(&project.bundle(options)), project.printed(options));
            assert_eq!(rights(&installed), rights(&printed), "{plugins:?} {options:?}");
            assert_eq!(others(&installed), others(&printed), "{plugins:?} {options:?}");
            assert_eq!(accounts(&installed), accounts(&printed), "{plugins:?} {options:?}");
        }
    }
}

#[test]
fn each_option_of_an_installation_gives_a_valid_bundle_that_olm_installs_for_the_same_namespaces() {
    let project = Project::of(&["memcached"]);
    for options in OPTIONS {
        let bundle = project.bundle(options);
        let output = validator(&bundle);
        assert!(output.status.success(), "{options:?}: {}", said(&output));
        let csv = service_version(&bundle);
        let modes = items(&csv, "/spec/installModes").iter().filter(|mode| mode["supported"] == true);
        let modes: Vec<&Value> = modes.map(|mode| &mode["type"]).collect();
        let before = documents(&fs::read_to_string(bundle.join("before.yaml")).expect("a file"));
        let group = before.iter().find(|object| object["kind"] == "OperatorGroup").expect("an OperatorGroup");
        let (mode, selected) = match options.iter().find(|option| option.starts_with("team-")) {
            Some(several) if several.contains(',') => {
                ("MultiNamespace", json!({ "targetNamespaces": ["team-a", "team-b"] }))
            }
            Some(_) => ("SingleNamespace", json!({ "targetNamespaces": ["team-a"] })),
            None => ("AllNamespaces", json!({})),
        };
        assert_eq!((modes, &group["spec"]), (vec![&json!(mode)], &selected), "{options:?}");
    }
}

#[test]
fn what_is_wrong_in_a_bundle_is_found() {
    let project = Project::of(&["memcached"]);
    const CSV: &str = "manifests/memcached.clusterserviceversion.yaml";
    const DEFINITION: &str = "manifests/cache.example.com_memcacheds.yaml";
    let replaced = |from: &'static str, to: &'static str| {
        move |bundle: &Path| {
            let text = fs::read_to_string(bundle.join(CSV)).expect("a file");
            assert!(text.contains(from), "{from} is not in {text}");
            fs::write(bundle.join(CSV), text.replace(from, to)).expect("it is written");
        }
    };
    let added = |text: &'static str| {
        move |bundle: &Path| fs::write(bundle.join("manifests/added.yaml"), text).expect("it is written")
    };
    type Break = Box<dyn Fn(&Path)>;
    let wrong: [(Break, &str); 7] = [
        (Box::new(|bundle| fs::remove_file(bundle.join(DEFINITION)).expect("it is there")), "not found in bundle"),
        (Box::new(|bundle| fs::remove_file(bundle.join(CSV)).expect("it is there")), "unable to find a csv"),
        (
            Box::new(|bundle| fs::remove_file(bundle.join("metadata/annotations.yaml")).expect("it is there")),
            "annotations.yaml",
        ),
        (Box::new(replaced("kind: Memcached\n", "kind: Memcache\n")), "owned CRD"),
        (Box::new(replaced("\"kind\": \"Memcached\"", "\"kind\": \"Memcache\"")), "example must have a provided API"),
        (Box::new(added("apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n")), "OLM installs no Namespace"),
        (
            Box::new(added("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: hotshoe}\n")),
            "invalid service account",
        ),
    ];
    for (break_it, words) in wrong {
        let bundle = project.bundle(&[]);
        break_it(&bundle);
        let output = validator(&bundle);
        assert!(!output.status.success() && said(&output).contains(words), "{words}: {}", said(&output));
    }
}

/// Returns whether an object has all of another one. The API server adds defaults.
fn has(object: &Value, other: &Value) -> bool {
    match (object, other) {
        (Value::Object(members), Value::Object(others)) => {
            others.iter().all(|(name, other)| members.get(name).is_some_and(|member| has(member, other)))
        }
        (Value::Array(items), Value::Array(others)) => {
            items.len() == others.len() && items.iter().zip(others).all(|(item, other)| has(item, other))
        }
        (object, other) => object == other,
    }
}

#[test]
fn a_control_plane_accepts_every_object_of_a_bundle() {
    run(async {
        let scene = Scene::new(ControlPlane::shared().await, "bundle").await;
        let definitions = validator(Path::new("--definitions"));
        assert!(definitions.status.success(), "{}", said(&definitions));
        let folder = TempDir::new().expect("a folder");
        for (at, definition) in documents(&String::from_utf8_lossy(&definitions.stdout)).iter().enumerate() {
            let file = folder.path().join(format!("{at}.json"));
            fs::write(&file, definition.to_string()).expect("it is written");
            scene.plane.install_definition(&file).await;
        }
        let project = Project::of(&["memcached", "backup"]);
        let namespace = scene.namespace.as_str();
        let bundle = project.bundle(&["--namespace", namespace, "--webhooks", "--metrics-secure"]);
        for file in [bundle.join("manifests"), bundle.join("before.yaml")] {
            let mut objects = match file.is_dir() {
                true => manifests(&bundle),
                false => documents(&fs::read_to_string(&file).expect("a file")),
            };
            objects.iter_mut().filter(|object| object["metadata"]["namespace"] == "placeholder").for_each(|csv| {
                csv["metadata"]["namespace"] = namespace.into();
            });
            for object in objects {
                let file = folder.path().join("object.json");
                fs::write(&file, object.to_string()).expect("it is written");
                let file = file.display().to_string();
                let dry = ["apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", &file];
                let output = scene.kubectl(&dry);
                assert!(output.status.success() && !said(&output).contains("Warning"), "{}\n{object:#}", said(&output));
            }
        }
        // Not only in a dry run: a field that OLM's schema does not know would be dropped.
        let mut csv = service_version(&bundle);
        csv["metadata"]["namespace"] = namespace.into();
        let file = folder.path().join("csv.json");
        fs::write(&file, csv.to_string()).expect("it is written");
        let output = scene.kubectl(&["create", "-o", "json", "-f", &file.display().to_string()]);
        let created: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(&output)));
        assert!(has(&created, &csv), "the API server has dropped a part of {csv:#}\n{created:#}");
    });
}

#[test]
fn what_people_read_is_taken_from_the_file_of_an_author_and_nothing_else_is() {
    let project = Project::of(&["memcached"]);
    let file = project.folder.path().join("base.yaml");
    let author = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": { "name": "other.v9.9.9", "annotations": { "categories": "Database", "support": "Example" } },
        "spec": {
            "displayName": "Fast caches", "provider": { "name": "Example" }, "version": "9.9.9", "replaces": "caches.v1.0.0",
            "maintainers": [{ "name": "Ann", "email": "ann@example.com" }],
            "installModes": [{ "type": "OwnNamespace", "supported": true }],
            "install": { "strategy": "deployment", "spec": { "deployments": [{ "name": "other" }] } },
            "customresourcedefinitions": { "owned": [
                { "name": "memcacheds.cache.example.com", "version": "v1alpha1", "kind": "Memcached", "displayName": "A cache" },
            ] },
        },
    });
    fs::write(&file, author.to_string()).expect("it is written");
    let options = ["--csv", &file.display().to_string(), "--package", "caches", "--bundle-version", "1.2.3"];
    let bundle = project.bundle(&[&options[..], &["--channel", "stable", "--channel", "fast"]].concat());
    let output = validator(&bundle);
    assert!(output.status.success(), "{}", said(&output));
    let csv = service_version(&bundle);
    for (pointer, expected) in [
        ("/metadata/name", "caches.v1.2.3"),
        ("/metadata/annotations/categories", "Database"),
        ("/spec/displayName", "Fast caches"),
        ("/spec/version", "1.2.3"),
        ("/spec/replaces", "caches.v1.0.0"),
        ("/spec/maintainers/0/name", "Ann"),
        ("/spec/minKubeVersion", "1.30.0"),
        ("/spec/install/spec/deployments/0/name", "hotshoe"),
    ] {
        assert_eq!(csv.pointer(pointer).and_then(Value::as_str), Some(expected), "{pointer}");
    }
    let owned = items(&csv, "/spec/customresourcedefinitions/owned");
    let titles: BTreeSet<(&str, &str)> = owned
        .iter()
        .map(|kind| (kind["version"].as_str().expect("a version"), kind["displayName"].as_str().expect("a name")))
        .collect();
    assert_eq!(titles, BTreeSet::from([("v1", "Memcached"), ("v1alpha1", "A cache")]));
    let annotations = fs::read_to_string(bundle.join("metadata/annotations.yaml")).expect("a file");
    let labels = fs::read_to_string(bundle.join("bundle.Dockerfile")).expect("a file");
    assert!(
        annotations.contains("bundle.channels.v1: \"stable,fast\"")
            || annotations.contains("bundle.channels.v1: stable,fast"),
        "{annotations}"
    );
    for label in ["channels.v1=stable,fast", "channel.default.v1=stable", "package.v1=caches"] {
        assert!(labels.contains(&format!("LABEL operators.operatorframework.io.bundle.{label}\n")), "{labels}");
    }
    let examples: Vec<Value> =
        serde_json::from_str(csv["metadata"]["annotations"]["alm-examples"].as_str().expect("examples")).expect("JSON");
    assert!(examples.len() == 2 && examples.iter().all(|example| example["kind"] == "Memcached"), "{examples:#?}");
}

#[test]
fn a_bundle_is_refused_where_it_would_not_be_what_is_meant() {
    let project = Project::of(&["memcached"]);
    let bundle = project.bundle(&[]);
    let folder = bundle.display().to_string();
    fs::write(bundle.join("manifests/old.yaml"), "kind: Secret\n").expect("it is written");
    let refused = project.manifests(&["--bundle", &folder]);
    assert!(
        !refused.status.success() && said(&refused).contains("old.yaml is no part of this bundle"),
        "{}",
        said(&refused)
    );
    let file = project.folder.path().join("base.yaml");
    let owned = json!({ "owned": [{ "name": "others.example.com", "version": "v1" }] });
    let author = json!({ "kind": "ClusterServiceVersion", "spec": { "customresourcedefinitions": owned } });
    fs::write(&file, author.to_string()).expect("it is written");
    let other = project.folder.path().join("other").display().to_string();
    let refused = project.manifests(&["--bundle", &other, "--csv", &file.display().to_string()]);
    assert!(!refused.status.success() && said(&refused).contains("owns others.example.com"), "{}", said(&refused));
    for options in
        [["--bundle-version", "1.2"], ["--bundle-version", "01.2.3"], ["--package", "Caches"], ["--channel", ""]]
    {
        let refused = project.manifests(&[&["--bundle", &other], &options[..]].concat());
        assert_eq!(refused.status.code(), Some(2), "{options:?}: {}", said(&refused));
    }
    assert!(!Path::new(&other).exists());
}
