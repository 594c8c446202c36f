use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::act::deed::{Again, Extent};
use crate::act::facts::{Attributes, Facts};
use crate::digest::Algorithm;

fn place(path: &[u8]) -> Place {
    Place::new(0, path.to_vec()).unwrap()
}

fn deed(number: u64) -> Deed {
    let facts = Facts { device: 1, inode: 2, size: 3, mtime: (-4, 5), ctime: (6, 999_999_999) };
    Deed {
        number,
        action: Action::Hardlink,
        tree: (number == 2).then_some(Extent { files: 7, bytes: u64::MAX }),
        at: place(b"a/\xff\n"),
        aside: place(b"a/.dupes"),
        keeper: place("ä".as_bytes()),
        names: 2,
        keeper_facts: Facts { inode: u64::MAX, ..facts },
        facts,
        digest: Algorithm::Blake3.digest(b"bytes"),
        attributes: Attributes {
            mode: 0o4755,
            owner: (0, u32::MAX),
            times: ((1, 2), (3, 4)),
            extended: vec![(b"user.\xfe".to_vec(), vec![0, 1, 255])],
        },
        folder_times: ((7, 8), (9, 10)),
    }
}

fn base() -> Base {
    Base { path: b"/some\xffwhere".to_vec(), device: 3, inode: 4, birth: Some((-5, 6)) }
}

fn all_lines() -> Vec<Line> {
    vec![
        Line::Base(base()),
        Line::Made(place(b"made")),
        Line::Intent(Box::new(deed(1))),
        Line::Done(1, (11, 12)),
        Line::Intent(Box::new(deed(2))),
        Line::Back(2, (3, 4)),
        Line::Undoing(1),
        Line::Undone(1, Some(Again { inode: u64::MAX, ctime: (5, 6) })),
        Line::Intent(Box::new(deed(3))),
        Line::Done(3, (1, 1)),
        Line::Purging(3),
        Line::Partly(3),
        Line::Missing(3),
        Line::Purged(3),
        Line::Stopped(174),
        Line::End,
    ]
}

fn shelf() -> (tempfile::TempDir, Shelf) {
    let dir = tempfile::tempdir().unwrap();
    let shelf = Shelf::open_or_make(&dir.path().join("journal")).unwrap();
    (dir, shelf)
}

#[test]
fn every_line_comes_back() {
    let begin = |for_good| {
        let (id, action) = ("x".to_owned(), Action::Move);
        Line::Begin { id, action, when: -1, order: 7, for_good }
    };
    for line in all_lines().into_iter().chain([begin(false), begin(true)]) {
        let text = line.to_text();
        assert_eq!(Line::from_text(text.as_bytes()), Some(line));
        assert!(!text.trim_end().contains('\n'));
    }
}

#[test]
fn a_damaged_line_is_not_believed() {
    let text = Line::Intent(Box::new(deed(1))).to_text().into_bytes();
    for at in 0..text.len() {
        let mut damaged = text.clone();
        damaged[at] ^= 4;
        assert_eq!(Line::from_text(&damaged), None, "byte {at}");
    }
}

#[test]
fn a_journal_that_is_cut_off_anywhere_tells_what_was_whole() {
    let (dir, shelf) = shelf();
    let mut journal = shelf.begin(Action::Hardlink, 1_000).unwrap();
    all_lines().iter().for_each(|line| journal.add(line));
    journal.sync().unwrap();
    let path = dir.path().join("journal").join(format!("{}.journal", journal.id()));
    let text = std::fs::read(&path).unwrap();
    let whole = Story::read(&path).unwrap().unwrap();
    assert!(whole.ended && !whole.is_open());
    assert_eq!(
        whole.deeds.iter().map(|(_, stage)| *stage).collect::<Vec<_>>(),
        [
            Stage::Undone(Some(Again { inode: u64::MAX, ctime: (5, 6) })),
            Stage::Back((3, 4)),
            Stage::Purged
        ]
    );
    let mut last = 0;
    for end in 0..text.len() {
        std::fs::write(&path, &text[..end]).unwrap();
        let deeds = Story::read(&path).unwrap().map_or(0, |story| story.deeds.len());
        assert!(deeds >= last, "more of it never says less");
        last = deeds;
    }
    // To go on behind a torn line, it goes.
    std::fs::write(&path, &text[..text.len() - 3]).unwrap();
    let mut journal = shelf.resume(&whole.id).unwrap();
    journal.add(&Line::End);
    journal.sync().unwrap();
    assert_eq!(Story::read(&path).unwrap(), Some(whole.clone()));
    // Damage in the middle is said, and nothing is done by it.
    let mut damaged = text.clone();
    damaged[text.len() / 2] ^= 1;
    std::fs::write(&path, damaged).unwrap();
    assert!(Story::read(&path).unwrap_err().to_string().contains("damaged"));
    assert!(shelf.stories().is_err());
}

