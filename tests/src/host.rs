//! The host as a process: started with the arguments that a person would give, asked over its port and its
//! socket, ended politely or not.

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
pub const IMAGE: &str = "memcached:1.4.36-alpine";

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(60);
const SERVING: &str = "on http://";
const SERVING_BY_TLS: &str = "on https://";
const PROBED: &str = "at http://";
const COMMANDED: &str = "commands reach this host on ";
/// Where the tests' hosts have their sockets, each named after its port.
const SOCKETS: &str = "target/tests/run";

/// How a host is to be started.
#[derive(Clone)]
pub struct Start {
    plugins: Vec<PathBuf>,
    kubeconfig: PathBuf,
    namespace: Option<String>,
    image: Option<String>,
    cache: PathBuf,
    memory: Option<&'static str>,
    follow: bool,
    shards: Option<usize>,
}

/// A host that runs, or has run. It ends with this value, and with this process.
pub struct Host {
    child: Child,
    leash: Child,
    log: PathBuf,
}

/// The program under test.
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
            plugins: vec![guests::memcached()],
            kubeconfig: plane.kubeconfig_of(SYSTEM, "hotshoe").await,
            namespace: None,
            image: Some(IMAGE.to_owned()),
            cache: repository(guests::CACHES).join("hotshoe"),
            memory: None,
            follow: true,
            shards: None,
        }
    }

    /// Watch this namespace only.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// These plugins: folders or `plugin.yaml` files.
    #[must_use]
    pub fn plugins(mut self, plugins: &[&Path]) -> Self {
        self.plugins = plugins.iter().map(|path| (*path).to_owned()).collect();
        self
    }

    /// Under another account.
    #[must_use]
    pub fn kubeconfig(mut self, kubeconfig: &Path) -> Self {
        self.kubeconfig = kubeconfig.to_owned();
        self
    }

    /// With this in `MEMCACHED_IMAGE`, or without it.
    #[must_use]
    pub fn image(mut self, image: Option<&str>) -> Self {
        self.image = image.map(str::to_owned);
        self
    }

    /// Keep compiled components and earlier revisions here instead of where all tests do.
    #[must_use]
    pub fn cache(mut self, cache: &Path) -> Self {
        self.cache = cache.to_owned();
        self
    }

    /// As if its container had this limit of memory.
    #[must_use]
    pub fn memory(mut self, size: &'static str) -> Self {
        self.memory = Some(size);
        self
    }

    /// Activate components on reload only, as a host does that is started without options.
    #[must_use]
    pub fn on_reload(mut self) -> Self {
        self.follow = false;
        self
    }

    /// Share the work by Leases, over so many shards; otherwise it takes itself for the only host.
    #[must_use]
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = Some(shards);
        self
    }

    /// The command, for tests that add to it.
    pub fn command(&self) -> Command {
        // In a session of its own, for which Linux has a share of the processors of its own (`man 7 sched`, autogroup): what
        // a host compiles gives way to all that it shares one with, and many hosts run here.
        let mut command = Command::new("setsid");
        command.arg(program()).arg("run").args(&self.plugins).arg("--kubeconfig").arg(&self.kubeconfig);
        command.args(["--listen", "127.0.0.1:0", "--cache"]).arg(&self.cache);
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

    /// Starts it, and returns at once.
    pub fn start(&self) -> Host {
        Host::spawn(self.command())
    }

    /// Starts it, and waits until it is ready.
    pub async fn ready(&self) -> Host {
        let host = self.start();
        host.ready().await;
        host
    }
}

/// Has a host make its socket where those of the tests are, whatever else runs on this machine.
pub fn in_session_of_tests(command: &mut Command) {
    command.env_remove("HOTSHOE_SOCKET").env("XDG_RUNTIME_DIR", repository(SOCKETS));
}

impl Host {
    /// Runs a command that runs a host.
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

    /// Everything that it has said.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Where it says it.
    pub fn log_file(&self) -> PathBuf {
        self.log.clone()
    }

    /// Waits until it is ready.
    pub async fn ready(&self) {
        self.until("the host is ready", async || match self.get("/readyz").await? {
            (200, _) => Ok(()),
            (code, text) => Err(format!("{code} {text}")),
        })
        .await;
    }

    /// Waits for a condition of this host; a failure shows the end of its log.
    pub async fn until<T>(&self, what: &str, probe: impl AsyncFn() -> Result<T, String>) -> T {
        match wait::attempt(wait::PATIENCE, probe).await {
            Ok(value) => value,
            Err(seen) => panic!("waited until {what}; seen last: {seen}\n{}", tail(&self.log)),
        }
    }

    /// Waits until its log has a line with all of these.
    pub async fn says(&self, words: &[&str]) -> String {
        self.until(&format!("the log says {words:?}"), async || {
            let log = self.log();
            let line = log.lines().find(|line| words.iter().all(|word| line.contains(word)));
            line.map(str::to_owned).ok_or_else(|| "no such line".to_owned())
        })
        .await
    }

