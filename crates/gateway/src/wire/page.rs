//! Pages of the catalog's feeds and queries.
//!
//! Every resource has a number that grows with its creation. A feed runs in the order of these
//! numbers and its token is the last one handed out, so resources that come or go between two
//! pages move nothing. A query has no such order; its token counts rows. Both go out sealed for the
//! list they are of, and those of a query for its body too.

use crate::auth::{Belongs, Seal};
use crate::reply::{FeedBody, FeedKind};
use crate::{Call, Reply, RequestContext};
use armilla_model::charge::RequestCharge;
use armilla_model::limits::{FEED_PAGE_DEFAULT, PAGE_SIZE_MAX, QUERY_PAGE_DEFAULT};
use armilla_model::value::{Object, Value};
use armilla_model::{Error, Result};

const AFTER: &str = "after:";
const SKIP: &str = "skip:";

/// A page of a feed: the rows behind the token, in the order of their numbers.
pub(crate) fn list(
    seal: &Seal,
    call: &Call<'_>,
    kind: FeedKind,
    rid: &str,
    mut rows: Vec<(u32, Object)>,
) -> Result<Reply> {
    let belongs = Belongs { kind: kind.name(), owner: rid, scope: b"" };
    let after = token(seal, belongs, call.context, AFTER)?;
    rows.sort_by_key(|(number, _)| *number);
    let start = after.map_or(0, |after| rows.partition_point(|row| u64::from(row.0) <= after));
    let mut page = Page::new(kind, rid, count_max(call.context, FEED_PAGE_DEFAULT));
    let mut last = None;
    for (number, row) in &rows[start..] {
        if !page.has_room() {
            let next = last.map(|last| seal.close(belongs, &format!("{AFTER}{last}")));
            return Ok(page.reply(next));
        }
        page.body.push_with(|out| row.write_json(out));
        last = Some(number);
    }
    Ok(page.reply(None))
}

/// A page of a query's answer.
pub(crate) fn query(
    seal: &Seal,
    call: &Call<'_>,
    kind: FeedKind,
    rid: &str,
    rows: &[Value],
) -> Result<Reply> {
    let belongs = Belongs { kind: kind.name(), owner: rid, scope: &call.body };
    let skipped = token(seal, belongs, call.context, SKIP)?.unwrap_or(0);
    let start = usize::try_from(skipped).unwrap_or(usize::MAX).min(rows.len());
    let mut page = Page::new(kind, rid, count_max(call.context, QUERY_PAGE_DEFAULT));
    for row in &rows[start..] {
        if !page.has_room() {
            let next = start + page.body.count();
            return Ok(page.reply(Some(seal.close(belongs, &format!("{SKIP}{next}")))));
        }
        page.body.push_with(|out| row.write_json(out));
    }
    Ok(page.reply(None))
}

struct Page {
    body: FeedBody,
    count_max: usize,
}

impl Page {
    fn new(kind: FeedKind, rid: &str, count_max: usize) -> Self {
        Self { body: FeedBody::new(kind, rid), count_max }
    }

    /// Whether another row may come; the first one always may.
    fn has_room(&self) -> bool {
        self.body.count() < self.count_max && self.body.size() < PAGE_SIZE_MAX
    }

    fn reply(self, continuation: Option<String>) -> Reply {
        let reply = Reply::feed(self.body).charge(RequestCharge::ONE);
        reply.continuation(continuation)
    }
}

fn count_max(context: &RequestContext<'_>, default: usize) -> usize {
    context.max_item_count.map_or(default, |count| count as usize).max(1)
}

