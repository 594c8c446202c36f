//! The shortest way through everything.
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use tidegate::*;

#[test]
fn a_million_tasks_and_a_drain() {
    let pool = Pool::builder("smoke").workers(2).queue(100).build().unwrap();
    let sum = Arc::new(AtomicU64::new(0));
    for n in 0..1_000_000u64 {
        let sum = Arc::clone(&sum);
        pool.spawn(move || {
            sum.fetch_add(n, SeqCst);
        })
        .unwrap();
    }
    let report = pool.shutdown(Shutdown::default()).unwrap();
    assert!(report.is_success(), "{report}");
    assert_eq!(sum.load(SeqCst), 999_999 * 1_000_000 / 2);
    let s = pool.snapshot();
    assert_eq!(s.accepted, 1_000_000);
    assert_eq!(s.completed, 1_000_000);
    s.check().unwrap();
    assert_eq!(Arc::strong_count(&sum), 1);
}

#[test]
fn handles_give_values_errors_and_panics() {
    let pool = Pool::builder("smoke").workers(2).build().unwrap();
    let handles: Vec<_> = (0..10_000u64).map(|n| pool.submit(move || n * 2).unwrap()).collect();
    for (n, h) in handles.into_iter().enumerate() {
        assert_eq!(h.wait().unwrap(), n as u64 * 2);
    }
    let e = pool.submit_result(|| Err::<(), _>("no")).unwrap().wait().unwrap_err();
    assert!(e.task().unwrap().is_failed());
    let e = pool.submit(|| panic!("boom")).unwrap().wait().unwrap_err();
    assert!(e.is_panicked());
    let big = [7u8; 500];
    assert_eq!(pool.submit(move || big).unwrap().wait().unwrap(), [7u8; 500]);
    pool.shutdown(Shutdown::default()).unwrap();
}
