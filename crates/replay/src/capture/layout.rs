//! The regions that a capture takes, and the arrangement of their data in the image.

use std::collections::BTreeMap;

use poolwright_trace::Trace;
use poolwright_trace::layout::Role;

use super::{ALIGN, Capture, Extent, is_whole};
use crate::{Error, Result};

/// The maximum number of bytes of logs that a trace may touch; all of them are replayed. It is several times the
/// capacity of a trial's pool.
const MAX_LOG: u64 = 1 << 40;

/// Merged ranges of regions of a file: first region to the end (exclusive).
type Regions = BTreeMap<u64, u64>;

/// The extents of each file, and the length of their image in bytes.
#[derive(Default)]
pub(super) struct Layout {
    files: Vec<Vec<Extent>>,
    pub(super) image: u64,
}

impl Capture {
    /// Selects the share of regions and lays them out. The image takes at most `max_bytes`, plus a quarter of that,
    /// plus one region for each kind of log. Returns the image's length in bytes.
    pub(super) fn lay_out(&mut self, trace: &Trace, max_bytes: u64) -> Result<u64> {
        const ATTEMPTS: u32 = 20;
        let logs = |(regions, role): (&Regions, &Role)| -> u64 {
            if is_whole(*role) {
                regions.iter().map(|(first, last)| (last - first) * self.region).sum()
            } else {
                0
            }
        };
        let logged: u64 = self.touched_regions(trace).iter().zip(&self.roles).map(logs).sum();
        if logged > MAX_LOG {
            return Err(Error::TooMuchLog { bytes: logged, most: MAX_LOG });
        }
        let whole = self.layout(trace, u64::MAX);
        let touched = whole.image;
        if touched == 0 {
            return Ok(0);
        }
        let too_small = Error::SampleTooSmall { max: max_bytes, touched };
        if touched <= max_bytes {
            self.use_layout(whole);
            return Ok(touched);
        }
        let logs = super::WHOLE_ROLES.iter().filter(|role| self.roles.contains(role)).count() as u64;
        let most = max_bytes.saturating_add(max_bytes / 4).saturating_add(logs * self.region);
        self.rate = max_bytes as f64 / touched as f64;
        for _ in 0..ATTEMPTS {
            let layout = self.layout(trace, max_bytes);
            if layout.files.iter().all(Vec::is_empty) {
                return Err(too_small);
            }
            if layout.image <= most {
                let image = layout.image;
                self.use_layout(layout);
                return Ok(image);
            }
            // A few large regions can exceed their share considerably.
            self.rate *= 0.95 * most as f64 / layout.image as f64;
        }
        Err(too_small)
    }

    fn use_layout(&mut self, layout: Layout) {
        for (file, extents) in self.files.iter_mut().zip(layout.files) {
            file.extents = extents;
        }
    }

    /// Returns the regions of each file that are touched by operations that the capture keeps.
    pub(super) fn touched_regions(&self, trace: &Trace) -> Vec<Regions> {
        let mut regions = vec![Regions::new(); trace.files.len()];
        for event in trace.events.iter().filter(|e| e.moves_bytes() && e.len > 0 && self.keeps(e)) {
            let mut first = event.offset / self.region;
            let mut last = event.offset.saturating_add(event.len).div_ceil(self.region);
            let of: &mut Regions = &mut regions[event.file as usize];
            while let Some((&f, &l)) = of.range(..=last).next_back().filter(|(_, l)| **l >= first) {
                if f <= first && l >= last {
                    (first, last) = (f, l);
                    break;
                }
                of.remove(&f);
                (first, last) = (first.min(f), last.max(l));
            }
            of.insert(first, last);
        }
        regions
    }

    /// Lays out what the capture keeps at its current rate. The logs get their share of `max_bytes`; operations beyond
    /// it reuse data of the same log.
    pub(super) fn layout(&self, trace: &Trace, max_bytes: u64) -> Layout {
        let runs = self.runs(trace);
        let mut layout = Layout { files: vec![Vec::new(); runs.len()], image: 0 };
        for role in super::WHOLE_ROLES {
            let files: Vec<usize> = (0..runs.len()).filter(|file| self.roles[*file] == role).collect();
            let touched: u64 = files.iter().flat_map(|file| &runs[*file]).map(|(_, len)| len).sum();
            let share = if max_bytes == u64::MAX { touched } else { (touched as f64 * self.rate) as u64 };
            let share = share.next_multiple_of(self.region);
            let start = layout.image;
            for file in files {
                layout.log(file, &runs[file], start, share, self.region);
            }
        }
        for (file, runs) in runs.iter().enumerate().filter(|(file, _)| !is_whole(self.roles[*file])) {
            for (offset, len) in runs {
                layout.own(file, *offset, *len);
            }
        }
        layout
    }

    /// Returns offset and length in bytes of the touched ranges of each file: whole regions, up to the end of the file.
    fn runs(&self, trace: &Trace) -> Vec<Vec<(u64, u64)>> {
        let mut end: Vec<u64> = trace.files.iter().map(|file| file.size).collect();
        for event in trace.events.iter().filter(|e| e.moves_bytes() && self.keeps(e)) {
            let end: &mut u64 = &mut end[event.file as usize];
            *end = (*end).max(event.offset.saturating_add(event.len));
        }
        let cut = |(regions, end): (Regions, u64)| -> Vec<(u64, u64)> {
            let run = |(first, last): (u64, u64)| {
                let offset = first * self.region;
                (offset, last.saturating_mul(self.region).min(end) - offset)
            };
            regions.into_iter().map(run).collect()
        };
        self.touched_regions(trace).into_iter().zip(end).map(cut).collect()
    }
}

impl Layout {
    fn own(&mut self, file: usize, offset: u64, len: u64) {
        self.files[file].push(Extent { offset, len, at: self.image, real: 0, borrowed: false });
        self.image = self.image.saturating_add(len.next_multiple_of(ALIGN));
    }

    /// Lays out a file of a log. The file gets image space of its own until the log, whose image begins at `start`, has
    /// used its share; then its extents reuse data from that image in turn.
    fn log(&mut self, file: usize, runs: &[(u64, u64)], start: u64, share: u64, region: u64) {
        let mut next = start;
        for (offset, len) in runs {
            let left = share.saturating_sub(self.image - start);
            let own = (*len).min(left);
            if own > 0 {
                self.own(file, *offset, own);
            }
            let mut done = own;
            while done < *len {
                let piece = (len - done).min(region).min(self.image - start);
                if next + piece > self.image {
                    next = start;
                }
                self.files[file].push(Extent {
                    offset: offset + done,
                    len: piece,
                    at: next,
                    real: 0,
                    borrowed: true,
                });
                next += piece.next_multiple_of(ALIGN);
                done += piece;
            }
        }
    }
}
