//! Pools and datasets: those of the kernel's OpenZFS ([`kernel`]), those of the engine in user space ([`user`]), and one interface to
//! the datasets of both ([`datasets`]).

pub mod datasets;
pub mod kernel;
pub mod user;
mod walk;
