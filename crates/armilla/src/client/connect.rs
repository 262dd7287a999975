//! Which server, with which key, over which transport.

use super::{ClientError, Outcome};
use armilla_gateway::auth::WELL_KNOWN_KEY;
use bytes::Bytes;
use clap::Args;
use http_body_util::Full;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use std::sync::Arc;

/// Idle connections that are kept.
const IDLE_CONNECTIONS_MAX: usize = 64;

/// The pool of connections.
pub(super) type Transport = HyperClient<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// The flags with which every command names its server.
#[derive(Clone, Debug, Args)]
pub(crate) struct ConnectOptions {
    /// Address of the server
    #[arg(long, env = "ARMILLA_ENDPOINT", default_value = "http://127.0.0.1:8081")]
    pub(crate) endpoint: String,
    /// Account key in base64; the published well-known key when not given
    #[arg(long, env = "ARMILLA_KEY", hide_env_values = true)]
    pub(crate) key: Option<String>,
    /// Both in one, as portals show it: AccountEndpoint=…;AccountKey=…;
    #[arg(long, env = "ARMILLA_CONNECTION_STRING", hide_env_values = true)]
    pub(crate) connection_string: Option<String>,
    /// Accept any certificate, for a local server's self-signed one
    #[arg(long, env = "ARMILLA_INSECURE")]
    pub(crate) insecure: bool,
}

impl ConnectOptions {
    /// The server that the flags name.
    pub(crate) fn endpoint(&self) -> Outcome<Endpoint> {
        match &self.connection_string {
            Some(text) => Endpoint::parse(text, self.insecure),
            None => Endpoint::new(
                &self.endpoint,
                self.key.as_deref().unwrap_or(WELL_KNOWN_KEY),
                self.insecure,
            ),
        }
    }
}

/// A server and the key to it.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    /// Scheme, host and port, without a slash at the end.
    pub(crate) base: String,
    /// Account key in base64.
    pub(crate) key: String,
    /// Whether any certificate will do.
    pub(crate) insecure: bool,
}

impl Endpoint {
    /// A server by its address.
    pub(crate) fn new(base: &str, key: &str, insecure: bool) -> Outcome<Self> {
        let base = base.trim().trim_end_matches('/').to_owned();
        if !(base.starts_with("http://") || base.starts_with("https://")) {
            return Err(ClientError::Unusable(format!(
                "'{base}' is no endpoint: it begins with http:// or https://"
            )));
        }
        Ok(Self { base, key: key.to_owned(), insecure })
    }

    /// A server by its connection string.
    pub(crate) fn parse(text: &str, insecure: bool) -> Outcome<Self> {
        let part = |name: &str| {
            text.split(';').find_map(|part| {
                let (found, value) = part.split_once('=')?;
                found.trim().eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
            })
        };
        match (part("AccountEndpoint"), part("AccountKey")) {
            (Some(base), Some(key)) => Self::new(&base, &key, insecure),
            _ => Err(ClientError::Unusable(
                "a connection string has the form AccountEndpoint=…;AccountKey=…;".to_owned(),
            )),
        }
    }
}

/// Connections to a server. The system's authorities are asked for only where TLS is spoken.
pub(super) fn transport(endpoint: &Endpoint) -> Outcome<Transport> {
    let mut plain = HttpConnector::new();
    plain.set_nodelay(true);
    plain.enforce_http(false);
    let tls = tls_config(endpoint)?;
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http()
        .enable_http1()
        .wrap_connector(plain);
    let mut builder = HyperClient::builder(TokioExecutor::new());
    Ok(builder.pool_max_idle_per_host(IDLE_CONNECTIONS_MAX).build(connector))
}

fn tls_config(endpoint: &Endpoint) -> Outcome<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| ClientError::Unusable(format!("TLS cannot be set up: {error}")))?;
    if endpoint.insecure {
        let verifier = Arc::new(AnyCertificate(provider));
        return Ok(builder
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth());
    }
    let mut roots = RootCertStore::empty();
    if endpoint.base.starts_with("https://") {
        // Certificates that cannot be read are passed over, as every TLS client does.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// Takes the certificate as it comes, because the user said so; signatures are still checked.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            certificate,
            signed,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signed,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
