//! Continuation tokens that only this server can have written, for one list, query or feed alone.
//!
//! A token is a position; a position that was changed, or that belongs to another container or
//! another partition key, would be followed without a word and rows would be missing. So it goes out
//! with a MAC behind a dot, over the token and [what it belongs to](Belongs). Tokens are kept by
//! clients over restarts, splits and page sizes: none of these is bound, and the secret is kept.

use armilla_model::{Error, Result};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;

/// Bytes of the MAC that are sent: guessing 128 bits over a network is no attack.
const MAC_LENGTH: usize = 16;
/// Characters that a token grows by.
pub const SEAL_LENGTH: usize = 1 + (MAC_LENGTH * 8).div_ceil(6);
/// What the secret is for: it is never used for two things under one key.
const PURPOSE: &[u8] = b"armilla continuation tokens";

/// What a token belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Belongs<'a> {
    /// Which kind of answer it continues: the same text must not serve two.
    pub kind: &'static str,
    /// `_rid` of the container or other resource that is read.
    pub owner: &'a str,
    /// The rest: the effective partition key, the text of a query.
    pub scope: &'a [u8],
}

/// Signs and verifies continuation tokens.
#[derive(Clone, Debug)]
pub struct Seal(hmac::Key);

impl Seal {
    /// A seal with a key of its own, made from the server's secret.
    pub(super) fn new(secret: &[u8; 32]) -> Self {
        let parent = hmac::Key::new(hmac::HMAC_SHA256, secret);
        Self(hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&parent, PURPOSE).as_ref()))
    }

    /// The token as it is sent.
    pub fn close(&self, belongs: Belongs<'_>, token: &str) -> String {
        let mut sealed = String::with_capacity(token.len() + 24);
        sealed.push_str(token);
        sealed.push('.');
        URL_SAFE_NO_PAD.encode_string(self.mac(belongs, token), &mut sealed);
        sealed
    }

    /// The token inside what came back; refuses what this server did not send for this.
    pub fn open<'t>(&self, belongs: Belongs<'_>, sealed: &'t str) -> Result<&'t str> {
        let refused = || {
            Error::bad_request(
                "Invalid Continuation Token: it was changed, or it is one of another container, \
                 query, partition key or server. Begin without a token.",
            )
        };
        let (token, mac) = sealed.rsplit_once('.').ok_or_else(refused)?;
        let mac = URL_SAFE_NO_PAD.decode(mac).map_err(|_| refused())?;
        let expected = self.mac(belongs, token);
        // Compared by way of their own MACs: the time it takes tells nothing of where they differ.
        let same = hmac::verify(&self.0, &mac, hmac::sign(&self.0, &expected).as_ref()).is_ok();
        if same { Ok(token) } else { Err(refused()) }
    }

    fn mac(&self, belongs: Belongs<'_>, token: &str) -> [u8; MAC_LENGTH] {
        let mut context = hmac::Context::with_key(&self.0);
        let pieces = [belongs.kind.as_bytes(), belongs.owner.as_bytes(), belongs.scope];
        for piece in pieces.into_iter().chain([token.as_bytes()]) {
            // Lengths first: no two lists of pieces are the same bytes.
            context.update(&(piece.len() as u64).to_be_bytes());
            context.update(piece);
        }
        let mut mac = [0; MAC_LENGTH];
        mac.copy_from_slice(&context.sign().as_ref()[..MAC_LENGTH]);
        mac
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BELONGS: Belongs<'_> = Belongs { kind: "query", owner: "uQEAAIAAAAE=", scope: b"k" };

    #[test]
    fn tokens_come_back_to_what_they_belong_to_alone() {
        let seal = Seal::new(&[7; 32]);
        let sealed = seal.close(BELONGS, "Q1:abc.d");
        assert_eq!(seal.open(BELONGS, &sealed).unwrap(), "Q1:abc.d");
        for other in [
            Belongs { kind: "list", ..BELONGS },
            Belongs { owner: "uQEAAIAAAAI=", ..BELONGS },
            Belongs { scope: b"", ..BELONGS },
        ] {
            assert!(seal.open(other, &sealed).is_err(), "{other:?}");
        }
        assert!(Seal::new(&[8; 32]).open(BELONGS, &sealed).is_err());
        for text in ["", ".", "Q1:abc.d", "Q1:abc.d."] {
            assert!(seal.open(BELONGS, text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_changed_token_is_refused(at in 0usize..40, bit in 0u8..7) {
            let seal = Seal::new(&[7; 32]);
            let mut bytes = seal.close(BELONGS, "F1:0123456789ABCDEF:17").into_bytes();
            let at = at % bytes.len();
            bytes[at] ^= 1 << bit;
            let changed = String::from_utf8(bytes).unwrap();
            let opened = seal.open(BELONGS, &changed).is_ok();
            prop_assert!(!opened, "{}", changed);
        }
    }
}
