//! JavaScript in a box with time and memory limits.
