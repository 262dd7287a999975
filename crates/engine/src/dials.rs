//! Dials: what makes a local server behave like a large one, or unlike it.
//!
//! A dial is set for the account, for one container over that, and may be turned while the server
//! runs. All of them go by name and text, so that flags, request headers (`x-armilla-…`) and the
//! admin endpoint share one reader and one list. How many partitions a new container gets is decided here too.

use crate::views::definition::Dialect;
use armilla_model::charge::Rates;
use armilla_model::error::{Error, Result};
use armilla_model::value::{Object, Value};
use std::sync::Arc;
use std::time::Duration;

/// Request units per second that one physical partition serves.
pub const PARTITION_RUS: u32 = 10_000;
/// Most physical partitions of a new container.
pub const PARTITIONS_MAX: u32 = 1000;
/// The names of all dials, as flags and headers spell them.
pub const NAMES: [&str; 9] = [
    "throttle",
    "throttle-scale",
    "burst",
    "partitions",
    "partition-rus",
    "consistency-charge",
    "ru-profile",
    "latency",
    "views",
];
/// No answer is held back longer, in milliseconds.
const LATENCY_MAX: u64 = 60_000;
/// A throughput is never scaled beyond this.
const SCALE_MAX: f64 = 1_000_000.0;

/// What happens to requests beyond the throughput.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Throttling {
    /// They are charged like all others.
    #[default]
    Off,
    /// They are refused.
    On,
    /// They are served, and told how long they would have had to wait.
    Report,
}

impl Throttling {
    /// What the dial is turned to.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::On => "on",
            Self::Report => "report",
        }
    }
}

/// A table of charges and the name it goes by.
#[derive(Clone, Debug)]
pub struct Profile {
    /// `article`, `flat`, or where the table came from.
    pub name: Arc<str>,
    /// The table.
    pub rates: Arc<Rates>,
}

impl Profile {
    /// A table that comes with the server.
    pub fn named(name: &str) -> Option<Self> {
        let rates = match name {
            "article" => Rates::article(),
            "flat" => Rates::flat(),
            _ => return None,
        };
        Some(Self { name: name.into(), rates })
    }
}

/// How an account, or one container, treats throughput and charges.
#[derive(Clone, Debug)]
pub struct Dials {
    /// What happens beyond the throughput.
    pub throttle: Throttling,
    /// By what the throughput is multiplied before anything is refused.
    pub throttle_scale: f64,
    /// Unused throughput is banked.
    pub burst: bool,
    /// A fixed number of physical partitions for new containers, whatever their throughput.
    pub partitions: Option<u32>,
    /// Request units per second that one physical partition serves.
    pub partition_rus: u32,
    /// Reads with strong or bounded-staleness consistency cost twice as much.
    pub consistency_charge: bool,
    /// What things cost.
    pub profile: Profile,
    /// How long every answer of the account is held back, as a network between would do.
    pub latency: Duration,
    /// What definitions of new views may say.
    pub views: Dialect,
}

impl Default for Dials {
    fn default() -> Self {
        Self {
            throttle: Throttling::Off,
            throttle_scale: 1.0,
            burst: false,
            partitions: None,
            partition_rus: PARTITION_RUS,
            consistency_charge: true,
            profile: Profile { name: "article".into(), rates: Rates::article() },
            latency: Duration::ZERO,
            views: Dialect::Service,
        }
    }
}

impl Dials {
    /// Turns one dial. Tables of charges go by name here: only whoever starts the server can name a
    /// file.
    pub fn turn(&mut self, name: &str, text: &str) -> Result<()> {
        let text = text.trim();
        let wrong = |expected: &str| {
            Error::bad_request(format!("The dial '{name}' is '{text}'; it takes {expected}."))
        };
        match name {
            "throttle" => {
                self.throttle = match text {
                    "off" => Throttling::Off,
                    "on" => Throttling::On,
                    "report" => Throttling::Report,
                    _ => return Err(wrong("off, on or report")),
                };
            }
            "throttle-scale" => {
                let scale = text.parse::<f64>().ok();
                let scale = scale.filter(|scale| *scale > 0.0 && *scale <= SCALE_MAX);
                self.throttle_scale = scale.ok_or_else(|| wrong("a number above 0"))?;
            }
            "burst" => self.burst = switch(text).ok_or_else(|| wrong("on or off"))?,
            "partitions" if text == "auto" => self.partitions = None,
            "partitions" => {
                let count = text.parse().ok().filter(|count| (1..=PARTITIONS_MAX).contains(count));
                let count = count.ok_or_else(|| wrong("auto or a number from 1 to 1000"))?;
                self.partitions = Some(count);
            }
            "partition-rus" => {
                let units = text.parse().ok().filter(|units| *units > 0);
                self.partition_rus = units.ok_or_else(|| wrong("a number above 0"))?;
            }
            "consistency-charge" => {
                self.consistency_charge = switch(text).ok_or_else(|| wrong("on or off"))?;
            }
            "ru-profile" => {
                self.profile = Profile::named(text).ok_or_else(|| wrong("article or flat"))?;
            }
            "latency" => {
                let millis = text.parse().ok().filter(|millis| *millis <= LATENCY_MAX);
                let millis = millis.ok_or_else(|| wrong("milliseconds, 60000 at most"))?;
                self.latency = Duration::from_millis(millis);
            }
            "views" => {
                self.views = match text {
                    "service" => Dialect::Service,
                    "extended" => Dialect::Extended,
                    _ => return Err(wrong("service or extended")),
                };
            }
            _ => {
                return Err(Error::bad_request(format!(
                    "There is no dial '{name}'; there are {}.",
                    NAMES.join(", ")
                )));
            }
        }
        Ok(())
    }

