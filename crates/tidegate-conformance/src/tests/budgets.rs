//! B1 and B2: weights that are taken at admission and come back, and rates.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use tidegate::{
    Budget, Clock, Handle, Pool, Reason, Shutdown, TaskError, TimedOut, Token, WhenFull,
};

use crate::Ctx;
use crate::kit::{
    Gate, block_on, deliberate_panic, eventually, give_a_bug_its_chance, idle, in_background,
    occupy, refusal, task_error, value,
};

const SECOND: Duration = Duration::from_secs(1);

fn open(cx: &Ctx) -> Pool {
    cx.builder().queue(100).on_unobserved(|_| ()).build().expect("the pool starts")
}

/// A task that holds `weight` of `budget` behind the gate.
fn holder(pool: &Pool, budget: &Budget, weight: u64, gate: &Gate) -> Handle<()> {
    let passage = gate.passage();
    let task = pool.task("holder").budget(budget, weight).submit(move |_| passage.enter());
    task.expect("there is room")
}

pub(crate) fn B1_queued_work_is_paid_for(cx: &Ctx) {
    let pool = open(cx);
    let memory = Budget::new("memory", 10);
    let busy = occupy(&pool, cx.workers());
    let queued = pool.task("big").budget(&memory, 7).submit(|_| 7).expect("there is enough");
    assert_eq!((memory.in_use(), memory.available()), (7, 3), "taken before it runs");
    let refused = pool.task("big").budget(&memory, 4).try_submit(|_| ());
    assert_eq!(refusal(refused), Reason::OverBudget, "the queue has room, the budget has not");
    let small = pool.task("small").budget(&memory, 3).try_submit(|_| ()).expect("three are left");
    busy.open();
    assert_eq!(value(queued), 7);
    value(small);
    assert_eq!(memory.in_use(), 0, "it is back when the outcome is seen");
}

/// Two workers and a queue of eight, in rounds: some behind a gate, the queue full behind them,
/// and each of these ends in another way.
pub(crate) fn B1_it_comes_back_on_every_ending(cx: &Ctx) {
    const ROUNDS: u64 = 700;
    let (clock, hand) = Clock::manual();
    let builder = cx.builder().workers(2).queue(8).when_full(WhenFull::DropOldest).clock(clock);
    let pool = builder.grace(SECOND).on_unobserved(|_| ()).build().expect("the pool starts");
    let memory = Budget::new("memory", 100);
    for round in 0..ROUNDS {
        let deaf = round % 50 == 0;
        let (gate, closed) = (Gate::new(), Gate::new());
        let task = |weight: u64| pool.task("mixed").budget(&memory, weight);
        // Two run: one until it is out of time, which it hears or not; one until the gate opens.
        let (there, never) = (gate.passage(), closed.passage());
        let late = task(9).timeout(SECOND).submit(move |cx| {
            there.enter_unless(|| true);
            if deaf {
                never.enter();
            }
            cx.token().wait();
        });
        let late = late.expect("there is enough");
        let there = gate.passage();
        let ends = task(9).submit_result(move |_| {
            there.enter();
            match round % 3 {
                0 => Err("an error"),
                1 => deliberate_panic("one of many"),
                _ => Ok(round),
            }
        });
        let ends = ends.expect("there is enough");
        gate.wait_until_entered(2);
        // Six wait: pushed out, cancelled by handle and by token, and out of time.
        let token = Token::new();
        let pushed_out = [(); 2].map(|()| task(7).submit(|_| ()).expect("there is room"));
        let cancelled = task(7).submit(|_| ()).expect("there is room");
        let by_token = task(7).cancel_with(&token).submit(|_| ()).expect("there is room");
        let timed_out =
            [(); 2].map(|()| task(7).queue_timeout(SECOND).submit(|_| ()).expect("room"));
        assert!(cancelled.cancel());
        token.cancel();
        eventually("both are gone", || memory.in_use() == 2 * 9 + 4 * 7);
        let fillers = [(); 6].map(|()| task(5).submit(|_| ()).expect("there is room"));
        for handle in pushed_out {
            assert!(matches!(task_error(handle), TaskError::Evicted));
        }
        assert_eq!(memory.in_use(), 2 * 9 + 2 * 7 + 6 * 5);
        assert_eq!(refusal(task(101).submit(|_| ())), Reason::TooHeavy);
        assert_eq!(refusal(task(39).submit(|_| ())), Reason::OverBudget);
        assert_eq!(refusal(task(1).cancel_with(&token).submit(|_| ())), Reason::Cancelled);
        hand.advance(SECOND);
        for handle in timed_out {
            assert!(matches!(task_error(handle), TaskError::TimedOut(TimedOut::InQueue)));
        }
        drop((task_error(cancelled), task_error(by_token)));
        if deaf {
            eventually("it was told", || {
                hand.advance(SECOND);
                late.is_settled()
            });
            assert!(matches!(task_error(late), TaskError::Abandoned(_)));
            assert_eq!(memory.held_by_abandoned(), 9, "its code still runs");
            closed.open();
        } else {
            assert!(matches!(task_error(late), TaskError::TimedOut(TimedOut::Running)));
        }
        gate.open();
        let ended = ends.wait();
        assert_eq!(ended.is_ok(), round % 3 == 2);
        fillers.into_iter().for_each(value);
        eventually("all is back", || memory.in_use() == 0);
        assert_eq!((memory.waiting(), memory.held_by_abandoned()), (0, 0));
    }
    pool.shutdown(Shutdown::soft()).expect("outside the pool");
    let now = pool.snapshot();
    now.check().expect("no task was lost");
    assert!(now.offered() > 10_000, "{now}");
    let each = [now.completed, now.failed, now.panicked, now.timed_out, now.cancelled];
    assert!(each.iter().chain([&now.evicted, &now.abandoned]).all(|count| *count > 0), "{now}");
    assert_eq!(now.refused.total(), 3 * ROUNDS);
    let late = pool.task("late").budget(&memory, 5).submit(|_| ());
    assert_eq!((refusal(late), memory.available()), (Reason::Closed, 100));
}

