//! The throughput of offers in `meta`. The names are those of the first version of the format.

use super::corrupt;
use crate::offers::{Offer, Share, Throughput};
use armilla_model::value::{Object, Value};
use armilla_storage::StoreError;

const UNITS: &str = "offerThroughput";
const AUTOSCALE: &str = "offerAutopilotSettings";
const MAXIMUM: &str = "maxThroughput";
/// Inside each other: the percent by which the maximum grows.
const INCREMENT: [&str; 3] = ["autoUpgradePolicy", "throughputPolicy", "incrementPercent"];
const SHARES: &str = "throughputBuckets";
const SHARE_NUMBER: &str = "id";
const SHARE_PERCENT: &str = "maxThroughputPercentage";

pub(super) fn write(offer: &Offer) -> Object {
    let number = |number: u32| Value::from(i64::from(number));
    let mut content = Object::new();
    match offer.throughput {
        Throughput::Manual(units) => content.insert(UNITS, number(units)),
        Throughput::Autoscale { max, increment_percent } => {
            let mut settings = Object::of([(MAXIMUM, number(max))]);
            if let Some(percent) = increment_percent {
                let [policy, growth, increment] = INCREMENT;
                let percent = Object::of([(increment, number(percent))]);
                let percent = Object::of([(growth, Value::object(percent))]);
                settings.insert(policy, Value::object(percent));
            }
            content.insert(AUTOSCALE, Value::object(settings))
        }
    };
    if !offer.shares.is_empty() {
        let share = |share: &Share| {
            Value::object(Object::of([
                (SHARE_NUMBER, number(u32::from(share.number))),
                (SHARE_PERCENT, number(u32::from(share.percent))),
            ]))
        };
        content.insert(SHARES, Value::array(offer.shares.iter().map(share).collect()));
    }
    content
}

pub(super) fn throughput(content: &Value) -> Result<Throughput, StoreError> {
    let number = |value: Option<&Value>| value.and_then(Value::as_i64).ok_or_else(corrupt);
    let settings = content.get(AUTOSCALE).filter(|settings| settings.get(MAXIMUM).is_some());
    let throughput = match settings {
        Some(settings) => {
            let percent = INCREMENT.iter().try_fold(settings, |value, name| value.get(name));
            let percent = percent.and_then(Value::as_i64);
            let percent = percent.and_then(|percent| u32::try_from(percent).ok());
            Throughput::autoscale(number(settings.get(MAXIMUM))?, percent)
        }
        None => Throughput::manual(number(content.get(UNITS))?),
    };
    throughput.map_err(|_| corrupt())
}

pub(super) fn shares(content: &Value) -> Result<Vec<Share>, StoreError> {
    let share = |value: &Value| {
        let number = |name: &str| value.get(name).and_then(Value::as_i64).ok_or_else(corrupt);
        Share::new(number(SHARE_NUMBER)?, number(SHARE_PERCENT)?).map_err(|_| corrupt())
    };
    let list = content.get(SHARES).and_then(Value::as_array).unwrap_or_default();
    list.iter().map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use armilla_model::etag::ETag;

    #[test]
    fn offers_read_back() {
        for throughput in [
            Throughput::Manual(500),
            Throughput::Autoscale { max: 4000, increment_percent: Some(0) },
            Throughput::Autoscale { max: 4000, increment_percent: None },
        ] {
            let offer = Offer {
                number: 1,
                resource: "".into(),
                resource_rid: "".into(),
                throughput,
                highest: 4000,
                shares: vec![Share { number: 2, percent: 30 }],
                etag: ETag([0; 16]),
                ts: 0,
            };
            let content = Value::object(write(&offer));
            assert_eq!(super::throughput(&content).unwrap(), throughput);
            assert_eq!(shares(&content).unwrap(), offer.shares);
        }
    }

    #[test]
    fn the_longer_form_of_earlier_versions_is_read() {
        let text = br#"{"offerThroughput":400,"offerIsRUPerMinuteThroughputEnabled":false,"offerAutopilotSettings":{"maxThroughput":4000,"maximumTierThroughput":4000},"offerMinimumThroughputParameters":{"maxThroughputEverProvisioned":4000,"maxConsumedStorageEverInKB":0}}"#;
        let content = armilla_model::json::parse(text).unwrap();
        let found = throughput(&content).unwrap();
        assert_eq!(found, Throughput::Autoscale { max: 4000, increment_percent: None });
        assert!(shares(&content).unwrap().is_empty());
    }
}