fn token(
    seal: &Seal,
    belongs: Belongs<'_>,
    context: &RequestContext<'_>,
    prefix: &str,
) -> Result<Option<u64>> {
    let Some(sealed) = context.continuation else { return Ok(None) };
    let token = seal.open(belongs, sealed)?;
    let number = token.strip_prefix(prefix).and_then(|number| number.parse().ok());
    number.map(Some).ok_or_else(|| {
        Error::bad_request(format!("'{token}' is not a continuation token of this feed."))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{Access, Authenticator, MasterKeys, Principal, WellKnownKey};
    use crate::routes::Operation;
    use bytes::Bytes;

    const OWNER: &Principal = &Principal::Account(Access::ReadWrite);

    fn context(continuation: Option<&str>, count: u32) -> RequestContext<'_> {
        RequestContext { continuation, max_item_count: Some(count), ..RequestContext::default() }
    }

    fn call<'a>(context: &'a RequestContext<'a>) -> Call<'a> {
        Call { operation: Operation::ListDatabases, context, principal: OWNER, body: Bytes::new() }
    }

    fn taken(reply: Reply) -> (String, Option<String>) {
        let answer = reply.into_answer(b"a");
        (String::from_utf8(answer.body.to_vec()).unwrap(), answer.facts.continuation)
    }

    fn seal() -> Seal {
        let keys = MasterKeys::new(WellKnownKey::Nowhere);
        Authenticator::new(keys, &[7; 32]).seal().clone()
    }

    fn rows(numbers: &[u32]) -> Vec<(u32, Object)> {
        let row = |number: &u32| (*number, Object::of([("n", i64::from(*number).into())]));
        numbers.iter().map(row).collect()
    }

    #[test]
    fn feeds_go_on_behind_the_last_row_whatever_was_deleted() {
        let list = |token, count, numbers: &[u32]| {
            taken(
                list(
                    &seal(),
                    &call(&context(token, count)),
                    FeedKind::Databases,
                    "",
                    rows(numbers),
                )
                .unwrap(),
            )
        };
        let (first, token) = list(None, 2, &[7, 3, 5]);
        assert_eq!(first, r#"{"_rid":"","Databases":[{"n":3},{"n":5}],"_count":2}"#);
        let (second, end) = list(token.as_deref(), 2, &[7, 3]);
        assert_eq!(second, r#"{"_rid":"","Databases":[{"n":7}],"_count":1}"#);
        assert_eq!(end, None);
    }

    #[test]
    fn a_full_last_page_has_no_token() {
        let reply =
            list(&seal(), &call(&context(None, 3)), FeedKind::Databases, "", rows(&[1, 2, 3]))
                .unwrap();
        assert_eq!(taken(reply).1, None);
    }

    #[test]
    fn queries_count_their_rows() {
        let values: Vec<Value> = (0..3).map(Value::from).collect();
        let page = |token: Option<&str>, values: &[Value]| {
            taken(query(&seal(), &call(&context(token, 1)), FeedKind::Users, "", values).unwrap())
        };
        let (body, token) = page(None, &values);
        assert_eq!(body, r#"{"_rid":"","Users":[0],"_count":1}"#);
        assert!(token.as_deref().unwrap().starts_with("skip:1."));
        let (body, _) = page(token.as_deref(), &values);
        assert_eq!(body, r#"{"_rid":"","Users":[1],"_count":1}"#);
        let (beyond, _) = page(token.as_deref(), &[]);
        assert_eq!(beyond, r#"{"_rid":"","Users":[],"_count":0}"#);
    }

    #[test]
    fn foreign_tokens_are_refused() {
        for token in ["", "7", "after:", "after:-1", "skip:1", "after:99999999999999999999"] {
            let outcome =
                list(&seal(), &call(&context(Some(token), 1)), FeedKind::Databases, "", Vec::new());
            assert!(matches!(outcome, Err(Error::BadRequest(_))), "{token}");
        }
        let (_, token) = taken(
            list(&seal(), &call(&context(None, 1)), FeedKind::Users, "a", rows(&[1, 2])).unwrap(),
        );
        for (kind, rid, good) in [
            (FeedKind::Users, "a", true),
            (FeedKind::Users, "b", false),
            (FeedKind::Offers, "a", false),
        ] {
            let outcome =
                list(&seal(), &call(&context(token.as_deref(), 1)), kind, rid, rows(&[1, 2]));
            assert_eq!(outcome.is_ok(), good, "{kind:?} of {rid}");
        }
    }
}