pub(crate) fn B1_a_budget_named_twice_is_taken_once(cx: &Ctx) {
    let pool = cx.builder().queue(10).when_full(WhenFull::Wait).build().expect("the pool starts");
    let memory = Budget::new("memory", 4);
    let twice = |weight| pool.task("twice").budget(&memory, weight).budget(&memory, weight);
    assert_eq!(refusal(twice(3).submit(|_| ())), Reason::TooHeavy, "six of four");
    assert_eq!(refusal(twice(u64::MAX).submit(|_| ())), Reason::TooHeavy, "no overflow");
    let submitters: Vec<_> = (0..4)
        .map(|_| {
            let (pool, memory) = (pool.clone(), memory.clone());
            in_background(move || {
                for _ in 0..50 {
                    let task = pool.task("twice").budget(&memory, 2).budget(&memory, 2);
                    value(task.submit(|_| ()).expect("in the end there is enough"));
                }
            })
        })
        .collect();
    submitters.into_iter().for_each(|submitter| submitter.join());
    assert_eq!(memory.in_use(), 0);
}

pub(crate) fn B1_without_permits_the_policy_decides(cx: &Ctx) {
    let policies = [
        (WhenFull::Wait, None),
        (WhenFull::WaitFor(SECOND), Some(Reason::TimedOut)),
        (WhenFull::Reject, Some(Reason::OverBudget)),
        (WhenFull::DropNewest, Some(Reason::OverBudget)),
        (WhenFull::DropOldest, Some(Reason::OverBudget)),
        (WhenFull::CallerRuns, Some(Reason::OverBudget)),
    ];
    for (policy, refused_with) in policies {
        let (clock, hand) = Clock::manual();
        let pool = cx.builder().queue(10).when_full(policy).clock(clock);
        let pool = pool.build().expect("the pool starts");
        let memory = Budget::new("memory", 5);
        let all = memory.acquire(5).expect("nobody else");
        assert_eq!(
            refusal(pool.task("").budget(&memory, 1).try_submit(|_| ())),
            Reason::OverBudget,
            "{policy:?}: try_submit never waits"
        );
        let (other, shared) = (pool.clone(), memory.clone());
        let waiter = in_background(move || {
            let offer = other.task("").budget(&shared, 1).submit(|_| ());
            offer.map(value).map_err(|refused| refused.reason())
        });
        match (policy, refused_with) {
            (WhenFull::Wait, _) => {
                eventually("it waits", || memory.waiting() == 1);
                assert_eq!(pool.snapshot().waiting_submitters, 1);
                drop(all);
                assert_eq!(waiter.join(), Ok(()));
            }
            (WhenFull::WaitFor(_), Some(reason)) => {
                eventually("it waits", || memory.waiting() == 1);
                eventually("it is refused in time", || {
                    hand.advance(SECOND / 2);
                    waiter.is_finished()
                });
                assert_eq!(waiter.join(), Err(reason));
            }
            (_, reason) => assert_eq!(waiter.join(), reason.map_or(Ok(()), Err), "{policy:?}"),
        }
        assert_eq!((memory.waiting(), pool.snapshot().evicted), (0, 0), "nothing is pushed out");
    }
}

