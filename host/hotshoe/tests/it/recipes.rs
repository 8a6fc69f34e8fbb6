//! Properties of the recipes of the justfile.

use std::fs;
use std::path::Path;

/// Returns the lines of a recipe's body, with the justfile's variables substituted.
fn recipe(name: &str) -> String {
    let justfile = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../justfile");
    let text = fs::read_to_string(justfile).unwrap();
    let mut body: String = text
        .lines()
        .skip_while(|line| !line.starts_with(&format!("{name} ")))
        .skip(1)
        .take_while(|line| line.starts_with(' '))
        .collect::<Vec<_>>()
        .join("\n");
    assert!(!body.is_empty(), "no recipe {name}");
    let variables: Vec<_> = text.lines().filter_map(|line| line.split_once(" := ")).collect();
    while let Some((variable, value)) = variables.iter().find(|(name, _)| body.contains(&format!("{{{{ {name} }}}}"))) {
        body = body.replace(&format!("{{{{ {variable} }}}}"), value);
    }
    body
}

#[test]
fn a_recipe_that_shows_or_tests_a_plugin_builds_where_no_host_looks_for_it() {
    for name in ["grants", "rbac", "test-plugin", "shadow"] {
        let body = recipe(name);
        let builds: Vec<_> = body.split(" build ").skip(1).collect();
        assert!(!builds.is_empty(), "{name}: {body}");
        for build in builds {
            let command = build.split(';').next().unwrap_or_default();
            assert!(command.contains("--out"), "{name} builds {command}");
        }
    }
}

#[test]
fn no_parameter_of_a_recipe_hides_a_variable_that_it_uses() {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../justfile")).unwrap();
    let variables: Vec<_> = text.lines().filter_map(|line| Some(line.split_once(" := ")?.0)).collect();
    assert!(variables.contains(&"words"), "{variables:?}");
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
