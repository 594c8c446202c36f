//! What waits for its reads: files as they should be recorded, until all that has to be read of their folder was.

use std::collections::HashMap;
use std::sync::Arc;

use super::Remember;
use crate::folders::{FileId, Folder};
use crate::memory::{Known, Learned};
use crate::read::{Unread, WHOLE};
use crate::store::rows::{CHANGED, FileRow};
use crate::store::write::{Content, Record};

#[derive(Debug, Default)]
pub(super) struct Desk {
    /// By the number of the folder or part.
    pub(super) waiting: HashMap<u32, Waiting>,
    /// Further names of files of which nothing was learned yet.
    names: HashMap<FileId, Vec<FileId>>,
    /// What was written of files with several names.
    with_names: HashMap<FileId, State>,
}

#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) folder: Arc<Folder>,
    pub(super) id: i64,
    pub(super) files: Vec<State>,
    /// Reads that are expected, and one while more may be.
    pub(super) left: usize,
}

/// A file, as it should be recorded.
#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    /// Hash and sample are *shown* in it from the last time that it was read, until it is read again.
    pub(super) row: FileRow,
    /// They may also be *used*: they are of the file as it is.
    pub(super) is_sure: bool,
    /// What is read of it now may change without its times showing it.
    pub(super) racy: bool,
    pub(super) is_stored: bool,
    pub(super) is_ignored: bool,
}

impl Desk {
    /// What is learned of a file that waits, or a record of it if it was written before.
    pub(super) fn learn(
        &mut self,
        file: FileId,
        what: Learned,
        memory: &Remember,
        late: &mut Vec<Record>,
    ) {
        let mut files = vec![file];
        files.extend(self.names.get(&file).into_iter().flatten());
        if matches!(what, Learned::Digest(_)) {
            self.names.remove(&file);
        }
        for file in files {
            if let Some(waiting) = self.waiting.get_mut(&file.folder) {
                waiting.files[file.entry as usize].learn(what);
                continue;
            }
            if let Some(written) = self.with_names.get_mut(&file) {
                written.learn(what);
            }
            let folder = memory.setting.live.folders.folder(file.folder);
            let name = folder.file_name(file.entry).into();
            let racy = memory.is_racy(folder.seen(file.entry));
            late.push(Record::Read(memory.id(&folder), name, content(what), racy));
        }
    }

    /// One read less is expected of a folder; what is to be written if it was the last.
    pub(super) fn done_with(&mut self, number: u32) -> Option<Vec<Record>> {
        let waiting = self.waiting.get_mut(&number)?;
        waiting.left -= 1;
        if waiting.left > 0 {
            return None;
        }
        let waiting = self.waiting.remove(&number)?;
        Some(self.records(waiting))
    }

    pub(super) fn records(&mut self, waiting: Waiting) -> Vec<Record> {
        let Waiting { folder, id, files, .. } = waiting;
        let mut records = Vec::new();
        for (entry, state) in files.iter().enumerate() {
            let entry = entry as u32;
            if folder.seen(entry).links() > 1 {
                self.with_names.insert(FileId { folder: folder.number, entry }, *state);
            }
            if !state.is_stored && !state.is_ignored {
                records.push(Record::File(id, folder.file_name(entry).into(), state.row));
            }
        }
        records
    }

    /// The second one is a further name of the first, of which something may be known by now.
    pub(super) fn another_name(&mut self, first: FileId, name: FileId) {
        let known = match self.waiting.get(&first.folder) {
            Some(waiting) => Some(waiting.files[first.entry as usize]),
            None => self.with_names.get(&first).copied(),
        };
        let known = known.filter(|state| state.is_sure).map(|state| state.row);
        let (sample, digest) = known.map_or((None, None), |row| (row.sample, row.digest));
        let Some(waiting) = self.waiting.get_mut(&name.folder) else { return };
        let state = &mut waiting.files[name.entry as usize];
        if state.is_sure && state.row.digest.is_some() {
            return;
        }
        if let Some(sample) = sample {
            state.learn(Learned::Sample(sample));
        }
        match digest {
            Some(digest) => state.learn(Learned::Digest(digest)),
            None => self.names.entry(first).or_default().push(name),
        }
    }
}

impl State {
    /// What may be used of it, if it has that many bytes.
    pub(super) fn known(&self, size: u64) -> Known {
        let FileRow { sample, digest, .. } = self.row;
        // By a hash alone no other large file is found to be like it.
        match self.is_sure && (sample.is_some() || size <= WHOLE) {
            true => Known { sample, digest },
            false => Known::default(),
        }
    }

    /// A hash is void only when something else was read, or nothing could be; as is that of a file whose
    /// record was written before (`store/write.rs`).
    pub(super) fn learn(&mut self, what: Learned) {
        let (before, row) = (self.row, &mut self.row);
        match what {
            Learned::Digest(digest) => {
                (row.digest, row.error, row.racy) = (Some(digest), None, self.racy);
                self.is_sure = true;
            }
            Learned::Sample(sample) => {
                if row.sample.is_some_and(|before| before != sample) {
                    row.digest = None;
                }
                (row.sample, row.error) = (Some(sample), None);
                // What the sample says is not enough to rely on an older hash.
                if row.digest.is_none() {
                    row.racy = self.racy;
                    self.is_sure = true;
                }
            }
            Learned::Nothing(why) => (row.digest, row.error) = (None, Some(code(why))),
        }
        self.is_stored &= *row == before;
    }
}

