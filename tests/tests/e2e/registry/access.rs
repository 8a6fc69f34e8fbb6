//! How a registry is reached: credentials, certificates, proxies.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write, copy};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hotshoe_platform::child::SMALL_ARENA;
use hotshoe_registry::process::VERB;
use hotshoe_registry::{Access, Pull};
use hotshoe_tests::Registry;
use hotshoe_tests::registry::{LOGIN, Start};
use serde_json::json;

use super::{Desk, Ended, component};

/// A name that only the proxy resolves.
const NAME: &str = "registry.test";

impl Desk {
    /// Logs in as `docker login` does.
    fn log_in(&self, registry: &Registry, (user, password): (&str, &str)) {
        let auth = STANDARD.encode(format!("{user}:{password}"));
        let auths = json!({ registry.address.as_str(): { "auth": auth } });
        self.write("config.json", json!({ "auths": auths }).to_string());
    }
}

#[test]
fn a_registry_that_requires_a_login_serves_a_user_who_is_logged_in() {
    let (registry, desk) = (Registry::with(Start { login: true, ..Start::default() }), Desk::new());
    let image = registry.image("a:1");
    let both: [&[&str]; 2] = [&["push", "a.wasm", &image], &["pull", &image, "--out", "b.wasm"]];
    for arguments in both {
        let error = desk.hotshoe(arguments).refused();
        assert!(error.contains("without credentials") && error.contains("docker login"), "{error}");
    }
    desk.log_in(&registry, (LOGIN.0, "wrong"));
    for arguments in both {
        let error = desk.hotshoe(arguments).refused();
        assert!(error.contains("to the user \"tester\"") && !error.contains("wrong"), "{error}");
    }
    desk.log_in(&registry, LOGIN);
    both.iter().for_each(|arguments| drop(desk.hotshoe(arguments).done()));
    assert_eq!(desk.read("b.wasm"), component());
    desk.write("config.json", "{");
    let error = desk.hotshoe(both[1]).refused();
    assert!(error.contains("config.json") && error.contains("credentials"), "{error}");
}

#[test]
fn a_private_ca_is_trusted_where_it_is_configured() {
    let registry = Registry::with(Start { names: &["127.0.0.1"], ..Start::default() });
    let (desk, image) = (Desk::new(), registry.image("a:1"));
    let plain = desk.hotshoe(&["push", "a.wasm", &image]).refused();
    assert!(plain.contains(&registry.address), "without an authority no TLS is spoken on loopback: {plain}");
    let authority = registry.file("ca.pem").display().to_string();
    desk.hotshoe(&["push", "a.wasm", &image, "--registry-ca", &authority]).done();
    desk.hotshoe(&["pull", &image, "--out", "b.wasm", "--registry-ca", &authority]).done();
    assert_eq!(desk.read("b.wasm"), component());
    let other = Registry::with(Start { names: &["127.0.0.1"], ..Start::default() });
    let other = other.file("ca.pem").display().to_string();
    let error = desk.hotshoe(&["pull", &image, "--out", "b.wasm", "--registry-ca", &other]).refused();
    assert!(error.contains("cannot reach") && error.contains("certificate"), "{error}");
    desk.write("words.pem", "words");
    let error = desk.hotshoe(&["pull", &image, "--out", "b.wasm", "--registry-ca", "words.pem"]).refused();
    assert!(error.contains("no certificate"), "{error}");
}

/// A proxy that connects to this port of loopback, whatever it is asked for, and reports that.
fn proxy(port: &str) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address").to_string();
    let (report, asked) = mpsc::channel();
    let to = format!("127.0.0.1:{port}");
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let mut lines = BufReader::new(client.try_clone().expect("a second handle")).lines();
            let first = lines.next().and_then(Result::ok).unwrap_or_default();
            while lines.next().and_then(Result::ok).is_some_and(|line| !line.is_empty()) {}
            // The receiver may have been dropped.
            drop(report.send(first));
            tunnel(client, &to);
        }
    });
    (address, asked)
}

fn tunnel(mut client: TcpStream, to: &str) {
    let mut server = TcpStream::connect(to).expect("the registry listens");
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").expect("the client reads");
    let (mut from_client, mut to_server) =
        (client.try_clone().expect("a handle"), server.try_clone().expect("a handle"));
    std::thread::spawn(move || copy(&mut from_client, &mut to_server));
    std::thread::spawn(move || copy(&mut server, &mut client));
}

#[test]
fn the_proxy_of_the_environment_is_used_except_for_hosts_in_no_proxy() {
    let registry = Registry::with(Start { names: &[NAME], ..Start::default() });
    let desk = Desk::new();
    let (address, asked) = proxy(registry.port());
    let image = format!("oci://{NAME}:{}/a:1", registry.port());
    let push = |without: &str| {
        let mut command = desk.command(&hotshoe_tests::host::program());
        command.args(["push", "a.wasm", &image, "--registry-ca"]).arg(registry.file("ca.pem"));
        command.env("HTTPS_PROXY", format!("http://{address}")).env("NO_PROXY", without);
        Ended::of(command.output().expect("hotshoe runs"))
    };
    push("").done();
    assert_eq!(asked.try_recv().as_deref(), Ok(&*format!("CONNECT {NAME}:{} HTTP/1.1", registry.port())));
    while asked.try_recv().is_ok() {}
    let error = push(NAME).refused();
    assert!(error.contains("cannot reach") && error.contains("NO_PROXY"), "{error}");
    assert!(asked.try_recv().is_err(), "the proxy was asked");
}

#[test]
fn the_confined_process_uses_the_proxy_of_the_environment_too() {
    let registry = Registry::with(Start { names: &[NAME], ..Start::default() });
    let (address, asked) = proxy(registry.port());
    let authorities = Some(fs::read_to_string(registry.file("ca.pem")).expect("an authority"));
    let pull = Pull {
        image: format!("oci://{NAME}:{}/a:1", registry.port()).parse().expect("a reference"),
        access: Access { authorities, ..Access::default() },
        most: 1,
        verify: None,
    };
    // What the host writes to the process's standard input.
    let request = json!({ "pull": pull, "only_resolve": true }).to_string();
    let desk = Desk::new();
    desk.write("request", request);
    let mut command = desk.command(&hotshoe_tests::host::program());
    // As the host starts it.
    command.arg(VERB).env(SMALL_ARENA.0, SMALL_ARENA.1).env("HTTPS_PROXY", format!("http://{address}"));
    command.stdin(File::open(desk.path("request")).expect("a file"));
    let answer = Ended::of(command.output().expect("hotshoe runs")).done();
    assert!(answer.contains("ImageNotFound"), "nothing was pushed: {answer}");
    assert_eq!(asked.try_recv().as_deref(), Ok(&*format!("CONNECT {NAME}:{} HTTP/1.1", registry.port())));
}

#[test]
fn a_system_without_ca_certificates_uses_the_built_in_ones() {
    let (registry, desk) = (Registry::start(), Desk::new());
    let mut command = desk.command(&hotshoe_tests::host::program());
    command.args(["push", "a.wasm", &registry.image("a:1")]);
    command.env("SSL_CERT_FILE", "/none").env("SSL_CERT_DIR", "/none");
    Ended::of(command.output().expect("hotshoe runs")).done();
}