    /// Its status as JSON, with all that an administrator may see.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn status(&self) -> Result<Value, String> {
        let (_, text) = self.command_socket("GET", "/status")?;
        serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))
    }

    /// What its status says of its first plugin.
    pub async fn plugin(&self) -> Value {
        self.status().await.expect("a status")["plugins"][0].clone()
    }

    /// The digest of the component that decides for its first plugin; empty where none does.
    pub async fn digest(&self) -> String {
        self.plugin().await["digest"].as_str().unwrap_or_default().to_owned()
    }

    /// Waits until its first plugin is not ready, and what it waits for has all of these words.
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

    /// Waits until this holds of what its status says of its first plugin.
    pub async fn until_plugin(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        self.until(what, async || {
            let plugin = self.status().await?["plugins"][0].clone();
            if holds(&plugin) { Ok(plugin) } else { Err(format!("{plugin:#}")) }
        })
        .await
    }

    /// Status code and body of a GET.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn get(&self, path: &str) -> Result<(u16, String), String> {
        self.ask_port("GET", path)
    }

    /// Status code and body of a request to its port.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn ask_port(&self, method: &str, path: &str) -> Result<(u16, String), String> {
        let is_probe = ["/healthz", "/readyz"].contains(&path);
        let probed = self.probed().ok().filter(|_| is_probe);
        let stream = TcpStream::connect(probed.map_or_else(|| self.address(), Ok)?).and_then(|stream| {
            stream.set_read_timeout(Some(ANSWER))?;
            Ok(stream)
        });
        stream.and_then(|stream| exchange(stream, method, path)).map_err(|error| error.to_string())
    }

    /// Status code and body of a request to its socket.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn command_socket(&self, method: &str, path: &str) -> Result<(u16, String), String> {
        let stream = UnixStream::connect(self.socket()?).and_then(|stream| {
            stream.set_read_timeout(Some(ANSWER))?;
            Ok(stream)
        });
        stream.and_then(|stream| exchange(stream, method, path)).map_err(|error| error.to_string())
    }

    /// Where it serves, as it says in its log.
    ///
    /// # Errors
    /// When it has not said so yet.
    pub fn address(&self) -> Result<String, String> {
        self.place(SERVING).or_else(|_| self.place(SERVING_BY_TLS))
    }

    /// Where it is probed, if not where it serves.
    ///
    /// # Errors
    /// When it has not said so yet.
    pub fn probed(&self) -> Result<String, String> {
        self.place(PROBED)
    }

    /// The socket on which it takes commands.
    ///
    /// # Errors
    /// When it has not said so yet.
    pub fn socket(&self) -> Result<PathBuf, String> {
        self.place(COMMANDED).map(PathBuf::from)
    }

    /// What follows these words in its log.
    fn place(&self, words: &str) -> Result<String, String> {
        let log = self.log();
        let place = log.lines().find_map(|line| line.split_once(words)?.1.split(['"', ' ']).next());
        place.map(str::to_owned).ok_or_else(|| format!("the host does not say {words:?} yet"))
    }

    /// Another verb of the program, asked about this host.
    pub fn ask(&self, verb: &[&str]) -> (ExitStatus, String) {
        let output = self.asked(verb);
        let said = [output.stdout, output.stderr].concat();
        (output.status, String::from_utf8_lossy(&said).into_owned())
    }

    /// The same, with what it prints for scripts apart from what it says.
    pub fn ask_for_output(&self, verb: &[&str]) -> (Option<i32>, String, String) {
        let output = self.asked(verb);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    }

    fn asked(&self, verb: &[&str]) -> Output {
        let socket = self.socket().expect("the host takes commands");
        Command::new(program()).args(verb).env("HOTSHOE_SOCKET", socket).output().expect("the program runs")
    }

    /// Its process.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.child.kill().expect("the host can be killed");
        self.child.wait().expect("the host ends");
    }

    /// Ends it as a terminal or a kubelet would, and waits.
    pub fn stop(&mut self) -> ExitStatus {
        self.signal("-TERM")
    }

    /// Stops it as a whole, as a machine that is out of memory or asleep does.
    pub fn freeze(&self) {
        self.send("-STOP");
    }

    /// Lets it run on.
    pub fn thaw(&self) {
        self.send("-CONT");
    }

    /// The same, by closing the terminal.
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

    /// Whether it has ended by itself, and how.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child of this process")
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // Whatever fails here, it has ended.
        drop(self.child.kill());
        drop(self.child.wait());
        drop(self.leash.kill());
        drop(self.leash.wait());
        if !std::thread::panicking() {
            drop(std::fs::remove_file(&self.log));
        }
    }
}

/// A shell that ends a process when its own input ends: with this process, however that ends.
pub(crate) fn leash(process: u32) -> Child {
    let script = format!("read -r _; kill -9 {process} 2>/dev/null");
    Command::new("sh").args(["-c", &script]).stdin(Stdio::piped()).spawn().expect("a shell")
}

/// The end of a log.
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
