//! A server with a stub service on a free port, and clients that speak to it byte by byte.

use armilla_gateway::activity::ActivityIds;
use armilla_gateway::auth::{Authenticator, MasterKeys, Standing, WELL_KNOWN_KEY, WellKnownKey};
use armilla_gateway::certificates::Authority;
use armilla_gateway::limits::Limits;
use armilla_gateway::routes::Segments;
use armilla_gateway::serve::{Protocols, Stopped};
use armilla_gateway::{Call, Gateway, Operation, Reply, Server, Service, Settings, auth};
use armilla_model::Error;
use armilla_model::charge::RequestCharge;
use armilla_model::clock::ManualClock;
use armilla_model::lsn::Lsn;
use armilla_model::session_token::SessionToken;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;

/// The server's clock and the clients' date agree.
pub(crate) const NOW: u64 = 1_794_770_659;
pub(crate) const DATE: &str = "Sun, 15 Nov 2026 19:24:19 GMT";

/// Holds requests for the item `held` until a test lets them go.
pub(crate) struct Gate {
    arrived: Semaphore,
    open: Semaphore,
}

impl Gate {
    fn new() -> Self {
        Self { arrived: Semaphore::new(0), open: Semaphore::new(0) }
    }

    async fn pass(&self) {
        self.arrived.add_permits(1);
        self.open.acquire().await.unwrap().forget();
    }

    /// Waits until one more request is held.
    pub(crate) async fn arrival(&self) {
        soon(self.arrived.acquire()).await.unwrap().forget();
    }

    /// Lets one request go.
    pub(crate) fn let_one_go(&self) {
        self.open.add_permits(1);
    }
}

/// The position that the stub tells with a missing item.
const SEEN: SessionToken = SessionToken { range: 0, lsn: Lsn(5) };

/// Answers by the id that is asked for.
pub(crate) struct Stub(Arc<Gate>);

impl Stub {
    /// One whose gate nobody opens.
    pub(crate) fn new() -> Self {
        Self(Arc::new(Gate::new()))
    }
}

impl Standing for Stub {}

impl Service for Stub {
    async fn call(&self, call: Call<'_>) -> Reply {
        match call.operation {
            Operation::ReadItem(path) => match path.item {
                "held" => {
                    self.0.pass().await;
                    Reply::ok("{\"id\":\"held\"}")
                }
                "panic" => panic!("the stub was asked to"),
                "missing" => Reply::error(Error::not_found()).position(SEEN),
                "same" => Reply::not_modified().etag("\"e\""),
                "large" => Reply::ok(vec![b'x'; 4 * 1024 * 1024]),
                id => Reply::ok(format!("{{\"id\":\"{id}\"}}")).charge(RequestCharge::ONE).lsn(7),
            },
            Operation::CreateItem(_) => {
                Reply::created(call.body).charge(RequestCharge::from_21sts(120)).wrote(true)
            }
            Operation::DeleteItem(_) => Reply::no_content().wrote(true),
            // A batch or a procedure that only reads: its transaction changes nothing.
            Operation::ExecuteBatch(_) | Operation::ExecuteProcedure(_) => {
                Reply::ok("[]").wrote(false)
            }
            Operation::ReadPermission { .. } => Reply::ok("{\"id\":\"p\"}"),
            Operation::CreateDatabase => Reply::created("{}"),
            Operation::PauseSubscription(_) | Operation::TurnDials(None) => Reply::no_content(),
            Operation::ReadChangeFeed(_) => Reply::not_modified().etag("\"7\""),
            _ => Reply::error(Error::Internal("the stub does not know this".to_owned())),
        }
    }
}

/// A running server.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) authority: Authority,
    pub(crate) gate: Arc<Gate>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Stopped>,
}

