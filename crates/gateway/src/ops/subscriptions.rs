//! Subscriptions to the change feed: as resources, their status, and what is done with them.

use super::{EngineService, addressed};
use crate::reply::FeedKind;
use crate::routes::{ContainerPath, Operation, SubscriptionPath};
use crate::wire::{self, page, subscription};
use crate::{Call, Reply};
use armilla_engine::Container;
use armilla_engine::subscriptions::{DeliveryOutcome, Subscription};
use armilla_model::value::{Object, Value};
use armilla_model::{Error, Result};
use http::StatusCode;
use std::sync::Arc;
use tokio::sync::oneshot;

pub(super) async fn answer(service: &EngineService, call: &Call<'_>) -> Result<Reply> {
    use Operation as O;
    match call.operation {
        O::ListSubscriptions(path) => list(service, call, path),
        O::CreateSubscription(path) => create(service, call, path).await,
        O::ReadSubscription(path) => {
            let (container, found) = find(service, call, path)?;
            let shape = subscription::shape(&container, &found);
            Ok(about(wire::read_reply(call, found.version().etag, &shape), &container))
        }
        O::ReplaceSubscription(path) => replace(service, call, path).await,
        O::DeleteSubscription(path) => delete(service, call, path).await,
        O::ReadSubscriptionStatus(path) => {
            let (container, found) = find(service, call, path)?;
            let told = service
                .blocking(move |account| Ok(account.subscription_status(&container, &found)));
            told.await.map(|status| Reply::ok(wire::text(&status)))
        }
        O::PauseSubscription(path) => pause(service, call, path).await,
        O::ResumeSubscription(path) => {
            let (_, found) = find(service, call, path)?;
            service
                .blocking(move |account| {
                    account.resume_subscription(&found);
                    Ok(())
                })
                .await?;
            Ok(Reply::no_content())
        }
        O::RewindSubscription(path) => rewind(service, call, path).await,
        O::TrySubscription(path) => {
            let (container, found) = find(service, call, path)?;
            let asked = wire::object(&call.body)?;
            let tried = service.reading(move || found.try_out(&container, &asked)).await?;
            Ok(Reply::ok(wire::text(&tried)))
        }
        O::ListDeadLetters(path) => dead_letters(service, call, path).await,
        O::RedriveDeadLetters(path) => redrive(service, call, path).await,
        _ => Err(wire::misrouted(call)),
    }
}

fn find(
    service: &EngineService,
    call: &Call<'_>,
    path: SubscriptionPath<'_>,
) -> Result<(Arc<Container>, Arc<Subscription>)> {
    let container = addressed::container(service, call, path.container)?;
    let found = container.subscription(path.subscription)?;
    Ok((container, found))
}

fn list(service: &EngineService, call: &Call<'_>, path: ContainerPath<'_>) -> Result<Reply> {
    let container = addressed::container(service, call, path)?;
    let own = container.subscriptions();
    let own = own.values().map(|found| (found.number, subscription::shape(&container, found)));
    let views = container.views();
    let is_view = |view: &&Arc<Container>| view.view().is_some_and(|view| !view.is_rekey());
    let views = views.iter().filter(is_view).map(|view| (view.number, subscription::of_view(view)));
    let (seal, rid) = (service.authenticator.seal(), &container.rid_text);
    let reply = page::list(seal, call, FeedKind::Subscriptions, rid, own.chain(views).collect())?;
    Ok(about(reply, &container))
}

async fn create(
    service: &EngineService,
    call: &Call<'_>,
    path: ContainerPath<'_>,
) -> Result<Reply> {
    let container = addressed::container(service, call, path)?;
    let (owner, body) = (container.clone(), wire::object(&call.body)?);
    let created =
        service.blocking(move |account| account.create_subscription(&owner, &body)).await?;
    Ok(written(StatusCode::CREATED, &container, &created))
}

async fn replace(
    service: &EngineService,
    call: &Call<'_>,
    path: SubscriptionPath<'_>,
) -> Result<Reply> {
    let (container, _) = find(service, call, path)?;
    let (owner, body) = (container.clone(), wire::object(&call.body)?);
    let segment = path.subscription.to_owned();
    let if_match = call.context.if_match.map(str::to_owned);
    let replaced = service
        .blocking(move |account| {
            account.replace_subscription(&owner, &segment, &body, if_match.as_deref())
        })
        .await?;
    Ok(written(StatusCode::OK, &container, &replaced))
}

