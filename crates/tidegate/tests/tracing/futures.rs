//! A subscriber is user code (V2): what it does at the spans of futures costs no worker.
#![cfg(feature = "tokio")]

use std::future::pending;
use std::time::Duration;

use tidegate::{PoolState, Shutdown};

use crate::collector::listen;
use crate::kit::*;

#[test]
fn v2_a_subscriber_that_panics_at_the_end_of_a_span_costs_neither_task_nor_worker() {
    let _seen = listen("panicky");
    on_each(|| async {
        let builder = quiet("panicky").workers(1).queue(10).grace(Duration::ZERO);
        let pool = builder.build_async().unwrap();
        for number in 0..5 {
            // At its first poll, after one more, and dropped before it is ready.
            let ready = pool.task("ready").submit(move |_| async move { number }).await.unwrap();
            assert_eq!(ready.await.unwrap(), number);
            let waits = pool.task("waits").submit(|_| tokio::task::yield_now()).await.unwrap();
            waits.await.unwrap();
            let stopped = pool.task("stopped").submit(|_| pending::<()>()).await.unwrap();
            while pool.snapshot().running == 0 {
                tokio::task::yield_now().await;
            }
            stopped.cancel();
            assert!(stopped.await.unwrap_err().is_cancelled());
        }
        let now = pool.snapshot();
        assert_eq!((pool.state(), now.worker_restarts), (PoolState::Running, 0), "{now}");
        assert!(now.hook_panics > 0, "it was called");
        now.check().unwrap();
        let report = pool.shutdown(Shutdown::light()).await.unwrap();
        assert!(report.is_success(), "{report}");
    });
}
