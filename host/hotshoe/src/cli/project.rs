//! A plugin's folder: `plugin.yaml`, its language, `cases/`, and where its build products go.

use std::fmt;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use serde::Deserialize;

use hotshoe_core::check::parent_kind::ParentKind;
use hotshoe_core::model::limits::{COMPONENT_BYTES, Limits, Overrides};
use hotshoe_operator::config::{file, folders};
use hotshoe_platform::safe_file;
use hotshoe_sandbox::cases::Case;

const MANIFEST: &str = "plugin.yaml";
const CRATE: &str = "Cargo.toml";
const PYTHON_PROJECT: &str = "pyproject.toml";
const PACKAGE: &str = "package.json";
/// The folder of CRDs in a project.
const CRDS: &str = "crds";
/// The target directory of plugins, apart from the host's.
const GUESTS: &str = "target/guests";

/// A language that `hotshoe build` compiles. It is recognised by a file in the plugin's folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Language {
    Rust,
    Python,
    #[value(name = "js", alias = "javascript")]
    JavaScript,
}

/// As `--lang` takes it.
impl fmt::Display for Language {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Language::Rust => "rust",
            Language::Python => "python",
            Language::JavaScript => "js",
        })
    }
}

impl Language {
    pub(super) const ALL: [Language; 3] = [Language::Rust, Language::Python, Language::JavaScript];

    /// Returns the name of the file by which the language is recognised and which says how to build.
    pub(super) fn file(self) -> &'static str {
        match self {
            Language::Rust => CRATE,
            Language::Python => PYTHON_PROJECT,
            Language::JavaScript => PACKAGE,
        }
    }

    /// Returns the names of these files of all languages, for a message.
    pub(super) fn files() -> String {
        Self::ALL.map(Language::file).join(" or ")
    }
}

/// A plugin's folder, with the part of its `plugin.yaml` that the commands for authors need.
#[derive(Debug)]
pub(super) struct Folder {
    /// The plugin's name.
    pub(super) name: String,
    /// The absolute path of the folder.
    pub(super) dir: PathBuf,
    /// The plugin's limits.
    pub(super) limits: Limits,
    /// The kind that the plugin serves, if its `plugin.yaml` names one.
    pub(super) parent: Option<ParentKind>,
    manifest: PathBuf,
    file: PathBuf,
}

/// The part of `plugin.yaml` that is needed here; `hotshoe run` reads all of it, strictly.
#[derive(Deserialize)]
struct Manifest {
    metadata: Metadata,
    spec: Spec,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
}

#[derive(Deserialize)]
struct Spec {
    source: Source,
    #[serde(default)]
    parent: Option<ParentKind>,
    #[serde(default)]
    limits: Overrides,
}

#[derive(Deserialize)]
struct Source {
    #[serde(default)]
    file: Option<PathBuf>,
}

/// A case and its file.
#[derive(Debug)]
pub(super) struct CaseFile {
    pub(super) path: PathBuf,
    pub(super) text: String,
    pub(super) case: Case,
}

