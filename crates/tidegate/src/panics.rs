//! Panics of user code: caught, kept, and dropped without a second one.
//!
//! All user code runs inside [`quietly`]; what it owned is dropped by
//! [`drop_quietly`] where no outcome depends on it. Neither can help in a build
//! with `panic = "abort"`, nor when two destructors of *one* value panic during
//! the same unwinding: both end the process.

use std::any::Any;
use std::backtrace::Backtrace;
use std::borrow::Cow;
use std::cell::Cell;
use std::error::Error;
use std::fmt;
use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once, PoisonError};

/// A panic that a task died of: its message, its payload, and its backtrace if
/// [`capture_backtraces`] was called before.
///
/// You find it in `TaskError::Panicked`. Log the [`message`](Panic::message);
/// look into the payload if you panic with values of your own; or pass it on to
/// your caller with [`resume`](Panic::resume). Dropping it is safe even if the
/// payload's `Drop` panics.
pub struct Panic {
    // Boxed, so that a `TaskError` costs the good case one word.
    record: Box<PanicRecord>,
}

impl Panic {
    /// The text given to `panic!`; `Box<dyn Any>` for a payload that is not text.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.record.message
    }

    /// The payload, as [`std::thread::JoinHandle::join`] would give it.
    ///
    /// From here on its `Drop` is yours: it may panic.
    #[must_use]
    pub fn into_payload(mut self) -> Box<dyn Any + Send> {
        self.take_payload().expect("only methods that consume the panic take its payload")
    }

    /// Where it panicked, if [`capture_backtraces`] was called before.
    #[must_use]
    pub fn backtrace(&self) -> Option<&Backtrace> {
        self.record.backtrace.as_deref()
    }

    /// Goes on panicking here, with the same payload. The panic hook, which has
    /// printed its line already, is not called again.
    pub fn resume(mut self) -> ! {
        // If this is a task too, its panic is this one, seen from outside.
        capture::hand_on(self.record.backtrace.take());
        panic::resume_unwind(self.into_payload())
    }

    /// Drops it; true if the payload panicked in doing so.
    pub(crate) fn discard(mut self) -> bool {
        self.take_payload().is_some_and(drop_quietly)
    }

    fn new(payload: Payload, backtrace: Option<Box<Backtrace>>) -> Panic {
        let message = message_of(&*payload);
        let payload = Mutex::new(Some(payload));
        Panic { record: Box::new(PanicRecord { message, payload, backtrace }) }
    }

    fn take_payload(&mut self) -> Option<Payload> {
        self.record.payload.get_mut().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for Panic {
    fn drop(&mut self) {
        if let Some(payload) = self.take_payload() {
            drop_quietly(payload);
        }
    }
}

impl fmt::Debug for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Panic");
        out.field("message", &self.record.message);
        if let Some(backtrace) = self.backtrace() {
            out.field("backtrace", backtrace);
        }
        out.finish_non_exhaustive()
    }
}

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "panicked: {}", self.record.message)
    }
}

impl Error for Panic {}

/// From now on, in the whole process, keep a backtrace of each panic in a task.
///
/// Installs a panic hook, once, that records the backtrace and then calls the
/// hook that was there before; panics outside tasks only pass through. Call it
/// early in `main`, after any other code that sets a hook without keeping the
/// one before. A panic then costs a [`Backtrace::force_capture`] more, about 8 µs
/// on a shallow stack and 24 µs at 50 frames on our machine; without this call
/// the price is one relaxed load per task.
///
/// Does nothing on a thread that is panicking.
pub fn capture_backtraces() {
    // Changing the hook there would panic, and poison the `Once`.
    if !std::thread::panicking() {
        capture::install();
    }
}

/// Runs `f`; a panic in it becomes a value.
#[inline(always)]
pub(crate) fn quietly<R>(f: impl FnOnce() -> R) -> Result<R, Panic> {
    catch(f).map_err(|(payload, backtrace)| Panic::new(payload, backtrace))
}

/// For several pieces of work inside one [`quietly`]: a panic of the next one has no backtrace
/// of those before. Nothing to do unless [`is_captured`].
#[cold]
pub(crate) fn begin_next() {
    drop(capture::put(None));
}

/// Whether panics have backtraces.
pub(crate) fn is_captured() -> bool {
    capture::wanted()
}

