//! Three nodes, their database, and the ways between them.

mod checks;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use std::{fs, io};

use serde_json::Value;

pub(super) use checks::Commands;

use super::way::Way;
use crate::Outcome;
use crate::postgres::Postgres;
use crate::rest::Client;
use crate::server::{forget_settings, free_port, tail};

pub(super) const NODES: usize = 3;
/// Short, so that the storm sees many of them end.
pub(super) const LEASE: Duration = Duration::from_secs(2);
const READY_WITHIN: Duration = Duration::from_secs(60);
const STOP_WITHIN: Duration = Duration::from_secs(40);
const POLL: Duration = Duration::from_millis(20);
/// How long one request of a client may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(8);

/// The nodes of an account.
pub(super) struct Nodes {
    binary: PathBuf,
    pub(super) postgres: Postgres,
    database: String,
    /// Where nodes and commands find the account, if that is not one server.
    store: Option<String>,
    key: String,
    /// What every node is told beside its name and its places.
    options: Vec<String>,
    ways: Ways,
    nodes: Vec<Node>,
    /// Copies and logs; they vanish with the run.
    folder: tempfile::TempDir,
}

/// What account is made, and by how many nodes it is served.
pub(super) struct Plan {
    /// What every node is told beside its name and its places.
    pub(super) options: Vec<String>,
    pub(super) slices: u32,
    pub(super) nodes: usize,
    pub(super) lease: Duration,
    /// The port of the first node, where that must be known; the others have the next ones.
    pub(super) port: Option<u16>,
    /// The key that nodes shall take instead of the account's.
    pub(super) key: Option<String>,
}

impl Plan {
    /// As the tests have it.
    fn of(options: Vec<String>, slices: u32) -> Self {
        Self { options, slices, nodes: NODES, lease: LEASE, port: None, key: None }
    }
}

/// Whether nodes speak TLS.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Encryption {
    None,
    Everywhere,
}

/// How nodes reach the database and each other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ways {
    /// By relays that can be cut.
    Cuttable,
    /// Straight, where time is measured.
    Straight,
}

struct Node {
    name: String,
    port: u16,
    data: PathBuf,
    log: PathBuf,
    /// Its way to the database.
    way: Way,
    /// The way of others to it.
    door: Way,
    child: Option<Child>,
}

impl Nodes {
    /// Makes a database and an account in it, and starts the nodes. With encryption, everything that nodes say to the database and to each
    /// other is encrypted, and certificates are checked.
    pub(super) fn start(
        binary: &Path,
        database: &str,
        encryption: Encryption,
        options: Vec<String>,
    ) -> Outcome<Self> {
        let mut all = Self::lay_out(binary, database, encryption, options)?;
        all.start_all()?;
        Ok(all)
    }

    /// The same with an account that is cut into slices.
    pub(super) fn start_sliced(binary: &Path, database: &str, slices: u32) -> Outcome<Self> {
        // Whoever counts on a placement has slices moved by commands alone.
        let options = vec!["--no-balance".to_owned()];
        let mut all = Self::lay_out_sliced(binary, database, slices, options)?;
        all.start_all()?;
        Ok(all)
    }

    /// The same with options, and without starting a node.
    pub(super) fn lay_out_sliced(
        binary: &Path,
        database: &str,
        slices: u32,
        options: Vec<String>,
    ) -> Outcome<Self> {
        let postgres = Postgres::start_encrypted()?;
        Self::lay_out_cut(binary, postgres, (database, None), Plan::of(options, slices))
    }

    /// The same without starting a node.
    pub(super) fn lay_out(
        binary: &Path,
        database: &str,
        encryption: Encryption,
        options: Vec<String>,
    ) -> Outcome<Self> {
        let postgres = match encryption {
            Encryption::None => Postgres::start()?,
            Encryption::Everywhere => Postgres::start_encrypted()?,
        };
        Self::lay_out_over(binary, postgres, (database, None), options)
    }

    /// The same over a server that runs already, for nodes that may find the account at another one, too.
    pub(super) fn lay_out_over(
        binary: &Path,
        postgres: Postgres,
        (database, store): (&str, Option<String>),
        options: Vec<String>,
    ) -> Outcome<Self> {
        Self::lay_out_cut(binary, postgres, (database, store), Plan::of(options, 1))
    }

