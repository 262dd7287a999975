//! The account key and the secret behind resource tokens.

use crate::config::ServeOptions;
use armilla_gateway::auth::{Access, MasterKeys, WELL_KNOWN_KEY, WellKnownKey};
use armilla_storage::disk::{Disk, FolderDisk};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::path::{Path, PathBuf};

/// Bytes of a key, as the service has it.
const KEY_LENGTH: usize = 64;

/// The keys that are accepted, and the one to work with.
pub(crate) struct AccountKeys {
    pub(crate) accepted: MasterKeys,
    pub(crate) first: String,
    /// Where they are from; nothing when the key is the published one.
    pub(crate) file: Option<PathBuf>,
}

/// Reads or makes the key file; without one the well-known key works on this machine.
pub(crate) fn load(options: &ServeOptions, loopback: bool) -> Result<AccountKeys, String> {
    let Some(file) = options.key_file() else {
        let given = ServeOptions::key_in_environment().filter(|key| *key != WELL_KNOWN_KEY);
        if let Some(key) = given {
            let mut accepted = MasterKeys::new(WellKnownKey::Nowhere);
            accepted.add(&key, Access::ReadWrite).map_err(|error| {
                format!("AZURE_COSMOS_EMULATOR_KEY is unusable as an account key: {error}")
            })?;
            let file = Some(PathBuf::from("AZURE_COSMOS_EMULATOR_KEY"));
            return Ok(AccountKeys { accepted, first: key, file });
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
        return Ok(AccountKeys { accepted, first: WELL_KNOWN_KEY.to_owned(), file: None });
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
    Ok(AccountKeys { accepted, first, file: Some(file) })
}

/// A secret that is the server's own: kept in the data folder, or new for each run in memory.
pub(crate) fn token_secret(folder: Option<&Path>) -> Result<[u8; 32], String> {
    let Some(folder) = folder else { return random() };
    let disk = FolderDisk::new(folder).map_err(|error| error.to_string())?;
    let name = Path::new("token-secret");
    let kept = disk.read(name).map_err(|error| error.to_string())?;
    if kept.is_some() {
        disk.make_private(name).map_err(|error| error.to_string())?;
    }
    if let Some(bytes) = kept {
        return bytes[..].try_into().map_err(|_| {
            let file = folder.join(name);
            format!(
                "{} is damaged: it has {} bytes. Put it back, or move it away: a new one is made, and \
                 resource tokens from before are no longer taken",
                file.display(),
                bytes.len()
            )
        });
    }
    let secret = random()?;
    disk.replace(name, &secret).map_err(|error| error.to_string())?;
    let file = folder.join(name);
    tracing::info!(file = %file.display(), "a secret for tokens is made: those from before are no longer taken");
    Ok(secret)
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
        let first = token_secret(Some(folder.path())).unwrap();
        assert_eq!(mode(&secret), 0o600);
        std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(token_secret(Some(folder.path())).unwrap(), first);
        assert_eq!(mode(&secret), 0o600, "one of an older version");
    }
}