pub(crate) fn B1_nobody_goes_by_a_heavy_one(cx: &Ctx) {
    let pool = open(cx);
    let memory = Budget::new("memory", 10);
    let gate = Gate::new();
    let first = holder(&pool, &memory, 4, &gate);
    let (other, shared) = (pool.clone(), memory.clone());
    let heavy = in_background(move || {
        value(other.task("heavy").budget(&shared, 8).submit(|_| "heavy").expect("it waits"))
    });
    eventually("the heavy one waits", || memory.waiting() == 1);
    assert_eq!(
        refusal(pool.task("light").budget(&memory, 1).try_submit(|_| ())),
        Reason::OverBudget,
        "six are left, and somebody waits"
    );
    assert!(memory.try_acquire(1).is_err(), "nor by hand");
    let (other, shared) = (pool.clone(), memory.clone());
    let light = in_background(move || {
        value(other.task("light").budget(&shared, 1).submit(|_| "light").expect("it waits"))
    });
    eventually("the light one waits behind", || memory.waiting() == 2);
    gate.open();
    value(first);
    assert_eq!((heavy.join(), light.join()), ("heavy", "light"));
    idle(&pool);
    assert_eq!(memory.in_use(), 0);
}

pub(crate) fn hazard_55_whoever_leaves_the_head_passes_the_turn_on(cx: &Ctx) {
    let (clock, hand) = Clock::manual();
    let pool = cx.builder().queue(100).clock(clock.clone()).build().expect("the pool starts");
    for way in 0..4 {
        let memory = Budget::new("memory", 10).with_clock(clock.clone());
        let held = memory.acquire(6).expect("nobody else");
        let mut future = pin!(memory.acquire_async(10));
        let token = Token::new();
        let ahead = match way {
            0 => {
                let (pool, shared, token) = (pool.clone(), memory.clone(), token.clone());
                Some(in_background(move || {
                    let task = pool.task("").budget(&shared, 10).cancel_with(&token);
                    refusal(task.submit(|_| ()))
                }))
            }
            1 => {
                let shared = memory.clone();
                Some(in_background(move || {
                    shared.acquire_timeout(10, SECOND).expect_err("too late").reason()
                }))
            }
            2 => {
                let polled = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                assert!(polled.is_pending());
                None
            }
            _ => {
                let shared = memory.clone();
                Some(in_background(move || {
                    shared.acquire(10).expect_err("it does not fit any more").reason()
                }))
            }
        };
        eventually("the head waits", || memory.waiting() == 1);
        let (other, shared) = (pool.clone(), memory.clone());
        let behind = in_background(move || {
            value(other.task("").budget(&shared, 4).submit(|_| ()).expect("its turn comes"));
        });
        eventually("one waits behind it", || memory.waiting() == 2);
        match way {
            0 => token.cancel(),
            1 => eventually("its time is up", || {
                hand.advance(SECOND);
                memory.waiting() < 2
            }),
            2 => future.set(memory.acquire_async(1)),
            _ => memory.resize(9),
        }
        if way == 3 {
            memory.resize(10); // six are held, so four are left again
        }
        behind.join();
        let reasons = [Reason::Cancelled, Reason::TimedOut, Reason::TooHeavy, Reason::TooHeavy];
        assert!(ahead.is_none_or(|ahead| ahead.join() == reasons[way]), "way {way}");
        drop(held);
        assert_eq!((memory.in_use(), memory.waiting()), (0, 0), "way {way}");
    }
}

