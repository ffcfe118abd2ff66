/* SPDX-License-Identifier: CDDL-1.0 */
/*
 * Nodes in memory: the table by object number, references, the list of idle nodes, and the removal of unlinked nodes.
 *
 * The transaction that removes the last name of a node puts the node into the delete queue on disk. Its space is
 * freed with its last reference or, after a crash, when the dataset is opened.
 */

#include <sys/stat.h>
#include <sys/zfs_context.h>
#include <sys/zfs_znode.h>

#include "internal.h"

static int
by_object(const void *a, const void *b)
{
	return (TREE_CMP(((const pw_node_t *)a)->object, ((const pw_node_t *)b)->object));
}

void
pw_nodes_init(pw_dataset_t *ds)
{
	for (int i = 0; i < PW_BUCKETS; i++) {
		mutex_init(&ds->buckets[i].lock, NULL, MUTEX_DEFAULT, NULL);
		avl_create(&ds->buckets[i].nodes, by_object, sizeof (pw_node_t), offsetof(pw_node_t, link));
	}
	mutex_init(&ds->idle_lock, NULL, MUTEX_DEFAULT, NULL);
	list_create(&ds->idle, sizeof (pw_node_t), offsetof(pw_node_t, idle_link));
	ds->reaper = taskq_create("pw_reaper", 1, minclsyspri, 1, INT_MAX, 0);
}

static pw_bucket_t *
bucket_of(pw_dataset_t *ds, uint64_t object)
{
	return (&ds->buckets[(object ^ (object >> 8)) % PW_BUCKETS]);
}

/* ---- coming ---- */

static int
read_attributes(pw_dataset_t *ds, pw_node_t *node)
{
	sa_bulk_attr_t bulk[5];
	int n = 0;
	SA_ADD_BULK_ATTR(bulk, n, ds->attr[ZPL_MODE], NULL, &node->mode, 8);
	SA_ADD_BULK_ATTR(bulk, n, ds->attr[ZPL_SIZE], NULL, &node->size, 8);
	SA_ADD_BULK_ATTR(bulk, n, ds->attr[ZPL_GEN], NULL, &node->gen, 8);
	SA_ADD_BULK_ATTR(bulk, n, ds->attr[ZPL_FLAGS], NULL, &node->flags, 8);
	SA_ADD_BULK_ATTR(bulk, n, ds->attr[ZPL_LINKS], NULL, &node->links, 8);
	return (sa_bulk_lookup(node->sa, bulk, n));
}

/* Whether the node has an ACL that no mode can express. Users do not look up directories of extended attributes. */
static int
says_more_than_mode(const pw_node_t *node)
{
	return (!(node->flags & (ZFS_ACL_TRIVIAL | ZFS_XATTR)));
}

static int
load(pw_dataset_t *ds, uint64_t object, pw_node_t *node)
{
	dmu_buf_t *bonus;
	int error = dnode_hold(ds->os, object, node, &node->dn);
	if (error != 0)
		return (error == ENOENT || error == EINVAL ? ESTALE : error);
	dnode_t *dn = node->dn;
	if (dn->dn_bonustype != DMU_OT_SA ||
	    (dn->dn_type != DMU_OT_PLAIN_FILE_CONTENTS && dn->dn_type != DMU_OT_DIRECTORY_CONTENTS))
		error = ESTALE;
	/*
	 * Does the same as sa_handle_get() without a second lookup of the dnode. The tag is needed for the release.
	 */
	if (error == 0)
		error = dmu_bonus_hold_by_dnode(dn, NULL, &bonus, DMU_READ_NO_PREFETCH);
	if (error == 0)
		error = sa_handle_get_from_db(ds->os, bonus, NULL, SA_HDL_PRIVATE, &node->sa);
	if (error == 0) {
		error = read_attributes(ds, node);
		if (error == 0 && says_more_than_mode(node) && !ds->ignore_acls)
			error = EOPNOTSUPP;
		if (error != 0)
			sa_handle_destroy(node->sa);
	}
	if (error != 0)
		dnode_rele(dn, node);
	node->unlinked = node->links == 0;
	return (error);
}

static pw_node_t *
new_node(pw_dataset_t *ds, uint64_t object)
{
	pw_node_t *node = umem_zalloc(sizeof (*node), UMEM_NOFAIL);
	node->ds = ds;
	node->object = object;
	mutex_init(&node->names, NULL, MUTEX_DEFAULT, NULL);
	mutex_init(&node->lock, NULL, MUTEX_DEFAULT, NULL);
	zfs_rangelock_init(&node->range, NULL, NULL);
	return (node);
}

static void
free_node(pw_node_t *node)
{
	nvlist_free(node->xattrs);
	zfs_rangelock_fini(&node->range);
	mutex_destroy(&node->names);
	mutex_destroy(&node->lock);
	umem_free(node, sizeof (*node));
}

