//! Tokens of a made-up directory: the good ones, and every way to be wrong.

use super::*;
use armilla_model::json;

const NOW: u64 = 1_794_770_659;

struct Vectors(Value);

impl Vectors {
    fn load() -> Self {
        Self(json::parse(include_bytes!("../../../tests/vectors/entra.json")).unwrap())
    }

    fn jwks(&self) -> String {
        self.0.get("jwks").unwrap().to_json()
    }

    fn token(&self, name: &str) -> String {
        self.0.get("tokens").unwrap().get(name).unwrap().as_str().unwrap().to_owned()
    }
}

fn entra(settings: EntraSettings) -> Entra {
    let entra = Entra::new(EntraSettings {
        issuers: vec!["https://login.example/tenant/v2.0".to_owned()],
        audiences: vec!["https://cosmos.example".to_owned()],
        ..settings
    });
    assert_eq!(entra.set_keys(Vectors::load().jwks().as_bytes()), Ok(1), "one of them signs");
    entra
}

#[test]
fn roles_decide_between_reading_and_writing() {
    let (vectors, entra) = (Vectors::load(), entra(EntraSettings::default()));
    let access = |name: &str| entra.verify(&vectors.token(name), NOW);
    assert_eq!(access("contributor").unwrap(), Access::ReadWrite);
    assert_eq!(access("reader").unwrap(), Access::ReadOnly);
    let denied = access("no role").unwrap_err();
    assert_eq!(denied.substatus, Some(5300));
    assert!(denied.error.message().contains("11111111-2222-3333-4444-555555555555"));
}

#[test]
fn principals_may_be_named() {
    let vectors = Vectors::load();
    let oid = || vec!["11111111-2222-3333-4444-555555555555".to_owned()];
    let reader = entra(EntraSettings { read_only: oid(), ..EntraSettings::default() });
    assert_eq!(reader.verify(&vectors.token("no role"), NOW).unwrap(), Access::ReadOnly);
    let writer = entra(EntraSettings { read_write: oid(), ..EntraSettings::default() });
    assert_eq!(writer.verify(&vectors.token("no role"), NOW).unwrap(), Access::ReadWrite);
}

#[test]
fn everything_about_a_token_is_checked() {
    let (vectors, entra) = (Vectors::load(), entra(EntraSettings::default()));
    for (name, words) in [
        ("expired", "expired"),
        ("not yet", "not valid yet"),
        ("no expiry", "lacks one of exp"),
        ("expiry as text", "exp"),
        ("not before as text", "not valid yet"),
        ("other audience", "another audience"),
        ("no audience", "lacks one of exp"),
        ("other issuer", "somebody else"),
        ("other key", "signature is not"),
        ("unknown key", "not in the directory"),
        ("no key id", "not in the directory"),
        ("encryption key", "not in the directory"),
        ("alg none", "not a signed JWT"),
        ("hmac with the public key", "not signed with a public key"),
        ("hmac with the shared key", "not signed with a public key"),
        ("changed claims", "signature is not"),
    ] {
        let denied = entra.verify(&vectors.token(name), NOW).expect_err(name);
        assert!(denied.error.message().contains(words), "{name}: {}", denied.error);
        let substatus = if name == "expired" { Some(5006) } else { None };
        assert_eq!(denied.substatus, substatus, "{name}");
    }
    let token = vectors.token("contributor");
    assert!(entra.verify(&token, NOW + 3600 + 299).is_ok(), "clocks may differ a little");
    assert!(entra.verify(&token, NOW + 3600 + 301).is_err());
    for nonsense in ["", "a.b.c", ".", "..", "e30.e30."] {
        assert!(entra.verify(nonsense, NOW).is_err(), "{nonsense}");
    }
}

#[test]
fn documents_without_a_usable_key_change_nothing() {
    let (vectors, entra) = (Vectors::load(), entra(EntraSettings::default()));
    for document in
        ["", "{}", "[]", r#"{"keys":[]}"#, r#"{"keys":[{"kty":"oct","kid":"a","k":"AA"}]}"#]
    {
        assert!(entra.set_keys(document.as_bytes()).is_err(), "{document}");
    }
    assert!(entra.set_keys(&vec![b' '; JWKS_SIZE_MAX + 1]).is_err());
    assert!(entra.verify(&vectors.token("contributor"), NOW).is_ok());
}

#[test]
fn before_the_first_document_nobody_comes_in() {
    let entra = Entra::new(EntraSettings::default());
    assert!(entra.verify(&Vectors::load().token("contributor"), NOW).is_err());
}
