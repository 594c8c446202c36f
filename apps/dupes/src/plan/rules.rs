//! Which files of a set stay: rules in the order in which they are given, and byte order of paths at last. A
//! pure function, so the same files and rules have the same result on any day.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use globset::{GlobBuilder, GlobMatcher};

use super::Protect;
use crate::act::facts::Time;

/// What is preferred.
#[derive(Clone, Debug)]
pub enum Rule {
    /// Written to last.
    Newest,
    /// Written to first.
    Oldest,
    /// In the most folders.
    Deepest,
    /// In the fewest folders.
    Shallowest,
    /// Below the path that was given first.
    First,
    /// A path that matches.
    Path(Box<GlobMatcher>),
    /// A name that matches.
    Name(Box<GlobMatcher>),
}

/// What is to stay.
#[derive(Clone, Debug)]
pub struct Keep {
    /// The first one decides; the next among those it holds for equal.
    pub rules: Vec<Rule>,
    /// At least so many files of each set; at least one.
    pub copies: usize,
    /// A file goes only for one that stays below another path that was given.
    pub isolate: bool,
    /// What stays, whatever else is said.
    pub protect: Protect,
}

impl Default for Keep {
    fn default() -> Keep {
        Keep { rules: Vec::new(), copies: 1, isolate: false, protect: Protect::default() }
    }
}

/// A file of a set; or a folder, which is as new as the newest file in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// All of its names, in full.
    pub paths: Vec<Vec<u8>>,
    /// Of a folder, where a pattern asks for it: the files of sets below it, in full.
    pub inside: Vec<Vec<u8>>,
    /// The number of the path that was given and that it was found below.
    pub root: usize,
    /// When it was written to.
    pub mtime: Time,
    /// It must stay.
    pub reference: bool,
}

/// Rules with a pattern, and whether it has matched anything.
pub(super) type Patterns = BTreeMap<String, bool>;

impl Keep {
    /// Which of the patterns match a candidate.
    pub(super) fn note(&self, candidate: &Candidate, patterns: &mut Patterns) {
        for (text, is) in self.rules.iter().filter_map(|rule| rule.pattern(candidate)) {
            *patterns.entry(text).or_default() |= is;
        }
    }
}

/// Understands `newest`, `path:GLOB` and so on.
pub fn rule(text: &str) -> Result<Rule, String> {
    let glob = |text: &str| glob(text).map(Box::new);
    match text.split_once(':') {
        Some(("path", pattern)) => return Ok(Rule::Path(glob(pattern)?)),
        Some(("name", pattern)) => return Ok(Rule::Name(glob(pattern)?)),
        _ => {}
    }
    Ok(match text {
        "newest" => Rule::Newest,
        "oldest" => Rule::Oldest,
        "deepest" => Rule::Deepest,
        "shallowest" => Rule::Shallowest,
        "first" => Rule::First,
        _ => {
            return Err(
                "expected newest, oldest, deepest, shallowest, first (below the path that was \
                        given first), path:GLOB or name:GLOB"
                    .into(),
            );
        }
    })
}

/// A pattern for whole paths or names; `*` stays within a name.
pub fn glob(text: &str) -> Result<GlobMatcher, String> {
    let glob = GlobBuilder::new(text).literal_separator(true).build();
    glob.map(|glob| glob.compile_matcher()).map_err(|error| error.kind().to_string())
}

/// For each, whether it stays.
pub(super) fn choose(candidates: &[Candidate], keep: &Keep) -> Vec<bool> {
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    order.sort_by(|one, other| {
        let (one, other) = (&candidates[*one], &candidates[*other]);
        let by_rules = keep.rules.iter().map(|rule| rule.key(one).cmp(&rule.key(other)));
        by_rules
            .fold(one.reference.cmp(&other.reference).reverse(), |order, next| order.then(next))
            .then_with(|| one.paths.iter().min().cmp(&other.paths.iter().min()))
    });
    let mut stays: Vec<bool> =
        candidates.iter().map(|one| one.reference || is_protected(one, keep)).collect();
    let mut missing = keep.copies.max(1).saturating_sub(stays.iter().filter(|is| **is).count());
    for at in order {
        if missing == 0 {
            break;
        }
        if !stays[at] {
            stays[at] = true;
            missing -= 1;
        }
    }
    stays
}

