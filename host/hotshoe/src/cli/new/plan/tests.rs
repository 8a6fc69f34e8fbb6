//! Tests of the planned files, without writing them.

use std::fs;

use clap::Parser;

use super::*;
use hotshoe_sandbox::cases::Case;

#[derive(Parser)]
struct Options {
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    container: Container,
    #[command(flatten)]
    licensing: Licensing,
}

fn names(plugin: &str) -> Names {
    Names {
        plugin: plugin.into(),
        group: "cache".into(),
        api_group: "cache.example.org".into(),
        version: "v1".into(),
        kind: "MyCache".into(),
        plural: "mycaches".into(),
    }
}

fn wanted(language: Language, options: &[&str]) -> Wanted {
    let Options { form, container, licensing } = Options::parse_from(["new"].iter().chain(options));
    let new = names("my-cache");
    let names = form.parent.as_ref().map_or(new, |kind| Names::existing("my-cache", kind));
    let prefix = "my-cache.example.org".to_owned();
    Wanted { names, language, form, container, webhooks: BTreeSet::new(), licensing, prefix, sdk: Sdk::Vendored }
}

fn plan(place: &Place, language: Language, options: &[&str]) -> Plan {
    Plan::new(place, &wanted(language, options)).unwrap()
}

fn empty() -> (tempfile::TempDir, Place) {
    let dir = tempfile::tempdir().unwrap();
    let place = Place::Empty(dir.path().to_owned());
    (dir, place)
}

const EVERYTHING: [&str; 8] = [
    "--image",
    "memcached:1.6",
    "--image-container-command",
    "memcached,-m=64,say \"hi\"",
    "--image-container-port",
    "11211",
    "--run-as-user",
    "1001",
];

/// The forms of a plugin, with the numbers of their cases and the kinds of their parents.
const FORMS: &[(&[&str], usize, &str)] = &[
    (&[], 6, "MyCache.cache.example.org"),
    (&EVERYTHING, 6, "MyCache.cache.example.org"),
    (&["--image", "nginx"], 6, "MyCache.cache.example.org"),
    (&["--empty"], 1, "MyCache.cache.example.org"),
    (&["--empty", "--cluster-scoped"], 1, "MyCache.cache.example.org"),
    (&["--cluster-scoped"], 6, "MyCache.cache.example.org"),
    (&["--parent", "apps/v1/StatefulSet"], 2, "StatefulSet.apps"),
    (&["--parent", "v1/Service", "--empty"], 1, "Service"),
    (&["--parent", "v1/Node"], 2, "Node"),
    (&["--parent", "v1/Namespace"], 2, "Namespace"),
    (&["--parent", "example.com/v1/Widget"], 2, "Widget.example.com"),
];

#[test]
fn every_template_renders_to_what_hosts_and_kubernetes_read() {
    let (_dir, place) = empty();
    for language in Language::ALL {
        for (options, expected_cases, parent) in FORMS {
            let plan = plan(&place, language, options);
            let mut cases = 0;
            for path in plan.files.paths().filter(|path| !path.starts_with("vendor")) {
                let text = plan.files.text(path.to_str().unwrap());
                let shown = path.display();
                assert!(text.ends_with('\n') && !text.ends_with("\n\n"), "{shown}: {text}");
                let is_verbatim = ["justfile", ".github/workflows/ci.yaml"].iter().any(|file| path.ends_with(file));
                assert!(is_verbatim || !text.contains("{%") && !text.contains("{{"), "{shown}: {text}");
                if path.extension().is_some_and(|extension| extension == "yaml") {
                    serde_saphyr::from_str::<serde_json::Value>(text)
                        .unwrap_or_else(|error| panic!("{shown}: {error}"));
                }
                if path.parent().is_some_and(|parent| parent.ends_with("cases")) {
                    Case::from_yaml(text).unwrap_or_else(|error| panic!("{shown}: {error}"));
                    cases += 1;
                }
            }
            assert_eq!(cases, *expected_cases, "{options:?}");
            let manifest: hotshoe_operator::config::manifest::Plugin =
                serde_saphyr::from_str(plan.files.text("plugins/my-cache/plugin.yaml")).unwrap();
            assert_eq!(manifest.metadata.name, "my-cache");
            assert_eq!(manifest.spec.parent.unwrap().to_string(), *parent);
        }
    }
}

