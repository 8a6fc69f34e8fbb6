//! A copy of the working tree in which a reader's commands run: with the host and the dependencies of the
//! plugins already built, and with a control plane and an address of its own.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use hotshoe_tests::repository;
use tempfile::TempDir;

/// How long one block may take, in the format of `timeout`.
const TIMEOUT: &str = "300s";
/// How long a host may take until it is ready; its plugin is compiled first.
const START: Duration = Duration::from_secs(300);

/// The first port that a reader's host may listen on.
const FIRST_PORT: u16 = 6_000;
/// How many ports there are for them.
const PORTS: u16 = 4_000;

/// A replacement for cargo that does not build the host, which is built already and would be compiled again under
/// another path.
const CARGO: &str =
    "#!/bin/sh\ncase \"$*\" in 'build '*'-p hotshoe '*) exit 0 ;; esac\nexec \"$CARGO_OF_TEST\" \"$@\"\n";

/// The copy, with what runs in it.
pub(crate) struct Scratch {
    root: TempDir,
    listen: String,
    /// The host whose address and socket all commands know, and another one.
    hosts: [Option<Child>; 2],
}

/// The result of a block.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) output: String,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        let root = TempDir::with_prefix("hotshoe-docs-").expect("a folder");
        let scratch = Self { root, listen: free_address(), hosts: [None, None] };
        scratch.copy();
        scratch
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    /// Returns the socket of the host with this number.
    fn socket(&self, number: usize) -> PathBuf {
        self.path(&format!("run/host-{number}.sock"))
    }

    /// Returns how the paths of the files begin that a recipe gives to a host with this address: deploy/listen.sh names
    /// them after the port.
    pub(crate) fn files(&self) -> String {
        let (_, port) = self.listen.rsplit_once(':').expect("an address with a port");
        format!("target/run/hotshoe-{port}.")
    }

    fn copy(&self) {
        let root = self.root.path().display();
        let script = format!(
            "git ls-files -z --cached --others --exclude-standard | xargs -0 ls -d 2>/dev/null | tar -cf - -T - | tar -xf - -C {root}
            mkdir -p {root}/target/guests {root}/bin {root}/home
            cp -a target/guests/release target/guests/wasm32-unknown-unknown {root}/target/guests/
            cp -al target/control-plane target/tools {root}/target/ 2>/dev/null || cp -a target/control-plane target/tools {root}/target/
            rm -rf {root}/target/control-plane/default
            for host in target/release/hotshoe target/*-linux-*/release/hotshoe; do
                mkdir -p {root}/$(dirname $host)
                ln -f $host {root}/$host 2>/dev/null || cp $host {root}/$host
            done"
        );
        let status =
            Command::new("bash").args(["-euo", "pipefail", "-c", &script]).current_dir(repository("")).status();
        assert!(status.expect("bash runs").success(), "the working tree cannot be copied");
        let cargo = self.path("bin/cargo");
        fs::write(&cargo, CARGO).expect("a script");
        fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).expect("a script that runs");
    }

    /// Writes a file that a page shows.
    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("a file in a folder")).expect("a folder");
        fs::write(path, text).expect("a file is written");
    }

    /// Builds a command that runs a block as a reader would, with one file for all that it prints.
    fn command(&self, before: &[&str], script: &str, output: &Path) -> Command {
        let file = fs::File::create(output).expect("a file for what is printed");
        let path = std::env::var("PATH").unwrap_or_default();
        let home = std::env::var("HOME").unwrap_or_default();
        let of_home =
            |variable: &str, folder: &str| std::env::var(variable).unwrap_or_else(|_| format!("{home}/{folder}"));
        let mut command = Command::new("env");
        command.args(before).args(["bash", "-euo", "pipefail", "-c", script]);
        command.current_dir(&self.root).stdin(Stdio::null());
        command.stdout(file.try_clone().expect("a second handle")).stderr(file);
        let (bin, programs) = (self.path("bin"), self.path("target/release"));
        command.env("PATH", format!("{}:{}:{path}", bin.display(), programs.display()));
        command.env("CARGO_OF_TEST", cargo(&path)).env("HOTSHOE_LISTEN", &self.listen);
        command.env("HOTSHOE_SOCKET", self.socket(0));
        command
            .env("CARGO_HOME", of_home("CARGO_HOME", ".cargo"))
            .env("RUSTUP_HOME", of_home("RUSTUP_HOME", ".rustup"));
        // A reader without a cluster, whose host keeps nothing here.
        command.env("HOME", self.path("home")).env("HOTSHOE_CACHE", self.path("cache"));
        for variable in [
            "KUBECONFIG",
            "HOTSHOE_CLUSTER",
            "HOTSHOE_CONTROL_PLANE_DIR",
            "MEMCACHED_IMAGE",
            "RUST_LOG",
            "CARGO_TARGET_DIR",
        ] {
            command.env_remove(variable);
        }
        command
    }

    /// Runs a block to its end.
    pub(crate) fn run(&self, script: &str) -> Ended {
        let output = self.path("output");
        let status = self.command(&["timeout", TIMEOUT], script, &output).status().expect("a shell runs");
        Ended { code: status.code(), output: text(&output) }
    }

    /// Runs a block in another terminal of the reader, where it replaces the running host with this number, and waits
    /// until the host is ready.
    pub(crate) fn run_host(&mut self, number: usize, script: &str) {
        self.stop_host(number);
        let (output, socket) = (self.path(&format!("output-of-host-{number}")), self.socket(number));
        let mut command = self.command(&[], script, &output);
        let host = command.env("HOTSHOE_SOCKET", &socket).process_group(0).spawn().expect("a shell runs");
        self.hosts[number] = Some(host);
        let deadline = Instant::now() + START;
        loop {
            let seen = self.run(&format!("target/release/hotshoe status --socket {}", socket.display()));
            if seen.code == Some(0) {
                return;
            }
            let ended = self.hosts[number].as_mut().and_then(|host| host.try_wait().ok().flatten());
            assert!(
                ended.is_none() && Instant::now() < deadline,
                "the host is not ready: {}\n{}",
                seen.output,
                text(&output)
            );
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn stop_host(&mut self, number: usize) {
        let Some(mut host) = self.hosts[number].take() else { return };
        let group = format!("-{}", host.id());
        let deadline = Instant::now() + Duration::from_secs(20);
        drop(Command::new("kill").args(["-TERM", "--", &group]).status());
        while !matches!(host.try_wait(), Ok(Some(_))) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(50));
        }
        drop(Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status());
        drop(host.wait());
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        (0..self.hosts.len()).for_each(|number| self.stop_host(number));
        drop(self.run("target/control-plane/bin/control-plane down"));
    }
}

/// Returns an address on loopback on which nothing listens, another one at each call. Its port is none that the system
/// or a control plane chooses: another test would be given it before the host listens.
pub(crate) fn free_address() -> String {
    static TRIED: AtomicU16 = AtomicU16::new(0);
    // Another process of these tests most likely begins elsewhere.
    let offset = std::process::id() as u16;
    loop {
        let tried = TRIED.fetch_add(1, Ordering::Relaxed);
        assert!(tried < PORTS, "none of the ports from {FIRST_PORT} is free");
        let address = format!("127.0.0.1:{}", FIRST_PORT + offset.wrapping_add(tried) % PORTS);
        if TcpListener::bind(&address).is_ok() {
            return address;
        }
    }
}

/// Returns the cargo that a command would find.
fn cargo(path: &str) -> PathBuf {
    let found = std::env::split_paths(path).map(|folder| folder.join("cargo")).find(|cargo| cargo.exists());
    found.expect("cargo is on PATH")
}

fn text(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}
