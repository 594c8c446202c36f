//! Tokens: one cancel that reaches tasks, submitters, pools, futures and child tokens.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::clock::Clock;
use crate::core::Core;
use crate::event::{drop_waker, wake_quietly};
use crate::frames;
use crate::life::CellRef;
use crate::outcome::Cause;
use crate::parker::with_parker;
use crate::settle::{self, Who};
use crate::sync::Lock;
use crate::sync::atomic::AtomicBool;
use crate::sync::atomic::Ordering::SeqCst;

/// Tells any number of tasks, waits and pools to stop.
///
/// Clones are the same token. A [`child`](Token::child) is cancelled with its parent,
/// never the other way round. Cancelling is a request: a queued task settles as
/// cancelled and frees its place, a running one is told through its
/// [`Cx`](crate::Cx), a submitter that waits for room is refused.
///
/// Price: registering a task with a token is one short lock section when it is accepted, for a
/// future three; no allocation once warm. A token forgets tasks that are over when it knows twice
/// as many as were not over the last time that it did so, or 64.
///
/// ```
/// use tidegate::{Pool, Shutdown, Token};
///
/// let pool = Pool::builder("crawl").workers(2).build()?;
/// let request = Token::new();
/// let page = pool.task("fetch").cancel_with(&request).submit(|cx| {
///     while !cx.stopping() {
///         std::thread::yield_now();
///     }
///     "stopped early"
/// })?;
/// request.cancel();
/// let _ = page.wait(); // cancelled in the queue, or "stopped early"
/// pool.shutdown(Shutdown::default())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct Token {
    node: Arc<Node>,
}

#[derive(Default)]
pub(crate) struct Node {
    cancelled: AtomicBool,
    listeners: Lock<Listeners>,
    /// Where this node is registered as a child, to unregister when it goes (hazard 52).
    parent: Option<(Arc<Node>, usize)>,
}

#[derive(Default)]
struct Listeners {
    tasks: Tasks,
    /// A slab: keys stay valid while others come and go, and slots are reused.
    slots: Vec<Option<Listener>>,
    free: Vec<usize>,
}

/// Tasks that it cancels, and some that are over. Nobody takes a task off when it ends: that
/// would cost its worker a lock that the submitters share. A reference to a task that is over
/// does nothing, so these are thrown out when they may be as many as the others were last time.
#[derive(Default)]
struct Tasks {
    list: Vec<(CellRef, Cause)>,
    /// When the list is so long, what is over goes.
    sweep_at: usize,
}

impl Tasks {
    fn add(&mut self, cell: CellRef, cause: Cause) {
        if self.list.len() >= self.sweep_at {
            self.list.retain(|(cell, _)| cell.is_open());
            self.sweep_at = (2 * self.list.len()).max(FEW);
        }
        self.list.push((cell, cause));
    }
}

/// So many are never swept.
const FEW: usize = 64;

pub(crate) enum Listener {
    Waker(Waker),
    Child(Weak<Node>),
    Pool(Weak<Core>),
}

/// Keeps a listener registered; dropping it unregisters.
pub(crate) struct Registration {
    node: Arc<Node>,
    key: usize,
}

impl Token {
    /// A token of its own, with no parent.
    pub fn new() -> Token {
        Token::default()
    }

    /// A token that is cancelled with this one, and can be cancelled alone.
    ///
    /// Dropped, it leaves the tasks that it was given to to this one.
    pub fn child(&self) -> Token {
        // Two steps would let a cancel slip between them; `new_cyclic` gives us the weak
        // reference to register before the node exists.
        let node = Arc::new_cyclic(|weak| {
            let key = self.node.add(Listener::Child(Weak::clone(weak)));
            Node {
                cancelled: AtomicBool::new(key.is_none()),
                listeners: Lock::default(),
                parent: key.map(|key| (Arc::clone(&self.node), key)),
            }
        });
        // A cancel between registering and here could not upgrade the weak reference.
        if self.is_cancelled() {
            cancel_all(Arc::clone(&node));
        }
        Token { node }
    }