#[test]
fn the_options_of_deploy_image_are_in_the_code_the_kind_and_the_cases() {
    let (_dir, place) = empty();
    for (language, file, command, port, user) in [
        (
            Language::Rust,
            "src/lib.rs",
            "[\"memcached\", \"-m=64\", \"say \\\"hi\\\"\"]",
            "container_port",
            "run_as_user(1001)",
        ),
        (
            Language::Python,
            "src/my_cache.py",
            "[\"memcached\", \"-m=64\", \"say \\\"hi\\\"\"]",
            "11211",
            "\"runAsUser\": 1001",
        ),
        (
            Language::JavaScript,
            "plugin.js",
            "[\"memcached\", \"-m=64\", \"say \\\"hi\\\"\"]",
            "11211",
            "runAsUser: 1001",
        ),
    ] {
        let plan = plan(&place, language, &EVERYTHING);
        let text = plan.files.text(&format!("plugins/my-cache/{file}"));
        for words in [command, port, user] {
            assert!(text.contains(words), "{file} has no {words}:\n{text}");
        }
        assert!(plan.files.text("crds/cache.example.org_mycaches.yaml").contains("default: 11211"));
        assert!(plan.files.text("crds/samples/cache_v1_mycache.yaml").contains("containerPort: 11211"));
        assert!(plan.files.text("plugins/my-cache/plugin.yaml").contains("image: \"memcached:1.6\""));
        let case = plan.files.text("plugins/my-cache/cases/first-sight.yaml");
        assert!(case.contains("runAsUser: 1001") && case.contains("\"say \\\"hi\\\"\""), "{case}");
    }
}

#[test]
fn a_project_has_what_its_language_needs() {
    let (_dir, place) = empty();
    let paths = |language| -> Vec<String> {
        plan(&place, language, &[]).files.paths().map(|path| path.display().to_string()).collect()
    };
    let common = ["justfile", ".gitignore", ".github/workflows/ci.yaml", "wit/world.wit", "README.md"];
    for (language, own, not) in [
        (Language::Rust, ["Cargo.toml", "plugins/my-cache/src/bin/crd.rs"], "plugins/my-cache/crd.yaml"),
        (Language::Python, ["plugins/my-cache/pyproject.toml", "plugins/my-cache/crd.yaml"], "Cargo.toml"),
        (Language::JavaScript, ["plugins/my-cache/package.json", "plugins/my-cache/crd.yaml"], "Cargo.toml"),
    ] {
        let paths = paths(language);
        for path in common.iter().chain(&own) {
            assert!(paths.iter().any(|there| there == path), "{path}: {paths:?}");
        }
        assert!(!paths.iter().any(|there| there == not), "{not}: {paths:?}");
    }
}

#[test]
fn an_existing_project_gets_a_plugin_and_keeps_its_files() {
    let dir = tempfile::tempdir().unwrap();
    let place = Place::Project(dir.path().to_owned());
    fs::write(dir.path().join("rustfmt.toml"), "").unwrap();
    let plan = plan(&place, Language::Rust, &[]);
    let paths: Vec<_> = plan.files.paths().map(Path::to_owned).collect();
    assert!(
        !paths.iter().any(|path| ["justfile", "rustfmt.toml", "README.md"].iter().any(|file| path == Path::new(file)))
    );
    assert!(paths.contains(&PathBuf::from("Cargo.toml")) && paths.contains(&PathBuf::from("rust-toolchain.toml")));
    fs::create_dir_all(dir.path().join("plugins/my-cache")).unwrap();
    let error = Plan::new(&place, &wanted(Language::Rust, &[])).unwrap_err().to_string();
    assert!(error.contains("plugins/my-cache is there already; nothing was written"), "{error}");
}