impl Folder {
    /// Opens a folder, or the folder of a `plugin.yaml`.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let path = std::path::absolute(path)?;
        let manifest = if path.is_dir() { path.join(MANIFEST) } else { path };
        let Manifest { metadata, spec } = file::parse(&file::read(&manifest)?, &manifest)?;
        let limits = Limits::with(&spec.limits).with_context(|| format!("{} cannot be used", manifest.display()))?;
        let dir = manifest.parent().unwrap_or(Path::new("/")).to_owned();
        let Spec { source, parent, .. } = spec;
        // A component that hosts fetch from elsewhere is built here too.
        let file = source.file.unwrap_or_else(|| PathBuf::from(format!("{}.wasm", metadata.name)));
        Ok(Self { name: metadata.name, dir, limits, parent, manifest, file })
    }

    /// Opens the folder that is named, or otherwise the only plugin here.
    pub(super) fn named(path: Option<&Path>) -> anyhow::Result<Self> {
        match path {
            Some(path) => Self::open(path),
            None => Self::open(&folders::only_plugin(Path::new("."))?),
        }
    }

    /// Returns the path of its `plugin.yaml`.
    pub(super) fn manifest(&self) -> &Path {
        &self.manifest
    }

    /// Returns the path of its `Cargo.toml`, which exists only if the plugin is in Rust.
    pub(super) fn crate_manifest(&self) -> PathBuf {
        self.dir.join(CRATE)
    }

    /// Returns the plugin's language, if `hotshoe build` knows it.
    pub(super) fn language(&self) -> Option<Language> {
        Language::ALL.into_iter().find(|language| self.dir.join(language.file()).is_file())
    }

    /// Returns the root of the project or workspace that the plugin belongs to.
    pub(super) fn root(&self) -> &Path {
        folders::root_of(&self.dir)
    }

    /// Returns the folder of the CRDs that go with the plugin, and of samples: the nearest above it, within its project.
    pub(super) fn crds(&self) -> PathBuf {
        let above = self.dir.ancestors().skip(1).take_while(|above| above.starts_with(self.root()));
        let nearest = above.map(|above| above.join(CRDS)).find(|crds| crds.is_dir());
        nearest.unwrap_or_else(|| self.root().join(CRDS))
    }

    /// Returns the directory into which cargo compiles the crates of plugins.
    pub(super) fn guests(&self) -> PathBuf {
        self.root().join(GUESTS)
    }

    /// Returns the path to which `hotshoe build` writes the component, where hosts look for it.
    pub(super) fn product(&self) -> PathBuf {
        folders::products_of(&self.dir).join(&self.file)
    }

    /// Returns the path of the component: the file in `components`, if that folder is given; otherwise the file beside
    /// `plugin.yaml`, or else the build product.
    pub(super) fn component(&self, components: Option<&Path>) -> anyhow::Result<PathBuf> {
        if let Some(components) = components {
            let path = components.join(&self.file);
            let shown = shown(&self.dir).display();
            ensure!(
                path.is_file(),
                "{} is not there: run `hotshoe build {shown} --out {}/`",
                path.display(),
                components.display()
            );
            return Ok(path);
        }
        let candidates = [self.dir.join(&self.file), self.product()];
        match candidates.into_iter().find(|path| path.is_file()) {
            Some(path) => Ok(path),
            None => bail!("{} {}", self.file.display(), self.how_to_build()),
        }
    }

    /// Returns the path to which `hotshoe build --out` writes the component. `out` is a file, or a folder for it.
    pub(super) fn out(&self, out: PathBuf) -> PathBuf {
        let names_folder = out.as_os_str().as_encoded_bytes().ends_with(b"/") || out.is_dir();
        if names_folder { out.join(&self.file) } else { out }
    }

    /// Returns the command that builds the component.
    pub(super) fn build_command(&self) -> String {
        let from = if self.language().is_some() { "" } else { " --from FILE" };
        format!("hotshoe build {}{from}", shown(&self.dir).display())
    }

    fn how_to_build(&self) -> String {
        let command = self.build_command();
        match self.language() {
            Some(_) => format!("is not built yet: run `{command}`"),
            None => format!(
                "is not there yet, and {} has no {}: have the tools of its language make a component or a core module, \
                 and build from that with `{command}`",
                shown(&self.dir).display(),
                Language::files()
            ),
        }
    }

    /// Reads the cases in `cases/*.yaml` and `*.yml`, in the order of their file names.
    pub(super) fn cases(&self) -> anyhow::Result<Vec<CaseFile>> {
        let dir = self.dir.join("cases");
        let Ok(entries) = fs::read_dir(&dir) else { return Ok(Vec::new()) };
        let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<Vec<_>>>()?;
        paths.retain(|path| is_case(path));
        paths.sort();
        let cases = paths.into_iter().map(CaseFile::read).collect::<anyhow::Result<Vec<_>>>()?;
        check_names(&cases)?;
        Ok(cases)
    }
}

impl CaseFile {
    fn read(path: PathBuf) -> anyhow::Result<Self> {
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        match Case::from_yaml(&text) {
            Ok(case) => Ok(Self { path, text, case }),
            Err(error) => bail!("{} is no valid case: {error}", shown(&path).display()),
        }
    }
}

/// Returns whether a file is a case. Hidden files are those of editors.
fn is_case(path: &Path) -> bool {
    let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    !is_hidden && path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml")
}

/// Checks that each case has a name and that no two have the same one: reports and components identify a case by its
/// name.
fn check_names(cases: &[CaseFile]) -> anyhow::Result<()> {
    for (index, CaseFile { path, case, .. }) in cases.iter().enumerate() {
        let path = shown(path).display();
        ensure!(!case.name.trim().is_empty(), "{path}: a case needs a name");
        if let Some(other) = cases.iter().take(index).find(|other| other.case.name == case.name) {
            bail!("{} and {path} are both named {:?}; rename one", shown(&other.path).display(), case.name);
        }
    }
    Ok(())
}

/// Returns the plugins that are named, or otherwise this folder, if it is one, or all in its `plugins`.
///
/// # Errors
/// When none is named, and none is here.
pub(super) fn named_or_all(named: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    if !named.is_empty() {
        return Ok(named.to_vec());
    }
    if Path::new(folders::PLUGIN_FILE).is_file() {
        return Ok(vec![PathBuf::from(".")]);
    }
    let found = folders::plugins_in(Path::new("plugins"));
    ensure!(!found.is_empty(), "no plugin is named, and there is none in plugins/; name a folder with a plugin.yaml");
    Ok(found)
}

