//! The host of the exporter.

use poolwright_base::memory;

use crate::family::*;
use crate::source::{Discovery, SourceName};
use crate::{Readings, Result, Source};

/// Memory of the host.
#[derive(Clone, Copy, Debug)]
pub struct HostFacts;

impl Discovery for HostFacts {
    fn sources(&self) -> Vec<Box<dyn Source>> {
        vec![Box::new(*self)]
    }
}

impl Source for HostFacts {
    fn name(&self) -> SourceName {
        SourceName { source: "host", pool: String::new() }
    }

    fn read(&mut self) -> Result<Readings> {
        let mut readings = Readings::default();
        readings
            .add(&HOST, [])
            .count(&HOST_MEMORY, memory::total())
            .count(&HOST_MEMORY_AVAILABLE, memory::available());
        Ok(readings)
    }
}
