/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Ways to do I/O. `io DIR [ROW...]` waits for a line of input, so that a recorder can start, and then performs each row
 * in a process of its own.
 */
#include "io.h"

/* A row; the linker collects them. */
#define ROW(name)                                                                                      \
	static void name(void);                                                                        \
	static const struct way way_##name __attribute__((section("ways"), used)) = { #name, name };   \
	static void name(void)

struct way {
	const char *name;
	void (*run)(void);
} __attribute__((aligned(16)));

ROW(read_) { int fd = made("f", 4, 0); lseek(fd, 100, SEEK_SET); moved("read", "f", 100, 5000, read(fd, buffer, 5000)); }
ROW(read_at_end) { int fd = made("f", 1, 0); lseek(fd, 4000, SEEK_SET); moved("read", "f", 4000, 96, read(fd, buffer, PAGE)); }
ROW(pread_) { int fd = made("f", 4, 0); moved("read", "f", 300, 50, pread(fd, buffer, 50, 300)); }
ROW(pread_hole) { int fd = made("f", 0, 0); must(ftruncate(fd, 1 << 20) == 0); say("truncate", "f", 1 << 20, 0); moved("read", "f", 8192, PAGE, pread(fd, buffer, PAGE, 8192)); }
static struct iovec *two(size_t a, size_t b)
{
	static struct iovec v[2];
	v[0] = (struct iovec){ buffer, a };
	v[1] = (struct iovec){ buffer + 65536, b };
	return v;
}
ROW(readv_) { int fd = made("f", 4, 0); lseek(fd, 10, SEEK_SET); moved("read", "f", 10, 30, readv(fd, two(10, 20), 2)); }
ROW(preadv_) { int fd = made("f", 4, 0); moved("read", "f", 700, 30, preadv(fd, two(10, 20), 2, 700)); }
ROW(preadv2_) { int fd = made("f", 4, 0); moved("read", "f", 700, 30, preadv2(fd, two(10, 20), 2, 700, 0)); }
ROW(preadv2_current) { int fd = made("f", 4, 0); lseek(fd, 50, SEEK_SET); moved("read", "f", 50, 30, preadv2(fd, two(10, 20), 2, -1, 0)); }
ROW(preadv2_nowait) { int fd = made("f", 4, 0); moved("read", "f", 50, 30, preadv2(fd, two(10, 20), 2, 50, RWF_NOWAIT)); }
ROW(read_direct) { int fd = made("f", 4, O_DIRECT); moved("read", "f", PAGE, 8192, pread(fd, buffer, 8192, PAGE)); }
ROW(readahead_) { int fd = made("f", 4, 0); ok(readahead(fd, 0, 8192)); counted("read_ahead", 1); }
ROW(fadvise_willneed) { int fd = made("f", 4, 0); ok(posix_fadvise(fd, 0, 8192, POSIX_FADV_WILLNEED)); counted("read_ahead", 1); }

/* Ends the row if the file system ignores RWF_NOAPPEND, as OpenZFS does: then the file `f` is longer than these pages. */
static void not_appended(int pages)
{
	struct stat st;

	must(stat("f", &st) == 0);
	errno = EOPNOTSUPP;
	if (st.st_size > pages * PAGE)
		lacks();
}

