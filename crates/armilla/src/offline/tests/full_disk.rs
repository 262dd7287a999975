//! A server whose disk fills up, by itself or by others.

use super::*;
use std::io::Write as _;

#[tokio::test(flavor = "multi_thread")]
async fn a_server_on_a_full_disk_reads_and_deletes_and_comes_back_with_the_room() {
    const MB: usize = 1 << 20;
    let Some(disk) = SmallDisk::mount(420) else { return };
    let (data, ballast) = (disk.0.path().join("data"), disk.0.path().join("ballast"));
    let flags = ["--disk-reserve", "256MB"];
    let (server, client) = serve(&data, &flags).await.unwrap();
    make_container(&client).await;
    fs::write(&ballast, vec![1; 100 * MB]).unwrap();
    let mut acknowledged = Vec::new();
    let mut refused = None;
    for number in 0..200 {
        match put(&client, number, MB).await {
            201 => acknowledged.push(number),
            status => {
                refused = Some(status);
                break;
            }
        }
    }
    assert_eq!(refused, Some(507), "after {} writes", acknowledged.len());
    assert!(acknowledged.len() > 10);
    for number in &acknowledged {
        assert_eq!(read(&client, *number).await, 200);
    }
    assert_eq!(delete(&client, acknowledged[0]).await, 204);
    // A start on a full disk is as good. The stop made room: sorted files are compressed.
    server.stop().await;
    fs::write(disk.0.path().join("more"), vec![1; 100 * MB]).unwrap();
    let (server, client) = serve(&data, &flags).await.unwrap();
    assert_eq!(read(&client, acknowledged[1]).await, 200);
    assert_eq!(put(&client, 1000, 10).await, 507);
    assert_eq!(delete(&client, acknowledged[1]).await, 204);
    fs::remove_file(&ballast).unwrap();
    fs::remove_file(disk.0.path().join("more")).unwrap();
    let mut status = 507;
    for _ in 0..100 {
        status = put(&client, 1000, 10).await;
        if status != 507 {
            break;
        }
        // Pause: between two looks at the condition that is awaited.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(status, 201);
    server.stop().await;
}

/// Text that does not compress, another one for each seed.
fn noise(seed: usize, length: usize) -> String {
    let mut state = (seed as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b'!' + (state % 90) as u8)
    };
    (0..length).map(|_| next()).filter(|letter| !matches!(letter, '"' | '\\')).collect()
}

fn free_bytes(folder: &Path) -> u64 {
    let found = rustix::fs::statvfs(folder).unwrap();
    found.f_bavail * found.f_frsize
}

/// Writes again until the server has room, and says what it answered in the end.
async fn put_when_there_is_room(client: &Client, number: usize) -> u16 {
    for _ in 0..600 {
        let status = put(client, number, 10).await;
        if status != 507 {
            return status;
        }
        // Pause: between two looks at the condition that is awaited.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    507
}

/// A merge of some 150 MB is due when others have left 90 MB, of which 32 MB are kept free.
#[tokio::test(flavor = "multi_thread")]
async fn merges_wait_on_a_disk_that_others_fill_and_go_on_when_there_is_room() {
    const MB: u64 = 1 << 20;
    const EACH_ROUND: usize = 20;
    let Some(disk) = SmallDisk::mount(700) else { return };
    let (data, ballast) = (disk.0.path().join("data"), disk.0.path().join("ballast"));
    let flags = ["--disk-reserve", "64MB"];
    for round in 0..5 {
        let (server, client) = serve(&data, &flags).await.unwrap();
        if round == 0 {
            make_container(&client).await;
        }
        // Other items each time: merged, they need as much room again.
        for number in (0..EACH_ROUND).map(|number| round * EACH_ROUND + number) {
            let id = number.to_string();
            let item = json!({ "id": id, "text": noise(number, 3 << 19) }).to_string();
            let answer = client.write_item(ITEMS, &Key::of(&id), OnConflict::Refuse, item).await;
            assert_eq!(answer.unwrap().status, 201);
        }
        if round == 4 {
            let others = free_bytes(disk.0.path()) - 90 * MB;
            fs::write(&ballast, vec![1; usize::try_from(others).unwrap()]).unwrap();
        }
        // A stop leaves one sorted file more, and the start behind it merges them once there are enough.
        server.stop().await;
    }
    let (server, client) = serve(&data, &flags).await.unwrap();
    for number in 1..EACH_ROUND {
        assert_eq!(read(&client, number).await, 200);
        assert_eq!(put(&client, 1000, 10).await, 507);
    }
    assert_eq!(delete(&client, 1).await, 204);
    fs::remove_file(&ballast).unwrap();
    assert_eq!(put_when_there_is_room(&client, 1000).await, 201);
    server.stop().await;
}

/// Other programs take every byte in the middle of commits and flushes, again and again.
#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_others_fill_to_the_last_byte_stops_writes_and_nothing_else() {
    const KB: usize = 1 << 10;
    let Some(disk) = SmallDisk::mount(420) else { return };
    let (data, others) = (disk.0.path().join("data"), disk.0.path().join("others"));
    let flags = ["--disk-reserve", "16MB"];
    let (server, client) = serve(&data, &flags).await.unwrap();
    make_container(&client).await;
    let client = Arc::new(client);
    let mut next = 0;
    for round in 0..4_u64 {
        for number in next..next + 30 {
            assert_eq!(put(&client, number, 100 * KB).await, 201);
        }
        next += 30;
        fill(&others, round * 3000);
        // Those that were taken before the server noticed are answered in the end, and right.
        let writers: Vec<_> = (next..next + 20)
            .map(|number| {
                let client = Arc::clone(&client);
                tokio::spawn(async move { put(&client, number, 100 * KB).await })
            })
            .collect();
        wait_for_status(&client, 507).await;
        assert_eq!(read(&client, 0).await, 200);
        assert_eq!(delete(&client, 1).await, 507, "there is no room for a delete either");
        fs::remove_file(&others).unwrap();
        for (number, writer) in (next..).zip(writers) {
            let status = writer.await.unwrap();
            assert!(matches!(status, 201 | 507), "{status}");
            assert_eq!(read(&client, number).await, if status == 201 { 200 } else { 404 });
        }
        next += 20;
        assert_eq!(put_when_there_is_room(&client, next).await, 201);
        next += 1;
    }
    server.stop().await;
    verify_folder(&data).unwrap();
    let (server, client) = serve(&data, &flags).await.unwrap();
    for number in [0, 29, 70, 80, 101] {
        assert_eq!(read(&client, number).await, 200, "{number}");
    }
    server.stop().await;
}

/// A file that takes all of the disk but so many bytes.
fn fill(path: &Path, free: u64) {
    let mut file = fs::File::create(path).unwrap();
    let block = vec![1; 1 << 20];
    for piece in [block.len(), 4096, 1] {
        while file.write(&block[..piece]).is_ok_and(|written| written > 0) {}
    }
    let length = file.metadata().unwrap().len();
    file.set_len(length - free).unwrap();
}

async fn wait_for_status(client: &Client, wanted: u16) {
    for _ in 0..600 {
        // A write that is taken may wait until there is room, so it is not waited for.
        let write = tokio::time::timeout(Duration::from_millis(50), put(client, 1_000_000, 10));
        if write.await == Ok(wanted) {
            return;
        }
    }
    panic!("no write was answered {wanted}");
}
