//! Directories of which what lies in them is believed: only the host's own user may have put it there.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

/// Nobody but the owner.
const PRIVATE: u32 = 0o700;

/// Makes a directory with those above it, where they are missing. One that is there must be ours; loose permissions
/// of it are tightened. Those above it may be shared.
///
/// # Errors
/// When it cannot be made, or somebody else may have chosen what is in it.
pub fn make(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(PRIVATE).create(dir)?;
    // Not of what a link leads to: who made the link chose that.
    let metadata = fs::symlink_metadata(dir)?;
    if !metadata.is_dir() || metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other(format!(
            "{} is no directory, or belongs to another user; remove it, or give the host another cache directory",
            dir.display()
        )));
    }
    if metadata.mode() & 0o777 != PRIVATE {
        fs::set_permissions(dir, fs::Permissions::from_mode(PRIVATE))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn mode(dir: &Path) -> u32 {
        fs::metadata(dir).unwrap().mode() & 0o777
    }

    #[test]
    fn what_is_missing_is_made_and_what_others_may_enter_is_closed() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("a/b");
        make(&dir).unwrap();
        assert_eq!(mode(&dir), PRIVATE);
        for loose in [0o777, 0o750, 0o600] {
            fs::set_permissions(&dir, fs::Permissions::from_mode(loose)).unwrap();
            make(&dir).unwrap();
            assert_eq!(mode(&dir), PRIVATE, "{loose:o}");
        }
    }

    #[test]
    fn what_is_no_directory_of_ours_is_refused_by_name() {
        let base = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        fs::set_permissions(elsewhere.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let link = base.path().join("link");
        symlink(elsewhere.path(), &link).unwrap();
        let refused = make(&link).unwrap_err().to_string();
        assert!(refused.contains(&*link.to_string_lossy()) && refused.contains("another user"), "{refused}");
        assert_eq!(mode(elsewhere.path()), 0o755, "what is not ours stays as it is");
        let file = base.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(make(&file).is_err());
    }

    #[test]
    fn a_directory_of_another_user_is_refused() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("theirs");
        fs::create_dir(&dir).unwrap();
        std::os::unix::fs::chown(&dir, Some(65_534), None).unwrap();
        assert!(make(&dir).unwrap_err().to_string().contains("another user"));
    }
}
