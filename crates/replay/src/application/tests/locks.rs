//! Waits for file locks.

use super::*;
use crate::lock_range::LockRange;

fn lock(t: u64, pid: u32, op: Op, flags: Flags, gap: Option<Gap>) -> Event {
    Event { op, offset: 120, len: 1, pid, flags, ..event(t, 0, pid, gap) }
}

/// Process 2 holds a lock from 5 to 31 ms; process 1 is refused at 10 and at 20 ms, and gets it at 40.
fn polled_lock() -> Vec<Event> {
    let (free, slept) = (Flags::default(), gap(1, 0, 1, Gap::TIMER));
    vec![
        event(0, 1, 2, None),
        event(1, 1, 1, None),
        lock(5, 2, Op::Lock, free, gap(4, 0, 0, 0)),
        lock(10, 1, Op::Lock, Flags::FAILED, gap(8, 0, 0, 0)),
        // Of another range: a part of the second try.
        Event { offset: 0, ..lock(19, 1, Op::Lock, Flags::SHARED, slept) },
        lock(20, 1, Op::Lock, Flags::FAILED, gap(1, 0, 0, 0)),
        event(26, 4, 2, gap(21, 0, 0, 0)),
        lock(31, 2, Op::Unlock, free, gap(1, 0, 0, 0)),
        lock(40, 1, Op::Lock, free, slept),
        event(41, 1, 1, gap(1, 0, 0, 0)),
    ]
}

/// SQLite with a rollback journal: process 2 has the lock of writers, 120, and waits until process 1 releases that of readers, 420, as it
/// does before it waits for 120.
fn writers_lock() -> Vec<Event> {
    let (free, slept) = (Flags::default(), gap(1, 0, 1, Gap::TIMER));
    let reader = |t, pid, op, flags, gap| Event { offset: 420, ..lock(t, pid, op, flags, gap) };
    let all = |t, pid| Event { offset: 0, len: 0, ..lock(t, pid, Op::Unlock, free, None) };
    vec![
        event(0, 1, 2, None),
        event(1, 1, 1, None),
        reader(4, 2, Op::Lock, Flags::SHARED, None),
        lock(5, 2, Op::Lock, free, None),
        reader(9, 1, Op::Lock, Flags::SHARED, None),
        lock(10, 1, Op::Lock, Flags::FAILED, None),
        all(11, 1),
        reader(19, 1, Op::Lock, Flags::SHARED, slept),
        lock(20, 1, Op::Lock, Flags::FAILED, None),
        reader(21, 2, Op::Lock, Flags::FAILED, None),
        all(22, 1),
        reader(25, 2, Op::Lock, free, slept),
        event(26, 4, 2, None),
        all(31, 2),
        reader(40, 1, Op::Lock, Flags::SHARED, slept),
        lock(41, 1, Op::Lock, free, None),
        event(42, 1, 1, None),
        all(44, 1),
    ]
}

#[test]
fn attempts_in_vain_are_left_out_if_the_process_gives_up_its_locks() {
    let s = of(writers_lock(), Others::default());
    let ops = |lane: usize| s.lanes[lane].iter().map(|step| step.op).collect::<Vec<_>>();
    assert_eq!(ops(0), [Op::Write, Op::Lock, Op::Lock, Op::Lock, Op::Write, Op::Unlock]);
    assert_eq!(ops(1), [Op::Write, Op::Lock, Op::Lock, Op::Write, Op::Unlock]);
    let contested = &application(&s).contested;
    let yields =
        [120, 420].map(|offset| contested.is_yielding(0, &LockRange { offset, len: 1, shared: false }));
    assert_eq!(yields, [true, false]);
    // Process 1 was refused at 10 and 20 ms, and got the lock at 41; process 2 was refused at 21 ms, and got the lock at 25.
    assert_eq!([0, 1].map(|n| contested.interval(n).as_millis()), [10, 21]);
}

