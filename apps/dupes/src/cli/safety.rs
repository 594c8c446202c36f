//! Why no file is lost, for the manual page: the page for sceptics itself, so that the two never differ.

use std::fmt::Write;

use super::pages::roff;

const DOCUMENT: &str = include_str!("../../../../docs/dupes-safety.md");

/// Sections that read well without a browser; tables do not.
const TOLD: [&str; 4] =
    ["What happens to a file that goes", "If it is killed", "Whole folders", "What it can't do"];

/// As a section of the manual page.
pub(super) fn section() -> String {
    let mut text = String::from(".SH SAFETY\n");
    for title in TOLD {
        let _ = writeln!(text, ".SS {}", roff(title));
        let lines = part(title).lines().filter(|line| !line.is_empty());
        lines.for_each(|line| text.push_str(&paragraph(line)));
    }
    text
}

/// What is below a heading.
fn part(title: &str) -> &'static str {
    let (_, rest) = DOCUMENT.split_once(&format!("\n## {title}\n")).expect("a test looks for it");
    rest.split("\n## ").next().unwrap_or(rest)
}

fn paragraph(line: &str) -> String {
    let (mark, rest) = match line.split_once(' ') {
        Some(("-", rest)) => ("\\(bu", rest),
        Some((number, rest)) if number.ends_with('.') && number.len() == 2 => (number, rest),
        _ => return format!(".PP\n{}\n", roff(&plain(line))),
    };
    format!(".IP {mark} 3\n{}\n", roff(&plain(rest)))
}

/// Without the marks of the document.
fn plain(text: &str) -> String {
    let mut text = text.replace("**", "").replace('`', "");
    while let Some((before, (name, after))) = text
        .split_once('[')
        .and_then(|(before, rest)| Some((before, rest.split_once("](")?)))
        .filter(|(_, (_, after))| after.contains(')'))
    {
        let (_, after) = after.split_once(')').expect("there is one");
        text = format!("{before}{name}{after}");
    }
    text.replace('*', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manual_page_has_the_page_for_sceptics() {
        for title in TOLD {
            assert!(!part(title).trim().is_empty(), "{title}");
        }
        let text = section();
        assert!(text.contains(".IP 1. 3\nA plan says so. A plan is a wish"), "{text}");
        assert!(text.contains("\\(bu 3\nA program that has had the file open"), "{text}");
        assert!(!text.contains("**") && !text.contains("](") && !text.contains('`'), "{text}");
        assert!(text.lines().all(|line| !line.starts_with('\'')), "none is taken for a command");
    }

    #[test]
    fn marks_of_the_document_are_left_out() {
        let text = plain("see [the **page**](x/y.md#z), `dupes undo` and *why*");
        assert_eq!(text, "see the page, dupes undo and why");
        assert_eq!(plain("no [link"), "no [link");
    }
}
