//! The report as one page to look at: `dupes report --html FILE`.
//!
//! First all of it is gathered, from one state of the database: `largest.rs` picks the sets that are shown,
//! `claims.rs` the folders that are alike, `tree.rs` the folders of the treemap and those that either of
//! them names. Then it is written piece by piece, around the data as JSON: `words.rs` says what a page may
//! have in it. What it looks like is in `html/page.html` and beside it.

mod claims;
mod largest;
mod tree;
mod words;

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use self::claims::Claims;
use self::largest::{Largest, Row};
use self::tree::Tree;
use self::words::{InScript, counted, number, text, utc};
use super::{folders, sets};
use crate::alike::Likeness;
use crate::digest::Verified;
use crate::escape::escaped;
use crate::listing::Totals;
use crate::size::Size;
use crate::stop::Stop;
use crate::store::roots::{Contents, Presence};
use crate::store::scans::{Scan, State};
use crate::store::space::Amount;
use crate::store::{self, Store};

const PAGE: &str = include_str!("html/page.html");
const STYLE: &str = include_str!("html/page.css");
const SCRIPT: &str = concat!(
    include_str!("html/data.js"),
    include_str!("html/treemap.js"),
    include_str!("html/tables.js"),
    include_str!("html/page.js"),
);

/// Sets of at least that size are told, as by `report files`.
const MIN_SIZE: u64 = 1;
/// Sets that are shown where no script runs.
const WITHOUT_SCRIPT: usize = 100;
/// And files of each.
const FILES_WITHOUT_SCRIPT: usize = 10;

/// How much a page holds, so that any browser can show it: at the most some ten MB.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Sets of files.
    pub sets: usize,
    /// Names in all of them.
    pub names: usize,
    /// Names in one of them; folders in one set of equal ones.
    pub names_of_set: usize,
    /// Folders that are alike: sets, pairs and those that are held.
    pub claims: usize,
    /// Folders of the treemap.
    pub folders: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        let (sets, names, names_of_set) = (50_000, 250_000, 1_000);
        Limits { sets, names, names_of_set, claims: 10_000, folders: 20_000 }
    }
}

/// All that is in a page.
#[derive(Debug)]
pub struct Page {
    /// When, in s.
    made: i64,
    totals: Totals,
    verified: Verified,
    roots: Vec<RootLine>,
    tree: Tree,
    sets: Vec<Row>,
    claims: Claims,
}

#[derive(Debug)]
struct RootLine {
    /// Escaped.
    path: String,
    presence: Presence,
    /// The last one, and how it ended.
    scan: Option<(i64, &'static str)>,
    contents: Contents,
}

/// Gathers what there is to show, all from one state of the database. `is_busy`: somebody scans.
pub fn gather(store: &Store, is_busy: bool, limits: &Limits, stop: &Stop) -> io::Result<Page> {
    let failed = |error: store::Error| io::Error::other(error.to_string());
    let _moment = store.moment().map_err(failed)?;
    let mut space = store.space().map_err(failed)?;
    let mut largest = Largest::new(limits);
    let totals = sets(store, MIN_SIZE, true, stop, |set, places| {
        for place in places {
            // The space of a file was counted at the first of its names, in this order.
            if let Some(folder) = place.folders.iter().min().and_then(|id| space.number(*id)) {
                let (copied, reclaimable) = (place.on_disk, place.reclaimable);
                space.add(folder, Amount { copied, reclaimable, ..Amount::default() });
            }
        }
        largest.offer(set, places);
        Ok(())
    })?;
    let alike = folders::folders(store, &Likeness::default()).map_err(failed)?;
    if stop.is_asked() {
        return Err(io::ErrorKind::Interrupted.into());
    }
    let (mut tree, mut sets) = (Tree::new(&space, limits.folders), largest.into_rows());
    for name in sets.iter_mut().flat_map(|row| &mut row.names) {
        name.folder = tree.number(&space, name.folder);
    }
    let claims = Claims::new(&alike, limits, |id| tree.number(&space, id));
    tree.name_folders(store, &space).map_err(failed)?;
    Ok(Page {
        made: store::now(),
        totals,
        verified: Verified::by(store.algorithm().map_err(failed)?.unwrap_or_default()),
        roots: root_lines(store, is_busy).map_err(failed)?,
        tree,
        sets,
        claims,
    })
}

fn root_lines(store: &Store, is_busy: bool) -> Result<Vec<RootLine>, store::Error> {
    let scans = store.scans()?;
    let line = |root: store::roots::Root| {
        let scan = scans.iter().find(|scan| scan.roots.contains(&root.id));
        Ok(RootLine {
            path: escaped(root.path.as_os_str().as_bytes()).to_string(),
            presence: root.presence(),
            scan: scan.map(|scan| (scan.ended.unwrap_or(scan.began), ended(scan, is_busy))),
            contents: store.contents(root.id)?,
        })
    };
    store.roots()?.into_iter().map(line).collect()
}

fn ended(scan: &Scan, is_busy: bool) -> &'static str {
    match scan.state {
        State::Active if is_busy => "is running",
        State::Active => "was killed",
        State::Complete => "complete",
        State::Unread => "complete, but not all could be read",
        State::Interrupted => "was interrupted",
        State::Failed => "failed",
    }
}