pub(crate) fn hazard_56_weights_that_make_no_sense(cx: &Ctx) {
    let pool = open(cx);
    let memory = Budget::new("memory", 10);
    let all = memory.acquire(10).expect("nobody else");
    for weight in [11, u64::MAX] {
        let offer = pool.task("").budget(&memory, weight).submit(|_| ());
        assert_eq!(refusal(offer), Reason::TooHeavy, "at once, although it would have to wait");
        let error = memory.acquire(weight).expect_err("it can never fit");
        assert_eq!(error.reason(), Reason::TooHeavy);
        assert!(error.to_string().contains("\"memory\""), "{error}");
    }
    value(pool.task("").budget(&memory, 0).submit(|_| ()).expect("nothing is free"));
    drop(memory.try_acquire(0).expect("nothing is free"));
    drop(all);
    let nothing = Budget::new("nothing", 0);
    assert_eq!(refusal(pool.task("").budget(&nothing, 1).submit(|_| ())), Reason::TooHeavy);
    value(pool.task("").budget(&nothing, 0).submit(|_| ()).expect("nothing is free"));
    let endless = Budget::new("endless", u64::MAX);
    let most = endless.acquire(u64::MAX - 1).expect("it fits");
    drop((endless.try_acquire(1).expect("one is left"), most));
    assert_eq!((endless.in_use(), memory.in_use()), (0, 0));
}

pub(crate) fn B1_inside_a_task_it_never_waits(cx: &Ctx) {
    let pool = open(cx);
    let memory = Budget::new("memory", 3);
    let (inner, shared) = (pool.clone(), memory.clone());
    let task = pool.task("outer").budget(&memory, 2).submit(move |_| {
        let group = inner.group().budget(&shared, 2).start::<()>();
        let fits = inner.task("").budget(&shared, 1).submit(|_| ());
        let reasons = (
            refusal(inner.task("").budget(&shared, 2).submit(|_| ())),
            refusal(inner.task("").budget(&shared, 2).try_submit(|_| ())),
            refusal(group.submit(|_| Ok(()))),
            inner.scope(|s| refusal(s.task("").budget(&shared, 2).submit(|_| ()))),
        );
        (fits.is_ok(), reasons)
    });
    let (fits, reasons) = value(task.expect("there is enough"));
    assert!(fits, "what is there is taken");
    let deadlock = Reason::WouldDeadlock;
    assert_eq!(reasons, (deadlock, Reason::OverBudget, deadlock, deadlock));
    idle(&pool);
    assert_eq!(memory.in_use(), 0);
}

pub(crate) fn B1_reasons_come_in_their_order(cx: &Ctx) {
    let pool = open(cx);
    let memory = Budget::new("memory", 1);
    let cancelled = Token::new();
    cancelled.cancel();
    let offer = |weight, token: &Token| {
        refusal(pool.task("").budget(&memory, weight).cancel_with(token).submit(|_| ()))
    };
    assert_eq!(offer(2, &cancelled), Reason::Cancelled, "before TooHeavy");
    assert_eq!(offer(2, &Token::new()), Reason::TooHeavy);
    pool.close();
    assert_eq!(offer(2, &cancelled), Reason::Closed, "before everything");
    let refused = pool.snapshot().refused;
    assert_eq!((refused.cancelled, refused.too_heavy, refused.closed), (1, 1, 1));
    assert_eq!(memory.in_use(), 0);
}

