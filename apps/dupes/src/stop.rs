//! placeholder until merged
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);
impl Stop { pub fn is_asked(&self) -> bool { self.0.load(Relaxed) } pub fn ask(&self) { self.0.store(true, Relaxed) } }
