//! Folders that are alike, as rows: those with the largest winnings.

use serde_json::{Value, json};

use super::Limits;
use crate::alike::{Alike, Containment, ExactSet, PartialPair, Sample};
use crate::escape::escaped;
use crate::report::folders::{Report, similarity};

/// Names of files that are told of a pair, for each way in which it differs.
const EXAMPLES: usize = 5;

#[derive(Debug)]
pub(super) struct Claims {
    /// As objects.
    pub(super) rows: Vec<Value>,
    /// How many there are.
    pub(super) all: usize,
    /// False: a limit of the search was reached.
    pub(super) is_complete: bool,
}

enum Claim<'a> {
    Equal(&'a ExactSet),
    Alike(&'a PartialPair),
    Held(&'a Containment),
}

impl Claims {
    /// `number` says which number a folder of the database has in the page.
    pub(super) fn new(
        report: &Report,
        limits: &Limits,
        mut number: impl FnMut(i64) -> i64,
    ) -> Claims {
        let Alike { exact, partial, contained, is_complete, .. } = &report.alike;
        let exact = exact.iter().map(|set| (set.winnings, Claim::Equal(set)));
        let partial = partial.iter().map(|pair| (pair.winnings, Claim::Alike(pair)));
        let contained = contained.iter().map(|held| (held.winnings, Claim::Held(held)));
        let mut claims: Vec<(u64, Claim<'_>)> = exact.chain(partial).chain(contained).collect();
        claims.sort_by_key(|(winnings, _)| std::cmp::Reverse(*winnings));
        let all = claims.len();
        claims.truncate(limits.claims);
        let mut row = |claim: &Claim<'_>| match claim {
            Claim::Equal(set) => equal(report, set, limits.names_of_set, &mut number),
            Claim::Alike(pair) => alike(report, pair, &mut number),
            Claim::Held(held) => held_by(report, held, &mut number),
        };
        let rows = claims.iter().map(|(_, claim)| row(claim)).collect();
        Claims { rows, all, is_complete: *is_complete }
    }
}

fn numbers(report: &Report, folders: &[u32], number: &mut impl FnMut(i64) -> i64) -> Vec<i64> {
    folders.iter().map(|folder| report.ids.get(folder).map_or(-1, |id| number(*id))).collect()
}

/// Which of these, by their places, can't be looked at now.
fn offline(report: &Report, folders: &[u32]) -> Vec<usize> {
    let is_offline = |(_, folder): &(usize, &u32)| report.offline.contains(folder);
    folders.iter().enumerate().filter(is_offline).map(|(at, _)| at).collect()
}

fn equal(
    report: &Report,
    set: &ExactSet,
    most: usize,
    number: &mut impl FnMut(i64) -> i64,
) -> Value {
    let shown = &set.folders[..set.folders.len().min(most)];
    json!({
        "kind": "equal",
        "reclaimable": set.winnings,
        "folders": numbers(report, shown, number),
        "offline": offline(report, shown),
        "more": set.folders.len() - shown.len(),
        "files": set.files,
        "bytes": set.bytes,
        "in_pair": set.is_in_pair,
    })
}

fn alike(report: &Report, pair: &PartialPair, number: &mut impl FnMut(i64) -> i64) -> Value {
    let names = |files: &mut dyn Iterator<Item = u32>, folder: u32| -> Vec<String> {
        let names = files.take(EXAMPLES).map(|file| escaped(report.name(file, folder)).to_string());
        names.collect()
    };
    let of_both = |samples: &[Sample<u32>; 2]| -> Vec<Value> {
        let sides = samples.iter().zip(pair.folders);
        let of_side = |(sample, folder): (&Sample<u32>, u32)| {
            json!([sample.count, names(&mut sample.examples.iter().copied(), folder)])
        };
        sides.map(of_side).collect()
    };
    let both = |sample: &Sample<[u32; 2]>| {
        let first = &mut sample.examples.iter().map(|[file, _]| *file);
        json!([sample.count, names(first, pair.folders[0])])
    };
    json!({
        "kind": "alike",
        "reclaimable": pair.winnings,
        "folders": numbers(report, &pair.folders, number),
        "offline": offline(report, &pair.folders),
        "similarity": similarity(pair),
        "files": pair.files,
        "shared": pair.shared,
        "bytes": pair.shared_bytes,
        "only": of_both(&pair.only),
        "not_compared": of_both(&pair.not_compared),
        "other_content": both(&pair.other_content),
        "other_time": both(&pair.other_time),
    })
}

fn held_by(report: &Report, held: &Containment, number: &mut impl FnMut(i64) -> i64) -> Value {
    json!({
        "kind": "held",
        "reclaimable": held.winnings,
        "folders": numbers(report, &[held.folder, held.within], number),
        "offline": offline(report, &[held.folder, held.within]),
        "files": held.files,
        "bytes": held.bytes,
        "in_pair": held.is_in_pair,
    })
}
