//! The words of a command line, with what was set elsewhere as their defaults.

use std::ffi::OsString;

use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _};

use super::args::{Args, Verb};
use super::config::{self, Effective, Environment, Sources};
use super::{Failure, wanted};

/// A command line, with its defaults.
pub(super) struct Line {
    pub(super) args: Args,
    pub(super) matches: ArgMatches,
    pub(super) effective: Vec<Effective>,
}

impl Line {
    /// Twice: what was set elsewhere can be told only when it is known what was said here.
    pub(super) fn read(words: Vec<OsString>, environment: &Environment) -> Result<Line, Failure> {
        let definition = config::definition(Args::command());
        let matches = definition.clone().try_get_matches_from(&words)?;
        let args = Args::from_arg_matches(&matches)?;
        if let Verb::Config(_) | Verb::ExitCodes | Verb::Completions { .. } | Verb::Man = args.verb
        {
            return Ok(Line { args, matches, effective: Vec::new() });
        }
        let sources = Sources::read(&Args::command(), &wanted(&args, environment), environment)?;
        let (path, effective) = sources.of_line(&matches)?;
        let Some(definition) = config::with_defaults(definition, &path, &effective) else {
            return Ok(Line { args, matches, effective });
        };
        let matches = definition.try_get_matches_from(words)?;
        Ok(Line { args: Args::from_arg_matches(&matches)?, matches, effective })
    }
}
