//! Loads a probe set into the kernel and accesses its maps. Nothing is pinned, so the programs are removed when the
//! process ends.

use std::cell::RefCell;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Typedef;
use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::{
    ErrorKind, Link, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, OpenObject, PrintLevel, Program,
    RingBuffer, RingBufferBuilder,
};
use poolwright_base::{cannot, kernel, process};

use crate::error::{Error, Result};
use crate::probes::{self, COUNTERS, Point, ProbeSet, When};
use crate::subject::Subject;

thread_local! {
    /// libbpf's last message, for error messages.
    static LAST_MESSAGE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// A loaded and attached probe set.
pub(crate) struct Probes {
    set: &'static ProbeSet,
    object: Object,
    links: Vec<Link>,
    /// The kinds of I/O that it cannot see on this kernel.
    pub unseen: Vec<&'static str>,
}

/// `ROOT_PATH` of `bpf/record.h`, in bytes.
const ROOT_PATH: usize = 256;

/// Parameters of loading.
#[derive(Clone, Copy)]
pub(crate) struct Config<'a> {
    /// What is recorded.
    pub subject: &'a Subject,
    /// Size of the ring buffer in bytes: a power of two.
    pub ring_bytes: u32,
}

impl Config<'_> {
    fn set(&self) -> &'static ProbeSet {
        match self.subject {
            Subject::Dir(_) | Subject::Pid(_) => &probes::SYSCALL,
            Subject::Device(_) => &probes::BLOCK,
        }
    }

    fn is_by_pid(&self) -> bool {
        matches!(self.subject, Subject::Pid(_))
    }
}

impl Probes {
    /// Loads and attaches the set. Its programs run from then on, but follow no file or process yet.
    ///
    /// # Errors
    /// [`Error::Privilege`], [`Error::Refused`], [`Error::NoBtf`] or [`Error::Kernel`] if the kernel does not load or attach
    /// the set; [`Error::Bpf`] if libbpf fails otherwise.
    pub fn attach(config: Config<'_>) -> Result<Probes> {
        let (object, unseen) = load(config)?;
        let mut links = Vec::new();
        for program in object.progs_mut().filter(|program| program.autoload()) {
            let name = program.name().to_string_lossy().into_owned();
            let link = program.attach().map_err(|e| refusal(&format!("to attach the program {name}"), &e))?;
            links.push(link);
        }
        Ok(Probes { set: config.set(), object, links, unseen })
    }

