//! Runs one trial in this process.

use std::time::{Duration, Instant};

use poolwright_base::quoted;
use poolwright_openzfs::clock::Costs;
use poolwright_trace::{Event, Trace};

use crate::application::Others;
use crate::cpus::limit_to;
use crate::drive::{Pace, Pass};
use crate::result::Replay;
use crate::{
    Capture, Counters, Directory, EngineTarget, Error, KernelPoolTarget, Result, Schedule, Spec, Target,
    TargetSpec, drive,
};

/// Runs the trial. It calls `interrupted` periodically.
///
/// # Errors
///
/// Returns an error if the trace, capture or specification is invalid, if nothing is left to replay, or if the target
/// fails; and [`Error::Interrupted`] if `interrupted` returns true.
pub fn run(spec: &Spec, interrupted: &(dyn Fn() -> bool + Sync)) -> Result<Replay> {
    let (trace, capture) = load(spec)?;
    if !(0.0..=0.9).contains(&spec.warm_share) {
        return Err(Error::Nothing(format!(
            "warm_share is {}, but must be between 0 and 0.9",
            spec.warm_share
        )));
    }
    if !spec.is_virtual() && spec.application.is_some() {
        limit_to(trace.meta.cores);
    }
    let until = spec.first_seconds.map_or(u64::MAX, |s| (s * 1e9) as u64);
    let wanted = |e: &Event| e.t_ns <= until && capture.keeps(e);
    let schedule = match spec.application {
        Some(_) => Schedule::of_application(&trace, others(&trace), &wanted),
        None => Schedule::build(&trace, wanted),
    };
    let files = trace.files;
    drop(trace.events);
    if schedule.is_empty() && !spec.fill_only {
        return Err(Error::Nothing(format!("nothing in {} is left to replay", quoted(&spec.trace))));
    }
    match &spec.target {
        TargetSpec::Engine(options) => {
            let real_time = spec.pace.is_some() || spec.application.is_some();
            let mut scaled = options.clone();
            // The cache is scaled with the sample. The engine's minimum is 64 MiB.
            scaled.arc_bytes = ((options.arc_bytes as f64 * capture.rate) as u64).max(64 << 20);
            scaled.dirty_bytes = ((options.dirty_bytes as f64 * capture.rate) as u64).max(64 << 20);
            let target = EngineTarget::create(&scaled, &files, &spec.settings, real_time)?;
            let name = format!(
                "OpenZFS {} ashift={} on {}",
                poolwright_openzfs::Engine::version(),
                options.ashift,
                options.device.name
            );
            let start = |t: &EngineTarget| t.set_device(&options.device);
            let mut replay =
                on(spec, schedule, &capture, &target, start, options.txg_timeout_s, interrupted)?;
            replay.target = name;
            replay.allocated_by_role = target.allocated_by_role()?;
            if spec.is_virtual() {
                let given = options.clock.as_ref().map_or(&[][..], |clock| &clock.costs.codecs);
                replay.codec_costs = Costs::of_codecs();
                replay.codec_costs.retain(|cost| !given.contains(cost));
            }
            Ok(replay)
        }
        TargetSpec::Directory(parent) => {
            let target = Directory::create(parent, capture.files.len())?;
            let mut replay = on(spec, schedule, &capture, &target, |_| (), 0, interrupted)?;
            replay.target = format!("directory {}", parent.display());
            Ok(replay)
        }
        TargetSpec::KernelPool(options) => {
            let target = KernelPoolTarget::create(options, &capture.roles, &spec.settings)?;
            let start = KernelPoolTarget::end_filling;
            let mut replay = on(spec, schedule, &capture, &target, start, 0, interrupted)?;
            replay.target = format!("datasets of the kernel below {}", options.parent);
            replay.allocated_by_role = target.allocated_by_role()?;
            Ok(replay)
        }
    }
}

/// Returns the trace and its capture, from the time at which the replay begins.
fn load(spec: &Spec) -> Result<(Trace, Capture)> {
    let mut trace = Trace::load(&spec.trace)?;
    let mut capture = load_capture(spec, &trace)?;
    if let Some(seconds) = spec.from_seconds {
        let begin_ns = (seconds * 1e9) as u64;
        capture.begin_at(&trace, begin_ns);
        trace.begin_at(begin_ns);
    }
    Ok((trace, capture))
}