    /// The same as somebody has planned it.
    pub(super) fn lay_out_cut(
        binary: &Path,
        postgres: Postgres,
        (database, store): (&str, Option<String>),
        plan: Plan,
    ) -> Outcome<Self> {
        postgres.create_database(database)?;
        let folder = tempfile::Builder::new().prefix("armilla-cluster-").tempdir()?;
        let mut key = init(binary, &postgres.address(database), (plan.slices, plan.lease))?;
        let mut options = plan.options;
        if let Some(given) = plan.key {
            let file = folder.path().join("key");
            fs::write(&file, &given)?;
            options.extend(["--key-file".to_owned(), file.display().to_string()]);
            key = given;
        }
        let nodes = (0..plan.nodes).map(|number| -> Outcome<Node> {
            let name = format!("node{number}");
            let data = folder.path().join(&name);
            let log = folder.path().join(format!("{name}.log"));
            let way = Way::open(postgres.socket_address())?;
            let port = match plan.port {
                Some(first) => first + u16::try_from(number)?,
                None => free_port()?,
            };
            let door = Way::open((Ipv4Addr::LOCALHOST, port).into())?;
            Ok(Node { name, port, data, log, way, door, child: None })
        });
        let nodes = nodes.collect::<Outcome<Vec<_>>>()?;
        let database = database.to_owned();
        let (binary, ways) = (binary.to_owned(), Ways::Cuttable);
        Ok(Self { binary, postgres, database, store, key, options, ways, nodes, folder })
    }

