//! The host as a process: started with the arguments that a user would give, queried over its port and its
//! socket, stopped gracefully or killed.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::control_plane::{ControlPlane, SYSTEM};
use crate::{guests, repository, wait};

/// The image that the tests' servers run, unless a test says otherwise.
pub const IMAGE: &str = "memcached:1.6-alpine";

/// The timeout of a request to the host.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
const SERVING: &str = "on http://";
const SERVING_BY_TLS: &str = "on https://";
const PROBED: &str = "at http://";
const WEBHOOKS: &str = "serving webhooks at ";
const COMMANDED: &str = "commands reach this host on ";
/// The folder of the tests' hosts' sockets, each named after its port.
const SOCKETS: &str = "target/tests/run";

/// The options of a host that is to be started.
#[derive(Clone)]
pub struct Start {
    program: PathBuf,
    plugins: Vec<PathBuf>,
    kubeconfig: PathBuf,
    namespace: Option<String>,
    image: Option<String>,
    cache: PathBuf,
    memory: Option<&'static str>,
    follow: bool,
    shards: Option<usize>,
}

/// A host process. It is killed when this value is dropped or this process ends.
pub struct Host {
    child: Child,
    /// See [`leash`].
    leash: Child,
    log: PathBuf,
}

/// Returns the path of the program under test.
pub fn program() -> PathBuf {
    let program = std::env::var_os("HOTSHOE").map_or_else(|| repository("target/release/hotshoe"), PathBuf::from);
    assert!(program.exists(), "{} is missing; build it with `just build`", program.display());
    program
}

impl Start {
    /// The Memcached plugin under the host's own account, with an image. As in a cluster, the host follows
    /// the files of its components.
    pub async fn new(plane: &ControlPlane) -> Self {
        Self {
            program: program(),
            plugins: vec![guests::memcached()],
            kubeconfig: plane.kubeconfig_of(SYSTEM, "hotshoe").await,
            namespace: None,
            image: Some(IMAGE.to_owned()),
            cache: guests::caches().join("hotshoe"),
            memory: None,
            follow: true,
            shards: None,
        }
    }

    /// Sets the program, in place of the one under test.
    #[must_use]
    pub fn program(mut self, program: &Path) -> Self {
        self.program = program.to_owned();
        self
    }

    /// Lets the host watch this namespace only.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Sets the plugins: folders or `plugin.yaml` files.
    #[must_use]
    pub fn plugins(mut self, plugins: &[&Path]) -> Self {
        self.plugins = plugins.iter().map(|path| (*path).to_owned()).collect();
        self
    }

    /// Sets the kubeconfig, for another account.
    #[must_use]
    pub fn kubeconfig(mut self, kubeconfig: &Path) -> Self {
        self.kubeconfig = kubeconfig.to_owned();
        self
    }

    /// Sets or unsets `MEMCACHED_IMAGE`.
    #[must_use]
    pub fn image(mut self, image: Option<&str>) -> Self {
        self.image = image.map(str::to_owned);
        self
    }

    /// Sets a cache for compiled components and earlier revisions that no other test uses.
    #[must_use]
    pub fn cache(mut self, cache: &Path) -> Self {
        self.cache = cache.to_owned();
        self
    }

    /// Lets the host behave as if its container had this memory limit.
    #[must_use]
    pub fn memory(mut self, size: &'static str) -> Self {
        self.memory = Some(size);
        self
    }

    /// Lets the host activate components on reload only, which is the default of the program.
    #[must_use]
    pub fn on_reload(mut self) -> Self {
        self.follow = false;
        self
    }

    /// Lets the host share the work with others by Leases, over so many shards; without it, the host runs with
    /// `--no-lease`.
    #[must_use]
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = Some(shards);
        self
    }

    /// Builds the command, for tests that add to it.
    pub fn command(&self) -> Command {
        // In a session of its own, to which Linux gives its own share of the processors (`man 7 sched`, autogroup). A
        // compiler yields to everything in the same session, and many hosts run here.
        let mut command = Command::new("setsid");
        command.arg(&self.program).arg("run").args(&self.plugins).arg("--kubeconfig").arg(&self.kubeconfig);
        command.args(["--listen", "127.0.0.1:0", "--cache"]).arg(&self.cache);
        // The hosts of all tests share a cache, with the last components of hundreds of plugins.
        command.args(["--cache-bytes", "4Gi"]);
        if self.follow {
            command.arg("--follow");
        }
        match self.shards {
            Some(shards) => command.args(["--shards", &shards.to_string()]),
            None => command.arg("--no-lease"),
        };
        if let Some(memory) = self.memory {
            command.args(["--memory", memory]);
        }
        if let Some(namespace) = &self.namespace {
            command.args(["--namespace", namespace]);
        }
        command.env_remove("KUBECONFIG").env_remove("MEMCACHED_IMAGE").env_remove("RUST_LOG");
        in_session_of_tests(&mut command);
        if let Some(image) = &self.image {
            command.env("MEMCACHED_IMAGE", image);
        }
        command
    }

    /// Starts the host, and returns at once.
    pub fn start(&self) -> Host {
        Host::spawn(self.command())
    }

    /// Starts the host, and waits until it is ready.
    pub async fn ready(&self) -> Host {
        let host = self.start();
        host.ready().await;
        host
    }
}

