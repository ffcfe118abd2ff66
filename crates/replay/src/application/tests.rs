use poolwright_trace::{File, Flags, Op};
use proptest::prelude::*;

use super::*;

const MS: u64 = 1_000_000;

mod locks;

fn event(t_ms: u64, dur_ms: u64, tid: u32, gap: Option<Gap>) -> Event {
    Event {
        t_ns: t_ms * MS,
        dur_ns: dur_ms * MS,
        op: Op::Write,
        file: 0,
        offset: 0,
        len: 1,
        pid: tid,
        tid,
        flags: Flags::default(),
        gap,
    }
}

fn gap(cpu_ms: u64, ready_ms: u32, wake_ms: u32, waker: u32) -> Option<Gap> {
    let ms = MS as u32;
    Some(Gap { cpu_ns: cpu_ms * MS, ready_ns: ready_ms * ms, wake_ns: wake_ms * ms, waker, served_ns: 0 })
}

fn of(events: Vec<Event>, others: Others) -> Schedule {
    let trace = Trace { files: vec![File::default(); 3], events, ..Trace::default() };
    Schedule::of_application(&trace, others, &|_| true)
}

fn application(s: &Schedule) -> &Application {
    s.application.as_ref().expect("an application's schedule")
}

/// A thread that computes for 9 ms before each of its operations of 1 ms.
fn busy_thread(operations: u64) -> Vec<Event> {
    (0..operations).map(|i| event(i * 10, 1, 1, (i > 0).then(|| gap(9, 0, 0, 0)).flatten())).collect()
}

#[test]
fn time_ready_is_left_out_and_cpu_time_is_kept() {
    let s = of(vec![event(0, 1, 1, None), event(11, 1, 1, gap(4, 6, 0, 0))], Others::default());
    let think = application(&s).thinks[0][1];
    assert_eq!((think.cpu_ns, think.sleep_ns, think.wake), (4 * MS, 0, None));
}

#[test]
fn a_client_on_the_same_machine_computes_in_its_servers_sleep() {
    // Ten sleeps of 9 ms while a client works; the client used 45 ms of CPU time in total.
    let events: Vec<Event> =
        (0..11).map(|i| event(i * 11, 1, 1, (i > 0).then(|| gap(1, 0, 1, Gap::OTHER)).flatten())).collect();
    let s = of(events, Others { cpu_ns: 45 * MS });
    let think = application(&s).thinks[0][5];
    assert_eq!((think.cpu_ns, think.sleep_ns), (MS + 9 * MS / 2, 9 * MS / 2));
    assert_eq!(application(&s).inferred.others_cpu_ns, 45 * MS);
}

#[test]
fn a_sleep_that_another_thread_ended_follows_that_thread() {
    let mut events = busy_thread(10);
    events.extend([
        event(102, 8, 2, None),            // ends at 110
        event(114, 1, 1, gap(3, 0, 2, 2)), // woken at 112 by thread 2
        event(115, 1, 2, gap(1, 0, 0, 0)),
    ]);
    let s = of(events, Others::default());
    let a = application(&s);
    let think = a.thinks[0][10];
    assert_eq!(think.wake, Some(Dependency { lane: 1, done: 1 }));
    // Of 3 ms of CPU time, at most 2 can be after the wakeup: thread 2 took 2 ms from its end to the wakeup.
    assert_eq!((think.cpu_before_ns, think.cpu_ns, think.sleep_ns), (MS, 2 * MS, 2 * MS));
    assert_eq!(a.inferred.wakes, 1);
}

#[test]
fn a_file_is_made_before_other_threads_use_it_and_used_before_it_is_removed() {
    let on = |op: Op, t: u64, tid: u32| Event {
        op,
        ..event(t, 1, tid, (t > 0).then(|| gap(1, 0, 0, 0)).flatten())
    };
    let s = of(
        vec![
            on(Op::Create, 0, 1),
            on(Op::Read, 2, 2),
            on(Op::Read, 4, 2),
            on(Op::Unlink, 6, 1),
            on(Op::Create, 8, 2),
            on(Op::Read, 9, 1),
        ],
        Others::default(),
    );
    let waits = |lane: usize, step: usize| s.before(&s.lanes[lane][step]).to_vec();
    let step = |lane: u32, done: u32| Dependency { lane, done };
    assert_eq!(waits(1, 0), [step(0, 1)], "read after it was created");
    assert_eq!(waits(1, 1), [], "the same lane again");
    assert_eq!(waits(0, 1), [step(1, 2)], "removed after the last read");
    assert_eq!(waits(1, 2), [step(0, 2)], "created again after it was removed");
    assert_eq!(waits(0, 2), [step(1, 3)]);
}

