//! Where bytes are read into.
//!
//! The kernel copies a page at a time. Where that lands 16 bytes behind the start of a page it takes
//! about four times as long, on the machines we have measured, and that is just where an allocator
//! puts a large block. So a buffer begins at a line of its own, away from the start of the page.

use std::cell::RefCell;

const PAGE: usize = 4096;
const LINE: usize = 64;
/// How far behind the start of a page it begins.
const BEHIND: usize = 8 * LINE;

/// A block of bytes that begins at a good place.
#[derive(Debug, Default)]
struct Buffer {
    bytes: Vec<u8>,
    begin: usize,
}

impl Buffer {
    fn of(&mut self, len: usize) -> &mut [u8] {
        if self.bytes.len() < self.begin + len || self.bytes.is_empty() {
            self.bytes = vec![0; len + PAGE + BEHIND];
            let address = self.bytes.as_ptr().addr();
            self.begin = address.next_multiple_of(PAGE) + BEHIND - address;
        }
        let buffer = &mut self.bytes[self.begin..self.begin + len];
        debug_assert_eq!(buffer.as_ptr().addr() % PAGE, BEHIND);
        buffer
    }
}

thread_local! {
    static BUFFER: RefCell<Buffer> = RefCell::default();
}

/// Calls `f` with a buffer of this thread. Not from inside another such call.
pub fn with_buffer<R>(len: usize, f: impl FnOnce(&mut [u8]) -> R) -> R {
    BUFFER.with_borrow_mut(|buffer| f(buffer.of(len)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_buffer_begins_at_a_line_away_from_the_start_of_a_page() {
        for len in [1, 100, 4096, 65_537, 256 << 10, 1 << 20, 3 << 20] {
            with_buffer(len, |buffer| {
                assert_eq!(buffer.len(), len);
                assert_eq!(buffer.as_ptr().addr() % LINE, 0);
                assert_ne!(buffer.as_ptr().addr() % PAGE, 0);
                assert_ne!(buffer.as_ptr().addr() % PAGE, 16);
            });
        }
    }
}
