//! Light, Soft, Hard, and Light with a limit: what becomes of queued and running work.

use std::error::Error;
use std::sync::mpsc;
use std::time::Duration;

use tidegate::{Handle, Pool, Shutdown, Stop};

/// What the running task does when it is told to stop.
#[derive(Clone, Copy)]
enum Manners {
    /// Ends by itself after a while, and hears nothing.
    Brief,
    /// Runs until it is told, then leaves.
    Obedient,
    /// Does not listen for as long as this program lives.
    Stubborn,
}

fn play(how: Shutdown, manners: Manners) -> Result<(), Box<dyn Error>> {
    println!("-- {how}");
    let pool = Pool::builder("modes").workers(1).grace(Duration::from_millis(100)).build()?;
    let (entered, inside) = mpsc::channel();
    let running: Handle<(), Stop> = pool.task("running").submit_result(move |cx| {
        let _ = entered.send(());
        match manners {
            Manners::Brief => std::thread::sleep(Duration::from_millis(50)), // the work
            Manners::Obedient => cx.token().wait(),
            Manners::Stubborn => loop {
                std::thread::park();
            },
        }
        if matches!(manners, Manners::Brief) { Ok(()) } else { cx.check() }
    })?;
    let queued: Handle<()> = pool.task("queued").submit(|_| ())?;
    inside.recv()?;
    let report = pool.shutdown(how)?;
    println!("running: {}", in_words(running));
    println!("queued:  {}", in_words(queued));
    println!("{report}\n");
    Ok(())
}

fn in_words<E: std::fmt::Display + std::fmt::Debug>(handle: Handle<(), E>) -> String {
    match handle.wait() {
        Ok(()) => "completed".to_owned(),
        Err(error) => error.to_string(),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    play(Shutdown::light(), Manners::Brief)?;
    play(Shutdown::soft(), Manners::Brief)?;
    play(Shutdown::hard(), Manners::Obedient)?;
    // Light would wait for ever here; the limit turns it Hard, and the report says so.
    play(Shutdown::light().within(Duration::from_millis(200)), Manners::Stubborn)
}
