//! What somebody else does to files between two of our steps, or between a run and its way back.

use super::*;
use crate::act::settle_durably;
use crate::act::steps::swap_back;

pub(super) fn bytes(scene: &Scene, name: &str) -> String {
    fs::read_to_string(scene.path(name)).unwrap_or_default()
}

/// Another file with the same bytes at its path.
fn replaced(scene: &Scene, name: &str) {
    fs::write(scene.path("new"), "same").unwrap();
    fs::rename(scene.path("new"), scene.path(name)).unwrap();
}

pub(super) fn rewritten(path: PathBuf, text: &str) {
    let mtime = fs::metadata(&path).unwrap().modified().unwrap();
    fs::write(&path, text).unwrap();
    fs::File::options().append(true).open(path).unwrap().set_modified(mtime).unwrap();
}

pub(super) fn undone(scene: &Scene) -> End {
    let story = scene.shelf.stories().unwrap().remove(0);
    let mut journal = scene.shelf.resume(&story.id).unwrap();
    undo::undo(&story, &Copies::default(), &story.ground(), &mut journal, &Stop::new())
        .unwrap()
        .remove(0)
        .1
}

/// The file that stayed was replaced by a copy of it, as programs do that save: the link is the only name of it now.
#[test]
fn a_link_that_has_become_the_only_name_of_what_was_written_since_is_not_undone() {
    for text in ["SAME", "more than that"] {
        let scene = scene();
        let deed = scene.deed(Action::Hardlink);
        let story = scene.killed(&deed);
        assert_eq!(act(&deed, &scene.ground, &Stop::new()), End::Done);
        assert_eq!(finish(&deed, &scene.ground, &mut LastLook::default()), End::Done);
        let mut journal = scene.shelf.resume(&story.id).unwrap();
        journal.add(&Line::Done(1, (1, 1)));
        journal.sync().unwrap();
        replaced(&scene, "tree/keep");
        rewritten(scene.path("tree/go"), text);
        assert_eq!(undone(&scene), End::Back(Why::Occupied));
        assert_eq!((bytes(&scene, "tree/go"), scene.shape().len()), (text.into(), 2));
        // With its bytes as they were it is nobody's.
        rewritten(scene.path("tree/go"), "same");
        assert_eq!(undone(&scene), End::Done);
        assert_eq!(scene.shape(), before());
    }
}

#[test]
fn a_link_is_not_unlinked_by_a_roll_back_either() {
    for (state, make) in states(Action::Hardlink) {
        if !["linked", "exchanged"].contains(&state) {
            continue;
        }
        let scene = scene();
        let story = scene.killed(&scene.deed(Action::Hardlink));
        make(&scene);
        let link = if state == "linked" { "tree/.dupes-1" } else { "tree/go" };
        replaced(&scene, "tree/keep");
        rewritten(scene.path(link), "SAME");
        let end = scene.recovered(&story, Way::RollBack);
        assert!(matches!(end, End::Back(Why::Aside(_))), "{state}: {end:?}");
        let all = [bytes(&scene, "tree/go"), bytes(&scene, "tree/.dupes-1")];
        assert!(all.contains(&"SAME".into()) && all.contains(&"same".into()), "{state}: {all:?}");
        let story = scene.shelf.stories().unwrap().remove(0);
        assert_eq!(story.deeds[0].1, deed::Stage::Left, "the journal goes on naming the place");
    }
}

/// Another program saves while the link is in its place: what it has saved has the path.
#[test]
fn who_saves_in_between_keeps_the_path() {
    for action in [Action::Hardlink, Action::Symlink] {
        let scene = scene();
        let deed = scene.deed(action);
        fs::rename(scene.path("tree/go"), scene.path("tree/.dupes-1")).unwrap();
        fs::write(scene.path("tree/go"), "saved").unwrap();
        let end = swap_back(&deed, &scene.ground, Why::SameFile, &Stop::new());
        assert!(matches!(end, End::Back(Why::Aside(_))), "{action}: {end:?}");
        assert_eq!(
            (bytes(&scene, "tree/go"), bytes(&scene, "tree/.dupes-1")),
            ("saved".into(), "same".into())
        );
    }
}

