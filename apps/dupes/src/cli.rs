//! The command line: words in, [`Options`] that can't be wrong out. Nothing is checked again later.

mod args;
mod check;
pub mod config;
pub(crate) mod dates;
mod fits;
mod line;
mod pages;
mod patterns;
mod safety;
mod stdin;
#[cfg(test)]
mod tests;
mod values;

use std::collections::HashSet;
use std::ffi::OsString;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::error::ErrorKind;
use clap::{ArgAction, ArgMatches, CommandFactory as _, Parser as _};

use self::args::{
    ApplyWords, Args, Config, Counting, Database, FilterWords, Find, JournalWords, Misplaced,
    Recovery, Refresh, Report, ReportWords, Roots, Running, Subject as SubjectWords, Verb,
};
pub use self::check::Checked;
use self::config::{Effective, Environment, Wanted};
use self::fits::{copies, format_fits, null_fits, roots, roots_suffice, sizes};
use self::line::Line;
use crate::act::deed::Action;
use crate::act::facts::Aspect;
use crate::act::recover::Way;
use crate::alike::{By, Likeness};
use crate::exit::Exit;
use crate::journal;
use crate::options::{Filter, Format, Options};
use crate::plan::{Grain, Keep, Protect};
use crate::remember::Mode;
use crate::scan::Request;
use crate::store;

/// What is to be done.
#[derive(Debug)]
pub enum Command {
    /// Look for duplicates.
    Find(Box<Options>),
    /// Record what is there.
    Scan(Box<Scan>),
    /// Register a root.
    AddRoot(PathBuf, PathBuf, Words, Consent),
    /// List them.
    ListRoots(PathBuf, Style),
    /// Forget one.
    RemoveRoot(PathBuf, PathBuf, Consent),
    /// List sets that are recorded.
    ReportFiles(PathBuf, Listing),
    /// List folders that are alike.
    ReportFolders(PathBuf, Likeness, Style),
    /// Write a page to look at to the second path.
    ReportPage(PathBuf, PathBuf),
    /// Forget what has been gone since before that time.
    Purge(PathBuf, i64, Consent),
    /// Look whether the database is in order, and perhaps put it in order.
    Verify(PathBuf, Remedy, Consent),
    /// Write down what is to be done.
    Plan(Box<Subject>, PathBuf),
    /// Do it, or say what would be done.
    Apply(Box<Apply>),
    /// Take it back: the last one, or this one.
    Undo(PathBuf, Option<String>, Style),
    /// Bring what was interrupted to an end.
    Recover(PathBuf, Way, Style),
    /// List what was done.
    Log(PathBuf, Option<String>, Style),
    /// Delete for good what was removed.
    PurgeQuarantine(Box<PurgeQuarantine>),
    /// Say how things are.
    Status(PathBuf, Style),
    /// Say what is set, and by whom.
    CheckConfig(Box<Checked>, Style),
    /// Print this to stdout: a page or a script that was asked for.
    Print(Vec<u8>),
}

/// A scan that somebody has asked for.
#[derive(Debug)]
pub struct Scan {
    /// The database.
    pub database: PathBuf,
    /// Roots; none: all.
    pub paths: Vec<PathBuf>,
    /// The filters for roots that are new.
    pub words: Words,
    /// What to do.
    pub request: Request,
    /// Whether its hash is for a database that has another one, too: said on the command line.
    pub may_change_hash: bool,
    /// To make hashes void.
    pub consent: Consent,
    /// More problems than that end it.
    pub max_errors: Option<u64>,
    /// How the end is told.
    pub style: Style,
}

/// What is to be acted on, and what stays.
#[derive(Debug)]
pub struct Subject {
    /// What goes as one.
    pub grain: Grain,
    /// Where sets come from.
    pub source: Source,
    /// How it runs; where to look and what counts, if that is now.
    pub options: Options,
    /// Which files stay.
    pub keep: Keep,
    /// A database that was named.
    pub database: Option<PathBuf>,
}

/// Where sets come from.
#[derive(Debug)]
pub enum Source {
    /// A search.
    Find,
    /// The last scans, in this database.
    Report(PathBuf),
    /// A file that says what to do.
    Plan(PathBuf),
}

