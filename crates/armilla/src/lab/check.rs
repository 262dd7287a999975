//! What a model file must hold beyond its form: names that exist, designs that answer. Every problem is told
//! with line and column.

use super::data::shifted;
use super::model::{Count, Model, Step};
use toml::de::{DeTable, DeValue};

/// A problem and the way to it from the top of the file: names of members, numbers of elements.
pub(super) struct Problem {
    way: Vec<String>,
    message: String,
}

type Checked = Result<(), Problem>;

fn problem(way: &[String], last: &str, message: String) -> Checked {
    Err(Problem { way: below(way, last), message })
}

fn below(way: &[String], last: &str) -> Vec<String> {
    way.iter().map(String::as_str).chain([last]).map(str::to_owned).collect()
}

fn element(list: &str, position: usize) -> Vec<String> {
    vec![list.to_owned(), position.to_string()]
}

impl Problem {
    /// The problem in words, with its place in the file.
    pub(super) fn located(self, text: &str) -> String {
        match place(text, &self.way) {
            Some((line, column)) => format!("line {line}, column {column}: {}", self.message),
            None => self.message,
        }
    }
}

/// Line and column of what is at a way, or of the nearest thing above it.
fn place(text: &str, way: &[String]) -> Option<(usize, usize)> {
    let file = DeTable::parse(text).ok()?;
    let mut table = Some(file.get_ref());
    let mut here: Option<&toml::Spanned<DeValue<'_>>> = None;
    for step in way {
        let next = match (table, here.map(toml::Spanned::get_ref)) {
            (Some(table), _) => {
                table.iter().find(|(name, _)| name.get_ref() == step).map(|(_, value)| value)
            }
            (None, Some(DeValue::Array(values))) => {
                step.parse::<usize>().ok().and_then(|position| values.get(position))
            }
            _ => None,
        };
        let Some(next) = next else { break };
        here = Some(next);
        table = next.get_ref().as_table();
    }
    let before = text.get(..here?.span().start)?;
    let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
    let column = before.chars().rev().take_while(|character| *character != '\n').count() + 1;
    Some((line, column))
}

impl Model {
    /// Checks everything that its form does not say.
    pub(super) fn check(&self) -> Checked {
        self.check_entities()?;
        self.check_containers()?;
        self.check_requests()
    }

    fn check_entities(&self) -> Checked {
        for (position, entity) in self.entities.iter().enumerate() {
            let way = element("entity", position);
            let name = &entity.name;
            let before = &self.entities[..position];
            if before.iter().any(|other| other.name == *name) {
                return problem(&way, "name", format!("there are two entities '{name}'"));
            }
            if let Some(owner) = &entity.per
                && !before.iter().any(|other| other.name == *owner)
            {
                let why = "which does not come before it";
                return problem(
                    &way,
                    "per",
                    format!("entity '{name}' belongs to '{owner}', {why}"),
                );
            }
            let counts = match &entity.count {
                Count::Scaled(scaled) if !self.scale.contains_key(scaled) => {
                    Some(format!("entity '{name}' counts '{scaled}', which [scale] does not have"))
                }
                Count::Between([low, high]) if low > high => {
                    Some(format!("entity '{name}' counts from {low} to {high}, which is nothing"))
                }
                _ => None,
            };
            if let Some(message) = counts {
                return problem(&way, "count", message);
            }
            for (pick, target) in &entity.pick {
                let target = shifted(target).0;
                let found = self.entities.iter().find(|other| other.name == target);
                if found.is_none_or(|found| found.per.is_some()) {
                    let why = "which is no entity that stands alone";
                    let message = format!("entity '{name}' picks '{target}', {why}");
                    return problem(&below(&way, "pick"), pick, message);
                }
            }
        }
        Ok(())
    }

    fn check_containers(&self) -> Checked {
        for (position, container) in self.containers.iter().enumerate() {
            let way = element("container", position);
            let name = &container.name;
            if self.containers[..position].iter().any(|other| other.name == *name) {
                return problem(&way, "name", format!("there are two containers '{name}'"));
            }
            if !container.key.starts_with('/') || container.key[1..].contains('/') {
                let why = "the key is the path of one property, as /id";
                return problem(&way, "key", format!("container '{name}': {why}"));
            }
            if let Some(view) = &container.view {
                let mut before = self.containers[..position].iter();
                if !before.any(|other| other.name == view.of && other.view.is_none()) {
                    let why = "which is no container with items that comes before it";
                    let message = format!("container '{name}' is a view of '{}', {why}", view.of);
                    return problem(&below(&way, "view"), "of", message);
                }
                if !container.items.is_empty() || !container.literal.is_empty() {
                    let why = "is a view, whose items are the server's";
                    return problem(&way, "items", format!("container '{name}' {why}"));
                }
            }
            for (number, source) in container.items.iter().enumerate() {
                if let Err(message) = self.entity(&source.from) {
                    let way = [way.as_slice(), &element("items", number)].concat();
                    return problem(&way, "from", message);
                }
            }
        }
        Ok(())
    }

