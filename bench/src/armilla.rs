//! The rows on Armilla, in Cosmos DB's protocol over plain HTTP.
//!
//! A cross-partition ORDER BY goes the way of the SDKs: the plan is asked for, the rewritten query goes to each range, the client
//! merges. Requests of the normalised design that need several exchanges make them one after the other on their connection.

use std::rc::Rc;
use std::time::Duration;

use memchr::memmem::Finder;
use serde_json::Value;

use crate::Outcome;
use crate::blog::Blog;
use crate::cell::{Brought, Client};
use crate::exchange::{Answer, Connection};
use crate::rows::{Act, Design, Row, posts, users};
use crate::signed::{Question, Scope, Signer, Unsigned};

const COUNT: &str = "SELECT VALUE COUNT(1) FROM c WHERE c.postId = @p AND c.type = @t";
const RECENT: &str = "SELECT TOP 100 * FROM p WHERE p.type = 'post' ORDER BY p.creationDate DESC";
const BY_USER: &str = "SELECT * FROM p WHERE p.type = 'post' AND p.userId = @u";
const COMMENTS: &str = "SELECT * FROM c WHERE c.postId = @p AND c.type = 'comment'";
const LIKES: &str = "SELECT * FROM c WHERE c.postId = @p AND c.type = 'like'";
const RECENT_ROWS: usize = 100;
/// Where the filter of a resumed query goes in a rewritten one.
const FILTER: &str = "{documentdb-formattableorderbyquery-filter}";

/// An operation of a row.
pub(crate) enum Operation {
    /// One exchange, made beforehand.
    Whole { request: Vec<u8>, is_query: bool },
    /// Several, of which later ones depend on earlier ones.
    Composed { row: Row, of: String },
}

/// The server and one of its databases.
pub(crate) struct Armilla {
    pub(crate) signer: Signer,
}

impl Armilla {
    /// The `nth` operation of a row. `run` keeps new ids apart from those of other cells.
    pub(crate) fn operation(&self, blog: &Blog, row: Row, run: u64, nth: u64) -> Operation {
        let Row { design, act } = row;
        let of = match act {
            Act::Q1 | Act::Q3 => blog.pick_user(act, nth),
            Act::Q2 | Act::Q4 | Act::Q5 => blog.pick_post(act, nth),
            _ => String::new(),
        };
        if row.is_composed() {
            return Operation::Composed { row, of };
        }
        if act.writes() {
            let request = self.write(blog, row, run, nth);
            return Operation::Whole { request, is_query: false };
        }
        let query = |container, key: &str, text| {
            let parameters = [("@p", &*of), ("@u", &*of)];
            let used = if text == BY_USER { &parameters[1..] } else { &parameters[..1] };
            let question = Question { text, parameters: if text == RECENT { &[] } else { used } };
            let scope = if key.is_empty() { Scope::Across } else { Scope::Key(key) };
            Operation::Whole {
                request: self.signer.query(container, scope, &question, None),
                is_query: true,
            }
        };
        match (design, act) {
            (_, Act::Q1) => {
                Operation::Whole { request: self.signer.read(users(design), &of), is_query: false }
            }
            (_, Act::Q2) => {
                Operation::Whole { request: self.signer.read(posts(design), &of), is_query: false }
            }
            (Design::V3, Act::Q3) => query("users_v3", &of, BY_USER),
            (_, Act::Q3) => query(posts(design), "", BY_USER),
            (_, Act::Q4) => query(posts(design), &of, COMMENTS),
            (_, Act::Q5) => query(posts(design), &of, LIKES),
            _ => query("feed", "post", RECENT),
        }
    }

    fn write(&self, blog: &Blog, row: Row, run: u64, nth: u64) -> Vec<u8> {
        let Row { design, act } = row;
        let new = blog.written(design, act, run, nth);
        match (design, act) {
            (_, Act::C1) => self.signer.upsert(users(design), &new.key, &new.body),
            (_, Act::C2) => self.signer.upsert(posts(design), &new.key, &new.body),
            (Design::V1, _) => self.signer.create(posts(design), &new.key, &new.body),
            _ => {
                let procedure = if act == Act::C3 { "createComment" } else { "createLike" };
                let arguments = format!("[\"{}\",{}]", new.key, new.body);
                self.signer.execute(posts(design), procedure, &new.key, &arguments)
            }
        }
    }

    /// Opens a connection.
    pub(crate) async fn connect(self: &Rc<Self>) -> Outcome<ArmillaClient> {
        let connection = Connection::open(self.signer.address()).await?;
        Ok(ArmillaClient { server: Rc::clone(self), connection, ranges: Vec::new() })
    }
}

