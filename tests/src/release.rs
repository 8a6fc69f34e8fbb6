//! What a release consists of, made once by `deploy/dist.sh` of what is built, and its image without an engine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use hotshoe_core::model::digest::Digest;
use serde_json::Value;
use tempfile::TempDir;

use crate::repository;

/// The version of the release.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Makes the release, once and without a network, and returns the folder of its files.
///
/// # Panics
/// When it is not made.
pub fn release() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let folder = repository("target/tests/release");
        if folder.exists() {
            fs::remove_dir_all(&folder).expect("the release of an earlier run is removed");
        }
        let output = without_network(&repository("deploy/dist.sh")).arg("--out").arg(&folder).output();
        let output = output.expect("deploy/dist.sh runs");
        println!("{}", String::from_utf8_lossy(&output.stdout));
        assert!(output.status.success(), "no release is made: {}", String::from_utf8_lossy(&output.stderr));
        folder
    })
}

/// Returns a command that runs a program where there is no network.
///
/// # Panics
/// Where this machine does not allow it: a release that is made with a network shows nothing.
fn without_network(program: &Path) -> Command {
    // Without a network of its own, a process has an interface `lo` that is down, and no other.
    let namespaces = ["--map-root-user", "--net"];
    let probe =
        Command::new("unshare").args(namespaces).arg("true").output().expect("unshare runs: it is in util-linux");
    let refusal = String::from_utf8_lossy(&probe.stderr);
    assert!(probe.status.success(), "a process cannot be run without a network here: {refusal}; allow user namespaces");
    let mut command = Command::new("unshare");
    command.args(namespaces).arg(program);
    command
}

/// Returns the path of the one file of the release whose name begins and ends so.
///
/// # Panics
/// When there is none, or several.
pub fn artefact(begin: &str, end: &str) -> PathBuf {
    let names = fs::read_dir(release()).expect("the folder of the release").map(|entry| entry.expect("a file").path());
    let is_it = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with(begin) && name.ends_with(end)
    };
    let mut found: Vec<PathBuf> = names.filter(is_it).collect();
    assert_eq!(found.len(), 1, "{begin}…{end}: {found:?}");
    found.remove(0)
}

/// Returns the path of the program, which the installer of the release installs once.
///
/// # Panics
/// When the release is not made, or cannot be installed.
pub fn installed_program() -> &'static Path {
    static INSTALLED: OnceLock<PathBuf> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let folder = repository("target/tests/installed");
        let mut install = Command::new("sh");
        install.arg(release().join("install.sh")).arg("--from").arg(release()).arg("--to").arg(&folder);
        let output = install.output().expect("the installer runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        folder.join("hotshoe")
    })
}

/// Returns the folder of a crate of the release. It is the same each time, so that the crate is compiled once.
///
/// # Panics
/// When the crates cannot be unpacked.
pub fn unpacked_crate(name: &str) -> PathBuf {
    static UNPACKED: OnceLock<PathBuf> = OnceLock::new();
    let folder = UNPACKED.get_or_init(|| {
        let folder = repository("target/tests/crates");
        for name in ["hotshoe-crd", "hotshoe-sdk"] {
            unpack(&artefact(&format!("{name}-{VERSION}"), ".crate"), &folder);
        }
        folder
    });
    folder.join(format!("{name}-{VERSION}"))
}

/// Unpacks an archive into a folder, as the program `tar` of this machine does.
///
/// # Panics
/// When it cannot.
pub fn unpack(archive: &Path, folder: &Path) {
    fs::create_dir_all(folder).expect("a folder");
    let output = Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(folder).output().expect("tar runs");
    assert!(output.status.success(), "{}: {}", archive.display(), String::from_utf8_lossy(&output.stderr));
}

/// Unpacks the layers of the image with this tag into a folder, as a container runtime does, which checks each digest.
/// Returns the configuration of its containers.
///
/// # Panics
/// When the layout has no such image, or a file is not what its digest says.
pub fn unpack_image(tag: &str, root: &Path) -> Value {
    let layout = TempDir::new().expect("a folder");
    unpack(&artefact("hotshoe-image-", ".oci.tar"), layout.path());
    let blob = |descriptor: &Value| {
        let digest = descriptor["digest"].as_str().and_then(|digest| digest.strip_prefix("sha256:")).expect("a digest");
        let path = layout.path().join("blobs/sha256").join(digest);
        let bytes = fs::read(&path).expect("a blob");
        assert_eq!(Digest::of(&bytes).full(), digest);
        assert_eq!(descriptor["size"], bytes.len());
        (path, bytes)
    };
    let json = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).expect("JSON");
    let index = json(&fs::read(layout.path().join("index.json")).expect("an index"));
    let is_it = |manifest: &&Value| manifest["annotations"]["org.opencontainers.image.ref.name"] == tag;
    let manifest = index["manifests"].as_array().into_iter().flatten().find(is_it).expect("an image with this tag");
    let manifest = json(&blob(manifest).1);
    let config = json(&blob(&manifest["config"]).1);
    let layers = manifest["layers"].as_array().expect("layers");
    assert_eq!(config["rootfs"]["diff_ids"].as_array().map(Vec::len), Some(layers.len()), "{config:#}");
    layers.iter().for_each(|layer| unpack(&blob(layer).0, root));
    config["config"].clone()
}
