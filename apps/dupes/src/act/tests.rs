//! What a mount, a crash or somebody else makes of a deed: each state is made by hand, so that no timing decides.

mod aside;
mod caught;
mod meanwhile;
mod others;
mod stopped;

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::facts::{Attributes, Facts};
use super::last_look::LastLook;
use super::purge::Copies;
use super::recover::{Way, settle};
use super::steps::{End, act, finish};
use super::*;
use crate::digest::Algorithm;
use crate::journal::{Shelf, Story};

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

/// `tree/keep` and `tree/go` with the same bytes; a folder `aside`.
fn scene() -> Scene {
    let dir = tempfile::tempdir().unwrap();
    let [tree, aside] = ["tree", "aside"].map(|name| dir.path().join(name));
    fs::create_dir(&tree).unwrap();
    fs::create_dir(&aside).unwrap();
    fs::write(tree.join("keep"), "same").unwrap();
    fs::write(tree.join("go"), "same").unwrap();
    let shelf = Shelf::open_or_make(&dir.path().join("journal")).unwrap();
    // The third is the first once more, as a bind mount would show it.
    let ground = Ground::new([base(&tree), base(&aside), base(&tree)]);
    Scene { dir, shelf, ground }
}

impl Scene {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn facts(&self, name: &str) -> Facts {
        Facts::of(fs::File::open(self.path(name)).unwrap()).unwrap()
    }

    fn deed(&self, action: Action) -> Deed {
        let file = fs::File::open(self.path("tree/go")).unwrap();
        let stat = rustix::fs::fstat(&file).unwrap();
        let aside = match action {
            Action::Remove | Action::Move => place(1, "1"),
            Action::Hardlink | Action::Symlink => place(0, ".dupes-1"),
            Action::Reflink => place(0, "go"),
        };
        Deed {
            number: 1,
            action,
            tree: None,
            at: place(0, "go"),
            aside,
            keeper: place(0, "keep"),
            keeper_facts: self.facts("tree/keep"),
            facts: self.facts("tree/go"),
            names: 1,
            digest: Algorithm::Blake3.digest(b"same"),
            attributes: Attributes::of(&file, &stat).unwrap(),
            folder_times: ((0, 0), (0, 0)),
        }
    }

    /// All names, and which are the same file.
    fn shape(&self) -> Vec<(String, String)> {
        let mut all = Vec::new();
        for folder in ["tree", "aside"] {
            for entry in fs::read_dir(self.path(folder)).unwrap() {
                let path = entry.unwrap().path();
                let name = path.strip_prefix(self.dir.path()).unwrap().to_str().unwrap().to_owned();
                let is_link = fs::symlink_metadata(&path).unwrap().is_symlink();
                let what = match is_link {
                    true => "link".to_owned(),
                    false => fs::read_to_string(&path).unwrap(),
                };
                all.push((name, what));
            }
        }
        all.sort();
        all
    }

    fn is_linked(&self) -> bool {
        let inode = |name| fs::metadata(self.path(name)).unwrap().ino();
        inode("tree/go") == inode("tree/keep")
    }

    /// A journal that ends with the intent: the program was killed somewhere behind it.
    fn killed(&self, deed: &Deed) -> Story {
        let mut journal = self.shelf.begin(deed.action, 1).unwrap();
        self.ground.bases().for_each(|base| journal.add(&Line::Base(base.clone())));
        journal.add(&Line::Intent(Box::new(deed.clone())));
        journal.sync().unwrap();
        let mut stories = self.shelf.stories().unwrap();
        stories.remove(0)
    }

    fn recovered(&self, story: &Story, way: Way) -> End {
        self.recovered_until(story, way, &Stop::new())
    }

    fn recovered_until(&self, story: &Story, way: Way, stop: &Stop) -> End {
        let mut journal = self.shelf.resume(&story.id).unwrap();
        let mut ends =
            settle(story, &Copies::default(), &story.ground(), way, &mut journal, stop).unwrap();
        assert_eq!(ends.len(), 1);
        let again = self.shelf.stories().unwrap().remove(0);
        assert_eq!(again.is_open(), matches!(ends[0].1, End::Open(_)));
        ends.remove(0).1
    }
}

fn before() -> Vec<(String, String)> {
    [("tree/go", "same"), ("tree/keep", "same")].map(|(a, b)| (a.to_owned(), b.to_owned())).into()
}

const MOVERS: [Action; 4] = [Action::Remove, Action::Move, Action::Hardlink, Action::Symlink];

