//! A client in Direct mode: it reads the account, ranges and addresses over HTTP, connects by TLS, negotiates,
//! and sends frames, many at a time if it is told to.

use super::rntbd::{
    CONTEXT_REQUEST, CONTEXT_RESPONSE, Field, REQUEST, RESPONSE, number, read_tokens, write_frame,
    write_token,
};
use crate::support::{Armilla, DATE, encoded};
use armilla_gateway::auth::WELL_KNOWN_KEY;
use armilla_model::Value;
use armilla_model::partition_key::{Definition, PartitionKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The path of the catalog's partition.
pub(crate) const MASTER: &str = "/apps/armilla/services/master/partitions/M/replicas/1p";

/// A request before it has a number.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    resource: &'static str,
    operation: &'static str,
    tokens: Vec<(String, Field)>,
    payload: Vec<u8>,
}

impl Frame {
    /// A request to a replica, signed with the published key; the path is that of HTTP.
    pub(crate) fn new(resource: &'static str, operation: &'static str, replica: &str) -> Self {
        let tokens = vec![("ReplicaPath".to_owned(), replica.into())];
        Self { resource, operation, tokens, payload: Vec::new() }
    }

    /// The same with one more token, or another value of it.
    pub(crate) fn with(mut self, name: &str, value: impl Into<Field>) -> Self {
        self.tokens.retain(|(known, _)| known != name);
        self.tokens.push((name.to_owned(), value.into()));
        self
    }

    /// The same without a token.
    pub(crate) fn without(mut self, name: &str) -> Self {
        self.tokens.retain(|(known, _)| known != name);
        self
    }

    pub(crate) fn payload(mut self, payload: impl AsRef<[u8]>) -> Self {
        self.payload = payload.as_ref().to_vec();
        self
    }

    /// Signed as clients do it: method, type and link of the HTTP request that it stands for.
    pub(crate) fn signed(self, method: &str, kind: &str, link: &str) -> Self {
        let authorization = signature(WELL_KNOWN_KEY, method, kind, link);
        self.with("AuthorizationToken", &*authorization).with("Date", DATE)
    }

    /// The bytes on the wire, tokens in the order of their ids as .NET writes them.
    pub(crate) fn bytes(&self, transport_id: u32) -> Vec<u8> {
        let mut tokens = self.tokens.clone();
        tokens.retain(|(name, _)| name != "PayloadPresent" && name != "TransportRequestID");
        tokens.push(("PayloadPresent".to_owned(), i64::from(!self.payload.is_empty()).into()));
        tokens.push(("TransportRequestID".to_owned(), i64::from(transport_id).into()));
        tokens.sort_by_key(|(name, _)| REQUEST[name].0);
        let mut out = Vec::new();
        for (name, field) in &tokens {
            let (id, kind) = &REQUEST[name];
            write_token(*id, kind, field, &mut out);
        }
        let [low, high] = number("resource_types", self.resource).to_le_bytes();
        let [third, fourth] = number("operation_types", self.operation).to_le_bytes();
        let mut activity = [7; 16];
        activity[..4].copy_from_slice(&transport_id.to_le_bytes());
        write_frame([low, high, third, fourth], activity, &out, &self.payload)
    }
}

/// `type=master…` over method, type, link and date.
pub(crate) fn signature(key: &str, method: &str, kind: &str, link: &str) -> String {
    let text = format!(
        "{}\n{kind}\n{link}\n{}\n\n",
        method.to_ascii_lowercase(),
        DATE.to_ascii_lowercase()
    );
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &STANDARD.decode(key).unwrap());
    let signature = STANDARD.encode(ring::hmac::sign(&key, text.as_bytes()));
    encoded(&format!("type=master&ver=1.0&sig={signature}"))
}

/// What came back.
#[derive(Clone, Debug)]
pub(crate) struct Response {
    pub(crate) status: u32,
    pub(crate) transport_id: u32,
    pub(crate) activity: [u8; 16],
    tokens: Vec<(String, Field)>,
    pub(crate) payload: Vec<u8>,
}

