//! Single values. Each error says what would have been right; clap adds the value and the option.

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use clap::builder::{PathBufValueParser, PossibleValuesParser, TypedValueParser};

use crate::digest::Algorithm;

/// More than this only ever came from a slip of the finger.
const MOST_THREADS: usize = 1024;

/// Copies and levels: more than there are, and far from where a number wraps around.
const MOST: usize = 1_000_000_000;

pub(super) fn threads(text: &str) -> Result<NonZeroUsize, String> {
    let number = number(text, 1..=MOST_THREADS)?;
    Ok(NonZeroUsize::new(number).expect("the range begins with 1"))
}

pub(super) fn depth(text: &str) -> Result<usize, String> {
    number(text, 1..=MOST)
}

pub(super) fn copies(text: &str) -> Result<usize, String> {
    number(text, 1..=MOST)
}

pub(super) fn rf_over(text: &str) -> Result<usize, String> {
    number(text, 0..=MOST)
}

/// Fewer than 2 is one: nothing has fewer.
pub(super) fn rf_under(text: &str) -> Result<usize, String> {
    number(text, 2..=MOST)
}

/// It is replaced as a whole, which standard output can't be.
pub(super) fn page() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| match path == Path::new("-") {
        true => Err("expected the name of a file; one that is called so is ./-"),
        false => Ok(path),
    })
}

pub(super) fn algorithm() -> impl TypedValueParser<Value = Algorithm> {
    PossibleValuesParser::new(Algorithm::NAMES.map(|(name, _)| name))
        .map(|chosen| Algorithm::from_name(&chosen).expect("only these names are possible"))
}

/// Those that prove something: what is stored is claimed by it.
pub(super) fn proving_algorithm() -> impl TypedValueParser<Value = Algorithm> {
    let proves = |(_, algorithm): &(&str, Algorithm)| *algorithm != Algorithm::Xxh3;
    let names: Vec<&str> =
        Algorithm::NAMES.iter().filter(|row| proves(row)).map(|(name, _)| *name).collect();
    PossibleValuesParser::new(names)
        .map(|chosen| Algorithm::from_name(&chosen).expect("only these names are possible"))
}

pub(super) fn errors(text: &str) -> Result<u64, String> {
    number(text, 0..=MOST).map(|number| number as u64)
}

pub(super) fn percent(text: &str) -> Result<u32, String> {
    number(text, 1..=100).map(|number| number as u32)
}

/// A port alone is one that nobody else can reach.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    let local = text.strip_prefix("localhost:").or_else(|| text.strip_prefix(':')).unwrap_or(text);
    if let Ok(port) = number(local, 0..=usize::from(u16::MAX)) {
        return Ok((Ipv4Addr::LOCALHOST, port as u16).into());
    }
    text.parse().map_err(|_| {
        "expected a port (9090 or :9090, on the loopback interface) \
         or an address in full: 127.0.0.1:9090, [::1]:9090, 0.0.0.0:9090"
            .into()
    })
}

fn number(text: &str, fits: RangeInclusive<usize>) -> Result<usize, String> {
    // The standard parser takes a plus sign, too.
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|number| digits && fits.contains(number));
    number.ok_or_else(|| format!("expected a number from {} to {}", fits.start(), fits.end()))
}
