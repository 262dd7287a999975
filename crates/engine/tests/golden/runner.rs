//! The commands of golden scripts.
//!
//! ```text
//! container {"partitionKey":{"paths":["/pk"]}}     a new container, over one range and over four
//! items 0..600/3 {"id":"i<i>","n":<i%50>}           an item per number of 0, 3, 6, … below 600
//! put {"id":"a","pk":1}                             one item
//! delete {"id":"a","pk":1}                          removes it
//! > SELECT VALUE c.id FROM c                        a query over everything
//! [key=["p1"]; page=4; @n=3]> SELECT …              with a partition key, a page size, a parameter
//! [range=2]> SELECT …                               of one range
//! ```

use crate::answer::{self, Answer, Asked, Told};
use crate::support::{Bench, everything};
use crate::template;
use armilla_engine::query::explain::{Explanation, Times};
use armilla_engine::query::{Access, Limit, PageOptions, Query, Request, Scope, Threads};
use armilla_engine::ranges::EpkSpan;
use armilla_model::partition_key::PartitionKey;
use armilla_model::{Result, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Over how many ranges each container is laid.
const RANGES: [u32; 2] = [1, 4];
/// Rows of a page unless the query says otherwise.
const PAGE_DEFAULT: usize = 1000;

/// The container of a script, once per number of ranges.
#[derive(Default)]
pub(crate) struct Stage {
    benches: Vec<(u32, Bench)>,
}

impl Stage {
    /// Runs commands, and returns what they print.
    pub(crate) fn run(&mut self, commands: &[String]) -> Vec<String> {
        commands.iter().flat_map(|command| self.run_one(command)).collect()
    }

    fn run_one(&mut self, command: &str) -> Vec<String> {
        if command.starts_with(['>', '[']) {
            let question = Question::parse(command);
            let ask = |(ranges, bench): &(u32, Bench)| question.ask(*ranges, bench);
            return answer::print(&self.benches.iter().map(ask).collect::<Vec<_>>());
        }
        let (verb, rest) = command.split_once(' ').unwrap_or((command, ""));
        match verb {
            "container" => {
                let definition = parsed(rest);
                let bench = |ranges| (ranges, Bench::new(&definition, ranges));
                self.benches = RANGES.map(bench).into();
                vec!["ok".to_owned()]
            }
            "items" => self.items(rest),
            "put" => self.each(|bench| bench.put_text(rest)),
            "delete" => self.each(|bench| bench.delete(&parsed(rest))),
            _ => panic!("there is no command {verb:?}"),
        }
    }

    fn each(&self, act: impl Fn(&Bench)) -> Vec<String> {
        self.benches.iter().for_each(|(_, bench)| act(bench));
        vec!["ok".to_owned()]
    }

    /// `FROM..TO[/STEP] TEMPLATE`: items of one logical partition are written together.
    fn items(&self, rest: &str) -> Vec<String> {
        let (numbers, template) = rest.split_once(' ').unwrap();
        let (span, step) = numbers.split_once('/').unwrap_or((numbers, "1"));
        let (from, to) = span.split_once("..").unwrap();
        let (from, to): (i64, i64) = (from.parse().unwrap(), to.parse().unwrap());
        let texts = (from..to).step_by(step.parse().unwrap());
        let texts: Vec<String> = texts.map(|number| template::fill(template, number)).collect();
        for (_, bench) in &self.benches {
            let definition = bench.container.settings().policy.partition_key.clone();
            let mut by_key: BTreeMap<_, Vec<String>> = BTreeMap::new();
            for text in &texts {
                let key = PartitionKey::of_item(&parsed(text), &definition);
                by_key.entry(definition.epk(&key)).or_default().push(text.clone());
            }
            by_key.values().for_each(|texts| bench.put_all(texts));
        }
        vec![format!("{} items", texts.len())]
    }
}

fn parsed(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// A query as it stands in a script.
struct Question {
    request: Request,
    key: Option<PartitionKey>,
    range: Option<usize>,
    cross_partition: bool,
    page_size: usize,
}

impl Question {
    fn parse(command: &str) -> Self {
        let (tags, text) = match command.strip_prefix('[') {
            Some(rest) => rest.split_once("]> ").unwrap(),
            None => ("", command.strip_prefix("> ").unwrap()),
        };
        let mut question = Self {
            request: Request::of_text(text),
            key: None,
            range: None,
            cross_partition: true,
            page_size: PAGE_DEFAULT,
        };
        for tag in tags.split(';').map(str::trim).filter(|tag| !tag.is_empty()) {
            question.tag(tag);
        }
        question
    }

    fn tag(&mut self, tag: &str) {
        let (name, value) = tag.split_once('=').unwrap();
        match name {
            "page" => self.page_size = value.parse().unwrap(),
            "key" => self.key = Some(PartitionKey::parse(value).unwrap()),
            "range" => self.range = Some(value.parse().unwrap()),
            "cross" => self.cross_partition = value == "yes",
            _ if name.starts_with('@') => {
                self.request.parameters.push((name.into(), parsed(value)));
            }
            _ => panic!("there is no tag {name:?}"),
        }
    }

    fn scope(&self, bench: &Bench) -> Scope {
        let cross_partition = self.cross_partition;
        if let Some(key) = &self.key {
            let epk = bench.container.settings().policy.partition_key.epk(key);
            let span = EpkSpan::of_prefix(&epk);
            return Scope { span, limit: Limit::Key, cross_partition };
        }
        let Some(range) = self.range else { return Scope { cross_partition, ..everything() } };
        let ranges = bench.container.ranges();
        let range = &ranges[range % ranges.len()];
        let span = EpkSpan { min: range.min.clone(), max: range.max.clone() };
        Scope { span, limit: Limit::Range, cross_partition }
    }

    /// All pages. They are the same on one thread and on many, and hold the same rows whichever way items
    /// are found.
    fn ask(&self, ranges: u32, bench: &Bench) -> Asked {
        // Before anything else: what was asked before may be answered in another way.
        let plan = self.explain(bench).unwrap_or_default();
        let ask = |access, threads| match self.pages(bench, access, threads) {
            Ok(pages) => Answer::Pages(pages),
            Err(error) => Answer::Refused(error.to_string()),
        };
        let answer = ask(Access::ByCost, Threads::ByCost);
        for access in [Access::ByCost, Access::Items, Access::Index] {
            let (one, many) = (ask(access, Threads::One), ask(access, Threads::Many));
            let text = &self.request.text;
            assert_eq!(one, many, "{text} by {access:?} on one thread and on many");
            assert!(answer.has_rows_of(&one), "{text} by {access:?}: {answer:#?} {one:#?}");
        }
        Asked { ranges, answer, plan }
    }

    /// How the first page is answered. Its charges are those of its steps.
    fn explain(&self, bench: &Bench) -> Result<Vec<String>> {
        let query =
            Query::new(Arc::clone(&bench.container), self.request.clone(), &self.scope(bench))?;
        let query = query.on(Threads::One);
        let options =
            PageOptions { count_max: self.page_size, continuation: None, range_by_range: false };
        let plan = query.plan(options)?;
        let page = query.run(&plan)?;
        let explanation = query.explain(&plan, Some(&page));
        assert_eq!(explanation.charge_of_steps(), page.charge, "{}", self.request.text);
        // Rows and charges of the page are printed with its rows.
        Ok(Explanation { run: None, ..explanation }.lines(Times::Hidden))
    }

    fn pages(&self, bench: &Bench, access: Access, threads: Threads) -> Result<Vec<Told>> {
        /// More pages than any script wants to show.
        const PAGES_MAX: usize = 100;
        let scope = self.scope(bench);
        let mut pages: Vec<Told> = Vec::new();
        while pages.len() < PAGES_MAX {
            let query = Query::new(Arc::clone(&bench.container), self.request.clone(), &scope)?;
            let continuation = pages.last().and_then(|page| page.continuation.as_deref());
            let options =
                PageOptions { count_max: self.page_size, continuation, range_by_range: false };
            let page = query.by(access).on(threads).page(options)?;
            pages.push(Told::of(&page));
            if page.continuation.is_none() {
                return Ok(pages);
            }
        }
        panic!("{} has more than {PAGES_MAX} pages", self.request.text)
    }
}