impl Response {
    /// Fails unless the status is this one.
    #[track_caller]
    pub(crate) fn expect(self, status: u32) -> Self {
        assert_eq!(self.status, status, "{:?}\n{}", self.tokens, self.text());
        self
    }

    /// Fails unless it is this refusal, with all that keeps a client from asking again and again.
    #[track_caller]
    pub(crate) fn refused(self, status: u32, substatus: i64) -> Self {
        let response = self.expect(status);
        assert_eq!(response.number("SubStatus"), Some(substatus), "{}", response.text());
        response
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Field> {
        self.tokens.iter().find(|(known, _)| known == name).map(|(_, field)| field)
    }

    pub(crate) fn number(&self, name: &str) -> Option<i64> {
        match self.get(name)? {
            Field::Number(number) => Some(*number),
            other => panic!("{name} is {other:?}"),
        }
    }

    pub(crate) fn charge(&self) -> f64 {
        match self.get("RequestCharge") {
            Some(Field::Double(charge)) => *charge,
            other => panic!("a charge of {other:?}"),
        }
    }

    pub(crate) fn token(&self, name: &str) -> Option<&str> {
        match self.get(name)? {
            Field::Text(text) => Some(text),
            other => panic!("{name} is {other:?}"),
        }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.payload).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        armilla_model::json::parse(&self.payload).unwrap()
    }

    /// The rows of a page.
    pub(crate) fn rows(&self, feed: &str) -> Vec<Value> {
        let rows = self.json().get(feed).unwrap().as_array().unwrap().to_vec();
        assert_eq!(self.number("ItemCount"), Some(rows.len() as i64));
        rows
    }
}

/// A connection that has negotiated.
pub(crate) struct Client {
    stream: TlsStream<TcpStream>,
    buffer: Vec<u8>,
    next: u32,
}

impl Client {
    /// Connects as `localhost`.
    pub(crate) async fn connect(armilla: &Armilla) -> Self {
        Self::connect_as(armilla, "localhost").await
    }

    /// Connects under a name, which the certificate must have.
    pub(crate) async fn connect_as(armilla: &Armilla, name: &str) -> Self {
        let mut client = Self::raw(armilla, name).await;
        let answer = client.negotiate(1).await.unwrap();
        assert_eq!(answer.status, 200);
        assert_eq!(answer.token("ServerAgent"), Some("Armilla"));
        assert!(answer.token("ServerVersion").is_some());
        client
    }

