//! What to do about a deed of which the journal knows only that it may have begun. A pure function of what is
//! at the path and what is aside.

use super::deed::Action;
use super::steps::Found;

/// How far a deed really is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stand {
    /// Nothing has happened.
    NotBegun,
    /// A link was made, and is not in its place.
    LinkMade,
    /// The file is out of the way, and nobody has looked again.
    Aside,
    /// All has happened.
    Done,
    /// What is out of the way is what somebody else had just put at the path, and can have it back.
    Caught,
    /// Somebody else was there: whatever it is stays as it is. If something is aside, that is told.
    Unclear,
}

/// What is at a name, as far as it matters here: what was written to is the same file all the same, and who goes on
/// with it compares it.
#[derive(Clone, Copy)]
enum Is {
    Nothing,
    Ours,
    Link,
    Other,
}

impl From<Found> for Is {
    fn from(found: Found) -> Is {
        match found {
            Found::Nothing => Is::Nothing,
            Found::Victim | Found::Altered => Is::Ours,
            Found::Link => Is::Link,
            Found::Other => Is::Other,
        }
    }
}

/// By what was found at the path, and aside.
pub fn stand(action: Action, at: Found, aside: Found) -> Stand {
    use Is::{Link, Nothing, Other, Ours};
    match action {
        Action::Remove | Action::Move => match (at.into(), aside.into()) {
            (Ours, Nothing) => Stand::NotBegun,
            // A new file at the path is somebody else's matter: ours is aside.
            (Nothing | Other | Link, Ours) => Stand::Aside,
            // The folder in the quarantine is ours alone: nobody else puts anything there. Where `move` moves to,
            // it may have been there before.
            (Nothing, Other | Link) if action == Action::Remove => Stand::Caught,
            // With ours at both there are two names where there was one.
            (Ours, Ours | Other | Link)
            | (Nothing, Other | Link)
            | (Other | Link, Other | Link)
            | (Nothing | Other | Link, Nothing) => Stand::Unclear,
        },
        Action::Hardlink | Action::Symlink => match (at.into(), aside.into()) {
            (Ours, Nothing) => Stand::NotBegun,
            // Not in its place, or not any more: that of another one is not ours to judge.
            (_, Link) => Stand::LinkMade,
            (Link, Ours) => Stand::Aside,
            (Link, Nothing) => Stand::Done,
            (Link, Other) => Stand::Caught,
            (Ours, Ours | Other) | (Nothing | Other, Nothing | Ours | Other) => Stand::Unclear,
        },
        // It has no place aside: both are the path. To share blocks once more changes nothing.
        Action::Reflink => match at.into() {
            Ours => Stand::NotBegun,
            Nothing | Link | Other => Stand::Unclear,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Found; 5] =
        [Found::Nothing, Found::Victim, Found::Altered, Found::Link, Found::Other];

    /// Every state that our own steps go through, one after the other, with what it must be taken for.
    #[test]
    fn each_step_of_ours_is_known_again() {
        use Found::{Link, Nothing, Victim};
        for action in [Action::Remove, Action::Move] {
            assert_eq!(stand(action, Victim, Nothing), Stand::NotBegun);
            assert_eq!(stand(action, Nothing, Victim), Stand::Aside);
        }
        for action in [Action::Hardlink, Action::Symlink] {
            assert_eq!(stand(action, Victim, Nothing), Stand::NotBegun);
            assert_eq!(stand(action, Victim, Link), Stand::LinkMade);
            assert_eq!(stand(action, Link, Victim), Stand::Aside);
            assert_eq!(stand(action, Link, Nothing), Stand::Done);
            // Somebody has saved in between, and it has its path back.
            assert_eq!(stand(action, Link, Found::Other), Stand::Caught);
            assert_eq!(stand(action, Found::Other, Link), Stand::LinkMade);
        }
        assert_eq!(stand(Action::Remove, Nothing, Found::Other), Stand::Caught);
        assert_eq!(stand(Action::Reflink, Victim, Victim), Stand::NotBegun);
    }

    /// All combinations: whatever was not found to be where we would have put it is not touched, but where nobody else
    /// can have put it.
    #[test]
    fn nothing_is_taken_for_ours_that_might_not_be() {
        let is_somebody_elses = |found| matches!(found, Found::Link | Found::Other);
        let is_ours = |found| matches!(found, Found::Victim | Found::Altered);
        for action in Action::ALL {
            for at in ALL {
                for aside in ALL {
                    let stand = stand(action, at, aside);
                    if stand == Stand::Aside {
                        assert!(is_ours(aside), "{action} {at:?}");
                        assert!(!is_ours(at), "{action}: there would be one name too many");
                    }
                    if stand == Stand::Done {
                        assert!(action.links() && at == Found::Link, "{action} {at:?} {aside:?}");
                    }
                    if stand == Stand::NotBegun {
                        assert!(is_ours(at), "{action} {aside:?}: it is still there");
                        let is_hidden = action != Action::Reflink && aside != Found::Nothing;
                        assert!(!is_hidden, "{action}: nobody would look for {aside:?} there");
                    }
                    if stand == Stand::LinkMade {
                        assert!(action.links() && aside == Found::Link, "{action} {aside:?}");
                    }
                    if stand == Stand::Caught {
                        assert!(is_somebody_elses(aside), "{action} {at:?} {aside:?}");
                        let is_free = match action {
                            Action::Remove => at == Found::Nothing,
                            _ => action.links() && at == Found::Link,
                        };
                        assert!(
                            is_free,
                            "{action} {at:?}: nothing that he has saved is in the way"
                        );
                    }
                }
            }
        }
    }
}
