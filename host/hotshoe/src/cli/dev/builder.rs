//! Builds a component as `hotshoe build` does, in a process of its own: its tools print what they like, and it ends with
//! them when it is no longer wanted.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::unix::pipe::Receiver;
use tokio::process::Command;

use crate::cli::project::Folder;
use crate::cli::terminal;
use hotshoe_platform::child::THIS_PROGRAM;

/// How much of the output of a build is kept, in bytes: a compiler may print without end.
const MAX_OUTPUT_BYTES: usize = 1 << 20;
/// The maximum length of a line, in bytes; the rest of a longer one counts as another line.
const MAX_LINE_BYTES: u64 = 64 << 10;

/// A process and all that it has started. They are killed when this value is dropped.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // It fails where all of them have ended.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Builds the component into a file. Prints the output of the tools as it comes, if `verbose`.
///
/// # Errors
/// With the output of the tools, if the component is not built.
pub(super) async fn build(folder: &Folder, out: &Path, verbose: bool) -> anyhow::Result<()> {
    let (output, input) = std::io::pipe().context("cannot make a pipe")?;
    let mut command = Command::new(THIS_PROGRAM);
    command.args(["build", "--quick"]).arg(&folder.dir).arg("--out").arg(out);
    command.stdin(Stdio::null()).stdout(input.try_clone().context("cannot make a pipe")?).stderr(input);
    command.process_group(0).kill_on_drop(true);
    if terminal::is_coloured(&std::io::stdout()) {
        command.env("CARGO_TERM_COLOR", "always");
    }
    if !verbose {
        command.env("CARGO_TERM_QUIET", "true");
    }
    let mut child = command.spawn().context("cannot run this program again")?;
    let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    let group = Group(group);
    // It has the other ends of the pipe.
    drop(command);
    let printed = read(Receiver::from_owned_fd(output.into())?, verbose).await?;
    let status = child.wait().await.context("cannot wait for the build")?;
    drop(group);
    if !status.success() {
        bail!("{printed}");
    }
    Ok(())
}

/// Reads the output to its end, and returns it without what exceeds the limit.
async fn read(output: Receiver, verbose: bool) -> anyhow::Result<String> {
    let (mut lines, mut printed) = (BufReader::new(output), String::new());
    let mut line = Vec::new();
    while (&mut lines).take(MAX_LINE_BYTES).read_until(b'\n', &mut line).await? > 0 {
        let text = String::from_utf8_lossy(&line);
        if verbose {
            terminal::print(&text)?;
        } else if printed.len() + text.len() <= MAX_OUTPUT_BYTES {
            printed.push_str(&text);
        }
        line.clear();
    }
    Ok(printed)
}
