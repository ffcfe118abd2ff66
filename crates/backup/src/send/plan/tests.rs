use poolwright_zfs::kernel::command::send::ResumeToken;
use proptest::prelude::*;

use super::*;

const TOKEN: &str = "1-ab-cd";

fn point(name: &str, number: u64) -> HistoryPoint {
    HistoryPoint { name: name.to_owned(), guid: 1000 + number, created_txg: number }
}

/// `@1 @2` are backups, `!3` is another snapshot, `#4` a bookmark; the number is also the time.
fn source(text: &str) -> SourceState {
    let mut state = SourceState { dataset: "tank/b".to_owned(), ..SourceState::default() };
    for word in text.split_whitespace() {
        let (kind, name) = word.split_at(1);
        let kind = if kind == "!" { "@" } else { kind };
        let of = point(&format!("tank/b{kind}{name}"), name.parse().unwrap());
        if word.starts_with('@') {
            state.due.push(of.clone());
        }
        state.points.push(of);
    }
    state
}

/// The target has snapshots with these numbers.
fn target(numbers: &[u64]) -> TargetState {
    let snapshots = numbers.iter().map(|number| point(&format!("vault/b@{number}"), *number));
    TargetState { snapshots: snapshots.collect(), ..TargetState::default() }
}

fn name() -> SendTarget {
    SendTarget::parse("root@h:vault/b").unwrap()
}

/// The streams in short: `@1` is full, `@1-@2` incremental, `…@2` continued.
fn planned(source: &SourceState, target: Option<&TargetState>) -> String {
    let short = |name: &str| name.strip_prefix("tank/b").unwrap().to_owned();
    let shown = |stream: &PlannedStream| match &stream.content {
        StreamContent::Full { snapshot } => short(snapshot),
        StreamContent::Incremental { from, snapshot } => format!("{}-{}", short(from), short(snapshot)),
        StreamContent::Resumed { token } => {
            assert_eq!(token, TOKEN);
            format!("…{}", short(&stream.snapshot.name))
        }
    };
    match plan(source, target, &name()) {
        Ok(streams) => streams.iter().map(shown).collect::<Vec<_>>().join(" "),
        Err(why) => {
            assert!(why.is_refusal());
            why.to_string()
        }
    }
}

fn interrupted(mut state: TargetState, number: u64) -> TargetState {
    let contents = ResumeToken {
        to_guid: 1000 + number,
        to_name: format!("tank/b@{number}"),
        is_raw: true,
        ..ResumeToken::default()
    };
    state.pending = Some((TOKEN.to_owned(), contents));
    state
}

#[test]
fn streams() {
    let cases = [
        // The target does not exist: everything, without other snapshots.
        ("@1 !2 @3", None, "@1 @1-@3"),
        ("", None, ""),
        // From the newest common one.
        ("@1 @2 @3", Some(target(&[1])), "@1-@2 @2-@3"),
        ("@1 @2 @3", Some(target(&[1, 3])), ""),
        ("@2 @3", Some(target(&[1, 2])), "@2-@3"),
        // It is gone at the source, and a bookmark is left.
        ("#1 @3 @4", Some(target(&[1])), "#1-@3 @3-@4"),
        ("@1 #1 @3", Some(target(&[1])), "@1-@3"),
        // It is not a backup.
        ("!1 @3", Some(target(&[1])), "!1-@3"),
        // The target has newer snapshots of its own.
        ("@1 @9", Some(target(&[1, 5])), "@1-@9"),
        // Older ones are not sent.
        ("@1 @2 @3", Some(target(&[2])), "@2-@3"),
    ];
    for (text, target, expected) in cases {
        let expected = expected.replace('!', "@");
        assert_eq!(planned(&source(text), target.as_ref()), expected, "{text} to {target:?}");
    }
}

#[test]
fn an_interrupted_stream_is_continued_first() {
    let of = |text: &str, state: TargetState| planned(&source(text), Some(&state));
    assert_eq!(of("@1 @2", interrupted(target(&[]), 1)), "…@1 @1-@2");
    assert_eq!(of("@1 @2 @3", interrupted(target(&[1]), 2)), "…@2 @2-@3");
    assert_eq!(of("#1 @2", interrupted(target(&[1]), 2)), "…@2");
    let gone = of("@2 @3", interrupted(target(&[]), 1));
    assert!(
        gone.contains("tank/b@1 to root@h:vault/b cannot be continued: tank/b has no such snapshot"),
        "{gone}"
    );
    assert!(gone.contains("hint: `zfs receive -A vault/b` on the host of the target"), "{gone}");
    let mut state = interrupted(target(&[1]), 2);
    state.pending.as_mut().unwrap().1.problem = Some("incremental source\nno longer exists".to_owned());
    let broken = of("@1 @2", state);
    assert!(broken.contains("continued: incremental source; no longer exists\nhint: "), "{broken}");
}

