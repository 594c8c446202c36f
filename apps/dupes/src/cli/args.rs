//! The words, their help, and what each stands for by itself.
//!
//! What comments on parts that several commands share is no `///`: clap would take it for the command's
//! own description.
//!
//! Numbers may be negative for clap: then it is told what would be right, not that `-1` is no option.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Parser, Subcommand};
use clap_complete::Shell;
use regex::bytes::Regex;

use super::dates;
use super::pages;
use super::patterns::{self, Pattern};
use super::values;
use crate::act::deed::Action;
use crate::act::facts::Aspect;
use crate::digest::Algorithm;
use crate::options::{Format, Progress};
use crate::plan::{self, Guard, Rule};
use crate::size;

const WHERE: &str = "Where to look";
const FILES: &str = "Which files count";
const SETS: &str = "Which sets are listed";
const HOW: &str = "How they are compared";
const KEEPING: &str = "Which files stay";
const ACTING: &str = "How it is done";
const OUTPUT: &str = "What is printed";
const CONFIGURATION: &str = "Configuration";

/// Finds files with the same content
#[derive(Parser)]
#[command(name = "dupes", version, after_help = pages::after_help())]
pub(super) struct Args {
    /// Take defaults from this file [default: dupes/config.toml in $XDG_CONFIG_HOME or ~/.config]
    #[arg(long, value_name = "FILE", global = true, help_heading = CONFIGURATION)]
    pub(super) config: Option<PathBuf>,

    /// Take defaults from no file
    #[arg(long, global = true, help_heading = CONFIGURATION, conflicts_with = "config")]
    pub(super) no_config: bool,

    #[command(subcommand)]
    pub(super) verb: Verb,
}

#[derive(Subcommand)]
pub(super) enum Verb {
    Find(Box<Find>),
    Scan(Box<Scan>),
    /// Registers, lists and forgets roots
    #[command(subcommand)]
    Roots(Roots),
    Report(ReportWords),
    Refresh(Box<Refresh>),
    /// Forgets what was found to be gone; nothing on disk is touched
    Purge {
        #[command(flatten)]
        database: Database,
        /// Only what has been gone since before then: a day (2026-11-01, which begins in UTC), or how long ago (30d, 12h)
        #[arg(long, value_name = "DATE", value_parser = dates::parse, allow_hyphen_values = true)]
        before: Option<i64>,
        /// Don't ask
        #[arg(long)]
        yes: bool,
    },
    /// Checks the database: whether it is whole, and whether what it says fits together
    Verify {
        #[command(flatten)]
        database: Database,
        /// Put in order what can be; the next scan brings back what is there
        #[arg(long)]
        repair: bool,
        /// Don't ask
        #[arg(long)]
        yes: bool,
    },
    Plan(Box<PlanWords>),
    Apply(Box<ApplyWords>),
    /// Takes back what apply has done
    ///
    /// Files that were removed or moved are put back, links become files of their own again. What is in the
    /// way is never replaced: both are kept. What it gives back and what it can't is a table in
    /// docs/dupes-safety.md. Without an ID it takes back the last run that is not undone; a second time, the one before.
    Undo {
        /// Which one, as log says [default: the last one that is not undone]
        id: Option<String>,
        #[command(flatten)]
        journal: JournalWords,
        /// An object a line, for each file and at the end
        #[arg(long, help_heading = OUTPUT)]
        json: bool,
    },
    /// Brings an interrupted apply, undo or purge-quarantine to an end
    Recover {
        /// What is to become of what was begun
        #[arg(value_enum)]
        way: Recovery,
        #[command(flatten)]
        journal: JournalWords,
        /// An object a line, for each file and at the end
        #[arg(long, help_heading = OUTPUT)]
        json: bool,
    },
    /// Lists what apply has done, and what became of it
    Log {
        /// Each file of this one
        id: Option<String>,
        #[command(flatten)]
        journal: JournalWords,
        /// As one JSON object
        #[arg(long, help_heading = OUTPUT)]
        json: bool,
    },
    /// Deletes removed files for good; none that has become the last copy
    PurgeQuarantine {
        /// Only what was removed by this one
        id: Option<String>,
        /// Only what was removed before then: a day (2026-11-01, which begins in UTC), or how long ago (30d, 12h)
        #[arg(long, value_name = "DATE", value_parser = dates::parse, allow_hyphen_values = true)]
        keep_for: Option<i64>,
        #[command(flatten)]
        journal: JournalWords,
        /// Don't ask
        #[arg(long)]
        yes: bool,
        /// An object a line, for each file and at the end
        #[arg(long, help_heading = OUTPUT)]
        json: bool,
    },
    /// Shows what is in the database, and how the last scans went
    Status {
        #[command(flatten)]
        database: Database,
        /// As one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Checks the configuration, and says where it is
    #[command(subcommand)]
    Config(Config),
    /// Prints what exit codes mean
    #[command(after_help = pages::exit_codes())]
    ExitCodes,
    /// Prints a script that completes words in a shell
    Completions {
        /// For which shell
        shell: Shell,
    },
    /// Prints the manual page
    Man,
}

/// Finds files with the same content and lists them in sets
///
/// Whatever is called a duplicate was read to its last byte. Hidden files count, empty ones and
/// those that symbolic links lead to don't, unless told. Names of the same inode are one file, and
/// nothing is ever changed.
#[derive(clap::Args)]
#[command(override_usage = pages::USAGE, after_long_help = pages::after_help())]
pub(super) struct Find {
    /// Folders or files to look at
    #[arg(value_name = "PATH", required_unless_present_any = ["stdin", "stdin0"])]
    pub(super) paths: Vec<PathBuf>,

