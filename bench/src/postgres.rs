//! The rows on PostgreSQL: a table of jsonb per container, one prepared statement per request.
//!
//! `Indexes::Chosen` has expression indexes for exactly these requests, `Indexes::Everything` one GIN index over the whole
//! document, which is the nearest thing to indexing every path without knowing the queries.

use std::error::Error;
use std::time::Instant;

use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::{SinkExt as _, pin_mut};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type};
use tokio_postgres::{NoTls, Statement};

use crate::Outcome;
use crate::armilla_data::Loaded;
use crate::blog::{Blog, NewItem};
use crate::cell::{Brought, Client};
use crate::dataset::{Dataset, property};
use crate::processes;
use crate::rows::{Act, Collection, Design, Row, posts, users};

/// What COPY is fed at a time.
const COPY_BYTES: usize = 200_000;

/// Which indexes the tables have beside the primary key of partition key and id.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Indexes {
    Chosen,
    Everything,
}

impl Indexes {
    fn schema(self) -> &'static str {
        if self == Self::Chosen { "chosen" } else { "everything" }
    }
}

/// A database server.
pub(crate) struct Postgres {
    address: String,
    pub(crate) indexes: Indexes,
}

/// An operation of a row: what the statement is given.
pub(crate) enum Given {
    Nothing,
    Key(String),
    Item(NewItem),
}

impl Postgres {
    pub(crate) fn new(address: &str, indexes: Indexes) -> Self {
        Self { address: address.to_owned(), indexes }
    }

    async fn session(&self) -> Outcome<tokio_postgres::Client> {
        let (session, connection) = tokio_postgres::connect(&self.address, NoTls).await?;
        tokio::spawn(async move {
            // It ends with its session; what went wrong is told to whoever waits for an answer.
            let _ = connection.await;
        });
        let schema = self.indexes.schema();
        session
            .batch_execute(&format!(
                "create schema if not exists {schema}; set search_path = {schema}"
            ))
            .await?;
        Ok(session)
    }

    /// Opens a connection that is prepared for one row.
    pub(crate) async fn connect(&self, row: Row) -> Outcome<PostgresClient> {
        let session = self.session().await?;
        let statement = session.prepare(&statement(row, self.indexes)).await?;
        Ok(PostgresClient { session, statement })
    }

    /// The `nth` operation of a row.
    pub(crate) fn operation(blog: &Blog, row: Row, run: u64, nth: u64) -> Given {
        match row.act {
            Act::Q1 | Act::Q3 => Given::Key(blog.pick_user(row.act, nth)),
            Act::Q2 | Act::Q4 | Act::Q5 => Given::Key(blog.pick_post(row.act, nth)),
            Act::Q6 => Given::Nothing,
            act => Given::Item(blog.written(row.design, act, run, nth)),
        }
    }

    /// Makes a table with COPY and then its indexes.
    pub(crate) async fn load(
        &self,
        dataset: &Dataset,
        collection: &Collection,
        process: u32,
    ) -> Outcome<Loaded> {
        let session = self.session().await?;
        let name = collection.name;
        session
            .batch_execute(&format!(
                "create table {name} (pk text not null, id text not null, doc jsonb not null)"
            ))
            .await?;
        let (before, start) = (processes::used(process), Instant::now());
        let items = copy(&session, dataset, collection).await?;
        session.batch_execute(&format!("alter table {name} add primary key (pk, id)")).await?;
        session.batch_execute(&self.index(name)).await?;
        let seconds = start.elapsed().as_secs_f64();
        let used = processes::used_since(process, &before).as_secs_f64();
        session.batch_execute(&format!("vacuum analyze {name}")).await?;
        let size = session
            .query_one("select pg_total_relation_size($1::text::regclass)", &[&name])
            .await?;
        let bytes = u64::try_from(size.get::<_, i64>(0)).ok();
        Ok(Loaded { container: name.to_owned(), items, seconds, used, bytes })
    }

    fn index(&self, table: &str) -> String {
        match self.indexes {
            Indexes::Everything => {
                format!("create index on {table} using gin (doc jsonb_path_ops)")
            }
            Indexes::Chosen if table == "users" => String::new(),
            Indexes::Chosen => format!(
                "create index on {table} (pk, (doc->>'type'));
                 create index on {table} ((doc->>'userId')) where doc->>'type' = 'post';
                 create index on {table} ((doc->>'creationDate') desc) where doc->>'type' = 'post'"
            ),
        }
    }

    /// Writes everything to the tables' files, so that no cell pays for the load.
    pub(crate) async fn settle(&self) -> Outcome<()> {
        self.session().await?.batch_execute("checkpoint").await?;
        Ok(())
    }

    /// What the server calls itself.
    pub(crate) async fn version(&self) -> Outcome<String> {
        Ok(self.session().await?.query_one("show server_version", &[]).await?.get(0))
    }
}

async fn copy(
    session: &tokio_postgres::Client,
    dataset: &Dataset,
    collection: &Collection,
) -> Outcome<u64> {
    let sink = session.copy_in::<_, Bytes>(&format!("copy {} from stdin", collection.name)).await?;
    pin_mut!(sink);
    let mut lines = dataset.lines(collection)?;
    let (mut line, mut items, mut waiting) = (String::new(), 0, BytesMut::new());
    while lines.next(&mut line)? {
        for column in [property(&line, collection.key)?, property(&line, "id")?] {
            waiting.extend_from_slice(column.as_bytes());
            waiting.put_u8(b'\t');
        }
        waiting.extend_from_slice(line.as_bytes());
        waiting.put_u8(b'\n');
        items += 1;
        if waiting.len() > COPY_BYTES {
            sink.send(waiting.split().freeze()).await?;
        }
    }
    sink.send(waiting.freeze()).await?;
    sink.finish().await?;
    Ok(items)
}

