//! Settings from TOML and JSON: of one pool, or of several under `pool`.

use std::collections::BTreeMap;
use std::fmt::Display;

use super::table::TABLE;
use super::tree::Tree;
use super::{SettingError, Settings};

/// The key under which a file has its pools.
const POOL: &str = "pool";

impl Settings {
    /// The settings of one pool, keys at the top.
    ///
    /// ```
    /// let settings = tidegate::Settings::from_toml("workers = \"2..=16\"\nqueue = 1_000")?;
    /// assert_eq!(settings.queue, Some(1_000));
    /// # Ok::<(), tidegate::SettingError>(())
    /// ```
    #[cfg(feature = "toml")]
    pub fn from_toml(text: &str) -> Result<Settings, SettingError> {
        parsed_toml(text)?.into_settings()
    }

    /// The settings of several pools by their names, a table for each: `[pool.image-resize]`.
    /// Other keys are errors.
    ///
    /// Part of a larger file? `BTreeMap<String, Settings>` is `Deserialize`.
    #[cfg(feature = "toml")]
    pub fn pools_from_toml(text: &str) -> Result<BTreeMap<String, Settings>, SettingError> {
        pools(parsed_toml(text)?)
    }

    /// The settings of one pool, keys at the top.
    ///
    /// ```
    /// let settings = tidegate::Settings::from_json(r#"{ "workers": "2..=16", "queue": 1000 }"#)?;
    /// assert_eq!(settings.queue, Some(1_000));
    /// # Ok::<(), tidegate::SettingError>(())
    /// ```
    #[cfg(feature = "json")]
    pub fn from_json(text: &str) -> Result<Settings, SettingError> {
        parsed("JSON", serde_json::from_str(text))?.into_settings()
    }

    /// The settings of several pools by their names: `{ "pool": { "image-resize": { … } } }`.
    /// Other keys are errors.
    ///
    /// Part of a larger file? `BTreeMap<String, Settings>` is `Deserialize`.
    #[cfg(feature = "json")]
    pub fn pools_from_json(text: &str) -> Result<BTreeMap<String, Settings>, SettingError> {
        pools(parsed("JSON", serde_json::from_str(text))?)
    }
}

/// A key that comes twice is for the parser to see, but for us to say.
#[cfg(feature = "toml")]
fn parsed_toml(text: &str) -> Result<Tree, SettingError> {
    let read = toml::from_str(text);
    let twice = |error: &toml::de::Error| {
        let span = error.span().filter(|_| error.message() == "duplicate key")?;
        let (before, key) = (text.get(..span.start)?, text.get(span)?);
        let line = before.rsplit('\n').next()?;
        // What of a dotted key stands before it: `pool.image` of a table that comes twice.
        let bare = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let path = line.rsplit(|c| !bare(c)).next()?;
        let path = if path.ends_with('.') { path } else { "" };
        let key = format!("{path}{}", key.trim_matches(['"', '\'']));
        Some(SettingError::twice_at(&key, before.matches('\n').count() + 1))
    };
    match read.as_ref().err().and_then(twice) {
        Some(twice) => Err(twice),
        None => parsed("TOML", read),
    }
}

fn parsed<E: Display>(format: &'static str, read: Result<Tree, E>) -> Result<Tree, SettingError> {
    read.map_err(|error| SettingError::format(format, error.to_string()))
}

fn pools(file: Tree) -> Result<BTreeMap<String, Settings>, SettingError> {
    let pairs = |key: &str, tree: Tree, expected: &str| {
        tree.into_pairs().map_err(|text| SettingError::refused(key, &text, expected))
    };
    let mut found = BTreeMap::new();
    let mut seen = false;
    for (key, tree) in pairs("settings", file, "pools under the key pool")? {
        if key != POOL {
            let setting = TABLE.iter().any(|row| row.key() == key);
            let meant = if setting { format!("{POOL}.NAME.{key}") } else { POOL.to_owned() };
            return Err(SettingError::unknown(&key, Some(meant)));
        }
        if std::mem::replace(&mut seen, true) {
            return Err(SettingError::twice(POOL));
        }
        for (name, tree) in pairs(POOL, tree, "pools by their names, each with its settings")? {
            let settings = tree.into_settings().map_err(|error| error.of_pool(&name))?;
            if found.insert(name.clone(), settings).is_some() {
                return Err(SettingError::twice(&format!("{POOL}.{name}")));
            }
        }
    }
    Ok(found)
}
