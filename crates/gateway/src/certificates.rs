//! Certificates for a server that nobody has configured.
//!
//! A local authority is made once and kept by the caller in the data folder; clients that trust it
//! trust this server for as long as the folder lives. The authority can vouch for this machine and for the
//! names it was made for, and for nobody else (name constraints): whoever steals its key cannot pass for
//! a bank. The server's own certificate is made from it, and made again before it ends
//! ([`Identity::renewed_by`]), which takes well under a millisecond.

use armilla_model::clock::Clock;
use armilla_model::{Error, Result};
use rcgen::{
    BasicConstraints, CertificateParams, CidrSubnet, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, GeneralSubtree, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    NameConstraints, SanType,
};
use rustls::ServerConfig;
use rustls::client::verify_server_name;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};
use time::{Duration, OffsetDateTime};

/// Life of the authority.
const AUTHORITY_LIFE: Duration = Duration::days(20 * 365);
/// Life of the server's certificate; some platforms refuse more than 825 days.
const SERVER_LIFE: Duration = Duration::days(800);
/// How long before its end the server's certificate is made anew.
const RENEWAL: Duration = Duration::days(30);
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
    /// When the first certificate ends, in seconds since 1970; unknown for one from elsewhere.
    pub expires_at: Option<u64>,
}

impl Authority {
    /// Makes a new authority, for this machine and the given host names and addresses.
    pub fn generate(names: &[String], now_seconds: u64) -> Result<Self> {
        Self::with_key(&KeyPair::generate().map_err(unusable)?, names, now_seconds)
    }

    /// The same authority with other names: same key, so that certificates it has issued stay good for whoever trusts it anew.
    pub fn renamed(&self, names: &[String], now_seconds: u64) -> Result<Self> {
        Self::with_key(&KeyPair::from_pem(&self.key_pem).map_err(unusable)?, names, now_seconds)
    }

    fn with_key(key: &KeyPair, names: &[String], now_seconds: u64) -> Result<Self> {
        let mut params = authority_params(now_seconds)?;
        params.name_constraints = Some(constraints(names)?);
        let certificate = params.self_signed(key).map_err(unusable)?;
        Ok(Self { certificate_pem: certificate.pem(), key_pem: key.serialize_pem() })
    }

    /// Whether an authority made for a name may vouch for another one: for the name itself and what is below it, as its constraint says.
    pub fn covers(made_for: &str, name: &str) -> bool {
        let (made_for, name) = (made_for.to_ascii_lowercase(), name.to_ascii_lowercase());
        if made_for == name {
            return true;
        }
        let above = made_for.strip_prefix("*.").unwrap_or(&made_for);
        let is_address = |text: &str| text.parse::<IpAddr>().is_ok();
        let is_below =
            name.strip_suffix(above).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'));
        is_below && !is_address(above) && !is_address(&name)
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
        let expires_at = now_seconds.checked_add_signed(SERVER_LIFE.whole_seconds());
        Ok(Identity { chain_pem, key_pem: key.serialize_pem(), expires_at })
    }
}

/// Presents the certificates of an authority, each until it is due to be made anew.
struct Renewing {
    authority: Authority,
    names: Vec<String>,
    clock: Arc<dyn Clock>,
    current: Mutex<Current>,
}

impl std::fmt::Debug for Renewing {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Renewing").field("names", &self.names).finish_non_exhaustive()
    }
}

struct Current {
    certificate: Arc<CertifiedKey>,
    renew_at: u64,
}

impl Current {
    fn of(identity: &Identity) -> Result<Self> {
        let margin = RENEWAL.whole_seconds().unsigned_abs();
        let renew_at = identity.expires_at.map_or(u64::MAX, |end| end.saturating_sub(margin));
        Ok(Self { certificate: identity.certified()?, renew_at })
    }
}

impl ResolvesServerCert for Renewing {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let now = self.clock.now_seconds();
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if now >= current.renew_at {
            let renewed = self.authority.issue(&self.names, now);
            match renewed.and_then(|identity| Current::of(&identity)) {
                Ok(renewed) => *current = renewed,
                // The old one may still be good; if not, clients say so.
                Err(error) => tracing::error!(%error, "the certificate could not be renewed"),
            }
        }
        Some(current.certificate.clone())
    }
}

impl Identity {
    /// Whether it will be made anew within the next weeks, or should have been.
    pub fn is_due(&self, now_seconds: u64) -> bool {
        let margin = RENEWAL.whole_seconds().unsigned_abs();
        self.expires_at.is_none_or(|end| now_seconds >= end.saturating_sub(margin))
    }

    /// Whether clients that look at names take the certificate for this host or address.
    pub fn covers(&self, name: &str) -> Result<bool> {
        let name = ServerName::try_from(name).map_err(unusable)?;
        let certificate =
            CertificateDer::from_pem_slice(self.chain_pem.as_bytes()).map_err(unusable)?;
        let parsed = ParsedCertificate::try_from(&certificate).map_err(unusable)?;
        Ok(verify_server_name(&parsed, &name).is_ok())
    }