#[test]
fn what_makes_no_sense_is_no_story() {
    let (dir, shelf) = shelf();
    let (id, action) = ("x".to_owned(), Action::Move);
    let begin = Line::Begin { id, action, when: 0, order: 0, for_good: false };
    let wrong: [&[Line]; 7] = [
        &[Line::Done(1, (0, 0))],
        &[Line::Base(base()), Line::Intent(Box::new(deed(2)))],
        &[Line::Intent(Box::new(deed(1)))],
        &[Line::Made(place(b"x"))],
        &[begin],
        &[Line::Base(base()), Line::Intent(Box::new(deed(1))), Line::Undoing(1)],
        &[Line::Purged(0)],
    ];
    for lines in wrong {
        let mut journal = shelf.begin(Action::Hardlink, 5).unwrap();
        lines.iter().for_each(|line| journal.add(line));
        journal.sync().unwrap();
        let path = dir.path().join("journal").join(format!("{}.journal", journal.id()));
        assert!(Story::read(&path).is_err(), "{lines:?}");
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn each_stage_is_open_until_it_has_ended() {
    let story = |lines: &[Line]| {
        let (_dir, shelf) = shelf();
        let mut journal = shelf.begin(Action::Hardlink, 5).unwrap();
        let intent = [Line::Base(base()), Line::Intent(Box::new(deed(1)))];
        intent.iter().chain(lines).for_each(|line| journal.add(line));
        journal.sync().unwrap();
        shelf.stories().unwrap().remove(0)
    };
    let done = Line::Done(1, (1, 2));
    assert!(story(&[]).is_open());
    assert!(!story(std::slice::from_ref(&done)).is_open());
    assert!(!story(&[Line::Back(1, (0, 0))]).is_open());
    assert!(story(&[done.clone(), Line::Undoing(1)]).is_open());
    assert!(story(&[done.clone(), Line::Purging(1)]).is_open());
    assert!(!story(&[done, Line::Undoing(1), Line::Undone(1, None)]).is_open());
}

#[test]
fn a_journal_of_before_says_nothing_of_deleting_at_once() {
    let (dir, shelf) = shelf();
    let old = r#"{"begin":{"action":"remove","id":"x","order":1,"version":1,"when":5}}"#;
    let text = format!("{} {old}\n", &blake3::hash(old.as_bytes()).to_hex()[..8]);
    std::fs::write(dir.path().join("journal/x.journal"), text).unwrap();
    assert!(!shelf.stories().unwrap()[0].for_good);
    shelf.begin_as(Action::Remove, 6, true).unwrap();
    assert!(shelf.stories().unwrap()[1].for_good);
}

/// A disk has another number after a reboot.
#[test]
fn a_folder_whose_device_has_another_number_is_the_same_folder() {
    let dir = tempfile::tempdir().unwrap();
    let path = std::os::unix::ffi::OsStrExt::as_bytes(dir.path().as_os_str()).to_vec();
    let now = Base::of(path).unwrap();
    let (_shelf_dir, shelf) = shelf();
    let (seconds, rest) = now.birth.expect("file systems of today say when a folder was made");
    let cases = [
        (now.inode, now.birth, now.device),
        (now.inode + 1, now.birth, 77),
        // The topmost folders of two disks have the same inode.
        (now.inode, Some((seconds - 1, rest)), 77),
        (now.inode, None, 77),
    ];
    for (inode, birth, expected) in cases {
        let mut journal = shelf.begin(Action::Hardlink, 5).unwrap();
        journal.add(&Line::Base(Base { device: 77, inode, birth, ..now.clone() }));
        let mut deed = deed(1);
        (deed.facts.device, deed.keeper_facts.device) = (77, 78);
        journal.add(&Line::Intent(Box::new(deed)));
        journal.sync().unwrap();
        let story = shelf.stories().unwrap().pop().unwrap();
        assert_eq!(story.bases[0].device, expected);
        let deed = &story.deeds[0].0;
        assert_eq!((deed.facts.device, deed.keeper_facts.device), (expected, 78));
    }
}

#[test]
fn runs_of_one_second_have_names_of_their_own_and_an_order() {
    let (dir, shelf) = shelf();
    let id = |shelf: &Shelf| shelf.begin(Action::Remove, 0).unwrap().id().to_owned();
    let ids: Vec<String> = (0..12).map(|_| id(&shelf)).collect();
    assert!(ids.iter().all(|id| id.starts_with("19700101-000000-") && id.len() == 22), "{ids:?}");
    let stories: Vec<String> = shelf.stories().unwrap().into_iter().map(|story| story.id).collect();
    assert_eq!(stories, ids);
    // Two folders of journals may have one quarantine.
    let other = Shelf::open_or_make(&dir.path().join("other")).unwrap();
    assert!((0..12).all(|_| !ids.contains(&id(&other))));
}

#[test]
fn a_shelf_that_others_may_write_to_is_refused() {
    let (dir, _) = shelf();
    let folder = dir.path().join("journal");
    assert_eq!(std::fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o770)).unwrap();
    let error = Shelf::open_or_make(&folder).unwrap_err().to_string();
    assert!(error.contains("chmod 700"), "{error}");
}

/// A clock that goes back gives a run the name of an older one, and none is written over.
#[test]
fn a_clock_that_goes_back_writes_over_no_journal() {
    let (dir, shelf) = shelf();
    let mut texts = Vec::new();
    for when in [2_000_000_000, 1_000, -1_000, 2_000_000_000, 1_000, 1_000, i64::from(i32::MIN)] {
        let mut journal = shelf.begin(Action::Remove, when).unwrap();
        journal.add(&Line::Base(Base { inode: texts.len() as u64, ..base() }));
        journal.sync().unwrap();
        let path = dir.path().join("journal").join(format!("{}.journal", journal.id()));
        texts.push((path.clone(), std::fs::read(path).unwrap(), journal.id().to_owned()));
    }
    let ids: std::collections::BTreeSet<&String> = texts.iter().map(|(_, _, id)| id).collect();
    assert_eq!(ids.len(), texts.len(), "each has a name of its own: {ids:?}");
    for (path, text, id) in &texts {
        assert_eq!(&std::fs::read(path).unwrap(), text, "{id}");
    }
    let stories = shelf.stories().unwrap();
    let ids_read: std::collections::BTreeSet<&String> = stories.iter().map(|it| &it.id).collect();
    assert_eq!(ids_read, ids);
    let begun: Vec<&String> = texts.iter().map(|(_, _, id)| id).collect();
    let read: Vec<&String> = stories.iter().map(|story| &story.id).collect();
    assert_eq!(read, begun, "in the order in which they were begun, whatever the clock has said");
}

/// Who only looks sees which one it is: that one was not cut off.
#[test]
fn the_run_that_somebody_acts_on_is_known_while_he_does() {
    let dir = tempfile::tempdir().unwrap();
    let [mine, others] = [(); 2].map(|()| Shelf::open_or_make(dir.path()).unwrap());
    let before = mine.begin(Action::Hardlink, 1).unwrap().id().to_owned();
    assert_eq!(others.acting(), None, "nobody has the lock");
    let lock = mine.lock("apply").unwrap();
    let acting = others.acting().unwrap();
    assert!(acting.who.ends_with(": apply") && acting.run.is_none(), "{acting:?}");
    let now = mine.begin(Action::Hardlink, 2).unwrap().id().to_owned();
    let is_running = |id: &str| {
        let (story, acting) = others.beside_who_acts(|| others.story(id).unwrap().unwrap());
        story.is_running(acting.as_ref())
    };
    assert_eq!((is_running(&before), is_running(&now)), (false, true));
    // To take back another one is to act on that.
    mine.resume(&before).unwrap();
    assert_eq!((is_running(&before), is_running(&now)), (true, false));
    drop((lock, mine));
    assert_eq!((others.acting(), is_running(&before)), (None, false));
}
