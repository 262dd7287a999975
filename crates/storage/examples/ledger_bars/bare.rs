//! The database alone: single-row inserts and a copy, each by its own protocol with nothing in between.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use tokio::runtime::{Builder, Runtime};
use tokio::task::LocalSet;
use tokio_postgres::{Client, NoTls};

use super::ROW_BYTES;

const TABLE: &str = "create table if not exists bare (id bigserial primary key, row bytea not null); \
     alter table bare alter column row set storage external; truncate bare";
const INSERT: &str = "insert into bare (row) values ($1)";

/// A database with an empty table for bare rows.
pub(super) struct Bare {
    url: String,
    runtime: Runtime,
}

impl Bare {
    pub(super) fn open(url: &str) -> Self {
        run_sql(url, TABLE);
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        Self { url: url.to_owned(), runtime }
    }

    /// So many connections insert for a time; how many rows.
    pub(super) fn crowd(&self, connections: usize, time: Duration) -> u64 {
        let count = Rc::new(Cell::new(0));
        let all = LocalSet::new();
        for number in 0..connections {
            let (count, url) = (Rc::clone(&count), self.url.clone());
            all.spawn_local(async move {
                let client = connect(&url).await;
                let statement = client.prepare(INSERT).await.unwrap();
                let row = row(number as u64);
                let end = Instant::now() + time;
                while Instant::now() < end {
                    client.execute(&statement, &[&row]).await.unwrap();
                    count.set(count.get() + 1);
                }
            });
        }
        self.runtime.block_on(all);
        count.get()
    }

    /// One connection inserts for a time; the median of its waits.
    pub(super) fn lone(&self, time: Duration) -> Duration {
        let mut waits = Vec::new();
        LocalSet::new().block_on(&self.runtime, async {
            let client = connect(&self.url).await;
            let statement = client.prepare(INSERT).await.unwrap();
            let row = row(1);
            let end = Instant::now() + time;
            while Instant::now() < end {
                let begun = Instant::now();
                client.execute(&statement, &[&row]).await.unwrap();
                waits.push(begun.elapsed());
            }
        });
        super::writers::median(&mut waits)
    }

    /// Reads the base out in the order of its keys; how many bytes.
    pub(super) fn copy_out(&self) -> u64 {
        LocalSet::new().block_on(&self.runtime, async {
            let client = connect(&self.url).await;
            let text = "copy (select space, key, value from armilla.base order by home, space, key) to stdout (format binary)";
            let mut rows = std::pin::pin!(client.copy_out(text).await.unwrap());
            let mut bytes = 0;
            while let Some(row) = rows.next().await {
                bytes += row.unwrap().len() as u64;
            }
            bytes
        })
    }
}

/// Bytes that no codec makes shorter.
pub(super) fn row(seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..ROW_BYTES).map(|_| random.u8(..)).collect()
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::task::spawn_local(connection);
    client
}

pub(super) fn run_sql(url: &str, text: &str) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let client = connect(url).await;
        for statement in text.split("; ") {
            client.batch_execute(statement).await.unwrap();
        }
    });
}
