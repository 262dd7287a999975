//! The data as files of lines, one per container: made once, then read by the load of every system.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::Outcome;
use crate::blog::{Blog, Shape};
use crate::rows::{COLLECTIONS, Collection, Design};

const BUFFER_BYTES: usize = 1 << 20;
/// How many posts the feed has.
const FEED_LENGTH: usize = 100;
/// Written last, so that a folder without it is not whole.
const DONE: &str = "done";

/// The files of one size of data.
pub(crate) struct Dataset {
    folder: PathBuf,
}

impl Dataset {
    /// The files of `blog` below `scratch`, made if they are not there yet.
    pub(crate) fn of(blog: &Blog, seed: u64, scratch: &Path) -> io::Result<Self> {
        let folder = scratch.join(format!("blog-{seed}-{}", blog.users()));
        Self { folder }.made(blog, true)
    }

    /// The same without the normalised posts, which are half of the data.
    pub(crate) fn without_normalised(blog: &Blog, seed: u64, scratch: &Path) -> io::Result<Self> {
        let folder = scratch.join(format!("blog-{seed}-{}-short", blog.users()));
        Self { folder }.made(blog, false)
    }

    fn made(self, blog: &Blog, with_normalised: bool) -> io::Result<Self> {
        let dataset = self;
        if !dataset.folder.join(DONE).is_file() {
            fs::create_dir_all(&dataset.folder)?;
            dataset.make(blog, with_normalised)?;
            File::create(dataset.folder.join(DONE))?;
        }
        Ok(dataset)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.jsonl"))
    }

    fn make(&self, blog: &Blog, with_normalised: bool) -> io::Result<()> {
        let create = |name: &str| -> io::Result<BufWriter<File>> {
            Ok(BufWriter::with_capacity(BUFFER_BYTES, File::create(self.file(name))?))
        };
        let [mut users, mut posts_v1, mut posts, mut users_v3, mut feed] = [
            create(COLLECTIONS[0].name)?,
            create(COLLECTIONS[1].name)?,
            create(COLLECTIONS[2].name)?,
            create(COLLECTIONS[3].name)?,
            create(COLLECTIONS[4].name)?,
        ];
        for user in 0..blog.users() {
            writeln!(users, "{}", blog.user(user, Design::V1))?;
            writeln!(users_v3, "{}", blog.user(user, Design::V3))?;
            for post in blog.posts_of(user) {
                writeln!(users_v3, "{}", blog.post(post, Shape::Short))?;
                if with_normalised {
                    write_post(&mut posts_v1, blog, post, Shape::Normalised)?;
                }
                write_post(&mut posts, blog, post, Shape::Whole)?;
            }
        }
        let mut newest: Vec<u64> = (0..blog.posts()).collect();
        newest.sort_by_key(|post| std::cmp::Reverse(blog.date_of(*post)));
        for post in newest.into_iter().take(FEED_LENGTH) {
            writeln!(feed, "{}", blog.post(post, Shape::Short))?;
        }
        for mut file in [users, posts_v1, posts, users_v3, feed] {
            file.flush()?;
        }
        Ok(())
    }

    /// Items of a container.
    pub(crate) fn count(&self, container: &str) -> io::Result<u64> {
        let mut reader = BufReader::with_capacity(BUFFER_BYTES, File::open(self.file(container))?);
        let mut lines = 0;
        loop {
            let read = reader.fill_buf()?;
            let length = read.len();
            if length == 0 {
                return Ok(lines);
            }
            lines += memchr::memchr_iter(b'\n', read).count() as u64;
            reader.consume(length);
        }
    }

    /// The lines of a container, from the first.
    pub(crate) fn lines(&self, collection: &Collection) -> io::Result<Lines> {
        let file = File::open(self.file(collection.name))?;
        Ok(Lines { reader: BufReader::with_capacity(BUFFER_BYTES, file) })
    }
}

fn write_post(out: &mut impl Write, blog: &Blog, post: u64, shape: Shape) -> io::Result<()> {
    writeln!(out, "{}", blog.post(post, shape))?;
    for nth in 0..blog.comments_of(post) {
        writeln!(out, "{}", blog.comment(post, nth, shape))?;
    }
    for nth in 0..blog.likes_of(post) {
        writeln!(out, "{}", blog.like(post, nth, shape))?;
    }
    Ok(())
}

/// Lines of a file, without their ends.
pub(crate) struct Lines {
    reader: BufReader<File>,
}

impl Lines {
    /// The next line, in place of what `line` was; false at the end.
    pub(crate) fn next(&mut self, line: &mut String) -> io::Result<bool> {
        line.clear();
        let read = self.reader.read_line(line)?;
        line.truncate(line.trim_end_matches('\n').len());
        Ok(read > 0)
    }
}

/// A text property of an item of this data, whose texts need no escapes.
pub(crate) fn property<'l>(line: &'l str, name: &str) -> Outcome<&'l str> {
    let named = format!("\"{name}\":\"");
    let start = line.find(&named).ok_or_else(|| format!("an item has no {name}: {line}"))?;
    let value = &line[start + named.len()..];
    value.split('"').next().ok_or_else(|| format!("an item's {name} has no end").into())
}
