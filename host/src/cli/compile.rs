//! `hotshoe compile-component`: what the host calls to compile a component outside of itself.
//! Hidden, for it is of no use to a person.

use std::fs::File;
use std::io;
use std::io::{stdin, stdout};
use std::net::UdpSocket;
use std::process::{Command, ExitCode};

use anyhow::Context;
use rustix::process::{Signal, getppid, kill_process};

use crate::cli::terminal;
use crate::sandbox::compile;
use crate::sandbox::confinement::confine;

/// Compile the component on standard input to native code on standard output
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Processor time, seconds
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Address space, bytes
    #[arg(long, default_value_t = 2 << 30)]
    bytes: u64,
    /// Compile nothing; try this after the process has confined itself, which must fail
    #[arg(long, value_enum)]
    attempt: Option<Attempt>,
}

/// What code that took over the compiler would try.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Attempt {
    /// Nothing: say what is missing to confine this process, if anything is.
    Nothing,
    /// Open a file that everybody may read.
    File,
    /// Have a socket.
    Socket,
    /// Send a signal to the host.
    Signal,
    /// Start another program.
    Program,
}

impl Args {
    /// Compiles under limits that it lays on itself.
    ///
    /// # Errors
    /// Where the component cannot be compiled.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self.attempt {
            Some(attempt) => attempt.run()?,
            None => compile::compile_stream(stdin().lock(), stdout().lock(), self.seconds, self.bytes)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Attempt {
    fn run(self) -> anyhow::Result<()> {
        let host = getppid().context("the host has ended")?;
        let confinement = confine();
        let done: io::Result<()> = match self {
            Self::Nothing => return terminal::print(confinement),
            Self::File => File::open("/proc/self/exe").map(drop),
            Self::Socket => UdpSocket::bind("127.0.0.1:0").map(drop),
            Self::Signal => kill_process(host, Signal::CONT).map_err(io::Error::from),
            Self::Program => Command::new("/proc/self/exe").arg("version").spawn().map(drop),
        };
        Ok(done?)
    }
}
