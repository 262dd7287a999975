//! The loop that runs a script: its function, its wishes one by one, its callbacks, its promises.

use rquickjs::function::IntoArgs;
use rquickjs::{Array, Ctx, Error, FromJs, Function, Object, Persistent, Value};

use crate::bytecode;
use crate::compile::{Compiled, Form};
use crate::error::Thrown;
use crate::host::{
    Host, HostError, HostErrorKind, IndexDirective, ItemLink, Page, ReadOutcome, Upserted,
};
use crate::limits::PAGE_ITEMS_MAX;
use crate::meter::{Meter, Stop};
use crate::status;
use crate::workshop::{Workshop, as_number, lossless};

/// Why a script did not reach its end.
#[derive(Debug)]
pub(crate) enum Failure {
    Threw(Thrown),
    Stopped(Stop),
    /// The engine itself misbehaved.
    Engine(String),
}

/// The functions of `library.js` that only Rust may call, in one context.
pub(crate) struct Driver<'js> {
    ctx: Ctx<'js>,
    functions: Object<'js>,
    describe: Function<'js>,
    next: Function<'js>,
    settle: Function<'js>,
}

impl<'js> Driver<'js> {
    /// Takes up the driver that a workshop keeps, in its context.
    pub(crate) fn restore(
        ctx: &Ctx<'js>,
        kept: Persistent<Object<'static>>,
    ) -> Result<Self, Failure> {
        kept.restore(ctx).and_then(|functions| Self::new(ctx, functions)).map_err(engine_failure)
    }

    fn new(ctx: &Ctx<'js>, functions: Object<'js>) -> Result<Self, Error> {
        Ok(Self {
            ctx: ctx.clone(),
            describe: functions.get("describe")?,
            next: functions.get("next")?,
            settle: functions.get("settle")?,
            functions,
        })
    }

