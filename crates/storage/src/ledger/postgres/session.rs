//! Sessions with the database: how they are opened, what they are told first, and when an answer counts.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::AbortHandle;
use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls, Row, Socket, Statement};

use super::LedgerError;
use super::encryption::Connector;

/// How long a connection may take to be made.
const CONNECT_WAIT_MAX: Duration = Duration::from_secs(5);
/// How long a statement may take at the database before it gives up by itself.
const STATEMENT_TIME_MAX: Duration = Duration::from_secs(5);
/// How long a statement may wait for a lock.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(3);
/// How long an answer is awaited here. A statement that takes longer loses its connection; it is never cancelled.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(6);

/// What a lane is told beside: it keeps one plan for each statement, by the index, however small the tables were when it was made.
const LANE_GREETING: &str = "set plan_cache_mode = force_generic_plan; set enable_seqscan = off; set enable_bitmapscan = off";
/// What a folder is told beside: rows that were cut lie in the index until the database has cleaned it up. A scan of the index itself notes which they are
/// and passes them by; a bitmap has all of them again for every piece of a cut.
const FOLDER_GREETING: &str = "set enable_seqscan = off; set enable_bitmapscan = off";
const HAS_APPEND_ONE: &str = "select to_regprocedure('armilla.append_one(int,bigint,bigint,bigint,bigint,bigint,bytea)') is not null";

/// Parameters of a statement.
pub(super) type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

/// What a session is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Appends, in order.
    Lane,
    /// Folds and cuts: one that is lost is lost whole, and the journal still has it.
    Folder,
    /// Beats: nothing else may hold them up.
    Pulse,
    /// Everything else.
    Desk,
}

impl Role {
    const fn name(self) -> &'static str {
        match self {
            Self::Lane => "lane",
            Self::Folder => "folder",
            Self::Pulse => "pulse",
            Self::Desk => "desk",
        }
    }
}

/// A session that is opened when it is needed, and again after it broke.
pub(super) struct Line {
    config: Config,
    connector: Connector,
    role: Role,
    session: tokio::sync::Mutex<Option<Arc<Session>>>,
}

impl Line {
    pub(super) fn new(mut config: Config, connector: Connector, role: Role) -> Self {
        config
            .application_name(format!("armilla {}", role.name()))
            .connect_timeout(CONNECT_WAIT_MAX)
            .tcp_user_timeout(ANSWER_WAIT_MAX)
            .target_session_attrs(TargetSessionAttrs::ReadWrite);
        Self { config, connector, role, session: tokio::sync::Mutex::new(None) }
    }

    /// The open session, or a new one, in the time of an answer: who else opens it is waited for, and a database may take a connection and then say nothing.
    pub(super) async fn session(&self) -> Result<Arc<Session>, LedgerError> {
        let opened = tokio::time::timeout(ANSWER_WAIT_MAX, self.open_session()).await;
        opened.unwrap_or_else(|_| {
            let waited = ANSWER_WAIT_MAX.as_secs();
            Err(LedgerError::Unreachable(format!("no session in {waited} s")))
        })
    }

    async fn open_session(&self) -> Result<Arc<Session>, LedgerError> {
        let mut kept = self.session.lock().await;
        if let Some(session) = kept.as_ref().filter(|session| !session.client.is_closed()) {
            return Ok(Arc::clone(session));
        }
        *kept = None;
        let opened = Arc::new(Session::open(&self.config, &self.connector, self.role).await?);
        *kept = Some(Arc::clone(&opened));
        Ok(opened)
    }

    /// Asks something that changes nothing.
    pub(super) async fn read(
        &self,
        text: &'static str,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, LedgerError> {
        self.change(text, parameters).await.map_err(changed_nothing)
    }

    /// Asks for many rows; each becomes what is wanted of it while the next ones come.
    pub(super) async fn read_each<T>(
        &self,
        text: &'static str,
        parameters: Parameters<'_>,
        of: impl Fn(&Row) -> T,
    ) -> Result<Vec<T>, LedgerError> {
        let session = self.session().await?;
        let statement = session.prepared(text).await?;
        let asked = session.ask_each(&statement, parameters, of);
        self.answer(&session, asked).await.map_err(changed_nothing)
    }

