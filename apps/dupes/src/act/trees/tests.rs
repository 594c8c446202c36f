use std::collections::{HashMap, HashSet};
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::*;
use crate::act::deed::{Action, Stage};
use crate::act::ground::Base;
use crate::act::purge::Copies;
use crate::act::recover::{Way, settle};
use crate::act::steps::{End, act};
use crate::act::{purge, undo};
use crate::journal::{Line, Shelf, Story};

struct Scene {
    dir: TempDir,
    shelf: Shelf,
    ground: Ground,
}

fn base(path: &Path) -> Base {
    Base::of(path.canonicalize().unwrap().as_os_str().as_bytes().to_vec()).unwrap()
}

fn place(root: usize, path: &str) -> Place {
    Place::new(root, path.into()).unwrap()
}

/// `tree/keep` and `tree/go` with the same below; a folder `aside`.
fn scene() -> Scene {
    let dir = tempfile::tempdir().unwrap();
    for top in ["tree/keep", "tree/go"] {
        let top = dir.path().join(top);
        fs::create_dir_all(top.join("in/deep")).unwrap();
        fs::create_dir(top.join("nothing")).unwrap();
        fs::write(top.join("a"), "a").unwrap();
        fs::write(top.join("in/b"), "bb").unwrap();
        fs::write(top.join("in/deep/c"), "").unwrap();
    }
    fs::create_dir(dir.path().join("aside")).unwrap();
    let shelf = Shelf::open_or_make(&dir.path().join("journal")).unwrap();
    // The third is the first once more, as a bind mount would show it.
    let [tree, aside] = ["tree", "aside"].map(|name| base(&dir.path().join(name)));
    let ground = Ground::new([tree.clone(), aside, tree]);
    Scene { dir, shelf, ground }
}

impl Scene {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn member(&self, place: Place) -> Member {
        let (top, facts) = open_at(&place, &self.ground).unwrap();
        let tree = Some(Contents::of(&top).unwrap().tree());
        Member { names: vec![place], facts, frees: 0, tree, reference: false }
    }

    fn set(&self) -> PlannedSet {
        let [keepers, victims] = ["keep", "go"].map(|name| vec![self.member(place(0, name))]);
        PlannedSet { keepers, victims }
    }

    fn checked(&self, set: &PlannedSet) -> Result<Deed, Why> {
        let wanted = Wanted {
            own: Default::default(),
            action: Action::Remove,
            to: None,
            quarantine: None,
            put_back: HashMap::new(),
            gone: HashSet::new(),
            links: Default::default(),
            allow: HashSet::new(),
            threads: NonZeroUsize::MIN,
        };
        let checked = check(set, &set.victims[0], &self.ground, &wanted, Some(&Stop::new()))?;
        Ok(Deed { number: 1, aside: place(1, "1"), ..checked.deeds[0].0.clone() })
    }

    fn deed(&self) -> Deed {
        self.checked(&self.set()).unwrap()
    }

    /// All paths, with what is in them.
    fn shape(&self) -> Vec<(PathBuf, String)> {
        let (mut all, mut next) = (Vec::new(), vec![self.path("tree"), self.path("aside")]);
        while let Some(folder) = next.pop() {
            for entry in fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                let is_folder = path.is_dir();
                let text =
                    if is_folder { "folder".into() } else { fs::read_to_string(&path).unwrap() };
                all.push((path.strip_prefix(self.dir.path()).unwrap().to_owned(), text));
                next.extend(is_folder.then_some(path));
            }
        }
        all.sort();
        all
    }

    /// A journal with these lines behind the intent: the program was killed somewhere behind that.
    fn killed(&self, deed: &Deed, lines: &[Line]) -> Story {
        let mut journal = self.shelf.begin(deed.action, 1).unwrap();
        self.ground.bases().for_each(|base| journal.add(&Line::Base(base.clone())));
        journal.add(&Line::Intent(Box::new(deed.clone())));
        lines.iter().for_each(|line| journal.add(line));
        journal.sync().unwrap();
        self.story()
    }

    fn story(&self) -> Story {
        self.shelf.stories().unwrap().remove(0)
    }

    fn settled(&self, story: &Story, way: Way) -> End {
        let mut journal = self.shelf.resume(&story.id).unwrap();
        let mut ends =
            settle(story, &Copies::default(), &story.ground(), way, &mut journal, &Stop::new())
                .unwrap();
        assert_eq!(ends.len(), 1);
        ends.remove(0).1
    }

    fn purged(&self) -> End {
        self.purged_until(&Stop::new()).unwrap()
    }

    fn purged_until(&self, stop: &Stop) -> Option<End> {
        let story = self.story();
        let mut journal = self.shelf.resume(&story.id).unwrap();
        let ends = purge::purge(&story, &Default::default(), &story.ground(), &mut journal, stop);
        ends.unwrap().into_iter().next().map(|(_, end)| end)
    }

    fn undone(&self) -> End {
        let story = self.story();
        let mut journal = self.shelf.resume(&story.id).unwrap();
        let ends =
            undo::undo(&story, &Copies::default(), &story.ground(), &mut journal, &Stop::new())
                .unwrap();
        ends.into_iter().next().unwrap().1
    }
}