#[test]
fn what_a_hypervisor_took_after_the_wakeup_is_not_slept() {
    // 4 ms to the wakeup by a timer, and 5 ms after it, of which the thread computed 2.
    let s = of(vec![event(0, 1, 1, None), event(10, 1, 1, gap(2, 0, 5, Gap::TIMER))], Others::default());
    assert_eq!(application(&s).thinks[0][1], Think { cpu_ns: 2 * MS, sleep_ns: 4 * MS, ..Think::default() });
}

#[test]
fn an_operation_that_is_not_replayed_leaves_its_think_time() {
    let events = vec![
        event(0, 1, 1, None),
        Event { op: Op::Close, ..event(6, 1, 1, gap(5, 0, 0, 0)) },
        event(9, 1, 1, gap(2, 0, 0, 0)),
    ];
    let s = of(events, Others::default());
    assert_eq!(s.len(), 2);
    let think = application(&s).thinks[0][1];
    assert_eq!((think.cpu_before_ns, think.cpu_ns), (5 * MS, 2 * MS));
}

#[test]
fn a_thread_that_waits_for_timers_follows_the_foreground() {
    let mut events = busy_thread(100);
    for i in 0..10 {
        events.push(event(i * 100 + 5, 1, 2, (i > 0).then(|| gap(1, 0, 0, Gap::TIMER)).flatten()));
    }
    events.sort_by_key(|e| e.t_ns);
    let s = of(events, Others::default());
    let a = application(&s);
    assert_eq!(a.foreground, [true, false]);
    assert_eq!((a.inferred.foreground_ops, a.inferred.background_ops), (100, 10));
    assert_eq!(a.work.len(), 100);
    // At 505 ms the foreground had begun 51 operations. The background thread's sleep is not replayed.
    assert_eq!(a.thinks[1][5], Think { cpu_ns: MS, after_work: 51, ..Think::default() });
}

#[test]
fn a_background_thread_that_another_one_woke_follows_it_without_a_sleep() {
    // A busy thread wakes it 4 ms after each tenth of its operations.
    let wakes = (1..10).map(|i| event(i * 100 + 5, 1, 2, gap(1, 0, 0, 1)));
    let mut events: Vec<Event> = busy_thread(100).into_iter().chain(wakes).collect();
    events.sort_by_key(|event| event.t_ns);
    let s = of(events, Others::default());
    let a = application(&s);
    let thinks = &a.thinks[a.foreground.iter().position(|foreground| !foreground).unwrap()];
    assert!(thinks[1..].iter().all(|think| think.wake.is_some() && think.sleep_ns == 0), "{thinks:?}");
}

#[test]
fn without_a_foreground_all_threads_are_it() {
    let events = (0..10).map(|i| event(i * 100, 1, 1, gap(1, 0, 0, Gap::TIMER))).collect();
    assert_eq!(application(&of(events, Others::default())).foreground, [true]);
}

#[test]
fn a_thread_that_only_opens_and_closes_what_others_read_is_not_the_whole_foreground() {
    let is_foreground = |operations: u64| {
        // The reader sleeps for most of the time until the busy thread, which opens and closes the file, has taken what it has read.
        let reads = (0..operations).map(|i| event(i * 10 + 5, 1, 2, gap(1, 0, 0, 1)));
        let ends = [event(0, 1, 1, None), event(operations * 10, 1, 1, gap(operations * 10 - 1, 0, 0, 0))];
        let mut events: Vec<Event> = ends.into_iter().chain(reads).collect();
        events.sort_by_key(|event| event.t_ns);
        application(&of(events, Others::default())).foreground.clone()
    };
    assert_eq!(is_foreground(1000), [true, true]);
    assert_eq!(is_foreground(100), [true, false], "two of a hundred operations may be the work");
}

