/* SPDX-License-Identifier: CDDL-1.0 */
/* Names: removing them, adding a link, renaming. */

#include <sys/stat.h>
#include <sys/zfs_context.h>
#include <sys/zfs_znode.h>

#include "internal.h"

/*
 * An assigned transaction cannot be aborted, so when a step fails, the steps before it are undone. If that fails too,
 * the process ends here: an uncommitted transaction never reaches the disk, so the pool stays consistent.
 */
static void
taken_back(int error)
{
	if (error != 0)
		panic("a change of a directory failed half done and cannot be taken back (error %d)", error);
}

/* The state of a node that has lost a name. */
static int
lose_name(pw_node_t *node, int *last, dmu_tx_t *tx)
{
	sa_bulk_attr_t bulk[3];
	uint64_t now[2];
	int n = 0;

	pw_now(now);
	mutex_enter(&node->lock);
	const uint64_t links = node->links;
	node->links = pw_node_is_dir(node) || node->links <= 1 ? 0 : node->links - 1;
	*last = node->links == 0;
	SA_ADD_BULK_ATTR(bulk, n, node->ds->attr[ZPL_LINKS], NULL, &node->links, 8);
	int error = *last ? zap_add_int(node->ds->os, node->ds->delete_queue, node->object, tx) : 0;
	if (error == 0) {
		error = pw_attr_update(node, bulk, n, now, tx);
		if (error != 0 && *last)
			taken_back(zap_remove_int(node->ds->os, node->ds->delete_queue, node->object, tx));
	}
	if (error == 0)
		node->unlinked = *last;
	else
		node->links = links;
	mutex_exit(&node->lock);
	return (error);
}

/* Undoes lose_name(). */
static void
regain_name(pw_node_t *node, uint64_t links, int last, dmu_tx_t *tx)
{
	mutex_enter(&node->lock);
	if (last)
		taken_back(zap_remove_int(node->ds->os, node->ds->delete_queue, node->object, tx));
	node->links = links;
	node->unlinked = 0;
	taken_back(sa_update(node->sa, node->ds->attr[ZPL_LINKS], &node->links, sizeof (node->links), tx));
	mutex_exit(&node->lock);
}

/* Updates a node that has a new name elsewhere: its parent and its change time. */
static int
move_to(pw_node_t *node, pw_node_t *dir, dmu_tx_t *tx)
{
	sa_bulk_attr_t bulk[3];
	uint64_t now[2];
	int n = 0;

	pw_now(now);
	mutex_enter(&node->lock);
	SA_ADD_BULK_ATTR(bulk, n, node->ds->attr[ZPL_PARENT], NULL, &dir->object, 8);
	int error = pw_attr_update(node, bulk, n, now, tx);
	mutex_exit(&node->lock);
	return (error);
}

/* Looks up a name under the directory's lock and holds the node. */
static int
find_node(pw_node_t *dir, const char *name, pw_node_t **out)
{
	uint64_t object;
	int error = pw_dir_find(dir, name, &object);
	return (error != 0 ? error : pw_node_get(dir->ds, object, out));
}

static int
may_remove(pw_node_t *node, int directory)
{
	if (pw_node_is_dir(node) && !directory)
		return (EISDIR);
	if (!pw_node_is_dir(node) && directory)
		return (ENOTDIR);
	return (directory && node->size > 2 ? ENOTEMPTY : 0);
}

/* ---- remove ---- */