    /// Cancels this token and all its children. Later calls do nothing.
    ///
    /// Never runs the code of tasks: what was queued is settled by the pool's reaper.
    /// Wakers of futures that wait for the token are woken here.
    pub fn cancel(&self) {
        cancel_all(Arc::clone(&self.node));
    }

    /// True once cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.node.cancelled.load(SeqCst)
    }

    /// A future that is ready once the token is cancelled; on any runtime.
    pub fn cancelled(&self) -> Cancelled {
        Cancelled { token: self.clone(), registration: None }
    }

    /// Blocks this thread until the token is cancelled.
    ///
    /// # Panics
    /// As [`wait_timeout`](Token::wait_timeout).
    pub fn wait(&self) {
        self.wait_timeout(Duration::MAX);
    }

    /// Blocks for at most `limit`; true if the token was cancelled.
    ///
    /// # Panics
    /// If it has to wait inside a poll of a pool's future. There is [`cancelled`](Token::cancelled).
    pub fn wait_timeout(&self, limit: Duration) -> bool {
        if self.is_cancelled() {
            return true;
        }
        frames::must_not_poll("a wait for a token", "await `cancelled`");
        let clock = Clock::system();
        let deadline = clock.now().after(limit);
        with_parker(|parker, waker| {
            let _registered = self.register(Listener::Waker(waker.clone()));
            while !self.is_cancelled() {
                if !parker.park_until(&clock, deadline) {
                    return self.is_cancelled();
                }
            }
            true
        })
    }

    /// From now on it cancels this task; false if the token is cancelled already.
    pub(crate) fn cancels(&self, cell: CellRef, cause: Cause) -> bool {
        let mut listeners = self.node.listeners.lock();
        // Under the lock: as in `Node::add`.
        let live = !self.is_cancelled();
        if live {
            listeners.tasks.add(cell, cause);
        }
        live
    }

    /// None if the token is cancelled already.
    pub(crate) fn register(&self, listener: Listener) -> Option<Registration> {
        let key = self.node.add(listener)?;
        Some(Registration { node: Arc::clone(&self.node), key })
    }

    /// How many listeners there are, to show that none leaks.
    #[cfg(test)]
    pub(crate) fn listeners(&self) -> usize {
        let listeners = self.node.listeners.lock();
        listeners.tasks.list.len() + listeners.slots.iter().flatten().count()
    }
}

impl Node {
    fn add(&self, listener: Listener) -> Option<usize> {
        let mut listeners = self.listeners.lock();
        // Under the lock: `cancel_all` sets the flag before it empties the list.
        if self.cancelled.load(SeqCst) {
            return None;
        }
        let key = listeners.free.pop().unwrap_or(listeners.slots.len());
        if key == listeners.slots.len() {
            listeners.slots.push(Some(listener));
        } else {
            listeners.slots[key] = Some(listener);
        }
        Some(key)
    }

    fn remove(&self, key: usize) {
        let old = {
            let mut listeners = self.listeners.lock();
            // After a cancel the list is empty: nothing to remove.
            let old = listeners.slots.get_mut(key).and_then(Option::take);
            if old.is_some() {
                listeners.free.push(key);
            }
            old
        };
        if let Some(Listener::Waker(waker)) = old {
            drop_waker(waker); // a user's: outside the lock
        }
    }

    /// Cancels the tasks of a child that is gone from now on, or at once if it is cancelled.
    fn adopt(&self, mut tasks: Vec<(CellRef, Cause)>) {
        tasks.retain(|(cell, _)| cell.is_open());
        if tasks.is_empty() {
            return;
        }
        let mut listeners = self.listeners.lock();
        // Under the lock: as in `add`.
        if !self.cancelled.load(SeqCst) {
            tasks.drain(..).for_each(|(cell, cause)| listeners.tasks.add(cell, cause));
        }
        drop(listeners);
        cancel_tasks(tasks);
    }