#[test]
fn the_sdk_is_in_the_project_or_released_or_a_copy_elsewhere() {
    let (_dir, place) = empty();
    for (language, file, released, path) in [
        (Language::Rust, "Cargo.toml", "hotshoe-sdk = \"0.1\"", "hotshoe-sdk = { path = \"SDK\" }"),
        (Language::Python, "plugins/my-cache/pyproject.toml", "hotshoe-sdk==0.1.*", "path = \"SDK\""),
        (Language::JavaScript, "plugins/my-cache/package.json", "\"^0.1.0\"", "\"file:SDK\""),
    ] {
        let planned = |sdk: Sdk| Plan::new(&place, &Wanted { sdk, ..wanted(language, &[]) }).unwrap().files;
        let folder = vendored::folder(language);
        let has_sources = |files: &Files| files.paths().any(|path| path.starts_with(folder));
        let by_path = |sdk: &str| path.replace("SDK", sdk);

        let files = planned(Sdk::Released);
        assert!(files.text(file).contains(released) && !has_sources(&files), "{}", files.text(file));
        let files = planned(Sdk::Local("/a b/sdk".into()));
        assert!(files.text(file).contains(&by_path("/a b/sdk")) && !has_sources(&files), "{}", files.text(file));
        let files = planned(Sdk::Vendored);
        let relative = vendored::dependency(language);
        assert!(files.text(file).contains(&by_path(&relative)) && has_sources(&files), "{}", files.text(file));
        assert!(relative.ends_with(folder) || relative == format!("{folder}/sdk"), "{relative}");
    }
}

#[test]
fn a_plugin_with_webhooks_has_their_functions_cases_and_versions() {
    let (_dir, place) = empty();
    let every = BTreeSet::from([Webhook::Conversion, Webhook::Defaulting, Webhook::Validation]);
    let with = |language: Language, webhooks: &BTreeSet<Webhook>, options: &[&str]| {
        Plan::new(&place, &Wanted { webhooks: webhooks.clone(), ..wanted(language, options) }).unwrap()
    };
    for (language, file, words) in [
        (Language::Rust, "src/lib.rs", ["mod conversion;", "mod defaulting;", "mod validation;"]),
        (
            Language::Python,
            "src/my_cache.py",
            ["@plugin.convert(\"v2\", \"v1\")", "@plugin.default", "@plugin.validate"],
        ),
        (Language::JavaScript, "plugin.js", ["  conversions: {\n    \"v1\"", "  setDefaults(", "  validate("]),
    ] {
        for options in [&[][..], &EVERYTHING] {
            let plan = with(language, &every, options);
            let text = |path: &str| plan.files.text(&format!("plugins/my-cache/{path}")).to_owned();
            assert!(words.iter().all(|word| text(file).contains(word)), "{}", text(file));
            assert!(text("plugin.yaml").contains("maxSize: 2") && text("plugin.yaml").contains("admission: Enforce"));
            let crd: serde_json::Value =
                serde_saphyr::from_str(plan.files.text("crds/cache.example.org_mycaches.yaml")).unwrap();
            assert_eq!(crd["metadata"]["annotations"]["hotshoe.dev/served-by-conversion"], "v1");
            let versions: Vec<_> = crd["spec"]["versions"].as_array().unwrap().iter().collect();
            let of =
                |name: &str, key: &str| versions.iter().find(|one| one["name"] == name).map(|one| one[key].clone());
            assert_eq!((of("v1", "served"), of("v1", "storage")), (Some(false.into()), Some(false.into())));
            assert_eq!((of("v2", "served"), of("v2", "storage")), (Some(true.into()), Some(true.into())));
            assert!(
                plan.files.text("crds/samples/cache_v2_mycache.yaml").contains("apiVersion: cache.example.org/v2\n")
            );
            let cases = plan.files.paths().filter(|path| path.parent().is_some_and(|parent| parent.ends_with("cases")));
            let cases = cases.map(|path| Case::from_yaml(plan.files.text(path.to_str().unwrap())).unwrap());
            assert_eq!(cases.count(), 9);
        }
        for (webhook, word) in every.iter().zip(words) {
            let plan = with(language, &BTreeSet::from([*webhook]), &[]);
            let text = plan.files.text(&format!("plugins/my-cache/{file}"));
            let there: Vec<_> = words.into_iter().filter(|word| text.contains(word)).collect();
            assert_eq!(there, [word], "{text}");
        }
    }
    let plan = with(Language::Rust, &every, &EVERYTHING);
    let text = |path: &str| plan.files.text(&format!("plugins/my-cache/{path}")).to_owned();
    assert!(text("src/lib.rs").ends_with("export!(Operator, conversion, defaulting, validation);\n"));
    assert!(text("src/conversion.rs").contains("container_port"));
}

