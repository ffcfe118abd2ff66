/* SPDX-License-Identifier: CDDL-1.0 */
/* The ZPL's layout on disk: master node, attribute registry, delete queue, attributes, trivial ACLs. */

#include <sys/stat.h>
#include <sys/zfs_context.h>
#include <sys/sa.h>
#include <sys/sa_impl.h>
#include <sys/zfs_znode.h>

#include "internal.h"

/* Where the space accounting reads the attribute area: fixed offsets after the SA header. */
enum { AREA_GEN = 16, AREA_UID = 24, AREA_GID = 32, AREA_FLAGS = 48, AREA_PROJID = 128 };

/* Returns owner, group and project of a node for the space accounting, which the library does itself. */
static int
accounting(dmu_object_type_t bonus, const void *data, zfs_file_info_t *info)
{
	if (bonus != DMU_OT_SA && bonus != DMU_OT_ZNODE)
		return (ENOENT);
	info->zfi_project = 0;
	if (data == NULL)
		return (EEXIST);
	if (bonus == DMU_OT_ZNODE)
		return (ENOTSUP);	/* ZPL below version 5, which is refused when a dataset is opened */

	const sa_hdr_phys_t *header = data;
	if (header->sa_magic == 0) {
		info->zfi_user = info->zfi_group = info->zfi_generation = 0;
		return (0);
	}
	const char *area = (const char *)data + SA_HDR_SIZE(header);
	info->zfi_generation = *(const uint64_t *)(area + AREA_GEN);
	info->zfi_user = *(const uint64_t *)(area + AREA_UID);
	info->zfi_group = *(const uint64_t *)(area + AREA_GID);
	if (*(const uint64_t *)(area + AREA_FLAGS) & ZFS_PROJID)
		info->zfi_project = *(const uint64_t *)(area + AREA_PROJID);
	return (0);
}

void
pw_layout_register(void)
{
	dmu_objset_register_type(DMU_OST_ZFS, accounting);
}

/*
 * The coarse clock, as kernels use it for file times. With FUSE's writeback cache the kernel sets times itself, and
 * these must not be earlier than the engine's.
 */
void
pw_now(uint64_t time[2])
{
	struct timespec now;
	(void) pw_clock_gettime(CLOCK_REALTIME_COARSE, &now);
	time[0] = now.tv_sec;
	time[1] = now.tv_nsec;
}

typedef struct { uint16_t type, flags; uint32_t mask; } ace_t_min;

static uint32_t
mask_of(uint64_t bits, int dir)
{
	uint32_t mask = 0;
	if (bits & 4)
		mask |= ACE_READ_DATA;
	if (bits & 2)
		mask |= ACE_WRITE_DATA | ACE_APPEND_DATA | (dir ? ACE_DELETE_CHILD : 0);
	if (bits & 1)
		mask |= ACE_EXECUTE;
	return (mask);
}

/* The ACL of a mode: exceptions for owner and group first, then owner@, group@, everyone@. */
uint64_t
pw_layout_acl(uint64_t mode, void *out)
{
	ace_t_min *aces = out;
	int dir = S_ISDIR(mode);
	uint64_t u = (mode >> 6) & 7, g = (mode >> 3) & 7, o = mode & 7;
	uint64_t n = 0;
	uint64_t deny_owner = ~u & (g | o) & 7, deny_group = ~g & o & 7, allow_first = u & ~g & o & 7;
	uint32_t always = ACE_READ_ACL | ACE_READ_ATTRIBUTES | ACE_READ_NAMED_ATTRS | ACE_SYNCHRONIZE;
	uint32_t owners = always | ACE_WRITE_ACL | ACE_WRITE_OWNER | ACE_WRITE_ATTRIBUTES | ACE_WRITE_NAMED_ATTRS;

	if (allow_first)
		aces[n++] = (ace_t_min) { ACE_ACCESS_ALLOWED_ACE_TYPE, ACE_OWNER, mask_of(allow_first, dir) };
	if (deny_owner)
		aces[n++] = (ace_t_min) { ACE_ACCESS_DENIED_ACE_TYPE, ACE_OWNER, mask_of(deny_owner, dir) };
	if (deny_group)
		aces[n++] = (ace_t_min) { ACE_ACCESS_DENIED_ACE_TYPE, ACE_GROUP | ACE_IDENTIFIER_GROUP,
		    mask_of(deny_group, dir) };
	aces[n++] = (ace_t_min) { ACE_ACCESS_ALLOWED_ACE_TYPE, ACE_OWNER, mask_of(u, dir) | owners };
	aces[n++] = (ace_t_min) { ACE_ACCESS_ALLOWED_ACE_TYPE, ACE_GROUP | ACE_IDENTIFIER_GROUP, mask_of(g, dir) | always };
	aces[n++] = (ace_t_min) { ACE_ACCESS_ALLOWED_ACE_TYPE, ACE_EVERYONE, mask_of(o, dir) | always };
	return (n);
}

static uint64_t
first_flags(const pw_made_t *made, int with_project)
{
	uint64_t flags = made->flags | ZFS_ARCHIVE | ZFS_AV_MODIFIED | ZFS_ACL_TRIVIAL;
	if (S_ISDIR(made->mode))
		flags |= ZFS_ACL_AUTO_INHERIT;
	if ((made->mode & 0111) == 0111)
		flags |= ZFS_NO_EXECS_DENIED;
	if (with_project)
		flags |= ZFS_PROJID;
	return (flags);
}

