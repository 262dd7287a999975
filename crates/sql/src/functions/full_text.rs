//! Full text: words of a text, whether a term occurs in it, and how well it ranks.
//!
//! A text becomes words: runs of letters and digits in lower case, without the commonest English
//! words, each reduced to its stem. A term of several words is a phrase and must occur in order. A
//! term may also be `{"term": "...", "distance": n}` and then forgives up to two wrong letters in
//! each of its words. Only English is known so far; other languages are read by its rules.

mod analysis;
mod bm25;

pub use analysis::{WORD_LENGTH_MAX, Word, tokenize, word_count};
pub use bm25::{TermStatistics, score};

use super::{Function, Kind, all_of, any_of, defined, elements, text};
use crate::effort::Effort;
use analysis::within_distance;
use armilla_model::Value;

/// Most wrong letters a term may forgive per word.
pub const TERM_DISTANCE_MAX: i64 = 2;
/// Most terms of one call; with more it is undefined.
pub const TERMS_MAX: usize = 64;
/// Most words of one term; with more the call is undefined.
pub const TERM_WORDS_MAX: usize = 64;
/// Steps of comparing two words that may differ.
const FUZZY_STEPS: u64 = 16;
pub(super) const FUNCTIONS: &[Function] = &[
    Function::exact("FULLTEXTCONTAINS", 2, |context, arguments| {
        defined(occurrences(arguments, &mut context.effort).and_then(any_of))
    })
    .or(&["FULLTEXT_CONTAINS"])
    .by_container()
    .gives(Kind::Bool, "True when the text holds the word or phrase."),
    Function::variadic("FULLTEXTCONTAINSALL", 2, |context, arguments| {
        defined(occurrences(arguments, &mut context.effort).and_then(all_of))
    })
    .or(&["FULLTEXT_CONTAINS_ALL"])
    .by_container()
    .gives(Kind::Bool, "True when the text holds all the words or phrases."),
    Function::variadic("FULLTEXTCONTAINSANY", 2, |context, arguments| {
        defined(occurrences(arguments, &mut context.effort).and_then(any_of))
    })
    .or(&["FULLTEXT_CONTAINS_ANY"])
    .by_container()
    .gives(Kind::Bool, "True when the text holds one of the words or phrases."),
    Function::exact("_FULLTEXTWORDCOUNT", 1, |_, arguments| {
        defined(text(arguments, 0).and_then(|text| i64::try_from(word_count(text)).ok()))
    })
    .by_container()
    .gives(Kind::Number, "Number of words of a text. Rewritten queries use it."),
    Function::exact("_FULLTEXTSCORE", 5, |context, arguments| {
        defined(score_of(arguments, &mut context.effort))
    })
    .by_container()
    .gives(Kind::Number, "BM25 score of a text for given statistics. Rewritten queries use it."),
];

/// What to look for: one word or a phrase, exactly or nearly.
#[derive(Clone, Debug)]
pub struct Term {
    words: Vec<Word>,
    distance: usize,
}

impl Term {
    /// Reads a term: a string, or `{"term": string, "distance": 0, 1 or 2}`.
    pub fn read(value: &Value) -> Option<Self> {
        let text = value.as_str().or_else(|| value.get("term")?.as_str())?;
        let distance = value.get("distance").map_or(Some(0), Value::as_i64)?;
        let words: Vec<Word> = tokenize(text).take(TERM_WORDS_MAX + 1).collect();
        let accepted = (0..=TERM_DISTANCE_MAX).contains(&distance) && words.len() <= TERM_WORDS_MAX;
        accepted.then_some(Self { words, distance: usize::try_from(distance).ok()? })
    }

    /// How often the term occurs in a text. A term without words occurs in none.
    pub fn frequency(&self, text: &[Word]) -> usize {
        if self.words.is_empty() {
            return 0;
        }
        text.windows(self.words.len()).filter(|window| self.matches(window)).count()
    }

    /// True when the term occurs in a text.
    pub fn occurs(&self, text: &[Word]) -> bool {
        !self.words.is_empty() && text.windows(self.words.len()).any(|window| self.matches(window))
    }

    /// What it costs at most to look for the term in a text of so many words. Words of another stem are
    /// compared letter by letter where wrong ones are forgiven.
    fn steps(&self, words: usize) -> u64 {
        let per_word = if self.distance == 0 { 1 } else { FUZZY_STEPS };
        (words as u64).saturating_mul(self.words.len() as u64).saturating_mul(per_word)
    }

