//! Account keys, two that read and write and two that only read, and the check of a signature that was made with one.

use super::signed::{self, LinkForm};
use super::{Denied, Presented, SigningDate, unauthorized};
use crate::locality::Stranger;
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
    /// From this machine's own user only.
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
    /// The MACs of the keys' texts under a key of their own: what a shown key is compared by.
    shown: Vec<hmac::Tag>,
    well_known: Option<(hmac::Key, WellKnownKey)>,
}

impl MasterKeys {
    /// No keys yet but the published one, where it is accepted.
    pub fn new(well_known: WellKnownKey) -> Self {
        let key = hmac_key(WELL_KNOWN_KEY).expect("the published key is base64");
        let well_known = (well_known != WellKnownKey::Nowhere).then_some((key, well_known));
        Self { keys: Vec::new(), shown: Vec::new(), well_known }
    }

    /// True when the published key is accepted from this machine.
    pub(super) fn accepts_well_known(&self) -> bool {
        self.well_known.is_some()
    }

    /// Adds a key in base64.
    pub fn add(&mut self, base64: &str, access: Access) -> Result<()> {
        let key = hmac_key(base64).ok_or_else(|| Error::bad_request("The key is not base64."))?;
        self.keys.push((key, access));
        self.shown.push(hmac::sign(&shown_key(), base64.trim().as_bytes()));
        Ok(())
    }

    /// True for the text of one of the account's own keys. The time it takes tells nothing.
    pub(super) fn contains(&self, base64: &str) -> bool {
        let text = base64.trim().as_bytes();
        self.shown.iter().fold(false, |found, tag| {
            found | hmac::verify(&shown_key(), text, tag.as_ref()).is_ok()
        })
    }

    /// What the text of an account key allows, the published one included where it is accepted from whoever shows it.
    /// Nothing when it is no key.
    pub(super) fn access_of(
        &self,
        base64: &str,
        locality: &Result<(), Stranger>,
    ) -> Option<Result<Access, Denied>> {
        let text = base64.trim().as_bytes();
        // All are compared, whichever it is.
        let own = self.shown.iter().zip(&self.keys).fold(None, |found, (tag, (_, access))| {
            let same = hmac::verify(&shown_key(), text, tag.as_ref()).is_ok();
            if same { Some(*access) } else { found }
        });
        let published = hmac::sign(&shown_key(), WELL_KNOWN_KEY.as_bytes());
        let is_published = hmac::verify(&shown_key(), text, published.as_ref()).is_ok();
        match (own, &self.well_known, locality) {
            (Some(access), _, _) => Some(Ok(access)),
            (None, Some((_, WellKnownKey::OnLoopback)), Err(stranger)) if is_published => {
                Some(Err(published_from_elsewhere(stranger)))
            }
            (None, Some(_), _) if is_published => Some(Ok(Access::ReadWrite)),
            _ => None,
        }
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
                if let Some(access) = self.find(&message, tag, presented.locality) {
                    return access;
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

    /// What the key that made the signature allows; nothing when no key did.
    fn find(
        &self,
        message: &[u8],
        tag: &[u8],
        locality: &Result<(), Stranger>,
    ) -> Option<Result<Access, Denied>> {
        let own = self.keys.iter().find(|(key, _)| hmac::verify(key, message, tag).is_ok());
        if let Some((_, access)) = own {
            return Some(Ok(*access));
        }
        let (key, place) = self.well_known.as_ref()?;
        hmac::verify(key, message, tag).ok()?;
        match locality {
            Err(stranger) if *place == WellKnownKey::OnLoopback => {
                Some(Err(published_from_elsewhere(stranger)))
            }
            _ => Some(Ok(Access::ReadWrite)),
        }
    }
}

fn published_from_elsewhere(stranger: &Stranger) -> Denied {
    unauthorized(format!(
        "The published well-known key is accepted from this machine's own user alone: {stranger}. Give the server \
         a key of its own with --key-file."
    ))
}

/// Under which key the texts of keys are compared: any will do, the comparison alone is wanted.
fn shown_key() -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, b"armilla account keys")
}

fn hmac_key(base64: &str) -> Option<hmac::Key> {
    let bytes = STANDARD.decode(base64.trim()).ok().filter(|bytes| !bytes.is_empty())?;
    Some(hmac::Key::new(hmac::HMAC_SHA256, &bytes))
}
