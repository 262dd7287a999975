//! Proves queries over several ranges, pages and their continuation, feed ranges, the change feed and
//! throughput: the parts where this SDK merges ranges itself and relies on the server's query plans.

use std::num::NonZeroU32;

use armilla_conformance_rust::{
    client, new_container, new_container_of, new_database, new_name, rows,
};
use azure_core::http::StatusCode;
use azure_data_cosmos::clients::{ContainerClient, DatabaseClient};
use azure_data_cosmos::feed::FeedScope;
use azure_data_cosmos::models::{ContainerProperties, ThroughputProperties};
use azure_data_cosmos::options::{
    ChangeFeedOptions, ChangeFeedStartFrom, CreateContainerOptions, MaxItemCountHint, QueryOptions,
};
use azure_data_cosmos::{Query, Result};
use futures::{StreamExt as _, TryStreamExt as _};
use serde_json::{Value, json};

const COUNT: usize = 80;

/// A container of three ranges with items over all of them.
async fn filled(database: &DatabaseClient) -> Result<ContainerClient> {
    let properties = ContainerProperties::new(new_name("c"), "/pk".into());
    let options =
        CreateContainerOptions::default().with_throughput(ThroughputProperties::manual(25_000));
    let container = new_container_of(database, properties, Some(options)).await?;
    for number in 0..COUNT {
        let (key, id) = (format!("p{}", number % 9), number.to_string());
        let item = json!({"id": id, "pk": key, "n": number, "group": number % 4});
        container.create_item(key, &id, &item, None).await?;
    }
    Ok(container)
}

#[tokio::test]
async fn queries_are_merged_over_ranges() -> Result<()> {
    let client = client().await?;
    let database = new_database(&client).await?;
    let container = filled(&database).await?;
    let all: Vec<Value> = (0..COUNT).map(|n| json!(n)).collect();
    let everywhere = FeedScope::full_container;
    assert_eq!(rows(&container, "SELECT VALUE c.n FROM c ORDER BY c.n", everywhere()).await?, all);
    let down: Vec<Value> = all.iter().rev().take(5).cloned().collect();
    let top = "SELECT TOP 5 VALUE c.n FROM c ORDER BY c.n DESC";
    assert_eq!(rows(&container, top, everywhere()).await?, down);
    let offset = "SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 10 LIMIT 3";
    assert_eq!(rows(&container, offset, everywhere()).await?, [10, 11, 12]);
    let found = rows(&container, "SELECT VALUE c.n FROM c WHERE c[\"group\"] = 1", everywhere()).await?;
    assert_eq!(found.len(), COUNT / 4);
    let query = Query::from("SELECT VALUE c.id FROM c WHERE c.n = @n").with_parameter("@n", 17)?;
    assert_eq!(rows(&container, query, everywhere()).await?, ["17"]);
    let one = rows(&container, "SELECT VALUE c.n FROM c", FeedScope::partition("p2")).await?;
    assert_eq!(one, [2, 11, 20, 29, 38, 47, 56, 65, 74]);
    database.delete(None).await?;
    Ok(())
}

#[tokio::test]
async fn a_query_goes_on_from_a_saved_position() -> Result<()> {
    let client = client().await?;
    let database = new_database(&client).await?;
    let container = filled(&database).await?;
    let options = || {
        let limit = NonZeroU32::new(7).expect("seven is not zero");
        QueryOptions::default().with_max_item_count(MaxItemCountHint::Limit(limit))
    };
    let query = "SELECT VALUE c.n FROM c ORDER BY c.n";
    let mut seen: Vec<Value> = Vec::new();
    let mut position = None;
    loop {
        let mut options = options();
        if let Some(position) = position.take() {
            options = options.with_continuation_token(position);
        }
        let scope = FeedScope::full_container();
        let mut pages =
            container.query_items::<Value>(query, scope, Some(options)).await?.into_pages();
        let Some(page) = pages.try_next().await? else { break };
        assert!(page.items().len() <= 7);
        seen.extend(page.into_items());
        if seen.len() >= COUNT {
            break;
        }
        position = Some(pages.to_continuation_token()?);
    }
    assert_eq!(seen, (0..COUNT).map(|n| json!(n)).collect::<Vec<_>>());
    database.delete(None).await?;
    Ok(())
}

