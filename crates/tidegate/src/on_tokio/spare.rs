//! The memory of the last small future that was ready at once, for the next of its size.
//!
//! A future must stay where it was polled first, so it needs a place of its own; most need it for
//! one poll. Each thread keeps one such place.

use std::alloc::{Layout, dealloc};
use std::cell::Cell;
use std::pin::Pin;
use std::ptr::NonNull;

use crate::sync::per_thread;

/// A place that the global allocator gave for `layout`, and that nobody uses.
struct Place {
    at: NonNull<u8>,
    layout: Layout,
}

impl Drop for Place {
    fn drop(&mut self) {
        // SAFETY: as its fields say.
        unsafe { dealloc(self.at.as_ptr(), self.layout) }
    }
}

per_thread! {
    static SPARE: Cell<Option<Place>> = Cell::new(None);
}

/// As `Box::new`, in the spare place if it suits.
#[inline(always)]
pub(super) fn boxed<T>(value: T) -> Box<T> {
    let layout = Layout::new::<T>();
    let spare = SPARE.try_with(Cell::take).ok().flatten();
    match spare.filter(|place| place.layout == layout) {
        None => Box::new(value),
        Some(place) => {
            let at = place.at.cast::<T>();
            std::mem::forget(place);
            // SAFETY: nobody uses it, and it is what a box of `T` would have been given.
            unsafe {
                at.write(value);
                Box::from_raw(at.as_ptr())
            }
        }
    }
}

/// Drops what is in the box, where it is, and keeps its place.
#[inline(always)]
pub(super) fn recycle<T>(value: Pin<Box<T>>) {
    let layout = Layout::new::<T>();
    // SAFETY: it is dropped where it is, once; what is left is a place that a box was given.
    unsafe {
        let at = NonNull::new_unchecked(Box::into_raw(Pin::into_inner_unchecked(value)));
        // Frees itself: if the destructor panics, and on a thread that is about to end.
        let place = (layout.size() > 0).then(|| Place { at: at.cast(), layout });
        at.drop_in_place();
        let _ = SPARE.try_with(|spare| spare.set(place));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_place_is_used_again_by_what_has_its_size_and_alignment() {
        let at = |value: &[u64; 3]| std::ptr::from_ref(value).addr();
        let first = boxed([1_u64, 2, 3]);
        let place = at(&first);
        recycle(Box::into_pin(first));
        let second = boxed([4_u64, 5, 6]);
        assert_eq!((at(&second), *second), (place, [4, 5, 6]));
        let third = boxed([7_u64, 8, 9]);
        assert_ne!(at(&third), place, "it is in use");
        recycle(Box::into_pin(second));
        #[repr(align(64))]
        struct Wide([u64; 3]);
        let other = boxed(Wide([1; 3]));
        assert_eq!((std::ptr::from_ref(&*other).addr() % 64, other.0), (0, [1; 3]));
        recycle(Box::into_pin(other));
        recycle(Box::into_pin(third)); // instead of the other one, which is freed
        recycle(Box::pin(())); // has no place
        recycle(Box::into_pin(boxed(())));
    }

    #[test]
    fn what_is_recycled_is_dropped_once() {
        let counted = Arc::new(());
        for _ in 0..3 {
            let value = boxed((Arc::clone(&counted), 7_u64));
            assert_eq!(Arc::strong_count(&counted), 2);
            recycle(Box::into_pin(value));
            assert_eq!(Arc::strong_count(&counted), 1);
        }
    }

    #[test]
    fn o5_a_destructor_that_panics_loses_the_place_and_no_more() {
        struct Panics(u64);
        impl Drop for Panics {
            fn drop(&mut self) {
                assert_eq!(self.0, 0, "on purpose");
            }
        }
        let recycled = crate::panics::quietly(|| recycle(Box::into_pin(boxed(Panics(1)))));
        assert!(recycled.is_err());
        recycle(Box::into_pin(boxed(Panics(0))));
    }
}
