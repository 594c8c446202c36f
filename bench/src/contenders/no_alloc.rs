//! A reference, no peer: what a hand-written pool reaches that stores its
//! closures in the channel itself, if they are small. One that is never run
//! would leak.

use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{self, JoinHandle};

use crossbeam_channel::{Receiver, Sender, bounded};

use super::Contender;
use super::by_oneshot::results_by_oneshot;

const WORDS: usize = 7;

/// A closure in place: 64 bytes with the function that runs it.
struct InlineJob {
    call: unsafe fn(&mut [MaybeUninit<u64>; WORDS]),
    closure: [MaybeUninit<u64>; WORDS],
}

// SAFETY: only `in_place` makes one, and it asks for a closure that is `Send`.
unsafe impl Send for InlineJob {}

impl InlineJob {
    #[inline]
    fn new<F: FnOnce() + Send + 'static>(task: F) -> Self {
        if fits::<F>() {
            return InlineJob::in_place(task);
        }
        InlineJob::in_place(Box::new(task))
    }

    #[inline]
    fn in_place<F: FnOnce() + Send + 'static>(task: F) -> Self {
        assert!(fits::<F>(), "the caller has looked");
        let mut closure = [MaybeUninit::uninit(); WORDS];
        // SAFETY: size and alignment were checked above; nothing else owns the words.
        unsafe { closure.as_mut_ptr().cast::<F>().write(task) };
        InlineJob { call: call::<F>, closure }
    }

    #[inline]
    fn run(mut self) {
        // SAFETY: `in_place` wrote the closure of this very function, and `self`
        // is gone afterwards, so it is read once.
        unsafe { (self.call)(&mut self.closure) }
    }
}

const fn fits<F>() -> bool {
    size_of::<F>() <= WORDS * 8 && align_of::<F>() <= align_of::<u64>()
}

/// # Safety
/// `words` must hold an `F`, which this takes out.
unsafe fn call<F: FnOnce()>(words: &mut [MaybeUninit<u64>; WORDS]) {
    // SAFETY: the caller promises that there is an `F`.
    let task = unsafe { words.as_ptr().cast::<F>().read() };
    task();
}

pub(crate) struct NoAlloc {
    sender: Sender<InlineJob>,
    threads: Vec<JoinHandle<()>>,
}

impl Contender for NoAlloc {
    results_by_oneshot!();

    fn new(workers: usize, queue: usize) -> Self {
        let (sender, receiver) = bounded(queue);
        let start = |_| {
            let receiver: Receiver<InlineJob> = receiver.clone();
            thread::spawn(move || {
                for job in receiver {
                    let _ = catch_unwind(AssertUnwindSafe(|| job.run()));
                }
            })
        };
        NoAlloc { sender, threads: (0..workers).map(start).collect() }
    }

    #[inline]
    fn spawn<F: FnOnce() + Send + 'static>(&self, task: F) {
        if self.sender.send(InlineJob::new(task)).is_err() {
            panic!("the workers outlive the sender");
        }
    }

    fn join(self) {
        drop(self.sender);
        for thread in self.threads {
            thread.join().expect("a worker catches its tasks' panics");
        }
    }
}
