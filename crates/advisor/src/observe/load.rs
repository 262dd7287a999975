//! What a container has to bear: its hottest logical keys, and the units of each hour.

use crate::limits::{HOT_KEYS, HOURS_MAX};
use std::collections::VecDeque;

/// The hottest keys (space-saving): a new one takes the place of the coldest and begins with its count.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HotKeys {
    /// Keys as headers have them, requests, and how many of these may be others'.
    pub(crate) keys: Vec<(String, f64, f64)>,
    /// Requests that named a key.
    pub(crate) requests: f64,
}

impl HotKeys {
    /// Counts a request.
    pub fn add(&mut self, key: &str, weight: f64) {
        self.requests += weight;
        if let Some(known) = self.keys.iter_mut().find(|(known, _, _)| known == key) {
            known.1 += weight;
            return;
        }
        if self.keys.len() < HOT_KEYS {
            self.keys.push((key.to_owned(), weight, 0.0));
            return;
        }
        let coldest = self.keys.iter_mut().min_by(|one, other| one.1.total_cmp(&other.1));
        if let Some(coldest) = coldest {
            *coldest = (key.to_owned(), coldest.1 + weight, coldest.1);
        }
    }

    /// The hottest key, with the share of the requests that it has at least.
    pub fn hottest(&self) -> Option<(&str, f64)> {
        let sure = |(key, count, error): &(String, f64, f64)| {
            (key.clone(), (count - error) / self.requests.max(1e-9))
        };
        let hottest =
            self.keys.iter().max_by(|one, other| sure(one).1.total_cmp(&sure(other).1))?;
        Some((&hottest.0, sure(hottest).1))
    }
}

/// One hour.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HourFigures {
    /// Hours since 1970.
    pub(crate) hour: u64,
    /// Units in all.
    pub(crate) units: f64,
    /// Units of its dearest second.
    pub(crate) peak: f64,
}

/// The last hours in which there were requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hours {
    pub(crate) of: VecDeque<HourFigures>,
    /// The second that is being added up, and its units.
    second: (u64, f64),
}

impl Hours {
    /// Counts a request: the units that it stands for, and those of its second, which are fewer where it stands for requests of a long time.
    pub fn add(&mut self, at_millis: u64, units: f64, of_second: f64) {
        let second = at_millis / 1000;
        if second > self.second.0 {
            self.second = (second, 0.0);
        }
        self.second.1 += of_second;
        let (hour, peak) = (second / 3600, self.second.1);
        match self.of.back_mut().filter(|last| last.hour >= hour) {
            Some(last) => {
                last.units += units;
                last.peak = last.peak.max(peak);
            }
            None => {
                self.of.push_back(HourFigures { hour, units, peak });
                if self.of.len() > HOURS_MAX {
                    self.of.pop_front();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hottest_key_is_found_among_many_others() {
        let mut keys = HotKeys::default();
        for number in 0..20_000 {
            keys.add(&format!("[{number}]"), 1.0);
            if number % 2 == 0 {
                keys.add("[\"hot\"]", 2.0);
            }
        }
        assert_eq!(keys.keys.len(), HOT_KEYS);
        let (key, share) = keys.hottest().unwrap();
        assert_eq!(key, "[\"hot\"]");
        assert!((0.45..=0.5).contains(&share), "{share}");
        let mut even = HotKeys::default();
        (0..20_000).for_each(|number| even.add(&format!("[{}]", number % 5_000), 1.0));
        assert!(even.hottest().unwrap().1 < 0.05);
    }

    #[test]
    fn hours_have_their_units_and_their_dearest_second() {
        let mut hours = Hours::default();
        for (second, units) in [(10, 5.0), (10, 6.0), (11, 3.0), (3_600, 1.0)] {
            hours.add(second * 1000, units, units);
        }
        let told: Vec<_> = hours.of.iter().map(|one| (one.hour, one.units, one.peak)).collect();
        assert_eq!(told, [(0, 14.0, 11.0), (1, 1.0, 1.0)]);
        (0..10 * HOURS_MAX as u64).for_each(|hour| hours.add(hour * 3_600_000, 1.0, 1.0));
        assert_eq!(hours.of.len(), HOURS_MAX);
    }
}
