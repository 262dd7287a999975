//! The certificate: one of the user's, or one that `gateway::certificates` makes, kept in the data folder here and made again
//! before it ends or when its names change.

use crate::given_file;
use armilla_gateway::certificates::{Authority, Identity};
use armilla_model::clock::Clock;
use armilla_storage::disk::{Disk, FolderDisk};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use p12_keystore::{KeyStore, Pkcs12ImportPolicy};
use rustls::ServerConfig;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Flags about certificates.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Certificates")]
pub(crate) struct TlsOptions {
    /// Further names or addresses of this server: in its certificate, and as Host of requests
    #[arg(long = "tls-name", env = "ARMILLA_TLS_NAMES", value_delimiter = ',')]
    pub(crate) tls_names: Vec<String>,
    /// Certificate of your own in PEM, with those above it
    #[arg(
        long,
        env = "ARMILLA_TLS_CERT",
        value_name = "FILE",
        requires = "tls_key",
        conflicts_with = "tls_pfx"
    )]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Its private key in PEM
    #[arg(long, env = "ARMILLA_TLS_KEY", value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Certificate and key of your own in one PFX (PKCS #12) file [environment also: CERT_PATH]
    #[arg(long, env = "ARMILLA_TLS_PFX", value_name = "FILE")]
    pub(crate) tls_pfx: Option<PathBuf>,
    /// Password of the PFX file [environment also: CERT_SECRET]
    #[arg(long, env = "ARMILLA_TLS_SECRET", hide_env_values = true)]
    pub(crate) tls_secret: Option<String>,
}

/// What TLS needs, and what clients may download to trust it.
pub(crate) struct Certificates {
    pub(crate) config: Arc<ServerConfig>,
    /// Of the local authority; nothing when the certificate is the user's.
    pub(crate) authority_pem: Option<String>,
    /// The certificate is good for `127.0.0.1` too, as all that are made here are.
    pub(crate) covers_loopback: bool,
}

/// Loads the certificate that the options name, or that of the data folder, or makes one.
pub(crate) fn load(
    folder: Option<&Path>,
    options: &TlsOptions,
    clock: Arc<dyn Clock>,
) -> Result<Certificates, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    if let Some((identity, place)) = own(options)? {
        let config = identity.server_config();
        let named = |error| format!("{}: {error}", place.display());
        let config = config.map_err(named)?;
        let covers_loopback = identity.covers("127.0.0.1").map_err(named)?;
        return Ok(Certificates { config, authority_pem: None, covers_loopback });
    }
    let (names, now) = (&options.tls_names, clock.now_seconds());
    let (authority, identity) = match folder {
        Some(folder) => {
            KeptCertificate::open(folder)?.load(names, now).map_err(|e| damaged(folder, &e))?
        }
        None => {
            let authority = Authority::generate(names, now).map_err(|error| text(&error))?;
            let identity = authority.issue(names, now).map_err(|error| text(&error))?;
            (authority, identity)
        }
    };
    let config = identity.renewed_by(&authority, names, clock).map_err(|error| match folder {
        Some(folder) => damaged(folder, &error),
        None => text(&error),
    })?;
    let authority_pem = Some(authority.certificate_pem);
    Ok(Certificates { config, authority_pem, covers_loopback: true })
}

/// Refuses files that are damaged or of which one is missing. Changes nothing.
pub(crate) fn check(folder: Option<&Path>, options: &TlsOptions, now: u64) -> Result<(), String> {
    let Some(folder) = folder.filter(|folder| folder.join("tls").is_dir()) else { return Ok(()) };
    if own(options)?.is_some() {
        return Ok(());
    }
    let disk = FolderDisk::new(folder.join("tls")).map_err(|error| error.to_string())?;
    let checked = KeptCertificate(disk).check(&options.tls_names, now);
    checked.map_err(|error| damaged(folder, &error))
}

/// Loads the certificate that the options name, or makes one of an authority that several servers share.
pub(crate) fn load_shared(
    authority: &Authority,
    names: &[String],
    options: &TlsOptions,
    clock: Arc<dyn Clock>,
) -> Result<Certificates, String> {
    if options.tls_cert.is_some() || options.tls_pfx.is_some() {
        return load(None, options, clock);
    }
    let identity =
        authority.issue(names, clock.now_seconds()).map_err(|error| error.to_string())?;
    let config = identity.renewed_by(authority, names, clock);
    let config = config.map_err(|error| error.to_string())?;
    let authority_pem = Some(authority.certificate_pem.clone());
    Ok(Certificates { config, authority_pem, covers_loopback: true })
}

/// Files that were made here and are no longer what they were.
fn damaged(folder: &Path, error: &dyn std::fmt::Display) -> String {
    format!(
        "{}: {error}. Put the files back, or move the folder away: a new certificate is made, and clients \
         have to trust its authority anew",
        folder.join("tls").display()
    )
}

/// The user's own certificate, and the file it is from.
fn own(options: &TlsOptions) -> Result<Option<(Identity, &Path)>, String> {
    if let (Some(cert), Some(key)) = (&options.tls_cert, &options.tls_key) {
        let text = |file: &Path| {
            String::from_utf8(given_file::read(file)?)
                .map_err(|_| format!("{} is not PEM", file.display()))
        };
        let identity = Identity { chain_pem: text(cert)?, key_pem: text(key)?, expires_at: None };
        return Ok(Some((identity, cert)));
    }
    let Some(file) = &options.tls_pfx else { return Ok(None) };
    let bytes = given_file::read(file)?;
    let secret = options.tls_secret.as_deref().unwrap_or_default();
    let identity = if bytes.starts_with(b"-----BEGIN") {
        // Some give the path of a PEM file with both in it.
        let both =
            String::from_utf8(bytes).map_err(|_| format!("{} is not PEM", file.display()))?;
        Identity { chain_pem: both.clone(), key_pem: both, expires_at: None }
    } else {
        from_pfx(&bytes, secret).map_err(|error| format!("{}: {error}", file.display()))?
    };
    Ok(Some((identity, file)))
}