/// After it was looked at again and before it is unlinked.
#[test]
fn what_was_written_to_the_old_file_of_a_link_gets_its_path_back() {
    for action in [Action::Hardlink, Action::Symlink] {
        let scene = scene();
        let deed = scene.deed(action);
        assert_eq!(act(&deed, &scene.ground, &Stop::new()), End::Done);
        fs::write(scene.path("tree/.dupes-1"), "longer than it was").unwrap();
        let mut pair = (deed, End::Done);
        let mut journal = scene.shelf.begin(action, 1).unwrap();
        settle_durably(&mut [&mut pair], &scene.ground, None, &mut journal, LastLook::default())
            .unwrap();
        assert_eq!(pair.1, End::Back(Why::Changed), "{action}");
        assert_eq!(bytes(&scene, "tree/go"), "longer than it was", "{action}");
        assert_eq!(scene.shape().len(), 2, "{action}");
    }
}

#[test]
fn a_purge_that_is_rolled_back_deletes_no_more() {
    let scene = scene();
    let deed = scene.deed(Action::Remove);
    let story = scene.killed(&deed);
    assert_eq!(act(&deed, &scene.ground, &Stop::new()), End::Done);
    let mut journal = scene.shelf.resume(&story.id).unwrap();
    [Line::Done(1, (1, 1)), Line::Purging(1)].iter().for_each(|line| journal.add(line));
    journal.sync().unwrap();
    let story = scene.shelf.stories().unwrap().remove(0);
    assert_eq!(scene.recovered(&story, Way::RollBack), End::Done);
    assert_eq!(bytes(&scene, "aside/1"), "same");
    assert_eq!(undone(&scene), End::Done);
    assert_eq!(scene.shape(), before());
}

/// Nothing blocks what comes after: the file waits in the quarantine, and can be undone when its path is free.
#[test]
fn a_path_that_is_gone_or_taken_keeps_nobody_from_going_on() {
    let changes: [(&str, fn(&Scene)); 2] = [
        ("taken", |scene| fs::write(scene.path("tree/go"), "new").unwrap()),
        ("gone", |scene| {
            // The folder that it was in; another one that has the file that stays is there.
            fs::rename(scene.path("tree"), scene.path("away")).unwrap();
            fs::create_dir(scene.path("tree")).unwrap();
            fs::rename(scene.path("away/in/keep"), scene.path("tree/keep")).unwrap();
        }),
    ];
    for (what, change) in changes {
        for way in [Way::Finish, Way::RollBack] {
            let mut scene = scene();
            if what == "gone" {
                fs::create_dir(scene.path("tree/in")).unwrap();
                for name in ["keep", "go"] {
                    fs::rename(scene.path("tree").join(name), scene.path("tree/in").join(name))
                        .unwrap();
                }
                scene.ground = Ground::new([base(scene.dir.path()), base(&scene.path("aside"))]);
            }
            let facts = |name: &str| scene.facts(name);
            let deed = if what == "gone" {
                Deed {
                    at: place(0, "tree/in/go"),
                    keeper: place(0, "tree/keep"),
                    keeper_facts: facts("tree/in/keep"),
                    facts: facts("tree/in/go"),
                    ..gone(&scene)
                }
            } else {
                scene.deed(Action::Remove)
            };
            let story = scene.killed(&deed);
            let from = if what == "gone" { "tree/in/go" } else { "tree/go" };
            fs::rename(scene.path(from), scene.path("aside/1")).unwrap();
            change(&scene);
            let end = scene.recovered(&story, way);
            match way {
                Way::Finish => assert_eq!(end, End::Done, "{what}"),
                _ => {
                    assert!(matches!(end, End::Aside(Why::Gone | Why::Occupied)), "{what}: {end:?}")
                }
            }
            let story = scene.shelf.stories().unwrap().remove(0);
            assert!(!story.is_open(), "{what}");
            assert!(matches!(story.deeds[0].1, deed::Stage::Done(_)), "{what}: it is aside");
            assert_eq!(bytes(&scene, "aside/1"), "same");
        }
    }
}

