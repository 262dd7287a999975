//! To whom entries are delivered.

use super::members::{Members, number, refuse};
use crate::limits::{
    WEBHOOK_HEADERS_MAX, WEBHOOK_SECRET_MAX, WEBHOOK_TIMEOUT_DEFAULT, WEBHOOK_TIMEOUT_MAX,
    WEBHOOK_URL_MAX,
};
use armilla_model::error::Result;
use armilla_model::value::{Object, Value};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// To whom entries are delivered.
#[derive(Clone, Debug)]
pub enum Target {
    /// A stored procedure of the same container.
    Procedure(Arc<str>),
    /// Somebody elsewhere, by a request of the server's own.
    Webhook(Webhook),
}

/// Who is called, and how.
#[derive(Clone)]
pub struct Webhook {
    /// Where.
    pub url: Arc<str>,
    /// What is sent with every call, besides what the server sends of its own.
    pub headers: Vec<(Arc<str>, Arc<str>)>,
    /// What bodies are signed with.
    pub secret: Option<Arc<str>>,
    /// How long an answer is waited for.
    pub timeout: Duration,
}

// Secrets and the values of headers are never in a log.
impl fmt::Debug for Webhook {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Webhook").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Target {
    pub(super) fn parse(all: &Members<'_>, before: Option<&Self>) -> Result<Self> {
        if all.get("target").is_none() {
            return refuse("'target' is missing: say who gets the entries.");
        }
        let target = all.inner("target")?;
        match target.word("kind")? {
            Some("sproc") => {
                target.only(["kind", "id"].iter())?;
                match target.word("id")? {
                    Some(id) => Ok(Self::Procedure(id.into())),
                    None => refuse("'target.id' is missing: the name of the procedure."),
                }
            }
            Some("webhook") => {
                target.only(["kind", "url", "headers", "secret", "timeoutSeconds"].iter())?;
                Webhook::parse(&target, before).map(Self::Webhook)
            }
            Some("view") => refuse(
                "A target of the kind 'view' cannot be made here: create a container with a view's definition.",
            ),
            _ => refuse("'target.kind' is sproc or webhook."),
        }
    }

    pub(super) fn members(&self, shows_secret: bool) -> Object {
        match self {
            Self::Procedure(id) => {
                Object::of([("kind", "sproc".into()), ("id", Value::String(id.clone()))])
            }
            Self::Webhook(webhook) => {
                let header = |(name, value): &(Arc<str>, Arc<str>)| {
                    (name.clone(), Value::String(value.clone()))
                };
                let headers: Object = webhook.headers.iter().map(header).collect();
                let secret = webhook.secret.clone().filter(|_| shows_secret);
                Object::of([
                    ("kind", "webhook".into()),
                    ("url", Value::String(webhook.url.clone())),
                    ("headers", Value::object(headers)),
                    ("secret", secret.map_or(Value::Null, Value::String)),
                    ("timeoutSeconds", number(webhook.timeout.as_secs())),
                ])
            }
        }
    }
}

impl Webhook {
    fn parse(target: &Members<'_>, before: Option<&Target>) -> Result<Self> {
        let Some(url) = target.word("url")?.filter(|url| url.len() <= WEBHOOK_URL_MAX) else {
            return refuse(format!(
                "'target.url' is missing, or has more than {WEBHOOK_URL_MAX} bytes."
            ));
        };
        let secret = match (target.word("secret")?, before) {
            (Some(""), _) => None,
            (Some(secret), _) if secret.len() > WEBHOOK_SECRET_MAX => {
                return refuse(format!(
                    "'target.secret' has more than {WEBHOOK_SECRET_MAX} bytes."
                ));
            }
            (Some(secret), _) => Some(Arc::from(secret)),
            (None, Some(Target::Webhook(before))) => before.secret.clone(),
            (None, _) => None,
        };
        let bounds = (1, WEBHOOK_TIMEOUT_MAX);
        let timeout = target.whole("timeoutSeconds", bounds, WEBHOOK_TIMEOUT_DEFAULT)?;
        Ok(Self {
            url: url.into(),
            headers: headers(target)?,
            secret,
            timeout: Duration::from_secs(timeout),
        })
    }
}

fn headers(target: &Members<'_>) -> Result<Vec<(Arc<str>, Arc<str>)>> {
    let Some(given) = target.get("headers") else { return Ok(Vec::new()) };
    let Some(given) = given.as_object().filter(|given| given.len() <= WEBHOOK_HEADERS_MAX) else {
        return refuse(format!(
            "'target.headers' is an object of at most {WEBHOOK_HEADERS_MAX} members."
        ));
    };
    let header = |(name, value): (&Arc<str>, &Value)| match value {
        Value::String(text) => Ok((name.clone(), text.clone())),
        _ => refuse(format!("The header '{name}' must be a string.")),
    };
    given.iter().map(header).collect()
}
