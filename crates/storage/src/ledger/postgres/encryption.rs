//! TLS to the database: what an address wants of it, and how a server's certificate is looked at.
//!
//! | `sslmode` | encrypted | the certificate |
//! |---|---|---|
//! | none given, this machine | no | |
//! | none given, another one | yes | as `verify-full` |
//! | `disable` | no, also to other machines: it is said by name | |
//! | `prefer`, `allow` | perhaps: this machine only | not looked at |
//! | `require` | yes | not looked at, or with `sslrootcert` as `verify-ca` |
//! | `verify-ca` | yes | issued by a known authority |
//! | `verify-full` | yes | and for this host |

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::LedgerError;

/// How much a connection to the database is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Not at all.
    Plain,
    /// Encrypted where the server can.
    IfOffered,
    /// Encrypted; anybody may be at the other end.
    Encrypted,
    /// And the server's certificate was issued by a known authority.
    KnownAuthority,
    /// And is for the host that is meant.
    KnownHost,
}

/// What an address wants, and what is left of it for the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wish {
    pub(super) protection: Protection,
    /// Where the authorities are; those of the system if nothing is said.
    pub(super) root_file: Option<PathBuf>,
    /// The address without those words.
    pub(super) address: String,
}

impl Wish {
    /// Reads an address.
    pub(super) fn read(address: &str) -> Result<Self, LedgerError> {
        let words = Words::part(address);
        if spaced(&words.rest).contains(&"sslmode") {
            return Err(unfit("write sslmode=… without spaces around the equals sign"));
        }
        let config: Config = words.rest.parse().map_err(|error| {
            LedgerError::Unreachable(format!("the address is not understood: {error}"))
        })?;
        let is_local = config.get_hosts().iter().all(is_this_machine)
            && config.get_hostaddrs().iter().all(IpAddr::is_loopback);
        let protection = match words.mode.as_deref() {
            None if is_local => Protection::Plain,
            None => Protection::KnownHost,
            Some("disable") => Protection::Plain,
            Some("prefer" | "allow") if is_local => Protection::IfOffered,
            Some(mode @ ("prefer" | "allow")) => {
                return Err(unfit(&format!(
                    "sslmode={mode} may leave the connection to another machine without encryption: say verify-full, require, or disable"
                )));
            }
            Some("require") if words.root_file.is_none() => Protection::Encrypted,
            Some("require" | "verify-ca") => Protection::KnownAuthority,
            Some("verify-full") => Protection::KnownHost,
            Some(other) => return Err(unfit(&format!("sslmode={other} is not known"))),
        };
        let root_file = words.root_file.filter(|file| file != "system").map(PathBuf::from);
        Ok(Self { protection, root_file, address: words.rest })
    }
}

fn unfit(reason: &str) -> LedgerError {
    LedgerError::Unfit(reason.to_owned())
}

fn is_this_machine(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    }
}

/// An address without what it says of TLS.
#[derive(Default)]
struct Words {
    mode: Option<String>,
    root_file: Option<String>,
    rest: String,
}

impl Words {
    fn part(address: &str) -> Self {
        let mut words = Self::default();
        if address.contains("://") {
            let (place, parameters) = address.split_once('?').unwrap_or((address, ""));
            let given = parameters.split('&').filter(|word| !word.is_empty());
            let kept: Vec<&str> = given.filter(|word| !words.keep(&decoded(word))).collect();
            words.rest = match kept.is_empty() {
                true => place.to_owned(),
                false => format!("{place}?{}", kept.join("&")),
            };
        } else {
            let kept: Vec<&str> =
                spaced(address).into_iter().filter(|word| !words.keep(word)).collect();
            words.rest = kept.join(" ");
        }
        words
    }

    /// Whether a word is about TLS; it is noted then.
    fn keep(&mut self, word: &str) -> bool {
        let Some((name, value)) = word.split_once('=') else { return false };
        let value = value.trim_matches('\'').to_owned();
        match name {
            "sslmode" => self.mode = Some(value),
            "sslrootcert" => self.root_file = Some(value),
            _ => return false,
        }
        true
    }
}

/// Words between spaces; what stands in quotes is one.
fn spaced(text: &str) -> Vec<&str> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let is_gap = |letter: char| {
        let is_gap = letter.is_whitespace() && !is_quoted;
        if letter == '\'' && !is_escaped {
            is_quoted = !is_quoted;
        }
        is_escaped = letter == '\\' && !is_escaped;
        is_gap
    };
    text.split(is_gap).filter(|word| !word.is_empty()).collect()
}