impl Page {
    /// Writes it. Ends early, with an error, if somebody asks for the end.
    pub fn write(&self, out: &mut dyn Write, stop: &Stop) -> io::Result<()> {
        let mut rest = PAGE;
        while let Some((before, after)) = rest.split_once("{{") {
            let (name, after) = after.split_once("}}").expect("what opens is closed");
            out.write_all(before.as_bytes())?;
            self.write_part(name, out, stop)?;
            rest = after;
        }
        out.write_all(rest.as_bytes())
    }

    fn write_part(&self, name: &str, out: &mut dyn Write, stop: &Stop) -> io::Result<()> {
        match name {
            "policy" => out.write_all(policy().as_bytes()),
            "style" => out.write_all(STYLE.as_bytes()),
            "script" => out.write_all(SCRIPT.as_bytes()),
            "made" => out.write_all(utc(self.made).as_bytes()),
            "version" => out.write_all(env!("CARGO_PKG_VERSION").as_bytes()),
            "totals" => self.write_totals(out),
            "roots" => self.roots.iter().try_for_each(|root| root.write(out)),
            "largest" => self.write_largest(out),
            "space-note" => out.write_all(self.space_note().as_bytes()),
            "sets-note" => out.write_all(self.sets_note().as_bytes()),
            "claims-note" => out.write_all(self.claims_note().as_bytes()),
            "data" => self.write_data(&mut InScript(out), stop),
            other => unreachable!("page.html asks for {other}"),
        }
    }

    fn write_totals(&self, out: &mut dyn Write) -> io::Result<()> {
        let totals = &self.totals;
        let lines = [
            ("reclaimable", Size(totals.reclaimable_bytes).to_string()),
            ("sets of duplicates", number(totals.sets)),
            ("redundant files", number(totals.redundant_files)),
            ("files", number(totals.files)),
            ("size of all files", Size(totals.bytes).to_string()),
            ("folders", number(totals.folders)),
        ];
        for (name, value) in lines {
            write!(out, "<div><dt>{name}</dt><dd>{value}</dd></div>")?;
        }
        if totals.unread > 0 {
            let unread = number(totals.unread);
            write!(out, "<div><dt>not read</dt><dd>{unread}</dd></div>")?;
        }
        Ok(())
    }

    fn write_largest(&self, out: &mut dyn Write) -> io::Result<()> {
        for row in self.sets.iter().take(WITHOUT_SCRIPT) {
            let (free, size, copies) = (Size(row.reclaimable), Size(row.size), number(row.copies));
            write!(out, "<tr><td>{free}</td><td>{size}</td><td>{copies}</td><td>")?;
            for name in row.names.iter().take(FILES_WITHOUT_SCRIPT) {
                let path = self.tree.path(name.folder, &name.name);
                write!(out, "<div class=\"path\">{}</div>", text(&path))?;
            }
            let more = row.names.len().saturating_sub(FILES_WITHOUT_SCRIPT) as u64 + row.more;
            if more > 0 {
                write!(out, "<div>and {}</div>", counted(more, "more name", "more names"))?;
            }
            out.write_all(b"</td></tr>\n")?;
        }
        Ok(())
    }

    fn space_note(&self) -> String {
        let (shown, all) = (self.tree.space.len() as u64, self.tree.all as u64);
        match shown == all {
            true => String::new(),
            false => format!(
                "The {} largest of {} are shown one by one, the others together, in the folder they lie in.",
                number(shown),
                counted(all, "folder", "folders")
            ),
        }
    }

