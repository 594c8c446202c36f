//! Futures of ours that are dropped halfway: at every await, before and after what they wait
//! for has happened. Whatever they held is free again, and nobody else notices. Those of pools on
//! threads are in `drops_threads.rs`.

use std::cell::RefCell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use futures_util::StreamExt;
use tidegate::{Budget, MapError, Mode, Permit, Shutdown, Token, WhenFull};
use tokio::sync::Mutex;

use crate::cut::*;
use crate::kit::*;
use crate::world::*;

// ---------------------------------------------------------------- submissions

#[test]
fn hazard_68_a_submission_that_waits_for_room_is_dropped_at_every_await() {
    let scene = async || {
        let world = World::full().await;
        let (pool, work) = (world.pool.clone(), world.work());
        let future = Box::pin(async move { pool.submit(work).await.unwrap().detach() });
        let events = vec![world.submits_behind(), nothing(), world.gate.opens()];
        Scene { world, future, events }
    };
    cut_everywhere(3, scene, World::left, async |world, ready| world.accepted_if(ready, 3).await);
}

/// Two budgets, then the line: three places to be dropped in, and what was taken on the way.
#[test]
fn hazard_68_a_task_with_all_there_is_is_dropped_at_every_await() {
    let scene = async || {
        let mut world = World::full().await;
        let ((one, frees_one), (two, frees_two)) = (world.taken_budget(), world.taken_budget());
        let (pool, work, held) = (world.pool.clone(), world.work(), Arc::clone(&world.work.0));
        let future = Box::pin(async move {
            let token = Token::new();
            let task = pool.task("all").timeout(SECOND).queue_timeout(SECOND).cancel_with(&token);
            let task = task.budget(&one, 1).budget(&two, 1).wait_at_most(10 * SECOND);
            let task = task.on_outcome(move |_| drop(held));
            task.submit(move |_| work).await.unwrap().detach();
        });
        let events =
            vec![world.submits_behind(), frees_one, nothing(), frees_two, world.gate.opens()];
        Scene { world, future, events }
    };
    cut_everywhere(5, scene, World::left, async |world, ready| world.accepted_if(ready, 3).await);
}

/// A slot, then a budget, then the line.
#[test]
fn hazard_68_a_member_is_dropped_at_every_await() {
    let scene = async || {
        let mut world = World::full().await;
        world.grow(3).await;
        let budget = Budget::new("one", 1);
        world.budgets.push(budget.clone());
        let group = world.pool.group().limit(1).budget(&budget, 1).start::<()>();
        world.group = Some(group.clone());
        let (slot, permit) = (Gate::new(), Gate::new());
        let passes = slot.pass();
        let first = async move {
            passes.await;
            Ok(())
        };
        group.try_submit(first).unwrap();
        until("it runs", || world.pool.snapshot().running == 3).await;
        world.pool.try_spawn(world.gate.pass()).unwrap();
        // Takes the permit of the first as soon as that ends, and keeps it for a while.
        let passes = permit.pass();
        let keeps = world.comes_behind(move || async move {
            let _permit = budget.acquire_async(1).await.unwrap();
            passes.await;
        });
        happens(keeps).await;
        let work = world.member();
        let future = Box::pin(async move { group.submit(work).await.unwrap() });
        let (pool, passes) = (world.pool.clone(), world.gate.pass());
        let no_room = event(move || pool.try_spawn(passes).unwrap());
        let events = vec![slot.opens(), no_room, permit.opens(), world.gate.opens()];
        Scene { world, future, events }
    };
    let at_once = |world: &World, ready| {
        world.left(ready);
        let first = usize::from(world.pool.snapshot().completed == 0);
        let unsettled = world.group.as_ref().unwrap().unsettled();
        assert!(ready || unsettled == first, "its slot is still taken");
    };
    cut_everywhere(4, scene, at_once, async |world, ready| world.accepted_if(ready, 5).await);
}

