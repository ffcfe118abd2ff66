//! `--device`: which devices the pool's files behave like.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use poolwright_openzfs::{Config, Device, Engine};

use crate::commands::options::Usage;

/// Said before it is mounted.
pub const RISK: &str = "--device is for scratch pools: nothing is flushed to the host's disk while a device is played, so a \
                        crash of this machine can lose the pool";

/// Threads that wait for a vdev's requests: what OpenZFS has under way at a vdev when all of its queues are full (ten
/// synchronous reads, ten synchronous and ten asynchronous writes, three read ahead, and some for the log and a scrub).
/// With fewer, a slow vdev would keep a fast one waiting for a thread.
const THREADS_PER_VDEV: usize = 40;
const MOST_THREADS: usize = 256;

/// The kind of all files, and of those that have one of their own, by file name.
#[derive(Clone, Debug)]
pub struct Devices {
    all: Device,
    named: Vec<(String, Device)>,
}

impl Devices {
    /// For clap: `KIND[,NAME=KIND…]`, where the first kind may be figures with commas between them.
    pub fn parse(text: &str) -> Result<Devices, String> {
        let kind = |kind: &str| Device::parse(kind).map_err(|why| why.to_string());
        let words: Vec<&str> = text.split(',').collect();
        // As many words as make a kind: `read=80us,depth=4` is one, `hdd,log0=ssd` is two.
        let first = (1..=words.len()).rev().find_map(|n| Some((n, kind(&words[..n].join(",")).ok()?)));
        let (n, all) = match first {
            Some(found) => found,
            None => (1, kind(words[0])?),
        };
        let words = words[n..].iter().copied();
        let named = |word: &str| match word.split_once('=') {
            Some((name, of)) if !name.is_empty() => Ok((name.to_owned(), kind(of)?)),
            _ => Err(format!("{word:?} is not NAME=KIND, with the name of a file of the pool")),
        };
        Ok(Devices { all, named: words.map(named).collect::<Result<_, String>>()? })
    }

    /// Whether any device is played at all.
    pub fn any(&self) -> bool {
        let host = Device::none();
        self.all != host || self.named.iter().any(|(_, device)| *device != host)
    }

    /// Starts the engine for the devices of these files. Before the pool is opened, so that all of its I/O is theirs.
    pub fn play(&self, files: &[PathBuf]) -> anyhow::Result<()> {
        if !self.any() {
            return Ok(());
        }
        let named = self.named.iter().map(|(name, device)| Ok((find(name, files)?, device)));
        let named: Vec<(&Path, &Device)> = named.collect::<anyhow::Result<_>>()?;
        let vdev_threads = (THREADS_PER_VDEV * files.len()).min(MOST_THREADS) as u32;
        let engine = Engine::start(&Config { vdev_threads, ..Config::default() })?;
        engine.set_device(&self.all);
        for (file, device) in named {
            engine.set_device_of(file, device)?;
        }
        Ok(())
    }
}

fn find<'a>(name: &str, files: &'a [PathBuf]) -> anyhow::Result<&'a Path> {
    let names = |file: &Path| file.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    match files.iter().find(|file| names(file) == name) {
        Some(file) => Ok(file),
        None => {
            let all: Vec<String> = files.iter().map(|file| names(file)).collect();
            Err(anyhow::anyhow!(
                "--device {name}=…: the pool has no file of that name; it has {}",
                all.join(", ")
            ))
            .context(Usage)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_names() {
        assert!(!Devices::parse("none").unwrap().any());
        let devices = Devices::parse("hdd,cache0=ssd,log0=none").unwrap();
        assert!(devices.any());
        assert_eq!(devices.all.name, "hdd");
        assert_eq!(devices.named[0].1.name, "sata-ssd");
        assert!(Devices::parse("none,d0=4xhdd").unwrap().any());
        let figures = Devices::parse("read=80us,write=20us,read_bw=1G,depth=4,cache0=ssd").unwrap();
        assert_eq!((figures.all.write_latency_ns, figures.all.queue_depth), (20_000, 4));
        assert_eq!(figures.named[0].0, "cache0");
        for bad in ["", "floppy", "hdd,ssd", "hdd,=ssd", "hdd,d0=", "hdd,d0=floppy"] {
            assert!(Devices::parse(bad).is_err(), "{bad}");
        }
        let files = [PathBuf::from("/pool/d0"), PathBuf::from("/pool/cache0")];
        assert_eq!(find("cache0", &files).unwrap(), files[1]);
        assert!(find("cache1", &files).unwrap_err().is::<Usage>());
    }
}
