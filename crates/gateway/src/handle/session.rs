//! `/_armilla/session`: signing in, what the session is good for, and signing out.
//!
//! Three ways in: an account key that is shown, a ticket of `armilla explorer`, and, where the published key is
//! good for everything, nothing at all from this machine's own user. A key is never taken where others may
//! read it: over http from another machine.

use super::{Exchange, RequestBody, body};
use crate::Service;
use crate::auth::{Access, Denied, Opened};
use crate::direct::DirectMode;
use crate::limits::{Limits, SIGN_IN_BODY_MAX};
use crate::reply::Reply;
use crate::request::Request;
use crate::service::ServiceFacts;
use crate::wire;
use armilla_model::value::{Object, Value};
use armilla_model::{Error, Result};
use bytes::Bytes;
use http::StatusCode;
use std::time::Duration;

/// What a sign-in shows.
enum Proof {
    Key(String),
    Ticket(String),
    /// That it comes from this machine's own user.
    Place,
}

impl<S: Service> Exchange<'_, S> {
    /// Answers a sign-in.
    pub(super) async fn sign_in(&self, request: &Request<'_>, body: RequestBody) -> Reply {
        if let Err(refused) = self.check_way() {
            return self.gateway.without_body(self.http, *refused, body).await;
        }
        let limits = &self.gateway.settings.limits;
        let limits = Limits { body_size_max: SIGN_IN_BODY_MAX, ..limits.clone() };
        let opened = match body::read(body, &limits, self.http.expects_continue).await {
            Ok(body) => self.open(request, &body),
            Err(error) => Err(Box::new(error.into())),
        };
        match opened {
            Ok(opened) => {
                let members = Object::of([
                    ("token", opened.token.into()),
                    ("access", access_name(opened.access).into()),
                    ("expires", wire::ts_member(opened.ends)),
                ]);
                Reply::json(StatusCode::CREATED, wire::text(&members))
            }
            Err(reply) => *reply,
        }
    }

    /// Refuses a sign-in that comes by a way on which none is taken, before its body is read.
    fn check_way(&self) -> Result<(), Box<Reply>> {
        if self.is_seen_by_others() {
            return Err(forbidden(
                "Over http a key can be read on its way: sign in over https, at the same port.",
            ));
        }
        // It cannot read the answer, but its failures would count as this machine's.
        if self.gateway.settings.cors.refuses(self.parts) {
            return Err(forbidden(
                "A page of another origin cannot sign in (--cors-origin allows named ones).",
            ));
        }
        Ok(())
    }

    fn open(&self, request: &Request<'_>, body: &Bytes) -> Result<Opened, Box<Reply>> {
        let (proof, read_only) = parse(body).map_err(refusal)?;
        let gateway = self.gateway;
        let (sessions, now) = (gateway.authenticator.sessions(), gateway.clock.now_seconds());
        let address = self.peer.remote_address.ip();
        // Neither tickets nor places can be guessed.
        if let (Proof::Key(_), Some(wait)) = (&proof, sessions.wait_of(address, now)) {
            let retry_after = Duration::from_secs(wait);
            return Err(refusal(Error::SignInsFailed { retry_after }));
        }
        let access = self.access_of(request, &proof, now).inspect_err(|reply| {
            if matches!(proof, Proof::Key(_)) && reply.status() == StatusCode::UNAUTHORIZED {
                sessions.note_failure(address, now);
            }
        })?;
        let access = if read_only { Access::ReadOnly } else { access };
        sessions.open(access, request.locality.is_ok(), now).map_err(refusal)
    }

    /// What the proof is good for.
    fn access_of(
        &self,
        request: &Request<'_>,
        proof: &Proof,
        now: u64,
    ) -> Result<Access, Box<Reply>> {
        let authenticator = &self.gateway.authenticator;
        match proof {
            Proof::Key(key) => match authenticator.access_of_key(key, &request.locality) {
                Some(outcome) => outcome.map_err(Box::<Reply>::from),
                None => Err(unauthorized("This is not a key of this account.")),
            },
            Proof::Ticket(ticket) if authenticator.sessions().redeem(ticket, now) => {
                Ok(Access::ReadWrite)
            }
            Proof::Ticket(_) => Err(unauthorized(
                "The ticket was used already, or is older than a minute. Run `armilla explorer` again.",
            )),
            Proof::Place if !authenticator.trusts_loopback() => {
                Err(forbidden("This server has a key of its own, which signing in needs."))
            }
            Proof::Place => match &request.locality {
                Ok(()) => Ok(Access::ReadWrite),
                Err(stranger) => Err(forbidden(&format!(
                    "Without a key this machine's own user alone is let in: {stranger}."
                ))),
            },
        }
    }

    /// Answers with what the credentials allow, and what the server is.
    pub(super) fn answer_session(&self, request: &Request<'_>, access: Access) -> Reply {
        let gateway = self.gateway;
        let header = request.context.authorization.unwrap_or_default();
        let ends = gateway.authenticator.session_end(
            header,
            &request.locality,
            gateway.clock.now_seconds(),
        );
        let facts = &gateway.settings.facts;
        let ServiceFacts { throttle, mut features } = gateway.service.facts();
        if gateway.settings.direct != DirectMode::Off {
            features.push("direct");
        }
        let server = Object::of([
            ("version", env!("CARGO_PKG_VERSION").into()),
            ("consistency", gateway.settings.account.consistency.name().into()),
            ("durability", facts.durability.into()),
            ("inMemory", facts.in_memory.into()),
            ("throttle", throttle.map_or(Value::Null, Into::into)),
            ("features", Value::array(features.into_iter().map(Into::into).collect())),
            ("dataFolder", facts.data_folder.as_deref().map_or(Value::Null, Into::into)),
            ("trustsThisMachine", gateway.authenticator.trusts_loopback().into()),
            ("keyPlaceholder", facts.key_placeholder.as_deref().map_or(Value::Null, Into::into)),
            ("openToEverybody", facts.open_to_everybody.into()),
            ("started", wire::ts_member(facts.started)),
        ]);
        let members = Object::of([
            ("access", access_name(access).into()),
            ("expires", ends.map_or(Value::Null, wire::ts_member)),
            ("local", request.locality.is_ok().into()),
            ("server", Value::object(server)),
        ]);
        Reply::ok(wire::text(&members))
    }

    /// Ends the session that the request shows.
    pub(super) fn sign_out(&self, request: &Request<'_>) -> Reply {
        if self.gateway.authenticator.end_session(request.context.authorization) {
            return Reply::no_content();
        }
        *unauthorized("There is no such session to end.")
    }
}

fn access_name(access: Access) -> &'static str {
    match access {
        Access::ReadWrite => "readWrite",
        Access::ReadOnly => "readOnly",
    }
}

fn parse(body: &[u8]) -> Result<(Proof, bool)> {
    let body = wire::object(body)?;
    let text = |name: &str| body.get(name).and_then(Value::as_str).map(str::to_owned);
    let is_true = |name: &str| matches!(body.get(name), Some(Value::Bool(true)));
    let proof = if let Some(key) = text("key") {
        Proof::Key(key)
    } else if let Some(ticket) = text("ticket") {
        Proof::Ticket(ticket)
    } else if is_true("auto") {
        Proof::Place
    } else {
        return Err(Error::bad_request(
            "A sign-in needs \"key\", \"ticket\" or \"auto\": true, and may say \"readOnly\": true.",
        ));
    };
    Ok((proof, is_true("readOnly")))
}

fn refusal(error: Error) -> Box<Reply> {
    Box::new(Reply::error(error))
}

fn unauthorized(message: &str) -> Box<Reply> {
    Denied::from(Error::Unauthorized(message.to_owned())).into()
}

fn forbidden(message: &str) -> Box<Reply> {
    refusal(Error::Forbidden(message.to_owned()))
}
