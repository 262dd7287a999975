//! `armilla ready`: whether the server of this machine answers, as the exit code. Made for health checks of containers, which
//! have no other program to ask with.

use clap::Args;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// A server that takes longer is not ready.
const WAIT_MAX: Duration = Duration::from_secs(2);
/// Bytes of an answer that are looked at: its first line.
const FIRST_LINE: usize = 12;

#[derive(Clone, Debug, Args)]
pub(crate) struct ReadyOptions {
    /// Port of the server [environment also: PORT]
    #[arg(long, env = "ARMILLA_PORT")]
    pub(crate) port: Option<u16>,
}

/// Asks; the reason when it is not ready.
pub(crate) fn run(options: &ReadyOptions) -> Result<(), String> {
    let port = crate::config::port(options.port)?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let not_ready =
        |error: std::io::Error| format!("the server at {address} is not ready: {error}");
    let mut stream = TcpStream::connect_timeout(&address, WAIT_MAX).map_err(not_ready)?;
    stream.set_read_timeout(Some(WAIT_MAX)).map_err(not_ready)?;
    stream.set_write_timeout(Some(WAIT_MAX)).map_err(not_ready)?;
    let request = "GET /ready HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).map_err(not_ready)?;
    let mut line = [0; FIRST_LINE];
    stream.read_exact(&mut line).map_err(not_ready)?;
    match &line {
        b"HTTP/1.1 200" => Ok(()),
        other => Err(format!(
            "the server at {address} is not ready: it answered '{}'",
            String::from_utf8_lossy(other)
        )),
    }
}
