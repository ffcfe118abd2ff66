/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Reads the path of an open file without a race: here, while the file is in use, and not later from /proc,
 * where a short-lived file is already gone.
 */
#pragma once
#include "common.h"

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

/* Returns the followed directory at or above `dentry`, or NO_ROOT. */
static __noinline u32 root_above(u64 dentry)
{
	for (int i = 0; i < PATH_DEPTH; i++) {
		u32 root = root_at(dentry);
		u64 parent;

		if (root != NO_ROOT)
			return root;
		parent = (u64)READ_AT(struct dentry, dentry, d_parent);
		if (parent == dentry || !parent)
			break;
		dentry = parent;
	}
	return NO_ROOT;
}

/* Whether `dentry` is an ancestor of the first followed directory. */
static __noinline bool above_root(u64 dentry)
{
	u64 at = root_dentry;

	for (int i = 0; i < PATH_DEPTH && at; i++) {
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
	struct rec_path *out;
	u64 dentry;
	u64 name;
	u32 pos;
	u32 len;
};

/*
 * The callback of bpf_loop(). Unlike for a loop in C, the verifier checks its body only once, not for every
 * length of every name.
 */
static long put_word(u32 i, struct walk *w)
{
	u32 at = w->pos + i * 8;

	if (i * 8 >= w->len || at > PATH_BYTES + NAME_SLOT - 8)
		return 1;
	*(u64 *)(w->out->bytes + at) = READ_AT(struct timespec64, w->name + i * 8, tv_sec);
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
	if (i >= PATH_DEPTH || w->len >= NAME_SLOT || w->pos > PATH_BYTES)
		return 1;
	bpf_loop(NAME_SLOT / 8, put_word, w, 0);
	out->len[i] = w->len;
	out->depth = i + 1;
	w->pos += (w->len + 7) & ~7;
	w->dentry = parent;
	return 0;
}

/* Writes the names from `dentry` upwards to `out`. */
static __noinline int put_path(u64 dentry, struct rec_path *out)
{
	struct walk w = { .out = out, .dentry = dentry };

	if (!out)
		return 0;
	out->root = NO_ROOT;
	out->truncated = 1;
	out->depth = 0;
	bpf_loop(PATH_DEPTH + 1, put_name, &w, 0);
	return 0;
}