#[tokio::test]
async fn bad_sql_is_refused() -> Result<()> {
    let client = client().await?;
    let database = new_database(&client).await?;
    let container = new_container(&database).await?;
    let refused = rows(&container, "SELECT * FROM c WHERE", FeedScope::full_container()).await;
    let error = refused.expect_err("it should have been refused");
    assert_eq!(error.status().status_code(), StatusCode::BadRequest);
    database.delete(None).await?;
    Ok(())
}

#[tokio::test]
async fn feed_ranges_cover_the_container_once() -> Result<()> {
    let client = client().await?;
    let database = new_database(&client).await?;
    let container = filled(&database).await?;
    let ranges = container.read_feed_ranges(None).await?;
    assert!(ranges.len() >= 3);
    let mut seen = Vec::new();
    for range in ranges {
        seen.extend(rows(&container, "SELECT VALUE c.n FROM c", FeedScope::range(range)).await?);
    }
    seen.sort_by_key(Value::as_u64);
    assert_eq!(seen, (0..COUNT).map(|n| json!(n)).collect::<Vec<_>>());
    database.delete(None).await?;
    Ok(())
}

/// Every item of the feed until it has nothing new several times in a row.
async fn drain(
    container: &ContainerClient,
    scope: FeedScope,
    options: Option<ChangeFeedOptions>,
) -> Result<Vec<Value>> {
    let start = ChangeFeedStartFrom::Beginning;
    let mut pages = container.query_change_feed::<Value>(scope, start, options).await?;
    let (mut seen, mut quiet) = (Vec::new(), 0);
    while quiet < 5 {
        let Some(page) = pages.next().await else { break };
        let page = page?;
        quiet = if page.items().is_empty() { quiet + 1 } else { 0 };
        seen.extend(page.items().iter().filter_map(|change| change.current().cloned()));
    }
    Ok(seen)
}

#[tokio::test]
async fn the_change_feed_shows_each_item_once_in_its_last_state() -> Result<()> {
    let client = client().await?;
    let database = new_database(&client).await?;
    let container = filled(&database).await?;
    container.upsert_item("p4", "4", &json!({"id": "4", "pk": "p4", "n": 400}), None).await?;
    container.delete_item("p5", "5", None).await?;
    let seen = drain(&container, FeedScope::full_container(), None).await?;
    assert_eq!(seen.len(), COUNT - 1);
    let fourth: Vec<_> = seen.iter().filter(|item| item["id"] == "4").collect();
    assert_eq!(fourth.len(), 1);
    assert_eq!(fourth[0]["n"], 400);
    let one = drain(&container, FeedScope::partition("p2"), None).await?;
    assert_eq!(
        one.iter().map(|item| &item["n"]).collect::<Vec<_>>(),
        [2, 11, 20, 29, 38, 47, 56, 65, 74]
    );
    database.delete(None).await?;
    Ok(())
}

#[tokio::test]
async fn throughput_is_read_and_replaced() -> Result<()> {
    let client = client().await?;
    let database = new_database(&client).await?;
    let container = new_container(&database).await?;
    let offer = container.read_throughput(None).await?.expect("a container has throughput");
    assert_eq!(offer.throughput(), Some(400));
    let wanted = ThroughputProperties::manual(900);
    let replaced = container.begin_replace_throughput(wanted, None).await?.await?.into_model()?;
    assert_eq!(replaced.throughput(), Some(900));

    let properties = ContainerProperties::new(new_name("c"), "/pk".into());
    let options = CreateContainerOptions::default()
        .with_throughput(ThroughputProperties::autoscale(5000, Some(10)));
    let autoscale = new_container_of(&database, properties, Some(options)).await?;
    let offer = autoscale.read_throughput(None).await?.expect("a container has throughput");
    assert_eq!(offer.autoscale_maximum(), Some(5000));
    database.delete(None).await?;
    Ok(())
}

#[tokio::test]
async fn a_container_is_read_replaced_and_found() -> Result<()> {
    let client = client().await?;
    let database = new_database(&client).await?;
    let container = new_container(&database).await?;
    let properties = container.read(None).await?.into_model()?;
    let name = properties.id.to_string();
    let changed = properties.with_default_ttl(3600_u32);
    container.replace(changed, None).await?;
    let again = container.read(None).await?.into_model()?;
    assert!(!again.default_ttl.is_forever());
    let query =
        Query::from("SELECT * FROM root r WHERE r.id = @id").with_parameter("@id", &name)?;
    let found: Vec<ContainerProperties> =
        database.query_containers(query, None).await?.try_collect().await?;
    assert_eq!(found.len(), 1);
    container.delete(None).await?;
    database.delete(None).await?;
    Ok(())
}
