//! Account keys: two that read and write, two that only read.

use super::signed::{self, LinkForm};
use super::{Denied, Presented, SigningDate, unauthorized};
use armilla_model::{Error, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;

/// The published key of the emulators. Samples everywhere contain it.
pub const WELL_KNOWN_KEY: &str =
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

/// Length of an HMAC-SHA256 signature.
const SIGNATURE_LENGTH: usize = 32;

/// What a key allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everything.
    ReadWrite,
    /// Operations that change nothing.
    ReadOnly,
}

/// Where the published key is accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WellKnownKey {
    /// From this machine only.
    #[default]
    OnLoopback,
    /// From everywhere; somebody asked for it by name.
    Everywhere,
    /// Nowhere.
    Nowhere,
}

/// The keys of the account, with their HMAC state.
#[derive(Debug, Default)]
pub struct MasterKeys {
    keys: Vec<(hmac::Key, Access)>,
    well_known: Option<(hmac::Key, WellKnownKey)>,
}

impl MasterKeys {
    /// No keys yet but the published one, where it is accepted.
    pub fn new(well_known: WellKnownKey) -> Self {
        let key = hmac_key(WELL_KNOWN_KEY).expect("the published key is base64");
        let well_known = (well_known != WellKnownKey::Nowhere).then_some((key, well_known));
        Self { keys: Vec::new(), well_known }
    }

    /// True when the published key is accepted from this machine.
    pub(super) fn accepts_well_known(&self) -> bool {
        self.well_known.is_some()
    }

    /// Adds a key in base64.
    pub fn add(&mut self, base64: &str, access: Access) -> Result<()> {
        let key = hmac_key(base64).ok_or_else(|| Error::bad_request("The key is not base64."))?;
        self.keys.push((key, access));
        Ok(())
    }

    /// Finds the key that made the signature. Comparison takes the same time wherever it fails.
    pub(super) fn verify(
        &self,
        presented: &Presented<'_>,
        date: SigningDate<'_>,
        signature: &str,
    ) -> Result<Access, Denied> {
        let mut message = Vec::with_capacity(256);
        let mut tag = [0; SIGNATURE_LENGTH + 1];
        let length = STANDARD.decode_slice(signature, &mut tag).unwrap_or_default();
        if let Some(tag) = tag.get(..length).filter(|tag| tag.len() == SIGNATURE_LENGTH) {
            for form in [LinkForm::Names, LinkForm::Rid] {
                if form == LinkForm::Rid && !signed::looks_like_rid(presented.segments) {
                    break;
                }
                message.clear();
                signed::write(presented.method, presented.segments, date, form, &mut message);
                if let Some(access) = self.find(&message, tag, presented.is_loopback) {
                    return Ok(access);
                }
            }
        }
        if message.is_empty() {
            signed::write(
                presented.method,
                presented.segments,
                date,
                LinkForm::Names,
                &mut message,
            );
        }
        let expected = String::from_utf8_lossy(&message).replace('\n', "\\n");
        Err(unauthorized(format!(
            "The input authorization token can't serve the request. The wrong key is being used or the expected payload is not built as per the protocol. Server used the following payload to sign: '{expected}'"
        )))
    }

    fn find(&self, message: &[u8], tag: &[u8], is_loopback: bool) -> Option<Access> {
        let own = self.keys.iter().find(|(key, _)| hmac::verify(key, message, tag).is_ok());
        if let Some((_, access)) = own {
            return Some(*access);
        }
        let (key, place) = self.well_known.as_ref()?;
        let accepted = is_loopback || *place == WellKnownKey::Everywhere;
        (accepted && hmac::verify(key, message, tag).is_ok()).then_some(Access::ReadWrite)
    }
}

fn hmac_key(base64: &str) -> Option<hmac::Key> {
    let bytes = STANDARD.decode(base64.trim()).ok().filter(|bytes| !bytes.is_empty())?;
    Some(hmac::Key::new(hmac::HMAC_SHA256, &bytes))
}
