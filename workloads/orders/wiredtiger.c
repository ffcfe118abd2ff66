/* WiredTiger, MongoDB's store: a log, checkpoints every ten seconds, a cache of 64M. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <wiredtiger.h>

#include "store.h"

#define CACHE "create,cache_size=64MB,log=(enabled=true,file_max=16MB),checkpoint=(wait=10),"
#define DURABLE "transaction_sync=(enabled=true,method=fsync)"
#define ORDERS "table:orders"
#define EVENTS "table:events"

struct session {
	WT_SESSION *session;
	WT_CURSOR *orders, *events;
};

static WT_CONNECTION *connection;
static WT_CURSOR *bulk;

static void
must(int error, const char *what)
{
	check(error == 0 ? NULL : wiredtiger_strerror(error), what);
}

void
store_open(const char *dir, int fills)
{
	WT_SESSION *session;

	must(wiredtiger_open(dir, NULL, fills ? CACHE : CACHE DURABLE, &connection), "open the database");
	if (!fills)
		return;
	must(connection->open_session(connection, NULL, NULL, &session), "open a session");
	must(session->create(session, ORDERS, "key_format=Q,value_format=S,leaf_page_max=16KB"), "create " ORDERS);
	must(session->create(session, EVENTS, "key_format=r,value_format=S"), "create " EVENTS);
	must(session->open_cursor(session, ORDERS, NULL, "bulk", &bulk), "open " ORDERS);
}

void
store_fill(uint64_t id, const char *order)
{
	bulk->set_key(bulk, id);
	bulk->set_value(bulk, order);
	must(bulk->insert(bulk), "insert an order");
}

uint64_t
store_orders(void)
{
	WT_SESSION *session;
	WT_CURSOR *cursor;
	uint64_t orders;

	must(connection->open_session(connection, NULL, NULL, &session), "open a session");
	must(session->open_cursor(session, ORDERS, NULL, NULL, &cursor), "open " ORDERS);
	must(cursor->prev(cursor), "find the last order");
	must(cursor->get_key(cursor, &orders), "read the last order");
	return (orders);
}

void
store_close(void)
{
	if (bulk != NULL)
		must(bulk->close(bulk), "close " ORDERS);
	must(connection->close(connection, NULL), "close the database");
}

struct session *
session_open(int number)
{
	struct session *s = calloc(1, sizeof (*s));

	(void) number;
	check(s == NULL ? strerror(ENOMEM) : NULL, "open a session");
	must(connection->open_session(connection, NULL, "isolation=snapshot", &s->session), "open a session");
	must(s->session->open_cursor(s->session, ORDERS, NULL, NULL, &s->orders), "open " ORDERS);
	must(s->session->open_cursor(s->session, EVENTS, NULL, "append", &s->events), "open " EVENTS);
	return (s);
}

void
session_begin(struct session *s)
{
	must(s->session->begin_transaction(s->session, NULL), "begin");
}

/* Returns 0 after rolling back if the error is a conflict. */
static int
done(struct session *s, int error)
{
	if (error == WT_ROLLBACK)
		must(s->session->rollback_transaction(s->session, NULL), "roll back");
	else
		must(error, "a transaction");
	return (error == 0);
}

int
session_read(struct session *s, uint64_t id)
{
	const char *value;
	int error;

	s->orders->set_key(s->orders, id);
	error = s->orders->search(s->orders);
	if (error == 0)
		error = s->orders->get_value(s->orders, &value);
	return (done(s, error));
}

/* The cursor is at the order that was read last, whose number is `id`. */
int
session_commit(struct session *s, uint64_t id, const char *order, const char *event)
{
	int error;

	(void) id;
	s->orders->set_value(s->orders, order);
	error = s->orders->update(s->orders);
	if (error == 0) {
		s->events->set_value(s->events, event);
		error = s->events->insert(s->events);
	}
	if (!done(s, error))
		return (0);
	must(s->session->commit_transaction(s->session, NULL), "commit");
	return (1);
}
