//! Slices that move by themselves. The *steward*, who owns the first slice, spreads them: a minute after nodes came or went, and every ten minutes, one slice at
//! a time, while the fullest node has a fifth more than the emptiest.
//!
//! It does what an operator does, and no more: it writes down who shall own a slice next. Who owns it hands it over.

use super::SlicedNode;
use armilla_model::clock::monotonic;
use armilla_storage::ledger::{Incarnation, NodeRow, NodeState, Ownership};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Between two rounds, in lengths of the wait after nodes came or went.
const ROUND_EVERY: u32 = 10;
/// Below so many bytes slices are counted, not weighed.
const WEIGHED_MIN: u64 = 1 << 30;

/// When slices are spread.
pub(super) struct Balance {
    /// How long nodes must have stayed the same; nothing where slices stay where they are.
    after: Option<Duration>,
    round: Mutex<Round>,
}

/// What the steward waits for.
#[derive(Default)]
struct Round {
    nodes: Vec<Incarnation>,
    due: Option<Instant>,
}

impl Round {
    /// Whether slices may be moved now, given the nodes that take part.
    fn is_due(&mut self, nodes: Vec<Incarnation>, now: Instant, after: Duration) -> bool {
        let due = match self.due {
            Some(due) if self.nodes == nodes => due,
            _ => now + after,
        };
        *self = Self { nodes, due: Some(due) };
        now >= due
    }

    /// There is nothing more to move for now.
    fn end(&mut self, now: Instant, after: Duration) {
        self.due = Some(now + after * ROUND_EVERY);
    }
}

impl Balance {
    pub(super) fn new(after: Option<Duration>) -> Self {
        Self { after, round: Mutex::default() }
    }
}

/// Moves a slice, if this node is the steward and it is time.
pub(super) fn consider(node: &SlicedNode, seen: &[Ownership]) {
    let (Some(after), Some(first)) = (node.balance.after, seen.first()) else { return };
    let mut round = node.balance.round.lock();
    let own = node.member.incarnation();
    let is_steward = first.owner.as_ref().is_some_and(|owner| owner.incarnation == own)
        && node.slices[0].serving.load(Ordering::Acquire)
        && node.holds_lease();
    if !is_steward {
        *round = Round::default();
        return;
    }
    let living = first.owner.iter().chain(&first.others);
    let mut up: Vec<&NodeRow> = living.filter(|node| node.state == NodeState::Up).collect();
    up.sort_by_key(|node| node.incarnation);
    let lives = up.iter().map(|node| node.incarnation).collect();
    let now = monotonic();
    let is_moving = |slice: &Ownership| slice.owner.is_none() || slice.is_moving();
    if !round.is_due(lives, now, after) || seen.iter().any(is_moving) {
        return;
    }
    let owner = |slice: &Ownership| slice.owner.as_ref().map(|owner| owner.card.name.clone());
    let owners: Vec<_> = seen.iter().map(owner).collect();
    let names: Vec<_> = up.iter().map(|node| node.card.name.clone()).collect();
    let next = next_move(&owners, &weights(node), &names).filter(NextMove::is_a_fifth);
    let heir = next.as_ref().and_then(|next| up.iter().find(|node| node.card.name == next.to));
    let (Some(next), Some(heir)) = (&next, heir) else {
        round.end(now, after);
        return;
    };
    let (at, epoch) = (node.slices[next.slice].at, seen[next.slice].epoch);
    match node.member.name_heir_at(at, epoch, heir) {
        Ok(true) => {
            tracing::warn!(
                slice = next.slice,
                heir = next.to,
                "the slice is moved: its owner has more than others"
            );
        }
        // It has just changed its owner; the next look tells.
        Ok(false) => {}
        Err(error) => tracing::warn!(%error, "the node that shall own a slice could not be named"),
    }
}

/// What each slice counts: its bytes, or all the same where there are few.
fn weights(node: &SlicedNode) -> Vec<u64> {
    let bytes: Vec<u64> =
        node.slices.iter().map(|slice| slice.store.stats().disk_bytes.max(1)).collect();
    match bytes.iter().sum::<u64>() >= WEIGHED_MIN {
        true => bytes,
        false => vec![1; bytes.len()],
    }
}

/// A slice that should move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NextMove {
    pub(super) slice: usize,
    /// The node that should have it.
    pub(super) to: String,
    fullest: u64,
    emptiest: u64,
}

impl NextMove {
    /// The fullest node has a fifth more than the emptiest.
    fn is_a_fifth(&self) -> bool {
        self.fullest.saturating_mul(5) >= self.emptiest.saturating_mul(6)
    }
}

