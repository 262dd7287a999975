//! Who gets in, by the flags of the server.

use super::*;
use crate::local::{LocalServer, options};
use std::ffi::OsString;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// `{"alg":"none"}` and no claims: nobody has signed it.
const UNSIGNED: &str = "authorization: type=aad&ver=1.0&sig=eyJhbGciOiJub25lIn0.e30.\r\n";

/// The status of `GET /dbs` with these lines of the head.
async fn status(server: &LocalServer, lines: &str) -> u16 {
    let host = if lines.contains("host: ") { "" } else { "host: localhost\r\n" };
    let base = server.endpoint().base;
    let mut stream = TcpStream::connect(base.trim_start_matches("http://")).await.unwrap();
    let head = format!("GET /dbs HTTP/1.1\r\n{host}connection: close\r\n{lines}\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer[9..12].parse().unwrap()
}

fn flags(list: &[&str], key_file: Option<&Path>) -> Vec<OsString> {
    let key_file = key_file.map(|file| format!("--key-file={}", file.display()));
    let list = list.iter().map(|flag| (*flag).to_owned()).chain(key_file);
    ["--in-memory".to_owned()].into_iter().chain(list).map(OsString::from).collect()
}

#[tokio::test]
async fn unsigned_tokens_open_a_server_without_keys_to_its_own_user_alone() {
    let server = LocalServer::start(flags(&[], None)).await.unwrap();
    assert_eq!(status(&server, UNSIGNED).await, 200);
    for stranger in [
        "x-forwarded-for: 203.0.113.9",
        "x-forwarded-proto: https",
        "forwarded: for=203.0.113.9",
        "origin: https://evil.example",
    ] {
        assert_eq!(status(&server, &format!("{UNSIGNED}{stranger}\r\n")).await, 401, "{stranger}");
    }
    assert_eq!(status(&server, &format!("{UNSIGNED}host: evil.example\r\n")).await, 421);
    server.stop().await;
}

#[tokio::test]
async fn unsigned_tokens_do_not_open_a_server_with_a_key_unless_somebody_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    let server = LocalServer::start(flags(&[], Some(&file))).await.unwrap();
    assert_eq!(status(&server, UNSIGNED).await, 401);
    server.stop().await;
    let accept = flags(&["--accept-development-tokens"], Some(&file));
    let server = LocalServer::start(accept).await.unwrap();
    assert_eq!(status(&server, UNSIGNED).await, 200);
    server.stop().await;
}

#[tokio::test]
async fn names_that_are_given_are_known() {
    let server = LocalServer::start(flags(&["--tls-name=db.example"], None)).await.unwrap();
    assert_eq!(status(&server, &format!("{UNSIGNED}host: db.example:8081\r\n")).await, 200);
    assert_eq!(status(&server, &format!("{UNSIGNED}host: db.evil\r\n")).await, 421);
    server.stop().await;
}

#[tokio::test]
async fn a_key_of_the_users_own_is_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    let prepared = prepare(&options(flags(&[], Some(&file))).unwrap()).unwrap();
    let shown = prepared.key_source.in_place_of(&prepared.key);
    assert!(!shown.contains(&prepared.key) && shown.contains(&*file.to_string_lossy()), "{shown}");
    let open = prepare(&options(flags(&[], None)).unwrap()).unwrap();
    assert_eq!(open.key_source.in_place_of(&open.key), open.key);
}

#[cfg(unix)]
#[tokio::test]
async fn a_data_folder_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().join("data");
    // As a volume is mounted: empty, and open to everybody.
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    let data = OsString::from(format!("--data={}", folder.display()));
    let server = LocalServer::start([data]).await.unwrap();
    let mode =
        |name: &str| std::fs::metadata(folder.join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(""), 0o700);
    for secret in ["token-secret", "tls/authority.key", "tls/server.key"] {
        assert_eq!(mode(secret), 0o600, "{secret}");
    }
    server.stop().await;
}
