//! What the tests share: a client of the server under test and fresh containers on it.
//!
//! The server is named by `ARMILLA_ENDPOINT` (default `http://localhost:8081/`) and `ARMILLA_KEY` (default:
//! the published key of local emulators). This SDK speaks HTTP/2 only, with prior knowledge on plain http.

use azure_core::Uuid;
use azure_core::credentials::Secret;
use azure_data_cosmos::clients::{ContainerClient, DatabaseClient};
use azure_data_cosmos::feed::FeedScope;
use azure_data_cosmos::models::ContainerProperties;
use azure_data_cosmos::options::{
    ConnectionPoolOptions, CreateContainerOptions, Region, ServerCertificateValidation,
};
use azure_data_cosmos::{
    AccountEndpoint, AccountReference, CosmosClient, CosmosRuntime, Query, Result, RoutingStrategy,
};
use futures::TryStreamExt as _;
use serde_json::Value;

const WELL_KNOWN_KEY: &str =
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

/// A client of the server under test. Its certificate is its own, so it is not checked.
pub async fn client() -> Result<CosmosClient> {
    client_with_key(&variable("ARMILLA_KEY", WELL_KNOWN_KEY)).await
}

/// A client that signs with another key.
pub async fn client_with_key(key: &str) -> Result<CosmosClient> {
    let pool = ConnectionPoolOptions::builder()
        .with_server_certificate_validation(ServerCertificateValidation::RequiredUnlessEmulator)
        .build()?;
    let runtime = CosmosRuntime::builder().with_connection_pool(pool).build().await?;
    let endpoint: AccountEndpoint =
        variable("ARMILLA_ENDPOINT", "http://localhost:8081/").parse()?;
    let account = AccountReference::with_authentication_key(endpoint, Secret::new(key.to_owned()));
    let near = RoutingStrategy::ProximityTo(Region::EAST_US);
    CosmosClient::builder().with_runtime(runtime).build(account, near).await
}

/// A name nobody used before.
pub fn new_name(prefix: &str) -> String {
    format!("{prefix}-{}", Uuid::new_v4())
}

/// A fresh database; delete it at the end of the test.
pub async fn new_database(client: &CosmosClient) -> Result<DatabaseClient> {
    let name = new_name("rust");
    client.create_database(&name, None).await?;
    Ok(client.database_client(&name))
}

/// A fresh container with the key path `/pk`.
pub async fn new_container(database: &DatabaseClient) -> Result<ContainerClient> {
    new_container_of(database, ContainerProperties::new(new_name("c"), "/pk".into()), None).await
}

/// A fresh container of any kind.
pub async fn new_container_of(
    database: &DatabaseClient,
    properties: ContainerProperties,
    options: Option<CreateContainerOptions>,
) -> Result<ContainerClient> {
    let name = properties.id.to_string();
    database.create_container(properties, options).await?;
    database.container_client(name, None).await
}

/// All rows of a query.
pub async fn rows(
    container: &ContainerClient,
    query: impl Into<Query>,
    scope: FeedScope,
) -> Result<Vec<Value>> {
    container.query_items::<Value>(query, scope, None).await?.try_collect().await
}

fn variable(name: &str, default: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| default.to_owned())
}
