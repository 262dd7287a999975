//! A certificate of the user's own in a PFX file, and everything that its one port speaks.

use crate::support::{Container, exchange, get, signed};
use armilla_gateway::auth::WELL_KNOWN_KEY;
use p12_keystore::{KeyStore, Pkcs12ImportPolicy};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

/// Made by OpenSSL, with its present algorithms and with those of old.
const FILES: [&str; 2] = ["modern.pfx", "legacy.pfx"];
const SECRET: &str = "s3cret";
/// An answer in HTTP, read as a frame, would be longer.
const ANSWER_LENGTH_MAX: usize = 4096;

fn path(name: &str) -> String {
    format!("{}/src/tls/vectors/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Trusts one certificate, that of a file, and no other, for the names it is made for.
#[derive(Debug)]
struct Only(Vec<u8>);

impl Only {
    fn of_file(name: &str) -> Self {
        let bytes = std::fs::read(path(name)).unwrap();
        let store = KeyStore::from_pkcs12(&bytes, SECRET, Pkcs12ImportPolicy::Strict).unwrap();
        let (_, chain) = store.private_key_chain().unwrap();
        Self(chain.certs()[0].as_der().to_vec())
    }
}

impl ServerCertVerifier for Only {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        assert_eq!(shown.as_ref(), self.0, "another certificate than that of the file");
        verify_server_name(&ParsedCertificate::try_from(shown)?, name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, &algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}

/// A connection inside TLS to a server that shows the certificate of the file.
fn connect(port: u16, file: &str) -> StreamOwned<ClientConnection, TcpStream> {
    connect_to("localhost", port, file)
}

/// The same, to a server that the client knows by this name.
fn connect_to(host: &str, port: u16, file: &str) -> StreamOwned<ClientConnection, TcpStream> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Only::of_file(file)))
        .with_no_client_auth();
    let name = ServerName::try_from(host.to_owned()).unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    StreamOwned::new(connection, TcpStream::connect(("127.0.0.1", port)).unwrap())
}

/// The first frame of a client in Direct mode: versions and its name.
fn first_frame() -> Vec<u8> {
    let mut tokens = vec![0, 0, 0x02, 1, 0, 0, 0];
    for (id, text) in [(1, "2020-07-15"), (2, "cosmos-netstandard-sdk/3.64.0")] {
        tokens.extend([id, 0, 0x07, text.len() as u8]);
        tokens.extend(text.as_bytes());
    }
    let mut frame = (24 + tokens.len() as u32).to_le_bytes().to_vec();
    frame.extend([0; 4]);
    frame.extend([7; 16]);
    frame.extend(tokens);
    frame
}

/// Status and everything else of the answer to the first frame, if there is a whole one.
fn greet(port: u16, file: &str) -> Option<(u32, Vec<u8>)> {
    greet_at("localhost", port, file)
}

fn greet_at(host: &str, port: u16, file: &str) -> Option<(u32, Vec<u8>)> {
    let mut stream = connect_to(host, port, file);
    stream.write_all(&first_frame()).unwrap();
    let mut head = [0; 24];
    stream.read_exact(&mut head).ok()?;
    let number = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().unwrap());
    let length = (number(0) as usize).checked_sub(head.len())?;
    let mut tokens = vec![0; length.min(ANSWER_LENGTH_MAX)];
    stream.read_exact(&mut tokens).ok()?;
    Some((number(4), tokens))
}

/// Starts the binary with the certificate, by variables and by flags.
fn with_certificate(file: &str, more: &[&str], ask: impl Fn(&Container)) {
    let path = path(file);
    let variables = [("CERT_PATH", path.as_str()), ("CERT_SECRET", SECRET)];
    let flags = ["--cert-path", path.as_str(), "--cert-secret", SECRET];
    for (variables, flags) in [(&variables[..], vec![]), (&[], flags.to_vec())] {
        let flags: Vec<_> = flags.into_iter().chain(more.iter().copied()).collect();
        let container = Container::start(variables, &flags);
        ask(&container);
        container.stop();
    }
}

