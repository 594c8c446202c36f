//! What can be set outside of the command line: taken from its definition, so that nothing is forgotten.

use std::any::TypeId;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::builder::ValueParser;
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, ArgAction, Command};

/// Options that are said each time, and why.
pub(in crate::cli) const NEVER: [(&str, &str); 18] = [
    ("yes", "consent is given each time"),
    ("restart", "every scan would read everything again"),
    ("repair", "what it changes is decided each time"),
    ("before", "what is forgotten is decided each time"),
    ("html", "what is written over is said each time"),
    ("stdin", "a command would wait for paths that nobody sends"),
    ("stdin0", "a command would wait for paths that nobody sends"),
    ("reference", "where to look is said each time"),
    ("report", "what it is about is said each time"),
    ("plan", "what is carried out is said each time"),
    ("output", "what is written over is said each time"),
    ("execute", "whether something is changed is said each time"),
    ("to", "where files go is said each time"),
    ("allow_differing", "what may be lost is said each time"),
    ("folders", "whether whole folders go is said each time"),
    ("no_undo", "what can't be taken back is decided each time"),
    ("keep_for", "what is deleted is decided each time"),
    ("no_config", "it says whether this file is read"),
];

/// A verb that reports on settings does not depend on them.
const WITHOUT_SETTINGS: &str = "config";

/// A command that does something, and what can be set for it.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    /// Its words: `["report", "files"]`.
    pub(super) path: Vec<String>,
    pub(super) settings: Vec<Setting>,
}

impl Leaf {
    /// The table for it in a file.
    pub(super) fn table(&self) -> &str {
        &self.path[0]
    }

    pub(super) fn setting(&self, name: &str) -> Option<&Setting> {
        self.settings.iter().find(|setting| setting.name == name)
    }
}

/// Something that can be set.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    /// As in a file: `io_threads`.
    pub(super) name: String,
    pub(super) kind: Kind,
    /// The option.
    pub(super) arg: Arg,
    /// An option of the definition that says the opposite: then yes is the default.
    pub(super) opposite: Option<String>,
    /// Those that make no sense together with it.
    pub(super) excludes: Vec<String>,
}

/// What it looks like in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// true or false
    Flag,
    /// 4
    Number,
    /// "10k" or 10240
    NumberOrText,
    /// "json"
    Text,
    /// "/somewhere"
    Path,
    /// ["a", "b"]
    List,
}

impl Kind {
    fn of(arg: &Arg) -> Kind {
        let names = arg.get_value_names().unwrap_or_default();
        match (arg.get_action(), names.first().map(|name| name.as_str())) {
            (ArgAction::SetTrue, _) => Kind::Flag,
            (ArgAction::Append, _) => Kind::List,
            (_, Some("N" | "PERCENT")) => Kind::Number,
            (_, Some("SIZE" | "ADDR")) => Kind::NumberOrText,
            _ if arg.get_value_parser().type_id() == TypeId::of::<PathBuf>() => Kind::Path,
            _ => Kind::Text,
        }
    }

    /// What would be right.
    pub(super) fn expected(self) -> &'static str {
        match self {
            Kind::Flag => "true or false",
            Kind::Number => "a number",
            Kind::NumberOrText => "a number or a text in quotes",
            Kind::Text | Kind::Path => "a text in quotes",
            Kind::List => "a list of texts: [\"…\", \"…\"]",
        }
    }
}

impl Setting {
    /// The variable for it.
    pub(super) fn variable(&self) -> String {
        variable(&self.name)
    }

    /// What is written on a command line.
    pub(super) fn long(&self) -> String {
        format!("--{}", self.name.replace('_', "-"))
    }

    pub(super) fn id(&self) -> &str {
        self.arg.get_id().as_str()
    }

    /// The option that takes it back: of the definition, or made by [`with_opposites`].
    pub(super) fn opposite_id(&self) -> String {
        self.opposite.clone().unwrap_or_else(|| format!("no_{}", self.id()))
    }

    /// What it is if nobody says anything.
    pub(super) fn usual(&self) -> Vec<OsString> {
        match self.kind {
            Kind::Flag => vec![if self.opposite.is_some() { "true" } else { "false" }.into()],
            _ => self.arg.get_default_values().iter().map(|value| value.to_os_string()).collect(),
        }
    }

    /// Whether the option takes it; if not, what would be right.
    pub(super) fn check(&self, word: &OsStr) -> Result<(), String> {
        if self.kind == Kind::Flag {
            return Ok(());
        }
        check(self.arg.get_value_parser().clone(), word)
    }
}

/// The variable for a name.
pub(super) fn variable(name: &str) -> String {
    format!("{PREFIX}{}", name.to_uppercase())
}

/// Of all variables.
pub(super) const PREFIX: &str = "DUPES_";

