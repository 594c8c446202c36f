//! The pools that the suite runs on.

mod async_pool;
mod hand_made;
mod tidegate_pool;

use std::sync::Arc;

pub use async_pool::AsyncKind;
pub use hand_made::HandMadeKind;
pub use tidegate_pool::TidegateKind;

use crate::port::Kind;

/// All kinds, in the order in which the runner goes through them.
pub fn all() -> Vec<Arc<dyn Kind>> {
    vec![
        Arc::new(TidegateKind::threads("tidegate-1w", 1)),
        Arc::new(TidegateKind::threads("tidegate-2w", 2)),
        Arc::new(TidegateKind::threads("tidegate-8w", 8)),
        Arc::new(TidegateKind::threads("tidegate-help", 2).helping()),
        Arc::new(TidegateKind::threads("tidegate-state", 2).with_state()),
        Arc::new(TidegateKind::threads("tidegate-q1", 2).queue(1)),
        Arc::new(TidegateKind::threads("tidegate-1to4w", 4).growing()),
        Arc::new(TidegateKind::threads("tidegate-1000w", 1_000).a_few_tests()),
        Arc::new(AsyncKind::multi_thread("tokio-2w", 2)),
        Arc::new(AsyncKind::multi_thread("tokio-8w", 8)),
        Arc::new(AsyncKind::current_thread("tokio-current-1w")),
        Arc::new(HandMadeKind::new("hand-made-2w", 2)),
    ]
}

/// The kind of this name.
pub fn named(name: &str) -> Option<Arc<dyn Kind>> {
    all().into_iter().find(|kind| kind.name() == name)
}
