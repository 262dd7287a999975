//! The example blog on three nodes, one of which is killed, drained and added again while people use it: no lost post, no wrong count.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::nodes::{Encryption, Nodes};
use crate::Outcome;
use crate::workspace;

/// The blog speaks to the second node.
const BLOG_NODE: usize = 1;
/// Between two changes.
const CALM: Duration = Duration::from_secs(3);

/// Runs the blog's own check for so many seconds; answers what people did.
pub(super) fn trial(binary: &Path, seconds: u64) -> Outcome<String> {
    let mut nodes = Nodes::start(binary, "blog", Encryption::Everywhere, Vec::new())?;
    let folder = workspace::root().join("examples/blog");
    if !folder.join("node_modules").is_dir() {
        return Err("run `npm install` in examples/blog first".into());
    }
    let (endpoint, key) = nodes.access(BLOG_NODE);
    let mut people = Command::new("node")
        .args(["test/nodes.mjs", &seconds.to_string()])
        .current_dir(folder)
        .envs([("ARMILLA_ENDPOINT", endpoint), ("ARMILLA_KEY", key)])
        .stdout(Stdio::piped())
        .spawn()?;
    let lines = people.stdout.take().ok_or("the blog says nothing")?;
    let mut lines = BufReader::new(lines).lines();
    let first = lines.next().ok_or("the blog did not start")??;
    if first != "ready" {
        return Err(format!("the blog said {first}").into());
    }
    let happened = changes(&mut nodes, Duration::from_secs(seconds));
    let told: Vec<String> = lines.collect::<Result<_, _>>()?;
    let status = people.wait()?;
    let changes = happened?;
    match status.success() {
        true => Ok(format!("{changes} changes; {}", told.join(" "))),
        false => Err(format!("{changes} changes; {}", told.join(" ")).into()),
    }
}

/// The owner is killed and added again; a node is drained, stopped and added again; the account is moved. Never the blog's own node.
fn changes(nodes: &mut Nodes, time: Duration) -> Outcome<usize> {
    let end = Instant::now() + time;
    let others: Vec<usize> = (0..nodes.len()).filter(|node| *node != BLOG_NODE).collect();
    let mut count = 0;
    while Instant::now() + CALM < end {
        thread::sleep(CALM);
        nodes.revive()?;
        let Some(owner) = nodes.owner() else { continue };
        let node = others[count % others.len()];
        match count % 3 {
            0 if owner != BLOG_NODE => {
                nodes.signal(owner, "-KILL")?;
                nodes.wait_for_end(owner)?;
            }
            1 => {
                match node == owner {
                    true => nodes.drain(node)?,
                    false => nodes.operate("drain", node)?,
                }
                nodes.signal(node, "-TERM")?;
                nodes.wait_for_end(node)?;
            }
            _ => nodes.operate("move", node)?,
        }
        println!("    change {count}, owner was {owner}");
        count += 1;
        thread::sleep(CALM);
        nodes.revive()?;
        nodes.wait_until_ready(node)?;
    }
    Ok(count)
}
