//! `hotshoe run`: starts the host.

use std::convert::Infallible;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use futures::future::join_all;
use tokio::signal::unix::{SignalKind, signal};
use tracing::Instrument;
use tracing_subscriber::filter::{LevelFilter, ParseError, Targets};
use tracing_subscriber::prelude::*;

use crate::cli::confinement;
use crate::cli::runtime;
use crate::cli::terminal;
use crate::cli::webhooks_url;
use crate::cli::webhooks_url::WebhooksUrl;
use crate::server;
use crate::server::admin_socket::AdminSocket;
use crate::server::{About, Ports, SecureMetrics, WebhookCertificate};
use hotshoe_cluster::access_review;
use hotshoe_cluster::client::{Cluster, ConnectOptions};
use hotshoe_cluster::discovery::Kinds;
use hotshoe_cluster::events::Recorder;
use hotshoe_cluster::lease::{LeaseSettings, Leases};
use hotshoe_cluster::namespace::warn_of_missing;
use hotshoe_cluster::watch::Watches;
use hotshoe_core::check::memory_share::{SharedMemory, budget};
use hotshoe_core::check::watch_room::WatchRoom;
use hotshoe_core::model::label_selector::LabelSelector;
use hotshoe_core::model::limits::{CACHE_BYTES, CACHE_BYTES_LEAST, Size};
use hotshoe_core::model::names;
use hotshoe_core::model::watched_namespaces::WatchedNamespaces;
use hotshoe_operator::config::manifest::ShardBy;
use hotshoe_operator::config::memory::MemoryLimit;
use hotshoe_operator::config::socket;
use hotshoe_operator::config::{ALLOW_ENV, HOST_NAMESPACE, HostSettings, LISTEN, PluginConfig};
use hotshoe_operator::fleet::Fleet;
use hotshoe_operator::fleet::objects::Objects;
use hotshoe_operator::fleet::registration::Registration;
use hotshoe_operator::rollout;
use hotshoe_operator::rollout::definition::Definition;
use hotshoe_operator::rollout::history::{DiskSpace, FETCHED};
use hotshoe_operator::rollout::managed_plugin::Shared;
use hotshoe_operator::telemetry::log_format;
use hotshoe_operator::telemetry::log_format::LineFormat;
use hotshoe_operator::telemetry::metrics::Metrics;
use hotshoe_operator::webhooks::own_certificates;
use hotshoe_platform::child::Children;
use hotshoe_platform::safe_file;
use hotshoe_platform::spans;
use hotshoe_registry::Puller;
use hotshoe_sandbox::compile;
use hotshoe_sandbox::compile::Compiler;
use hotshoe_sandbox::engine::Engine;

/// How long running reconciles have to end after a signal.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the start waits to learn which account the host has.
const ACCOUNT_TIMEOUT: Duration = Duration::from_secs(2);
/// The pause before the host asks again which account it has.
const ACCOUNT_PAUSE: Duration = Duration::from_secs(1);

/// The maximum number of shards. More shards than hosts are useful only to spread the plugins evenly.
const MAX_SHARDS: i64 = 64;
/// The maximum length of a Lease's name, in characters. An object's name has 253 at most; the namespace, of up to 63,
/// and the number of the shard are appended.
const MAX_LEASE_NAME: usize = 180;

/// mimalloc's option: how long freed memory is kept, in milliseconds.
const PURGE_DELAY: &str = "MIMALLOC_PURGE_DELAY";
/// How often the allocator is made to look for freed memory.
const PURGE_INTERVAL: Duration = Duration::from_secs(1);
/// The size of the allocation that makes it look, in bytes: more than it keeps ready.
const PURGING_ALLOCATION_BYTES: usize = 4 << 20;

/// Run plugins against a cluster: those that are named, or those of its Plugin objects
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
                  hotshoe run                       # the Plugin objects of the cluster\n  \
                  MEMCACHED_IMAGE=memcached:1.6-alpine hotshoe run plugins/memcached\n\
                  \n\
                  Log lines go to standard error. RUST_LOG=hotshoe=debug shows more of the host, \
                  RUST_LOG=plugin=debug the plugins' own debug lines; a comma joins both.")]
