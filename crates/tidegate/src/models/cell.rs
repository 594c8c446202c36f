//! The task cell: one winner per claim, one owner per payload, one end per life.

use std::sync::atomic::AtomicBool;
use std::task::{Wake, Waker};

use super::*;
use crate::job::{put, take};
use crate::life::{Look, Won};
use crate::outcome::Cause;
use crate::parker::Parker;
use crate::publish::Published;

/// A value whose drop is counted.
struct Value(Arc<Counts>);

#[derive(Default)]
struct Counts {
    dropped: AtomicUsize,
    freed: AtomicUsize,
}

impl Drop for Value {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, SeqCst);
    }
}

/// The worker's part of settling: the claim is won.
fn settle(life: CellRef, counts: &Arc<Counts>, kind: Kind) -> Published {
    let value = Value(Arc::clone(counts));
    // SAFETY: the claim made the payload ours, and it was moved out at the start.
    life.payload(|words| unsafe { put(words, value) });
    life.publish(kind)
}

/// Takes the payload out and ends the life: what the last owner does, once.
fn collect(life: CellRef, counts: &Counts) {
    // SAFETY: settled, or unclaimed by a handle: the payload holds a `Value` and is ours.
    life.payload(|words| drop(unsafe { take::<Value>(words) }));
    life.retire();
    counts.freed.fetch_add(1, SeqCst);
}

/// How a task's outcome is published: as `settle.rs` does, or by the short way, which goes on by
/// the long one if somebody was there in between.
#[derive(Clone, Copy)]
enum Way {
    Long,
    Short,
}

fn by_each_way(
    names: &'static [&'static str],
    model: impl Fn(&Arc<Outcomes>, Way) + Copy + Send + Sync + 'static,
) {
    for way in [Way::Long, Way::Short] {
        explore(names, move |seen| model(seen, way));
    }
}

fn settle_and_tell(way: Way, life: CellRef, counts: &Arc<Counts>) {
    let won = life.claim_running().expect("nobody else claims here");
    let value = Value(Arc::clone(counts));
    // SAFETY: as in `settle`.
    life.payload(|words| unsafe { put(words, value) });
    let published = match way {
        Way::Long => life.publish(Kind::Completed),
        Way::Short => life.publish_after(won, Kind::Completed),
    };
    match published {
        Published::ToHandle(waker) => waker.into_iter().for_each(Waker::wake),
        Published::Unclaimed => collect(life, counts),
    }
}

fn running(handle: bool) -> (Cell, CellRef) {
    let (owner, life) = Cell::queued(handle);
    assert!(life.claim_start());
    (owner, life)
}

fn assert_ended_once(counts: &Counts) {
    assert_eq!(counts.dropped.load(SeqCst), 1, "the payload was dropped twice, or never");
    assert_eq!(counts.freed.load(SeqCst), 1, "the cell was freed twice, or never");
}

#[derive(Default)]
struct Flag(AtomicBool);
impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, SeqCst);
    }
}

// ---------------------------------------------------------------- claims

