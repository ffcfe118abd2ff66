//! Sizes of compressed records in the cache, if only their mean ratio is known.

use poolwright_trace::distinct::mix;

use crate::access::key;
use crate::record_stream::Sizes;

/// Sizes of records that compress by `ratio` on average, as defined by the property `compressratio` and by an estimate:
/// both count whole sectors of `sector` bytes. Each record takes a whole number of sectors, the one next below or above
/// its mean. A hash of the record chooses between them, so that the size is the same at each access and the mean is
/// right. A record takes at least one sector, and never more than its logical size.
pub fn packed(ratio: f64, sector: u32) -> Sizes {
    Box::new(move |file, index, bytes| {
        let mean = f64::from(bytes) / ratio / f64::from(sector);
        let drawn = mix(key(file.into(), 0) ^ index) as f64 / u64::MAX as f64;
        let sectors = mean.floor() as u32 + u32::from(drawn < mean.fract());
        sectors.max(1).saturating_mul(sector).min(bytes)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_have_whole_sectors_and_the_requested_mean() {
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
