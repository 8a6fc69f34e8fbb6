//! Finds plugins in folders: the default if none is named, and suggestions if one is not found.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The name of the description in a plugin's folder.
pub const PLUGIN_FILE: &str = "plugin.yaml";

/// The folder of the plugins in a project.
const PLUGINS: &str = "plugins";

/// The folder of built components in a project, from which hosts read them.
const PRODUCTS: &str = "target/plugins";

/// The file that marks a crate or a workspace of crates.
const CRATE: &str = "Cargo.toml";

/// The contract, of which every project of plugins has a copy.
const CONTRACT: &str = "wit/world.wit";

/// Returns whether this is a project: a folder with plugins and the contract, as `hotshoe new` makes it.
pub fn is_project(dir: &Path) -> bool {
    dir.join(PLUGINS).is_dir() && dir.join(CONTRACT).is_file()
}

/// Returns the project that a plugin's folder belongs to. The folder lies in the project's `plugins`, or deeper.
pub fn project_of(plugin: &Path) -> Option<&Path> {
    let plugins = plugin.ancestors().skip(1).find(|above| above.ends_with(PLUGINS))?;
    plugins.parent().filter(|project| is_project(project))
}

/// Returns the root of a plugin's folder, which must be absolute: its project, or else the outermost folder above it
/// that has a `Cargo.toml`, if all folders between have one as well. Guests can be a workspace inside another one, and
/// share its `target`. The search never goes above a folder of another user or one like `/tmp`: anyone may have put
/// files there, and a component that is found is run with the plugin's grant.
pub fn root_of(plugin: &Path) -> &Path {
    let owner = fs::metadata(plugin).map(|metadata| metadata.uid()).ok();
    let ours: Vec<&Path> =
        plugin.ancestors().skip(1).take_while(|above| owner.is_some_and(|owner| is_of(owner, above))).collect();
    if let Some(project) = project_of(plugin).filter(|project| ours.contains(project)) {
        return project;
    }
    let crates = ours.into_iter().take_while(|above| above.join(CRATE).is_file());
    crates.last().unwrap_or(plugin)
}

/// Returns whether a folder belongs to this user, and is not one like `/tmp` where all users may create files.
fn is_of(owner: u32, folder: &Path) -> bool {
    let is_for_all = |mode: u32| mode & 0o1002 == 0o1002;
    fs::metadata(folder).is_ok_and(|metadata| metadata.uid() == owner && !is_for_all(metadata.mode()))
}

/// Returns the folder of built components of the project that a plugin's folder belongs to.
pub fn products_of(plugin: &Path) -> PathBuf {
    root_of(plugin).join(PRODUCTS)
}

/// Returns the folders in a folder that have a `plugin.yaml`, by name.
pub fn plugins_in(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
    let mut found: Vec<_> = entries.map(|entry| entry.path()).filter(|path| path.join(PLUGIN_FILE).is_file()).collect();
    found.sort();
    found
}

/// Returns the only plugin at this place: this folder itself, or the one in its `plugins`.
///
/// # Errors
/// When there is no plugin, or more than one; the error names them.
pub fn only_plugin(here: &Path) -> anyhow::Result<PathBuf> {
    if here.join(PLUGIN_FILE).is_file() {
        return Ok(here.to_owned());
    }
    let mut found = plugins_in(&here.join(PLUGINS));
    match (found.pop(), found.is_empty()) {
        (Some(only), true) => Ok(only),
        (None, _) => {
            anyhow::bail!("no plugin is named, and there is none in {PLUGINS}/; name a folder with a {}", PLUGIN_FILE)
        }
        (Some(last), false) => {
            found.push(last);
            anyhow::bail!("no plugin is named, and there are several; name one of {}", listed(&found))
        }
    }
}

/// Returns a message that names the plugins beside a folder that is no plugin, or those in `plugins` beside it.
pub fn beside(missing: &Path) -> String {
    let dir = missing.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let found = [plugins_in(dir), plugins_in(&dir.join(PLUGINS))].concat();
    match found.is_empty() {
        true => format!("name a plugin's folder or its {}", PLUGIN_FILE),
        false => format!("there are {}", listed(&found)),
    }
}

