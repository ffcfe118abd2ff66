//! Assembles the plan from the results of the tuner.

use std::collections::BTreeMap;

use poolwright_openzfs::clock::{CodecCost, Costs};
use poolwright_openzfs::{Compression, Config, Engine, Geometry, codec};
use poolwright_replay::settings::RoleSettings;
use poolwright_replay::{Capture, codec_times};
use poolwright_report::text::signed;
use poolwright_trace::Reader;
use poolwright_trace::layout::Role;

use crate::alternative::alternative;
use crate::candidates::{assignments, difference, with};
use crate::direct::DirectIo;
use crate::evidence::widen_space;
use crate::groups::Group;
use crate::objective::{Metrics, median_of_p99};
use crate::race::Outcome;
use crate::requirement::{Fulfilment, Requirement};
use crate::roles::{Files, dataset_location};
use crate::space::EstimatedSpace;
use crate::tuner::{Request, Tuner, for_all, recommended_ashift, settings_of};
use crate::{Result, database, direct, evidence, headline, machine, memory, track_record};
use poolwright_plan::metric::MIN_FOR_P99;
use poolwright_plan::{self as plan, AlternativeSetting, MeasuredChange, Plan, Settings, Verdict};

/// The smallest improvement of the objective that justifies rewriting the files: 3 % (docs/method.md, "The
/// decision").
const WORTHWHILE: f64 = 0.03;
/// Up to this many paths of a role are listed one by one; beyond that the plan lists their directories.
const NAMED: usize = 50;