    /// What one that goes leaves behind, and to whom, if it has a parent.
    fn heritage(&mut self) -> Option<(Arc<Node>, usize, Vec<(CellRef, Cause)>)> {
        let (parent, key) = self.parent.take()?;
        Some((parent, key, std::mem::take(&mut self.listeners.lock().tasks.list)))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let mut heritage = self.heritage();
        while let Some((parent, key, tasks)) = heritage {
            parent.remove(key);
            // A task outlives the token that it was given, and still hears those above it.
            parent.adopt(tasks);
            // If we were the last to hold it, its own parent follows: here, not by
            // recursion, however long the chain is.
            heritage = Arc::into_inner(parent).and_then(|mut node| node.heritage());
        }
    }
}

/// Cancels a node and, without recursion, everything below it.
fn cancel_all(node: Arc<Node>) {
    let mut todo = vec![node];
    while let Some(node) = todo.pop() {
        let listeners = {
            let mut listeners = node.listeners.lock();
            if node.cancelled.swap(true, SeqCst) {
                continue;
            }
            std::mem::take(&mut *listeners)
        };
        cancel_tasks(listeners.tasks.list);
        for listener in listeners.slots.into_iter().flatten() {
            match listener {
                Listener::Waker(waker) => wake_quietly([waker]),
                Listener::Child(child) => todo.extend(child.upgrade()),
                Listener::Pool(core) => {
                    if let Some(core) = core.upgrade() {
                        core.parent_cancelled();
                    }
                }
            }
        }
    }
}

fn cancel_tasks(mut tasks: Vec<(CellRef, Cause)>) {
    // To ask for the pool of one that is over would find that of the cell's next life.
    tasks.retain(|(cell, _)| cell.is_open());
    // Queued tasks first, all of them: a worker that the stop of a running one sets free
    // must not find one. Whether it is queued is decided by its claim, not by a look.
    tasks.retain(|(cell, cause)| !settle::cancel_queued(*cell, *cause, Who::Watcher));
    for (cell, cause) in tasks {
        settle::cancel(cell, cause, Who::Watcher);
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.node.remove(self.key);
    }
}

/// Ready once the token is cancelled; see [`Token::cancelled`].
pub struct Cancelled {
    token: Token,
    registration: Option<Registration>,
}

impl Future for Cancelled {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.token.is_cancelled() {
            return Poll::Ready(());
        }
        // A fresh registration replaces (and drops) the one of the last poll.
        self.registration = self.token.register(Listener::Waker(cx.waker().clone()));
        if self.registration.is_none() { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Token").field("cancelled", &self.is_cancelled()).finish()
    }
}
impl std::fmt::Debug for Cancelled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cancelled").field("token", &self.token).finish()
    }
}

