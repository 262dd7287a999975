//! Stored procedures, triggers and user functions.

use super::casing::Casing;
use super::{etag_member, required, ts_member};
use crate::reply::FeedKind;
use crate::routes::ScriptKind;
use armilla_engine::Container;
use armilla_engine::account::NewScript;
use armilla_engine::scripts::{Kind, Script, Trigger, TriggerOperation};
use armilla_model::rid;
use armilla_model::value::{Object, Value};
use armilla_model::{Error, Result};

/// The resource.
pub(crate) fn shape(container: &Container, script: &Script) -> Object {
    let ordinal = u64::from(script.number);
    let rid = rid::encode(&rid::child(container.rid, script.kind.child(), ordinal));
    let segment = segment(script.kind);
    let mut shape = Object::of([
        ("id", Value::String(script.name.clone())),
        ("body", Value::String(script.body.clone())),
    ]);
    if let Some(trigger) = &script.trigger {
        let when = if trigger.before { "Pre" } else { "Post" };
        shape.insert("triggerType", Casing::of(&trigger.spelling).apply(when).into());
        shape.insert("triggerOperation", Value::String(trigger.spelling.clone()));
    }
    shape.insert("_rid", rid.as_str().into());
    shape.insert("_self", format!("{}{segment}/{rid}/", container.self_link).into());
    shape.insert("_etag", etag_member(script.etag));
    shape.insert("_ts", ts_member(script.ts));
    shape
}

/// What a client asks for.
pub(crate) fn read(kind: Kind, body: &Value) -> Result<NewScript<'_>> {
    if kind != Kind::Trigger {
        let [name, body] = required(body, ["id", "body"])?;
        return Ok(NewScript { kind, name, body, trigger: None });
    }
    let names = ["id", "body", "triggerType", "triggerOperation"];
    let [name, body, when, operation] = required(body, names)?;
    let before = match when.to_ascii_lowercase().as_str() {
        "pre" => true,
        "post" => false,
        _ => {
            return Err(Error::bad_request(format!(
                "The trigger type '{when}' is not one of Pre, Post."
            )));
        }
    };
    let operation = TriggerOperation::parse(operation)?;
    let spelling = Casing::of(when).apply(operation.text()).into();
    let trigger = Trigger { before, operation, spelling };
    Ok(NewScript { kind, name, body, trigger: Some(trigger) })
}

/// The kind in the engine's words.
pub(crate) fn kind(kind: ScriptKind) -> Kind {
    match kind {
        ScriptKind::StoredProcedure => Kind::Procedure,
        ScriptKind::Trigger => Kind::Trigger,
        ScriptKind::UserFunction => Kind::Function,
    }
}

/// The kind of a feed of these scripts.
pub(crate) fn feed_kind(kind: Kind) -> FeedKind {
    match kind {
        Kind::Procedure => FeedKind::StoredProcedures,
        Kind::Trigger => FeedKind::Triggers,
        Kind::Function => FeedKind::UserFunctions,
    }
}

fn segment(kind: Kind) -> &'static str {
    match kind {
        Kind::Procedure => ScriptKind::StoredProcedure.segment(),
        Kind::Trigger => ScriptKind::Trigger.segment(),
        Kind::Function => ScriptKind::UserFunction.segment(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use armilla_model::json;

    #[test]
    fn what_is_missing_is_named() {
        let refusal = |kind, body: &str| {
            let body = json::parse(body.as_bytes()).unwrap();
            read(kind, &body).err().map(|error| error.to_string()).unwrap_or_default()
        };
        let missing = refusal(Kind::Procedure, r#"{"id":"p"}"#);
        assert!(missing.contains("required properties - 'body; '"), "{missing}");
        let body = r#"{"id":"t","body":"function(){}","triggerOperation":"All"}"#;
        let missing = refusal(Kind::Trigger, body);
        assert!(missing.contains("required properties - 'triggerType; '"), "{missing}");
        let body = r#"{"id":"t","body":"function(){}","triggerType":"Pre"}"#;
        let missing = refusal(Kind::Trigger, body);
        assert!(missing.contains("required properties - 'triggerOperation; '"), "{missing}");
        assert_eq!(refusal(Kind::Function, body), "");
    }

    #[test]
    fn triggers_say_when_they_run() {
        let body = |when: &str, operation: &str| {
            let text = format!(
                r#"{{"id":"t","body":"function(){{}}","triggerType":"{when}","triggerOperation":"{operation}"}}"#
            );
            json::parse(text.as_bytes()).unwrap()
        };
        let trigger = |body| read(Kind::Trigger, &body).map(|new| new.trigger);
        let expected = Trigger {
            before: false,
            operation: TriggerOperation::Create,
            spelling: "create".into(),
        };
        assert_eq!(trigger(body("post", "create")).unwrap(), Some(expected));
        assert!(trigger(body("During", "Create")).is_err());
        assert!(trigger(body("Pre", "Sometimes")).is_err());
    }
}