    fn matches(&self, window: &[Word]) -> bool {
        window.iter().zip(&self.words).all(|(word, wanted)| {
            word.stem() == wanted.stem()
                || (self.distance > 0 && within_distance(word.text(), wanted.text(), self.distance))
        })
    }
}

// One answer per term; what is not a term is unknown.
fn occurrences<'c>(
    arguments: &'c [Value],
    effort: &'c mut Effort<'_>,
) -> Option<impl Iterator<Item = Option<bool>>> {
    let (text, terms) = (text(arguments, 0)?, &arguments[1..]);
    if terms.len() > TERMS_MAX {
        return None;
    }
    let text: Vec<Word> = tokenize(text).collect();
    Some(terms.iter().map(move |term| {
        let term = Term::read(term)?;
        effort.spend(term.steps(text.len())).ok()?;
        Some(term.occurs(&text))
    }))
}

// (text, [terms], number of items, number of words, [items per term])
fn score_of(arguments: &[Value], effort: &mut Effort<'_>) -> Option<f64> {
    let terms = elements(arguments, 1)?;
    let hits = elements(arguments, 4)?;
    if terms.len() > TERMS_MAX || hits.len() != terms.len() {
        return None;
    }
    let statistics = TermStatistics {
        documents: count(&arguments[2])?,
        words: count(&arguments[3])?,
        hits: hits.iter().map(count).collect::<Option<_>>()?,
    };
    let text = text(arguments, 0)?;
    let words: Vec<Word> = tokenize(text).collect();
    let frequency = |term: &Value| {
        let term = Term::read(term)?;
        effort.spend(term.steps(words.len())).ok()?;
        Some(term.frequency(&words))
    };
    let frequencies: Option<Vec<_>> = terms.iter().map(frequency).collect();
    Some(score(&frequencies?, word_count(text), &statistics))
}

