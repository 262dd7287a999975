// Copyright (c) 2025-present, fjall-rs
// This source code is licensed under both the Apache 2.0 and MIT License
// (found in the LICENSE-* files in the repository)

pub struct Reader<'a> {
    bytes: &'a [u8],
    step_size: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8], offset: u32, len: u32, step_size: u8) -> Self {
        let offset = offset as usize;
        let len = len as usize;
        let step_size = step_size as usize;
        let size = len * step_size;
        let end = offset + size;

        Self {
            #[expect(
                clippy::indexing_slicing,
                reason = "we consider the caller to be trustworthy"
            )]
            bytes: &bytes[offset..end],
            step_size,
        }
    }

    pub fn len(&self) -> usize {
        self.bytes.len() / self.step_size
    }

    #[inline]
    pub(crate) fn get(&self, idx: usize) -> usize {
        let offset = idx * self.step_size;

        #[expect(
            clippy::indexing_slicing,
            reason = "we consider the caller to be trustworthy"
        )]
        // armilla: without the detour through a reader
        let bytes = &self.bytes[offset..offset + self.step_size];

        match *bytes {
            [low, high] => u16::from_le_bytes([low, high]).into(),
            [a, b, c, d] => u32::from_le_bytes([a, b, c, d]) as usize,
            _ => 0,
        }
    }
}