    /// The context.
    pub(crate) fn ctx(&self) -> &Ctx<'js> {
        &self.ctx
    }

    /// Runs `action` so that a stop during it cannot be swallowed.
    pub(crate) fn stoppable<R>(&self, meter: &Meter, action: impl FnOnce() -> R) -> R {
        meter.countdown.with(&self.ctx, || {
            let result = action();
            meter.count_rest();
            result
        })
    }

    /// One of the driver's functions.
    pub(crate) fn function(&self, meter: &Meter, name: &str) -> Result<Function<'js>, Failure> {
        self.watch(meter, self.functions.get(name))
    }

    /// Calls one of the driver's functions.
    pub(crate) fn call<R: FromJs<'js>>(
        &self,
        meter: &Meter,
        name: &str,
        arguments: impl IntoArgs<'js>,
    ) -> Result<R, Failure> {
        let function = self.function(meter, name)?;
        self.watch(meter, function.call(arguments))
    }

    /// Loads the user's function into the context.
    pub(crate) fn load(
        &self,
        workshop: &Workshop,
        script: &Compiled,
    ) -> Result<Value<'js>, Failure> {
        let meter = &*workshop.meter;
        if script.form == Form::FirstGlobal {
            self.call::<()>(meter, "markGlobals", ())?;
        }
        let value = workshop
            .run_loaded(&self.ctx, &script.code)
            .unwrap_or_else(|| bytecode::evaluate(&self.ctx, &script.code));
        let value = self.watch(meter, value)?;
        match script.form {
            Form::Expression => Ok(value),
            Form::FirstGlobal => self.call(meter, "firstNewFunction", ()),
        }
    }

    /// Runs the function and everything it sets in motion, until nothing is left to do.
    pub(crate) fn run(
        &self,
        meter: &Meter,
        function: Value<'js>,
        host: &mut dyn Host,
    ) -> Result<(), Failure> {
        meter.set_budget_open(host.accepts());
        self.call::<()>(meter, "start", (function,))?;
        self.drain_jobs(meter)?;
        while let Some(wish) = self.watch(meter, self.next.call::<_, Option<Array<'js>>>(()))? {
            let answer = Wish::read(&wish).and_then(|wish| wish.fulfil(host));
            // The operation itself may have used up the time.
            if meter.is_past_deadline() {
                return Err(Failure::Stopped(Stop::Time));
            }
            meter.set_budget_open(host.accepts());
            self.settle(meter, answer)?;
            self.drain_jobs(meter)?;
        }
        Ok(())
    }

    fn settle(&self, meter: &Meter, answer: Result<Answer, HostError>) -> Result<(), Failure> {
        let called = match answer {
            Ok(answer) => self.settle.call((0, answer.json, answer.status, answer.continuation)),
            Err(error) => self.settle.call((status::of(error.kind), error.message)),
        };
        self.watch(meter, called)
    }

    /// Runs promise jobs until none is left.
    pub(crate) fn drain_jobs(&self, meter: &Meter) -> Result<(), Failure> {
        while self.ctx.execute_pending_job() {
            if let Some(stop) = meter.stop_reason() {
                return Err(Failure::Stopped(stop));
            }
        }
        Ok(())
    }

    /// Turns a failed call into the reason of its failure.
    pub(crate) fn watch<T>(&self, meter: &Meter, result: Result<T, Error>) -> Result<T, Failure> {
        let error = match result {
            // A stop may have been swallowed on the way; it counts all the same. So does an
            // exception left pending, as when there was no memory to queue a promise job.
            Ok(value) if !meter.is_stopping() && !self.ctx.has_exception() => return Ok(value),
            Ok(_) => Error::Exception,
            Err(error) => error,
        };
        if let Some(stop) = meter.stop_reason() {
            self.ctx.catch();
            return Err(Failure::Stopped(stop));
        }
        Err(match error {
            Error::Exception => self.explain(meter, self.ctx.catch()),
            Error::Allocation => out_of_memory(meter),
            other => Failure::Engine(other.to_string()),
        })
    }

    fn explain(&self, meter: &Meter, thrown: Value<'js>) -> Failure {
        if is_out_of_memory(meter, &thrown) {
            return out_of_memory(meter);
        }
        // Describing may run user code: getters, toString. It is still on the clock.
        match self.describe.call::<_, Array<'js>>((thrown,)).and_then(|list| read_thrown(&list)) {
            Ok(thrown) => Failure::Threw(thrown),
            Err(_) => {
                let inner = self.ctx.catch();
                match meter.stop_reason() {
                    Some(stop) => Failure::Stopped(stop),
                    None if is_out_of_memory(meter, &inner) => out_of_memory(meter),
                    None => Failure::Threw(Thrown {
                        text: "an error that cannot be shown".to_owned(),
                        ..Thrown::default()
                    }),
                }
            }
        }
    }
}

fn engine_failure(error: Error) -> Failure {
    Failure::Engine(error.to_string())
}

/// Memory is also refused to a script whose time is up.
fn out_of_memory(meter: &Meter) -> Failure {
    Failure::Stopped(if meter.is_past_deadline() { Stop::Time } else { Stop::Memory })
}

fn is_out_of_memory(meter: &Meter, thrown: &Value<'_>) -> bool {
    let message = |value: &Value<'_>| value.as_exception().and_then(rquickjs::Exception::message);
    // Without memory for an error object the engine throws null; so may a script.
    (thrown.is_null() && meter.was_refused_memory())
        || message(thrown).as_deref() == Some("out of memory")
}

fn read_thrown(list: &Array<'_>) -> Result<Thrown, Error> {
    Ok(Thrown {
        number: as_number(list.get(0)?),
        text: lossless(&list.get(1)?),
        stack: lossless(&list.get(2)?),
    })
}

/// One operation a script asked for. Its fields come from JavaScript and are not trusted.
struct Wish {
    kind: u32,
    by_rid: bool,
    item: String,
    body: String,
    needs_id: bool,
    etag: Option<String>,
    directive: Option<IndexDirective>,
    page_size: usize,
    continuation: Option<String>,
}

/// What `settle` is told about a fulfilled wish.
struct Answer {
    json: Option<String>,
    status: u16,
    continuation: Option<String>,
}

