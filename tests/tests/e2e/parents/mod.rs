//! Kinds of parents, each with its own plugin: built-in kinds, cluster-scoped kinds, and objects that are parents by
//! their labels.

mod crowd;
mod default_deny;
mod labelled;
mod metadata;
mod names;
mod pdb;
mod tenant;
