//! Pools and datasets of the kernel's OpenZFS ([`kernel`]) and of the user-space engine ([`user`]), and one interface to the datasets of
//! both ([`datasets`]).

pub mod datasets;
pub mod kernel;
pub mod user;
mod walk;