/// An action that somebody has asked for.
#[derive(Debug)]
pub struct Apply {
    /// On what.
    pub subject: Subject,
    /// Which one.
    pub action: Action,
    /// Not only said.
    pub execute: bool,
    /// For `move`.
    pub to: Option<PathBuf>,
    /// For `remove`.
    pub quarantine: Option<PathBuf>,
    /// What links may take from files.
    pub allow: HashSet<Aspect>,
    /// What is removed is deleted at once.
    pub for_good: bool,
    /// To that.
    pub consent: Consent,
    /// The folder of the journals.
    pub journal: PathBuf,
    /// How it is told.
    pub style: Style,
}

/// What is to be deleted for good.
#[derive(Debug)]
pub struct PurgeQuarantine {
    /// The folder of the journals.
    pub journal: PathBuf,
    /// Only of this run.
    pub id: Option<String>,
    /// Only what was removed before then.
    pub before: i64,
    /// To that.
    pub consent: Consent,
    /// How it is told.
    pub style: Style,
}

/// Filters, as they are recorded with a root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// Each in one word.
    pub all: Vec<String>,
    /// Some were said on the command line: then a root that is known must have just these. What comes from
    /// elsewhere is only for new ones.
    pub are_said: bool,
}

/// How sets that are recorded are listed.
#[derive(Clone, Copy, Debug)]
pub struct Listing {
    /// Only files of at least so many bytes.
    pub min_size: u64,
    /// How it is printed.
    pub format: Format,
    /// Names end with a zero byte.
    pub nul: bool,
}

/// For whom something is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// People.
    Text,
    /// Programs.
    Json,
}

/// What is done about faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// They are told.
    Tell,
    /// They are put in order.
    Repair,
}

/// Whether something that can't be taken back may be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consent {
    /// It was said on the command line.
    Given,
    /// Somebody must be asked.
    Asked,
}

/// Nothing is to be done, and why: wrong words, or a question that is answered by a text.
#[derive(Debug)]
pub struct Failure {
    /// What to print, with its last newline.
    pub text: String,
    /// It was asked for (help, version) and goes to stdout; all else goes to stderr.
    pub stdout: bool,
    /// How to end then.
    pub exit: Exit,
}

/// Understands a command line, of which the first word is the name of the program. Reads `stdin`
/// only if the words say that paths come from there. Defaults come from the environment and a file.
pub fn parse(
    args: impl IntoIterator<Item = OsString>,
    stdin: &mut dyn BufRead,
) -> Result<Command, Failure> {
    parse_in(args, stdin, &Environment::of_process())
}

/// The same, in this environment.
pub fn parse_in(
    args: impl IntoIterator<Item = OsString>,
    stdin: &mut dyn BufRead,
    environment: &Environment,
) -> Result<Command, Failure> {
    understood(Line::read(args.into_iter().collect(), environment)?, stdin, environment)
}

/// Each word was fine by itself; what they say together may still make no sense.
fn understood(
    line: Line,
    stdin: &mut dyn BufRead,
    environment: &Environment,
) -> Result<Command, Failure> {
    let Line { args, matches, effective } = line;
    command(args, &matches, &effective, stdin, environment)
        .map_err(|failure| config::explain(in_form(failure, &matches), &effective))
}

/// The configuration file.
fn wanted(args: &Args, environment: &Environment) -> Wanted {
    Wanted::new(args.config.as_deref(), args.no_config, environment)
}

fn style(json: bool) -> Style {
    if json { Style::Json } else { Style::Text }
}

fn consent(yes: bool) -> Consent {
    if yes { Consent::Given } else { Consent::Asked }
}