    /// The same nodes, which reach the database and each other so.
    pub(super) fn by(self, ways: Ways) -> Self {
        Self { ways, ..self }
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// A client of one node.
    pub(super) fn client(&self, node: usize) -> Outcome<Client> {
        let base = format!("http://127.0.0.1:{}", self.nodes[node].port);
        Ok(Client::new(&base).with_key(&self.key)?.patient(ANSWER_WITHIN))
    }

    /// Where a node listens.
    pub(super) fn address(&self, node: usize) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.nodes[node].port).into()
    }

    /// Where a node is for clients, and the account's key.
    pub(super) fn access(&self, node: usize) -> (String, String) {
        (format!("http://127.0.0.1:{}/", self.nodes[node].port), self.key.clone())
    }

    pub(super) fn start_all(&mut self) -> Outcome<()> {
        for node in 0..self.len() {
            self.start_node(node)?;
        }
        for node in 0..self.len() {
            self.wait_until_ready(node)?;
        }
        Ok(())
    }

    /// Starts a node that does not run.
    pub(super) fn start_node(&mut self, number: usize) -> Outcome<()> {
        let (host, relayed) = ("127.0.0.1", self.ways == Ways::Cuttable);
        let port = match relayed {
            true => self.nodes[number].way.port(),
            false => self.postgres.socket_address().port(),
        };
        let mut store = format!("postgres://postgres@{host}:{port}/{}", self.database);
        let encryption = self.postgres.encryption();
        if let Some(given) = &self.store {
            given.clone_into(&mut store);
        } else if let Some((mode, file)) = &encryption {
            store.push_str(&format!("?sslmode={mode}&sslrootcert={}", file.display()));
        }
        let scheme = if encryption.is_some() { "https" } else { "http" };
        let node = &mut self.nodes[number];
        if node.ended()?.is_none() && node.child.is_some() {
            return Ok(());
        }
        let output = fs::File::options().create(true).append(true).open(&node.log)?;
        let mut command = Command::new(&self.binary);
        forget_settings(&mut command);
        let reached = if relayed { node.door.port() } else { node.port };
        let advertise = format!("{scheme}://{host}:{reached}");
        let child = command
            .args(["serve", "--host", host, "--port", &node.port.to_string(), "--store", &store])
            .args(&self.options)
            .args(["--node-name", &node.name, "--advertise", &advertise, "--data"])
            .arg(&node.data)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()?;
        node.child = Some(child);
        Ok(())
    }

    pub(super) fn wait_until_ready(&mut self, number: usize) -> Outcome<()> {
        let client = self.client(number)?;
        let node = &mut self.nodes[number];
        let end = Instant::now() + READY_WITHIN;
        while Instant::now() < end {
            if let Some(status) = node.ended()? {
                return Err(
                    format!("{} ended with {status}:\n{}", node.name, tail(&node.log)).into()
                );
            }
            if client.is_ready() {
                return Ok(());
            }
            thread::sleep(POLL);
        }
        Err(format!("{} was not ready in time:\n{}", node.name, tail(&node.log)).into())
    }

    /// The node that owns the account, as the database says.
    pub(super) fn owner(&self) -> Option<usize> {
        let status = self.status()?;
        let owner = status["owner"].as_str()?;
        self.nodes.iter().position(|node| node.name == owner)
    }

    /// The database of the account.
    pub(super) fn database(&self) -> &str {
        &self.database
    }

    /// The name of a node, and where its copy is.
    pub(super) fn place(&self, node: usize) -> (&str, &Path) {
        (&self.nodes[node].name, &self.nodes[node].data)
    }

    /// What a node says.
    pub(super) fn log(&self, node: usize) -> &Path {
        &self.nodes[node].log
    }

    /// The nodes that own slices of the account, as the database says.
    pub(super) fn slice_owners(&self) -> Vec<Option<usize>> {
        let status = self.status().unwrap_or_default();
        let rows = status["slices"].as_array().cloned().unwrap_or_default();
        let number = |row: &Value| {
            let owner = row["owner"].as_str()?;
            self.nodes.iter().position(|node| node.name == owner)
        };
        rows.iter().map(number).collect()
    }

    /// What `armilla cluster status` says, while the database answers.
    fn status(&self) -> Option<Value> {
        let store = self.store_address(&self.database);
        let mut command = Command::new(&self.binary);
        forget_settings(&mut command);
        let output =
            command.args(["cluster", "status", "--json", "--store", &store]).output().ok()?;
        serde_json::from_slice(&output.stdout).ok()
    }

    /// Has an operator's command done to a node.
    pub(super) fn operate(&self, command: &str, node: usize) -> Outcome<()> {
        let name = &self.nodes[node].name;
        self.command(&["cluster", command, name], &self.database).map_err(|error| {
            format!("cluster {command} {name}: {error}\n{}", tail(&self.nodes[node].log)).into()
        })
    }

    /// Has a node drained that owns the account, and waits until it has started itself anew: one that is told to stop before ends, too, but
    /// in the middle of its start, and stays drained.
    pub(super) fn drain(&mut self, node: usize) -> Outcome<()> {
        let life = |nodes: &Self| nodes.tell(&nodes.status()?, "incarnation").get(node)?.as_u64();
        let before = life(self);
        self.operate("drain", node)?;
        let end = Instant::now() + READY_WITHIN;
        while life(self) == before && Instant::now() < end {
            thread::sleep(POLL);
        }
        self.wait_until_ready(node)
    }

    fn store_address(&self, database: &str) -> String {
        self.store.clone().unwrap_or_else(|| self.postgres.address(database))
    }

    /// Runs a command on the account in a database.
    pub(super) fn command(&self, words: &[&str], database: &str) -> Outcome<()> {
        let store = self.store_address(database);
        let mut command = Command::new(&self.binary);
        forget_settings(&mut command);
        let output = command.args(words).args(["--store", &store]).output()?;
        if output.status.success() {
            return Ok(());
        }
        Err(format!("{words:?}: {}", String::from_utf8_lossy(&output.stderr)).into())
    }

    /// Runs a command on the folder of a node that runs; what it says.
    pub(super) fn at_node(&self, node: usize, words: &[&str]) -> Outcome<String> {
        let mut command = Command::new(&self.binary);
        forget_settings(&mut command);
        let output = command.args(words).arg("--data").arg(&self.nodes[node].data).output()?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(format!("{words:?}: {}", String::from_utf8_lossy(&output.stderr)).into())
    }

    /// One member of every node in a status.
    fn tell(&self, status: &Value, member: &str) -> Vec<Value> {
        let rows = status["nodes"].as_array().map_or(&[][..], Vec::as_slice);
        let row = |node: &Node| rows.iter().find(|row| row["name"] == node.name.as_str());
        self.nodes
            .iter()
            .map(|node| row(node).map_or(Value::Null, |row| row[member].clone()))
            .collect()
    }

    pub(super) fn signal(&self, node: usize, signal: &str) -> Outcome<()> {
        let Some(child) = &self.nodes[node].child else { return Ok(()) };
        // A process that has just ended by itself cannot be told anything.
        Command::new("kill").args([signal, &child.id().to_string()]).status()?;
        Ok(())
    }

    /// A node's way to the database.
    pub(super) fn way(&self, node: usize) -> &Way {
        &self.nodes[node].way
    }

    /// The way of other nodes to one.
    pub(super) fn door(&self, node: usize) -> &Way {
        &self.nodes[node].door
    }

    /// Whether a node does not run.
    pub(super) fn has_ended(&mut self, number: usize) -> bool {
        let node = &mut self.nodes[number];
        node.child.is_none() || !matches!(node.ended(), Ok(None))
    }

    /// Waits until a process has ended, and says how.
    pub(super) fn wait_for_end(&mut self, number: usize) -> Outcome<ExitStatus> {
        let node = &mut self.nodes[number];
        let end = Instant::now() + STOP_WITHIN;
        while Instant::now() < end {
            if let Some(status) = node.ended()? {
                node.child = None;
                return Ok(status);
            }
            thread::sleep(POLL);
        }
        Err(format!("{} did not end:\n{}", node.name, tail(&node.log)).into())
    }

    /// Everything works again, and every node is there.
    pub(super) fn mend_all(&mut self) -> Outcome<()> {
        for node in 0..self.len() {
            self.way(node).set_open(true);
            self.door(node).set_open(true);
            self.signal(node, "-CONT")?;
        }
        self.revive()?;
        for node in 0..self.len() {
            // One that was paused for too long ends only now.
            if self.wait_until_ready(node).is_err() {
                self.revive()?;
                self.wait_until_ready(node)?;
            }
        }
        Ok(())
    }

    /// Starts whoever has ended. A node may end by itself with status 3, when it was replaced; nothing else is allowed.
    pub(super) fn revive(&mut self) -> Outcome<()> {
        self.revive_first(self.len())
    }

    /// The same for the first nodes, where the others do not run.
    pub(super) fn revive_first(&mut self, many: usize) -> Outcome<()> {
        for number in 0..many {
            let node = &mut self.nodes[number];
            if let Some(status) = node.ended()? {
                let was_told =
                    status.code().is_none() || status.code() == Some(3) || status.success();
                if !was_told {
                    return Err(
                        format!("{} ended with {status}:\n{}", node.name, tail(&node.log)).into()
                    );
                }
                node.child = None;
            }
            self.start_node(number)?;
        }
        Ok(())
    }

    pub(super) fn stop_all(&mut self) -> Outcome<()> {
        for node in 0..self.len() {
            self.signal(node, "-TERM")?;
        }
        (0..self.len()).try_for_each(|node| self.expect_stopped(node))
    }

    /// Stops the owner last, so that its copy has everything; answers which that was.
    pub(super) fn stop_owner_last(&mut self) -> Outcome<usize> {
        let owner = self.owner().ok_or("nobody owns the account")?;
        let others: Vec<usize> = (0..self.len()).filter(|node| *node != owner).collect();
        for node in others.into_iter().chain([owner]) {
            self.signal(node, "-TERM")?;
            self.expect_stopped(node)?;
        }
        Ok(owner)
    }

    fn expect_stopped(&mut self, node: usize) -> Outcome<()> {
        let status = self.wait_for_end(node)?;
        if status.success() {
            return Ok(());
        }
        let log = tail(&self.nodes[node].log);
        Err(format!("node {node} stopped with {status}:\n{log}").into())
    }
}

