//! Reading a chore's options: `--name value` and `--flag`, each declared once with its meaning.

use std::collections::BTreeMap;
use std::ffi::OsString;

use crate::Outcome;

/// One option of a chore. An empty `value` means a flag.
pub(crate) struct Choice {
    pub(crate) name: &'static str,
    pub(crate) value: &'static str,
    pub(crate) meaning: &'static str,
}

/// The options given, by name; one that was given several times keeps all its values.
#[derive(Default)]
pub(crate) struct Arguments {
    values: BTreeMap<String, Vec<String>>,
}

impl Arguments {
    /// Parses `words`. Prints the help text and returns nothing when `--help` is among them.
    pub(crate) fn parse(
        chore: &str,
        about: &str,
        choices: &[Choice],
        words: &[OsString],
    ) -> Outcome<Option<Self>> {
        let mut parser = lexopt::Parser::from_args(words.iter().cloned());
        let mut arguments = Self::default();
        while let Some(word) = parser.next()? {
            let name = match word {
                lexopt::Arg::Long("help") | lexopt::Arg::Short('h') => {
                    print_help(chore, about, choices);
                    return Ok(None);
                }
                lexopt::Arg::Long(name) => name.to_owned(),
                other => return Err(other.unexpected().into()),
            };
            let choice = choices
                .iter()
                .find(|choice| choice.name == name)
                .ok_or_else(|| format!("`{chore}` has no option --{name}; try --help"))?;
            let value = if choice.value.is_empty() {
                String::new()
            } else {
                parser.value()?.to_string_lossy().into_owned()
            };
            arguments.values.entry(name).or_default().push(value);
        }
        Ok(Some(arguments))
    }

    /// Whether the option was given at all.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// The last value given for the option.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).and_then(|values| values.last()).map(String::as_str)
    }

    /// Every value given for the option; commas separate as well.
    pub(crate) fn list(&self, name: &str) -> Vec<&str> {
        let values = self.values.get(name).map(Vec::as_slice).unwrap_or_default();
        values.iter().flat_map(|value| value.split(',')).filter(|value| !value.is_empty()).collect()
    }

    /// The option as a number, or `default` when it was not given.
    pub(crate) fn number(&self, name: &str, default: u64) -> Outcome<u64> {
        match self.text(name) {
            None => Ok(default),
            Some(text) => text
                .parse()
                .map_err(|_| format!("--{name} takes a whole number, not `{text}`").into()),
        }
    }
}

fn print_help(chore: &str, about: &str, choices: &[Choice]) {
    println!("{about}\n\nUsage: cargo xtask {chore} [OPTIONS]\n\nOptions:");
    for Choice { name, value, meaning } in choices {
        let left = if value.is_empty() { format!("--{name}") } else { format!("--{name} {value}") };
        println!("  {left:<24} {meaning}");
    }
    println!("  {:<24} Print this text", "--help");
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHOICES: &[Choice] = &[
        Choice { name: "rounds", value: "N", meaning: "how many" },
        Choice { name: "without", value: "NAME", meaning: "leave out" },
        Choice { name: "release", value: "", meaning: "build optimised" },
    ];

    fn parse(words: &[&str]) -> Outcome<Option<Arguments>> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        Arguments::parse("chore", "About.", CHOICES, &words)
    }

    #[test]
    fn values_flags_and_lists_are_read() {
        let arguments =
            parse(&["--rounds=7", "--without", "python,js", "--without", "rust", "--release"])
                .unwrap()
                .unwrap();
        assert_eq!(arguments.number("rounds", 1).unwrap(), 7);
        assert_eq!(arguments.list("without"), ["python", "js", "rust"]);
        assert!(arguments.has("release"));
    }

    #[test]
    fn unknown_options_and_bad_numbers_are_refused() {
        assert!(parse(&["--nonsense"]).is_err());
        assert!(parse(&["stray"]).is_err());
        let arguments = parse(&["--rounds", "many"]).unwrap().unwrap();
        assert!(arguments.number("rounds", 1).is_err());
    }
}