fn command(
    args: Args,
    matches: &ArgMatches,
    effective: &[Effective],
    stdin: &mut dyn BufRead,
    environment: &Environment,
) -> Result<Command, Failure> {
    let wanted = wanted(&args, environment);
    Ok(match args.verb {
        Verb::Find(find) => Command::Find(Box::new(options(*find, stdin)?)),
        Verb::Scan(scan) => {
            let words = words(matches.subcommand_matches("scan"), effective);
            let may_change_hash = config::said(effective, "hash") == Some(true);
            Command::Scan(Box::new(Scan { may_change_hash, ..scan_of(*scan, words)? }))
        }
        Verb::Roots(roots) => roots_of(roots, matches, effective)?,
        Verb::Refresh(refresh) => Command::Scan(Box::new(refresh_of(*refresh)?)),
        Verb::Purge { database, before, yes } => {
            // All that is gone by now.
            let before = before.unwrap_or_else(|| store::now().saturating_add(1));
            Command::Purge(place(database)?, before, consent(yes))
        }
        Verb::Verify { database, repair, yes } => {
            let remedy = if repair { Remedy::Repair } else { Remedy::Tell };
            Command::Verify(place(database)?, remedy, consent(yes))
        }
        Verb::Report(report) => report_of(report)?,
        Verb::Plan(plan) => {
            if is_dash(&plan.output) {
                let what = "--output is a file, and - is none: a file of that name is ./-";
                return Err(contradiction(what));
            }
            let subject = subject_of(plan.subject, plan.running, None, stdin)?;
            Command::Plan(Box::new(subject), plan.output)
        }
        Verb::Apply(apply) => Command::Apply(Box::new(apply_of(*apply, effective, stdin)?)),
        Verb::Undo { id, journal, json } => Command::Undo(shelf(journal)?, id, style(json)),
        Verb::Recover { way, journal, json } => {
            let way = match way {
                Recovery::Finish => Way::Finish,
                Recovery::RollBack => Way::RollBack,
                Recovery::GiveUp => Way::GiveUp,
            };
            Command::Recover(shelf(journal)?, way, style(json))
        }
        Verb::Log { id, journal, json } => Command::Log(shelf(journal)?, id, style(json)),
        Verb::PurgeQuarantine { id, keep_for, journal, yes, json } => {
            Command::PurgeQuarantine(Box::new(PurgeQuarantine {
                journal: shelf(journal)?,
                id,
                before: keep_for.unwrap_or(i64::MAX),
                consent: consent(yes),
                style: style(json),
            }))
        }
        Verb::Status { database, json } => Command::Status(place(database)?, style(json)),
        Verb::Config(Config::Check { json, line }) => {
            let checked = Checked::new(wanted, line, environment);
            Command::CheckConfig(Box::new(checked), style(json))
        }
        Verb::Config(Config::Path) => Command::Print(check::path(&wanted)?),
        Verb::ExitCodes => Command::Print(pages::exit_codes().into_bytes()),
        Verb::Completions { shell } => Command::Print(pages::completions(shell)),
        Verb::Man => Command::Print(pages::man()),
    })
}

fn roots_of(
    roots: Roots,
    matches: &ArgMatches,
    effective: &[Effective],
) -> Result<Command, Failure> {
    Ok(match roots {
        Roots::Add { path, database, yes, counting } => {
            filter_of(counting, ALL_SIZES)?;
            let added = matches.subcommand_matches("roots");
            let added = added.and_then(|roots| roots.subcommand_matches("add"));
            Command::AddRoot(place(database)?, path, words(added, effective), consent(yes))
        }
        Roots::List { database, json } => Command::ListRoots(place(database)?, style(json)),
        Roots::Remove { path, database, yes } => {
            Command::RemoveRoot(place(database)?, path, consent(yes))
        }
    })
}

/// The least size that counts where nothing else is said: in listings, and in what is recorded.
const NOT_EMPTY: u64 = 1;
const ALL_SIZES: u64 = 0;

/// The filters of a root, from the words that are recorded.
pub fn recorded_filter(words: &[String]) -> Result<Filter, Failure> {
    let words = std::iter::once("dupes").chain(words.iter().map(String::as_str));
    filter_of(FilterWords::try_parse_from(words)?.counting, ALL_SIZES)
}

/// The filters among what was said.
fn words(matches: Option<&ArgMatches>, effective: &[Effective]) -> Words {
    let mut words = Words::default();
    let Some(matches) = matches else { return words };
    for arg in FilterWords::command().get_arguments() {
        let (id, Some(long)) = (arg.get_id().as_str(), arg.get_long()) else { continue };
        let Some(is_flag) = config::said(effective, id) else { continue };
        words.are_said |= is_flag;
        if matches!(arg.get_action(), ArgAction::SetTrue) {
            if matches.get_flag(id) {
                words.all.push(format!("--{long}"));
            }
        } else {
            // What is not UTF-8 was refused before.
            let values = matches.get_raw(id).into_iter().flatten();
            words.all.extend(values.map(|value| format!("--{long}={}", value.to_string_lossy())));
        }
    }
    words
}

fn place(database: Database) -> Result<PathBuf, Failure> {
    database
        .database
        .or_else(store::usual_path)
        .ok_or_else(|| nowhere("a database", "--database FILE"))
}