    /// Returns the name of the set in the trace.
    pub fn set_name(&self) -> &'static str {
        self.set.name
    }

    /// Returns how often the kernel skipped a program that sees I/O, because it ran already on that CPU.
    pub fn skipped(&self) -> u64 {
        let sees_io = |name: &str| self.set.sees_io.iter().any(|start| name.starts_with(start));
        let ours: Vec<u32> = self
            .object
            .progs()
            .filter(|program| program.autoload() && sees_io(&program.name().to_string_lossy()))
            .filter_map(|program| Program::id_from_fd(program.as_fd()).ok())
            .collect();
        let infos = ProgInfoIter::default().filter(|info| ours.contains(&info.id));
        infos.map(|info| info.recursion_misses).sum()
    }

    /// Detaches the programs. Their maps remain readable.
    pub fn detach(&mut self) {
        self.links.clear();
    }

    /// Creates a reader of the ring buffer that calls `callback` with each record. A negative return value stops
    /// reading.
    pub fn ring(&self, callback: impl FnMut(&[u8]) -> i32 + 'static) -> Result<RingBuffer<'static>> {
        let map = self.map("ring")?;
        let mut builder = RingBufferBuilder::new();
        builder.add(&map, callback).map_err(|e| bpf("set up the ring buffer", &e))?;
        builder.build().map_err(|e| bpf("map the ring buffer", &e))
    }

    /// Sets whether `statx` calls of this thread announce files.
    pub fn set_announcing(&self, on: bool) -> Result<()> {
        let mut value = self.control()?;
        let announcer = if on { rustix::thread::gettid().as_raw_pid() } else { 0 };
        value[..4].copy_from_slice(&announcer.to_ne_bytes());
        self.set_control(&value)
    }

    /// Sets the start of the recording to now, for a set without announcements. Its programs record from then on.
    pub fn start_clock(&self) -> Result<()> {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let start_ns = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        let mut value = self.control()?;
        value[8..16].copy_from_slice(&start_ns.to_ne_bytes());
        self.set_control(&value)
    }

    /// Returns the kernel's clock in nanoseconds at the start of the recording, or 0 if it has not started.
    pub fn start_ns(&self) -> Result<u64> {
        let value = self.control()?;
        Ok(u64::from_ne_bytes(value[8..16].try_into().expect("eight bytes")))
    }

    fn set_control(&self, value: &[u8]) -> Result<()> {
        self.map("control")?
            .update(&0u32.to_ne_bytes(), value, MapFlags::ANY)
            .map_err(|e| bpf("update the map control", &e))
    }

    fn control(&self) -> Result<Vec<u8>> {
        let value = self
            .map("control")?
            .lookup(&0u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(|e| bpf("read the map control", &e))?;
        Ok(value.unwrap_or_else(|| vec![0; 16]))
    }

    /// Starts following a process.
    pub fn follow(&self, pid: u32) -> Result<()> {
        self.map("tgids")?
            .update(&pid.to_ne_bytes(), &[1], MapFlags::ANY)
            .map_err(|e| bpf("add a process to the map tgids", &e))
    }

    /// Stops following a process, if it is followed.
    pub fn unfollow(&self, pid: u32) -> Result<()> {
        match self.map("tgids")?.delete(&pid.to_ne_bytes()) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(bpf("remove a process from the map tgids", &e)),
            _ => Ok(()),
        }
    }

    /// Returns the followed processes known to the programs. A process in the list may have ended.
    pub fn followed(&self) -> Result<Vec<u32>> {
        let number = |key: Vec<u8>| u32::from_ne_bytes(key[..4].try_into().expect("four bytes"));
        Ok(self.map("tgids")?.keys().map(number).collect())
    }

    /// Returns the values of all entries in a map of requests.
    pub fn pending(&self, map: &str) -> Result<Vec<Vec<u8>>> {
        let map = self.map(map)?;
        let values = map.keys().filter_map(|key| map.lookup(&key, MapFlags::ANY).ok().flatten());
        Ok(values.collect())
    }

    /// Returns the programs' counters, in the order of [`COUNTERS`].
    pub fn counters(&self) -> Result<Vec<u64>> {
        let map = self.map("counters")?;
        let sum = |index: usize| -> Result<u64> {
            let per_cpu = map
                .lookup_percpu(&(index as u32).to_ne_bytes(), MapFlags::ANY)
                .map_err(|e| bpf("read the map counters", &e))?;
            let number = |bytes: &Vec<u8>| u64::from_ne_bytes(bytes[..8].try_into().expect("eight bytes"));
            Ok(per_cpu.unwrap_or_default().iter().map(number).sum())
        };
        (0..COUNTERS.len()).map(sum).collect()
    }

    fn map(&self, name: &str) -> Result<MapHandle> {
        let map = self.object.maps().find(|map| map.name() == name).ok_or_else(|| Error::Bpf {
            what: format!("find the map {name}"),
            why: "the probe set has no such map".to_owned(),
        })?;
        MapHandle::try_from(&map).map_err(|e| bpf("duplicate a map's descriptor", &e))
    }
}

fn load(config: Config<'_>) -> Result<(Object, Vec<&'static str>)> {
    check_capabilities()?;
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        return Err(Error::NoBtf);
    }
    libbpf_rs::set_print(Some((PrintLevel::Warn, keep_last_words)));
    LAST_MESSAGE.with_borrow_mut(String::clear);
    let mut open = ObjectBuilder::default()
        .open_memory(config.set().object)
        .map_err(|e| bpf("read the BPF object", &e))?;
    let unseen = choose_programs(&mut open, config)?;
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if name == "ring" {
            map.set_max_entries(config.ring_bytes).map_err(|e| bpf("set the ring buffer's size", &e))?;
        } else if name.ends_with("config") {
            map.set_initial_value(&constants(config)).map_err(|e| bpf("set the programs' constants", &e))?;
        }
    }
    let object = open.load().map_err(|e| refusal("to load the BPF programs", &e))?;
    Ok((object, unseen))
}

