//! Proves that the Rust snippet of docs/guide.md runs.

use armilla_conformance_rust::{client, new_container_of};
use azure_data_cosmos::Result;
use azure_data_cosmos::models::ContainerProperties;
use serde_json::json;

const DATABASE: &str = "guide-rust";

/// The server under test, without TLS.
fn plain_endpoint() -> String {
    let endpoint = std::env::var("ARMILLA_ENDPOINT");
    endpoint.unwrap_or_else(|_| "http://localhost:8081/".to_owned()).replacen("https:", "http:", 1)
}

mod snippet {
    include!(concat!(env!("OUT_DIR"), "/guide.rs"));

    pub fn run() -> azure_data_cosmos::Result<()> {
        main()
    }
}

async fn prepare() -> Result<()> {
    let client = client().await?;
    client.create_database(DATABASE, None).await?;
    let database = client.database_client(DATABASE);
    let properties = ContainerProperties::new("posts", "/postId".into());
    let posts = new_container_of(&database, properties, None).await?;
    let post = json!({"id": "p1", "postId": "p1", "title": "Rings"});
    posts.upsert_item("p1", "p1", &post, None).await?;
    Ok(())
}

async fn clear() -> Result<()> {
    client().await?.database_client(DATABASE).delete(None).await?;
    Ok(())
}

// The snippet brings its own runtime, so this test has one before it and one behind.
#[test]
fn the_snippet_of_the_guide_runs() -> Result<()> {
    let runtime = || tokio::runtime::Runtime::new().expect("a runtime can be made");
    runtime().block_on(prepare())?;
    let outcome = snippet::run();
    runtime().block_on(clear())?;
    outcome
}
