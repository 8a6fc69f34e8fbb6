//! The CRDs and samples in the folders of a project.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::keywords::Schema;
use crate::cli::project::Folder;
use hotshoe_cluster::discovery;
use hotshoe_core::model::kind::Kind;

/// The folder of samples among the CRDs.
const SAMPLES: &str = "samples";

/// The documents in the folders of a project.
#[derive(Clone, Debug, Default)]
pub(in crate::cli) struct Files {
    documents: Vec<(PathBuf, Value)>,
    /// The number of these that are no samples. Samples come last.
    others: usize,
    /// The files that cannot be read, each with the reason.
    unreadable: Vec<(PathBuf, String)>,
}

/// A version of a kind in its CRD.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Version<'a> {
    /// The file of the CRD.
    pub(in crate::cli) file: &'a Path,
    /// The kind, in this version.
    pub(in crate::cli) kind: Kind,
    pub(in crate::cli) is_namespaced: bool,
    pub(in crate::cli) schema: Schema<'a>,
}

impl Version<'_> {
    /// Returns whether the CRD says what an object looks like.
    pub(in crate::cli) fn has_schema(&self) -> bool {
        self.schema.json().is_object()
    }
}

impl Files {
    /// Reads the documents that go with a plugin.
    pub(in crate::cli) fn of(folder: &Folder) -> Self {
        let (mut files, crds) = (Self::default(), folder.crds());
        files.add(&crds);
        files.others = files.documents.len();
        files.add(&crds.join(SAMPLES));
        files
    }

    /// Takes a document that does not come from a project.
    pub(in crate::cli) fn alone(place: PathBuf, document: Value) -> Self {
        Self { documents: vec![(place, document)], others: 1, unreadable: Vec::new() }
    }

    fn add(&mut self, folder: &Path) {
        for path in paths(folder) {
            match read(&path) {
                Ok(documents) => self.documents.extend(documents.into_iter().map(|document| (path.clone(), document))),
                Err(why) => self.unreadable.push((path, why)),
            }
        }
    }

    /// Returns the objects, each with its file.
    pub(in crate::cli) fn objects(&self) -> impl Iterator<Item = &(PathBuf, Value)> {
        self.documents.iter()
    }

    /// Returns the samples, each with its file.
    pub(in crate::cli) fn samples(&self) -> impl Iterator<Item = &(PathBuf, Value)> {
        self.documents.iter().skip(self.others)
    }

    /// Returns the number of stored versions of each CRD, with its file.
    pub(in crate::cli) fn stored_versions(&self) -> impl Iterator<Item = (&Path, usize)> {
        let is_crd = |document: &Value| document.get("kind").is_some_and(|kind| kind == "CustomResourceDefinition");
        let crds = self.documents.iter().filter(move |(_, document)| is_crd(document));
        crds.map(|(file, document)| {
            let versions = document.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
            let stored = versions.filter(|version| version.get("storage") == Some(&Value::Bool(true)));
            (file.as_path(), stored.count())
        })
    }

    /// Returns the files that cannot be read, each with the reason.
    pub(in crate::cli) fn unreadable(&self) -> impl Iterator<Item = &(PathBuf, String)> {
        self.unreadable.iter()
    }

    /// Returns whether the objects of a kind are in namespaces: by its CRD, or as usual without one.
    pub(in crate::cli) fn is_namespaced(&self, kind: &Kind) -> bool {
        let by_crd = self.versions(kind).first().map(|version| version.is_namespaced);
        by_crd.unwrap_or_else(|| discovery::conventional(kind).namespaced)
    }

    /// Returns the CRD of a kind with its name, whichever versions it has.
    pub(in crate::cli) fn definition(&self, kind: &Kind) -> Option<(&str, &Value)> {
        let is_of = |document: &Value| {
            let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str);
            (text("/spec/group"), text("/spec/names/kind")) == (Some(&kind.group), Some(&kind.kind))
        };
        let (_, definition) = self.documents.iter().find(|(_, document)| is_of(document))?;
        Some((definition.pointer("/metadata/name").and_then(Value::as_str)?, definition))
    }

    /// Returns the versions that the CRD of a kind has; none if there is no such CRD.
    pub(in crate::cli) fn versions(&self, kind: &Kind) -> Vec<Version<'_>> {
        self.documents.iter().flat_map(|(file, document)| versions_of(file, document, kind)).collect()
    }
}

/// Returns the YAML files of a folder.
fn paths(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml"));
    paths.sort();
    paths
}

fn read(path: &Path) -> Result<Vec<Value>, String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    serde_saphyr::from_multiple(&text).map_err(|error| error.to_string())
}

/// Returns the versions that a document has, if it is the CRD of this kind.
fn versions_of<'a>(file: &'a Path, document: &'a Value, kind: &Kind) -> impl Iterator<Item = Version<'a>> {
    let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str);
    let is_its_crd = (text("/spec/group"), text("/spec/names/kind")) == (Some(&kind.group), Some(&kind.kind));
    let versions = document.pointer("/spec/versions").and_then(Value::as_array).filter(|_| is_its_crd);
    let is_namespaced = text("/spec/scope") != Some("Cluster");
    versions.into_iter().flatten().filter_map(move |version| {
        let schema = Schema::new(version.pointer("/schema/openAPIV3Schema").unwrap_or(&Value::Null));
        let kind = Kind::new(&kind.group, version.get("name")?.as_str()?, &kind.kind);
        Some(Version { file, kind, is_namespaced, schema })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_versions_of_a_kind_are_those_of_its_crd() {
        let crd = json!({ "spec": {
            "group": "example.com",
            "names": { "kind": "Test" },
            "versions": [{ "name": "v1" }, { "name": "v2" }],
        } });
        let files = Files { documents: vec![("crds/test.yaml".into(), crd)], ..Files::default() };
        let names = |kind: &str| -> Vec<String> {
            let kind = Kind::new("example.com", "v1", kind);
            files.versions(&kind).iter().map(|version| version.kind.version.to_string()).collect()
        };
        assert_eq!(names("Test"), ["v1", "v2"]);
        assert!(names("Other").is_empty());
    }

    #[test]
    fn a_file_that_is_no_yaml_is_an_error_with_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sample.yaml");
        fs::write(&path, "kind: Test\n---\nbad: [").unwrap();
        assert!(read(&path).unwrap_err().contains("line 3"), "{:?}", read(&path));
        fs::write(&path, b"\xff\xfe").unwrap();
        assert!(read(&path).is_err());
        assert_eq!(paths(folder.path()), [path]);
    }
}
