//! Commands on data folders, healthy and not; a server whose disk fills up in `full_disk`.

mod full_disk;

use super::*;
use crate::client::Client;
use crate::client::items::{ContainerName, Key, OnConflict};
use crate::cluster::LedgerChoice;
use crate::config::SalvageOptions;
use crate::local::LocalServer;
use armilla_model::clock::SystemClock;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

const ITEMS: ContainerName<'_> = ContainerName { database: "d", container: "c" };

async fn serve(data: &Path, more: &[&str]) -> Result<(LocalServer, Client), String> {
    let mut flags = vec![OsString::from("--data"), data.into()];
    flags.extend(more.iter().map(OsString::from));
    let server = LocalServer::start(flags).await?;
    let client = Client::new(&server.endpoint(), Arc::new(SystemClock)).unwrap();
    Ok((server, client))
}

/// A data folder with some items, stopped cleanly.
async fn filled(data: &Path) {
    let (server, client) = serve(data, &[]).await.unwrap();
    make_container(&client).await;
    for number in 0..50 {
        let made = put(&client, number, 100).await;
        assert_eq!(made, 201);
    }
    server.stop().await;
}

async fn make_container(client: &Client) {
    client.ensure_database("d").await.unwrap();
    let definition = json!({ "id": "c", "partitionKey": { "paths": ["/id"], "kind": "Hash" } });
    client.create_container("d", &definition, None).await.unwrap().success().unwrap();
}

async fn put(client: &Client, number: usize, length: usize) -> u16 {
    let item = json!({ "id": number.to_string(), "text": "x".repeat(length) }).to_string();
    let key = Key::of(&number.to_string());
    client.write_item(ITEMS, &key, OnConflict::Refuse, item).await.unwrap().status
}

async fn read(client: &Client, number: usize) -> u16 {
    let id = number.to_string();
    client.read_item(ITEMS, &id, &Key::of(&id)).await.unwrap().status
}

async fn delete(client: &Client, number: usize) -> u16 {
    let id = number.to_string();
    client.delete_item(ITEMS, &id, &Key::of(&id)).await.unwrap().status
}

fn listing(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![folder.to_path_buf()];
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            waiting.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            found.insert(path, Vec::new());
        } else {
            let bytes = fs::read(&path).unwrap();
            found.insert(path, bytes);
        }
    }
    found
}

fn verify_folder(data: &Path) -> Result<(), String> {
    verify(&VerifyOptions {
        data: data.into(),
        ledger: LedgerChoice::default(),
        against: Vec::new(),
    })
}

fn backup_folder(data: &Path, to: &Path) -> Result<(), String> {
    backup(&BackupOptions { data: data.into(), to: to.into(), ledger: LedgerChoice::default() })
}

#[test]
fn verify_and_backup_make_nothing_where_there_is_no_store() {
    let above = tempfile::tempdir().unwrap();
    let (empty, foreign) = (above.path().join("empty"), above.path().join("foreign"));
    fs::create_dir(&empty).unwrap();
    fs::create_dir_all(foreign.join("photographs")).unwrap();
    let before = listing(above.path());
    for data in [empty, foreign, above.path().join("absent")] {
        for refused in [verify_folder(&data), backup_folder(&data, &above.path().join("backup"))] {
            assert!(refused.unwrap_err().contains("there is no store in this folder"));
        }
    }
    assert!(before == listing(above.path()));
}

