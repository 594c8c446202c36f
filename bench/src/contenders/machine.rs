//! No pool at all: the machine itself, for what it allows.

use crate::figures::Figure;
use crate::workloads::{Workload, raw};

pub(crate) fn run(workload: Workload) -> Option<Vec<Figure>> {
    matches!(workload, Workload::Raw).then(raw::run)
}
