//! The CRD, made from the types in `api.rs`.

use hotshoe_sdk::crd::{Column, CustomResource, Rule, Version};

use crate::api::{self, BackupSpec, BackupStatus};

/// The resource `backups.batch.example.com`.
pub fn resource() -> CustomResource {
    let has_a_task = Rule::new("has(self.command) || (has(self.source) && has(self.target))")
        .message("Name a command, or source and target for an archive of the one in the other.");
    CustomResource::new(api::GROUP, api::KIND)
        .short_names(["bak"])
        .description("A backup that is made every so many seconds, by a Job each time.")
        .version(version().rule("spec", has_a_task))
}

fn version() -> Version {
    Version::of::<BackupSpec, BackupStatus>(api::VERSION)
        .conditions("What was found when the Backup was last decided about: Ready, Running, and Stalled where too many runs failed.")
        .columns([
            Column::integer("Interval", ".spec.intervalSeconds").description("A run begins every so many seconds."),
            Column::boolean("Suspended", ".spec.suspend").description("Whether no run begins."),
            Column::condition("Ready").description("Whether the last run that ended did so well."),
            Column::condition("Running").description("Whether a run is under way."),
            Column::date("Last run", ".status.lastRunTime").description("How long ago the last run was due."),
            Column::date("Last success", ".status.lastSuccessfulTime").description("How long ago a run succeeded."),
            Column::string("Next run", ".status.nextRunTime").description("When the next run is due."),
            Column::age(),
        ])
}
