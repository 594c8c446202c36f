//! Groups, maps and slices against the plain loop that they stand for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use proptest::prelude::*;
use tidegate::{MapError, Pool, Shutdown, TaskError, WhenFull};

use crate::cases;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Value,
    Error,
    Panic,
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![12 => Just(End::Value), 1 => Just(End::Error), 1 => Just(End::Panic)]
}

fn perform(end: End, number: usize) -> Result<usize, usize> {
    match end {
        End::Value => Ok(number),
        End::Error => Err(number),
        End::Panic => std::panic::resume_unwind(Box::new(number)),
    }
}

fn pool(workers: usize, queue: usize) -> Pool {
    let builder = Pool::builder("together").workers(workers).queue(queue);
    builder.when_full(WhenFull::Wait).on_unobserved(|_| {}).build().unwrap()
}

fn close(pool: &Pool) {
    let report = pool.shutdown(Shutdown::default()).unwrap();
    assert!(report.is_success(), "{report}");
    pool.snapshot().check().unwrap();
}

/// Which item an error of a map is about.
fn culprit(error: MapError<usize>) -> usize {
    match error {
        MapError::Task(TaskError::Failed(number)) => number,
        MapError::Task(TaskError::Panicked(panic)) => *panic.into_payload().downcast().unwrap(),
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn g1_a_group_that_collects_all_returns_each_failure_once(
        (workers, queue, limit) in (1..4usize, 1..6usize, 1..6usize),
        ends in prop::collection::vec(end(), 0..40),
    ) {
        let pool = pool(workers, queue);
        let group = pool.group().limit(limit).collect_all().start();
        for (number, end) in ends.iter().copied().enumerate() {
            group.submit(move |_| perform(end, number).map(drop)).unwrap();
        }
        let failures = group.wait().map_or_else(|error| error.into_failures(), |()| Vec::new());
        let mut found: Vec<_> = failures.into_iter().map(|e| culprit(MapError::Task(e))).collect();
        found.sort_unstable();
        let failing = ends.iter().enumerate().filter(|(_, end)| **end != End::Value);
        prop_assert_eq!(found, failing.map(|(number, _)| number).collect::<Vec<_>>());
        close(&pool);
        prop_assert_eq!(pool.snapshot().accepted, ends.len() as u64);
    }

    #[test]
    fn g1_a_group_stops_at_a_failure_and_runs_all_without_one(
        (workers, queue, limit) in (1..4usize, 1..6usize, 1..6usize),
        ends in prop::collection::vec(prop_oneof![9 => Just(End::Value), 1 => Just(End::Error)], 0..40),
    ) {
        let pool = pool(workers, queue);
        let group = pool.group().limit(limit).start();
        let ran = Arc::new(AtomicUsize::new(0));
        let mut accepted = 0;
        for (number, end) in ends.iter().copied().enumerate() {
            let ran = Arc::clone(&ran);
            let work = move |_: &_| {
                ran.fetch_add(1, SeqCst);
                perform(end, number).map(drop)
            };
            if group.submit(work).is_err() {
                break; // it has failed
            }
            accepted += 1;
        }
        match group.wait() {
            Ok(()) => {
                prop_assert!(!ends.contains(&End::Error));
                prop_assert_eq!(ran.load(SeqCst), ends.len());
            }
            Err(error) => {
                let failures = error.into_failures();
                prop_assert_eq!(failures.len(), 1, "one is told");
                let first = culprit(MapError::Task(failures.into_iter().next().unwrap()));
                prop_assert_eq!(ends[first], End::Error);
                prop_assert!(ran.load(SeqCst) <= accepted);
            }
        }
        close(&pool);
    }

    #[test]
    fn g3_a_map_in_order_is_the_loop_up_to_its_first_failure(
        (workers, queue, window) in (1..4usize, 1..6usize, 1..12usize),
        ends in prop::collection::vec(end(), 0..60),
    ) {
        let pool = pool(workers, queue);
        let items = ends.clone().into_iter().enumerate();
        let mut map = pool.map_result(items, |(number, end)| perform(end, number)).window(window);
        let first_failure = ends.iter().position(|end| *end != End::Value);
        for number in 0..first_failure.unwrap_or(ends.len()) {
            prop_assert_eq!(map.next().unwrap().unwrap(), number);
        }
        if let Some(failing) = first_failure {
            prop_assert_eq!(culprit(map.next().unwrap().unwrap_err()), failing);
        }
        prop_assert!(map.next().is_none());
        close(&pool);
    }

    #[test]
    fn g3_a_map_as_completed_gives_each_once_until_a_failure(
        (workers, queue, window) in (1..4usize, 1..6usize, 1..12usize),
        ends in prop::collection::vec(end(), 0..60),
    ) {
        let pool = pool(workers, queue);
        let items = ends.clone().into_iter().enumerate();
        let map = pool.map_result(items, |(number, end)| perform(end, number)).window(window);
        let mut seen = vec![false; ends.len()];
        let mut failed = false;
        for (item, result) in map.as_completed() {
            prop_assert!(!failed, "nothing comes after a failure");
            prop_assert!(!std::mem::replace(&mut seen[item], true), "each once");
            match result {
                Ok(number) => prop_assert_eq!((number, ends[item]), (item, End::Value)),
                Err(error) => {
                    prop_assert_eq!(culprit(error), item);
                    prop_assert_ne!(ends[item], End::Value);
                    failed = true;
                }
            }
        }
        let all_well = ends.iter().all(|end| *end == End::Value);
        prop_assert_eq!(failed, !all_well);
        prop_assert!(failed || seen.into_iter().all(|seen| seen));
        close(&pool);
    }

    #[test]
    fn g3_a_slice_is_the_loop_and_a_panic_costs_one_item(
        (workers, queue) in (1..5usize, 1..6usize),
        ends in prop::collection::vec(end(), 0..300),
        inside in any::<bool>(),
    ) {
        let pool = pool(workers, queue);
        let items: Vec<_> = ends.iter().copied().enumerate().collect();
        let run = {
            let pool = pool.clone();
            move || pool.map_slice(&items, |(number, end)| perform(*end, *number))
        };
        let found = if inside { pool.submit(run).unwrap().wait().unwrap() } else { run() };
        let results: Vec<_> = match found {
            Ok(results) => results.into_iter().map(Some).collect(),
            Err(error) => {
                prop_assert_eq!(error.refused, None);
                let panics = ends.iter().filter(|end| **end == End::Panic).count();
                prop_assert_eq!(error.panics.len(), panics);
                error.results
            }
        };
        prop_assert_eq!(results.len(), ends.len());
        for (number, (result, end)) in results.into_iter().zip(&ends).enumerate() {
            let expected = match end {
                End::Value => Some(Ok(number)),
                End::Error => Some(Err(number)),
                End::Panic => None,
            };
            prop_assert_eq!(result, expected);
        }
        close(&pool);
        prop_assert_eq!(pool.snapshot().items, ends.len() as u64);
    }
}
