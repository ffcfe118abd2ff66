//! The curve of a running database: the recorder feeds the models directly.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;

use poolwright_mrc::analysis::{CacheSizes, Ended, MrcResult};
use poolwright_mrc::input::{Feed, Gone, live};
use poolwright_record::{Recorder, Summary, Watcher};
use poolwright_trace::{Event, File};

use super::{Args, with_option};
use crate::commands::record;
use crate::interrupt;

/// Passes the recorder's events to the models.
struct Tap {
    /// `None` after the models have ended.
    feed: Option<Feed>,
    gone: Rc<Cell<bool>>,
}

impl Tap {
    fn with(&mut self, act: impl FnOnce(&mut Feed) -> Result<(), Gone>) {
        if self.feed.as_mut().is_some_and(|feed| act(feed).is_err()) {
            self.feed = None;
            self.gone.set(true);
        }
    }
}

impl Watcher for Tap {
    fn file(&mut self, file: &File) {
        if let Some(feed) = &mut self.feed {
            feed.file(file);
        }
    }

    fn event(&mut self, event: &Event) {
        self.with(|feed| feed.event(*event));
    }

    fn tick(&mut self) {
        self.with(Feed::tick);
    }
}

impl Drop for Tap {
    /// Passes on the last events: the recorder drops its watcher after the last event.
    fn drop(&mut self) {
        if let Some(feed) = self.feed.take() {
            // If the models have ended, their thread returns the error.
            let _ = feed.end();
        }
    }
}

/// Records until the time is over, Ctrl-C or the end of the process, and returns the curves.
pub fn run(args: &Args) -> anyhow::Result<MrcResult> {
    let subject = record::subject(args.dir.as_deref(), args.pid, args.zvol.as_deref())?;
    let source = subject.describe();
    let (feed, input) = live(args.select());
    let config = args.request().config(&input, |_, _| Ok(CacheSizes::Halves)).map_err(with_option)?;
    let mut sweep = config.sweep().map_err(|error| with_option(error.into()))?;
    let gone = Rc::new(Cell::new(false));
    let tap = Tap { feed: Some(feed), gone: Rc::clone(&gone) };
    let (summary, read) = std::thread::scope(|scope| {
        // The input is dropped with the thread, so the recorder notices if the models fail.
        let models = &mut sweep;
        let shown = scope.spawn(move || {
            let mut input = input;
            models.show(&mut input, |_| true)
        });
        let recorded = Recorder::watch(subject, args.buffer, Box::new(tap)).and_then(|recorder| {
            let bar = record::bar(args.duration, &source);
            let end = args.duration.map(|duration| Instant::now() + duration);
            let over = || end.is_some_and(|end| Instant::now() >= end);
            let summary = recorder.run(
                || interrupt::requested() || gone.get() || over(),
                |progress| record::show(&bar, progress),
            );
            bar.finish_and_clear();
            summary
        });
        let read = shown.join().map_err(|_| anyhow::anyhow!("a model thread panicked"))?;
        Ok::<_, anyhow::Error>((recorded?, read.map_err(|error| with_option(error.into()))?))
    })?;
    Ok(with_summary(MrcResult::new(source, "live", &config, &sweep, &read), &summary))
}

/// Adds the recorder's summary to the result.
fn with_summary(result: MrcResult, summary: &Summary) -> MrcResult {
    let ended = match summary.trace.events {
        0 if interrupt::requested() => Ended::Interrupted,
        0 => Ended::Empty,
        // Ctrl-C is a normal end of a recording.
        _ => Ended::Done,
    };
    MrcResult {
        duration_ns: summary.meta.duration_ns,
        lost_events: summary.meta.lost_events,
        unseen: summary.meta.unseen.clone(),
        ended,
        ..result
    }
}
