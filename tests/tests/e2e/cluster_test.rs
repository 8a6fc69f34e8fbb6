//! `hotshoe test --cluster`: samples on a cluster, with a host of the test's own, and nothing left of either.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use hotshoe_tests::guests::{caches, reworded};
use hotshoe_tests::host::{in_session_of_tests, program};
use hotshoe_tests::kinds::{CLUSTER_ROLE, CRD, DEPLOYMENT, Kind, NAMESPACE};
use hotshoe_tests::{ControlPlane, guests, repository, run, wait};
use serde_json::Value;
use tempfile::TempDir;

/// The group of the nginx plugin's kind.
const GROUP: &str = "web.example.com";

/// A project with the nginx plugin, whose kind is in a group of the test's own.
struct Project {
    folder: TempDir,
    plane: &'static ControlPlane,
    group: &'static str,
}

impl Project {
    async fn new(group: &'static str) -> Self {
        let (folder, built) = (TempDir::new().expect("a folder"), guests::plugin("nginx"));
        let project = Self { folder, plane: ControlPlane::shared().await, group };
        for place in ["wit", "crds/samples", "plugins/nginx"] {
            fs::create_dir_all(project.path(place)).expect("a folder");
        }
        fs::copy(repository("wit/world.wit"), project.path("wit/world.wit")).expect("the contract");
        let crds = [("crds/web.example.com_nginxservers.yaml", "crds/nginx.yaml")];
        let sample = [("crds/samples/web_v1_nginxserver.yaml", "crds/samples/nginx.yaml")];
        for (from, to) in crds.into_iter().chain(sample) {
            project.write(to, &fs::read_to_string(repository(from)).expect("it is read").replace(GROUP, group));
        }
        let description = fs::read_to_string(built.join("plugin.yaml")).expect("it is read");
        project.write("plugins/nginx/plugin.yaml", &description.replace(GROUP, group));
        let component = fs::read(built.join("nginx.wasm")).expect("it is read");
        fs::write(project.path("plugins/nginx/nginx.wasm"), reworded(&component, GROUP, group)).expect("it is written");
        project
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        fs::write(self.path(path), text).expect("it is written");
    }

    /// Takes the grant for Deployments away.
    fn deny(&self) {
        let path = self.path("plugins/nginx/plugin.yaml");
        let text = fs::read_to_string(&path).expect("it is read");
        fs::write(path, text.replace("      kind: Deployment\n", "      kind: Deployment\n      names: [other-*]\n"))
            .expect("it is written");
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.args(["test", "plugins/nginx", "--cluster", "--kubeconfig"]).arg(self.plane.file("kubeconfig"));
        command.args(arguments).current_dir(self.folder.path()).env("XDG_CACHE_HOME", caches());
        in_session_of_tests(&mut command);
        command
    }

    fn test(&self, arguments: &[&str]) -> Said {
        Said::of(self.command(arguments).output().expect("the program runs"))
    }

    async fn is_gone(&self, kind: &Kind, name: &str) -> bool {
        self.plane.admin.get(kind, "", name).await.is_err_and(|refused| refused.code == 404)
    }

    /// Fails if anything is left of a test with this name.
    async fn nothing_is_left(&self, name: &str) {
        assert!(self.is_gone(&NAMESPACE, name).await && self.is_gone(&NAMESPACE, &format!("{name}-host")).await);
        let roles = self.plane.admin.list(&CLUSTER_ROLE, "").await.expect("a list");
        let of_test = |role: &&Value| role["metadata"]["name"].as_str().is_some_and(|role| role.starts_with(name));
        assert_eq!(roles.iter().find(of_test), None);
        assert!(self.is_gone(&CRD, &format!("nginxservers.{}", self.group)).await);
    }
}

/// The output of the program.
struct Said {
    code: Option<i32>,
    text: String,
    errors: String,
}

impl Said {
    fn of(Output { status, stdout, stderr }: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { code: status.code(), text: text(&stdout), errors: text(&stderr) }
    }

