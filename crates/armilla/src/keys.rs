//! The account key, whether the published one is enough to start, and the secret behind resource tokens. Who may use the published key is
//! checked in `gateway::auth::master`.

use crate::config::ServeOptions;
use crate::terminal::note;
use armilla_gateway::auth::{Access, MasterKeys, WELL_KNOWN_KEY, WellKnownKey};
use armilla_storage::disk::{Disk, FolderDisk};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::path::{Path, PathBuf};

/// The file of the secret behind tokens, in the data folder.
const TOKEN_SECRET: &str = "token-secret";
/// Bytes of a key, as the service has it.
const KEY_LENGTH: usize = 64;

/// The keys that are accepted, and the one to work with.
pub(crate) struct AccountKeys {
    pub(crate) accepted: MasterKeys,
    pub(crate) first: String,
    pub(crate) source: KeySource,
}

/// Where an account key is from. Whatever is open to holders of the published key alone asks this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeySource {
    /// Everybody knows it.
    Published,
    File(PathBuf),
    /// A variable of the environment, by its name.
    Environment(&'static str),
    /// The ledger that nodes of one account share.
    Ledger,
}

impl KeySource {
    /// What stands in the place of the key where it might end up in a log.
    pub(crate) fn in_place_of(&self, key: &str) -> String {
        match self {
            Self::Published => key.to_owned(),
            Self::File(file) => format!("<first line of {}>", file.display()),
            Self::Environment(variable) => format!("<value of {variable}>"),
            Self::Ledger => "<as armilla cluster init has printed it>".to_owned(),
        }
    }
}

/// Reads or makes the key file; without one the well-known key works on this machine.
pub(crate) fn load(options: &ServeOptions, loopback: bool) -> Result<AccountKeys, String> {
    let Some(file) = options.key_file() else {
        let given = ServeOptions::key_in_environment().filter(|key| *key != WELL_KNOWN_KEY);
        if let Some(key) = given {
            let mut accepted = MasterKeys::new(WellKnownKey::Nowhere);
            accepted.add(&key, Access::ReadWrite).map_err(|error| {
                format!("{} is unusable as an account key: {error}", ServeOptions::KEY_VARIABLE)
            })?;
            let source = KeySource::Environment(ServeOptions::KEY_VARIABLE);
            return Ok(AccountKeys { accepted, first: key, source });
        }
        if !loopback && !options.allow_well_known_key {
            return Err(format!(
                "listening on {} would let everybody in: the well-known key is published. \
                 Give --key-file FILE for a key of your own, or --allow-well-known-key to do it all the same.",
                options.host
            ));
        }
        let where_accepted =
            if loopback { WellKnownKey::OnLoopback } else { WellKnownKey::Everywhere };
        let accepted = MasterKeys::new(where_accepted);
        let (first, source) = (WELL_KNOWN_KEY.to_owned(), KeySource::Published);
        return Ok(AccountKeys { accepted, first, source });
    };
    let text = read_or_make(&file)?;
    let mut accepted = MasterKeys::new(WellKnownKey::Nowhere);
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().ok_or_else(|| format!("{} is empty", file.display()))?.to_owned();
    // Lines in order: primary, secondary, primary read-only, secondary read-only.
    let access = [Access::ReadWrite, Access::ReadWrite, Access::ReadOnly, Access::ReadOnly];
    for (key, access) in text.lines().map(str::trim).filter(|line| !line.is_empty()).zip(access) {
        accepted
            .add(key, access)
            .map_err(|error| format!("a key in {} is unusable: {error}", file.display()))?;
    }
    Ok(AccountKeys { accepted, first, source: KeySource::File(file) })
}

/// A secret that is the server's own: kept in the data folder, or new for each run in memory.
///
/// A folder that had a store before and lacks it gets a new one, which is told: tokens from before end.
pub(crate) fn token_secret(folder: Option<&Path>, is_new: bool) -> Result<[u8; 32], String> {
    let Some(folder) = folder else { return random() };
    let disk = FolderDisk::new(folder).map_err(|error| error.to_string())?;
    let name = Path::new(TOKEN_SECRET);
    if let Some(secret) = kept_token_secret(folder)? {
        disk.make_private(name).map_err(|error| error.to_string())?;
        return Ok(secret);
    }
    let secret = random()?;
    disk.replace(name, &secret).map_err(|error| error.to_string())?;
    if !is_new {
        note(&format!(
            "{} was missing and is made anew: resource tokens, continuation tokens and sessions from before are no longer taken",
            folder.join(name).display()
        ));
    }
    Ok(secret)
}

/// The secret in a data folder, if it is there and whole. Changes nothing.
pub(crate) fn kept_token_secret(folder: &Path) -> Result<Option<[u8; 32]>, String> {
    let file = folder.join(TOKEN_SECRET);
    let bytes = match std::fs::read(&file) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("cannot read {}: {error}", file.display())),
    };
    let secret = bytes[..].try_into().map_err(|_| {
        format!(
            "{} is damaged: it has {} bytes. Put it back, or move it away: a new one is made, and \
             resource tokens from before are no longer taken",
            file.display(),
            bytes.len()
        )
    })?;
    Ok(Some(secret))
}

fn read_or_make(file: &Path) -> Result<String, String> {
    let folder =
        file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = file.file_name().ok_or_else(|| format!("{} is no file", file.display()))?;
    let disk = FolderDisk::new(folder).map_err(|error| error.to_string())?;
    let kept = disk.read(Path::new(name)).map_err(|error| error.to_string())?;
    if let Some(bytes) = kept {
        return String::from_utf8(bytes.to_vec())
            .map_err(|_| format!("{} is not text", file.display()));
    }
    let text = format!("{}\n", STANDARD.encode(random::<KEY_LENGTH>()?));
    disk.replace(Path::new(name), text.as_bytes()).map_err(|error| error.to_string())?;
    Ok(text)
}

/// Random bytes of the system.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| format!("the system gave no random bytes: {error}"))?;
    Ok(bytes)
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn secrets_are_their_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        read_or_make(&file).unwrap();
        assert_eq!(mode(&file), 0o600);
        let secret = folder.path().join("token-secret");
        let first = token_secret(Some(folder.path()), true).unwrap();
        assert_eq!(mode(&secret), 0o600);
        std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(token_secret(Some(folder.path()), false).unwrap(), first);
        assert_eq!(mode(&secret), 0o600, "one of an older version");
    }
}
