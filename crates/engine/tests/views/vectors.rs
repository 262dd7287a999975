//! Definitions and projections, case by case.

use super::{sorted, value};
use armilla_engine::views::definition::{Dialect, ViewDefinition};
use armilla_engine::views::project::id_of;
use armilla_model::Value;

fn cases(name: &str) -> Vec<Value> {
    let vectors = value(include_str!("views.json"));
    vectors.get(name).unwrap().as_array().unwrap().to_vec()
}

#[test]
fn definitions_are_accepted_and_refused() {
    let cases = cases("definitions");
    assert_eq!(cases.len(), 22);
    for case in cases {
        let text = case.get("definition").unwrap().as_str().unwrap();
        let accepted = case.get("accepted").unwrap().as_bool().unwrap();
        let read = ViewDefinition::parse(text, Dialect::Service);
        assert_eq!(read.is_ok(), accepted, "{text}: {:?}", read.err());
    }
}

#[test]
fn items_are_projected() {
    let cases = cases("projections");
    assert_eq!(cases.len(), 5);
    for case in cases {
        let text = case.get("definition").unwrap().as_str().unwrap();
        let source = case.get("source").unwrap();
        let id = id_of(source.get("_rid").unwrap().as_str().unwrap());
        let definition = ViewDefinition::parse(text, Dialect::Service).unwrap();
        let item = definition.project(id, source).unwrap();
        assert_eq!(sorted(item), sorted(case.get("view").unwrap().clone()), "{text}");
    }
}