int
pw_layout_make(objset_t *os, sa_attr_type_t *attr, const pw_made_t *made, dmu_tx_t *tx)
{
	sa_handle_t *sa;
	sa_bulk_attr_t bulk[ZPL_END];
	int n = 0, dir = S_ISDIR(made->mode);
	char aces[PW_ACES * PW_ACE_BYTES];
	pw_made_t m = *made;
	uint64_t size = dir ? 2 : m.target != NULL ? strlen(m.target) : 0;
	uint64_t links = dir ? 2 : m.unnamed ? 0 : 1, count = pw_layout_acl(m.mode, aces);
	int with_project = (dir || S_ISREG(m.mode)) && dmu_objset_projectquota_enabled(os);
	uint64_t flags = first_flags(made, with_project);

	int error = sa_handle_get(os, m.object, NULL, SA_HDL_PRIVATE, &sa);
	if (error != 0)
		return (error);
	SA_ADD_BULK_ATTR(bulk, n, attr[ZPL_MODE], NULL, &m.mode, 8);
	SA_ADD_BULK_ATTR(bulk, n, attr[ZPL_SIZE], NULL, &size, 8);
	SA_ADD_BULK_ATTR(bulk, n, attr[ZPL_GEN], NULL, &m.gen, 8);
	SA_ADD_BULK_ATTR(bulk, n, attr[ZPL_UID], NULL, &m.uid, 8);
	SA_ADD_BULK_ATTR(bulk, n, attr[ZPL_GID], NULL, &m.gid, 8);
	SA_ADD_BULK_ATTR(bulk, n, attr[ZPL_PARENT], NULL, &m.parent, 8);
	SA_ADD_BULK_ATTR(bulk, n, attr[ZPL_FLAGS], NULL, &flags, 8);
	SA_ADD_BULK_ATTR(bulk, n, attr[ZPL_ATIME], NULL, m.crtime, 16);
	SA_ADD_BULK_ATTR(bulk, n, attr[ZPL_MTIME], NULL, m.crtime, 16);
	SA_ADD_BULK_ATTR(bulk, n, attr[ZPL_CTIME], NULL, m.crtime, 16);
	SA_ADD_BULK_ATTR(bulk, n, attr[ZPL_CRTIME], NULL, m.crtime, 16);
	SA_ADD_BULK_ATTR(bulk, n, attr[ZPL_LINKS], NULL, &links, 8);
	if (with_project)
		SA_ADD_BULK_ATTR(bulk, n, attr[ZPL_PROJID], NULL, &m.projid, 8);
	if (S_ISBLK(m.mode) || S_ISCHR(m.mode))
		SA_ADD_BULK_ATTR(bulk, n, attr[ZPL_RDEV], NULL, &m.rdev, 8);
	SA_ADD_BULK_ATTR(bulk, n, attr[ZPL_DACL_COUNT], NULL, &count, 8);
	SA_ADD_BULK_ATTR(bulk, n, attr[ZPL_DACL_ACES], NULL, aces, (uint16_t)(count * PW_ACE_BYTES));
	error = sa_replace_all_by_template(sa, bulk, n, tx);
	if (error == 0 && m.target != NULL)
		error = sa_update(sa, attr[ZPL_SYMLINK], (void *)m.target, (uint32_t)strlen(m.target), tx);
	sa_handle_destroy(sa);
	return (error);
}

int
pw_layout_format(objset_t *os, dmu_tx_t *tx)
{
	const struct { const char *name; uint64_t value; } fixed[] = {
		{ "normalization", 0 }, { "utf8only", 0 }, { "casesensitivity", 0 }, { ZPL_VERSION_STR, ZPL_VERSION },
	};
	sa_attr_type_t *attr;

	VERIFY0(zap_create_claim(os, MASTER_NODE_OBJ, DMU_OT_MASTER_NODE, DMU_OT_NONE, 0, tx));
	for (size_t i = 0; i < sizeof (fixed) / sizeof (fixed[0]); i++)
		VERIFY0(zap_update(os, MASTER_NODE_OBJ, fixed[i].name, 8, 1, &fixed[i].value, tx));
	uint64_t registry = zap_create(os, DMU_OT_SA_MASTER_NODE, DMU_OT_NONE, 0, tx);
	VERIFY0(zap_add(os, MASTER_NODE_OBJ, ZFS_SA_ATTRS, 8, 1, &registry, tx));
	uint64_t queue = zap_create(os, DMU_OT_UNLINKED_SET, DMU_OT_NONE, 0, tx);
	VERIFY0(zap_add(os, MASTER_NODE_OBJ, ZFS_UNLINKED_SET, 8, 1, &queue, tx));
	int error = sa_setup(os, registry, zfs_attr_table, ZPL_END, &attr);
	if (error != 0)
		return (error);
	uint64_t root = zap_create_norm(os, 0, DMU_OT_DIRECTORY_CONTENTS, DMU_OT_SA, DN_BONUS_SIZE(DNODE_MIN_SIZE), tx);
	pw_made_t made = {
		.object = root, .parent = root, .gen = dmu_tx_get_txg(tx),
		.mode = S_IFDIR | 0755, .uid = getuid(), .gid = getgid(),
	};
	pw_now(made.crtime);
	error = pw_layout_make(os, attr, &made, tx);
	if (error != 0)
		return (error);
	return (zap_add(os, MASTER_NODE_OBJ, ZFS_ROOT_OBJ, 8, 1, &root, tx));
}
