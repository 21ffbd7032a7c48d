/*-------------------------------------------------------------------------
 *
 * attach/table.c
 *	  See attach/table.h.
 *
 * The table is `static const`, hence no symbol leads to it.  In a position
 * independent program it lies in the part that the loader makes read-only
 * after relocation (RELRO), otherwise in .rodata; a server that was patched
 * may have it in .data.  All of these are loaded segments, so all of those
 * are searched.  Addresses are those of the functions themselves, so the
 * sequence identifies the table: nothing else in a program lists the same
 * functions in the same order.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "attach/table.h"

#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef ElfW(Phdr)
Segment;

typedef struct Search
{
	void	   *const *sequence;
	FcTable    *table;
} Search;

/* Protection the loader left on an address of the main program. */
static int
protection_at(const struct dl_phdr_info *info, uintptr_t address, unsigned segment_flags)
{
	for (int i = 0; i < info->dlpi_phnum; i++)
	{
		const Segment *ph = &info->dlpi_phdr[i];
		uintptr_t	begin = info->dlpi_addr + ph->p_vaddr;

		if (ph->p_type == PT_GNU_RELRO && address >= begin && address < begin + ph->p_memsz)
			return PROT_READ;
	}
	return ((segment_flags & PF_R) ? PROT_READ : 0) |
		((segment_flags & PF_W) ? PROT_WRITE : 0) |
		((segment_flags & PF_X) ? PROT_EXEC : 0);
}

/*
 * Reads whole segments, word by word.  In a program that was built with the
 * address sanitizer the gaps between its variables are forbidden ground; they
 * are mapped, hold no table, and are read here all the same.
 */
__attribute__((no_sanitize("address")))
static void
search_segment(const struct dl_phdr_info *info, const Segment *ph, Search *s)
{
	size_t		bytes = s->table->entries * sizeof(void *);
	uintptr_t	at = info->dlpi_addr + ph->p_vaddr;
	uintptr_t	end = at + ph->p_filesz;

	at = (at + sizeof(void *) - 1) & ~(uintptr_t) (sizeof(void *) - 1);
	for (; at + bytes <= end; at += sizeof(void *))
	{
		if (*(void *const *) at != s->sequence[0] ||
			memcmp((const void *) at, s->sequence, bytes) != 0)
			continue;
		s->table->entry = (void **) at;
		s->table->matches++;
		s->table->protection = protection_at(info, at, ph->p_flags);
	}
}

static int
visit(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void) size;
	/* the main program comes first, without a name */
	for (int i = 0; i < info->dlpi_phnum; i++)
	{
		const Segment *ph = &info->dlpi_phdr[i];

		if (ph->p_type == PT_LOAD && (ph->p_flags & PF_R))
			search_segment(info, ph, arg);
	}
	return 1;					/* libraries are not searched */
}

void
fc_table_find(void *const *sequence, size_t n, FcTable *table)
{
	Search		s = {sequence, table};

	memset(table, 0, sizeof(*table));
	table->entries = n;
	dl_iterate_phdr(visit, &s);
}

bool
fc_table_replace(const FcTable *table, void *const *replacement)
{
	uintptr_t	page = (uintptr_t) sysconf(_SC_PAGESIZE);
	uintptr_t	begin = (uintptr_t) table->entry & ~(page - 1);
	uintptr_t	end = (uintptr_t) (table->entry + table->entries);
	size_t		len = ((end + page - 1) & ~(page - 1)) - begin;

	if (mprotect((void *) begin, len, PROT_READ | PROT_WRITE) != 0)
		return false;
	for (size_t i = 0; i < table->entries; i++)
		if (replacement[i] != NULL)
			table->entry[i] = replacement[i];

	/* failing to protect it again would be odd, but harms nothing */
	(void) mprotect((void *) begin, len, table->protection);
	return true;
}
