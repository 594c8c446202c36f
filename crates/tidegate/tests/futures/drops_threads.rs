//! Futures of pools on threads that are dropped halfway, as those of `drops.rs` are: at every
//! await, before and after what they wait for has happened.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Instant;

use tidegate::{Budget, Cx, Group, Mode, Pool, Reason, Shutdown, Token, WhenFull};

use crate::cut::*;
use crate::kit::*;

/// A pool of one worker and one place, both taken.
struct Held {
    pool: Pool,
    gate: Gate,
    budget: Budget,
    group: Group<()>,
    /// Counts the drops of the work that the scene is about.
    work: Drops,
    /// Threads that wait for room as well, and must come to an end whoever leaves the line.
    behind: Rc<RefCell<Vec<JoinHandle<()>>>>,
}

/// What holds workers until it is opened.
#[derive(Clone, Default)]
struct Gate(Rc<RefCell<Vec<mpsc::Sender<()>>>>);

impl Gate {
    /// Holds every worker that is free, and takes the place behind them.
    fn fill(&self, pool: &Pool) {
        let now = pool.snapshot();
        for running in now.running + 1..=now.workers {
            let (go, word) = mpsc::channel();
            pool.try_spawn(move || _ = word.recv()).unwrap();
            spin_until("it runs", || pool.snapshot().running == running);
            self.0.borrow_mut().push(go);
        }
        pool.try_spawn(|| ()).unwrap();
    }

    fn open(&self) {
        drop(self.0.take());
    }
}

/// For what a thread does meanwhile.
fn spin_until(what: &str, fact: impl Fn() -> bool) {
    let deadline = Instant::now() + LONG;
    while !fact() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::yield_now();
    }
}

impl Held {
    fn new(policy: WhenFull) -> Held {
        let builder = Pool::builder("threads").workers(1).queue(1).when_full(policy);
        let pool = builder.on_unobserved(|_| ()).build().unwrap();
        let (budget, work) = (Budget::new("one", 1), Drops::default());
        // Where the policy does not wait, neither do permits; nothing is free.
        let weight = u64::from(policy == WhenFull::Wait);
        let group = pool.group().limit(1).budget(&budget, weight).start();
        let gate = Gate::default();
        gate.fill(&pool);
        Held { pool, gate, budget, group, work, behind: Rc::default() }
    }

    /// The worker goes on, and so does the task behind it.
    fn goes(&self) -> Event {
        let (gate, pool) = (self.gate.clone(), self.pool.clone());
        event(move || {
            gate.open();
            spin_until("they end", || pool.snapshot().completed >= 2);
        })
    }

    fn closure(&self) -> impl FnOnce() -> u32 + Send + use<> {
        let counted = self.work.clone();
        move || {
            let _counted = counted;
            7
        }
    }

    fn member(&self) -> impl FnOnce(&Cx) -> Result<(), ()> + Send + use<> {
        let closure = self.closure();
        move |_| {
            closure();
            Ok(())
        }
    }

    fn submits_behind(&self) -> Event {
        let (pool, behind) = (self.pool.clone(), Rc::clone(&self.behind));
        event(move || {
            let (own, before) = (pool.clone(), pool.snapshot().waiting_submitters);
            let waits = move || own.task("behind").submit(|_| ()).unwrap().wait().unwrap();
            behind.borrow_mut().push(std::thread::spawn(waits));
            spin_until("it waits", || pool.snapshot().waiting_submitters == before + 1);
        })
    }

    fn nobody_waits(&self) {
        let (now, behind) = (self.pool.snapshot(), self.behind.borrow().len() as u64);
        now.check().unwrap();
        assert!(now.waiting_submitters <= behind, "who was dropped still waits\n{now}");
        assert_eq!(self.budget.waiting(), 0, "who was dropped still waits");
    }

    /// As `nobody_waits`, and a submission that was dropped took its work along.
    fn left(&self, ready: bool) {
        self.nobody_waits();
        assert!(ready || self.work.0.load(SeqCst) == 1, "its work is still there");
    }

