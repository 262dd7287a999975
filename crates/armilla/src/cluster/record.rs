//! What all nodes of an account share beside its data: keys, secrets, the certificate authority, the length of the lease. It lies in the
//! ledger, which is trusted as a data folder is.

use crate::keys::{AccountKeys, KeySource, random};
use armilla_engine::limits::SLICES_MAX;
use armilla_gateway::auth::{Access, MasterKeys, WellKnownKey};
use armilla_gateway::certificates::Authority;
use armilla_model::clock::{Clock as _, SystemClock};
use armilla_storage::ledger::{Lease, PostgresLedger};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How the account is cut into journals: one for everything. A later version that cuts it otherwise says so here.
const ONE_JOURNAL: &str = "one";
/// Or one for each of so many slices: this, and their number.
const SLICES: &str = "slices:";

/// The settings in the ledger.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct AccountRecord {
    journals: String,
    lease_seconds: u64,
    keys: Vec<String>,
    token_secret: String,
    authority_certificate: String,
    authority_key: String,
    /// The names that the authority may vouch for, beside those of loopback.
    authority_names: Vec<String>,
    /// A restore has begun and not ended: there is no account to serve.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    restoring: bool,
    /// Ids that the account had before losses that an operator accepted: copies of those are thrown away.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    lost_accounts: Vec<String>,
}

impl AccountRecord {
    /// Fresh keys and secrets.
    pub(super) fn new(lease: Duration, names: Vec<String>, slices: u32) -> Result<Self, String> {
        let authority = Authority::generate(&names, SystemClock.now_seconds());
        let authority = authority.map_err(|error| error.to_string())?;
        Ok(Self {
            journals: match slices {
                1 => ONE_JOURNAL.to_owned(),
                count => format!("{SLICES}{count}"),
            },
            lease_seconds: lease.as_secs(),
            keys: vec![STANDARD.encode(random::<64>()?)],
            token_secret: STANDARD.encode(random::<32>()?),
            authority_certificate: authority.certificate_pem,
            authority_key: authority.key_pem,
            authority_names: names,
            restoring: false,
            lost_accounts: Vec::new(),
        })
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts and numbers can be written")
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, String> {
        let record: Self = serde_json::from_slice(bytes)
            .map_err(|error| format!("the settings in the ledger are damaged: {error}"))?;
        if record.slices_noted().is_none() {
            return Err(format!(
                "the account's journals are cut as '{}', which this version does not know: use the version that made it",
                record.journals
            ));
        }
        Ok(record)
    }

    fn slices_noted(&self) -> Option<u32> {
        if self.journals == ONE_JOURNAL {
            return Some(1);
        }
        let count = self.journals.strip_prefix(SLICES)?.parse().ok()?;
        (2..=SLICES_MAX).contains(&count).then_some(count)
    }

    /// Into how many slices the account is cut; 1 where it has one journal for everything.
    pub(super) fn slices(&self) -> u32 {
        self.slices_noted().unwrap_or(1)
    }

    /// What the ledger has.
    pub(super) fn read(ledger: &PostgresLedger) -> Result<Self, String> {
        Self::decode(&ledger.settings().map_err(|error| error.to_string())?)
    }

    pub(super) fn lease(&self) -> Duration {
        Duration::from_secs(self.lease_seconds)
    }

    /// The same, while a restore writes.
    pub(super) fn unfinished(self) -> Self {
        Self { restoring: true, ..self }
    }

    /// The same, after a loss was accepted in the account of this id.
    pub(super) fn with_loss_of(mut self, account: &str) -> Self {
        self.lost_accounts.push(account.to_owned());
        self
    }

    /// A copy of the account of this id is to be thrown away.
    pub(super) fn is_lost(&self, account: &str) -> bool {
        self.lost_accounts.iter().any(|lost| lost == account)
    }

    /// Refuses an account that is not whole.
    pub(super) fn require_whole(&self) -> Result<(), String> {
        if self.restoring {
            return Err(
                "a restore into this database has not ended: wait for it, or empty the database (drop schema armilla cascade),                  make the account anew and restore again"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// How often a node beats.
    pub(super) fn beat_every(&self) -> Duration {
        Lease::new(self.lease()).beat_every()
    }

    pub(super) fn first_key(&self) -> &str {
        self.keys.first().map_or("", String::as_str)
    }

    pub(super) fn account_keys(&self) -> Result<AccountKeys, String> {
        let mut accepted = MasterKeys::new(WellKnownKey::Nowhere);
        for key in &self.keys {
            let added = accepted.add(key, Access::ReadWrite);
            added.map_err(|error| format!("a key in the ledger is unusable: {error}"))?;
        }
        let first = self.first_key().to_owned();
        Ok(AccountKeys { accepted, first, source: KeySource::Ledger })
    }

    pub(super) fn token_secret(&self) -> Result<[u8; 32], String> {
        let bytes = STANDARD.decode(&self.token_secret).unwrap_or_default();
        bytes.try_into().map_err(|_| "the secret for tokens in the ledger is damaged".to_owned())
    }

    pub(super) fn authority(&self) -> Authority {
        Authority {
            certificate_pem: self.authority_certificate.clone(),
            key_pem: self.authority_key.clone(),
        }
    }

    /// Whether certificates of the account may name a host.
    pub(super) fn may_vouch_for(&self, name: &str) -> bool {
        self.authority_names.iter().any(|known| Authority::covers(known, name))
    }

    /// The same, with an authority that may vouch for further hosts. Its key stays, so certificates that it has issued stay good.
    pub(super) fn vouching_for(mut self, names: &[String]) -> Result<Self, String> {
        for name in names {
            if !self.may_vouch_for(name) {
                self.authority_names.push(name.clone());
            }
        }
        let renamed = self.authority().renamed(&self.authority_names, SystemClock.now_seconds());
        self.authority_certificate = renamed.map_err(|error| error.to_string())?.certificate_pem;
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_come_back_and_others_are_refused() {
        let record =
            AccountRecord::new(Duration::from_secs(7), vec!["db.example".into()], 1).unwrap();
        let back = AccountRecord::decode(&record.encode()).unwrap();
        assert_eq!(back.lease(), Duration::from_secs(7));
        assert_eq!(back.first_key(), record.first_key());
        assert_eq!(back.token_secret().unwrap(), record.token_secret().unwrap());
        assert!(back.account_keys().is_ok());
        assert!(back.may_vouch_for("DB.example") && !back.may_vouch_for("other"));
        let further = back.clone().vouching_for(&["other".to_owned()]).unwrap();
        let further = AccountRecord::decode(&further.encode()).unwrap();
        assert!(further.may_vouch_for("db.example") && further.may_vouch_for("a.other"));
        assert_eq!(further.authority().key_pem, back.authority().key_pem);
        assert!(AccountRecord::decode(b"{}").is_err());
        let lost = back.clone().with_loss_of("one");
        let lost = AccountRecord::decode(&lost.encode()).unwrap();
        assert!(lost.is_lost("one") && !lost.is_lost("two") && !back.is_lost("one"));
        assert!(back.require_whole().is_ok() && back.unfinished().require_whole().is_err());
        assert_eq!(AccountRecord { journals: "slices:4".into(), ..record.clone() }.slices(), 4);
        let later = AccountRecord { journals: "per partition".into(), ..record };
        let refused = AccountRecord::decode(&later.encode()).err().unwrap();
        assert!(refused.contains("per partition"), "{refused}");
    }
}
