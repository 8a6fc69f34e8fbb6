//! What code that took over a confined child of the host would try. It must fail; the tests see to that.

use std::fs::File;
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::process::Command;

use anyhow::Context;
use rustix::process::{Signal, getppid, kill_process, set_virtual_memory_region_name};

use crate::cli::terminal;
use crate::sandbox::confinement::Confinement;

/// What is tried.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum Attempt {
    /// Nothing: say what is missing to confine this process, if anything is.
    Nothing,
    /// Open a file that everybody may read.
    File,
    /// Have a socket of the network.
    Socket,
    /// Have a socket of this machine, such as a host takes commands by.
    UnixSocket,
    /// Take connections.
    Listen,
    /// Send a signal to the host.
    Signal,
    /// Start another program.
    Program,
    /// Name a piece of memory, as the allocator does.
    Name,
    /// Ask for anything else by the same system call.
    Prctl,
}

impl Attempt {
    /// Tries it after `confine`.
    pub(super) fn run(self, confine: fn() -> Confinement) -> anyhow::Result<()> {
        let host = getppid().context("the host has ended")?;
        let confinement = confine();
        let done: io::Result<()> = match self {
            Self::Nothing => return terminal::print(confinement),
            Self::File => File::open("/proc/self/exe").map(drop),
            Self::Socket => UdpSocket::bind("127.0.0.1:0").map(drop),
            Self::UnixSocket => UnixDatagram::unbound().map(drop),
            Self::Listen => TcpListener::bind("127.0.0.1:0").map(drop),
            Self::Signal => kill_process(host, Signal::CONT).map_err(io::Error::from),
            Self::Program => Command::new("/proc/self/exe").arg("version").spawn().map(drop),
            // Some kernels know no such names, and say so.
            Self::Name => set_virtual_memory_region_name(&[0; 4096], Some(c"attempt")).or(Ok(())),
            Self::Prctl => rustix::thread::set_name(c"attempt").map_err(io::Error::from),
        };
        Ok(done?)
    }
}
