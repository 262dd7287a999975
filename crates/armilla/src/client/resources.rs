//! Databases and containers.

use super::items::ContainerName;
use super::{Answer, Call, Client, Outcome};
use http::Method;
use serde_json::{Value, json};

impl Client {
    /// Makes a database unless it is there.
    pub(crate) async fn ensure_database(&self, name: &str) -> Outcome<()> {
        let call = Call::new(Method::POST, &["dbs"]).body(json!({ "id": name }).to_string());
        let answer = self.send(call).await?;
        if answer.status == 409 { Ok(()) } else { answer.success().map(|_| ()) }
    }

    /// Deletes a database, if it is there.
    pub(crate) async fn delete_database(&self, name: &str) -> Outcome<()> {
        let answer = self.send(Call::new(Method::DELETE, &["dbs", name])).await?;
        if answer.status == 404 { Ok(()) } else { answer.success().map(|_| ()) }
    }

    /// Makes a container from its definition, with this throughput. The answer may be a 409.
    pub(crate) async fn create_container(
        &self,
        database: &str,
        definition: &Value,
        throughput: Option<u32>,
    ) -> Outcome<Answer> {
        let call = Call::new(Method::POST, &["dbs", database, "colls"]);
        let throughput = throughput.map(|units| units.to_string());
        let call = call.header_if("x-ms-offer-throughput", throughput);
        let is_view = definition.get("materializedViewDefinition").is_some();
        let call = call.header_if("x-armilla-views", is_view.then_some("extended"));
        self.send(call.body(definition.to_string())).await
    }

    /// The definition of a container, and in a header how much it holds.
    pub(crate) async fn read_container(&self, container: ContainerName<'_>) -> Outcome<Answer> {
        let call = container.call(Method::GET, &[]);
        self.send(call.header("x-ms-documentdb-populatequotainfo", "True")).await?.success()
    }
}
