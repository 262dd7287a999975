//! The three-call probe: a procedure that reads an item of 1.3 KB, replaces it and creates a
//! comment, as the blog's `createComment` does. Prints microseconds per call.
//!
//! `cargo run --release -p armilla-script --example probe`

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a program for the terminal")]

use std::time::{Duration, Instant};

use armilla_script::host::{
    CollectionLinks, Host, HostError, IndexDirective, ItemLink, Page, ReadOutcome, Upserted,
};
use armilla_script::{CallOptions, Compiled, Limits, ScriptEngine, ScriptKind};

/// A host that answers at once, so that only the script is measured.
struct Instantly {
    post: String,
}

impl Host for Instantly {
    fn collection(&self) -> CollectionLinks {
        CollectionLinks {
            self_link: "dbs/AAAAAA==/colls/AAAAAAAAAAA=/".to_owned(),
            alt_link: "dbs/blog/colls/posts".to_owned(),
        }
    }
    fn read_item(&mut self, _: &ItemLink, _: Option<&str>) -> Result<ReadOutcome, HostError> {
        Ok(ReadOutcome::Found(self.post.clone()))
    }
    fn read_items(&mut self, _: usize, _: Option<&str>) -> Result<Page, HostError> {
        Ok(Page::default())
    }
    fn query_items(&mut self, _: &str, _: usize, _: Option<&str>) -> Result<Page, HostError> {
        Ok(Page::default())
    }
    fn create_item(&mut self, body: &str, _: Option<IndexDirective>) -> Result<String, HostError> {
        Ok(body.to_owned())
    }
    fn upsert_item(
        &mut self,
        body: &str,
        _: Option<&str>,
        _: Option<IndexDirective>,
    ) -> Result<Upserted, HostError> {
        Ok(Upserted::Created(body.to_owned()))
    }
    fn replace_item(
        &mut self,
        _: &ItemLink,
        body: &str,
        _: Option<&str>,
        _: Option<IndexDirective>,
    ) -> Result<String, HostError> {
        Ok(body.to_owned())
    }
    fn delete_item(&mut self, _: &ItemLink, _: Option<&str>) -> Result<(), HostError> {
        Ok(())
    }
    fn new_guid(&mut self) -> String {
        "5b2c9c0e-2f0a-4d7e-9d2f-0b7a5a1f6a11".to_owned()
    }
}

const PROBE: &str = r"function createComment(postId, comment) {
  const collection = getContext().getCollection();
  collection.readDocument(`${collection.getAltLink()}/docs/${postId}`, function (err, post) {
    if (err) throw err;
    post.commentCount++;
    collection.replaceDocument(post._self, post, function (err) {
      if (err) throw err;
      comment.postId = postId;
      collection.createDocument(collection.getSelfLink(), comment);
    });
  });
}";

fn main() {
    let engine = ScriptEngine::new(Limits::default()).unwrap();
    let content = "lorem ipsum ".repeat(90);
    let mut host = Instantly {
        post: format!(
            r#"{{"id":"p1","type":"post","postId":"p1","userId":"u1","userUsername":"ann","title":"T","content":"{content}","commentCount":2,"likeCount":0,"creationDate":"2024-01-01T00:00:00Z","_rid":"AAAAAAAAAAABAAAAAAAAAA==","_self":"dbs/AAAAAA==/colls/AAAAAAAAAAA=/docs/AAAAAAAAAAABAAAAAAAAAA==/","_etag":"\"00000001\"","_ts":1700000000}}"#
        ),
    };
    println!("item of {} bytes", host.post.len());
    let probe = engine.compile(ScriptKind::Procedure, PROBE).unwrap();
    let empty = engine.compile(ScriptKind::Procedure, "function () { }").unwrap();
    let arguments = r#"["p1",{"id":"c1","type":"comment","userId":"u2","content":"hi"}]"#;
    measure("three host calls", &engine, &probe, arguments, &mut host, true);
    measure(
        "three host calls, cleaned up on the way",
        &engine,
        &probe,
        arguments,
        &mut host,
        false,
    );
    measure("empty script", &engine, &empty, "[]", &mut host, true);

    let compiles = each(200, || (), || engine.compile(ScriptKind::Procedure, PROBE).unwrap());
    say("compile", compiles);
    let stored = probe.to_stored();
    let taken = || Compiled::from_stored(ScriptKind::Procedure, PROBE, &stored).unwrap();
    say("take kept bytecode instead", each(200, || (), taken));
    let used = || _ = engine.run_procedure(&empty, "[]", &mut host, CallOptions::default());
    say("clean up after a call", each(3000, used, || engine.tend()));

    let tax = engine.compile(ScriptKind::Function, "function (x) { return x * 0.5; }").unwrap();
    let session = engine.udf_session(&[("tax", &tax)], CallOptions::default()).unwrap();
    let calls = each(20_000, || (), || session.call("tax", &[Some("100")]).unwrap());
    say("user-defined function, one number", calls);
}

fn say(what: &str, (median, least): (f64, f64)) {
    println!("{median:>9.1} µs median {least:>9.1} µs least  {what}");
}

fn measure(
    what: &str,
    engine: &ScriptEngine,
    script: &Compiled,
    arguments: &str,
    host: &mut Instantly,
    tended: bool,
) {
    let before = || {
        if tended {
            engine.tend();
        }
    };
    let call = || {
        let outcome = engine.run_procedure(script, arguments, host, CallOptions::default());
        assert!(outcome.result.is_ok(), "{outcome:?}");
    };
    say(what, each(3000, before, call));
}

/// Median and least microseconds of `action`; `before` runs outside the measurement.
fn each<T>(times: usize, mut before: impl FnMut(), mut action: impl FnMut() -> T) -> (f64, f64) {
    let mut taken: Vec<Duration> = (0..times)
        .map(|_| {
            before();
            let start = Instant::now();
            let result = action();
            let took = start.elapsed();
            drop(result);
            took
        })
        .collect();
    taken.sort();
    (taken[times / 2].as_secs_f64() * 1e6, taken[0].as_secs_f64() * 1e6)
}