/// The submission polls the task itself: once that has begun, dropping one is dropping both.
#[test]
fn hazard_68_a_caller_that_runs_its_task_is_dropped_at_every_await() {
    let scene = async || {
        let world = World::full_with(1, WhenFull::CallerRuns).await;
        let (pool, work) = (world.pool.clone(), world.work());
        let (first, second) = (Gate::new(), Gate::new());
        let gates = [first.pass(), second.pass()];
        let future = Box::pin(async move {
            let task = async move {
                for gate in gates {
                    gate.await;
                }
                work.await
            };
            assert_eq!(pool.submit(task).await.unwrap().await.unwrap(), 7);
        });
        let events = vec![first.opens(), nothing(), second.opens(), world.gate.opens()];
        Scene { world, future, events }
    };
    cut_everywhere(4, scene, World::left, async |world, ready| {
        finish(world.pool.wait_idle()).await.unwrap();
        let now = world.pool.snapshot();
        assert_eq!(now.completed, 2 + u64::from(ready.is_some()), "{now}");
        assert_eq!(now.cancelled, now.on_caller - u64::from(ready.is_some()), "{now}");
        world.check_whole().await;
    });
}

/// As above, with a slot that must not stay behind, nor be given back twice.
#[test]
fn hazard_68_a_caller_that_runs_a_member_is_dropped_at_every_await() {
    let scene = async || {
        let mut world = World::full_with(1, WhenFull::CallerRuns).await;
        let group = world.pool.group().limit(1).start::<()>();
        world.group = Some(group.clone());
        let (gate, work) = (Gate::new(), world.member());
        let passes = gate.pass();
        let future = Box::pin(async move {
            let member = async move {
                passes.await;
                work.await
            };
            group.submit(member).await.unwrap();
        });
        let events = vec![nothing(), gate.opens(), world.gate.opens()];
        Scene { world, future, events }
    };
    let at_once = |world: &World, ready| {
        world.left(ready);
        assert_eq!(world.group.as_ref().unwrap().unsettled(), 0, "its slot is still taken");
    };
    cut_everywhere(3, scene, at_once, async |world, ready| {
        finish(world.pool.wait_idle()).await.unwrap();
        let (now, ready) = (world.pool.snapshot(), u64::from(ready.is_some()));
        assert_eq!(now.completed, 2 + ready, "{now}");
        assert_eq!(now.cancelled, now.on_caller - ready, "{now}");
        world.check_whole().await;
    });
}

// ---------------------------------------------------------------- waits

/// How a handle is awaited.
#[derive(Clone, Copy, PartialEq)]
enum Waits {
    ByValue,
    CancelOnDrop,
}

#[test]
fn hazard_68_a_wait_for_a_handle_is_dropped_at_every_await() {
    for how in [Waits::ByValue, Waits::CancelOnDrop] {
        let scene = async || {
            let world = World::full().await;
            // Queued at first, then running.
            world.gate.0.add_permits(1);
            rest().await;
            let (gate, work) = (Gate::new(), world.work());
            let passes = gate.pass();
            let task = world.pool.try_submit(async move {
                passes.await;
                work.await
            });
            let task = task.unwrap();
            let future: Boxed<u32> = match how {
                Waits::ByValue => Box::pin(async { task.await.unwrap() }),
                Waits::CancelOnDrop => {
                    let task = task.cancel_on_drop();
                    Box::pin(async { task.await.unwrap() })
                }
            };
            let events = vec![nothing(), world.gate.opens(), gate.opens()];
            Scene { world, future, events }
        };
        let at_once = |world: &World, _| world.nobody_waits();
        cut_everywhere(3, scene, at_once, async |world, ready| {
            until("it is gone", || world.drops() == 1).await;
            finish(world.pool.wait_idle()).await.unwrap();
            let (now, ready) = (world.pool.snapshot(), ready == Some(7));
            // The last cut is after the end of the task and before the poll that takes it.
            let cancelled = now.cancelled == 1;
            assert!(!(cancelled && (ready || how == Waits::ByValue)), "{now}");
            assert_eq!((now.accepted, now.completed + now.cancelled), (3, 3), "{now}");
            world.check_whole().await;
        });
    }
}