#[cfg(all(test, not(any(tidegate_loom, tidegate_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_child_follows_its_parent_and_not_the_reverse() {
        let parent = Token::new();
        let (a, b) = (parent.child(), parent.child());
        a.cancel();
        assert!(a.is_cancelled() && !parent.is_cancelled() && !b.is_cancelled());
        parent.cancel();
        assert!(b.is_cancelled());
        assert!(parent.child().is_cancelled(), "a child of a cancelled token is cancelled");
    }

    #[test]
    fn hazard_52_children_leave_nothing_behind() {
        let parent = Token::new();
        for _ in 0..1_000 {
            drop(parent.child().child());
        }
        assert_eq!(parent.listeners(), 0);
        assert!(parent.node.listeners.lock().slots.len() <= 1, "slots are reused");
    }

    #[test]
    fn hazard_52_tasks_that_are_over_are_forgotten() -> Result<(), Box<dyn std::error::Error>> {
        let pool = crate::Pool::builder("tokens").workers(1).build()?;
        let token = Token::new();
        for round in 0..1_000 {
            let task = pool.task("").cancel_with(&token).submit(|_| ())?;
            assert!(token.listeners() <= FEW, "{} after {round}", token.listeners());
            task.wait()?;
        }
        // With a gate in the way none is over, and none is forgotten.
        let gate = Token::new();
        let shut = gate.clone();
        let held = pool.submit(move || shut.wait())?;
        let submit = |_| pool.task("").cancel_with(&token).submit(|_| ());
        let waiting = (0..10 * FEW).map(submit).collect::<Result<Vec<_>, _>>()?;
        assert!(token.listeners() >= waiting.len());
        token.cancel();
        for task in waiting {
            assert!(task.wait().unwrap_err().is_cancelled());
        }
        gate.cancel();
        held.wait()?;
        pool.shutdown(crate::Shutdown::default())?;
        Ok(())
    }

    #[test]
    fn hazard_52_children_leave_only_tasks_that_are_not_over()
    -> Result<(), Box<dyn std::error::Error>> {
        let pool = crate::Pool::builder("tokens").workers(1).build()?;
        let parent = Token::new();
        for round in 0..1_000 {
            let child = parent.child();
            let task = pool.task("").cancel_with(&child).submit(|_| ())?;
            if round % 2 == 0 {
                drop(child); // its task may be over, or not
                task.wait()?;
            } else {
                task.wait()?;
                drop(child);
            }
            assert!(parent.listeners() <= FEW, "{} after {round}", parent.listeners());
        }
        pool.shutdown(crate::Shutdown::default())?;
        Ok(())
    }

    /// As if its child had been about to go when it was cancelled.
    #[test]
    fn a_token_that_is_cancelled_cancels_what_a_child_leaves()
    -> Result<(), Box<dyn std::error::Error>> {
        let pool = crate::Pool::builder("tokens").workers(1).build()?;
        let (started, is_started) = std::sync::mpsc::channel();
        let running = pool.task("").submit(move |cx| {
            started.send(()).expect("the test waits for it");
            cx.token().wait();
        })?;
        is_started.recv()?;
        let queued = pool.submit(|| ())?;
        let parent = Token::new();
        parent.cancel();
        let cells = [&running, &queued].into_iter().filter_map(|task| task.cell());
        parent.node.adopt(cells.map(|cell| (cell, Cause::Token)).collect());
        assert!(queued.wait().unwrap_err().is_cancelled());
        running.wait()?; // it was told
        pool.shutdown(crate::Shutdown::default())?;
        Ok(())
    }

    #[test]
    fn a_task_that_is_over_does_not_cancel_the_next_in_its_cell()
    -> Result<(), Box<dyn std::error::Error>> {
        let pool = crate::Pool::builder("tokens").workers(1).build()?;
        let token = Token::new();
        let mut cells = Vec::new();
        for _ in 0..FEW / 2 {
            let task = pool.task("").cancel_with(&token).submit(|_| ())?;
            cells.extend(task.cell().map(CellRef::number));
            task.wait()?;
        }
        let gate = Token::new();
        let shut = gate.clone();
        let running = pool.submit(move || shut.wait())?;
        let queued = (0..FEW).map(|_| pool.submit(|| ())).collect::<Result<Vec<_>, _>>()?;
        let again = queued.iter().chain([&running]).filter_map(|task| task.cell());
        assert!(again.into_iter().any(|cell| cells.contains(&cell.number())), "none was reused");
        token.cancel();
        gate.cancel();
        running.wait()?;
        for task in queued {
            task.wait()?;
        }
        pool.shutdown(crate::Shutdown::default())?;
        Ok(())
    }

    #[test]
    fn a_deep_chain_is_cancelled_without_recursion() {
        let root = Token::new();
        let mut leaf = root.clone();
        for _ in 0..50_000 {
            leaf = leaf.child();
        }
        root.cancel();
        assert!(leaf.is_cancelled());
    }

    #[test]
    fn a_wait_ends_with_the_cancel() {
        let token = Token::new();
        assert!(!token.wait_timeout(Duration::ZERO));
        let other = token.clone();
        let waiter = std::thread::spawn(move || other.wait());
        token.cancel();
        waiter.join().unwrap();
    }
}