#[tokio::test(flavor = "multi_thread")]
async fn verify_and_backup_leave_the_folder_as_it_is_and_a_backup_comes_back() {
    let above = tempfile::tempdir().unwrap();
    let (data, to) = (above.path().join("data"), above.path().join("backup"));
    filled(&data).await;
    let before = listing(&data);
    verify_folder(&data).unwrap();
    backup_folder(&data, &to).unwrap();
    assert!(before == listing(&data));
    let restored = above.path().join("restored");
    let ledger = LedgerChoice::default();
    restore(&RestoreOptions { from: to, data: restored.clone(), ledger }).unwrap();
    let (server, client) = serve(&restored, &[]).await.unwrap();
    assert_eq!((read(&client, 0).await, read(&client, 49).await), (200, 200));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_folder_says_what_to_do_and_is_salvaged() {
    let above = tempfile::tempdir().unwrap();
    let data = above.path().join("data");
    filled(&data).await;
    let keyspaces = data.join("engine/keyspaces");
    let manifest = fs::read_to_string(data.join("engine.manifest")).unwrap();
    let tree = |name: &str| {
        let line = manifest.lines().find(|line| line.ends_with(&format!(" {name}"))).unwrap();
        keyspaces.join(line.split(' ').nth(1).unwrap())
    };
    fs::remove_file(tree("feed").join("current")).unwrap();
    let before = listing(&data);
    let refusals = [
        serve(&data, &[]).await.err().unwrap(),
        verify_folder(&data).unwrap_err(),
        backup_folder(&data, &above.path().join("backup")).unwrap_err(),
    ];
    for refused in refusals {
        assert!(refused.contains("current: the file is missing"), "{refused}");
        assert!(refused.contains("armilla salvage"), "{refused}");
    }
    let salvage = |to: &Path| {
        let options = SalvageOptions { data: data.clone(), to: to.into() };
        let outcome = crate::salvage::run(&options);
        let text = fs::read_to_string(to).unwrap_or_default();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        (outcome, lines.collect::<Vec<Value>>())
    };
    let (outcome, lines) = salvage(&above.path().join("items.jsonl"));
    outcome.unwrap();
    assert_eq!(lines.len(), 50);
    assert!(lines.iter().all(|line| line["database"] == "d" && line["container"] == "c"));
    assert!(lines.iter().any(|line| line["item"]["id"] == "49"));
    assert!(before == listing(&data));
    // Nothing of the names is left: items bear the number of their container.
    fs::remove_dir_all(tree("meta")).unwrap();
    let (outcome, lines) = salvage(&above.path().join("nameless.jsonl"));
    assert!(outcome.unwrap_err().contains("nameless.jsonl.lost"));
    assert_eq!(lines.len(), 50);
    assert!(lines.iter().all(|line| line["container"].is_null() && line["number"].is_u64()));
    let lost = fs::read_to_string(above.path().join("nameless.jsonl.lost")).unwrap();
    assert!(lost.contains("current"), "{lost}");
    let (outcome, _) = salvage(&data.join("items.jsonl"));
    assert!(outcome.unwrap_err().contains("must not change"));
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_secrets_and_certificates_are_refused_by_name_or_work() {
    let above = tempfile::tempdir().unwrap();
    let whole = above.path().join("whole");
    filled(&whole).await;
    let names = ["token-secret", "tls/authority.pem", "tls/authority.key", "tls/authority.names"];
    let more =
        ["tls/server.pem", "tls/server.key", "tls/server.names", "tls/server.expires", "tls"];
    let (mut refused, mut right) = (0, 0);
    for name in names.into_iter().chain(more) {
        for action in ["delete", "empty", "cut", "flip", "zero"] {
            let data = above.path().join(format!("{}-{action}", name.replace('/', "-")));
            for (path, bytes) in listing(&whole) {
                let to = data.join(path.strip_prefix(&whole).unwrap());
                if path.is_dir() {
                    fs::create_dir_all(to).unwrap();
                } else {
                    fs::create_dir_all(to.parent().unwrap()).unwrap();
                    fs::write(to, bytes).unwrap();
                }
            }
            let file = data.join(name);
            if file.is_dir() {
                fs::remove_dir_all(&file).unwrap();
            } else {
                let mut bytes = fs::read(&file).unwrap();
                let middle = bytes.len() / 2;
                match action {
                    "empty" => bytes.clear(),
                    "cut" => bytes.truncate(middle),
                    "flip" => bytes.iter_mut().skip(middle).take(1).for_each(|byte| *byte ^= 4),
                    "zero" => bytes.iter_mut().skip(middle).take(16).for_each(|byte| *byte = 0),
                    _ => {}
                }
                fs::write(&file, bytes).unwrap();
                if action == "delete" {
                    fs::remove_file(&file).unwrap();
                }
            }
            let before = listing(&data);
            match serve(&data, &[]).await {
                Err(message) => {
                    assert!(
                        message.contains(name.trim_start_matches("tls/")),
                        "{name}, {action}: {message}"
                    );
                    assert!(before == listing(&data), "{name}, {action}: a refused start wrote");
                    refused += 1;
                }
                Ok((server, _)) => {
                    let secure = Client::new(&server.https_endpoint(), Arc::new(SystemClock));
                    let secure = secure.unwrap();
                    assert_eq!(read(&secure, 7).await, 200, "{name}, {action}");
                    server.stop().await;
                    right += 1;
                }
            }
        }
    }
    assert!(refused >= 5 && right >= 5, "{refused} refused, {right} right");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_disk_is_verified_and_backed_up() {
    let Some(disk) = SmallDisk::mount(400) else { return };
    let data = disk.0.path().join("data");
    filled(&data).await;
    let remounted =
        std::process::Command::new("mount").args(["-o", "remount,ro"]).arg(disk.0.path()).status();
    assert!(remounted.unwrap().success(), "the disk was mounted by this test");
    verify_folder(&data).unwrap();
    let to = tempfile::tempdir().unwrap();
    backup_folder(&data, &to.path().join("backup")).unwrap();
    let refused = serve(&data, &[]).await.err().unwrap();
    assert!(refused.contains("Read-only file system"), "{refused}");
}

/// A small disk of its own, in memory; unmounted when dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// `None`, with the reason said, where the system lets nobody mount.
    fn mount(megabytes: u32) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={megabytes}m"), "tmpfs"])
            .arg(folder.path())
            .output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self(folder)),
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                eprintln!("skipped: a tmpfs cannot be mounted here: {said}");
                None
            }
            Err(error) => {
                eprintln!("skipped: `mount` cannot be run here: {error}");
                None
            }
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}
