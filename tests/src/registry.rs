//! A registry as a process on loopback, with storage of its own: Debian's `docker-registry`, which is the reference
//! implementation. Manifests and blobs that no client of the tests would push are put into it by plain HTTP.

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
use crate::tool;

/// The user and the password of a registry that requires a login. The password file has the bcrypt hash.
pub const LOGIN: (&str, &str) = ("tester", "secret");
const PASSWORDS: &str = "tester:$2b$04$/rb.k9SpMP6Zmo5302kJZOEh2Be3PEa5RGKRhqI.YdC.FL3WlNtTm\n";
/// How long the start of a registry, or a read from it, may take.
const TIMEOUT: Duration = Duration::from_secs(30);
const LISTENING: &str = "listening on ";

/// A registry process. It is killed when this value is dropped or this process ends.
pub struct Registry {
    child: Child,
    leash: Child,
    folder: TempDir,
    /// The address that it listens on, with the port.
    pub address: String,
}

/// The options of a registry.
#[derive(Clone, Copy, Default)]
pub struct Start {
    /// Whether it requires a login as [`LOGIN`].
    pub login: bool,
    /// The names in its TLS certificate, which a CA of its own signed; without any, it serves plain HTTP.
    pub names: &'static [&'static str],
}

/// Generates a public key, with which nothing is signed, in PEM.
///
/// # Panics
/// When no key can be made.
pub fn a_public_key() -> String {
    KeyPair::generate().expect("a key").public_key_pem()
}

impl Registry {
    /// Starts a registry without login and TLS.
    pub fn start() -> Self {
        Self::with(Start::default())
    }

    /// Starts a registry with these options.
    ///
    /// # Panics
    /// When `docker-registry` is not installed, or does not start.
    pub fn with(start: Start) -> Self {
        let folder = TempDir::with_prefix("hotshoe-registry-").expect("a folder");
        let log = folder.path().join("log");
        fs::write(folder.path().join("config.json"), config(folder.path(), start).to_string()).expect("a file");
        let file = File::create(&log).expect("a log file");
        let output = file.try_clone().expect("a second handle");
        let child = Command::new(tool("registry", "docker-registry"))
            .args(["serve", "config.json"])
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(file)
            .spawn()
            .expect("docker-registry is installed; tests/install.sh does so");
        let leash = leash(child.id());
        let mut registry = Self { child, leash, folder, address: String::new() };
        registry.address = registry.listening();
        registry
    }

    /// Waits until the log has the address that the registry listens on.
    fn listening(&mut self) -> String {
        let (began, log) = (Instant::now(), self.file("log"));
        while began.elapsed() < TIMEOUT && self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
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

    /// Returns the path of a file beside the storage: `ca.pem` is the CA certificate.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the port that the registry listens on.
    pub fn port(&self) -> &str {
        self.address.rsplit_once(':').expect("an address with a port").1
    }

    /// Returns a reference to an image in the registry.
    pub fn image(&self, name: &str) -> String {
        format!("oci://{}/{name}", self.address)
    }

    /// Puts a manifest into the registry, and returns its digest.
    ///
    /// # Panics
    /// When the registry refuses it.
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
    /// When the registry refuses it.
    pub fn delete(&self, repository: &str, digest: Digest) {
        let path = format!("/v2/{repository}/manifests/sha256:{}", digest.full());
        let (code, said) = self.exchange("DELETE", &path, "application/json", b"");
        assert_eq!(code, 202, "{path}: {said}");
    }

    /// Puts a blob into the registry, and returns its descriptor.
    ///
    /// # Panics
    /// When the registry refuses it.
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

    /// Sends a request, and returns the status code and the whole response.
    fn exchange(&self, method: &str, path: &str, kind: &str, body: &[u8]) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).expect("the registry listens");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a time");
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

    /// Stops the registry, and keeps its storage.
    pub fn stop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        // Where one of these fails, the process has ended.
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

/// Writes the certificate of a CA, and a certificate that the CA signed.
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