pub struct Args {
    /// Plugins: folders with a plugin.yaml, or such files [default: those of the cluster's Plugin objects, which are
    /// followed]
    #[arg(value_name = "PLUGIN")]
    plugins: Vec<PathBuf>,
    /// The same as PLUGIN, with the flag that kubectl has
    #[arg(short = 'f', long = "filename", value_name = "PLUGIN")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    connect: ConnectOptions,
    /// A namespace to watch; repeat it, or separate several by commas [default: all]
    #[arg(short, long = "namespace", env = "HOTSHOE_NAMESPACE", value_name = "NAMESPACE", value_delimiter = ',', value_parser = namespace)]
    namespaces: Vec<String>,
    /// The namespace of the plugins' ServiceAccounts
    #[arg(long, default_value = HOST_NAMESPACE, env = "HOTSHOE_SERVICE_ACCOUNT_NAMESPACE", value_parser = namespace)]
    service_account_namespace: String,
    /// A variable of the environment that a plugin's configuration may use, with one `*` at most; repeat it, or
    /// separate several by commas. It replaces the default; name that too where plugins need it
    #[arg(long = "allow-env", env = "HOTSHOE_ALLOW_ENV", value_name = "PATTERN", value_delimiter = ',', default_values = ALLOW_ENV)]
    allow_env: Vec<String>,
    /// The address of /metrics, and of /healthz and /readyz unless --probes names another
    #[arg(long, default_value = LISTEN, env = "HOTSHOE_LISTEN", value_name = "HOST:PORT", value_parser = listen)]
    listen: SocketAddr,
    /// A separate address for /healthz and /readyz, so that other clients never keep a kubelet waiting
    #[arg(long, env = "HOTSHOE_PROBES", value_name = "HOST:PORT", value_parser = listen)]
    probes: Option<SocketAddr>,
    /// Serve /metrics over TLS, and only to clients that may `get` /metrics: the API server is asked about the bearer
    /// token of each request. `hotshoe rbac --metrics-secure` prints the rights for that. Needs --probes: a kubelet has
    /// no such token
    #[arg(long, requires = "probes")]
    metrics_secure: bool,
    /// The folder with tls.crt and tls.key for --metrics-secure, read again when they change [default: a self-signed
    /// certificate]
    #[arg(long, value_name = "DIR", requires = "metrics_secure")]
    metrics_cert_dir: Option<PathBuf>,
    /// The address of the webhooks, which answer the API server about proposed parents. The host keeps a CA for them in
    /// the Secret hotshoe-webhooks-ca of its namespace, and registers them; `hotshoe rbac --webhooks` prints the rights
    /// for that
    #[arg(long, env = "HOTSHOE_WEBHOOKS", value_name = "HOST:PORT", value_parser = listen)]
    webhooks: Option<SocketAddr>,
    /// How the API server reaches --webhooks of a host outside of the cluster, as https://HOST:PORT; without the port, it
    /// is that of --webhooks [default: by the Service hotshoe-webhooks in the host's namespace]
    #[arg(
        long,
        env = "HOTSHOE_WEBHOOKS_URL",
        value_name = "URL",
        requires = "webhooks",
        conflicts_with = "webhooks_cert_dir"
    )]
    webhooks_url: Option<WebhooksUrl>,
    /// A folder with tls.crt and tls.key for --webhooks, such as a mounted Secret of cert-manager, read again when they
    /// change. Then the host keeps no CA and registers nothing: `hotshoe webhooks` prints what makes the API server ask
    #[arg(long, env = "HOTSHOE_WEBHOOKS_CERT_DIR", value_name = "DIR", requires = "webhooks")]
    webhooks_cert_dir: Option<PathBuf>,
    /// The socket on which an administrator's commands reach this host, in a directory that is closed to other users
    /// [default: named after the port, in $XDG_RUNTIME_DIR/hotshoe, or else in the cache directory]
    #[arg(long, env = "HOTSHOE_SOCKET", value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Where compiled components, and the history and the last components of each plugin, are kept [default: the user's
    /// cache directory]
    #[arg(long, env = "HOTSHOE_CACHE", value_name = "DIR")]
    cache: Option<PathBuf>,
    /// The maximum size of the cache: a third of it is for components, the rest for compiled code. For an emptyDir with
    /// a sizeLimit, give three quarters of that
    #[arg(long, default_value_t = CACHE_BYTES, env = "HOTSHOE_CACHE_BYTES", value_name = "SIZE", value_parser = cache_bytes)]
    cache_bytes: Size,
    /// Activate a component as soon as its file changes, for files that a mounted volume replaces. Otherwise
    /// `hotshoe reload` activates it. plugin.yaml is followed in any case
    #[arg(long, env = "HOTSHOE_FOLLOW", value_parser = clap::builder::FalseyValueParser::new())]
    follow: bool,
    /// Follow only the Plugin objects with these labels, as KEY=VALUE,…, and leave the others to other hosts. Each of
    /// these needs a --lease-name of its own, and none notices if plugins of two hosts have the same parents [default:
    /// all]
    #[arg(long, env = "HOTSHOE_PLUGIN_SELECTOR", value_name = "LABELS", conflicts_with_all = ["plugins", "files"])]
    plugin_selector: Option<LabelSelector>,
    /// The folder of the components that Plugin objects name by source.file
    #[arg(long, default_value = ".", env = "HOTSHOE_FILES", value_name = "DIR")]
    files_dir: PathBuf,
    /// The name of the Lease by which several hosts with the same plugins share the work. It is in the namespace of the
    /// ServiceAccounts; the namespace that is watched is added to the name where there is one, eight digits of a digest
    /// of them where there are several, and the number of the shard where there are several
    #[arg(long, default_value = "hotshoe", env = "HOTSHOE_LEASE_NAME", value_name = "NAME", value_parser = lease_name)]
    lease_name: String,
    /// The number of shards over which the plugins are spread. As many hosts can work at once; each shard has a Lease.
    /// All hosts must be given the same number
    #[arg(long, default_value_t = 1, env = "HOTSHOE_SHARDS", value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=MAX_SHARDS))]
    shards: u16,
    /// Use no Lease: this host is the only one, and nothing ensures that
    #[arg(long, env = "HOTSHOE_NO_LEASE", conflicts_with = "shards", value_parser = clap::builder::FalseyValueParser::new())]
    no_lease: bool,
    /// How much memory the host may have, such as 512Mi; plugins share three quarters of it [default: the limit of its
    /// container, or what the machine has]
    #[arg(long, env = "HOTSHOE_MEMORY", value_name = "SIZE", value_parser = size)]
    memory: Option<Size>,
    /// How log lines look
    #[arg(long, default_value = "text", env = "HOTSHOE_LOG_FORMAT")]
    log_format: LogFormat,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