/* Called with the names of both directories locked, so that no entry can be added to the removed directory. */
static int
remove_locked(pw_node_t *dir, const char *name, pw_node_t *node, uint64_t *gone)
{
	pw_dataset_t *ds = dir->ds;
	int last = 0, directory = pw_node_is_dir(node);
	dmu_tx_t *tx = dmu_tx_create(ds->os);
	dmu_tx_hold_zap(tx, dir->object, B_FALSE, name);
	dmu_tx_hold_sa(tx, dir->sa, B_FALSE);
	dmu_tx_hold_sa(tx, node->sa, B_FALSE);
	dmu_tx_hold_zap(tx, ds->delete_queue, B_TRUE, NULL);
	dmu_tx_mark_netfree(tx);
	int error = dmu_tx_assign(tx, DMU_TX_WAIT);
	if (error != 0) {
		dmu_tx_abort(tx);
		return (error);
	}
	error = pw_dir_leave(dir, name, node, tx);
	if (error == 0) {
		error = lose_name(node, &last, tx);
		if (error != 0)
			taken_back(pw_dir_enter(dir, name, node->object, node->mode, tx));
	}
	if (error == 0)
		pw_log_remove(dir, tx, name, node->object, directory, last);
	dmu_tx_commit(tx);
	*gone = error == 0 && last ? node->object : 0;
	return (error);
}

int
pw_name_remove(pw_node_t *dir, const char *name, int directory, uint64_t *gone)
{
	pw_node_t *node = NULL;
	*gone = 0;
	if (dir->ds->readonly)
		return (EROFS);
	if (!pw_node_is_dir(dir))
		return (ENOTDIR);
	if (strcmp(name, ".") == 0)
		return (EINVAL);
	if (strcmp(name, "..") == 0)
		return (ENOTEMPTY);
	/* A thread that locks the names of two directories holds `renames` first, so their order does not matter. */
	if (directory)
		mutex_enter(&dir->ds->renames);
	mutex_enter(&dir->names);
	int error = find_node(dir, name, &node);
	if (error == 0) {
		int both = directory && pw_node_is_dir(node);
		if (both)
			mutex_enter(&node->names);
		error = may_remove(node, directory);
		if (error == 0)
			error = remove_locked(dir, name, node, gone);
		if (both)
			mutex_exit(&node->names);
	}
	mutex_exit(&dir->names);
	if (directory)
		mutex_exit(&dir->ds->renames);
	if (node != NULL)
		pw_node_release(node);
	return (pw_log_settle(dir->ds, 0, error, 0));
}

/* ---- link ---- */

/*
 * Adds a link, unless the last name was removed meanwhile: such a node gets no new name, because it is freed with its
 * last handle. A file that was made without a name may get its first one, and then leaves the delete queue.
 */
static int
gain_link(pw_node_t *node, int *first, dmu_tx_t *tx)
{
	pw_dataset_t *ds = node->ds;
	int error = 0;
	mutex_enter(&node->lock);
	*first = node->unlinked;
	if (node->unlinked)
		error = node->linkable ? zap_remove_int(ds->os, ds->delete_queue, node->object, tx) : ENOENT;
	if (error == 0) {
		node->links++;
		node->unlinked = node->linkable = 0;
		error = sa_update(node->sa, ds->attr[ZPL_LINKS], &node->links, sizeof (node->links), tx);
	}
	mutex_exit(&node->lock);
	return (error);
}

/* *wait: the file got its first name. The log has no record for this, so the caller waits for its txg. */
static int
link_locked(pw_node_t *dir, const char *name, pw_node_t *node, int *wait)
{
	pw_dataset_t *ds = dir->ds;
	int last;
	dmu_tx_t *tx = dmu_tx_create(ds->os);
	dmu_tx_hold_sa(tx, node->sa, B_FALSE);
	dmu_tx_hold_zap(tx, dir->object, B_TRUE, name);
	dmu_tx_hold_sa(tx, dir->sa, B_FALSE);
	dmu_tx_hold_zap(tx, ds->delete_queue, B_TRUE, NULL);
	int error = dmu_tx_assign(tx, DMU_TX_WAIT);
	if (error != 0) {
		dmu_tx_abort(tx);
		return (error);
	}
	error = gain_link(node, wait, tx);
	if (error == 0) {
		error = pw_dir_enter(dir, name, node->object, node->mode, tx);
		if (error == 0 && (error = move_to(node, dir, tx)) != 0)
			taken_back(pw_dir_leave(dir, name, node, tx));
		if (error != 0)
			taken_back(lose_name(node, &last, tx));
	}
	if (error == 0)
		pw_log_link(dir, tx, name, node->object);
	dmu_tx_commit(tx);
	return (error);
}