/// The wait goes, the handle stays.
#[test]
fn hazard_68_a_wait_by_reference_is_dropped_and_the_handle_still_gives_the_value() {
    let scene = async || {
        let world = World::full().await;
        let pool = world.pool.clone();
        let handle = Rc::new(RefCell::new(None));
        let (own, work) = (Rc::clone(&handle), world.work());
        happens(world.gate.opens()).await;
        let gate = Gate::new();
        let passes = gate.pass();
        let task = pool.try_submit(async move {
            passes.await;
            work.await
        });
        *handle.borrow_mut() = Some(task.unwrap());
        let future: Boxed<u32> = Box::pin(async move {
            std::future::poll_fn(|cx| match own.borrow_mut().as_mut() {
                Some(handle) => Pin::new(handle).poll(cx),
                None => unreachable!("it is taken at the end"),
            })
            .await
            .unwrap()
        });
        Scene { world: (world, handle), future, events: vec![nothing(), gate.opens()] }
    };
    let at_once = |(world, _): &(World, _), _| world.nobody_waits();
    cut_everywhere(2, scene, at_once, async |(world, handle), ready| {
        let handle = handle.borrow_mut().take().unwrap();
        match ready {
            Some(value) => assert_eq!(value, 7),
            None => assert_eq!(finish(handle).await.unwrap(), 7),
        }
        world.check_whole().await;
    });
}

#[test]
fn hazard_68_a_wait_for_a_group_is_dropped_at_every_await() {
    let scene = async || {
        let mut world = World::full_with(3, WhenFull::Wait).await;
        happens(world.gate.opens()).await;
        let group = world.pool.group().start::<()>();
        world.group = Some(group.clone());
        let (one, two) = (Gate::new(), Gate::new());
        for gate in [&one, &two] {
            let passes = gate.pass();
            let member = async move {
                passes.await;
                Ok(())
            };
            finish(group.submit(member)).await.unwrap();
        }
        let future = Box::pin(async move { group.wait().await.unwrap() });
        let events = vec![nothing(), one.opens(), two.opens()];
        Scene { world, future, events }
    };
    let at_once = |world: &World, _| world.nobody_waits();
    cut_everywhere(3, scene, at_once, async |world, _| {
        assert_eq!(world.pool.snapshot().completed, 6);
        world.check_whole().await;
    });
}

#[test]
fn hazard_68_a_wait_for_idleness_is_dropped_at_every_await() {
    let scene = async || {
        let world = World::full().await;
        let pool = world.pool.clone();
        let future = Box::pin(async move { pool.wait_idle().await });
        let (gate, one) = (world.gate.clone(), world.gate.clone());
        let one = event(move || one.0.add_permits(1));
        Scene { world, future, events: vec![nothing(), one, gate.opens()] }
    };
    let at_once = |world: &World, _| world.nobody_waits();
    cut_everywhere(3, scene, at_once, async |world, _| world.check_whole().await);
}

/// Two permits come back one after the other; somebody light waits behind.
#[test]
fn hazard_55_an_acquire_is_dropped_at_every_await() {
    let scene = async || {
        let mut world = World::full().await;
        happens(world.gate.opens()).await;
        let budget = Budget::new("two", 2);
        world.budgets.push(budget.clone());
        let permits = [budget.try_acquire(1).unwrap(), budget.try_acquire(1).unwrap()];
        let [one, two] = permits.map(|permit: Permit| event(move || drop(permit)));
        let light = budget.clone();
        let behind = world.comes_behind(move || async move {
            drop(light.acquire_async(1).await.unwrap());
        });
        let future = Box::pin(async move { drop(budget.acquire_async(2).await.unwrap()) });
        Scene { world, future, events: vec![behind, one, nothing(), two] }
    };
    let at_once = |world: &World, _| world.nobody_waits();
    cut_everywhere(4, scene, at_once, async |world, _| world.check_whole().await);
}

// ---------------------------------------------------------------- streams

/// The numbers up to it.
struct UpTo(u32, u32);
impl Stream for UpTo {
    type Item = u32;
    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<u32>> {
        self.0 += 1;
        Poll::Ready((self.0 <= self.1).then_some(self.0))
    }
}

type Numbers = Pin<Box<dyn Stream<Item = Result<u32, MapError<()>>>>>;

/// In order, or as they come.
#[derive(Clone, Copy, Debug)]
enum Gives {
    InOrder,
    AsCompleted,
}

/// A map over three numbers in a pool without room. Each item holds what counts the work.
async fn mapped(gives: Gives) -> (World, Numbers, Vec<Event>) {
    let world = World::full().await;
    let (gate, held) = (Gate::new(), Arc::clone(&world.work.0));
    let each = [gate.clone(), gate.clone(), gate.clone()];
    let map = world.pool.map(UpTo(0, 3), 2, move |n| {
        let (passes, held) = (gate.pass(), Arc::clone(&held));
        async move {
            let _held = held;
            passes.await;
            Ok(n)
        }
    });
    let mut events = vec![nothing(), world.gate.opens()];
    events.extend(each.map(|gate| event(move || gate.0.add_permits(1))));
    let map: Numbers = match gives {
        Gives::InOrder => Box::pin(map),
        Gives::AsCompleted => Box::pin(map.as_completed().map(|(_, item)| item)),
    };
    (world, map, events)
}

