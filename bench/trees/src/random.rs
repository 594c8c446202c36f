//! Numbers that look random and are the same everywhere, without a dependency.

/// SplitMix64: a counter and a mixing function, so that any number can begin a sequence.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// The sequence of one thing: what it is (`purpose`) and which one (`number`).
    pub(crate) fn of(seed: u64, purpose: &str, number: u64) -> Random {
        let purpose = hash(purpose.as_bytes()) as u64;
        Random(mix(mix(seed ^ purpose).wrapping_add(number)))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Less than `end`, which is not 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    pub(crate) fn one_in(&mut self, cases: u64) -> bool {
        self.below(cases) == 0
    }

    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        for part in bytes.chunks_mut(8) {
            part.copy_from_slice(&self.next().to_le_bytes()[..part.len()]);
        }
    }
}

fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// 128 bits over two lanes: to tell the contents made here apart, against nobody's will.
pub(crate) fn hash(bytes: &[u8]) -> u128 {
    let mut lanes = [0x243f_6a88_85a3_08d3 ^ bytes.len() as u64, 0x1319_8a2e_0370_7344];
    for part in bytes.chunks(16) {
        let mut words = [0; 16];
        words[..part.len()].copy_from_slice(part);
        let (low, high) = words.split_at(8);
        let low = u64::from_le_bytes(low.try_into().expect("half of sixteen bytes"));
        let high = u64::from_le_bytes(high.try_into().expect("half of sixteen bytes"));
        lanes = [mix(lanes[0] ^ low).wrapping_add(lanes[1]), mix(lanes[1] ^ high) ^ lanes[0]];
    }
    u128::from(mix(lanes[0] ^ lanes[1].rotate_left(32))) << 64 | u128::from(mix(lanes[1]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_numbers_never_change() {
        // A tree that was made elsewhere must be the same one.
        let mut random = Random(0);
        assert_eq!(random.next(), 0xe220_a839_7b1d_cdaf, "SplitMix64 begins so");
        let mut bytes = [0; 11];
        Random::of(1, "a", 2).fill(&mut bytes);
        assert_eq!(hash(&bytes), 0xdaa9_2769_b7c7_ceed_ca45_2e04_2e32_efca);
    }

    #[test]
    fn every_bit_counts_in_a_hash() {
        let mut seen = HashSet::from([hash(&[0; 40])]);
        for bit in 0..320 {
            let mut bytes = [0; 40];
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(seen.insert(hash(&bytes)), "bit {bit}");
        }
        assert!((0..40).all(|length| seen.insert(hash(&vec![0; length]))), "a length");
    }

    #[test]
    fn below_stays_below_and_reaches_all() {
        let mut random = Random::of(1, "test", 0);
        let seen: HashSet<_> = (0..1000).map(|_| random.below(7)).collect();
        assert_eq!(seen, (0..7).collect());
    }
}