/// Returns a path as a user would type it: relative to the current folder, if it is below that.
pub(super) fn shown(path: &Path) -> &Path {
    let here = std::env::current_dir().ok();
    here.and_then(|here| path.strip_prefix(here).ok()).filter(|path| !path.as_os_str().is_empty()).unwrap_or(path)
}

/// Reads a component of at most the size that any plugin may have.
///
/// # Errors
/// When it is no regular file, or too large.
pub(super) fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let (max, shown) = (COMPONENT_BYTES.cap, path.display());
    safe_file::read_whole(path, max)
        .with_context(|| format!("cannot read the component {shown}"))?
        .with_context(|| format!("{shown} is larger than any component may be: {max} (limits.componentBytes)"))
}

/// Reads a component of at most the size that any plugin may have from standard input.
///
/// # Errors
/// When it cannot be read, or is too large.
pub(super) fn read_from(input: impl Read) -> anyhow::Result<Vec<u8>> {
    let (max, mut bytes) = (COMPONENT_BYTES.cap, Vec::new());
    input.take(max.0 + 1).read_to_end(&mut bytes).context("cannot read a component from standard input")?;
    ensure!(
        bytes.len() as u64 <= max.0,
        "standard input is larger than any component may be: {max} (limits.componentBytes)"
    );
    Ok(bytes)
}

/// Writes a file, and creates its missing folders.
pub(super) fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))
        .and_then(|()| safe_file::replace(path, safe_file::SHARED, &[bytes]))
        .with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plugin(manifest: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("plugins/demo");
        fs::create_dir_all(dir.join("cases")).unwrap();
        for cargo in ["Cargo.toml", "plugins/Cargo.toml", "plugins/demo/Cargo.toml"] {
            fs::write(root.path().join(cargo), "").unwrap();
        }
        fs::write(dir.join(MANIFEST), manifest).unwrap();
        root
    }

    const MANIFEST_TEXT: &str = "metadata: {name: demo}\nspec: {source: {file: demo.wasm}, limits: {children: 7}}\n";

    #[test]
    fn a_folder_and_its_manifest_open_the_same_plugin() {
        let root = plugin(MANIFEST_TEXT);
        for path in ["plugins/demo", "plugins/demo/plugin.yaml"] {
            let folder = Folder::open(&root.path().join(path)).unwrap();
            assert_eq!((folder.name.as_str(), folder.limits.children), ("demo", 7));
            assert_eq!(folder.root(), root.path());
            assert_eq!(folder.product(), root.path().join("target/plugins/demo.wasm"));
        }
    }

    #[test]
    fn the_product_of_a_plugin_that_is_no_crate_has_the_same_path() {
        let root = plugin(MANIFEST_TEXT);
        fs::remove_file(root.path().join("plugins/demo/Cargo.toml")).unwrap();
        let folder = Folder::open(&root.path().join("plugins/demo")).unwrap();
        assert_eq!(folder.product(), root.path().join("target/plugins/demo.wasm"));
        assert!(folder.component(None).unwrap_err().to_string().contains("--from FILE"));
    }

    #[test]
    fn the_nearest_crds_above_a_plugin_go_with_it() {
        let root = plugin(MANIFEST_TEXT);
        let crds = || Folder::open(&root.path().join("plugins/demo")).unwrap().crds();
        assert_eq!(crds(), root.path().join("crds"), "also where there are none yet");
        for place in ["crds", "plugins/crds"] {
            fs::create_dir(root.path().join(place)).unwrap();
            assert_eq!(crds(), root.path().join(place));
        }
    }

    #[test]
    fn a_component_beside_the_manifest_comes_first() {
        let root = plugin(MANIFEST_TEXT);
        let folder = Folder::open(&root.path().join("plugins/demo")).unwrap();
        assert!(folder.component(None).unwrap_err().to_string().contains("hotshoe build"));
        write(&folder.product(), b"built").unwrap();
        assert_eq!(folder.component(None).unwrap(), folder.product());
        write(&folder.dir.join("demo.wasm"), b"beside").unwrap();
        assert_eq!(folder.component(None).unwrap(), folder.dir.join("demo.wasm"));
    }

    #[test]
    fn a_case_that_cannot_be_read_is_named() {
        let root = plugin(MANIFEST_TEXT);
        let folder = Folder::open(&root.path().join("plugins/demo")).unwrap();
        assert!(folder.cases().unwrap().is_empty());
        fs::write(folder.dir.join("cases/a.yaml"), "name: a\nparnt: {}\n").unwrap();
        let error = folder.cases().unwrap_err().to_string();
        assert!(error.contains("a.yaml") && error.contains("parnt"), "{error}");
    }
}
