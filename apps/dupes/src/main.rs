//! `dupes`: finds files with the same content.

#![forbid(unsafe_code)]

use std::io::{self, BufRead, BufReader};
use std::process::ExitCode;

use dupes::exit::Exit;
use dupes::{cli, commands};

fn main() -> ExitCode {
    let mut stdin: Box<dyn BufRead> = Box::new(BufReader::new(io::stdin()));
    let exit = match cli::parse(std::env::args_os(), &mut stdin) {
        Ok(command) => commands::run(command),
        Err(failure) if failure.stdout => match commands::print(failure.text.as_bytes()) {
            Exit::Complete => failure.exit,
            other => other,
        },
        Err(failure) => {
            commands::say(failure.text.trim_end());
            failure.exit
        }
    };
    exit.into()
}
