//! The history: when which roots were scanned, and how that ended.

use rusqlite::params;

use super::{Error, Store, now};

/// So many scans are remembered, and more only of roots of which these say nothing.
const REMEMBERED: i64 = 1_000;

const FORGET: &str =
    "DELETE FROM scans WHERE id <= (SELECT max(id) FROM scans) - ?1 AND id NOT IN (
    SELECT max(scans.id) FROM scans, json_each(scans.roots) GROUP BY json_each.value, mode, state)";

/// A scan, as it is remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scan {
    /// Its number.
    pub id: i64,
    /// What it was to do.
    pub mode: String,
    /// The numbers of its roots.
    pub roots: Vec<i64>,
    /// When, in s.
    pub began: i64,
    /// When; None if it has not ended, or was killed.
    pub ended: Option<i64>,
    /// How.
    pub state: State,
    /// What it has counted, as JSON.
    pub counts: serde_json::Value,
}

/// How a scan has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has not.
    Active,
    /// Everything was read.
    Complete,
    /// It came to its end, but not all was read.
    Unread,
    /// Somebody has stopped or killed it: what it had found is recorded.
    Interrupted,
    /// It could not go on.
    Failed,
}

impl State {
    const NAMES: [(&'static str, State); 5] = [
        ("active", State::Active),
        ("complete", State::Complete),
        ("unread", State::Unread),
        ("interrupted", State::Interrupted),
        ("failed", State::Failed),
    ];

    /// As it is written down.
    pub fn name(self) -> &'static str {
        let found = State::NAMES.iter().find(|(_, state)| *state == self);
        found.map_or("", |(name, _)| name)
    }

    fn from_name(name: &str) -> State {
        // A word that only a newer program knows is no end that this one knows.
        let found = State::NAMES.iter().find(|(known, _)| *known == name);
        found.map_or(State::Failed, |(_, state)| *state)
    }
}

impl Store {
    /// Begins one. Whoever calls it holds the lock, so that any other that is said to be active was
    /// killed: its number is given back if it was of one of these roots.
    pub fn begin_scan(&self, mode: &str, roots: &[i64]) -> Result<(i64, Option<i64>), Error> {
        self.wrap(self.connection().execute(FORGET, [REMEMBERED]))?;
        let killed = self.scans()?.into_iter().filter(|scan| scan.state == State::Active);
        let mut resumes = None;
        for scan in killed {
            self.end_scan(scan.id, State::Interrupted, &serde_json::Value::Null)?;
            if scan.roots.iter().any(|root| roots.contains(root)) {
                resumes = resumes.max(Some(scan.id));
            }
        }
        let sql = "INSERT INTO scans (mode, roots, began, state) VALUES (?1, ?2, ?3, 'active')";
        let ids = serde_json::Value::from(roots).to_string();
        self.wrap(self.connection().execute(sql, params![mode, ids, now()]))?;
        Ok((self.connection().last_insert_rowid(), resumes))
    }

    /// Says how it ended.
    pub fn end_scan(&self, id: i64, state: State, counts: &serde_json::Value) -> Result<(), Error> {
        let sql = "UPDATE scans SET ended = ?2, state = ?3, counts = ?4 WHERE id = ?1";
        let params = params![id, now(), state.name(), counts.to_string()];
        self.wrap(self.connection().execute(sql, params).map(drop))
    }

    /// Those that are remembered, the newest first.
    pub fn scans(&self) -> Result<Vec<Scan>, Error> {
        let sql = "SELECT id, mode, roots, began, ended, state, counts FROM scans ORDER BY id DESC";
        let all = || {
            let mut statement = self.connection().prepare(sql)?;
            let rows = statement.query_map([], |row| {
                let counts = row.get::<_, Option<String>>(6)?.unwrap_or_default();
                Ok(Scan {
                    id: row.get(0)?,
                    mode: row.get(1)?,
                    roots: serde_json::from_str(row.get_ref(2)?.as_str()?).unwrap_or_default(),
                    began: row.get(3)?,
                    ended: row.get(4)?,
                    state: State::from_name(row.get_ref(5)?.as_str()?),
                    counts: serde_json::from_str(&counts).unwrap_or_default(),
                })
            })?;
            rows.collect()
        };
        self.wrap(all())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_scans_are_forgotten_but_for_the_last_of_each_kind_of_a_root() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open_or_make(&dir.path().join("dupes.db")).unwrap();
        let scan = |mode: &str, roots: &[i64], state| {
            let (id, _) = store.begin_scan(mode, roots).unwrap();
            store.end_scan(id, state, &serde_json::Value::Null).unwrap();
            id
        };
        let rare = [
            scan("all", &[1, 2], State::Complete),
            scan("folders", &[2], State::Complete),
            scan("all", &[2], State::Interrupted),
        ];
        let forgotten = scan("all", &[3], State::Complete);
        let transaction = store.connection().unchecked_transaction().unwrap();
        for _ in 0..REMEMBERED + 5 {
            scan("all", &[1, 3], State::Complete);
        }
        transaction.commit().unwrap();
        let ids: Vec<i64> = store.scans().unwrap().iter().map(|scan| scan.id).collect();
        assert!(rare.iter().all(|id| ids.contains(id)), "the last ones of root 2");
        assert!(!ids.contains(&forgotten));
        assert_eq!(
            ids.len(),
            REMEMBERED as usize + 1 + rare.len(),
            "and the one that has just begun"
        );
    }
}
