//! What somebody changes about a file, or about the one that stays, between two looks at it.

use std::path::Path;

use super::others::{bytes, rewritten};
use super::*;

/// Links it, does something at one of two moments, and finishes it: how that has ended.
fn linked_while(scene: &Scene, action: Action, late: bool, change: impl Fn(&Path)) -> End {
    let deed = scene.deed(action);
    if !late {
        change(&scene.path("tree/go"));
    }
    let end = act(&deed, &scene.ground, &Stop::new());
    if !late {
        return end;
    }
    assert_eq!(end, End::Done);
    change(&scene.path("tree/.dupes-1"));
    finish(&deed, &scene.ground, &mut LastLook::default())
}

type Change = (&'static str, fn(&Path), Why);

/// After it was verified: before it is out of the way, and before it goes.
#[test]
fn what_somebody_has_changed_about_a_file_meanwhile_is_not_taken_from_it() {
    use std::os::unix::fs::{PermissionsExt, chown};
    let changes: [Change; 4] = [
        (
            "mode",
            |path| fs::set_permissions(path, PermissionsExt::from_mode(0o600)).unwrap(),
            Why::Altered(vec![Aspect::Mode]),
        ),
        ("owner", |path| drop(chown(path, Some(1_000), None)), Why::Altered(vec![Aspect::Owner])),
        (
            "attribute",
            |path| {
                let flags = rustix::fs::XattrFlags::empty();
                let _ = rustix::fs::setxattr(path, "user.tag", b"important", flags);
            },
            Why::Altered(vec![Aspect::Xattrs]),
        ),
        (
            "another name",
            |path| fs::hard_link(path, path.ancestors().nth(2).unwrap().join("outside")).unwrap(),
            Why::LinkedElsewhere,
        ),
    ];
    for action in [Action::Hardlink, Action::Symlink] {
        for (what, change, why) in &changes {
            for late in [false, true] {
                let scene = scene();
                // Who may not do that, or a file system that has no such thing.
                let about = |scene: &Scene| {
                    let file = fs::File::open(scene.path("tree/go")).unwrap();
                    let stat = rustix::fs::fstat(&file).unwrap();
                    (Attributes::of(&file, &stat).unwrap(), stat.st_nlink, stat.st_ino)
                };
                let before = about(&scene);
                let end = linked_while(&scene, action, late, change);
                let after = about(&scene);
                if after.0.differences(&before.0).is_empty() && after.1 == before.1 {
                    assert!(["owner", "attribute"].contains(what), "{action} {what}");
                    continue;
                }
                assert_eq!(end, End::Back(why.clone()), "{action} {what} {late}");
                assert_eq!(after.2, before.2, "{action} {what} {late}: it is the file itself");
                assert_eq!(scene.shape(), self::before(), "{action} {what} {late}");
            }
        }
    }
}

/// After both were compared with the old file out of the way, and before that goes: its bytes would be nowhere.
#[test]
fn a_keeper_that_is_rewritten_before_the_old_file_goes_gives_it_its_path_back() {
    let rewrites: [(&str, fn(&Scene)); 4] = [
        ("longer", |scene| fs::write(scene.path("tree/keep"), "new and longer").unwrap()),
        ("with size and time kept", |scene| rewritten(scene.path("tree/keep"), "SAME")),
        ("by another one", |scene| {
            fs::write(scene.path("new"), "SAME").unwrap();
            fs::rename(scene.path("new"), scene.path("tree/keep")).unwrap();
        }),
        ("not there", |scene| fs::rename(scene.path("tree/keep"), scene.path("away")).unwrap()),
    ];
    for action in [Action::Hardlink, Action::Symlink] {
        for (what, rewrite) in rewrites {
            let scene = scene();
            let deed = scene.deed(action);
            let (end, seen) = steps::act_and_see(&deed, &scene.ground, &Stop::new());
            let mut last = LastLook::default();
            last.compared(&deed.keeper, seen.unwrap());
            assert_eq!(end, End::Done);
            rewrite(&scene);
            let end = finish(&deed, &scene.ground, &mut last);
            assert!(matches!(end, End::Back(Why::Keeper(_))), "{action} {what}: {end:?}");
            assert_eq!(bytes(&scene, "tree/go"), "same", "{action} {what}");
            let names = if what == "not there" { 1 } else { 2 };
            assert_eq!(scene.shape().len(), names, "{action} {what}: {:?}", scene.shape());
        }
        // Whoever has written the same again has changed nothing that counts.
        let scene = scene();
        let deed = scene.deed(action);
        assert_eq!(act(&deed, &scene.ground, &Stop::new()), End::Done);
        rewritten(scene.path("tree/keep"), "same");
        assert_eq!(finish(&deed, &scene.ground, &mut LastLook::default()), End::Done);
        assert!(!scene.path("tree/.dupes-1").exists());
    }
}

/// Its names go one after the other: none of them is taken for one that somebody has made.
#[test]
fn all_names_of_a_file_go_and_one_more_keeps_those_that_are_left() {
    for is_more in [false, true] {
        let scene = scene();
        fs::hard_link(scene.path("tree/go"), scene.path("tree/too")).unwrap();
        let one = Deed { names: 2, ..scene.deed(Action::Hardlink) };
        let other =
            Deed { number: 2, at: place(0, "too"), aside: place(0, ".dupes-2"), ..one.clone() };
        let deeds = [one, other];
        for deed in &deeds {
            assert_eq!(act(deed, &scene.ground, &Stop::new()), End::Done);
        }
        let mut last = LastLook::default();
        assert_eq!(finish(&deeds[0], &scene.ground, &mut last), End::Done);
        if is_more {
            fs::hard_link(scene.path("tree/.dupes-2"), scene.path("outside")).unwrap();
        }
        let end = finish(&deeds[1], &scene.ground, &mut last);
        let inode = |name: &str| fs::metadata(scene.path(name)).unwrap().ino();
        match is_more {
            false => assert_eq!((end, inode("tree/too")), (End::Done, inode("tree/keep"))),
            true => {
                assert_eq!(end, End::Back(Why::LinkedElsewhere));
                assert_eq!(inode("tree/too"), inode("outside"));
            }
        }
        assert_eq!(inode("tree/go"), inode("tree/keep"));
    }
}

/// Nothing of it goes for good before all names were looked at once more.
#[test]
fn a_name_that_can_not_be_finished_keeps_those_before_it() {
    for action in [Action::Hardlink, Action::Symlink] {
        for which in ["tree/.dupes-1", "tree/.dupes-2"] {
            let scene = scene();
            fs::hard_link(scene.path("tree/go"), scene.path("tree/too")).unwrap();
            let one = Deed { names: 2, ..scene.deed(action) };
            let other =
                Deed { number: 2, at: place(0, "too"), aside: place(0, ".dupes-2"), ..one.clone() };
            let mut ends = [one, other].map(|deed| {
                let end = act(&deed, &scene.ground, &Stop::new());
                (deed, end)
            });
            // Somebody puts another file where one of them waits.
            fs::rename(scene.path(which), scene.path("away")).unwrap();
            fs::write(scene.path(which), "else").unwrap();
            let mut journal = scene.shelf.begin(action, 1).unwrap();
            let [one, other] = &mut ends;
            let mut deeds = [one, other];
            settle_durably(&mut deeds, &scene.ground, None, &mut journal, LastLook::default())
                .unwrap();
            let kept = if which == "tree/.dupes-1" { "tree/too" } else { "tree/go" };
            assert_eq!(scene.facts(kept).inode, ends[0].0.facts.inode, "{action} {which}");
            assert!(ends.iter().all(|(_, end)| *end != End::Done), "{action} {which}: {ends:?}");
        }
    }
}
