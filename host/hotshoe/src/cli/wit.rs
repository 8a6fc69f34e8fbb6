//! The contract, embedded in the binary for new projects and for the tools of other languages.

/// The files of `wit/`: their names and texts.
pub(super) const FILES: [(&str, &str); 5] = [
    ("0.2.0/conversion.wit", include_str!("../../../../wit/0.2.0/conversion.wit")),
    ("log.wit", include_str!("../../../../wit/log.wit")),
    ("reconciler.wit", include_str!("../../../../wit/reconciler.wit")),
    ("types.wit", include_str!("../../../../wit/types.wit")),
    ("world.wit", include_str!("../../../../wit/world.wit")),
];
