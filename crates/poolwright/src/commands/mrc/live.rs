//! The curve of what a database does now: recorded, and shown to the models while it runs.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;

use poolwright_mrc::Input as _;
use poolwright_mrc::input::{Feed, live};
use poolwright_record::{Recorder, Subject, Summary, Watcher};
use poolwright_trace::{Event, File};

use super::result::{Ended, MrcResult};
use super::sizes::{self, Sizes};
use super::{Args, check, config, models, recordsizes, select};
use crate::commands::record;
use crate::interrupt;

/// Hands on what the recorder sees.
struct Tap {
    /// `None` once the models have gone.
    feed: Option<Feed>,
    gone: Rc<Cell<bool>>,
}

impl Tap {
    fn with(&mut self, act: impl FnOnce(&mut Feed) -> Result<(), poolwright_mrc::input::Gone>) {
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
    /// The recorder drops it when it has told all.
    fn drop(&mut self) {
        if let Some(feed) = self.feed.take() {
            // Who has gone has said why.
            let _ = feed.end();
        }
    }
}

/// Records until told to stop.
pub fn run(args: &Args) -> anyhow::Result<MrcResult> {
    let subject = match (&args.dir, args.pid) {
        (Some(dir), _) => Subject::Dir(dir.clone()),
        (None, Some(pid)) => Subject::Pid(pid),
        (None, None) => unreachable!("clap asks for a source"),
    };
    let what = subject.describe();
    let (feed, input) = live(select(args));
    check(args, input.unit())?;
    sizes::check(&args.sizes, &args.model, &recordsizes(args, input.unit()))?;
    let sizes = Sizes::asked(&args.sizes).unwrap_or(Sizes::Halves);
    let ratios = args.compressed.ratios(&recordsizes(args, input.unit()))?;
    let config = config(args, &input, sizes, ratios);
    let mut sweep = models::sweep(&config)?;
    let gone = Rc::new(Cell::new(false));
    let tap = Tap { feed: Some(feed), gone: Rc::clone(&gone) };
    let (summary, read) = std::thread::scope(|scope| {
        // It goes with its thread: where the models fail, the recorder is told so.
        let models = &mut sweep;
        let shown = scope.spawn(move || {
            let mut input = input;
            models.show(&mut input, |_| true)
        });
        let recorded = Recorder::watch(subject, args.buffer, Box::new(tap)).and_then(|recorder| {
            let bar = record::bar(args.duration, &what);
            let end = args.duration.map(|duration| Instant::now() + duration);
            let over = || end.is_some_and(|end| Instant::now() >= end);
            let summary = recorder.run(
                || interrupt::requested() || gone.get() || over(),
                |progress| record::show(&bar, progress),
            );
            bar.finish_and_clear();
            summary
        });
        let read = shown.join().map_err(|_| anyhow::anyhow!("the models ended without a word"))?;
        Ok::<_, anyhow::Error>((recorded?, read?))
    })?;
    Ok(found(MrcResult::new(what, "live", &config, &sweep, &read), &summary))
}

/// With what the recorder knows.
fn found(mut found: MrcResult, summary: &Summary) -> MrcResult {
    found.duration_ns = summary.meta.duration_ns;
    found.lost_events = summary.meta.lost_events;
    found.unseen = summary.meta.unseen.clone();
    if summary.trace.events == 0 {
        found.ended = if interrupt::requested() { Ended::Interrupted } else { Ended::Empty };
    } else {
        // Ctrl-C is how a recording ends.
        found.ended = Ended::Done;
    }
    found
}