fn listed(folders: &[PathBuf]) -> String {
    let folders = folders.iter().map(|folder| folder.strip_prefix(".").unwrap_or(folder).display().to_string());
    folders.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(plugins: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for name in plugins {
            let folder = dir.path().join(PLUGINS).join(name);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(PLUGIN_FILE), "").unwrap();
        }
        fs::create_dir_all(dir.path().join(PLUGINS).join("sdk")).unwrap();
        dir
    }

    #[test]
    fn the_only_plugin_is_the_default_and_of_several_one_must_be_named() {
        let one = place(&["redis"]);
        assert_eq!(only_plugin(one.path()).unwrap(), one.path().join("plugins/redis"));
        assert_eq!(only_plugin(&one.path().join("plugins/redis")).unwrap(), one.path().join("plugins/redis"));
        let error = only_plugin(place(&["redis", "nginx"]).path()).unwrap_err().to_string();
        assert!(error.contains("plugins/nginx, ") && error.ends_with("plugins/redis"), "{error}");
        let error = only_plugin(place(&[]).path()).unwrap_err().to_string();
        assert!(error.contains("there is none in plugins/"), "{error}");
    }

    #[test]
    fn a_project_is_what_has_plugins_and_the_contract() {
        let dir = place(&["redis"]);
        let plugin = dir.path().join("plugins/redis");
        assert!(!is_project(dir.path()) && project_of(&plugin).is_none());
        fs::create_dir(dir.path().join("wit")).unwrap();
        fs::write(dir.path().join(CONTRACT), "").unwrap();
        assert!(is_project(dir.path()));
        assert_eq!(project_of(&plugin), Some(dir.path()));
        assert_eq!(project_of(&dir.path().join("plugins/examples/nginx")), Some(dir.path()));
        assert_eq!(project_of(&dir.path().join("redis")), None);
    }

    /// A crate in a workspace inside another one, and its folder.
    fn workspace() -> (tempfile::TempDir, PathBuf) {
        let dir = place(&["redis"]);
        for folder in ["", "plugins", "plugins/redis"] {
            fs::write(dir.path().join(folder).join(CRATE), "").unwrap();
        }
        let plugin = dir.path().join("plugins/redis");
        (dir, plugin)
    }

    #[test]
    fn the_root_is_the_project_or_the_outermost_workspace_without_a_gap() {
        let (dir, plugin) = workspace();
        assert_eq!(root_of(&plugin), dir.path());
        fs::remove_file(dir.path().join("plugins").join(CRATE)).unwrap();
        assert_eq!(root_of(&plugin), plugin);
        fs::create_dir(dir.path().join("wit")).unwrap();
        fs::write(dir.path().join(CONTRACT), "").unwrap();
        assert_eq!(root_of(&plugin), dir.path());
        assert_eq!(products_of(&plugin), dir.path().join("target/plugins"));
        assert_eq!(root_of(Path::new("/no/such/folder")), Path::new("/no/such/folder"));
    }

    #[test]
    fn a_folder_where_all_users_may_create_files_is_no_root() {
        use std::os::unix::fs::PermissionsExt;
        let (dir, plugin) = workspace();
        for (mode, is_root) in [(0o1777, false), (0o775, true), (0o1777, false), (0o777, true)] {
            fs::set_permissions(dir.path(), fs::Permissions::from_mode(mode)).unwrap();
            let root = if is_root { dir.path() } else { plugin.parent().unwrap() };
            assert_eq!(root_of(&plugin), root, "{mode:o}");
        }
    }

    #[test]
    fn a_folder_of_another_user_is_no_root_and_ends_the_search() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let (dir, plugin) = workspace();
        let theirs = |folder: &Path, is_theirs: bool| {
            std::os::unix::fs::chown(folder, Some(if is_theirs { 65_534 } else { 0 }), None).unwrap();
        };
        theirs(dir.path(), true);
        assert_eq!(root_of(&plugin), dir.path().join("plugins"));
        theirs(&dir.path().join("plugins"), true);
        theirs(dir.path(), false);
        assert_eq!(root_of(&plugin), plugin);
        fs::create_dir(dir.path().join("wit")).unwrap();
        fs::write(dir.path().join(CONTRACT), "").unwrap();
        assert_eq!(root_of(&plugin), plugin, "not even as a project");
    }

    #[test]
    fn for_a_folder_that_is_no_plugin_the_plugins_beside_it_are_named() {
        let dir = place(&["redis", "nginx"]);
        for missing in ["plugins/ngnix", "nginx"] {
            let found = beside(&dir.path().join(missing));
            assert!(found.starts_with("there are ") && found.contains("plugins/nginx, "), "{found}");
        }
        assert!(beside(&dir.path().join("plugins/redis/a")).contains("name a plugin's folder"));
    }
}
