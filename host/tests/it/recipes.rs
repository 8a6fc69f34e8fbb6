//! What the recipes of the justfile promise.

use std::fs;
use std::path::Path;

/// The lines of a recipe's body, with the justfile's variables in their place.
fn recipe(name: &str) -> String {
    let justfile = Path::new(env!("CARGO_MANIFEST_DIR")).join("../justfile");
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
