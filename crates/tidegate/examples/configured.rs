//! Settings from a file, then from the environment, then from the program (feature `toml`).
//!
//! ```sh
//! cargo run --example configured --features toml -p tidegate
//! TIDEGATE_IMAGE_RESIZE_WORKERS=3 cargo run --example configured --features toml -p tidegate
//! TIDEGATE_IMAGE_RESIZE_WORKER=3 cargo run --example configured --features toml -p tidegate
//! ```

use std::error::Error;

use tidegate::{Pool, Settings, Shutdown};

/// A service would read it from `/etc`.
const FILE: &str = r#"
    [pool.image]
    workers = 1

    [pool.image-resize]
    workers = "1..=4"
    queue = 1_000
    when_full = "wait-for 50ms"
    task_timeout = "1m30s"
"#;

const NAMES: [&str; 2] = ["image", "image-resize"];

fn main() {
    if let Err(error) = run() {
        eprintln!("configured: {error}");
        std::process::exit(2);
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let file = Settings::pools_from_toml(FILE)?;
    if let Some(stranger) = file.keys().find(|name| !NAMES.contains(&name.as_str())) {
        return Err(format!("the file has a pool {stranger:?}; there are {NAMES:?}").into());
    }
    // Both at once: the name of one begins with that of the other.
    let env = Settings::from_env(&NAMES)?;

    for name in NAMES {
        let from_file = file.get(name).cloned().unwrap_or_default();
        let builder = Pool::builder(name)
            .settings(&from_file)
            .settings(&env[name])
            .on_parent_cancel(Shutdown::soft()); // not for operators to change
        println!("[pool.{name}]\n{}\n", builder.effective());

        let pool = builder.build()?;
        let sum: u64 = pool.map(1..=100_u64, |n| n * n).sum::<Result<_, _>>()?;
        assert_eq!(sum, 338_350);
        let report = pool.shutdown(Shutdown::default())?;
        assert!(report.is_success(), "{report}");
    }

    // What an operator sees who mistypes a value, and one who mistypes a key.
    for variable in [("TIDEGATE_IMAGE_RESIZE_GRACE", "5"), ("TIDEGATE_IMAGE_WORKER", "5")] {
        let error = Settings::from_vars(&NAMES, [variable]).expect_err("it is refused");
        println!("{error}");
    }
    Ok(())
}
