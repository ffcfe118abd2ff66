/* SPDX-License-Identifier: CDDL-1.0 */
/*
 * Only in builds with a sanitizer. The library reads the four labels of a file with asynchronous requests, for which glibc
 * starts threads with the smallest possible stack. That is too small for the sanitizer's own code: now and then a thread
 * overflows it, and the process dies. With this function, the calling thread reads the labels one after the other.
 */

#define	_GNU_SOURCE
#define	_LARGEFILE64_SOURCE
#include <aio.h>
#include <errno.h>
#include <unistd.h>

int
lio_listio64(int mode, struct aiocb64 *const list[restrict], int count, struct sigevent *restrict sig)
{
	(void) mode; (void) sig;
	for (int i = 0; i < count; i++) {
		struct aiocb64 *one = list[i];
		ssize_t n = pread64(one->aio_fildes, (void *)one->aio_buf, one->aio_nbytes, one->aio_offset);
		one->__error_code = n < 0 ? errno : 0;
		one->__return_value = n;
	}
	return (0);
}
