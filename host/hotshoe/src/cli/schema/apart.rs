//! The rules (CEL) of an object, evaluated in a confined child process with limits: the author of a CRD writes them, and a
//! short one can take any time and memory.

use std::io::{self, Read, Write, stdin, stdout};
use std::thread;
use std::time::Duration;

use super::findings::Findings;
use super::rules::{Question, Said, collected};
use hotshoe_core::model::limits::WALL_TIME;
use hotshoe_platform::child::{self, Children, SMALL_ARENA, THIS_PROGRAM};
use hotshoe_platform::confinement::confine;

/// The hidden command of the child.
const VERB: &str = "check-rules";
/// The processor time for the rules of an object. The API server allows about a tenth of a second for each:
/// <https://pkg.go.dev/k8s.io/apiserver/pkg/apis/cel>.
const MAX_TIME: Duration = Duration::from_secs(5);
/// The maximum address space of the child, in bytes, of which the program and the stack take a part.
const MAX_MEMORY: u64 = 768 << 20;
/// The stack of the thread that evaluates, in bytes. Only what is used of it takes memory.
pub(super) const STACK_BYTES: usize = 256 << 20;
/// The maximum length of an answer, in bytes.
const MAX_ANSWER_BYTES: u64 = 16 << 20;

/// Finds the rules that an object does not keep, in a child process.
pub(in crate::cli) async fn findings(question: &Question) -> Findings {
    match answer(question).await {
        Ok(said) => collected(said, "it takes more than 5 s or 768 MiB, or fails"),
        Err(why) => collected([], &format!("no process for them: {why}")),
    }
}

async fn answer(question: &Question) -> io::Result<Vec<Said>> {
    let question = serde_json::to_vec(question)?;
    let children = Children::of(THIS_PROGRAM.into());
    let mut command = children.command(VERB);
    command.env(SMALL_ARENA.0, SMALL_ARENA.1);
    let talk = children.start(command)?.answer(&question, MAX_ANSWER_BYTES);
    // A child that ends early has said what it could.
    let lines = tokio::time::timeout(MAX_TIME * WALL_TIME, talk).await??.said?;
    Ok(lines.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect())
}

/// Runs in the child: sets limits for its process, confines it, and only then reads a question, and answers it with a line
/// for each thing that it says.
///
/// # Errors
/// If the question cannot be read, or the answer cannot be written.
pub(in crate::cli) fn serve() -> anyhow::Result<()> {
    child::limit(MAX_MEMORY, Some(MAX_TIME.as_secs()))?;
    let evaluates = thread::Builder::new().stack_size(STACK_BYTES).spawn(|| {
        child::report(&confine());
        let mut question = Vec::new();
        stdin().lock().read_to_end(&mut question)?;
        let question: Question = serde_json::from_slice(&question)?;
        let (mut output, mut written) = (stdout().lock(), Ok(()));
        question.answer(&mut |said| written = write(&mut output, &said));
        anyhow::Ok(written?)
    })?;
    evaluates.join().map_err(|_| anyhow::anyhow!("a rule cannot be evaluated"))?
}

fn write(output: &mut impl Write, said: &Said) -> io::Result<()> {
    serde_json::to_writer(&mut *output, said)?;
    output.write_all(b"\n")?;
    output.flush()
}
