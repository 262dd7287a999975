//! A server over an engine in memory, and a client that signs like an SDK.

use armilla_engine::{Account, Options};
use armilla_gateway::activity::ActivityIds;
use armilla_gateway::auth::{Authenticator, MasterKeys, WELL_KNOWN_KEY, WellKnownKey};
use armilla_gateway::certificates::Authority;
use armilla_gateway::cluster::{Front, LateService, OwnerPlace};
use armilla_gateway::direct::DirectMode;
use armilla_gateway::locality::HostNames;
use armilla_gateway::ops::EngineService;
use armilla_gateway::routes::Segments;
use armilla_gateway::serve::Protocols;
use armilla_gateway::{Gateway, Server, Settings, auth};
use armilla_model::clock::ManualClock;
use armilla_model::{Value, json};
use armilla_storage::{MemoryStore, Store};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

pub(crate) const NOW: u64 = 1_794_770_659;
pub(crate) const DATE: &str = "Sun, 15 Nov 2026 19:24:19 GMT";

/// Headers of a query.
pub(crate) const QUERY: (&str, &str) = ("x-ms-documentdb-isquery", "True");
/// Headers of an upsert.
pub(crate) const UPSERT: (&str, &str) = ("x-ms-documentdb-is-upsert", "true");

/// A server that ends with the test's runtime.
pub(crate) struct Armilla {
    address: SocketAddr,
    /// Where Direct mode is served, if it is.
    direct: SocketAddr,
    /// The authority to trust, where the server speaks TLS.
    pub(crate) certificate: String,
    pub(crate) account: Arc<Account>,
    pub(crate) clock: Arc<ManualClock>,
}

impl Armilla {
    /// A server with an empty account.
    pub(crate) fn start() -> Self {
        Self::with(Options::default(), |service| service)
    }

    /// A server with other options and settings.
    pub(crate) fn with(
        options: Options,
        change: impl FnOnce(EngineService) -> EngineService,
    ) -> Self {
        Self::over(Arc::new(MemoryStore::new()), options, change)
    }

    /// A server over another store.
    pub(crate) fn over(
        store: Arc<dyn Store>,
        options: Options,
        change: impl FnOnce(EngineService) -> EngineService,
    ) -> Self {
        let keys = MasterKeys::new(WellKnownKey::OnLoopback);
        let authenticator = Authenticator::new(keys, &[1; 32]);
        Self::guarded(store, options, change, authenticator, Settings::default())
    }

    /// A server with other rules of who may come in.
    pub(crate) fn guarded(
        store: Arc<dyn Store>,
        options: Options,
        change: impl FnOnce(EngineService) -> EngineService,
        authenticator: Authenticator,
        settings: Settings,
    ) -> Self {
        Self::guarded_at(NOWHERE, store, options, change, (authenticator, settings))
    }

    /// The same at an address of this machine.
    pub(crate) fn guarded_at(
        address: SocketAddr,
        store: Arc<dyn Store>,
        options: Options,
        change: impl FnOnce(EngineService) -> EngineService,
        (authenticator, settings): (Authenticator, Settings),
    ) -> Self {
        let mut armilla = Self::engine(store, options);
        let protocols = match settings.direct {
            DirectMode::Off => Protocols::Plain,
            _ => armilla.with_certificate(),
        };
        let mode = settings.direct;
        let authenticator = Arc::new(authenticator);
        let gateway = Gateway {
            service: change(EngineService::new(armilla.account.clone(), authenticator.clone())),
            settings,
            authenticator,
            clock: armilla.clock.clone(),
            activity_ids: ActivityIds::new(1),
        };
        let server = Server::bind(&[address], protocols, gateway).unwrap();
        armilla.address = server.local_addresses().unwrap()[0];
        armilla.direct = match mode {
            DirectMode::Port(port) => (armilla.address.ip(), port).into(),
            _ => armilla.address,
        };
        tokio::spawn(server.run(std::future::pending()));
        armilla
    }

    /// The same account, asked through a node that does not own it.
    pub(crate) fn through_another_node(&self, authenticator: Authenticator) -> Self {
        let (front, places) = Front::new("another", rustls::RootCertStore::empty()).unwrap();
        places.send_replace(OwnerPlace::Elsewhere(
            format!("http://{}", self.address).parse().unwrap(),
        ));
        front.gauges().note_lease(std::time::Duration::from_secs(3600));
        let host_names = HostNames::new(Vec::new(), true);
        let late = LateService::<EngineService>::new();
        let settings = Settings {
            host_names,
            front: Some(Arc::new(front)),
            direct: DirectMode::SamePort,
            ..Settings::default()
        };
        let (account, clock) = (self.account.clone(), self.clock.clone());
        let certificate = String::new();
        let mut node = Self { address: NOWHERE, direct: NOWHERE, certificate, account, clock };
        let protocols = node.with_certificate();
        let gateway = Gateway {
            service: late,
            settings,
            authenticator: Arc::new(authenticator),
            clock: self.clock.clone(),
            activity_ids: ActivityIds::new(2),
        };
        let any_port = ["127.0.0.1:0".parse().unwrap()];
        let server = Server::bind(&any_port, protocols, gateway).unwrap();
        let address = server.local_addresses().unwrap()[0];
        tokio::spawn(async move {
            // It knows its owner for as long as it runs.
            let _places = places;
            server.run(std::future::pending()).await
        });
        (node.address, node.direct) = (address, address);
        node
    }