#[test]
fn a_kind_that_exists_gets_no_crd_and_a_sample_that_the_selector_finds() {
    let (_dir, place) = empty();
    for language in Language::ALL {
        for (kind, sample) in [
            ("apps/v1/Deployment", "crds/samples/my-cache_v1_deployment.yaml"),
            ("v1/Service", "crds/samples/my-cache_v1_service.yaml"),
            ("example.com/v1/Widget", "crds/samples/my-cache_v1_widget.yaml"),
        ] {
            let plan = plan(&place, language, &["--parent", kind]);
            assert!(!plan.files.paths().any(|path| path.to_string_lossy().contains("crd.")), "{:?}", plan.files);
            assert_eq!(plan.sample, Path::new(sample));
            let sample: serde_json::Value = serde_saphyr::from_str(plan.files.text(sample)).unwrap();
            let manifest: hotshoe_operator::config::manifest::Plugin =
                serde_saphyr::from_str(plan.files.text("plugins/my-cache/plugin.yaml")).unwrap();
            let selector = manifest.spec.parent.unwrap().selector.unwrap();
            let labels = serde_json::to_value(selector).unwrap()["matchLabels"].clone();
            assert_eq!(sample["metadata"]["labels"], labels, "{kind}");
            assert!(manifest.spec.prune_all);
        }
    }
}

#[test]
fn a_child_of_a_parent_without_a_namespace_is_where_the_grant_covers() {
    let (_dir, place) = empty();
    for (options, namespaces) in
        [(&["--cluster-scoped"][..], "namespaces: cluster"), (&["--parent", "v1/Node"], "namespaces: [default]")]
    {
        let plan = plan(&place, Language::JavaScript, options);
        let manifest = plan.files.text("plugins/my-cache/plugin.yaml");
        assert!(manifest.contains(namespaces), "{manifest}");
        let case = Case::from_yaml(plan.files.text("plugins/my-cache/cases/first-sight.yaml")).unwrap();
        assert_eq!(case.parent["metadata"].get("namespace"), None);
    }
}

#[test]
fn a_licence_heads_each_source_file_and_is_named_by_the_manifest() {
    let (dir, place) = empty();
    for (language, logic, manifest, named) in [
        (Language::Rust, "src/lib.rs", "Cargo.toml", "license = \"Apache-2.0\""),
        (Language::Python, "src/my_cache.py", "pyproject.toml", "license = \"Apache-2.0\""),
        (Language::JavaScript, "plugin.js", "package.json", "\"license\": \"Apache-2.0\""),
    ] {
        for form in [&[][..], &["--empty"], &["--parent", "v1/Service"]] {
            let of = |options: &[&str]| plan(&place, language, &[options, form].concat());
            let licensed = of(&["--license", "apache2", "--owner", "The Authors"]);
            let text = |plan: &Plan, path: &str| plan.files.text(&format!("plugins/my-cache/{path}")).to_owned();
            let first = text(&licensed, logic).lines().next().unwrap_or_default().to_owned();
            assert!(first.contains("Copyright 2") && first.ends_with(" The Authors."), "{first}");
            assert!(text(&licensed, logic).ends_with(&text(&of(&[]), logic)), "the rest is the same");
            assert!(text(&licensed, manifest).contains(named), "{}", text(&licensed, manifest));
            assert_eq!(licensed.files.text("LICENSE"), license::APACHE2);
            assert!(!text(&of(&[]), manifest).contains("Apache") && of(&[]).files.text("LICENSE").is_empty());
        }
    }
    fs::write(dir.path().join("LICENSE"), "mine").unwrap();
    let plan = plan(&place, Language::Rust, &["--license", "apache2"]);
    assert_eq!(plan.files.text("LICENSE"), "", "the one that is there stays");
}