#[test]
fn a_folder_goes_and_comes_back_as_one() {
    let scene = scene();
    let before = scene.shape();
    let deed = scene.deed();
    assert_eq!(deed.tree, Some(Extent { files: 3, bytes: 3 }));
    assert_eq!(act(&deed, &scene.ground, &Stop::new()), End::Done);
    assert!(!scene.path("tree/go").exists() && scene.path("aside/1/in/deep/c").exists());
    scene.killed(&deed, &[Line::Done(1, (1, 1))]);
    assert_eq!(scene.undone(), End::Done);
    assert_eq!(scene.shape(), before);
}

/// Whatever is not as it was planned, on either side.
#[test]
fn any_difference_keeps_it() {
    let changes: [(&str, fn(&Path)); 9] = [
        ("a new file", |top| fs::write(top.join("in/new"), "x").unwrap()),
        ("a new folder", |top| fs::create_dir(top.join("new")).unwrap()),
        ("a file less", |top| fs::remove_file(top.join("in/deep/c")).unwrap()),
        ("another name", |top| fs::rename(top.join("a"), top.join("A")).unwrap()),
        ("other bytes", |top| fs::write(top.join("in/b"), "BB").unwrap()),
        ("a link", |top| std::os::unix::fs::symlink("a", top.join("link")).unwrap()),
        ("a link for a folder", |top| {
            fs::rename(top.join("in"), top.join("../../in")).unwrap();
            std::os::unix::fs::symlink("../../in", top.join("in")).unwrap();
        }),
        ("a pipe", |top| {
            rustix::fs::mknodat(rustix::fs::CWD, top.join("pipe"), FileType::Fifo, Mode::RWXU, 0)
                .unwrap();
        }),
        ("nothing at all", |top| fs::remove_dir_all(top).unwrap()),
    ];
    for (what, change) in changes {
        for side in ["tree/go", "tree/keep"] {
            // Before it is compared.
            let planned = scene();
            let set = planned.set();
            change(&planned.path(side));
            let why = planned.checked(&set).unwrap_err();
            assert_eq!(matches!(why, Why::Keeper(_)), side == "tree/keep", "{what}: {why:?}");
            // Between that and the deed.
            let late = scene();
            let deed = late.deed();
            change(&late.path(side));
            let shape = |scene: &Scene| scene.path("aside").read_dir().unwrap().count() == 0;
            let end = act(&deed, &late.ground, &Stop::new());
            assert!(matches!(end, End::Back(_)), "{what} in {side}: {end:?}");
            assert!(shape(&late), "{what} in {side}: {end:?}");
        }
    }
}

/// The same run may take that, before or after.
#[test]
fn another_name_of_a_file_in_it_that_goes_is_no_difference() {
    for action in [|name: &Path| fs::remove_file(name).unwrap(), |_: &Path| ()] {
        let scene = scene();
        let other = scene.path("other");
        fs::hard_link(scene.path("tree/go/in/b"), &other).unwrap();
        let set = scene.set();
        action(&other);
        scene.checked(&set).unwrap();
        let deed = scene.deed();
        fs::hard_link(scene.path("tree/go/a"), scene.path("one more")).unwrap();
        assert_eq!(act(&deed, &scene.ground, &Stop::new()), End::Done);
    }
}

