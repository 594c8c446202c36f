//! Globs and regular expressions: each is checked as it is read, then they are put together.

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};
use regex::bytes::{Regex, RegexSet};

use crate::options::Patterns;

/// A glob, and what it is put to.
#[derive(Clone, Debug)]
pub(super) enum Pattern {
    Name(Glob),
    /// The path from the given root on, which has no slash at its beginning.
    Path(Glob),
}

pub(super) fn glob(text: &str) -> Result<Pattern, String> {
    let anchored = text.strip_prefix("./").or_else(|| text.strip_prefix('/'));
    let pattern = anchored.unwrap_or(text);
    if pattern.is_empty() {
        return Err("it matches nothing: expected a glob as '*.jpg' or 'photos/**'".into());
    }
    if let Some(folder) = pattern.strip_suffix('/') {
        return Err(format!("it matches nothing: no path ends with a slash; expected '{folder}'"));
    }
    let glob = GlobBuilder::new(pattern).literal_separator(true).build();
    let glob = glob.map_err(|error| {
        format!(
            "{}; expected a glob as '*.jpg' or 'photos/**', with \\ before what is meant literally",
            error.kind()
        )
    })?;
    let path = anchored.is_some() || pattern.contains('/');
    Ok(if path { Pattern::Path(glob) } else { Pattern::Name(glob) })
}

pub(super) fn regex(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|error| {
        // The whole message draws the expression and points into it, in several lines.
        let message = error.to_string();
        let reason = message.lines().last().unwrap_or_default();
        let reason = reason.strip_prefix("error: ").unwrap_or(reason);
        format!("{reason}; expected a regular expression as '\\.jpe?g$'")
    })
}

/// All of one side. An error means that they are too large together.
pub(super) fn together(globs: &[Pattern], regexes: &[Regex]) -> Result<Patterns, String> {
    let names = globs.iter().filter_map(|pattern| match pattern {
        Pattern::Name(glob) => Some(glob),
        Pattern::Path(_) => None,
    });
    let paths = globs.iter().filter_map(|pattern| match pattern {
        Pattern::Path(glob) => Some(glob),
        Pattern::Name(_) => None,
    });
    Ok(Patterns {
        names: set(names)?,
        paths: set(paths)?,
        regexes: if regexes.is_empty() { None } else { Some(regex_set(regexes)?) },
    })
}

fn set<'a>(globs: impl Iterator<Item = &'a Glob>) -> Result<GlobSet, String> {
    let mut set = GlobSetBuilder::new();
    globs.for_each(|glob| {
        set.add(glob.clone());
    });
    set.build().map_err(|error| format!("the globs can't be used together: {error}"))
}

fn regex_set(regexes: &[Regex]) -> Result<RegexSet, String> {
    RegexSet::new(regexes.iter().map(Regex::as_str))
        .map_err(|error| format!("the regular expressions can't be used together: {error}"))
}
