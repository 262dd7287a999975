//! Queries whose client does not wait for the answer.

use crate::support::{Armilla, QUERY};
use std::sync::Arc;
use std::time::Duration;

const POSTS: &str = "/dbs/blog/colls/posts";
const ACROSS: (&str, &str) = ("x-ms-documentdb-query-enablecrosspartition", "True");
/// Looks for what must happen at last, and how long a query may need to see that it is alone.
const LOOKS: u32 = 300;
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

#[tokio::test(flavor = "multi_thread")]
async fn a_query_ends_when_its_client_goes_away() {
    let armilla = Armilla::with_posts().await;
    let numbers: Vec<_> = (0..300).map(|number| number.to_string()).collect();
    let item = format!(r#"{{"id":"1","postId":"p","xs":[{}]}}"#, numbers.join(","));
    let key = ("x-ms-documentdb-partitionkey", "[\"p\"]");
    armilla.send("POST", &format!("{POSTS}/docs"), &[key], &item).await.expect(201);
    let container = armilla.account.container("blog", "posts").unwrap();
    let idle = Arc::strong_count(&container);
    // Eight thousand million rows of one item take longer than a query may.
    for select in ["COUNT(1)", "a"] {
        let text = format!(
            "SELECT VALUE {select} FROM c JOIN a IN c.xs JOIN b IN c.xs JOIN d IN c.xs \
             JOIN e IN c.xs WHERE a + b + d + e < 0"
        );
        let body = format!(r#"{{"query":"{text}","parameters":[]}}"#);
        let path = format!("{POSTS}/docs");
        let headers = [QUERY, ACROSS];
        let asked = armilla.send("POST", &path, &headers, &body);
        let impatient = tokio::time::timeout(Duration::from_millis(500), asked).await;
        assert!(impatient.is_err(), "{text} was answered: {}", impatient.unwrap().body);
        let mut looks = 0;
        while Arc::strong_count(&container) > idle {
            looks += 1;
            assert!(looks < LOOKS, "{text} goes on without its client");
            // Pause: between two looks at the condition that is awaited.
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
    }
}