/// Returns `struct config` of `bpf/record.h`.
fn constants(config: Config<'_>) -> Vec<u8> {
    let (path, device) = match config.subject {
        Subject::Dir(dir) => (dir.as_os_str().as_bytes(), 0),
        Subject::Pid(_) => (&b""[..], 0),
        Subject::Device(device) => (&b""[..], device.kernel_number()),
    };
    let path = if path.len() <= ROOT_PATH { path } else { b"" };
    let numbers = [std::process::id(), u32::from(config.is_by_pid()), path.len() as u32, device];
    let mut value: Vec<u8> = numbers.into_iter().flat_map(u32::to_ne_bytes).collect();
    value.extend_from_slice(path);
    value.resize(16 + ROOT_PATH, 0);
    value
}

/// Disables the programs whose tracepoint this kernel lacks, or that this recording does not need.
fn choose_programs(open: &mut OpenObject, config: Config<'_>) -> Result<Vec<&'static str>> {
    let btf = Btf::from_vmlinux().map_err(|_| Error::NoBtf)?;
    let has = |name: &str| btf.type_by_name::<Typedef<'_>>(&format!("btf_trace_{name}")).is_some();
    let mut unseen = Vec::new();
    for mut program in open.progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        let point = config.set().points.iter().find(|p| p.program == name).ok_or_else(|| Error::Bpf {
            what: format!("attach the program {name}"),
            why: "the probe set has no such program".to_owned(),
        })?;
        let wanted = wanted(point, config, has);
        let there = has(point.tracepoint);
        program.set_autoload(wanted && there);
        if wanted && !there {
            let Some(what) = point.unseen_without else {
                let what = format!("tracepoint {}", point.tracepoint);
                return Err(Error::Kernel { release: kernel::release(), what });
            };
            if !unseen.contains(&what) {
                unseen.push(what);
            }
        }
    }
    Ok(unseen)
}

fn wanted(point: &Point, config: Config<'_>, has: impl Fn(&str) -> bool) -> bool {
    match point.when {
        When::Always => !renamed(point, &has),
        When::ByPid => config.is_by_pid(),
        When::Instead(newer) => !has(newer),
    }
}

/// Whether this kernel has the tracepoint only under its older name, for which the set has another program.
fn renamed(point: &Point, has: &impl Fn(&str) -> bool) -> bool {
    point.tracepoint == "io_uring_submit_req" && !has("io_uring_submit_req") && has("io_uring_submit_sqe")
}

/// Checks the capabilities. `CAP_SYS_ADMIN` includes both others (`capabilities(7)`).
fn check_capabilities() -> Result<()> {
    const NEEDED: [(u32, &str); 2] = [(39, "CAP_BPF"), (38, "CAP_PERFMON")];
    const CAP_SYS_ADMIN: u32 = 21;
    let effective = process::effective_capabilities().map_err(cannot("read", "/proc/self/status"))?;
    let has = |bit: u32| effective >> bit & 1 == 1;
    if has(CAP_SYS_ADMIN) {
        return Ok(());
    }
    let missing: Vec<&str> = NEEDED.iter().filter(|(bit, _)| !has(*bit)).map(|(_, name)| *name).collect();
    if missing.is_empty() { Ok(()) } else { Err(Error::Privilege(missing.join(" and "))) }
}

fn keep_last_words(_: PrintLevel, text: String) {
    if let Some(line) = telling_line(&text) {
        LAST_MESSAGE.with_borrow_mut(|words| {
            if words.len() < 600 {
                if !words.is_empty() {
                    words.push_str("; ");
                }
                words.push_str(line);
            }
        });
    }
}

/// Returns the line of a message that names the program or the cause: of the verifier's log, which may have thousands of lines, the last
/// one of the verifier's reasoning; of any other message, the first.
fn telling_line(text: &str) -> Option<&str> {
    let is_frame = |line: &str| line.contains("PROG LOAD LOG --") || line.starts_with("processed ");
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    match text.contains("PROG LOAD LOG --") {
        true => lines.rfind(|line| !is_frame(line)),
        false => lines.next(),
    }
}

