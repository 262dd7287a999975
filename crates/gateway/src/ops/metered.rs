//! What surrounds every request: throughput is asked for before it does anything and charged after
//! its work, reads cost by their consistency, and everything is counted.

use super::addressed::ItemTarget;
use super::{EngineService, addressed, admission, batch, refused};
use crate::headers::Consistency;
use crate::metrics::Served;
use crate::reply::Fact;
use crate::routes::{Operation, ScriptKind};
use crate::{Call, Reply};
use armilla_engine::Container;
use armilla_engine::dials::{Dials, Throttling};
use armilla_engine::partition::Partition;
use armilla_engine::throttle::{Admission, Ask};
use armilla_model::charge::RequestCharge;
use armilla_model::clock::monotonic;
use armilla_model::{Error, Result};
use http::StatusCode;
use std::sync::Arc;
use std::time::Duration;

/// Who pays for a request.
enum Payer {
    /// Nobody: plans, dials, and items of a container that is not there.
    Nobody,
    /// The account, for everything that is no item.
    Account,
    /// The partitions that the request addresses. None are named while nothing is throttled.
    Items {
        container: Arc<Container>,
        dials: Arc<Dials>,
        partitions: Vec<Arc<Partition>>,
        ask: Ask,
    },
}

/// Answers a request within its throughput.
pub(super) async fn call(service: &EngineService, mut call: Call<'_>) -> Reply {
    let started = monotonic();
    let operation = call.operation;
    let asked = service.requests.begin(&call);
    let level = call.context.consistency.unwrap_or(service.consistency);
    let readable = service.decode(&mut call).await;
    if !call.context.gathered.is_empty() {
        return Box::pin(gathered(service, call, readable)).await;
    }
    let mut target = ItemTarget::find(service, &call);
    if let Some(Ok(target)) = &mut target
        && target.is_in_body()
        && readable.is_ok()
    {
        Box::pin(target.read_body(service, &call)).await;
    }
    let mut payer = Payer::of(&call, target.as_ref());
    let reply = match payer.admit(service, &call) {
        _ if level > service.consistency => too_strong(service.consistency),
        Admission::Refused(retry_after) => payer.refuse(retry_after),
        admission => {
            let reply = match admission::admit_write(service, &call) {
                Ok(_under_way) => match readable.and(target.transpose()) {
                    Ok(target) => service.perform(call, target).await,
                    Err(error) => refused(&operation, error),
                },
                Err(error) => Reply::error(error),
            };
            let charge = payer.charge(service, &operation, level, &reply);
            payer.pay(service, charge, reply.shares());
            if let (Payer::Items { container, .. }, Some(script)) = (&payer, procedure(&operation))
            {
                container.remember_script(script, charge);
            }
            with_report(reply.charge(charge), admission)
        }
    };
    let served = Served {
        operation: operation.name(),
        container: payer.container(),
        range: reply.facts().range,
        shares: reply.shares(),
        throttled: reply.throttled(),
        status: reply.status().as_u16(),
        charge: reply.charged(),
        took: started.elapsed(),
    };
    service.metrics.count(&served);
    if let Some(asked) = asked {
        let now = service.account.clock().now_millis();
        let facts = reply.facts();
        let key = asked.key();
        service.requests.note(asked, &served, facts.item_count, facts.replaced.as_deref(), now);
        if let (Some(key), Some(container)) = (key, served.container) {
            service.hot_keys.note(container.number, key, served.charge, now / 1000);
        }
    }
    reply
}

/// Answers a request whose parts the slices of the account have made, asked for and been paid for.
async fn gathered(service: &EngineService, call: Call<'_>, readable: Result<()>) -> Reply {
    let operation = call.operation;
    let level = call.context.consistency.unwrap_or(service.consistency);
    let target = ItemTarget::find(service, &call);
    let payer = Payer::of(&call, target.as_ref());
    let reply = match readable.and(target.transpose()) {
        Ok(target) => service.perform(call, target).await,
        Err(error) => refused(&operation, error),
    };
    let charge = payer.charge(service, &operation, level, &reply);
    reply.charge(charge)
}

/// A client may ask for less than the account promises, never for more.
fn too_strong(level: Consistency) -> Reply {
    let message = format!(
        "The consistency level of a request may not be stronger than the account's, which is {}.",
        level.name()
    );
    Reply::error(Error::bad_request(message)).charge(RequestCharge::ONE)
}

/// Says how long a request would have waited, if it would.
pub(super) fn with_report(reply: Reply, admission: Admission) -> Reply {
    match admission {
        Admission::Reported(wait) => reply.fact(Fact::WouldThrottle, wait.as_millis().to_string()),
        _ => reply,
    }
}

/// The procedure that is run, if one is.
fn procedure<'a>(operation: &Operation<'a>) -> Option<&'a str> {
    match operation {
        Operation::ExecuteProcedure(path) if path.kind == ScriptKind::StoredProcedure => {
            Some(path.script)
        }
        _ => None,
    }
}