int
pw_node_get(pw_dataset_t *ds, uint64_t object, pw_node_t **out)
{
	pw_bucket_t *bucket = bucket_of(ds, object);
	pw_node_t key = { .object = object };
	avl_index_t where;

	mutex_enter(&bucket->lock);
	pw_node_t *node = avl_find(&bucket->nodes, &key, &where);
	if (node == NULL) {
		node = new_node(ds, object);
		int error = load(ds, object, node);
		if (error != 0) {
			mutex_exit(&bucket->lock);
			free_node(node);
			return (error);
		}
		avl_insert(&bucket->nodes, node, where);
	} else if (node->refs == 0) {
		mutex_enter(&ds->idle_lock);
		if (list_link_active(&node->idle_link)) {
			list_remove(&ds->idle, node);
			ds->idle_count--;
		} else {
			/* being freed: see reap() */
			mutex_exit(&ds->idle_lock);
			mutex_exit(&bucket->lock);
			return (ESTALE);
		}
		mutex_exit(&ds->idle_lock);
	}
	node->refs++;
	mutex_exit(&bucket->lock);
	*out = node;
	return (0);
}

/* ---- going ---- */

/* Called with the bucket's lock held, for a node without references. */
static void
unload(pw_bucket_t *bucket, pw_node_t *node)
{
	avl_remove(&bucket->nodes, node);
	sa_handle_destroy(node->sa);
	dnode_rele(node->dn, node);
}

/*
 * Removes the directory of extended attributes together with its file: its entries enter the delete queue one by one.
 */
static int
empty_xattr_dir(pw_dataset_t *ds, uint64_t object)
{
	zap_attribute_t *entry = zap_attribute_alloc();
	zap_cursor_t cursor;
	int error = 0;

	for (;;) {
		zap_cursor_init(&cursor, ds->os, object);
		error = zap_cursor_retrieve(&cursor, entry);
		zap_cursor_fini(&cursor);
		if (error != 0)
			break;
		uint64_t child = ZFS_DIRENT_OBJ(entry->za_first_integer);
		if ((error = dmu_free_long_range(ds->os, child, 0, DMU_OBJECT_END)) != 0)
			break;
		dmu_tx_t *tx = dmu_tx_create(ds->os);
		dmu_tx_hold_free(tx, child, 0, DMU_OBJECT_END);
		dmu_tx_hold_zap(tx, object, B_FALSE, entry->za_name);
		dmu_tx_mark_netfree(tx);
		if ((error = dmu_tx_assign(tx, DMU_TX_WAIT)) != 0) {
			dmu_tx_abort(tx);
			break;
		}
		error = zap_remove(ds->os, object, entry->za_name, tx);
		if (error == 0)
			error = dmu_object_free(ds->os, child, tx);
		dmu_tx_commit(tx);
		if (error != 0)
			break;
	}
	zap_attribute_free(entry);
	return (error == ENOENT ? 0 : error);
}

/*
 * Frees an unlinked object and removes it from the delete queue. After an error it stays in the queue, and the next
 * open retries. A directory is freed in one transaction with its queue entry: if this were interrupted, the queue
 * would contain a broken directory.
 */
static int
free_object(pw_dataset_t *ds, uint64_t object, uint64_t mode, uint64_t xattr_dir)
{
	int error = 0;
	if (xattr_dir != 0 && (error = empty_xattr_dir(ds, xattr_dir)) != 0)
		return (error);
	if (S_ISREG(mode) && (error = dmu_free_long_range(ds->os, object, 0, DMU_OBJECT_END)) != 0)
		return (error);
	dmu_tx_t *tx = dmu_tx_create(ds->os);
	dmu_tx_hold_free(tx, object, 0, DMU_OBJECT_END);
	if (xattr_dir != 0)
		dmu_tx_hold_free(tx, xattr_dir, 0, DMU_OBJECT_END);
	dmu_tx_hold_zap(tx, ds->delete_queue, B_FALSE, NULL);
	dmu_tx_mark_netfree(tx);
	if ((error = dmu_tx_assign(tx, DMU_TX_WAIT)) != 0) {
		dmu_tx_abort(tx);
		return (error);
	}
	error = zap_remove_int(ds->os, ds->delete_queue, object, tx);
	if (error == 0 && xattr_dir != 0)
		error = dmu_object_free(ds->os, xattr_dir, tx);
	if (error == 0)
		error = dmu_object_free(ds->os, object, tx);
	dmu_tx_commit(tx);
	return (error);
}

/*
 * Frees an unlinked node without references. The node stays in the table until its object is freed: meanwhile a
 * lookup of its number returns ESTALE.
 */
static void
reap(void *arg)
{
	pw_node_t *node = arg;
	pw_dataset_t *ds = node->ds;
	pw_bucket_t *bucket = bucket_of(ds, node->object);
	uint64_t xattr_dir = 0;

	(void) sa_lookup(node->sa, ds->attr[ZPL_XATTR], &xattr_dir, sizeof (xattr_dir));
	/* A kernel also queues the directory of a removed file's attributes. */
	int error = !ds->readonly && node->flags & ZFS_XATTR && pw_node_is_dir(node) ?
	    empty_xattr_dir(ds, node->object) : 0;
	if (error == 0 && !ds->readonly)
		(void) free_object(ds, node->object, node->mode, xattr_dir);
	mutex_enter(&bucket->lock);
	unload(bucket, node);
	mutex_exit(&bucket->lock);
	free_node(node);
}

