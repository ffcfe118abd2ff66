//! A FUSE file system on the engine: an unmodified program works on a dataset, with no kernel module.
