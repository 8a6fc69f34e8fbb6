//! `hotshoe reload`: asks a running host to look at a component now.

use std::process::ExitCode;

use super::host_client::{HostOptions, read};
use super::status::or_dash;
use super::stdout;
use crate::plugin::slot::Refused;
use crate::supervised::PluginStatus;

/// Have a running host take the component that is there now
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Example: hotshoe build plugins/memcached && hotshoe reload memcached\n\nThe host notices a new component, and another plugin.yaml, by itself within a second; this says what came of it.\nExit code 1 means that it was not taken, and the last good one goes on."
)]
pub struct Args {
    /// Which plugin
    #[arg(default_value = "memcached")]
    plugin: String,
    #[command(flatten)]
    host: HostOptions,
}

impl Args {
    /// Asks and prints.
    ///
    /// # Errors
    /// When no host answers, or it has no such plugin.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let status = super::runtime()?.block_on(self.host.post(&path("reload", &self.plugin, None)))?;
        print(&read(&status)?)
    }
}

/// Where the host does this to a plugin, perhaps to one of its revisions.
pub(super) fn path(verb: &str, plugin: &str, digest: Option<&str>) -> String {
    let digits = |digest: &str| {
        let digits = digest.strip_prefix("sha256:").unwrap_or(digest);
        digits.chars().filter(char::is_ascii_alphanumeric).collect::<String>()
    };
    let digest = digest.map(digits);
    format!("/{verb}/{plugin}{}", digest.map(|digest| format!("?digest={digest}")).unwrap_or_default())
}

/// Says whether the component that was offered decides now.
///
/// # Errors
/// When it cannot be written.
pub(super) fn print(plugin: &PluginStatus) -> anyhow::Result<ExitCode> {
    let file_refused = &plugin.plugin_file.refused;
    if let Some(why) = file_refused {
        eprintln!("plugin.yaml is not taken, and what it said before holds: {why}");
    }
    if let Some(Refused { reason, message, .. }) = &plugin.refused {
        eprintln!("not taken: {reason}: {message}");
        match plugin.digest {
            Some(digest) => eprintln!("{} goes on with {digest}", plugin.name),
            None => eprintln!("{} does not decide", plugin.name),
        }
        return Ok(ExitCode::FAILURE);
    }
    if file_refused.is_some() {
        return Ok(ExitCode::FAILURE);
    }
    if plugin.digest.is_none() {
        eprintln!("{} does not decide yet: {}", plugin.name, plugin.waiting.as_deref().unwrap_or("it is starting"));
        return Ok(ExitCode::FAILURE);
    }
    stdout::line(decides(plugin))?;
    Ok(ExitCode::SUCCESS)
}

/// Which component decides.
pub(super) fn decides(plugin: &PluginStatus) -> String {
    let version = plugin.version.as_deref().unwrap_or("-");
    format!("{} decides with {} (version {version})", plugin.name, or_dash(plugin.digest))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_digest_is_asked_for_by_its_digits() {
        assert_eq!(path("rollback", "memcached", Some("sha256:3f2a91c0")), "/rollback/memcached?digest=3f2a91c0");
        assert_eq!(path("rollback", "memcached", Some("3f2a&x=1")), "/rollback/memcached?digest=3f2ax1");
        assert_eq!(path("reload", "memcached", None), "/reload/memcached");
    }

    #[test]
    fn where_nothing_decides_nothing_was_taken() {
        let status = |digest: Value| -> PluginStatus {
            let text = json!({
                "name": "memcached", "source": "m.wasm", "pluginFile": { "file": "plugin.yaml" }, "ready": false,
                "digest": digest, "version": "1", "parents": 0, "queued": 0, "running": 0,
                "breaker": { "state": "closed", "strikes": 0 }, "watches": []
            });
            read(&text).unwrap()
        };
        let code = |digest: Value| format!("{:?}", print(&status(digest)).unwrap());
        assert_eq!(code(Value::Null), format!("{:?}", ExitCode::FAILURE));
        assert_eq!(code("3f".repeat(32).into()), format!("{:?}", ExitCode::SUCCESS));
    }
}