ROW(write_) { int fd = made("f", 0, 0); lseek(fd, 100, SEEK_SET); moved("write", "f", 100, 5000, write(fd, buffer, 5000)); }
ROW(pwrite_) { int fd = made("f", 1, 0); moved("write", "f", 300, 50, pwrite(fd, buffer, 50, 300)); }
ROW(pwrite_far) { int fd = made("f", 0, 0); moved("write", "f", 1ll << 40, 50, pwrite(fd, buffer, 50, 1ll << 40)); }
ROW(writev_) { int fd = made("f", 0, 0); moved("write", "f", 0, 30, writev(fd, two(10, 20), 2)); }
ROW(pwritev_) { int fd = made("f", 0, 0); moved("write", "f", 700, 30, pwritev(fd, two(10, 20), 2, 700)); }
ROW(pwritev2_current) { int fd = made("f", 0, 0); lseek(fd, 50, SEEK_SET); moved("write", "f", 50, 30, pwritev2(fd, two(10, 20), 2, -1, 0)); }
ROW(pwritev2_dsync) { int fd = made("f", 0, 0); moved("write", "f", 700, 30, pwritev2(fd, two(10, 20), 2, 700, RWF_DSYNC)); }
ROW(pwritev2_sync) { int fd = made("f", 0, 0); moved("write", "f", 700, 30, pwritev2(fd, two(10, 20), 2, 700, RWF_SYNC)); }
ROW(pwritev2_append) { int fd = made("f", 1, 0); for (int i = 0; i < 5; i++) moved("write", "f", PAGE + i * 30, 30, pwritev2(fd, two(10, 20), 2, 0, RWF_APPEND)); }
ROW(pwritev2_noappend) { int fd = made("f", 4, O_APPEND); moved("write", "f", 700, 30, pwritev2(fd, two(10, 20), 2, 700, NOAPPEND)); not_appended(4); }
ROW(write_append) { int fd = made("f", 1, O_APPEND); lseek(fd, 0, SEEK_SET); moved("write", "f", PAGE, 50, write(fd, buffer, 50)); }
ROW(writev_append) { int fd = made("f", 1, O_APPEND); moved("write", "f", PAGE, 30, writev(fd, two(10, 20), 2)); }
ROW(pwrite_append) { int fd = made("f", 1, O_APPEND); for (int i = 0; i < 5; i++) moved("write", "f", PAGE + i * 50, 50, pwrite(fd, buffer, 50, 0)); }
ROW(write_sync) { int fd = made("f", 0, O_SYNC); moved("write", "f", 0, 50, write(fd, buffer, 50)); }
ROW(write_dsync) { int fd = made("f", 0, O_DSYNC); moved("write", "f", 0, 50, write(fd, buffer, 50)); }
ROW(write_direct) { int fd = made("f", 0, O_DIRECT); moved("write", "f", 8192, PAGE, pwrite(fd, buffer, PAGE, 8192)); }
ROW(write_direct_append) { int fd = made("f", 1, O_DIRECT | O_APPEND); moved("write", "f", PAGE, PAGE, write(fd, buffer, PAGE)); }
ROW(write_dup) { int fd = made("f", 0, 0), other = dup(fd); moved("write", "f", 0, 50, write(fd, buffer, 50)); moved("write", "f", 50, 60, write(other, buffer, 60)); close(other); }
ROW(write_after_fork) { int fd = made("f", 0, 0); if (!fork()) _exit(write(fd, buffer, 50) != 50); must(wait(0) > 0); say("write", "f", 0, 50); moved("write", "f", 50, 10, write(fd, buffer, 10)); }
ROW(write_reopened) { int fd = made("f", 0, 0); char path[64]; sprintf(path, "/proc/self/fd/%d", fd); int other = open(path, O_WRONLY); say("open", "f", 0, 0); moved("write", "f", 0, 7, write(other, buffer, 7)); }

/* Sends a descriptor to a child, which writes to the file. */
ROW(write_passed)
{
	int pair[2], fd;
	char control[CMSG_SPACE(sizeof(int))] = {}, byte = 0;
	struct iovec v = { &byte, 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	must(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	if (!fork()) {
		must(recvmsg(pair[1], &m, 0) == 1);
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
		_exit(pwrite(fd, buffer, 40, 90) != 40);
	}
	fd = made("f", 0, 0);
	*c = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int)) };
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	must(sendmsg(pair[0], &m, 0) == 1 && wait(0) > 0);
	say("write", "f", 90, 40);
}

ROW(truncate_) { made("f", 4, 0); ok(truncate("f", 5000)); say("truncate", "f", 5000, 0); }
ROW(truncate_through_link) { made("f", 4, 0); ok(symlink("f", "l")); ok(truncate("l", 5000)); say("truncate", "f", 5000, 0); }
ROW(ftruncate_) { int fd = made("f", 4, 0); ok(ftruncate(fd, 70000)); say("truncate", "f", 70000, 0); }
ROW(open_truncate) { closed(made("f", 4, 0), "f"); opened("f", O_RDWR | O_TRUNC); }
ROW(creat_) { closed(made("f", 4, 0), "f"); ok(creat("f", 0600)); say("open", "f", 0, 0); say("truncate", "f", 0, 0); }
ROW(fallocate_) { int fd = made("f", 0, 0); ok(fallocate(fd, 0, 0, 65536)); say("allocate", "f", 0, 65536); }
ROW(fallocate_keep) { int fd = made("f", 0, 0); ok(fallocate(fd, FALLOC_FL_KEEP_SIZE, 4096, 65536)); say("allocate", "f", 4096, 65536); }
ROW(fallocate_punch) { int fd = made("f", 8, 0); ok(fallocate(fd, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, 4096, 8192)); say("punch", "f", 4096, 8192); }
ROW(fallocate_zero) { int fd = made("f", 8, 0); ok(fallocate(fd, FALLOC_FL_ZERO_RANGE, 4096, 8192)); say("punch", "f", 4096, 8192); }
ROW(fallocate_collapse) { int fd = made("f", 8, 0); ok(fallocate(fd, FALLOC_FL_COLLAPSE_RANGE, 0, 4096)); counted("collapse_or_insert", 1); }
ROW(fallocate_insert) { int fd = made("f", 8, 0); ok(fallocate(fd, FALLOC_FL_INSERT_RANGE, 0, 4096)); counted("collapse_or_insert", 1); }
ROW(fallocate_unshare) { int fd = made("f", 8, 0); ok(fallocate(fd, FALLOC_FL_UNSHARE_RANGE, 0, 4096)); counted("collapse_or_insert", 1); }

