//! Files of another build, from a folder: for development, or for the explorer of another project.

use super::Found;
use crate::limits::EXPLORER_FILE_MAX;
use http::HeaderValue;
use ring::digest::{SHA256, digest};
use std::path::{Component, Path, PathBuf};

/// What the explorer of the service asks for first; it is answered where the folder has none.
const CONFIG: (&str, &str) = ("config.json", r#"{"PROXY_PATH":"/"}"#);

/// The file at a path below the folder. Links that lead out of it are not followed.
pub(super) async fn find(folder: PathBuf, path: String) -> Option<Found> {
    tokio::task::spawn_blocking(move || read(&folder, &path)).await.ok().flatten()
}

fn read(folder: &Path, path: &str) -> Option<Found> {
    let name = if path.is_empty() { "index.html" } else { path };
    let is_plain = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    if !is_plain {
        return None;
    }
    let bytes = match contents(folder, name) {
        Some(bytes) => bytes,
        None if name == CONFIG.0 => CONFIG.1.as_bytes().to_vec(),
        None => return None,
    };
    let etag = digest(&SHA256, &bytes).as_ref().iter().take(16).fold(
        String::from("\""),
        |mut text, byte| {
            text.push_str(&format!("{byte:02x}"));
            text
        },
    );
    Some(Found {
        bytes: bytes.into(),
        gzip: None,
        media_type: HeaderValue::from_static(media_type(name)),
        etag: etag + "\"",
        immutable: false,
        is_index: name == "index.html",
    })
}

fn contents(folder: &Path, name: &str) -> Option<Vec<u8>> {
    let folder = folder.canonicalize().ok()?;
    let file = folder.join(name).canonicalize().ok()?;
    let is_inside = file.starts_with(&folder);
    let size = file.metadata().ok().filter(|found| found.is_file())?.len();
    (is_inside && size <= EXPLORER_FILE_MAX).then(|| std::fs::read(file).ok()).flatten()
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_below_the_folder_are_read() {
        let root = std::env::temp_dir().join(format!("armilla-explorer-{}", std::process::id()));
        let folder = root.join("build");
        std::fs::create_dir_all(folder.join("assets")).unwrap();
        std::fs::write(root.join("secret.txt"), "no").unwrap();
        std::fs::write(folder.join("index.html"), "<p>").unwrap();
        std::fs::write(folder.join("assets/a.js"), "1").unwrap();
        assert!(read(&folder, "").is_some_and(|found| found.is_index));
        assert!(read(&folder, "assets/a.js").is_some_and(|found| &found.bytes[..] == b"1"));
        for path in ["../secret.txt", "assets/../../secret.txt", "/etc/passwd", "assets", "none"] {
            assert!(read(&folder, path).is_none(), "{path}");
        }
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(root.join("secret.txt"), folder.join("link.txt")).unwrap();
            assert!(read(&folder, "link.txt").is_none());
        }
        let config = read(&folder, "config.json").unwrap();
        assert_eq!(&config.bytes[..], CONFIG.1.as_bytes());
        std::fs::remove_dir_all(root).unwrap();
    }
}
