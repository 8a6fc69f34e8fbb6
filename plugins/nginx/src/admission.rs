//! What is checked and filled in before an NginxServer is stored, where the configuration asks for it.

use hotshoe_sdk::{AdmissionContext, ErrorReason, Failure, Verdict};
use serde::{Deserialize, Serialize};

use crate::api::{Config, NginxServer};
use crate::image::Image;

/// An NginxServer, as far as defaults are filled in.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Sparse {
    /// The desired state.
    pub spec: SparseSpec,
}

/// The desired state, of which the author may leave out each field.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct SparseSpec {
    /// The image that the servers run.
    pub image: Option<String>,
}

/// Checks an image that is new: one that is stored already keeps no other field from being changed.
pub(crate) fn validate(
    new: &NginxServer,
    old: Option<&NginxServer>,
    context: &AdmissionContext<Config>,
) -> Result<Verdict, Failure> {
    let mut verdict = Verdict::admitted();
    let image = &new.spec.image;
    if !context.config.validation || old.is_some_and(|old| old.spec.image == *image) {
        return Ok(verdict);
    }
    let image = Image::of(image);
    if !image.is_valid() {
        verdict.error("spec.image", ErrorReason::Invalid, "it is no image; write one such as nginx:1.27");
    } else if !image.names_version() {
        verdict.warn("spec.image: it names no version, so servers that start later may run another; write a tag");
    }
    Ok(verdict)
}

/// Fills in the tag of an image that has none.
pub(crate) fn default(object: &mut Sparse, context: &AdmissionContext<Config>) -> Result<(), Failure> {
    if let (Some(tag), Some(image)) = (&context.config.default_tag, &mut object.spec.image)
        && Image::of(image).lacks_tag()
    {
        image.push(':');
        image.push_str(tag);
    }
    Ok(())
}