ROW(fsync_) { int fd = made("f", 1, 0); ok(fsync(fd)); say("fsync", "f", 0, 0); }
ROW(fdatasync_) { int fd = made("f", 1, 0); ok(fdatasync(fd)); say("fdatasync", "f", 0, 0); }
ROW(sync_file_range_wait) { int fd = made("f", 4, 0); ok(sync_file_range(fd, 4096, 8192, 7)); say("fdatasync", "f", 4096, 8192); }
ROW(sync_file_range_start) { int fd = made("f", 4, 0); ok(sync_file_range(fd, 4096, 8192, SYNC_FILE_RANGE_WRITE)); counted("do_not_wait", 1); }
ROW(syncfs_) { int fd = made("f", 1, 0); ok(syncfs(fd)); counted("syncfs", 1); }
ROW(sync_) { made("f", 1, 0); sync(); counted("syncfs", 1); }

/*
 * Three transfers of a page in a file of eight pages. Appends make it longer, or all start at its end: XFS does not wait
 * for an asynchronous one.
 */
static void three(const char *op, long long first)
{
	struct stat st;

	must(stat("f", &st) == 0 && (st.st_size == (first == 8 * PAGE ? 11 : 8) * PAGE || st.st_size == 9 * PAGE));
	for (int i = 0; i < 3; i++)
		say(op, "f", st.st_size == 9 * PAGE ? first : first + i * PAGE, PAGE);
}

static void aio_move(const char *op, int command, int flags, int rw, long long offset, long long expected)
{
	int fd = made("f", 8, flags);
	aio_context_t context = aio_context();
	struct iocb blocks[3] = {};

	for (int i = 0; i < 3; i++) {
		blocks[i] = (struct iocb){ .aio_lio_opcode = command, .aio_fildes = fd, .aio_rw_flags = rw };
		blocks[i].aio_buf = (uint64_t)buffer;
		blocks[i].aio_nbytes = PAGE;
		if (command >= IOCB_CMD_PREADV) {
			blocks[i].aio_buf = (uint64_t)two(1024, 3072);
			blocks[i].aio_nbytes = 2;
		}
		blocks[i].aio_offset = offset + i * PAGE;
	}
	aio_run(context, blocks, 3);
	if (rw & NOAPPEND)
		not_appended(8);
	three(op, expected);
}
ROW(aio_read) { aio_move("read", IOCB_CMD_PREAD, 0, 0, PAGE, PAGE); }
ROW(aio_write) { aio_move("write", IOCB_CMD_PWRITE, 0, 0, PAGE, PAGE); }
ROW(aio_readv) { aio_move("read", IOCB_CMD_PREADV, 0, 0, PAGE, PAGE); }
ROW(aio_writev) { aio_move("write", IOCB_CMD_PWRITEV, 0, 0, PAGE, PAGE); }
ROW(aio_read_direct) { aio_move("read", IOCB_CMD_PREAD, O_DIRECT, 0, PAGE, PAGE); }
ROW(aio_write_direct) { aio_move("write", IOCB_CMD_PWRITE, O_DIRECT, 0, PAGE, PAGE); }
ROW(aio_append) { aio_move("write", IOCB_CMD_PWRITE, O_APPEND, 0, 0, 8 * PAGE); }
ROW(aio_writev_append) { aio_move("write", IOCB_CMD_PWRITEV, O_APPEND, 0, 0, 8 * PAGE); }
ROW(aio_append_direct) { aio_move("write", IOCB_CMD_PWRITE, O_APPEND | O_DIRECT, 0, 0, 8 * PAGE); }
ROW(aio_rwf_append) { aio_move("write", IOCB_CMD_PWRITE, 0, APPEND, 0, 8 * PAGE); }
ROW(aio_rwf_noappend) { aio_move("write", IOCB_CMD_PWRITE, O_APPEND, NOAPPEND, PAGE, PAGE); }
ROW(aio_rwf_dsync) { aio_move("write", IOCB_CMD_PWRITE, 0, RWF_DSYNC, PAGE, PAGE); }
static void aio_sync(int command, const char *op)
{
	int fd = made("f", 1, 0);
	struct iocb block = { .aio_lio_opcode = command, .aio_fildes = fd };
	aio_run(aio_context(), &block, 1);
	say(op, "f", 0, 0);
}
ROW(aio_fsync) { aio_sync(IOCB_CMD_FSYNC, "fsync"); }
ROW(aio_fdatasync) { aio_sync(IOCB_CMD_FDSYNC, "fdatasync"); }
/* The completion stays in the ring, or is taken from there without a call. */
ROW(aio_without_getevents)
{
	int fd = made("f", 1, 0);
	struct iocb block = { .aio_lio_opcode = IOCB_CMD_PWRITE, .aio_fildes = fd, .aio_buf = (uint64_t)buffer, .aio_nbytes = PAGE, .aio_offset = PAGE }, *list = &block;
	ok(syscall(SYS_io_submit, aio_context(), 1, &list));
	say("write", "f", PAGE, PAGE);
	counted("libaio_requests_still_in_flight", 1);
}