fn from_pfx(bytes: &[u8], secret: &str) -> Result<Identity, String> {
    let store = KeyStore::from_pkcs12(bytes, secret, Pkcs12ImportPolicy::Strict)
        .map_err(|error| format!("cannot be opened with the given password: {error}"))?;
    let (_, chain) = store.private_key_chain().ok_or("there is no private key in it")?;
    let certificates = chain.certs().iter();
    Ok(Identity {
        chain_pem: certificates.map(|one| pem("CERTIFICATE", one.as_der())).collect(),
        key_pem: pem("PRIVATE KEY", chain.key().as_der()),
        expires_at: None,
    })
}

fn pem(label: &str, der: &[u8]) -> String {
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(der))
}

/// The certificates of a data folder.
struct KeptCertificate(FolderDisk);

impl KeptCertificate {
    fn open(folder: &Path) -> Result<Self, String> {
        let disk = FolderDisk::new(folder.join("tls")).map_err(|error| error.to_string())?;
        let kept = Self(disk);
        for name in ["", "authority.key", "server.key"] {
            if kept.0.root().join(name).exists() {
                kept.0.make_private(Path::new(name)).map_err(|error| error.to_string())?;
            }
        }
        Ok(kept)
    }

    /// What is there belongs together and can be used.
    fn check(&self, names: &[String], now: u64) -> Result<(), String> {
        let Some(authority) = self.kept_authority()? else { return Ok(()) };
        let issued = authority.issue(names, now).and_then(|identity| identity.server_config());
        issued.map_err(|error| format!("authority.key and authority.pem: {error}"))?;
        if let Some(identity) = self.identity(names)? {
            let usable = identity.server_config();
            usable.map_err(|error| format!("server.key and server.pem: {error}"))?;
        }
        Ok(())
    }

    fn load(&self, names: &[String], now: u64) -> Result<(Authority, Identity), String> {
        let authority = self.authority(names, now)?;
        if let Some(identity) = self.identity(names)?
            && identity.chain_pem.ends_with(&authority.certificate_pem)
            && !identity.is_due(now)
        {
            return Ok((authority, identity));
        }
        let identity = authority.issue(names, now).map_err(|error| error.to_string())?;
        // Without its end a certificate does not count: it is written last.
        self.0.remove(Path::new("server.expires")).map_err(|error| error.to_string())?;
        self.write("server.key", &identity.key_pem)?;
        self.write("server.pem", &identity.chain_pem)?;
        self.write("server.names", &names.join("\n"))?;
        if let Some(end) = identity.expires_at {
            self.write("server.expires", &end.to_string())?;
        }
        Ok((authority, identity))
    }

    /// The authority, made anew when it may not vouch for a name that is asked for now.
    fn authority(&self, names: &[String], now: u64) -> Result<Authority, String> {
        if let Some(authority) = self.kept_authority()? {
            let permitted = self.read("authority.names")?;
            let permits = |name: &String| match &permitted {
                Some(list) => list.lines().any(|permitted| permitted == name),
                // Older ones may vouch for everybody.
                None => true,
            };
            if permitted.is_none() {
                tracing::warn!(
                    "the certificate authority in {} was made without name constraints; remove its \
                     authority.* files for one that is limited to this server, and trust it anew",
                    self.0.root().display()
                );
            }
            if names.iter().all(permits) {
                return Ok(authority);
            }
            crate::terminal::note(
                "the certificate authority was made anew, because it may not vouch for the names \
                 given with --tls-name: clients have to trust it anew",
            );
        }
        let authority = Authority::generate(names, now).map_err(|error| error.to_string())?;
        self.write("authority.names", &names.join("\n"))?;
        self.write("authority.key", &authority.key_pem)?;
        self.write("authority.pem", &authority.certificate_pem)?;
        Ok(authority)
    }

    fn kept_authority(&self) -> Result<Option<Authority>, String> {
        match (self.read("authority.pem")?, self.read("authority.key")?) {
            (Some(certificate_pem), Some(key_pem)) => {
                Ok(Some(Authority { certificate_pem, key_pem }))
            }
            (Some(_), None) => Err("authority.key is missing".to_owned()),
            // The certificate is written last.
            (None, Some(_)) if self.read("server.pem")?.is_some() => {
                Err("authority.pem is missing".to_owned())
            }
            _ => Ok(None),
        }
    }

    fn identity(&self, names: &[String]) -> Result<Option<Identity>, String> {
        let expires_at = self.read("server.expires")?.and_then(|end| end.trim().parse().ok());
        let kept = (self.read("server.pem")?, self.read("server.key")?);
        Ok(match kept {
            (Some(chain_pem), Some(key_pem))
                if self.read("server.names")? == Some(names.join("\n")) =>
            {
                Some(Identity { chain_pem, key_pem, expires_at })
            }
            _ => None,
        })
    }

    fn read(&self, name: &str) -> Result<Option<String>, String> {
        let bytes = self.0.read(Path::new(name)).map_err(|error| error.to_string())?;
        Ok(bytes.and_then(|bytes| String::from_utf8(bytes.to_vec()).ok()))
    }

    fn write(&self, name: &str, text: &str) -> Result<(), String> {
        self.0.replace(Path::new(name), text.as_bytes()).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests;
