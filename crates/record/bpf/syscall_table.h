/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * System call numbers (x86-64) and the action at the start of each. A call that is not listed costs one table
 * lookup.
 */
#pragma once

enum nr {
	NR_READ = 0,
	NR_WRITE = 1,
	NR_OPEN = 2,
	NR_CLOSE = 3,
	NR_MMAP = 9,
	NR_PREAD64 = 17,
	NR_PWRITE64 = 18,
	NR_READV = 19,
	NR_WRITEV = 20,
	NR_MSYNC = 26,
	NR_DUP2 = 33,
	NR_SENDFILE = 40,
	NR_FCNTL = 72,
	NR_FLOCK = 73,
	NR_FSYNC = 74,
	NR_FDATASYNC = 75,
	NR_TRUNCATE = 76,
	NR_FTRUNCATE = 77,
	NR_RENAME = 82,
	NR_CREAT = 85,
	NR_UNLINK = 87,
	NR_IO_GETEVENTS = 208,
	NR_IO_SUBMIT = 209,
	NR_OPENAT = 257,
	NR_UNLINKAT = 263,
	NR_RENAMEAT = 264,
	NR_SPLICE = 275,
	NR_SYNC_FILE_RANGE = 277,
	NR_FALLOCATE = 285,
	NR_DUP3 = 292,
	NR_PREADV = 295,
	NR_PWRITEV = 296,
	NR_RENAMEAT2 = 316,
	NR_COPY_FILE_RANGE = 326,
	NR_PREADV2 = 327,
	NR_PWRITEV2 = 328,
	NR_STATX = 332,
	NR_IO_PGETEVENTS = 333,
	NR_OPENAT2 = 437,
	NR_MAX = 512,
};

enum start {
	START_NONE,
	START_FD0, /* the file is the first argument */
	START_FD1, /* the second argument refers to the file, which is being closed */
	START_FD4, /* the file is the fifth argument */
	START_FCNTL, /* the file is the first argument; the second argument decides whether it is locked */
	/* For the calls above, the file is known at the start. */
	START_TIME, /* the file is known only at the end */
	START_MSYNC,
	START_AIO,
	START_ANNOUNCE,
};

static const u8 starts[NR_MAX] = {
	[NR_READ] = START_FD0,
	[NR_WRITE] = START_FD0,
	[NR_PREAD64] = START_FD0,
	[NR_PWRITE64] = START_FD0,
	[NR_READV] = START_FD0,
	[NR_WRITEV] = START_FD0,
	[NR_PREADV] = START_FD0,
	[NR_PWRITEV] = START_FD0,
	[NR_PREADV2] = START_FD0,
	[NR_PWRITEV2] = START_FD0,
	[NR_FSYNC] = START_FD0,
	[NR_FDATASYNC] = START_FD0,
	[NR_SYNC_FILE_RANGE] = START_FD0,
	[NR_FLOCK] = START_FD0,
	[NR_FCNTL] = START_FCNTL,
	[NR_FTRUNCATE] = START_FD0,
	[NR_FALLOCATE] = START_FD0,
	[NR_CLOSE] = START_FD0,
	[NR_DUP2] = START_FD1,
	[NR_DUP3] = START_FD1,
	[NR_MMAP] = START_FD4,
	[NR_OPEN] = START_TIME,
	[NR_CREAT] = START_TIME,
	[NR_OPENAT] = START_TIME,
	[NR_OPENAT2] = START_TIME,
	[NR_TRUNCATE] = START_TIME,
	[NR_RENAME] = START_TIME,
	[NR_RENAMEAT] = START_TIME,
	[NR_RENAMEAT2] = START_TIME,
	[NR_UNLINK] = START_TIME,
	[NR_UNLINKAT] = START_TIME,
	[NR_SENDFILE] = START_TIME,
	[NR_COPY_FILE_RANGE] = START_TIME,
	[NR_SPLICE] = START_TIME,
	[NR_IO_GETEVENTS] = START_TIME,
	[NR_IO_PGETEVENTS] = START_TIME,
	[NR_MSYNC] = START_MSYNC,
	[NR_IO_SUBMIT] = START_AIO,
	[NR_STATX] = START_ANNOUNCE,
};