fn count(value: &Value) -> Option<f64> {
    value.as_f64().filter(|count| count.is_finite() && *count >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::tests::{check, evaluate};

    const BICYCLE: &str = "The red bicycle leans on the red wall";

    fn contains(terms: &str) -> String {
        let terms = armilla_model::json::parse(terms.as_bytes()).unwrap();
        let mut arguments = vec![Value::from(BICYCLE)];
        arguments.extend_from_slice(terms.as_array().unwrap());
        evaluate("FULLTEXTCONTAINSALL", &arguments).to_string()
    }

    #[test]
    fn words_and_phrases_are_found() {
        for terms in [
            r#"["bicycle"]"#,
            r#"["BICYCLES"]"#,
            r#"["red bicycle"]"#,
            r#"["leaning"]"#,
            r#"["red-wall"]"#,
            r#"["wall","red"]"#,
            r#"["leans on the red"]"#,
        ] {
            assert_eq!(contains(terms), "true", "{terms}");
        }
        for terms in
            [r#"["submarine"]"#, r#"["bicycle red"]"#, r#"["wall","sky"]"#, r#"["bi"]"#, r#"[""]"#]
        {
            assert_eq!(contains(terms), "false", "{terms}");
        }
        check(&[
            ("FULLTEXTCONTAINS", r#"["A blue bicycle","BLUE"]"#, "true"),
            ("FULLTEXTCONTAINSANY", r#"["A blue bicycle","wall","bicycle"]"#, "true"),
            ("FULLTEXTCONTAINSANY", r#"["A blue bicycle","wall","sky"]"#, "false"),
            ("FULLTEXTCONTAINS", r#"["A blue bicycle",5]"#, "undefined"),
            ("FULLTEXTCONTAINS", r#"[5,"blue"]"#, "undefined"),
        ]);
    }

    #[test]
    fn nearly_right_words_are_found_when_asked_for() {
        for (terms, expected) in [
            (r#"[{"term":"bycicle","distance":2}]"#, "true"),
            (r#"[{"term":"bycicle","distance":1}]"#, "false"),
            (r#"[{"term":"wal","distance":1}]"#, "true"),
            (r#"[{"term":"rad bicicle","distance":1}]"#, "true"),
            (r#"[{"term":"bicycle"}]"#, "true"),
            (r#"[{"term":"bicycle","distance":3}]"#, "undefined"),
            (r#"[{"distance":1}]"#, "undefined"),
        ] {
            assert_eq!(contains(terms), expected, "{terms}");
        }
    }

    #[test]
    fn frequent_terms_in_short_texts_score_best() {
        let texts =
            [BICYCLE, "A blue bicycle", "Nothing but a blue sky", "bicycle bicycle bicycle"];
        let words: usize = texts.iter().map(|text| word_count(text)).sum();
        let terms = Value::array(vec!["bicycle".into()]);
        let hits = Value::array(vec![3.into()]);
        let score = |text: &str| {
            let words = Value::from(words as f64);
            let arguments = [text.into(), terms.clone(), 4.into(), words, hits.clone()];
            evaluate("_FULLTEXTSCORE", &arguments).as_f64().unwrap()
        };
        let scores: Vec<f64> = texts.iter().map(|text| score(text)).collect();
        assert!(scores[3] > scores[1] && scores[1] > scores[0] && scores[0] > scores[2]);
        assert_eq!(scores[2], 0.0);
    }

    fn recipe() -> Value {
        let text = include_bytes!("../../tests/vectors/full_text.json");
        armilla_model::json::parse(text).unwrap()
    }

    #[test]
    fn texts_have_the_words_lengths_and_frequencies_of_the_recipe() {
        for case in recipe().get("texts").unwrap().as_array().unwrap() {
            let text = case.get("text").unwrap().as_str().unwrap();
            let words: Vec<Word> = tokenize(text).collect();
            let expected = case.get("words").unwrap();
            let found = words.iter().map(|word| word.text().into()).collect();
            assert_eq!(&Value::array(found), expected, "{text}");
            let length = i64::try_from(word_count(text)).unwrap();
            assert_eq!(case.get("length"), Some(&length.into()), "{text}");
            for (term, count) in case.get("terms").unwrap().as_object().unwrap().iter() {
                let found = Term::read(&Value::String(term.clone())).unwrap().frequency(&words);
                assert_eq!(count.as_i64(), i64::try_from(found).ok(), "{term} in {text}");
            }
        }
    }

    #[test]
    fn scores_are_those_of_the_recipe() {
        let recipe = recipe();
        let corpus = recipe.get("corpus").unwrap();
        let count = |value: Option<&Value>| value.and_then(Value::as_i64).unwrap_or(0);
        let items = corpus.get("items").unwrap().as_array().unwrap();
        let mut checked = 0;
        for (name, scores) in corpus.get("scores").unwrap().as_object().unwrap().iter() {
            let field =
                corpus.get("terms").unwrap().get(name).unwrap().as_array().unwrap()[0].clone();
            let field = field.as_str().unwrap();
            let statistics = TermStatistics {
                documents: items.len() as f64,
                words: count(corpus.get("totalWords").unwrap().get(field)) as f64,
                hits: vec![count(corpus.get("hitCounts").unwrap().get(name)) as f64],
            };
            for (index, expected) in scores.as_object().unwrap().iter() {
                let at = |item: &&Value| count(item.get("index")).to_string() == **index;
                let item = items.iter().find(at).unwrap();
                let frequency = usize::try_from(count(item.get(name))).unwrap();
                let length = usize::try_from(count(item.get(field))).unwrap();
                let found = score(&[frequency], length, &statistics);
                assert_eq!(Some(found), expected.as_f64(), "{name} of {index}");
                checked += 1;
            }
        }
        assert!(checked > 20);
    }

    #[test]
    fn scores_need_all_their_numbers() {
        check(&[
            ("_FULLTEXTSCORE", r#"["a ring",["ring"],0,0,[0]]"#, "0.6931471805599453"),
            ("_FULLTEXTSCORE", r#"["a ring",["ring"],1,1,[]]"#, "undefined"),
            ("_FULLTEXTSCORE", r#"["a ring",["ring"],-1,1,[1]]"#, "undefined"),
            ("_FULLTEXTSCORE", r#"[null,["ring"],1,1,[1]]"#, "undefined"),
            ("_FULLTEXTWORDCOUNT", r#"["The red bicycle leans on the red wall"]"#, "5"),
            ("_FULLTEXTWORDCOUNT", "[5]", "undefined"),
        ]);
    }
}
