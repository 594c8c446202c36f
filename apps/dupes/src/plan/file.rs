//! A plan as a file: an object a line. The first says what it is, the last that nothing is missing; those
//! between are sets, and one that somebody has deleted is not carried out.
//!
//! ```text
//! {"dupes-plan":1,"bases":[{"path":"/srv/ann","device":2049,"inode":131,"reference":false}]}
//! {"keepers":[{"names":[{"base":0,"path":"a"}],"facts":{…},"frees":4096}],"victims":[…]}
//! {"end":true}
//! ```
//!
//! A path is whole and real, or the plan is refused. A member with `"reference":true` is one though its base is not: a file
//! that was given with `--reference`. One with a `tree` is a whole folder: `{"files":3,"bytes":7000,"stamp":"…"}`.

use std::fmt::Display;
use std::io::{self, BufRead, Write};

use serde_json::{Value, json};

use super::{Member, Plan, PlannedSet, Tree};
use crate::act::ground::Place;
use crate::journal::{
    from_base, from_extent, from_facts, from_place, to_base, to_digest, to_extent, to_facts,
    to_place,
};

/// What this program writes, and all that it understands.
const VERSION: u64 = 1;

/// Longer than the line of any set that fits into memory as a plan.
const LONGEST: u64 = 1 << 30;

/// All of it.
pub fn write(plan: &Plan, out: &mut dyn Write) -> io::Result<()> {
    let base = |(base, reference): &(_, bool)| {
        let mut value = from_base(base);
        value["reference"] = (*reference).into();
        value
    };
    let bases: Vec<Value> = plan.bases.iter().map(base).collect();
    writeln!(out, "{}", json!({"dupes-plan": VERSION, "bases": bases}))?;
    for set in &plan.sets {
        let members = |members: &[Member]| members.iter().map(from_member).collect::<Vec<_>>();
        let (keepers, victims) = (members(&set.keepers), members(&set.victims));
        writeln!(out, "{}", json!({"keepers": keepers, "victims": victims}))?;
    }
    writeln!(out, "{}", json!({"end": true}))
}

/// Whether it begins as one does, of whatever version.
pub fn is_one(input: &mut dyn BufRead) -> io::Result<bool> {
    let mut line = Vec::new();
    // What is no text at all need not be read for that.
    if input.fill_buf()?.first() != Some(&b'{') {
        return Ok(false);
    }
    io::Read::take(input, LONGEST).read_until(b'\n', &mut line)?;
    Ok(serde_json::from_slice(&line).is_ok_and(|value: Value| !value["dupes-plan"].is_null()))
}

/// Reads one that is whole, and sound.
pub fn read(input: &mut dyn BufRead) -> io::Result<Plan> {
    let mut lines = Lines { input, number: 0 };
    let first = lines.next()?.ok_or_else(|| wrong(1, "it is empty"))?;
    match first["dupes-plan"].as_u64() {
        Some(VERSION) => {}
        Some(other) => return Err(wrong(1, format!("its version is {other}, and not {VERSION}"))),
        None => return Err(wrong(1, "this is no plan: dupes plan makes one")),
    }
    let base = |value: &Value| {
        let base = to_base(value).filter(|base| is_whole(&base.path))?;
        Some((base, value["reference"].as_bool()?))
    };
    let bases = first["bases"].as_array().and_then(|all| all.iter().map(base).collect());
    let mut plan = Plan {
        bases: bases.ok_or_else(|| {
            wrong(1, "its bases make no sense: each is a whole path, without . and .. and //")
        })?,
        sets: Vec::new(),
    };
    loop {
        let Some(line) = lines.next()? else {
            return Err(wrong(lines.number, "its end is missing: it was not written to the end"));
        };
        if line["end"] == true {
            break;
        }
        let set = set_of(&line, plan.bases.len());
        plan.sets.push(
            set.map_err(|why| wrong(lines.number, format!("this set makes no sense: {why}")))?,
        );
    }
    if lines.next()?.is_some() {
        return Err(wrong(lines.number, "there is something behind its end"));
    }
    plan.check().map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))?;
    Ok(plan)
}

struct Lines<'a> {
    input: &'a mut dyn BufRead,
    number: usize,
}

impl Lines<'_> {
    fn next(&mut self) -> io::Result<Option<Value>> {
        let mut line = Vec::new();
        self.number += 1;
        if io::Read::take(&mut *self.input, LONGEST).read_until(b'\n', &mut line)? == 0 {
            return Ok(None);
        }
        serde_json::from_slice(&line)
            .map(Some)
            .map_err(|error| wrong(self.number, format!("it is not JSON: {error}")))
    }
}

fn wrong(line: usize, what: impl Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("line {line} of the plan: {what}"))
}

fn from_member(member: &Member) -> Value {
    let names: Vec<Value> = member.names.iter().map(from_place).collect();
    let mut value =
        json!({"names": names, "facts": from_facts(&member.facts), "frees": member.frees});
    if member.reference {
        value["reference"] = true.into();
    }
    if let Some(Tree { extent, stamp }) = &member.tree {
        value["tree"] = from_extent(extent);
        value["tree"]["stamp"] = stamp.to_string().into();
    }
    value
}

/// As it would be with each name only once on the way: other ways to write it lead to the same folder, and would
/// get round what goes by paths.
fn is_whole(path: &[u8]) -> bool {
    path == b"/" || path.strip_prefix(b"/").is_some_and(|way| Place::new(0, way.to_vec()).is_some())
}

/// Or what is wrong with it.
fn set_of(value: &Value, bases: usize) -> Result<PlannedSet, String> {
    let name = |value: &Value| {
        let place = to_place(value).ok_or_else(|| {
            format!("no path that leads down from its base, without . and ..: {}", value["path"])
        })?;
        let is_known = place.root < bases;
        is_known.then_some(place).ok_or_else(|| format!("there is no base {}", value["base"]))
    };
    let all = |value: &Value, what: &str| {
        value.as_array().cloned().ok_or_else(|| format!("{what} are missing, or no list"))
    };
    let member = |value: &Value| {
        let wrong = |what: &str| format!("{what} of {} make no sense", value["names"][0]["path"]);
        Ok(Member {
            names: all(&value["names"], "names")?
                .iter()
                .map(name)
                .collect::<Result<_, String>>()?,
            facts: to_facts(&value["facts"]).ok_or_else(|| wrong("the facts"))?,
            reference: match &value["reference"] {
                Value::Null => false,
                is => is.as_bool().ok_or_else(|| wrong("references"))?,
            },
            frees: value["frees"].as_u64().ok_or_else(|| wrong("the bytes that come free"))?,
            tree: match &value["tree"] {
                Value::Null => None,
                tree => Some(tree_of(tree).ok_or_else(|| wrong("the contents"))?),
            },
        })
    };
    let members = |what: &str| {
        all(&value[what], what)?.iter().map(member).collect::<Result<Vec<_>, String>>()
    };
    Ok(PlannedSet { keepers: members("keepers")?, victims: members("victims")? })
}

fn tree_of(value: &Value) -> Option<Tree> {
    Some(Tree { extent: to_extent(value)?, stamp: to_digest(value["stamp"].as_str()?)? })
}
