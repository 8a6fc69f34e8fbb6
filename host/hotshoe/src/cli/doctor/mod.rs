//! `hotshoe doctor`: which tools for making plugins this machine has, which are missing, and how to get them; and whether
//! a host could watch the namespaces that it is to watch.

mod namespaces;
mod probe;
mod tools;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use serde::Serialize;

use crate::cli::project::{Folder, Language};
use crate::cli::run::namespace;
use crate::cli::runtime;
use crate::cli::terminal::Output;
use hotshoe_cluster::client::ConnectOptions;
use hotshoe_core::model::watched_namespaces::WatchedNamespaces;
use hotshoe_operator::config::folders;
use tools::{Purpose, Tool};

/// Show which tools for making and running plugins are missing on this machine, and how to get them
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    hotshoe doctor                  # what the plugins here need, or else Rust\n  \
    hotshoe doctor --lang python\n  \
    hotshoe doctor --namespace team-a,team-b   # whether a host could watch them\n  \
    hotshoe doctor -o json\n\n\
    It shows the tools of all languages. Of the network it asks only the cluster of the current context.\n\
    Exit code: 0 when everything is there to build and test plugins in the language, and each namespace can be \
    watched; 1 otherwise.")]
pub struct Args {
    /// The language that must be complete; repeat it for several [default: those of the plugins here, or rust]
    #[arg(long, value_name = "LANGUAGE")]
    lang: Vec<Language>,
    /// A namespace that a host is to watch, as for `hotshoe run`: whether it exists, and whether the kinds of the plugins
    /// here may be listed and watched there; repeat it, or separate several by commas
    #[arg(short, long = "namespace", env = "HOTSHOE_NAMESPACE", value_name = "NAMESPACE", value_delimiter = ',', value_parser = namespace)]
    namespaces: Vec<String>,
    #[command(flatten)]
    connect: ConnectOptions,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// The result of looking for a tool.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Finding {
    tool: String,
    /// What it is for: a language, or running plugins.
    purpose: String,
    /// Whether the exit code depends on it.
    needed: bool,
    ok: bool,
    /// Its version, if it is installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    found: Option<String>,
    /// What is wrong, and how to fix it.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

impl Args {
    /// Looks for the tools and at the namespaces, and prints what it found.
    ///
    /// # Errors
    /// When a host could watch no such namespaces, or standard output is closed.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let watched = WatchedNamespaces::named(&self.namespaces).context("--namespace")?;
        let languages = if self.lang.is_empty() { languages_here() } else { self.lang };
        let (tools, namespaces) = runtime()?.block_on(async {
            let plugins = if watched.is_all() { Vec::new() } else { plugins_here() };
            tokio::join!(look(Tool::ALL, &languages), namespaces::look(&watched, &plugins, &self.connect))
        });
        let namespaces: Vec<_> = namespaces.into_iter().map(of_namespace).collect();
        let [can_build, can_watch] = [is_complete(&tools), is_complete(&namespaces)];
        let mut text = text(&tools) + &summary(&languages, can_build);
        if !watched.is_all() {
            text += &self::text(&namespaces);
            text += match can_watch {
                true => "a host can watch all of these namespaces\n",
                false => "a host cannot watch all of these namespaces yet\n",
            };
        }
        let findings: Vec<&Finding> = tools.iter().chain(&namespaces).collect();
        self.output.print(&findings, || Ok(text))?;
        Ok(if can_build && can_watch { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn of_namespace((name, state): namespaces::Found) -> Finding {
    let (ok, (found, problem)) = (state.is_ok(), (state.as_ref().ok().cloned(), state.err()));
    Finding { tool: name, purpose: "to watch namespaces".to_owned(), needed: true, ok, found, problem }
}

fn is_complete(findings: &[Finding]) -> bool {
    findings.iter().all(|finding| finding.ok || !finding.needed)
}

/// Returns the missing tools without which a plugin in this language cannot be built or tested, and how to get them.
pub(super) fn missing_for(language: Language) -> Vec<String> {
    let tools: Vec<_> = Tool::ALL.iter().copied().filter(|tool| tool.is_needed_for(language)).collect();
    let Ok(runtime) = runtime() else { return Vec::new() };
    let findings = runtime.block_on(look(&tools, &[language]));
    findings.into_iter().filter_map(|finding| Some(format!("{}: {}", finding.tool, finding.problem?))).collect()
}

async fn look(tools: &[Tool], languages: &[Language]) -> Vec<Finding> {
    let finding = async |tool: &Tool| {
        let found = tool.find().await;
        let needed = languages.iter().any(|language| tool.is_needed_for(*language));
        let (found, problem) = found.map_or_else(|problem| (None, Some(problem)), |found| (Some(found), None));
        Finding {
            tool: tool.name.to_owned(),
            purpose: tool.purpose.to_string(),
            needed,
            ok: problem.is_none(),
            found,
            problem,
        }
    };
    futures::future::join_all(tools.iter().map(finding)).await
}

/// Returns the folders of the plugins in `plugins`, and this folder if it is one.
fn plugins_here() -> Vec<PathBuf> {
    let mut folders = folders::plugins_in(Path::new("./plugins"));
    folders.extend(Some(PathBuf::from(".")).filter(|here| here.join(folders::PLUGIN_FILE).is_file()));
    folders
}

/// Returns the languages of the plugins in `plugins` and of the one in this folder; Rust, if there is none.
fn languages_here() -> Vec<Language> {
    let folders = plugins_here();
    let opened = folders.iter().filter_map(|folder| Folder::open(folder).ok()?.language());
    let mut languages: Vec<_> = Vec::new();
    for language in opened {
        if !languages.contains(&language) {
            languages.push(language);
        }
    }
    if languages.is_empty() { vec![Language::Rust] } else { languages }
}

fn text(findings: &[Finding]) -> String {
    let mut text = String::new();
    let mut last = String::new();
    for finding in findings {
        if finding.purpose != last {
            text += &format!("{}\n", finding.purpose);
            last.clone_from(&finding.purpose);
        }
        let mark = match (finding.ok, finding.needed) {
            (true, _) => "ok     ",
            (false, true) => "MISSING",
            (false, false) => "-      ",
        };
        let words = finding.found.as_deref().or(finding.problem.as_deref()).unwrap_or_default();
        text += &format!("  {mark} {:<22} {words}\n", finding.tool);
    }
    text
}

/// Returns whether plugins in these languages can be made here.
fn summary(languages: &[Language], is_complete: bool) -> String {
    let names: Vec<_> = languages.iter().map(ToString::to_string).collect();
    let names = names.join(" and ");
    match is_complete {
        true => format!("plugins in {names} can be built and tested here\n"),
        false => format!("plugins in {names} cannot be built and tested here yet: get what is MISSING\n"),
    }
}

impl std::fmt::Display for Purpose {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Language(language) => language.fmt(formatter),
            Self::Run => formatter.write_str("to run plugins"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(tool: &'static str, needed: bool, problem: Option<&str>) -> Finding {
        let (ok, problem) = (problem.is_none(), problem.map(str::to_owned));
        Finding {
            tool: tool.to_owned(),
            purpose: "rust".into(),
            needed,
            ok,
            found: ok.then(|| "1.2.3".to_owned()),
            problem,
        }
    }

    #[test]
    fn what_is_missing_stands_out_only_where_it_is_needed() {
        let findings = [
            finding("cargo", true, None),
            finding("rustc", true, Some("install it")),
            finding("just", false, Some("install it")),
        ];
        let text = text(&findings) + &summary(&[Language::Rust], is_complete(&findings));
        for line in [
            "  ok      cargo                  1.2.3",
            "  MISSING rustc                  install it",
            "  -       just                   install it",
        ] {
            assert!(text.contains(line), "{text}");
        }
        assert!(text.starts_with("rust\n") && text.contains("cannot be built and tested here yet"), "{text}");
    }
}