    /// Take more paths from standard input, one a line; empty lines are skipped
    #[arg(long, help_heading = WHERE)]
    pub(super) stdin: bool,

    /// Take more paths from standard input, each ended by a zero byte, as find -print0 writes them
    #[arg(long, help_heading = WHERE, conflicts_with = "stdin")]
    pub(super) stdin0: bool,

    /// Compare with what lies here, too, but list no set that lies only here; can be repeated
    ///
    /// With --isolate only sets are listed that have a file here and one below a PATH.
    #[arg(long, value_name = "PATH", help_heading = WHERE)]
    pub(super) reference: Vec<PathBuf>,

    #[command(flatten)]
    pub(super) counting: Counting,

    /// List files that have no duplicate; with --isolate, what only one of the given paths has
    #[arg(long, help_heading = SETS, conflicts_with_all = ["rf_over", "rf_under"])]
    pub(super) unique: bool,

    /// List sets of more than N files (with --isolate, given paths) [default: 1, or 0 with --rf-under]
    #[arg(long, value_name = "N", help_heading = SETS, value_parser = values::rf_over, allow_negative_numbers = true)]
    pub(super) rf_over: Option<usize>,

    /// List sets of fewer than N files (with --isolate, given paths), single ones too
    #[arg(long, value_name = "N", help_heading = SETS, value_parser = values::rf_under, allow_negative_numbers = true)]
    pub(super) rf_under: Option<usize>,

    /// Files below the same given path are no duplicates of each other; takes two paths or more
    #[arg(long, help_heading = SETS)]
    pub(super) isolate: bool,

    /// Hash all files of a set by this [default: compare their bytes, or blake3]
    ///
    /// xxh3 is fast and proves nothing: its sets are marked as unverified, and it can't be had with
    /// --format fdupes, which has no place for that.
    #[arg(long, help_heading = HOW, value_parser = values::algorithm())]
    pub(super) hash: Option<Algorithm>,

    /// How sets are printed
    #[arg(long, help_heading = OUTPUT, value_enum, default_value_t)]
    pub(super) format: Format,

    /// End lines of text and fdupes with a zero byte, and don't escape names
    ///
    /// Names have control bytes, backslashes and what is not UTF-8 escaped otherwise (\n, \\, \xff),
    /// so that a line is a name and a terminal shows it. In fdupes one more zero byte ends each set.
    #[arg(short = '0', long, help_heading = OUTPUT)]
    pub(super) null: bool,

    #[command(flatten)]
    pub(super) running: Running,
}

// Which files count, and how far to go: the same for every command that walks.
#[derive(clap::Args, Debug, Default)]
pub(super) struct Counting {
    /// Go on where symbolic links lead
    #[arg(long, help_heading = WHERE)]
    pub(super) follow: bool,

    /// Stay on the file systems of the given paths
    #[arg(long, help_heading = WHERE)]
    pub(super) one_file_system: bool,

    /// Go down only so many levels; 1: only what lies directly in a given folder
    #[arg(long, value_name = "N", help_heading = WHERE, value_parser = values::depth, allow_negative_numbers = true)]
    pub(super) depth: Option<usize>,

