//! Several journals of one account: two nodes hand them to and fro inside their lives, each with one copy per journal that stays open. What was
//! acknowledged in one is there, nothing of one is seen in another, and who copies anew finds the same.
#![allow(clippy::unwrap_used, reason = "every function here is part of a test")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use armilla_storage::ledger::{
    Followed, KeptOpen, Ledger, LedgerError, LedgerStore, Member, MemoryLedger, NodeCard,
    OwnershipWatcher, Place, Replica, slice_journal,
};
use armilla_storage::{Batch, Direction, Durability, KeyRange, Keyspace, MemoryStore, Store};

const SLICES: u32 = 3;
const RETENTION: Duration = Duration::from_secs(600);
const LEASE: Duration = Duration::from_secs(10);

struct Ears;

impl OwnershipWatcher for Ears {
    fn lost(&self, reason: &str) {
        panic!("{reason}");
    }

    fn failing(&self, error: &LedgerError) {
        panic!("{error}");
    }

    fn recovered(&self) {}

    fn reached(&self, _place: Place) {}
}

/// A node with a copy of each slice.
struct Node {
    ledger: Arc<dyn Ledger>,
    member: Member,
    copies: Vec<Arc<dyn Store>>,
}

impl Node {
    fn join(tables: &MemoryLedger, name: &str) -> Self {
        let ledger: Arc<dyn Ledger> = Arc::new(tables.another_node());
        for slice in 0..SLICES {
            let at = slice_journal(slice);
            ledger.open(at.home, &[(at.shard, 0)]).unwrap();
        }
        let (address, version) = (String::new(), String::new());
        let card = NodeCard { name: name.into(), address, version };
        let member = Member::join(ledger.clone(), card, None, LEASE).unwrap();
        let copy = |_| -> Arc<dyn Store> { Arc::new(MemoryStore::new()) };
        Self { ledger, member, copies: (0..SLICES).map(copy).collect() }
    }

    fn replica(&self, slice: u32) -> Replica {
        let kept = Arc::new(KeptOpen::new(self.copies[slice as usize].clone()));
        let mut replica =
            Replica::of_journal(slice_journal(slice), kept, self.ledger.clone()).unwrap();
        while replica.follow().unwrap() == Followed::Behind {}
        replica
    }

    fn own(&self, slice: u32) -> LedgerStore {
        let journals: Vec<_> = (0..SLICES).map(slice_journal).collect();
        let seen = self.member.look_at(&journals).unwrap();
        let ownership = &seen[slice as usize];
        assert!(ownership.owner.is_none(), "it was handed over");
        let taken = self.replica(slice).take(ownership.epoch, RETENTION, Arc::new(Ears));
        taken.unwrap_or_else(|_| panic!("slice {slice} was not taken"))
    }
}

type State = BTreeMap<Vec<u8>, Vec<u8>>;

fn content(store: &dyn Store) -> State {
    let all = KeyRange::all();
    let page = store.snapshot().page(Keyspace::Items, &all, Direction::Forward, usize::MAX);
    page.unwrap().into_iter().map(|(key, value)| (key, value.to_vec())).collect()
}

#[test]
fn journals_go_to_and_fro_between_nodes_that_live() {
    for seed in 0..20 {
        let mut random = fastrand::Rng::with_seed(seed);
        let tables = MemoryLedger::new();
        let nodes = [Node::join(&tables, "a"), Node::join(&tables, "b")];
        let mut models = vec![State::new(); SLICES as usize];
        let mut owned: Vec<_> = (0..SLICES).map(|slice| (0, nodes[0].own(slice))).collect();
        for round in 0..60_u32 {
            let slice = random.u32(0..SLICES);
            let (owner, store) = &owned[slice as usize];
            if random.u32(0..5) == 0 {
                let heir = 1 - *owner;
                store.close().unwrap();
                let mut late = Batch::new();
                late.put(Keyspace::Items, b"late".to_vec(), b"x".to_vec());
                assert!(store.commit(late, Durability::Synced).is_err(), "it was given up");
                owned[slice as usize] = (heir, nodes[heir].own(slice));
            } else {
                // The same keys in all slices.
                let key = format!("k{}", random.u32(0..6)).into_bytes();
                let value = format!("{slice} {round}").into_bytes();
                let mut batch = Batch::new();
                batch.put(Keyspace::Items, key.clone(), value.clone());
                store.commit(batch, Durability::Synced).unwrap();
                models[slice as usize].insert(key, value);
            }
            let (_, store) = &owned[slice as usize];
            assert_eq!(content(store), models[slice as usize], "seed {seed}");
        }
        owned.iter().for_each(|(_, store)| store.close().unwrap());
        let fresh = Node::join(&tables, "c");
        for node in nodes.iter().chain([&fresh]) {
            for slice in 0..SLICES {
                drop(node.replica(slice));
                let found = content(&*node.copies[slice as usize]);
                assert_eq!(found, models[slice as usize], "seed {seed}, slice {slice}");
            }
        }
    }
}