/// Whether a rule with a pattern holds some of them for better than others.
pub(super) fn is_told_apart(candidates: &[Candidate], keep: &Keep) -> bool {
    let matching = |rule: &Rule, one| rule.pattern(one).is_some_and(|(_, is)| is);
    let differ =
        |rule| candidates.windows(2).any(|two| matching(rule, &two[0]) != matching(rule, &two[1]));
    keep.rules.iter().any(differ)
}

/// Whether it must stay by one of its names.
pub(super) fn is_protected(candidate: &Candidate, keep: &Keep) -> bool {
    candidate.paths.iter().any(|path| keep.protect.holds(path))
}

impl Rule {
    /// Whether it has one.
    pub(super) fn has_pattern(&self) -> bool {
        matches!(self, Rule::Path(_) | Rule::Name(_))
    }

    /// Of one that has a pattern: as it is said, and whether a file matches it.
    pub(super) fn pattern(&self, candidate: &Candidate) -> Option<(String, bool)> {
        let (word, glob) = match self {
            Rule::Path(glob) => ("path", glob),
            Rule::Name(glob) => ("name", glob),
            _ => return None,
        };
        Some((format!("{word}:{}", glob.glob().glob()), self.key(candidate).0 == 0))
    }

    /// The least one is preferred.
    fn key(&self, candidate: &Candidate) -> (i128, Reverse<i128>) {
        let nanoseconds = || {
            let (seconds, nanoseconds) = candidate.mtime;
            i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds)
        };
        let depth = |path: &[u8]| path.iter().filter(|byte| **byte == b'/').count() as i128;
        let depths = || candidate.paths.iter().map(|path| depth(path));
        let least = |value: i128| (value, Reverse(0));
        let most = |value: i128| (0, Reverse(value));
        // A folder, by its own path or by all of its files.
        let matching = |is: &dyn Fn(&[u8]) -> bool| {
            let (paths, inside) = (&candidate.paths, &candidate.inside);
            let all_inside = !inside.is_empty() && inside.iter().all(|path| is(path));
            least(i128::from(!(all_inside || paths.iter().any(|path| is(path)))))
        };
        match self {
            Rule::Newest => most(nanoseconds()),
            Rule::Oldest => least(nanoseconds()),
            Rule::Deepest => most(depths().max().unwrap_or(0)),
            Rule::Shallowest => least(depths().min().unwrap_or(0)),
            Rule::First => least(candidate.root as i128),
            Rule::Path(glob) => matching(&|path| matches(glob, path)),
            Rule::Name(glob) => matching(&|path| {
                let at = path.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
                matches(glob, &path[at..])
            }),
        }
    }
}

