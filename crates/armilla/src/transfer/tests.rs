//! Round trips over a server in this process, and records in every format.

use super::records::{self, Record};
use super::*;
use crate::config::{Arguments, Command};
use crate::local::LocalServer;
use armilla_model::clock::SystemClock;
use clap::Parser as _;
use serde_json::json;
use std::io::Cursor;
use std::sync::Arc;

fn read(format: Format, text: &str) -> Vec<Record> {
    let source = Box::new(Cursor::new(text.to_owned().into_bytes()));
    records::read(format, source).collect::<Result<_, _>>().unwrap()
}

fn texts(format: Format, text: &str) -> Vec<(u64, String)> {
    let records = read(format, text).into_iter();
    records.map(|record| (record.line, String::from_utf8(record.text.unwrap()).unwrap())).collect()
}

#[test]
fn arrays_are_split_at_their_elements() {
    let text = "[\n {\"a\":\"]},{\\\"\"},\n\n {\"b\":[1,{}]} , 7,\n \"x,y\"]\n";
    let expected = [
        (2, "{\"a\":\"]},{\\\"\"}".to_owned()),
        (4, "{\"b\":[1,{}]}".to_owned()),
        (4, "7".to_owned()),
        (5, "\"x,y\"".to_owned()),
    ];
    assert_eq!(texts(Format::Json, text), expected);
    assert_eq!(
        texts(Format::Json, "{\"a\":1}\n{\"b\":2}"),
        [(1, "{\"a\":1}".into()), (2, "{\"b\":2}".into())]
    );
    assert!(texts(Format::Json, " [ ] ").is_empty());
}

#[test]
fn lines_and_cells_know_where_they_are() {
    assert_eq!(
        texts(Format::Jsonl, "{}\n\n {\"a\":1} \n"),
        [(1, "{}".into()), (3, "{\"a\":1}".into())]
    );
    let text = "id,n,s,empty\n1,2,\"a\nb\",\n007,x,\"\"\"5\"\"\",\n";
    let expected = [
        (2, "{\"id\":\"1\",\"n\":2,\"s\":\"a\\nb\"}".to_owned()),
        (4, "{\"id\":\"007\",\"n\":\"x\",\"s\":\"5\"}".to_owned()),
    ];
    assert_eq!(texts(Format::Csv, text), expected);
    assert!(read(Format::Csv, "id,n\na\n")[0].text.is_err());
}

/// Runs a command line against a server.
async fn command(server: &LocalServer, line: &str, file: &FilePath) -> Result<(), String> {
    let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    words.extend(["--endpoint".to_owned(), server.endpoint().base, file.display().to_string()]);
    let parsed = Arguments::try_parse_from(std::iter::once("armilla".to_owned()).chain(words));
    let command = parsed.map_err(|error| error.to_string())?.command;
    tokio::task::spawn_blocking(move || match command {
        Some(Command::Import(options)) => import(&options),
        Some(Command::Export(options)) => export(&options),
        _ => Err("not a transfer".to_owned()),
    })
    .await
    .unwrap()
}

fn sorted(file: &FilePath) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[tokio::test(flavor = "multi_thread")]
async fn every_format_comes_back_as_it_went() {
    let server = LocalServer::start_in_memory(Some(3)).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let first = folder.path().join("first.jsonl");
    let line = |n: u32| {
        format!(
            "{{\"id\":\"i{n}\",\"town\":\"t{}\",\"n\":{n},\"x\":{{\"a\":[1,\"ü\",null]}},\"s\":\"{}\"}}\n",
            n % 7,
            n * 3
        )
    };
    std::fs::write(&first, (0..1500).map(line).collect::<String>()).unwrap();
    command(&server, "import --database d --container a --partition-key /town", &first)
        .await
        .unwrap();
    let mut from = "a";
    for (format, to) in [("jsonl", "b"), ("json", "c"), ("csv", "d")] {
        let file = folder.path().join(format!("copy.{format}"));
        command(&server, &format!("export --database d --container {from}"), &file).await.unwrap();
        let into = format!("import --database d --container {to} --partition-key /town");
        command(&server, &into, &file).await.unwrap();
        assert!(!folder.path().join(format!("copy.{format}.armilla-import")).exists());
        let back = folder.path().join(format!("back-{format}.jsonl"));
        command(&server, &format!("export --database d --container {to}"), &back).await.unwrap();
        assert_eq!(sorted(&back), sorted(&first), "{format}");
        from = to;
    }
    server.stop().await;
}