fn code(why: Unread) -> i32 {
    match why {
        Unread::Changed => CHANGED,
        Unread::Failed(error) => error.raw_os_error(),
    }
}

/// As it is written down.
pub(crate) fn content(what: Learned) -> Content {
    match what {
        Learned::Digest(digest) => Content::Digest(digest),
        Learned::Sample(sample) => Content::Sample(sample),
        Learned::Nothing(why) => Content::Nothing(code(why)),
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::{Connection, params};

    use super::*;
    use crate::digest::Algorithm;
    use crate::stop::Stop;
    use crate::store::Store;
    use crate::store::write::Writer;

    const RACY: bool = true;

    /// As it was recorded, and what may be used of that.
    fn state(sample: Option<u64>, of: &[u8], racy: bool, is_sure: bool) -> State {
        let digest = Some(Algorithm::default().digest(of));
        let row = FileRow {
            device: None,
            inode: 1,
            size: 100_000,
            blocks: 8,
            links: 1,
            mtime: 1,
            ctime: 1,
            racy,
            sample,
            digest,
            error: None,
        };
        State { row, is_sure, racy: false, is_stored: true, is_ignored: false }
    }

    fn shown(state: &State) -> (Option<u64>, bool, bool) {
        (state.row.sample, state.row.digest.is_some(), state.row.racy)
    }

    #[test]
    fn a_hash_that_is_not_sure_is_shown_until_another_one_is_read() {
        let mut racy = state(Some(7), b"before", RACY, false);
        assert_eq!(racy.known(racy.row.size), Known::default(), "it is read again");
        racy.learn(Learned::Sample(7));
        assert_eq!(shown(&racy), (Some(7), true, RACY), "a sample does not make it sure");
        assert!(racy.is_stored && !racy.is_sure, "nothing has changed");
        let now = Algorithm::default().digest(b"now");
        racy.learn(Learned::Digest(now));
        assert_eq!((shown(&racy), racy.row.digest), ((Some(7), true, false), Some(now)));
        assert!(racy.is_sure && !racy.is_stored);
    }

    #[test]
    fn another_sample_or_a_failed_read_makes_a_hash_void() {
        let mut other = state(Some(7), b"before", RACY, false);
        other.learn(Learned::Sample(8));
        assert_eq!(shown(&other), (Some(8), false, false));
        let mut failed = state(Some(7), b"before", false, false);
        failed.learn(Learned::Nothing(Unread::Changed));
        assert_eq!((failed.row.digest, failed.row.error), (None, Some(CHANGED)));
    }

    #[test]
    fn a_hash_without_a_sample_is_not_used_of_a_large_file() {
        let mut sure = state(None, b"x", false, true);
        assert_eq!(sure.known(sure.row.size), Known::default());
        assert!(sure.known(WHOLE).digest.is_some());
        sure.learn(Learned::Sample(7));
        assert!(sure.known(sure.row.size).digest.is_some());
    }

    /// What is learned while a file waits, and after it was written, ends in the same row.
    #[test]
    fn a_late_record_says_what_an_early_one_does() {
        let digest = Algorithm::default().digest(b"now");
        let lessons = [
            vec![Learned::Sample(7)],
            vec![Learned::Sample(8)],
            vec![Learned::Digest(digest)],
            vec![Learned::Sample(7), Learned::Digest(digest)],
            vec![Learned::Sample(8), Learned::Nothing(Unread::Changed)],
            vec![Learned::Nothing(Unread::Changed), Learned::Sample(7)],
        ];
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open_or_make(&dir.path().join("dupes.db")).unwrap();
        for (sample, racy, digest) in [
            (Some(7), RACY, true),
            (Some(7), false, true),
            (None, false, true),
            (Some(7), false, false),
            (None, RACY, false),
        ] {
            for lesson in &lessons {
                let mut state = state(sample, b"before", racy, !racy);
                if !digest {
                    state.row.digest = None;
                }
                let writer = Writer::start(store.path(), 0, Stop::new()).unwrap();
                writer.add([Record::File(1, (*b"x").into(), state.row)]);
                let late = |what: &Learned| Record::Read(1, (*b"x").into(), content(*what), false);
                writer.add(lesson.iter().map(late));
                writer.finish().unwrap();
                lesson.iter().for_each(|what| state.learn(*what));
                let late = row(store.connection());
                assert_eq!(late, state.row, "{sample:?}, {racy}, {digest}: {lesson:?}");
            }
        }
    }

    fn row(connection: &Connection) -> FileRow {
        let sql = "SELECT device, inode, size, blocks, links, mtime, ctime, racy, sample, hash, error FROM files";
        connection.query_row(sql, params![], |row| FileRow::read(row, 0)).unwrap()
    }
}