pub(crate) fn B1_a_budget_can_be_resized(cx: &Ctx) {
    let pool = open(cx);
    let memory = Budget::new("memory", 4);
    let gate = Gate::new();
    let first = holder(&pool, &memory, 4, &gate);
    let (other, shared) = (pool.clone(), memory.clone());
    let waiter = in_background(move || {
        value(other.task("").budget(&shared, 3).submit(|_| ()).expect("it becomes larger"));
    });
    eventually("it waits", || memory.waiting() == 1);
    memory.resize(7);
    waiter_or_gate(cx, &gate, waiter);
    memory.resize(2);
    assert!(memory.available() == 0 || memory.in_use() <= 2, "a debt is worked off first");
    gate.open();
    value(first);
    idle(&pool);
    assert_eq!((memory.capacity(), memory.in_use(), memory.available()), (2, 0, 2));
}

/// On one worker the second task can run only after the first.
fn waiter_or_gate(cx: &Ctx, gate: &Gate, waiter: crate::kit::Background<()>) {
    if cx.workers() == 1 {
        gate.open();
    }
    waiter.join();
}

pub(crate) fn B1_an_abandoned_task_keeps_its_weight(cx: &Ctx) {
    let (clock, hand) = Clock::manual();
    let builder = cx.builder().queue(10).clock(clock).grace(SECOND);
    let pool = builder.on_unobserved(|_| ()).build().expect("the pool starts");
    let memory = Budget::new("memory", 10);
    let gate = Gate::new();
    let stuck = holder(&pool, &memory, 6, &gate);
    gate.wait_until_entered(1);
    assert!(stuck.cancel());
    hand.advance(SECOND);
    assert!(task_error(stuck).is_abandoned());
    eventually("the gauge says so", || memory.held_by_abandoned() == 6);
    assert_eq!((memory.in_use(), memory.available()), (6, 4), "its code still runs");
    gate.open();
    eventually("it comes back with its code", || memory.in_use() == 0);
    eventually("so does the gauge", || memory.held_by_abandoned() == 0);
}

pub(crate) fn B1_a_close_releases_who_waits(cx: &Ctx) {
    for shut_down in [false, true] {
        let pool = open(cx);
        let memory = Budget::new("memory", 1);
        let held = memory.acquire(1).expect("nobody else");
        let (other, shared) = (pool.clone(), memory.clone());
        let waiter =
            in_background(move || refusal(other.task("").budget(&shared, 1).submit(|_| ())));
        eventually("it waits", || memory.waiting() == 1);
        match shut_down {
            true => drop(pool.shutdown(Shutdown::light()).expect("outside the pool")),
            false => pool.close(),
        }
        assert_eq!(waiter.join(), Reason::Closed);
        drop(held);
        assert_eq!((memory.waiting(), memory.available()), (0, 1));
    }
}

pub(crate) fn B1_pools_and_groups_share_it(cx: &Ctx) {
    let (one, two) = (open(cx), open(cx));
    let memory = Budget::new("memory", 2);
    let gate = Gate::new();
    let held = holder(&one, &memory, 1, &gate);
    let group = two.group().budget(&memory, 1).start::<()>();
    let passage = gate.passage();
    let enter = move |_: &tidegate::Cx| {
        passage.enter();
        Ok(())
    };
    group.submit(enter).expect("one is left");
    gate.wait_until_entered(2);
    assert_eq!(refusal(group.try_submit(|_| Ok(()))), Reason::OverBudget);
    assert_eq!(refusal(one.task("").budget(&memory, 1).try_submit(|_| ())), Reason::OverBudget);
    let (other, shared) = (one.clone(), memory.clone());
    let waiter = in_background(move || {
        value(other.task("").budget(&shared, 2).submit(|_| ()).expect("both come back"));
    });
    eventually("it waits", || memory.waiting() == 1);
    gate.open();
    waiter.join();
    value(held);
    group.wait().expect("nothing failed");
    assert_eq!((memory.in_use(), group.unsettled()), (0, 0));
}