impl Args {
    /// Runs the host until a signal.
    ///
    /// # Errors
    /// When a plugin.yaml is wrong or there is no cluster configuration.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        set_purge_delay();
        start_log(self.log_format);
        let engine = Engine::new()?;
        let called = engine.clone();
        runtime::runtime(move || called.is_called())?.block_on(self.host(engine))
    }

    async fn host(self, engine: Engine) -> anyhow::Result<ExitCode> {
        let namespaces = WatchedNamespaces::named(&self.namespaces).context("--namespace")?;
        let memory = MemoryLimit::find(self.memory);
        let host = self.host_settings(memory);
        let plugins = self.read_plugins(&host)?;
        if let Some(warning) = memory.and_then(|limit| memory_warning(limit, &plugins)) {
            tracing::warn!("{warning}");
        }
        let ports = Ports::bind(self.listen, self.probes, self.webhooks).await?;
        let socket = self.admin_socket(ports.address()?.port())?;
        let cluster = Cluster::connect(&self.connect).await?;
        tracing::info!("hotshoe {} on context {} ({})", env!("CARGO_PKG_VERSION"), cluster.context, cluster.server);
        let learned = learn_account(&cluster, &host).await;
        plugins.iter().try_for_each(|plugin| host.ensure_apart(&plugin.name))?;
        let names: Vec<Arc<str>> = plugins.iter().map(|plugin| plugin.name.clone()).collect();
        let collides = collision(cluster.clone(), host.clone(), names, learned);
        tokio::spawn(warn_of_missing(cluster.clone(), namespaces.clone()));
        let (context, credentials) = (cluster.context.clone(), cluster.credentials.clone());
        tokio::spawn(cluster.clone().try_credentials());
        let secure = match self.metrics_secure {
            true => {
                let cluster = cluster.connect_beside(&self.connect).await?;
                Some(SecureMetrics { cluster, certificate: self.metrics_cert_dir.clone() })
            }
            false => None,
        };
        let metrics = Arc::new(Metrics::new(&cluster.counts));
        let compiler = Compiler::of_this_binary(self.cache.as_deref(), self.cache_bytes);
        let children = compiler.children();
        let recorder = Recorder::start(cluster.clone());
        let leases = Arc::new(self.leases(&cluster, &namespaces, &plugins, &recorder));
        let shared = Arc::new(Shared {
            recorder,
            leases: leases.clone(),
            watches: Arc::new(
                Watches::new(cluster.clone(), Arc::new(Kinds::default()), namespaces, host.namespace.clone())
                    .within(memory.map_or_else(WatchRoom::default, |limit| WatchRoom::new(budget(limit.size)))),
            ),
            cluster,
            metrics: metrics.clone(),
            engine,
            room: Arc::new(DiskSpace::new(self.cache_bytes, compiler.cache())),
            compiler,
            puller: Puller::with(children.clone()),
            kept: self.cache.clone().or_else(compile::cache_dir),
            host,
        });
        tokio::spawn(warn_of_missing_confinement(children));
        let fleet = self.start(plugins, &shared).await;
        let webhooks = ports.webhooks_port()?.map(|port| self.certify_webhooks(port, &shared, &fleet));
        let about = About { fleet: fleet.clone(), metrics, leases: leases.clone(), credentials, context };
        ports.serve(secure, webhooks, about.clone())?;
        server::serve_commands(socket, about);
        tokio::select! {
            stopped = stop_signal() => stopped?,
            never = purge_freed_memory(&fleet) => match never {},
            error = collides => return Err(error),
        }
        tracing::info!("stopping after the reconciles that are running");
        if drain(&fleet, &shared.recorder).await {
            leases.release().await;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Starts the plugins of the named files, or follows the cluster's objects if none is named.
    async fn start(&self, plugins: Vec<PluginConfig>, shared: &Arc<Shared>) -> Arc<Fleet> {
        if self.plugins.is_empty() && self.files.is_empty() {
            let fleet = Arc::new(Fleet::unknown());
            let labels = self.plugin_selector.clone().unwrap_or_default();
            tokio::spawn(Objects::watch(shared.clone(), fleet.clone(), &labels).run());
            return fleet;
        }
        let mut started = Vec::new();
        for plugin in plugins {
            let Some(definition) = plugin.origin.file().map(Definition::file) else { continue };
            let span = spans::plugin(&plugin.name);
            started.push(rollout::start(plugin, definition, Vec::new(), shared.clone()).instrument(span).await);
        }
        Arc::new(Fleet::of(started))
    }

    /// Returns the certificate of webhooks at a port. Unless it comes from a folder, begins to keep it, and to register
    /// the webhooks.
    fn certify_webhooks(&self, port: u16, shared: &Arc<Shared>, fleet: &Arc<Fleet>) -> WebhookCertificate {
        if let Some(folder) = &self.webhooks_cert_dir {
            return WebhookCertificate::Folder(folder.clone());
        }
        let namespace = &shared.host.namespace;
        let (target, names) = webhooks_url::target(self.webhooks_url.as_ref(), port, namespace);
        let certified = own_certificates::keep(shared.cluster.clone(), namespace, names);
        tokio::spawn(Registration::new(shared.clone(), fleet.clone(), certified.clone(), target).run());
        WebhookCertificate::Own(certified)
    }

    /// Begins to hold or wait for the Leases of the shards, unless this host is to be the only one.
    fn leases(
        &self,
        cluster: &Cluster,
        namespaces: &WatchedNamespaces,
        plugins: &[PluginConfig],
        recorder: &Recorder,
    ) -> Leases {
        if self.no_lease {
            return Leases::none();
        }
        let named = |plugin: &PluginConfig| plugin.name.to_string();
        let name = match namespaces.suffix() {
            Some(suffix) => format!("{}-{suffix}", self.lease_name),
            None => self.lease_name.clone(),
        };
        let settings = LeaseSettings {
            namespace: self.service_account_namespace.clone(),
            name,
            shards: self.shards.into(),
            plugins: plugins.iter().map(named).collect(),
            spread: plugins.iter().filter(|plugin| plugin.shard_by == ShardBy::Parent).map(named).collect(),
        };
        Leases::keep(cluster.clone(), settings, recorder.clone())
    }

    fn host_settings(&self, memory: Option<MemoryLimit>) -> HostSettings {
        let namespace = self.service_account_namespace.as_str().into();
        let memory = memory.map_or_else(SharedMemory::default, |limit| SharedMemory::new(budget(limit.size)));
        let (allow_env, memory) = (self.allow_env.clone(), Arc::new(memory));
        let kept = self.cache.clone().or_else(compile::cache_dir);
        let (files, fetched) = (self.files_dir.clone(), kept.map(|kept| kept.join(FETCHED)));
        HostSettings { namespace, allow_env, memory, follow: self.follow, files, fetched, ..HostSettings::default() }
    }

    /// Listens on the socket that is named, or otherwise on one that is named after the port.
    fn admin_socket(&self, port: u16) -> anyhow::Result<AdminSocket> {
        if let Some(named) = &self.socket {
            return Ok(AdminSocket::bind(named)?);
        }
        let directory = socket::directory().context("HOME is not set; name a socket for commands with --socket")?;
        safe_file::make_private_dir(&directory).with_context(|| {
            format!("{} cannot have the host's socket; name another with --socket", directory.display())
        })?;
        Ok(AdminSocket::bind(&socket::of_port(&directory, port))?)
    }

    fn read_plugins(&self, host: &HostSettings) -> anyhow::Result<Vec<PluginConfig>> {
        let mut plugins: Vec<PluginConfig> = Vec::new();
        for path in self.plugins.iter().chain(&self.files) {
            let plugin = PluginConfig::read(path, host)?;
            ensure!(
                plugins.iter().all(|other| other.name != plugin.name),
                "two plugins are named {}; rename one in its plugin.yaml",
                plugin.name
            );
            host.parentage.note_named(&plugin.name, plugin.parent.as_ref());
            plugins.push(plugin);
        }
        Ok(plugins)
    }
}

/// Returns a warning if the plugins, within their limits, may use more memory than the host may have.
fn memory_warning(limit: MemoryLimit, plugins: &[PluginConfig]) -> Option<String> {
    let all = plugins.iter().map(|plugin| (&plugin.name, plugin.limits.memory_at_most()));
    let sum = all.clone().map(|(_, size)| size.0).fold(0, u64::saturating_add);
    (sum > limit.size.0).then(|| {
        let named: Vec<_> = all.map(|(name, size)| format!("{name} {size}")).collect();
        let named = named.join(", ");
        format!(
            "within their limits the plugins may take {} of memory ({named}) beside their parents, \
             and the host may have {limit}: when it runs out, the plugin that takes most is refused more; \
             give the host more, or lower spec.limits in plugin.yaml",
            Size(sum)
        )
    })
}

/// Reads a size as Kubernetes writes it.
fn size(text: &str) -> Result<Size, String> {
    Size::parse(text).filter(|size| size.0 > 0).ok_or_else(|| "it must be a size, such as 512Mi".to_owned())
}

/// Reads an address to listen on. If a host name has several addresses, takes the first IPv4 one, which most clients
/// dial first.
fn listen(text: &str) -> Result<SocketAddr, String> {
    let wanted = || format!("it must be HOST:PORT, such as {LISTEN}");
    let found: Vec<_> = text.to_socket_addrs().map_err(|error| format!("{error}; {}", wanted()))?.collect();
    found.iter().find(|address| address.is_ipv4()).or(found.first()).copied().ok_or_else(wanted)
}

/// Reads the size of the cache, which has a minimum.
fn cache_bytes(text: &str) -> Result<Size, String> {
    let size = Size::parse(text).filter(|size| *size >= CACHE_BYTES_LEAST);
    size.ok_or_else(|| {
        format!("it must be at least {CACHE_BYTES_LEAST}, as a number of bytes or one with Ki, Mi or Gi")
    })
}

/// Checks the name of a Lease, which must leave room for what is appended to it.
fn lease_name(text: &str) -> Result<String, &'static str> {
    let is_valid = names::is_subdomain(text) && text.len() <= MAX_LEASE_NAME;
    is_valid.then(|| text.to_owned()).ok_or("a Lease's name has at most 180 lower-case letters, digits, `-` and `.`")
}

