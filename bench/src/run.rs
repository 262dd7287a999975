//! A whole run: load, floors, every row on every system cell beside cell, scan, stalls, memory, growth.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use crate::Outcome;
use crate::armilla::Armilla;
use crate::armilla_data::{self, Loaded, Scanned};
use crate::blog::Blog;
use crate::cell::{Measured, Width, measure};
use crate::dataset::Dataset;
use crate::floor::{FloorClient, SIZES, durable_appends};
use crate::postgres::{Indexes, Postgres};
use crate::processes;
use crate::rows::{Act, COLLECTIONS, Design, ROWS, Row};
use crate::signed::Signer;

/// The seed of the data: the same for everybody who repeats a run.
const SEED: u64 = 1;
/// Operations of a cell at most, so that they can be made beforehand.
const COUNT_MANY: u64 = 60_000;
const COUNT_ALONE: u64 = 20_000;
/// Composed requests make many exchanges each.
const COUNT_COMPOSED: u64 = 4_000;
/// How long the sustained writes last, in cells.
const SUSTAINED_CELLS: u32 = 3;
const SUSTAINED_COUNT: u64 = 400_000;
/// How long the server may settle before its memory is read.
const SETTLE: Duration = Duration::from_secs(5);
/// How long the server rests before its memory is looked at once more.
const REST: Duration = Duration::from_secs(10);

/// A system under test: where it listens, and whose processor time counts.
#[derive(Clone, Debug)]
pub(crate) struct System {
    pub(crate) address: String,
    pub(crate) process: u32,
}

/// What to run.
pub(crate) struct Settings {
    pub(crate) armilla: System,
    pub(crate) postgres: Option<System>,
    pub(crate) floor: System,
    pub(crate) scratch: PathBuf,
    pub(crate) users: u64,
    /// A second, larger size of data, on which only the reads of one partition are measured.
    pub(crate) growth: Option<u64>,
    pub(crate) cell_time: Duration,
    pub(crate) connections: Vec<usize>,
    pub(crate) repeats: usize,
    /// Rows by name; none means all.
    pub(crate) only: Vec<String>,
    /// Whether PostgreSQL is loaded and written with a GIN index as well.
    pub(crate) gin: bool,
    /// How long to wait for a quiet machine before each cell.
    pub(crate) patience: Duration,
    /// Where Armilla keeps its data.
    pub(crate) data: Option<PathBuf>,
    /// A file that is there when Armilla has the data already, and is made when it has.
    pub(crate) loaded_mark: Option<PathBuf>,
    /// Rows alone: neither floors nor the scan.
    pub(crate) is_brief: bool,
}

impl Settings {
    fn wants(&self, row: Row) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| row.is_named(name))
    }
}

/// The cells of a row with one number of connections.
pub(crate) struct RowResult {
    pub(crate) row: Row,
    pub(crate) connections: usize,
    pub(crate) armilla: Measured,
    pub(crate) postgres: Option<Measured>,
    pub(crate) gin: Option<Measured>,
}

/// The HTTP floor for answers of one size.
pub(crate) struct FloorResult {
    pub(crate) connections: usize,
    pub(crate) measured: Measured,
}

/// One row at two sizes of data.
pub(crate) struct GrowthResult {
    pub(crate) row: Row,
    pub(crate) small: Measured,
    pub(crate) large: Measured,
}

