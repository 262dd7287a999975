//! What the explorer shows beside what the protocol has: figures, the language, the last requests and minutes,
//! partitions, the shape of data, reports of labs. All of it is bounded, and what takes its time runs on the pools.

mod history;
mod partitions;
mod prediction;
mod reports;
mod shape;

pub(crate) use reports::Reports;

use super::EngineService;
use crate::cluster::NodeFacts;
use crate::limits::{
    CHECK_TEXT_MAX, OVERVIEW_CONTAINERS_MAX, SHAPE_SAMPLE_DEFAULT, SHAPE_SAMPLE_MAX,
};
use crate::routes::{ContainerPath, Operation};
use crate::wire;
use crate::{Call, Reply};
use armilla_engine::Container;
use armilla_engine::query::{self, Limit, Query, Scope, language};
use armilla_engine::ranges::EpkSpan;
use armilla_model::limits::ITEM_SIZE_MAX;
use armilla_model::partition_key::Epk;
use armilla_model::value::{Object, Value};
use armilla_model::{Error, Result};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::LazyLock;

/// Answers a view.
pub(super) async fn answer(service: &EngineService, call: &Call<'_>) -> Result<Reply> {
    match call.operation {
        Operation::ReadOverview => overview(service).await,
        Operation::ReadLanguage => {
            let known = call.context.if_none_match.map(ToOwned::to_owned);
            service.blocking(|_| Ok(tell_language(known))).await
        }
        Operation::CheckQuery => check(service, call).await,
        Operation::ReadShape(path) => sample(service, call, path).await,
        Operation::ReadPartitions(path) => partitions::answer(service, call, path).await,
        Operation::MergePartitions(path) => partitions::merge(service, path).await,
        Operation::PredictWrites(path) => prediction::answer(service, call, path).await,
        Operation::ReadActivity => history::activity(service, call).await,
        Operation::ListRequests => history::requests(service, call).await,
        Operation::ClearRequests => history::clear(service).await,
        Operation::ReadAdvice => advice(service, call).await,
        Operation::ListReports => Ok(told(&service.reports.list())),
        Operation::ReadReport { name } => service.reports.read(name).map(Reply::ok),
        Operation::WriteReport { name } => {
            service.reports.write(name, &call.body)?;
            Ok(Reply::no_content())
        }
        _ => Err(wire::misrouted(call)),
    }
}

fn told(members: &Object) -> Reply {
    Reply::ok(wire::text(members))
}

fn count(number: impl TryInto<i64>) -> Value {
    number.try_into().unwrap_or(i64::MAX).into()
}

/// A number behind the question mark.
fn number_in(call: &Call<'_>, name: &str) -> Option<u64> {
    let pairs = call.context.query_string?.split('&');
    let found = pairs.filter_map(|pair| pair.split_once('=')).find(|(known, _)| *known == name);
    found?.1.parse().ok()
}

/// A text behind the question mark.
fn text_in(call: &Call<'_>, name: &str) -> Option<String> {
    let pairs = call.context.query_string?.split('&');
    let found = pairs.filter_map(|pair| pair.split_once('=')).find(|(known, _)| *known == name);
    String::from_utf8(crate::routes::percent_decode(found?.1.as_bytes())?).ok()
}

/// The account and its containers in figures.
async fn overview(service: &EngineService) -> Result<Reply> {
    let (seconds, metrics) = (service.seconds.clone(), service.metrics.clone());
    let nodes = nodes(service);
    let made = service.blocking(move |account| {
        let catalog = account.catalog();
        let all = catalog.databases.values().flat_map(|database| database.containers.values());
        let mut rows = Vec::new();
        let (mut items, mut bytes, mut containers) = (0_u64, 0_u64, 0_usize);
        for container in all {
            items += container.document_count();
            bytes += container.size();
            containers += 1;
            if rows.len() < OVERVIEW_CONTAINERS_MAX {
                let rates = metrics
                    .counts(container.number)
                    .then(|| seconds.container_rates(container.number));
                rows.push(Value::object(figures(container, rates)));
            }
        }
        Ok(Object::of([
            ("databases", count(catalog.databases.len())),
            ("containers", count(containers)),
            ("items", count(items)),
            ("bytes", count(bytes)),
            ("damagedPartitions", count(account.damaged_partitions())),
            ("dials", Value::object(account.dials().show())),
            ("nodes", nodes),
            ("list", Value::array(rows)),
        ]))
    });
    made.await.map(|members| told(&members))
}

/// The nodes of a cluster; nothing where the server is alone.
fn nodes(service: &EngineService) -> Value {
    let Some(nodes) = &service.nodes else { return Value::Null };
    Value::array(nodes.nodes().into_iter().map(NodeFacts::shown).collect())
}

/// A container. Without rates, it is one of those that are counted together.
fn figures(container: &Container, rates: Option<(f64, u64)>) -> Object {
    let (units, throttled) = rates.unwrap_or_default();
    let settings = container.settings();
    let paths = container.key_definition().paths.iter().map(|path| path.to_string().into());
    Object::of([
        ("database", (&*settings.database).into()),
        ("container", (&*settings.name).into()),
        ("partitionKey", Value::array(paths.collect())),
        ("viewOf", container.view().map_or(Value::Null, |view| view.source_name().into())),
        ("items", count(container.document_count())),
        ("bytes", count(container.size())),
        ("partitions", count(container.partitions().len())),
        ("throughput", i64::from(container.budget().units()).into()),
        ("unitsPerSecond", units.into()),
        ("throttledInMinute", count(throttled)),
        ("counted", rates.is_some().into()),
        ("indexProgress", i64::from(container.index_progress()).into()),
        ("rid", Value::String(container.rid_text.clone())),
        ("etag", wire::etag_member(settings.etag)),
    ])
}

