//! What a pool tells `tracing` (feature `tracing`), here to a subscriber of a few lines; a real
//! one, such as that of `tracing-subscriber`, shows spans as well.
//!
//! ```sh
//! cargo run --example tracing --features tracing -p tidegate
//! ```

use std::fmt::Debug;

use tidegate::{Pool, Shutdown};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Prints what it hears. All its spans are one.
struct Printer;

impl Visit for Printer {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        println!("    {field} = {value:?}");
    }
}

impl Subscriber for Printer {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "tidegate"
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        println!("new span: {}", span.metadata().name());
        span.record(&mut Printer);
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, values: &Record<'_>) {
        println!("in the span:");
        values.record(&mut Printer);
    }
    fn event(&self, event: &Event<'_>) {
        println!("event, {}:", event.metadata().level());
        event.record(&mut Printer);
    }
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing::subscriber::set_global_default(Printer)?;
    let pool = Pool::builder("images").workers(1).build()?;
    pool.task("resize").external_id(4711_u64).submit(|_| ())?.wait()?;
    pool.spawn(|| panic!("nobody sees it, so it becomes an event"))?;
    pool.shutdown(Shutdown::default())?;
    Ok(())
}