/// Data of the service may hold them: it takes repeated names and keeps the last.
#[tokio::test(flavor = "multi_thread")]
async fn of_repeated_names_the_last_is_stored() {
    let server = LocalServer::start_in_memory(None).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (lines, array) = (folder.path().join("a.jsonl"), folder.path().join("b.json"));
    std::fs::write(&lines, r#"{"id":"1","town":"a","town":"b","n":1,"n":2.50}"#).unwrap();
    std::fs::write(&array, r#"[{"id":"2","o":{"x":1,"x":[3]},"town":"c"}]"#).unwrap();
    let into = "import --database d --container a --partition-key /town";
    command(&server, into, &lines).await.unwrap();
    command(&server, into, &array).await.unwrap();
    let back = folder.path().join("back.jsonl");
    command(&server, "export --database d --container a", &back).await.unwrap();
    let wanted = [r#"{"id":"1","town":"b","n":2.50}"#, r#"{"id":"2","o":{"x":[3]},"town":"c"}"#];
    assert_eq!(sorted(&back), wanted);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_stored_is_told_and_the_rest_is_stored() {
    let server = LocalServer::start_in_memory(None).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mixed.jsonl");
    let long = "c".repeat(2000);
    let lines = [
        r#"{"id":"a"}"#,
        r#"{"id":"b",}"#,
        r#"{"id":7}"#,
        &format!(r#"{{"id":"{long}"}}"#),
        r#"{"id":"d"}"#,
    ];
    std::fs::write(&file, lines.join("\n")).unwrap();
    let into = "import --database d --container a --partition-key /id";
    let check = command(&server, "import --check --database d --container a", &file).await;
    assert!(check.unwrap_err().contains("404"), "there is no container yet");
    let error = command(&server, into, &file).await.unwrap_err();
    assert_eq!(error, "3 records could not be imported");
    let back = folder.path().join("back.jsonl");
    command(&server, "export --database d --container a", &back).await.unwrap();
    assert_eq!(sorted(&back), ["{\"id\":\"a\"}", "{\"id\":\"d\"}"]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_import_goes_on_and_another_server_is_a_source() {
    let server = LocalServer::start_in_memory(Some(2)).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.jsonl");
    std::fs::write(&file, (0..300).map(|n| format!("{{\"id\":\"{n}\"}}\n")).collect::<String>())
        .unwrap();
    let into = "import --database d --container a --partition-key /id";
    // What an import that was killed behind its first two hundred records leaves.
    let state = folder.path().join("all.jsonl.armilla-import");
    let remember = |what: &str, size: u64| {
        let state_of =
            json!({ "what": what, "size": size, "records": 200, "stored": 200, "refused": 0 });
        std::fs::write(&state, state_of.to_string()).unwrap();
    };
    let nothing = folder.path().join("nothing.jsonl");
    std::fs::write(&nothing, "").unwrap();
    command(&server, into, &nothing).await.unwrap();
    let client = Client::new(&server.endpoint(), Arc::new(SystemClock)).unwrap();
    let rid = describe(&client, ContainerName::new("d", "a")).await.unwrap().rid;
    let what = format!("{} to {} d/a ({rid})", file.display(), server.endpoint().base);
    let size = std::fs::metadata(&file).unwrap().len();
    remember(&what, size);
    command(&server, into, &file).await.unwrap();
    let back = folder.path().join("back.jsonl");
    command(&server, "export --database d --container a", &back).await.unwrap();
    assert_eq!(sorted(&back).len(), 100, "the first two hundred were not read again");
    remember("another", size);
    assert!(command(&server, into, &file).await.unwrap_err().contains("another transfer"));
    remember(&what, size - 1);
    assert!(command(&server, into, &file).await.unwrap_err().contains("--restart"));
    // The hundred that are there count as done when an import goes on; as refused when it does not.
    remember(&what, size);
    let refuse = format!("{into} --on-conflict refuse");
    command(&server, &refuse, &file).await.unwrap();
    let error = command(&server, &refuse, &file).await.unwrap_err();
    assert_eq!(error, "100 records could not be imported");
    command(&server, &format!("{into} --restart"), &file).await.unwrap();

    let other = LocalServer::start_in_memory(None).await.unwrap();
    let words = format!(
        "armilla import --database e --container b --partition-key /id --endpoint {} --from-endpoint {} --from-database d --from-container a --state {}",
        other.endpoint().base,
        server.endpoint().base,
        folder.path().join("state").display()
    );
    let Some(Command::Import(options)) =
        Arguments::try_parse_from(words.split(' ')).unwrap().command
    else {
        panic!()
    };
    tokio::task::spawn_blocking(move || import(&options)).await.unwrap().unwrap();
    command(&other, "export --database e --container b", &back).await.unwrap();
    assert_eq!(sorted(&back), sorted(&file));
    other.stop().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_export_goes_on_and_is_whole() {
    let server = LocalServer::start_in_memory(Some(3)).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let first = folder.path().join("first.jsonl");
    let line = |n: u32| format!("{{\"id\":\"i{n}\",\"n\":{n}}}\n");
    std::fs::write(&first, (0..5000).map(line).collect::<String>()).unwrap();
    command(&server, "import --database d --container a --partition-key /id", &first)
        .await
        .unwrap();
    for format in ["jsonl", "json", "csv"] {
        let whole = folder.path().join(format!("whole.{format}"));
        let out = "export --database d --container a";
        command(&server, out, &whole).await.unwrap();
        let text = std::fs::read(&whole).unwrap();
        // Killed again and again, each time with some bytes behind what was remembered.
        let file = folder.path().join(format!("again.{format}"));
        let (part, state) =
            (state::beside(&file, ".part"), state::beside(&file, ".armilla-export"));
        let described = export_places(&server, &file, format).await;
        assert!(described.len() > 3, "there are pages to be interrupted between");
        for kept in described {
            let bytes = kept["bytes"].as_u64().unwrap() as usize;
            let torn = [&text[..bytes], b"{\"torn"].concat();
            std::fs::write(&part, torn).unwrap();
            std::fs::write(&state, kept.to_string()).unwrap();
            command(&server, out, &file).await.unwrap();
            assert!(std::fs::read(&file).unwrap() == text, "{format} from byte {bytes}");
            assert!(!part.exists() && !state.exists());
        }
        // A part that is shorter than remembered cannot be gone on with.
        std::fs::write(&part, b"{").unwrap();
        let kept = export_places(&server, &file, format).await.pop().unwrap();
        std::fs::write(&state, kept.to_string()).unwrap();
        command(&server, out, &file).await.unwrap();
        assert!(std::fs::read(&file).unwrap() == text, "{format} from the beginning");
    }
    server.stop().await;
}

/// What an export to this file remembers behind each of its pages.
async fn export_places(
    server: &LocalServer,
    file: &FilePath,
    format: &str,
) -> Vec<serde_json::Value> {
    let client = Client::new(&server.endpoint(), Arc::new(SystemClock)).unwrap();
    let container = ContainerName::new("d", "a");
    let format = Format::from_str(format, true).unwrap();
    let rid = describe(&client, container).await.unwrap().rid;
    let what = export::what(&server.endpoint().base, container, &rid, file, format);
    let names = if format == Format::Csv { vec!["id".to_owned(), "n".to_owned()] } else { vec![] };
    let mut sheet = sheet::Sheet::new(std::io::sink(), format, names.clone(), (0, 0));
    sheet.begin().unwrap();
    let (mut range, mut start) = (String::new(), (0, sheet.bytes));
    let mut pages = remote::read(&client, container, remote::Position::default());
    let mut places = Vec::new();
    while let Some(arrived) = pages.recv().await {
        let remote::Arrived::Page(items, position) = arrived.unwrap() else { panic!() };
        items.iter().for_each(|item| sheet.item(item).unwrap());
        if position.range != range {
            (range, start) = (position.range.clone(), (sheet.items, sheet.bytes));
        }
        places.push(json!({ "what": what, "position": position, "names": names,
            "items": sheet.items, "bytes": sheet.bytes,
            "range_items": start.0, "range_bytes": start.1 }));
    }
    places
}