impl Tuner<'_> {
    /// Returns the plan's entry for the first of `roles`, which share a dataset. `outcome` is the result of
    /// their race, if there was one.
    pub(crate) fn role_of_plan(
        &self,
        roles: &[Role],
        files: &Files,
        outcome: Option<&Outcome>,
    ) -> plan::RolePlan {
        let (name, together_with) = roles.split_first().expect("a race has at least one role");
        let current = self.current_of(*name);
        let today = &current.settings;
        let mut pairs = outcome.map(|o| evidence::gains(&o.pairs, &o.scatter())).unwrap_or_default();
        if let Some(best) = outcome.and_then(|o| o.best.map(|i| &o.others[i].settings)) {
            self.widen_space(&self.settings_today(), &for_all(roles, best), &mut pairs);
        }
        let limits = self.request.limits();
        let exceeded = limits.iter().filter(|l| l.fulfilment(&pairs) == Some(Fulfilment::Missed));
        let unmet: Vec<String> = (self.request.requirements.iter().filter(|r| !r.is_met(&pairs)))
            .chain(exceeded)
            .map(ToString::to_string)
            .collect();
        let faster = outcome.is_some_and(|o| o.is_better(WORTHWHILE));
        let better = faster && unmet.is_empty();
        let chosen = outcome.and_then(|o| o.best.map(|i| &o.others[i].settings)).filter(|_| better);
        let recommended = chosen.map(|c| difference(c, today)).unwrap_or_default();
        let mut notes: Vec<String> = together(together_with).into_iter().collect();
        if faster && !better {
            notes.push(format!(
                "the best setting does not meet {} over its whole 95 % interval",
                unmet.join(" and ")
            ));
        }
        notes.extend(outcome.and_then(|o| unchecked(o, self.request)));
        let fit = self.fits.get(name).filter(|_| outcome.is_some());
        let slice = fit.map(|fit| self.profile.compare(self.slice(fit.seconds)));
        if let Some(((fit, outcome), slice)) = fit.zip(outcome).zip(slice.as_ref()) {
            notes.extend(self.profile.late_begin(self.begin_s));
            notes.extend(fit.cuts(slice, outcome));
        }
        if let Some(simpler) = outcome.filter(|_| better).and_then(|o| o.left_out.as_ref()) {
            notes.push(simpler.clone());
        }
        notes.extend(rewriting(&recommended, files));
        let layout = self.inventory.found.as_ref().map(|found| found.layout.name);
        let by_database = (layout == Some("mariadb")).then_some("innodb_flush_method=fsync");
        notes.extend(direct::note(self.events_of(roles), today, self.direct_io(), by_database));
        let location = dataset_location(&self.inventory, &self.request.dir, *name);
        let alternative = outcome.and_then(|o| self.alternative(roles, chosen.unwrap_or(today), o));
        plan::RolePlan {
            role: *name,
            path: common_directory(files).unwrap_or_else(|| location.mountpoint.clone()),
            paths: paths(files),
            files: files.paths.len() as u64,
            bytes: files.bytes,
            location: plan::DatasetLocation { dataset: current.dataset.clone(), ..location },
            current: today.clone(),
            current_source: current.source.clone(),
            recommended,
            safe_because: BTreeMap::new(),
            io: (files.ops > 0).then(|| files.io.clone()),
            together_with: together_with.to_vec(),
            replayed: slice.map(|s| s.to_plan()),
            evidence: evidence::collect(
                outcome,
                better,
                self.evidence_of_space(*name),
                today,
                self.request.goal,
                self.ashift,
            ),
            gain: if better { pairs } else { BTreeMap::new() },
            alternative,
            excluded: outcome.and_then(|o| excluded(o, self.request)),
            notes,
        }
    }

    /// The estimates of a role's space, without that of today's settings.
    fn evidence_of_space(&self, role: Role) -> &[EstimatedSpace] {
        self.space.get(&role).and_then(|all| all.split_last()).map_or(&[], |(_, tried)| tried)
    }

    /// Logical bytes per byte in the ARC of each role's files under the recommended settings, as far as they were estimated.
    fn arc_ratios(&self, roles: &[plan::RolePlan]) -> BTreeMap<Role, f64> {
        let ratio = |of: &plan::RolePlan| {
            let settings = with(&of.current, &of.recommended);
            let estimate = crate::space::find(self.space.get(&of.role)?, &settings)?;
            // Compression never makes a record larger in the ARC.
            Some((of.role, estimate.arc_ratio.clamp(1.0, 1e3)))
        };
        roles.iter().filter_map(ratio).collect()
    }

    /// The sector size of the pool as a power of two, and the reason.
    fn pool_ashift(&self) -> (u8, String) {
        match self.current.ashift.filter(|_| self.is_of_volume()) {
            Some(ashift) => (ashift, "that of the volume's pool".to_owned()),
            None => recommended_ashift(&self.request.dir),
        }
    }

    /// Gives the changes of space the error of the estimate.
    fn widen_space(&self, today: &RoleSettings, new: &RoleSettings, gains: &mut plan::Gains) {
        let half = self.error_of_space(today, new);
        for (metric, gain) in gains {
            let mut found = MeasuredChange { change: gain.change, ci95: gain.ci95, verdict: gain.verdict };
            widen_space(metric, half, &mut found);
            (gain.ci95, gain.verdict) = (found.ci95, found.verdict);
        }
    }

    /// Half of the 95 % interval of the logarithm of the change of space; 0 if it is not estimated.
    fn error_of_space(&self, today: &RoleSettings, new: &RoleSettings) -> f64 {
        let both = self.database_space(today).zip(self.database_space(new));
        both.map_or(0.0, |(today, new)| today.error_of_change(&new))
    }

    /// Returns the setting to offer as an alternative to `recommended`, with the error of the estimate in its space.
    fn alternative(
        &self,
        roles: &[Role],
        recommended: &Settings,
        outcome: &Outcome,
    ) -> Option<AlternativeSetting> {
        let today = &self.current_of(roles[0]).settings;
        let mut found = alternative(self.request.goal, today, recommended, outcome)?;
        let new = for_all(roles, &with(today, &found.changes));
        let half = self.error_of_space(&self.settings_today(), &new);
        found.change.iter_mut().for_each(|(metric, change)| widen_space(metric, half, change));
        Some(found)
    }

    /// Assembles the plan; `pairs` compare the whole plan with today's settings.
    pub(crate) fn plan(
        &mut self,
        roles: Vec<plan::RolePlan>,
        pairs: Vec<(Metrics, Metrics)>,
    ) -> Result<Plan> {
        let verdict =
            if roles.iter().any(|r| !r.recommended.is_empty()) { Verdict::Change } else { Verdict::Keep };
        let mut gain = evidence::gains(&pairs, &self.scatter);
        self.widen_space(&settings_of(&roles, false), &settings_of(&roles, true), &mut gain);
        let costs = headline::costs(&roles, &gain);
        let database = self.database_settings();
        let (device_ashift, why) = self.pool_ashift();
        let subject = self.subject();
        let memory = memory::advise(
            &self.trace,
            &roles,
            &self.arc_ratios(&roles),
            &self.request.device,
            self.direct_io() != DirectIo::Cached,
            &self.request.stop,
        )?;
        // The advice comes last: if the user interrupts its trials, the rest of the plan is complete.
        let advice = self.published_advice()?;
        let layout = self.inventory.found.as_ref().map(|f| f.layout.name);
        let track_record = match self.is_of_volume() {
            true => track_record::for_volume(),
            false => track_record::for_layout(layout),
        };
        let expected = headline::with_expected_rate(&gain, track_record.as_ref());
        Ok(Plan {
            format: plan::FORMAT.into(),
            version: plan::VERSION,
            creator: concat!("poolwright ", env!("CARGO_PKG_VERSION")).into(),
            created: poolwright_base::time::now(),
            subject,
            goal: self.request.goal.to_plan(self.request.limits().iter().map(ToString::to_string).collect()),
            machine: machine::describe(self.request),
            seeds: vec![self.request.seed],
            data: data_summary(&self.capture)?,
            trace: Some(self.trace_summary()),
            why: headline::why(verdict, &roles, &expected, &costs),
            roles,
            pool: plan::Pool {
                ashift: self.request.ashift.map_or(device_ashift, |a| a as u8),
                current: self.current.ashift,
                why: if self.request.ashift.is_some() { "given by the user".into() } else { why },
            },
            database,
            memory: Some(memory),
            pareto: std::mem::take(&mut self.findings.pareto),
            contributions: std::mem::take(&mut self.findings.contributions),
            track_record,
            advice,
            request: Some(self.request_record()?),
            gain,
            costs,
            trials: self.trials,
            failed_trials: self.failed,
            seconds: self.began.elapsed().as_secs_f64(),
            verdict,
            warnings: std::mem::take(&mut self.warnings),
        })
    }

    /// Returns the request, with the costs of codecs that the recording does not have.
    fn request_record(&self) -> Result<plan::RequestRecord> {
        let request = self.request;
        Ok(plan::RequestRecord {
            goal: request.goal.name().into(),
            requirements: request.requirements.iter().map(ToString::to_string).collect(),
            budget_s: request.budget.as_secs_f64(),
            arc_bytes: request.arc_bytes,
            dirty_bytes: request.dirty_bytes,
            ashift: request.ashift,
            device: request.device.clone(),
            costs: Some(Costs { codecs: self.other_codecs(), ..self.costs.clone() }),
            stated: request.stated.clone(),
            seed: request.seed,
            sample_bytes: request.max_bytes,
            check_advice: request.check_advice,
            trace_checksum: Reader::open(&request.trace)?.fingerprint(),
        })
    }

    /// Returns the costs of codecs that are not those of the recording.
    fn other_codecs(&self) -> Vec<CodecCost> {
        let recorded = codec_times::costs(&self.trace.meta.codecs);
        self.costs.codecs.iter().filter(|cost| !recorded.contains(cost)).copied().collect()
    }

    fn database_settings(&self) -> Vec<plan::DatabaseSetting> {
        self.inventory.found.as_ref().map_or_else(Vec::new, |found| database::advise(found.layout.name))
    }

    fn subject(&self) -> plan::Subject {
        let name = self.inventory.found.as_ref().map(|f| match machine::database_version(f.layout.name) {
            Some(version) => format!("{} {version}", f.layout.title),
            None => f.layout.title.to_owned(),
        });
        plan::Subject {
            directory: self.request.dir.display().to_string(),
            database: name,
            file_system: self.current.file_system.clone(),
            dataset: self.current.dataset.clone(),
            files: self.inventory.files,
            bytes: self.inventory.bytes,
            allocated_bytes: self.inventory.allocated,
            skipped: self.inventory.skipped.clone(),
        }
    }

    fn trace_summary(&self) -> plan::TraceSummary {
        let meta = &self.trace.meta;
        let mut summary = plan::TraceSummary {
            path: self.request.keep_trace.then(|| self.request.trace.display().to_string()),
            creator: meta.creator.clone(),
            subject: meta.subject.clone(),
            probe_set: meta.probe_set.clone(),
            duration_s: meta.duration_ns as f64 / 1e9,
            lost_events: meta.lost_events,
            unseen: meta
                .unseen
                .iter()
                .map(|(what, count)| plan::Unseen { what: what.clone(), count: *count })
                .collect(),
            ..plan::TraceSummary::default()
        };
        for files in self.inventory.roles.values() {
            for (op, n) in &files.io.ops {
                *summary.ops.entry(op.clone()).or_default() += n;
            }
            for (way, n) in &files.io.bytes {
                *summary.bytes.entry(way.clone()).or_default() += n;
            }
        }
        summary
    }
}