fn matches(glob: &GlobMatcher, path: &[u8]) -> bool {
    use std::os::unix::ffi::OsStrExt;
    glob.is_match(std::ffi::OsStr::from_bytes(path))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::plan::guard;

    fn candidate(path: &str, root: usize, mtime: i64) -> Candidate {
        let (paths, inside) = (vec![path.into()], Vec::new());
        Candidate { paths, inside, root, mtime: (mtime, 0), reference: false }
    }

    fn kept(candidates: &[Candidate], rules: &[&str], copies: usize) -> Vec<String> {
        let rules = rules.iter().map(|text| rule(text).unwrap()).collect();
        let stays = choose(candidates, &Keep { rules, copies, ..Keep::default() });
        let paths = candidates.iter().zip(stays).filter(|(_, stays)| *stays);
        paths.map(|(one, _)| String::from_utf8(one.paths[0].clone()).unwrap()).collect()
    }

    #[test]
    fn rules_hold_in_the_order_given_and_paths_decide_at_last() {
        let all = [
            candidate("/a/x/1.jpg", 1, 5),
            candidate("/a/2.jpg", 1, 9),
            candidate("/b/y/z/3.png", 0, 9),
            candidate("/b/4.png", 0, 1),
        ];
        let rows: [(&[&str], &str); 11] = [
            (&[], "/a/2.jpg"),
            (&["newest"], "/a/2.jpg"),
            (&["oldest"], "/b/4.png"),
            (&["deepest"], "/b/y/z/3.png"),
            (&["shallowest"], "/a/2.jpg"),
            (&["first"], "/b/4.png"),
            (&["first", "newest"], "/b/y/z/3.png"),
            (&["name:*.png", "newest"], "/b/y/z/3.png"),
            (&["path:/b/*"], "/b/4.png"),
            (&["path:/b/**", "newest"], "/b/y/z/3.png"),
            (&["newest", "path:/b/**"], "/b/y/z/3.png"),
        ];
        for (rules, expected) in rows {
            assert_eq!(kept(&all, rules, 1), [expected], "{rules:?}");
        }
        assert_eq!(kept(&all, &["newest"], 2), ["/a/2.jpg", "/b/y/z/3.png"]);
        assert_eq!(kept(&all, &["newest"], 9).len(), 4, "all of them");
    }

    #[test]
    fn references_and_what_is_protected_stay_and_count() {
        let mut all = [candidate("/a", 0, 1), candidate("/b", 0, 2), candidate("/c", 0, 3)];
        all[1].reference = true;
        assert_eq!(kept(&all, &["newest"], 1), ["/b"]);
        assert_eq!(kept(&all, &["newest"], 2), ["/b", "/c"]);
        let protect = Protect::new(vec![guard("/[ac]").unwrap()]);
        let keep = Keep { protect, ..Keep::default() };
        assert_eq!(choose(&all, &keep), [true, true, true]);
    }

    #[test]
    fn a_wrong_rule_is_told_what_would_be_right() {
        for wrong in ["", "new", "path", "path:[", "newest:"] {
            assert!(rule(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        /// Every combination of rules leaves a copy, and another order of the same files changes nothing.
        #[test]
        fn every_combination_of_keep_rules_leaves_a_copy(
            files in prop::collection::vec((0..4usize, 0..3i64, any::<bool>(), 0..4usize), 1..8),
            rules in prop::collection::vec(0..7usize, 0..4),
            copies in 0..5usize,
            protected in any::<bool>(),
            turn in 0..8usize,
        ) {
            const RULES: [&str; 7] =
                ["newest", "oldest", "deepest", "shallowest", "first", "path:/0/**", "name:1*"];
            let all: Vec<Candidate> = files.iter().enumerate().map(|(at, (root, time, reference, depth))| {
                let path = format!("/{root}{}/{at}", "/d".repeat(*depth));
                Candidate { reference: *reference, ..candidate(&path, *root, *time) }
            }).collect();
            let keep = Keep {
                rules: rules.iter().map(|at| rule(RULES[*at]).unwrap()).collect(),
                copies,
                protect: Protect::new(protected.then(|| guard("/1/**").unwrap()).into_iter().collect()),
                isolate: false,
            };
            let stays = choose(&all, &keep);
            let kept = stays.iter().filter(|is| **is).count();
            prop_assert!(kept >= copies.max(1).min(all.len()), "{kept} of {}", all.len());
            prop_assert!(all.iter().zip(&stays).all(|(one, stays)| *stays || !one.reference));
            let mut turned = all.clone();
            turned.rotate_left(turn % all.len());
            let mut again = choose(&turned, &keep);
            again.rotate_right(turn % all.len());
            prop_assert_eq!(stays, again);
        }
    }
}
