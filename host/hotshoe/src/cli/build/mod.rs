//! `hotshoe build`: makes a component that a host loads, from a plugin's source in one of the known languages or from
//! any core module.

mod component;
pub(super) mod javascript;
pub(super) mod python;
pub(super) mod rust;
pub(super) mod tools;
mod worlds;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;

use crate::cli::admit;
use crate::cli::api_server::ApiServer;
pub(super) use crate::cli::build::component::carrying;
use crate::cli::build::component::component;
use crate::cli::inspect::note_names;
use crate::cli::project;
use crate::cli::project::{Folder, Language, shown};
use crate::cli::schema::files::Files;
use crate::cli::terminal;
use hotshoe_core::check::memory_share::Account;
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::limits::{CACHE_BYTES, Limits};
use hotshoe_operator::config::PluginConfig;
use hotshoe_platform::candidate::Candidate;
use hotshoe_sandbox::cases::Case;
use hotshoe_sandbox::cases::expect::Expect;
use hotshoe_sandbox::code_cache::Purpose;
use hotshoe_sandbox::compile::Compiler;
use hotshoe_sandbox::contract;
use hotshoe_sandbox::engine::Engine;
use hotshoe_sandbox::revision::Revision;

/// The maximum number of failing cases that a warning names.
const MAX_NAMED_CASES: usize = 4;

/// Build a plugin: make a component of its source, and add its cases to the component
#[derive(clap::Args, Debug)]
#[command(
    group = clap::ArgGroup::new("place").args(["plugin", "out"]).multiple(true),
    after_help = "Examples:\n  \
    hotshoe build plugins/memcached\n  \
    hotshoe build plugins/memcached --out target/check/ # no host looks there\n  \
    hotshoe build plugins/hello --from hello.wasm       # built by other tools\n  \
    hotshoe build --from core.wasm --out plugin.wasm    # without cases\n\n\
    The component contains the cases that pass in `hotshoe test`, and a host that loads it runs them; a warning names \
    those that fail, and the exit code stays 0. Cases that expect nothing yet are counted: `hotshoe test --accept` takes \
    the answers of the component as expected, and adds these cases to it.\n\n\
    A plugin in another language than Rust (Cargo.toml), Python (pyproject.toml) and JavaScript (package.json) is not \
    compiled: its component, if it is there, stays as it is."
)]
pub struct Args {
    /// The plugin's folder, or its plugin.yaml [default: this folder, or the only one in plugins/]
    #[arg(value_name = "PLUGIN")]
    plugin: Option<PathBuf>,
    /// Where to write the component: a file, or a folder with a `/` behind it [default: where hosts look for it,
    /// target/plugins/NAME.wasm]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Use this core module, or component, instead of compiling a crate
    #[arg(long, value_name = "FILE", requires = "place")]
    from: Option<PathBuf>,
    /// Compile faster, for trying things out: in Rust without most optimisations, so the component is larger and slower
    #[arg(long, conflicts_with = "from")]
    quick: bool,
}

impl Args {
    /// Builds the component, and prints its path.
    ///
    /// # Errors
    /// Where a tool is missing, the crate does not compile, or a host would refuse the component.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match (self.plugin, self.from, self.out) {
            (None, Some(from), Some(out)) => without_folder(&from, &out),
            (plugin, from, out) => {
                let folder = Folder::named(plugin.as_deref())?;
                let out = out.map(|out| folder.out(out));
                in_folder(&folder, from, out.as_deref(), self.quick)
            }
        }?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Builds without a plugin's folder: there are no cases, and the limits are the default ones.
fn without_folder(from: &Path, out: &Path) -> anyhow::Result<()> {
    let component = component(project::read(from)?, &[], &Limits::default()).with_context(|| cannot_use(from))?;
    project::write(out, &component)?;
    report(out, &component, &number_of_cases(0))
}

fn in_folder(folder: &Folder, from: Option<PathBuf>, out: Option<&Path>, quick: bool) -> anyhow::Result<()> {
    let config = admit::config(folder.manifest())?;
    let made = match (from, folder.language()) {
        (Some(from), _) => from,
        (None, Some(Language::Rust)) => rust::compile(folder, quick)?,
        (None, Some(Language::Python)) => python::componentize(folder)?,
        (None, Some(Language::JavaScript)) => javascript::componentize(folder)?,
        (None, None) => return already_built(folder, out),
    };
    let (component, cases) = with_cases(folder, &config, project::read(&made)?).with_context(|| cannot_use(&made))?;
    let product = folder.product();
    project::write(out.unwrap_or(&product), &component)?;
    report(out.unwrap_or(&product), &component, &number_of_cases(cases))?;
    match out.is_none().then(|| folder.component(None)).transpose()? {
        Some(preferred) if preferred != product => {
            terminal::note(format_args!(
                "note: hosts read {} instead of it; remove that file",
                shown(&preferred).display()
            ));
        }
        _ => {}
    }
    Ok(())
}

/// Checks the component of a plugin in a language that is not known here, which the tools of that language built, and
/// copies it to `out`.
fn already_built(folder: &Folder, out: Option<&Path>) -> anyhow::Result<()> {
    let made = folder.component(None)?;
    let component = project::read(&made)?;
    contract::inspect(&component, &folder.limits).with_context(|| cannot_use(&made))?;
    if let Some(out) = out {
        project::write(out, &component)?;
    }
    let why = format!("as it is, for {} has no {}", shown(&folder.dir).display(), Language::files());
    report(out.unwrap_or(&made), &component, &why)
}