/// A connection to the server.
pub(crate) struct ArmillaClient {
    server: Rc<Armilla>,
    connection: Connection,
    /// The physical ranges of the container of posts, once they were asked for.
    ranges: Vec<(&'static str, Vec<String>)>,
}

impl Client for ArmillaClient {
    type Operation = Operation;

    async fn perform(&mut self, operation: &Operation) -> Result<Brought, String> {
        let mut brought = Brought::default();
        match operation {
            Operation::Whole { request, is_query } => {
                let answer = self.call(request, &mut brought).await?;
                if *is_query && answer.continuation.is_some() {
                    return Err("a page did not hold every row".into());
                }
                brought.rows = answer.items.filter(|_| *is_query).unwrap_or(1);
            }
            Operation::Composed { row, of } => self.compose(*row, of, &mut brought).await?,
        }
        Ok(brought)
    }
}

impl ArmillaClient {
    /// The body of the last answer.
    pub(crate) fn body(&self) -> &[u8] {
        self.connection.body()
    }

    /// Sends a request, again after the time that a throttled answer names; any other refusal is an error.
    pub(crate) async fn call(
        &mut self,
        request: &[u8],
        brought: &mut Brought,
    ) -> Result<Answer, String> {
        loop {
            let answer =
                self.connection.exchange(request).await.map_err(|error| error.to_string())?;
            brought.trips += 1;
            brought.charge += answer.charge;
            brought.bytes += answer.bytes;
            if matches!(answer.status, 429 | 449) {
                brought.throttled += 1;
                tokio::time::sleep(Duration::from_millis(answer.retry_after_ms.max(1))).await;
            } else if answer.status / 100 == 2 {
                return Ok(answer);
            } else {
                let body = String::from_utf8_lossy(self.body());
                return Err(format!(
                    "{}: {}",
                    answer.status,
                    body.chars().take(300).collect::<String>()
                ));
            }
        }
    }

    async fn compose(&mut self, row: Row, of: &str, brought: &mut Brought) -> Result<(), String> {
        let posts = posts(row.design);
        let mut rows = 1;
        match row.act {
            Act::Q2 => {
                let request = self.server.signer.read(posts, of);
                self.call(&request, brought).await?;
                let author =
                    texts(self.body(), "userId").last().ok_or("a post without an author")?;
                self.read_user(&author, brought).await?;
                self.count(posts, of, brought).await?;
            }
            Act::Q3 => {
                let question = Question { text: BY_USER, parameters: &[("@u", of)] };
                let ids = self.query(posts, Scope::Across, &question, "postId", brought).await?;
                self.read_user(of, brought).await?;
                rows = ids.len();
                for id in &ids {
                    self.count(posts, id, brought).await?;
                }
            }
            Act::Q4 | Act::Q5 => {
                let text = if row.act == Act::Q4 { COMMENTS } else { LIKES };
                let question = Question { text, parameters: &[("@p", of)] };
                let authors =
                    self.query(posts, Scope::Key(of), &question, "userId", brought).await?;
                rows = authors.len();
                for author in &authors {
                    self.read_user(author, brought).await?;
                }
            }
            _ => {
                let newest = self.newest(posts, brought).await?;
                rows = newest.len();
                if row.design == Design::V1 {
                    for (post, author) in &newest {
                        self.read_user(author, brought).await?;
                        self.count(posts, post, brought).await?;
                    }
                }
            }
        }
        brought.rows = u64::try_from(rows).unwrap_or(u64::MAX);
        Ok(())
    }

    async fn read_user(&mut self, id: &str, brought: &mut Brought) -> Result<(), String> {
        let request = self.server.signer.read("users", id);
        self.call(&request, brought).await.map(drop)
    }

    /// Comments and likes of a post.
    async fn count(
        &mut self,
        posts: &str,
        post: &str,
        brought: &mut Brought,
    ) -> Result<(), String> {
        for kind in ["comment", "like"] {
            let question = Question { text: COUNT, parameters: &[("@p", post), ("@t", kind)] };
            let request = self.server.signer.query(posts, Scope::Key(post), &question, None);
            self.call(&request, brought).await?;
        }
        Ok(())
    }

    /// Every value of one property over all pages.
    async fn query(
        &mut self,
        container: &str,
        scope: Scope<'_>,
        question: &Question<'_>,
        property: &str,
        brought: &mut Brought,
    ) -> Result<Vec<String>, String> {
        let (mut values, mut token) = (Vec::new(), None);
        loop {
            let request = self.server.signer.query(container, scope, question, token.as_deref());
            let answer = self.call(&request, brought).await?;
            values.extend(texts(self.body(), property));
            token = answer.continuation;
            if token.is_none() {
                return Ok(values);
            }
        }
    }

