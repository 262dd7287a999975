//! What is done with the account of several nodes while they serve or are stopped: backups, comparisons, databases put back.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};
use std::{fs, io};

use serde_json::Value;

use super::{LEASE, Nodes, POLL, READY_WITHIN, init};
use crate::Outcome;
use crate::server::forget_settings;

/// How long slices rest before they are compared: copies follow every tenth of a second, and folds come every second.
const REST: Duration = Duration::from_secs(4);
/// How long that may take to come.
const REST_WITHIN: Duration = Duration::from_secs(60);

impl Nodes {
    /// A backup of the account while nodes serve it.
    pub(in crate::cluster) fn backup(&self) -> Outcome<PathBuf> {
        let to = self.folder.path().join(format!("backup-{}", self.database));
        let place = to.display().to_string();
        self.command(&["backup", "--to", &place], &self.database)?;
        Ok(to)
    }

    /// The copy of a node that has stopped is exactly what the database holds.
    pub(in crate::cluster) fn compare_copy(&self, node: usize) -> Outcome<()> {
        let folder = self.nodes[node].data.display().to_string();
        self.command(&["verify", "--against", &folder], &self.database)
    }

    /// Restores a backup into a database of its own, cut into so many slices, which the nodes then serve with new copies.
    pub(in crate::cluster) fn restore(
        &mut self,
        backup: &Path,
        (database, slices): (&str, u32),
    ) -> Outcome<()> {
        self.postgres.create_database(database)?;
        self.key = init(&self.binary, &self.postgres.address(database), (slices, LEASE))?;
        let from = backup.display().to_string();
        self.command(&["restore", "--from", &from], database)?;
        self.command(&["verify"], database)?;
        database.clone_into(&mut self.database);
        self.forget_copies()?;
        self.start_all()
    }

    /// Waits until every copy has what was acknowledged before: until each node has told its place anew, and all tell the same.
    pub(in crate::cluster) fn wait_until_followed(&self) -> Outcome<()> {
        self.wait_until_first_followed(self.len())
    }

    /// The same for the first nodes, where the others do not run.
    pub(in crate::cluster) fn wait_until_first_followed(&self, many: usize) -> Outcome<()> {
        let beats = |status: &Value| -> Vec<(Option<u64>, Option<u64>)> {
            let (lives, beats) = (self.tell(status, "incarnation"), self.tell(status, "beats"));
            let each = lives.iter().zip(&beats).take(many);
            each.map(|(life, beats)| (life.as_u64(), beats.as_u64())).collect()
        };
        let before = beats(&self.status().ok_or("the database does not answer")?);
        let end = Instant::now() + READY_WITHIN;
        while Instant::now() < end {
            let status = self.status().unwrap_or_default();
            // The first beat that is counted may have begun before. A node that handed over counts them from the start, in its next life.
            let is_anew = beats(&status).iter().zip(&before).all(|(now, then)| {
                let since = if now.0 == then.0 { then.1 } else { Some(0) };
                matches!((now.1, since), (Some(now), Some(since)) if now > since + 1)
            });
            let places = &self.tell(&status, "place")[..many];
            if is_anew && places.iter().all(|place| *place == places[0]) {
                return Ok(());
            }
            thread::sleep(POLL);
        }
        Err("the standbys did not reach the owner in time".into())
    }

    /// Waits until no slice has been written to for a while, many times as long as copies take to follow: what dropped containers have left is
    /// removed behind the clients.
    pub(in crate::cluster) fn wait_until_slices_rest(&self) -> Outcome<()> {
        let (mut known, mut since) = (Value::Null, Instant::now());
        let end = since + REST_WITHIN;
        while Instant::now() < end {
            let slices = self.status().unwrap_or_default()["slices"].take();
            if slices.is_null() || slices != known {
                (known, since) = (slices, Instant::now());
            } else if since.elapsed() >= REST {
                return Ok(());
            }
            thread::sleep(POLL);
        }
        Err(format!("the slices are written to without an end: {known}").into())
    }

    /// Every copy is whole.
    pub(in crate::cluster) fn verify_all(&self) -> Outcome<()> {
        for node in &self.nodes {
            let mut verify = Command::new(&self.binary);
            forget_settings(&mut verify);
            let output = verify.args(["verify", "--data"]).arg(&node.data).output()?;
            if !output.status.success() {
                let said = String::from_utf8_lossy(&output.stderr);
                return Err(format!("the copy of {} is damaged: {said}", node.name).into());
            }
        }
        Ok(())
    }

    /// Copies the database, to which nobody may be connected.
    pub(in crate::cluster) fn copy_database(&self, to: &str) -> Outcome<()> {
        self.postgres.copy_database(&self.database, to)
    }

    pub(in crate::cluster) fn use_database(&mut self, name: &str) -> Outcome<()> {
        name.clone_into(&mut self.database);
        Ok(())
    }

    /// No node may serve, and each must say why.
    pub(in crate::cluster) fn expect_refusal(&mut self, words: &str) -> Outcome<()> {
        self.expect_refusal_of(self.len(), words)
    }

    /// The same of the first nodes alone.
    pub(in crate::cluster) fn expect_refusal_of(
        &mut self,
        many: usize,
        words: &str,
    ) -> Outcome<()> {
        for node in 0..many {
            fs::write(&self.nodes[node].log, b"")?;
            self.start_node(node)?;
            let status = self.wait_for_end(node)?;
            let said = fs::read_to_string(&self.nodes[node].log)?;
            if status.success() || !said.contains(words) {
                return Err(format!("node {node} ended with {status} and said: {said}").into());
            }
        }
        Ok(())
    }

    fn forget_copies(&self) -> io::Result<()> {
        self.nodes.iter().try_for_each(|node| fs::remove_dir_all(&node.data))
    }
}

/// What operators do, for threads that do not have the nodes.
#[derive(Clone)]
pub(in crate::cluster) struct Commands {
    binary: PathBuf,
    store: String,
    folders: Vec<PathBuf>,
}

impl Commands {
    /// Runs a command on the account; whether it was done.
    pub(in crate::cluster) fn run(&self, words: &[&str]) -> bool {
        let mut command = Command::new(&self.binary);
        forget_settings(&mut command);
        let output = command.args(words).args(["--store", &self.store]).output();
        output.is_ok_and(|output| output.status.success())
    }

    /// Merges what can be merged, at whichever node owns the account.
    pub(in crate::cluster) fn merge(&self, database: &str, container: &str) {
        for folder in &self.folders {
            let mut command = Command::new(&self.binary);
            forget_settings(&mut command);
            // All but the owner refuse.
            let _told =
                command.args(["merge", "--data"]).arg(folder).args([database, container]).output();
        }
    }
}

impl Nodes {
    /// What operators do.
    pub(in crate::cluster) fn commands(&self) -> Commands {
        let folders = self.nodes.iter().map(|node| node.data.clone()).collect();
        let (binary, store) = (self.binary.clone(), self.store_address(&self.database));
        Commands { binary, store, folders }
    }

    /// Throws a node's copy away and has it made anew, without waiting for it.
    pub(in crate::cluster) fn copy_anew(&mut self, node: usize) -> Outcome<()> {
        self.signal(node, "-KILL")?;
        self.wait_for_end(node)?;
        fs::remove_dir_all(&self.nodes[node].data)?;
        self.start_node(node)
    }
}