    /// The configuration of TLS with this certificate, for as long as the server runs.
    pub fn server_config(&self) -> Result<Arc<ServerConfig>> {
        let certificate = self.certified()?;
        configuration(Arc::new(rustls::sign::SingleCertAndKey::from((*certificate).clone())))
    }

    /// The configuration of TLS with this certificate until shortly before its end, and new ones of the
    /// authority from then on.
    pub fn renewed_by(
        &self,
        authority: &Authority,
        names: &[String],
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<ServerConfig>> {
        let current = Mutex::new(Current::of(self)?);
        let (authority, names) = (authority.clone(), names.to_vec());
        configuration(Arc::new(Renewing { authority, names, clock, current }))
    }

    /// The chain and the key, known to belong together.
    fn certified(&self) -> Result<Arc<CertifiedKey>> {
        let chain = CertificateDer::pem_slice_iter(self.chain_pem.as_bytes())
            .collect::<std::result::Result<Vec<_>, _>>()
            .map_err(unusable)?;
        let key = PrivateKeyDer::from_pem_slice(self.key_pem.as_bytes()).map_err(unusable)?;
        let provider = rustls::crypto::ring::default_provider();
        CertifiedKey::from_der(chain, key, &provider).map(Arc::new).map_err(unusable)
    }
}

/// HTTP/2 and HTTP/1.1 by ALPN, ring as cryptography.
fn configuration(certificates: Arc<dyn ResolvesServerCert>) -> Result<Arc<ServerConfig>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .with_no_client_auth()
        .with_cert_resolver(certificates);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
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

/// Whom the authority may vouch for: this machine, and the given names with what is below them.
fn constraints(names: &[String]) -> Result<NameConstraints> {
    let permitted = alternative_names(names)?.into_iter().map(|name| match name {
        SanType::IpAddress(IpAddr::V4(address)) if address.is_loopback() => {
            GeneralSubtree::IpAddress(CidrSubnet::V4([127, 0, 0, 0], [255, 0, 0, 0]))
        }
        SanType::IpAddress(IpAddr::V4(address)) => {
            GeneralSubtree::IpAddress(CidrSubnet::V4(address.octets(), [255; 4]))
        }
        SanType::IpAddress(IpAddr::V6(address)) => {
            GeneralSubtree::IpAddress(CidrSubnet::V6(address.octets(), [255; 16]))
        }
        SanType::DnsName(name) => {
            // A constraint covers what is below a name, so a wildcard's is the name behind it.
            let name = name.as_str();
            GeneralSubtree::DnsName(name.strip_prefix("*.").unwrap_or(name).to_owned())
        }
        // `alternative_names` makes no others.
        _ => GeneralSubtree::DnsName("localhost".to_owned()),
    });
    Ok(NameConstraints { permitted_subtrees: permitted.collect(), excluded_subtrees: Vec::new() })
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
    use armilla_model::clock::ManualClock;
    use rustls::pki_types::{ServerName, UnixTime};

    const NOW: u64 = 1_794_770_659;
    const DAYS_801: u64 = 801 * 24 * 3600;

    #[derive(Debug)]
    struct StandingClock(u64);

    impl rustls::time_provider::TimeProvider for StandingClock {
        fn current_time(&self) -> Option<UnixTime> {
            Some(UnixTime::since_unix_epoch(std::time::Duration::from_secs(self.0)))
        }
    }

    /// A handshake with a client that trusts the authority, asks for a name, and has this time.
    fn handshake(
        server: &Arc<ServerConfig>,
        authority: &Authority,
        name: &'static str,
        now: u64,
    ) -> std::result::Result<(), rustls::Error> {
        let mut roots = rustls::RootCertStore::empty();
        let trusted = CertificateDer::from_pem_slice(authority.certificate_pem.as_bytes()).unwrap();
        roots.add(trusted).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let client =
            rustls::ClientConfig::builder_with_details(provider, Arc::new(StandingClock(now)))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_root_certificates(roots)
                .with_no_client_auth();
        let name = ServerName::try_from(name).unwrap();
        let mut client = rustls::ClientConnection::new(Arc::new(client), name).unwrap();
        let mut server = rustls::ServerConnection::new(server.clone()).unwrap();
        while client.is_handshaking() || server.is_handshaking() {
            let mut sent = Vec::new();
            client.write_tls(&mut sent).unwrap();
            server.read_tls(&mut sent.as_slice()).unwrap();
            server.process_new_packets().unwrap();
            let mut answered = Vec::new();
            while server.wants_write() {
                server.write_tls(&mut answered).unwrap();
            }
            let mut unread = answered.as_slice();
            while !unread.is_empty() {
                client.read_tls(&mut unread).unwrap();
                client.process_new_packets()?;
            }
        }
        Ok(())
    }

    #[test]
    fn a_server_that_runs_for_years_has_a_certificate_that_is_good() {
        let clock = Arc::new(ManualClock::at_seconds(NOW));
        let authority = Authority::generate(&[], NOW).unwrap();
        let identity = authority.issue(&[], NOW).unwrap();
        let server = identity.renewed_by(&authority, &[], clock.clone()).unwrap();
        handshake(&server, &authority, "localhost", NOW).unwrap();
        clock.advance_seconds(DAYS_801);
        handshake(&server, &authority, "localhost", NOW + DAYS_801).unwrap();
        handshake(&server, &authority, "127.0.0.1", NOW + DAYS_801).unwrap();
        let kept = identity.server_config().unwrap();
        assert!(handshake(&kept, &authority, "localhost", NOW + DAYS_801).is_err(), "it has ended");
    }

    #[test]
    fn an_authority_vouches_for_the_names_it_was_made_for_alone() {
        let names = ["db.example".to_owned(), "10.1.2.3".to_owned()];
        let other = ["bank.example".to_owned(), "10.1.2.4".to_owned()];
        let authority = Authority::generate(&names, NOW).unwrap();
        let own = authority.issue(&names, NOW).unwrap().server_config().unwrap();
        for name in ["localhost", "127.0.0.1", "::1", "db.example", "10.1.2.3"] {
            handshake(&own, &authority, name, NOW)
                .unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        // Whoever has stolen the key can make such a certificate; clients do not take it.
        let stolen = authority.issue(&other, NOW).unwrap().server_config().unwrap();
        for name in ["bank.example", "10.1.2.4", "localhost"] {
            assert!(handshake(&stolen, &authority, name, NOW).is_err(), "{name}");
        }
    }

    #[test]
    fn an_authority_that_is_renamed_vouches_for_old_and_new_names() {
        let old = ["a.example".to_owned()];
        let both = ["a.example".to_owned(), "b.example".to_owned()];
        let authority = Authority::generate(&old, NOW).unwrap();
        let issued = authority.issue(&old, NOW).unwrap().server_config().unwrap();
        let renamed = authority.renamed(&both, NOW + 60).unwrap();
        handshake(&issued, &renamed, "a.example", NOW + 60).unwrap();
        let added = renamed.issue(&both, NOW + 60).unwrap().server_config().unwrap();
        for name in ["a.example", "b.example"] {
            handshake(&added, &renamed, name, NOW + 60).unwrap();
        }
        assert!(handshake(&added, &authority, "b.example", NOW + 60).is_err(), "the old one");
    }

    #[test]
    fn an_authority_covers_what_clients_accept_of_it() {
        let made_for = ["internal.example", "*.wild.example", "10.1.2.3"];
        let authority = Authority::generate(&made_for.map(str::to_owned), NOW).unwrap();
        for (name, is_good) in [
            ("internal.example", true),
            ("a.internal.example", true),
            ("A.Internal.Example", true),
            ("a.b.internal.example", true),
            ("a.wild.example", true),
            ("10.1.2.3", true),
            ("example", false),
            ("notinternal.example", false),
            ("10.1.2.4", false),
        ] {
            let covered = made_for.iter().any(|known| Authority::covers(known, name));
            assert_eq!(covered, is_good, "{name}");
            let server = authority.issue(&[name.to_owned()], NOW).unwrap().server_config().unwrap();
            assert_eq!(handshake(&server, &authority, name, NOW).is_ok(), is_good, "{name}");
        }
    }

    #[test]
    fn kept_authority_signs_again_after_a_restart() {
        let names = ["db.example".to_owned(), "10.1.2.3".to_owned(), "localhost".to_owned()];
        let authority = Authority::generate(&names, NOW).unwrap();
        for now in [NOW, NOW + 1_000_000] {
            let identity = authority.issue(&names, now).unwrap();
            assert!(identity.chain_pem.ends_with(&authority.certificate_pem));
            identity.server_config().unwrap();
        }
    }

    #[test]
    fn certificates_are_due_before_they_end() {
        let identity = Authority::generate(&[], NOW).unwrap().issue(&[], NOW).unwrap();
        let days = |count: u64| NOW + count * 24 * 3600;
        assert!(!identity.is_due(days(769)) && identity.is_due(days(770)));
        assert!(Identity { expires_at: None, ..identity }.is_due(NOW));
    }

    #[test]
    fn nonsense_is_an_error() {
        let broken = Identity { chain_pem: "x".into(), key_pem: "y".into(), expires_at: None };
        assert!(broken.server_config().is_err());
        let authority = Authority { certificate_pem: String::new(), key_pem: "z".into() };
        assert!(authority.issue(&[], NOW).is_err());
        assert!(Authority::generate(&["ü".to_owned()], NOW).is_err());
        let (one, other) = (Authority::generate(&[], NOW), Authority::generate(&[], NOW));
        let (one, other) = (one.unwrap().issue(&[], NOW), other.unwrap().issue(&[], NOW));
        let mixed = Identity { key_pem: other.unwrap().key_pem, ..one.unwrap() };
        assert!(mixed.server_config().is_err(), "a key of another certificate");
    }
}