/// Gives roles that share a dataset with a raced role the settings recommended for that role.
pub(crate) fn reconcile(roles: &mut [plan::RolePlan], raced: &[Group]) {
    for group in raced {
        let Some(lead) = group.roles.first() else { continue };
        let Some(shared) = roles.iter().find(|r| r.role == *lead).map(|r| r.recommended.clone()) else {
            continue;
        };
        let followers =
            |r: &&mut plan::RolePlan| r.location.mountpoint == group.mountpoint && r.role != *lead;
        for role in roles.iter_mut().filter(followers) {
            role.recommended = shared.clone();
        }
    }
}

fn paths(files: &Files) -> Vec<String> {
    if files.paths.len() <= NAMED {
        return files.paths.iter().map(|p| p.display().to_string()).collect();
    }
    let mut dirs: Vec<String> =
        files.paths.iter().filter_map(|p| Some(p.parent()?.display().to_string())).collect();
    dirs.sort();
    dirs.dedup();
    dirs
}

/// Returns the remark on the setting with the best objective, if it was not considered because it misses a requirement or a limit of the
/// goal.
fn excluded(outcome: &Outcome, request: &Request) -> Option<String> {
    let today = outcome.today.median();
    let tried = outcome.others.iter().filter(|runner| !runner.trials.is_empty());
    let rated = tried.map(|runner| (request.goal.objective(&runner.median(), &today), runner));
    let (objective, best) = rated.min_by(|a, b| a.0.total_cmp(&b.0))?;
    let metrics = best.median();
    let bounds = request.bounds();
    let missed = |bound: &Requirement| {
        let change = bound.change(&metrics, &today).filter(|change| !bound.allows(*change))?;
        Some(format!("{bound} ({} %)", signed(change * 100.0, 0)))
    };
    let missed: Vec<String> = bounds.iter().filter_map(missed).collect();
    let changes = assignments(&difference(&best.settings, &outcome.today.settings));
    (objective <= 1.0 - WORTHWHILE && !missed.is_empty()).then(|| {
        format!(
            "{changes} has the best objective of all ({objective:.2}), but misses {}; a requirement with another bound allows it",
            missed.join(" and ")
        )
    })
}