    /// Of a submission: it was accepted if it was ready, and only then.
    async fn accepted_if<T>(self, ready: Option<T>, others: u64) {
        finish(self.pool.wait_idle_async()).await.unwrap();
        for other in self.behind.take() {
            until("it has ended", || other.is_finished()).await;
            other.join().unwrap();
        }
        finish(self.pool.wait_idle_async()).await.unwrap();
        let now = self.pool.snapshot();
        assert_eq!(now.accepted, others + u64::from(ready.is_some()), "accepted, or not?\n{now}");
        assert_eq!((now.completed, now.refused.total()), (now.accepted, 0), "{now}");
        assert_eq!(self.work.0.load(SeqCst), 1, "its work was not dropped once");
        self.check_whole().await;
    }

    /// What is left when all is over is a pool that works.
    async fn check_whole(self) {
        let Held { pool, gate, budget, group, work, .. } = self;
        finish(pool.wait_idle_async()).await.unwrap();
        pool.assert_drained();
        assert_eq!((budget.in_use(), budget.waiting()), (0, 0), "permits are lost");
        assert_eq!(group.unsettled(), 0, "a slot is lost");
        finish(group.wait_async()).await.unwrap();
        // As many as there are places.
        gate.fill(&pool);
        assert_eq!(pool.try_submit(|| ()).map(drop).unwrap_err().reason(), Reason::Full);
        gate.open();
        let report = finish(pool.shutdown_async(Shutdown::light())).await.unwrap();
        assert!(report.is_success(), "{report}");
        drop((group, pool));
        assert_eq!(Arc::strong_count(&work.0), 1, "somebody still has the work");
    }
}

fn nothing() -> Event {
    event(|| ())
}

// ---------------------------------------------------------------- submissions

#[test]
fn hazard_68_a_closure_that_waits_for_room_is_dropped_at_every_await() {
    for policy in [WhenFull::Wait, WhenFull::CallerRuns] {
        let scene = async || {
            let world = Held::new(policy);
            let (pool, work) = (world.pool.clone(), world.closure());
            let future = Box::pin(async move { pool.submit_async(work).await.unwrap().detach() });
            let behind = match policy {
                WhenFull::Wait => world.submits_behind(),
                _ => nothing(), // a thread would run it itself
            };
            let events = vec![behind, nothing(), world.goes()];
            Scene { world, future, events }
        };
        let others = if policy == WhenFull::Wait { 3 } else { 2 };
        let at_last = async |world: Held, ready| world.accepted_if(ready, others).await;
        cut_everywhere(3, scene, Held::left, at_last);
    }
}

/// Two budgets, then the line.
#[test]
fn hazard_68_a_closure_with_all_there_is_is_dropped_at_every_await() {
    let scene = async || {
        let world = Held::new(WhenFull::Wait);
        let other = Budget::new("other", 1);
        let [one, two] = [&world.budget, &other].map(|budget| {
            let permit = budget.try_acquire(1).unwrap();
            event(move || drop(permit))
        });
        let (pool, work, budget) = (world.pool.clone(), world.closure(), world.budget.clone());
        let held = Arc::clone(&world.work.0);
        let future = Box::pin(async move {
            let token = Token::new();
            let task = pool.task("all").timeout(LONG).queue_timeout(LONG).wait_at_most(LONG);
            let task = task.budget(&budget, 1).budget(&other, 1).cancel_with(&token);
            let task = task.on_outcome(move |_| drop(held));
            task.submit_async(move |_| work()).await.unwrap().detach();
        });
        let events = vec![world.submits_behind(), one, nothing(), two, world.goes()];
        Scene { world, future, events }
    };
    let at_last = async |world: Held, ready| world.accepted_if(ready, 3).await;
    cut_everywhere(4, scene, Held::left, at_last);
}