/// The next slice to move, from the fullest node to the emptiest; nothing when no move brings them nearer to each other.
pub(super) fn next_move(
    owners: &[Option<String>],
    weights: &[u64],
    names: &[String],
) -> Option<NextMove> {
    let mut owned: BTreeMap<&str, Vec<usize>> =
        names.iter().map(|name| (&**name, Vec::new())).collect();
    for (slice, owner) in owners.iter().enumerate() {
        if let Some(slices) = owner.as_deref().and_then(|owner| owned.get_mut(owner)) {
            slices.push(slice);
        }
    }
    let weight = |slice: &usize| weights.get(*slice).copied().unwrap_or(1);
    let load = |slices: &[usize]| slices.iter().map(weight).sum::<u64>();
    let (_, slices) = owned.iter().max_by_key(|(_, slices)| load(slices))?;
    let (to, others) = owned.iter().min_by_key(|(_, slices)| load(slices))?;
    let (fullest, emptiest) = (load(slices), load(others));
    let surplus = fullest - emptiest;
    // The first slice has the catalog, and stays. The best one is half of what the fullest has more.
    let movable = slices.iter().rev().filter(|slice| **slice > 0 && weight(slice) < surplus);
    let slice = *movable.min_by_key(|slice| (2 * weight(slice)).abs_diff(surplus))?;
    Some(NextMove { slice, to: (*to).to_owned(), fullest, emptiest })
}

#[cfg(test)]
mod tests {
    use super::*;

    const AFTER: Duration = Duration::from_secs(60);

    /// Moves slices until none is to be moved; how many each node has then, and how many moves that took.
    fn settle(owners: &mut [Option<String>], weights: &[u64], names: &[String]) -> (Vec<u64>, u32) {
        let mut moves = 0;
        while let Some(next) = next_move(owners, weights, names) {
            assert_ne!(next.slice, 0);
            owners[next.slice] = Some(next.to);
            moves += 1;
        }
        let load = |name: &String| {
            let pairs = owners.iter().zip(weights);
            pairs.filter(|(owner, _)| owner.as_ref() == Some(name)).map(|(_, weight)| weight).sum()
        };
        (names.iter().map(load).collect(), moves)
    }

    #[test]
    fn slices_move_until_no_node_has_two_more_than_another() {
        let names = ["a", "b", "c"].map(str::to_owned);
        let mut owners = vec![Some("a".to_owned()); 7];
        assert_eq!(settle(&mut owners, &[1; 7], &names), (vec![3, 2, 2], 4));
        assert_eq!(next_move(&[None, None], &[1, 1], &names), None);
        assert_eq!(next_move(&owners, &[1; 7], &[]), None);
    }

    #[test]
    fn slices_are_weighed() {
        let names = ["a", "b"].map(str::to_owned);
        let mut owners = vec![Some("a".to_owned()); 4];
        let (loads, moves) = settle(&mut owners, &[10, 70, 10, 10], &names);
        assert_eq!((loads, moves), (vec![30, 70], 1), "the large one goes alone");
        // One that is all there is stays: it would be as much elsewhere.
        let mut owners = vec![Some("a".to_owned()); 2];
        assert_eq!(settle(&mut owners, &[0, 50], &names).1, 0);
    }

    #[test]
    fn a_few_of_many_are_left_alone() {
        let names = ["a", "b"].map(str::to_owned);
        let owners = |a: usize, b: usize| {
            let of = |name: &str, many| vec![Some(name.to_owned()); many];
            [of("a", a), of("b", b)].concat()
        };
        let is_moved = |a: usize, b: usize| {
            let next = next_move(&owners(a, b), &vec![1; a + b], &names);
            next.is_some_and(|next| next.is_a_fifth())
        };
        assert!(is_moved(2, 0) && is_moved(3, 1) && is_moved(12, 10));
        assert!(!is_moved(2, 1) && !is_moved(1, 1) && !is_moved(22, 20));
    }

    #[test]
    fn a_round_begins_when_nodes_have_stayed_and_again_later() {
        let mut round = Round::default();
        let start = monotonic();
        let nodes = |many: u64| (0..many).map(Incarnation).collect::<Vec<_>>();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(!round.is_due(nodes(2), at(0), AFTER));
        assert!(!round.is_due(nodes(2), at(59), AFTER));
        assert!(!round.is_due(nodes(3), at(61), AFTER), "one came");
        assert!(!round.is_due(nodes(3), at(120), AFTER));
        assert!(round.is_due(nodes(3), at(121), AFTER));
        assert!(round.is_due(nodes(3), at(122), AFTER), "until there is nothing to move");
        round.end(at(122), AFTER);
        assert!(!round.is_due(nodes(3), at(700), AFTER));
        assert!(round.is_due(nodes(3), at(722), AFTER));
    }
}
