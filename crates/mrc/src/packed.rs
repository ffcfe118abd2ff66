//! What compressed records take in the cache, where only their mean is known.

use crate::hash::mix;
use crate::record_map::INDEX_BITS;
use crate::record_stream::Sizes;

/// Records that take `ratio` times less in the cache than they hold, on average, as `compressratio` of a dataset or the
/// ratio of an estimate says it: both count whole sectors of `sector` bytes. So each record has a whole number of them,
/// the next below or above its mean, the same at each access and drawn so that the mean comes out; it has one at least,
/// and is never larger than it is.
pub fn packed(ratio: f64, sector: u32) -> Sizes {
    Box::new(move |file, index, bytes| {
        let mean = f64::from(bytes) / ratio / f64::from(sector);
        let drawn = mix(u64::from(file) << INDEX_BITS ^ index) as f64 / u64::MAX as f64;
        let sectors = mean.floor() as u32 + u32::from(drawn < mean.fract());
        sectors.max(1).saturating_mul(sector).min(bytes)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_have_whole_sectors_and_the_mean_that_was_asked_for() {
        for (ratio, sector, bytes) in
            [(1.5, 4096, 8192), (1.33, 512, 8192), (2.7, 4096, 131_072), (1.0, 4096, 16384)]
        {
            let sizes = packed(ratio, sector);
            let all: Vec<u32> = (0..10_000).map(|index| sizes(3, index, bytes)).collect();
            assert!(all.iter().all(|size| size % sector == 0 && *size <= bytes));
            let mean = all.iter().map(|size| f64::from(*size)).sum::<f64>() / 1e4;
            assert!((mean * ratio / f64::from(bytes) - 1.0).abs() < 0.015, "{ratio}: {mean} of {bytes}");
            assert_eq!(sizes(3, 7, bytes), all[7]);
        }
        assert_eq!(packed(1000.0, 4096)(0, 0, 8192), 4096);
        assert_eq!(packed(1.5, 4096)(0, 0, 512), 512);
    }
}