async fn delete(
    service: &EngineService,
    call: &Call<'_>,
    path: SubscriptionPath<'_>,
) -> Result<Reply> {
    let (container, _) = find(service, call, path)?;
    let (owner, segment) = (container.clone(), path.subscription.to_owned());
    let if_match = call.context.if_match.map(str::to_owned);
    service
        .blocking(move |account| account.delete_subscription(&owner, &segment, if_match.as_deref()))
        .await?;
    Ok(about(wire::delete_reply(), &container))
}

/// Answers when nothing is under way any more.
async fn pause(
    service: &EngineService,
    call: &Call<'_>,
    path: SubscriptionPath<'_>,
) -> Result<Reply> {
    let (_, found) = find(service, call, path)?;
    let (sender, receiver) = oneshot::channel();
    service
        .blocking(move |account| {
            account.pause_subscription(&found, move || {
                let _gone = sender.send(());
            });
            Ok(())
        })
        .await?;
    receiver.await.map_err(|_| stopping())?;
    Ok(Reply::no_content())
}

async fn rewind(
    service: &EngineService,
    call: &Call<'_>,
    path: SubscriptionPath<'_>,
) -> Result<Reply> {
    let (container, found) = find(service, call, path)?;
    let body = wire::object(&call.body)?;
    // Short for {"to": {…}}.
    let to = body.get("to").cloned().unwrap_or(body);
    service.blocking(move |account| account.rewind_subscription(&container, &found, &to)).await?;
    Ok(Reply::no_content())
}

async fn dead_letters(
    service: &EngineService,
    call: &Call<'_>,
    path: SubscriptionPath<'_>,
) -> Result<Reply> {
    let (container, found) = find(service, call, path)?;
    let account = service.account.clone();
    let listed = service.reading(move || account.dead_letters(&container, &found)).await?;
    let (letters, more) = listed;
    let members = Object::of([
        ("count", wire_count(letters.len())),
        ("more", more.into()),
        ("deadLetters", Value::array(letters)),
    ]);
    Ok(Reply::ok(wire::text(&members)))
}

/// Delivers dead letters again, one after the other; those that are taken are removed.
async fn redrive(
    service: &EngineService,
    call: &Call<'_>,
    path: SubscriptionPath<'_>,
) -> Result<Reply> {
    let (container, found) = find(service, call, path)?;
    let ids = ids(&wire::object(&call.body)?)?;
    let letters = service
        .blocking(move |account| account.letters(&container, &found, ids.as_deref()))
        .await?;
    let (mut delivered, mut failed) = (0_usize, Vec::new());
    for letter in letters {
        let (sender, receiver) = oneshot::channel();
        letter.deliver(move |outcome| {
            let _gone = sender.send(outcome);
        });
        match receiver.await.map_err(|_| stopping())? {
            DeliveryOutcome::Done => {
                service.blocking(move |_| letter.remove()).await?;
                delivered += 1;
            }
            outcome => failed.push(Value::object(Object::of([
                ("id", letter.id().into()),
                ("error", subscription::told(&outcome).into()),
            ]))),
        }
    }
    let members =
        Object::of([("delivered", wire_count(delivered)), ("failed", Value::array(failed))]);
    Ok(Reply::ok(wire::text(&members)))
}

fn ids(body: &Value) -> Result<Option<Vec<String>>> {
    let wrong = || Error::bad_request("'ids' is a list of the ids of dead letters.");
    let Some(given) = body.get("ids") else { return Ok(None) };
    let given = given.as_array().ok_or_else(wrong)?.iter();
    let ids = given.map(|id| id.as_str().map(str::to_owned)).collect::<Option<_>>();
    ids.map(Some).ok_or_else(wrong)
}

fn wire_count(number: usize) -> Value {
    i64::try_from(number).unwrap_or(i64::MAX).into()
}

fn stopping() -> Error {
    Error::Internal("the server is stopping".to_owned())
}

fn written(status: StatusCode, container: &Container, written: &Subscription) -> Reply {
    let shape = subscription::shape(container, written);
    about(wire::write_reply(status, written.version().etag, &shape), container)
}

/// Says which container answered.
fn about(reply: Reply, container: &Container) -> Reply {
    addressed::from_container(reply, container)
}