impl Node {
    fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        match &mut self.child {
            Some(child) => child.try_wait(),
            None => Ok(None),
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // Both fail only when the process is gone already.
            child.kill().ok();
            child.wait().ok();
        }
    }
}

fn init(binary: &Path, store: &str, (slices, lease): (u32, Duration)) -> Outcome<String> {
    let mut command = Command::new(binary);
    forget_settings(&mut command);
    let lease = lease.as_secs().to_string();
    let slices = slices.to_string();
    let words = ["cluster", "init", "--lease", &lease, "--slices", &slices, "--store", store];
    let output = command.args(words).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let key = said.lines().find_map(|line| line.trim().strip_prefix("account key"));
    let key = match key {
        Some(key) if output.status.success() => key.trim().to_owned(),
        _ => {
            return Err(format!("cluster init: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
    };
    vouch_for(binary, store, "added-later.example")?;
    Ok(key)
}

/// Nodes work with an authority that was given a further name as with the first one.
fn vouch_for(binary: &Path, store: &str, name: &str) -> Outcome<()> {
    let mut command = Command::new(binary);
    forget_settings(&mut command);
    let output = command.args(["cluster", "vouch-for", name, "--store", store]).output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("vouch-for: {}", String::from_utf8_lossy(&output.stderr)).into()),
    }
}
