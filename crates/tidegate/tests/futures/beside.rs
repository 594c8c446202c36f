//! What stands beside a pool takes pools of futures as it takes the others. `assert_drained` is in
//! `testing.rs`, signals are in `signal.rs`.

use tidegate::{Drain, Pool, shutdown_in_order};

use crate::kit::*;

#[cfg(feature = "prometheus")]
#[test]
fn v1_an_exporter_shows_pools_of_both_kinds() {
    use std::sync::{Arc, LazyLock};
    use tidegate::{AnyPool, AsyncPool, Exporter};

    on_each(|| async {
        let futures = quiet("futures").workers(1).build_async().unwrap();
        let threads = Pool::builder("threads").workers(1).build().unwrap();
        let shared = Arc::new(Pool::builder("shared").workers(1).build().unwrap());
        let lazy = LazyLock::new(|| AsyncPool::builder("lazy").workers(1).build_async().unwrap());
        futures.submit(async {}).await.unwrap().await.unwrap();
        let exporter = Exporter::new();
        for pool in [&futures as &dyn AnyPool, &threads] {
            exporter.add(pool).unwrap();
        }
        exporter.add(&futures).unwrap(); // the same again
        exporter.add(&shared).unwrap();
        exporter.add(&lazy).unwrap();
        let twin = quiet("futures").workers(1).build_async().unwrap();
        assert_eq!(exporter.add(&twin).unwrap_err().name(), "futures");
        let page = exporter.render();
        for name in ["futures", "threads", "shared", "lazy"] {
            let series = format!("tidegate_queue_capacity{{pool=\"{name}\"}} 1000");
            assert!(page.contains(&series), "{name}: {page}");
        }
        drop(futures);
    });
}

#[cfg(feature = "top")]
#[test]
fn v4_the_live_view_shows_pools_of_both_kinds() {
    on_each(|| async {
        let futures = quiet("futures").workers(1).build_async().unwrap();
        let threads = Pool::builder("threads").workers(1).build().unwrap();
        let mut top = tidegate::Top::new();
        top.add(&futures);
        top.add(&threads);
        let frame = top.frame(80);
        assert!(frame.contains("2 pools"), "{frame}");
        assert!(frame.contains("\nfutures ") && frame.contains("\nthreads "), "{frame}");
    });
}

#[test]
fn s5_pools_of_both_kinds_are_shut_down_in_order() {
    for (flavour, runtime) in runtimes() {
        println!("{flavour}");
        let (fetch, store, reports) = runtime.block_on(async {
            let fetch = quiet("fetch").workers(1).build_async().unwrap();
            let store = Pool::builder("store").workers(1).build().unwrap();
            let own = store.clone();
            let task = async move { own.try_submit(|| ()).unwrap().await.unwrap() };
            fetch.spawn(task).await.unwrap();
            let pools = (fetch.clone(), store.clone());
            let both = move || shutdown_in_order(&[&pools.0, &pools.1], LONG);
            (fetch, store, tokio::task::spawn_blocking(both).await.unwrap())
        });
        assert!(reports.into_iter().all(|report| report.unwrap().is_success()));
        assert_eq!(fetch.grace(), store.grace());
        assert_eq!(store.snapshot().completed, 1, "what the first one had to do, it did");
    }
}
