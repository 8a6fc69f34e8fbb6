//! Pulling in a separate process, which a registry may take over.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hotshoe_core::model::digest::Digest;
use hotshoe_registry::process::{self, Puller};
use hotshoe_registry::{Access, Pull, RegistryError, Verify};
use rcgen::{KeyPair, SigningKey as _};
use serde_json::json;
use tempfile::TempDir;

use crate::plugin_support::HOTSHOE;

/// Writes a registry's response to a request for this path.
type Answer = fn(&str, &mut TcpStream) -> std::io::Result<()>;

/// Starts a registry, and returns a request to pull from it.
fn registry(answer: Answer) -> Pull {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let mut lines = BufReader::new(client.try_clone().unwrap()).lines().map_while(Result::ok);
                let first = lines.next().unwrap_or_default();
                while lines.next().is_some_and(|line| !line.is_empty()) {}
                // The client may have closed the connection.
                let _ = answer(&first, &mut client);
            });
        }
    });
    let image = format!("oci://{address}/a:1").parse().unwrap();
    Pull { image, access: Access::default(), most: 1 << 20, verify: None }
}

fn ok(client: &mut TcpStream, headers: &str, body: &str) -> std::io::Result<()> {
    let length = body.len();
    write!(client, "HTTP/1.1 200 OK\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n{body}")
}

/// Writes for as long as the client reads.
fn endless(client: &mut TcpStream) -> std::io::Result<()> {
    client.set_write_timeout(Some(Duration::from_secs(60)))?;
    write!(
        client,
        "HTTP/1.1 200 OK\r\nConnection: close\r\nDocker-Content-Digest: sha256:{}\r\n\r\n",
        Digest::of(b"").full()
    )?;
    loop {
        client.write_all(&[b' '; 65536])?;
    }
}

async fn refusal(pull: &Pull) -> RegistryError {
    Puller::new(HOTSHOE.into()).pull(pull).await.unwrap_err()
}

#[tokio::test]
async fn an_answer_without_end_is_read_up_to_its_bound_by_the_process_that_pulls() {
    let pull = registry(|first, client| match first {
        _ if first.contains("GET /v2/a/manifests/") => endless(client),
        _ => ok(client, &format!("Docker-Content-Digest: sha256:{}\r\n", Digest::of(b"").full()), ""),
    });
    let error = refusal(&pull).await;
    assert_eq!(error.reason(), "WrongMediaType");
    assert!(error.to_string().contains("more than 4Mi"), "{error}");
}

#[tokio::test]
async fn an_error_of_the_registry_is_the_same_in_the_host() {
    let pull = registry(|_, client| {
        write!(client, "HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
    });
    assert_eq!(refusal(&pull).await, RegistryError::ImageNotFound { image: pull.image.to_string() });
    let resolved = Puller::new(HOTSHOE.into()).resolve(&pull.image, &pull.access).await;
    assert_eq!(resolved.unwrap_err().reason(), "ImageNotFound");
}

#[tokio::test]
async fn the_host_looks_up_the_name_of_a_registry_for_the_process_that_pulls() {
    let pull = registry(|_, client| {
        write!(client, "HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
    });
    let image = pull.image.to_string().replace("127.0.0.1", "localhost").parse().unwrap();
    assert_eq!(refusal(&Pull { image, ..pull }).await.reason(), "ImageNotFound");
}

/// A program that answers like a child that was taken over when it is asked to pull, and is `hotshoe` otherwise.
struct TakenOver {
    folder: TempDir,
    digest: Digest,
}

impl TakenOver {
    /// Has it say that it pulled a component, and hand on this signature.
    fn with(evidence: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let component = b"\0asm\x0d\0\x01\0";
        let sha256 = |bytes: &[u8]| format!("sha256:{}", Digest::of(bytes).full());
        let manifest = json!({
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": { "mediaType": "application/vnd.wasm.config.v0+json", "digest": sha256(b"{}"), "size": 2 },
            "layers": [{ "mediaType": "application/wasm", "digest": sha256(component), "size": component.len() }],
        })
        .to_string();
        let digest = Digest::of(manifest.as_bytes());
        let said = json!({ "Pulled": {
            "digest": digest, "manifest": manifest.len(), "component": component.len(), "evidence": evidence.len(),
        }});
        let said = [format!("{said}\n{manifest}").as_bytes(), component, evidence.as_bytes()].concat();
        fs::write(folder.path().join("said"), said).unwrap();
        let program = format!(
            "#!/bin/sh\nif [ \"$1\" = {} ]; then read -r request; exec cat {}/said; fi\nexec {HOTSHOE} \"$@\"\n",
            process::VERB,
            folder.path().display(),
        );
        fs::write(folder.path().join("program"), program).unwrap();
        fs::set_permissions(folder.path().join("program"), Permissions::from_mode(0o700)).unwrap();
        Self { folder, digest }
    }

    /// Pulls what must be signed by this key.
    async fn pull(&self, key: &KeyPair) -> Result<usize, RegistryError> {
        let verify = Some(Verify { keys: vec![key.public_key_pem()], ..Verify::default() });
        let image = "oci://example.org/a:1".parse().unwrap();
        let pull = Pull { image, access: Access::default(), most: 1 << 20, verify };
        let pulled = Puller::new(self.folder.path().join("program")).pull(&pull).await?;
        Ok(pulled.signature.unwrap().signer)
    }
}

/// Returns a signature of an image, as the process that pulls hands it on.
fn signature(key: &KeyPair, digest: Digest) -> String {
    let payload = json!({ "critical": {
        "identity": { "docker-reference": "" },
        "image": { "docker-manifest-digest": format!("sha256:{}", digest.full()) },
        "type": "cosign container image signature",
    }})
    .to_string();
    let signed = STANDARD.encode(key.sign(payload.as_bytes()).unwrap());
    json!({ "Simple": { "payload": payload, "annotations": { "dev.cosignproject.cosign/signature": signed } } })
        .to_string()
}

#[tokio::test]
async fn a_process_that_pulls_and_was_taken_over_cannot_pass_off_what_is_not_signed() {
    let (key, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let digest = TakenOver::with("null").digest;
    assert_eq!(TakenOver::with(&signature(&key, digest)).pull(&key).await, Ok(0), "what is signed is accepted");
    for (evidence, reason) in [
        ("null".to_owned(), "PullFailed"),
        ("words".to_owned(), "PullFailed"),
        (signature(&other, digest), "SignatureInvalid"),
        (signature(&key, Digest::of(b"other")), "SignatureInvalid"),
    ] {
        let refused = TakenOver::with(&evidence).pull(&key).await.unwrap_err();
        assert_eq!(refused.reason(), reason, "{refused}");
    }
}
