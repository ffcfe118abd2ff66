//! Which backups may be removed.
//!
//! 1. The newest backup stays.
//! 2. The newest backup that was restored and passed its checks stays.
//! 3. While no backup has passed a restore, all stay, unless the user overrides this: any of them may be the only good one.
//! 4. The newest `keep` backups stay, not counting those that failed a restore.
//! 5. Backups younger than `keep_for` stay. A pause between two backups counts as a quarter of it at most (more if it is short), and a
//!    backup as no older than the ones before it: a clock that was wrong, or a host that was off, does not make all backups old at once.
//! 6. A backup stays if its snapshot is held or has a clone, if an archive does not have it yet, or if it is the newest one on a replica
//!    that needs the archived log.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

/// The longest pause between two daily backups: it counts whole also with a short `keep_for`, up to half of it.
const DAILY: Duration = Duration::from_secs(36 * 3600);

/// The results of the restores of a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreState {
    /// It was never restored, or could not be tested.
    Unknown,
    /// Its last restore passed.
    Good,
    /// Its last restore failed.
    Bad,
}

/// A backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetentionCandidate {
    /// Its name.
    pub name: String,
    /// Seconds since it was made, by the clock; negative in the future.
    pub age_s: i64,
    /// The results of its restores.
    pub state: RestoreState,
    /// Why its snapshot cannot be destroyed, or should not be yet.
    pub obstacle: Option<String>,
}

/// The rules of the user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetentionRules {
    /// The number of backups to keep.
    pub keep: Option<usize>,
    /// Backups younger than this stay.
    pub keep_for: Option<Duration>,
    /// Whether backups may be removed although none has passed a restore.
    pub allows_unverified: bool,
    /// Whether backups may be removed although one lies in the future of the clock.
    pub accepts_future: bool,
}

/// The decision on a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RetentionDecision {
    /// The backup's name.
    pub name: String,
    /// Whether it stays.
    pub kept: bool,
    /// Why.
    pub reason: String,
}

/// Decides on backups, which are sorted, oldest first. Without a rule, all stay.
pub fn decide(backups: &[RetentionCandidate], rules: &RetentionRules) -> Vec<RetentionDecision> {
    let newest_good = backups.iter().rposition(|of| of.state == RestoreState::Good);
    let ages = counted_ages(backups, rules.keep_for.unwrap_or_default());
    let decide = |(index, of): (usize, &RetentionCandidate)| {
        let newer = backups[index + 1..].iter().filter(|newer| newer.state != RestoreState::Bad).count();
        let is_counted = of.state != RestoreState::Bad;
        let reason = match (rules.keep, rules.keep_for) {
            _ if index + 1 == backups.len() => Err("the newest backup".to_owned()),
            _ if Some(index) == newest_good => Err("the newest that passed a restore".to_owned()),
            _ if of.obstacle.is_some() => Err(of.obstacle.clone().unwrap_or_default()),
            _ if newest_good.is_none() && !rules.allows_unverified => {
                Err("no backup has passed a restore yet".to_owned())
            }
            (None, None) => Err("no rule".to_owned()),
            (Some(keep), _) if is_counted && newer < keep => Err(format!("one of the newest {keep}")),
            (_, Some(age)) if ages[index] < age.as_secs() => {
                Err(format!("younger than {}", days(age.as_secs())))
            }
            _ if of.state == RestoreState::Bad => Ok("failed its last restore".to_owned()),
            (Some(keep), _) => Ok(format!("not one of the newest {keep}")),
            (None, Some(age)) => Ok(format!("older than {}", days(age.as_secs()))),
        };
        let (kept, reason) = match reason {
            Ok(why) => (false, why),
            Err(why) => (true, why),
        };
        RetentionDecision { name: of.name.clone(), kept, reason }
    };
    backups.iter().enumerate().map(decide).collect()
}

/// The ages that count, in seconds.
fn counted_ages(backups: &[RetentionCandidate], keep_for: Duration) -> Vec<u64> {
    let longest = (keep_for / 4).max((keep_for / 2).min(DAILY));
    let longest = i64::try_from(longest.as_secs()).unwrap_or(i64::MAX);
    let mut ages: Vec<i64> = Vec::with_capacity(backups.len());
    let (mut sum, mut newer) = (0_i64, 0);
    for of in backups.iter().rev() {
        sum = sum.saturating_add(of.age_s.saturating_sub(newer).clamp(0, longest));
        newer = of.age_s;
        ages.push(if of.age_s < 0 { sum } else { sum.min(of.age_s) });
    }
    let mut youngest = i64::MAX;
    for age in ages.iter_mut().rev() {
        youngest = youngest.min(*age);
        *age = youngest;
    }
    ages.into_iter().rev().map(|age| age.try_into().unwrap_or(0)).collect()
}

