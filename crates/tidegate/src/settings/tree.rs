//! Settings through serde: any format that describes itself.
//!
//! A document is read into a tree of texts first, and settings are made of that: so a native
//! `8` and the text `"8"` are one value, and refused with the same words.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::{SettingError, Settings};

pub(super) enum Tree {
    /// A text, number or flag; also what no setting is made of, a list or nothing.
    Leaf(String),
    Map(Vec<(String, Tree)>),
}

impl Tree {
    /// Itself as keys and values, or what it is instead.
    pub(super) fn into_pairs(self) -> Result<Vec<(String, Tree)>, String> {
        match self {
            Tree::Map(pairs) => Ok(pairs),
            Tree::Leaf(text) => Err(text),
        }
    }

    pub(super) fn into_settings(self) -> Result<Settings, SettingError> {
        let pairs = self.into_pairs();
        let pairs = pairs.map_err(|text| SettingError::refused("settings", &text, PAIRS))?;
        let mut settings = Settings::default();
        for (key, value) in pairs {
            match value {
                Tree::Leaf(text) => settings.set_once(&key, &text)?,
                Tree::Map(_) => settings.set_once(&key, "{…}")?,
            }
        }
        Ok(settings)
    }
}
const PAIRS: &str = "keys and values";

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Tree, D::Error> {
        deserializer.deserialize_any(Planter)
    }
}

struct Planter;

impl<'de> Visitor<'de> for Planter {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PAIRS)
    }

    fn visit_str<E>(self, text: &str) -> Result<Tree, E> {
        Ok(Tree::Leaf(text.to_owned()))
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Tree, E> {
        Ok(Tree::Leaf(flag.to_string()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Tree, E> {
        Ok(Tree::Leaf(number.to_string()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Tree, E> {
        Ok(Tree::Leaf(number.to_string()))
    }

    // Too large for any setting: for the row to say so.
    fn visit_u128<E>(self, number: u128) -> Result<Tree, E> {
        Ok(Tree::Leaf(number.to_string()))
    }

    fn visit_i128<E>(self, number: i128) -> Result<Tree, E> {
        Ok(Tree::Leaf(number.to_string()))
    }

    /// With its point, so that 8.0 is not taken for 8.
    fn visit_f64<E>(self, number: f64) -> Result<Tree, E> {
        Ok(Tree::Leaf(format!("{number:?}")))
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Leaf("null".to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Tree, A::Error> {
        while list.next_element::<Tree>()?.is_some() {}
        Ok(Tree::Leaf("[…]".to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        // A `Vec`, because JSON may have a key twice.
        let mut pairs: Vec<(String, Tree)> = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        // How serde_json shows numbers if some crate asks it for arbitrary precision.
        match pairs.pop_if(|(key, _)| key == "$serde_json::private::Number") {
            Some((_, number)) => Ok(number),
            None => Ok(Tree::Map(pairs)),
        }
    }
}

impl<'de> Deserialize<'de> for Settings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Settings, D::Error> {
        Tree::deserialize(deserializer)?.into_settings().map_err(D::Error::custom)
    }
}

/// What is set, numbers and flags as such, the rest as text.
impl Serialize for Settings {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.entries().count()))?;
        for (key, text) in self.entries() {
            match (text.parse::<i64>(), text.parse::<bool>()) {
                (Ok(number), _) => map.serialize_entry(key, &number)?,
                (_, Ok(flag)) => map.serialize_entry(key, &flag)?,
                _ => map.serialize_entry(key, &text)?,
            }
        }
        map.end()
    }
}
