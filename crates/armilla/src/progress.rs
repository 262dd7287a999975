//! Progress bars: rate and time left, on standard error, and only where somebody is looking.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar that counts items.
pub(crate) fn items(total: u64, message: &str) -> ProgressBar {
    styled(
        ProgressBar::new(total),
        "{msg:24} {wide_bar:.cyan/dim} {human_pos}/{human_len} items  {per_sec}  {eta} left",
        message,
    )
}

/// A bar that counts bytes of a source, with the items beside it as its message.
pub(crate) fn bytes(total: u64, message: &str) -> ProgressBar {
    styled(
        ProgressBar::new(total),
        "{msg:32} {wide_bar:.cyan/dim} {bytes}/{total_bytes}  {bytes_per_sec}  {eta} left",
        message,
    )
}

/// A counter for a source whose end is not known.
pub(crate) fn endless(message: &str) -> ProgressBar {
    styled(ProgressBar::new_spinner(), "{msg:24} {spinner} {human_pos} items  {per_sec}", message)
}

/// A bar that counts items where their number is known, else a counter.
pub(crate) fn items_or_endless(total: Option<u64>, message: &str) -> ProgressBar {
    match total {
        Some(total) => items(total, message),
        None => endless(message),
    }
}

fn styled(bar: ProgressBar, template: &str, message: &str) -> ProgressBar {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_message(message.to_owned());
    bar
}
