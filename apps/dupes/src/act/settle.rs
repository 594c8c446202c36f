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
    /// Somebody else was there: whatever it is stays as it is.
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
            (Ours, Nothing | Other | Link) => Stand::NotBegun,
            // A new file at the path is somebody else's matter: ours is aside.
            (Nothing | Other | Link, Ours) => Stand::Aside,
            // Two names where there was one.
            (Ours, Ours) => Stand::Unclear,
            (Nothing | Other | Link, Nothing | Other | Link) => Stand::Unclear,
        },
        Action::Hardlink | Action::Symlink => match (at.into(), aside.into()) {
            (Ours, Nothing) => Stand::NotBegun,
            (Ours, Link) => Stand::LinkMade,
            (Link, Ours) => Stand::Aside,
            (Link, Nothing) => Stand::Done,
            (Ours, Ours | Other) | (Link, Link | Other) | (Nothing | Other, _) => Stand::Unclear,
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
        }
        assert_eq!(stand(Action::Reflink, Victim, Victim), Stand::NotBegun);
    }

    /// All combinations: whatever was not found to be where we would have put it is not touched.
    #[test]
    fn nothing_is_taken_for_ours_that_might_not_be() {
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
                    if matches!(stand, Stand::NotBegun | Stand::LinkMade) {
                        assert!(is_ours(at), "{action} {aside:?}: it is still there");
                    }
                }
            }
        }
    }
}