/// What `next` left behind is where it was. (One worker: they come in order either way.)
#[test]
fn hazard_68_the_next_of_a_map_is_dropped_at_every_await() {
    for gives in [Gives::InOrder, Gives::AsCompleted] {
        let scene = async || {
            let (world, map, events) = mapped(gives).await;
            let map = Rc::new(Mutex::new(map));
            let own = Rc::clone(&map);
            let future = Box::pin(async move {
                let mut map = own.try_lock().unwrap();
                next(map.as_mut()).await.unwrap().unwrap()
            });
            Scene { world: (world, map), future, events }
        };
        let at_once = |(world, _): &(World, _), _| world.pool.snapshot().check().unwrap();
        cut_everywhere(3, scene, at_once, async |(world, map), ready| {
            let mut map = Rc::into_inner(map).expect("the future is gone").into_inner();
            let mut found: Vec<u32> = ready.into_iter().collect();
            while let Some(item) = finish(next(map.as_mut())).await {
                found.push(item.unwrap());
            }
            assert_eq!(found, [1, 2, 3], "each once, and in order; {gives:?}");
            drop(map);
            world.check_whole().await;
        });
    }
}

/// It takes along what waits for room, and cancels the rest.
#[test]
fn hazard_68_a_map_is_dropped_at_every_await() {
    for gives in [Gives::InOrder, Gives::AsCompleted] {
        let scene = async || {
            let (world, mut map, events) = mapped(gives).await;
            let future = Box::pin(async move {
                while let Some(item) = next(map.as_mut()).await {
                    item.unwrap();
                }
            });
            Scene { world, future, events }
        };
        let at_once = |world: &World, _| world.nobody_waits();
        cut_everywhere(5, scene, at_once, async |world, ready| {
            finish(world.pool.wait_idle()).await.unwrap();
            let now = world.pool.snapshot();
            assert_eq!(now.completed + now.cancelled, now.accepted, "{gives:?}: {now}");
            assert!(ready.is_none() || now.completed == 5, "{gives:?}: {now}");
            world.check_whole().await;
        });
    }
}

#[test]
fn hazard_68_a_submission_to_a_stream_is_dropped_at_every_await() {
    let scene = async || {
        let world = World::full().await;
        let stream = Rc::new(Mutex::new(world.pool.stream::<(), ()>(2)));
        let (own, work) = (Rc::clone(&stream), world.member());
        let future = Box::pin(async move {
            own.try_lock().unwrap().submit(work).await.unwrap();
        });
        let events = vec![world.submits_behind(), nothing(), world.gate.opens()];
        Scene { world: (world, stream), future, events }
    };
    let at_once = |(world, _): &(World, _), ready| world.left(ready);
    cut_everywhere(3, scene, at_once, async |(world, stream), ready| {
        let mut stream = Rc::into_inner(stream).expect("the future is gone").into_inner();
        assert_eq!(stream.in_flight(), usize::from(ready.is_some()), "its window is short");
        let found = finish(next(pin!(&mut stream))).await;
        assert_eq!(found.map(|done| done.outcome.unwrap()), ready);
        drop(stream);
        world.accepted_if(ready, 3).await;
    });
}

/// A task that was begun here and dropped with its submission has an outcome that nobody asked
/// for: the stream must not take it for that of the next one.
#[test]
fn hazard_68_a_stream_forgets_a_task_that_was_dropped_with_its_caller() {
    let scene = async || {
        let world = World::full_with(1, WhenFull::CallerRuns).await;
        let stream = Rc::new(Mutex::new(world.pool.stream::<u32, ()>(3)));
        let (own, work, gate) = (Rc::clone(&stream), world.work(), Gate::new());
        let passes = gate.pass();
        let future = Box::pin(async move {
            let task = async move {
                passes.await;
                Ok(work.await)
            };
            own.try_lock().unwrap().submit(task).await.unwrap();
        });
        let events = vec![nothing(), gate.opens(), world.gate.opens()];
        Scene { world: (world, stream), future, events }
    };
    let at_once = |(world, _): &(World, _), ready| world.left(ready);
    cut_everywhere(3, scene, at_once, async |(world, stream), ready| {
        let mut stream = Rc::into_inner(stream).expect("the future is gone").into_inner();
        let gate = Gate::new();
        let passes = gate.pass();
        let task = async move {
            passes.await;
            Ok(8)
        };
        finish(stream.submit(task)).await.unwrap();
        gate.0.add_permits(1);
        let mut found = Vec::new();
        while let Some(done) = finish(next(pin!(&mut stream))).await {
            found.push(done.outcome.unwrap());
        }
        assert_eq!(found, if ready.is_some() { vec![7, 8] } else { vec![8] });
        drop(stream);
        world.check_whole().await;
    });
}

