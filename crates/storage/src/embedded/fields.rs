//! Fixed-length fields at the beginning of bytes.

/// What is left of the bytes.
pub(super) struct Fields<'bytes>(pub(super) &'bytes [u8]);

impl<'bytes> Fields<'bytes> {
    pub(super) fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    pub(super) fn slice(&mut self, length: usize) -> Option<&'bytes [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }
}
