//! What any client gets from the host's ports, and that no client keeps others waiting.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use hotshoe_tests::faulty::scene;
use hotshoe_tests::guests::Folder;
use hotshoe_tests::host::program;
use hotshoe_tests::{Host, Scene, run};
use tempfile::TempDir;

/// The default timeout of a kubelet's probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
/// A number of connections that is larger than what a host serves at once.
const IDLE_CONNECTIONS: usize = 200;

/// Probes as a kubelet does: on a new connection, with a timeout.
fn probe(address: &str, path: &str) -> Result<String, String> {
    let began = Instant::now();
    let asked = TcpStream::connect(address).and_then(|mut stream| {
        stream.set_read_timeout(Some(PROBE_TIMEOUT))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: pod\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    });
    let took = began.elapsed();
    match asked {
        Ok(answer) if took < PROBE_TIMEOUT => Ok(answer),
        other => Err(format!("{other:?} after {took:?}")),
    }
}

#[test]
fn idle_connections_to_either_port_keep_no_probe_waiting() {
    run(async {
        let scene = scene("idle").await;
        let mut command = scene.start().await.command();
        command.args(["--probes", "127.0.0.1:0"]);
        let host = Host::spawn(command);
        let probed = host.until("the probes are served", async || host.probed()).await;
        host.until("the host is ready", async || match probe(&probed, "/readyz")? {
            answer if answer.starts_with("HTTP/1.1 200") => Ok(()),
            answer => Err(answer),
        })
        .await;
        let served = host.address().expect("the host serves");
        assert!(probe(&served, "/healthz").expect("an answer").starts_with("HTTP/1.1 404"), "it is served once");
        for address in [&probed, &served] {
            let mut idle = Vec::new();
            for number in 0..IDLE_CONNECTIONS {
                let mut stream = TcpStream::connect(address).expect("a connection");
                if number % 2 == 0 {
                    drop(write!(stream, "GET /healthz HTTP/1.1\r\n"));
                }
                idle.push(stream);
            }
            for (address, path) in [(&probed, "/healthz"), (&probed, "/readyz"), (&served, "/metrics")] {
                let answer = probe(address, path).unwrap_or_else(|late| panic!("{path}: {late}"));
                assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
            }
        }
    });
}

#[test]
fn the_ports_serve_no_admin_command_no_file_and_no_error_detail() {
    run(async {
        let mut scene = scene("strangers").await;
        let folder = Folder::of_memcached();
        folder.put(b"not yet");
        let host = scene.start().await.plugins(&[folder.path()]).start();
        scene.watch_log(&host);
        host.waits_for(&["no WebAssembly component"]).await;
        let (code, ready) = host.ask_port("GET", "/readyz").expect("an answer");
        assert_eq!((code, &*ready), (503, "not ready: memcached; `hotshoe status` says why\n"));
        let (code, metrics) = host.ask_port("GET", "/metrics").expect("an answer");
        let path = folder.path().to_string_lossy();
        assert!(code == 200 && !metrics.contains(&*path) && !metrics.contains("WebAssembly"), "{metrics}");
        for (method, path) in [
            ("GET", "/status"),
            ("GET", "/history/memcached"),
            ("POST", "/reload/memcached"),
            ("POST", "/rollback/memcached"),
            ("POST", "/approve/memcached"),
            ("POST", "/shadow/memcached"),
        ] {
            assert_eq!(host.ask_port(method, path).expect("an answer").0, 404, "{method} {path}");
        }
    });
}

/// Returns the mode of a file or a folder.
fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

#[test]
fn a_command_finds_the_only_host_of_its_user_and_asks_which_where_there_are_several() {
    run(async {
        let (first, second) = (scene("socket-first").await, scene("socket-second").await);
        let session = TempDir::new().expect("a folder");
        let status = || {
            let mut command = Command::new(program());
            command.arg("status").env("XDG_RUNTIME_DIR", session.path()).env_remove("HOTSHOE_SOCKET");
            let output = command.output().expect("the program runs");
            let said = [output.stdout, output.stderr].concat();
            (output.status.success(), String::from_utf8_lossy(&said).into_owned())
        };
        let start = async |scene: &Scene| {
            let mut command = scene.start().await.command();
            command.env("XDG_RUNTIME_DIR", session.path());
            let host = Host::spawn(command);
            host.ready().await;
            host
        };
        assert!(status().1.contains("no host answers in"), "{:?}", status());
        let mut one = start(&first).await;
        let socket = one.socket().expect("a socket");
        let port = one.address().expect("the host serves").rsplit_once(':').expect("a port").1.to_owned();
        assert_eq!(socket, session.path().join("hotshoe").join(format!("{port}.sock")));
        assert_eq!((mode(socket.parent().expect("a folder")), mode(&socket)), (0o700, 0o600));
        assert!(status().0, "{:?}", status());
        let mut other = start(&second).await;
        let (succeeded, said) = status();
        assert!(!succeeded && said.contains("several hosts run here") && said.contains(&*socket.to_string_lossy()));
        // A host that is killed leaves its socket behind, which does not disturb others.
        one.kill();
        assert!(socket.exists() && status().0, "{:?}", status());
        assert!(other.stop().success());
        assert!(status().1.contains("no host answers in"), "{:?}", status());
    });
}

#[test]
fn a_named_socket_is_taken_over_from_a_dead_host_and_not_from_a_live_one() {
    run(async {
        let scene = scene("socket-named").await;
        let folder = TempDir::new().expect("a folder");
        let socket = folder.path().join("closed/host.sock");
        let command = async || {
            let mut command = scene.start().await.command();
            command.arg("--socket").arg(&socket);
            command
        };
        let mut first = Host::spawn(command().await);
        first.ready().await;
        let second = Host::spawn(command().await);
        second.until_logged(&["error: another host", &format!("process {}", first.process()), "--socket"]).await;
        assert!(!second.log().contains("serving"), "it never began to act: {}", second.log());
        first.kill();
        assert!(socket.exists());
        let third = Host::spawn(command().await);
        third.ready().await;
        assert!(third.ask(&["status"]).0.success());
    });
}