/// Of a file that is two folders down.
fn gone(scene: &Scene) -> Deed {
    let file = fs::File::open(scene.path("tree/in/go")).unwrap();
    let stat = rustix::fs::fstat(&file).unwrap();
    let facts = Facts::new(&stat);
    Deed {
        number: 1,
        action: Action::Remove,
        tree: None,
        at: place(0, "tree/in/go"),
        aside: place(1, "1"),
        keeper: place(0, "tree/keep"),
        keeper_facts: facts,
        facts,
        names: 1,
        digest: Algorithm::Blake3.digest(b"same"),
        attributes: Attributes::of(&file, &stat).unwrap(),
        folder_times: ((0, 0), (0, 0)),
    }
}

#[test]
fn a_file_with_other_bytes_is_not_taken_for_what_was_removed() {
    let scene = scene();
    let deed = scene.deed(Action::Remove);
    let story = scene.killed(&deed);
    let mut journal = scene.shelf.resume(&story.id).unwrap();
    journal.add(&Line::Done(1, (1, 1)));
    journal.sync().unwrap();
    // As if the quarantine was deleted by hand, and a new file had got inode, size and time of the old one.
    rewritten(scene.path("tree/go"), "SAME");
    assert_eq!(undone(&scene), End::Back(Why::Gone));
    assert_eq!(bytes(&scene, "tree/go"), "SAME");
}

#[test]
fn attributes_that_were_changed_since_a_crash_are_not_taken_away_by_finishing() {
    use std::os::unix::fs::PermissionsExt;
    for action in [Action::Hardlink, Action::Symlink] {
        let scene = scene();
        let story = scene.killed(&scene.deed(action));
        fs::set_permissions(scene.path("tree/go"), PermissionsExt::from_mode(0o600)).unwrap();
        assert_eq!(scene.recovered(&story, Way::Finish), End::Back(Why::Changed), "{action}");
        assert_eq!(scene.shape(), before(), "{action}");
    }
}

#[test]
fn what_is_given_up_is_not_touched_and_told() {
    for action in MOVERS {
        for (state, make) in states(action) {
            let scene = scene();
            let story = scene.killed(&scene.deed(action));
            make(&scene);
            let shape = scene.shape();
            let end = scene.recovered(&story, Way::GiveUp);
            assert_eq!(scene.shape(), shape, "{action} {state}");
            let aside = if action.links() { "tree/.dupes-1" } else { "aside/1" };
            let stage = scene.shelf.stories().unwrap().remove(0).deeds[0].1;
            // What is aside is told, and only that.
            let is_told = matches!(end, End::Back(Why::Aside(_)));
            assert_eq!(is_told, shape.iter().any(|(name, _)| name == aside), "{action} {state}");
            match state {
                _ if is_told => assert_eq!(stage, deed::Stage::Left, "{action} {state}"),
                "unlinked" => assert!(matches!(stage, deed::Stage::Done(_)), "{action}: {stage:?}"),
                _ => assert!(matches!(stage, deed::Stage::Back(_)), "{action} {state}: {stage:?}"),
            }
            if !matches!(stage, deed::Stage::Back(_)) {
                assert_eq!(undone(&scene), End::Done, "{action} {state}");
            }
            assert_eq!(scene.shape(), before(), "{action} {state}");
        }
    }
}

#[test]
fn what_is_being_rolled_back_is_open_until_it_has_ended() {
    let scene = scene();
    let story = scene.killed(&scene.deed(Action::Remove));
    let open = |line: Line| {
        let mut journal = scene.shelf.resume(&story.id).unwrap();
        journal.add(&line);
        journal.sync().unwrap();
        scene.shelf.stories().unwrap().remove(0).is_open()
    };
    assert!(!open(Line::Done(1, (1, 1))));
    assert!(open(Line::RollingBack));
    assert!(open(Line::Undoing(1)));
    assert!(open(Line::Undone(1, None)), "there may be more to undo");
    assert!(!open(Line::End));
}

/// Killed before the folders were made that it is moved to.
#[test]
fn a_move_that_has_no_folder_yet_is_rolled_back() {
    for way in [Way::RollBack, Way::GiveUp] {
        let scene = scene();
        let deed = Deed { aside: place(1, "not/made/go"), ..scene.deed(Action::Move) };
        let story = scene.killed(&deed);
        let end = scene.recovered(&story, way);
        assert!(!matches!(end, End::Open(_)), "{end:?}");
        assert_eq!(scene.shape(), before());
    }
}
