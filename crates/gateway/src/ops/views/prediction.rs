//! What writes would cost if a container had another definition: told from a sample of its items, before anybody decides.

use super::{count, told};
use crate::limits::PREDICTION_SAMPLE;
use crate::ops::EngineService;
use crate::routes::ContainerPath;
use crate::wire;
use crate::{Call, Reply};
use armilla_engine::Container;
use armilla_engine::prediction::create_charge;
use armilla_engine::ranges::EpkSpan;
use armilla_model::charge::RequestCharge;
use armilla_model::policy::ContainerPolicy;
use armilla_model::value::{Object, Value};
use armilla_model::{Result, json};

pub(super) async fn answer(
    service: &EngineService,
    call: &Call<'_>,
    path: ContainerPath<'_>,
) -> Result<Reply> {
    let container = service.account.container(path.database, path.container)?;
    let body = call.body.clone();
    let work = move || {
        let policy = ContainerPolicy::parse(&wire::object(&body)?)?;
        predict(&container, &policy)
    };
    let (members, charge) = service.reading(work).await?;
    Ok(told(&members).charge(charge))
}

fn predict(container: &Container, policy: &ContainerPolicy) -> Result<(Object, RequestCharge)> {
    let settings = container.settings();
    let partitions = container.partitions();
    let share = PREDICTION_SAMPLE.div_ceil(partitions.len().max(1));
    let (mut sampled, mut bytes, mut spent) = (0_u64, 0_u64, RequestCharge::ZERO);
    let (mut before, mut after) = (RequestCharge::ZERO, RequestCharge::ZERO);
    for partition in partitions.iter().take(PREDICTION_SAMPLE) {
        let range = &partition.range;
        let span = EpkSpan { min: range.min.clone(), max: range.max.clone() };
        let page = container.list_items(&span, None, share)?;
        spent += page.charge;
        for item in &page.items {
            let item = as_written(&json::parse(&item.text)?);
            let size = item.to_json().len();
            before += create_charge(container, &settings.policy, &item, size);
            after += create_charge(container, policy, &item, size);
            (sampled, bytes) = (sampled + 1, bytes + size as u64);
        }
    }
    let each = |sum: RequestCharge| Value::from(sum.units() / sampled.max(1) as f64);
    let members = Object::of([
        ("sampled", count(sampled)),
        ("bytes", count(bytes / sampled.max(1))),
        ("before", each(before)),
        ("after", each(after)),
    ]);
    Ok((members, spent))
}

/// An item without what the server adds.
fn as_written(item: &Value) -> Value {
    let mut members = item.as_object().cloned().unwrap_or_default();
    for name in ["_rid", "_self", "_etag", "_attachments", "_ts"] {
        members.remove(name);
    }
    Value::object(members)
}
