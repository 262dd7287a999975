//! Certificates for a server that nobody has configured.
//!
//! A local authority is made once and kept by the caller in the data folder; clients that trust it
//! trust this server for as long as the folder lives. The server's own certificate is made from it
//! at every start: that takes a millisecond, always names the right hosts, and never runs out.

use armilla_model::{Error, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use time::{Duration, OffsetDateTime};

/// Life of the authority.
const AUTHORITY_LIFE: Duration = Duration::days(20 * 365);
/// Life of the server's certificate; some platforms refuse more than 825 days.
const SERVER_LIFE: Duration = Duration::days(800);
/// Certificates begin in the past, for clients whose clock is behind.
const HEAD_START: Duration = Duration::days(1);

/// The local certificate authority, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    /// What clients trust; `/_explorer/emulator.pem` hands it out.
    pub certificate_pem: String,
    /// Its private key. Keep it where only the server reads.
    pub key_pem: String,
}

/// A certificate chain and its key, as the server presents it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The server's certificate first, then those above it.
    pub chain_pem: String,
    /// The private key of the first certificate.
    pub key_pem: String,
}

impl Authority {
    /// Makes a new authority.
    pub fn generate(now_seconds: u64) -> Result<Self> {
        let key = KeyPair::generate().map_err(unusable)?;
        let certificate = authority_params(now_seconds)?.self_signed(&key).map_err(unusable)?;
        Ok(Self { certificate_pem: certificate.pem(), key_pem: key.serialize_pem() })
    }

    /// Makes a certificate for this machine: `localhost`, the loopback addresses, and the given
    /// host names and addresses.
    pub fn issue(&self, names: &[String], now_seconds: u64) -> Result<Identity> {
        let authority_key = KeyPair::from_pem(&self.key_pem).map_err(unusable)?;
        let issuer = Issuer::new(authority_params(now_seconds)?, authority_key);
        let key = KeyPair::generate().map_err(unusable)?;
        let certificate =
            server_params(names, now_seconds)?.signed_by(&key, &issuer).map_err(unusable)?;
        let chain_pem = format!("{}{}", certificate.pem(), self.certificate_pem);
        Ok(Identity { chain_pem, key_pem: key.serialize_pem() })
    }
}

impl Identity {
    /// The configuration of TLS: HTTP/2 and HTTP/1.1 by ALPN, ring as cryptography.
    pub fn server_config(&self) -> Result<Arc<ServerConfig>> {
        let chain = CertificateDer::pem_slice_iter(self.chain_pem.as_bytes())
            .collect::<std::result::Result<Vec<_>, _>>()
            .map_err(unusable)?;
        let key = PrivateKeyDer::from_pem_slice(self.key_pem.as_bytes()).map_err(unusable)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(unusable)?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(unusable)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

/// The authority's parameters without its key. They are made anew to sign with a kept key, so the
/// name must stay the same for ever: certificates refer to their issuer by it.
fn authority_params(now_seconds: u64) -> Result<CertificateParams> {
    let mut params = CertificateParams::default();
    params.distinguished_name = distinguished_name("Armilla local certificate authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    set_life(&mut params, now_seconds, AUTHORITY_LIFE)?;
    Ok(params)
}

fn server_params(names: &[String], now_seconds: u64) -> Result<CertificateParams> {
    let mut params = CertificateParams::default();
    params.distinguished_name = distinguished_name("Armilla");
    params.subject_alt_names = alternative_names(names)?;
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    set_life(&mut params, now_seconds, SERVER_LIFE)?;
    Ok(params)
}

fn alternative_names(extra: &[String]) -> Result<Vec<SanType>> {
    let mut names = vec![
        SanType::DnsName("localhost".try_into().map_err(unusable)?),
        SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        SanType::IpAddress(IpAddr::V6(Ipv6Addr::LOCALHOST)),
    ];
    for name in extra {
        let name = match name.parse() {
            Ok(address) => SanType::IpAddress(address),
            Err(_) => SanType::DnsName(name.as_str().try_into().map_err(unusable)?),
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

fn distinguished_name(common: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::OrganizationName, "Armilla");
    name.push(DnType::CommonName, common);
    name
}

fn set_life(params: &mut CertificateParams, now_seconds: u64, life: Duration) -> Result<()> {
    let now = i64::try_from(now_seconds).map_err(unusable)?;
    let now = OffsetDateTime::from_unix_timestamp(now).map_err(unusable)?;
    params.not_before = now - HEAD_START;
    params.not_after = now + life;
    Ok(())
}

fn unusable(error: impl std::fmt::Display) -> Error {
    Error::Internal(format!("The certificate cannot be used: {error}."))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_794_770_659;

    #[test]
    fn kept_authority_signs_again_after_a_restart() {
        let authority = Authority::generate(NOW).unwrap();
        let names = ["db.example".to_owned(), "10.1.2.3".to_owned(), "localhost".to_owned()];
        for now in [NOW, NOW + 1_000_000] {
            let identity = authority.issue(&names, now).unwrap();
            assert!(identity.chain_pem.ends_with(&authority.certificate_pem));
            identity.server_config().unwrap();
        }
    }

    #[test]
    fn nonsense_is_an_error() {
        let broken = Identity { chain_pem: "x".into(), key_pem: "y".into() };
        assert!(broken.server_config().is_err());
        let authority = Authority { certificate_pem: String::new(), key_pem: "z".into() };
        assert!(authority.issue(&[], NOW).is_err());
        assert!(Authority::generate(NOW).unwrap().issue(&["ü".to_owned()], NOW).is_err());
    }
}
