//! Whatever somebody else has put at a path or aside when we were killed: no content is nowhere, and what is not where
//! he would look for it is named.

use std::collections::BTreeSet;

use super::others::{bytes, undone};
use super::*;
use crate::act::deed::Stage;
use crate::act::undo::{Made, give_back, take_or_give_back};

/// What may be at a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum There {
    Nothing,
    /// The file that goes.
    Ours,
    /// A link to the file that stays.
    Link,
    /// What only an undo makes.
    Copy,
    Other,
}

/// What has become of the file that stays meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeper {
    AsItWas,
    Gone,
    Replaced,
}

/// What can be told apart by who does this.
fn at_each(action: Action) -> Vec<(There, There)> {
    use There::{Copy, Link, Nothing, Other, Ours};
    let some = if action.links() {
        &[Nothing, Ours, Other, Link, Copy][..]
    } else {
        &[Nothing, Ours, Other]
    };
    some.iter().flat_map(|at| some.iter().map(|aside| (*at, *aside))).collect()
}

const KEEPERS: [Keeper; 3] = [Keeper::AsItWas, Keeper::Gone, Keeper::Replaced];

fn put(scene: &Scene, deed: &Deed, name: &str, what: There) {
    let path = scene.path(name);
    match what {
        There::Nothing => {}
        There::Ours => fs::hard_link(scene.path("ours"), path).unwrap(),
        There::Link if deed.action == Action::Hardlink => {
            fs::hard_link(scene.path("tree/keep"), path).unwrap();
        }
        There::Link => link(scene, name),
        There::Copy => {
            fs::write(&path, "same").unwrap();
            deed.attributes.give_to(fs::File::options().write(true).open(path).unwrap()).unwrap();
        }
        There::Other => fs::write(path, format!("saved as {name}")).unwrap(),
    }
}

fn aside_of(action: Action) -> &'static str {
    if action.links() { "tree/.dupes-1" } else { "aside/1" }
}

/// A deed of which the journal says this, with that at its path and aside.
fn made(
    action: Action,
    lines: &[Line],
    (at, aside): (There, There),
    keeper: Keeper,
) -> (Scene, Story) {
    let scene = scene();
    let deed = scene.deed(action);
    let story = scene.killed(&deed);
    let mut journal = scene.shelf.resume(&story.id).unwrap();
    lines.iter().for_each(|line| journal.add(line));
    journal.sync().unwrap();
    fs::rename(scene.path("tree/go"), scene.path("ours")).unwrap();
    put(&scene, &deed, "tree/go", at);
    put(&scene, &deed, aside_of(action), aside);
    fs::remove_file(scene.path("ours")).unwrap();
    if keeper != Keeper::AsItWas {
        fs::remove_file(scene.path("tree/keep")).unwrap();
    }
    if keeper == Keeper::Replaced {
        fs::write(scene.path("tree/keep"), "saved as keep").unwrap();
    }
    let story = scene.shelf.stories().unwrap().remove(0);
    (scene, story)
}

fn contents(scene: &Scene) -> BTreeSet<String> {
    scene.shape().into_iter().map(|(_, what)| what).filter(|what| what != "link").collect()
}

fn judge(scene: &Scene, action: Action, before: &BTreeSet<String>, end: &End, what: &str) {
    let shape = scene.shape();
    let lost: Vec<_> = before.difference(&contents(scene)).cloned().collect();
    assert!(lost.is_empty(), "{what}: {lost:?} is nowhere: {shape:?}, {end:?}");
    let story = scene.shelf.stories().unwrap().remove(0);
    assert!(!story.is_open() && !matches!(end, End::Open(_)), "{what}: {end:?}");
    for (name, _) in shape.iter().filter(|(name, _)| !["tree/go", "tree/keep"].contains(&&**name)) {
        assert_eq!(name, aside_of(action), "{what}: {end:?}");
        let inode = fs::symlink_metadata(scene.path(name)).unwrap().ino();
        let is_put_aside = action.sets_aside() && inode == story.deeds[0].0.facts.inode;
        match story.deeds[0].1 {
            // Undo knows it.
            Stage::Done(_) => assert!(is_put_aside, "{what}: {shape:?}, {end:?}"),
            // `dupes log` names the place, and so does what is printed.
            Stage::Left => {
                let End::Back(why @ Why::Aside(_)) = end else { panic!("{what}: {end:?}") };
                assert!(why.to_string().contains(name), "{what}: {why}");
            }
            stage => panic!("{what}: {name} is hidden, and said to be {stage:?}: {end:?}"),
        }
    }
}

/// All that can be at the path and aside when it was killed behind its intent.
#[test]
fn whatever_is_there_after_a_kill_is_not_lost_and_named() {
    use There::{Link, Nothing, Other};
    for action in MOVERS {
        for keeper in KEEPERS {
            for (at, aside) in at_each(action) {
                for way in [Way::Finish, Way::RollBack, Way::GiveUp] {
                    // What is not touched is so whatever has become of the others.
                    if way == Way::GiveUp && keeper != Keeper::AsItWas {
                        continue;
                    }
                    let what = format!("{action} {at:?} {aside:?} {keeper:?} {way:?}");
                    let (scene, story) = made(action, &[], (at, aside), keeper);
                    let before = contents(&scene);
                    let mut end = scene.recovered(&story, way);
                    judge(&scene, action, &before, &end, &what);
                    let story = scene.shelf.stories().unwrap().remove(0);
                    if matches!(story.deeds[0].1, Stage::Done(_)) {
                        end = undone(&scene);
                        judge(&scene, action, &before, &end, &format!("{what}, undone"));
                    }
                    if way == Way::GiveUp {
                        continue;
                    }
                    // Who has saved has the path, if nobody has saved since.
                    let saved = match (action, at, aside) {
                        (_, Other, _) => "saved as tree/go",
                        (Action::Remove, Nothing, Other) => "saved as aside/1",
                        (Action::Hardlink | Action::Symlink, Link, Other) => {
                            "saved as tree/.dupes-1"
                        }
                        _ => continue,
                    };
                    assert_eq!(bytes(&scene, "tree/go"), saved, "{what}: {end:?}");
                }
            }
        }
    }
}

