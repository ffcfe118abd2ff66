/* LevelDB: a cache of blocks of 64M, no compression, all else by default. */
#include <errno.h>
#include <leveldb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store.h"

#define CACHE_BYTES (64 << 20)
#define MAX_KEY 40

struct session {
	int number;
	uint64_t events;
};

static leveldb_t *store;
static leveldb_readoptions_t *reading;
static leveldb_writeoptions_t *writing;

void
store_open(const char *dir, int fills)
{
	leveldb_options_t *options = leveldb_options_create();
	char *error = NULL;

	leveldb_options_set_create_if_missing(options, fills);
	leveldb_options_set_compression(options, leveldb_no_compression);
	leveldb_options_set_cache(options, leveldb_cache_create_lru(CACHE_BYTES));
	store = leveldb_open(options, dir, &error);
	check(error, "open the database");
	reading = leveldb_readoptions_create();
	writing = leveldb_writeoptions_create();
	leveldb_writeoptions_set_sync(writing, !fills);
}

/* Writes an order's key, which sorts by number. */
static size_t
order_key(char *key, uint64_t id)
{
	return ((size_t)snprintf(key, MAX_KEY, "order/%012lu", id));
}

void
store_fill(uint64_t id, const char *order)
{
	char key[MAX_KEY], *error = NULL;
	size_t len = order_key(key, id);

	leveldb_put(store, writing, key, len, order, strlen(order), &error);
	check(error, "insert an order");
}

uint64_t
store_orders(void)
{
	leveldb_iterator_t *last = leveldb_create_iterator(store, reading);
	const char *key;
	char text[MAX_KEY] = "";
	size_t len;

	leveldb_iter_seek(last, "order0", 6); /* behind each "order/" */
	if (leveldb_iter_valid(last))
		leveldb_iter_prev(last);
	else
		leveldb_iter_seek_to_last(last);
	check(leveldb_iter_valid(last) ? NULL : "no orders", "find the last order");
	key = leveldb_iter_key(last, &len);
	memcpy(text, key, len < MAX_KEY ? len : MAX_KEY - 1);
	leveldb_iter_destroy(last);
	return (strtoull(text + strlen("order/"), NULL, 10));
}

void
store_close(void)
{
	leveldb_close(store);
}

struct session *
session_open(int number)
{
	struct session *s = calloc(1, sizeof (*s));

	check(s == NULL ? strerror(ENOMEM) : NULL, "open a session");
	s->number = number;
	return (s);
}

void
session_begin(struct session *s)
{
	(void) s;
}

int
session_read(struct session *s, uint64_t id)
{
	char key[MAX_KEY], *error = NULL, *value;
	size_t len = order_key(key, id), value_len;

	(void) s;
	value = leveldb_get(store, reading, key, len, &value_len, &error);
	check(error, "read an order");
	check(value == NULL ? "not found" : NULL, key);
	leveldb_free(value);
	return (1);
}

int
session_commit(struct session *s, uint64_t id, const char *order, const char *event)
{
	leveldb_writebatch_t *batch = leveldb_writebatch_create();
	char key[MAX_KEY], *error = NULL;
	size_t len = order_key(key, id);

	leveldb_writebatch_put(batch, key, len, order, strlen(order));
	len = (size_t)snprintf(key, MAX_KEY, "event/%02d/%012lu", s->number, ++s->events);
	leveldb_writebatch_put(batch, key, len, event, strlen(event));
	leveldb_write(store, writing, batch, &error);
	check(error, "commit");
	leveldb_writebatch_destroy(batch);
	return (1);
}