/// Returns the remark on bounds of 99th percentiles that were not checked, because the trials have too few of these operations.
fn unchecked(outcome: &Outcome, request: &Request) -> Option<String> {
    let today = outcome.today.median();
    let has_too_few = |bound: &Requirement| {
        let metric = bound.metric().filter(|metric| !today.contains_key(*metric));
        metric.and_then(median_of_p99).is_some_and(|median| today.contains_key(&median))
    };
    let bounds: Vec<String> =
        request.bounds().iter().filter(|bound| has_too_few(bound)).map(ToString::to_string).collect();
    (!bounds.is_empty()).then(|| {
        format!(
            "{} was not checked: the trials have fewer than {} of these operations",
            bounds.join(" and "),
            MIN_FOR_P99
        )
    })
}

/// Returns the remark on other roles that were tried in the same race.
fn together(with: &[Role]) -> Option<String> {
    let with: Vec<&str> = with.iter().map(|role| role.name()).collect();
    let with = (!with.is_empty()).then(|| with.join(" and "))?;
    Some(format!(
        "tried together with {with}, because their files share a directory and would share a dataset"
    ))
}

/// Returns the remark on files that have to be rewritten, if the properties concern only new data.
fn rewriting(recommended: &Settings, files: &Files) -> Option<String> {
    let concerned =
        ["recordsize", "volblocksize", "compression"].iter().any(|name| recommended.contains_key(*name));
    if recommended.contains_key("volblocksize") {
        return Some(
            "the block size is fixed when a volume is created: the data has to be copied to a new volume"
                .to_owned(),
        );
    }
    let n = files.paths.len() as u64;
    concerned.then(|| {
        format!(
            "applies only to newly written data: {} {} to be rewritten",
            poolwright_base::units::counted(n, "file"),
            if n == 1 { "has" } else { "have" }
        )
    })
}