    /// These dials with those of a container over them. What cannot be read any more is left out.
    pub(crate) fn with(&self, turned: &Turned) -> Self {
        let mut dials = self.clone();
        for (name, text) in &turned.0 {
            let _unknown = dials.turn(name, text);
        }
        dials
    }

    /// All dials by name.
    pub fn show(&self) -> Object {
        let on_off = |on: bool| if on { "on" } else { "off" };
        Object::of([
            ("throttle", self.throttle.name().into()),
            ("throttle-scale", self.throttle_scale.to_string().into()),
            ("burst", on_off(self.burst).into()),
            (
                "partitions",
                self.partitions.map_or("auto".to_owned(), |count| count.to_string()).into(),
            ),
            ("partition-rus", self.partition_rus.to_string().into()),
            ("consistency-charge", on_off(self.consistency_charge).into()),
            ("ru-profile", Value::String(self.profile.name.clone())),
            ("latency", self.latency.as_millis().to_string().into()),
            (
                "views",
                match self.views {
                    Dialect::Service => "service".into(),
                    Dialect::Extended => "extended".into(),
                },
            ),
        ])
    }

    /// How many physical partitions a new container with this throughput has.
    pub fn partition_count(&self, peak: u32) -> u32 {
        let wanted = peak.div_ceil(self.partition_rus.max(1));
        self.partitions.unwrap_or(wanted).clamp(1, PARTITIONS_MAX)
    }
}

fn switch(text: &str) -> Option<bool> {
    match text {
        "on" | "true" => Some(true),
        "off" | "false" => Some(false),
        _ => None,
    }
}

/// Dials that were turned for one container: names and texts, each known to be readable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turned(Vec<(String, String)>);

impl Turned {
    /// Adds a dial, in the place of an earlier turn of it.
    pub fn turn(&mut self, name: &str, text: &str) -> Result<()> {
        Dials::default().turn(name, text)?;
        self.0.retain(|(known, _)| known != name);
        self.0.push((name.to_owned(), text.trim().to_owned()));
        Ok(())
    }

    /// True when nothing was turned.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn write(&self) -> Vec<u8> {
        let members =
            self.0.iter().map(|(name, text)| (name.as_str().into(), text.as_str().into()));
        let mut out = Vec::new();
        members.collect::<Object>().write_json(&mut out);
        out
    }

    /// Reads what [`write`](Self::write) wrote; a dial that is not known any more is left out.
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let mut turned = Self::default();
        if let Ok(value) = armilla_model::json::parse(bytes)
            && let Some(object) = value.as_object()
        {
            for (name, text) in object.iter() {
                let _unknown = turned.turn(name, text.as_str().unwrap_or_default());
            }
        }
        turned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dial_shown_can_be_turned_to_what_is_shown() {
        let mut dials = Dials::default();
        dials.turn("throttle", "report").unwrap();
        dials.turn("partitions", "7").unwrap();
        let shown = dials.show();
        let mut copy = Dials::default();
        assert_eq!(shown.iter().count(), NAMES.len());
        for name in NAMES {
            copy.turn(name, shown.get(name).unwrap().as_str().unwrap()).unwrap();
        }
        assert_eq!(Value::object(copy.show()).to_json(), Value::object(shown).to_json());
    }

    #[test]
    fn nonsense_is_refused() {
        let wrong = [
            ("throttle", "maybe"),
            ("throttle-scale", "0"),
            ("throttle-scale", "NaN"),
            ("partitions", "0"),
            ("partition-rus", "-1"),
            ("latency", "-1"),
            ("latency", "60001"),
            ("ru-profile", "/etc/passwd"),
            ("warp", "9"),
        ];
        for (name, text) in wrong {
            assert!(Dials::default().turn(name, text).is_err(), "{name}={text}");
        }
    }

    #[test]
    fn a_container_s_turns_read_back_and_win() {
        let mut turned = Turned::default();
        turned.turn("burst", "on").unwrap();
        turned.turn("burst", "off").unwrap();
        turned.turn("throttle", "on").unwrap();
        assert_eq!(Turned::read(&turned.write()), turned);
        let account = Dials { burst: true, ..Dials::default() };
        let dials = account.with(&turned);
        assert!(!dials.burst && dials.throttle == Throttling::On);
    }
}
