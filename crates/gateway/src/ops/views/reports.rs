//! Reports of labs that were sent to this server, in memory.

use crate::limits::{LAB_REPORT_SIZE_MAX, LAB_REPORTS_MAX};
use crate::wire;
use armilla_model::value::{Object, Value};
use armilla_model::{Error, Result};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Bytes of a report's name.
const NAME_LENGTH_MAX: usize = 128;

/// The reports by name.
#[derive(Default)]
pub(crate) struct Reports(Mutex<BTreeMap<String, Bytes>>);

impl Reports {
    pub(super) fn list(&self) -> Object {
        let names = self.0.lock().keys().map(|name| Value::from(name.as_str())).collect();
        Object::of([("reports", Value::array(names))])
    }

    pub(super) fn read(&self, name: &str) -> Result<Bytes> {
        let missing = || Error::NotFound(format!("There is no report '{name}' of a lab here."));
        self.0.lock().get(name).cloned().ok_or_else(missing)
    }

    /// Keeps a report, which must say `designs`; one of the same name goes.
    pub(super) fn write(&self, name: &str, body: &Bytes) -> Result<()> {
        if body.len() > LAB_REPORT_SIZE_MAX || name.len() > NAME_LENGTH_MAX {
            return Err(Error::bad_request(
                "A report of a lab is at most 1 MB, its name 128 bytes.",
            ));
        }
        if wire::object(body)?.as_object().is_none_or(Object::is_empty) {
            return Err(Error::bad_request("The report of a lab is empty."));
        }
        let mut reports = self.0.lock();
        if !reports.contains_key(name) && reports.len() >= LAB_REPORTS_MAX {
            return Err(Error::bad_request(format!(
                "There are {LAB_REPORTS_MAX} reports already; they go when the server stops."
            )));
        }
        reports.insert(name.to_owned(), body.clone());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_bounded_in_size_and_number() {
        let reports = Reports::default();
        let body = Bytes::from_static(br#"{"a":1}"#);
        for number in 0..LAB_REPORTS_MAX {
            reports.write(&number.to_string(), &body).unwrap();
        }
        assert!(reports.write("more", &body).is_err());
        assert!(reports.write("1", &body).is_ok());
        assert_eq!(reports.read("1").unwrap(), body);
        assert!(reports.read("more").is_err());
        assert!(reports.write("1", &Bytes::from(vec![b' '; LAB_REPORT_SIZE_MAX + 1])).is_err());
        for bad in ["{}", "[]", "", "1"] {
            assert!(reports.write("1", &Bytes::from_static(bad.as_bytes())).is_err(), "{bad}");
        }
    }
}
