//! Properties of the recipes of the justfile.

use std::fs;
use std::path::Path;

/// Returns the lines of a function in deploy/recipes.sh.
fn function(name: &str) -> String {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/recipes.sh")).unwrap();
    let body = text.split_once(&format!("\n{name}() {{\n")).and_then(|(_, rest)| rest.split_once("\n}\n"));
    body.unwrap_or_else(|| panic!("no function {name}")).0.to_owned()
}

#[test]
fn a_recipe_that_shows_or_tests_a_plugin_builds_where_no_host_looks_for_it() {
    for name in ["test_plugins", "show_changes"] {
        let body = function(name);
        let builds: Vec<_> = body.lines().filter(|line| line.contains("hotshoe build ")).collect();
        assert!(!builds.is_empty(), "{name}: {body}");
        assert!(builds.iter().all(|build| build.contains("--out")), "{name} builds {builds:?}");
    }
}

#[test]
fn no_parameter_of_a_recipe_hides_a_variable_that_it_uses() {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../justfile")).unwrap();
    let variables: Vec<_> = text.lines().filter_map(|line| Some(line.split_once(" := ")?.0)).collect();
    assert!(variables.contains(&"cargo"), "{variables:?}");
    let mut parameters: Vec<&str> = Vec::new();
    for line in text.lines() {
        if !line.starts_with(' ') {
            let head = line.split(':').next().unwrap_or_default();
            let names = head
                .split_whitespace()
                .skip(1)
                .filter_map(|word| word.trim_start_matches(['*', '+']).split('=').next());
            parameters = names.collect();
        }
        for parameter in parameters.iter().filter(|parameter| variables.contains(parameter)) {
            assert!(!line.contains(&format!("{{{{ {parameter} }}}}")), "{parameter} is a variable as well: {line}");
        }
    }
}
