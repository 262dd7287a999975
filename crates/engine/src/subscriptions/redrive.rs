//! Dead letters that are delivered again, out of order, one by one.

use super::deliver::{Delivery, DeliveryDone, mark_key};
use super::entry::Group;
use super::queue::DeliveryOutcome;
use super::target::Target;
use super::{Subscription, dead};
use crate::account::Account;
use crate::container::Container;
use crate::keys::Meta;
use crate::store_failure;
use armilla_model::error::{Error, Result};
use armilla_model::value::Value;
use armilla_storage::{Batch, Keyspace};
use std::sync::Arc;

/// A dead letter that is to be delivered again.
pub struct Letter {
    container: Arc<Container>,
    place: Arc<Container>,
    subscription: Arc<Subscription>,
    id: String,
    letter: Value,
}

impl Account {
    /// The container that keeps a subscription's dead letters.
    pub fn dead_letter_place(
        &self,
        container: &Container,
        subscription: &Subscription,
    ) -> Result<Arc<Container>> {
        let version = subscription.version();
        let Some(name) = &version.definition.dead_letter else {
            return Err(Error::bad_request(
                "The subscription keeps no dead letters: its definition has no 'deadLetter'.",
            ));
        };
        self.container(&container.settings().database, name)
    }

    /// The dead letters of a subscription, and whether there are more than are shown.
    pub fn dead_letters(
        &self,
        container: &Container,
        subscription: &Subscription,
    ) -> Result<(Vec<Value>, bool)> {
        dead::list(&*self.dead_letter_place(container, subscription)?, subscription)
    }

    /// Dead letters as they can be delivered again: those with these ids, or all that are shown.
    pub fn letters(
        &self,
        container: &Arc<Container>,
        subscription: &Arc<Subscription>,
        ids: Option<&[String]>,
    ) -> Result<Vec<Letter>> {
        let place = self.dead_letter_place(container, subscription)?;
        let (letters, _) = dead::list(&place, subscription)?;
        let id_of = |letter: &Value| letter.get("id").and_then(Value::as_str).map(str::to_owned);
        let letters = letters.into_iter().filter_map(|letter| Some((id_of(&letter)?, letter)));
        let letters: Vec<_> = letters.collect();
        if let Some(missing) =
            ids.into_iter().flatten().find(|id| letters.iter().all(|(known, _)| known != *id))
        {
            return Err(Error::NotFound(format!("There is no dead letter '{missing}'.")));
        }
        let wanted = |id: &String| ids.is_none_or(|ids| ids.contains(id));
        let letters = letters.into_iter().filter(|(id, _)| wanted(id));
        let letter = |(id, letter)| Letter {
            container: container.clone(),
            place: place.clone(),
            subscription: subscription.clone(),
            id,
            letter,
        };
        Ok(letters.map(letter).collect())
    }
}

impl Letter {
    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Delivers it. The callback hears how that ended, on any thread.
    pub fn deliver(&self, done: impl FnOnce(DeliveryOutcome) + Send + 'static) {
        let entry = match dead::entry_of(&self.letter) {
            Ok(entry) => entry,
            Err(error) => {
                return done(DeliveryOutcome::Refused(super::entry::DeliveryFailure::told(
                    error.to_string(),
                )));
            }
        };
        let (container, subscription) = (self.container.clone(), self.subscription.clone());
        let mark = mark_key(Meta::SubscriptionRedriven, &container, &subscription, &entry.key);
        // It had its effect before, and the server stopped before the letter was removed.
        match container.core.snapshot().get(Keyspace::Meta, &mark).map_err(store_failure) {
            Ok(None) => {}
            Ok(Some(_)) => return done(DeliveryOutcome::Done),
            Err(error) => return done(DeliveryOutcome::NotTried(error.to_string())),
        }
        let group = Group {
            lsn: entry.key.lsn,
            epk: container.key_definition().epk(&entry.partition_key),
            second: entry.second,
            bytes: 0,
            depth: 0,
            broken: None,
            entries: vec![entry],
        };
        let definition = subscription.version().definition.clone();
        let uuid = container.core.ids.next_etag().to_string().trim_matches('"').to_owned();
        let groups = Arc::new(vec![group]);
        let mark = Meta::SubscriptionRedriven;
        let delivery =
            Delivery { container, subscription, definition, groups, attempt: 1, uuid, mark };
        delivery.begin(DeliveryDone::new(done));
    }

    /// Removes it, once it was delivered.
    pub fn remove(&self) -> Result<()> {
        dead::remove(&self.place, &self.subscription, &self.id)?;
        let version = self.subscription.version();
        if let (Target::Procedure(_), Ok(entry)) =
            (&version.definition.target, dead::entry_of(&self.letter))
        {
            let kind = Meta::SubscriptionRedriven;
            let mark = mark_key(kind, &self.container, &self.subscription, &entry.key);
            let mut batch = Batch::new();
            batch.delete(Keyspace::Meta, mark);
            self.container.core.commit_and_wait(batch);
        }
        Ok(())
    }
}