/// The language as text, and the etag of that text: both are the binary's own.
static LANGUAGE: LazyLock<(Vec<u8>, String)> = LazyLock::new(|| {
    let text = wire::text(&language());
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let etag = format!("\"{:016x}\"", hasher.finish());
    (text, etag)
});

fn tell_language(known: Option<String>) -> Reply {
    let (text, etag) = &*LANGUAGE;
    match known.as_ref() == Some(etag) {
        true => Reply::not_modified().etag(etag.clone()),
        false => Reply::ok(text.clone()).etag(etag.clone()),
    }
}

fn language() -> Object {
    let keywords = language::KEYWORDS.iter().map(|word| Value::from(*word)).collect();
    let functions = language::documented().map(|function| {
        let most = (function.arguments_max < usize::MAX).then_some(function.arguments_max);
        let signature = signature(function.name, function.arguments_min, most);
        Value::object(Object::of([
            ("name", function.name.into()),
            ("signatures", Value::array(vec![signature.into()])),
            ("min", count(function.arguments_min)),
            ("max", most.map_or(Value::Null, count)),
            ("result", function.result.into()),
            ("says", function.documentation.into()),
        ]))
    });
    let limits = Object::of([
        ("queryBytes", count(CHECK_TEXT_MAX)),
        ("itemBytes", count(ITEM_SIZE_MAX)),
        ("shapeItems", count(SHAPE_SAMPLE_MAX)),
    ]);
    Object::of([
        ("keywords", Value::array(keywords)),
        ("functions", Value::array(functions.collect())),
        ("limits", Value::object(limits)),
    ])
}

/// How a function is called: `CONTAINS(a, b[, c])`, `CONCAT(a, b, …)`.
fn signature(name: &str, least: usize, most: Option<usize>) -> String {
    let letters: Vec<_> = ('a'..='z').map(String::from).collect();
    let shown = |count: usize| letters.get(..count).unwrap_or(&letters).join(", ");
    let more = match most {
        Some(most) if most > least && least == 0 => format!("[{}]", shown(most)),
        Some(most) if most > least => {
            format!("[, {}]", shown(most).split_off(shown(least).len() + 2))
        }
        Some(_) => String::new(),
        None => ", …".to_owned(),
    };
    format!("{name}({}{more})", shown(least))
}

/// Compiles a query, runs nothing, and tells what is wrong with it or could be better.
async fn check(service: &EngineService, call: &Call<'_>) -> Result<Reply> {
    if call.body.len() > CHECK_TEXT_MAX {
        return Err(Error::bad_request("A query this long is not checked."));
    }
    let asked = wire::object(&call.body)?;
    let [database, container] = wire::required(&asked, ["database", "container"])?;
    let container = service.account.container(database, container)?;
    let body = call.body.clone();
    let work = move || {
        let outcome = wire::query::parse(&body).and_then(|request| {
            let advice = query::advice(&container, &request)?;
            let aliases = query::aliases(&container, &request)?;
            let scope = Scope { span: all(), limit: Limit::Container, cross_partition: true };
            Query::new(container, request, &scope).map(|_| (advice, aliases))
        });
        Ok(match outcome {
            Ok((advice, aliases)) => {
                let rules = advice.into_iter().map(Value::from).collect();
                let aliases = aliases.into_iter().map(Value::from).collect();
                Object::of([
                    ("ok", true.into()),
                    ("advice", Value::array(rules)),
                    ("aliases", Value::array(aliases)),
                ])
            }
            Err(error) => Object::of([("ok", false.into()), ("error", error.message().into())]),
        })
    };
    service.reading(work).await.map(|members| told(&members))
}

/// The whole key space.
fn all() -> EpkSpan {
    EpkSpan { min: Epk::default(), max: None }
}

async fn sample(
    service: &EngineService,
    call: &Call<'_>,
    path: ContainerPath<'_>,
) -> Result<Reply> {
    let container = service.account.container(path.database, path.container)?;
    let wanted = number_in(call, "sample")
        .map_or(SHAPE_SAMPLE_DEFAULT, |wanted| usize::try_from(wanted).unwrap_or(SHAPE_SAMPLE_MAX));
    let wanted = wanted.clamp(1, SHAPE_SAMPLE_MAX);
    let (members, charge) = service.reading(move || shape::of(&container, wanted)).await?;
    Ok(told(&members).charge(charge))
}

/// What the advisor found; without one, that there is none.
async fn advice(service: &EngineService, call: &Call<'_>) -> Result<Reply> {
    let Some(adviser) = service.adviser.clone() else {
        return Ok(Reply::ok(crate::advice::OFF));
    };
    let question = crate::advice::AdviceQuestion {
        database: text_in(call, "database"),
        prove: number_in(call, "prove") == Some(1),
    };
    service.reading(move || adviser.advice(&question)).await.map(Reply::ok)
}
