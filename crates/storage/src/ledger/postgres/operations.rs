//! The statements of operators: who hands over to whom, who is struck from the list, and what becomes of an account that lost rows.
//!
//! Each is one statement that names what the operator has seen (the life of a node, the epoch of a shard, the id of the account), and changes
//! nothing if that is not so any more.

use super::session::Line;
use super::statements::{Answer, home_number, signed};
use crate::ledger::{Epoch, Incarnation, LedgerError, NodeRow, ShardAt};

pub(super) async fn drain(desk: &Line, node: NodeRow) -> Answer<bool> {
    let text = "update armilla.nodes set state = 'draining' \
                 where name = $1 and incarnation = $2 and state = 'up' returning 1";
    let rows = desk.change(text, &[&node.card.name, &signed(node.incarnation.0)]).await?;
    Ok(!rows.is_empty())
}

pub(super) async fn forget(desk: &Line, node: NodeRow) -> Answer<bool> {
    let text = "delete from armilla.nodes \
                 where name = $1 and incarnation = $2 and state = 'gone' returning 1";
    let rows = desk.change(text, &[&node.card.name, &signed(node.incarnation.0)]).await?;
    Ok(!rows.is_empty())
}

pub(super) async fn name_heir(
    desk: &Line,
    at: ShardAt,
    epoch: Epoch,
    heir: NodeRow,
) -> Answer<bool> {
    let text = "update armilla.shards x set standby = $5 \
                 where x.home = $1 and x.shard = $2 and x.epoch = $3 and x.state = 0 and exists ( \
                   select 1 from armilla.nodes y where y.name = $4 and y.incarnation = $6 and y.state = 'up') \
                 returning 1";
    let (home, shard, epoch) = (home_number(at.home), signed(at.shard.0), signed(epoch.0));
    let (name, incarnation) = (heir.card.name, signed(heir.incarnation.0));
    let life = heir_text(&name, heir.incarnation);
    let rows = desk.change(text, &[&home, &shard, &epoch, &name, &life, &incarnation]).await?;
    Ok(!rows.is_empty())
}

pub(super) async fn replace_settings(desk: &Line, before: Vec<u8>, after: Vec<u8>) -> Answer<bool> {
    let text = "update armilla.account set settings = $2 where settings = $1 returning 1";
    Ok(!desk.change(text, &[&before, &after]).await?.is_empty())
}

pub(super) async fn replace_account(
    desk: &Line,
    ids: (String, String),
    settings: (Vec<u8>, Vec<u8>),
) -> Answer<bool> {
    let text = "update armilla.account set account = ($2::text)::uuid, settings = $4 \
                 where account = ($1::text)::uuid and settings = $3 \
                   and not exists (select 1 from armilla.shards s where s.owner is not null) returning 1";
    let rows = desk.change(text, &[&ids.0, &ids.1, &settings.0, &settings.1]).await?;
    Ok(!rows.is_empty())
}

/// The life of an heir as the column `standby` has it: a name holds no space.
fn heir_text(name: &str, incarnation: Incarnation) -> String {
    format!("{name} {incarnation}")
}

/// The life that the column names.
pub(super) fn heir_of(text: &str) -> Answer<(String, Incarnation)> {
    let parted = text
        .rsplit_once(' ')
        .and_then(|(name, number)| Some((name.to_owned(), Incarnation(number.parse().ok()?))));
    parted.ok_or_else(|| LedgerError::Damage(format!("an heir whose name is '{text}'")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_heir_comes_back_as_it_was_written() {
        let text = heir_text("node-a.b", Incarnation(17));
        assert_eq!(heir_of(&text).unwrap(), ("node-a.b".to_owned(), Incarnation(17)));
        assert!(heir_of("node-a").is_err() && heir_of("a b").is_err());
    }
}
