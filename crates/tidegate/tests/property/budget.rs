//! Budgets against a plain model: a number, and a line.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use proptest::prelude::*;
use tidegate::{Acquire, Budget, Permit, Reason};

use crate::cases;

#[derive(Clone, Debug)]
enum Step {
    /// Queue up, or take at once.
    Ask(u64),
    Try(u64),
    /// Give back the permit at this place, counted round.
    Return(usize),
    /// Drop the waiting future at this place.
    Leave(usize),
    Resize(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..12u64).prop_map(Step::Ask),
        2 => (0..12u64).prop_map(Step::Try),
        4 => (0..8usize).prop_map(Step::Return),
        1 => (0..8usize).prop_map(Step::Leave),
        1 => (0..14u64).prop_map(Step::Resize),
    ]
}

#[derive(Debug, Default)]
struct Model {
    capacity: u64,
    held: Vec<u64>,
    /// Who waits, by number, and for how much.
    line: VecDeque<(usize, u64)>,
}

impl Model {
    fn used(&self) -> u64 {
        self.held.iter().sum()
    }

    fn fits(&self, weight: u64) -> bool {
        self.used() + weight <= self.capacity
    }

    /// Those whose turn has come, and those that have become too heavy.
    fn serve(&mut self) -> (Vec<(usize, u64)>, Vec<usize>) {
        let mut served = Vec::new();
        let too_heavy =
            self.line.iter().filter(|w| w.1 > self.capacity).map(|w| w.0).collect::<Vec<_>>();
        self.line.retain(|w| w.1 <= self.capacity);
        while let Some(&(number, weight)) = self.line.front().filter(|w| self.fits(w.1)) {
            self.line.pop_front();
            self.held.push(weight);
            served.push((number, weight));
        }
        (served, too_heavy)
    }
}

fn poll(future: &mut Pin<Box<Acquire>>) -> Poll<Result<Permit, Reason>> {
    let polled = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    polled.map(|result| result.map_err(|error| error.reason()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn b1_a_budget_serves_as_its_model_does(
        capacity in 0..14u64,
        steps in prop::collection::vec(step(), 0..60),
    ) {
        let budget = Budget::new("modelled", capacity);
        let mut model = Model { capacity, ..Model::default() };
        let mut permits: Vec<Permit> = Vec::new();
        let mut futures: Vec<(usize, Pin<Box<Acquire>>)> = Vec::new();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Ask(weight) | Step::Try(weight) => {
                    let expected = if weight > model.capacity {
                        Poll::Ready(Err(Reason::TooHeavy))
                    } else if weight == 0 || (model.line.is_empty() && model.fits(weight)) {
                        model.held.push(weight);
                        Poll::Ready(Ok(weight))
                    } else {
                        Poll::Pending
                    };
                    let mut future = Box::pin(budget.acquire_async(weight));
                    let got = match step {
                        Step::Ask(_) => poll(&mut future),
                        _ => match budget.try_acquire(weight).map_err(|error| error.reason()) {
                            Err(Reason::OverBudget) => Poll::Pending,
                            other => Poll::Ready(other),
                        },
                    };
                    let seen = match &got {
                        Poll::Ready(Ok(permit)) => Poll::Ready(Ok(permit.weight())),
                        Poll::Ready(Err(reason)) => Poll::Ready(Err(*reason)),
                        Poll::Pending => Poll::Pending,
                    };
                    prop_assert_eq!(seen, expected);
                    match (got, step) {
                        (Poll::Ready(permit), _) => permits.extend(permit.ok()),
                        (Poll::Pending, Step::Ask(_)) => {
                            model.line.push_back((number, weight));
                            futures.push((number, future));
                        }
                        (Poll::Pending, _) => {}
                    }
                }
                Step::Return(at) if !permits.is_empty() => {
                    let permit = permits.swap_remove(at % permits.len());
                    let at = model.held.iter().position(|w| *w == permit.weight());
                    model.held.swap_remove(at.expect("the model holds it too"));
                }
                Step::Leave(at) if !futures.is_empty() => {
                    let (number, _) = futures.remove(at % futures.len());
                    model.line.retain(|w| w.0 != number);
                }
                Step::Resize(capacity) => {
                    budget.resize(capacity);
                    model.capacity = capacity;
                }
                Step::Return(_) | Step::Leave(_) => {}
            }
            let (served, too_heavy) = model.serve();
            for (number, weight) in served {
                let at = futures.iter().position(|f| f.0 == number).expect("it waits");
                let Poll::Ready(Ok(permit)) = poll(&mut futures.remove(at).1) else {
                    panic!("its turn has come");
                };
                prop_assert_eq!(permit.weight(), weight);
                permits.push(permit);
            }
            for number in too_heavy {
                let at = futures.iter().position(|f| f.0 == number).expect("it waits");
                let refused = poll(&mut futures.remove(at).1).map(|r| r.map(drop));
                prop_assert_eq!(refused, Poll::Ready(Err(Reason::TooHeavy)));
            }
            prop_assert!(futures.iter_mut().all(|(_, future)| poll(future).is_pending()));
            prop_assert_eq!(budget.in_use(), model.used());
            prop_assert_eq!(budget.waiting(), model.line.len());
        }
        drop((futures, permits));
        prop_assert_eq!((budget.in_use(), budget.waiting()), (0, 0));
    }
}