#[test]
fn hazard_68_the_next_of_a_stream_is_dropped_at_every_await() {
    let scene = async || {
        let world = World::full().await;
        happens(world.gate.opens()).await;
        let mut stream = world.pool.stream::<u32, ()>(2);
        let gates = [Gate::new(), Gate::new()];
        for (n, gate) in (1..).zip(&gates) {
            let passes = gate.pass();
            let task = async move {
                passes.await;
                Ok(n)
            };
            finish(stream.submit(task)).await.unwrap();
        }
        let stream = Rc::new(Mutex::new(stream));
        let own = Rc::clone(&stream);
        let future = Box::pin(async move {
            let mut stream = own.try_lock().unwrap();
            next(pin!(&mut *stream)).await.unwrap().outcome.unwrap()
        });
        let events = vec![nothing(), gates[0].opens(), gates[1].opens()];
        Scene { world: (world, stream), future, events }
    };
    let at_once = |(world, _): &(World, _), _| world.nobody_waits();
    cut_everywhere(2, scene, at_once, async |(world, stream), ready| {
        let mut stream = Rc::into_inner(stream).expect("the future is gone").into_inner();
        let mut found: Vec<u32> = ready.into_iter().collect();
        while let Some(done) = finish(next(pin!(&mut stream))).await {
            found.push(done.outcome.unwrap());
        }
        assert_eq!(found, [1, 2], "each once");
        drop(stream);
        world.check_whole().await;
    });
}

// ---------------------------------------------------------------- the end of a pool

/// Each way, and one whose time runs out.
fn endings() -> [Shutdown; 4] {
    let in_time = Shutdown::light().within(SECOND);
    [Shutdown::light(), Shutdown::soft(), Shutdown::hard(), in_time]
}

#[test]
fn hazard_19_a_shutdown_is_dropped_at_every_await_and_goes_on() {
    for how in endings() {
        let late = how.mode() == Mode::Light && how != Shutdown::light();
        let scene = async || {
            let world = World::full().await;
            let held = Arc::clone(&world.work.0);
            let passes = world.gate.pass();
            let behind = async move {
                let _held = held;
                passes.await;
            };
            world.grow(2).await;
            world.pool.try_spawn(behind).unwrap();
            let closing = world.pool.shutdown(how);
            let future = Box::pin(async move { closing.await.unwrap() });
            let pool = world.pool.clone();
            let stops = once("it stops what it has to", move || {
                let now = pool.snapshot();
                match how.mode() {
                    Mode::Light => !late || now.running == 0,
                    Mode::Soft => now.queued == 0,
                    _ => now.queued + now.running == 0,
                }
            });
            let events = match late {
                true => vec![Event::Later(SECOND), stops, world.gate.opens()],
                false => vec![stops, world.gate.opens()],
            };
            Scene { world, future, events }
        };
        let at_once = |world: &World, _| world.pool.snapshot().check().unwrap();
        cut_everywhere(1, scene, at_once, async |world, ready| {
            let report = finish(world.pool.shutdown(how)).await.unwrap();
            assert!(ready.is_none_or(|first| first == report), "everybody gets the same");
            let now = world.pool.snapshot();
            now.assert_drained();
            let (completed, cancelled) = match how.mode() {
                Mode::Light if !late => (3, 0),
                Mode::Soft => (2, 1),
                _ => (0, 3),
            };
            assert_eq!((now.completed, now.cancelled), (completed, cancelled), "{how:?}\n{now}");
            let World { pool, gate, work, .. } = world;
            drop(pool);
            assert_eq!(Arc::strong_count(&work.0), 1, "somebody still has the work");
            assert_eq!(Arc::strong_count(&gate.0), 1, "a task was never dropped");
        });
    }
}