#[test]
fn a_call_that_waited_in_an_attempt_in_vain_is_no_wait() {
    let mut events = writers_lock();
    // The reader's lock of the second attempt takes half a millisecond, and process 3 releases one meanwhile.
    events[7].dur_ns = MS / 2;
    let release = Event { offset: 420, ..lock(19, 3, Op::Unlock, Flags::default(), None) };
    events.insert(8, Event { t_ns: 19 * MS + MS / 4, ..release });
    events.insert(2, event(2, 1, 3, None));
    let s = of(events, Others::default());
    assert!(application(&s).thinks[1].iter().all(|think| think.wake.is_none()));
}

#[test]
fn the_replay_polls_a_contested_lock_itself() {
    let s = of(polled_lock(), Others::default());
    let a = application(&s);
    assert_eq!(a.processes, [2, 1]);
    let ops = |lane: usize| s.lanes[lane].iter().map(|step| step.op).collect::<Vec<_>>();
    assert_eq!(ops(0), [Op::Write, Op::Lock, Op::Write, Op::Unlock]);
    assert_eq!(
        ops(1),
        [Op::Write, Op::Lock, Op::Write],
        "the lock of another range is none that is waited for"
    );
    // What the thread computed is kept, what it slept is not: the replay's own polling takes its place.
    let think = a.thinks[1][1];
    assert_eq!((think.cpu_before_ns + think.cpu_ns, think.sleep_before_ns + think.sleep_ns), (11 * MS, 0));
    assert_eq!(think.wake, None);
    let counted = (a.inferred.lock_waits, a.inferred.foreground_ops, s.skipped["lock"]);
    assert_eq!(counted, (1, 4, 3), "operations are those of the storage");
    // It was refused at 10 and at 20 ms and got the lock at 40.
    let intervals = [0, 1, 2].map(|n| a.contested.interval(n).as_millis());
    assert_eq!(intervals, [10, 20, 20]);
}

#[test]
fn a_process_that_closes_a_file_gives_up_its_locks() {
    let mut events = polled_lock();
    events.push(Event { offset: 0, len: 0, ..lock(50, 1, Op::Close, Flags::default(), None) });
    let s = of(events, Others::default());
    let last = s.lanes[1].last().unwrap();
    assert_eq!((last.op, last.offset, last.len), (Op::Unlock, 0, 0));
}

#[test]
fn sleeps_that_are_no_polling_stay_sleeps() {
    let count = |events: &[Event]| super::super::locks::waits(events).polls.len();
    assert_eq!(count(&polled_lock()), 2);
    // Another lock was given up.
    let mut events = polled_lock();
    events[7].offset = 500;
    assert_eq!(count(&events), 0);
    // The second sleep came without a try after the first one.
    let mut events = polled_lock();
    events[5].op = Op::Read;
    assert_eq!(count(&events), 0);
}

/// Process 1 waits in the call from 10 to 35 ms; process 2 gives the lock up at 31.
#[test]
fn a_wait_for_a_lock_inside_a_call_is_one_for_its_holder() {
    let free = Flags::default();
    let waits = Event { dur_ns: 25 * MS, ..lock(10, 1, Op::Lock, free, gap(8, 0, 0, 0)) };
    let mut events = vec![
        event(0, 1, 2, None),
        event(1, 1, 1, None),
        lock(5, 2, Op::Lock, free, gap(4, 0, 0, 0)),
        waits,
        event(26, 4, 2, gap(21, 0, 0, 0)),
        lock(31, 2, Op::Unlock, free, gap(1, 0, 0, 0)),
        event(36, 1, 1, gap(1, 0, 0, 0)),
    ];
    let think = application(&of(events.clone(), Others::default())).thinks[1][1];
    assert_eq!((think.wake, think.sleep_ns), (Some(Dependency { lane: 0, done: 2 }), 4 * MS));
    assert_eq!((think.cpu_before_ns, think.cpu_ns), (8 * MS, MS));
    // The process that held it was not seen to give it up.
    events.remove(5);
    let think = application(&of(events, Others::default())).thinks[1][1];
    assert_eq!((think.wake, think.sleep_ns), (None, 25 * MS));
}