/// Everything that a run found.
#[derive(Default)]
pub(crate) struct Results {
    pub(crate) users: u64,
    pub(crate) items: u64,
    pub(crate) postgres_version: Option<String>,
    pub(crate) loads: Vec<(&'static str, Loaded)>,
    pub(crate) scan: Option<Scanned>,
    pub(crate) floors: Vec<FloorResult>,
    /// Connections and durable records a second.
    pub(crate) appends: Vec<(usize, f64)>,
    pub(crate) rows: Vec<RowResult>,
    pub(crate) sustained: Option<Measured>,
    pub(crate) wrong_counters: Option<u64>,
    pub(crate) idle_mb: Option<f64>,
    pub(crate) loaded_mb: Option<f64>,
    pub(crate) after_mb: Option<f64>,
    /// The same once the server has been asked nothing for a while.
    pub(crate) rested_mb: Option<f64>,
    pub(crate) growth: Vec<GrowthResult>,
    pub(crate) growth_users: u64,
    pub(crate) growth_load: Option<Loaded>,
    /// Bytes on disk for each item of both blogs.
    pub(crate) bytes_an_item: Option<f64>,
    pub(crate) peak_mb: Option<f64>,
}

/// Runs everything that the settings ask for.
pub(crate) async fn run(settings: &Settings) -> Outcome<Results> {
    let mut bench = Bench::new(settings)?;
    let process = settings.armilla.process;
    bench.results.idle_mb = processes::resident_mb(process);
    bench.load().await?;
    bench.results.loaded_mb = processes::resident_mb(process);
    if !settings.is_brief {
        bench.floors().await?;
        bench.scan().await?;
    }
    for row in ROWS.into_iter().filter(|row| settings.wants(*row)) {
        for connections in settings.connections.clone() {
            let result = bench.row(row, connections).await?;
            println!("{}", crate::report::line(&result));
            bench.results.rows.push(result);
        }
        if row == ROWS[19] {
            // Behind this, posts are overwritten and their counters with them.
            bench.results.wrong_counters =
                Some(armilla_data::wrong_counters(&bench.armilla, &bench.blog).await?);
        }
    }
    bench.sustain().await?;
    std::thread::sleep(SETTLE);
    bench.results.after_mb = processes::resident_mb(process);
    std::thread::sleep(REST);
    bench.results.rested_mb = processes::resident_mb(process);
    if let Some(users) = settings.growth {
        bench.grow(users).await?;
    }
    Ok(bench.results)
}

/// Loads the containers with these names, all if there are none, and tells what the load and the rest behind it cost.
pub(crate) async fn load_only(
    system: &System,
    users: u64,
    scratch: &Path,
    only: &[String],
) -> Outcome<()> {
    let blog = Blog::new(SEED, users);
    let dataset = Dataset::of(&blog, SEED, scratch)?;
    let server = Rc::new(Armilla { signer: Signer::new(&system.address, "blog")? });
    armilla_data::create(&server).await?;
    let wanted = |name: &str| only.is_empty() || only.iter().any(|it| it == name);
    for collection in COLLECTIONS.iter().filter(|it| wanted(it.name)) {
        let loaded = armilla_data::load(&server, &dataset, collection, system.process).await?;
        let (rest, used) = processes::wait_for_rest(system.process);
        println!(
            "{}: {} items, {:.0} items/s, {:.2} CPU µs each; then {:.1} s with {:.2} µs each",
            loaded.container,
            loaded.items,
            loaded.per_second(),
            loaded.cpu_us(),
            rest.as_secs_f64(),
            used.as_secs_f64() * 1e6 / (loaded.items.max(1) as f64),
        );
    }
    Ok(())
}

struct Bench<'a> {
    settings: &'a Settings,
    blog: Blog,
    dataset: Dataset,
    armilla: Rc<Armilla>,
    postgres: Option<Postgres>,
    gin: Option<Postgres>,
    results: Results,
    /// Counts cells, so that each writes new ids.
    cells: u64,
}

impl<'a> Bench<'a> {
    fn new(settings: &'a Settings) -> Outcome<Self> {
        let blog = Blog::new(SEED, settings.users);
        println!("data of {} users, {} posts", settings.users, blog.posts());
        let dataset = Dataset::of(&blog, SEED, &settings.scratch)?;
        let armilla = Rc::new(Armilla { signer: Signer::new(&settings.armilla.address, "blog")? });
        let database =
            |indexes| settings.postgres.as_ref().map(|it| Postgres::new(&it.address, indexes));
        let gin = settings.gin.then(|| database(Indexes::Everything)).flatten();
        let postgres = database(Indexes::Chosen);
        let results = Results { users: settings.users, ..Results::default() };
        Ok(Self { settings, blog, dataset, armilla, postgres, gin, results, cells: 0 })
    }

    fn postgres_process(&self) -> u32 {
        self.settings.postgres.as_ref().map_or(0, |system| system.process)
    }

    fn loaded(&mut self, system: &'static str, loaded: Loaded) {
        let (rate, cost) = (loaded.per_second(), loaded.cpu_us());
        println!(
            "{system} loaded {}: {} items, {rate:.0} items/s, {cost:.1} CPU µs each",
            loaded.container, loaded.items
        );
        self.results.loads.push((system, loaded));
    }

    async fn load(&mut self) -> Outcome<()> {
        match self.settings.loaded_mark.as_deref() {
            Some(mark) if mark.is_file() => {
                let items = std::fs::read_to_string(mark)?;
                self.results.items = items.trim().parse()?;
                println!("Armilla has {} items of an earlier run", self.results.items);
            }
            mark => {
                self.load_armilla().await?;
                if let Some(mark) = mark {
                    std::fs::write(mark, self.results.items.to_string())?;
                }
            }
        }
        self.load_postgres().await
    }

