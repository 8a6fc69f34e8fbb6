//! `hotshoe new`, `hotshoe crd` and `hotshoe doctor` as a user types them. The end-to-end tests run the projects of all
//! languages on a cluster; here a crate is created, built and tested.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::plugin_support::{HOTSHOE, folder};

fn hotshoe(dir: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(HOTSHOE);
    command.args(arguments).current_dir(dir).env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
    command.output().unwrap()
}

fn cargo(dir: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO"));
    // The tests of a project run the components of its plugins.
    command.env("HOTSHOE", HOTSHOE).env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
    command.args(arguments).current_dir(dir).output().unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn sdk(folder: &str) -> String {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../../plugins", folder].iter().collect();
    path.canonicalize().unwrap().display().to_string()
}

/// Returns all files below a folder, except those of version control and builds.
fn files(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![dir.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() && !path.is_symlink() {
                true => open.push(path),
                false => found.push(path.strip_prefix(dir).unwrap().display().to_string()),
            }
        }
    }
    found.sort();
    found
}

#[test]
fn a_project_in_rust_builds_passes_its_tests_and_takes_a_second_kind() {
    let dir = folder();
    let project = dir.path();
    let options =
        ["--image-container-command", "memcached,-m=64", "--image-container-port", "11211", "--run-as-user", "1001"];
    let mut new = vec!["new", "my-cache", "--domain", "example.org", "--image", "memcached:1.6"];
    new.extend(options);
    let made = hotshoe(project, &new);
    assert!(made.status.success(), "{}", said(&made));
    assert!(
        said(&made).contains("made the plugin my-cache, of MyCache in my-cache.example.org/v1alpha1"),
        "{}",
        said(&made)
    );
    assert!(said(&made).contains("kubectl apply -f crds/samples/"), "{}", said(&made));
    // Nothing names a folder of this machine: a clone builds elsewhere.
    let here = [project.to_str().unwrap(), env!("CARGO_MANIFEST_DIR").trim_end_matches("/host/hotshoe")];
    let names_place = |path: &String| {
        fs::read_to_string(project.join(path)).is_ok_and(|text| here.iter().any(|place| text.contains(place)))
    };
    let naming: Vec<_> = files(project).into_iter().filter(names_place).collect();
    assert_eq!(naming, [] as [&str; 0]);
    // The build folder is kept for the next run of this test.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("new");
    fs::create_dir_all(&target).unwrap();
    symlink(&target, project.join("target")).unwrap();
    let more: [(&str, &[&str], &str); 8] = [
        ("my-cache", &[], "5 cases"),
        ("web", &["--kind", "WebServer", "--group", "web", "--domain", "example.net", "--version", "v1"], "5 cases"),
        // The API server refuses the object of another one, so that no component carries it.
        ("store", &["--webhooks", "validation,defaulting,conversion"], "8 cases"),
        ("idle", &["--empty"], "1 case"),
        ("tier", &["--cluster-scoped", "--webhooks", "validation,defaulting,conversion"], "8 cases"),
        ("audit", &["--parent", "apps/v1/StatefulSet"], "2 cases"),
        ("mark", &["--parent", "v1/Node"], "2 cases"),
        ("look", &["--parent", "example.com/v1/Widget", "--empty"], "1 case"),
    ];
    for (plugin, options, cases) in more {
        if !options.is_empty() {
            let more = hotshoe(project, &[&["new", plugin, "--yes"], options].concat());
            assert!(more.status.success(), "{}", said(&more));
        }
        let path = format!("plugins/{plugin}");
        let built = hotshoe(project, &["build", &path]);
        assert!(built.status.success() && said(&built).contains(cases), "{}", said(&built));
        let tested = hotshoe(project, &["test", &path]);
        assert!(tested.status.success() && said(&tested).contains(" passed, 0 failed"), "{}", said(&tested));
        // The definition of a kind of others is not here, so that its objects are not checked.
        assert_eq!(said(&tested).contains("warning"), plugin == "look", "{}", said(&tested));
        let converts = said(&tested).contains("ok   v1beta1 → v1alpha1 → v1beta1: 300 objects made");
        assert_eq!(converts, ["store", "tier"].contains(&plugin), "{}", said(&tested));
        let granted = hotshoe(project, &["grants", &path]);
        assert!(granted.status.success(), "{}", said(&granted));
    }
    let native = cargo(project, &["test", "--quiet", "--offline", "--locked", "--target-dir", "target/guests"]);
    assert!(native.status.success(), "{}", said(&native));
    let case = project.join("plugins/idle/cases/first-sight.yaml");
    let wrong = fs::read_to_string(&case).unwrap().replace("NothingMade", "SomethingMade");
    fs::write(&case, wrong).unwrap();
    let component =
        ["test", "--quiet", "--offline", "--locked", "--target-dir", "target/guests", "-p", "idle", "component"];
    let failed = cargo(project, &component);
    assert!(!failed.status.success() && said(&failed).contains("- expected, + answered"), "{}", said(&failed));
    let formatted = cargo(project, &["fmt", "--all", "--check"]);
    assert!(formatted.status.success(), "{}", said(&formatted));
    // The files in crds/ agree with the types.
    let crds = hotshoe(project, &["crd", "--out", "target/crds"]);
    assert!(crds.status.success(), "{}", said(&crds));
    for crd in [
        "my-cache.example.org_mycaches.yaml",
        "web.example.net_webservers.yaml",
        "store.example.com_stores.yaml",
        "idle.example.com_idles.yaml",
        "tier.example.com_tiers.yaml",
    ] {
        let read = |folder: &str| fs::read_to_string(project.join(folder).join(crd)).unwrap();
        assert_eq!(read("crds"), read("target/crds"), "{crd}");
    }
}