static void uring_move(const char *op, int opcode, int flags, int rw, long long offset, long long expected, unsigned setup, int sqe_flags)
{
	int fd = made("f", 8, flags);
	struct ring r = ring_of(setup);
	struct iovec all = { buffer, 1 << 20 };
	bool fixed = opcode == IORING_OP_READ_FIXED || opcode == IORING_OP_WRITE_FIXED;
	bool vector = opcode == IORING_OP_READV || opcode == IORING_OP_WRITEV;

	if (fixed)
		ok(syscall(SYS_io_uring_register, r.fd, IORING_REGISTER_BUFFERS, &all, 1));
	if (sqe_flags & IOSQE_FIXED_FILE) {
		int files[2] = { -1, fd };
		ok(syscall(SYS_io_uring_register, r.fd, IORING_REGISTER_FILES, files, 2));
	}
	for (int i = 0; i < 3; i++) {
		struct io_uring_sqe *sqe = request(&r, opcode, sqe_flags & IOSQE_FIXED_FILE ? 1 : fd, vector ? (void *)two(1024, 3072) : buffer,
						   vector ? 2 : PAGE, offset < 0 ? offset : offset + i * PAGE);
		sqe->rw_flags = rw;
		sqe->flags = i == 2 ? sqe_flags & ~IOSQE_IO_LINK : sqe_flags;
		if (sqe_flags & IOSQE_IO_LINK)
			continue;
		ok(once(&r));
	}
	if (sqe_flags & IOSQE_IO_LINK)
		ok(submitted(&r, 3, 3));
	if (rw & NOAPPEND)
		not_appended(8);
	three(op, expected);
}
ROW(uring_read) { uring_move("read", IORING_OP_READ, 0, 0, PAGE, PAGE, 0, 0); }
ROW(uring_write) { uring_move("write", IORING_OP_WRITE, 0, 0, PAGE, PAGE, 0, 0); }
ROW(uring_readv) { uring_move("read", IORING_OP_READV, 0, 0, PAGE, PAGE, 0, 0); }
ROW(uring_writev) { uring_move("write", IORING_OP_WRITEV, 0, 0, PAGE, PAGE, 0, 0); }
ROW(uring_read_buffer) { uring_move("read", IORING_OP_READ_FIXED, 0, 0, PAGE, PAGE, 0, 0); }
ROW(uring_write_buffer) { uring_move("write", IORING_OP_WRITE_FIXED, 0, 0, PAGE, PAGE, 0, 0); }
ROW(uring_read_fixed_file) { uring_move("read", IORING_OP_READ, 0, 0, PAGE, PAGE, 0, IOSQE_FIXED_FILE); }
ROW(uring_write_fixed_file) { uring_move("write", IORING_OP_WRITE, 0, 0, PAGE, PAGE, 0, IOSQE_FIXED_FILE); }
ROW(uring_read_direct) { uring_move("read", IORING_OP_READ, O_DIRECT, 0, PAGE, PAGE, 0, 0); }
ROW(uring_write_direct) { uring_move("write", IORING_OP_WRITE, O_DIRECT, 0, PAGE, PAGE, 0, 0); }
ROW(uring_read_current) { uring_move("read", IORING_OP_READ, 0, 0, -1, 0, 0, 0); }
ROW(uring_write_current) { uring_move("write", IORING_OP_WRITE, 0, 0, -1, 0, 0, 0); }
ROW(uring_append) { uring_move("write", IORING_OP_WRITE, O_APPEND, 0, 0, 8 * PAGE, 0, 0); }
ROW(uring_append_current) { uring_move("write", IORING_OP_WRITE, O_APPEND, 0, -1, 8 * PAGE, 0, 0); }
ROW(uring_append_direct) { uring_move("write", IORING_OP_WRITE, O_APPEND | O_DIRECT, 0, 0, 8 * PAGE, 0, 0); }
ROW(uring_append_async) { uring_move("write", IORING_OP_WRITE, O_APPEND, 0, 0, 8 * PAGE, 0, IOSQE_ASYNC); }
ROW(uring_append_linked) { uring_move("write", IORING_OP_WRITEV, O_APPEND, 0, 0, 8 * PAGE, 0, IOSQE_IO_LINK); }
ROW(uring_rwf_append) { uring_move("write", IORING_OP_WRITE, 0, APPEND, 0, 8 * PAGE, 0, 0); }
ROW(uring_rwf_append_fixed_file) { uring_move("write", IORING_OP_WRITE, 0, APPEND, 0, 8 * PAGE, 0, IOSQE_FIXED_FILE); }
ROW(uring_rwf_noappend) { uring_move("write", IORING_OP_WRITE, O_APPEND, NOAPPEND, PAGE, PAGE, 0, 0); }
ROW(uring_rwf_dsync) { uring_move("write", IORING_OP_WRITE, 0, RWF_DSYNC, PAGE, PAGE, 0, 0); }
ROW(uring_linked) { uring_move("write", IORING_OP_WRITE, 0, 0, PAGE, PAGE, 0, IOSQE_IO_LINK); }
ROW(uring_async) { uring_move("write", IORING_OP_WRITE, 0, 0, PAGE, PAGE, 0, IOSQE_ASYNC); }
ROW(uring_sqpoll) { uring_move("write", IORING_OP_WRITE, 0, 0, PAGE, PAGE, IORING_SETUP_SQPOLL, 0); }
ROW(uring_sqpoll_fixed_file) { uring_move("read", IORING_OP_READ, 0, 0, PAGE, PAGE, IORING_SETUP_SQPOLL, IOSQE_FIXED_FILE); }

