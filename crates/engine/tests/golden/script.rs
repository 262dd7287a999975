//! The form of golden scripts: comments, commands, `---`, what they printed, an empty line.
//!
//! ```text
//! # A comment stays where it is.
//! > SELECT VALUE c.id FROM c
//!   WHERE c.n = 3
//! ---
//! "a"
//! ```
//!
//! A command goes on in lines that begin with a space.

const SEPARATOR: &str = "---";

/// Commands that are run together, and what they print.
pub(crate) struct Block {
    /// Comments and commands as they stand.
    head: Vec<String>,
    pub(crate) output: Vec<String>,
}

impl Block {
    /// The commands, each in one line.
    pub(crate) fn commands(&self) -> Vec<String> {
        let mut commands: Vec<String> = Vec::new();
        for line in self.head.iter().filter(|line| !line.starts_with('#')) {
            match commands.last_mut() {
                Some(command) if line.starts_with(' ') => {
                    command.push(' ');
                    command.push_str(line.trim());
                }
                _ => commands.push(line.clone()),
            }
        }
        commands
    }

    /// The commands with what was expected and what was printed instead.
    pub(crate) fn difference(&self, printed: &[String]) -> String {
        let expected = &self.output;
        let same = |pair: &(&String, &String)| pair.0 == pair.1;
        let before = expected.iter().zip(printed).take_while(same).count();
        let rest = (&expected[before..], &printed[before..]);
        let behind = rest.0.iter().rev().zip(rest.1.iter().rev()).take_while(same).count();
        let mut lines: Vec<String> = self.head.clone();
        let marked = |mark: char, lines: &[String]| -> Vec<String> {
            lines.iter().map(|line| format!("{mark} {line}")).collect()
        };
        lines.extend(marked(' ', &expected[..before]));
        lines.extend(marked('-', &expected[before..expected.len() - behind]));
        lines.extend(marked('+', &printed[before..printed.len() - behind]));
        lines.extend(marked(' ', &expected[expected.len() - behind..]));
        lines.join("\n") + "\n"
    }
}

/// Reads a script.
pub(crate) fn parse(text: &str) -> Result<Vec<Block>, String> {
    let mut blocks = Vec::new();
    for paragraph in text.split("\n\n") {
        let lines: Vec<String> = paragraph.lines().map(str::to_owned).collect();
        if lines.iter().all(String::is_empty) {
            continue;
        }
        let end = lines.iter().position(|line| line == SEPARATOR).unwrap_or(lines.len());
        let output = lines.get(end + 1..).unwrap_or_default().to_vec();
        let block = Block { head: lines[..end].to_vec(), output };
        if block.commands().is_empty() && !block.output.is_empty() {
            return Err(format!("output without a command: {:?}", block.output[0]));
        }
        blocks.push(block);
    }
    Ok(blocks)
}

/// Writes a script.
pub(crate) fn render(blocks: &[Block]) -> String {
    let paragraph = |block: &Block| {
        let mut lines = block.head.clone();
        if !block.commands().is_empty() {
            lines.push(SEPARATOR.to_owned());
            lines.extend(block.output.iter().cloned());
        }
        lines.join("\n")
    };
    blocks.iter().map(paragraph).collect::<Vec<_>>().join("\n\n") + "\n"
}

#[test]
fn a_script_is_written_as_it_was_read() {
    let text = "# Title.\n\n# About it.\nput {}\n> SELECT 1\n  FROM c\n---\n1\n2\n\n> x\n---\n";
    let blocks = parse(text).unwrap();
    assert_eq!(render(&blocks), text);
    assert_eq!(blocks[1].commands(), ["put {}", "> SELECT 1 FROM c"]);
    assert_eq!(blocks[1].output, ["1", "2"]);
    assert!(parse("---\n1\n").is_err());
}

#[test]
fn a_difference_shows_what_changed_only() {
    let blocks = parse("> q\n---\na\nb\nc\n").unwrap();
    let printed = ["a", "x", "y", "c"].map(str::to_owned);
    assert_eq!(blocks[0].difference(&printed), "> q\n  a\n- b\n+ x\n+ y\n  c\n");
    assert_eq!(blocks[0].difference(&[]), "> q\n- a\n- b\n- c\n");
}
