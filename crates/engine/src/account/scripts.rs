//! Scripts as resources: create, replace, delete.

use super::Account;
use crate::catalog::stored::write_script;
use crate::container::Container;
use crate::keys::Meta;
use crate::names::check_script_name;
use crate::scripts::{Kind, Script, Scripts, Trigger};
use armilla_model::error::{Error, Result};
use armilla_model::limits::{FUNCTIONS_MAX, PROCEDURES_MAX, TRIGGERS_MAX};
use std::sync::Arc;

/// What a client asks for.
pub struct NewScript<'a> {
    /// What it is.
    pub kind: Kind,
    /// Its name.
    pub name: &'a str,
    /// JavaScript.
    pub body: &'a str,
    /// When it runs, for triggers.
    pub trigger: Option<Trigger>,
}

impl Account {
    /// Sets what scripts may use, before the first one comes: what runs them is started then, which
    /// takes a few milliseconds that most starts can do without. Unless set, the limits of
    /// `docs/protocol/scripts.md#limits`
    /// hold.
    pub fn set_script_limits(&self, limits: armilla_script::Limits) {
        self.core.set_script_limits(limits);
    }

    /// Scripts that did not end in time, and whose threads were given up.
    pub fn scripts_given_up(&self) -> u64 {
        self.core.scripts_given_up()
    }

    /// Creates a script; with `upsert` one of that name is replaced.
    pub fn create_script<'a>(
        &'a self,
        container: &'a Container,
        new: &NewScript<'_>,
        upsert: bool,
    ) -> Result<(Arc<Script>, bool)> {
        check_script_name(new.name)?;
        crate::scripts::check(self.core.script_engine()?, new)?;
        self.change(|change| {
            container.check_alive()?;
            let mut scripts = Scripts::clone(&container.scripts.load());
            let of_kind = scripts.of_mut(new.kind);
            let existing = of_kind.get(new.name).map(|script| script.number);
            if existing.is_some() && !upsert {
                return Err(Error::conflict());
            }
            let limit = match new.kind {
                Kind::Procedure => PROCEDURES_MAX,
                Kind::Trigger => TRIGGERS_MAX,
                Kind::Function => FUNCTIONS_MAX,
            };
            if existing.is_none() && of_kind.len() >= limit {
                return Err(Error::Forbidden(format!(
                    "A container may have at most {limit} of these scripts."
                )));
            }
            let number = existing.unwrap_or_else(|| change.number());
            let (etag, ts) = change.stamp();
            let script = Arc::new(Script {
                number,
                kind: new.kind,
                name: new.name.into(),
                body: new.body.into(),
                trigger: new.trigger.clone(),
                etag,
                ts,
            });
            change.put(Meta::Script, &[container.number, number], write_script(&script));
            of_kind.insert(script.name.clone(), script.clone());
            change.show(move || container.scripts.store(Arc::new(scripts)));
            Ok((script, existing.is_none()))
        })
    }

    /// Replaces a script; its name may change.
    pub fn replace_script<'a>(
        &'a self,
        container: &'a Container,
        segment: &str,
        new: &NewScript<'_>,
        if_match: Option<&str>,
    ) -> Result<Arc<Script>> {
        check_script_name(new.name)?;
        crate::scripts::check(self.core.script_engine()?, new)?;
        self.change(|change| {
            let before = container.script(new.kind, segment)?;
            before.etag.check(if_match)?;
            let mut scripts = Scripts::clone(&container.scripts.load());
            let of_kind = scripts.of_mut(new.kind);
            if *before.name != *new.name && of_kind.contains_key(new.name) {
                return Err(Error::conflict());
            }
            let (etag, ts) = change.stamp();
            let script = Arc::new(Script {
                name: new.name.into(),
                body: new.body.into(),
                trigger: new.trigger.clone(),
                etag,
                ts,
                ..Script::clone(&before)
            });
            change.put(Meta::Script, &[container.number, script.number], write_script(&script));
            of_kind.remove(&before.name);
            of_kind.insert(script.name.clone(), script.clone());
            change.show(move || container.scripts.store(Arc::new(scripts)));
            Ok(script)
        })
    }

    /// Deletes a script.
    pub fn delete_script<'a>(
        &'a self,
        container: &'a Container,
        kind: Kind,
        segment: &str,
        if_match: Option<&str>,
    ) -> Result<()> {
        self.change(|change| {
            let script = container.script(kind, segment)?;
            script.etag.check(if_match)?;
            let mut scripts = Scripts::clone(&container.scripts.load());
            scripts.of_mut(kind).remove(&script.name);
            change.delete(Meta::Script, &[container.number, script.number]);
            change.show(move || container.scripts.store(Arc::new(scripts)));
            Ok(())
        })
    }
}
