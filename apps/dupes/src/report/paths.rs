//! Where folders lie, to put paths together.

use std::collections::HashMap;

use rusqlite::Connection;

use crate::folders::join;
use crate::store::roots::AWAY;

/// All folders, to put paths together: about 40 bytes each, and its name. One question for all of them: one for
/// each would be most of a report.
pub(super) struct Paths {
    roots: HashMap<i64, Vec<u8>>,
    /// Rising.
    ids: Vec<i64>,
    folders: Vec<Known>,
    names: Vec<u8>,
}

/// Of a folder.
#[derive(Clone, Copy)]
pub(super) struct Known {
    /// Its place in the table; of a root, its own.
    parent: u32,
    pub(super) root: i64,
    pub(super) device: Option<u64>,
    /// Something was mounted on it, or on a folder that it lies in, and was away at the last scan.
    pub(super) is_away: bool,
    /// Where its name ends.
    name_end: u32,
}

impl Paths {
    pub(super) fn new(
        connection: &Connection,
        roots: HashMap<i64, Vec<u8>>,
    ) -> rusqlite::Result<Paths> {
        let mut paths = Paths { roots, ids: Vec::new(), folders: Vec::new(), names: Vec::new() };
        let sql = "SELECT id, parent, root, device, name, error FROM folders ORDER BY id";
        let mut statement = connection.prepare(sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let place = paths.ids.len() as u32;
            // What lies in another folder has a higher number; what hangs in the air is for `verify`.
            let parent = row.get::<_, Option<i64>>(1)?.and_then(|parent| paths.place(parent));
            paths.names.extend_from_slice(row.get_ref(4)?.as_blob()?);
            paths.ids.push(row.get(0)?);
            let above = parent.and_then(|parent| paths.folders.get(parent as usize));
            let is_away = above.is_some_and(|above| above.is_away)
                || row.get::<_, Option<i32>>(5)? == Some(AWAY);
            paths.folders.push(Known {
                is_away,
                parent: parent.unwrap_or(place),
                root: row.get(2)?,
                device: row.get::<_, Option<i64>>(3)?.map(i64::cast_unsigned),
                name_end: u32::try_from(paths.names.len()).unwrap_or(u32::MAX),
            });
        }
        Ok(paths)
    }

    fn place(&self, id: i64) -> Option<u32> {
        self.ids.binary_search(&id).ok().map(|place| place as u32)
    }

    pub(super) fn known(&self, id: i64) -> Option<(u32, Known)> {
        self.place(id).map(|place| (place, self.folders[place as usize]))
    }

    pub(super) fn of(&self, id: i64) -> Vec<u8> {
        self.place(id).map_or(Vec::new(), |place| self.path(place, 0))
    }

    /// With room for more bytes behind it.
    pub(super) fn path(&self, place: u32, more: usize) -> Vec<u8> {
        let mut above = vec![place];
        loop {
            let last = above[above.len() - 1];
            let parent = self.folders[last as usize].parent;
            if parent == last {
                break;
            }
            above.push(parent);
        }
        let root =
            self.roots.get(&self.folders[place as usize].root).map_or(&[][..], Vec::as_slice);
        let names = || above.iter().rev().skip(1).map(|place| self.name(*place));
        let mut path = Vec::with_capacity(
            root.len() + names().map(|name| name.len() + 1).sum::<usize>() + more,
        );
        path.extend_from_slice(root);
        names().for_each(|name| join(&mut path, name));
        path
    }

    fn name(&self, place: u32) -> &[u8] {
        let end = |place: u32| self.folders[place as usize].name_end as usize;
        &self.names[place.checked_sub(1).map_or(0, end)..end(place)]
    }
}
