//! Proves the quick start, every verb on items, keys of every kind, etags and batches, over HTTP/2.

use armilla_conformance_rust::{
    client, client_with_key, new_container, new_container_of, new_database, new_name, rows,
};
use azure_core::http::{Etag, StatusCode};
use azure_data_cosmos::feed::FeedScope;
use azure_data_cosmos::models::{ContainerProperties, UniqueKey, UniqueKeyPolicy};
use azure_data_cosmos::options::{
    ContentResponseOnWrite, ItemWriteOptions, OperationOptions, Precondition,
};
use azure_data_cosmos::{PartitionKey, Result, TransactionalBatch};
use serde_json::{Value, json};

fn status<T: std::fmt::Debug>(result: Result<T>) -> StatusCode {
    result.expect_err("it should have been refused").status().status_code()
}

#[tokio::test]
async fn an_item_lives_and_dies() -> Result<()> {
    let client = client().await?;
    let database = new_database(&client).await?;
    let container = new_container(&database).await?;
    let item = json!({"id": "a", "pk": "p", "text": "Grüße ☃ 🪐", "list": [1, null, 2.5]});
    let created = container.create_item("p", "a", &item, None).await?;
    assert_eq!(created.status().status_code(), StatusCode::Created);
    assert!(created.headers().request_charge().is_some());
    assert!(created.headers().session_token().is_some());
    assert_eq!(status(container.create_item("p", "a", &item, None).await), StatusCode::Conflict);

    let read: Value = container.read_item("p", "a", None).await?.into_model()?;
    for (name, value) in item.as_object().expect("an object was written") {
        assert_eq!(&read[name], value);
    }
    let changed = json!({"id": "a", "pk": "p", "n": 2});
    container.replace_item("p", "a", &changed, None).await?;
    container.upsert_item("p", "b", &json!({"id": "b", "pk": "p"}), None).await?;
    let read: Value = container.read_item("p", "a", None).await?.into_model()?;
    assert_eq!(read["n"], 2);
    assert!(read.get("text").is_none());
    container.delete_item("p", "a", None).await?;
    assert_eq!(status(container.read_item("p", "a", None).await), StatusCode::NotFound);
    assert_eq!(status(container.delete_item("p", "a", None).await), StatusCode::NotFound);
    database.delete(None).await?;
    Ok(())
}

#[tokio::test]
async fn a_write_answers_with_the_item_when_asked() -> Result<()> {
    let client = client().await?;
    let database = new_database(&client).await?;
    let container = new_container(&database).await?;
    let mut operation = OperationOptions::default();
    operation.content_response_on_write = Some(ContentResponseOnWrite::Enabled);
    let options = ItemWriteOptions::default().with_operation_options(operation);
    let item = json!({"id": "a", "pk": "p", "n": 1});
    let created: Value =
        container.create_item("p", "a", &item, Some(options)).await?.into_model()?;
    assert_eq!(created["n"], 1);
    assert!(created["_etag"].is_string());
    database.delete(None).await?;
    Ok(())
}

#[tokio::test]
async fn a_stale_etag_is_refused() -> Result<()> {
    let client = client().await?;
    let database = new_database(&client).await?;
    let container = new_container(&database).await?;
    let item = json!({"id": "a", "pk": "p"});
    container.create_item("p", "a", &item, None).await?;
    let first: Value = container.read_item("p", "a", None).await?.into_model()?;
    let etag = Etag::from(first["_etag"].as_str().expect("items have an etag").to_owned());
    let guarded = |etag: Etag| {
        Some(ItemWriteOptions::default().with_precondition(Precondition::IfMatch(etag)))
    };
    container.replace_item("p", "a", &item, guarded(etag.clone())).await?;
    let refused = container.replace_item("p", "a", &item, guarded(etag.clone())).await;
    assert_eq!(status(refused), StatusCode::PreconditionFailed);
    assert_eq!(
        status(container.delete_item("p", "a", guarded(etag)).await),
        StatusCode::PreconditionFailed
    );
    database.delete(None).await?;
    Ok(())
}

#[tokio::test]
async fn keys_of_every_type_are_told_apart() -> Result<()> {
    let client = client().await?;
    let database = new_database(&client).await?;
    let container = new_container(&database).await?;
    let keys: [(PartitionKey, Option<Value>); 7] = [
        ("5".into(), Some(json!("5"))),
        (5.into(), Some(json!(5))),
        (PartitionKey::try_from(-0.5)?, Some(json!(-0.5))),
        (true.into(), Some(json!(true))),
        ("true".into(), Some(json!("true"))),
        (PartitionKey::NULL.into(), Some(Value::Null)),
        (PartitionKey::UNDEFINED.into(), None),
    ];
    for (number, (key, value)) in keys.iter().enumerate() {
        let mut item = json!({"id": "a", "number": number});
        if let Some(value) = value {
            item["pk"] = value.clone();
        }
        container.create_item(key.clone(), "a", &item, None).await?;
    }
    for (number, (key, _)) in keys.iter().enumerate() {
        let read: Value = container.read_item(key.clone(), "a", None).await?.into_model()?;
        assert_eq!(read["number"], number);
        let found =
            rows(&container, "SELECT VALUE c.number FROM c", FeedScope::partition(key.clone()))
                .await?;
        assert_eq!(found, [json!(number)]);
    }
    database.delete(None).await?;
    Ok(())
}

