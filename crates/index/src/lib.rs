//! Immutable segments over (path, value): the index of one partition.