/* A request whose arguments are not those of a transfer. */
static struct ring one;
static void uring_does(int opcode, int fd, const void *addr, unsigned len, uint64_t off, int flags)
{
	one = ring_of(0);
	request(&one, opcode, fd, addr, len, off)->rw_flags = flags;
	ok(once(&one));
}
ROW(uring_fsync) { uring_does(IORING_OP_FSYNC, made("f", 1, 0), 0, 0, 0, 0); say("fsync", "f", 0, 0); }
ROW(uring_fdatasync) { uring_does(IORING_OP_FSYNC, made("f", 1, 0), 0, 0, 0, IORING_FSYNC_DATASYNC); say("fdatasync", "f", 0, 0); }
ROW(uring_sync_file_range) { uring_does(IORING_OP_SYNC_FILE_RANGE, made("f", 4, 0), 0, 8192, 4096, 7); say("fdatasync", "f", 4096, 8192); }
ROW(uring_sync_file_range_start) { uring_does(IORING_OP_SYNC_FILE_RANGE, made("f", 4, 0), 0, 8192, 4096, 2); counted("do_not_wait", 1); }
ROW(uring_fallocate) { uring_does(IORING_OP_FALLOCATE, made("f", 0, 0), (void *)65536, 0, 4096, 0); say("allocate", "f", 4096, 65536); }
ROW(uring_punch) { uring_does(IORING_OP_FALLOCATE, made("f", 8, 0), (void *)8192, 3, 4096, 0); say("punch", "f", 4096, 8192); }
ROW(uring_collapse) { uring_does(IORING_OP_FALLOCATE, made("f", 8, 0), (void *)4096, FALLOC_FL_COLLAPSE_RANGE, 0, 0); counted("collapse_or_insert", 1); }
ROW(uring_ftruncate) { uring_does(FTRUNCATE, made("f", 8, 0), 0, 0, 5000, 0); say("truncate", "f", 5000, 0); }
ROW(uring_fadvise) { uring_does(IORING_OP_FADVISE, made("f", 8, 0), 0, 8192, 0, POSIX_FADV_WILLNEED); counted("read_ahead", 1); }
ROW(uring_open) { made("f", 1, 0); uring_does(IORING_OP_OPENAT, AT_FDCWD, "f", 0, 0, O_RDWR); counted("requests_that_open", 1); }
ROW(uring_close) { uring_does(IORING_OP_CLOSE, made("f", 1, 0), 0, 0, 0, 0); counted("requests_that_open", 1); }
ROW(uring_rename) { made("f", 1, 0); uring_does(IORING_OP_RENAMEAT, AT_FDCWD, "f", AT_FDCWD, (uint64_t)"g", 0); counted("requests_that_open", 1); }
ROW(uring_unlink) { made("f", 1, 0); uring_does(IORING_OP_UNLINKAT, AT_FDCWD, "f", 0, 0, 0); counted("requests_that_open", 1); }
ROW(uring_link) { made("f", 1, 0); uring_does(IORING_OP_LINKAT, AT_FDCWD, "f", AT_FDCWD, (uint64_t)"g", 0); counted("requests_that_open", 1); }
ROW(uring_splice)
{
	int pipes[2], fd = made("f", 1, 0);
	must(pipe(pipes) == 0);
	one = ring_of(0);
	struct io_uring_sqe *sqe = request(&one, IORING_OP_SPLICE, pipes[1], 0, PAGE, -1);
	sqe->splice_fd_in = fd;
	sqe->splice_off_in = 0;
	ok(once(&one));
	counted("requests_that_open", 1);
}
/* Without a completion entry, success is invisible. */
ROW(uring_skip_success)
{
	int fd = made("f", 1, 0);
	one = ring_of(0);
	for (int i = 0; i < 2; i++) {
		request(&one, IORING_OP_WRITE, fd, buffer, PAGE, 0)->flags = IOSQE_CQE_SKIP_SUCCESS | IOSQE_IO_LINK;
		request(&one, IORING_OP_NOP, -1, 0, 0, 0);
		ok(submitted(&one, 2, 1));
	}
	counted("without_a_completion_entry", 2);
}