/// Returns the path of a role's only file, or the deepest directory that contains all of its files.
fn common_directory(files: &Files) -> Option<String> {
    if let [one] = files.paths.as_slice() {
        return Some(one.display().to_string());
    }
    let mut common = files.paths.first()?.parent()?.to_owned();
    for path in &files.paths {
        while !path.starts_with(&common) {
            common = common.parent()?.to_owned();
        }
    }
    Some(common.display().to_string())
}

/// Measures entropy and compressibility of the captured bytes that come from the files, in at most 64 MiB of 128K
/// chunks.
fn data_summary(capture: &Capture) -> Result<plan::Data> {
    const CHUNK: u64 = 128 << 10;
    const MOST: u64 = 64 << 20;
    let engine = Engine::start(&Config { arc_bytes: 64 << 20, ..Config::default() })?;
    let geometry = Geometry::plain(9);
    let codecs = [Compression::parse("lz4")?, Compression::parse("zstd-3")?];
    let mut codecs = codecs.map(|c| codec::Codec::new(engine, &c, CHUNK as usize));
    let step = (capture.real_bytes / MOST).max(1);
    let mut buf = vec![0; CHUNK as usize];
    let (mut seen, mut read, mut zero, mut packed, mut entropy) = (0u64, 0u64, 0u64, [0u64; 2], 0.0);
    for (file, f) in capture.files.iter().enumerate() {
        for extent in &f.extents {
            for at in (0..extent.real).step_by(CHUNK as usize) {
                seen += 1;
                if !seen.is_multiple_of(step) {
                    continue;
                }
                let (chunk, _) = capture.read(file as u32, extent.offset + at, extent.real - at, &mut buf)?;
                // A record consists of whole sectors; the incomplete last sector of a file is
                // omitted.
                let chunk = &chunk[..chunk.len() / 512 * 512];
                if chunk.is_empty() {
                    continue;
                }
                read += chunk.len() as u64;
                entropy += order0(chunk) * chunk.len() as f64;
                zero += chunk
                    .chunks(4096)
                    .filter(|page| page.iter().all(|b| *b == 0))
                    .map(|p| p.len() as u64)
                    .sum::<u64>();
                for (codec, total) in codecs.iter_mut().zip(&mut packed) {
                    codec.store(chunk, &geometry)?;
                    *total += if codec.compressed().is_empty() && chunk.iter().any(|b| *b != 0) {
                        chunk.len()
                    } else {
                        codec.compressed().len()
                    } as u64;
                }
            }
        }
    }
    let n = read.max(1) as f64;
    Ok(plan::Data {
        sampled_bytes: read,
        entropy_bits_per_byte: entropy / n,
        zero_fraction: zero as f64 / n,
        lz4_ratio: n / packed[0].max(1) as f64,
        zstd3_ratio: n / packed[1].max(1) as f64,
        replay_bytes: if capture.synthetic_bytes <= capture.real_bytes / 20 {
            plan::ReplayBytes::File
        } else {
            plan::ReplayBytes::Synthetic
        },
    })
}

/// Returns the Shannon entropy of the byte values in bits per byte.
fn order0(bytes: &[u8]) -> f64 {
    let mut counts = [0u64; 256];
    for b in bytes {
        counts[*b as usize] += 1;
    }
    let n = bytes.len().max(1) as f64;
    counts.iter().filter(|c| **c > 0).map(|c| -(*c as f64 / n) * (*c as f64 / n).log2()).sum()
}