/// One statement for a whole request: joins where the design is normalised, one transaction for item and counter.
fn statement(row: Row, indexes: Indexes) -> String {
    let gin = indexes == Indexes::Everything;
    let by_user = if gin {
        "p.doc @> jsonb_build_object('type', 'post', 'userId', $1::text)"
    } else {
        "p.doc->>'type' = 'post' and p.doc->>'userId' = $1"
    };
    let is_post = if gin { r#"doc @> '{"type":"post"}'"# } else { "doc->>'type' = 'post'" };
    let counts = "u.doc->>'username', \
        (select count(*) from posts_v1 c where c.pk = p.pk and c.doc->>'type' = 'comment'), \
        (select count(*) from posts_v1 c where c.pk = p.pk and c.doc->>'type' = 'like')";
    let author = "join users u on u.pk = p.doc->>'userId'";
    let kind = if row.act == Act::Q4 { "comment" } else { "like" };
    let newest = format!("where {is_post} order by doc->>'creationDate' desc limit 100");
    let upsert = |table| {
        format!(
            "insert into {table} (pk, id, doc) values ($1, $2, $3) on conflict (pk, id) do update set doc = excluded.doc"
        )
    };
    let (posts, users) = (posts(row.design), users(row.design));
    match (row.design, row.act) {
        (_, Act::Q1) => format!("select doc from {users} where pk = $1 and id = $1"),
        (Design::V1, Act::Q2) => {
            format!("select p.doc, {counts} from posts_v1 p {author} where p.pk = $1 and p.id = $1")
        }
        (Design::V1, Act::Q3) => {
            format!("select p.doc, {counts} from posts_v1 p {author} where {by_user}")
        }
        (Design::V1, Act::Q4 | Act::Q5) => format!(
            "select p.doc, u.doc->>'username' from posts_v1 p {author} where p.pk = $1 and p.doc->>'type' = '{kind}'"
        ),
        (Design::V1, Act::Q6) => format!(
            "select p.doc, {counts} from (select pk, doc from posts_v1 {newest}) p {author} order by p.doc->>'creationDate' desc"
        ),
        (_, Act::Q2) => "select doc from posts where pk = $1 and id = $1".to_owned(),
        (Design::V3, Act::Q3) => {
            "select p.doc from users_v3 p where p.pk = $1 and p.doc->>'type' = 'post'".to_owned()
        }
        (_, Act::Q3) => format!("select p.doc from posts p where {by_user}"),
        (_, Act::Q4 | Act::Q5) => {
            format!("select doc from posts where pk = $1 and doc->>'type' = '{kind}'")
        }
        (Design::V3, Act::Q6) => {
            "select doc from feed where pk = 'post' and doc->>'type' = 'post' \
            order by doc->>'creationDate' desc limit 100"
                .to_owned()
        }
        (_, Act::Q6) => format!("select doc from posts {newest}"),
        (_, Act::C1) => upsert(users),
        (_, Act::C2) => upsert(posts),
        (Design::V1, _) => "insert into posts_v1 (pk, id, doc) values ($1, $2, $3)".to_owned(),
        (_, act) => {
            let counter = if act == Act::C3 { "commentCount" } else { "likeCount" };
            format!(
                "with counted as (update posts set doc = jsonb_set(doc, '{{{counter}}}', to_jsonb((doc->>'{counter}')::int + 1)) \
                 where pk = $1 and id = $1) insert into posts (pk, id, doc) values ($1, $2, $3)"
            )
        }
    }
}

/// A connection with its statement.
pub(crate) struct PostgresClient {
    session: tokio_postgres::Client,
    statement: Statement,
}

impl Client for PostgresClient {
    type Operation = Given;

    async fn perform(&mut self, given: &Given) -> Result<Brought, String> {
        let told = |error: tokio_postgres::Error| {
            error.as_db_error().map_or_else(|| error.to_string(), ToString::to_string)
        };
        let mut brought = Brought { trips: 1, ..Brought::default() };
        let (session, statement) = (&self.session, &self.statement);
        let rows = match given {
            Given::Item(NewItem { key, id, body }) => {
                brought.rows = 1;
                session.execute(statement, &[key, id, &JsonText(body)]).await.map_err(told)?;
                return Ok(brought);
            }
            Given::Key(key) => session.query(statement, &[key]).await.map_err(told)?,
            Given::Nothing => session.query(statement, &[]).await.map_err(told)?,
        };
        brought.rows = u64::try_from(rows.len()).unwrap_or(u64::MAX);
        for row in &rows {
            for column in 0..row.len() {
                brought.bytes += row.get::<_, Length>(column).0;
            }
        }
        Ok(brought)
    }
}

/// A column of which only the size is taken, so that the client decodes nothing.
struct Length(u64);

impl<'a> FromSql<'a> for Length {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(u64::try_from(raw.len())?))
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(0))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// JSON text in the binary form of jsonb, which is a version and the text.
#[derive(Debug)]
struct JsonText<'a>(&'a str);

impl ToSql for JsonText<'_> {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        const VERSION: u8 = 1;
        out.put_u8(VERSION);
        out.extend_from_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::JSONB
    }

    tokio_postgres::types::to_sql_checked!();
}
