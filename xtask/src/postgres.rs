//! A PostgreSQL of the test's own: made, started, crashed and ended from the package's programs, on loopback, in a temporary folder.

use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::server::free_port;
use crate::{Outcome, processes};

/// Where Debian and its relatives put the programs of the server, which are not on the path.
const DEBIAN: &str = "/usr/lib/postgresql";
/// The user that the package makes. The server refuses to run as root.
const PACKAGE_USER: &str = "postgres";

/// A database server that ends with its value.
pub(crate) struct Postgres {
    programs: PathBuf,
    folder: tempfile::TempDir,
    port: u16,
    is_root: bool,
    /// It takes encrypted connections alone.
    is_encrypted: bool,
}

/// Makes an authority, and a certificate of it for the server on loopback.
const CERTIFICATES: &str = "\
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=authority -keyout ca.key -out ca.pem 2>/dev/null && \
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=database -keyout server.key -out server.csr 2>/dev/null && \
echo subjectAltName=IP:127.0.0.1 > server.ext && \
openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile server.ext -out server.pem 2>/dev/null && \
chmod 600 server.key && echo 'hostssl all all 127.0.0.1/32 trust' > data/pg_hba.conf";

impl Postgres {
    /// Makes a cluster and starts it; installs the package where there is none and that is possible.
    pub(crate) fn start() -> Outcome<Self> {
        Self::start_with("")
    }

    /// The same with further lines of configuration.
    pub(crate) fn start_with(settings: &str) -> Outcome<Self> {
        Self::start_any(settings, false)
    }

    /// The same for encrypted connections alone, with a certificate of an authority of its own.
    pub(crate) fn start_encrypted() -> Outcome<Self> {
        Self::start_any(
            "ssl = on\nssl_cert_file = '../server.pem'\nssl_key_file = '../server.key'\n",
            true,
        )
    }

    fn start_any(settings: &str, is_encrypted: bool) -> Outcome<Self> {
        let programs = find_or_install()?;
        let folder = tempfile::Builder::new().prefix("armilla-postgres-").tempdir()?;
        let is_root = rustix::process::geteuid().is_root();
        let postgres = Self { programs, folder, port: free_port()?, is_root, is_encrypted };
        postgres.give_folder()?;
        let options = "--auth=trust --username=postgres --encoding=UTF8 --locale=C.UTF-8";
        postgres.run("initdb", &format!("-D {} {options}", postgres.data().display()))?;
        if is_encrypted {
            postgres.shell("openssl", CERTIFICATES)?;
        }
        let configuration = postgres.data().join("postgresql.conf");
        let mut file = fs::File::options().append(true).open(configuration)?;
        file.write_all(settings.as_bytes())?;
        postgres.resume()?;
        Ok(postgres)
    }

    /// Makes a server that follows another one, which it reaches by a port on loopback, under this name.
    pub(crate) fn replica_of(primary: &Self, port: u16, name: &str) -> Outcome<Self> {
        let folder = tempfile::Builder::new().prefix("armilla-replica-").tempdir()?;
        let (programs, is_root) = (primary.programs.clone(), primary.is_root);
        let replica = Self { programs, folder, port: free_port()?, is_root, is_encrypted: false };
        replica.give_folder()?;
        let source = format!("host=127.0.0.1 port={port} user=postgres application_name={name}");
        let data = replica.data();
        let words = format!("-D {} -d '{source}' -R -X stream -c fast", data.display());
        replica.run("pg_basebackup", &words)?;
        replica.resume()?;
        Ok(replica)
    }

    /// Makes a follower the primary.
    pub(crate) fn promote(&self) -> Outcome<()> {
        self.control("-w promote")
    }

    /// Changes a setting for all sessions to come.
    pub(crate) fn set(&self, name: &str, value: &str) -> Outcome<()> {
        self.sql(&format!("alter system set {name} = '{value}'"))?;
        self.sql("select pg_reload_conf()")
    }

    /// Waits until a query that answers one word answers this one.
    pub(crate) fn wait_for(&self, query: &str, word: &str) -> Outcome<()> {
        let check = format!(
            "do \\$\\$ begin for i in 1..1000 loop if ({query}) = '{word}' then return; end if; \
             perform pg_sleep(0.02); end loop; raise exception 'never'; end \\$\\$"
        );
        self.sql(&check).map_err(|error| format!("`{query}` was never `{word}`: {error}").into())
    }

    fn sql(&self, text: &str) -> Outcome<()> {
        self.sql_in("postgres", text)
    }

    /// Runs a statement in a database.
    pub(crate) fn sql_in(&self, database: &str, text: &str) -> Outcome<()> {
        let port = self.port;
        let quiet = "-q -v ON_ERROR_STOP=1";
        self.run(
            "psql",
            &format!("-h 127.0.0.1 -p {port} -U postgres {quiet} -c \"{text}\" {database}"),
        )
    }