/// Makes a host create its socket in the tests' folder, so that other hosts on this machine do not matter.
pub fn in_session_of_tests(command: &mut Command) {
    command.env_remove("HOTSHOE_SOCKET").env("XDG_RUNTIME_DIR", repository(SOCKETS));
}

impl Host {
    /// Spawns a host from its command.
    pub fn spawn(mut command: Command) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = repository("target/tests/log");
        std::fs::create_dir_all(&folder).expect("a folder for logs");
        let log = folder.join(format!("host-{}-{number}.log", std::process::id()));
        let file = File::create(&log).expect("a log file");
        let output = file.try_clone().expect("a second handle of the log file");
        let child = command.stdin(Stdio::null()).stdout(output).stderr(file).spawn().expect("the host starts");
        let leash = leash(child.id());
        Self { child, leash, log }
    }

    /// Returns everything that the host has logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Returns the path of the log.
    pub fn log_file(&self) -> PathBuf {
        self.log.clone()
    }

    /// Waits until the host is ready.
    pub async fn ready(&self) {
        self.until("the host is ready", async || match self.get("/readyz").await? {
            (200, _) => Ok(()),
            (code, text) => Err(format!("{code} {text}")),
        })
        .await;
    }

    /// Returns whether the host is ready.
    pub fn ready_now(&self) -> bool {
        self.ask_port("GET", "/readyz").is_ok_and(|(code, _)| code == 200)
    }

    /// Waits for a condition of this host; a failure shows the end of its log.
    pub async fn until<T>(&self, what: &str, probe: impl AsyncFn() -> Result<T, String>) -> T {
        match wait::attempt(wait::TIMEOUT, probe).await {
            Ok(value) => value,
            Err(seen) => panic!("waited until {what}; seen last: {seen}\n{}", tail(&self.log)),
        }
    }

    /// Waits until the log has a line with all of these words, and returns it.
    pub async fn until_logged(&self, words: &[&str]) -> String {
        self.until(&format!("the log says {words:?}"), async || {
            let log = self.log();
            let line = log.lines().find(|line| words.iter().all(|word| line.contains(word)));
            line.map(str::to_owned).ok_or_else(|| "no such line".to_owned())
        })
        .await
    }

    /// Requests the host's status as JSON over the socket, with all that an administrator may see.
    ///
    /// # Errors
    /// When the host does not answer.
    pub async fn status(&self) -> Result<Value, String> {
        let (_, text) = self.command_socket("GET", "/status")?;
        serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))
    }

    /// Returns the status of the first plugin.
    pub async fn plugin(&self) -> Value {
        self.status().await.expect("a status")["plugins"][0].clone()
    }

    /// Returns the status of the plugin with this name.
    ///
    /// # Errors
    /// When the host does not answer, or has no such plugin.
    pub async fn plugin_named(&self, name: &str) -> Result<Value, String> {
        let status = self.status().await?;
        let plugin = status["plugins"].as_array().into_iter().flatten().find(|plugin| plugin["name"] == name);
        plugin.cloned().ok_or_else(|| format!("no plugin {name} in {status:#}"))
    }

    /// Returns the digest of the first plugin's active component; empty where none is active.
    pub async fn digest(&self) -> String {
        self.plugin().await["digest"].as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the first plugin is not ready and its reason for waiting has all of these words.
    pub async fn waits_for(&self, words: &[&str]) -> String {
        self.until(&format!("a plugin waits for {words:?}"), async || {
            let (status, ready) = (self.status().await?, self.get("/readyz").await?);
            let waiting = status["plugins"][0]["waiting"].as_str().unwrap_or_default().to_owned();
            match (ready.0, words.iter().all(|word| waiting.contains(word))) {
                (503, true) => Ok(waiting),
                _ => Err(format!("{ready:?} {waiting}")),
            }
        })
        .await
    }

    /// Waits until this holds for the status of the first plugin.
    pub async fn until_plugin(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        self.until(what, async || {
            let plugin = self.status().await?["plugins"][0].clone();
            if holds(&plugin) { Ok(plugin) } else { Err(format!("{plugin:#}")) }
        })
        .await
    }

    /// Sends a GET request to the host's port, and returns status code and body.
    ///
    /// # Errors
    /// When the host does not answer.
    pub async fn get(&self, path: &str) -> Result<(u16, String), String> {
        self.ask_port("GET", path)
    }

    /// Sends a request to the host's port, or for a probe to its probe port, and returns status code and body.
    ///
    /// # Errors
    /// When the host does not answer.
    pub fn ask_port(&self, method: &str, path: &str) -> Result<(u16, String), String> {
        let is_probe = ["/healthz", "/readyz"].contains(&path);
        let probed = self.probed().ok().filter(|_| is_probe);
        let stream = TcpStream::connect(probed.map_or_else(|| self.address(), Ok)?).and_then(|stream| {
            stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
            Ok(stream)
        });
        stream.and_then(|stream| exchange(stream, method, path)).map_err(|error| error.to_string())
    }

    /// Sends a request to the host's socket, and returns status code and body.
    ///
    /// # Errors
    /// When the host does not answer.
    pub fn command_socket(&self, method: &str, path: &str) -> Result<(u16, String), String> {
        let stream = UnixStream::connect(self.socket()?).and_then(|stream| {
            stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
            Ok(stream)
        });
        stream.and_then(|stream| exchange(stream, method, path)).map_err(|error| error.to_string())
    }

    /// Returns the address that the host serves on, from its log.
    ///
    /// # Errors
    /// When the log does not have it yet.
    pub fn address(&self) -> Result<String, String> {
        self.place(SERVING).or_else(|_| self.place(SERVING_BY_TLS))
    }

    /// Returns the address of the separate probe port, from the host's log.
    ///
    /// # Errors
    /// When the log does not have it yet, or the host has no such port.
    pub fn probed(&self) -> Result<String, String> {
        self.place(PROBED)
    }

    /// Returns the URL of the webhooks, from the host's log.
    ///
    /// # Errors
    /// When the log does not have it yet, or the host serves none.
    pub fn webhooks(&self) -> Result<String, String> {
        self.place(WEBHOOKS)
    }

    /// Returns the socket on which the host takes commands, from its log.
    ///
    /// # Errors
    /// When the log does not have it yet.
    pub fn socket(&self) -> Result<PathBuf, String> {
        self.place(COMMANDED).map(PathBuf::from)
    }

    /// Returns what follows these words in the log.
    fn place(&self, words: &str) -> Result<String, String> {
        let log = self.log();
        let place = log.lines().find_map(|line| line.split_once(words)?.1.split(['"', ' ']).next());
        place.map(str::to_owned).ok_or_else(|| format!("the host does not say {words:?} yet"))
    }

    /// Runs another command of the program against this host, and returns its exit status and all output.
    pub fn ask(&self, verb: &[&str]) -> (ExitStatus, String) {
        let output = self.asked(verb);
        let said = [output.stdout, output.stderr].concat();
        (output.status, String::from_utf8_lossy(&said).into_owned())
    }

    /// Runs another command of the program against this host, and returns its exit code, its standard output and its
    /// standard error.
    pub fn ask_for_output(&self, verb: &[&str]) -> (Option<i32>, String, String) {
        let output = self.asked(verb);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    }

    fn asked(&self, verb: &[&str]) -> Output {
        let socket = self.socket().expect("the host takes commands");
        Command::new(program()).args(verb).env("HOTSHOE_SOCKET", socket).output().expect("the program runs")
    }

    /// Returns the process ID.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Returns a figure of the host's memory in kilobytes, such as `VmRSS`, all that is resident.
    pub fn memory(&self, figure: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process())).expect("the host runs");
        let line = status.lines().find_map(|line| line.strip_prefix(figure)?.strip_prefix(':')).expect("the figure");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    /// Kills the host by SIGKILL.
    pub fn kill(&mut self) {
        self.child.kill().expect("the host can be killed");
        self.child.wait().expect("the host ends");
    }

    /// Stops the host by SIGTERM, as a kubelet does, and waits for its end.
    pub fn stop(&mut self) -> ExitStatus {
        self.signal("-TERM")
    }

    /// Freezes the host by SIGSTOP, like a machine that is out of memory or asleep.
    pub fn freeze(&self) {
        self.send("-STOP");
    }

    /// Lets a frozen host continue.
    pub fn thaw(&self) {
        self.send("-CONT");
    }

    /// Stops the host by SIGHUP, as a terminal that is closed does, and waits for its end.
    pub fn hang_up(&mut self) -> ExitStatus {
        self.signal("-HUP")
    }

    fn signal(&mut self, signal: &str) -> ExitStatus {
        self.send(signal);
        self.child.wait().expect("the host ends")
    }

    fn send(&self, signal: &str) {
        let id = self.child.id().to_string();
        Command::new("kill").args([signal, &id]).status().expect("kill runs");
    }

    /// Returns the exit status if the host has ended by itself.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child of this process")
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // Where one of these fails, the process has ended.
        drop(self.child.kill());
        drop(self.child.wait());
        drop(self.leash.kill());
        drop(self.leash.wait());
        if !std::thread::panicking() {
            drop(std::fs::remove_file(&self.log));
        }
    }
}

/// Starts a shell that kills a process when the shell's standard input ends: when this process ends, in whatever way.
pub(crate) fn leash(process: u32) -> Child {
    let script = format!("read -r _; kill -9 {process} 2>/dev/null");
    Command::new("sh").args(["-c", &script]).stdin(Stdio::piped()).spawn().expect("a shell")
}

/// Returns the end of a log.
pub(crate) fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let end = lines.iter().skip(lines.len().saturating_sub(60)).copied();
    format!("── {} ──\n{}", log.display(), end.collect::<Vec<_>>().join("\n"))
}

fn exchange(mut stream: impl Read + Write, method: &str, path: &str) -> std::io::Result<(u16, String)> {
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_default();
    Ok((code, body.to_owned()))
}
