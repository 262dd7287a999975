//! Credentials that a connection shows again.
//!
//! A signature covers method, kind of resource, path and the second, and not the body. So a client that writes or queries sends the very same
//! credentials with every request of a second, and those were checked a moment ago. Each connection remembers the last that were good.

use super::header::{Credentials, parse_credentials};
use super::{Access, CLOCK_SKEW_MAX_SECONDS, parse_http_date};
use crate::headers::RequestContext;
use http::Method;

/// The signature that was last found good on a connection.
#[derive(Debug, Default)]
pub(crate) struct ShownBefore {
    path: Vec<u8>,
    /// `x-ms-date`.
    date: Vec<u8>,
    authorization: Vec<u8>,
    /// What the date says, and what the key allows; nothing as long as there is no signature.
    good: Option<(u64, Access)>,
    /// It was this machine's own user who showed it: the published key is good for nobody else.
    was_local: bool,
}

impl ShownBefore {
    /// What a request may do whose credentials were found good before, on this connection and for this method and path; with the time, and whether
    /// it is this machine's own user who asks.
    pub(crate) fn find(
        &self,
        (method, path): (&Method, &str),
        context: &RequestContext<'_>,
        (now_seconds, is_local): (u64, bool),
    ) -> Option<Access> {
        let (signed_at, access) = self.good?;
        let is_known = is_likely(method)
            && context.ms_date == Some(&*self.date)
            && path.as_bytes() == self.path
            && is_same(context.authorization?, &self.authorization)
            && (is_local || !self.was_local)
            && signed_at.abs_diff(now_seconds) <= CLOCK_SKEW_MAX_SECONDS;
        is_known.then_some(access)
    }

    /// Remembers credentials that were found good. Only signatures are: sessions and tokens end.
    pub(crate) fn keep(
        &mut self,
        (method, path): (&Method, &str),
        context: &RequestContext<'_>,
        (access, is_local): (Access, bool),
    ) {
        if !is_likely(method) {
            return;
        }
        self.good = None;
        let (Some(date), Some(authorization)) = (context.ms_date, context.authorization) else {
            return;
        };
        if !matches!(parse_credentials(authorization), Ok(Credentials::Master(_))) {
            return;
        }
        let signed_at = std::str::from_utf8(date).ok().and_then(parse_http_date);
        for (kept, new) in [
            (&mut self.path, path.as_bytes()),
            (&mut self.date, date),
            (&mut self.authorization, authorization),
        ] {
            kept.clear();
            kept.extend_from_slice(new);
        }
        self.was_local = is_local;
        self.good = signed_at.map(|signed_at| (signed_at, access));
    }
}

/// Whether requests by this method come again as they are: all others name an item in their path, mostly another one.
fn is_likely(method: &Method) -> bool {
    *method == Method::POST
}

/// Compares to the end whatever differs: behind a proxy many clients share a connection, and none may learn from the time it takes how
/// much of another's signature it has guessed.
fn is_same(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len()
        && left.iter().zip(right).fold(0, |differs, (left, right)| differs | (left ^ right)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_794_770_659;
    const DATE: &[u8] = b"Sun, 15 Nov 2026 19:24:19 GMT";
    const GOOD: &[u8] = b"type=master&ver=1.0&sig=a+b/c=";
    const PATH: (&Method, &str) = (&Method::POST, "/dbs/d/colls/c/docs");

    fn context<'a>(date: &'a [u8], authorization: &'a [u8]) -> RequestContext<'a> {
        RequestContext {
            ms_date: Some(date),
            authorization: Some(authorization),
            ..RequestContext::default()
        }
    }

    #[test]
    fn the_very_same_credentials_are_known_again_and_no_others() {
        let mut shown = ShownBefore::default();
        let good = context(DATE, GOOD);
        assert_eq!(shown.find(PATH, &good, (NOW, true)), None);
        shown.keep(PATH, &good, (Access::ReadOnly, true));
        assert_eq!(shown.find(PATH, &good, (NOW, true)), Some(Access::ReadOnly));
        assert_eq!(shown.find((&Method::POST, "/dbs/d/colls/d/docs"), &good, (NOW, true)), None);
        let later = context(b"Sun, 15 Nov 2026 19:24:20 GMT", GOOD);
        assert_eq!(shown.find(PATH, &later, (NOW, true)), None);
        for other in [&b"type=master&ver=1.0&sig=a+b/d="[..], &GOOD[..GOOD.len() - 1], b""] {
            assert_eq!(shown.find(PATH, &context(DATE, other), (NOW, true)), None);
        }
        let without = RequestContext { authorization: None, ..context(DATE, GOOD) };
        assert_eq!(shown.find(PATH, &without, (NOW, true)), None);
        let put = (&Method::PUT, PATH.1);
        assert_eq!(shown.find(put, &good, (NOW, true)), None);
        shown.keep(put, &good, (Access::ReadWrite, true));
        assert_eq!(shown.find(PATH, &good, (NOW, true)), Some(Access::ReadOnly));
        // What only this machine's own user may show is not good for others; what others may show is good for all.
        assert_eq!(shown.find(PATH, &good, (NOW, false)), None);
        shown.keep(PATH, &good, (Access::ReadOnly, false));
        assert_eq!(shown.find(PATH, &good, (NOW, false)), Some(Access::ReadOnly));
        // They grow old like all signatures.
        let late = NOW + CLOCK_SKEW_MAX_SECONDS;
        assert_eq!(shown.find(PATH, &good, (late, true)), Some(Access::ReadOnly));
        assert_eq!(shown.find(PATH, &good, (late + 1, true)), None);
    }

    #[test]
    fn what_ends_is_not_remembered() {
        let mut shown = ShownBefore::default();
        for header in [
            &b"type=session&ver=1.0&sig=x"[..],
            b"type=resource&ver=1&sig=x",
            b"type=aad&ver=1.0&sig=x",
        ] {
            // Whatever was remembered before is forgotten, too.
            shown.keep(PATH, &context(DATE, GOOD), (Access::ReadWrite, true));
            let ends = context(DATE, header);
            shown.keep(PATH, &ends, (Access::ReadWrite, true));
            assert_eq!(shown.find(PATH, &ends, (NOW, true)), None);
            assert_eq!(shown.find(PATH, &context(DATE, GOOD), (NOW, true)), None);
        }
    }
}