    async fn load_armilla(&mut self) -> Outcome<()> {
        armilla_data::create(&self.armilla).await?;
        for collection in &COLLECTIONS {
            processes::wait_for_quiet(self.settings.patience);
            let process = self.settings.armilla.process;
            let loaded =
                armilla_data::load(&self.armilla, &self.dataset, collection, process).await?;
            self.results.items += loaded.items;
            self.loaded("Armilla", loaded);
        }
        Ok(())
    }

    async fn load_postgres(&mut self) -> Outcome<()> {
        let process = self.postgres_process();
        for (name, postgres) in [
            ("PostgreSQL, chosen indexes", self.postgres.take()),
            ("PostgreSQL, GIN", self.gin.take()),
        ] {
            let Some(postgres) = postgres else { continue };
            for collection in &COLLECTIONS {
                processes::wait_for_quiet(self.settings.patience);
                let loaded = postgres.load(&self.dataset, collection, process).await?;
                self.loaded(name, loaded);
            }
            postgres.settle().await?;
            self.results.postgres_version = Some(postgres.version().await?);
            let place = if postgres.indexes == Indexes::Chosen {
                &mut self.postgres
            } else {
                &mut self.gin
            };
            *place = Some(postgres);
        }
        Ok(())
    }

    async fn floors(&mut self) -> Outcome<()> {
        let System { address, process } = &self.settings.floor;
        for connections in self.settings.connections.clone() {
            for size in SIZES {
                let width = self.width(connections, false);
                let request = FloorClient::request(address, size)?;
                let operations = vec![request; usize::try_from(width.operations())?];
                let mut clients = Vec::new();
                for _ in 0..connections {
                    clients.push(FloorClient::open(address).await?);
                }
                processes::wait_for_quiet(self.settings.patience);
                let measured = measure(&mut clients, &operations, width, *process).await;
                let (rate, cost) = (measured.per_second(), measured.cpu_us());
                println!(
                    "HTTP floor, {size} bytes, {connections} connections: {rate:.0}/s, {cost:.1} CPU µs"
                );
                self.results.floors.push(FloorResult { connections, measured });
            }
            processes::wait_for_quiet(self.settings.patience);
            let rate =
                durable_appends(&self.settings.scratch, connections, self.settings.cell_time)?;
            println!("durable appends, {connections} writers: {rate:.0}/s");
            self.results.appends.push((connections, rate));
        }
        Ok(())
    }

    async fn scan(&mut self) -> Outcome<()> {
        let items = self.dataset.count("posts")?;
        let process = self.settings.armilla.process;
        // The first brings the blocks into the caches.
        for _ in 0..2 {
            processes::wait_for_quiet(self.settings.patience);
            let scanned = armilla_data::scan(&self.armilla, items, process).await?;
            let rate = items as f64 / scanned.used.max(1e-9);
            println!("scan: {:.2} s, {rate:.0} items per CPU second", scanned.seconds);
            self.results.scan = Some(scanned);
        }
        Ok(())
    }

    fn width(&self, connections: usize, is_composed: bool) -> Width {
        let count = match connections {
            _ if is_composed => COUNT_COMPOSED,
            1 => COUNT_ALONE,
            _ => COUNT_MANY,
        };
        Width { connections, count, time: self.settings.cell_time }
    }

    /// The cells of a row, repeated in turn; of each system the one in the middle by processor time.
    async fn row(&mut self, row: Row, connections: usize) -> Outcome<RowResult> {
        let width = self.width(connections, row.is_composed());
        let (mut ours, mut chosen, mut everything) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..self.settings.repeats {
            let run = self.next_run();
            if let Some(postgres) = &self.postgres {
                chosen.push(self.postgres_cell(postgres, row, width, run).await?);
            }
            if let Some(postgres) = self.gin.as_ref().filter(|_| row.act.writes()) {
                everything.push(self.postgres_cell(postgres, row, width, run).await?);
            }
            ours.push(self.armilla_cell(&self.armilla, &self.blog, row, (width, run)).await?);
        }
        let armilla = middle(ours).ok_or("a row is measured at least once")?;
        Ok(RowResult {
            row,
            connections,
            armilla,
            postgres: middle(chosen),
            gin: middle(everything),
        })
    }