/// Checks the name of a namespace.
pub(super) fn namespace(text: &str) -> Result<String, &'static str> {
    let is_valid = names::is_label(text);
    is_valid
        .then(|| text.to_owned())
        .ok_or("a namespace has at most 63 lower-case letters, digits and `-` between them")
}

/// Learns which account the host itself has. Returns whether there is nothing more to learn: the API server has answered,
/// or refuses the question.
async fn learn_account(cluster: &Cluster, host: &HostSettings) -> bool {
    match tokio::time::timeout(ACCOUNT_TIMEOUT, access_review::own_account(cluster, &host.namespace)).await {
        Ok(Ok(account)) => {
            if let Some(account) = account {
                host.account.get_or_init(|| account);
            }
            true
        }
        Ok(Err(error)) => (403..=405).contains(&error.code),
        Err(_) => false,
    }
}

/// Returns an error as soon as it is known that a plugin has the host's own account; otherwise never.
async fn collision(cluster: Cluster, host: HostSettings, plugins: Vec<Arc<str>>, mut learned: bool) -> anyhow::Error {
    while !learned {
        tokio::time::sleep(ACCOUNT_PAUSE).await;
        learned = learn_account(&cluster, &host).await;
        if let Err(error) = plugins.iter().try_for_each(|plugin| host.ensure_apart(plugin)) {
            return error;
        }
    }
    std::future::pending().await
}