    /// Skip smaller files; with a unit (k, M, G, T) of 1024: 10k, 1M, 2GiB [default: 1; of scan, 0]
    #[arg(long, value_name = "SIZE", help_heading = FILES, value_parser = size::parse, allow_negative_numbers = true)]
    pub(super) min_size: Option<u64>,

    /// Skip larger files
    #[arg(long, value_name = "SIZE", help_heading = FILES, value_parser = size::parse, allow_negative_numbers = true)]
    pub(super) max_size: Option<u64>,

    /// Only files that match; can be repeated, one match is enough
    ///
    /// A glob without a slash is put to the name, one with a slash to the path from the given
    /// folder on: '*.jpg', 'photos/**/*.jpg'. There * stays within a name, and ** does not. A
    /// leading slash only says that it is a path: '/a*' are those directly in the given folder.
    #[arg(long, value_name = "GLOB", help_heading = FILES, value_parser = patterns::glob)]
    pub(super) name: Vec<Pattern>,

    /// No files that match, and nothing below folders that match; can be repeated
    ///
    /// The glob is put to names or paths as that of --name.
    #[arg(long, value_name = "GLOB", help_heading = FILES, value_parser = patterns::glob)]
    pub(super) exclude: Vec<Pattern>,

    /// Only files whose path, from the given folder on, matches; beside --name one match is enough
    ///
    /// It matches anywhere in the path; use ^ and $ to say where. For bytes that are not UTF-8 use
    /// (?-u).
    #[arg(long, value_name = "REGEX", help_heading = FILES, value_parser = patterns::regex)]
    pub(super) regex: Vec<Regex>,

    /// No files whose path matches, and nothing below folders whose path does
    #[arg(long, value_name = "REGEX", help_heading = FILES, value_parser = patterns::regex)]
    pub(super) exclude_regex: Vec<Regex>,

    /// Files and folders whose name begins with a dot count: the default
    #[arg(long, help_heading = FILES, overrides_with = "no_hidden")]
    hidden: bool,

    /// Files and folders whose name begins with a dot don't count
    #[arg(long, help_heading = FILES, overrides_with = "hidden")]
    pub(super) no_hidden: bool,

    /// Skip what .gitignore and .ignore files say, from the given folder on downwards
    #[arg(long, help_heading = FILES)]
    pub(super) ignore_files: bool,
}

/// Nothing but filters, as they are recorded with a root.
#[derive(Parser)]
pub(super) struct FilterWords {
    #[command(flatten)]
    pub(super) counting: Counting,
}

// How a command runs that walks.
#[derive(clap::Args)]
pub(super) struct Running {
    /// Threads that walk and compare [default: one for each core]
    #[arg(long, value_name = "N", help_heading = HOW, value_parser = values::threads, allow_negative_numbers = true)]
    pub(super) threads: Option<NonZeroUsize>,

    /// Threads that read here and there [default: as many as the disk can use, measured]
    #[arg(long, value_name = "N", help_heading = HOW, value_parser = values::threads, allow_negative_numbers = true)]
    pub(super) io_threads: Option<NonZeroUsize>,

    /// What is shown on stderr while it runs
    #[arg(long, help_heading = OUTPUT, value_enum, default_value_t)]
    pub(super) progress: Progress,

    /// Serve metrics for Prometheus while it runs
    ///
    /// A port (9090 or :9090) is one of the loopback interface. To be reached from elsewhere the
    /// address must be there in full: 0.0.0.0:9090.
    #[arg(long, value_name = "ADDR", help_heading = OUTPUT, value_parser = values::address)]
    pub(super) metrics: Option<SocketAddr>,
}

// Where things are kept.
#[derive(clap::Args)]
pub(super) struct Database {
    /// The database [default: dupes/dupes.db in $XDG_DATA_HOME or ~/.local/share]
    #[arg(long, value_name = "FILE", help_heading = WHERE)]
    pub(super) database: Option<PathBuf>,
}

/// Looks at folders and records what is in them
///
/// What is known from an earlier scan is not read again: only files that are new, or that have changed, and
/// only if another one has the same size. A path that was not scanned before is registered as a
/// root, with the filters that are given now.
#[derive(clap::Args)]
#[command(override_usage = pages::SCAN_USAGE)]
pub(super) struct Scan {
    /// What to do (all: look and read; folders: only look; files: read in the folders that are known), then
    /// the roots; without any, all that are registered. A folder with one of these names is ./all
    #[arg(value_name = "MODE|ROOT")]
    pub(super) words: Vec<PathBuf>,