int
pw_name_link(pw_node_t *dir, const char *name, pw_node_t *node)
{
	pw_dataset_t *ds = dir->ds;
	uint64_t there;
	int wait = 0, error = ds->readonly ? EROFS : node->ds != ds ? EXDEV : !pw_node_is_dir(dir) ? ENOTDIR :
	    pw_node_is_dir(node) ? EPERM : pw_dir_check_name(ds, name);
	if (error != 0)
		return (error);
	mutex_enter(&dir->names);
	if (dir->unlinked)
		error = ENOENT;
	else if (pw_dir_find(dir, name, &there) == 0)
		error = EEXIST;
	else
		error = link_locked(dir, name, node, &wait);
	mutex_exit(&dir->names);
	if (error != 0 || !wait || ds->os->os_sync == ZFS_SYNC_DISABLED)
		return (pw_log_settle(ds, 0, error, 0));
	txg_wait_synced(dmu_objset_pool(ds->os), 0);
	return (0);
}

/* ---- rename ---- */

typedef struct rename {
	pw_node_t *from, *to, *node, *target;
	const char *name, *new_name;
	uint32_t flags;
	pw_made_t *whiteout;
} rename_t;

/*
 * A directory must not be moved below itself. Called with ds->renames held, so the path to the root does not change.
 */
static int
below(pw_node_t *dir, pw_node_t *above, int *yes)
{
	uint64_t object = dir->object, mark = 0;
	pw_dataset_t *ds = dir->ds;
	*yes = 0;
	for (uint64_t steps = 0, until = 1; object != ds->root; steps++) {
		pw_node_t *node;
		/*
		 * On a damaged disk, parents may form a cycle. Brent's method finds it: the marker moves after 1, 2,
		 * 4, ... steps.
		 */
		if (object == mark)
			return (EIO);
		if (steps == until) {
			mark = object;
			until *= 2;
		}
		if (object == above->object) {
			*yes = 1;
			return (0);
		}
		int error = pw_node_get(ds, object, &node);
		if (error != 0)
			return (error);
		error = sa_lookup(node->sa, ds->attr[ZPL_PARENT], &object, sizeof (object));
		pw_node_release(node);
		if (error != 0)
			return (error);
	}
	*yes = above->object == ds->root;
	return (0);
}

static int
check_loops(const rename_t *r)
{
	int yes = 0, error = 0;
	if (r->from == r->to)
		return (0);
	if (pw_node_is_dir(r->node)) {
		if ((error = below(r->to, r->node, &yes)) != 0 || yes)
			return (error != 0 ? error : EINVAL);
	}
	if (r->target != NULL && pw_node_is_dir(r->target)) {
		if ((error = below(r->from, r->target, &yes)) != 0 || yes)
			return (error != 0 ? error : r->flags & PW_RENAME_EXCHANGE ? EINVAL : ENOTEMPTY);
	}
	return (0);
}

static int
check_rename(const rename_t *r)
{
	if (r->target == NULL)
		return (r->flags & PW_RENAME_EXCHANGE ? ENOENT : 0);
	if (r->flags & PW_RENAME_NOREPLACE)
		return (EEXIST);
	if (r->flags & PW_RENAME_EXCHANGE)
		return (0);
	if (pw_node_is_dir(r->node) && !pw_node_is_dir(r->target))
		return (ENOTDIR);
	if (!pw_node_is_dir(r->node) && pw_node_is_dir(r->target))
		return (EISDIR);
	return (pw_node_is_dir(r->target) && r->target->size > 2 ? ENOTEMPTY : 0);
}