/// A slot, then a budget, then the line. (Under CallerRuns no budget, but it waits for room.)
#[test]
fn hazard_68_a_member_on_threads_is_dropped_at_every_await() {
    for policy in [WhenFull::Wait, WhenFull::CallerRuns] {
        let scene = async || {
            let world = Held::new(policy);
            world.pool.resize(2).unwrap();
            until("the queue is empty", || world.pool.snapshot().queued == 0).await;
            let (go, word) = mpsc::channel();
            let first = move |_: &Cx| {
                word.recv().unwrap();
                Ok(())
            };
            world.group.try_submit(first).unwrap();
            until("it runs", || world.pool.snapshot().running == 2).await;
            let (group, work) = (world.group.clone(), world.member());
            let future = Box::pin(async move { group.submit_async(work).await.unwrap() });
            let permit = Rc::new(RefCell::new(None));
            let (group, budget, taken) =
                (world.group.clone(), world.budget.clone(), Rc::clone(&permit));
            let (pool, gate) = (world.pool.clone(), world.gate.clone());
            // The slot is free, but the permit and all room are gone.
            let slot = event(move || {
                go.send(()).unwrap();
                let ended = || group.unsettled() == 0 && pool.snapshot().completed == 2;
                spin_until("it has ended", ended);
                *taken.borrow_mut() = Some(budget.try_acquire(1).unwrap());
                gate.fill(&pool);
            });
            let free = event(move || drop(permit.take()));
            let events = vec![slot, nothing(), free, world.goes()];
            Scene { world, future, events }
        };
        let at_once = |world: &Held, ready| {
            world.left(ready);
            let first = usize::from(world.pool.snapshot().completed == 1);
            assert!(ready || world.group.unsettled() == first, "its slot is still taken");
        };
        let at_last = async |world: Held, ready| world.accepted_if(ready, 5).await;
        cut_everywhere(4, scene, at_once, at_last);
    }
}

#[test]
fn hazard_68_a_submission_to_a_stream_of_threads_is_dropped_at_every_await() {
    let scene = async || {
        let world = Held::new(WhenFull::Wait);
        let stream = Rc::new(RefCell::new(Some(world.pool.stream::<u32, ()>(2))));
        let (own, work) = (Rc::clone(&stream), world.closure());
        let future = Box::pin(async move {
            let mut stream = Returned::take(own);
            stream.get().submit_result_async(move || Ok(work())).await.unwrap();
        });
        let events = vec![world.submits_behind(), nothing(), world.goes()];
        Scene { world: (world, stream), future, events }
    };
    let at_once = |(world, _): &(Held, _), ready| world.left(ready);
    cut_everywhere(3, scene, at_once, async |(world, stream), ready| {
        let mut stream = stream.take().expect("the future is gone");
        assert_eq!(stream.in_flight(), usize::from(ready.is_some()), "its window is short");
        let found = finish(stream.next_async()).await;
        assert_eq!(found.map(|done| done.outcome.unwrap()), ready.map(|()| 7));
        drop(stream);
        world.accepted_if(ready, 3).await;
    });
}

// ---------------------------------------------------------------- waits

#[test]
fn hazard_68_a_wait_for_a_task_on_a_thread_is_dropped_at_every_await() {
    let scene = async || {
        let world = Held::new(WhenFull::Wait);
        world.pool.resize(2).unwrap();
        until("the queue is empty", || world.pool.snapshot().queued == 0).await;
        let (go, word) = mpsc::channel();
        let (pool, work) = (world.pool.clone(), world.closure());
        let handle = pool.try_submit(move || {
            word.recv().unwrap();
            work()
        });
        let handle = handle.unwrap();
        let future = Box::pin(async move { assert_eq!(handle.await.unwrap(), 7) });
        let ends = event(move || {
            go.send(()).unwrap();
            spin_until("it ends", || pool.snapshot().completed == 2);
        });
        let events = vec![nothing(), ends, world.goes()];
        Scene { world, future, events }
    };
    let at_once = |world: &Held, _| world.nobody_waits();
    cut_everywhere(2, scene, at_once, async |world, _| world.accepted_if(Some(()), 2).await);
}

#[test]
fn hazard_68_a_wait_for_a_group_on_threads_is_dropped_at_every_await() {
    let scene = async || {
        let world = Held::new(WhenFull::Wait);
        happens(world.goes()).await;
        let group = world.pool.group().start::<()>();
        let mut events = vec![nothing()];
        for n in 1..=2 {
            let (go, word) = mpsc::channel();
            let member = move |_: &Cx| {
                word.recv().unwrap();
                Ok(())
            };
            finish(group.submit_async(member)).await.unwrap();
            let pool = world.pool.clone();
            events.push(event(move || {
                go.send(()).unwrap();
                spin_until("it ends", || pool.snapshot().completed == 2 + n);
            }));
        }
        let own = group.clone();
        let future = Box::pin(async move { own.wait_async().await.unwrap() });
        Scene { world: (world, group), future, events }
    };
    let at_once = |(world, group): &(Held, Group<()>), ready| {
        world.nobody_waits();
        assert!(ready || !group.token().is_cancelled(), "a wait that was dropped ended it");
    };
    cut_everywhere(3, scene, at_once, async |(world, group), _| {
        finish(group.wait_async()).await.unwrap();
        assert_eq!((group.unsettled(), world.pool.snapshot().completed), (0, 4));
        drop(group);
        world.check_whole().await;
    });
}

