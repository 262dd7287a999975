//! The files of the data explorer, as the binary carries them.
//!
//! `dist/` is what Vite made of the sources in `explorer/`, and `files.rs` is a table of it; both are written
//! by `npm run build`, committed, and never edited by hand. `cargo xtask explorer --check` builds them anew and
//! compares every byte. So a clone without Node serves the explorer, and a file that is missing does not compile.

mod files;

/// One file of the explorer.
#[derive(Clone, Copy, Debug)]
pub struct File {
    /// The path below the explorer's own, without a slash in front: `assets/app-1a2b.js`.
    pub path: &'static str,
    /// What is in it, uncompressed.
    pub bytes: &'static [u8],
    /// Its type, for a browser.
    pub media_type: &'static str,
    /// The beginning of its SHA-256 in quotes.
    pub etag: &'static str,
    /// The name carries a hash of the contents, so the file never changes under it.
    pub immutable: bool,
}

/// The page that everything begins with.
pub const INDEX: &str = "index.html";
/// Stands in the index where the nonce of an answer belongs.
pub const NONCE_PLACE: &str = "__NONCE__";

/// The file at a path; an empty path is the index.
pub fn find(path: &str) -> Option<(usize, &'static File)> {
    let path = if path.is_empty() { INDEX } else { path };
    let at = FILES.binary_search_by(|file| file.path.cmp(path)).ok()?;
    FILES.get(at).map(|file| (at, file))
}

/// All files, by path.
pub fn all() -> &'static [File] {
    FILES
}

use files::FILES;
