//! Offers, and throughput in headers.

use super::{etag_member, ts_member};
use crate::reply::Fact;
use crate::{Reply, RequestContext};
use armilla_engine::account::OfferChange;
use armilla_engine::catalog::Catalog;
use armilla_engine::offers::{Offer, Share, Throughput};
use armilla_model::rid;
use armilla_model::value::{Object, Value};
use armilla_model::{Error, Result, json};
use std::sync::Arc;

/// The resource.
pub(crate) fn shape(offer: &Offer) -> Object {
    let rid = rid_text(offer.number);
    let mut content = content(offer.throughput, offer.highest);
    if !offer.shares.is_empty() {
        let share = |share: &Share| {
            Value::object(Object::of([
                ("id", i64::from(share.number).into()),
                ("maxThroughputPercentage", i64::from(share.percent).into()),
            ]))
        };
        let shares = offer.shares.iter().map(share).collect();
        content.insert("throughputBuckets", Value::array(shares));
    }
    Object::of([
        ("resource", Value::String(offer.resource.clone())),
        ("offerType", "Invalid".into()),
        ("offerResourceId", Value::String(offer.resource_rid.clone())),
        ("offerVersion", "V2".into()),
        ("content", Value::object(content)),
        ("id", rid.as_str().into()),
        ("_rid", rid.as_str().into()),
        ("_self", format!("offers/{rid}/").into()),
        ("_etag", etag_member(offer.etag)),
        ("_ts", ts_member(offer.ts)),
    ])
}

/// The member `content`.
fn content(throughput: Throughput, highest: u32) -> Object {
    let mut content = Object::new();
    match throughput {
        Throughput::Manual(units) => {
            content.insert("offerThroughput", i64::from(units).into());
            content.insert("offerIsRUPerMinuteThroughputEnabled", false.into());
        }
        Throughput::Autoscale { max, increment_percent } => {
            let mut settings = Object::of([
                ("maxThroughput", i64::from(max).into()),
                ("maximumTierThroughput", i64::from(max).into()),
            ]);
            // Clients tell an increment of zero from none.
            if let Some(percent) = increment_percent {
                let percent = Object::of([("incrementPercent", i64::from(percent).into())]);
                let policy = Object::of([("throughputPolicy", Value::object(percent))]);
                settings.insert("autoUpgradePolicy", Value::object(policy));
            }
            content.insert("offerThroughput", i64::from(max / 10).into());
            content.insert("offerIsRUPerMinuteThroughputEnabled", false.into());
            content.insert("offerAutopilotSettings", Value::object(settings));
        }
    }
    let parameters = Object::of([
        ("maxThroughputEverProvisioned", i64::from(highest).into()),
        ("maxConsumedStorageEverInKB", 0.into()),
    ]);
    content.insert("offerMinimumThroughputParameters", Value::object(parameters));
    content
}

/// Reads `content`, which a client may have changed.
fn throughput(content: &Value) -> Result<Throughput> {
    match content.get("offerAutopilotSettings") {
        Some(settings) if settings.get("maxThroughput").is_some() => autoscale(settings),
        _ => {
            let units = content.get("offerThroughput").and_then(Value::as_i64);
            let missing = || Error::bad_request("An offer needs 'content.offerThroughput'.");
            Throughput::manual(units.ok_or_else(missing)?)
        }
    }
}

/// Reads autoscale settings: a member of `content`, or a header.
fn autoscale(settings: &Value) -> Result<Throughput> {
    let max = settings.get("maxThroughput").and_then(Value::as_i64);
    let max = max.ok_or_else(|| Error::bad_request("Autoscale settings need 'maxThroughput'."))?;
    let policy =
        settings.get("autoUpgradePolicy").and_then(|policy| policy.get("throughputPolicy"));
    let percent = policy.and_then(|policy| policy.get("incrementPercent"));
    let percent = percent.and_then(Value::as_i64).and_then(|percent| u32::try_from(percent).ok());
    Throughput::autoscale(max, percent)
}