static bool is_on(unsigned type)
{
	struct statfs fs;

	return statfs(".", &fs) == 0 && fs.f_type == type;
}

/* Page faults in shared memory pass no tracepoint: its maps are counted. */
static void touched(long long offset, long long length)
{
	if (!is_on(TMPFS_MAGIC))
		say("touch", "f", offset, length);
}

static char *map_of(int fd, int protection, int flags)
{
	char *map = mmap(0, 4 * PAGE, protection, flags, fd, 4 * PAGE);

	if (map == MAP_FAILED)
		lacks();
	say("map", "f", 4 * PAGE, 4 * PAGE);
	if (is_on(TMPFS_MAGIC))
		counted("maps_of_files_in_shared_memory", 1);
	return map;
}
ROW(map_read) { char *m = map_of(made("f", 8, 0), PROT_READ, MAP_SHARED); buffer[0] = *(volatile char *)(m + PAGE); touched(5 * PAGE, 1); }
ROW(map_write) { char *m = map_of(made("f", 8, 0), PROT_READ | PROT_WRITE, MAP_SHARED); *(volatile char *)(m + PAGE) = 1; touched(5 * PAGE, 1); counted("shared_writable_maps", 1); }
ROW(map_private) { char *m = map_of(made("f", 8, 0), PROT_READ | PROT_WRITE, MAP_PRIVATE); *(volatile char *)(m + PAGE) = 1; touched(5 * PAGE, 1); }
ROW(map_populate) { map_of(made("f", 8, 0), PROT_READ, MAP_SHARED | MAP_POPULATE); if (is_on(OVERLAYFS_SUPER_MAGIC)) counted("maps_of_files_in_shared_memory", 1); else touched(4 * PAGE, 4 * PAGE); }
ROW(map_made_writable) { char *m = map_of(made("f", 8, 0), PROT_READ, MAP_SHARED); must(mprotect(m, PAGE, PROT_READ | PROT_WRITE) == 0); *(volatile char *)m = 1; touched(4 * PAGE, 1); counted("shared_writable_maps", 1); }
ROW(map_after_close) { int fd = made("f", 8, 0); char *m = map_of(fd, PROT_READ, MAP_SHARED); close(fd); if (is_on(OVERLAYFS_SUPER_MAGIC)) say("close", "f", 0, 0); /* the map is of the file below */ *(volatile char *)buffer = m[0]; touched(4 * PAGE, 1); }
ROW(msync_) { char *m = map_of(made("f", 8, 0), PROT_READ | PROT_WRITE, MAP_SHARED); *(volatile char *)m = 1; touched(4 * PAGE, 1); ok(msync(m, 8192, MS_SYNC)); say("fdatasync", "f", 4 * PAGE, 8192); counted("shared_writable_maps", 1); }
ROW(madvise_remove) { char *m = map_of(made("f", 8, 0), PROT_READ | PROT_WRITE, MAP_SHARED); counted("shared_writable_maps", 1); ok(madvise(m + PAGE, 8192, MADV_REMOVE)); say("punch", "f", 5 * PAGE, 8192); }

