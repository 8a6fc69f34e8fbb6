//! The book and the other pages: what they say about the code is true, their links have targets, and their
//! commands work.

mod commands;
mod links;
mod markdown;
mod promises;
mod reference;
mod scratch;

use std::path::{Path, PathBuf};

use hotshoe_tests::repository;

/// Returns all pages, relative to the root of the repository: the README, the chapters in their order, the rest.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![PathBuf::from("README.md")];
    pages.extend(
        markdown::links(&read(Path::new("docs/src/SUMMARY.md")))
            .into_iter()
            .map(|link| Path::new("docs/src").join(link)),
    );
    for folder in ["", "plugins", "plugins/sdk", "plugins/memcached", "tests/control-plane"] {
        for name in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"] {
            let page = Path::new(folder).join(name);
            if repository(page.to_str().expect("a path in UTF-8")).exists() && !pages.contains(&page) {
                pages.push(page);
            }
        }
    }
    pages
}

fn read(page: &Path) -> String {
    let path = repository(page.to_str().expect("a path in UTF-8"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
}
