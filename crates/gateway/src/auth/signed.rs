//! The text that a master-key signature covers.
//!
//! `lower(verb) \n lower(type) \n link \n lower(x-ms-date) \n lower(date) \n`. For an item path the
//! link is the decoded path, for a feed path that of its parent. Requests that address resources
//! by `_rid` sign the lower-cased `_rid` of the item or parent alone.

use super::SigningDate;
use crate::routes::Segments;
use http::Method;

/// How the link names its resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkForm {
    Names,
    Rid,
}

/// The text to sign, in the form that the path suggests. For diagnostics and tests.
pub fn string_to_sign(method: &Method, segments: &Segments<'_>, ms_date: &str) -> String {
    let date = SigningDate { text: ms_date, is_ms_date: true };
    let form = if looks_like_rid(segments) { LinkForm::Rid } else { LinkForm::Names };
    let mut out = Vec::with_capacity(128);
    write(method, segments, date, form, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// Writes the text to sign.
pub(super) fn write(
    method: &Method,
    segments: &Segments<'_>,
    date: SigningDate<'_>,
    form: LinkForm,
    out: &mut Vec<u8>,
) {
    let texts = segments.texts();
    let subscription = subscription_link(&texts, segments.len());
    let (kind, depth) = match &subscription {
        Some(_) => ("subs", 0),
        None => kind_and_depth(&texts, segments.len()),
    };
    let link = subscription.as_deref().unwrap_or_else(|| texts.get(..depth).unwrap_or_default());
    push_lower(method.as_str(), out);
    out.push(b'\n');
    push_lower(kind, out);
    out.push(b'\n');
    match (form, link) {
        (_, ["offers", rid]) => push_lower(rid, out),
        (LinkForm::Rid, [.., rid]) => push_lower(rid, out),
        _ => push_joined(link, out),
    }
    out.push(b'\n');
    if date.is_ms_date {
        push_lower(date.text, out);
        out.extend_from_slice(b"\n\n");
    } else {
        out.push(b'\n');
        push_lower(date.text, out);
        out.push(b'\n');
    }
}

/// Whether the path may address by `_rid`: a database's is four bytes of base64.
pub(super) fn looks_like_rid(segments: &Segments<'_>) -> bool {
    let database = segments.texts()[1].as_bytes();
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'/');
    segments.len() > 1
        && matches!(database, [digits @ .., b'=', b'='] if digits.len() == 6 && digits.iter().all(is_digit))
}

/// The resource type, and how many segments the link has.
fn kind_and_depth<'a>(texts: &[&'a str], count: usize) -> (&'a str, usize) {
    match texts.get(..count) {
        Some([]) | None => ("", 0),
        Some(["dbs", _, "colls", _, "operations", _]) => ("colls", 4),
        Some([.., kind, _]) if count.is_multiple_of(2) => (kind, count),
        Some([.., kind]) => (kind, count - 1),
    }
}

/// The link of a path of subscriptions: what it would be if they lay beside scripts.
fn subscription_link<'a>(texts: &[&'a str], count: usize) -> Option<Vec<&'a str>> {
    let ["_armilla", "subs", link @ ..] = texts.get(..count)? else { return None };
    let (container, id) = link.split_at_checked(4)?;
    let mut link = container.to_vec();
    if let Some(id) = id.first() {
        link.extend(["subs", id]);
    }
    Some(link)
}

fn push_lower(text: &str, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(text.as_bytes());
    out[start..].make_ascii_lowercase();
}

fn push_joined(link: &[&str], out: &mut Vec<u8>) {
    for (position, segment) in link.iter().enumerate() {
        if position > 0 {
            out.push(b'/');
        }
        out.extend_from_slice(segment.as_bytes());
    }
}