    fn give_folder(&self) -> Outcome<()> {
        if self.is_root {
            let owner = format!("{PACKAGE_USER}:");
            let mut give = Command::new("chown");
            give.arg(owner).arg(self.folder.path());
            processes::run("give the folder of the database to its user", &mut give)?;
        }
        Ok(())
    }

    /// The process that all of the server's others are children of.
    pub(crate) fn process(&self) -> Outcome<u32> {
        let text = fs::read_to_string(self.data().join("postmaster.pid"))?;
        let line = text.lines().next().unwrap_or_default();
        line.parse().map_err(|_| format!("the database names no process: `{line}`").into())
    }

    /// How to reach a database of this server.
    pub(crate) fn address(&self, database: &str) -> String {
        let encrypted = self.encryption().map_or(String::new(), |(mode, file)| {
            format!(" sslmode={mode} sslrootcert={}", file.display())
        });
        format!("host=127.0.0.1 port={} user=postgres dbname={database}{encrypted}", self.port)
    }

    /// The mode of encryption that clients shall ask for, and the file of the authority.
    pub(crate) fn encryption(&self) -> Option<(&'static str, PathBuf)> {
        self.is_encrypted.then(|| ("verify-full", self.folder.path().join("ca.pem")))
    }

    /// Makes an empty database.
    pub(crate) fn create_database(&self, name: &str) -> Outcome<()> {
        self.run("createdb", &format!("-h 127.0.0.1 -p {} -U postgres {name}", self.port))
    }

    /// Makes a database with the content of another, to which nobody may be connected.
    pub(crate) fn copy_database(&self, from: &str, to: &str) -> Outcome<()> {
        self.run("createdb", &format!("-h 127.0.0.1 -p {} -U postgres -T {from} {to}", self.port))
    }

    /// Ends every connection of a client, wherever it is in its statement.
    pub(crate) fn kill_connections(&self) -> Outcome<()> {
        let text = "select pg_terminate_backend(pid) from pg_stat_activity \
                    where backend_type = 'client backend' and pid <> pg_backend_pid()";
        self.sql(text)
    }

    /// Where it listens.
    pub(crate) fn socket_address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Ends the server as a crash does: nothing is written down.
    pub(crate) fn crash(&self) -> Outcome<()> {
        self.control("-m immediate -w stop")
    }

    /// Starts it again; it recovers by itself.
    pub(crate) fn resume(&self) -> Outcome<()> {
        let folder = self.folder.path().display();
        // After a crash every file would be synced one by one before the server is back; one sync of the disk does it too.
        let quick = "-c recovery_init_sync_method=syncfs";
        let options = format!("-p {} -c listen_addresses=127.0.0.1 -k {folder} {quick}", self.port);
        self.control(&format!("-o '{options}' -l {folder}/log -w start"))
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn control(&self, words: &str) -> Outcome<()> {
        self.run("pg_ctl", &format!("-D {} {words}", self.data().display()))
    }

    /// Runs a program of the package as a user that may.
    fn run(&self, program: &str, words: &str) -> Outcome<()> {
        let line = format!("{} {words} >/dev/null", self.programs.join(program).display());
        self.shell(program, &line)
    }

    /// Has a shell of that user run a line in the folder.
    fn shell(&self, program: &str, line: &str) -> Outcome<()> {
        let mut command = if self.is_root {
            let mut su = Command::new("su");
            su.args([PACKAGE_USER, "-s", "/bin/sh", "-c", line]);
            su
        } else {
            let mut sh = Command::new("sh");
            sh.args(["-c", line]);
            sh
        };
        let status = command.current_dir(self.folder.path()).status()?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("{program}: ended with {status}").into())
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // It may have been crashed on purpose.
        let _ = self.control("-m immediate -w stop 2>/dev/null");
    }
}

fn find_or_install() -> Outcome<PathBuf> {
    if let Some(found) = find() {
        return Ok(found);
    }
    let mut install = Command::new("apt-get");
    install.args(["install", "--yes", "--no-install-recommends", "postgresql"]);
    let installed = processes::run("install PostgreSQL", &mut install);
    installed.ok().and_then(|()| find()).ok_or_else(|| {
        "no PostgreSQL and none could be installed: install it (Debian: apt-get install postgresql), or say --without ledger".into()
    })
}

/// The folder with `initdb` and `pg_ctl`, of the newest version.
pub(crate) fn find() -> Option<PathBuf> {
    let has = |folder: &Path| ["initdb", "pg_ctl"].iter().all(|name| folder.join(name).is_file());
    let told = processes::probe("pg_config", &["--bindir"]).map(PathBuf::from);
    if let Some(folder) = told.filter(|folder| has(folder)) {
        return Some(folder);
    }
    let versions = fs::read_dir(DEBIAN).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let number = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    let mut versions: Vec<_> = versions.filter(|path| has(&path.join("bin"))).collect();
    versions.sort_by_key(number);
    versions.pop().map(|version| version.join("bin"))
}