/// Bytes that an URL writes as a percent sign and two digits.
fn decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let byte = part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match byte {
            Some(byte) => {
                bytes.push(byte);
                bytes.extend_from_slice(&part.as_bytes()[2..]);
            }
            None => bytes.extend_from_slice(format!("%{part}").as_bytes()),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// How sessions are connected.
#[derive(Clone)]
pub(super) enum Connector {
    Plain,
    Tls(Box<MakeRustlsConnect>),
}

impl Connector {
    /// For a wish and the authorities that are trusted.
    pub(super) fn new(
        protection: Protection,
        roots: &[Vec<u8>],
        config: &mut Config,
    ) -> Result<Self, LedgerError> {
        config.ssl_mode(match protection {
            Protection::Plain => SslMode::Disable,
            Protection::IfOffered => SslMode::Prefer,
            _ => SslMode::Require,
        });
        if protection == Protection::Plain {
            return Ok(Self::Plain);
        }
        let failed = |error: &dyn std::fmt::Display| unfit(&format!("TLS: {error}"));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| failed(&error))?;
        let authority = || -> Result<Arc<WebPkiServerVerifier>, LedgerError> {
            let mut store = RootCertStore::empty();
            let certificates = roots.iter().map(|root| CertificateDer::from(root.clone()));
            store.add_parsable_certificates(certificates);
            let verifier =
                WebPkiServerVerifier::builder_with_provider(Arc::new(store), Arc::clone(&provider));
            verifier.build().map_err(|error| failed(&error))
        };
        let verifier: Arc<dyn ServerCertVerifier> = match protection {
            Protection::KnownHost => authority()?,
            Protection::KnownAuthority => {
                Arc::new(AnyHost { authority: Some(authority()?), provider: Arc::clone(&provider) })
            }
            _ => Arc::new(AnyHost { authority: None, provider: Arc::clone(&provider) }),
        };
        let client =
            builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
        Ok(Self::Tls(Box::new(MakeRustlsConnect::new(client))))
    }
}

/// Accepts certificates for any host: of the known authorities, or of anybody where none is asked for.
#[derive(Debug)]
struct AnyHost {
    authority: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AnyHost {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        above: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        stapled: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(authority) = &self.authority else { return Ok(ServerCertVerified::assertion()) };
        // The name is looked at last, when everything else is well.
        match authority.verify_server_cert(certificate, above, name, stapled, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_address_says_of_tls_is_heeded_and_taken_out_of_it() {
        let wish = |text: &str| Wish::read(text).map(|wish| (wish.protection, wish.address));
        let is = |protection, address: &str| Ok((protection, address.to_owned()));
        for (text, expected) in [
            ("postgres://localhost/a", is(Protection::Plain, "postgres://localhost/a")),
            ("postgres://127.0.0.1:5/a", is(Protection::Plain, "postgres://127.0.0.1:5/a")),
            ("postgres://u@db/a", is(Protection::KnownHost, "postgres://u@db/a")),
            ("postgres://localhost,db/a", is(Protection::KnownHost, "postgres://localhost,db/a")),
            ("postgres://db/a?sslmode=disable", is(Protection::Plain, "postgres://db/a")),
            (
                "postgres://db/a?sslmode=require&connect_timeout=3",
                is(Protection::Encrypted, "postgres://db/a?connect_timeout=3"),
            ),
            ("host=db sslmode=verify-ca", is(Protection::KnownAuthority, "host=db")),
            (
                "host=db password='a sslmode=disable b' sslmode=verify-full",
                is(Protection::KnownHost, "host=db password='a sslmode=disable b'"),
            ),
            ("host=127.0.0.1 sslmode=prefer", is(Protection::IfOffered, "host=127.0.0.1")),
        ] {
            assert_eq!(wish(text), expected, "{text}");
        }
        for refused in [
            "postgres://db/a?sslmode=prefer",
            "host=db sslmode=allow",
            "host=db sslmode=maybe",
            "host=db sslmode = require",
        ] {
            assert!(wish(refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn a_file_of_authorities_makes_require_look_at_them() {
        let read = |text: &str| Wish::read(text).unwrap();
        let wish = read("postgres://db/a?sslmode=require&sslrootcert=%2Fetc%2Fdb%20ca.pem");
        assert_eq!(wish.protection, Protection::KnownAuthority);
        assert_eq!(wish.root_file, Some(PathBuf::from("/etc/db ca.pem")));
        assert_eq!(read("host=db sslrootcert=system").root_file, None);
        assert_eq!(read("host=db sslrootcert='/a b'").root_file, Some(PathBuf::from("/a b")));
    }
}
