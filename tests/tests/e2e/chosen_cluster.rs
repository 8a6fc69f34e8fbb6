//! Which cluster the recipes act on: only the one that the user has chosen.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use hotshoe_tests::repository;
use tempfile::TempDir;

/// A repository with deploy/cluster.sh, kubectl and a fake local control plane; and a home folder.
struct Scene(TempDir);

/// The result of a recipe that sources deploy/cluster.sh.
struct Chosen {
    succeeded: bool,
    acts_on: String,
    said: String,
}

fn kubeconfig(current: &str) -> String {
    let mut text = format!("apiVersion: v1\nkind: Config\ncurrent-context: {current}\n");
    for (list, entry) in
        [("contexts", "{cluster: NAME, user: me}"), ("clusters", "{server: \"https://NAME.example.com:6443\"}")]
    {
        text += &format!("{list}:\n");
        for name in ["dev", "prod"] {
            let key = list.trim_end_matches('s');
            text += &format!("- {{name: {name}, {key}: {}}}\n", entry.replace("NAME", name));
        }
    }
    text + "users:\n- {name: me, user: {token: t}}\n"
}

impl Scene {
    fn new(current: &str) -> Self {
        let dir = TempDir::new().expect("a folder");
        let scene = Self(dir);
        let bin = scene.path("target/control-plane/bin");
        for folder in [&*bin, &scene.path("deploy"), &scene.path("tests/control-plane"), &scene.path("home/.kube")] {
            fs::create_dir_all(folder).expect("a folder");
        }
        fs::copy(repository("deploy/cluster.sh"), scene.path("deploy/cluster.sh")).expect("the script");
        symlink(repository("target/control-plane/bin/kubectl"), bin.join("kubectl")).expect("kubectl");
        for script in ["target/control-plane/bin/control-plane", "tests/control-plane/build.sh"] {
            fs::write(scene.path(script), "#!/bin/sh\nexit 0\n").expect("a script");
            fs::set_permissions(scene.path(script), fs::Permissions::from_mode(0o755)).expect("it can be run");
        }
        scene.write(
            "target/control-plane/default/kubeconfig",
            &kubeconfig("dev").replace("dev.example.com", "127.0.0.1"),
        );
        scene.write("home/.kube/config", &kubeconfig(current));
        scene
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        fs::create_dir_all(self.path(path).parent().expect("a folder")).expect("a folder");
        fs::write(self.path(path), text).expect("a file");
    }

    fn choose(&self, variables: &[(&str, &Path)]) -> Chosen {
        let recipe = ". deploy/cluster.sh; kubectl config view --minify -o jsonpath='{.clusters[0].cluster.server}'";
        let mut command = Command::new("bash");
        command.args(["-euo", "pipefail", "-c", recipe]).current_dir(self.0.path()).stdin(std::process::Stdio::null());
        command.env_remove("KUBECONFIG").env_remove("HOTSHOE_CLUSTER").env_remove("HOTSHOE_CONTROL_PLANE_DIR");
        command.env("HOME", self.path("home")).envs(variables.iter().copied());
        let output = command.output().expect("bash runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Chosen { succeeded: output.status.success(), acts_on: text(&output.stdout), said: text(&output.stderr) }
    }

    /// Does the same as [`Self::choose`], and checks that a cluster is chosen and named before the recipe acts.
    fn acts_on(&self, variables: &[(&str, &Path)], server: &str) -> String {
        let Chosen { succeeded, acts_on, said } = self.choose(variables);
        assert!(succeeded && acts_on.contains(server), "{variables:?}: {acts_on}\n{said}");
        assert!(said.contains("cluster: ") && said.contains(server), "{variables:?}: {said}");
        said
    }
}

#[test]
fn a_current_context_that_the_user_has_not_named_is_neither_used_nor_ignored() {
    let chosen = Scene::new("dev").choose(&[]);
    assert!(!chosen.succeeded && chosen.acts_on.is_empty(), "{}", chosen.said);
    for word in ["dev", "CLUSTER=current", "CLUSTER=local", "nothing was changed"] {
        assert!(chosen.said.contains(word), "{word}: {}", chosen.said);
    }
}

#[test]
fn a_cluster_is_named_by_its_context_by_the_current_one_or_as_the_local_one() {
    let scene = Scene::new("dev");
    let named = |name: &'static str| [("HOTSHOE_CLUSTER", Path::new(name))];
    scene.acts_on(&named("current"), "https://dev.example.com");
    scene.acts_on(&named("prod"), "https://prod.example.com");
    scene.acts_on(&named("local"), "https://127.0.0.1");
    let chosen = scene.choose(&named("nonesuch"));
    assert!(!chosen.succeeded && chosen.said.contains("dev prod"), "{}", chosen.said);
    scene.write("none", "");
    let none = scene.path("none");
    let chosen = scene.choose(&[("KUBECONFIG", &*none), ("HOTSHOE_CLUSTER", Path::new("nonesuch"))]);
    assert!(!chosen.succeeded && !chosen.said.contains("one of these"), "{}", chosen.said);
    assert!(chosen.said.contains("has no context") && chosen.said.contains("CLUSTER=local"), "{}", chosen.said);
}

#[test]
fn a_kubeconfig_of_the_environment_is_named() {
    let scene = Scene::new("dev");
    scene.write("other", &kubeconfig("prod"));
    let other = scene.path("other");
    scene.acts_on(&[("KUBECONFIG", &other)], "https://prod.example.com");
    scene.acts_on(&[("KUBECONFIG", &other), ("HOTSHOE_CLUSTER", Path::new("dev"))], "https://dev.example.com");
    scene.write("other", &kubeconfig("\"\""));
    assert!(!scene.choose(&[("KUBECONFIG", &other)]).succeeded);
}

#[test]
fn without_a_current_context_the_local_control_plane_is_meant() {
    Scene::new("\"\"").acts_on(&[], "https://127.0.0.1");
}

#[test]
fn an_answer_holds_until_the_current_context_is_another() {
    let scene = Scene::new("dev");
    scene.write("target/cluster", "local dev\n");
    scene.acts_on(&[], "https://127.0.0.1");
    scene.write("target/cluster", "current dev\n");
    scene.acts_on(&[], "https://dev.example.com");
    scene.write("home/.kube/config", &kubeconfig("prod"));
    assert!(!scene.choose(&[]).succeeded);
}

#[test]
fn a_deployment_to_the_local_control_plane_first_warns_that_no_container_runs_there() {
    let scene = Scene::new("dev");
    let said =
        scene.acts_on(&[("HOTSHOE_CLUSTER", Path::new("local")), ("deploys", Path::new("yes"))], "https://127.0.0.1");
    assert!(said.starts_with("note: the local control plane runs no containers"), "{said}");
    assert!(said.contains("justw host") && said.contains("justw deploy CLUSTER="), "{said}");
}