    #[command(flatten)]
    pub(super) database: Database,

    #[command(flatten)]
    pub(super) counting: Counting,

    /// Read everything again, whatever is known
    #[arg(long, help_heading = HOW)]
    pub(super) restart: bool,

    /// Hash every file, also those of a size or sample of their own: for a disk that will be in a drawer
    #[arg(long, help_heading = HOW)]
    pub(super) all_hashes: bool,

    /// Use what is known of files on network, FUSE and overlay file systems, too
    #[arg(long, help_heading = HOW)]
    pub(super) trust_inodes: bool,

    /// Hash by this from now on; another one than before makes all hashes void [default: blake3]
    ///
    /// It asks before it does that. Set elsewhere than here, it is the hash of a new database only.
    #[arg(long, help_heading = HOW, value_parser = values::proving_algorithm())]
    pub(super) hash: Option<Algorithm>,

    /// Don't ask
    #[arg(long, help_heading = HOW)]
    pub(super) yes: bool,

    /// Give up when more than N files or folders could not be read
    #[arg(long, value_name = "N", help_heading = HOW, value_parser = values::errors, allow_negative_numbers = true)]
    pub(super) max_errors: Option<u64>,

    #[command(flatten)]
    pub(super) running: Running,

    /// Print the summary as one JSON object, for all roots
    #[arg(long, help_heading = OUTPUT)]
    pub(super) json: bool,
}

/// Says which files of each set stay and which go, and writes that to a file
///
/// Nothing is changed. The file is carried out by apply --plan, today or later: what has changed until then is
/// left alone. It is for programs, a line for each set; people read `dupes apply ACTION --plan FILE`, which without
/// --execute only says what it would do. A line may be deleted: that set is left alone.
#[derive(clap::Args)]
#[command(override_usage = pages::PLAN_USAGE)]
pub(super) struct PlanWords {
    #[command(flatten)]
    pub(super) subject: Subject,

    /// Where to write it; a plan that is there is replaced, and nothing else
    #[arg(short, long, value_name = "FILE", help_heading = OUTPUT)]
    pub(super) output: PathBuf,

    #[command(flatten)]
    pub(super) running: Running,
}

/// Removes, moves or links files that have a copy which stays
///
/// Without --execute it only says what it would do. Every file is compared byte by byte with one that stays
/// right before it is touched, and looked at once more when it is out of the way; whatever is not as it should be is left
/// alone, and told. `dupes undo` takes it back.
#[derive(clap::Args)]
#[command(override_usage = pages::APPLY_USAGE)]
pub(super) struct ApplyWords {
    /// What happens to files that have a copy which stays
    #[arg(value_enum)]
    pub(super) action: Action,

    #[command(flatten)]
    pub(super) subject: Subject,

    /// Carry out this plan
    #[arg(long, value_name = "FILE", help_heading = WHERE, conflicts_with_all = NOT_WITH_A_PLAN, conflicts_with_all = NOT_WITH_A_REPORT)]
    pub(super) plan: Option<PathBuf>,

    /// Do it; without this, only say what would be done
    #[arg(long, help_heading = ACTING)]
    pub(super) execute: bool,

    /// Where to move to: a folder on the same file system; below it, files have the way they had below their root
    ///
    /// It must be there. If it lies where files come from, what is in it neither goes nor stays for others.
    #[arg(long, value_name = "DIR", help_heading = ACTING, required_if_eq("action", "move"))]
    pub(super) to: Option<PathBuf>,

    /// Put removed files here [default: the topmost folder of their file system that can be written to]
    ///
    /// A folder on the same file system: in it, .dupes-quarantine-UID is made, which only you may enter.
    #[arg(long, value_name = "DIR", help_heading = ACTING)]
    pub(super) quarantine: Option<PathBuf>,

    /// Link also files that differ from the one that stays in these: what a link takes from them; several with
    /// commas, or repeated
    #[arg(long, value_name = "WHAT", help_heading = ACTING, value_enum, value_delimiter = ',')]
    pub(super) allow_differing: Vec<Aspect>,

    /// Delete removed files at once, when they were looked at in the quarantine; asks
    #[arg(long, help_heading = ACTING)]
    pub(super) no_undo: bool,