/// Drops `value`; true if that panicked.
#[inline]
pub(crate) fn drop_quietly<T>(value: T) -> bool {
    match catch(move || drop(value)) {
        Ok(()) => false,
        Err((second, _)) => {
            // Its `Drop` may panic as well, and so on without end: the third is leaked.
            if let Err((third, _)) = catch(move || drop(second)) {
                mem::forget(third);
            }
            true
        }
    }
}

type Payload = Box<dyn Any + Send>;

struct PanicRecord {
    message: Cow<'static, str>,
    // A mutex only because it makes a `Send` payload `Sync`; never contended.
    payload: Mutex<Option<Payload>>,
    backtrace: Option<Box<Backtrace>>,
}

fn message_of(payload: &(dyn Any + Send)) -> Cow<'static, str> {
    if let Some(text) = payload.downcast_ref::<&'static str>() {
        Cow::Borrowed(text)
    } else if let Some(text) = payload.downcast_ref::<String>() {
        Cow::Owned(text.clone())
    } else {
        Cow::Borrowed("Box<dyn Any>")
    }
}

#[inline(always)]
fn catch<R>(f: impl FnOnce() -> R) -> Result<R, (Payload, Option<Box<Backtrace>>)> {
    let frame = capture::wanted().then(capture::enter);
    // Unwind safety: `f` is gone afterwards, and what it shares with others is
    // the user's to keep whole, as with a thread that panics.
    let result = panic::catch_unwind(AssertUnwindSafe(f));
    match result {
        Ok(value) => {
            if let Some(frame) = frame {
                drop(capture::leave(frame));
            }
            Ok(value)
        }
        Err(payload) => Err((payload, frame.and_then(capture::leave))),
    }
}

/// The way of a backtrace from the panic hook to the `catch` around it.
mod capture {
    use super::*;

    static WANTED: AtomicBool = AtomicBool::new(false);
    static INSTALL: Once = Once::new();

    thread_local! {
        /// How many `catch` this thread is in, since capturing is wanted.
        static DEPTH: Cell<usize> = const { Cell::new(0) };
        /// Of the latest panic inside the innermost `catch`.
        static LATEST: Cell<Option<Box<Backtrace>>> = const { Cell::new(None) };
    }

    /// What `LATEST` held for the `catch` around this one.
    pub(super) struct Frame(pub(super) Option<Box<Backtrace>>);

