//! What a backup consists of, as a text people can read.
//!
//! ```text
//! armilla-backup 1
//! format 1
//! file items-0000.records items 1200 345678 9ae0daaf
//! end 1c291ca3
//! ```
//!
//! A `file` line has the name, the keyspace, the number of entries, the number of bytes and the
//! CRC-32C of the file; the `end` line has the CRC-32C of every byte before it.

use std::fmt::Write;

use crate::Keyspace;

const BACKUP_VERSION: u32 = 1;

/// The contents of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupManifest {
    /// The format version of the keys and values inside.
    pub format_version: u32,
    /// Every file, in the order it was written.
    pub files: Vec<BackupFile>,
}

/// One file of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupFile {
    /// The name inside the backup's folder.
    pub name: String,
    /// The keyspace its entries belong to.
    pub keyspace: Keyspace,
    /// How many entries it holds.
    pub entries: u64,
    /// How long it is.
    pub bytes: u64,
    /// The CRC-32C of all its bytes.
    pub checksum: u32,
}

impl BackupManifest {
    /// How many entries the backup has in this keyspace.
    #[must_use]
    pub fn entries(&self, keyspace: Keyspace) -> u64 {
        let files = self.files.iter().filter(|file| file.keyspace == keyspace);
        files.map(|file| file.entries).sum()
    }

    pub(super) fn to_text(&self) -> String {
        let mut text = format!("armilla-backup {BACKUP_VERSION}\nformat {}\n", self.format_version);
        for file in &self.files {
            let BackupFile { name, keyspace, entries, bytes, checksum } = file;
            writeln!(text, "file {name} {keyspace} {entries} {bytes} {checksum:08x}")
                .expect("writing to a string cannot fail");
        }
        let checksum = crc32c::crc32c(text.as_bytes());
        text + &format!("end {checksum:08x}\n")
    }

    pub(super) fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        let text = std::str::from_utf8(bytes).map_err(|_| "it is not text")?;
        let end = text.rfind("end ").ok_or("its last line is missing")?;
        let (body, last) = text.split_at(end);
        if last != format!("end {:08x}\n", crc32c::crc32c(body.as_bytes())) {
            return Err("its checksum does not match");
        }
        let mut lines = body.lines();
        if lines.next() != Some(&*format!("armilla-backup {BACKUP_VERSION}")) {
            return Err("it has another version");
        }
        let format_version = lines
            .next()
            .and_then(|line| line.strip_prefix("format ")?.parse().ok())
            .ok_or("its format version is missing")?;
        let files = lines.map(|line| parse_file(line).ok_or("a file line is not well formed"));
        Ok(Self { format_version, files: files.collect::<Result<_, _>>()? })
    }
}

fn parse_file(line: &str) -> Option<BackupFile> {
    let mut words = line.strip_prefix("file ")?.split(' ');
    let file = BackupFile {
        name: words.next().filter(|name| is_plain(name))?.to_owned(),
        keyspace: Keyspace::from_name(words.next()?)?,
        entries: words.next()?.parse().ok()?,
        bytes: words.next()?.parse().ok()?,
        checksum: u32::from_str_radix(words.next()?, 16).ok()?,
    };
    words.next().is_none().then_some(file)
}

/// A manifest must not lead out of its folder.
fn is_plain(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn example() -> BackupManifest {
        let file = |name: &str, keyspace, entries| BackupFile {
            name: name.into(),
            keyspace,
            entries,
            bytes: 99,
            checksum: 0xab,
        };
        let files = vec![
            file("items-0000.records", Keyspace::Items, 3),
            file("items-0001.records", Keyspace::Items, 4),
            file("meta-0000.records", Keyspace::Meta, 1),
        ];
        BackupManifest { format_version: 1, files }
    }

    #[test]
    fn a_manifest_comes_back() {
        let manifest = example();
        assert_eq!(BackupManifest::parse(manifest.to_text().as_bytes()), Ok(manifest.clone()));
        assert_eq!(manifest.entries(Keyspace::Items), 7);
        assert_eq!(manifest.entries(Keyspace::Feed), 0);
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for name in ["../secret", "/etc/passwd", ".hidden", "a/b", ""] {
            let mut manifest = example();
            manifest.files[0].name = name.into();
            assert!(BackupManifest::parse(manifest.to_text().as_bytes()).is_err(), "{name}");
        }
    }

    proptest! {
        #[test]
        fn any_changed_byte_is_noticed(place in any::<prop::sample::Index>(), change in 1u8..) {
            let mut bytes = example().to_text().into_bytes();
            let place = place.index(bytes.len());
            bytes[place] ^= change;
            prop_assert!(BackupManifest::parse(&bytes).is_err());
        }

        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>) {
            prop_assert!(BackupManifest::parse(&bytes).is_err());
        }
    }
}
