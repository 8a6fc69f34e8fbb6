//! The contract, embedded in the binary for new projects and for the tools of other languages.

/// The files in `wit/` itself, of the contract without its optional interfaces: their names and texts.
pub(super) const BASE: [(&str, &str); 4] = [
    ("log.wit", include_str!("../../../../wit/log.wit")),
    ("reconciler.wit", include_str!("../../../../wit/reconciler.wit")),
    ("types.wit", include_str!("../../../../wit/types.wit")),
    ("world.wit", include_str!("../../../../wit/world.wit")),
];

/// The files of the optional interfaces.
pub(super) const OPTIONAL: [(&str, &str); 2] = [
    ("0.2.0/admission.wit", include_str!("../../../../wit/0.2.0/admission.wit")),
    ("0.2.0/conversion.wit", include_str!("../../../../wit/0.2.0/conversion.wit")),
];