ROW(sendfile_) { int a = made("a", 4, 0), b = made("b", 0, 0); lseek(a, 100, SEEK_SET); must(ok(sendfile(b, a, 0, 5000)) == 5000); say("read", "a", 100, 5000); say("write", "b", 0, 5000); }
ROW(sendfile_at) { int a = made("a", 4, 0), b = made("b", 0, 0); off_t at = 300; must(ok(sendfile(b, a, &at, 500)) == 500); say("read", "a", 300, 500); say("write", "b", 0, 500); }
ROW(sendfile_socket) { int a = made("a", 4, 0), pair[2]; off_t at = 300; must(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0); must(ok(sendfile(pair[0], a, &at, 500)) == 500); say("read", "a", 300, 500); }
ROW(copy_file_range_) { int a = made("a", 4, 0), b = made("b", 0, 0); off_t from = PAGE, to = 0; must(ok(copy_file_range(a, &from, b, &to, PAGE, 0)) == PAGE); say("read", "a", PAGE, PAGE); say("write", "b", 0, PAGE); }
ROW(splice_from_file) { int a = made("a", 4, 0), p[2]; loff_t at = PAGE; must(pipe(p) == 0); must(ok(splice(a, &at, p[1], 0, PAGE, 0)) == PAGE); say("read", "a", PAGE, PAGE); }
ROW(splice_to_file) { int b = made("b", 0, 0), p[2]; must(pipe(p) == 0 && write(p[1], buffer, PAGE) == PAGE); lseek(b, 50, SEEK_SET); must(ok(splice(p[0], 0, b, 0, PAGE, 0)) == PAGE); say("write", "b", 50, PAGE); }
ROW(clone_file) { int a = made("a", 4, 0), b = made("b", 0, 0); ok(ioctl(b, FICLONE, a)); counted("clones_by_ioctl", 1); }
ROW(clone_range) { int a = made("a", 4, 0), b = made("b", 0, 0); struct file_clone_range range = { a, 0, PAGE, PAGE }; ok(ioctl(b, FICLONERANGE, &range)); counted("clones_by_ioctl", 1); }
ROW(dedupe_range)
{
	int a = made("a", 4, 0), b = made("b", 4, 0);
	struct { struct file_dedupe_range head; struct file_dedupe_range_info info; } d = { { 0, PAGE, 1 }, { b, 0 } };
	ok(ioctl(a, FIDEDUPERANGE, &d));
	counted("clones_by_ioctl", 1);
}