/// The rid: three bytes of the offer's number.
pub(crate) fn rid_text(number: u32) -> String {
    let [_, bytes @ ..] = number.to_be_bytes();
    rid::encode(&bytes)
}

/// The offer with this rid.
pub(crate) fn find(catalog: &Catalog, segment: &str) -> Option<Arc<Offer>> {
    let bytes: [u8; 3] = rid::decode(segment)?.try_into().ok()?;
    let [high, middle, low] = bytes;
    let number = u32::from_be_bytes([0, high, middle, low]);
    catalog.offers.get(&number).cloned()
}

/// How far the throughput can be lowered, and that no change of it is under way.
pub(crate) fn with_limits(reply: Reply, minimum: u32) -> Reply {
    reply.fact(Fact::MinThroughput, minimum.to_string()).fact(Fact::OfferReplacePending, "false")
}

/// The throughput that the headers of a create ask for.
pub(crate) fn wanted(context: &RequestContext<'_>) -> Result<Option<Throughput>> {
    match (context.offer_throughput, context.autopilot_settings) {
        (None, None) => Ok(None),
        (Some(units), None) => Throughput::manual(i64::from(units)).map(Some),
        (None, Some(settings)) => autoscale(&json::parse(settings.as_bytes())?).map(Some),
        (Some(_), Some(_)) => Err(Error::bad_request(
            "Manual throughput (x-ms-offer-throughput) and autoscale settings (x-ms-cosmos-offer-autopilot-settings) cannot be set at once.",
        )),
    }
}

/// The change that a replacement asks for: by one of the migration headers, else by its content.
pub(crate) fn change(context: &RequestContext<'_>, body: &Value) -> Result<OfferChange> {
    let content = body.get("content");
    match (context.migrate_to_autopilot, context.migrate_to_manual) {
        (true, true) => Err(Error::bad_request("An offer cannot be migrated both ways at once.")),
        (true, false) if autoscale_settings(content).is_some() => Err(Error::bad_request(
            "'offerAutopilotSettings' may not be present when an offer is migrated to autoscale.",
        )),
        (true, false) => Ok(OfferChange::ToAutoscale),
        (false, true) => Ok(OfferChange::ToManual),
        (false, false) => {
            let content = content.ok_or_else(|| Error::bad_request("An offer needs 'content'."))?;
            throughput(content).map(OfferChange::Set)
        }
    }
}

/// The throughput buckets that a replacement sets, if it says anything about them.
pub(crate) fn shares(body: &Value) -> Result<Option<Vec<Share>>> {
    let list = body.get("content").and_then(|content| content.get("throughputBuckets"));
    let Some(list) = list.and_then(Value::as_array) else { return Ok(None) };
    let share = |value: &Value| {
        let number = |name: &str| value.get(name).and_then(Value::as_i64).unwrap_or_default();
        Share::new(number("id"), number("maxThroughputPercentage"))
    };
    list.iter().map(share).collect::<Result<_>>().map(Some)
}

fn autoscale_settings(content: Option<&Value>) -> Option<&Value> {
    content?.get("offerAutopilotSettings").filter(|settings| !matches!(settings, Value::Null))
}

#[cfg(test)]
mod tests {
    use super::*;
    use armilla_model::etag::ETag;

    fn offer() -> Offer {
        Offer {
            number: 0x5e_4ddc,
            resource: "dbs/uQEAAA==/colls/uQEAAIAAAAE=/".into(),
            resource_rid: "uQEAAIAAAAE=".into(),
            throughput: Throughput::Manual(400),
            highest: 400,
            shares: Vec::new(),
            etag: ETag([0; 16]),
            ts: 1_763_234_659,
        }
    }