fn refusal(what: &str, error: &libbpf_rs::Error) -> Error {
    let words = LAST_MESSAGE.with_borrow(String::clone);
    let why = if words.is_empty() { error.to_string() } else { format!("{error} ({words})") };
    match error.kind() {
        ErrorKind::PermissionDenied => Error::Refused { what: what.to_owned(), why },
        _ => Error::Refused { what: format!("{what} on kernel {}", kernel::release()), why },
    }
}

fn bpf(what: &str, error: &libbpf_rs::Error) -> Error {
    Error::Bpf { what: what.to_owned(), why: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    /// libbpf's messages about a program that reads through a pointer that may be null, each as it passes it, on Linux 6.18.
    const REFUSED: [&str; 4] = [
        "libbpf: prog 'pw_sys_enter': BPF program load failed: Permission denied\n",
        r"libbpf: prog 'pw_sys_enter': -- BEGIN PROG LOAD LOG --
arg#0 reference type('UNKNOWN ') size cannot be determined: -22
0: R1=ctx() R10=fp0
; int pw_sys_enter(void *ctx) { @ bad.bpf.c:6
0: (b7) r1 = 1                        ; R1=1
; unsigned key = 1; @ bad.bpf.c:7
1: (63) *(u32 *)(r10 -4) = r1         ; R1=1 R10=fp0 fp-8=mmmm????
2: (bf) r2 = r10                      ; R2=fp0 R10=fp0
;  @ bad.bpf.c:0
3: (07) r2 += -4                      ; R2=fp-4
; unsigned long long *v = bpf_map_lookup_elem(&seen, &key); @ bad.bpf.c:8
4: (18) r1 = 0xffff8881043a4c00       ; R1=map_ptr(map=seen,ks=4,vs=8)
6: (85) call bpf_map_lookup_elem#1    ; R0=map_value_or_null(id=1,map=seen,ks=4,vs=8)
; *v += 1; @ bad.bpf.c:9
7: (79) r1 = *(u64 *)(r0 +0)
R0 invalid mem access 'map_value_or_null'
processed 7 insns (limit 1000000) max_states_per_insn 0 total_states 0 peak_states 0 mark_read 0
-- END PROG LOAD LOG --
",
        "libbpf: prog 'pw_sys_enter': failed to load: -13\n",
        "libbpf: failed to load object 'bad.o'\n",
    ];

    #[test]
    fn the_cause_is_taken_from_the_end_of_the_verifiers_log() {
        LAST_MESSAGE.with_borrow_mut(String::clear);
        REFUSED.iter().for_each(|text| keep_last_words(PrintLevel::Warn, (*text).to_owned()));
        let error = refusal(
            "to load the BPF programs",
            &libbpf_rs::Error::from_raw_os_error(Errno::ACCESS.raw_os_error()),
        );
        let Error::Refused { what, why } = &error else { panic!("{error}") };
        assert_eq!(what, "to load the BPF programs");
        let words = "libbpf: prog 'pw_sys_enter': BPF program load failed: Permission denied; R0 invalid mem access \
                     'map_value_or_null'; libbpf: prog 'pw_sys_enter': failed to load: -13; libbpf: failed to load object 'bad.o'";
        assert!(why.ends_with(&format!("({words})")), "{why}");
        // Another error names the kernel.
        let error = refusal(
            "to load the BPF programs",
            &libbpf_rs::Error::from_raw_os_error(Errno::INVAL.raw_os_error()),
        );
        assert!(matches!(&error, Error::Refused { what, .. } if what.contains(" on kernel ")), "{error}");
    }

    #[test]
    fn a_log_without_its_end_or_its_cause_adds_no_frame() {
        let log = |lines: &str| format!("libbpf: prog 'p': -- BEGIN PROG LOAD LOG --\n{lines}");
        let too_large = log(
            "BPF program is too large. Processed 1000001 insn\nprocessed 1000001 insns (limit 1000000)\n",
        );
        assert_eq!(telling_line(&too_large), Some("BPF program is too large. Processed 1000001 insn"));
        assert_eq!(telling_line(&log("-- END PROG LOAD LOG --\n")), None);
        assert_eq!(telling_line("\n"), None);
        assert_eq!(telling_line("libbpf: one\n  hint\n"), Some("libbpf: one"));
    }
}