pub(crate) fn B1_a_wait_for_permits_holds_no_place(cx: &Ctx) {
    let pool = cx.builder().queue(1).build().expect("the pool starts");
    let memory = Budget::new("memory", 1);
    let held = memory.acquire(1).expect("nobody else");
    let busy = occupy(&pool, cx.workers());
    let (other, shared) = (pool.clone(), memory.clone());
    let waiter = in_background(move || {
        value(other.task("").budget(&shared, 1).submit(|_| ()).expect("its turn comes"));
    });
    eventually("it waits", || memory.waiting() == 1);
    let plain = pool.try_submit(|| ()).expect("the only place is free");
    drop(held);
    eventually("it has the permit, and waits for a place", || {
        pool.snapshot().waiting_submitters == 1 && memory.in_use() == 1
    });
    busy.open();
    value(plain);
    waiter.join();
}

pub(crate) fn B1_one_limit_for_permits_and_place(cx: &Ctx) {
    let (clock, hand) = Clock::manual();
    let policy = WhenFull::WaitFor(2 * SECOND);
    let pool = cx.builder().queue(1).when_full(policy).clock(clock).build();
    let pool = pool.expect("the pool starts");
    let memory = Budget::new("memory", 1);
    let held = memory.acquire(1).expect("nobody else");
    let busy = occupy(&pool, cx.workers());
    let queued = pool.submit(|| ()).expect("there is one place");
    let (other, shared) = (pool.clone(), memory.clone());
    let waiter = in_background(move || refusal(other.task("").budget(&shared, 1).submit(|_| ())));
    eventually("it waits for the budget", || memory.waiting() == 1);
    hand.advance(SECOND);
    drop(held);
    eventually("it waits for a place", || pool.snapshot().waiting_submitters == 1);
    hand.advance(SECOND);
    assert_eq!(waiter.join(), Reason::TimedOut, "two seconds in all");
    assert_eq!(memory.in_use(), 0, "it comes back on a refusal");
    busy.open();
    value(queued);
}

pub(crate) fn B1_two_budgets_do_not_wait_for_each_other(cx: &Ctx) {
    const EACH: usize = 200;
    let pool = open(cx);
    let (a, b) = (Budget::new("a", 2), Budget::new("b", 2));
    let crossing = [(&a, &b), (&b, &a), (&a, &b), (&b, &a)].map(|(first, second)| {
        let (pool, first, second) = (pool.clone(), first.clone(), second.clone());
        in_background(move || {
            for n in 0..EACH {
                let weight = 1 + (n % 2) as u64;
                let task = pool.task("both").budget(&first, weight).budget(&second, weight);
                drop(task.submit(|_| ()).expect("its turn comes"));
            }
        })
    });
    crossing.into_iter().for_each(crate::kit::Background::join);
    idle(&pool);
    assert_eq!((a.in_use(), b.in_use(), pool.snapshot().completed), (0, 0, 4 * EACH as u64));
}

pub(crate) fn B1_by_hand_blocking_and_async(cx: &Ctx) {
    let pool = open(cx);
    let memory = Budget::new("memory", 2);
    // A task waits for what its pool's caller holds: by hand it may.
    let held = block_on(memory.acquire_async(2)).expect("nobody else");
    assert_eq!((held.weight(), held.budget().name()), (2, "memory"));
    let shared = memory.clone();
    let task = pool.submit(move || shared.acquire(1).map(|permit| permit.weight()));
    let task = task.expect("there is room");
    eventually("it waits", || memory.waiting() == 1);
    let shared = memory.clone();
    let future = in_background(move || block_on(shared.acquire_async(2)).map(drop));
    eventually("a future waits behind it", || memory.waiting() == 2);
    assert_eq!(
        memory.acquire_timeout(1, Duration::ZERO).expect_err("no time").reason(),
        Reason::TimedOut
    );
    drop(held);
    assert_eq!(value(task), Ok(1));
    future.join().expect("its turn came");
    assert_eq!((memory.in_use(), memory.waiting()), (0, 0));
}