    /// Ids and authors of the newest posts, merged over all ranges as SDKs do.
    async fn newest(
        &mut self,
        posts: &'static str,
        brought: &mut Brought,
    ) -> Result<Vec<(String, String)>, String> {
        let request = self.server.signer.plan(posts, RECENT);
        self.call(&request, brought).await?;
        let plan = parsed(self.body())?;
        let rewritten = plan["queryInfo"]["rewrittenQuery"].as_str().unwrap_or_default();
        let text = if rewritten.is_empty() {
            RECENT.to_owned()
        } else {
            rewritten.replace(FILTER, "true")
        };
        let mut found = Vec::new();
        for range in self.ranges(posts, brought).await? {
            let (mut token, mut of_range) = (None::<String>, 0);
            loop {
                let question = Question { text: &text, parameters: &[] };
                let scope = Scope::Range(&range);
                let request = self.server.signer.query(posts, scope, &question, token.as_deref());
                let answer = self.call(&request, brought).await?;
                let before = found.len();
                add_ordered(self.body(), &mut found)?;
                of_range += found.len() - before;
                token = answer.continuation;
                if token.is_none() || of_range >= RECENT_ROWS {
                    break;
                }
            }
        }
        found.sort_by(|one, other| other.0.cmp(&one.0));
        found.truncate(RECENT_ROWS);
        Ok(found.into_iter().map(|(_, id, author)| (id, author)).collect())
    }

    async fn ranges(
        &mut self,
        posts: &'static str,
        brought: &mut Brought,
    ) -> Result<Vec<String>, String> {
        if let Some((_, known)) = self.ranges.iter().find(|(container, _)| *container == posts) {
            return Ok(known.clone());
        }
        let link = &self.server.signer.container(posts);
        let (kind, scope) = ("pkranges", Scope::None);
        let list =
            Unsigned { verb: "GET", kind, link, is_list: true, scope, headers: "", body: b"" };
        let request = self.server.signer.sign(&list);
        self.call(&request, brought).await?;
        let listed = parsed(self.body())?;
        let listed = listed["PartitionKeyRanges"].as_array().ok_or("no list of ranges")?;
        let ids: Vec<_> =
            listed.iter().filter_map(|range| Some(range["id"].as_str()?.to_owned())).collect();
        self.ranges.push((posts, ids.clone()));
        Ok(ids)
    }
}

fn parsed(body: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(body).map_err(|error| error.to_string())
}

/// Order, id and author of a row of a rewritten query.
type Ordered = (String, String, String);

/// Adds the rows of a page of a rewritten query. Of each no more is read than what merging needs: this thread serves all connections, and
/// what it reads in vain the servers would wait for.
fn add_ordered(page: &[u8], found: &mut Vec<Ordered>) -> Result<(), String> {
    let rows = Finder::new("\"orderByItems\":[{\"item\":");
    let starts: Vec<_> = rows.find_iter(page).collect();
    for (nth, start) in starts.iter().enumerate() {
        let end = starts.get(nth + 1).copied().unwrap_or(page.len());
        let row = page.get(*start..end).unwrap_or_default();
        let first =
            |property| texts(row, property).next().ok_or("a row without its order, id or author");
        found.push((first("item")?, first("id")?, first("userId")?));
    }
    Ok(())
}

/// Every text of a property anywhere in a body. Texts of this data need no escapes.
fn texts<'b>(body: &'b [u8], property: &str) -> impl Iterator<Item = String> + use<'b> {
    let finder = Finder::new(&format!("\"{property}\":\"")).into_owned();
    let mut at = 0;
    std::iter::from_fn(move || {
        let value = at + finder.find(body.get(at..)?)? + finder.needle().len();
        let length = memchr::memchr(b'"', body.get(value..)?)?;
        at = value + length;
        Some(String::from_utf8_lossy(body.get(value..at)?).into_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_page_are_read_as_far_as_merging_needs() {
        let page = br#"{"_rid":"r","Documents":[{"_rid":"a","orderByItems":[{"item":"2024"}],"payload":{"id":"p1","userId":"u1","x":"id"}},{"_rid":"b","orderByItems":[{"item":"2023"}],"payload":{"type":"post","userId":"u2","id":"p2"}}],"_count":2}"#;
        let mut found = Vec::new();
        add_ordered(page, &mut found).unwrap();
        let row = |order: &str, id: &str, user: &str| (order.into(), id.into(), user.into());
        assert_eq!(found, [row("2024", "p1", "u1"), row("2023", "p2", "u2")]);
        assert!(
            add_ordered(br#"{"orderByItems":[{"item":"2024"}],"payload":{}}"#, &mut found).is_err()
        );
        assert!(texts(page, "none").next().is_none());
    }
}