ROW(rename_) { made("f", 1, 0); ok(rename("f", "g")); say("rename", "g", 0, 0); say("alias", "f=g", 0, 0); }
ROW(rename_over) { made("f", 1, 0); made("g", 2, 0); ok(rename("f", "g")); say("rename", "g", 0, 0); say("alias", "f=g", 0, 0); }
ROW(rename_exchange) { made("f", 1, 0); made("g", 2, 0); ok(syscall(SYS_renameat2, AT_FDCWD, "f", AT_FDCWD, "g", 2)); say("rename", "f", 0, 0); say("alias", "f=h", 0, 0); say("alias", "g=f", 0, 0); say("alias", "h=g", 0, 0); }
ROW(rename_directory) { mkdir("d", 0700); int fd = made("d/f", 1, 0); ok(rename("d", "e")); say("alias", "d/f=e/f", 0, 0); moved("write", "e/f", 0, 5, pwrite(fd, buffer, 5, 0)); }
ROW(unlink_) { int fd = made("f", 1, 0); ok(unlink("f")); say("unlink", "f", 0, 0); moved("write", "f", 0, 5, pwrite(fd, buffer, 5, 0)); }
ROW(unlink_and_create) { closed(made("f", 1, 0), "f"); ok(unlink("f")); say("unlink", "f", 0, 0); made("g", 2, 0); }
ROW(link_) { int fd = made("f", 1, 0); ok(link("f", "g")); ok(unlink("f")); say("alias", "f=g", 0, 0); moved("write", "g", 0, 5, pwrite(fd, buffer, 5, 0)); }
ROW(link_used) { made("f", 1, 0); ok(link("f", "g")); int fd = open("g", O_RDWR); say("open", "f", 0, PAGE); moved("write", "f", 0, 5, pwrite(fd, buffer, 5, 0)); ok(unlink("g")); }
ROW(link_truncated) { made("f", 1, 0); ok(link("f", "g")); ok(truncate("g", 10)); say("truncate", "f", 10, 0); }
ROW(through_link) { made("f", 1, 0); ok(symlink("f", "l")); int fd = open("l", O_RDWR); say("open", "f", 0, PAGE); moved("write", "f", 0, 5, pwrite(fd, buffer, 5, 0)); }
ROW(tmpfile_) { int fd = ok(open(".", O_TMPFILE | O_RDWR, 0600)); say("create", "?", 0, 0); moved("write", "?", 0, 50, write(fd, buffer, 50)); }
ROW(tmpfile_linked) { int fd = ok(open(".", O_TMPFILE | O_RDWR, 0600)); char path[64]; sprintf(path, "/proc/self/fd/%d", fd); ok(linkat(AT_FDCWD, path, AT_FDCWD, "f", AT_SYMLINK_FOLLOW)); say("create", "f", 0, 0); moved("write", "f", 0, 50, write(fd, buffer, 50)); }
ROW(tmpfile_linked_empty) { int fd = ok(open(".", O_TMPFILE | O_RDWR, 0600)); ok(linkat(fd, "", AT_FDCWD, "f", AT_EMPTY_PATH)); say("create", "f", 0, 0); moved("write", "f", 0, 50, write(fd, buffer, 50)); }
static void deep(int levels, int name)
{
	char path[4096] = "", part[300];

	memset(part, 'x', name);
	part[name] = 0;
	for (int i = 0; i < levels; i++) {
		strcat(path, part);
		ok(mkdir(path, 0700));
		strcat(path, "/");
	}
	strcat(path, "f");
	made(path, 1, 0);
}
ROW(deep_directories) { deep(150, 3); }
ROW(long_names) { deep(12, 200); }
ROW(close_) { closed(made("f", 1, 0), "f"); }
ROW(close_dup2) { int a = made("a", 1, 0), b = made("b", 1, 0); must(dup2(a, b) == b); say("close", "b", 0, 0); }
ROW(close_range_) { int fd = made("f", 1, 0); ok(syscall(SYS_close_range, fd, ~0u, 0)); say("close", "f", 0, 0); }
ROW(device) { int fd = ok(open(getenv("DEVICE") ?: "", O_RDWR)); must(pwrite(fd, buffer, PAGE, 0) == PAGE && pread(fd, buffer, PAGE, 0) == PAGE && fsync(fd) == 0); counted("block_devices", 3); }

extern const struct way __start_ways[], __stop_ways[];

int main(int count, char **names)
{
	if (count < 2 || chdir(names[1]))
		return 2;
	getchar();
	buffer = aligned_alloc(PAGE, 1 << 20);
	memset(buffer, 'b', 1 << 20);
	/* The compiler emits the last one first. */
	for (const struct way *way = __stop_ways; way-- > __start_ways;) {
		bool wanted = count == 2;
		int status;

		for (int n = 2; n < count; n++)
			wanted |= !strcmp(names[n], way->name);
		if (!wanted)
			continue;
		row = way->name;
		if (!fork()) {
			if (mkdir(row, 0700) || chdir(row))
				return 2;
			way->run();
			_exit(0);
		}
		if (wait(&status) < 0 || status)
			return 1;
	}
	return 0;
}