#[test]
fn a_thread_that_issues_asynchronous_writes_and_waits_between_them_is_background() {
    let mut events = busy_thread(100);
    // Each write is under way until the next but one, so the thread seems never to be without an operation.
    events.extend((0..50).map(|i| Event { flags: Flags::URING, ..event(i * 20, 35, 2, None) }));
    events.push(Event { op: Op::Fsync, ..event(995, 1, 2, gap(1, 0, 0, Gap::TIMER)) });
    events.sort_by_key(|e| e.t_ns);
    assert_eq!(application(&of(events, Others::default())).inferred.background_threads, 1);
}

#[test]
fn a_thread_that_seldom_works_is_background_although_no_timer_wakes_it() {
    let served = |ops: u64| {
        let mut events = busy_thread(100);
        let every = 1000 / ops;
        events.extend(
            (0..ops).map(|i| event(i * every, 1, 2, (i > 0).then(|| gap(1, 0, 1, Gap::OTHER)).flatten())),
        );
        events.sort_by_key(|e| e.t_ns);
        application(&of(events, Others::default())).inferred.foreground_threads
    };
    // Clients that pause, and a thread of the database itself.
    assert_eq!((served(20), served(5)), (2, 1));
}

#[test]
fn a_checkpoint_that_takes_most_of_its_period_is_background() {
    // In each second, the second thread writes for 700 ms without a pause, and sleeps until a timer wakes it.
    let with = |writes: u64| {
        let mut events = busy_thread(400);
        let length = 700 / writes;
        events.extend((0..4 * writes).map(|i| {
            let sleeps = (i > 0 && i % writes == 0).then(|| gap(0, 0, 0, Gap::TIMER)).flatten();
            event(i / writes * 1000 + i % writes * length, length, 2, sleeps.or(gap(0, 0, 0, 0)))
        }));
        events.sort_by_key(|e| e.t_ns);
        application(&of(events, Others::default())).inferred.foreground_threads
    };
    assert_eq!(with(25), 1);
    // A client that pauses for as long does about as many operations as the other one.
    assert_eq!(with(70), 2);
}

#[test]
fn threads_of_a_pool_wait_for_clients_and_not_for_as_long_as_they_were_idle() {
    // Six threads serve two clients in turn: each is busy for 10 ms and idle for 20 ms.
    let pool = |waker: u32| {
        let mut events: Vec<Event> = (0..6).map(|i| event(i * 5, 10, i as u32 + 1, None)).collect();
        let served = |n: u64| event(30 + n * 5, 10, (n % 6) as u32 + 1, gap(0, 0, 0, waker));
        events.extend((0..60).map(served));
        of(events.into_iter().map(|event| Event { pid: 1, ..event }).collect(), Others::default())
    };
    let s = pool(Gap::SIBLING);
    let a = application(&s);
    assert_eq!((a.inferred.foreground_threads, &a.clients), (6, &HashMap::from([(1, 2)])));
    let think = a.thinks[0][5];
    assert!(think.is_request && think.sleep_ns == 0 && think.sleep_before_ns < MS, "{think:?}");
    // Threads that wait for another one after they got a request are busy then: in each round, the first half of the sleep is idle.
    let waits = |n: u64| {
        let gap = Gap { served_ns: 10 * MS as u32, waker: (n + 3) as u32 % 6 + 1, ..Gap::default() };
        event(
            30 + n * 5,
            10,
            (n % 6) as u32 + 1,
            Some(if n.is_multiple_of(2) { gap } else { Gap { waker: Gap::SIBLING, ..gap } }),
        )
    };
    let mut events: Vec<Event> = (0..6).map(|i| event(i * 5, 10, i as u32 + 1, None)).collect();
    events.extend((0..60).map(waits));
    let s = of(events.into_iter().map(|event| Event { pid: 1, ..event }).collect(), Others::default());
    let a = application(&s);
    assert_eq!(a.clients, HashMap::from([(1, 3)]), "three threads wait for 10 ms more than the others");
    assert!(a.thinks[0][5].is_request && a.thinks[0][5].wake.is_some(), "{:?}", a.thinks[0][5]);
    // Threads that other processes wake have a client each.
    let s = pool(Gap::OTHER);
    let a = application(&s);
    assert!(a.clients.is_empty());
    assert_eq!((a.thinks[0][5].is_request, a.thinks[0][5].sleep_ns), (false, 20 * MS));
}

