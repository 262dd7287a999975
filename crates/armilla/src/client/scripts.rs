//! Stored procedures, triggers and user functions: kept, and run.

use super::items::{ContainerName, Key, PARTITION_KEY};
use super::{Answer, Client, Outcome};
use http::Method;
use serde_json::{Value, json};

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

    /// Keeps a trigger that runs after every write, in place of one of that name.
    pub(crate) async fn put_post_trigger(
        &self,
        container: ContainerName<'_>,
        name: &str,
        code: &str,
    ) -> Outcome<()> {
        let body =
            json!({ "id": name, "body": code, "triggerOperation": "All", "triggerType": "Post" });
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
        page: ForEachPage<'_>,
    ) -> Outcome<Answer> {
        let ForEachPage { query, arguments, rows, continuation } = page;
        let call = container.call(Method::POST, &["sprocs", procedure]);
        let call = call
            .header("x-armilla-for-each-partition", "True")
            .header("x-ms-max-item-count", rows.to_string())
            .header_if("x-ms-continuation", continuation)
            .body(json!({ "query": query, "arguments": arguments }).to_string());
        self.send(call).await
    }
}

/// One page of a query in whose logical partitions a stored procedure runs.
pub(crate) struct ForEachPage<'a> {
    /// The query that finds the partitions.
    pub(crate) query: &'a str,
    /// What the procedure is called with.
    pub(crate) arguments: &'a [Value],
    /// Rows of the page at most.
    pub(crate) rows: u32,
    /// Where the page before ended.
    pub(crate) continuation: Option<&'a str>,
}