    pub(super) fn install() {
        INSTALL.call_once(|| {
            let previous = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                if inside() {
                    put(Some(Box::new(Backtrace::force_capture())));
                }
                previous(info);
            }));
            WANTED.store(true, Ordering::Relaxed);
        });
    }

    // Relaxed: nothing else is published by it. A `catch` that began before the
    // opt-in does not count as inside, and its panic has no backtrace.
    #[inline]
    pub(super) fn wanted() -> bool {
        WANTED.load(Ordering::Relaxed)
    }

    #[cold]
    pub(super) fn enter() -> Frame {
        let _ = DEPTH.try_with(|depth| depth.set(depth.get() + 1));
        Frame(put(None))
    }

    #[cold]
    pub(super) fn leave(frame: Frame) -> Option<Box<Backtrace>> {
        let _ = DEPTH.try_with(|depth| depth.set(depth.get() - 1));
        put(frame.0)
    }

    pub(super) fn hand_on(backtrace: Option<Box<Backtrace>>) {
        if backtrace.is_some() && inside() {
            put(backtrace);
        }
    }

    fn inside() -> bool {
        DEPTH.try_with(Cell::get).is_ok_and(|depth| depth > 0)
    }

    // `try_with`: user code may panic while thread-locals are being destroyed.
    pub(super) fn put(backtrace: Option<Box<Backtrace>>) -> Option<Box<Backtrace>> {
        LATEST.try_with(|latest| latest.replace(backtrace)).ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    /// Panics when dropped, with a payload that does the same one level less;
    /// `Grenade(0)` is spent.
    struct Grenade(usize);

    impl Drop for Grenade {
        fn drop(&mut self) {
            if let Some(less) = self.0.checked_sub(1) {
                panic::panic_any(Grenade(less));
            }
        }
    }

    fn grenade() -> Panic {
        quietly(|| panic::panic_any(Grenade(3))).unwrap_err()
    }

    #[test]
    fn the_message_is_the_text_of_the_panic() {
        let message = |f: fn()| quietly(f).unwrap_err().message().to_owned();
        assert_eq!(message(|| panic!("plain")), "plain");
        assert_eq!(message(|| panic!("{}", 7)), "7");
        assert_eq!(message(|| panic::panic_any(7_u8)), "Box<dyn Any>");
        assert_eq!(quietly(|| 7).unwrap(), 7);
    }

    #[test]
    fn the_payload_comes_out_as_it_went_in() {
        let panic = quietly(|| panic::panic_any(7_u8)).unwrap_err();
        assert_eq!(*panic.into_payload().downcast::<u8>().unwrap(), 7);
        let panic = quietly(|| panic::panic_any(8_u8)).unwrap_err();
        let again = quietly(|| panic.resume()).unwrap_err();
        assert_eq!(*again.into_payload().downcast::<u8>().unwrap(), 8);
    }

    #[test]
    fn a_payload_that_panics_in_drop_hurts_nobody() {
        drop(grenade());
        assert!(grenade().discard());
        assert!(drop_quietly(Grenade(3)));
        assert!(!drop_quietly(Grenade(0)));
        assert!(!quietly(|| panic!("tame")).unwrap_err().discard());
    }

    #[test]
    fn a_payload_that_panics_in_drop_hurts_nobody_while_unwinding() {
        let outer = quietly(|| {
            let _dropped_by_the_unwinding = grenade();
            panic!("outer");
        });
        assert_eq!(outer.unwrap_err().message(), "outer");
    }

    #[test]
    fn a_payload_is_dropped_once() {
        struct Counts(Arc<AtomicUsize>);
        impl Drop for Counts {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let drops = Arc::new(AtomicUsize::new(0));
        let panic = || quietly(|| panic::panic_any(Counts(drops.clone()))).unwrap_err();
        drop(panic());
        assert_eq!(drops.load(Ordering::Relaxed), 1);
        assert!(!panic().discard());
        assert_eq!(drops.load(Ordering::Relaxed), 2);
        drop(panic().into_payload());
        assert_eq!(drops.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn a_panic_can_be_shared_between_threads() {
        fn shared<T: Error + Send + Sync + Unpin + 'static>() {}
        shared::<Panic>();
        assert_eq!(size_of::<Panic>(), size_of::<usize>());
    }

    // One test, because the hook belongs to the process.
    #[test]
    fn backtraces_are_kept_for_panics_in_tasks_and_the_old_hook_still_runs() {
        static SEEN: AtomicUsize = AtomicUsize::new(0);
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if info.payload().is::<u128>() {
                SEEN.fetch_add(1, Ordering::Relaxed);
            }
            before(info);
        }));
        capture_backtraces();
        capture_backtraces();

        let panic = quietly(|| panic::panic_any(1_u128)).unwrap_err();
        assert!(panic.backtrace().is_some());
        assert_eq!(SEEN.load(Ordering::Relaxed), 1, "the hook chains, once");

        let outer = quietly(|| panic.resume()).unwrap_err();
        assert!(outer.backtrace().is_some(), "a panic passed on keeps where it was");

        let silent = quietly(|| {
            drop(quietly(|| panic!("inner")));
            assert!(drop_quietly(Grenade(1)));
            panic::resume_unwind(Box::new("no hook, no backtrace"));
        });
        assert!(silent.unwrap_err().backtrace().is_none(), "never that of another panic");

        let kept = quietly(|| {
            let own = panic::catch_unwind(|| panic!("the task catches this one itself"));
            let other = quietly(|| panic::resume_unwind(Box::new("no hook")));
            assert!(other.unwrap_err().backtrace().is_none(), "nor of the task around it");
            panic::resume_unwind(own.unwrap_err());
        });
        let kept = kept.unwrap_err();
        assert_eq!(kept.message(), "the task catches this one itself");
        assert!(kept.backtrace().is_some(), "given back to the task around it");

        let _ = panic::catch_unwind(|| panic!("not in a task"));
        let frame = capture::enter();
        assert!(frame.0.is_none(), "a panic outside tasks only passes through");
        capture::leave(frame);
    }
}
