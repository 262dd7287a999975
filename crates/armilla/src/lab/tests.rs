//! The ready labs hold what they promise, on a server in this process.

mod advice;
mod generated;

use super::*;

fn data(name: &str, scale: &[(&str, u64)]) -> Data {
    let model = Model::find(name).unwrap();
    let mut numbers = model.scale.clone();
    for (name, number) in scale {
        *numbers.get_mut(*name).unwrap() = *number;
    }
    Data { model: Arc::new(model), scale: numbers }
}

async fn report(name: &str, scale: &[(&str, u64)]) -> Report {
    let server = LocalServer::start_in_memory(None).await.unwrap();
    let client = Client::new(&server.endpoint(), Arc::new(SystemClock)).unwrap();
    let report = measure(&client, name, &data(name, scale), 1).await.unwrap();
    server.stop().await;
    report
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_stays_with_the_server_that_was_asked() {
    let server = LocalServer::start_in_memory(None).await.unwrap();
    let client = Client::new(&server.endpoint(), Arc::new(SystemClock)).unwrap();
    let report = measure(&client, "comments", &data("comments", &[]), 1).await.unwrap();
    hand_over(&client, &report).await.unwrap();
    let call = Call::new(Method::GET, &["_armilla", "lab", "reports", "comments"]);
    let kept = client.send(call).await.unwrap().success().unwrap().json().unwrap();
    // Both were read from text: what is read of a double may be a neighbour of what was written.
    let sent = serde_json::to_string(&report).unwrap();
    assert_eq!(kept, serde_json::from_str::<serde_json::Value>(&sent).unwrap());
    server.stop().await;
}

fn units(report: &Report, row: &str) -> Vec<f64> {
    let row = report.rows.iter().find(|found| found.name == row).unwrap();
    row.cells.iter().flatten().map(|cell| cell.request_units).collect()
}

#[test]
fn every_ready_lab_is_read() {
    for (name, text) in READY {
        let model = Model::parse(text).unwrap();
        assert_eq!(model.name, name);
        assert!(!model.about.is_empty());
    }
    assert!(list().unwrap().contains("blog"));
}

#[test]
fn the_same_seed_makes_the_same_items() {
    let data = data("blog", &[("users", 3)]);
    let posts = data.model.containers.iter().find(|container| container.name == "posts").unwrap();
    let made = || {
        let mut items = Vec::new();
        data.make(posts, &mut |item| {
            items.push(item.to_string());
            Ok(())
        })
        .unwrap();
        items
    };
    let items = made();
    assert_eq!(items.len() as u64, data.items(posts).unwrap());
    assert_eq!(items, made());
    let first: serde_json::Value = serde_json::from_str(&items[0]).unwrap();
    assert_eq!(first["commentCount"], 20);
    assert_eq!(first["likeCount"], 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_blog_improves_from_design_to_design() {
    let report = report("blog", &[("users", 4)]).await;
    assert_eq!(report.rows.len(), 10);
    assert_eq!(report.verdict.unwrap().compared, 28);
    for name in ["Q2", "Q3", "Q4", "Q5", "Q6"] {
        let units = units(&report, name);
        assert!(units[0] > units[1] && units[1] >= units[2], "{name}: {units:?}");
        // What views keep up is read by one request on one partition too.
        assert!(units[1] >= units[3], "{name}: {units:?}");
    }
    for name in ["Q3", "Q6"] {
        let row = report.rows.iter().find(|row| row.name == name).unwrap();
        let declared = row.cells[3].as_ref().unwrap();
        assert_eq!((declared.requests, declared.partitions), (1, 1), "{name}");
    }
    assert_eq!(units(&report, "C1")[0], 5.71);
    let page = html::page(&report);
    assert!(page.contains("<svg") && !page.contains("http"), "one page without outside resources");
    assert!(table::text(&report).contains("of 28 cells"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_other_labs_show_their_trade() {
    let portfolio = report("portfolio", &[("people", 30)]).await;
    let (read, write) = (units(&portfolio, "R1"), units(&portfolio, "W1"));
    assert!(read[0] < read[1] && write[0] > write[1], "{read:?} {write:?}");

    let publisher = report("publisher", &[("publishers", 3)]).await;
    let (list, add) = (units(&publisher, "R1"), units(&publisher, "W1"));
    assert!(list[0] > list[1] && list[1] > list[2] && add[0] > add[1], "{list:?} {add:?}");

    let authors = report("authors", &[("authors", 5)]).await;
    let (page, rename) = (units(&authors, "R1"), units(&authors, "W1"));
    assert!(page[0] > page[1] && page[1] > page[2] && rename[2] > rename[0], "{page:?} {rename:?}");

    let comments = report("comments", &[("posts", 1)]).await;
    let (read, add) = (units(&comments, "R1"), units(&comments, "W1"));
    assert!(read[0] > read[1] && add[0] > add[1] && add[1] > add[2], "{read:?} {add:?}");
}
