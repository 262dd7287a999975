//! Re-keys: a container copied under another partition key while it serves, which then takes its place.
//!
//! ```text
//! POST   /_armilla/rekey/dbs/{db}/colls/{c}         begin, or go on with the one that was begun
//! GET                                               how far it has come
//! DELETE                                            give it up
//! POST   …/check                                    compare a page of items with their copies
//! POST   …/swap                                     let it take the container's place
//! ```

use super::{EngineService, addressed};
use crate::routes::Operation;
use crate::wire::{self, container};
use crate::{Call, Reply};
use armilla_engine::account::{NewRekey, RekeyStatus};
use armilla_engine::offers::Throughput;
use armilla_engine::views::rekey::RekeyCheck;
use armilla_model::value::{Object, Value};
use armilla_model::{Error, Result};

pub(super) async fn answer(service: &EngineService, call: &Call<'_>) -> Result<Reply> {
    use Operation as O;
    let (O::ReadRekey(path)
    | O::BeginRekey(path)
    | O::UndoRekey(path)
    | O::CheckRekey(path)
    | O::SwapRekey(path)) = call.operation
    else {
        return Err(wire::misrouted(call));
    };
    let source = addressed::container(service, call, path)?;
    match call.operation {
        O::BeginRekey(_) => {
            let new = new_rekey(&wire::object(&call.body)?)?;
            let begun = service
                .blocking(move |account| {
                    account.begin_rekey(&source, &new)?;
                    account.rekey_status(&source)
                })
                .await?;
            Ok(Reply::created(wire::text(&status(&begun))))
        }
        O::UndoRekey(_) => {
            service.blocking(move |account| account.undo_rekey(&source)).await?;
            Ok(Reply::no_content())
        }
        O::CheckRekey(_) => {
            let after = continuation(&body_or_empty(call)?)?;
            let account = service.account.clone();
            let check = service.reading(move || account.check_rekey(&source, after.as_deref()));
            Ok(Reply::ok(wire::text(&check_shape(&check.await?))))
        }
        O::SwapRekey(_) => {
            let body = body_or_empty(call)?;
            let old_name = body.get("oldName").map(text_of("oldName")).transpose()?;
            let old = source.clone();
            let swapped = service
                .blocking(move |account| account.swap_rekey(&source, old_name.as_deref()))
                .await?;
            let members = Object::of([
                ("container", Value::object(container::shape(&swapped))),
                ("old", Value::object(container::shape(&old))),
            ]);
            Ok(Reply::ok(wire::text(&members)))
        }
        _ => {
            let told = service.blocking(move |account| account.rekey_status(&source)).await?;
            Ok(Reply::ok(wire::text(&status(&told))))
        }
    }
}

fn body_or_empty(call: &Call<'_>) -> Result<Value> {
    if call.body.is_empty() {
        return Ok(Value::object(Object::new()));
    }
    wire::object(&call.body)
}

fn text_of(name: &str) -> impl Fn(&Value) -> Result<String> {
    move |value| {
        let text = value.as_str().map(str::to_owned);
        text.ok_or_else(|| Error::bad_request(format!("'{name}' is a text.")))
    }
}

fn new_rekey(body: &Value) -> Result<NewRekey> {
    const MEMBERS: [&str; 4] = ["partitionKey", "name", "throughput", "autoscaleMax"];
    let members = body.as_object().into_iter().flat_map(|object| object.iter());
    for (name, _) in members {
        if !MEMBERS.contains(&&**name) {
            return Err(Error::bad_request(format!(
                "'{name}' is not known; a re-key has {}.",
                MEMBERS.join(", ")
            )));
        }
    }
    let Some(partition_key) = body.get("partitionKey").cloned() else {
        return Err(Error::bad_request(
            "'partitionKey' is missing: the key that the container shall have.",
        ));
    };
    let units = |name: &str| {
        body.get(name).map(|value| {
            let wrong = || Error::bad_request(format!("'{name}' is a number of request units."));
            value.as_i64().ok_or_else(wrong)
        })
    };
    let throughput = match (units("throughput").transpose()?, units("autoscaleMax").transpose()?) {
        (None, None) => None,
        (Some(manual), None) => Some(Throughput::manual(manual)?),
        (None, Some(max)) => Some(Throughput::autoscale(max, None)?),
        (Some(_), Some(_)) => {
            return Err(Error::bad_request("Give 'throughput' or 'autoscaleMax', not both."));
        }
    };
    let name = body.get("name").map(text_of("name")).transpose()?;
    Ok(NewRekey { partition_key, name, throughput })
}