    #[test]
    fn manual_offers_have_the_documented_shape() {
        assert_eq!(
            Value::object(shape(&offer())).to_json(),
            r#"{"resource":"dbs/uQEAAA==/colls/uQEAAIAAAAE=/","offerType":"Invalid","offerResourceId":"uQEAAIAAAAE=","offerVersion":"V2","content":{"offerThroughput":400,"offerIsRUPerMinuteThroughputEnabled":false,"offerMinimumThroughputParameters":{"maxThroughputEverProvisioned":400,"maxConsumedStorageEverInKB":0}},"id":"Xk3c","_rid":"Xk3c","_self":"offers/Xk3c/","_etag":"\"00000000-0000-0000-0000-000000000000\"","_ts":1763234659}"#
        );
    }

    #[test]
    fn content_reads_back() {
        for wanted in [
            Throughput::Manual(500),
            Throughput::Autoscale { max: 4000, increment_percent: Some(0) },
            Throughput::Autoscale { max: 4000, increment_percent: None },
        ] {
            assert_eq!(throughput(&Value::object(content(wanted, 4000))).unwrap(), wanted);
        }
    }

    #[test]
    fn throughput_buckets_read_back() {
        let offer = Offer { shares: vec![Share { number: 1, percent: 20 }], ..offer() };
        let body = Value::object(shape(&offer));
        assert_eq!(shares(&body).unwrap(), Some(offer.shares));
        for bad in [
            r#"{"id":6,"maxThroughputPercentage":20}"#,
            r#"{"id":1,"maxThroughputPercentage":0}"#,
            "{}",
        ] {
            let text = format!(r#"{{"content":{{"throughputBuckets":[{bad}]}}}}"#);
            assert!(shares(&json::parse(text.as_bytes()).unwrap()).is_err(), "{bad}");
        }
    }

    #[test]
    fn rids_lead_back_to_their_offer() {
        let mut catalog = Catalog::default();
        catalog.offers.insert(0x5e_4ddc, Arc::new(offer()));
        assert_eq!(find(&catalog, "Xk3c").unwrap().number, 0x5e_4ddc);
        assert!(find(&catalog, "Xk3d").is_none());
        assert!(find(&catalog, "uQEAAA==").is_none());
        assert!(find(&catalog, "offer").is_none());
    }

    #[test]
    fn both_kinds_of_throughput_at_once_are_refused() {
        let settings = Some(r#"{"maxThroughput":4000}"#);
        let context = |offer_throughput, autopilot_settings| RequestContext {
            offer_throughput,
            autopilot_settings,
            ..RequestContext::default()
        };
        assert_eq!(wanted(&context(None, None)).unwrap(), None);
        assert_eq!(wanted(&context(Some(500), None)).unwrap(), Some(Throughput::Manual(500)));
        let autoscale = wanted(&context(None, settings)).unwrap().unwrap();
        assert_eq!(autoscale.peak(), 4000);
        assert!(wanted(&context(Some(400), settings)).is_err());
        assert!(wanted(&context(Some(399), None)).is_err());
        assert!(wanted(&context(None, Some("400"))).is_err());
    }

    #[test]
    fn migrations_are_asked_for_by_header() {
        let to_autoscale =
            RequestContext { migrate_to_autopilot: true, ..RequestContext::default() };
        let body = json::parse(br#"{"content":{"offerThroughput":-1}}"#).unwrap();
        assert!(matches!(change(&to_autoscale, &body), Ok(OfferChange::ToAutoscale)));
        assert!(change(&RequestContext::default(), &body).is_err());
        let settings =
            json::parse(br#"{"content":{"offerAutopilotSettings":{"maxThroughput":-1}}}"#).unwrap();
        assert!(change(&to_autoscale, &settings).is_err());
        let to_manual = RequestContext { migrate_to_manual: true, ..RequestContext::default() };
        assert!(matches!(change(&to_manual, &settings), Ok(OfferChange::ToManual)));
    }
}
