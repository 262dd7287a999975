//! What was: the last minutes second by second, and the last requests one by one.
//!
//! Both walk over all containers for their names, so they run beside the threads of the network.

use super::{count, number_in, told};
use crate::limits::REQUEST_LOG_PAGE;
use crate::metrics::{Second, Series};
use crate::ops::EngineService;
use crate::{Call, Reply};
use armilla_engine::{Account, ContainerSettings};
use armilla_model::Result;
use armilla_model::value::{Object, Value};
use std::collections::HashMap;
use std::sync::Arc;

/// The settings of containers by number, for their names.
type SettingsByNumber = HashMap<u32, Arc<ContainerSettings>>;

fn names(account: &Account) -> SettingsByNumber {
    let catalog = account.catalog();
    let containers = catalog.databases.values().flat_map(|database| database.containers.values());
    containers.map(|container| (container.number, container.settings())).collect()
}

pub(super) async fn activity(service: &EngineService, call: &Call<'_>) -> Result<Reply> {
    let (seconds, since) = (service.seconds.clone(), number_in(call, "since").unwrap_or(0));
    let made = service.blocking(move |account| {
        let names = names(account);
        let rows = seconds.since(since).into_iter().map(|one| second(&one, &names));
        Ok(Object::of([("seconds", Value::array(rows.collect()))]))
    });
    made.await.map(|members| told(&members))
}

fn second(second: &Second, names: &SettingsByNumber) -> Value {
    let all = second.series.iter().map(|one| series(one, names)).collect();
    Value::object(Object::of([
        ("at", count(second.at)),
        ("commits", count(second.commits)),
        ("compactions", count(second.compactions)),
        ("series", Value::array(all)),
    ]))
}

fn series(one: &Series, names: &SettingsByNumber) -> Value {
    let settings = one.container.and_then(|number| names.get(&number));
    let name = |name: Option<&str>| name.map_or(Value::Null, Value::from);
    Value::object(Object::of([
        ("operation", one.operation.into()),
        ("database", name(settings.map(|settings| &*settings.database))),
        ("container", name(settings.map(|settings| &*settings.name))),
        ("requests", count(one.requests)),
        ("units", one.units.into()),
        ("throttled", count(one.throttled)),
        ("p50", one.p50.into()),
        ("p99", one.p99.into()),
    ]))
}

pub(super) async fn requests(service: &EngineService, call: &Call<'_>) -> Result<Reply> {
    let limit = number_in(call, "limit").and_then(|limit| usize::try_from(limit).ok());
    let limit = limit.unwrap_or(REQUEST_LOG_PAGE).min(REQUEST_LOG_PAGE);
    let (log, after) = (service.requests.clone(), number_in(call, "after").unwrap_or(0));
    let made = service.blocking(move |account| {
        let page = log.after(after, limit);
        let names = names(account);
        let rows = page.entries.iter().map(|entry| Value::object(entry.members(&names))).collect();
        Ok(Object::of([
            ("newest", count(page.newest)),
            ("dropped", count(page.dropped)),
            ("kept", count(log.capacity())),
            ("requests", Value::array(rows)),
        ]))
    });
    made.await.map(|members| told(&members))
}

pub(super) async fn clear(service: &EngineService) -> Result<Reply> {
    let (log, hot_keys) = (service.requests.clone(), service.hot_keys.clone());
    let cleared = service.blocking(move |_| {
        log.clear();
        hot_keys.clear();
        Ok(())
    });
    cleared.await.map(|()| Reply::no_content())
}
