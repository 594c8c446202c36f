//! A worker that is held until the test lets it go.

use std::error::Error;
use std::sync::{Arc, Barrier};

use tidegate::Pool;

/// Holds one worker of a pool until `open`.
pub(crate) struct Gate(Arc<Barrier>);

impl Gate {
    pub(crate) fn hold<S: 'static>(pool: &Pool<S>) -> Result<Gate, Box<dyn Error>> {
        let barrier = Arc::new(Barrier::new(2));
        let theirs = Arc::clone(&barrier);
        pool.spawn(move || {
            theirs.wait();
            theirs.wait();
        })?;
        barrier.wait();
        Ok(Gate(barrier))
    }

    pub(crate) fn open(self) {
        self.0.wait();
    }
}
