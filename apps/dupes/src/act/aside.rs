//! What the old file of a link is called while it is out of the way, in its own folder: by the run, and the number of
//! the deed. A run that was interrupted leaves it there, and only the journal knows what it is.

/// What the name of an unfinished copy ends with, which an undo (`undo.rs`) makes beside it.
const UNFINISHED: &[u8] = b"-new";

/// Of one deed of one run.
pub(super) fn name(run: &str, number: u64) -> String {
    format!(".dupes-{run}-{number}")
}

/// Of a copy that is to come to that name.
pub(super) fn unfinished(name: &[u8]) -> Vec<u8> {
    [name, UNFINISHED].concat()
}

/// Whether what is at a path, or is called so, is one of these, of whatever run.
pub fn is_one(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let name = name.strip_suffix(UNFINISHED).unwrap_or(name);
    let Some(rest) = name.strip_prefix(b".dupes-") else { return false };
    let digits = |part: &[u8]| part.iter().all(u8::is_ascii_digit);
    let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    match rest.split(|byte| *byte == b'-').collect::<Vec<_>>()[..] {
        [day, time, chance, number] => {
            (day.len(), time.len(), chance.len()) == (8, 6, 6)
                && digits(day)
                && digits(time)
                && chance.iter().all(is_hex)
                && digits(number)
                && number.first().is_some_and(|first| *first != b'0')
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::act::deed::Action;
    use crate::journal::Shelf;

    #[test]
    fn what_a_run_puts_aside_is_known_by_its_name_and_nothing_else_is() {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::open_or_make(&dir.path().join("journal")).unwrap();
        let journal = shelf.begin(Action::Symlink, 1_700_000_000).unwrap();
        for number in [1, 20, u64::MAX] {
            let name = name(journal.id(), number);
            assert!(is_one(name.as_bytes()), "{name}");
            assert!(is_one(&unfinished(format!("/a/{name}").as_bytes())), "{name}");
            assert!(!is_one(format!("/{name}/x").as_bytes()), "a folder of that name is nobody's");
            assert!(!is_one(&name.as_bytes()[1..]), "{name}");
        }
        for other in [
            ".dupes-notes",
            ".dupes-1",
            ".dupes-quarantine-0",
            ".dupes-20231114-221320-0a1b2c",
            ".dupes-20231114-221320-0a1b2c-",
            ".dupes-20231114-221320-0a1b2c-0",
            ".dupes-20231114-221320-0a1b2c-1x",
            ".dupes-20231114-221320-0a1b2c-1-new-new",
            ".dupes-20231114-221320-0A1B2C-1",
            ".dupes-2023111-221320-0a1b2c-1",
            ".dupes-20231114-221320-0a1b2c-1.txt",
            "x.dupes-20231114-221320-0a1b2c-1",
        ] {
            assert!(!is_one(other.as_bytes()), "{other}");
        }
    }
}