    /// Don't ask
    #[arg(long, help_heading = ACTING)]
    pub(super) yes: bool,

    #[command(flatten)]
    pub(super) journal: JournalWords,

    #[command(flatten)]
    pub(super) running: Running,

    /// An object a line, for each file and at the end
    #[arg(long, help_heading = OUTPUT)]
    pub(super) json: bool,
}

/// What a report does not heed: what counts was said when its roots were registered.
const NOT_WITH_A_REPORT: [&str; 14] = [
    "paths",
    "reference",
    "isolate",
    "follow",
    "one_file_system",
    "depth",
    "max_size",
    "name",
    "exclude",
    "regex",
    "exclude_regex",
    "hidden",
    "no_hidden",
    "ignore_files",
];

/// Nor what a plan does not: it says which files stay.
const NOT_WITH_A_PLAN: [&str; 5] = ["report", "min_size", "keep", "keep_copies", "folders"];

// What is planned for, and what stays.
#[derive(clap::Args)]
pub(super) struct Subject {
    /// Folders or files to look at now
    #[arg(value_name = "PATH")]
    pub(super) paths: Vec<PathBuf>,

    /// Take the sets of the last scans instead; what was changed since is left alone
    #[arg(long, help_heading = WHERE, conflicts_with_all = NOT_WITH_A_REPORT)]
    pub(super) report: bool,

    /// Compare with what lies here, too: nothing here is ever touched, or hard-linked to; can be repeated
    #[arg(long, value_name = "PATH", help_heading = WHERE)]
    pub(super) reference: Vec<PathBuf>,

    #[command(flatten)]
    pub(super) database: Database,

    #[command(flatten)]
    pub(super) counting: Counting,

    /// Files below the same given path are no duplicates of each other: one goes only for a file that stays below
    /// another one; takes two paths or more
    #[arg(long, help_heading = SETS)]
    pub(super) isolate: bool,

    /// Whole folders go as one, if another one has the same names and contents; the rest goes file by file
    ///
    /// The largest come first. A folder with anything in it that is in no set is no duplicate, but for empty files, which
    /// are equal to those of the same name. A PATH that was given does not go itself. What is twice within a folder
    /// that stays is left there, as long as the one that went can be put back. For rules, a folder is as new as the
    /// newest file in it, and matches a glob by its own path or name, or if all of its files do. No folder goes with a
    /// file in it that a glob makes stay without --folders.
    #[arg(long, help_heading = SETS, conflicts_with = "isolate")]
    pub(super) folders: bool,

    /// Which file of a set stays; can be repeated, the first rule decides [default: the first path]
    ///
    /// newest, oldest, deepest, shallowest, first (below the path that was given first), path:GLOB, name:GLOB. Where
    /// rules hold for several files, the first path in byte order is taken. A glob is put to the whole path, or the
    /// name; * stays within a name, and ** does not.
    #[arg(long, value_name = "RULE", help_heading = KEEPING, value_parser = plan::rule)]
    pub(super) keep: Vec<Rule>,

    /// So many files of each set stay
    #[arg(long, value_name = "N", help_heading = KEEPING, default_value = "1", value_parser = values::copies, allow_negative_numbers = true)]
    pub(super) keep_copies: usize,

    /// What matches stays, with all below it, whatever else is said; can be repeated
    ///
    /// Without a slash it is put to names, of files and of folders on the way. With one it is a path, from the current
    /// folder on unless it begins with / or **/; links in it are followed up to the first wildcard. * stays within a
    /// name, and ** does not. One that matches none of the files that are there twice, and is not just a path that is
    /// there, is an error for --execute: nothing is done.
    #[arg(long, value_name = "GLOB", help_heading = KEEPING, value_parser = plan::guard)]
    pub(super) protect: Vec<Guard>,
}

// Where it is written down.
#[derive(clap::Args)]
pub(super) struct JournalWords {
    /// The folder of the journals [default: dupes/journal in $XDG_DATA_HOME or ~/.local/share]
    #[arg(long, value_name = "DIR", help_heading = WHERE)]
    pub(super) journal: Option<PathBuf>,
}

/// What is to become of what was begun.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum Recovery {
    /// What had begun is done, with all checks; the same command does the rest, also of an undo or a purge
    Finish,
    /// All of the interrupted apply is taken back
    RollBack,
    /// Nothing is touched: whatever is at a path, or was put aside, stays there, and `log` names the places; `undo ID` still tries. For a disk that may not come back
    GiveUp,
}