#[tokio::test]
async fn hierarchical_keys_name_items_and_prefixes_find_subtrees() -> Result<()> {
    let client = client().await?;
    let database = new_database(&client).await?;
    let properties = ContainerProperties::new(new_name("c"), ("/tenant", "/user").into());
    let container = new_container_of(&database, properties, None).await?;
    for tenant in ["t1", "t2"] {
        for user in ["u1", "u2"] {
            let id = format!("{tenant}{user}");
            let item = json!({"id": id, "tenant": tenant, "user": user});
            container.create_item((tenant, user), &id, &item, None).await?;
        }
    }
    let read: Value = container.read_item(("t2", "u1"), "t2u1", None).await?.into_model()?;
    assert_eq!(read["user"], "u1");
    let mut found =
        rows(&container, "SELECT VALUE c.id FROM c", FeedScope::partition("t2")).await?;
    found.sort_by_key(Value::to_string);
    assert_eq!(found, ["t2u1", "t2u2"]);
    database.delete(None).await?;
    Ok(())
}

#[tokio::test]
async fn a_batch_does_all_or_nothing() -> Result<()> {
    let client = client().await?;
    let database = new_database(&client).await?;
    let container = new_container(&database).await?;
    let batch = TransactionalBatch::new("p")
        .create_item(json!({"id": "a", "pk": "p", "n": 1}))?
        .upsert_item(json!({"id": "b", "pk": "p"}), None)?
        .replace_item("a", json!({"id": "a", "pk": "p", "n": 2}), None)?
        .read_item("a", None)
        .delete_item("b", None);
    let done = container.execute_transactional_batch(batch, None).await?.into_model()?;
    let codes: Vec<u16> = done.results().iter().map(|result| result.status_code()).collect();
    assert_eq!(codes, [201, 201, 200, 200, 204]);
    let read: Value = done.results()[3].into_model()?.expect("a read brings its item");
    assert_eq!(read["n"], 2);

    let batch = TransactionalBatch::new("p")
        .create_item(json!({"id": "never", "pk": "p"}))?
        .create_item(json!({"id": "a", "pk": "p"}))?;
    match container.execute_transactional_batch(batch, None).await {
        Ok(response) => {
            let undone = response.into_model()?;
            let codes: Vec<u16> =
                undone.results().iter().map(|result| result.status_code()).collect();
            assert_eq!(codes, [424, 409]);
        }
        Err(error) => assert_eq!(error.status().status_code(), StatusCode::Conflict),
    }
    assert_eq!(status(container.read_item("p", "never", None).await), StatusCode::NotFound);
    database.delete(None).await?;
    Ok(())
}

#[tokio::test]
async fn unique_keys_hold() -> Result<()> {
    let client = client().await?;
    let database = new_database(&client).await?;
    let policy =
        UniqueKeyPolicy::default().with_unique_key(UniqueKey::default().with_path("/mail"));
    let properties =
        ContainerProperties::new(new_name("c"), "/pk".into()).with_unique_key_policy(policy);
    let container = new_container_of(&database, properties, None).await?;
    container.create_item("p", "1", &json!({"id": "1", "pk": "p", "mail": "a@x"}), None).await?;
    let second = json!({"id": "2", "pk": "p", "mail": "a@x"});
    assert_eq!(status(container.create_item("p", "2", &second, None).await), StatusCode::Conflict);
    database.delete(None).await?;
    Ok(())
}

#[tokio::test]
async fn many_requests_share_a_connection() -> Result<()> {
    let client = client().await?;
    let database = new_database(&client).await?;
    let container = new_container(&database).await?;
    let writes = (0..200).map(|number| {
        let container = container.clone();
        async move {
            let (key, id) = (format!("key {}", number % 10), number.to_string());
            let item = json!({"id": id, "pk": key, "number": number});
            container.create_item(key.clone(), &id, &item, None).await?;
            container.read_item(key, &id, None).await?.into_model::<Value>()
        }
    });
    let read = futures::future::try_join_all(writes).await?;
    assert_eq!(read.len(), 200);
    database.delete(None).await?;
    Ok(())
}

#[tokio::test]
async fn a_wrong_key_is_refused() -> Result<()> {
    let wrong = "d3Jvbmcga2V5IHdyb25nIGtleSB3cm9uZyBrZXkgd3Jvbmcga2V5IHdyb25nIGtleSB3cm9uZyBrZXk=";
    // The refusal may come while the client reads the account, or with the first request.
    let refused = match client_with_key(wrong).await {
        Ok(client) => client.create_database(&new_name("never"), None).await.map(drop),
        Err(error) => Err(error),
    };
    assert_eq!(status(refused), StatusCode::Unauthorized);
    Ok(())
}
