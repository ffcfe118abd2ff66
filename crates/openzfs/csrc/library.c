/* SPDX-License-Identifier: CDDL-1.0 */
/*
 * The loaded libzpool. Its structures change between releases of 2.3 with the same soname. This code was compiled for
 * one of them; with another, it would write to wrong addresses of an open pool. So the build id that the linker left
 * in the library is compared before the library is used.
 */

#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/zfs_context.h>

#include "engine.h"

typedef struct { uintptr_t inside; char *out; size_t room; } search_t;

static void
print_hex(const unsigned char *bytes, size_t n, char *out, size_t room)
{
	for (size_t i = 0; i < n && 2 * i + 2 < room; i++)
		(void) snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

/* A note is a header, a name and a description, each padded to four bytes. */
static void
read_notes(const char *at, const char *end, const search_t *s)
{
	while (at + sizeof (ElfW(Nhdr)) <= end) {
		const ElfW(Nhdr) *note = (const void *)at;
		const char *name = at + sizeof (*note);
		const char *value = name + P2ROUNDUP((size_t)note->n_namesz, 4);
		at = value + P2ROUNDUP((size_t)note->n_descsz, 4);
		if (at > end)
			return;
		if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && memcmp(name, "GNU", 4) == 0)
			print_hex((const unsigned char *)value, note->n_descsz, s->out, s->room);
	}
}

static int
look_at_object(struct dl_phdr_info *object, size_t size, void *arg)
{
	const search_t *s = arg;
	int found = 0;
	(void) size;
	for (int i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &object->dlpi_phdr[i];
		uintptr_t start = object->dlpi_addr + part->p_vaddr;
		found |= part->p_type == PT_LOAD && s->inside >= start && s->inside - start < part->p_memsz;
	}
	for (int i = 0; found && i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &object->dlpi_phdr[i];
		const char *start = (const char *)(object->dlpi_addr + part->p_vaddr);
		if (part->p_type == PT_NOTE)
			read_notes(start, start + part->p_memsz, s);
	}
	return (found);
}

int
pw_library_build_id(char *out, size_t room)
{
	search_t s = { (uintptr_t)kernel_init, out, room };
	out[0] = '\0';
	(void) dl_iterate_phdr(look_at_object, &s);
	return (strcmp(out, PW_LIBZPOOL_BUILD_ID) == 0 ? 0 : ENOEXEC);
}

const char *
pw_library_built_for(void)
{
	return (PW_LIBZPOOL_BUILD_ID);
}

const char *
pw_library_version(void)
{
	return (PW_OPENZFS_VERSION);
}