    /// The same account at a node that has lost its lease.
    pub(crate) fn without_lease(&self) -> Self {
        let keys = MasterKeys::new(WellKnownKey::OnLoopback);
        let authenticator = Arc::new(Authenticator::new(keys, &[1; 32]));
        let service = EngineService::new(self.account.clone(), authenticator.clone());
        let (late, clock) = (LateService::new(), self.clock.clone());
        late.begin(service, Arc::new(|| false));
        let (settings, activity_ids) = (Settings::default(), ActivityIds::new(2));
        let gateway =
            Gateway { service: late, settings, authenticator, clock: clock.clone(), activity_ids };
        let server = Server::bind(&[NOWHERE], Protocols::Plain, gateway).unwrap();
        let address = server.local_addresses().unwrap()[0];
        tokio::spawn(server.run(std::future::pending()));
        let (account, certificate) = (self.account.clone(), String::new());
        Self { address, direct: address, certificate, account, clock }
    }

    fn engine(store: Arc<dyn Store>, options: Options) -> Self {
        let clock = Arc::new(ManualClock::at_seconds(NOW));
        let options = Options { clock: clock.clone(), background: false, ..options };
        let account = Account::open(store, options).unwrap();
        Self { address: NOWHERE, direct: NOWHERE, certificate: String::new(), account, clock }
    }

    /// TLS with a certificate of its own, for `localhost` and `db.example`.
    fn with_certificate(&mut self) -> Protocols {
        let names = ["db.example".to_owned()];
        let authority = Authority::generate(&names, NOW).unwrap();
        let identity = authority.issue(&names, NOW).unwrap();
        self.certificate = authority.certificate_pem.clone();
        Protocols::Both(identity.server_config().unwrap())
    }

    /// A server that also serves Direct mode at its port.
    pub(crate) fn direct() -> Self {
        Self::direct_with(Options::default(), DirectMode::SamePort)
    }

    /// The same with other options, or at another port.
    pub(crate) fn direct_with(options: Options, direct: DirectMode) -> Self {
        let keys = MasterKeys::new(WellKnownKey::OnLoopback);
        let authenticator = Authenticator::new(keys, &[1; 32]);
        let settings = Settings { direct, ..Settings::default() };
        let store = Arc::new(MemoryStore::new());
        Self::guarded(store, options, |service| service, authenticator, settings)
    }

    /// Where Direct mode is served.
    pub(crate) fn direct_address(&self) -> SocketAddr {
        self.direct
    }

    /// The server's time, for a client that looks at certificates.
    pub(crate) fn time(&self) -> StandingClock {
        StandingClock(NOW)
    }

    /// A server with the database `blog` and its container `posts`.
    pub(crate) async fn with_posts() -> Self {
        Self::start().and_posts().await
    }

    /// The same server with the database `blog` and its container `posts`.
    pub(crate) async fn and_posts(self) -> Self {
        let armilla = self;
        armilla.post("/dbs", r#"{"id":"blog"}"#).await.expect(201);
        let definition = r#"{"id":"posts","partitionKey":{"paths":["/postId"]}}"#;
        armilla.post("/dbs/blog/colls", definition).await.expect(201);
        armilla
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], "").await
    }

    pub(crate) async fn post(&self, path: &str, body: &str) -> Answer {
        self.send("POST", path, &[], body).await
    }

    pub(crate) async fn put(&self, path: &str, body: &str) -> Answer {
        self.send("PUT", path, &[], body).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, &[], "").await
    }

    /// A query and its rows.
    pub(crate) async fn query(&self, path: &str, query: &str) -> Answer {
        let body = if query.starts_with('{') {
            query.to_owned()
        } else {
            let query = Value::from(query).to_json();
            format!("{{\"query\":{query},\"parameters\":[]}}")
        };
        self.send("POST", path, &[QUERY], &body).await
    }

    /// Any request, signed with the account's key.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        self.send_as(&signature(method, path), method, path, headers, body).await
    }

    /// A request whose body is not text, signed with the account's key.
    pub(crate) async fn send_bytes(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        self.exchange(&signature(method, path), method, path, headers, body).await
    }

    /// Any request with any credentials.
    pub(crate) async fn send_as(
        &self,
        authorization: &str,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        self.exchange(authorization, method, path, headers, body.as_bytes()).await
    }

    async fn exchange(
        &self,
        authorization: &str,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let host = headers.iter().find(|(name, _)| *name == "host");
        let host = host.map_or("localhost:8081", |(_, host)| host);
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\nx-ms-date: {DATE}\r\nx-ms-version: 2020-07-15\r\ncontent-length: {}\r\n",
            body.len()
        );
        if !authorization.is_empty() {
            request.push_str(&format!("authorization: {authorization}\r\n"));
        }
        for (name, value) in headers.iter().filter(|(name, _)| *name != "host") {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str("\r\n");
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let request = [request.as_bytes(), body].concat();
        stream.write_all(&request).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        Answer::parse(format!("{method} {path}"), &answer)
    }
}

