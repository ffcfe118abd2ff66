//! The hash that selects samples and compressed sizes.

/// An invertible hash in which every output bit depends on every input bit (variant 13 of Stafford, "Better bit
/// mixing", 2011; the finaliser of SplitMix64).
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
