/* A store of orders and events. Each function ends the program if the store fails. */
#ifndef STORE_H
#define STORE_H

#include <stdint.h>

#define MAX_TEXT 4096

/* One thread's access to the store. */
struct session;

/* Ends the program with a message unless error is NULL. */
void check(const char *error, const char *what);

/* Opens the store in the directory; with fills, creates it, and store_fill is called next. */
void store_open(const char *dir, int fills);
void store_fill(uint64_t id, const char *order);
/* The number of the last order. */
uint64_t store_orders(void);
void store_close(void);

struct session *session_open(int number);
void session_begin(struct session *session);
/* These return 0 if the transaction was rolled back and must be repeated. */
int session_read(struct session *session, uint64_t id);
int session_commit(struct session *session, uint64_t id, const char *order, const char *event);

#endif
