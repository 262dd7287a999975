//! The way from a node to the database, which can be cut without telling anybody.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::Outcome;

const POLL: Duration = Duration::from_millis(20);

/// A way to the database that can be cut.
pub(super) struct Way {
    port: u16,
    is_open: Arc<AtomicBool>,
}

impl Way {
    pub(super) fn open(to: SocketAddr) -> Outcome<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let is_open = Arc::new(AtomicBool::new(true));
        let open = Arc::clone(&is_open);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let Ok(onward) = TcpStream::connect(to) else { continue };
                for stream in [&stream, &onward] {
                    // Looks now and then whether the way was cut.
                    stream.set_read_timeout(Some(POLL)).ok();
                    stream.set_nodelay(true).ok();
                }
                let (Ok(back), Ok(forth)) = (stream.try_clone(), onward.try_clone()) else {
                    continue;
                };
                let flags = [Arc::clone(&open), Arc::clone(&open)];
                let [first, second] = flags;
                thread::spawn(move || carry(stream, onward, &first));
                thread::spawn(move || carry(forth, back, &second));
            }
        });
        Ok(Self { port, is_open })
    }

    /// Where it begins, on loopback.
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Bytes stop in both directions while it is shut, and nobody is told.
    pub(super) fn set_open(&self, open: bool) {
        self.is_open.store(open, Ordering::SeqCst);
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, open: &AtomicBool) {
    use std::io::{Read as _, Write as _};
    let mut buffer = vec![0; 64 * 1024];
    loop {
        if !open.load(Ordering::SeqCst) {
            thread::sleep(POLL);
            continue;
        }
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => {
                while !open.load(Ordering::SeqCst) {
                    thread::sleep(POLL);
                }
                if to.write_all(&buffer[..length]).is_err() {
                    break;
                }
            }
            Err(error)
                if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            Err(_) => break,
        }
    }
    from.shutdown(std::net::Shutdown::Both).ok();
    to.shutdown(std::net::Shutdown::Both).ok();
}
