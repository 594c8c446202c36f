//! Wakers of callers are user code (O5): what theirs do when they are cloned or dropped hurts no
//! task, nor who waits beside them.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};

use tidegate::Pool;

use crate::cut::*;
use crate::kit::*;
use crate::world::*;

type Hook = Box<dyn Fn() + Send + Sync>;

/// Its clones are alike. One hook is called before each clone, the other by each drop.
struct Hooks {
    cloned: Hook,
    dropped: Hook,
}

fn hooked_waker(hooks: Hooks) -> Waker {
    static TABLE: RawWakerVTable = RawWakerVTable::new(clone, forget, |_| (), forget);
    fn clone(data: *const ()) -> RawWaker {
        let hooks = data.cast::<Hooks>();
        // SAFETY: a waker that lives owns a share of it.
        unsafe {
            ((*hooks).cloned)();
            Arc::increment_strong_count(hooks);
        }
        RawWaker::new(data, &TABLE)
    }
    fn forget(data: *const ()) {
        // SAFETY: the share of a waker that is over.
        let hooks = unsafe { Arc::from_raw(data.cast::<Hooks>()) };
        (hooks.dropped)();
    }
    let data = Arc::into_raw(Arc::new(hooks)).cast();
    // SAFETY: the functions are those of such an Arc, whose hooks may be sent and shared.
    unsafe { Waker::from_raw(RawWaker::new(data, &TABLE)) }
}

/// Panics so many times, from when it is set.
#[derive(Clone, Default)]
struct Panics(Arc<AtomicUsize>);

impl Panics {
    fn hook(&self) -> Hook {
        let panics = self.clone();
        Box::new(move || {
            let left = panics.0.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1));
            assert!(left.is_err(), "a waker panics");
        })
    }

    fn left(&self) -> usize {
        self.0.load(SeqCst)
    }
}

fn sour_waker() -> (Waker, Panics) {
    let panics = Panics::default();
    (hooked_waker(Hooks { cloned: Box::new(|| ()), dropped: panics.hook() }), panics)
}

fn is_ready<F: Future + ?Sized>(future: Pin<&mut F>, waker: &Waker) -> Option<F::Output> {
    match future.poll(&mut Context::from_waker(waker)) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

#[test]
fn o5_a_waker_that_panics_when_dropped_does_not_take_back_a_future_that_was_let_in() {
    on_each(|| async {
        let world = World::full().await;
        let (pool, drops) = (&world.pool, || world.drops());
        let mut submission = Box::pin(pool.submit(world.work()));
        let (waker, panics) = sour_waker();
        assert!(is_ready(submission.as_mut(), &waker).is_none());
        world.gate.0.add_permits(1);
        until("there is room", || pool.snapshot().queued == 0).await;
        panics.0.store(1, SeqCst);
        let handle = is_ready(submission.as_mut(), &waker).expect("it is let in").unwrap();
        assert_eq!(panics.left(), 0, "its waker was dropped");
        drop(submission);
        assert_eq!(drops(), 0, "it is the pool's");
        world.gate.0.add_permits(1);
        assert_eq!(handle.await.unwrap(), 7);
        assert_eq!(drops(), 1);
        let now = pool.snapshot();
        assert_eq!((now.waiting_submitters, now.callback_panics), (0, 1), "{now}");
        now.check().unwrap();
    });
}

#[test]
fn o5_a_waker_that_panics_whenever_it_is_dropped_ends_a_wait_for_room_in_peace() {
    on_each(|| async {
        let world = World::full().await;
        let mut submission = Box::pin(world.pool.submit(world.work()));
        // Each has a waker of its own in the line, and the first is dropped for the second.
        let ((first, early), (second, late)) = (sour_waker(), sour_waker());
        early.0.store(100, SeqCst);
        assert!(is_ready(submission.as_mut(), &first).is_none());
        assert!(is_ready(submission.as_mut(), &second).is_none());
        assert!(early.left() < 100, "it was dropped");
        late.0.store(100, SeqCst);
        drop(submission);
        assert!(late.left() < 100, "it was dropped");
        for panics in [&early, &late] {
            panics.0.store(0, SeqCst);
        }
        assert_eq!((world.drops(), world.pool.snapshot().waiting_submitters), (1, 0));
        world.pool.snapshot().check().unwrap();
    });
}

#[test]
fn o5_a_waker_that_panics_when_dropped_does_not_take_back_a_closure_that_was_let_in() {
    on_each(|| async {
        let pool = Pool::builder("sour").workers(1).queue(1).on_unobserved(|_| ()).build().unwrap();
        let stays = || {
            let (opens, open) = std::sync::mpsc::channel::<()>();
            pool.submit(move || open.recv().is_err()).unwrap().detach();
            opens
        };
        let running = stays();
        until("it runs", || pool.snapshot().running == 1).await;
        let queued = stays();
        let work = Drops::default();
        let counted = work.clone();
        let mut submission = Box::pin(pool.submit_async(move || drop(counted)));
        let (waker, panics) = sour_waker();
        assert!(is_ready(submission.as_mut(), &waker).is_none());
        drop(running);
        until("there is room", || pool.snapshot().queued == 0).await;
        panics.0.store(1, SeqCst);
        let handle = is_ready(submission.as_mut(), &waker).expect("it is let in").unwrap();
        drop(submission);
        assert_eq!((panics.left(), work.0.load(SeqCst)), (0, 0), "it is the pool's");
        drop(queued);
        handle.await.unwrap();
        assert_eq!(work.0.load(SeqCst), 1);
        assert_eq!(pool.snapshot().callback_panics, 1);
        pool.snapshot().check().unwrap();
    });
}

#[test]
fn o5_a_waker_that_panics_when_cloned_leaves_nobody_in_line() {
    for clones in 0..6 {
        on_each(|| async {
            let world = World::full().await;
            let (pool, panics, cloned) =
                (&world.pool, Panics::default(), Arc::new(AtomicUsize::new(0)));
            let (fails, counted) = (panics.hook(), Arc::clone(&cloned));
            panics.0.store(1, SeqCst);
            let at_last = move || {
                if counted.fetch_add(1, SeqCst) == clones {
                    fails();
                }
            };
            let hooks = Hooks { cloned: Box::new(at_last), dropped: Box::new(|| ()) };
            let waker = hooked_waker(hooks);
            let mut submission = Box::pin(pool.submit(world.work()));
            let polled = catch_unwind(AssertUnwindSafe(|| is_ready(submission.as_mut(), &waker)));
            assert_eq!(polled.is_err(), panics.left() == 0);
            drop(submission);
            assert_eq!((world.drops(), pool.snapshot().waiting_submitters), (1, 0));
            // Whoever comes next is told of room.
            let next = pool.submit(async { 5 });
            world.gate.0.add_permits(2);
            assert_eq!(next.await.unwrap().await.unwrap(), 5);
            pool.snapshot().check().unwrap();
        });
    }
}
