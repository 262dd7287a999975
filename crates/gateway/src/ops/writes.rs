//! Item writes.