static void
hold_rename(dmu_tx_t *tx, const rename_t *r)
{
	dmu_tx_hold_sa(tx, r->node->sa, B_FALSE);
	dmu_tx_hold_sa(tx, r->from->sa, B_FALSE);
	dmu_tx_hold_zap(tx, r->from->object, r->flags & PW_RENAME_EXCHANGE ? B_TRUE : B_FALSE, r->name);
	dmu_tx_hold_zap(tx, r->to->object, B_TRUE, r->new_name);
	if (r->to != r->from)
		dmu_tx_hold_sa(tx, r->to->sa, B_FALSE);
	if (r->target != NULL)
		dmu_tx_hold_sa(tx, r->target->sa, B_FALSE);
	dmu_tx_hold_zap(tx, r->node->ds->delete_queue, B_TRUE, NULL);
	if (r->whiteout != NULL)
		pw_dir_hold_create(tx, r->from, r->name, r->whiteout);
}

/* Removes both names. names_return() undoes it as a whole. */
static int
names_leave(const rename_t *r, int *last, dmu_tx_t *tx)
{
	int error = pw_dir_leave(r->from, r->name, r->node, tx);
	if (error != 0 || r->target == NULL)
		return (error);
	error = pw_dir_leave(r->to, r->new_name, r->target, tx);
	if (error == 0 && !(r->flags & PW_RENAME_EXCHANGE)) {
		error = lose_name(r->target, last, tx);
		if (error != 0)
			taken_back(pw_dir_enter(r->to, r->new_name, r->target->object, r->target->mode, tx));
	}
	if (error != 0)
		taken_back(pw_dir_enter(r->from, r->name, r->node->object, r->node->mode, tx));
	return (error);
}

static void
names_return(const rename_t *r, uint64_t links, int last, dmu_tx_t *tx)
{
	if (r->target != NULL) {
		if (!(r->flags & PW_RENAME_EXCHANGE))
			regain_name(r->target, links, last, tx);
		taken_back(pw_dir_enter(r->to, r->new_name, r->target->object, r->target->mode, tx));
	}
	taken_back(pw_dir_enter(r->from, r->name, r->node->object, r->node->mode, tx));
}

/* Adds a node under a name; leave_again() undoes it. */
static int
enter(pw_node_t *dir, const char *name, pw_node_t *node, dmu_tx_t *tx)
{
	int error = pw_dir_enter(dir, name, node->object, node->mode, tx);
	if (error == 0 && (error = move_to(node, dir, tx)) != 0)
		taken_back(pw_dir_leave(dir, name, node, tx));
	return (error);
}

static void
leave_again(pw_node_t *dir, const char *name, pw_node_t *node, pw_node_t *back, dmu_tx_t *tx)
{
	taken_back(pw_dir_leave(dir, name, node, tx));
	taken_back(move_to(node, back, tx));
}

static int
leave_whiteout(const rename_t *r, dmu_tx_t *tx)
{
	int error = pw_dir_create_object(r->from, r->whiteout, tx);
	if (error != 0)
		return (error);
	error = pw_dir_enter(r->from, r->name, r->whiteout->object, r->whiteout->mode, tx);
	if (error != 0)
		taken_back(dmu_object_free(r->from->ds->os, r->whiteout->object, tx));
	return (error);
}

/*
 * Within the transaction: removes both names, then adds them at their new places. After an error, everything is as
 * before.
 */
static int
move_names(const rename_t *r, uint64_t *gone, dmu_tx_t *tx)
{
	const uint64_t links = r->target != NULL ? r->target->links : 0;
	int last = 0;
	int error = names_leave(r, &last, tx);
	if (error != 0)
		return (error);
	error = enter(r->to, r->new_name, r->node, tx);
	if (error == 0) {
		if (r->flags & PW_RENAME_EXCHANGE)
			error = enter(r->from, r->name, r->target, tx);
		else if (r->whiteout != NULL)
			error = leave_whiteout(r, tx);
		if (error != 0)
			leave_again(r->to, r->new_name, r->node, r->from, tx);
	}
	if (error != 0)
		names_return(r, links, last, tx);
	else if (last)
		*gone = r->target->object;
	return (error);
}

