//! The certificate: made once, kept in the data folder, made again when its names change.

use armilla_gateway::tls::{Authority, Identity};
use armilla_storage::disk::{Disk, FolderDisk};
use std::path::Path;

/// What TLS needs, and what clients may download to trust it.
pub(crate) struct Certificates {
    pub(crate) identity: Identity,
    pub(crate) authority_pem: String,
}

/// Loads the certificates of a data folder, or makes them.
pub(crate) fn load(
    folder: Option<&Path>,
    names: &[String],
    now_seconds: u64,
) -> Result<Certificates, String> {
    let make = || Authority::generate(now_seconds).map_err(|error| error.to_string());
    let Some(folder) = folder else { return issue(&make()?, names, now_seconds) };
    let disk = FolderDisk::new(folder.join("tls")).map_err(|error| error.to_string())?;
    let read = |name: &str| -> Result<Option<String>, String> {
        let bytes = disk.read(Path::new(name)).map_err(|error| error.to_string())?;
        Ok(bytes.and_then(|bytes| String::from_utf8(bytes.to_vec()).ok()))
    };
    let write = |name: &str, text: &str| {
        disk.replace(Path::new(name), text.as_bytes()).map_err(|error| error.to_string())
    };
    let authority = match (read("authority.pem")?, read("authority.key")?) {
        (Some(certificate_pem), Some(key_pem)) => Authority { certificate_pem, key_pem },
        _ => {
            let authority = make()?;
            write("authority.key", &authority.key_pem)?;
            write("authority.pem", &authority.certificate_pem)?;
            authority
        }
    };
    let wanted = names.join("\n");
    if let (Some(chain_pem), Some(key_pem), Some(issued)) =
        (read("server.pem")?, read("server.key")?, read("server.names")?)
        && issued == wanted
    {
        let identity = Identity { chain_pem, key_pem };
        return Ok(Certificates { identity, authority_pem: authority.certificate_pem });
    }
    let certificates = issue(&authority, names, now_seconds)?;
    write("server.key", &certificates.identity.key_pem)?;
    write("server.pem", &certificates.identity.chain_pem)?;
    write("server.names", &wanted)?;
    Ok(certificates)
}

fn issue(
    authority: &Authority,
    names: &[String],
    now_seconds: u64,
) -> Result<Certificates, String> {
    let identity = authority.issue(names, now_seconds).map_err(|error| error.to_string())?;
    Ok(Certificates { identity, authority_pem: authority.certificate_pem.clone() })
}
