//! A host that follows `Plugin` objects, under the rights that `hotshoe rbac` prints for it.

mod applied;
mod claims;
mod control;
mod followed;
mod forged_status;
mod gone;
mod images;
mod named;
mod remembered;
mod removal;
pub(crate) mod rig;
mod selected;
mod signed;
mod sources;
mod upgraded;
mod whole;
mod wrong;