impl Wish {
    fn read(list: &Array<'_>) -> Result<Self, HostError> {
        let directive = text_at(list, 6)?.map(|text| match text.as_str() {
            "include" => IndexDirective::Include,
            "exclude" => IndexDirective::Exclude,
            _ => IndexDirective::Default,
        });
        let page_size = number_at(list, 7)? as usize;
        Ok(Self {
            kind: number_at(list, 0)?,
            by_rid: list.get(1).unwrap_or(false),
            item: text_at(list, 2)?.unwrap_or_default(),
            body: text_at(list, 3)?.unwrap_or_default(),
            needs_id: list.get(4).unwrap_or(false),
            etag: text_at(list, 5)?,
            directive,
            page_size: page_size.clamp(1, PAGE_ITEMS_MAX),
            continuation: text_at(list, 8)?,
        })
    }

    fn fulfil(self, host: &mut dyn Host) -> Result<Answer, HostError> {
        // The numbers are those of library.js.
        match self.kind {
            0 => self.read_item(host),
            1 => {
                let page = host.read_items(self.page_size, self.continuation.as_deref())?;
                Ok(Answer::page(page))
            }
            2 => {
                let from = self.continuation.as_deref();
                Ok(Answer::page(host.query_items(&self.body, self.page_size, from)?))
            }
            3 => {
                let body = self.body_with_id(host);
                Ok(Answer::item(host.create_item(&body, self.directive)?, status::CREATED))
            }
            4 => self.upsert_item(host),
            5 => {
                let (etag, directive) = (self.etag.as_deref(), self.directive);
                let stored = host.replace_item(&self.link(), &self.body, etag, directive)?;
                Ok(Answer::item(stored, status::OK))
            }
            6 => {
                host.delete_item(&self.link(), self.etag.as_deref())?;
                Ok(Answer { json: None, status: status::NO_CONTENT, continuation: None })
            }
            _ => Err(HostError::new(HostErrorKind::Invalid, "Attachments are not supported.")),
        }
    }

    fn read_item(&self, host: &mut dyn Host) -> Result<Answer, HostError> {
        Ok(match host.read_item(&self.link(), self.etag.as_deref())? {
            ReadOutcome::Found(json) => Answer::item(json, status::OK),
            ReadOutcome::NotModified => {
                Answer { json: None, status: status::NOT_MODIFIED, continuation: None }
            }
        })
    }

    fn upsert_item(&self, host: &mut dyn Host) -> Result<Answer, HostError> {
        let body = self.body_with_id(host);
        Ok(match host.upsert_item(&body, self.etag.as_deref(), self.directive)? {
            Upserted::Created(json) => Answer::item(json, status::CREATED),
            Upserted::Replaced(json) => Answer::item(json, status::OK),
        })
    }

    fn link(&self) -> ItemLink {
        let item = self.item.clone();
        if self.by_rid { ItemLink::ByRid(item) } else { ItemLink::ByName(item) }
    }

    /// The body with a fresh id in front, if it came without one. The library wrote the text, so
    /// it is an object without an id.
    fn body_with_id(&self, host: &mut dyn Host) -> String {
        let Some(members) = self.body.strip_prefix('{').filter(|_| self.needs_id) else {
            return self.body.clone();
        };
        let comma = if members == "}" { "" } else { "," };
        format!("{{\"id\":\"{}\"{comma}{members}", host.new_guid())
    }
}

impl Answer {
    fn item(json: String, status: u16) -> Self {
        Self { json: Some(json), status, continuation: None }
    }

    fn page(page: Page) -> Self {
        let mut json =
            String::with_capacity(page.rows.iter().map(|row| row.len() + 1).sum::<usize>() + 2);
        json.push('[');
        for (at, row) in page.rows.iter().enumerate() {
            if at > 0 {
                json.push(',');
            }
            json.push_str(row);
        }
        json.push(']');
        Self { json: Some(json), status: status::OK, continuation: page.continuation }
    }
}

fn text_at(list: &Array<'_>, at: usize) -> Result<Option<String>, HostError> {
    list.get(at)
        .map_err(|_| HostError::new(HostErrorKind::Invalid, "The text is not valid Unicode."))
}

fn number_at(list: &Array<'_>, at: usize) -> Result<u32, HostError> {
    list.get(at).map_err(|_| HostError::new(HostErrorKind::Invalid, "The number is out of range."))
}
