//! `hotshoe reload`: asks a running host to look at a component now.

use std::process::ExitCode;

use serde_json::Value;

use super::host_client::{HostOptions, short};
use super::stdout;

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
        print(&self.plugin, &status)
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
pub(super) fn print(plugin: &str, status: &Value) -> anyhow::Result<ExitCode> {
    let plugin_file = status.get("pluginFile").and_then(|file| file.get("refused")?.as_str());
    if let Some(why) = plugin_file {
        eprintln!("plugin.yaml is not taken, and what it said before holds: {why}");
    }
    Ok(match status.get("refused").filter(|refused| !refused.is_null()) {
        None if plugin_file.is_some() => ExitCode::FAILURE,
        Some(refused) => {
            eprintln!("not taken: {}: {}", text(refused, "reason"), text(refused, "message"));
            eprintln!("{plugin} goes on with {}", digest(status));
            ExitCode::FAILURE
        }
        None if status.get("digest").is_none_or(Value::is_null) => {
            eprintln!("{plugin} does not decide yet: {}", text(status, "waiting"));
            ExitCode::FAILURE
        }
        None => {
            stdout::line(decides(plugin, status))?;
            ExitCode::SUCCESS
        }
    })
}

/// Which component decides.
pub(super) fn decides(plugin: &str, status: &Value) -> String {
    format!("{plugin} decides with {} (version {})", digest(status), text(status, "version"))
}

fn digest(status: &Value) -> String {
    short(text(status, "digest"))
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or("-")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_digest_is_asked_for_by_its_digits() {
        assert_eq!(path("rollback", "memcached", Some("sha256:3f2a91c0")), "/rollback/memcached?digest=3f2a91c0");
        assert_eq!(path("rollback", "memcached", Some("3f2a&x=1")), "/rollback/memcached?digest=3f2ax1");
        assert_eq!(path("reload", "memcached", None), "/reload/memcached");
    }

    #[test]
    fn where_nothing_decides_nothing_was_taken() {
        let print = |status: Value| format!("{:?}", print("memcached", &status).unwrap());
        let failure = format!("{:?}", ExitCode::FAILURE);
        assert_eq!(print(json!({ "digest": null, "refused": null, "waiting": "it is being compiled" })), failure);
        assert_ne!(print(json!({ "digest": "3f2a91c0", "refused": null, "version": "1" })), failure);
    }
}