    /// Returns the name of the test, which is that of its namespace.
    fn name(&self) -> String {
        name_in(&self.errors).unwrap_or_else(|| panic!("no host was started: {}{}", self.text, self.errors))
    }
}

fn name_in(errors: &str) -> Option<String> {
    errors.lines().find_map(|line| line.strip_prefix("starting a host for ")).map(str::to_owned)
}

#[test]
fn a_sample_becomes_available_and_nothing_is_left_of_it() {
    run(async {
        let project = Project::new("wab.example.com").await;
        let refused = project.test(&[]);
        assert_eq!(refused.code, Some(1), "{}", refused.errors);
        for words in ["kubectl apply -f crds/nginx.yaml", "--install-crds"] {
            assert!(refused.errors.contains(words), "{}", refused.errors);
        }
        let tried = project.test(&["--install-crds"]);
        assert_eq!(tried.code, Some(0), "{}{}", tried.text, tried.errors);
        assert!(tried.errors.starts_with("cluster: "), "first it is said where: {}", tried.errors);
        let is_ok = |line: &str| {
            line.starts_with("ok   sample crds/samples/nginx.yaml: available after ")
                && line.contains(" s, 1 child; gone after ")
        };
        assert!(tried.text.lines().any(is_ok) && tried.text.ends_with("1 passed, 0 failed\n"), "{}", tried.text);
        project.nothing_is_left(&tried.name()).await;

        let tried = project.test(&["--install-crds", "-o", "json"]);
        let records: Value = serde_json::from_str(&tried.text).expect("JSON");
        assert_eq!((&records[0]["passed"], &records[0]["children"]), (&true.into(), &1.into()), "{records:#}");
    });
}

#[test]
fn what_fails_says_why_and_stays_only_where_it_is_to_be_kept() {
    run(async {
        let project = Project::new("wcb.example.com").await;
        project.deny();
        let tried = project.test(&["--install-crds", "--timeout", "30s"]);
        assert_eq!(tried.code, Some(1), "{}{}", tried.text, tried.errors);
        for words in ["FAIL sample crds/samples/nginx.yaml\n", "(Denied)", "Event Warning Denied", "0 passed, 1 failed"]
        {
            assert!(tried.text.contains(words), "{words}: {}", tried.text);
        }
        project.nothing_is_left(&tried.name()).await;

        let tried = project.test(&["--install-crds", "--timeout", "30s", "--keep"]);
        let name = tried.name();
        assert_eq!(tried.code, Some(1));
        assert!(tried.errors.contains(&format!("kubectl delete namespace {name}")), "{}", tried.errors);
        project.plane.admin.get(&NAMESPACE, "", &name).await.expect("the namespace is kept");
        assert!(project.plane.admin.list(&DEPLOYMENT, &name).await.expect("a list").is_empty());
    });
}

/// A test that runs, and is killed when this value is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
    }
}

#[test]
fn an_interrupted_test_removes_what_it_has_made() {
    run(async {
        let project = Project::new("wdb.example.com").await;
        let errors = project.path("errors");
        let mut command = project.command(&["--install-crds", "--timeout", "300s"]);
        let file = fs::File::create(&errors).expect("a file");
        let mut running = Running(command.stderr(file).stdout(Stdio::null()).spawn().expect("it runs"));
        let said = || fs::read_to_string(&errors).unwrap_or_default();
        let name = wait::until("a host is started", wait::TIMEOUT, async || name_in(&said()).ok_or_else(said)).await;
        let interrupted = Command::new("kill").args(["-INT", &running.0.id().to_string()]).status().expect("kill runs");
        assert!(interrupted.success());
        let status = running.0.wait().expect("it ends");
        assert_eq!(status.code(), Some(1), "{}", said());
        assert!(said().contains("it was interrupted"), "{}", said());
        project.nothing_is_left(&name).await;
    });
}