#[test]
fn finish_and_abandon_have_one_winner() {
    explore(&["finished", "abandoned"], |seen| {
        let (_cell, life) = running(true);
        let counts = Arc::new(Counts::default());
        life.request_stop(Cause::Handle, 5).unwrap();
        let settle_as = move |won: Option<Won>, kind, counts: &_| {
            assert_eq!(won?.stop_cause(), Some(Cause::Handle));
            assert!(matches!(settle(life, counts, kind), Published::ToHandle(None)));
            Some(kind)
        };
        let (finished, abandoned) = together!(
            [counts] settle_as(life.claim_running(), Kind::CancelledWithError, &counts),
            [counts] settle_as(life.claim_stopped(), Kind::Abandoned, &counts),
        );
        let winner = match (finished, abandoned) {
            (Some(kind), None) => {
                seen.met("finished");
                kind
            }
            (None, Some(kind)) => {
                seen.met("abandoned");
                kind
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(life.look(), Look::Settled(winner, Cause::Handle));
        collect(life, &counts);
        assert_ended_once(&counts);
    });
}

/// Who is told to stop in time knows it, and the first cause stays.
#[test]
fn finish_and_two_stop_requests_agree() {
    explore(&["not told", "told by the handle", "told by the token"], |seen| {
        let (_cell, life) = running(true);
        let (won, handle, token) = together!(
            [] life.claim_running().unwrap().stop_cause(),
            [] life.request_stop(Cause::Handle, 5).map(|_| Cause::Handle),
            [] life.request_stop(Cause::Token, 6).map(|_| Cause::Token),
        );
        assert!(handle.is_none() || token.is_none(), "both were the first");
        assert_eq!(won, handle.or(token), "the request and the end disagree");
        match won {
            None => seen.met("not told"),
            Some(Cause::Handle) => seen.met("told by the handle"),
            Some(_) => seen.met("told by the token"),
        }
        assert_eq!(life.told_at() == 0, won.is_none(), "a time without a stop, or the reverse");
    });
}

/// A request that is too late for its life leaves no time behind: a later life whose number ends
/// alike would take it for its own. Nor does it change the time of the next one.
#[test]
fn a_late_stop_request_leaves_no_time_behind() {
    explore(&["told in time", "too late"], |seen| {
        let (_cell, old) = running(false);
        let new = CellRef::from_parts(old.address(), old.generation() + 1);
        let (told, told_before) = together!(
            [] old.request_stop(Cause::Handle, 5_000).is_some(),
            [] {
                let won = old.claim_running().unwrap();
                assert!(matches!(old.publish(Kind::Completed), Published::Unclaimed));
                old.retire();
                fill(new, "", false);
                assert!(new.claim_start());
                new.request_stop(Cause::Handle, 7_000).unwrap();
                assert_eq!(new.told_at(), 7_000, "not when it was told");
                won.stop_cause().is_some()
            },
        );
        assert_eq!(told, told_before, "the request and the end disagree");
        seen.met(if told { "told in time" } else { "too late" });
        assert_eq!(new.told_at(), 7_000, "the old reference got at the new life");
    });
}

/// Either the stop reaches the task's own token, or the task hears of it when it asks for one.
#[test]
fn a_stop_reaches_a_token_that_is_just_being_made() {
    explore(&["told the token", "told the task"], |seen| {
        let (_cell, life) = running(false);
        let (noted, told) = together!(
            [] life.note_token(),
            [] life.request_stop(Cause::Handle, 5),
        );
        match (noted, told.expect("it runs")) {
            (true, true) => seen.met("told the token"),
            (false, false) => seen.met("told the task"),
            other => panic!("{other:?}: nobody hears of the stop"),
        }
    });
}

/// A reference to an older life changes nothing, whatever the cell does meanwhile.
#[test]
fn a_stale_reference_claims_nothing() {
    explore(&["in time", "told in time", "stale"], |seen| {
        let (_cell, old) = Cell::queued(false);
        let new = CellRef::from_parts(old.address(), old.generation() + 1);
        let ((claimed, told), won) = together!(
            [] (
                old.claim_queued(Cause::Handle).is_some(),
                old.request_stop(Cause::Handle, 5).is_some(),
            ),
            [] {
                let started = old.claim_start();
                started.then(|| {
                    let won = old.claim_running().unwrap();
                    assert!(matches!(old.publish(Kind::Completed), Published::Unclaimed));
                    old.retire();
                    fill(new, "", false);
                    won.stop_cause().is_some()
                })
            },
        );
        assert!(claimed ^ won.is_some(), "both or nobody");
        assert_eq!(told, won == Some(true), "the request and the end disagree");
        seen.met(if claimed {
            "in time"
        } else if told {
            "told in time"
        } else {
            "stale"
        });
        if won.is_some() {
            assert!(new.is_queued() && !new.was_told(), "the old reference got at the new life");
            assert!(!old.is_open());
        }
    });
}

/// A scan reads the name of the life that it asks about, whole, or nothing.
#[test]
fn a_name_is_read_whole_or_not_at_all() {
    // Pieces of one string, so that even a torn one lies inside it.
    const NAMES: &str = "fetch,compress";
    explore(&["old", "nothing", "new"], |seen| {
        let cell = Cell::free();
        let old = CellRef::of_free(cell.0);
        fill(old, &NAMES[..5], false);
        let noted = Arc::clone(seen);
        let place = Arc::new(cell);
        together!(
            [place] {
                let found = CellRef::of_free(place.0);
                let name = if found.is_open() { found.name() } else { None };
                match name {
                    None => noted.met("nothing"),
                    Some("fetch") if found == old => noted.met("old"),
                    Some("compress") if found != old => noted.met("new"),
                    Some(torn) => panic!("read {torn:?}"),
                }
            },
            [place] {
                old.claim_queued(Cause::Handle).unwrap();
                old.retire();
                fill(CellRef::of_free(place.0), &NAMES[6..], false);
            },
        );
    });
}

// ---------------------------------------------------------------- the handle

/// Publish × a waiting handle: it sees the outcome at once, or is woken for it.
#[test]
fn a_waiter_sees_the_outcome_or_is_woken() {
    by_each_way(&["saw the value", "saw it", "was woken"], |seen, way| {
        let (_cell, life) = running(true);
        let counts = Arc::new(Counts::default());
        let noted = Arc::clone(seen);
        together!(
            [counts] settle_and_tell(way, life, &counts),
            [counts] {
                if life.is_completed() {
                    noted.met("saw the value");
                    return collect(life, &counts);
                }
                let parker = Parker::new();
                let waker = Waker::from(Arc::clone(&parker));
                let mut slept = false;
                while !life.register(&waker) {
                    parker.park();
                    slept = true;
                }
                noted.met(if slept { "was woken" } else { "saw it" });
                assert!(matches!(life.look(), Look::Settled(Kind::Completed, _)));
                collect(life, &counts);
            },
        );
        assert_ended_once(&counts);
    });
}

/// Publish × a handle that was polled and is dropped (hazards 79, 82).
#[test]
fn publish_and_detach_free_the_cell_once() {
    by_each_way(
        &["settled first", "publisher frees", "handle frees", "woken in vain"],
        |seen, way| {
            let (_cell, life) = running(true);
            let counts = Arc::new(Counts::default());
            let flag = Arc::new(Flag::default());
            let noted = Arc::clone(seen);
            together!(
                [counts] settle_and_tell(way, life, &counts),
                [counts, flag] {
                    if life.register(&Waker::from(Arc::clone(&flag))) {
                        noted.met("settled first");
                        collect(life, &counts);
                    } else if life.detach() {
                        noted.met("handle frees");
                        collect(life, &counts);
                    } else {
                        noted.met("publisher frees");
                        assert!(!flag.0.load(SeqCst), "woken after it was withdrawn");
                    }
                },
            );
            if flag.0.load(SeqCst) {
                seen.met("woken in vain");
            }
            assert_ended_once(&counts);
            assert_eq!(Arc::strong_count(&flag), 1, "a waker was forgotten");
        },
    );
}

/// Publish × a waker that is withdrawn (a wait that timed out) and replaced by another
/// (hazard 43): the last one registered is woken.
#[test]
fn a_replaced_waker_is_not_the_one_that_counts() {
    by_each_way(&["never slept", "woken by the second", "first was woken, too"], |seen, way| {
        let (_cell, life) = running(true);
        let counts = Arc::new(Counts::default());
        let first = Arc::new(Flag::default());
        assert!(!life.register(&Waker::from(Arc::clone(&first))));
        let noted = Arc::clone(seen);
        together!(
            [counts] settle_and_tell(way, life, &counts),
            [counts] {
                let parker = Parker::new();
                let mut slept = false;
                while !life.register(&Waker::from(Arc::clone(&parker))) {
                    parker.park();
                    slept = true;
                }
                noted.met(if slept { "woken by the second" } else { "never slept" });
                collect(life, &counts);
            },
        );
        if first.0.load(SeqCst) {
            seen.met("first was woken, too");
        }
        assert_ended_once(&counts);
        assert_eq!(Arc::strong_count(&first), 1, "a waker was forgotten");
    });
}

/// Withdraw × publish: while the publisher moves the waker out, the handle keeps off.
#[test]
fn withdraw_waits_for_the_publisher() {
    by_each_way(&["withdrawn", "settled"], |seen, way| {
        let (_cell, life) = running(true);
        let counts = Arc::new(Counts::default());
        let flag = Arc::new(Flag::default());
        assert!(!life.register(&Waker::from(Arc::clone(&flag))));
        let noted = Arc::clone(seen);
        together!(
            [counts] settle_and_tell(way, life, &counts),
            [counts] {
                if life.withdraw_waker() {
                    noted.met("settled");
                    collect(life, &counts);
                } else {
                    noted.met("withdrawn");
                    if life.detach() {
                        collect(life, &counts);
                    }
                }
            },
        );
        assert_ended_once(&counts);
        assert_eq!(Arc::strong_count(&flag), 1, "a waker was forgotten");
    });
}

/// The supervisor gives a task up and names the cause, while its handle comes and goes.
#[test]
fn a_cause_survives_the_handle_s_flags() {
    explore(&["collected", "detached"], |seen| {
        let (_cell, life) = running(true);
        life.request_stop(Cause::Handle, 5).unwrap();
        let flag = Arc::new(Flag::default());
        let (ended, detached) = together!(
            [] {
                life.claim_stopped().unwrap();
                life.set_cause(Cause::Shutdown);
                matches!(life.publish(Kind::Abandoned), Published::ToHandle(_))
            },
            [flag] !life.register(&Waker::from(flag)) && !life.detach(),
        );
        assert!(ended ^ detached, "both or nobody will free it");
        if ended {
            seen.met("collected");
            assert_eq!(life.look(), Look::Settled(Kind::Abandoned, Cause::Shutdown));
        } else {
            seen.met("detached");
        }
    });
}
