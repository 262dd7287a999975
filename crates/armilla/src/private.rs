//! The data folder is its owner's alone: mode 0700, and 0600 for what is in it.

use armilla_storage::disk::FolderDisk;
use std::path::Path;

/// Files and folders that this process makes from here on are its user's alone, those of the store's
/// engine and of the control socket included.
pub(crate) fn new_files() {
    #[cfg(unix)]
    {
        use rustix::fs::Mode;
        rustix::process::umask(Mode::RWXG | Mode::RWXO);
    }
}

/// Takes a data folder that is there from everybody but its owner. A folder with other things in it is
/// left as it is: whoever opens it says whether it may be used.
pub(crate) fn tighten(folder: &Path) {
    // A node of an account in slices has a store for each of them.
    let is_ours = ["format", "slice-0/format"].iter().any(|file| folder.join(file).exists());
    let is_empty = || std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none());
    if !folder.is_dir() || !(is_ours || is_empty()) {
        return;
    }
    let private = FolderDisk::new(folder).and_then(|disk| disk.make_private(Path::new("")));
    if let Err(error) = private {
        tracing::warn!(%error, "others can read the data folder");
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_data_folder_is_tightened_and_a_foreign_one_is_left() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = |name: &str, file: Option<&str>| {
            let folder = temporary.path().join(name);
            fs::create_dir(&folder).unwrap();
            if let Some(file) = file.map(|file| folder.join(file)) {
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(file, "").unwrap();
            }
            fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
            tighten(&folder);
            fs::metadata(&folder).unwrap().permissions().mode() & 0o777
        };
        assert_eq!(folder("empty", None), 0o700);
        assert_eq!(folder("ours", Some("format")), 0o700);
        assert_eq!(folder("slices", Some("slice-0/format")), 0o700);
        assert_eq!(folder("home", Some("letter.txt")), 0o755);
        tighten(&temporary.path().join("absent"));
    }
}
