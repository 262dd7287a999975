//! The flags that make a local server behave like a large one: throttling, charges, consistency.

use armilla_engine::dials::{Dials, Profile, Throttling};
use armilla_gateway::headers::Consistency;
use armilla_model::charge::Rates;
use clap::{Args, ValueEnum};
use std::sync::Arc;

/// Flags about throughput and charges.
#[derive(Clone, Debug, Args)]
pub(crate) struct DialOptions {
    /// What happens to requests beyond the throughput: refused with 429 (on), served with a header
    /// that says how long they would have waited (report), or just served (off)
    #[arg(long, env = "ARMILLA_THROTTLE", value_enum, default_value_t = ThrottleOption::Off)]
    pub(crate) throttle: ThrottleOption,
    /// Multiplies all throughput before requests are throttled
    #[arg(long, env = "ARMILLA_THROTTLE_SCALE", default_value = "1")]
    pub(crate) throttle_scale: String,
    /// Bank up to 300 s of unused throughput and spend it at up to 3000 RU/s per partition
    #[arg(long, env = "ARMILLA_BURST", value_enum, default_value_t = Switch::Off)]
    pub(crate) burst: Switch,
    /// Charge reads with strong or bounded-staleness consistency twice
    #[arg(long, env = "ARMILLA_CONSISTENCY_CHARGE", value_enum, default_value_t = Switch::On)]
    pub(crate) consistency_charge: Switch,
    /// What things cost: article (fitted to published figures), flat (1 for everything), or a JSON
    /// file with the members brackets and constants
    #[arg(long, env = "ARMILLA_RU_PROFILE", default_value = "article")]
    pub(crate) ru_profile: String,
    /// Milliseconds that every answer is held back, as a network between would do
    #[arg(long, env = "ARMILLA_LATENCY", default_value = "0")]
    pub(crate) latency: String,
    /// What definitions of views may say: service (paths only), or extended (also WHERE, AS, TOP with
    /// ORDER BY, and views of views)
    #[arg(long, env = "ARMILLA_VIEWS", default_value = "service")]
    pub(crate) views: String,
    /// The account's consistency level, which requests may weaken
    #[arg(long, env = "ARMILLA_CONSISTENCY", value_enum, default_value_t = ConsistencyOption::Session)]
    pub(crate) consistency: ConsistencyOption,
    /// Nothing is provisioned: no offers, and containers refuse throughput
    #[arg(long, env = "ARMILLA_SERVERLESS")]
    pub(crate) serverless: bool,
    /// Answer /metrics to everybody, without a key
    #[arg(long, env = "ARMILLA_PUBLIC_METRICS")]
    pub(crate) public_metrics: bool,
}

/// What happens beyond the throughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ThrottleOption {
    Off,
    On,
    Report,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    On,
    Off,
}

/// Levels by their names on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConsistencyOption {
    Strong,
    BoundedStaleness,
    Session,
    ConsistentPrefix,
    Eventual,
}

impl DialOptions {
    /// The dials of the account.
    pub(crate) fn dials(&self) -> Result<Dials, String> {
        let mut dials = Dials {
            throttle: match self.throttle {
                ThrottleOption::Off => Throttling::Off,
                ThrottleOption::On => Throttling::On,
                ThrottleOption::Report => Throttling::Report,
            },
            burst: self.burst == Switch::On,
            consistency_charge: self.consistency_charge == Switch::On,
            profile: self.profile()?,
            ..Dials::default()
        };
        let by_text = [
            ("throttle-scale", &self.throttle_scale),
            ("latency", &self.latency),
            ("views", &self.views),
        ];
        for (name, text) in by_text {
            dials.turn(name, text).map_err(|error| error.message().to_owned())?;
        }
        Ok(dials)
    }

    fn profile(&self) -> Result<Profile, String> {
        if let Some(profile) = Profile::named(&self.ru_profile) {
            return Ok(profile);
        }
        let path = &self.ru_profile;
        let text = std::fs::read(path)
            .map_err(|error| format!("the table of charges '{path}' cannot be read: {error}"))?;
        let rates = Rates::parse(&text)
            .map_err(|error| format!("the table of charges '{path}': {}", error.message()))?;
        Ok(Profile { name: path.as_str().into(), rates: Arc::new(rates) })
    }

    /// The account's level.
    pub(crate) fn consistency(&self) -> Consistency {
        match self.consistency {
            ConsistencyOption::Strong => Consistency::Strong,
            ConsistencyOption::BoundedStaleness => Consistency::BoundedStaleness,
            ConsistencyOption::Session => Consistency::Session,
            ConsistencyOption::ConsistentPrefix => Consistency::ConsistentPrefix,
            ConsistencyOption::Eventual => Consistency::Eventual,
        }
    }
}
