//! What a process has used: processor time with its children, and memory. Linux tells it in `/proc`.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// The kernel counts processor time of processes in hundredths of a second.
const TICK: Duration = Duration::from_millis(10);
/// The unit in which the size of a file on the disk is told.
const BLOCK_BYTES: u64 = 512;
/// How long a look at the free share of the processors takes.
const LOOK: Duration = Duration::from_millis(40);
/// Of this share or more the machine is called quiet.
pub(crate) const QUIET: f64 = 0.93;

/// Processor time used so far by a process and its children, by process.
pub(crate) type Used = BTreeMap<u32, Duration>;

/// What `process` and its children have used so far. Threads that have ended count.
pub(crate) fn used(process: u32) -> Used {
    let mut used = Used::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let Some((parent, time)) = stat(id) else { continue };
        if id == process || parent == process {
            used.insert(id, time);
        }
    }
    used
}

/// What has been used since `before`. Processes that ended in between are left out.
pub(crate) fn used_since(process: u32, before: &Used) -> Duration {
    let grown = |(id, now): (&u32, &Duration)| {
        now.saturating_sub(before.get(id).copied().unwrap_or_default())
    };
    used(process).iter().map(grown).sum()
}

/// Waits until a process does next to nothing for a second: how long it went on, and what it used meanwhile.
pub(crate) fn wait_for_rest(process: u32) -> (Duration, Duration) {
    const STEP: Duration = Duration::from_millis(100);
    const STEPS_AT_REST: u32 = 10;
    let (start, before) = (Instant::now(), used(process));
    let (mut total, mut steps) = (Duration::ZERO, 0);
    let mut last_busy = Duration::ZERO;
    while steps < STEPS_AT_REST {
        std::thread::sleep(STEP);
        let now = used_since(process, &before);
        steps = if now > total + TICK { 0 } else { steps + 1 };
        if steps == 0 {
            last_busy = start.elapsed();
        }
        total = now;
    }
    (last_busy, total)
}

/// Parent and processor time of a process.
fn stat(process: u32) -> Option<(u32, Duration)> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name stands in brackets and may have spaces; the state follows it.
    let fields: Vec<&str> = text.rsplit(')').next()?.split_whitespace().collect();
    let number = |at: usize| fields.get(at).and_then(|field| field.parse::<u32>().ok());
    let ticks = number(11)?.checked_add(number(12)?)?;
    Some((number(1)?, TICK * ticks))
}

/// Resident memory of a process without its children, in megabytes.
pub(crate) fn resident_mb(process: u32) -> Option<f64> {
    status_mb(process, "VmRSS:")
}

/// The most that it ever was.
pub(crate) fn resident_peak_mb(process: u32) -> Option<f64> {
    status_mb(process, "VmHWM:")
}

/// Bytes of the files below a folder, as the disk holds them: without holes.
pub(crate) fn bytes_below(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => bytes_below(&entry.path()),
        Ok(found) => found.blocks() * BLOCK_BYTES,
        // Gone meanwhile: the server tidies up.
        Err(_) => 0,
    };
    entries.map(size).sum()
}

fn status_mb(process: u32, name: &str) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    let kilobytes: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024.0 / 1e6)
}

/// The share of two processors that is free: two threads spin for a moment and compare what they were given with the time
/// that passed.
pub(crate) fn free_share() -> f64 {
    let other = std::thread::spawn(spin);
    let mine = spin();
    let theirs = other.join().unwrap_or(0.0);
    f64::midpoint(mine, theirs)
}

fn spin() -> f64 {
    let (start, before) = (Instant::now(), thread_time());
    while start.elapsed() < LOOK {
        std::hint::spin_loop();
    }
    let given = thread_time().saturating_sub(before);
    (given.as_secs_f64() / start.elapsed().as_secs_f64()).min(1.0)
}

fn thread_time() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split(' ').next().and_then(|first| first.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}

/// Waits until the machine is quiet, no longer than `patience`; the share that was free at last.
pub(crate) fn wait_for_quiet(patience: Duration) -> f64 {
    const PAUSE: Duration = Duration::from_millis(300);
    let start = Instant::now();
    loop {
        let free = free_share();
        if free >= QUIET || start.elapsed() >= patience {
            return free;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Processors and memory of this machine in a few words.
pub(crate) fn machine() -> String {
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        processors.lines().find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1));
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kilobytes = memory.split_whitespace().nth(1).and_then(|number| number.parse::<u64>().ok());
    let count = processors.matches("processor\t").count();
    let gib = kilobytes.unwrap_or(0) / (1 << 20);
    format!("{count} × {}, {gib} GiB of memory, Linux", model.unwrap_or("unknown processor"))
}