    /// A number that no other cell has, nor one of an earlier run over the same folder.
    fn next_run(&mut self) -> u64 {
        self.cells += 1;
        self.cells << 32 | u64::from(self.settings.armilla.process)
    }

    async fn armilla_cell(
        &self,
        armilla: &Rc<Armilla>,
        blog: &Blog,
        row: Row,
        (width, run): (Width, u64),
    ) -> Outcome<Measured> {
        let operations: Vec<_> =
            (0..width.operations()).map(|nth| armilla.operation(blog, row, run, nth)).collect();
        let mut clients = Vec::new();
        for _ in 0..width.connections {
            clients.push(armilla.connect().await?);
        }
        processes::wait_for_quiet(self.settings.patience);
        Ok(measure(&mut clients, &operations, width, self.settings.armilla.process).await)
    }

    async fn postgres_cell(
        &self,
        postgres: &Postgres,
        row: Row,
        width: Width,
        run: u64,
    ) -> Outcome<Measured> {
        let operations: Vec<_> = (0..width.operations())
            .map(|nth| Postgres::operation(&self.blog, row, run, nth))
            .collect();
        let mut clients = Vec::new();
        for _ in 0..width.connections {
            clients.push(postgres.connect(row).await?);
        }
        processes::wait_for_quiet(self.settings.patience);
        Ok(measure(&mut clients, &operations, width, self.postgres_process()).await)
    }

    /// Writes without a pause, for the worst commit.
    async fn sustain(&mut self) -> Outcome<()> {
        let row = Row { design: Design::V1, act: Act::C3 };
        if !self.settings.wants(row) {
            return Ok(());
        }
        let connections = self.settings.connections.iter().copied().max().unwrap_or(1);
        let time = self.settings.cell_time * SUSTAINED_CELLS;
        let width = Width { connections, count: SUSTAINED_COUNT, time };
        let run = self.next_run();
        let measured = self.armilla_cell(&self.armilla, &self.blog, row, (width, run)).await?;
        println!(
            "sustained writes: {:.0}/s, worst {:.1} ms",
            measured.per_second(),
            measured.latency_us(100) / 1e3
        );
        self.results.sustained = Some(measured);
        Ok(())
    }

    /// Loads a larger blog beside and asks both the requests of one partition.
    async fn grow(&mut self, users: u64) -> Outcome<()> {
        let address = &self.settings.armilla.address;
        let large = Rc::new(Armilla { signer: Signer::new(address, "blog_large")? });
        let blog = Blog::new(SEED, users);
        let dataset = Dataset::without_normalised(&blog, SEED, &self.settings.scratch)?;
        armilla_data::create(&large).await?;
        let mut items = self.results.items;
        for collection in COLLECTIONS.iter().filter(|collection| collection.name != "posts_v1") {
            let process = self.settings.armilla.process;
            let loaded = armilla_data::load(&large, &dataset, collection, process).await?;
            items += loaded.items;
            if collection.name == "posts" {
                self.results.growth_load = Some(loaded.clone());
            }
            println!(
                "loaded {} of {users} users: {:.0} items/s",
                collection.name,
                loaded.per_second()
            );
        }
        self.results.growth_users = users;
        for row in ROWS.into_iter().filter(|row| grows(*row)) {
            let width = self.width(1, false);
            let run = self.next_run();
            let small = self.armilla_cell(&self.armilla, &self.blog, row, (width, run)).await?;
            let run = self.next_run();
            let large = self.armilla_cell(&large, &blog, row, (width, run)).await?;
            println!("{row}: {:.0} µs, {:.0} µs", small.latency_us(50), large.latency_us(50));
            self.results.growth.push(GrowthResult { row, small, large });
        }
        let bytes = self.settings.data.as_deref().map(processes::bytes_below);
        self.results.bytes_an_item = bytes.map(|bytes| bytes as f64 / items.max(1) as f64);
        self.results.peak_mb = processes::resident_peak_mb(self.settings.armilla.process);
        Ok(())
    }
}

/// The requests of V3: what one partition answers, whatever else there is.
fn grows(row: Row) -> bool {
    let shared = matches!(row.act, Act::Q2 | Act::Q4 | Act::Q5 | Act::C3 | Act::C4);
    row.design == Design::V3 || (row.design == Design::V2 && shared)
}

/// The cell in the middle by processor time.
fn middle(mut cells: Vec<Measured>) -> Option<Measured> {
    cells.sort_by(|one, other| one.cpu_us().total_cmp(&other.cpu_us()));
    let at = cells.len().saturating_sub(1) / 2;
    cells.into_iter().nth(at)
}