/// Not bound yet: any port of loopback.
const NOWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// A clock for TLS that agrees with the server's.
#[derive(Debug)]
pub(crate) struct StandingClock(u64);

impl rustls::time_provider::TimeProvider for StandingClock {
    fn current_time(&self) -> Option<rustls::pki_types::UnixTime> {
        let since = std::time::Duration::from_secs(self.0);
        Some(rustls::pki_types::UnixTime::since_unix_epoch(since))
    }
}

/// The `authorization` header of the account's key.
fn signature(method: &str, path: &str) -> String {
    signed_with(WELL_KNOWN_KEY, method, path)
}

/// The `authorization` header of some key.
pub(crate) fn signed_with(key: &str, method: &str, path: &str) -> String {
    let method = http::Method::from_bytes(method.as_bytes()).unwrap();
    let text = auth::string_to_sign(&method, &Segments::parse(path).unwrap(), DATE);
    let key = STANDARD.decode(key).unwrap();
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &key);
    let signature = STANDARD.encode(ring::hmac::sign(&key, text.as_bytes()));
    encoded(&format!("type=master&ver=1.0&sig={signature}"))
}

/// A token as SDKs send it.
pub(crate) fn encoded(token: &str) -> String {
    let mut out = String::new();
    for byte in token.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' => out.push(byte.into()),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// What came back.
pub(crate) struct Answer {
    request: String,
    pub(crate) status: u16,
    head: String,
    /// The body as text; what is not UTF-8 in it is replaced.
    pub(crate) body: String,
    /// The body as it came.
    pub(crate) bytes: Vec<u8>,
}

impl Answer {
    fn parse(request: String, answer: &[u8]) -> Self {
        let end = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
        let head = String::from_utf8(answer[..end].to_vec()).unwrap();
        let bytes = answer[end + 4..].to_vec();
        let status = head[9..12].parse().unwrap();
        let body = String::from_utf8_lossy(&bytes).into_owned();
        Self { request, status, head, body, bytes }
    }

    /// Fails unless the status is this one.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}: {}\n{}", self.request, self.head, self.body);
        self
    }

    /// Fails unless it is this refusal.
    #[track_caller]
    pub(crate) fn refused(self, status: u16, substatus: u32) -> Self {
        let answer = self.expect(status);
        assert_eq!(answer.header("x-ms-substatus"), Some(substatus.to_string().as_str()));
        assert!(answer.header("x-ms-request-charge").is_some());
        answer
    }

    /// A header's value.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    /// What it cost, as the header says.
    #[track_caller]
    pub(crate) fn charge(&self) -> String {
        self.header("x-ms-request-charge").unwrap().to_owned()
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        json::parse(self.body.as_bytes()).unwrap()
    }

    /// A member of the body that is text.
    #[track_caller]
    pub(crate) fn text(&self, name: &str) -> String {
        self.json().get(name).unwrap().as_str().unwrap().to_owned()
    }

    /// The resources of a feed.
    #[track_caller]
    pub(crate) fn rows(&self, feed: &str) -> Vec<Value> {
        self.json().get(feed).unwrap().as_array().unwrap().to_vec()
    }

    /// The names of a feed's resources.
    #[track_caller]
    pub(crate) fn ids(&self, feed: &str) -> Vec<String> {
        let body = self.json();
        let rows = body.get(feed).unwrap().as_array().unwrap();
        assert_eq!(body.get("_count").unwrap().as_i64(), Some(rows.len() as i64));
        assert_eq!(self.header("x-ms-item-count"), Some(rows.len().to_string().as_str()));
        rows.iter().map(|row| row.get("id").unwrap().as_str().unwrap().to_owned()).collect()
    }
}
