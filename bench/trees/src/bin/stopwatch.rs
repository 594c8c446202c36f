//! Runs a command and says what it took: seconds on the clock and of the cores, most memory.
//!
//! ```text
//! stopwatch STDOUT STDERR COMMAND...
//! ```
//!
//! A process of its own, since a child begins with the memory of whoever started it as its
//! largest so far (`ru_maxrss` outlives `exec`): below a Python with a million paths in memory every
//! peer would seem to need as much.

use std::fs::File;
use std::io;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [stdout, stderr, program, rest @ ..] = arguments.as_slice() else {
        eprintln!("stopwatch: STDOUT STDERR COMMAND...");
        return ExitCode::from(1);
    };
    let run = || -> io::Result<()> {
        let mut command = Command::new(program);
        command.args(rest).stdin(Stdio::null());
        command.stdout(File::create(stdout)?).stderr(File::create(stderr)?);
        measure(&mut command)
    };
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("stopwatch: {}: {problem}", program.to_string_lossy());
            ExitCode::from(2)
        }
    }
}

fn measure(command: &mut Command) -> io::Result<()> {
    let started = Instant::now();
    let child = command.spawn()?;
    let (status, usage) = wait(child.id())?;
    let seconds = started.elapsed().as_secs_f64();
    println!("seconds {seconds:.6}");
    println!("cpu_s {:.6}", (time(usage.ru_utime) + time(usage.ru_stime)).as_secs_f64());
    println!("peak_kb {}", usage.ru_maxrss);
    println!("switches {}", usage.ru_nvcsw);
    // As a shell says it: a signal is 128 and its number.
    let signal = libc::WIFSIGNALED(status).then(|| 128 + libc::WTERMSIG(status));
    println!("code {}", signal.unwrap_or_else(|| libc::WEXITSTATUS(status)));
    Ok(())
}

fn time(value: libc::timeval) -> Duration {
    Duration::from_secs(value.tv_sec as u64) + Duration::from_micros(value.tv_usec as u64)
}

/// Of the child and all of its children that it waited for.
fn wait(child: u32) -> io::Result<(i32, libc::rusage)> {
    let mut status = 0;
    // SAFETY: `rusage` is made of numbers, and all of them may be 0.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both point to values of this frame that may be written to; the child is ours, and
        // nobody else waits for it.
        let ended = unsafe { libc::wait4(child as libc::pid_t, &mut status, 0, &mut usage) };
        if ended >= 0 {
            return Ok((status, usage));
        }
        let problem = io::Error::last_os_error();
        if problem.kind() != io::ErrorKind::Interrupted {
            return Err(problem);
        }
    }
}
