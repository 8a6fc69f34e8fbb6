//! The worlds of components in Python and JavaScript. A component exports an optional interface only if its plugin has
//! functions for it: what is exported is registered, and the API server waits for an answer at every change.

use crate::cli::wit;

/// The optional interfaces, in the order in which the name of a world has them.
const OPTIONAL: [&str; 3] = ["validation", "defaulting", "conversion"];

/// Returns the files that describe all worlds, below a folder for the tools of a language: paths and texts. The name of a
/// world is `plugin` and its optional interfaces, with `-` between them.
pub(super) fn files() -> Vec<(String, String)> {
    let of_contract = |version: &str, (path, text): (&str, &str)| {
        let name = path.rsplit('/').next().unwrap_or(path);
        (format!("deps/reconciler-{version}/{name}"), text.to_owned())
    };
    let base = wit::BASE.into_iter().map(|file| of_contract("0.1.0", file));
    let optional = wit::OPTIONAL.into_iter().map(|file| of_contract("0.2.0", file));
    base.chain(optional).chain([("component.wit".to_owned(), package())]).collect()
}

fn package() -> String {
    let worlds = (0..1_u32 << OPTIONAL.len()).map(|chosen| {
        let exports: Vec<&str> =
            OPTIONAL.into_iter().enumerate().filter(|(bit, _)| chosen >> bit & 1 == 1).map(|(_, name)| name).collect();
        world(&exports)
    });
    format!("package hotshoe:component;\n{}", worlds.collect::<String>())
}

fn world(optional: &[&str]) -> String {
    let name = [&["plugin"], optional].concat().join("-");
    let exports: String =
        optional.iter().map(|name| format!("    export hotshoe:reconciler/{name}@0.2.0;\n")).collect();
    format!("\nworld {name} {{\n    include hotshoe:reconciler/plugin@0.1.0;\n{exports}}}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_world_for_each_choice_of_optional_interfaces() {
        let package = package();
        assert_eq!(package.matches("\nworld ").count(), 8);
        let all = "world plugin-validation-defaulting-conversion {\n    include hotshoe:reconciler/plugin@0.1.0;\n    \
                   export hotshoe:reconciler/validation@0.2.0;\n    export hotshoe:reconciler/defaulting@0.2.0;\n    \
                   export hotshoe:reconciler/conversion@0.2.0;\n}\n";
        assert!(package.contains(all) && package.contains("world plugin {\n    include"), "{package}");
    }

    #[test]
    fn each_version_of_the_contract_has_a_folder_of_its_own() {
        let paths: Vec<String> = files().into_iter().map(|(path, _)| path).collect();
        for path in ["component.wit", "deps/reconciler-0.1.0/types.wit", "deps/reconciler-0.2.0/conversion.wit"] {
            assert!(paths.iter().any(|is| is == path), "{paths:?}");
        }
    }
}