/// Has the allocator return freed memory to the system after a short delay. Otherwise all memory that the start needs
/// would stay resident in a host that then has little to do. Without the delay, each page would be given back and
/// touched anew under load, which costs the kernel microseconds. The allocator reads its options before `main`, and
/// from the environment alone, so the host starts itself once more with the option; if it cannot, it keeps the memory.
fn set_purge_delay() {
    if std::env::var_os(PURGE_DELAY).is_some() {
        return;
    }
    if let Ok(program) = std::env::current_exe() {
        let arguments = std::env::args_os().skip(1);
        drop(Command::new(program).args(arguments).env(PURGE_DELAY, "10").exec());
    }
}

/// Has the allocator look regularly for freed memory to return to the system. By itself it looks only when it needs
/// more memory, which an idle host never does. The block that is allocated here is not touched, so it costs next to
/// nothing.
async fn purge_freed_memory(fleet: &Fleet) -> Infallible {
    loop {
        tokio::time::sleep(PURGE_INTERVAL).await;
        // Makes the memory that an idle plugin has given back available to other plugins.
        fleet.all().iter().for_each(|plugin| drop(plugin.memory()));
        drop(std::hint::black_box(Vec::<u8>::with_capacity(PURGING_ALLOCATION_BYTES)));
    }
}

