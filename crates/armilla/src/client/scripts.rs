//! Stored procedures, triggers and user functions: kept, and run.

use super::items::{ContainerName, Key, PARTITION_KEY};
use super::{Answer, Client, Outcome};
use http::Method;
use serde_json::{Value, json};

/// When a trigger runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TriggerTime {
    /// Before the item is written.
    Before,
    /// After it.
    After,
}

impl Client {
    /// Keeps a stored procedure, in place of one of that name.
    pub(crate) async fn put_procedure(
        &self,
        container: ContainerName<'_>,
        name: &str,
        code: &str,
    ) -> Outcome<()> {
        self.put_script(container, "sprocs", name, json!({ "id": name, "body": code })).await
    }

    /// Keeps a trigger for every operation, in place of one of that name.
    pub(crate) async fn put_trigger(
        &self,
        container: ContainerName<'_>,
        name: &str,
        time: TriggerTime,
        code: &str,
    ) -> Outcome<()> {
        let kind = match time {
            TriggerTime::Before => "Pre",
            TriggerTime::After => "Post",
        };
        let body =
            json!({ "id": name, "body": code, "triggerOperation": "All", "triggerType": kind });
        self.put_script(container, "triggers", name, body).await
    }

    async fn put_script(
        &self,
        container: ContainerName<'_>,
        kind: &str,
        name: &str,
        body: Value,
    ) -> Outcome<()> {
        let body = body.to_string();
        let create = container.call(Method::POST, &[kind]).body(body.clone());
        let answer = self.send(create).await?;
        if answer.status != 409 {
            return answer.success().map(|_| ());
        }
        let replace = container.call(Method::PUT, &[kind, name]).body(body);
        self.send(replace).await?.success().map(|_| ())
    }

    /// Runs a stored procedure on a logical partition. Refusals are answers: they are charged too.
    pub(crate) async fn execute(
        &self,
        container: ContainerName<'_>,
        procedure: &str,
        key: &Key,
        arguments: &[Value],
    ) -> Outcome<Answer> {
        let call = container.call(Method::POST, &["sprocs", procedure]);
        let call = call
            .header(PARTITION_KEY, key.header())
            .header("x-ms-documentdb-script-enable-logging", "True")
            .body(Value::from(arguments.to_vec()).to_string());
        self.send(call).await
    }

    /// Runs a stored procedure in the logical partitions that one page of a query finds.
    pub(crate) async fn execute_for_each(
        &self,
        container: ContainerName<'_>,
        procedure: &str,
        query: &str,
        arguments: &[Value],
        rows: u32,
        continuation: Option<&str>,
    ) -> Outcome<Answer> {
        let call = container.call(Method::POST, &["sprocs", procedure]);
        let call = call
            .header("x-armilla-for-each-partition", "True")
            .header("x-ms-max-item-count", rows.to_string())
            .header_if("x-ms-continuation", continuation)
            .body(json!({ "query": query, "arguments": arguments }).to_string());
        self.send(call).await
    }
}