fn status(status: &RekeyStatus) -> Object {
    let settings = status.target.settings();
    let state = match (&status.failure, status.is_following) {
        (Some(_), _) => "blocked",
        (None, true) => "following",
        (None, false) => "copying",
    };
    let key = settings.policy.definition.get("partitionKey").cloned().unwrap_or(Value::Null);
    let mut members = Object::of([
        ("state", state.into()),
        ("target", Value::String(settings.name.clone())),
        ("targetRid", Value::String(status.target.rid_text.clone())),
        ("partitionKey", key),
        ("progress", i64::from(status.progress).into()),
        ("items", whole(status.source_items)),
        ("copies", whole(status.target_items)),
        ("lagTransactions", whole(status.lag.transactions)),
        ("lagSeconds", whole(status.lag.seconds)),
    ]);
    if let Some(failure) = &status.failure {
        members.insert("error", failure.as_str().into());
    }
    members
}

fn check_shape(check: &RekeyCheck) -> Object {
    let different = check.different.iter().map(|text| text.as_str().into()).collect();
    let mut members = Object::of([
        ("compared", whole(check.compared)),
        ("behind", whole(check.behind)),
        ("different", Value::array(different)),
    ]);
    if let Some(next) = &check.next {
        let hex = next.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        members.insert("continuation", hex.into());
    }
    members
}

/// Where a check goes on: the bytes of a key, as hexadecimal digits.
fn continuation(body: &Value) -> Result<Option<Vec<u8>>> {
    let wrong = || Error::bad_request("The 'continuation' is not one that this check gave.");
    let Some(given) = body.get("continuation").filter(|given| !matches!(given, Value::Null)) else {
        return Ok(None);
    };
    let text = given.as_str().filter(|text| text.is_ascii() && text.len().is_multiple_of(2));
    let text = text.ok_or_else(wrong)?;
    let byte = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    let bytes = (0..text.len()).step_by(2).map(byte).collect::<Option<_>>();
    bytes.map(Some).ok_or_else(wrong)
}

fn whole(number: u64) -> Value {
    i64::try_from(number).unwrap_or(i64::MAX).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use armilla_model::json;

    fn parsed(text: &str) -> Value {
        json::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn what_is_asked_for_is_read_and_nonsense_is_refused() {
        let key = r#""partitionKey":{"paths":["/b"]}"#;
        let rekey = |more: &str| new_rekey(&parsed(&format!("{{{key}{more}}}")));
        assert!(rekey("").unwrap().throughput.is_none());
        assert_eq!(rekey(r#","name":"x""#).unwrap().name.as_deref(), Some("x"));
        assert!(rekey(r#","throughput":500"#).unwrap().throughput.is_some());
        for more in [
            r#","thruput":500"#,
            r#","throughput":"500""#,
            r#","throughput":500,"autoscaleMax":1000"#,
            r#","name":5"#,
        ] {
            assert!(rekey(more).is_err(), "{more}");
        }
        assert!(new_rekey(&parsed("{}")).is_err());
    }

    #[test]
    fn a_continuation_reads_back() {
        let check = RekeyCheck { next: Some(vec![0, 255, 7]), ..RekeyCheck::default() };
        let shape = Value::object(check_shape(&check));
        assert_eq!(continuation(&shape).unwrap(), Some(vec![0, 255, 7]));
        assert_eq!(continuation(&parsed("{}")).unwrap(), None);
        for text in [r#"{"continuation":"0"}"#, r#"{"continuation":"zz"}"#, r#"{"continuation":5}"#]
        {
            assert!(continuation(&parsed(text)).is_err(), "{text}");
        }
    }
}
