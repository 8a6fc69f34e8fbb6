//! A host that follows `Plugin` objects, under the rights that `hotshoe rbac` prints for it.

mod applied;
mod claims;
mod control;
mod followed;
mod gone;
mod images;
mod remembered;
mod removal;
mod rig;
mod sources;
mod whole;
mod wrong;