    /// Runs a statement that changes something.
    pub(super) async fn change(
        &self,
        text: &'static str,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, LedgerError> {
        let session = self.session().await?;
        let statement = session.prepared(text).await?;
        self.answer(&session, session.ask(&statement, parameters)).await
    }

    /// Waits for the answer to a statement; without one, the session ends.
    pub(super) async fn answer<T>(
        &self,
        session: &Arc<Session>,
        asked: impl Future<Output = Result<Vec<T>, LedgerError>>,
    ) -> Result<Vec<T>, LedgerError> {
        let answered = tokio::time::timeout(ANSWER_WAIT_MAX, asked).await;
        let answered = answered.unwrap_or_else(|_| {
            let waited = ANSWER_WAIT_MAX.as_secs();
            Err(LedgerError::OutcomeUnknown(format!("no answer in {waited} s")))
        });
        if answered.is_err() {
            self.forget(session).await;
        }
        answered
    }

    /// Ends a session: its connection is closed when the last statement on it is done with.
    async fn forget(&self, broken: &Arc<Session>) {
        broken.end();
        let mut kept = self.session.lock().await;
        if kept.as_ref().is_some_and(|session| Arc::ptr_eq(session, broken)) {
            *kept = None;
        }
    }
}

/// One connection, with what is known about it.
pub(super) struct Session {
    client: Client,
    /// Warnings that came so far; an answer with one does not count.
    warnings: Arc<AtomicU64>,
    statements: Mutex<HashMap<&'static str, Statement>>,
    driver: AbortHandle,
    /// A lane of a ledger that has the function for a single row; those made by earlier versions lack it.
    has_append_one: bool,
}

impl Session {
    async fn open(config: &Config, connector: &Connector, role: Role) -> Result<Self, LedgerError> {
        let unreachable = |error: tokio_postgres::Error| LedgerError::Unreachable(told(&error));
        let warnings = Arc::new(AtomicU64::new(0));
        let (client, driver) = match connector {
            Connector::Plain => connect(config, NoTls, Arc::clone(&warnings)).await?,
            Connector::Tls(tls) => connect(config, (**tls).clone(), Arc::clone(&warnings)).await?,
        };
        let statements = Mutex::default();
        let mut session = Self { client, warnings, statements, driver, has_append_one: false };
        session.client.batch_execute(&greeting()).await.map_err(unreachable)?;
        session.check(role).await?;
        if role == Role::Folder {
            session.client.batch_execute(FOLDER_GREETING).await.map_err(unreachable)?;
        }
        if role == Role::Lane {
            session.client.batch_execute(LANE_GREETING).await.map_err(unreachable)?;
            let found = session.client.query_one(HAS_APPEND_ONE, &[]).await.map_err(unreachable)?;
            session.has_append_one = found.get(0);
        }
        Ok(session)
    }

    /// A database that confirms before its disk or its replica has a row cannot hold the truth.
    async fn check(&self, role: Role) -> Result<(), LedgerError> {
        if role == Role::Folder {
            return Ok(());
        }
        let found = self.client.query_one("show synchronous_commit", &[]).await;
        let found = found.map_err(|error| LedgerError::Unreachable(told(&error)))?;
        let mode: String = found.get(0);
        if matches!(mode.as_str(), "off" | "local") {
            return Err(LedgerError::Unfit(format!(
                "synchronous_commit is {mode}, so that acknowledged writes could be lost; set it to on for this database"
            )));
        }
        Ok(())
    }

    /// Whether a single row has a function of its own.
    pub(super) fn has_append_one(&self) -> bool {
        self.has_append_one
    }

    /// The statement of this text, prepared once in a session.
    pub(super) async fn prepared(&self, text: &'static str) -> Result<Statement, LedgerError> {
        if let Some(known) = self.statements.lock().get(text) {
            return Ok(known.clone());
        }
        let prepared = tokio::time::timeout(ANSWER_WAIT_MAX, self.client.prepare(text)).await;
        let prepared = match prepared {
            Ok(Ok(prepared)) => prepared,
            Ok(Err(error)) => return Err(LedgerError::Unreachable(told(&error))),
            Err(_) => return Err(LedgerError::Unreachable("no answer in time".into())),
        };
        self.statements.lock().insert(text, prepared.clone());
        Ok(prepared)
    }

