//! What an attacker would try after taking over a confined child process of the host. Each attempt must fail, which
//! tests check.

use std::fs::File;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::process::{Command, ExitCode};

use anyhow::Context;
use rustix::process::{Signal, getppid, kill_process, set_virtual_memory_region_name};

use crate::cli::terminal;
use hotshoe_platform::confinement::Confinement;

/// The option by which a command makes an attempt instead of its work.
#[derive(clap::Args, Debug)]
pub(super) struct Instead {
    /// Do nothing but try this after the process has confined itself, which must fail
    #[arg(long, value_enum)]
    attempt: Option<Attempt>,
}

impl Instead {
    /// Makes the attempt in a process that `confine` confines, if there is one, and otherwise does the `work`.
    ///
    /// # Errors
    /// If the attempt or the work fails.
    pub(super) fn or(
        self,
        confine: fn() -> Confinement,
        work: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<ExitCode> {
        match self.attempt {
            Some(attempt) => attempt.run(confine)?,
            None => work()?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// One thing that a confined process must not be able to do, or that it must still be able to do.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Attempt {
    /// Nothing: print what is missing to confine this process, if anything is.
    Nothing,
    /// Open a file that every user may read.
    File,
    /// Connect to a port of this machine.
    Socket,
    /// Open a Unix socket, as the one on which a host takes commands.
    UnixSocket,
    /// Listen for connections.
    Listen,
    /// Send a signal to the host.
    Signal,
    /// Start another program.
    Program,
    /// Name a memory region by `prctl`, as the allocator does. This is allowed.
    Name,
    /// Do something else by `prctl`.
    Prctl,
}

impl Attempt {
    /// Confines this process with `confine`, and then makes the attempt.
    ///
    /// # Errors
    /// If the attempt fails.
    fn run(self, confine: fn() -> Confinement) -> anyhow::Result<()> {
        let host = getppid().context("the host has ended")?;
        let confinement = confine();
        let result: io::Result<()> = match self {
            Self::Nothing => return terminal::print(confinement),
            Self::File => File::open("/proc/self/exe").map(drop),
            Self::Socket => connect(),
            Self::UnixSocket => UnixDatagram::unbound().map(drop),
            Self::Listen => TcpListener::bind("127.0.0.1:0").map(drop),
            Self::Signal => kill_process(host, Signal::CONT).map_err(io::Error::from),
            Self::Program => Command::new("/proc/self/exe").arg("version").spawn().map(drop),
            // Some kernels do not support such names and return an error.
            Self::Name => set_virtual_memory_region_name(&[0; 4096], Some(c"attempt")).or(Ok(())),
            Self::Prctl => rustix::thread::set_name(c"attempt").map_err(io::Error::from),
        };
        Ok(result?)
    }
}

/// Connects to a port on which nothing listens, as a rule.
fn connect() -> io::Result<()> {
    match TcpStream::connect("127.0.0.1:9") {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        connected => connected.map(drop),
    }
}