    /// TLS, and nothing said yet.
    pub(crate) async fn raw(armilla: &Armilla, name: &str) -> Self {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(armilla.certificate.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_details(provider, Arc::new(armilla.time()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(armilla.direct_address()).await.unwrap();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
        Self { stream, buffer: Vec::new(), next: 1 }
    }

    /// The first exchange, with some version of the protocol.
    pub(crate) async fn negotiate(&mut self, version: i64) -> Option<Response> {
        let mut tokens = Vec::new();
        for (name, field) in [
            ("ProtocolVersion", Field::Number(version)),
            ("ClientVersion", "2020-07-15".into()),
            ("UserAgent", "cosmos-netstandard-sdk/3.64.0".into()),
        ] {
            let (id, kind) = &CONTEXT_REQUEST[name];
            write_token(*id, kind, &field, &mut tokens);
        }
        self.write(&write_frame([0; 4], [9; 16], &tokens, b"")).await;
        self.read(true).await
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    /// Sends a request; its number.
    pub(crate) async fn send(&mut self, frame: &Frame) -> u32 {
        let transport_id = self.next;
        self.next += 1;
        self.write(&frame.bytes(transport_id)).await;
        transport_id
    }

    /// The next answer, whichever it is for; nothing when the server has closed.
    pub(crate) async fn receive(&mut self) -> Option<Response> {
        self.read(false).await
    }

    /// Sends a request and waits for its answer.
    pub(crate) async fn call(&mut self, frame: &Frame) -> Response {
        let transport_id = self.send(frame).await;
        let response = self.receive().await.expect("the server closed the connection");
        assert_eq!(response.transport_id, transport_id);
        assert_eq!(response.activity[..4], transport_id.to_le_bytes());
        response
    }

    /// Everything until the server closes, as text.
    pub(crate) async fn text(&mut self) -> String {
        let mut text = Vec::new();
        let _ = self.stream.read_to_end(&mut text).await;
        String::from_utf8_lossy(&text).into_owned()
    }

    async fn read(&mut self, is_context: bool) -> Option<Response> {
        loop {
            if let Some(response) = self.take(is_context) {
                return Some(response);
            }
            let mut piece = [0; 64 * 1024];
            match self.stream.read(&mut piece).await {
                Ok(0) | Err(_) => return None,
                Ok(read) => self.buffer.extend_from_slice(&piece[..read]),
            }
        }
    }

    fn take(&mut self, is_context: bool) -> Option<Response> {
        let u32_at = |bytes: &[u8], at: usize| {
            Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().unwrap()))
        };
        let length = u32_at(&self.buffer, 0)? as usize;
        let head = self.buffer.get(..length)?;
        let status = u32_at(head, 4)?;
        let table = if is_context { &*CONTEXT_RESPONSE } else { &*RESPONSE };
        let tokens = read_tokens(table, &head[24..]);
        let present = tokens.iter().find(|(name, _)| name == "PayloadPresent");
        let has_payload = match is_context {
            true => !(200..400).contains(&status),
            false => present.expect("PayloadPresent").1 == Field::Number(1),
        };
        let mut end = length;
        let mut payload = Vec::new();
        if has_payload {
            let size = u32_at(&self.buffer, length)? as usize;
            assert!(is_context || size > 0, "a payload that is announced has bytes");
            payload = self.buffer.get(length + 4..length + 4 + size)?.to_vec();
            end = length + 4 + size;
        }
        let activity = head[8..24].try_into().unwrap();
        self.buffer.drain(..end);
        let mut response = Response { status, transport_id: 0, activity, tokens, payload };
        if !is_context {
            response.transport_id = response.number("TransportRequestID").unwrap() as u32;
        }
        Some(response)
    }
}

/// A container as a client knows it: names, `_rid`, ranges and their addresses.
pub(crate) struct Known {
    pub(crate) database: String,
    pub(crate) name: String,
    pub(crate) rid: String,
    pub(crate) ranges: Vec<Range>,
    definition: Definition,
}

/// A range and the path of its primary.
#[derive(Clone, Debug)]
pub(crate) struct Range {
    pub(crate) id: String,
    min: String,
    max: String,
    pub(crate) path: String,
}

impl Known {
    /// Reads the container, its ranges and their addresses over HTTP.
    pub(crate) async fn read(armilla: &Armilla, database: &str, name: &str) -> Self {
        let path = format!("/dbs/{database}/colls/{name}");
        let container = armilla.get(&path).await.expect(200);
        let rid = container.text("_rid");
        let answer = armilla.get(&format!("{path}/pkranges")).await.expect(200);
        let mut ranges = Vec::new();
        for row in answer.rows("PartitionKeyRanges") {
            let text = |name: &str| row.get(name).unwrap().as_str().unwrap().to_owned();
            let id = text("id");
            let addresses = addresses(armilla, &rid, &id).await;
            ranges.push(Range {
                min: text("minInclusive"),
                max: text("maxExclusive"),
                path: addresses[0].clone(),
                id,
            });
        }
        let container = armilla.account.container(database, name).unwrap();
        let definition = container.settings().policy.partition_key.clone();
        Self { database: database.to_owned(), name: name.to_owned(), rid, ranges, definition }
    }

    /// The effective key, in hexadecimal.
    pub(crate) fn epk(&self, key: &str) -> String {
        self.definition.epk(&PartitionKey::parse(key).unwrap()).to_string()
    }

    /// The range of a key.
    pub(crate) fn range_of(&self, key: &str) -> &Range {
        let epk = self.epk(key);
        let is_in = |range: &&Range| range.min <= epk && (range.max == "FF" || epk < range.max);
        self.ranges.iter().find(is_in).unwrap()
    }

    fn link(&self) -> String {
        format!("dbs/{}/colls/{}", self.database, self.name)
    }

    /// A request about the container's items to some range, as both clients fill it.
    pub(crate) fn frame(&self, operation: &'static str, path: &str) -> Frame {
        let method = match operation {
            "Create" | "Upsert" | "Query" | "Batch" => "POST",
            "Replace" => "PUT",
            "Patch" => "PATCH",
            "Delete" => "DELETE",
            _ => "GET",
        };
        self.about("Document", operation, path).signed(method, "docs", &self.link())
    }

    /// The same about one item.
    pub(crate) fn item(&self, operation: &'static str, key: &str, id: &str) -> Frame {
        let frame = self.frame(operation, &self.range_of(key).path).with("PartitionKey", key);
        let method = match operation {
            "Replace" => "PUT",
            "Patch" => "PATCH",
            "Delete" => "DELETE",
            _ => "GET",
        };
        let link = format!("{}/docs/{id}", self.link());
        frame.with("DocumentName", id).signed(method, "docs", &link)
    }

    /// A new item.
    pub(crate) fn create(&self, key: &str, body: &str) -> Frame {
        let frame = self.frame("Create", &self.range_of(key).path);
        frame.with("PartitionKey", key).payload(body)
    }

    /// A procedure's call.
    pub(crate) fn execute(&self, key: &str, procedure: &str, arguments: &str) -> Frame {
        let link = format!("{}/sprocs/{procedure}", self.link());
        let path = &self.range_of(key).path;
        let frame = self.about("StoredProcedure", "ExecuteJavaScript", path);
        let frame = frame.with("StoredProcedureName", procedure).with("PartitionKey", key);
        frame.signed("POST", "sprocs", &link).payload(arguments)
    }

    /// A barrier of the container.
    pub(crate) fn barrier(&self, range: &Range) -> Frame {
        let frame = self.about("Collection", "Head", &range.path).with("TargetLsn", 1);
        frame.without("ResourceId").signed("HEAD", "colls", &self.link())
    }

    fn about(&self, resource: &'static str, operation: &'static str, path: &str) -> Frame {
        let bytes = armilla_model::rid::decode(&self.rid).unwrap();
        Frame::new(resource, operation, path)
            .with("ResourceId", Field::Bytes(bytes))
            .with("DatabaseName", &*self.database)
            .with("CollectionName", &*self.name)
            .with("CollectionRid", &*self.rid)
            .with("SDKSupportedCapabilities", 9)
    }
}

/// The paths at which a range is served: primary, then secondary, without the last slash.
pub(crate) async fn addresses(armilla: &Armilla, rid: &str, range: &str) -> Vec<String> {
    let database = armilla_model::rid::encode(&armilla_model::rid::decode(rid).unwrap()[..4]);
    let resolve = encoded(&format!("dbs/{database}/colls/{rid}/docs"));
    let path = format!(
        "/addresses/?$resolveFor={resolve}&$filter=protocol%20eq%20rntbd&$partitionKeyRangeIds={range}"
    );
    let authorization = signature(WELL_KNOWN_KEY, "GET", "docs", &rid.to_ascii_lowercase());
    let port = armilla.direct_address().port();
    let host = format!("localhost:{port}");
    let headers = [("host", host.as_str())];
    let answer = armilla.send_as(&authorization, "GET", &path, &headers, "").await.expect(200);
    let rows = answer.json().get("Addresss").unwrap().as_array().unwrap().to_vec();
    assert_eq!(rows[0].get("isPrimary").unwrap().as_bool(), Some(true));
    let path = |row: &Value| {
        let uri = row.get("physcialUri").unwrap().as_str().unwrap().to_owned();
        let rest = uri.strip_prefix("rntbd://").unwrap();
        let (authority, path) = rest.split_once('/').unwrap();
        assert_eq!(authority, format!("127.0.0.1:{port}"));
        format!("/{}", path.trim_end_matches('/'))
    };
    rows.iter().map(path).collect()
}