    fn check_requests(&self) -> Checked {
        for (position, request) in self.requests.iter().enumerate() {
            for (design, pattern) in &request.by {
                let way = [element("request", position), element("by", 0)].concat();
                let way = below(&way[..3], design);
                let place = format!("request '{}' by '{design}'", request.name);
                if !self.designs.contains(design) {
                    return problem(&way, "", format!("{place}: there is no such design"));
                }
                match &pattern.same_as {
                    Some(other)
                        if request.by.get(other).is_none_or(|other| other.same_as.is_some()) =>
                    {
                        let message =
                            format!("{place}: the same as '{other}', which does not say how");
                        return problem(&way, "same_as", message);
                    }
                    None if pattern.steps.is_empty() => {
                        return problem(&way, "steps", format!("{place}: no steps"));
                    }
                    _ => {}
                }
                self.check_steps(&pattern.steps, &way).map_err(|problem| {
                    let message = format!("{place}: {}", problem.message);
                    Problem { message, ..problem }
                })?;
            }
        }
        Ok(())
    }

    fn check_steps(&self, steps: &[Step], way: &[String]) -> Checked {
        for (position, step) in steps.iter().enumerate() {
            let way = [way, &element("steps", position)].concat();
            self.check_step(step, &way)?;
            self.check_steps(&step.steps, &way)?;
        }
        Ok(())
    }

    fn check_step(&self, step: &Step, way: &[String]) -> Checked {
        let verbs = [
            ("read", &step.read),
            ("query", &step.query),
            ("create", &step.create),
            ("upsert", &step.upsert),
            ("replace", &step.replace),
            ("execute", &step.execute),
        ];
        let named: Vec<(&str, &String)> =
            verbs.iter().filter_map(|(verb, name)| Some((*verb, name.as_ref()?))).collect();
        if named.len() + usize::from(step.each.is_some()) != 1 {
            let verbs = "read, query, create, upsert, replace, execute or each";
            return problem(way, "", format!("a step has one verb: {verbs}"));
        }
        for (verb, name) in named {
            if !self.containers.iter().any(|container| container.name == *name) {
                return problem(way, verb, format!("there is no container '{name}'"));
            }
        }
        if step.query.is_some() != step.sql.is_some() {
            return problem(way, "sql", "a query has its sql, and nothing else has".to_owned());
        }
        if step.query.is_none() && step.each.is_none() && step.key.is_none() {
            return problem(way, "", "everything but a query needs its key".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::READY;
    use super::*;

    /// The line that holds a text, counted from one, and the column where it begins.
    fn whereabouts(text: &str, wanted: &str) -> (usize, usize) {
        let (number, line) =
            text.lines().enumerate().find(|(_, line)| line.contains(wanted)).unwrap();
        (number + 1, line.find(wanted).unwrap() + 1)
    }

    #[test]
    fn mistakes_are_told_with_line_and_column() {
        let blog = READY[0].1;
        for (change, to, at, expected) in [
            ("count = \"users\"", "count = \"people\"", "\"people\"", "[scale] does not have"),
            ("count = [5, 50]", "count = [50, 5]", "[50, 5]", "which is nothing"),
            ("writer = \"user\"", "writer = \"like\"", "\"like\"", "stands alone"),
            ("same_as = \"V1\"", "same_as = \"V9\"", "\"V9\"", "does not say how"),
            ("{ read = \"users\",", "{ read = \"nobody\",", "\"nobody\"", "no container 'nobody'"),
            ("id = \"guid\"", "id = \"gid\"", "\"gid\"", "makes no field"),
            ("key = \"/id\"", "key = \"id\"", "\"id\"", "path of one property"),
            ("from = \"post\"", "from = \"poste\"", "\"poste\"", "no entity 'poste'"),
            ("per = \"user\"", "pre = \"user\"", "pre", "unknown field"),
            ("{post.title}", "{post.title", "\"{post.title\"", "gap without end"),
            ("seed = 7", "seed = seven", "seven", "TOML parse error"),
        ] {
            let text = blog.replacen(change, to, 1);
            assert_ne!(text, blog, "{change}");
            let error = Model::parse(&text).unwrap_err();
            assert!(error.contains(expected), "{error}");
            let (line, column) = whereabouts(&text, at);
            let place = format!("line {line}, column {column}");
            // What a template finds wrong is told with the place of the whole item.
            let place = if expected.contains("gap") { format!("line {line}, ") } else { place };
            assert!(error.contains(&place), "{place} is wanted: {error}");
        }
    }
}