/// The same for the way back, killed anywhere, or not killed and begun on what somebody else has left there.
#[test]
fn whatever_is_there_when_it_is_undone_is_not_lost_and_named() {
    use There::{Copy, Other};
    let done = Line::Done(1, (1, 1));
    for action in MOVERS {
        for keeper in KEEPERS {
            for (at, aside) in at_each(action) {
                for way in [Some(Way::Finish), Some(Way::RollBack), None] {
                    let what = format!("{action} {at:?} {aside:?} {keeper:?} {way:?}");
                    let lines = [done.clone(), Line::Undoing(1)];
                    let lines = if way.is_some() { &lines[..] } else { &lines[..1] };
                    let (scene, story) = made(action, lines, (at, aside), keeper);
                    let unfinished = scene.path("tree/.dupes-1-new");
                    if action.links() {
                        fs::write(&unfinished, "sa").unwrap();
                    }
                    let before: BTreeSet<_> =
                        contents(&scene).into_iter().filter(|text| text != "sa").collect();
                    let end = match way {
                        Some(way) => scene.recovered(&story, way),
                        None => undone(&scene),
                    };
                    assert!(!unfinished.exists(), "{what}");
                    judge(&scene, action, &before, &end, &what);
                    if at == Other {
                        assert_eq!(bytes(&scene, "tree/go"), "saved as tree/go", "{what}");
                    }
                    // Killed behind its exchange, which had caught a save.
                    if (action.links(), at, aside) == (true, Copy, Other) {
                        assert_eq!(bytes(&scene, "tree/go"), "saved as tree/.dupes-1", "{what}");
                    }
                }
            }
        }
    }
}

/// The file that undo has made, before the exchange that puts it in its place.
fn copied(scene: &Scene, deed: &Deed) -> Made {
    put(scene, deed, "tree/.dupes-1", There::Copy);
    Made { facts: scene.facts("tree/.dupes-1"), is_new: true }
}

/// What undo does after its exchange has caught what was saved just before it.
#[test]
fn who_saves_while_a_link_is_undone_has_the_path() {
    for action in [Action::Hardlink, Action::Symlink] {
        let (scene, _) = made(action, &[], (There::Nothing, There::Nothing), Keeper::AsItWas);
        let deed = scene.shelf.stories().unwrap().remove(0).deeds.remove(0).0;
        let folder = scene.ground.folder(&deed.at).unwrap();
        let made = copied(&scene, &deed);
        fs::rename(scene.path("tree/.dupes-1"), scene.path("tree/go")).unwrap();
        fs::write(scene.path("tree/.dupes-1"), "saved").unwrap();
        let end = take_or_give_back(&deed, &scene.ground, &folder, &made, &Stop::new());
        assert_eq!(end, Err(Why::Occupied), "{action}");
        assert_eq!(
            (bytes(&scene, "tree/go"), scene.shape().len()),
            ("saved".into(), 2),
            "{action}"
        );
    }
}

/// And once more, before what was saved first has got its path back: over what undo has made, or into it.
#[test]
fn who_saves_twice_while_a_link_is_undone_loses_neither() {
    for action in [Action::Hardlink, Action::Symlink] {
        for into in [false, true] {
            let (scene, _) = made(action, &[], (There::Nothing, There::Nothing), Keeper::AsItWas);
            let deed = scene.shelf.stories().unwrap().remove(0).deeds.remove(0).0;
            let folder = scene.ground.folder(&deed.at).unwrap();
            let made = copied(&scene, &deed);
            fs::rename(scene.path("tree/.dupes-1"), scene.path("tree/go")).unwrap();
            fs::write(scene.path("tree/.dupes-1"), "first").unwrap();
            if into {
                fs::write(scene.path("tree/go"), "second").unwrap();
            } else {
                fs::write(scene.path("new"), "second").unwrap();
                fs::rename(scene.path("new"), scene.path("tree/go")).unwrap();
            }
            give_back(&deed, &scene.ground, &folder, &made, &Stop::new());
            let both = (bytes(&scene, "tree/go"), bytes(&scene, "tree/.dupes-1"));
            assert_eq!(both, ("second".into(), "first".into()), "{action} {into}");
        }
    }
}

/// The first of two saves is out of the way, and the second one has its path.
#[test]
fn what_was_saved_twice_while_it_was_removed_is_named() {
    let scene = scene();
    let deed = scene.deed(Action::Remove);
    let story = scene.killed(&deed);
    fs::write(scene.path("aside/1"), "first").unwrap();
    fs::write(scene.path("tree/go"), "second").unwrap();
    let end = scene.recovered(&story, Way::RollBack);
    let End::Back(why @ Why::Aside(_)) = end else { panic!("{end:?}") };
    assert!(why.to_string().ends_with("aside/1"), "{why}");
    assert_eq!(
        (bytes(&scene, "aside/1"), bytes(&scene, "tree/go")),
        ("first".into(), "second".into())
    );
}
