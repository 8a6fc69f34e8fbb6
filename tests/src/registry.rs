//! A registry as a process on loopback, with storage of its own: Debian's `docker-registry`, which is the reference
//! implementation. What the tests put into it by hand, they put by plain HTTP.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hotshoe_core::model::digest::Digest;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::host::{leash, tail};
use crate::repository;

/// Who may use a registry that wants to be logged in to. The file has the password's bcrypt.
pub const LOGIN: (&str, &str) = ("tester", "secret");
const PASSWORDS: &str = "tester:$2b$04$/rb.k9SpMP6Zmo5302kJZOEh2Be3PEa5RGKRhqI.YdC.FL3WlNtTm\n";
/// How long it takes to start at most.
const PATIENCE: Duration = Duration::from_secs(30);
const LISTENING: &str = "listening on ";

/// A program that `tests/registry/install.sh` gets where the machine has none.
pub fn tool(name: &str) -> PathBuf {
    let unpacked = repository("target/tools/registry/bin").join(name);
    if unpacked.exists() { unpacked } else { name.into() }
}

/// A registry. It ends with this value, and with this process.
pub struct Registry {
    child: Child,
    leash: Child,
    folder: TempDir,
    /// Where it listens: an address with its port.
    pub address: String,
}

/// What is special about a registry.
#[derive(Clone, Copy, Default)]
pub struct Start {
    /// It serves only who is logged in as [`LOGIN`].
    pub login: bool,
    /// It speaks TLS, with a certificate for these names that an authority of its own signed.
    pub names: &'static [&'static str],
}

/// A public key that has signed nothing, in PEM.
///
/// # Panics
/// When no key can be made.
pub fn a_public_key() -> String {
    KeyPair::generate().expect("a key").public_key_pem()
}

impl Registry {
    /// Starts one for everybody, without TLS.
    pub fn start() -> Self {
        Self::with(Start::default())
    }

    /// Starts one that is special.
    ///
    /// # Panics
    /// When there is none on this machine, or it does not start.
    pub fn with(start: Start) -> Self {
        let folder = TempDir::with_prefix("hotshoe-registry-").expect("a folder");
        let log = folder.path().join("log");
        fs::write(folder.path().join("config.json"), config(folder.path(), start).to_string()).expect("a file");
        let file = File::create(&log).expect("a log file");
        let output = file.try_clone().expect("a second handle");
        let child = Command::new(tool("docker-registry"))
            .args(["serve", "config.json"])
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(file)
            .spawn()
            .expect("docker-registry is installed; tests/registry/install.sh does so");
        let leash = leash(child.id());
        let mut registry = Self { child, leash, folder, address: String::new() };
        registry.address = registry.listening();
        registry
    }

    /// Waits until it says where it listens.
    fn listening(&mut self) -> String {
        let (began, log) = (Instant::now(), self.file("log"));
        while began.elapsed() < PATIENCE && self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            let said = fs::read_to_string(&log).unwrap_or_default();
            if let Some((_, rest)) = said.split_once(LISTENING) {
                let end = rest.find(|letter: char| !(letter.is_ascii_digit() || ".:".contains(letter)));
                if let Some(address) = end.and_then(|end| rest.get(..end)) {
                    return address.to_owned();
                }
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("the registry does not start\n{}", tail(&log));
    }

    /// A file beside its storage: `ca.pem` is its authority.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The port that it listens on.
    pub fn port(&self) -> &str {
        self.address.rsplit_once(':').expect("an address with a port").1
    }

    /// A reference to something in it.
    pub fn image(&self, name: &str) -> String {
        format!("oci://{}/{name}", self.address)
    }

    /// Puts an image there by hand.
    ///
    /// # Panics
    /// When the registry does not take it.
    pub fn put(&self, repository: &str, tag: &str, manifest: &Value) -> Digest {
        let kind = manifest["mediaType"].as_str().expect("a media type");
        let bytes = manifest.to_string();
        let path = format!("/v2/{repository}/manifests/{tag}");
        let (code, said) = self.exchange("PUT", &path, kind, bytes.as_bytes());
        assert_eq!(code, 201, "{path}: {said}");
        Digest::of(bytes.as_bytes())
    }

    /// Deletes the manifest with this digest.
    ///
    /// # Panics
    /// When the registry does not.
    pub fn delete(&self, repository: &str, digest: Digest) {
        let path = format!("/v2/{repository}/manifests/sha256:{}", digest.full());
        let (code, said) = self.exchange("DELETE", &path, "application/json", b"");
        assert_eq!(code, 202, "{path}: {said}");
    }

    /// Puts a blob there by hand, and returns its descriptor.
    ///
    /// # Panics
    /// When the registry does not take it.
    pub fn blob(&self, repository: &str, kind: &str, bytes: &[u8]) -> Value {
        let (code, said) = self.exchange("POST", &format!("/v2/{repository}/blobs/uploads/"), kind, b"");
        assert_eq!(code, 202, "{said}");
        let location = said.lines().find_map(|line| line.strip_prefix("Location: ")).expect("a location");
        let path = location.trim().trim_start_matches("http://").trim_start_matches(&self.address);
        let digest = format!("sha256:{}", Digest::of(bytes).full());
        let (code, said) = self.exchange("PUT", &format!("{path}&digest={digest}"), "application/octet-stream", bytes);
        assert_eq!(code, 201, "{said}");
        json!({ "mediaType": kind, "digest": digest, "size": bytes.len() })
    }

    /// The code of an answer, and all of it.
    fn exchange(&self, method: &str, path: &str, kind: &str, body: &[u8]) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).expect("the registry listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time");
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            self.address,
            body.len()
        );
        stream.write_all(&[head.as_bytes(), body].concat()).expect("the registry reads");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("the registry answers");
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_default();
        (code, answer)
    }

    /// Stops it, and keeps its storage.
    pub fn stop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        // Whatever fails here, it has ended.
        self.stop();
        drop(self.leash.kill());
        drop(self.leash.wait());
    }
}

fn config(folder: &Path, start: Start) -> Value {
    let mut config = json!({
        "version": "0.1",
        "log": { "accesslog": { "disabled": true }, "level": "info" },
        "storage": { "filesystem": { "rootdirectory": folder.join("storage") }, "delete": { "enabled": true } },
        "http": { "addr": "127.0.0.1:0" },
    });
    if start.login {
        fs::write(folder.join("passwords"), PASSWORDS).expect("a file");
        config["auth"] = json!({ "htpasswd": { "realm": "tests", "path": folder.join("passwords") } });
    }
    if !start.names.is_empty() {
        certify(folder, start.names);
        config["http"]["tls"] = json!({ "certificate": folder.join("tls.pem"), "key": folder.join("tls.key") });
    }
    config
}

/// Writes an authority, and a certificate that it signed.
fn certify(folder: &Path, names: &[&str]) {
    let of = |names: &[&str]| CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
    let key = || KeyPair::generate().expect("a key");
    let mut authority = of(&[]).expect("parameters");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, key()).expect("an authority");
    let own = key();
    let certificate = of(names).expect("names").signed_by(&own, &authority).expect("a certificate");
    let write = |name: &str, text: String| fs::write(folder.join(name), text).expect("a file");
    write("ca.pem", authority.pem());
    write("tls.pem", certificate.pem());
    write("tls.key", own.serialize_pem());
}