#[test]
fn hazard_68_a_wait_until_threads_are_idle_is_dropped_at_every_await() {
    let scene = async || {
        let world = Held::new(WhenFull::Wait);
        let pool = world.pool.clone();
        let future = Box::pin(async move { pool.wait_idle_async().await.unwrap() });
        let events = vec![nothing(), world.goes()];
        Scene { world, future, events }
    };
    let at_once = |world: &Held, ready: bool| {
        world.nobody_waits();
        assert!(!ready || world.pool.snapshot().completed == 2, "it was not idle");
    };
    cut_everywhere(2, scene, at_once, async |world, _| world.check_whole().await);
}

#[test]
fn hazard_68_the_next_of_a_stream_of_threads_is_dropped_at_every_await() {
    let scene = async || {
        let world = Held::new(WhenFull::Wait);
        happens(world.goes()).await;
        let mut stream = world.pool.stream::<u32, ()>(2);
        let mut events = vec![nothing()];
        for n in 1..=2 {
            let (go, word) = mpsc::channel();
            let task = move || {
                word.recv().unwrap();
                Ok(n)
            };
            finish(stream.submit_result_async(task)).await.unwrap();
            events.push(event(move || go.send(()).unwrap()));
        }
        let stream = Rc::new(RefCell::new(Some(stream)));
        let own = Rc::clone(&stream);
        let future = Box::pin(async move {
            let mut stream = Returned::take(own);
            stream.get().next_async().await.unwrap().outcome.unwrap()
        });
        Scene { world: (world, stream), future, events }
    };
    let at_once = |(world, _): &(Held, _), _| world.nobody_waits();
    cut_everywhere(2, scene, at_once, async |(world, stream), ready| {
        let mut stream = stream.take().expect("the future is gone");
        let mut found: Vec<u32> = ready.into_iter().collect();
        while let Some(done) = finish(stream.next_async()).await {
            found.push(done.outcome.unwrap());
        }
        assert_eq!(found, [1, 2], "each once");
        drop(stream);
        world.check_whole().await;
    });
}

/// What a future has only borrowed: it comes back when that is dropped.
struct Returned<T>(Option<T>, Rc<RefCell<Option<T>>>);

impl<T> Returned<T> {
    fn take(from: Rc<RefCell<Option<T>>>) -> Self {
        Returned(from.take(), from)
    }

    fn get(&mut self) -> &mut T {
        self.0.as_mut().expect("it is there until the end")
    }
}

impl<T> Drop for Returned<T> {
    fn drop(&mut self) {
        self.1.replace(self.0.take());
    }
}

// ---------------------------------------------------------------- the end of a pool

#[test]
fn hazard_19_a_shutdown_of_threads_is_dropped_at_every_await_and_goes_on() {
    for how in [Shutdown::light(), Shutdown::soft(), Shutdown::hard()] {
        let scene = async || {
            let world = Held::new(WhenFull::Wait);
            let closing = world.pool.shutdown_async(how);
            let future = Box::pin(async move { drop(closing.await.unwrap()) });
            let gate = world.gate.clone();
            Scene { world, future, events: vec![nothing(), event(move || gate.open())] }
        };
        let at_once = |world: &Held, _| world.pool.snapshot().check().unwrap();
        cut_everywhere(2, scene, at_once, async |world, _| {
            let report = finish(world.pool.shutdown_async(how)).await.unwrap();
            assert!(report.is_success(), "{report}");
            world.pool.assert_drained();
            let cancelled = u64::from(how.mode() != Mode::Light);
            assert_eq!(world.pool.snapshot().cancelled, cancelled, "{how:?}");
        });
    }
}
