//! What the owner of a journal and the node that shall own it next know of each other before a planned change of owner.
//!
//! The heir makes its indexes ready first, and tells [place](Place) 0 until it has. The owner does not believe a place that the heir may have told before
//! it knew that it is one.

use armilla_storage::ledger::{Epoch, Incarnation, NodeRow, Ownership};

/// The heir as the owner saw it first: in which epoch, which life of it, and after how many beats.
#[derive(Default)]
pub(super) struct HeirSeen(Option<(Epoch, Incarnation, u64)>);

impl HeirSeen {
    /// Whether an heir has had the time to find out that it is one.
    pub(super) fn is_told(&mut self, epoch: Epoch, heir: &NodeRow) -> bool {
        let fresh = (epoch, heir.incarnation, heir.beats);
        let is_same = |seen: &(Epoch, Incarnation, u64)| (seen.0, seen.1) == (fresh.0, fresh.1);
        let kept = self.0.filter(is_same).unwrap_or(fresh);
        self.0 = Some(kept);
        // The beat after the next one is sent by a node that has looked meanwhile.
        heir.beats >= kept.2 + 2
    }
}

/// The epoch in which another node owns what this one shall have.
pub(super) fn epoch_as_heir(ownership: &Ownership, own: Incarnation) -> Option<Epoch> {
    let is_heir = ownership.heir.as_ref().is_some_and(|heir| heir.incarnation == own);
    let has_owner = ownership.owner.as_ref().is_some_and(|owner| owner.incarnation != own);
    (is_heir && has_owner).then_some(ownership.epoch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use armilla_storage::ledger::{NodeCard, NodeState, Place};

    fn heir(incarnation: u64, beats: u64) -> NodeRow {
        let card = NodeCard { name: "b".into(), address: String::new(), version: String::new() };
        let (incarnation, state) = (Incarnation(incarnation), NodeState::Up);
        NodeRow { card, incarnation, beats, state, catalog: Place(0) }
    }

    #[test]
    fn an_heir_is_told_after_two_beats_and_anew_in_every_epoch() {
        let mut seen = HeirSeen::default();
        assert!(!seen.is_told(Epoch(1), &heir(7, 10)));
        assert!(!seen.is_told(Epoch(1), &heir(7, 11)), "it may have looked before");
        assert!(seen.is_told(Epoch(1), &heir(7, 12)));
        assert!(!seen.is_told(Epoch(1), &heir(8, 30)), "another life");
        assert!(seen.is_told(Epoch(1), &heir(8, 32)));
        assert!(!seen.is_told(Epoch(3), &heir(8, 90)), "the slice went and came back meanwhile");
    }
}
