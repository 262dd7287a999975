//! Subscriptions.

use super::{etag_member, ts_member};
use armilla_engine::Container;
use armilla_engine::subscriptions::definition::Secret;
use armilla_engine::subscriptions::{DeliveryOutcome, Subscription};
use armilla_model::rid;
use armilla_model::value::{Object, Value};

/// The resource. Nobody is told the secret.
pub(crate) fn shape(container: &Container, subscription: &Subscription) -> Object {
    let version = subscription.version();
    let rid = rid::encode(&subscription.rid(container));
    let mut shape = Object::of([("id", Value::String(subscription.name.clone()))]);
    for (name, value) in version.definition.members(Secret::Hidden).iter() {
        shape.insert(name.clone(), value.clone());
    }
    shape.insert("_rid", rid.as_str().into());
    shape.insert("_self", format!("{}subs/{rid}/", container.self_link).into());
    shape.insert("_etag", etag_member(version.etag));
    shape.insert("_ts", ts_member(version.ts));
    shape
}

/// A view, which the server keeps up the same way; it is changed as a container.
pub(crate) fn of_view(view: &Container) -> Object {
    let settings = view.settings();
    let target =
        Object::of([("kind", "view".into()), ("container", Value::String(settings.name.clone()))]);
    Object::of([
        ("id", Value::String(settings.name.clone())),
        ("target", Value::object(target)),
        ("_rid", Value::String(view.rid_text.clone())),
        ("_etag", etag_member(settings.etag)),
        ("_ts", ts_member(settings.ts)),
    ])
}

/// Why a delivery failed, in words.
pub(crate) fn told(outcome: &DeliveryOutcome) -> String {
    match outcome {
        DeliveryOutcome::Done => String::new(),
        DeliveryOutcome::Partly(_, failure)
        | DeliveryOutcome::Failed(failure, _)
        | DeliveryOutcome::Refused(failure)
        | DeliveryOutcome::Gone(failure) => failure.message.clone(),
        DeliveryOutcome::NotTried(why) | DeliveryOutcome::Missing(why) => why.clone(),
    }
}
