/*
 * Fills a store in this process with orders, and runs transactions on it. wiredtiger.c and leveldb.c define the stores.
 *
 * usage: load fill DIR ORDERS
 *        load run DIR SECONDS THREADS
 *
 * A transaction reads six orders, half of them from a quarter of all, replaces the last one, adds an event, and is durable when it
 * commits. `run` writes the end and the duration of each transaction to standard output: 64-bit numbers, nanoseconds of the monotonic clock.
 */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "store.h"

#define READS 6
#define MAX_THREADS 64

struct client {
	pthread_t thread;
	int number;
	uint64_t state;
	uint64_t *times; /* end, duration */
	size_t count, room;
};

static uint64_t orders, until_ns;

static const char *const WORDS[] = { "account", "balance", "shipment", "pending", "invoice", "customer", "premium", "standard",
	"express", "refund", "warehouse", "delivery", "order", "return", "gift", "voucher", "discount", "season", "winter", "summer",
	"leather", "cotton", "wool", "steel", "glass", "kitchen", "garden", "office", "travel", "sport", "music", "book", "camera", "phone",
	"tablet", "cable", "battery", "charger", "quality", "delayed", "damaged", "excellent", "friendly", "support", "letter",
	"signature", "the", "and", "was", "with", "for", "not", "very", "but", "from", "after", "before", "again", "never", "always" };

void
check(const char *error, const char *what)
{
	if (error == NULL)
		return;
	fprintf(stderr, "load: %s: %s\n", what, error);
	exit(1);
}

static uint64_t
now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return ((uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec);
}

/* xorshift64*, Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled" (2016) */
static uint64_t
draw(uint64_t *state, uint64_t below)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return (*state * 2685821657736338717ULL % below);
}

static const char *
word(uint64_t *state)
{
	return (WORDS[draw(state, sizeof (WORDS) / sizeof (*WORDS))]);
}

/* Writes an order of about 500 bytes as JSON. */
static void
write_order(char *text, uint64_t id, uint64_t *state)
{
	int n, words = 20 + (int)draw(state, 50), items = 1 + (int)draw(state, 4);

	n = sprintf(text, "{\"id\":%lu,\"customer\":\"C%07lu\",\"status\":\"%s\",\"amount\":%lu.%02lu,\"currency\":\"EUR\",\"items\":[", id,
	    draw(state, 200000), word(state), draw(state, 2000), draw(state, 100));
	for (int i = 0; i < items; i++)
		n += sprintf(text + n, "%s{\"sku\":\"%08lX\",\"name\":\"%s\",\"price\":%lu.%02lu}", i > 0 ? "," : "",
		    draw(state, UINT32_MAX), word(state), draw(state, 300), draw(state, 100));
	n += sprintf(text + n, "],\"note\":\"");
	for (int i = 0; i < words; i++)
		n += sprintf(text + n, "%s%s", i > 0 ? " " : "", word(state));
	sprintf(text + n, "\"}");
}

static void
fill(void)
{
	char text[MAX_TEXT];
	uint64_t state = 42;

	for (uint64_t id = 1; id <= orders; id++) {
		write_order(text, id, &state);
		store_fill(id, text);
	}
}

/* One transaction. Returns 0 if another one changed the same order. */
static int
transaction(struct session *session, uint64_t *state)
{
	char order[MAX_TEXT], event[MAX_TEXT];
	uint64_t id = 0;

	session_begin(session);
	for (int i = 0; i < READS; i++) {
		/* A bijection, so that the quarter is spread over the table. */
		id = 1 + draw(state, i < READS / 2 ? orders / 4 : orders) * 2654435761 % orders;
		if (!session_read(session, id))
			return (0);
	}
	write_order(order, id, state);
	sprintf(event, "{\"order\":%lu,\"event\":\"%s\",\"by\":\"C%07lu\"}", id, word(state), draw(state, 200000));
	return (session_commit(session, id, order, event));
}

static void *
run_client(void *argument)
{
	struct client *client = argument;
	struct session *session;
	uint64_t began = now_ns(), end;

	session = session_open(client->number);
	while (began < until_ns) {
		if (!transaction(session, &client->state))
			continue;
		end = now_ns();
		if (client->count == client->room) {
			client->room = client->room * 2 + 1024;
			client->times = realloc(client->times, client->room * 2 * sizeof (uint64_t));
			check(client->times == NULL ? strerror(ENOMEM) : NULL, "keep the times");
		}
		client->times[2 * client->count] = end;
		client->times[2 * client->count++ + 1] = end - began;
		began = end;
	}
	return (NULL);
}

static void
run(int threads)
{
	static struct client clients[MAX_THREADS];
	int error;

	orders = store_orders();
	for (int i = 0; i < threads; i++) {
		clients[i].number = i;
		clients[i].state = 88172645463325252 + (uint64_t)i * 7919;
		error = pthread_create(&clients[i].thread, NULL, run_client, &clients[i]);
		check(error != 0 ? strerror(error) : NULL, "start a thread");
	}
	for (int i = 0; i < threads; i++) {
		pthread_join(clients[i].thread, NULL);
		fwrite(clients[i].times, 2 * sizeof (uint64_t), clients[i].count, stdout);
	}
}

int
main(int argc, char **argv)
{
	int fills = argc == 4 && strcmp(argv[1], "fill") == 0;
	int runs = argc == 5 && strcmp(argv[1], "run") == 0;

	if (!fills && !runs) {
		fprintf(stderr, "usage: load fill DIR ORDERS | load run DIR SECONDS THREADS\n");
		return (2);
	}
	store_open(argv[2], fills);
	if (fills) {
		orders = strtoull(argv[3], NULL, 10);
		fill();
	} else {
		until_ns = now_ns() + strtoull(argv[3], NULL, 10) * 1000000000;
		run(atoi(argv[4]) < MAX_THREADS ? atoi(argv[4]) : MAX_THREADS);
	}
	store_close();
	return (fflush(stdout) == 0 ? 0 : 1);
}