impl Payer {
    fn of(call: &Call<'_>, target: Option<&Result<ItemTarget>>) -> Self {
        let target = match (call.operation, target) {
            (Operation::PlanQuery(_), _) => return Self::Nobody,
            (operation, _) if operation.is_about_server() => return Self::Nobody,
            (_, None) => return Self::Account,
            (_, Some(Err(_))) => return Self::Nobody,
            (_, Some(Ok(target))) => target,
        };
        let (container, dials) = (target.container.clone(), target.container.dials());
        // The operations of a bulk request ask and pay one by one. What cannot be addressed is refused
        // by the operation itself.
        let throttled = dials.throttle != Throttling::Off && !batch::is_bulk(call);
        let partitions = if throttled { target.partitions().to_vec() } else { Vec::new() };
        let reserve = procedure(&call.operation).filter(|_| throttled);
        let ask = Ask {
            low_priority: call.context.low_priority,
            reserve: reserve.map_or(RequestCharge::ZERO, |script| container.script_reserve(script)),
            ..Ask::default()
        };
        Self::Items { container, dials, partitions, ask }
    }

    /// Asks for throughput: each partition that is addressed must have some left.
    fn admit(&mut self, service: &EngineService, call: &Call<'_>) -> Admission {
        match self {
            Self::Nobody => Admission::Free,
            Self::Account => service.account.admit_metadata(),
            Self::Items { container, partitions, ask, .. } => {
                let mut outcome = Admission::Free;
                for partition in partitions {
                    let admission = container.admit(partition, ask, call.context.throughput_bucket);
                    outcome = later(outcome, admission);
                }
                outcome
            }
        }
    }

    fn refuse(&self, retry_after: Duration) -> Reply {
        match self {
            Self::Items { container, partitions, .. } => {
                let reply = Reply::error(Error::TooManyRequests { retry_after });
                let reply = addressed::owned_by(reply, container);
                match partitions.as_slice() {
                    [only] => reply.position(addressed::position_of(only)),
                    _ => reply,
                }
            }
            _ => Reply::error(Error::MetadataThrottled { retry_after }),
        }
    }

    /// What an answer costs in the end.
    fn charge(
        &self,
        service: &EngineService,
        operation: &Operation<'_>,
        level: Consistency,
        reply: &Reply,
    ) -> RequestCharge {
        let of_account;
        let dials: &Dials = match self {
            Self::Items { dials, .. } => dials,
            Self::Nobody | Self::Account => {
                of_account = service.account.dials();
                &of_account
            }
        };
        let rates = &dials.profile.rates;
        let status = reply.status();
        let failed = status.is_client_error() || status.is_server_error();
        match self {
            Self::Nobody => return reply.charged(),
            Self::Account if !failed && operation.is_read() => return rates.metadata_read,
            Self::Account if !failed => return rates.metadata_write,
            _ => {}
        }
        // Operations charge what is refused with one unit; the table may say otherwise.
        let charge = match reply.charged() {
            RequestCharge::ONE if failed => rates.failure,
            charge => charge,
        };
        let read = is_read_of_items(operation) && (!failed || status == StatusCode::NOT_FOUND);
        if read { charge * factor_of(level, dials) } else { charge }
    }

    /// Records what the request has cost; several partitions share it as they worked for it, or
    /// evenly where that is not known.
    fn pay(&self, service: &EngineService, charge: RequestCharge, shares: &[(u32, RequestCharge)]) {
        match self {
            Self::Nobody => {}
            Self::Account => service.account.spend_metadata(charge),
            Self::Items { container, partitions, ask, .. } => {
                let evenly = charge.steps() / partitions.len().max(1) as u64;
                let all: RequestCharge = shares.iter().map(|(_, share)| *share).sum();
                // Reads of strong consistency cost twice what their parts say.
                let factor = (charge.steps() / all.steps().max(1)).max(1);
                for partition in partitions {
                    let known = shares.iter().find(|(range, _)| *range == partition.range.id);
                    let part = match known {
                        Some((_, share)) => *share * factor,
                        None if shares.is_empty() => RequestCharge::from_steps(evenly),
                        None => continue,
                    };
                    container.spend(partition, ask, part);
                }
            }
        }
    }

    fn container(&self) -> Option<&Container> {
        match self {
            Self::Items { container, .. } => Some(container),
            _ => None,
        }
    }
}

/// By what the reads inside a request are multiplied.
pub(super) fn read_factor(service: &EngineService, call: &Call<'_>, dials: &Dials) -> u64 {
    factor_of(call.context.consistency.unwrap_or(service.consistency), dials)
}

/// Strong and bounded-staleness reads cost twice as much.
fn factor_of(level: Consistency, dials: &Dials) -> u64 {
    let doubled = level >= Consistency::BoundedStaleness && dials.consistency_charge;
    if doubled { 2 } else { 1 }
}

fn is_read_of_items(operation: &Operation<'_>) -> bool {
    matches!(
        operation,
        Operation::ReadItem(_)
            | Operation::ListItems(_)
            | Operation::ReadChangeFeed(_)
            | Operation::QueryItems(_)
    )
}

/// Of two admissions the one that lets less through.
pub(super) fn later(left: Admission, right: Admission) -> Admission {
    let rank = |admission: &Admission| match admission {
        Admission::Free => (0, Duration::ZERO),
        Admission::Granted => (1, Duration::ZERO),
        Admission::Reported(wait) => (2, *wait),
        Admission::Refused(wait) => (3, *wait),
    };
    if rank(&left) >= rank(&right) { left } else { right }
}