/// A bind mount, with the check of identity deceived: what stays is what goes.
#[test]
fn the_same_file_under_two_names_is_put_back() {
    for action in MOVERS {
        let scene = scene();
        let lie = Facts { inode: 1, ..scene.facts("tree/go") };
        let deed = Deed { keeper: place(2, "go"), keeper_facts: lie, ..scene.deed(action) };
        let end = act(&deed, &scene.ground, &Stop::new());
        match action {
            // A hard link to itself is no link to what was said to stay.
            Action::Hardlink => assert!(matches!(end, End::Back(_)), "{end:?}"),
            // The link is at the path that it leads to.
            Action::Symlink => assert!(matches!(end, End::Back(_)), "{end:?}"),
            _ => assert_eq!(end, End::Back(Why::SameFile), "{action}"),
        }
        assert_eq!(scene.shape(), before(), "{action}");
    }
}

#[test]
fn a_keeper_that_changes_while_its_victim_is_out_of_the_way_gets_it_back() {
    for action in MOVERS {
        let scene = scene();
        let deed = scene.deed(action);
        // After the comparison, before the deed.
        fs::write(scene.path("tree/keep"), "SAME").unwrap();
        let end = act(&deed, &scene.ground, &Stop::new());
        assert!(matches!(end, End::Back(_)), "{action}: {end:?}");
        assert_eq!(fs::read_to_string(scene.path("tree/go")).unwrap(), "same", "{action}");
        assert_eq!(scene.shape().len(), 2, "{action}: {:?}", scene.shape());
    }
}

#[test]
fn a_victim_that_changes_after_the_comparison_is_put_back() {
    for action in MOVERS {
        let scene = scene();
        let deed = scene.deed(action);
        fs::write(scene.path("tree/go"), "GONE").unwrap();
        let end = act(&deed, &scene.ground, &Stop::new());
        assert!(matches!(end, End::Back(_)), "{action}: {end:?}");
        assert_eq!(fs::read_to_string(scene.path("tree/go")).unwrap(), "GONE", "{action}");
        assert_eq!(scene.shape().len(), 2, "{action}");
    }
}

#[test]
fn who_is_told_to_stop_in_the_middle_puts_it_back() {
    for action in MOVERS {
        let scene = scene();
        let stop = Stop::new();
        stop.ask();
        assert_eq!(act(&scene.deed(action), &scene.ground, &stop), End::Back(Why::Stopped));
        assert_eq!(scene.shape(), before(), "{action}");
    }
}

// ---------------------------------------------------------------- crashes

/// How far it came before it was killed: each is a step of `steps.rs`.
fn states(action: Action) -> Vec<(&'static str, fn(&Scene))> {
    let nothing: (&str, fn(&Scene)) = ("only the intent", |_| ());
    match action {
        Action::Remove | Action::Move => vec![
            nothing,
            ("renamed", |scene| fs::rename(scene.path("tree/go"), scene.path("aside/1")).unwrap()),
        ],
        Action::Hardlink => vec![
            nothing,
            ("linked", |scene| {
                fs::hard_link(scene.path("tree/keep"), scene.path("tree/.dupes-1")).unwrap();
            }),
            ("exchanged", |scene| {
                fs::rename(scene.path("tree/go"), scene.path("tree/.dupes-1")).unwrap();
                fs::hard_link(scene.path("tree/keep"), scene.path("tree/go")).unwrap();
            }),
            ("unlinked", |scene| {
                fs::remove_file(scene.path("tree/go")).unwrap();
                fs::hard_link(scene.path("tree/keep"), scene.path("tree/go")).unwrap();
            }),
        ],
        Action::Symlink => vec![
            nothing,
            ("linked", |scene| link(scene, "tree/.dupes-1")),
            ("exchanged", |scene| {
                fs::rename(scene.path("tree/go"), scene.path("tree/.dupes-1")).unwrap();
                link(scene, "tree/go");
            }),
            ("unlinked", |scene| {
                fs::remove_file(scene.path("tree/go")).unwrap();
                link(scene, "tree/go");
            }),
        ],
        Action::Reflink => vec![nothing],
    }
}

fn link(scene: &Scene, name: &str) {
    let keeper = scene.path("tree/keep").canonicalize().unwrap();
    std::os::unix::fs::symlink(keeper, scene.path(name)).unwrap();
}

#[test]
fn after_a_crash_at_any_step_it_can_be_finished() {
    for action in MOVERS {
        for (state, make) in states(action) {
            let scene = scene();
            let story = scene.killed(&scene.deed(action));
            make(&scene);
            let end = scene.recovered(&story, Way::Finish);
            assert_eq!(end, End::Done, "{action} {state}");
            let shape = scene.shape();
            match action {
                Action::Remove | Action::Move => {
                    assert_eq!(shape[0], ("aside/1".into(), "same".into()), "{state}");
                    assert_eq!(shape[1..], before()[1..], "{state}");
                }
                Action::Hardlink => {
                    assert_eq!(shape, before(), "{state}");
                    assert!(scene.is_linked(), "{state}");
                }
                _ => assert_eq!(shape[0], ("tree/go".into(), "link".into()), "{state}"),
            }
            assert_eq!(shape.len(), 2, "{action} {state}: {shape:?}");
        }
    }
}

