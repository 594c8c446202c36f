//! Ctrl-C at whatever moment: every look at whether it is to stop is tried, one after the other, and no clock decides.

use super::*;
use crate::act::deed::Stage;

/// A file with two names, both of which are links to the one that stays.
fn linked(action: Action) -> Scene {
    let scene = scene();
    fs::hard_link(scene.path("tree/go"), scene.path("tree/too")).unwrap();
    let one = Deed { names: 2, ..scene.deed(action) };
    let other = Deed { number: 2, at: place(0, "too"), aside: place(0, ".dupes-2"), ..one.clone() };
    let mut journal = scene.shelf.begin(action, 1).unwrap();
    scene.ground.bases().for_each(|base| journal.add(&Line::Base(base.clone())));
    let mut last = LastLook::default();
    for deed in [one, other] {
        assert_eq!(act(&deed, &scene.ground, &Stop::new()), End::Done);
        assert_eq!(finish(&deed, &scene.ground, &mut last), End::Done);
        journal.add(&Line::Intent(Box::new(deed.clone())));
        journal.add(&Line::Done(deed.number, (1, 1)));
    }
    journal.add(&Line::End);
    journal.sync().unwrap();
    scene
}

fn undone(scene: &Scene, stop: &Stop) -> Vec<End> {
    let story = scene.shelf.stories().unwrap().remove(0);
    let mut journal = scene.shelf.resume(&story.id).unwrap();
    let ends = undo::undo(&story, &Copies::default(), &story.ground(), &mut journal, stop).unwrap();
    ends.into_iter().map(|(_, end)| end).collect()
}

#[test]
fn an_undo_that_is_told_to_stop_stops_and_goes_on() {
    for action in [Action::Hardlink, Action::Symlink] {
        // What stayed was replaced since, so that a hard link is looked at by its bytes.
        for replaced in [false, true] {
            let mut counts = [0; 3];
            for looks in 0.. {
                let scene = linked(action);
                if replaced {
                    // So that nobody gets its inode.
                    fs::hard_link(scene.path("tree/keep"), scene.path("old")).unwrap();
                    fs::copy(scene.path("tree/keep"), scene.path("new")).unwrap();
                    fs::rename(scene.path("new"), scene.path("tree/keep")).unwrap();
                }
                let ends = undone(&scene, &Stop::after(looks));
                let done = ends.iter().filter(|end| **end == End::Done).count();
                let is_stopped =
                    |end: &&End| matches!(end, End::Back(Why::Stopped) | End::Open(Why::Stopped));
                let stopped = ends.iter().filter(is_stopped).count();
                assert_eq!(done + stopped, ends.len(), "{action} {looks}: {ends:?}");
                counts[done] += 1;
                let story = scene.shelf.stories().unwrap().remove(0);
                assert_eq!(story.count(|stage| matches!(stage, Stage::Undone(_))), done as u64);
                // In the middle of a deed of which nobody knew what is aside; otherwise the same command goes on.
                let is_open = ends.contains(&End::Open(Why::Stopped));
                assert_eq!(story.is_open(), is_open, "{action} {looks}");
                let settled = if is_open {
                    assert_eq!(scene.recovered(&story, Way::Finish), End::Done, "{action} {looks}");
                    1
                } else {
                    0
                };
                let whole = scene.shape();
                let names: Vec<&str> = whole.iter().map(|(name, _)| name.as_str()).collect();
                assert_eq!(names, ["tree/go", "tree/keep", "tree/too"], "{action} {looks}");
                let rest = undone(&scene, &Stop::new());
                assert_eq!(rest, vec![End::Done; 2 - done - settled], "{action} {looks}");
                let inode = |name| fs::metadata(scene.path(name)).unwrap().ino();
                assert_eq!(inode("tree/go"), inode("tree/too"), "{action} {looks}");
                assert_ne!(inode("tree/go"), inode("tree/keep"), "{action} {looks}");
                assert!(scene.shape().iter().all(|(_, text)| text == "same"), "{action} {looks}");
                if done == 2 {
                    break;
                }
            }
            assert!(counts.iter().all(|count| *count > 0), "{action}: at each step: {counts:?}");
        }
    }
}

#[test]
fn a_recovery_that_is_told_to_stop_stops_and_goes_on() {
    for action in MOVERS {
        for (state, make) in states(action) {
            for way in [Way::Finish, Way::RollBack] {
                for looks in 0.. {
                    let scene = scene();
                    let story = scene.killed(&scene.deed(action));
                    make(&scene);
                    let stop = Stop::after(looks);
                    let end = scene.recovered_until(&story, way, &stop);
                    let what = format!("{action} {state} {way:?} {looks}: {end:?}");
                    let again = scene.shelf.stories().unwrap().remove(0);
                    if again.is_open() {
                        assert_eq!(end, End::Open(Why::Stopped), "{what}");
                        assert_eq!(scene.recovered(&again, way), End::Done, "{what}");
                    }
                    let shape = scene.shape();
                    assert_eq!(shape.len(), 2, "{what}: {shape:?}");
                    assert!(shape.iter().any(|(_, text)| text == "same"), "{what}: {shape:?}");
                    if !stop.is_asked() {
                        assert_eq!(end, End::Done, "{what}");
                        break;
                    }
                }
            }
        }
    }
}
