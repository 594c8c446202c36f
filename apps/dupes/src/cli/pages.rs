//! What is printed for people and shells: the end of the help, the manual page, completions.

use std::fmt::Write as _;
use std::io;

use clap::{Arg, Command, CommandFactory as _};
use clap_complete::Shell;
use clap_mangen::Man;

use super::args::Args;
use super::{config, safety};
use crate::exit::Exit;

/// Of `find`; clap would say that PATH can be left out.
pub(super) const USAGE: &str = "dupes find [OPTIONS] PATH...\n       dupes find [OPTIONS] --stdin";

/// Of `scan`; a mode can't be told from a path by clap.
pub(super) const SCAN_USAGE: &str = "dupes scan [OPTIONS] [all|folders|files] [ROOT]...";

/// Of `report`; clap would not say that one of them must be there.
pub(super) const REPORT_USAGE: &str = "dupes report files [OPTIONS]\n       dupes report folders [OPTIONS]\n       dupes report --html FILE [OPTIONS]";

/// Of `plan` and `apply`; clap would say that PATH can be left out.
pub(super) const PLAN_USAGE: &str =
    "dupes plan [OPTIONS] -o FILE PATH...\n       dupes plan [OPTIONS] -o FILE --report";
pub(super) const APPLY_USAGE: &str = "dupes apply ACTION [OPTIONS] PATH...\n       dupes apply ACTION [OPTIONS] --report\n       dupes apply ACTION [OPTIONS] --plan FILE";

/// Of `report`.
pub(super) const REPORT_EXAMPLE: &str =
    "Example:\n  dupes scan ~/Pictures && dupes report --html report.html && xdg-open report.html";

pub(super) const EXAMPLES: [(&str, &str); 14] = [
    ("dupes find ~/Pictures", "What is there twice in a folder?"),
    (
        "dupes find --min-size 1M --name '*.jpg' --exclude .cache ~",
        "Large pictures only, and nothing below .cache",
    ),
    (
        "dupes find --isolate --reference ~/Archive ~/Downloads",
        "What of the downloads is in the archive already?",
    ),
    ("dupes find --isolate old new", "What do two folders have in common?"),
    ("dupes find --unique --format fdupes -0 .", "Files without a copy, for scripts"),
    ("dupes find --format json . | jq '.groups[].paths'", "For other programs; any name survives"),
    ("find . -type f -newer list -print0 | dupes find --stdin0", "Only among these files"),
    ("dupes scan ~/Pictures /backup", "Remember what is there; the next scan reads what is new"),
    ("dupes report files --min-size 1M", "What is there twice, as of the last scans?"),
    ("dupes report --html report.html", "The same to look at: where the space goes, in a browser"),
    ("dupes apply remove ~/Pictures", "What would go? With --execute it goes, into a quarantine"),
    ("dupes undo", "Take the last run back"),
    (
        "dupes plan --keep oldest -o plan ~/Pictures",
        "Decide now: dupes apply move --to dups --plan plan tells it, and carries it out with --execute",
    ),
    ("dupes config check", "What is set in the configuration file and the environment?"),
];

/// Examples and exit codes.
pub(super) fn after_help() -> String {
    let mut text = String::from("Examples:\n");
    let mut line = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    for (command, what) in EXAMPLES {
        line(format!("  {what}\n    {command}"));
    }
    line("\nA path that begins with a dash comes after --, or as ./-name.".into());
    line(format!("\n{CONFIGURED}"));
    line(format!("\nExit codes:\n{}", exit_codes()));
    text.truncate(text.trim_end().len());
    text
}

/// Of every command.
const CONFIGURED: &str = "What options say can be set for good: threads = 4 in the configuration file (dupes config path)\n\
     or DUPES_THREADS=4 in the environment. An option beats both, and --no-threads undoes them.";

/// Of `config check`.
pub(super) const CONFIG_HELP: &str = "\
A flag beats the environment (DUPES_IO_THREADS=8), that beats the table of the command, and that beats
the top of the file:

    threads = 4
    exclude = [\".git\", \"*.tmp\"]

    [find]
    format = \"json\"
    hidden = false

A variable that is empty is not set; of a list, each line is a value.";

/// A line each.
pub(super) fn exit_codes() -> String {
    Exit::ALL.iter().map(|exit| format!("  {:>3}  {}\n", exit.code(), exit.meaning())).collect()
}

/// A script for a shell.
pub(super) fn completions(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    let mut command = config::definition(Args::command());
    clap_complete::generate(shell, &mut command, "dupes", &mut script);
    script
}

/// One page that has all: first `find`, then a section for each other verb.
pub(super) fn man() -> Vec<u8> {
    let mut page = Vec::new();
    write_man(&mut page).expect("memory can always be written to");
    page
}

fn write_man(page: &mut Vec<u8>) -> io::Result<()> {
    let mut command = Args::command();
    command.build();
    let find = command.find_subcommand("find").expect("it is one of the verbs").clone();
    let others = verbs(&command, "dupes");
    let (whole, find) = (Man::new(command), Man::new(find));
    whole.render_title(page)?;
    whole.render_name_section(page)?;
    find.render_synopsis_section(page)?;
    for (name, _) in &others {
        page.extend(format!(".br\n\\fB{}\\fR\n", roff(name)).into_bytes());
    }
    find.render_description_section(page)?;
    find.render_options_section(page)?;
    for (name, verb) in others {
        let mut section = format!(".SH {}\n", roff(&name).to_uppercase()).into_bytes();
        let man = Man::new(verb);
        man.render_description_section(&mut section)?;
        man.render_options_section(&mut section)?;
        // Headings of the page itself are about `find`.
        let section = String::from_utf8_lossy(&section).replace("\n.SH ", "\n.SS ");
        page.extend(section.into_bytes());
    }
    page.extend(more_sections().into_bytes());
    whole.render_version_section(page)
}

/// All that do something, by their whole names; but for `find` and the help.
fn verbs(command: &Command, before: &str) -> Vec<(String, Command)> {
    let mut all = Vec::new();
    for verb in command.get_subcommands() {
        let name = format!("{before} {}", verb.get_name());
        match verb.get_name() {
            "find" | "help" => {}
            _ if verb.has_subcommands() => {
                let is_its_own = |arg: &Arg| arg.get_id() != "help" && !arg.is_global_set();
                if verb.get_arguments().any(is_its_own) {
                    all.push((name.clone(), verb.clone()));
                }
                all.extend(verbs(verb, &name));
            }
            _ => all.push((name, verb.clone())),
        }
    }
    all
}

fn more_sections() -> String {
    let mut text = String::from(".SH EXAMPLES\n");
    for (command, what) in EXAMPLES {
        // Writing to a String can't fail; neither here nor below.
        let _ = writeln!(text, ".PP\n{}\n.RS 4\n.nf\n{}\n.fi\n.RE", roff(what), roff(command));
    }
    text.push_str(&safety::section());
    let _ = writeln!(text, ".SH SETTINGS\n.PP\n{}", roff(CONFIGURED));
    let _ = writeln!(text, ".PP\n.nf\n{}\n.fi", roff(CONFIG_HELP));
    text.push_str(".SH EXIT STATUS\n");
    for exit in Exit::ALL {
        let _ = writeln!(text, ".TP\n.B {}\n{}", exit.code(), roff(exit.meaning()));
    }
    text
}

/// No character of it is a command to the formatter.
pub(super) fn roff(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    if text.starts_with('.') { format!("\\&{text}") } else { text }
}