#[test]
fn the_same_folder_under_two_names_is_put_back() {
    let scene = scene();
    let before = scene.shape();
    let (_, facts) = open_at(&place(0, "keep"), &scene.ground).unwrap();
    let deed = Deed { keeper: place(2, "go"), keeper_facts: facts, ..scene.deed() };
    assert_eq!(act(&deed, &scene.ground, &Stop::new()), End::Back(Why::SameFile));
    assert_eq!(scene.shape(), before);
}

#[test]
fn a_folder_of_hard_links_is_no_copy() {
    let scene = scene();
    fs::remove_file(scene.path("tree/go/a")).unwrap();
    fs::hard_link(scene.path("tree/keep/a"), scene.path("tree/go/a")).unwrap();
    assert_eq!(scene.checked(&scene.set()).unwrap_err(), Why::Linked);
}

#[test]
fn after_a_crash_at_any_step_a_folder_can_be_finished_or_rolled_back() {
    for way in [Way::Finish, Way::RollBack] {
        for is_renamed in [false, true] {
            let scene = scene();
            let before = scene.shape();
            let deed = scene.deed();
            let story = scene.killed(&deed, &[]);
            if is_renamed {
                fs::rename(scene.path("tree/go"), scene.path("aside/1")).unwrap();
            }
            let end = scene.settled(&story, way);
            match way {
                Way::Finish => {
                    assert_eq!(end, End::Done);
                    assert!(scene.path("aside/1/in/b").exists() && !scene.path("tree/go").exists());
                }
                _ => assert_eq!((scene.shape(), end), (before, End::Done)),
            }
            assert!(!scene.story().is_open());
        }
    }
}

#[test]
fn the_last_copy_in_a_folder_is_not_purged() {
    let scene = scene();
    let deed = scene.deed();
    assert_eq!(act(&deed, &scene.ground, &Stop::new()), End::Done);
    scene.killed(&deed, &[Line::Done(1, (1, 1))]);
    fs::write(scene.path("tree/keep/in/deep/c"), "new").unwrap();
    assert!(matches!(scene.purged(), End::Back(_)));
    for (name, text) in [("a", "a"), ("in/b", "bb"), ("in/deep/c", "")] {
        assert_eq!(fs::read_to_string(scene.path("aside/1").join(name)).unwrap(), text);
    }
    fs::write(scene.path("tree/keep/in/deep/c"), "").unwrap();
    // What is new in the folder that stays does no harm.
    fs::write(scene.path("tree/keep/new"), "new").unwrap();
    assert_eq!(scene.purged(), End::Done);
    assert!(!scene.path("aside/1").exists());
}

/// Killed behind each of its calls: it goes on, or is as it was if nothing is gone yet. What is in part is never told
/// to be back.
#[test]
fn a_purge_of_a_folder_that_was_cut_off_goes_on() {
    let order = ["a", "in/b", "in/deep/c", "nothing", "in/deep", "in", ""];
    for count in 0..=order.len() {
        for way in [Way::Finish, Way::RollBack] {
            let scene = scene();
            let deed = scene.deed();
            assert_eq!(act(&deed, &scene.ground, &Stop::new()), End::Done);
            let story = scene.killed(&deed, &[Line::Done(1, (1, 1)), Line::Purging(1)]);
            for name in &order[..count] {
                let path = scene.path("aside/1").join(name);
                if path.is_dir() { fs::remove_dir(path) } else { fs::remove_file(path) }.unwrap();
            }
            let end = scene.settled(&story, way);
            assert!(!scene.story().is_open(), "{count}");
            let is_left = way == Way::RollBack && count < order.len();
            assert_eq!(scene.path("aside/1").exists(), is_left, "{count}");
            if is_left && count == 0 {
                assert_eq!(end, End::Done);
                assert_eq!(scene.undone(), End::Done, "nothing of it was gone");
                assert_eq!(fs::read_to_string(scene.path("tree/go/in/b")).unwrap(), "bb");
            } else if is_left {
                let gone = (count as u64).min(3);
                assert_eq!(partly(&end), (gone, 3), "{count}");
                assert_eq!(scene.story().deeds[0].1, Stage::Partly, "{count}");
                assert_eq!(partly(&scene.undone()), (gone, 3), "{count}: it is not restored");
                assert_eq!(scene.story().deeds[0].1, Stage::Partly, "{count}");
                assert!(!scene.path("tree/go").exists(), "{count}");
                assert_eq!(scene.purged(), End::Done, "{count}: it goes on");
                assert!(!scene.path("aside/1").exists(), "{count}");
            } else {
                assert_eq!(end, End::Done, "{count}");
            }
            assert!(scene.path("tree/keep/in/b").exists());
        }
    }
}