fn start_log(format: LogFormat) {
    let wanted = std::env::var("RUST_LOG").unwrap_or_default();
    let (levels, error) = match levels(&wanted) {
        Ok(levels) => (levels, None),
        Err(error) => (with_defaults(Targets::new()), Some(error)),
    };
    let colour = terminal::is_coloured(&std::io::stderr());
    let format = match format {
        LogFormat::Text => LineFormat::Text,
        LogFormat::Json => LineFormat::Json,
    };
    let lines = log_format::layer(format, std::io::stderr).with_ansi(colour && format == LineFormat::Text);
    tracing_subscriber::registry().with(lines.with_filter(levels)).init();
    if let Some(error) = error {
        tracing::warn!("RUST_LOG={wanted:?} is ignored: {error}; a valid value is hotshoe=debug,plugin=debug");
    }
}

/// Returns which log lines are written. A target that the text does not name keeps its default level, so that a user
/// who asks for more lines of the host still sees those of the plugins.
///
/// # Errors
/// If the text is no valid filter.
fn levels(wanted: &str) -> Result<Targets, ParseError> {
    // An empty text would be read as a filter for errors alone.
    Ok(with_defaults(if wanted.is_empty() { Targets::new() } else { wanted.parse()? }))
}

fn with_defaults(wanted: Targets) -> Targets {
    // The host itself logs the errors of these crates, once each.
    let quiet = ["kube_client", "kube_runtime"].map(|target| (target, LevelFilter::OFF));
    let default = wanted.default_level().unwrap_or(LevelFilter::INFO);
    let lines = Targets::new().with_default(default).with_targets(quiet).with_targets(wanted);
    lines.with_target(spans::TARGET, LevelFilter::ERROR)
}

