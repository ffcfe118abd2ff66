/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Reads the path of an open file without a race: here, while the file is in use, and not later from /proc,
 * where a short-lived file is already gone.
 */
#pragma once
#include "follow.h"

/* Returns the number of the followed directory at this entry, or NO_ROOT. */
static __always_inline u32 root_at(u64 dentry)
{
	u32 *root;

	if (dentry == root_dentry)
		return 0;
	if (roots_known < 2)
		return NO_ROOT;
	root = bpf_map_lookup_elem(&roots, &dentry);
	return root ? *root : NO_ROOT;
}

/* Levels of directories that a plain loop climbs. */
#define SHALLOW 40
/* Levels that a callback climbs beyond that. */
#define MAX_DEPTH 4096

struct climb {
	u64 dentry;
	u32 root;
	bool ended;
};

static long climb_one(u32 i, struct climb *c)
{
	u64 parent = (u64)READ_AT(struct dentry, c->dentry, d_parent);

	c->root = root_at(c->dentry);
	c->ended = c->root != NO_ROOT || parent == c->dentry || !parent;
	c->dentry = parent;
	return c->ended;
}

/* As root_above(), for an entry below many directories. */
static __noinline u32 root_far_above(u64 dentry)
{
	struct climb c = { .dentry = dentry, .root = NO_ROOT };

	bpf_loop(MAX_DEPTH, climb_one, &c, 0);
	if (!c.ended)
		count(COUNT_DEEP);
	return c.root;
}

/* Returns the followed directory at or above `dentry`, or NO_ROOT. */
static __noinline u32 root_above(u64 dentry)
{
	for (int i = 0; i < SHALLOW; i++) {
		u32 root = root_at(dentry);
		u64 parent;

		if (root != NO_ROOT)
			return root;
		parent = (u64)READ_AT(struct dentry, dentry, d_parent);
		if (parent == dentry || !parent)
			return NO_ROOT;
		dentry = parent;
	}
	return root_far_above(dentry);
}

/* Whether `dentry` is an ancestor of the first followed directory. */
static __noinline bool above_root(u64 dentry)
{
	u64 at = root_dentry;

	for (int i = 0; i < SHALLOW && at; i++) {
		u64 parent = (u64)READ_AT(struct dentry, at, d_parent);

		if (at == dentry)
			return true;
		if (parent == at)
			break;
		at = parent;
	}
	return false;
}

struct walk {
	u8 *names;
	struct rec_path *out;
	u64 dentry;
	u64 name;
	u32 pos;
	u32 len;
};

static __always_inline void put_word(struct walk *w, u64 word)
{
	u32 at = w->pos;

	if (at <= NAMES_BYTES - 8)
		*(u64 *)(w->names + at) = word;
	w->pos = at + 8;
}

/*
 * The callback of bpf_loop(). Unlike for a loop in C, the verifier checks its body only once, not for every
 * length of every name.
 */
static long put_part(u32 i, struct walk *w)
{
	if (i * 8 >= w->len)
		return 1;
	put_word(w, READ_AT(struct timespec64, w->name + i * 8, tv_sec));
	return 0;
}

static long put_name(u32 i, struct walk *w)
{
	struct rec_path *out = w->out;
	u32 root = root_at(w->dentry);
	u64 parent = (u64)READ_AT(struct dentry, w->dentry, d_parent);

	if (root != NO_ROOT || parent == w->dentry || !parent) {
		out->root = root;
		out->truncated = 0;
		return 1;
	}
	w->len = READ_AT(struct dentry, w->dentry, d_name.len);
	w->name = (u64)READ_AT(struct dentry, w->dentry, d_name.name);
	if (w->len >= NAME_SLOT || w->pos > NAMES_BYTES - NAME_SLOT - 8)
		return 1;
	put_word(w, w->len);
	bpf_loop(NAME_SLOT / 8, put_part, w, 0);
	out->count = i + 1;
	w->dentry = parent;
	return 0;
}

/* Writes the names from `dentry` upwards to `names` at `pos`. Returns the position after them. */
static __noinline u32 put_path(u64 dentry, struct rec_path *out, u8 *names, u32 pos)
{
	struct walk w = { .names = names, .out = out, .dentry = dentry, .pos = pos };

	out->root = NO_ROOT;
	out->truncated = 1;
	out->count = 0;
	bpf_loop(MAX_DEPTH, put_name, &w, 0);
	return w.pos;
}