#[test]
fn a_certificate_in_a_pfx_file_is_shown_to_clients() {
    for file in FILES {
        with_certificate(file, &[], |container| {
            let signed = signed("/", WELL_KNOWN_KEY);
            let (status, account) = exchange(&mut connect(container.port, file), "/", &signed);
            assert_eq!(status, 200, "{account}");
            // There is no authority of ours to trust.
            assert_eq!(get(container.port, "/_explorer/emulator.pem").0, 404);
        });
    }
}

#[test]
fn the_port_speaks_http_https_and_direct_mode() {
    with_certificate("modern.pfx", &[], |container| {
        assert_eq!(get(container.port, "/ready").0, 200);
        assert_eq!(exchange(&mut connect(container.port, "modern.pfx"), "/ready", "").0, 200);
        let (status, tokens) = greet(container.port, "modern.pfx").unwrap();
        let text = String::from_utf8_lossy(&tokens).into_owned();
        assert!(status == 200 && text.contains("Armilla"), "{status} {text}");
    });
    with_certificate("modern.pfx", &["--no-direct"], |container| {
        assert_eq!(greet(container.port, "modern.pfx"), None);
        assert_eq!(exchange(&mut connect(container.port, "modern.pfx"), "/ready", "").0, 200);
    });
}

#[test]
fn the_port_of_the_explorer_speaks_http_and_https() {
    for protocol in ["http", "https"] {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let port = free.to_string();
        let flags = ["--explorer-port", port.as_str(), "--explorer-protocol", protocol];
        with_certificate("modern.pfx", &flags, |_| {
            assert_eq!(get(free, "/_explorer/").0, 200, "{protocol}");
            let mut stream = connect(free, "modern.pfx");
            assert_eq!(exchange(&mut stream, "/_explorer/", "").0, 200, "{protocol}");
        });
    }
}

/// The host behind a marker in a document.
fn host_behind<'d>(document: &'d str, marker: &str) -> &'d str {
    let rest = document.split_once(marker).unwrap_or_else(|| panic!("{document}")).1;
    rest.split([':', '/', '"']).next().unwrap()
}

/// The certificate of the file is for `localhost` and not for `127.0.0.1`: a client that looks at names
/// can go on only where it is sent to the name.
#[test]
fn clients_are_sent_to_a_host_that_the_certificate_is_for() {
    with_certificate("modern.pfx", &[], |container| {
        let port = container.port;
        let ask = |target: &str, signed_path: &str| {
            let mut stream = connect(port, "modern.pfx");
            let (status, body) =
                exchange(&mut stream, target, &signed(signed_path, WELL_KNOWN_KEY));
            assert_eq!(status, 200, "{body}");
            body
        };
        let account = ask("/", "/");
        let host = host_behind(&account, "https://");
        assert_eq!(host, "localhost", "{account}");
        let mut stream = connect_to(host, port, "modern.pfx");
        assert_eq!(exchange(&mut stream, "/ready", "").0, 200);
        // The same for Direct mode.
        let target = "/addresses?$resolveFor=dbs&$filter=protocol%20eq%20rntbd";
        let addresses = ask(target, "/dbs");
        let host = host_behind(&addresses, "rntbd://");
        assert_eq!(host, "localhost", "{addresses}");
        assert_eq!(greet_at(host, port, "modern.pfx").unwrap().0, 200);
    });
}

/// The one that is made is for both, and `localhost` is named by its address.
#[test]
fn the_certificate_that_is_made_is_for_the_address_too() {
    let container = Container::start(&[], &[]);
    let (status, account) = crate::support::read_account(container.port, WELL_KNOWN_KEY);
    assert_eq!((status, host_behind(&account, "http://")), (200, "127.0.0.1"), "{account}");
    container.stop();
}
