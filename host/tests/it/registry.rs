//! Pulling in a separate process, from registries whose answers end that process.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use hotshoe::registry::process::Puller;
use hotshoe::registry::{Access, Pull, RegistryError};
use hotshoe_core::model::digest::Digest;

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
