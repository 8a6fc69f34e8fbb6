//! `hotshoe reload`: has a running host activate the component that is in its file now.

use std::path::Path;
use std::process::ExitCode;

use serde_json::Value;

use crate::cli::host_client::read;
use crate::cli::project;
use crate::cli::status::or_dash;
use crate::cli::target::OnePlugin;
use crate::cli::terminal;
use crate::cli::terminal::Output;
use crate::server::verb::AdminVerb;
use hotshoe_core::model::digest::Digest;
use hotshoe_operator::api::status::PluginStatus;
use hotshoe_operator::api::status::RefusedComponent;
use hotshoe_operator::config::plugin_resource::CanaryStatus;

/// Have a running host activate the component that is there now
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
                  hotshoe build plugins/memcached && hotshoe reload memcached\n  \
                  hotshoe reload --changed # every plugin whose component was built anew\n\
                  \n\
                  The host reads its component file and reports the outcome. It reads another plugin.yaml by itself \
                  within a second, and with `hotshoe run --follow` the component as well.\n\
                  \n\
                  Exit code 1 means that the component was not activated, and the last good one stays active.")]
pub struct Args {
    #[command(flatten)]
    plugin: OnePlugin,
    /// Of the host's plugins, all whose component is another one than the active
    #[arg(long, conflicts_with = "plugin")]
    changed: bool,
}

impl Args {
    /// Sends the command, and prints whether the component is active.
    ///
    /// # Errors
    /// When no host answers, or it has no such plugin.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        if self.changed {
            return super::runtime()?.block_on(self.reload_changed());
        }
        let status = super::runtime()?.block_on(self.plugin.ask(AdminVerb::Reload, None))?;
        print(&status, self.plugin.output)
    }

    /// Reloads each plugin whose component is another one than the active.
    async fn reload_changed(self) -> anyhow::Result<ExitCode> {
        let plugins = self.plugin.all().await?;
        let changed: Vec<&PluginStatus> = plugins.iter().filter(|plugin| has_changed(plugin)).collect();
        if changed.is_empty() {
            let names: Vec<&str> = plugins.iter().map(|plugin| plugin.name.as_str()).collect();
            terminal::note(format_args!("the components of {} are active as they are", names.join(", ")));
        }
        let mut code = ExitCode::SUCCESS;
        for plugin in changed {
            let status = self.plugin.ask_of(&plugin.name, AdminVerb::Reload, None).await?;
            if print(&status, self.plugin.output)? != ExitCode::SUCCESS {
                code = ExitCode::FAILURE;
            }
        }
        Ok(code)
    }
}

/// Returns whether the component of a plugin is another one than the active. The host may read one that this process
/// cannot: then only the host knows.
fn has_changed(plugin: &PluginStatus) -> bool {
    let component = project::read(Path::new(&plugin.source)).ok().map(|bytes| Digest::of(&bytes));
    component.is_none() || component != plugin.digest
}

/// Prints whether the offered component is active now.
///
/// # Errors
/// When it cannot be written, or the host's answer is of another version.
pub(super) fn print(status: &Value, output: Output) -> anyhow::Result<ExitCode> {
    let plugin = read(status)?;
    let is_active = report(&plugin);
    output.print(status, || Ok(if is_active { decides_with(&plugin) } else { String::new() }))?;
    Ok(if is_active { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns whether the offered component is active. If not, reports why.
fn report(plugin: &PluginStatus) -> bool {
    let why = why_not(plugin);
    why.iter().for_each(terminal::note);
    why.is_empty()
}

/// Returns why the offered component is not active, in lines; none if it is.
pub(super) fn why_not(plugin: &PluginStatus) -> Vec<String> {
    let file_refused = plugin.plugin_file.refused.as_ref();
    let mut why: Vec<String> = file_refused
        .map(|why| format!("plugin.yaml is rejected, and the last valid one stays in effect: {why}"))
        .into_iter()
        .collect();
    if let Some(RefusedComponent { digest, reason, message }) = &plugin.refused {
        why.extend(refusal(&plugin.name, plugin.digest, &format!("{}: {reason}: {message}", or_dash(*digest))));
    } else if plugin.digest.is_none() && why.is_empty() {
        let waiting = plugin.waiting.as_deref().unwrap_or("it is starting");
        why.push(format!("{} has no active component yet: {waiting}", plugin.name));
    }
    why
}

/// Reports why a component is not activated, and which one stays active.
pub(super) fn note_refusal(plugin: &str, active: Option<Digest>, why: &str) {
    refusal(plugin, active, why).iter().for_each(terminal::note);
}

fn refusal(plugin: &str, active: Option<Digest>, why: &str) -> [String; 2] {
    let stays = match active {
        Some(active) => format!("{plugin} stays on {active}"),
        None => format!("{plugin} has no active component"),
    };
    [format!("not activated: {why}"), stays]
}

/// Names the active component, and its canary.
pub(super) fn decides(
    plugin: &str,
    active: Option<Digest>,
    version: Option<&str>,
    canary: Option<&CanaryStatus>,
) -> String {
    let version = version.unwrap_or("-");
    let canary = canary.map(|canary| format!("{canary}\n")).unwrap_or_default();
    format!("{plugin} decides with {} (version {version})\n{canary}", or_dash(active))
}

/// Names the component by which a plugin decides.
pub(super) fn decides_with(plugin: &PluginStatus) -> String {
    decides(&plugin.name, plugin.digest, plugin.version.as_deref(), plugin.canary.as_ref())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_reload_fails_where_no_component_is_active() {
        let status = |digest: Value| {
            json!({
                "name": "memcached", "source": "m.wasm", "pluginFile": { "file": "plugin.yaml" }, "ready": false,
                "digest": digest, "version": "1", "parents": 0, "queued": 0, "running": 0,
                "breaker": { "state": "closed", "strikes": 0 }, "watches": []
            })
        };
        let code = |digest: Value| format!("{:?}", print(&status(digest), Output::Text).unwrap());
        assert_eq!(code(Value::Null), format!("{:?}", ExitCode::FAILURE));
        assert_eq!(code("3f".repeat(32).into()), format!("{:?}", ExitCode::SUCCESS));
    }
}
