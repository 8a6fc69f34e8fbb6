//! `hotshoe pull`: pulls a component from a registry.

use std::cell::Cell;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use serde::Serialize;

use crate::cli::project;
use crate::cli::registry_access::AccessOptions;
use crate::cli::terminal::{self, Output};
use hotshoe_core::model::limits::COMPONENT_BYTES;
use hotshoe_registry::reference::sha256;
use hotshoe_registry::{ImageRef, Keyless, Pull, Pulled, Verify};

/// Pull a component from a registry, and check who signed it
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    hotshoe pull oci://ghcr.io/org/memcached:1.0\n  \
    hotshoe pull oci://ghcr.io/org/memcached:1.0 --verify-key cosign.pub\n  \
    hotshoe pull oci://ghcr.io/org/memcached:1.0 --trusted-root trusted_root.json \\\n    \
    --verify-issuer https://token.actions.githubusercontent.com \\\n    \
    --verify-subject https://github.com/me/app/.github/workflows/ci.yml@refs/tags/v1\n\n\
    Credentials, proxy and TLS are as for `hotshoe push`. Several keys may be given, and one of them is enough. A file is \
    written only after all checks.")]
pub struct Args {
    /// What to pull: oci://REGISTRY/REPOSITORY:TAG, or @sha256:DIGEST
    #[arg(value_name = "REFERENCE")]
    image: ImageRef,
    /// Where to write the component [default: the repository's last part with .wasm, in this folder]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Accept only an image that was signed with the private key of this public key (PEM, of cosign)
    #[arg(long, value_name = "FILE")]
    verify_key: Vec<PathBuf>,
    /// Accept only an image that was signed by --verify-subject, an identity of this issuer
    #[arg(long, value_name = "URL", requires_all = ["verify_subject", "trusted_root"])]
    verify_issuer: Option<String>,
    /// The identity that must have signed the image, as its issuer names it
    #[arg(long, value_name = "IDENTITY", requires = "verify_issuer")]
    verify_subject: Option<String>,
    /// The authorities and logs of Sigstore that are trusted (trusted_root.json)
    #[arg(long, value_name = "FILE", requires = "verify_issuer")]
    trusted_root: Option<PathBuf>,
    #[command(flatten)]
    access: AccessOptions,
    /// How to print what was pulled
    #[arg(long, short, value_enum, default_value_t)]
    output: Output,
}

/// What was pulled.
#[derive(Serialize)]
struct Written {
    reference: String,
    digest: String,
    bytes: usize,
    file: String,
    verified: bool,
}

impl Args {
    /// Pulls the component, writes it to a file, and prints the reference by digest.
    ///
    /// # Errors
    /// If the image cannot be pulled, is no component, or is not signed as required.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let verify = self.verify()?;
        let verified = verify.is_some();
        let file = self.file()?;
        let pull = Pull { image: self.image, access: self.access.read()?, most: COMPONENT_BYTES.cap.0, verify };
        let Pulled { digest, component, .. } = pull.pull(progress()).await?;
        project::write(&file, component.bytes())?;
        let written = Written {
            reference: pull.image.pinned(digest).to_string(),
            digest: sha256(digest),
            bytes: component.bytes().len(),
            file: file.display().to_string(),
            verified,
        };
        self.output.print(&written, || Ok(format!("{}\n", written.reference)))?;
        if self.output == Output::Text {
            let signed = if verified { ", signed as asked" } else { "" };
            terminal::note(format_args!("wrote {} ({} bytes{signed})", written.file, written.bytes));
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Returns who must have signed the image, or nothing if no signer is named.
    fn verify(&self) -> anyhow::Result<Option<Verify>> {
        let read = |path: &PathBuf| fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()));
        let mut verify = Verify { keys: self.verify_key.iter().map(read).collect::<Result<_, _>>()?, keyless: vec![] };
        if let (Some(issuer), Some(subject), Some(root)) =
            (&self.verify_issuer, &self.verify_subject, &self.trusted_root)
        {
            let (issuer, subject, trusted_root) = (issuer.clone(), subject.clone(), read(root)?);
            verify.keyless.push(Keyless { issuer, subject, trusted_root });
        }
        if verify == Verify::default() {
            return Ok(None);
        }
        verify.check()?;
        Ok(Some(verify))
    }

    fn file(&self) -> anyhow::Result<PathBuf> {
        if let Some(out) = &self.out {
            return Ok(out.clone());
        }
        let name = self.image.repository().rsplit('/').next().unwrap_or_default();
        let file = PathBuf::from(format!("{name}.wasm"));
        if file.exists() {
            bail!("{} exists and was not replaced; to replace it, name it with --out", file.display());
        }
        Ok(file)
    }
}

/// Reports each tenth of a component on a terminal.
fn progress() -> impl Fn(u64, u64) {
    let (is_watched, shown) = (terminal::is_watched(), Cell::new(0));
    move |received, size| {
        let tenth = received * 10 / size.max(1);
        if is_watched && tenth > shown.replace(tenth) {
            terminal::note(format_args!("{received} of {size} bytes"));
        }
    }
}