static int
rename_locked(const rename_t *r, uint64_t *gone)
{
	dmu_tx_t *tx = dmu_tx_create(r->node->ds->os);
	hold_rename(tx, r);
	int error = dmu_tx_assign(tx, DMU_TX_WAIT);
	if (error != 0) {
		dmu_tx_abort(tx);
		return (error);
	}
	error = move_names(r, gone, tx);
	if (error == 0)
		pw_log_rename(r->from, tx, r->name, r->to, r->new_name, r->node->object, r->flags, r->whiteout);
	dmu_tx_commit(tx);
	return (error);
}

/*
 * Called with the names of both directories locked. The names of a replaced directory are locked too; otherwise
 * another thread could add entries to it.
 */
static int
rename_found(rename_t *r, uint64_t *gone)
{
	if (r->target == r->node)
		return (0);		/* two names of one node: POSIX requires that nothing happens */
	int error = check_loops(r);
	int replaces_dir = r->target != NULL && pw_node_is_dir(r->target) && !(r->flags & PW_RENAME_EXCHANGE);
	if (error != 0)
		return (error);
	if (replaces_dir)
		mutex_enter(&r->target->names);
	error = check_rename(r);
	if (error == 0)
		error = rename_locked(r, gone);
	if (replaces_dir)
		mutex_exit(&r->target->names);
	return (error);
}

static int
find_both(rename_t *r)
{
	int error = r->from->unlinked || r->to->unlinked ? ENOENT : find_node(r->from, r->name, &r->node);
	if (error == 0) {
		int found = find_node(r->to, r->new_name, &r->target);
		error = found == ENOENT ? 0 : found;
	}
	return (error);
}

static void
let_go(rename_t *r)
{
	if (r->target != NULL)
		pw_node_release(r->target);
	if (r->node != NULL)
		pw_node_release(r->node);
	r->node = r->target = NULL;
}

int
pw_name_rename_as(pw_node_t *from, const char *name, pw_node_t *to, const char *new_name, uint32_t flags,
    pw_made_t *whiteout, uint64_t *gone)
{
	rename_t r = { from, to, NULL, NULL, name, new_name, flags, whiteout };
	pw_dataset_t *ds = from->ds;
	/*
	 * A rename within one directory needs only its lock, unless it replaces a directory, which needs a second
	 * lock.
	 */
	int wide = from != to, again, error;

	*gone = 0;
	do {
		if (wide)
			mutex_enter(&ds->renames);
		mutex_enter(&from->names);
		if (from != to)
			mutex_enter(&to->names);
		error = find_both(&r);
		again = !wide && error == 0 && r.target != NULL && pw_node_is_dir(r.target);
		if (error == 0 && !again)
			error = rename_found(&r, gone);
		if (from != to)
			mutex_exit(&to->names);
		mutex_exit(&from->names);
		if (wide)
			mutex_exit(&ds->renames);
		let_go(&r);
		wide = 1;
	} while (again);
	return (error);
}

int
pw_name_rename(pw_node_t *from, const char *name, pw_node_t *to, const char *new_name, uint32_t flags, uint64_t *gone)
{
	pw_made_t whiteout = { .mode = S_IFCHR, .uid = getuid(), .gid = getgid() };
	int error = from->ds->readonly ? EROFS : from->ds != to->ds ? EXDEV :
	    !pw_node_is_dir(from) || !pw_node_is_dir(to) ? ENOTDIR : 0;
	*gone = 0;
	if (error != 0)
		return (error);
	if (flags & ~(uint32_t)(PW_RENAME_NOREPLACE | PW_RENAME_EXCHANGE | PW_RENAME_WHITEOUT) ||
	    (flags & PW_RENAME_EXCHANGE && flags & (PW_RENAME_NOREPLACE | PW_RENAME_WHITEOUT)))
		return (EINVAL);
	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
	    (error = pw_dir_check_name(from->ds, new_name)) == EEXIST)
		return (EBUSY);
	if (error != 0)
		return (error);
	error = pw_name_rename_as(from, name, to, new_name, flags, flags & PW_RENAME_WHITEOUT ? &whiteout : NULL, gone);
	return (pw_log_settle(from->ds, 0, error, 0));
}
