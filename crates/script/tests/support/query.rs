//! A toy query evaluator: `SELECT [TOP n] * | VALUE expr | alias.path FROM alias [WHERE a = b
//! | a > b [AND …]] [ORDER BY alias.path [DESC]]`, `COUNT(1)` and calls of user functions.

use std::cmp::Ordering;

use serde_json::{Value, json};

/// Calls a user function: name and arguments, where `None` is undefined, in and out.
pub(crate) type Call<'a> = dyn FnMut(&str, &[Option<Value>]) -> Result<Option<Value>, String> + 'a;

pub(crate) fn run(
    json: &str,
    items: Vec<Value>,
    call: &mut Call<'_>,
) -> Result<Vec<Value>, String> {
    let spec: Value = serde_json::from_str(json).map_err(|error| error.to_string())?;
    let text = spec["query"].as_str().ok_or("no query")?;
    let parameters = spec["parameters"].as_array().cloned().unwrap_or_default();
    let mut query = Query { tokens: tokens(text), at: 0, parameters, call };
    query.run(items)
}

struct Query<'a, 'b> {
    tokens: Vec<String>,
    at: usize,
    parameters: Vec<Value>,
    call: &'a mut Call<'b>,
}

impl Query<'_, '_> {
    fn run(&mut self, mut items: Vec<Value>) -> Result<Vec<Value>, String> {
        self.expect("SELECT")?;
        let top = if self.accept("TOP") {
            self.word().parse().map_err(|_| "TOP wants a number")?
        } else {
            usize::MAX
        };
        let projection = self.at;
        let from = self.tokens.iter().position(|t| is(t, "FROM")).ok_or("FROM is missing")?;
        self.at = from + 1;
        self.word(); // the source
        if !self.end() && !self.peek("WHERE") && !self.peek("ORDER") {
            self.word(); // its alias
        }
        if self.accept("WHERE") {
            let start = self.at;
            let mut kept = Vec::new();
            for item in items {
                self.at = start;
                if self.condition(&item)? {
                    kept.push(item);
                }
            }
            items = kept;
            self.at = self.tokens.iter().position(|t| is(t, "ORDER")).unwrap_or(self.tokens.len());
        }
        if self.accept("ORDER") {
            self.expect("BY")?;
            let key = self.at;
            let mut keyed = Vec::new();
            for item in items {
                self.at = key;
                keyed.push((self.value(&item)?, item));
            }
            if keyed.is_empty() {
                self.at = self.tokens.len();
            }
            let descending = self.accept("DESC");
            keyed.sort_by(|a, b| {
                let order = compare(a.0.as_ref(), b.0.as_ref());
                if descending { order.reverse() } else { order }
            });
            items = keyed.into_iter().map(|(_, item)| item).collect();
        }
        items.truncate(top);
        self.project(projection, &items)
    }

    fn project(&mut self, projection: usize, items: &[Value]) -> Result<Vec<Value>, String> {
        self.at = projection;
        if self.accept("*") {
            return Ok(items.to_vec());
        }
        let bare = self.accept("VALUE");
        if self.accept("COUNT") {
            return Ok(vec![json!(items.len())]);
        }
        let start = self.at;
        let mut rows = Vec::new();
        for item in items {
            self.at = start;
            let name = self.tokens.get(start + 2).cloned().unwrap_or_default();
            match self.value(item)? {
                Some(value) if bare => rows.push(value),
                Some(value) => rows.push(json!({ name: value })),
                None if bare => {}
                None => rows.push(json!({})),
            }
        }
        Ok(rows)
    }

    fn condition(&mut self, item: &Value) -> Result<bool, String> {
        let mut holds = true;
        loop {
            let left = self.value(item)?;
            holds &= match self.word().as_str() {
                "=" => left == self.value(item)?,
                ">" => compare(left.as_ref(), self.value(item)?.as_ref()) == Ordering::Greater,
                other => return Err(format!("operator {other}")),
            };
            if !self.accept("AND") {
                return Ok(holds);
            }
        }
    }

    fn value(&mut self, item: &Value) -> Result<Option<Value>, String> {
        let word = self.word();
        if let Some(text) = word.strip_prefix(['\'', '"']) {
            return Ok(Some(json!(text)));
        }
        if word.starts_with('@') {
            let known = self.parameters.iter().find(|parameter| parameter["name"] == json!(word));
            return Ok(known.and_then(|parameter| parameter.get("value")).cloned());
        }
        if let Ok(value) = serde_json::from_str(&word) {
            return Ok(Some(value));
        }
        if word == "udf" {
            return self.function(item);
        }
        let mut found = Some(item);
        while self.accept(".") {
            let name = self.word();
            found = found.and_then(|value| value.get(&name));
        }
        Ok(found.cloned())
    }

    fn function(&mut self, item: &Value) -> Result<Option<Value>, String> {
        self.expect(".")?;
        let name = self.word();
        self.expect("(")?;
        let mut arguments = Vec::new();
        while !self.accept(")") {
            arguments.push(self.value(item)?);
            self.accept(",");
        }
        (self.call)(&name, &arguments)
    }

    fn end(&self) -> bool {
        self.at >= self.tokens.len()
    }

    fn peek(&self, wanted: &str) -> bool {
        self.tokens.get(self.at).is_some_and(|token| is(token, wanted))
    }

    fn accept(&mut self, wanted: &str) -> bool {
        let found = self.peek(wanted);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, wanted: &str) -> Result<(), String> {
        if self.accept(wanted) { Ok(()) } else { Err(format!("{wanted} expected")) }
    }

    fn word(&mut self) -> String {
        self.at += 1;
        self.tokens.get(self.at - 1).cloned().unwrap_or_default()
    }
}

fn is(token: &str, wanted: &str) -> bool {
    token.eq_ignore_ascii_case(wanted)
}

fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let mut token = String::from(letter);
        if letter == '\'' || letter == '"' {
            // The opening quote stays as a mark; the closing one goes.
            token.extend(letters.by_ref().take_while(|next| *next != letter));
        } else if letter.is_alphanumeric() || letter == '_' || letter == '@' {
            while let Some(next) = letters.next_if(|next| next.is_alphanumeric() || *next == '_') {
                token.push(next);
            }
        } else if letter.is_whitespace() {
            continue;
        }
        tokens.push(token);
    }
    tokens
}

fn compare(a: Option<&Value>, b: Option<&Value>) -> Ordering {
    match (a, b) {
        (Some(Value::Number(a)), Some(Value::Number(b))) => {
            a.as_f64().partial_cmp(&b.as_f64()).unwrap()
        }
        (Some(Value::String(a)), Some(Value::String(b))) => a.cmp(b),
        _ => Ordering::Equal,
    }
}
