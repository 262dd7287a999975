//! RNTBD, as much of it as point operations need, over a blocking connection.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::Value;

use crate::Outcome;

const ANSWER_WITHIN: Duration = Duration::from_secs(8);
const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// Length, resource and operation or status, and the activity.
const HEAD: usize = 24;
/// No answer to a point operation is longer.
const FRAME_MAX: usize = 4 * 1024 * 1024;

/// Whose certificates are good.
#[derive(Clone)]
pub(super) struct Trust(Arc<ClientConfig>);

impl Trust {
    /// Those of the account's authority.
    pub(super) fn new(pem: &str) -> Outcome<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(pem.as_bytes())?)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self(Arc::new(config)))
    }

    /// Connects to `host:port` and negotiates.
    pub(super) fn connect(&self, authority: &str) -> Outcome<Wire> {
        let address: SocketAddr = authority.parse()?;
        let stream = TcpStream::connect_timeout(&address, CONNECT_WITHIN)?;
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        stream.set_write_timeout(Some(ANSWER_WITHIN))?;
        stream.set_nodelay(true)?;
        let name = ServerName::from(address.ip());
        let connection = ClientConnection::new(Arc::clone(&self.0), name)?;
        let mut wire = Wire { stream: StreamOwned::new(connection, stream), next: 1 };
        let mut tokens = Tokens::default();
        tokens.ulong(0, 1);
        tokens.small(1, "2020-07-15");
        tokens.small(2, "xtask");
        wire.stream.write_all(&frame([0; 4], &tokens, b""))?;
        wire.stream.flush()?;
        match wire.read()?.status {
            200 => Ok(wire),
            other => Err(format!("the owner would not negotiate: {other}").into()),
        }
    }
}

/// A connection that has negotiated.
pub(super) struct Wire {
    stream: StreamOwned<ClientConnection, TcpStream>,
    next: u32,
}

/// A point operation, by the words of HTTP.
pub(super) struct DirectRequest<'a> {
    pub(super) verb: &'a str,
    pub(super) path: &'a str,
    pub(super) key: &'a str,
    pub(super) body: Option<&'a Value>,
    /// The headers that sign it.
    pub(super) signed: &'a [(&'static str, String); 3],
}

/// What came back.
pub(super) struct DirectAnswer {
    pub(super) status: u16,
    pub(super) substatus: Option<i64>,
    pub(super) body: Value,
}

impl Wire {
    /// Sends a request to a replica and reads its answer. An error means that nobody knows what became of it.
    pub(super) fn call(
        &mut self,
        request: &DirectRequest<'_>,
        replica: &str,
    ) -> Outcome<DirectAnswer> {
        let (resource, operation) = match (request.verb, request.path.matches('/').count()) {
            ("GET", 2) => (1, 3),
            // Writes are upserts, as the registers want them.
            ("POST", _) => (3, 19),
            ("PATCH", _) => (3, 2),
            ("GET", _) => (3, 3),
            (other, _) => return Err(format!("{other} is not spoken here").into()),
        };
        let payload = request.body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let mut tokens = Tokens::default();
        tokens.text(0x01, &request.signed[0].1);
        tokens.byte(0x02, u8::from(!payload.is_empty()));
        tokens.small(0x03, &request.signed[1].1);
        tokens.text(0x13, replica);
        // `/dbs/d/colls/c/docs/i`: every second segment is a name.
        let names = request.path.split('/').skip(2).step_by(2);
        for (token, name) in [0x15, 0x16, 0x17].into_iter().zip(names) {
            tokens.text(token, name);
        }
        if !request.key.is_empty() {
            tokens.text(0x2b, request.key);
        }
        tokens.ulong(0x4d, self.next);
        self.next += 1;
        let [low, _] = u16::to_le_bytes(resource);
        self.stream.write_all(&frame([low, 0, operation, 0], &tokens, &payload))?;
        self.stream.flush()?;
        self.read()
    }

    fn read(&mut self) -> Outcome<DirectAnswer> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let length = u32::from_le_bytes(length) as usize;
        if !(HEAD..FRAME_MAX).contains(&length) {
            return Err(format!("a frame of {length} bytes").into());
        }
        let mut head = vec![0; length - 4];
        self.stream.read_exact(&mut head)?;
        let status = u16::from_le_bytes([head[0], head[1]]);
        let mut answer = DirectAnswer { status, substatus: None, body: Value::Null };
        let mut has_payload = false;
        let mut rest = &head[HEAD - 4..];
        while let [low, high, kind, behind @ ..] = rest {
            let size = value_length(*kind, behind)?;
            let value = behind.get(..size).ok_or("a token is cut off")?;
            match (u16::from_le_bytes([*low, *high]), value) {
                (0x00, [present]) => has_payload = *present != 0,
                (0x1c, [a, b, c, d]) => {
                    answer.substatus = Some(u32::from_le_bytes([*a, *b, *c, *d]).into());
                }
                _ => {}
            }
            rest = &behind[size..];
        }
        if has_payload {
            let mut length = [0; 4];
            self.stream.read_exact(&mut length)?;
            let length = u32::from_le_bytes(length) as usize;
            let mut payload = vec![0; length.min(FRAME_MAX)];
            self.stream.read_exact(&mut payload)?;
            answer.body = serde_json::from_slice(&payload)?;
        }
        Ok(answer)
    }
}

/// How many bytes the value of a token has, with those that count them.
fn value_length(kind: u8, behind: &[u8]) -> Outcome<usize> {
    let counted = |width: usize| -> Option<usize> {
        let mut number = [0; 8];
        number.get_mut(..width)?.copy_from_slice(behind.get(..width)?);
        Some(width + usize::try_from(u64::from_le_bytes(number)).ok()?)
    };
    let length = match kind {
        0 => Some(1),
        1 => Some(2),
        2 | 3 | 13 => Some(4),
        4 | 5 | 14 => Some(8),
        6 => Some(16),
        7 | 10 => counted(1),
        8 | 11 => counted(2),
        9 | 12 => counted(4),
        _ => None,
    };
    length.ok_or_else(|| format!("a token of type {kind}").into())
}

#[derive(Default)]
struct Tokens(Vec<u8>);

impl Tokens {
    fn begin(&mut self, id: u16, kind: u8) {
        self.0.extend_from_slice(&id.to_le_bytes());
        self.0.push(kind);
    }

    fn byte(&mut self, id: u16, value: u8) {
        self.begin(id, 0);
        self.0.push(value);
    }

    fn ulong(&mut self, id: u16, value: u32) {
        self.begin(id, 2);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// A text of at most 255 bytes.
    fn small(&mut self, id: u16, text: &str) {
        self.begin(id, 7);
        self.0.push(text.len() as u8);
        self.0.extend_from_slice(text.as_bytes());
    }

    /// A text of at most 65,535 bytes.
    fn text(&mut self, id: u16, text: &str) {
        self.begin(id, 8);
        self.0.extend_from_slice(&(text.len() as u16).to_le_bytes());
        self.0.extend_from_slice(text.as_bytes());
    }
}

fn frame(second: [u8; 4], tokens: &Tokens, payload: &[u8]) -> Vec<u8> {
    let mut out = ((HEAD + tokens.0.len()) as u32).to_le_bytes().to_vec();
    out.extend_from_slice(&second);
    out.extend_from_slice(&[7; 16]);
    out.extend_from_slice(&tokens.0);
    if !payload.is_empty() {
        out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        out.extend_from_slice(payload);
    }
    out
}