#[test]
fn an_encrypted_dataset_is_only_sent_encrypted() {
    let encrypted = SourceState { is_encrypted: true, ..source("@1 @2") };
    let mut state = TargetState { is_encrypted: true, ..target(&[1]) };
    assert_eq!(planned(&encrypted, Some(&state)), "@1-@2");
    assert_eq!(planned(&encrypted, Some(&interrupted(state.clone(), 2))), "…@2");
    let mut plain = interrupted(state.clone(), 2);
    plain.pending.as_mut().unwrap().1.is_raw = false;
    assert!(planned(&encrypted, Some(&plain)).contains("is encrypted, and the stream would not be"));
    state.snapshots.push(point("vault/b@own", 9));
    let newer = planned(&encrypted, Some(&state));
    assert!(
        newer.contains("has the snapshot @own, which is newer than the newest common one, @1"),
        "{newer}"
    );
    let open = planned(&encrypted, Some(&target(&[1])));
    assert!(open.contains("root@h:vault/b is not encrypted, and tank/b is"), "{open}");
}

#[test]
fn targets_that_are_refused() {
    let of = |state: &TargetState| planned(&source("@1 #2 @3"), Some(state));
    assert!(
        of(&target(&[7])).contains("has snapshots, and tank/b has none of them"),
        "{}",
        of(&target(&[7]))
    );
    assert!(of(&interrupted(target(&[7]), 3)).contains("has snapshots, and tank/b has none of them"));
    assert!(of(&target(&[])).contains("exists and has no snapshot"));
    let mut other = target(&[1]);
    other.snapshots.push(HistoryPoint { guid: 5, ..point("vault/b@3", 2) });
    assert!(of(&other).contains("has another snapshot with the name @3"), "{}", of(&other));
}

/// Both sides, as `zfs` would change them.
#[derive(Default)]
struct World {
    source: SourceState,
    target: Option<TargetState>,
    time: u64,
}

impl World {
    fn take(&mut self, is_backup: bool) {
        self.time += 1;
        let of = point(&format!("tank/b@{}", self.time), self.time);
        if is_backup {
            self.source.due.push(of.clone());
        }
        self.source.points.push(of);
    }

    /// Destroys a snapshot of the source, not the newest backup.
    fn prune(&mut self, at: usize) {
        if self.source.due.len() > 1 {
            let gone = self.source.due.remove(at % (self.source.due.len() - 1));
            self.source.points.retain(|of| of.name != gone.name);
        }
    }

    fn receive(&mut self, stream: &PlannedStream) {
        match &stream.content {
            StreamContent::Full { snapshot } => {
                assert!(self.target.is_none());
                assert_eq!(*snapshot, self.source.due[0].name);
                self.target = Some(TargetState::default());
            }
            StreamContent::Incremental { from, snapshot } => {
                let from = self.source.points.iter().find(|of| of.name == *from).expect("it exists");
                let newest = self.target.as_ref().unwrap().snapshots.last().unwrap();
                assert_eq!((from.guid, snapshot), (newest.guid, &stream.snapshot.name));
            }
            StreamContent::Resumed { .. } => panic!("no stream was interrupted"),
        }
        assert!(self.source.due.contains(&stream.snapshot));
        let name = format!("vault/b@{}", stream.snapshot.short_name());
        let received = HistoryPoint { name, ..stream.snapshot.clone() };
        self.target.as_mut().unwrap().snapshots.push(received);
        // The bookmark of what the target has newest, in place of the earlier one.
        self.source.points.retain(|of| !of.is_bookmark());
        let name = format!("tank/b#{}", stream.snapshot.short_name());
        self.source.points.push(HistoryPoint { name, ..stream.snapshot.clone() });
        self.source.points.sort_by_key(|of| (of.created_txg, of.is_bookmark()));
    }

    /// Sends at most this number of streams.
    fn send(&mut self, count: usize) {
        let streams = plan(&self.source, self.target.as_ref(), &name()).expect("it is not refused");
        let due: Vec<u64> = streams.iter().map(|of| of.snapshot.guid).collect();
        let newest = self.target.as_ref().and_then(|of| of.snapshots.last()).map_or(0, |of| of.created_txg);
        let newer = self.source.due.iter().filter(|of| of.created_txg > newest);
        assert_eq!(due, newer.map(|of| of.guid).collect::<Vec<_>>(), "all that are newer, in order");
        streams.iter().take(count).for_each(|stream| self.receive(stream));
    }
}

proptest! {
    #[test]
    fn incremental_streams_always_have_their_base(steps in prop::collection::vec((0_u8..6, 0_usize..5), 1..60)) {
        let mut world = World::default();
        world.take(true);
        for (step, number) in steps {
            match step {
                0 | 1 => world.take(true),
                2 => world.take(false),
                3 => world.prune(number),
                4 => world.send(number),
                _ => world.send(usize::MAX),
            }
        }
        world.send(usize::MAX);
        let newest = world.target.unwrap().snapshots.pop().unwrap();
        prop_assert_eq!(newest.guid, world.source.due.last().unwrap().guid);
    }
}