#[test]
fn after_a_crash_at_any_step_it_can_be_rolled_back() {
    for action in MOVERS {
        for (state, make) in states(action) {
            let scene = scene();
            let story = scene.killed(&scene.deed(action));
            make(&scene);
            let end = scene.recovered(&story, Way::RollBack);
            // What was done to its end is undone after that.
            let story = scene.shelf.stories().unwrap().remove(0);
            let mut journal = scene.shelf.resume(&story.id).unwrap();
            let was_done = story.count(|stage| matches!(stage, deed::Stage::Done(_)));
            let undone =
                undo::undo(&story, &Copies::default(), &story.ground(), &mut journal, &Stop::new())
                    .unwrap();
            assert_eq!((undone.len() as u64, &end), (was_done, &End::Done), "{action} {state}");
            assert_eq!(scene.shape(), before(), "{action} {state}: {end:?} {undone:?}");
            assert!(!scene.is_linked(), "{action} {state}");
        }
    }
}

#[test]
fn what_somebody_else_made_of_it_is_left_alone_and_told() {
    for action in MOVERS {
        for way in [Way::Finish, Way::RollBack] {
            let scene = scene();
            let deed = scene.deed(action);
            let story = scene.killed(&deed);
            let aside = if action.links() { "tree/.dupes-1" } else { "aside/1" };
            fs::rename(scene.path("tree/go"), scene.path(aside)).unwrap();
            fs::write(scene.path("tree/go"), "new").unwrap();
            let end = scene.recovered(&story, way);
            assert_eq!(fs::read_to_string(scene.path("tree/go")).unwrap(), "new", "{action}");
            assert_eq!(fs::read_to_string(scene.path(aside)).unwrap(), "same", "{action}: {end:?}");
            match (action.links(), way) {
                (true, _) => assert!(matches!(end, End::Back(Why::Aside(_))), "{end:?}"),
                (false, Way::Finish) => assert_eq!(end, End::Done),
                // Both are kept; the old one waits where it was put, and can be undone from there.
                (false, _) => assert_eq!(end, End::Aside(Why::Occupied)),
            }
        }
    }
}

#[test]
fn nothing_is_finished_when_the_keeper_is_not_what_it_was() {
    for action in MOVERS {
        for (state, make) in states(action) {
            if state == "unlinked" {
                continue; // then it is done: what changes later is somebody's wish
            }
            let scene = scene();
            let story = scene.killed(&scene.deed(action));
            make(&scene);
            fs::remove_file(scene.path("tree/keep")).unwrap();
            fs::write(scene.path("tree/keep"), "SAME").unwrap();
            let end = scene.recovered(&story, Way::Finish);
            let shape = scene.shape();
            let expected = [("tree/go", "same"), ("tree/keep", "SAME")];
            assert_eq!(
                shape,
                expected.map(|(a, b)| (a.to_owned(), b.to_owned())),
                "{action} {state}"
            );
            assert!(matches!(end, End::Back(_)), "{action} {state}: {end:?}");
            assert!(!scene.is_linked(), "{action} {state}");
        }
    }
}

#[test]
fn an_undo_that_was_cut_off_is_brought_to_its_end() {
    for action in [Action::Hardlink, Action::Symlink] {
        let copied = |scene: &Scene, name: &str| {
            let path = scene.path(name);
            fs::write(&path, "same").unwrap();
            let deed = &scene.shelf.stories().unwrap()[0].deeds[0].0;
            deed.attributes.give_to(fs::File::options().write(true).open(path).unwrap()).unwrap();
        };
        let cut: [(&str, &dyn Fn(&Scene)); 4] = [
            ("only the intent", &|_| ()),
            ("copied in part", &|scene| {
                fs::write(scene.path("tree/.dupes-1-new"), "sa").unwrap();
            }),
            ("copied", &|scene| copied(scene, "tree/.dupes-1")),
            ("exchanged", &|scene| {
                fs::rename(scene.path("tree/go"), scene.path("tree/.dupes-1")).unwrap();
                copied(scene, "tree/go");
            }),
        ];
        for (state, make) in cut {
            let scene = scene();
            let deed = scene.deed(action);
            let story = scene.killed(&deed);
            assert_eq!(act(&deed, &scene.ground, &Stop::new()), End::Done);
            assert_eq!(finish(&deed, &scene.ground, &mut LastLook::default()), End::Done);
            let mut journal = scene.shelf.resume(&story.id).unwrap();
            journal.add(&Line::Done(1, (1, 1)));
            journal.add(&Line::Undoing(1));
            journal.sync().unwrap();
            make(&scene);
            let story = scene.shelf.stories().unwrap().remove(0);
            assert!(story.is_open());
            assert_eq!(scene.recovered(&story, Way::Finish), End::Done, "{action} {state}");
            assert_eq!(scene.shape(), before(), "{action} {state}");
            assert!(!scene.is_linked());
        }
    }
}