#[test]
fn after_a_refusal_nothing_is_written() {
    let dir = folder();
    let project = dir.path().join("project");
    let into = project.display().to_string();
    let wrong = |arguments: &[&str], words: &str| {
        let before = files(dir.path());
        let mut all = vec!["new"];
        all.extend(arguments);
        let output = hotshoe(dir.path(), &all);
        assert!(!output.status.success() && said(&output).contains(words), "{arguments:?}: {}", said(&output));
        assert_eq!(files(dir.path()), before, "{arguments:?}");
    };
    for name in ["My-Cache", "my_cache", "../cache", "9lives", ""] {
        wrong(&[name, "--into", &into], "DNS label");
    }
    wrong(&["class", "--into", &into], "reserved word");
    wrong(&["cache", "--into", &into, "--kind", "cache"], "capital letter");
    wrong(&["cache", "--into", &into, "--group", "Cache"], "DNS name");
    wrong(&["cache", "--into", &into, "--domain", "k8s.io"], "belongs to Kubernetes itself");
    wrong(&["cache", "--into", &into, "--version", "one"], "v1alpha1");
    wrong(&["cache", "--into", &into, "--image-container-port", "0", "--image", "a"], "0 is not in");
    wrong(&["cache", "--into", &into, "--image-container-port", "80"], "--image");
    wrong(&["cache", "--into", &into, "--run-as-user", "0", "--image", "a"], "0 is not in");
    wrong(&["cache", "--into", &into, "--lang", "cobol"], "[possible values: rust, python, js]");
    wrong(&["cache", "--into", &into, "--sdk", "nowhere"], "is no SDK for rust");
    wrong(
        &["cache", "--into", &into, "--webhooks", "mutation"],
        "[possible values: conversion, defaulting, validation]",
    );
    let parent = ["cache", "--into", &into, "--parent"];
    let of = |words: &[&'static str]| [&parent[..], words].concat();
    wrong(&of(&["StatefulSet"]), "write apps/v1/StatefulSet");
    wrong(&of(&["apps/StatefulSet"]), "write apps/v1/StatefulSet");
    wrong(&of(&["Widget"]), "as in apps/v1/StatefulSet, v1/Service or example.com/v1/Widget");
    wrong(&of(&["rbac.authorization.k8s.io/v1/Role"]), "no plugin may serve Role.rbac.authorization.k8s.io");
    wrong(&of(&["apps/v1/StatefulSet", "--cluster-scoped"]), "cannot be used with '--cluster-scoped'");
    wrong(&of(&["apps/v1/StatefulSet", "--group", "apps"]), "cannot be used with '--group");
    wrong(&of(&["apps/v1/StatefulSet", "--webhooks", "validation"]), "cannot be used with '--webhooks");
    wrong(&of(&["apps/v1/StatefulSet", "--image", "nginx"]), "cannot be used with '--image");
    wrong(&["cache", "--into", &into, "--empty", "--webhooks", "validation"], "cannot be used with '--webhooks");
    wrong(&["cache", "--into", &into, "--empty", "--image", "nginx"], "cannot be used with '--image");
    fs::create_dir(&project).unwrap();
    fs::write(project.join("notes.txt"), "mine").unwrap();
    wrong(&["cache", "--into", &into], "is neither empty (it has notes.txt) nor a project");
    fs::remove_file(project.join("notes.txt")).unwrap();
    let made = hotshoe(dir.path(), &["new", "cache", "--into", &into, "--lang", "python", "--yes"]);
    assert!(made.status.success() && said(&made).contains("  cd project\n"), "{}", said(&made));
    assert!(project.join("vendor/hotshoe-sdk-python/hotshoe/plugin.py").is_file(), "{}", said(&made));
    wrong(&["cache", "--into", &into, "--lang", "js"], "plugins/cache is there already; nothing was written");
    wrong(
        &["other", "--into", &into, "--group", "cache", "--kind", "Cache"],
        "crds/cache.example.com_caches.yaml is there already",
    );
    // A crate beside plugins of another language.
    let more = hotshoe(dir.path(), &["new", "other", "--into", &into, "--sdk", &sdk("sdk")]);
    assert!(more.status.success() && project.join("Cargo.toml").is_file(), "{}", said(&more));
    assert!(!project.join("vendor/hotshoe-sdk").exists() && said(&more).contains("on this machine"), "{}", said(&more));
    let released = hotshoe(dir.path(), &["new", "late", "--into", &into, "--lang", "js", "--sdk", "released"]);
    assert!(said(&released).contains("must be released"), "{}", said(&released));
    assert!(!project.join("vendor/hotshoe-sdk-js").exists());
    fs::write(project.join("Cargo.toml"), "[package]\nname = \"a\"\n").unwrap();
    wrong(&["third", "--into", &into], "Cargo.toml has no workspace.dependencies.hotshoe-sdk");
}

#[test]
fn crds_are_read_from_files_checked_against_plugin_yaml_and_compared_with_each_other() {
    let dir = folder();
    let project = dir.path();
    for (name, language) in [("one", "python"), ("other", "js")] {
        let kind = format!("K{name}");
        let made = hotshoe(project, &["new", name, "--lang", language, "--kind", &kind, "--group", "a", "--yes"]);
        assert!(made.status.success(), "{}", said(&made));
    }
    let crd = |arguments: &[&str]| {
        let mut all = vec!["crd"];
        all.extend(arguments);
        hotshoe(project, &all)
    };
    let all = crd(&[]);
    assert!(
        all.status.success() && said(&all).matches("kind: CustomResourceDefinition").count() == 2,
        "{}",
        said(&all)
    );
    let json = crd(&["plugins/one", "-o", "json"]);
    assert_eq!(
        serde_json::from_slice::<serde_json::Value>(&json.stdout).unwrap()["metadata"]["name"],
        "kones.a.example.com"
    );
    // Two plugins with the same kind of parents.
    let file = |name: &str, file: &str| project.join("plugins").join(name).join(file);
    fs::copy(file("one", "crd.yaml"), file("other", "crd.yaml")).unwrap();
    let wrong = crd(&["plugins/other"]);
    assert!(!wrong.status.success() && said(&wrong).contains("names Kother.a.example.com"), "{}", said(&wrong));
    fs::write(
        file("other", "plugin.yaml"),
        fs::read_to_string(file("other", "plugin.yaml")).unwrap().replace("Kother", "Kone"),
    )
    .unwrap();
    let shared = crd(&[]);
    assert!(
        shared.status.success() && said(&shared).matches("kind: CustomResourceDefinition").count() == 1,
        "{}",
        said(&shared)
    );
    let text = fs::read_to_string(file("other", "crd.yaml")).unwrap();
    fs::write(file("other", "crd.yaml"), text.replace("minimum: 0\n", "minimum: 1\n")).unwrap();
    let different = crd(&["--out", "out"]);
    assert!(!different.status.success() && !project.join("out").exists(), "{}", said(&different));
    for words in ["both define kones.a.example.com, and differently", "is 0 in the first and 1 in the second"] {
        assert!(said(&different).contains(words), "{}", said(&different));
    }
    // A schema that the API server refuses, a plugin without any, and one of a built-in kind.
    fs::write(
        file("other", "crd.yaml"),
        text.replace("type: string\n                  description: What selects", "description: What selects"),
    )
    .unwrap();
    let loose = crd(&["plugins/other"]);
    assert!(!loose.status.success() && said(&loose).contains("status.selector: it has no type"), "{}", said(&loose));
    fs::remove_file(file("other", "crd.yaml")).unwrap();
    let none = crd(&["plugins/other"]);
    assert!(!none.status.success() && said(&none).contains("write crd.yaml beside"), "{}", said(&none));
    let plugin = fs::read_to_string(file("other", "plugin.yaml")).unwrap();
    fs::write(file("other", "plugin.yaml"), plugin.replace("\"a.example.com\"", "\"\"").replace("Kone", "ConfigMap"))
        .unwrap();
    let built_in = crd(&["plugins/other"]);
    assert!(built_in.status.success() && built_in.stdout.is_empty(), "{}", said(&built_in));
    assert!(said(&built_in).contains("other serves ConfigMap, a kind of Kubernetes itself"), "{}", said(&built_in));
}

#[test]
fn doctor_ends_with_0_only_where_the_language_has_all_it_needs() {
    let dir = folder();
    let doctor = |path: Option<&Path>, arguments: &[&str]| {
        let mut command = Command::new(HOTSHOE);
        command.arg("doctor").args(arguments).current_dir(dir.path()).env_remove("KUBECONFIG").env("HOME", dir.path());
        // With another home folder, the command still finds the rustup of the real one.
        for (variable, folder) in [("RUSTUP_HOME", ".rustup"), ("CARGO_HOME", ".cargo")] {
            let home =
                std::env::var(variable).unwrap_or_else(|_| format!("{}/{folder}", std::env::var("HOME").unwrap()));
            command.env(variable, home);
        }
        command.env_remove("CARGO").env_remove("RUSTC");
        if let Some(path) = path {
            command.env("PATH", path);
        }
        command.output().unwrap()
    };
    let here = doctor(None, &["--lang", "rust", "-o", "json"]);
    let findings: serde_json::Value = serde_json::from_slice(&here.stdout).unwrap();
    let finding =
        |tool: &str| findings.as_array().unwrap().iter().find(|finding| finding["tool"] == tool).unwrap().clone();
    assert_eq!(here.status.code(), Some(0), "{}", said(&here));
    assert_eq!(finding("rustc")["ok"], true);
    assert_eq!(finding("rustc")["needed"], true);
    assert_eq!(finding("python3")["needed"], false);
    assert_eq!(finding("cluster")["ok"], false, "there is no kubeconfig");
    let bare = doctor(Some(dir.path()), &[]);
    assert_eq!(bare.status.code(), Some(1), "{}", said(&bare));
    for words in
        ["MISSING rustc", "it is not installed; install Rust from https://rustup.rs", "plugins in rust cannot be built"]
    {
        assert!(said(&bare).contains(words), "{}", said(&bare));
    }
    let both = doctor(Some(dir.path()), &["--lang", "python", "--lang", "js"]);
    assert!(said(&both).contains("MISSING python3") && said(&both).contains("MISSING node"), "{}", said(&both));
}
