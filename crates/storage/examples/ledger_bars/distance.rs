//! A database that is further away: a relay that lets bytes wait before it passes them on.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// A relay on loopback; it ends with the process.
pub(super) struct Distance {
    url: String,
}

impl Distance {
    /// Puts a relay before the database of a `host=… port=…` address.
    pub(super) fn put_before(url: &str, round_trip: Duration) -> Self {
        let port = url.split(' ').find_map(|word| word.strip_prefix("port=")).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = listener.local_addr().unwrap().port().to_string();
        let to = format!("127.0.0.1:{port}");
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let far = TcpStream::connect(&to).unwrap();
                near.set_nodelay(true).unwrap();
                far.set_nodelay(true).unwrap();
                relay(near.try_clone().unwrap(), far.try_clone().unwrap(), round_trip / 2);
                relay(far, near, round_trip / 2);
            }
        });
        let url = url.replace(&format!("port={port}"), &format!("port={own}"));
        Self { url }
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }
}

/// Passes bytes on in one direction, each piece after a delay. Pieces do not wait for each other.
fn relay(mut from: TcpStream, mut to: TcpStream, delay: Duration) {
    let (send, received) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        let mut buffer = vec![0; 256 * 1024];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            if send.send((Instant::now(), buffer[..length].to_vec())).is_err() {
                return;
            }
        }
    });
    thread::spawn(move || {
        for (came, bytes) in received {
            thread::sleep(delay.saturating_sub(came.elapsed()));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        // Whoever is at the other end may have gone already.
        let _ = to.shutdown(Shutdown::Both);
    });
}