/* Frees the least recently used idle nodes until at most `most` remain. */
static void
shrink_idle(pw_dataset_t *ds, uint64_t most)
{
	for (;;) {
		mutex_enter(&ds->idle_lock);
		pw_node_t *node = ds->idle_count > most ? list_head(&ds->idle) : NULL;
		uint64_t object = node != NULL ? node->object : 0;
		mutex_exit(&ds->idle_lock);
		if (node == NULL)
			return;
		/* The bucket's lock is taken before the list's, so check again with the bucket's lock held. */
		pw_bucket_t *bucket = bucket_of(ds, object);
		pw_node_t key = { .object = object };
		mutex_enter(&bucket->lock);
		node = avl_find(&bucket->nodes, &key, NULL);
		mutex_enter(&ds->idle_lock);
		int idle = node != NULL && node->refs == 0 && list_link_active(&node->idle_link);
		if (idle) {
			list_remove(&ds->idle, node);
			ds->idle_count--;
		}
		mutex_exit(&ds->idle_lock);
		if (idle)
			unload(bucket, node);
		mutex_exit(&bucket->lock);
		if (idle)
			free_node(node);
	}
}

/*
 * The number of idle nodes to keep. Each of them pins the block that contains its attributes in the ARC, which is 16K
 * with those of its neighbours. With lookups at random, each node pins a block of its own. So idle nodes may pin at
 * most a quarter of the ARC.
 */
static uint64_t
most_idle(void)
{
	extern uint64_t zfs_arc_max;
	uint64_t limit = __atomic_load_n(&zfs_arc_max, __ATOMIC_RELAXED);	/* may change at any time */
	return (MIN(PW_IDLE_NODES, limit / 4 / DNODE_BLOCK_SIZE));
}

static void
release(pw_node_t *node, int later)
{
	pw_dataset_t *ds = node->ds;
	pw_bucket_t *bucket = bucket_of(ds, node->object);

	mutex_enter(&bucket->lock);
	if (--node->refs != 0) {
		mutex_exit(&bucket->lock);
		return;
	}
	if (!node->unlinked) {
		mutex_enter(&ds->idle_lock);
		list_insert_tail(&ds->idle, node);
		uint64_t idle = ++ds->idle_count;
		mutex_exit(&ds->idle_lock);
		mutex_exit(&bucket->lock);
		if (idle > most_idle())
			shrink_idle(ds, most_idle());
		return;
	}
	mutex_exit(&bucket->lock);
	if (later)
		(void) taskq_dispatch(ds->reaper, reap, node, TQ_SLEEP);
	else
		reap(node);
}

void
pw_node_release(pw_node_t *node)
{
	release(node, 0);
}

void
pw_node_release_later(pw_node_t *node)
{
	release(node, 1);
}

void
pw_nodes_fini(pw_dataset_t *ds)
{
	taskq_wait(ds->reaper);
	taskq_destroy(ds->reaper);
	shrink_idle(ds, 0);
	for (int i = 0; i < PW_BUCKETS; i++) {
		ASSERT(avl_is_empty(&ds->buckets[i].nodes));
		avl_destroy(&ds->buckets[i].nodes);
		mutex_destroy(&ds->buckets[i].lock);
	}
	list_destroy(&ds->idle);
	mutex_destroy(&ds->idle_lock);
}

int
pw_node_drain_queue(pw_dataset_t *ds)
{
	zap_cursor_t cursor;
	zap_attribute_t *entry = zap_attribute_alloc();
	uint64_t *objects = NULL;
	size_t n = 0;

	for (zap_cursor_init(&cursor, ds->os, ds->delete_queue); zap_cursor_retrieve(&cursor, entry) == 0;
	    zap_cursor_advance(&cursor)) {
		if (n % 1024 == 0)
			objects = realloc(objects, (n + 1024) * sizeof (objects[0]));
		objects[n++] = entry->za_first_integer;
	}
	zap_cursor_fini(&cursor);
	zap_attribute_free(entry);
	for (size_t i = 0; i < n; i++) {
		pw_node_t *node;
		/* A node that cannot be loaded stays in the queue: a kernel may be able to handle it. */
		if (pw_node_get(ds, objects[i], &node) == 0)
			pw_node_release(node);
	}
	free(objects);
	return (0);
}

/* ---- the face ---- */

int
pw_node_open(pw_dataset_t *ds, uint64_t object, pw_node_t **out)
{
	return (pw_node_get(ds, object == 0 ? ds->root : object, out));
}

void
pw_node_close(pw_node_t *node)
{
	pw_node_release(node);
}

uint64_t
pw_node_object(pw_node_t *node)
{
	return (node->object);
}

uint64_t
pw_node_gen(pw_node_t *node)
{
	return (node->gen);
}

uint32_t
pw_node_mode(pw_node_t *node)
{
	return ((uint32_t)node->mode);
}