#[test]
fn cpu_time_after_a_fault_that_reads_is_the_applications_as_far_as_it_is_after_others() {
    // The thread computes for 4 ms after a fault that reads, which takes 3 of these, and for 1 ms after another one.
    let fault = |n: u64, apart: u64| {
        let (cpu, flags) = if n.is_multiple_of(2) { (1, Flags::default()) } else { (4, Flags::CACHED) };
        Event {
            op: Op::Map,
            flags,
            offset: n * apart,
            ..event(n * 5, 0, 1, (n > 0).then(|| gap(cpu, 0, 0, 0)).flatten())
        }
    };
    let computed = |faults: u64, apart: u64| {
        let mut events: Vec<Event> = (0..faults).map(|n| fault(n, apart)).collect();
        events.push(event(faults * 5 + 5, 1, 1, gap(1, 0, 0, 0)));
        application(&of(events, Others::default())).inferred.cpu_ns
    };
    assert_eq!(computed(400, 1 << 20), 400 * MS);
    assert_eq!(computed(100, 1 << 20), 250 * MS, "too few to compare");
    assert_eq!(computed(400, 4096), 1000 * MS, "two events of one fault");
}

/// Thread 1 syncs from 10 to 15 ms and wakes thread 2 two milliseconds later; both then work on.
fn commits(waker: u32) -> Think {
    let busy = |at| event(at, 2, 2, gap(1, 0, 0, 0));
    let mut events = vec![event(0, 1, 1, None), event(0, 8, 2, None)];
    events.push(Event { op: Op::Fdatasync, ..event(10, 5, 1, gap(9, 0, 0, 0)) });
    events.push(event(18, 2, 2, gap(0, 0, 1, waker)));
    events.extend((7..30).map(|i| busy(i * 3)));
    events.extend((7..30).map(|i| event(i * 3, 2, 1, gap(1, 0, 0, 0))));
    events.sort_by_key(|e| e.t_ns);
    application(&of(events, Others::default())).thinks[1][1]
}

#[test]
fn a_thread_for_which_another_one_commits_waits_for_any_sync_under_way() {
    let think = commits(1);
    assert_eq!((think.sync, think.wake, think.sleep_ns), (Some(0), None, 2 * MS));
    // What no recorded thread ended is a sleep.
    let think = commits(Gap::TIMER);
    assert_eq!((think.sync, think.wake, think.sleep_ns), (None, None, 9 * MS));
}

#[test]
fn what_a_page_fault_took_is_not_slept_again() {
    let fault = |t: u64, gap: Option<Gap>| Event { op: Op::Map, ..event(t, 0, 1, gap) };
    // The gaps of 3 ms consist of 1 ms of CPU time and 2 ms for the preceding page fault; then the thread waits for a
    // client.
    let mut events: Vec<Event> =
        (0..6).map(|i| fault(i * 3, (i > 0).then(|| gap(1, 0, 1, Gap::OTHER)).flatten())).collect();
    events.push(event(16 + 100, 1, 1, gap(1, 0, 1, Gap::OTHER)));
    let s = of(events, Others::default());
    let sleeps: Vec<u64> = application(&s).thinks[0].iter().map(|think| think.sleep_ns / MS).collect();
    assert_eq!(sleeps, [0, 0, 0, 0, 0, 0, 100 - 4 * 2]);
    assert!(application(&s).thinks[0][1..].iter().all(|think| think.cpu_ns == MS));
}

#[test]
fn a_wait_for_another_call_does_not_pace_a_background_thread() {
    let mut events = busy_thread(100);
    events.push(event(5, 1, 2, None));
    events.push(Event { op: Op::Close, ..event(405, 1, 2, gap(1, 0, 2, 1)) });
    events.push(event(905, 1, 2, gap(1, 0, 1, Gap::TIMER)));
    events.sort_by_key(|e| e.t_ns);
    let s = of(events, Others::default());
    let a = application(&s);
    assert_eq!(a.foreground, [true, false]);
    let think = a.thinks[1][1];
    assert_eq!((think.after_work, think.sleep_ns), (91, 0));
}