/// The future has its permit, is dropped before it hears of it, and nothing is lost.
pub(crate) fn B1_a_future_that_was_served_and_dropped(cx: &Ctx) {
    let _ = cx;
    let memory = Budget::new("memory", 1);
    let held = memory.acquire(1).expect("nobody else");
    let mut context = Context::from_waker(Waker::noop());
    {
        let mut future = pin!(memory.acquire_async(1));
        assert!(future.as_mut().poll(&mut context).is_pending());
        drop(held);
        assert_eq!((memory.in_use(), memory.waiting()), (1, 0), "it was served");
    }
    assert_eq!(memory.in_use(), 0, "it passed it on");
    drop(memory.try_acquire(1).expect("it is free"));
}

pub(crate) fn B2_a_rate_lets_in_what_time_allows(cx: &Ctx) {
    let (clock, hand) = Clock::manual();
    let builder = cx.builder().queue(100).when_full(WhenFull::Reject).clock(clock.clone());
    let pool = builder.build().expect("the pool starts");
    let calls = Budget::per_second("calls", 50).burst(10).with_clock(clock);
    let offer = || pool.task("call").budget(&calls, 1).submit(|_| ()).map(drop);
    for _ in 0..10 {
        offer().expect("the burst");
    }
    idle(&pool);
    assert_eq!(refusal(offer()), Reason::OverBudget, "what has ended gives nothing back");
    hand.advance(SECOND / 50);
    offer().expect("one more after 20 ms");
    assert_eq!(refusal(offer()), Reason::OverBudget);
    hand.advance(60 * SECOND);
    assert_eq!(calls.available(), 10, "no more than the burst");
    assert_eq!(refusal(pool.task("").budget(&calls, 11).submit(|_| ())), Reason::TooHeavy);
}

pub(crate) fn B2_a_refusal_gives_a_rate_back(cx: &Ctx) {
    let (clock, _hand) = Clock::manual();
    let builder = cx.builder().queue(1).when_full(WhenFull::Reject).clock(clock.clone());
    let pool = builder.build().expect("the pool starts");
    let calls = Budget::per_second("calls", 5).with_clock(clock);
    let busy = occupy(&pool, cx.workers());
    let queued = pool.task("").budget(&calls, 1).submit(|_| ()).expect("there is one place");
    for _ in 0..20 {
        assert_eq!(refusal(pool.task("").budget(&calls, 2).submit(|_| ())), Reason::Full);
    }
    assert_eq!(calls.available(), 4, "nothing was used up by refusals");
    assert!(queued.cancel(), "it is queued");
    assert_eq!(calls.available(), 4, "accepted is used up, also if it never ran");
    busy.open();
}

pub(crate) fn B2_waiters_of_a_rate_come_in_time_and_in_order(cx: &Ctx) {
    let (clock, hand) = Clock::manual();
    let pool = cx.builder().queue(100).clock(clock.clone()).build().expect("the pool starts");
    let calls = Budget::per_second("calls", 1).with_clock(clock);
    drop(calls.acquire(1).expect("the burst"));
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let waiters: Vec<_> = (0..3)
        .map(|n| {
            let (pool, shared, order) = (pool.clone(), calls.clone(), Arc::clone(&order));
            let waiter = in_background(move || {
                match n {
                    0 => drop(shared.acquire(1).expect("its time comes")),
                    1 => drop(block_on(shared.acquire_async(1)).expect("its time comes")),
                    _ => {
                        let task = pool.task("").budget(&shared, 1).submit(|_| ());
                        value(task.expect("its time comes"));
                    }
                }
                order.lock().expect("no panic").push(n);
            });
            eventually("it waits", || calls.waiting() == n + 1);
            waiter
        })
        .collect();
    for waiting in (0..3).rev() {
        hand.advance(SECOND - Duration::from_nanos(1));
        give_a_bug_its_chance();
        assert_eq!(calls.waiting(), waiting + 1, "before its time");
        hand.advance(Duration::from_nanos(1));
        eventually("its time has come", || calls.waiting() == waiting);
        eventually("it goes on", || order.lock().expect("no panic").len() == 3 - waiting);
    }
    waiters.into_iter().for_each(crate::kit::Background::join);
    assert_eq!(*order.lock().expect("no panic"), [0, 1, 2]);
}
