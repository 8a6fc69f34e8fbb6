//! The build context of the container image: the part of the repository that `.dockerignore` lets through
//! must be complete. The tests need no container engine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the output of a command that must succeed.
fn printed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the paths that `.dockerignore` lets through: it excludes everything, and then includes some paths. It may
/// exclude folders below these only if they contain no committed files.
fn let_through() -> Vec<String> {
    let text = fs::read_to_string(repository().join(".dockerignore")).unwrap();
    let mut rules = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    assert_eq!(rules.next(), Some("*"), "this test expects an exclusion of everything, followed by inclusions");
    let (inside, outside): (Vec<_>, Vec<_>) = rules.partition(|rule| rule.starts_with('!'));
    for rule in outside {
        let name = rule.strip_prefix("**/").unwrap_or_else(|| panic!("{rule:?} is not the name of folders"));
        let committed =
            printed(Command::new("git").current_dir(repository()).args(["ls-files", &format!("**/{name}/*")]));
        assert_eq!(committed, "", "{rule:?} keeps out what is committed");
    }
    inside.into_iter().map(|rule| rule.trim_start_matches('!').to_owned()).collect()
}

/// Copies the build context to an empty folder.
fn build_context(to: &Path) {
    let listed = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let files = printed(Command::new("git").current_dir(repository()).args(listed));
    let allowed = let_through();
    for file in files.split_terminator('\0') {
        let enters = allowed.iter().any(|path| Path::new(file).starts_with(path));
        let from = repository().join(file);
        if enters && from.is_file() {
            fs::create_dir_all(to.join(file).parent().unwrap()).unwrap();
            fs::copy(from, to.join(file)).unwrap();
        }
    }
}

#[test]
fn the_build_context_has_all_manifests_that_cargo_needs() {
    let context = tempfile::tempdir().unwrap();
    build_context(context.path());
    for workspace in ["", "plugins"] {
        let mut metadata = Command::new(env!("CARGO"));
        metadata.args(["metadata", "--locked", "--offline", "--no-deps", "--format-version=1"]);
        let found = printed(metadata.current_dir(context.path().join(workspace)));
        assert!(found.contains(r#""packages":[{"#), "no crate is left of {workspace:?}");
    }
}

#[test]
fn the_build_context_has_all_scripts_that_the_dockerfile_runs() {
    let context = tempfile::tempdir().unwrap();
    build_context(context.path());
    let dockerfile = fs::read_to_string(repository().join("Dockerfile")).unwrap();
    let ours = dockerfile.split_whitespace().filter(|word| word.starts_with("deploy/"));
    let missing: Vec<_> = ours.filter(|script| !context.path().join(script).is_file()).collect();
    assert_eq!(missing, [""; 0]);
}
