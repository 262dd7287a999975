//! A small blog of the article's shape, with texts and numbers that are easy to get wrong.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::Outcome;

const SEED: u64 = 6;
const USERS: u64 = 40;
const POSTS_PER_USER: u64 = 6;
/// Texts that have to survive: escapes, marks beyond the basic plane, what looks like JSON or a cell.
const TEXTS: [&str; 8] = [
    "plain words",
    r#"\"quoted\", with a comma"#,
    r"line\nbreak and\ttab",
    "Grüße ☃ 🪐",
    r#"{\"not\":\"an object\"}"#,
    "007",
    "null",
    "",
];
/// Numbers in the spellings that must be kept.
const NUMBERS: [&str; 7] =
    ["0", "-1", "1.50", "12345678901234567", "1e3", "0.1", "-0.000000000000000123"];

/// Writes the five files and returns their names.
pub(super) fn write(folder: &Path) -> Outcome<Vec<PathBuf>> {
    let mut random = fastrand::Rng::with_seed(SEED);
    let mut texts: [(&str, String); 5] =
        ["users", "posts_v1", "posts", "users_v3", "feed"].map(|name| (name, String::new()));
    let [users, posts_v1, posts, users_v3, feed] = &mut texts;
    for user in 0..USERS {
        let name = TEXTS[random.usize(..TEXTS.len())];
        writeln!(users.1, r#"{{"id":"u{user}","username":"{name}"}}"#)?;
        writeln!(
            users_v3.1,
            r#"{{"id":"u{user}","type":"user","userId":"u{user}","username":"{name}"}}"#
        )?;
        for number in 0..POSTS_PER_USER {
            let post = format!("u{user}p{number}");
            let (comments, likes) = (random.u64(0..=25), random.u64(0..=100));
            let content = words(&mut random, 1200);
            let facts = format!(
                r#""userId":"u{user}","userUsername":"{name}","title":"{}","commentCount":{comments},"likeCount":{likes},"weight":{}"#,
                TEXTS[random.usize(..TEXTS.len())],
                NUMBERS[random.usize(..NUMBERS.len())],
            );
            let ids = format!(r#""id":"{post}","type":"post","postId":"{post}""#);
            writeln!(posts_v1.1, r#"{{{ids},"userId":"u{user}","content":"{content}"}}"#)?;
            writeln!(posts.1, r#"{{{ids},{facts},"content":"{content}"}}"#)?;
            let short = &content[..100];
            writeln!(users_v3.1, r#"{{{ids},{facts},"content":"{short}"}}"#)?;
            if number == 0 {
                writeln!(feed.1, r#"{{{ids},{facts},"content":"{short}"}}"#)?;
            }
            for (kind, count) in [("comment", comments), ("like", likes)] {
                for reaction in 0..count {
                    let ids = format!(
                        r#""id":"{post}{kind}{reaction}","type":"{kind}","postId":"{post}","userId":"u{}""#,
                        random.u64(..USERS)
                    );
                    let body = match kind {
                        "comment" => format!(
                            r#","content":"{}","nested":{{"list":[{},null,true,{{}},[]],"a b":"{name}"}}"#,
                            words(&mut random, 300),
                            NUMBERS[random.usize(..NUMBERS.len())]
                        ),
                        _ => String::new(),
                    };
                    writeln!(posts_v1.1, "{{{ids}{body}}}")?;
                    writeln!(posts.1, r#"{{{ids},"userUsername":"{name}"{body}}}"#)?;
                }
            }
        }
    }
    let mut files = Vec::new();
    for (name, text) in texts {
        let file = folder.join(format!("{name}.jsonl"));
        std::fs::write(&file, text)?;
        files.push(file);
    }
    Ok(files)
}

fn words(random: &mut fastrand::Rng, length: usize) -> String {
    const WORDS: [&str; 8] =
        ["amber", "brook", "cedar", "dune", "ember", "fern", "grain", "harbour"];
    let mut text = String::with_capacity(length + 8);
    while text.len() < length {
        text.push_str(WORDS[random.usize(..WORDS.len())]);
        text.push(' ');
    }
    text.truncate(length);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_an_item_and_the_same_ones_come_again() {
        let folder = tempfile::tempdir().unwrap();
        let files = write(folder.path()).unwrap();
        let read = || files.iter().map(|file| std::fs::read_to_string(file).unwrap());
        let first: Vec<String> = read().collect();
        for line in first.iter().flat_map(|text| text.lines()) {
            let item: serde_json::Value = serde_json::from_str(line).unwrap();
            assert!(item["id"].is_string());
        }
        assert!(first[1].len() > 2_000_000, "large enough to be interrupted: {}", first[1].len());
        write(folder.path()).unwrap();
        assert!(read().eq(first));
    }
}
