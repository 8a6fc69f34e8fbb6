//! Which revision decides, and how another takes its place.

pub mod config_reload;
pub mod driver;
pub mod dry_run;
pub mod history;
pub mod install;
pub mod managed_plugin;
pub mod rollback;
pub mod supervisor;
pub mod verify;