#[test]
fn each_thread_has_a_lane_of_its_own_however_many_another_one_has() {
    // Before the others begin, thread 9 has 100 asynchronous writes in flight, more than there are lanes.
    let mut events: Vec<Event> = (0..100)
        .map(|n| Event { flags: Flags::URING, t_ns: n, ..event(0, 3000, 9, gap(0, 0, 0, Gap::TIMER)) })
        .collect();
    for tid in 1..=3 {
        events.extend((0..50).map(|n| event(1 + n * 10, 1, tid, (n > 0).then(|| gap(9, 0, 0, 0)).flatten())));
    }
    events.sort_by_key(|e| e.t_ns);
    let s = of(events, Others::default());
    let a = application(&s);
    let alone = (0..s.lanes.len()).filter(|lane| s.lanes[*lane].len() == 50);
    assert_eq!(alone.count(), 3, "each has its own lane");
    assert_eq!(a.work.len(), counted(&s), "otherwise a wait for work might never end");
}

/// Returns the number of steps that a replay counts as work.
fn counted(s: &Schedule) -> usize {
    s.lanes
        .iter()
        .zip(&application(s).foreground)
        .filter(|(_, counts)| **counts)
        .map(|(lane, _)| lane.len())
        .sum()
}

#[test]
fn threads_that_share_a_lane_are_counted_with_it() {
    // The background threads take all lanes; the foreground threads begin later and get no lanes of their own.
    let most = crate::schedule::MAX_THREADS as u32;
    let background = (0..4 * most).map(|n| {
        event(u64::from(n), 1, 10 + n % most, (n >= most).then(|| gap(1, 0, 0, Gap::TIMER)).flatten())
    });
    let after = u64::from(4 * most);
    let foreground = (0..50).map(|n| event(after + n * 10, 1, 1, (n > 0).then(|| gap(9, 0, 0, 0)).flatten()));
    let s = of(background.chain(foreground).collect(), Others::default());
    assert_eq!(s.lanes.len(), most as usize);
    assert_eq!(application(&s).inferred.foreground_threads, 1);
    assert_eq!(application(&s).work.len(), counted(&s), "otherwise a wait for work might never end");
}

proptest! {
    /// For any trace, running the lanes in any order that respects dependencies and progress terminates.
    #[test]
    fn no_application_deadlocks(
        raw in prop::collection::vec((0u64..3000, 0u64..60, 1u32..8, 0u64..40, 0u32..9), 1..200)
    ) {
        let mut events: Vec<Event> = raw
            .into_iter()
            .map(|(t, dur, tid, cpu, waker)| {
                let waker = if waker == 8 { Gap::TIMER } else { waker };
                // Files are created and removed, so their lifetimes also order the threads.
                let op = match cpu {
                    0..4 => Op::Create,
                    4..8 => Op::Unlink,
                    8..16 => Op::Lock,
                    16..20 => Op::Unlock,
                    _ => Op::Write,
                };
                let flags = if op == Op::Lock && dur % 2 == 0 { Flags::FAILED } else { Flags::default() };
                let file = dur as u32 % 3;
                Event { op, file, flags, pid: tid, ..event(t, dur, tid, gap(cpu, 0, cpu as u32, waker)) }
            })
            .collect();
        events.sort_by_key(|e| e.t_ns);
        let s = of(events, Others::default());
        let a = application(&s);
        let mut done = vec![0u32; s.lanes.len()];
        let mut work = 0;
        loop {
            let mut moved = false;
            for lane in 0..s.lanes.len() {
                while let Some(step) = s.lanes[lane].get(done[lane] as usize) {
                    let think = &a.thinks[lane][done[lane] as usize];
                    let behind = |l: usize| !a.foreground[l] && s.lanes[l].get(done[l] as usize)
                        .is_some_and(|next| next.t_ns + AHEAD_NS < step.t_ns);
                    let waits = s.before(step).iter().chain(&think.wake).any(|d| done[d.lane as usize] < d.done)
                        || work < think.after_work
                        || (a.foreground[lane] && (0..s.lanes.len()).any(behind));
                    if waits {
                        break;
                    }
                    done[lane] += 1;
                    work += u32::from(a.foreground[lane]);
                    moved = true;
                }
            }
            if !moved {
                break;
            }
        }
        prop_assert_eq!(done.iter().sum::<u32>() as usize, s.len());
    }
}
