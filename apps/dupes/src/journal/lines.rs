//! A line of a journal, as text and back.

use serde_json::{Value, json};

use crate::act::deed::{Action, Again, Deed, Extent};
use crate::act::facts::{Attributes, Facts, Time};
use crate::act::ground::{Base, Place};
use crate::digest::Digest;
use crate::output::{from_json_path, json_path};

/// What this program writes, and all that it understands.
const VERSION: u64 = 1;

/// Digits of its checksum.
const DIGITS: usize = 8;

/// One thing that a journal says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// A run begins.
    Begin {
        /// Its name.
        id: String,
        /// What it does.
        action: Action,
        /// Seconds since 1970.
        when: i64,
        /// Its number among all runs of its folder.
        order: u64,
        /// What it removes is deleted at once.
        for_good: bool,
    },
    /// The next number is that of this folder.
    Base(Base),
    /// This folder is going to be made.
    Made(Place),
    /// This is going to be done.
    Intent(Box<Deed>),
    /// It is done, and its folder was changed then.
    Done(u64, Time),
    /// It was not done; the ctime of the file after that.
    Back(u64, Time),
    /// It is going to be taken back.
    Undoing(u64),
    /// It was.
    Undone(u64, Option<Again>),
    /// What was put aside is going to be deleted.
    Purging(u64),
    /// It was.
    Purged(u64),
    /// Some of it was.
    Partly(u64),
    /// It was not there any more when it was to be deleted.
    Missing(u64),
    /// What is aside is not ours to touch, or nobody can go there: it stays there.
    Left(u64),
    /// All of the run is going to be taken back.
    RollingBack,
    /// Nothing is in the middle of anything.
    End,
    /// That, since it was told to stop: of so many names nothing was begun.
    Stopped(u64),
}

impl Line {
    /// With its checksum and its newline.
    pub fn to_text(&self) -> String {
        let text = self.to_json().to_string();
        format!("{} {text}\n", checksum(text.as_bytes()))
    }

    /// None if it is not whole.
    pub fn from_text(text: &[u8]) -> Option<Line> {
        let text = text.strip_suffix(b"\n")?;
        let (sum, rest) = text.split_at_checked(DIGITS)?;
        let rest = rest.strip_prefix(b" ")?;
        if checksum(rest).as_bytes() != sum {
            return None;
        }
        Line::from_json(&serde_json::from_slice(rest).ok()?)
    }

    /// Of a line that is whole and says nothing to this program: why. None: it is damaged, or cut off.
    pub fn unknown(text: &[u8]) -> Option<String> {
        let (sum, rest) = text.strip_suffix(b"\n")?.split_at_checked(DIGITS)?;
        let rest = rest.strip_prefix(b" ").filter(|rest| checksum(rest).as_bytes() == sum)?;
        let value: Value = serde_json::from_slice(rest).ok()?;
        Some(match value["begin"]["version"].as_u64() {
            Some(version) if version != VERSION => {
                format!(
                    "it is of version {version}, and this program knows {VERSION}: use a newer one"
                )
            }
            _ => "it says what this program does not know: use a newer one".to_owned(),
        })
    }

    fn to_json(&self) -> Value {
        match self {
            Line::Begin { id, action, when, order, for_good } => {
                let action = action.name();
                let mut begin = json!({"version": VERSION, "id": id, "action": action, "when": when, "order": order});
                if *for_good {
                    begin["for_good"] = true.into();
                }
                json!({"begin": begin})
            }
            Line::Base(base) => json!({"base": from_base(base)}),
            Line::Made(place) => json!({"made": from_place(place)}),
            Line::Intent(deed) => json!({"intent": from_deed(deed)}),
            Line::Done(number, folder) => json!({"done": number, "folder": [folder.0, folder.1]}),
            Line::Back(number, ctime) => json!({"back": number, "ctime": from_time(*ctime)}),
            Line::Undoing(number) => json!({"undoing": number}),
            Line::Undone(number, None) => json!({"undone": number}),
            Line::Undone(number, Some(Again { inode, ctime })) => {
                json!({"undone": number, "inode": inode, "ctime": from_time(*ctime)})
            }
            Line::Purging(number) => json!({"purging": number}),
            Line::Purged(number) => json!({"purged": number}),
            Line::Partly(number) => json!({"partly": number}),
            Line::Missing(number) => json!({"missing": number}),
            Line::Left(number) => json!({"left": number}),
            Line::RollingBack => json!({"rolling-back": true}),
            Line::End => json!({"end": true}),
            // An older version takes it for an end as any other.
            Line::Stopped(not_begun) => json!({"end": {"not_begun": not_begun}}),
        }
    }

    fn from_json(value: &Value) -> Option<Line> {
        let (word, inside) = value
            .as_object()?
            .iter()
            .find(|(word, _)| !["folder", "ctime", "inode"].contains(&word.as_str()))?;
        let number = || inside.as_u64();
        Some(match word.as_str() {
            "begin" => {
                if inside["version"].as_u64()? != VERSION {
                    return None;
                }
                Line::Begin {
                    id: inside["id"].as_str()?.to_owned(),
                    action: Action::from_name(inside["action"].as_str()?)?,
                    when: inside["when"].as_i64()?,
                    order: inside["order"].as_u64().unwrap_or(0),
                    for_good: inside["for_good"].as_bool().unwrap_or(false),
                }
            }
            "base" => Line::Base(to_base(inside)?),
            "made" => Line::Made(to_place(inside)?),
            "intent" => Line::Intent(Box::new(to_deed(inside)?)),
            "done" => Line::Done(number()?, to_time(&value["folder"])?),
            "back" => Line::Back(number()?, to_time(&value["ctime"])?),
            "undoing" => Line::Undoing(number()?),
            "undone" => Line::Undone(number()?, to_again(value)),
            "purging" => Line::Purging(number()?),
            "purged" => Line::Purged(number()?),
            "partly" => Line::Partly(number()?),
            "missing" => Line::Missing(number()?),
            "left" => Line::Left(number()?),
            "rolling-back" => Line::RollingBack,
            "end" => inside["not_begun"].as_u64().map_or(Line::End, Line::Stopped),
            _ => return None,
        })
    }
}