/// How many of its files are gone, and of how many.
#[track_caller]
fn partly(end: &End) -> (u64, u64) {
    let End::Back(Why::Partly(cut)) = end else { panic!("{end:?}") };
    let said = cut.to_string();
    assert!(said.contains(&format!("{} of its {} files", cut.gone, cut.of)), "{said}");
    assert!(said.contains("purge-quarantine goes on") && said.contains("/aside/1"), "{said}");
    (cut.gone, cut.of)
}

/// At whatever moment somebody presses Ctrl-C: the journal says what is, and the next one goes on.
#[test]
fn a_purge_of_a_folder_that_is_told_to_stop_stops_and_goes_on() {
    let mut seen = [0; 4];
    for looks in 0.. {
        let scene = scene();
        let deed = scene.deed();
        assert_eq!(act(&deed, &scene.ground, &Stop::new()), End::Done);
        scene.killed(&deed, &[Line::Done(1, (1, 1))]);
        let end = scene.purged_until(&Stop::after(looks));
        let left = ["a", "in/b", "in/deep/c"];
        let left = left.iter().filter(|name| scene.path("aside/1").join(name).exists()).count();
        seen[3 - left] += 1;
        match end {
            // Not even begun.
            None => assert_eq!((left, scene.undone()), (3, End::Done)),
            Some(End::Done) => {
                assert!(!scene.path("aside/1").exists());
                break;
            }
            Some(end) if left == 3 => {
                assert_eq!(end, End::Back(Why::Stopped), "{looks}");
                assert_eq!(scene.undone(), End::Done, "{looks}");
                assert!(
                    ["a", "in/b", "in/deep/c"]
                        .iter()
                        .all(|it| scene.path("tree/go").join(it).exists())
                );
            }
            Some(end) => {
                assert_eq!(partly(&end), (3 - left as u64, 3), "{looks}");
                assert_eq!(scene.story().deeds[0].1, Stage::Partly);
                partly(&scene.undone());
                assert_eq!(scene.purged(), End::Done, "{looks}");
                assert!(!scene.path("aside/1").exists(), "{looks}");
            }
        }
    }
    assert!(seen.iter().all(|count| *count > 0), "it was told at each step: {seen:?}");
}

/// Whatever keeps one of its files: nothing is deleted, or what is is told.
#[test]
fn a_folder_that_can_not_be_emptied_is_left_whole() {
    let scene = scene();
    let deed = scene.deed();
    assert_eq!(act(&deed, &scene.ground, &Stop::new()), End::Done);
    scene.killed(&deed, &[Line::Done(1, (1, 1))]);
    let fixed = File::open(scene.path("aside/1/in/deep/c")).unwrap();
    let Ok(flags) = rustix::fs::ioctl_getflags(&fixed) else { return };
    let set = |flags| rustix::fs::ioctl_setflags(&fixed, flags);
    // Who may not do that, or a file system that has no such thing.
    let Ok(()) = set(flags | rustix::fs::IFlags::IMMUTABLE) else { return };
    let end = scene.purged();
    set(flags).unwrap();
    assert_eq!(end, End::Back(Why::Failed("delete it", Errno::PERM)));
    assert!(scene.path("aside/1/a").exists() && scene.path("aside/1/in/b").exists());
    assert_eq!(scene.undone(), End::Done);
}
