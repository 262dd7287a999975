//! The `authorization` header: `type=…&ver=…&sig=…`, percent-encoded or raw.

use super::{Denied, unauthorized};
use crate::routes::percent_decode;
use std::borrow::Cow;

/// Longest header that is looked at; AAD tokens are the long ones.
const AUTHORIZATION_LENGTH_MAX: usize = 16 * 1024;

/// What kind of proof was presented; the text is the decoded `sig`.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Credentials<'a> {
    Master(Cow<'a, str>),
    Resource(Cow<'a, str>),
    Aad(Cow<'a, str>),
    Session(Cow<'a, str>),
}

/// Takes the header apart. A plus in `sig` stays a plus.
pub(super) fn parse_credentials(header: &[u8]) -> Result<Credentials<'_>, Denied> {
    let malformed = || {
        unauthorized(
            "The authorization header is not in the form 'type={type}&ver={version}&sig={signature}'.",
        )
    };
    if header.len() > AUTHORIZATION_LENGTH_MAX {
        return Err(malformed());
    }
    if let Some(signature) = usual(header) {
        return Ok(Credentials::Master(Cow::Owned(signature)));
    }
    let decoded = decode(header.trim_ascii()).ok_or_else(malformed)?;
    let (kind, sig_at) = split(&decoded).ok_or_else(malformed)?;
    let signature = match decoded {
        Cow::Borrowed(text) => Cow::Borrowed(text.get(sig_at..).unwrap_or_default()),
        Cow::Owned(mut text) => {
            text.drain(..sig_at);
            Cow::Owned(text)
        }
    };
    match kind {
        CredentialKind::Master => Ok(Credentials::Master(signature)),
        CredentialKind::Resource => Ok(Credentials::Resource(signature)),
        CredentialKind::Aad => Ok(Credentials::Aad(signature)),
        CredentialKind::Session => Ok(Credentials::Session(signature)),
    }
}

/// The signature of a header as SDKs write it: all of it encoded, and no longer than the base64 of a signature is.
fn usual(header: &[u8]) -> Option<String> {
    const START: &[u8] = b"type%3dmaster%26ver%3d1.0%26sig%3d";
    const LENGTH_MAX: usize = 48;
    let (start, mut rest) = header.split_at_checked(START.len())?;
    // Only the digits of the encoding may be small or capital.
    let is_alike = |(byte, usual): (&u8, &u8)| byte == usual || *usual == b'd' && *byte == b'D';
    if !start.iter().zip(START).all(is_alike) {
        return None;
    }
    let (mut signature, mut length) = ([0; LENGTH_MAX], 0);
    while let [byte, behind @ ..] = rest {
        rest = behind;
        let mut byte = *byte;
        if byte == b'%' {
            let (escape, behind) = rest.split_first_chunk::<2>()?;
            rest = behind;
            byte = match escape {
                b"2B" | b"2b" => b'+',
                b"2F" | b"2f" => b'/',
                b"3D" | b"3d" => b'=',
                _ => return None,
            };
        }
        // Blanks around the header are for the long way to take off.
        if !byte.is_ascii_graphic() {
            return None;
        }
        *signature.get_mut(length)? = byte;
        length += 1;
    }
    std::str::from_utf8(signature.get(..length)?).ok().map(str::to_owned)
}

enum CredentialKind {
    Master,
    Resource,
    Aad,
    Session,
}

/// The kind, and where the signature begins.
fn split(text: &str) -> Option<(CredentialKind, usize)> {
    let mut parts = text.splitn(3, '&');
    let kind = match parts.next()?.strip_prefix("type=")? {
        "master" => CredentialKind::Master,
        "resource" => CredentialKind::Resource,
        "aad" => CredentialKind::Aad,
        "session" => CredentialKind::Session,
        _ => return None,
    };
    let version = parts.next()?.strip_prefix("ver=")?;
    let signature = parts.next()?.strip_prefix("sig=")?;
    // Tokens of the service say `1`; keys and documentation say `1.0`.
    matches!(version, "1.0" | "1").then_some((kind, text.len() - signature.len()))
}

/// The raw form begins `type=`; anything else must decode to that.
fn decode(header: &[u8]) -> Option<Cow<'_, str>> {
    if header.starts_with(b"type=") {
        // A raw head may still be followed by an encoded signature.
        if !header.contains(&b'%') {
            return std::str::from_utf8(header).ok().map(Cow::Borrowed);
        }
    }
    String::from_utf8(percent_decode(header)?).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_forms_and_both_hex_cases_are_read() {
        let expected = Credentials::Master(Cow::Borrowed("a+b/c="));
        for header in [
            "type=master&ver=1.0&sig=a+b/c=",
            "type%3Dmaster%26ver%3D1.0%26sig%3Da%2Bb%2Fc%3D",
            "type%3dmaster%26ver%3d1.0%26sig%3da+b%2fc%3d",
        ] {
            assert_eq!(parse_credentials(header.as_bytes()).unwrap(), expected, "{header}");
        }
    }

    /// Whatever the short way reads, the long way reads alike.
    fn check_short_way(header: &[u8]) {
        let Some(signature) = usual(header) else { return };
        let decoded = decode(header.trim_ascii()).unwrap();
        let (_, at) = split(&decoded).unwrap();
        assert_eq!(signature, decoded[at..]);
        assert!(decoded.starts_with("type=master&"));
    }

    #[test]
    fn what_sdks_write_is_read_the_short_way() {
        let start = "type%3Dmaster%26ver%3D1.0%26sig%3D";
        let signature = "N9A2+/x%2f%2Bab%3d";
        let read = usual(format!("{start}{signature}").as_bytes());
        assert_eq!(read.as_deref(), Some("N9A2+/x/+ab="));
        for other in ["", "%", "%2", "%zz", "a b", "\u{e9}", &"x".repeat(49)] {
            let header = format!("{start}{other}");
            assert!(other.is_empty() || usual(header.as_bytes()).is_none(), "{other}");
            check_short_way(header.as_bytes());
        }
        assert_eq!(usual(b"type%3Dmaster%26ver%3D1.0%26SIG%3Dabc"), None);
    }

    #[test]
    fn signature_may_contain_ampersands() {
        let header = b"type=resource&ver=1&sig=a&b;c;";
        assert_eq!(parse_credentials(header).unwrap(), Credentials::Resource("a&b;c;".into()));
    }

    #[test]
    fn anything_else_is_refused() {
        for header in [
            "",
            "Bearer x",
            "type=master",
            "type=master&ver=2.0&sig=x",
            "type=x&ver=1.0&sig=x",
            "%",
        ] {
            assert!(parse_credentials(header.as_bytes()).is_err(), "{header}");
        }
    }

    proptest! {
        #[test]
        fn both_ways_read_alike(rest in "[a-zA-Z0-9+/=&%_ ]{0,12}(%2[BbFf]|%3[Dd]|%26|.){0,6}") {
            check_short_way(format!("type%3dmaster%26ver%3D1.0%26sig%3d{rest}").as_bytes());
        }

        #[test]
        fn any_header_is_answered(header in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = parse_credentials(&header);
        }
    }
}
