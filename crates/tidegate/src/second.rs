//! At most ten a second, and a count of the rest: what keeps a flood of failures or refusals
//! from becoming a flood of lines.

/// What was said within the second that began with the first of it, so that a burst is
/// shown at once.
#[derive(Debug, Default)]
pub(crate) struct Second {
    began_ns: u64,
    said: u32,
    left_out: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Admitted {
    /// Say it; and, if it is the first of a new second, how many of an earlier one were left
    /// out (else 0).
    Say {
        left_out: u64,
    },
    /// The tenth: say that others may follow unseen.
    SayLast,
    LeaveOut,
}

impl Second {
    pub(crate) const MOST: u32 = 10;

    pub(crate) fn admit(&mut self, now_ns: u64) -> Admitted {
        const SECOND_NS: u64 = 1_000_000_000;
        // Saturating: two threads may bring their readings in the wrong order.
        let over = now_ns.saturating_sub(self.began_ns) >= SECOND_NS;
        if self.said == 0 || over {
            let left_out = self.left_out;
            *self = Second { began_ns: now_ns, said: 1, left_out: 0 };
            return Admitted::Say { left_out };
        }
        if self.said == Self::MOST {
            self.left_out += 1;
            return Admitted::LeaveOut;
        }
        self.said += 1;
        if self.said == Self::MOST { Admitted::SayLast } else { Admitted::Say { left_out: 0 } }
    }

    /// How many were left out since that was last said. The second goes on.
    pub(crate) fn take_left_out(&mut self) -> u64 {
        std::mem::take(&mut self.left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAY: Admitted = Admitted::Say { left_out: 0 };

    #[test]
    fn ten_lines_a_second_then_a_count() {
        let mut second = Second::default();
        let start = 5;
        for _ in 1..10 {
            assert_eq!(second.admit(start), SAY);
        }
        assert_eq!(second.admit(start), Admitted::SayLast);
        for _ in 0..7 {
            assert_eq!(second.admit(start + 999_999_999), Admitted::LeaveOut);
        }
        let next = start + 1_000_000_000;
        assert_eq!(second.admit(next), Admitted::Say { left_out: 7 });
        assert_eq!(second.admit(next), SAY);
    }

    #[test]
    fn a_clock_reading_from_the_past_changes_nothing() {
        let mut second = Second::default();
        assert_eq!(second.admit(2_000_000_000), SAY);
        assert_eq!(second.admit(0), SAY);
        assert_eq!(second.began_ns, 2_000_000_000);
    }

    #[test]
    fn what_was_left_out_is_said_once() {
        let mut second = Second::default();
        assert_eq!((0..12).filter(|now| second.admit(*now) != Admitted::LeaveOut).count(), 10);
        assert_eq!((second.take_left_out(), second.take_left_out()), (2, 0));
        assert_eq!(second.admit(0), Admitted::LeaveOut, "the second goes on");
    }
}
