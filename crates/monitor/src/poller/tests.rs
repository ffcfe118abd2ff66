use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;
use crate::family::{POOL, POOL_SIZE};

/// A source that returns one result for each message, and blocks until it arrives.
struct Scripted {
    pool: &'static str,
    results: Receiver<std::result::Result<f64, &'static str>>,
}

impl Source for Scripted {
    fn name(&self) -> SourceName {
        SourceName { source: "scripted", pool: self.pool.to_owned() }
    }

    fn read(&mut self) -> Result<Readings> {
        match self.results.recv().expect("the test keeps the sender") {
            Ok(size) => {
                let mut readings = Readings::default();
                readings.add(&POOL, ["user", self.pool]).set(&POOL_SIZE, size);
                Ok(readings)
            }
            Err("panic") => panic!("the test wants a panic"),
            Err(cause) => Err(Error::Start { what: "the test", cause: std::io::Error::other(cause) }),
        }
    }
}

/// Hands each source out once; later calls return a source of the same name, which the poller does not start.
#[derive(Default)]
struct Given(Mutex<Vec<Scripted>>, Mutex<Vec<&'static str>>);

impl Discovery for Arc<Given> {
    fn sources(&self) -> Vec<Box<dyn Source>> {
        let mut new: Vec<Scripted> = self.0.lock().unwrap().drain(..).collect();
        for pool in self.1.lock().unwrap().iter() {
            if !new.iter().any(|source| source.pool == *pool) {
                new.push(Scripted { pool, results: channel().1 });
            }
        }
        new.into_iter().map(|source| Box::new(source) as Box<dyn Source>).collect()
    }
}

type Script = Sender<std::result::Result<f64, &'static str>>;

fn poller(pools: &[&'static str]) -> (Poller, Arc<Given>, Vec<Script>) {
    let given = Arc::new(Given::default());
    let mut scripts = Vec::new();
    for pool in pools {
        let (script, results) = channel();
        given.0.lock().unwrap().push(Scripted { pool, results });
        given.1.lock().unwrap().push(pool);
        scripts.push(script);
    }
    (Poller::new(vec![Box::new(Arc::clone(&given))]), given, scripts)
}

/// Time that no test reaches unless it fails.
const LONG: Duration = Duration::from_secs(120);
/// Time after which a source counts as overdue in these tests.
const SHORT: Duration = Duration::from_millis(20);

fn size(of: &SourceReadings) -> Option<f64> {
    of.readings.as_ref().and_then(|readings| readings.resources.first()?.value(&POOL_SIZE))
}

#[test]
fn a_source_that_hangs_delays_no_other_and_keeps_its_last_readings() {
    let (poller, _given, scripts) = poller(&["a", "b"]);
    scripts.iter().for_each(|script| script.send(Ok(1.0)).unwrap());
    let first = poller.refresh(LONG).unwrap();
    assert!(first.iter().all(SourceReadings::is_up), "{first:?}");

    scripts[1].send(Ok(2.0)).unwrap();
    let second = poller.refresh(SHORT).unwrap();
    assert_eq!((size(&second[0]), second[0].is_up()), (Some(1.0), false), "a hangs");
    assert!(second[0].overdue.is_some() && second[0].age.is_some());

    // The read that hangs is not started again, and its result is used when it arrives.
    scripts[1].send(Ok(3.0)).unwrap();
    let third = poller.refresh(SHORT).unwrap();
    assert_eq!((third[0].reads, third[0].is_up()), (1, false));
    // The read that hung may end before the next refresh, which then starts another: there is a result for each.
    scripts[0].send(Ok(4.0)).unwrap();
    scripts[0].send(Ok(4.0)).unwrap();
    scripts[1].send(Ok(5.0)).unwrap();
    let fourth = poller.refresh(LONG).unwrap();
    assert_eq!(size(&fourth[0]), Some(4.0));
    assert!(fourth[0].reads >= 2);
    assert!(fourth[0].is_up());
}

#[test]
fn errors_and_panics_are_reported_and_the_source_goes_on() {
    let (poller, _given, scripts) = poller(&["a"]);
    let read = |result| {
        scripts[0].send(result).unwrap();
        poller.refresh(LONG).unwrap().remove(0)
    };
    assert!(read(Ok(1.0)).is_up());
    let failed = read(Err("no such pool"));
    assert_eq!(failed.error.as_deref(), Some("cannot start the test: no such pool"));
    assert_eq!((size(&failed), failed.failures), (Some(1.0), 1));
    assert_eq!(read(Err("panic")).error.as_deref(), Some("the source's code panicked"));
    let well = read(Ok(2.0));
    assert!(well.is_up());
    assert_eq!((size(&well), well.reads, well.failures), (Some(2.0), 4, 2));
}

#[test]
fn a_source_that_no_longer_exists_is_dropped() {
    let (poller, given, scripts) = poller(&["a", "b"]);
    scripts.iter().for_each(|script| script.send(Ok(1.0)).unwrap());
    assert_eq!(poller.refresh(LONG).unwrap().len(), 2);
    given.1.lock().unwrap().retain(|pool| *pool == "a");
    scripts[0].send(Ok(1.0)).unwrap();
    let left = poller.refresh(LONG).unwrap();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].name.pool, "a");
}