fn days(seconds: u64) -> String {
    match seconds {
        0..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DAY: u64 = 86_400;

    fn backups(states: &str) -> Vec<RetentionCandidate> {
        let count = states.len() as u64;
        let candidate = |(index, letter): (usize, char)| RetentionCandidate {
            name: index.to_string(),
            age_s: ((count - index as u64 - 1) * DAY + 60) as i64,
            state: match letter {
                'g' => RestoreState::Good,
                'b' => RestoreState::Bad,
                _ => RestoreState::Unknown,
            },
            obstacle: (letter == 'h').then(|| "held".to_owned()),
        };
        states.chars().enumerate().map(candidate).collect()
    }

    fn kept(states: &str, rules: RetentionRules) -> String {
        let decisions = decide(&backups(states), &rules);
        decisions.iter().map(|of| if of.kept { 'k' } else { '-' }).collect()
    }

    #[test]
    fn rules() {
        let keep = |keep| RetentionRules { keep: Some(keep), ..RetentionRules::default() };
        let keep_for = |days| RetentionRules {
            keep_for: Some(Duration::from_secs(days * DAY)),
            ..RetentionRules::default()
        };
        let unverified =
            |keep| RetentionRules { keep: Some(keep), allows_unverified: true, ..RetentionRules::default() };
        let both = RetentionRules { keep_for: Some(Duration::from_secs(4 * DAY)), ..keep(2) };
        let cases = [
            // Only the newest ones, if a newer one is good.
            ("ggggg", keep(2), "---kk"),
            // The newest good one is not among the newest two.
            ("gg???", keep(2), "-k-kk"),
            // No backup is known to be good.
            ("?????", keep(2), "kkkkk"),
            ("?b?b?", keep(1), "kkkkk"),
            ("?????", unverified(2), "---kk"),
            // Bad ones do not count, and the newest one stays.
            ("ggbb?", keep(2), "-k--k"),
            ("gg?bb", keep(2), "-kk-k"),
            // Ages.
            ("ggggg", keep_for(3), "--kkk"),
            ("ggggg", both, "-kkkk"),
            ("g????", keep_for(0), "k---k"),
            // A held snapshot.
            ("h?ggg", keep(1), "k---k"),
            // No rule.
            ("ggg", RetentionRules::default(), "kkk"),
            ("", keep(1), ""),
            ("g", keep(0), "k"),
        ];
        for (states, rules, expected) in cases {
            assert_eq!(kept(states, rules), expected, "{states} {rules:?}");
        }
    }

    #[test]
    fn a_clock_that_was_wrong_makes_no_backup_old() {
        let ages_of = |days: &[i64], keep_days: u64| -> Vec<u64> {
            let candidate = |days: &i64| RetentionCandidate {
                name: String::new(),
                age_s: days * DAY as i64,
                state: RestoreState::Good,
                obstacle: None,
            };
            let backups: Vec<_> = days.iter().map(candidate).collect();
            let ages = counted_ages(&backups, Duration::from_secs(keep_days * DAY));
            ages.into_iter().map(|age| age / DAY).collect()
        };
        assert_eq!(ages_of(&[20, 15, 10, 5, 0], 28), [20, 15, 10, 5, 0]);
        assert_eq!(ages_of(&[3, -10, 1], 30), [3, 1, 1], "one was made with a clock that was ahead");
        assert_eq!(ages_of(&[3, 20_000, 1], 30), [3, 3, 1], "with one that began in 1970");
        assert_eq!(ages_of(&[3653, 3652, 3651], 28), [9, 8, 7], "the clock is ahead now");
        assert_eq!(ages_of(&[3652, 3651, 0], 28), [8, 7, 0], "and the newest was made with it");
        assert_eq!(ages_of(&[-5, -6, -7], 30), [2, 1, 0], "the clock is behind now");
        assert!(ages_of(&[], 30).is_empty());
    }

    proptest! {
        #[test]
        fn the_last_good_one_and_the_newest_always_stay(
            states in "[gb?h]{0,12}",
            keep in prop::option::of(0_usize..6),
            keep_days in prop::option::of(0_u64..9),
            allows_unverified in any::<bool>(),
        ) {
            let keep_for = keep_days.map(|days| Duration::from_secs(days * DAY));
            let rules = RetentionRules { keep, keep_for, allows_unverified, accepts_future: true };
            let mut left = states.clone();
            // However often it is repeated.
            for _ in 0..3 {
                let decisions = kept(&left, rules);
                if let Some(newest_good) = left.rfind('g') {
                    prop_assert_eq!(&decisions[newest_good..=newest_good], "k");
                }
                prop_assert!(left.is_empty() || decisions.ends_with('k'));
                let stays = |(letter, decision): (char, char)| (decision == 'k').then_some(letter);
                left = left.chars().zip(decisions.chars()).filter_map(stays).collect();
            }
            prop_assert_eq!(left.contains('g'), states.contains('g'));
            prop_assert!(left.len() >= states.len().min(1));
            if let Some(keep) = keep {
                let counted = |text: &str| text.chars().filter(|letter| *letter != 'b').count();
                prop_assert!(counted(&left) >= keep.min(counted(&states)));
            }
        }
    }
}