    fn sets_note(&self) -> String {
        let left_out = self.totals.sets - self.sets.len() as u64;
        match left_out {
            0 => String::new(),
            _ => format!(
                "These are the {} with the largest winnings. {} are left out: \
                 <code>dupes report files</code> lists all.",
                number(self.sets.len() as u64),
                number(left_out)
            ),
        }
    }

    fn claims_note(&self) -> String {
        let mut note = String::new();
        let left_out = (self.claims.all - self.claims.rows.len()) as u64;
        if left_out > 0 {
            note = format!(
                "These are the {} with the largest winnings. {} are left out: \
                 <code>dupes report folders</code> lists all. ",
                number(self.claims.rows.len() as u64),
                number(left_out)
            );
        }
        if !self.claims.is_complete {
            note.push_str("There are so many folders that not all were compared.");
        }
        note
    }

    /// One object, in lines that can be looked at.
    fn write_data(&self, out: &mut dyn Write, stop: &Stop) -> io::Result<()> {
        out.write_all(b"{\"totals\":")?;
        serde_json::to_writer(&mut *out, &self.totals_object())?;
        out.write_all(b",\n\"folders\":")?;
        self.tree.write(out)?;
        out.write_all(b",\n\"sets\":")?;
        write_rows(out, self.sets.iter().map(Row::json), stop)?;
        out.write_all(b",\n\"claims\":")?;
        write_rows(out, self.claims.rows.iter(), stop)?;
        out.write_all(b"}\n")
    }

    fn totals_object(&self) -> Value {
        json!({
            "made": self.made,
            "verified": self.verified.name(),
            "files": self.totals.files,
            "bytes": self.totals.bytes,
            "folders": self.totals.folders,
            "sets": self.totals.sets,
            "redundant_files": self.totals.redundant_files,
            "reclaimable": self.totals.reclaimable_bytes,
            "unread": self.totals.unread,
            "claims": self.claims.all,
            "offline": self.offline(),
        })
    }

    /// Paths of roots.
    fn offline(&self) -> Vec<&str> {
        let offline = self.roots.iter().filter(|root| root.presence == Presence::Offline);
        offline.map(|root| root.path.as_str()).collect()
    }
}

impl RootLine {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let state = match self.presence {
            Presence::Online => "<span class=\"state\">online</span>",
            Presence::Offline => "<span class=\"state offline\">offline</span>",
        };
        write!(out, "<tr><th scope=\"row\" class=\"path\">{}</th>", text(&self.path))?;
        write!(out, "<td>{state}</td><td>")?;
        match self.scan {
            Some((when, how)) => write!(out, "{}, {how}", utc(when))?,
            None => out.write_all(b"never")?,
        }
        let Contents { folders, files, bytes, errors, .. } = self.contents;
        for count in [folders, files] {
            write!(out, "<td class=\"number\">{}</td>", number(count))?;
        }
        write!(out, "<td class=\"number\">{}</td>", Size(bytes))?;
        writeln!(out, "<td class=\"number\">{}</td></tr>", number(errors))
    }
}

fn write_rows<T: std::borrow::Borrow<Value>>(
    out: &mut dyn Write,
    rows: impl Iterator<Item = T>,
    stop: &Stop,
) -> io::Result<()> {
    let mut before: &[u8] = b"[\n";
    for row in rows {
        if stop.is_asked() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        out.write_all(before)?;
        serde_json::to_writer(&mut *out, row.borrow())?;
        before = b",\n";
    }
    out.write_all(if before == b"[\n" { b"[]" } else { b"]" })
}

/// The script and the style that are ours, pictures that are in the page, and nothing else: nothing is
/// fetched, nothing is sent, and no other script runs even if it got into the page.
fn policy() -> String {
    let hash = |text: &str| STANDARD.encode(Sha256::digest(text.as_bytes()));
    format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; img-src data:; \
         base-uri 'none'; form-action 'none'",
        hash(SCRIPT),
        hash(STYLE)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_our_own_parts_ends_the_place_that_they_are_in() {
        for part in [SCRIPT, STYLE] {
            let lower = part.to_lowercase();
            assert!(
                !lower.contains("</script")
                    && !lower.contains("</style")
                    && !lower.contains("<!--")
            );
            assert!(part.is_ascii(), "whatever a browser takes the page for, the hash is the same");
        }
        assert!(!PAGE.contains(" style=") && !PAGE.contains(" onclick"), "the policy forbids them");
        assert!(!STYLE.contains("url(") && !STYLE.contains("@import"));
    }
}