    /// Sends a statement when it is first polled; answers when the database is ready for the next one.
    pub(super) async fn ask(
        &self,
        statement: &Statement,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, LedgerError> {
        let before = self.warnings.load(Ordering::Acquire);
        let rows = self.client.query(statement, parameters).await;
        let rows = rows.map_err(|error| LedgerError::OutcomeUnknown(told(&error)))?;
        if self.warnings.load(Ordering::Acquire) == before {
            Ok(rows)
        } else {
            Err(LedgerError::OutcomeUnknown("a warning came with the answer".into()))
        }
    }

    /// As [`Session::ask`], for what changes nothing and has many rows.
    async fn ask_each<T>(
        &self,
        statement: &Statement,
        parameters: Parameters<'_>,
        of: impl Fn(&Row) -> T,
    ) -> Result<Vec<T>, LedgerError> {
        let failed = |error: tokio_postgres::Error| LedgerError::Unreachable(told(&error));
        let rows = self.client.query_raw(statement, parameters.iter().copied()).await;
        let mut rows = std::pin::pin!(rows.map_err(failed)?);
        let mut all = Vec::new();
        while let Some(row) = rows.next().await {
            all.push(of(&row.map_err(failed)?));
        }
        Ok(all)
    }

    /// Runs several statements as one implicit transaction.
    pub(super) async fn run_text(&self, text: &str) -> Result<(), LedgerError> {
        let ran = tokio::time::timeout(ANSWER_WAIT_MAX, self.client.batch_execute(text)).await;
        let Ok(ran) = ran else {
            self.end();
            return Err(LedgerError::OutcomeUnknown("no answer in time".into()));
        };
        ran.map_err(|error| LedgerError::OutcomeUnknown(told(&error)))
    }

    /// Closes the connection; whatever is under way on it fails.
    fn end(&self) {
        self.driver.abort();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end();
    }
}

/// Makes a connection, in a bounded time, and starts the task that moves its bytes.
async fn connect<T>(
    config: &Config,
    tls: T,
    warnings: Arc<AtomicU64>,
) -> Result<(Client, AbortHandle), LedgerError>
where
    T: MakeTlsConnect<Socket>,
    T::Stream: Send + 'static,
{
    let opened = tokio::time::timeout(CONNECT_WAIT_MAX, config.connect(tls)).await;
    let opened = opened.map_err(|_| LedgerError::Unreachable("no connection in time".into()))?;
    let (client, connection) = opened.map_err(|error| LedgerError::Unreachable(told(&error)))?;
    Ok((client, tokio::spawn(drive(connection, warnings)).abort_handle()))
}

/// Moves the bytes of a connection until it ends, and counts the warnings that come.
async fn drive<T>(mut connection: Connection<Socket, T>, warnings: Arc<AtomicU64>)
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(Ok(message)) =
        std::future::poll_fn(|context| connection.poll_message(context)).await
    {
        if let AsyncMessage::Notice(notice) = message
            && notice.severity() == "WARNING"
        {
            warnings.fetch_add(1, Ordering::Release);
        }
    }
}

/// What every session is told first. Folds are as durable as appends: an owner forgets the states that it has folded, so a fold that a crash of
/// the database took back would be missing for good once a later one has moved `folded`.
fn greeting() -> String {
    format!(
        "set lc_messages = 'C'; \
         set statement_timeout = {}; set lock_timeout = {}; set idle_in_transaction_session_timeout = {}; \
         select set_config(name, '1s', false) from pg_settings where name = 'client_connection_check_interval'",
        STATEMENT_TIME_MAX.as_millis(),
        LOCK_WAIT_MAX.as_millis(),
        STATEMENT_TIME_MAX.as_millis(),
    )
}

/// What has failed without having changed anything.
fn changed_nothing(error: LedgerError) -> LedgerError {
    match error {
        LedgerError::OutcomeUnknown(reason) => LedgerError::Unreachable(reason),
        other => other,
    }
}

/// What the database or the network said, in one line.
fn told(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(said) => format!("{} ({})", said.message(), said.code().code()),
        None => {
            // The driver tells the reason apart from what it was doing.
            let reason = std::error::Error::source(error).map(|source| format!(": {source}"));
            format!("{error}{}", reason.unwrap_or_default())
        }
    }
}
