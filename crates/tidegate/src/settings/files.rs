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
        parsed("TOML", toml::from_str(text))?.into_settings()
    }

    /// The settings of several pools by their names, a table for each: `[pool.image-resize]`.
    /// Other keys are errors.
    ///
    /// Part of a larger file? `BTreeMap<String, Settings>` is `Deserialize`.
    #[cfg(feature = "toml")]
    pub fn pools_from_toml(text: &str) -> Result<BTreeMap<String, Settings>, SettingError> {
        pools(parsed("TOML", toml::from_str(text))?)
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

fn parsed<E: Display>(format: &'static str, read: Result<Tree, E>) -> Result<Tree, SettingError> {
    read.map_err(|error| SettingError::format(format, error.to_string()))
}

fn pools(file: Tree) -> Result<BTreeMap<String, Settings>, SettingError> {
    let pairs = |key: &str, tree: Tree, expected: &str| {
        tree.into_pairs().map_err(|text| SettingError::refused(key, &text, expected))
    };
    let mut found = BTreeMap::new();
    for (key, tree) in pairs("settings", file, "pools under the key pool")? {
        if key != POOL {
            let setting = TABLE.iter().any(|row| row.key() == key);
            let meant = if setting { format!("{POOL}.NAME.{key}") } else { POOL.to_owned() };
            return Err(SettingError::unknown(&key, Some(meant)));
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