/// Warns if this machine cannot fully confine the processes that read what others wrote.
async fn warn_of_missing_confinement(children: Children) {
    match confinement::missing(&children).await {
        Ok(None) => {}
        Ok(Some(missing)) => children.warn(&missing),
        Err(error) => {
            tracing::warn!(%error, "whether the processes that compile and pull components are confined cannot be found out")
        }
    }
}

async fn stop_signal() -> anyhow::Result<()> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    // When the terminal is closed, the host stops cleanly too, unless `nohup` started it.
    let outlives = outlives_terminal(&std::fs::read_to_string("/proc/self/status").unwrap_or_default());
    let mut hang_up = (!outlives).then(|| signal(SignalKind::hangup())).transpose()?;
    let hung_up = async {
        match &mut hang_up {
            Some(hang_up) => drop(hang_up.recv().await),
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        () = hung_up => {}
    }
    Ok(())
}

/// Returns whether this process ignores SIGHUP, which is signal 1, by the text that the kernel has about it.
fn outlives_terminal(status: &str) -> bool {
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|signals| u64::from_str_radix(signals.trim(), 16).ok()).is_some_and(|signals| signals & 1 == 1)
}

/// Waits until the running reconciles of all plugins have ended and their Events are written. Returns whether this was
/// done in time.
async fn drain(fleet: &Fleet, recorder: &Recorder) -> bool {
    let plugins = fleet.all();
    let drained = async {
        join_all(plugins.iter().map(|plugin| plugin.controller.queue.close())).await;
        recorder.flush().await;
    };
    let is_done = tokio::time::timeout(DRAIN_TIMEOUT, drained).await.is_ok();
    if !is_done {
        tracing::warn!(
            "some reconciles or Events were not finished in time; another host takes over when the Lease has expired"
        );
    }
    is_done
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use tracing::Level;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn a_host_that_nohup_started_outlives_its_terminal() {
        for (status, outlives) in [
            ("Name:\thotshoe\nSigIgn:\t0000000000000001\nSigCgt:\t0000000000000000\n", true),
            ("SigIgn:\t0000000000001001\n", true),
            ("SigIgn:\t0000000000001000\n", false),
            ("", false),
        ] {
            assert_eq!(outlives_terminal(status), outlives, "{status}");
        }
    }

    #[test]
    fn an_invalid_namespace_is_wrong_usage() {
        let code = |more: &[&str]| {
            let parsed = Cli::try_parse_from(["hotshoe", "run"].iter().chain(more));
            parsed.map_or_else(|error| error.exit_code(), |_| 0)
        };
        for good in [
            &[][..],
            &["plugins/a"],
            &["-f", "plugins/a"],
            &["plugins/a", "-n", "tests-1"],
            &["-n", "a,b", "--namespace", "c"],
        ] {
            assert_eq!(code(good), 0, "{good:?}");
        }
        for bad in [
            &["plugins/a", "-n", "Bad_NS"][..],
            &["plugins/a", "--namespace", ""],
            &["plugins/a", "--namespace", "a,"],
            &["plugins/a", "--namespace", "a, b"],
            &["plugins/a", "--service-account-namespace", "a b"],
        ] {
            assert_eq!(code(bad), 2, "{bad:?}");
        }
    }

    #[test]
    fn plugins_that_may_take_more_memory_than_there_is_are_warned_of_with_the_numbers() {
        let plugin = |name: &str| {
            let text = format!(
                "apiVersion: hotshoe.dev/v1alpha1\nkind: Plugin\nmetadata: {{name: {name}}}\nspec:\n  source: {{file: a.wasm}}\n"
            );
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join("plugin.yaml"), text).unwrap();
            PluginConfig::read(folder.path(), &HostSettings::default()).unwrap()
        };
        let plugins = [plugin("one"), plugin("two")];
        let limit = |text: &str| MemoryLimit::find(Some(size(text).unwrap())).unwrap();
        let said = memory_warning(limit("512Mi"), &plugins).unwrap();
        for word in ["may take 912Mi of memory (one 456Mi, two 456Mi)", "may have 512Mi (--memory)"] {
            assert!(said.contains(word), "{said}");
        }
        assert_eq!(memory_warning(limit("1Gi"), &plugins), None);
        assert!(size("0").is_err() && size("much").is_err());
    }

    #[test]
    fn a_host_listens_on_a_name_too() {
        for text in ["127.0.0.1:8080", "localhost:8080"] {
            assert_eq!(listen(text), Ok(SocketAddr::from(([127, 0, 0, 1], 8080))));
        }
        assert!(listen("8080").unwrap_err().contains("HOST:PORT"));
    }

    #[test]
    fn a_level_for_one_target_does_not_change_the_others() {
        for (wanted, host, plugin) in [
            ("", Level::INFO, Level::INFO),
            ("hotshoe=debug", Level::DEBUG, Level::INFO),
            ("plugin=debug", Level::INFO, Level::DEBUG),
            ("hotshoe=debug,plugin=trace", Level::DEBUG, Level::TRACE),
            ("warn", Level::WARN, Level::WARN),
        ] {
            let levels = levels(wanted).unwrap();
            for (target, most) in [("hotshoe::cli", host), ("hotshoe_operator::rollout", host), ("plugin", plugin)] {
                for level in [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE] {
                    assert_eq!(levels.would_enable(target, &level), level <= most, "{wanted:?}: {target} at {level}");
                }
            }
            assert!(!levels.would_enable("kube_client", &Level::ERROR), "{wanted:?}");
        }
        assert!(levels("kube_client=warn").unwrap().would_enable("kube_client", &Level::WARN));
        assert!(!levels("plugin=off").unwrap().would_enable("plugin", &Level::ERROR));
        assert!(levels("foo=bar=baz").is_err());
    }

    #[test]
    fn the_fields_of_lines_depend_on_no_level() {
        for wanted in ["", "error", "off", "hotshoe=off,plugin=debug", "hotshoe::spans=off"] {
            assert!(levels(wanted).unwrap().would_enable(spans::TARGET, &Level::ERROR), "{wanted:?}");
        }
    }
}
