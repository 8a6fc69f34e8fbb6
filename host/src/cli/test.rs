//! stub
/// stub
#[derive(clap::Args, Debug)]
pub struct Args {}
impl Args { /// r
 pub fn run(self) -> anyhow::Result<std::process::ExitCode> { anyhow::bail!("stub") } }
