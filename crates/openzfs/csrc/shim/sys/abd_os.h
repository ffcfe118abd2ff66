/* SPDX-License-Identifier: CDDL-1.0 */
/*
 * The development package lacks this header, although sys/abd.h includes it. It declares libzpool's two layouts of a buffer
 * in user space: a scattered buffer is a list of iovecs, a linear one a pointer.
 */
#ifndef POOLWRIGHT_SHIM_ABD_OS_H
#define POOLWRIGHT_SHIM_ABD_OS_H

#include <sys/uio.h>

struct abd_scatter {
	uint_t abd_offset;
	uint_t abd_iovcnt;
	struct iovec abd_iov[1];
};

struct abd_linear {
	void *abd_buf;
};

#endif
