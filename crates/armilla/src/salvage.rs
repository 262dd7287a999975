//! `armilla salvage`: what can still be read of a damaged data folder, as JSON lines.
//!
//! The folder is only read. Beside the file with the items there is `<file>.lost`, with a line for each
//! thing that could not be read.

use crate::config::SalvageOptions;
use crate::offline::refusal;
use crate::terminal::{note, say};
use armilla_engine::salvage::{SalvagedItem, salvage};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf, absolute};

/// Writes the items of a damaged folder to a new file.
pub(crate) fn run(options: &SalvageOptions) -> Result<(), String> {
    let SalvageOptions { data, to } = options;
    let inside = |path: &Path, folder: &Path| {
        absolute(path)
            .is_ok_and(|path| absolute(folder).is_ok_and(|folder| path.starts_with(folder)))
    };
    if inside(to, data) {
        let (to, data) = (to.display(), data.display());
        return Err(format!("{to} lies in {data}, which must not change; give a file elsewhere"));
    }
    let fail = |path: &Path, error: &io::Error| format!("{}: {error}", path.display());
    let file = File::create_new(to).map_err(|error| fail(to, &error))?;
    let mut out = BufWriter::new(file);
    let (mut items, mut failure) = (0_u64, None);
    let losses = salvage(data, &mut |item| {
        if failure.is_none() {
            failure = write_line(&mut out, &item).err();
            items += 1;
        }
    });
    let losses = losses.map_err(refusal)?;
    let ended =
        failure.map_or_else(|| out.into_inner().map_err(io::IntoInnerError::into_error), Err);
    ended.and_then(|file| file.sync_all()).map_err(|error| fail(to, &error))?;
    say(&format!("{items} items written to {}", to.display()));
    if losses.is_empty() {
        return Ok(());
    }
    let mut list = to.clone().into_os_string();
    list.push(".lost");
    let list = PathBuf::from(list);
    let lines: String =
        losses.iter().map(|loss| format!("{}: {}\n", loss.place, loss.reason)).collect();
    std::fs::write(&list, &lines).map_err(|error| fail(&list, &error))?;
    lines.lines().take(20).for_each(note);
    Err(format!("{} things could not be read; they are listed in {}", losses.len(), list.display()))
}

/// `{"database":…,"container":…,"item":…}`; a container whose name is lost has its number.
fn write_line(out: &mut impl Write, item: &SalvagedItem<'_>) -> io::Result<()> {
    match item.names {
        Some((database, container)) => {
            let (database, container) = (quoted(database), quoted(container));
            write!(out, r#"{{"database":{database},"container":{container},"item":"#)?;
        }
        None => {
            let number = item.container;
            write!(out, r#"{{"database":null,"container":null,"number":{number},"item":"#)?;
        }
    }
    out.write_all(item.text)?;
    out.write_all(b"}\n")
}

fn quoted(name: &str) -> String {
    serde_json::Value::from(name).to_string()
}
