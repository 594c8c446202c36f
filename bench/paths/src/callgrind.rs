//! Tells callgrind, which runs this program, when to count. Without it nothing happens.
//!
//! Both requests concern the thread that makes them, given `--separate-threads=yes`.

use std::ffi::{CString, c_char};

const ZERO_STATS: usize = 0x4354_0001;
const DUMP_STATS_AT: usize = 0x4354_0003;

/// From here on.
pub(crate) fn begin() {
    request(ZERO_STATS, std::ptr::null());
}

/// Up to here: what was counted is written to a file of its own, as `path/tasks`.
pub(crate) fn end(path: &str, tasks: u64) {
    let name = CString::new(format!("{path}/{tasks}")).expect("no path has a zero in its name");
    request(DUMP_STATS_AT, name.as_ptr());
}

/// The client request of `valgrind.h`: five instructions that together do nothing, unless
/// valgrind reads them.
#[inline(always)]
fn request(what: usize, argument: *const c_char) {
    let words: [usize; 6] = [what, argument.expose_provenance(), 0, 0, 0, 0];
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the rotations add up to two full turns and the exchange is of a register with
    // itself. Valgrind reads `words` and the text, which both outlive the request, and writes
    // the answer to rdx.
    unsafe {
        std::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") words.as_ptr(),
            inout("rdx") 0_usize => _,
            options(nostack),
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = words; // the script does not measure there
}
