//! What was cut off: each deed that may have begun is brought to an end, or taken back.

use super::deed::{Action, Deed, Stage};
use super::ground::Ground;
use super::last_look::LastLook;
use super::made::Made;
use super::purge::Copies;
use super::settle::{Stand, stand};
use super::steps::{End, Found, found, left_aside, look_again, put_back, swap_back, unmake};
use super::why::Why;
use super::{ctime_of, durable, purge, settle_durably, trees, undo};
use crate::journal::{Journal, Line, NO_TIME, Story};
use crate::stop::Stop;

/// What is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// What was intended is done, with all checks.
    Finish,
    /// What was begun is taken back.
    RollBack,
    /// Nothing is touched: whatever is at a path or aside stays there, and the journal goes on naming what is aside.
    GiveUp,
}

/// What has become of each deed that was open.
pub type Ends = Vec<(Deed, End)>;

/// Settles all that is open. What can't be settled now stays open, and is told. Of a run that is being taken back the
/// end is for who undoes the rest.
pub fn settle(
    story: &Story,
    copies: &Copies,
    ground: &Ground,
    way: Way,
    journal: &mut Journal,
    stop: &Stop,
) -> Result<Ends, Why> {
    let mut ends: Ends = Vec::new();
    for (deed, stage) in story.deeds.iter().filter(|(_, stage)| stage.is_open()) {
        if way == Way::GiveUp {
            let line = given_up(deed, *stage, ground);
            let end = match line {
                Line::Left(_) => End::Back(left_aside(deed, ground)),
                _ => End::Done,
            };
            journal.add(&line);
            ends.push((deed.clone(), end));
            continue;
        }
        let end = match stage {
            Stage::Undoing(time) => {
                let end = undo::one((story, copies), deed, ground, stop);
                journal.add(&undo::line(deed, &end, *time, ground));
                end
            }
            // These two can be asked for again at any time: none of them stays open.
            Stage::Purging => {
                let end = match way {
                    Way::RollBack => kept(deed, ground),
                    _ => purge::one(deed, ground, stop),
                };
                // Nobody knows how far it was: only what is whole is as before.
                let begun = trees::missing(deed, ground) != Ok(0);
                journal.add(&purge::line(deed, &end, begun));
                end
            }
            _ => {
                let mut pair = (deed.clone(), settle_one(deed, ground, way, stop));
                settle_durably(&mut [&mut pair], ground, None, journal, LastLook::heeding(stop))?;
                pair.1
            }
        };
        // That is what was wanted.
        let is_back = way == Way::RollBack
            && end == End::Back(Why::Stopped)
            && !matches!(stage, Stage::Undoing(_));
        ends.push((deed.clone(), if is_back { End::Done } else { end }));
    }
    if way == Way::Finish {
        Made::of(story).open_up(ground);
    }
    let is_settled = ends.iter().all(|(_, end)| !matches!(end, End::Open(_)));
    if is_settled && way != Way::RollBack {
        journal.add(&Line::End);
    }
    durable(journal)?;
    Ok(ends)
}

/// What the journal says of one that nobody goes on with. As far as that can be seen; it names the place of what is
/// aside, and of what may be where nobody can look.
fn given_up(deed: &Deed, stage: Stage, ground: &Ground) -> Line {
    let seen =
        found(deed, ground, &deed.at).and_then(|at| Ok((at, found(deed, ground, &deed.aside)?)));
    let at = match seen {
        Ok((at, aside)) if aside == Found::Nothing || deed.action == Action::Reflink => at,
        // The folder that it would have been moved to was never made.
        Err(Why::Gone) if found(deed, ground, &deed.at) == Ok(Found::Victim) => Found::Victim,
        _ => return Line::Left(deed.number),
    };
    match (stage, at) {
        (Stage::Undoing(_), Found::Victim | Found::Altered) => Line::Undone(deed.number, None),
        (Stage::Undoing(time), _) => Line::Done(deed.number, time),
        (Stage::Purging, _) => Line::Purged(deed.number),
        (_, Found::Link) if deed.action.links() => Line::Done(deed.number, NO_TIME),
        _ => Line::Back(deed.number, ctime_of(deed, ground)),
    }
}

/// Not purged after all, unless it is gone already.
fn kept(deed: &Deed, ground: &Ground) -> End {
    match found(deed, ground, &deed.aside) {
        Ok(Found::Nothing) => End::Done,
        Ok(_) => End::Back(match trees::missing(deed, ground) {
            Ok(0) => Why::Stopped,
            Ok(gone) => trees::cut(deed, ground, gone, None),
            Err(why) => why,
        }),
        Err(why) => End::Back(why),
    }
}

fn settle_one(deed: &Deed, ground: &Ground, way: Way, stop: &Stop) -> End {
    let seen =
        found(deed, ground, &deed.at).and_then(|at| Ok((at, found(deed, ground, &deed.aside)?)));
    let (at, aside) = match seen {
        Ok(seen) => seen,
        Err(why) => return End::Open(why),
    };
    match (stand(deed.action, at, aside), way) {
        (Stand::NotBegun, Way::Finish) => begin(deed, ground, stop),
        (Stand::NotBegun, _) => End::Back(Why::Stopped),
        (Stand::LinkMade, way) => match (unmake(deed, ground, Why::Stopped, stop), way) {
            (End::Back(Why::Stopped), Way::Finish) => begin(deed, ground, stop),
            (end, _) => end,
        },
        (Stand::Aside, Way::Finish) => match look_again(deed, ground, stop) {
            Ok(()) => End::Done,
            Err(why) => back(deed, ground, why, stop),
        },
        (Stand::Aside, _) => back(deed, ground, Why::Stopped, stop),
        // To take it back is to undo it.
        (Stand::Done, _) => End::Done,
        (Stand::Caught, _) => give_back(deed, ground, stop),
        // Somebody has taken the link away.
        (Stand::Unclear, Way::RollBack)
            if deed.action.links()
                && at == Found::Nothing
                && matches!(aside, Found::Victim | Found::Altered) =>
        {
            to_free_path(deed, ground, Why::Stopped)
        }
        (Stand::Unclear, _) if aside == Found::Nothing || deed.action == Action::Reflink => {
            End::Back(Why::Changed)
        }
        // Whatever is there is not ours to touch, and nobody would look for it there.
        (Stand::Unclear, _) => End::Back(left_aside(deed, ground)),
    }
}

/// It was cut off between the step that took it and the look at what that was.
fn give_back(deed: &Deed, ground: &Ground, stop: &Stop) -> End {
    if deed.action.links() {
        return swap_back(deed, ground, Why::Changed, stop);
    }
    to_free_path(deed, ground, Why::Changed)
}

fn to_free_path(deed: &Deed, ground: &Ground, why: Why) -> End {
    match put_back(deed, ground, why) {
        // It has not got it back: there is something by now, or the folder is gone.
        End::Open(Why::Occupied | Why::Gone) => End::Back(left_aside(deed, ground)),
        end => end,
    }
}

/// What can't go back to its path, since something is there or the folder is gone, waits where it was put.
fn back(deed: &Deed, ground: &Ground, why: Why, stop: &Stop) -> End {
    if deed.action.links() {
        return swap_back(deed, ground, why, stop);
    }
    match put_back(deed, ground, why) {
        End::Open(why) => End::Aside(why),
        end => end,
    }
}

/// From its beginning: the bytes are compared before and after.
fn begin(deed: &Deed, ground: &Ground, stop: &Stop) -> End {
    match super::check::still(deed, ground, stop) {
        Ok(()) => super::do_one(deed, ground, stop),
        Err(why) => End::Back(why),
    }
}
