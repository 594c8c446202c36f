//! What a folder has, by name: as it comes from an index, in order, and looked up once for each name.
//! A table of hashes would cost a string and a hash for each file of a tree in which nothing has changed.

/// Names in one block, in order, each with something until that is taken.
#[derive(Debug)]
pub struct ByName<T> {
    names: Vec<u8>,
    entries: Vec<Entry<T>>,
}

#[derive(Debug)]
struct Entry<T> {
    /// Where its name ends in the block.
    end: usize,
    value: Option<T>,
}

impl<T> Default for ByName<T> {
    fn default() -> ByName<T> {
        ByName { names: Vec::new(), entries: Vec::new() }
    }
}

impl<T> ByName<T> {
    /// The next one. False: it does not come after all others, as it would from an index that is not damaged.
    #[must_use]
    pub fn push(&mut self, name: &[u8], value: T) -> bool {
        let last = self.entries.len().checked_sub(1);
        if last.is_some_and(|last| self.name(last) >= name) {
            return false;
        }
        self.names.extend_from_slice(name);
        self.entries.push(Entry { end: self.names.len(), value: Some(value) });
        true
    }

    /// What it has by that name, if that was not taken before.
    pub fn take(&mut self, name: &[u8]) -> Option<T> {
        let (mut low, mut high) = (0, self.entries.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.name(middle).cmp(name) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return self.entries[middle].value.take(),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// What was not taken, in the order of names.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &T)> {
        let left = self.entries.iter().enumerate();
        left.filter_map(|(at, entry)| entry.value.as_ref().map(|value| (self.name(at), value)))
    }

    /// The same, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.iter_mut().filter_map(|entry| entry.value.as_mut())
    }

    fn name(&self, at: usize) -> &[u8] {
        let begin = at.checked_sub(1).map_or(0, |before| self.entries[before].end);
        &self.names[begin..self.entries[at].end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_found_once_and_the_rest_is_left_in_order() {
        let names: [&[u8]; 6] = [b"", b"A", b"a", b"a\0", b"aa", b"\xff"];
        let mut all = ByName::default();
        assert!(names.iter().enumerate().all(|(at, name)| all.push(name, at)));
        for missing in [&b"0"[..], b"a\0\0", b"ab", b"\xff\xff"] {
            assert_eq!(all.take(missing), None);
        }
        for taken in [4, 0, 5] {
            assert_eq!(all.take(names[taken]), Some(taken));
            assert_eq!(all.take(names[taken]), None, "it was taken");
        }
        all.values_mut().for_each(|value| *value += 10);
        let left: Vec<_> = all.iter().map(|(name, value)| (name, *value)).collect();
        assert_eq!(left, [(names[1], 11), (names[2], 12), (names[3], 13)]);
        assert_eq!(ByName::<()>::default().take(b""), None);
    }

    #[test]
    fn names_that_do_not_come_in_order_are_refused() {
        let mut all = ByName::default();
        assert!(all.push(b"b", ()));
        assert!(!all.push(b"a", ()) && !all.push(b"b", ()) && all.push(b"c", ()));
        assert_eq!(all.iter().count(), 2);
    }
}