/// Elsewhere that is standard input or output. A file of that name is `./-`.
fn is_dash(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn shelf(words: JournalWords) -> Result<PathBuf, Failure> {
    let journal = words.journal.or_else(journal::usual_path);
    journal.ok_or_else(|| nowhere("a journal", "--journal DIR"))
}

fn nowhere(what: &str, option: &str) -> Failure {
    contradiction(format!(
        "there is no home folder for {what}: set HOME or XDG_DATA_HOME to a path that begins with \
         a slash, or use {option}"
    ))
}

fn apply_of(
    apply: ApplyWords,
    effective: &[Effective],
    stdin: &mut dyn BufRead,
) -> Result<Apply, Failure> {
    let wrong = |what| Err(contradiction(what));
    if apply.no_undo && apply.action != Action::Remove {
        return wrong("--no-undo is about a quarantine, which only remove has");
    }
    if apply.subject.folders && !apply.action.sets_aside() {
        return wrong("--folders is for remove and move: links are made file by file");
    }
    if apply.to.is_some() && apply.action != Action::Move {
        return wrong("--to is where move moves to");
    }
    // Set for good, it is for the actions that have one.
    let is_said = config::said(effective, "quarantine") == Some(true);
    if is_said && apply.quarantine.is_some() && apply.action != Action::Remove {
        return wrong("--quarantine is where removed files are put: nothing else is");
    }
    if apply.plan.as_deref().is_some_and(is_dash) {
        return wrong("--plan is a file, and - is none: a file of that name is ./-");
    }
    if !apply.allow_differing.is_empty() && !apply.action.links() {
        return wrong("--allow-differing is about links: nothing is taken from files otherwise");
    }
    Ok(Apply {
        journal: shelf(apply.journal)?,
        subject: subject_of(apply.subject, apply.running, apply.plan, stdin)?,
        action: apply.action,
        execute: apply.execute,
        to: apply.to,
        quarantine: apply.quarantine,
        allow: apply.allow_differing.into_iter().collect(),
        for_good: apply.no_undo,
        consent: consent(apply.yes),
        style: style(apply.json),
    })
}

fn subject_of(
    words: SubjectWords,
    running: Running,
    plan: Option<PathBuf>,
    stdin: &mut dyn BufRead,
) -> Result<Subject, Failure> {
    let keep = Keep {
        rules: words.keep,
        copies: words.keep_copies,
        isolate: words.isolate,
        protect: Protect::new(words.protect),
    };
    let grain = if words.folders { Grain::Folders } else { Grain::Files };
    let database = words.database.database.clone();
    let Running { threads, io_threads, progress, metrics } = running;
    let options = Options {
        roots: Vec::new(),
        filter: filter_of(words.counting, NOT_EMPTY)?,
        hash: None,
        threads,
        io_threads,
        isolate: words.isolate,
        copies: 2..=usize::MAX,
        format: Format::default(),
        nul: false,
        progress,
        metrics,
    };
    let source = match (plan, words.report) {
        (Some(plan), _) => Source::Plan(plan),
        (None, true) => Source::Report(place(words.database)?),
        (None, false) => {
            if words.paths.is_empty() {
                let what = "say what it is about: a PATH, or --report for the last scans (apply takes --plan FILE, too)";
                return Err(contradiction(what));
            }
            let roots = roots(words.paths, words.reference, false, false, stdin)?;
            let options = Options { roots, ..options };
            roots_suffice(&options)?;
            return Ok(Subject { source: Source::Find, options, keep, grain, database });
        }
    };
    Ok(Subject { source, options, keep, grain, database })
}

fn report_of(report: ReportWords) -> Result<Command, Failure> {
    Ok(match report.lists {
        Some(Report::Files { misplaced: Misplaced { html: Some(_) }, .. })
        | Some(Report::Folders { misplaced: Misplaced { html: Some(_) }, .. }) => {
            return Err(contradiction(
                "--html writes one page that has both files and folders: dupes report --html FILE",
            ));
        }
        Some(Report::Files { database, min_size, format, json, null, .. }) => {
            let format = if json { Format::Json } else { format };
            null_fits(null, format)?;
            Command::ReportFiles(place(database)?, Listing { min_size, format, nul: null })
        }
        Some(Report::Folders { database, partial, ignore_names, json, .. }) => {
            let by = if ignore_names { By::Contents } else { By::Names };
            let likeness = Likeness { by, percent: partial, ..Likeness::default() };
            let style = if json { Style::Json } else { Style::Text };
            Command::ReportFolders(place(database)?, likeness, style)
        }
        None => {
            let which = "say what is to be told: files, folders, or --html FILE for both";
            let page = report.html.ok_or_else(|| contradiction(which))?;
            Command::ReportPage(place(report.database)?, page)
        }
    })
}

fn scan_of(scan: args::Scan, words: Words) -> Result<Scan, Failure> {
    let mut paths = scan.words;
    let mode =
        paths.first().and_then(|word| MODES.iter().find(|mode| word.as_os_str() == mode.name()));
    if mode.is_some() {
        paths.remove(0);
    }
    filter_of(scan.counting, ALL_SIZES)?; // it will be read from its words
    let request = Request {
        hash: scan.hash,
        restart: scan.restart,
        all_hashes: scan.all_hashes,
        trust_inodes: scan.trust_inodes,
        ..request(mode.copied().unwrap_or(Mode::All), scan.running)?
    };
    if paths.is_empty() && words.are_said {
        let said = if words.all.is_empty() { "a filter" } else { &words.all.join(" ") };
        return Err(contradiction(format!(
            "{said} is for a root that is registered now: say which"
        )));
    }
    Ok(Scan {
        database: place(scan.database)?,
        paths,
        words,
        request,
        may_change_hash: true,
        consent: consent(scan.yes),
        max_errors: scan.max_errors,
        style: style(scan.json),
    })
}

fn refresh_of(refresh: Refresh) -> Result<Scan, Failure> {
    Ok(Scan {
        database: place(refresh.database)?,
        paths: refresh.roots,
        words: Words::default(),
        request: request(Mode::Refresh, refresh.running)?,
        may_change_hash: false,
        consent: Consent::Asked,
        max_errors: None,
        style: style(refresh.json),
    })
}

/// With nothing special. What counts comes with each root.
fn request(mode: Mode, running: Running) -> Result<Request, Failure> {
    let Running { threads, io_threads, progress, metrics } = running;
    let options = Options {
        roots: Vec::new(),
        filter: filter_of(Counting::default(), ALL_SIZES)?,
        hash: None,
        threads,
        io_threads,
        isolate: false,
        copies: 2..=usize::MAX,
        format: Format::default(),
        nul: false,
        progress,
        metrics,
    };
    let now = SystemTime::now();
    Ok(Request {
        mode,
        hash: None,
        restart: false,
        all_hashes: false,
        trust_inodes: false,
        now,
        options,
    })
}

/// Those that can be asked for.
const MODES: [Mode; 3] = [Mode::All, Mode::Folders, Mode::Files];

impl From<clap::Error> for Failure {
    fn from(error: clap::Error) -> Failure {
        let stdout = !error.use_stderr();
        let exit = if stdout { Exit::Complete } else { Exit::Usage };
        Failure { text: error.render().to_string(), stdout, exit }
    }
}

fn options(find: Find, stdin: &mut dyn BufRead) -> Result<Options, Failure> {
    format_fits(&find)?;
    let options = Options {
        hash: find.hash,
        threads: find.running.threads,
        io_threads: find.running.io_threads,
        isolate: find.isolate,
        copies: copies(&find)?,
        format: find.format,
        nul: find.null,
        progress: find.running.progress,
        metrics: find.running.metrics,
        filter: filter_of(find.counting, NOT_EMPTY)?,
        // The last, because it waits for whoever writes to stdin.
        roots: roots(find.paths, find.reference, find.stdin, find.stdin0, stdin)?,
    };
    roots_suffice(&options)?;
    Ok(options)
}

fn filter_of(counting: Counting, least: u64) -> Result<Filter, Failure> {
    let Counting { name, regex, exclude, exclude_regex, .. } = &counting;
    Ok(Filter {
        size: sizes(counting.min_size.unwrap_or(least), counting.max_size)?,
        hidden: !counting.no_hidden,
        ignore_files: counting.ignore_files,
        follow: counting.follow,
        one_file_system: counting.one_file_system,
        depth: counting.depth,
        only: patterns::together(name, regex).map_err(contradiction)?,
        except: patterns::together(exclude, exclude_regex).map_err(contradiction)?,
        never: Vec::new(),
    })
}

/// An error of usage: as yet, what is wrong and nothing else.
fn contradiction(what: impl std::fmt::Display) -> Failure {
    Failure { text: what.to_string(), stdout: false, exit: Exit::Usage }
}

/// The same in the form that those of the parser have, with the usage of the command that it is about.
fn in_form(failure: Failure, matches: &ArgMatches) -> Failure {
    if failure.exit != Exit::Usage {
        return failure;
    }
    let mut definition = Args::command();
    definition.build();
    let (mut command, mut matches) = (&mut definition, matches);
    while let Some((name, below)) = matches.subcommand() {
        command = command.find_subcommand_mut(name).expect("it was found there before");
        matches = below;
    }
    command.error(ErrorKind::ArgumentConflict, failure.text).into()
}
