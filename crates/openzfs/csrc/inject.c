/* SPDX-License-Identifier: CDDL-1.0 */
/* Injected I/O errors of the host, for tests: see inject.h. */

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>

#include "inject.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pw_injection_t now;
static char *only;	/* the path of `now`, allocated here */
static int on;
static uint64_t calls;

static void
forget(void)
{
	free(only);
	only = NULL;
	on = 0;
	calls = 0;
}

int
pw_inject(const pw_injection_t *injection)
{
	int error = 0;
	pthread_mutex_lock(&lock);
	forget();
	now = *injection;
	if (injection->path != NULL && (only = strdup(injection->path)) == NULL)
		error = ENOMEM;
	on = error == 0;
	pthread_mutex_unlock(&lock);
	return (error);
}

void
pw_inject_stop(void)
{
	pthread_mutex_lock(&lock);
	forget();
	pthread_mutex_unlock(&lock);
}

uint64_t
pw_inject_calls(void)
{
	pthread_mutex_lock(&lock);
	uint64_t n = calls;
	pthread_mutex_unlock(&lock);
	return (n);
}

int
pw_inject_before(const char *path, int op, size_t *count, int *damage)
{
	int error = 0;
	pthread_mutex_lock(&lock);
	if (on && op == now.op && (only == NULL || strcmp(only, path) == 0)) {
		calls++;
		if (calls >= now.after && (now.times == 0 || calls - now.after < now.times)) {
			if (now.how == PW_INJECT_ERROR)
				error = now.error;
			else if (now.how == PW_INJECT_SHORT)
				*count /= 2;
			else
				*damage = 1;
		}
	}
	pthread_mutex_unlock(&lock);
	return (error);
}