impl Running {
    pub(crate) fn start(limits: Limits) -> Self {
        let authority = Authority::generate(&[], NOW).unwrap();
        let config = authority.issue(&[], NOW).unwrap().server_config().unwrap();
        let keys = MasterKeys::new(WellKnownKey::OnLoopback);
        let gate = Arc::new(Gate::new());
        let gateway = Gateway {
            service: Stub(gate.clone()),
            settings: Settings {
                certificate_pem: Some(authority.certificate_pem.clone()),
                limits,
                ..Settings::default()
            },
            authenticator: Arc::new(Authenticator::new(keys, &[1; 32])),
            clock: Arc::new(ManualClock::at_seconds(NOW)),
            activity_ids: ActivityIds::new(1),
        };
        let any_port = ["127.0.0.1:0".parse().unwrap()];
        let server = Server::bind(&any_port, Protocols::Both(config), gateway).unwrap();
        let address = server.local_addresses().unwrap()[0];
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(server.run(async {
            let _ = stopped.await;
        }));
        Self { address, authority, gate, stop, task }
    }

    pub(crate) async fn connect(&self) -> Client<TcpStream> {
        Client { stream: TcpStream::connect(self.address).await.unwrap() }
    }

    pub(crate) fn begin_stop(self) -> JoinHandle<Stopped> {
        let _ = self.stop.send(());
        self.task
    }
}

/// The `authorization` header of a request.
pub(crate) fn authorization(method: &str, path: &str) -> String {
    let method = http::Method::from_bytes(method.as_bytes()).unwrap();
    let path = path.split('?').next().unwrap();
    let text = auth::string_to_sign(&method, &Segments::parse(path).unwrap(), DATE);
    let key = STANDARD.decode(WELL_KNOWN_KEY).unwrap();
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &key);
    let signature = STANDARD.encode(ring::hmac::sign(&key, text.as_bytes()));
    let encoded = signature.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
    format!("type%3Dmaster%26ver%3D1.0%26sig%3D{encoded}")
}

/// A signed request head without its empty line.
pub(crate) fn head(method: &str, path: &str, more: &str) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost:8081\r\nx-ms-date: {DATE}\r\nx-ms-version: 2020-07-15\r\nauthorization: {}\r\n{more}",
        authorization(method, path)
    )
}

/// A client that writes bytes and reads HTTP/1.1 answers.
pub(crate) struct Client<S> {
    pub(crate) stream: S,
}

/// An HTTP/1.1 answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub(crate) async fn send(&mut self, text: impl AsRef<[u8]>) {
        self.stream.write_all(text.as_ref()).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    /// A whole signed request without a body, and its answer.
    pub(crate) async fn get(&mut self, path: &str) -> Answer {
        self.send(head("GET", path, "\r\n")).await;
        self.answer().await.unwrap()
    }

    /// The next answer; nothing when the server closed.
    pub(crate) async fn answer(&mut self) -> Option<Answer> {
        self.answer_to(true).await
    }

    pub(crate) async fn answer_to(&mut self, expects_body: bool) -> Option<Answer> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            match self.stream.read_u8().await {
                Ok(byte) => head.push(byte),
                Err(_) if head.is_empty() => return None,
                Err(error) => panic!("{error} after {}", String::from_utf8_lossy(&head)),
            }
        }
        let head = String::from_utf8(head).unwrap();
        let status = head[9..12].parse().unwrap();
        let mut answer = Answer { status, head, body: Vec::new() };
        let length = answer.header("content-length").unwrap_or("0").parse().unwrap();
        if expects_body {
            answer.body = vec![0; length];
            self.stream.read_exact(&mut answer.body).await.unwrap();
        }
        Some(answer)
    }

    /// Everything the server says until it closes.
    pub(crate) async fn stream_to_end(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        let _ = self.stream.read_to_end(&mut all).await;
        all
    }

    /// Waits until the server closes without another byte.
    pub(crate) async fn closed(&mut self) -> bool {
        matches!(self.stream.read(&mut [0]).await, Ok(0) | Err(_))
    }
}

/// Fails a test that hangs.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(10), future).await.expect("within ten seconds")
}