/// Sees what is still there
///
/// What is gone is marked, what is back is restored. Nothing is read, and nothing is added: that is
/// what scan is for.
#[derive(clap::Args)]
pub(super) struct Refresh {
    /// Registered roots; without any, all
    #[arg(value_name = "ROOT")]
    pub(super) roots: Vec<PathBuf>,

    #[command(flatten)]
    pub(super) database: Database,

    #[command(flatten)]
    pub(super) running: Running,

    /// Print the summary as one JSON object, for all roots
    #[arg(long, help_heading = OUTPUT)]
    pub(super) json: bool,
}

#[derive(Subcommand)]
pub(super) enum Roots {
    /// Registers a folder, with filters that hold for all scans of it
    ///
    /// Of a root that is registered and offline: whatever is at its path is that root from now on, also where another
    /// disk was; what was there is gone with the next scan. It asks before that.
    Add {
        /// The folder
        path: PathBuf,
        #[command(flatten)]
        database: Database,
        /// Don't ask
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        counting: Counting,
    },
    /// Lists them
    List {
        #[command(flatten)]
        database: Database,
        /// As one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Forgets one, with all that is known of it; nothing on disk is touched
    Remove {
        /// As it is listed
        path: PathBuf,
        #[command(flatten)]
        database: Database,
        /// Don't ask
        #[arg(long)]
        yes: bool,
    },
}

/// Says what the database knows: as lists, or as one page to look at
#[derive(clap::Args)]
#[command(
    override_usage = pages::REPORT_USAGE,
    args_conflicts_with_subcommands = true,
    after_help = pages::REPORT_EXAMPLE
)]
pub(super) struct ReportWords {
    #[command(subcommand)]
    pub(super) lists: Option<Report>,

    /// Write one page for a browser: where the space goes, sets and folders to sort and to search
    ///
    /// It needs no network and no other file. A FILE that is there is replaced once the new one is
    /// complete; a new one can be read by you only.
    #[arg(long, value_name = "FILE", value_parser = values::page())]
    pub(super) html: Option<PathBuf>,

    #[command(flatten)]
    pub(super) database: Database,
}

#[derive(Subcommand)]
pub(super) enum Report {
    /// Lists sets of files with the same content, as of the last scans
    Files {
        #[command(flatten)]
        database: Database,
        /// Only files of at least that size
        #[arg(long, value_name = "SIZE", default_value = "1", value_parser = size::parse, allow_negative_numbers = true)]
        min_size: u64,
        /// How sets are printed
        #[arg(long, value_enum, default_value_t)]
        format: Format,
        /// The same as --format json
        #[arg(long, conflicts_with = "format")]
        json: bool,
        /// End lines of text and fdupes with a zero byte, and don't escape names
        #[arg(short = '0', long)]
        null: bool,
        #[command(flatten)]
        misplaced: Misplaced,
    },
    /// Lists folders that are equal, much alike, or held by another one, as of the last scans
    ///
    /// Equal folders are in path order: the first stays, and the others are reclaimable.
    Folders {
        #[command(flatten)]
        database: Database,
        /// How much of all files of two folders both must have to be called alike
        #[arg(long, value_name = "PERCENT", default_value = "50", value_parser = values::percent, allow_negative_numbers = true)]
        partial: u32,
        /// Compare contents only, whatever the names
        #[arg(long)]
        ignore_names: bool,
        /// As one JSON object
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        misplaced: Misplaced,
    },
}

// Who asks a list for the page is told where it is to be had.
#[derive(clap::Args)]
pub(super) struct Misplaced {
    #[arg(long, hide = true, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
}

#[derive(Subcommand)]
pub(super) enum Config {
    /// Reads the configuration file and the environment, and prints every setting with where it comes from
    ///
    /// With a command line behind it, the settings that it would have; it is not run.
    #[command(after_help = pages::CONFIG_HELP)]
    Check {
        /// As one JSON object
        #[arg(long)]
        json: bool,
        /// A command with its options, as in: find --threads 2 PATH
        #[arg(value_name = "COMMAND LINE", trailing_var_arg = true, allow_hyphen_values = true)]
        line: Vec<OsString>,
    },
    /// Prints where the configuration file is looked for
    Path,
}
