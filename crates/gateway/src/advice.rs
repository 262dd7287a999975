//! The seam to the advisor: the gateway asks for advice and passes the text on.
//!
//! The advisor stands beside this crate and neither knows the other; whoever starts both puts them together
//! ([`EngineService::with_adviser`](crate::ops::EngineService::with_adviser)).

use armilla_model::Result;

/// What is asked of the advisor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdviceQuestion {
    /// This database alone.
    pub database: Option<String>,
    /// Build the proposal and replay what was recorded on it.
    pub prove: bool,
}

/// Answers `/_armilla/advice`.
pub trait Adviser: Send + Sync {
    /// The answer as JSON. Takes its time; called beside the threads of the network.
    ///
    /// # Errors
    ///
    /// When it cannot be made, or somebody else has it made already.
    fn advice(&self, question: &AdviceQuestion) -> Result<String>;
}

/// What is answered where nobody observes.
pub(crate) const OFF: &str = r#"{"version":1,"state":"off","says":"Nothing is observed: the server runs with --no-observe or --request-log 0.","observed":null,"point":null,"points":[],"findings":[],"praise":[],"workload":[]}"#;
