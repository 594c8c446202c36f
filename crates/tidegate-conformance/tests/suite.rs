//! The suite under `cargo test`: a module per kind, a `#[test]` per test. Half of the kinds, to be
//! quick; the runner has them all.
#![forbid(unsafe_code)]

use tidegate_conformance::kinds::{AsyncKind, HandMadeKind, TidegateKind};
use tidegate_conformance::{kit, stamp_suite};

/// Names the runner's program to tests that start a child, on the way to the kind.
fn with_children<K>(kind: K) -> K {
    kit::set_child_program(env!("CARGO_BIN_EXE_tidegate-conformance").into());
    kind
}

stamp_suite!(tidegate_1w, with_children(TidegateKind::threads("tidegate-1w", 1)));
stamp_suite!(tidegate_2w, with_children(TidegateKind::threads("tidegate-2w", 2)));
stamp_suite!(tidegate_state, TidegateKind::threads("tidegate-state", 2).with_state());
stamp_suite!(tidegate_q1, with_children(TidegateKind::threads("tidegate-q1", 2).queue(1)));
stamp_suite!(tokio_2w, AsyncKind::multi_thread("tokio-2w", 2));
stamp_suite!(tokio_current_1w, AsyncKind::current_thread("tokio-current-1w"));
stamp_suite!(hand_made_2w, HandMadeKind::new("hand-made-2w", 2));
