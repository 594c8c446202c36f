//! Panics that a test makes on purpose stay off the terminal; the message of
//! one that ends a test is kept for its line.

use std::cell::RefCell;
use std::panic::{self, PanicHookInfo, panic_any};
use std::sync::Once;

use crate::ctx::Skip;

/// A message with this in it was meant to happen.
pub const DELIBERATE: &str = "[deliberate]";

/// A payload that is not a string; see [`deliberate_panic`] for one that is.
#[derive(Debug)]
pub struct Deliberate<T>(pub T);

impl<T: Send + 'static> Deliberate<T> {
    /// Panics with `payload` wrapped, without a message.
    pub fn raise(payload: T) -> ! {
        // The hook knows strings only; this mark covers the one panic to come.
        EXPECTED.with(|expected| *expected.borrow_mut() = true);
        panic_any(Deliberate(payload))
    }
}

thread_local! {
    static EXPECTED: RefCell<bool> = const { RefCell::new(false) };
    static LAST: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Panics with a message that the quiet hook does not print.
pub fn deliberate_panic(what: &str) -> ! {
    panic!("{DELIBERATE} {what}")
}

/// Installs the hook once per process; other panics go to the hook that was there.
pub fn install_quiet_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let loud = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if is_expected(info) {
                return;
            }
            remember(info);
            loud(info);
        }));
    });
}

/// The message of the last panic on this thread that was not deliberate.
pub(crate) fn take_last_panic() -> Option<String> {
    LAST.with(|last| last.borrow_mut().take())
}

fn is_expected(info: &PanicHookInfo<'_>) -> bool {
    let marked = EXPECTED.try_with(|expected| expected.replace(false)).unwrap_or(false);
    let said = info.payload_as_str().is_some_and(|message| message.contains(DELIBERATE));
    marked || said || info.payload().is::<Skip>()
}

fn remember(info: &PanicHookInfo<'_>) {
    let place =
        info.location().map(|at| format!(" ({}:{})", at.file(), at.line())).unwrap_or_default();
    let message = info.payload_as_str().unwrap_or("a payload without a message");
    let _ = LAST.try_with(|last| *last.borrow_mut() = Some(format!("{message}{place}")));
}