/// Returns the capture of the trace, reduced to the roles of the specification.
fn load_capture(spec: &Spec, trace: &Trace) -> Result<Capture> {
    let mut capture = Capture::load(&spec.capture)?;
    if capture.files.len() != trace.files.len() {
        return Err(Error::Nothing(format!(
            "the capture {} does not belong to the trace {}",
            quoted(&spec.capture),
            quoted(&spec.trace)
        )));
    }
    for (taken, role) in capture.taken.iter_mut().zip(&capture.roles) {
        *taken &= spec.roles.is_empty() || spec.roles.contains(role);
    }
    Ok(capture)
}

/// Returns the CPU time of processes other than the recorded ones, as far as the recorder measured it.
fn others(trace: &Trace) -> Others {
    Others { cpu_ns: trace.meta.cpu.iter().map(|second| second.others_ns).sum() }
}

fn on<T: Target>(
    spec: &Spec,
    schedule: Schedule,
    capture: &Capture,
    target: &T,
    start_device: impl Fn(&T),
    txg_timeout_s: u32,
    interrupted: &(dyn Fn() -> bool + Sync),
) -> Result<Replay> {
    let began = Instant::now();
    let mut replay = Replay {
        settings: spec.settings.clone(),
        filled_bytes: capture.fill(target, interrupted)?,
        sampling_rate: capture.rate,
        skipped: schedule.skipped.clone(),
        ..Replay::default()
    };
    replay.fill_seconds = began.elapsed().as_secs_f64();
    let application = spec.application.map(|a| Pace::Application {
        warm_share: spec.warm_share,
        call_ns: a.call_ns,
        longest: a.longest_s.and_then(|s| Duration::try_from_secs_f64(s).ok()),
        servers: a.servers,
    });
    let pace = application.unwrap_or(spec.pace.map_or(Pace::AsFastAsPossible, Pace::Recorded));
    let pass =
        |s: &Schedule, pace| -> Result<Pass> { drive(s, capture, target, pace, txg_timeout_s, interrupted) };
    if !spec.fill_only {
        for _ in 0..if application.is_some() { 0 } else { spec.warm_passes } {
            // At the pace of the measured pass: the ARC counts a second use of a block only after a sixteenth of a second.
            replay.warm_ops += pass(&schedule, pace)?.ops.values().sum::<u64>();
            target.settle()?;
        }
        replay.allocated_before = target.allocated_bytes()?;
        start_device(target);
        let cut = schedule.start_ns + (schedule.duration_ns as f64 * spec.warm_share) as u64;
        // The application's first steps warm up caches, dirty data and threads within the same pass.
        replay.application = schedule.application.as_ref().map(|a| a.inferred.clone());
        let (warm, measured) =
            if application.is_some() { (Schedule::default(), schedule) } else { schedule.split(cut) };
        if !warm.is_empty() {
            replay.warm_ops += pass(&warm, pace)?.ops.values().sum::<u64>();
            target.settle()?;
        }
        let before = target.counters()?;
        let measured = pass(&measured, pace)?;
        target.settle()?;
        let after = target.counters()?;
        replay.take_pass(measured);
        take_counters(&mut replay, &before, &after);
    }
    replay.allocated_bytes = target.allocated_bytes()?;
    replay.logical_bytes = target.logical_bytes()?;
    Ok(replay)
}

fn take_counters(replay: &mut Replay, before: &Counters, after: &Counters) {
    replay.vdev = after.vdev.since(&before.vdev);
    replay.arc = after.arc.since(&before.arc);
    // Sizes are levels, not counts: take the values after the pass.
    (replay.arc.size, replay.arc.target, replay.arc.max) = (after.arc.size, after.arc.target, after.arc.max);
    replay.arc.compressed_size = after.arc.compressed_size;
    replay.arc.uncompressed_size = after.arc.uncompressed_size;
    replay.arc.l2_size = after.arc.l2_size;
    replay.zil = after.zil.since(&before.zil);
    replay.cpu_seconds = after.cpu_seconds - before.cpu_seconds;
    replay.work_out_amplification();
}
