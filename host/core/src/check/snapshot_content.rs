//! Denies objects that represent snapshots of a storage system, unless the grant allows them. Pure.
//!
//! Such an object names any snapshot of that system, of any tenant, and Secrets of any namespace by which the
//! driver reaches it. A claim that is filled from it has the other tenant's data.

use crate::check::json_cursor::grant_change;
use crate::check::violation::{Checked, Violation};
use crate::model::kind::Kind;

const CONTENTS: [(&str, &str); 2] = [
    ("snapshot.storage.k8s.io", "VolumeSnapshotContent"),
    ("groupsnapshot.storage.k8s.io", "VolumeGroupSnapshotContent"),
];

/// Returns whether objects of this kind represent snapshots of a storage system.
pub fn is_content(kind: &Kind) -> bool {
    CONTENTS.iter().any(|(group, name)| kind.is(group, name))
}

/// Checks that an object represents no snapshot, unless the grant allows it (`open`).
///
/// # Errors
/// When it does.
pub fn check(kind: &Kind, open: bool) -> Checked {
    if open || !is_content(kind) {
        return Ok(());
    }
    let message = "it names a snapshot of the storage system, which may be another tenant's, and is not granted";
    Err(Violation::new("foreign-snapshot", message).fixed_by(grant_change("foreignSnapshots", true.into())).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_of_either_group_is_closed_until_its_item_opens_it_and_a_snapshot_is_not() {
        for (group, name) in CONTENTS {
            let kind = Kind::new(group, "v1", name);
            let denial = check(&kind, false).unwrap_err();
            assert_eq!(denial.rule(), "foreign-snapshot");
            assert!(denial.to_string().contains("foreignSnapshots: true"), "{denial}");
            assert_eq!(check(&kind, true), Ok(()));
            assert_eq!(check(&Kind::new("g", "v1", name), false), Ok(()));
        }
        assert_eq!(check(&Kind::new("snapshot.storage.k8s.io", "v1", "VolumeSnapshot"), false), Ok(()));
    }
}