/// By an option that has nothing but this parser.
fn check(parser: ValueParser, word: &OsStr) -> Result<(), String> {
    let alone = Arg::new("value").long("value").action(ArgAction::Set).value_parser(parser);
    let mut said = OsString::from("--value=");
    said.push(word);
    let command = Command::new("dupes").no_binary_name(true).arg(alone);
    let Err(error) = command.try_get_matches_from([said]) else { return Ok(()) };
    if let Some(source) = std::error::Error::source(&error) {
        return Err(source.to_string());
    }
    Err(match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(all)) => format!("expected one of {}", all.join(", ")),
        _ => "it can't be used".into(),
    })
}

/// All commands that have settings, of a definition as it was derived.
pub(super) fn leaves(definition: &Command) -> Vec<Leaf> {
    let mut found = Vec::new();
    for verb in definition.get_subcommands().filter(|verb| verb.get_name() != WITHOUT_SETTINGS) {
        gather(verb, &[], &mut found);
    }
    found.retain(|leaf| !leaf.settings.is_empty());
    found
}

fn gather(command: &Command, above: &[String], found: &mut Vec<Leaf>) {
    let path = [above, &[command.get_name().to_owned()]].concat();
    if command.has_subcommands() {
        command.get_subcommands().for_each(|below| gather(below, &path, found));
    }
    found.push(Leaf { path, settings: settings(command) });
}

fn settings(command: &Command) -> Vec<Setting> {
    let has = |id: &str| command.get_arguments().any(|arg| arg.get_id() == id);
    let is_opposite = |id: &str| id.strip_prefix("no_").is_some_and(has);
    let excludes = |one: &Arg| {
        let by = |arg: &Arg| command.get_arg_conflicts_with(arg);
        let of = |arg: &&Arg| by(one).contains(arg) || by(arg).contains(&one);
        let all = command.get_arguments().filter(of);
        all.map(|arg| arg.get_id().to_string()).collect()
    };
    let settable = command.get_arguments().filter(|arg| {
        let id = arg.get_id().as_str();
        let is_never = NEVER.iter().any(|(never, _)| *never == id);
        arg.get_long().is_some() && !is_never && !is_opposite(id)
    });
    let setting = |arg: &Arg| {
        let name = arg.get_id().to_string();
        let opposite = Some(format!("no_{name}")).filter(|id| has(id));
        Setting { kind: Kind::of(arg), excludes: excludes(arg), arg: arg.clone(), opposite, name }
    };
    settable.map(setting).collect()
}

/// The least that can be said with a command, so that whatever is wrong with it was set elsewhere. It is
/// not run: nobody looks for what is named.
pub(super) fn least_words(definition: &Command, path: &[String]) -> Vec<OsString> {
    let below = |command, name| Command::find_subcommand(command, name).expect("it is a command");
    let command = path.iter().fold(definition, below);
    let mut words: Vec<OsString> = path.iter().map(OsString::from).collect();
    for arg in command.get_arguments() {
        let known = arg.get_possible_values();
        let value = known.first().map_or("a", |value| value.get_name());
        // Where they lie if nobody says so is another question: there may be no home folder.
        let is_place = matches!(arg.get_id().as_str(), "database" | "journal");
        match (arg.get_long(), arg.get_action()) {
            (None, ArgAction::Append) => words.extend(["a", "b"].map(OsString::from)),
            (None, _) => words.push(value.into()),
            (Some(long), _) if is_place || arg.is_required_set() => {
                words.push(format!("--{long}={value}").into());
            }
            (Some(_), _) => {}
        }
    }
    words
}

/// The same with a `--no-…` for all that could be turned on elsewhere and has no other way back.
pub(super) fn with_opposites(definition: Command) -> Command {
    let leaves = leaves(&definition);
    leaves.iter().fold(definition, |command, leaf| {
        at(command, &leaf.path, |mut command| {
            for setting in leaf.settings.iter().filter(|setting| needs_opposite(setting)) {
                let (id, long) = (setting.opposite_id(), setting.long());
                let opposite = Arg::new(id)
                    .long(format!("no-{}", &long[2..]))
                    .action(ArgAction::SetTrue)
                    .overrides_with(setting.id().to_owned())
                    .help(format!("Without {long}, whatever the configuration says"))
                    .hide(true);
                command = command.arg(opposite);
            }
            command
        })
    })
}

/// What has a default can be given that.
fn needs_opposite(setting: &Setting) -> bool {
    setting.opposite.is_none() && setting.arg.get_default_values().is_empty()
}

/// Changes the command with these words.
pub(super) fn at(
    command: Command,
    path: &[String],
    change: impl FnOnce(Command) -> Command,
) -> Command {
    match path.split_first() {
        None => change(command),
        Some((first, rest)) => command.mut_subcommand(first, |below| at(below, rest, change)),
    }
}

/// The one among these that was meant, perhaps.
pub(super) fn nearest<'a>(word: &str, all: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    /// Below that two names have nothing to do with each other.
    const LEAST: f64 = 0.8;
    let word = word.to_lowercase().replace('-', "_");
    let near = all.into_iter().map(|name| (strsim::jaro_winkler(&word, name), name));
    let near = near.filter(|(score, _)| *score >= LEAST);
    near.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, name)| name)
}
