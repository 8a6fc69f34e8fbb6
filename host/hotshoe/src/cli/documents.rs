//! Files with objects that a user names; `-` is standard input.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::cli::project::shown;

/// The maximum size of a file with objects, in bytes: some objects of the largest size that Kubernetes stores.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Reads the objects of a file; those of a list count each.
///
/// # Errors
/// When it cannot be read, is too large, or is no YAML.
pub(super) fn objects(file: &Path) -> anyhow::Result<Vec<Value>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text(file)?).with_context(|| unreadable(file))?;
    let objects = documents.into_iter().filter(|document| !document.is_null()).flat_map(|document| {
        match document.get("items").and_then(Value::as_array) {
            Some(items) => items.clone(),
            None => vec![document],
        }
    });
    Ok(objects.collect())
}

/// Reads a file as text.
///
/// # Errors
/// When it cannot be read, or is too large.
pub(super) fn text(file: &Path) -> anyhow::Result<String> {
    let read = || -> io::Result<String> {
        let from: Box<dyn Read> =
            if file.as_os_str() == "-" { Box::new(io::stdin().lock()) } else { Box::new(File::open(file)?) };
        let mut text = String::new();
        from.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)?;
        Ok(text)
    };
    let text = read().with_context(|| unreadable(file))?;
    ensure!(text.len() as u64 <= MAX_FILE_BYTES, "{}: it has more than {MAX_FILE_BYTES} bytes", unreadable(file));
    Ok(text)
}

fn unreadable(file: &Path) -> String {
    format!("{} cannot be read", shown(file).display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_object_of_a_list_and_of_each_document_counts_and_a_file_has_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("objects.yaml");
        std::fs::write(&path, "kind: A\n---\n---\nitems: [{kind: B}, {kind: C}]\n").unwrap();
        let kinds: Vec<Value> = objects(&path).unwrap().into_iter().map(|object| object["kind"].clone()).collect();
        assert_eq!(kinds, ["A", "B", "C"]);
        File::create(&path).unwrap().set_len(MAX_FILE_BYTES + 1).unwrap();
        let error = format!("{:#}", text(&path).unwrap_err());
        assert!(error.contains("cannot be read: it has more than 67108864 bytes"), "{error}");
    }
}