fn to_again(value: &Value) -> Option<Again> {
    Some(Again { inode: value["inode"].as_u64()?, ctime: to_time(&value["ctime"])? })
}

fn checksum(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex()[..DIGITS].to_owned()
}

/// As an object.
pub fn from_base(base: &Base) -> Value {
    let mut value =
        json!({"path": json_path(&base.path), "device": base.device, "inode": base.inode});
    if let Some(birth) = base.birth {
        value["birth"] = from_time(birth);
    }
    value
}

/// And back.
pub fn to_base(value: &Value) -> Option<Base> {
    let path = from_json_path(&value["path"])?;
    let is_whole = path.starts_with(b"/");
    is_whole.then_some(Base {
        path,
        device: value["device"].as_u64()?,
        inode: value["inode"].as_u64()?,
        birth: to_time(&value["birth"]),
    })
}

/// As an object.
pub fn from_place(place: &Place) -> Value {
    json!({"base": place.root, "path": json_path(&place.path)})
}

/// And back; None if its way does not lead down.
pub fn to_place(value: &Value) -> Option<Place> {
    let root = usize::try_from(value["base"].as_u64()?).ok()?;
    Place::new(root, from_json_path(&value["path"])?)
}

fn from_time(time: Time) -> Value {
    json!([time.0, time.1])
}

fn to_time(value: &Value) -> Option<Time> {
    Some((value[0].as_i64()?, u32::try_from(value[1].as_u64()?).ok()?))
}

/// As an object.
pub fn from_facts(facts: &Facts) -> Value {
    json!({
        "device": facts.device, "inode": facts.inode, "size": facts.size,
        "mtime": from_time(facts.mtime), "ctime": from_time(facts.ctime),
    })
}

/// And back.
pub fn to_facts(value: &Value) -> Option<Facts> {
    Some(Facts {
        device: value["device"].as_u64()?,
        inode: value["inode"].as_u64()?,
        size: value["size"].as_u64()?,
        mtime: to_time(&value["mtime"])?,
        ctime: to_time(&value["ctime"])?,
    })
}

/// As an object.
pub fn from_extent(extent: &Extent) -> Value {
    json!({"files": extent.files, "bytes": extent.bytes})
}

/// And back.
pub fn to_extent(value: &Value) -> Option<Extent> {
    Some(Extent { files: value["files"].as_u64()?, bytes: value["bytes"].as_u64()? })
}

fn from_attributes(attributes: &Attributes) -> Value {
    let bytes = |(name, value): &(Vec<u8>, Vec<u8>)| json!([json_path(name), json_path(value)]);
    json!({
        "mode": attributes.mode,
        "owner": [attributes.owner.0, attributes.owner.1],
        "atime": from_time(attributes.times.0),
        "mtime": from_time(attributes.times.1),
        "xattrs": attributes.extended.iter().map(bytes).collect::<Vec<_>>(),
    })
}

fn to_attributes(value: &Value) -> Option<Attributes> {
    let number = |value: &Value| u32::try_from(value.as_u64()?).ok();
    let pair = |pair: &Value| Some((from_json_path(&pair[0])?, from_json_path(&pair[1])?));
    Some(Attributes {
        mode: number(&value["mode"])?,
        owner: (number(&value["owner"][0])?, number(&value["owner"][1])?),
        times: (to_time(&value["atime"])?, to_time(&value["mtime"])?),
        extended: value["xattrs"].as_array()?.iter().map(pair).collect::<Option<_>>()?,
    })
}

fn from_deed(deed: &Deed) -> Value {
    let mut value = json!({
        "number": deed.number,
        "action": deed.action.name(),
        "at": from_place(&deed.at),
        "aside": from_place(&deed.aside),
        "keeper": from_place(&deed.keeper),
        "keeper_facts": from_facts(&deed.keeper_facts),
        "facts": from_facts(&deed.facts),
        "names": deed.names,
        "blake3": deed.digest.to_string(),
        "attributes": from_attributes(&deed.attributes),
        "folder_times": [from_time(deed.folder_times.0), from_time(deed.folder_times.1)],
    });
    if let Some(extent) = &deed.tree {
        value["tree"] = from_extent(extent);
    }
    value
}

fn to_deed(value: &Value) -> Option<Deed> {
    Some(Deed {
        number: value["number"].as_u64()?,
        action: Action::from_name(value["action"].as_str()?)?,
        tree: match &value["tree"] {
            Value::Null => None,
            tree => Some(to_extent(tree)?),
        },
        at: to_place(&value["at"])?,
        aside: to_place(&value["aside"])?,
        keeper: to_place(&value["keeper"])?,
        keeper_facts: to_facts(&value["keeper_facts"])?,
        facts: to_facts(&value["facts"])?,
        names: value["names"].as_u64().unwrap_or(u64::MAX),
        digest: to_digest(value["blake3"].as_str()?)?,
        attributes: to_attributes(&value["attributes"])?,
        folder_times: (to_time(&value["folder_times"][0])?, to_time(&value["folder_times"][1])?),
    })
}

/// And back; of BLAKE3.
pub fn to_digest(text: &str) -> Option<Digest> {
    let value = blake3::Hash::from_hex(text).ok()?;
    Some(Digest::of(value.as_bytes()))
}
