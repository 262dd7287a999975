//! An ordered byte map with snapshots and atomic batches behind one trait.
