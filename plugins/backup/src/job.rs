//! The Job of a run. It is created once and never changed: a later change of the spec does not affect a run that has
//! begun.

use hotshoe_sdk::Time;
use hotshoe_sdk::apply::batch_v1::{Job, JobSpec};
use hotshoe_sdk::apply::core_v1::{
    Capabilities, Container, EnvVar, PersistentVolumeClaimVolumeSource, PodSecurityContext, PodSpec, PodTemplateSpec,
    SeccompProfile, SecurityContext, Volume, VolumeMount,
};
use hotshoe_sdk::apply::meta_v1::ObjectMeta;

use crate::api::{BackupSpec, Claim};
use crate::runs::{self, GENERATION, TRY};

/// The label with the name of the Backup, on Jobs and Pods.
const BACKUP: &str = "batch.example.com/backup";
/// The annotation of a Job with the time for which it was scheduled; for human readers.
const SCHEDULED: &str = "batch.example.com/scheduled-time";

/// The command of a run where the spec names none.
const ARCHIVE: &str = r#"tar -czf "/target/$BACKUP_NAME.tar.gz" -C /source ."#;

/// A run that is to begin.
pub(crate) struct NewRun<'a> {
    /// The name of the Backup.
    pub(crate) backup: &'a str,
    pub(crate) time: Time,
    pub(crate) tries: i64,
    pub(crate) generation: i64,
}

pub(crate) fn of(run: &NewRun<'_>, spec: &BackupSpec) -> Job {
    let labels = [("app.kubernetes.io/name", "backup"), (BACKUP, run.backup)];
    let name = runs::name(run.backup, run.time);
    let annotations =
        [(SCHEDULED, run.time.to_string()), (TRY, run.tries.to_string()), (GENERATION, run.generation.to_string())];
    let template = PodTemplateSpec::new().metadata(ObjectMeta::new().labels(labels)).spec(pod(run, &name, spec));
    // No retries by the Job: after a failure the plugin starts another run, with a delay from the Backup's spec.
    let mut job = JobSpec::new().backoff_limit(0).template(template);
    if let Some(seconds) = spec.failure.deadline_seconds {
        job = job.active_deadline_seconds(seconds);
    }
    Job::new(name).labels(labels).annotations(annotations).spec(job)
}

fn pod(run: &NewRun<'_>, name: &str, spec: &BackupSpec) -> PodSpec {
    let claims = [("source", &spec.source), ("target", &spec.target)];
    let claims = claims.into_iter().filter_map(|(name, claim)| Some((name, claim.as_ref()?)));
    let volumes: Vec<Volume> = claims.clone().map(|(name, claim)| volume(name, claim)).collect();
    let mounts: Vec<VolumeMount> = claims.map(|(name, _)| mount(name)).collect();
    PodSpec::new()
        .restart_policy("Never")
        // A backup needs no access to the API server.
        .automount_service_account_token(false)
        .security_context(pod_security(spec))
        .containers([container(run, name, spec).volume_mounts(mounts)])
        .volumes(volumes)
}

fn container(run: &NewRun<'_>, name: &str, spec: &BackupSpec) -> Container {
    let command = match spec.command.as_slice() {
        [] => ["sh", "-c", ARCHIVE].map(str::to_owned).to_vec(),
        command => command.to_vec(),
    };
    Container::new()
        .name("backup")
        .image(&spec.image)
        .command(command)
        .env([
            EnvVar::new().name("BACKUP_NAME").value(name),
            EnvVar::new().name("BACKUP_TIME").value(run.time.to_string()),
        ])
        .security_context(
            SecurityContext::new().allow_privilege_escalation(false).capabilities(Capabilities::new().drop(["ALL"])),
        )
}

/// Builds the Pod's security context. With the container's it fulfils the Pod Security level `restricted`, unless the
/// Backup is to run as root.
fn pod_security(spec: &BackupSpec) -> PodSecurityContext {
    PodSecurityContext::new()
        .run_as_user(spec.run_as_user)
        .run_as_non_root(spec.run_as_user != 0)
        .seccomp_profile(SeccompProfile::new().type_("RuntimeDefault"))
}

fn volume(name: &str, claim: &Claim) -> Volume {
    let claim = PersistentVolumeClaimVolumeSource::new().claim_name(&claim.claim_name);
    Volume::new().name(name).persistent_volume_claim(claim)
}

/// Builds a mount. The source is read-only.
fn mount(name: &str) -> VolumeMount {
    let mount = VolumeMount::new().name(name).mount_path(format!("/{name}"));
    if name == "source" { mount.read_only(true) } else { mount }
}
