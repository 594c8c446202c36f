//! What a run is to do: values that can't be wrong any more.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use crate::digest::Algorithm;

/// All that `dupes find` can be told.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to look, as given, in that order. Never empty.
    pub roots: Vec<Root>,
    /// Which files count.
    pub filter: Filter,
    /// A hash that every set must have. None: whatever is fastest and proves it.
    pub hash: Option<Algorithm>,
    /// Workers that compute. None: as many as there are cores.
    pub threads: Option<NonZeroUsize>,
    /// Workers that read here and there. None: measured.
    pub io_threads: Option<NonZeroUsize>,
    /// Files of one root are no duplicates of each other.
    pub isolate: bool,
    /// How many files a set must have to be listed.
    pub copies: RangeInclusive<usize>,
    /// How it is printed.
    pub format: Format,
    /// Names end with a zero byte instead of a newline (`text` and `fdupes`).
    pub nul: bool,
    /// Shown while it runs.
    pub progress: Progress,
    /// Where metrics are served meanwhile.
    pub metrics: Option<SocketAddr>,
}

/// A place to look at: a folder, or a single file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// As it was given: listings begin with it.
    pub path: PathBuf,
    /// What lies here is only compared with: a set of nothing else is not listed.
    pub reference: bool,
}

/// Which files count, and how far to go.
#[derive(Clone, Debug)]
pub struct Filter {
    /// Bytes.
    pub size: RangeInclusive<u64>,
    /// Names that begin with a dot.
    pub hidden: bool,
    /// Obey `.gitignore` and `.ignore`.
    pub ignore_files: bool,
    /// Go on where symbolic links lead.
    pub follow: bool,
    /// Stay on the file systems of the roots.
    pub one_file_system: bool,
    /// How many folders below a root; 1: only what lies directly in it.
    pub depth: Option<usize>,
    /// If there are any: only files whose name or path matches one of them.
    pub only: Patterns,
    /// Never files or folders whose name or path matches one of these.
    pub except: Patterns,
    /// Nor these files and folders, by device and inode: those of the database itself, and the journals.
    pub never: Vec<(u64, u64)>,
}

/// Globs and regular expressions; they see names (globs without a slash) or whole paths.
#[derive(Clone, Debug, Default)]
pub struct Patterns {
    /// Globs that are put to the name alone.
    pub names: globset::GlobSet,
    /// Globs that are put to the path from its root on.
    pub paths: globset::GlobSet,
    /// Regular expressions, put to that path; None where there is none.
    pub regexes: Option<regex::bytes::RegexSet>,
}

/// How sets are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people: a header and indented paths for each set, control bytes escaped.
    #[default]
    Text,
    /// A path a line and an empty line after each set; further links to a file are left out.
    Fdupes,
    /// A row for each path.
    Csv,
    /// One object.
    Json,
}

/// What is shown while it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Progress {
    /// A line on stderr, if that is a terminal.
    #[default]
    Auto,
    /// Nothing.
    Never,
    /// A JSON object a line on stderr, about twice a second.
    Json,
}
