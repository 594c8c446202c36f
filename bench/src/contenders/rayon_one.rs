//! `rayon` with one item per task, for the workload about slices. All else
//! is [`rayon`](super::rayon)'s to show.

use rayon::ThreadPoolBuilder;
use rayon::prelude::*;

use crate::body::ShortTask;
use crate::figures::Figure;
use crate::workloads::{Workload, slice};

pub(crate) fn run(workload: Workload) -> Option<Vec<Figure>> {
    let Workload::Slice = workload else { return None };
    let pool = ThreadPoolBuilder::new()
        .num_threads(slice::WORKERS)
        .build()
        .expect("the system has threads left");
    Some(slice::timed(|items| {
        pool.install(|| {
            items.par_iter().with_max_len(1).map(|item| ShortTask::new(*item).run()).collect()
        })
    }))
}
