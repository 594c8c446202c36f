//! What the system says about this process.

use std::fs;
use std::time::Duration;

/// Set by `compare --quick`: shorter windows, no workload of minutes.
pub(crate) fn is_quick() -> bool {
    std::env::var_os("TIDEGATE_BENCH_QUICK").is_some()
}

/// CPU time of all threads so far, those that ended included.
pub(crate) fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a timespec that may be written to.
    let answer = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    assert_eq!(answer, 0, "every Unix has this clock");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Resident memory now.
pub(crate) fn resident_kb() -> f64 {
    status("VmRSS:").expect("only Linux tells the memory of a process this way")
}

/// The most resident memory so far; `None` where the system does not tell.
///
/// Not `ru_maxrss`: that is inherited from whoever started this process.
pub(crate) fn peak_resident_kb() -> Option<f64> {
    status("VmHWM:")
}

fn status(field: &str) -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    line.split_whitespace().next()?.parse().ok()
}
