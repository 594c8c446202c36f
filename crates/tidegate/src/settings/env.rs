//! Settings from the environment: `TIDEGATE_<POOL>_<KEY>`.

use std::collections::BTreeMap;
use std::ffi::OsStr;

use super::table::{self, TABLE};
use super::{SettingError, Settings};

impl Settings {
    /// What the environment says about these pools; each has its entry.
    ///
    /// The variable is the pool's name and the key, in capitals, with `_` for whatever is
    /// neither a letter of ASCII nor a digit: `workers` of `image-resize` is
    /// `TIDEGATE_IMAGE_RESIZE_WORKERS`. Two names that become one are an error, and so is a
    /// variable that begins like a pool's and is no setting.
    ///
    /// Name all pools of the program in one call. Asked for `image` alone, it could not know
    /// that `TIDEGATE_IMAGE_RESIZE_WORKERS` belongs to another pool, and would refuse it.
    pub fn from_env(pools: &[&str]) -> Result<BTreeMap<String, Settings>, SettingError> {
        Settings::from_vars(pools, std::env::vars_os())
    }

    /// As [`from_env`](Settings::from_env), from variables that you have; for tests.
    pub fn from_vars<K: AsRef<OsStr>, V: AsRef<OsStr>>(
        pools: &[&str],
        vars: impl IntoIterator<Item = (K, V)>,
    ) -> Result<BTreeMap<String, Settings>, SettingError> {
        let prefixes = prefixes(pools)?;
        let mut found: BTreeMap<String, Settings> =
            pools.iter().map(|pool| (String::from(*pool), Settings::default())).collect();
        for (name, value) in vars {
            let name = name.as_ref().to_string_lossy();
            let Some((prefix, pool)) = owner(&prefixes, &name) else { continue };
            let settings = found.get_mut(*pool).expect("each pool has its entry");
            read(settings, prefix, &name, value.as_ref()).map_err(|error| error.of_pool(pool))?;
        }
        Ok(found)
    }
}

/// With its pool, for each pool.
fn prefixes<'a>(pools: &[&'a str]) -> Result<BTreeMap<String, &'a str>, SettingError> {
    let mut prefixes = BTreeMap::new();
    for pool in pools {
        let prefix = prefix(pool);
        if let Some(other) = prefixes.insert(prefix.clone(), *pool) {
            return Err(SettingError::one_prefix(&prefix, [other, pool]));
        }
    }
    Ok(prefixes)
}

fn prefix(pool: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    format!("TIDEGATE_{}_", pool.chars().map(letter).collect::<String>())
}

/// Whose variable it is: the pool with the longest prefix, unless only for another pool the
/// rest is a setting. (`TIDEGATE_IMAGE_RESIZE_COOLDOWN` is of `image`, even beside a pool
/// `image-resize`. It is never a setting of both, because no key ends with another.)
fn owner<'a, 'b>(
    prefixes: &'a BTreeMap<String, &'b str>,
    name: &str,
) -> Option<(&'a String, &'a &'b str)> {
    let matching = || prefixes.iter().filter(|(prefix, _)| name.starts_with(prefix.as_str()));
    let knows = |prefix: &str| key(&name[prefix.len()..]).is_some();
    matching()
        .find(|(prefix, _)| knows(prefix))
        .or(matching().max_by_key(|(prefix, _)| prefix.len()))
}

fn key(capitals: &str) -> Option<&'static str> {
    TABLE.iter().map(|row| row.key()).find(|key| key.to_ascii_uppercase() == capitals)
}

fn read(into: &mut Settings, prefix: &str, name: &str, value: &OsStr) -> Result<(), SettingError> {
    let rest = &name[prefix.len()..];
    let Some(key) = key(rest) else {
        let near = table::nearest(rest).map(|key| format!("{prefix}{}", key.to_ascii_uppercase()));
        return Err(SettingError::unknown(name, near));
    };
    match value.to_str() {
        Some(value) => into.set_once(key, value).map_err(|error| error.at_key(name)),
        None => Err(SettingError::refused(name, &value.to_string_lossy(), "text in UTF-8")),
    }
}