fn report(out: &Path, component: &[u8], more: &str) -> anyhow::Result<()> {
    let (size, digest) = (component.len(), Digest::of(component));
    terminal::line(format_args!("{}: {size} bytes, digest {digest}, {more}", shown(out).display()))
}

pub(super) fn number_of_cases(cases: usize) -> String {
    format!("{cases} case{}", if cases == 1 { "" } else { "s" })
}

fn cannot_use(path: &Path) -> String {
    format!("cannot use {}", shown(path).display())
}

/// Returns the component of a plugin with the cases that pass in `hotshoe test`, and the number of these.
///
/// A host does not activate a component that fails one of the cases in it. So a case that does not pass is left out,
/// with a warning if it fails. It is no error: an author may change the logic and look at the result in a running host
/// before changing the cases.
fn with_cases(folder: &Folder, config: &PluginConfig, made: Vec<u8>) -> anyhow::Result<(Vec<u8>, usize)> {
    let files = Files::of(folder);
    let cases = folder.cases()?.into_iter().map(|file| file.case);
    // Where the API server refuses the object, no host is asked.
    let mut cases: Vec<Case> = cases.filter(|case| !matches!(case.expect, Some(Expect::Refused(_)))).collect();
    let all = component(made.clone(), &cases, &folder.limits)?;
    let left_out = super::runtime()?.block_on(left_out(folder, &files, config, &all, &cases));
    if left_out.is_empty() {
        return Ok((all, cases.len()));
    }
    note_left_out(&folder.dir, &left_out, cases.len());
    cases.retain(|case| left_out.iter().all(|left_out| left_out.name != case.name));
    Ok((component(made, &cases, &folder.limits)?, cases.len()))
}

/// A case that is not put into the component.
struct LeftOut {
    name: String,
    /// Why it fails; none if it only expects nothing yet.
    why: Option<String>,
}

/// Names the cases that fail, and counts those that expect nothing yet.
fn note_left_out(plugin: &Path, left_out: &[LeftOut], all: usize) {
    let failing: Vec<(&str, &str)> =
        left_out.iter().filter_map(|case| Some((case.name.as_str(), case.why.as_deref()?))).collect();
    if !failing.is_empty() {
        terminal::note(warning(plugin, &failing, all));
    }
    let open = left_out.len() - failing.len();
    if open > 0 {
        terminal::note(format_args!(
            "{} nothing yet: `hotshoe test {} --accept` takes what the component answers",
            if open == 1 { "1 case expects".to_owned() } else { format!("{open} cases expect") },
            shown(plugin).display()
        ));
    }
}

/// Warns of cases that fail, each with the reason.
fn warning(plugin: &Path, failing: &[(&str, &str)], all: usize) -> String {
    let line = |(name, why): &(&str, &str)| format!("\n  - {name}: {}", why.lines().next().unwrap_or_default());
    let named: String = failing.iter().take(MAX_NAMED_CASES).map(line).collect();
    let more = match failing.len().saturating_sub(MAX_NAMED_CASES) {
        0 => String::new(),
        more => format!("\n  - and {more} more"),
    };
    format!(
        "warning: {} of {all} cases do not pass, so the component does not carry them; `hotshoe test {plugin}` shows \
         why, and with --accept writes down what the plugin answers now{named}{more}",
        failing.len(),
        plugin = shown(plugin).display()
    )
}

/// Returns the cases that do not pass, and why. Returns none for a component that cannot be loaded: a host will refuse
/// it.
async fn left_out(
    folder: &Folder,
    files: &Files,
    config: &PluginConfig,
    component: &[u8],
    cases: &[Case],
) -> Vec<LeftOut> {
    let mut left_out = Vec::new();
    let Ok(engine) = Engine::new() else { return left_out };
    let compiler = Compiler::of_this_binary(None, CACHE_BYTES);
    let candidate = Candidate::of(component.to_vec());
    let (limits, memory) = (folder.limits.clone(), Account::default());
    let loaded = Revision::load(&engine, &compiler, candidate, limits, Purpose::Trial, &memory).await;
    let Ok(loaded) = loaded else { return left_out };
    note_names(config, &loaded.revision);
    let mut api_server = ApiServer::of(files, &loaded.revision.descriptor().parent);
    for case in cases {
        let report = match api_server.judge(case, false).await {
            Some(report) => report,
            None => api_server.run(case, &loaded.revision).await,
        };
        if report.is_to_be_accepted(case) {
            left_out.push(LeftOut { name: case.name.clone(), why: None });
            continue;
        }
        let why = match report.why_not() {
            Some(why) => Some(why),
            None => admit::denial(case, &loaded.revision, config).await,
        };
        left_out.extend(why.map(|why| LeftOut { name: case.name.clone(), why: Some(why) }));
    }
    left_out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_names_the_first_failing_cases_with_their_reasons_and_counts_the_others() {
        let names: Vec<String> = (0..MAX_NAMED_CASES + 3).map(|number| format!("case {number}")).collect();
        let failing: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "it is odd\nmore")).collect();
        let warning = |failing| warning(Path::new("plugins/demo"), failing, 16);
        let all = warning(&failing);
        assert!(all.contains("7 of 16 cases") && all.contains("- case 3: it is odd\n"), "{all}");
        assert!(all.contains("`hotshoe test plugins/demo`") && all.ends_with("\n  - and 3 more"), "{all}");
        let one = warning(&failing[..1]);
        assert!(one.contains("1 of 16 cases") && one.ends_with("- case 0: it is odd"), "{one}");
    }
}
