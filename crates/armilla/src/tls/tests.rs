//! Certificates over restarts, years and changed names, and those of the user.

use super::*;
use armilla_model::clock::ManualClock;

const NOW: u64 = 1_794_770_659;
const DAY: u64 = 24 * 3600;

fn names(list: &[&str]) -> Vec<String> {
    list.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn a_certificate_is_kept_until_it_is_due() {
    let folder = tempfile::tempdir().unwrap();
    let load = |names: &[String], now| {
        KeptCertificate::open(folder.path()).unwrap().load(names, now).unwrap()
    };
    let (authority, first) = load(&[], NOW);
    assert_eq!(load(&[], NOW + 700 * DAY), (authority.clone(), first.clone()));
    let (same, renewed) = load(&[], NOW + 801 * DAY);
    assert_eq!(same, authority, "clients trust it");
    assert_ne!(renewed, first);
    assert!(!renewed.is_due(NOW + 801 * DAY));
}

#[test]
fn a_name_that_the_authority_may_not_vouch_for_makes_a_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let load = |list: &[&str]| {
        KeptCertificate::open(folder.path()).unwrap().load(&names(list), NOW).unwrap()
    };
    let (first, _) = load(&["db.example", "b.example"]);
    let (same, identity) = load(&["db.example"]);
    assert_eq!(first, same);
    let (other, reissued) = load(&["other.example"]);
    assert_ne!(first, other);
    assert_ne!(identity, reissued);
}

#[cfg(unix)]
#[test]
fn secrets_of_older_folders_become_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    KeptCertificate::open(folder.path()).unwrap().load(&[], NOW).unwrap();
    let key = folder.path().join("tls/authority.key");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&key), 0o600);
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    KeptCertificate::open(folder.path()).unwrap();
    assert_eq!(mode(&key), 0o600);
}

fn loaded(options: &TlsOptions) -> Result<Certificates, String> {
    load(None, options, Arc::new(ManualClock::at_seconds(NOW)))
}

#[test]
fn own_certificates_come_as_a_pair_of_pem_files() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::generate(&[], NOW).unwrap();
    let identity = authority.issue(&[], NOW).unwrap();
    let (cert, key) = (folder.path().join("c.pem"), folder.path().join("k.pem"));
    std::fs::write(&cert, &identity.chain_pem).unwrap();
    std::fs::write(&key, &identity.key_pem).unwrap();
    let pair = |key: &Path| TlsOptions {
        tls_cert: Some(cert.clone()),
        tls_key: Some(key.to_owned()),
        ..TlsOptions::default()
    };
    let own = loaded(&pair(&key)).unwrap();
    assert!(own.authority_pem.is_none() && own.covers_loopback);
    std::fs::write(folder.path().join("other.pem"), authority.key_pem).unwrap();
    assert!(loaded(&pair(&folder.path().join("other.pem"))).is_err(), "a key of another");
    assert!(loaded(&pair(&folder.path().join("absent"))).is_err());
}

#[test]
fn own_certificates_come_as_a_pfx_file_of_either_age() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("own.pfx");
    let options = |secret: &str| TlsOptions {
        tls_pfx: Some(file.clone()),
        tls_secret: Some(secret.to_owned()),
        ..TlsOptions::default()
    };
    for pfx in [&include_bytes!("vectors/modern.pfx")[..], include_bytes!("vectors/legacy.pfx")] {
        std::fs::write(&file, pfx).unwrap();
        let own = loaded(&options("s3cret")).unwrap();
        assert!(own.authority_pem.is_none() && !own.covers_loopback, "it is for localhost alone");
        let refused = loaded(&options("wrong")).err().unwrap();
        assert!(refused.contains("own.pfx") && refused.contains("password"), "{refused}");
    }
}
