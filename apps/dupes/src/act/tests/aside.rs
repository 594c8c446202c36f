//! The file itself, which was put aside when we were killed: nothing of ours unlinks it, and it gets its path back.

use std::os::unix::fs::PermissionsExt;

use super::others::{bytes, undone};
use super::*;
use crate::act::deed::Stage;

const ASIDE: &str = "tree/.dupes-1";

/// Killed behind the exchange: the link is at the path, and the file aside, with a mode that the link has not.
fn exchanged(action: Action) -> (Scene, Story) {
    let scene = scene();
    fs::set_permissions(scene.path("tree/go"), PermissionsExt::from_mode(0o600)).unwrap();
    let story = scene.killed(&scene.deed(action));
    let (_, exchange) = states(action).into_iter().find(|it| it.0 == "exchanged").unwrap();
    exchange(&scene);
    (scene, story)
}

/// What somebody does to the link then.
const CHANGES: [(&str, fn(&Scene)); 3] = [
    ("replaced", |scene| {
        fs::remove_file(scene.path("tree/go")).unwrap();
        fs::write(scene.path("tree/go"), "new").unwrap();
    }),
    ("removed", |scene| fs::remove_file(scene.path("tree/go")).unwrap()),
    ("renamed", |scene| fs::rename(scene.path("tree/go"), scene.path("renamed")).unwrap()),
];

fn stage(scene: &Scene) -> Stage {
    scene.shelf.stories().unwrap().remove(0).deeds[0].1
}

#[test]
fn what_was_put_aside_waits_for_its_path_and_undo_puts_it_back_itself() {
    for action in [Action::Hardlink, Action::Symlink] {
        for (change, make) in CHANGES {
            for way in [Way::RollBack, Way::Finish, Way::GiveUp] {
                for text in ["same", "written to since"] {
                    let what = format!("{action} {change} {way:?} {text}");
                    let (scene, story) = exchanged(action);
                    let file = story.deeds[0].0.facts.inode;
                    make(&scene);
                    if text != "same" {
                        fs::write(scene.path(ASIDE), text).unwrap();
                    }
                    let end = scene.recovered(&story, way);
                    if change == "replaced" {
                        // At once by a roll-back, or by an undo after that; and as often as anybody asks.
                        for _ in 0..2 {
                            let end = undone(&scene);
                            assert!(matches!(end, End::Back(Why::Aside(_))), "{what}: {end:?}");
                            assert_eq!(scene.facts(ASIDE).inode, file, "{what}");
                            assert_eq!(bytes(&scene, "tree/go"), "new", "{what}");
                            assert_eq!(stage(&scene), Stage::Left, "{what}");
                        }
                        fs::remove_file(scene.path("tree/go")).unwrap();
                    } else if way != Way::RollBack {
                        assert_eq!(scene.facts(ASIDE).inode, file, "{what}: {end:?}");
                    }
                    if matches!(stage(&scene), Stage::Back(_)) {
                        assert_eq!((end, way), (End::Done, Way::RollBack), "{what}");
                    } else {
                        assert_eq!(undone(&scene), End::Done, "{what}: {end:?}");
                        assert!(matches!(stage(&scene), Stage::Undone(_)), "{what}");
                    }
                    let back = fs::metadata(scene.path("tree/go")).unwrap();
                    assert_eq!((back.ino(), back.mode() & 0o777), (file, 0o600), "{what}");
                    assert_eq!(bytes(&scene, "tree/go"), text, "{what}");
                    assert_eq!(scene.shape().len(), 2, "{what}: {:?}", scene.shape());
                }
            }
        }
    }
}

/// Nobody has touched anything since it was given up.
#[test]
fn what_was_put_aside_takes_the_place_of_its_link_itself() {
    for action in [Action::Hardlink, Action::Symlink] {
        let (scene, story) = exchanged(action);
        let file = story.deeds[0].0.facts.inode;
        scene.recovered(&story, Way::GiveUp);
        assert_eq!((scene.facts(ASIDE).inode, stage(&scene)), (file, Stage::Left), "{action}");
        assert_eq!(undone(&scene), End::Done, "{action}");
        assert_eq!((scene.facts("tree/go").inode, scene.shape()), (file, before()), "{action}");
    }
}
