use proptest::prelude::*;

use super::*;

fn member(inode: u64, paths: &[&str]) -> Member {
    let names = paths.iter().map(|path| Place::new(0, (*path).into()).unwrap()).collect();
    let facts = Facts { device: 1, inode, size: 7, mtime: (3, 4), ctime: (-5, 6) };
    Member { names, facts, frees: 4096, tree: None, reference: false }
}

fn base(path: &str) -> Base {
    Base { path: path.into(), device: 1, inode: 2, birth: None }
}

fn plan(sets: Vec<PlannedSet>) -> Plan {
    Plan { bases: vec![(base("/tree"), false), (base("/tree/ref"), true)], sets }
}

fn set(keepers: Vec<Member>, victims: Vec<Member>) -> PlannedSet {
    PlannedSet { keepers, victims }
}

fn text(plan: &Plan) -> String {
    let mut text = Vec::new();
    write(plan, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

fn read_back(text: &str) -> Result<Plan, String> {
    read(&mut text.as_bytes()).map_err(|error| error.to_string())
}

#[test]
fn no_file_both_stays_and_goes() {
    let sound = plan(vec![
        set(vec![member(1, &["a"])], vec![member(2, &["b", "c"])]),
        set(vec![member(3, &["d"])], vec![member(4, &["e"])]),
    ]);
    assert_eq!(sound.check(), Ok(()));
    let unsound = [
        set(vec![], vec![member(9, &["x"])]),
        set(vec![member(9, &["x"])], vec![]),
        set(vec![member(9, &["x"])], vec![member(1, &["other name of a keeper"])]),
        set(vec![member(9, &["x"])], vec![member(8, &["a"])]),
        set(vec![member(9, &["x"])], vec![member(2, &["goes twice"])]),
        set(vec![member(9, &["x"])], vec![member(8, &["c"])]),
        set(vec![member(4, &["goes elsewhere"])], vec![member(8, &["y"])]),
        set(vec![member(9, &["x"])], vec![member(8, &["ref/y"])]),
        set(vec![member(9, &["x"])], vec![member(8, &[])]),
        set(
            vec![member(9, &["x"])],
            vec![Member { facts: Facts { size: 8, ..member(8, &[]).facts }, ..member(8, &["y"]) }],
        ),
    ];
    for wrong in unsound {
        let mut plan = sound.clone();
        plan.sets.push(wrong.clone());
        let why = plan.check().unwrap_err().to_string();
        assert!(why.contains("of the plan"), "{wrong:?}: {why}");
        assert!(read_back(&text(&plan)).is_err(), "nor is it read: {wrong:?}");
    }
}

fn tree(inode: u64, path: &str, files: u64) -> Member {
    let stamp = crate::digest::Algorithm::Blake3.digest(path.as_bytes());
    Member {
        tree: Some(Tree { extent: Extent { files, bytes: 9 }, stamp }),
        ..member(inode, &[path])
    }
}

#[test]
fn what_is_in_a_folder_that_goes_is_planned_once() {
    let sound = plan(vec![
        set(vec![tree(1, "a", 3)], vec![tree(2, "b", 3), tree(3, "c/in", 3)]),
        set(vec![member(11, &["a/x"])], vec![member(12, &["c/x", "bb"])]),
    ]);
    assert_eq!(sound.check(), Ok(()));
    assert_eq!(read_back(&text(&sound)).unwrap(), sound);
    let unsound = [
        set(vec![tree(21, "k", 3)], vec![tree(22, "l", 4)]),
        set(vec![tree(21, "k", 3)], vec![member(22, &["l"])]),
        set(vec![Member { names: vec![], ..tree(21, "k", 3) }], vec![tree(22, "l", 3)]),
        set(vec![tree(21, "k", 3)], vec![tree(22, "ref", 3)]),
        // What stays, or goes once more, in one that goes; what goes in one that stays.
        set(vec![member(21, &["b/x"])], vec![member(22, &["l"])]),
        set(vec![member(21, &["k"])], vec![member(22, &["l", "b/x/y"])]),
        set(vec![member(21, &["k"])], vec![member(22, &["a/x/y"])]),
        set(vec![tree(21, "b/x", 1)], vec![tree(22, "l", 1)]),
        set(vec![tree(21, "k", 1)], vec![tree(22, "a/x", 1)]),
        set(vec![tree(21, "k", 1)], vec![tree(22, "c/in/x", 1)]),
        set(vec![tree(21, "k", 1)], vec![tree(22, "c", 1)]),
    ];
    for wrong in unsound {
        let mut plan = sound.clone();
        plan.sets.push(wrong.clone());
        assert!(plan.check().is_err(), "{wrong:?}");
        assert!(read_back(&text(&plan)).is_err(), "nor is it read: {wrong:?}");
    }
    let mut plan = sound;
    plan.bases.push((base("/tree/b/deep"), false));
    assert!(plan.check().is_err(), "what was given as a path does not go with a folder");
}

#[test]
fn a_plan_that_is_cut_off_anywhere_is_refused() {
    let text = text(&plan(vec![set(vec![member(1, &["a"])], vec![member(2, &["b"])])]));
    assert!(read_back(&text).is_ok());
    for end in 0..text.len() - 1 {
        assert!(read_back(&text[..end]).is_err(), "{}", &text[..end]);
    }
    for wrong in ["{}", "{\"end\":true}", "[]", "nonsense"] {
        assert!(read_back(&format!("{text}{wrong}\n")).is_err(), "{wrong} behind its end");
    }
    let newer = text.replace("\"dupes-plan\":1", "\"dupes-plan\":2");
    assert!(read_back(&newer).unwrap_err().contains("version"));
    let fewer: Vec<&str> = text.lines().filter(|line| !line.contains("keepers")).collect();
    assert_eq!(read_back(&fewer.join("\n")).unwrap().sets, [], "a line may be deleted");
}

#[test]
fn a_way_out_of_the_root_is_refused() {
    let text = text(&plan(vec![set(vec![member(1, &["a"])], vec![member(2, &["b"])])]));
    for wrong in ["../b", "/b", "b/../../c", "./b", "b//c", ""] {
        let text = text.replace("\"path\":\"b\"", &format!("\"path\":\"{wrong}\""));
        assert!(read_back(&text).is_err(), "{wrong}");
    }
    assert!(read_back(&text.replace("\"base\":0", "\"base\":2")).is_err(), "no such base");
}

proptest! {
    #[test]
    fn any_name_survives(name in prop::collection::vec(1..=255u8, 1..40)) {
        let place = Place::new(0, name.clone());
        prop_assume!(place.is_some());
        let mut it = member(2, &["b"]);
        it.names = vec![place.unwrap()];
        prop_assume!(it.names[0].path != b"a" && !it.names[0].path.starts_with(b"ref/"));
        let plan = plan(vec![set(vec![member(1, &["a"])], vec![it])]);
        prop_assert_eq!(read_back(&text(&plan)).unwrap(), plan);
    }
}
